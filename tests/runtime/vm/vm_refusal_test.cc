// Bytecode that cannot become a graph, and bytecode that cannot be valid.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/ndarray/dtype.h"
#include "nodewise/vm/vm_graph.h"
#include "tests/support/matchers.h"
#include "tests/support/vm_builder.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::Status StatusOf(const VmBuilder& vm) {
  const std::string bytes = vm.Bytes();
  const auto library = VmLibraryOf(bytes, {"relu", "add"});
  return ReadVmGraph(*library, "main").status();
}

// The reasons against a graph of main.
std::vector<std::string> Reasons(const VmBuilder& vm) {
  const std::string bytes = vm.Bytes();
  const auto library = VmLibraryOf(bytes, {"relu", "add", "shape_func"});
  const VmFunction& function = **FindVmFunction(*library, "main");
  DiagnosticList reasons;
  const auto made = ReadVmGraph(*library, function, {}, &reasons);
  EXPECT_THAT(made, IsOk());
  EXPECT_TRUE(!made.ok() || made->graph.nodes.empty());
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : reasons.items()) {
    lines.push_back(diagnostic.ToString());
  }
  return lines;
}

constexpr int64_t Register(int64_t number) { return number; }

// main(x) with x of float32 (4,) in register 0 and a tensor in register 2.
VmBuilder Begin() {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Alloc(1, 2, {4});
  return vm;
}

TEST(VmRefusalTest, AllReasonsAreSaidAtOnceWithTheirPlaces) {
  VmBuilder vm = Begin();
  vm.Call("relax.run.unique", {Register(0)}, 3);
  vm.Call("vm.builtin.invoke_closure", {Register(0)}, 4);
  vm.If(0, 2).Goto(1).Return(2);
  EXPECT_THAT(
      Reasons(vm),
      ElementsAre("vm.so: function main: instruction 4: a call of "
                  "relax.run.unique, which is not a kernel of the library",
                  HasSubstr("instruction 5: a call of "
                            "vm.builtin.invoke_closure (functions as values)"),
                  HasSubstr("instruction 6: a branch on a value"),
                  HasSubstr("instruction 7: a jump")));
  EXPECT_THAT(StatusOf(vm), FailsWith(StatusCode::kUnimplemented,
                                      AllOf(HasSubstr("for 4 reasons"),
                                            HasSubstr("relax.run.unique"),
                                            HasSubstr("instruction 7"))));
}

TEST(VmRefusalTest, CompiledFunctionIsRefused) {
  VmBuilder vm;
  vm.Compiled("main");
  EXPECT_THAT(Reasons(vm), ElementsAre(AllOf(HasSubstr("function main: "),
                                             HasSubstr("has no bytecode"))));
}

TEST(VmRefusalTest, WhatDependsOnARefusedValueIsNotRefusedAgain) {
  VmBuilder vm = Begin();
  vm.Call("my.function", {Register(0)}, 3)
      .Call("add", {Register(0), Register(3), Register(2)});
  vm.Call("vm.builtin.reshape", {Register(3), vm.Shape({2, 2})}, 4).Return(4);
  EXPECT_THAT(Reasons(vm), ElementsAre(HasSubstr("my.function")));
}

TEST(VmRefusalTest, CallOfAnotherVmFunctionIsRefused) {
  VmBuilder vm = Begin();
  vm.Call("helper", {Register(0)}, 3).Return(3);
  vm.Function("helper", {"x"}).Return(0);
  EXPECT_THAT(Reasons(vm), ElementsAre(HasSubstr("the VM function helper")));
}

TEST(VmRefusalTest, KernelWithoutANewTensorWorksInPlace) {
  VmBuilder vm = Begin();
  vm.Call("relu", {Register(0)}).Return(0);
  EXPECT_THAT(Reasons(vm),
              ElementsAre(AllOf(HasSubstr("relu without a new tensor"),
                                HasSubstr("in place"))));
}

TEST(VmRefusalTest, ArgumentsThatAreNotTensorsAreNamed) {
  VmBuilder vm = Begin();
  vm.Call("vm.builtin.null_value", {}, 3);
  vm.Call("add", {vm.Real(7), vm.Text("t"), Register(3), vm.Shape({1}),
                  vm.F("add"), Register(1), vm.Vm(), Register(2)});
  vm.Return(2);
  EXPECT_THAT(
      Reasons(vm),
      ElementsAre(HasSubstr("argument 0 of add, which is constant"),
                  HasSubstr("argument 1 of add, which is constant"),
                  HasSubstr("argument 2 of add, which is None"),
                  HasSubstr("argument 3 of add, which is constant"),
                  HasSubstr("argument 4 of add, which is a function"),
                  HasSubstr("argument 5 of add, which is a storage"),
                  HasSubstr("argument 6 of add, which is the VM itself")));
}

TEST(VmRefusalTest, TensorThatNothingWroteCannotBeRead) {
  VmBuilder vm = Begin();
  vm.Call("add", {Register(2), Register(0)}).Return(2);
  EXPECT_THAT(Reasons(vm),
              ElementsAre(HasSubstr("argument 0 of add, which is a tensor that "
                                    "nothing has written"),
                          HasSubstr("a result that nothing has written")));
}

TEST(VmRefusalTest, ResultsThatAreNotTensorsAreNamed) {
  VmBuilder vm = Begin();
  vm.Call("vm.builtin.make_tuple", {vm.Shape({1}), vm.I(3)}, 3).Return(3);
  EXPECT_THAT(Reasons(vm),
              ElementsAre(HasSubstr("a result that is constant"),
                          HasSubstr("a result that is the number 3")));
}

TEST(VmRefusalTest, TuplesThatHoldThemselvesOverAndOverEnd) {
  VmBuilder vm = Begin();
  vm.Call("vm.builtin.make_tuple", {}, 3);
  for (int i = 0; i < 60; ++i) {
    vm.Call("vm.builtin.make_tuple", {Register(3), Register(3)}, 3);
  }
  vm.Return(3);
  EXPECT_THAT(Reasons(vm), ElementsAre(HasSubstr("more than 65536 results")));
}

TEST(VmRefusalTest, InputsThatAreNotTensorsAreNamed) {
  VmBuilder vm;
  vm.Function("main", {"s", "n"});
  vm.Call("vm.builtin.check_shape_info", {Register(0), vm.I(2), vm.Text("")});
  vm.Call("vm.builtin.check_prim_value_info",
          {Register(1), vm.Type(kInt64), vm.Text("")});
  vm.Return(0);
  EXPECT_THAT(Reasons(vm),
              ElementsAre(HasSubstr("input s, which is a shape"),
                          HasSubstr("input n, which is a number"),
                          HasSubstr("input s, whose shape is not in the")));
}

TEST(VmRefusalTest, OpenDimensionIsNamed) {
  VmBuilder vm;
  vm.Function("main", {"x"});
  vm.Call("vm.builtin.alloc_shape_heap", {vm.Vm(), vm.I(1)}, 1);
  vm.Call("vm.builtin.check_tensor_info",
          {Register(0), vm.I(2), vm.Type(kFloat32), vm.Text("")});
  vm.Call("vm.builtin.match_shape", {Register(0), Register(1), vm.I(2), vm.I(1),
                                     vm.I(0), vm.I(0), vm.I(2), vm.Text("")});
  vm.Return(0);
  EXPECT_THAT(Reasons(vm),
              ElementsAre("vm.so: function main: instruction 2: input x, whose "
                          "dimension 0 is known at run time only (give the "
                          "input)"));
}

TEST(VmRefusalTest, CompiledShapeCodeIsRefused) {
  VmBuilder vm = Begin();
  vm.Call("vm.builtin.alloc_shape_heap", {vm.Vm(), vm.I(1)}, 3);
  vm.Call("shape_func", {Register(3)}).Return(0);
  EXPECT_THAT(Reasons(vm),
              ElementsAre(HasSubstr("a call of shape_func, which computes "
                                    "dimensions")));
}

TEST(VmRefusalTest, MemoryThatIsNotTheUsualIsRefused) {
  VmBuilder vm = Begin();
  const int64_t bytes = vm.Shape({16});
  const int64_t type = vm.Type({1, 8, 1});
  vm.Call("vm.builtin.alloc_storage",
          {vm.Vm(), bytes, vm.I(0), type, vm.Text("global.vtcm")}, 3);
  vm.Call("vm.builtin.alloc_storage",
          {vm.Vm(), bytes, vm.I(2), type, vm.Text("global")}, 4);
  const int64_t constant = vm.Floats({1, 2, 3, 4});
  vm.MemoryScope(constant & 0xff, "texture");
  vm.Call("add", {Register(0), constant, Register(2)}).Return(2);
  EXPECT_THAT(Reasons(vm),
              ElementsAre(HasSubstr("a storage in memory \"global.vtcm\""),
                          HasSubstr("a storage on device 2"),
                          HasSubstr("in memory \"texture\"")));
}

TEST(VmRefusalTest, PartOfATensorIsNotAReshape) {
  VmBuilder vm = Begin();
  vm.Call("vm.builtin.reshape", {Register(0), vm.Shape({2})}, 3).Return(3);
  EXPECT_THAT(Reasons(vm), ElementsAre(HasSubstr("a part of a tensor")));
}

// --- Bytecode that cannot be true
// ----------------------------------------------

// Begin() with one call more, then a return of the input.
absl::Status StatusOfCall(const std::string& function,
                          const std::vector<int64_t>& args,
                          VmBuilder vm = Begin(), int64_t result = 9) {
  vm.Call(function, args, result).Return(0);
  return StatusOf(vm);
}

TEST(VmLieTest, PlaceIsTheFunctionAndItsInstruction) {
  EXPECT_THAT(StatusOfCall("relu", {Register(9)}),
              FailsWith(StatusCode::kDataLoss,
                        "vm.so: function main: instruction 4: register 9, "
                        "which was never written, expected one that was"));
}

TEST(VmLieTest, RegistersMustBeThere) {
  EXPECT_THAT(StatusOfCall("relu", {Register(64)}),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("register 64, expected one of the 64")));
  EXPECT_THAT(StatusOfCall("relu", {VmBuilder::R(-1)}),
              FailsWith(StatusCode::kDataLoss, HasSubstr("register -1")));
  EXPECT_THAT(
      StatusOfCall("vm.builtin.copy", {Register(0)}, Begin(), 64),
      FailsWith(StatusCode::kDataLoss, HasSubstr("a result for register 64")));
}

TEST(VmLieTest, ArgumentsOfTheRuntimeAreCounted) {
  EXPECT_THAT(StatusOfCall("vm.builtin.reshape", {Register(0)}),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("1 arguments for vm.builtin.reshape, "
                                  "expected 2")));
  EXPECT_THAT(StatusOfCall("vm.builtin.null_value", {Register(0)}),
              FailsWith(StatusCode::kDataLoss, HasSubstr("expected 0")));
  EXPECT_THAT(
      StatusOfCall("vm.builtin.match_shape", {Register(0), VmBuilder::Void(),
                                              VmBuilder::I(9), Register(0)}),
      FailsWith(StatusCode::kDataLoss, HasSubstr("for a rank of 9")));
}

TEST(VmLieTest, ArgumentsOfTheRuntimeHaveTheirKinds) {
  VmBuilder vm = Begin();
  const int64_t text = vm.Text("text");
  EXPECT_THAT(StatusOfCall("vm.builtin.reshape", {Register(0), text}, vm),
              FailsWith(StatusCode::kDataLoss, HasSubstr("a shape")));
  EXPECT_THAT(StatusOfCall("vm.builtin.reshape", {Register(1), text}, vm),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("which is a storage, expected a tensor")));
  EXPECT_THAT(
      StatusOfCall("vm.builtin.tuple_getitem", {Register(2), vm.I(0)}, vm),
      FailsWith(StatusCode::kDataLoss, HasSubstr("expected a tuple")));
  EXPECT_THAT(
      StatusOfCall("vm.builtin.alloc_tensor",
                   {Register(0), vm.I(0), text, text}, vm),
      FailsWith(StatusCode::kDataLoss, HasSubstr("expected a storage")));
  EXPECT_THAT(StatusOfCall("vm.builtin.alloc_tensor",
                           {Register(1), vm.I(0), text, text}, vm),
              FailsWith(StatusCode::kDataLoss, HasSubstr("expected a type")));
}

TEST(VmLieTest, TensorMustFitItsStorage) {
  struct Case {
    std::vector<int64_t> shape;
    int64_t offset;
  };
  for (const Case& c : {Case{{5}, 0}, Case{{4}, 4}, Case{{4}, -4},
                        Case{{1}, int64_t{1} << 54}}) {
    VmBuilder vm = Begin();
    vm.TensorIn(1, 3, c.shape, c.offset).Return(0);
    EXPECT_THAT(StatusOf(vm),
                FailsWith(StatusCode::kDataLoss,
                          HasSubstr("at most the 16 bytes of the storage")));
  }
}

TEST(VmLieTest, ShapesMustBeThoseOfTensors) {
  VmBuilder vm = Begin();
  vm.TensorIn(1, 3, {-1}).Return(0);
  EXPECT_THAT(StatusOf(vm),
              FailsWith(StatusCode::kDataLoss, HasSubstr("negative")));
  VmBuilder large = Begin();
  large.Storage(3, int64_t{1} << 62).TensorIn(3, 4, {1ll << 40, 1ll << 40});
  EXPECT_THAT(StatusOf(large.Return(0)),
              FailsWith(StatusCode::kDataLoss, HasSubstr("memory can hold")));
  VmBuilder deep = Begin();
  deep.TensorIn(1, 3, VmBuilder::Dims(33, 1)).Return(0);
  EXPECT_THAT(StatusOf(deep),
              FailsWith(StatusCode::kDataLoss, HasSubstr("33 dimensions")));
}

TEST(VmLieTest, ReshapeMayNotGrow) {
  VmBuilder vm = Begin();
  const int64_t shape = vm.Shape({5});
  EXPECT_THAT(StatusOfCall("vm.builtin.reshape", {Register(0), shape}, vm),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("(5,) for a tensor of shape (4,)")));
}

TEST(VmLieTest, ChecksMustHoldForTensorsOfTheFunction) {
  VmBuilder other_shape = Begin();
  other_shape.Input(2, {5}).Return(0);
  EXPECT_THAT(StatusOf(other_shape),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("a check for dimension 5, expected 4")));
  VmBuilder other_type = Begin();
  other_type.Input(2, {4}, {0, 8, 1}).Return(0);
  EXPECT_THAT(StatusOf(other_type),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("a check for int8, expected float32")));
}

TEST(VmLieTest, TupleItemsMustBeThere) {
  VmBuilder vm = Begin();
  vm.Call("vm.builtin.make_tuple", {Register(0)}, 3);
  EXPECT_THAT(
      StatusOfCall("vm.builtin.tuple_getitem", {Register(3), vm.I(1)}, vm),
      FailsWith(StatusCode::kDataLoss,
                HasSubstr("item 1 of a tuple, expected one of its 1")));
  EXPECT_THAT(
      StatusOfCall("vm.builtin.tuple_getitem", {Register(3), vm.I(-1)}, vm),
      FailsWith(StatusCode::kDataLoss, HasSubstr("item -1")));
}

TEST(VmLieTest, HeapPlacesMustBeThere) {
  VmBuilder vm = Begin();
  vm.Call("vm.builtin.alloc_shape_heap", {vm.Vm(), vm.I(2)}, 3);
  EXPECT_THAT(
      StatusOfCall("vm.builtin.make_prim_value",
                   {Register(3), vm.I(1), vm.I(2)}, vm),
      FailsWith(StatusCode::kDataLoss,
                HasSubstr("place 2 of the heap, expected one of the 2")));
  EXPECT_THAT(StatusOfCall("vm.builtin.make_prim_value",
                           {vm.Void(), vm.I(1), vm.I(0)}, vm),
              FailsWith(StatusCode::kDataLoss, HasSubstr("one of the 0")));
}

TEST(VmLieTest, FunctionMustReturn) {
  EXPECT_THAT(StatusOf(Begin()),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("the last instruction, expected one that "
                                  "returns")));
}

TEST(VmLieTest, WordsThatAreNotAnInstructionAreLocated) {
  VmBuilder vm = Begin();
  vm.Raw({9}).Return(0);
  EXPECT_THAT(StatusOf(vm),
              FailsWith(StatusCode::kDataLoss,
                        StartsWith("vm.so: function main: instruction 4: "
                                   "opcode is 9")));
}

}  // namespace
}  // namespace nodewise
