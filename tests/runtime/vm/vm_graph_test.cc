#include "nodewise/vm/vm_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/artefact/artefact.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/dtype.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"
#include "tests/support/vm_builder.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A graph, and the bytes that its parameters borrow.
struct Converted {
  std::string bytes;
  std::unique_ptr<VmLibrary> library;
  VmGraph made;

  const Graph& graph() const { return made.graph; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const GraphNode& node : graph().nodes) names.push_back(node.name);
    return names;
  }
  std::vector<int32_t> storage_ids() const {
    std::vector<int32_t> ids;
    for (const GraphEntry& e : graph().entries) ids.push_back(e.storage_id);
    return ids;
  }
};

std::unique_ptr<Converted> Convert(const VmBuilder& vm,
                                   const std::string& function = "",
                                   const VmBinding& binding = {}) {
  auto converted = std::make_unique<Converted>();
  converted->bytes = vm.Bytes();
  converted->library = VmLibraryOf(converted->bytes, {"relu", "add", "split"});
  auto made = ReadVmGraph(*converted->library, function, binding);
  if (!made.ok()) {
    ADD_FAILURE() << made.status();
    return converted;
  }
  converted->made = *std::move(made);
  return converted;
}

// The outputs of a graph of test kernels for x.
std::vector<NDArray> RunGraph(const Converted& converted,
                              const std::vector<float>& x,
                              std::optional<StoragePlan> plan = {}) {
  GraphExecutor::Options options;
  options.plan = std::move(plan);
  auto executor =
      GraphExecutor::Create(converted.graph(), TestKernels(), options).value();
  EXPECT_THAT(executor->LoadParams(converted.made.params), IsOk());
  EXPECT_THAT(executor->SetInput("x", *Floats(x)), IsOk());
  EXPECT_THAT(executor->Run(), IsOk());
  std::vector<NDArray> outputs;
  for (size_t i = 0; i < executor->NumOutputs(); ++i) {
    outputs.push_back(executor->GetOutput(i)->CopyToHost().value());
  }
  return outputs;
}

constexpr int64_t R(int64_t number) { return number; }

TEST(VmGraphTest, CallsBecomeNodesAndConstantsParameters) {
  const auto c = Convert(ReluThenAdd());
  EXPECT_THAT(c->names(), ElementsAre("x", "relu", "p0", "add"));
  EXPECT_THAT(c->graph().arg_nodes, ElementsAre(0u, 2u));
  EXPECT_EQ(c->graph().nodes[3].function, "add");
  ASSERT_EQ(c->made.params.tensors.size(), 1u);
  EXPECT_EQ(c->made.params.tensors[0].name, "p0");
  EXPECT_THAT(ValuesOf(c->made.params.tensors[0].tensor),
              ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(c->made.notes, IsEmpty());
}

TEST(VmGraphTest, GraphRunsLikeAnyOther) {
  const auto c = Convert(ReluThenAdd());
  const auto outputs = RunGraph(*c, {-1, 2, -3, 4});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_THAT(ValuesOf(outputs[0]), ElementsAre(10, 22, 30, 44));
}

TEST(VmGraphTest, TensorsInOneStorageShareItsId) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Storage(1, 16).Storage(2, 16);
  vm.TensorIn(1, 3, {4}).Call("relu", {R(0), R(3)});
  vm.TensorIn(2, 4, {4}).Call("relu", {R(3), R(4)});
  vm.TensorIn(1, 5, {4}).Call("relu", {R(4), R(5)}).Return(5);
  const auto c = Convert(vm);
  EXPECT_THAT(c->storage_ids(), ElementsAre(0, 1, 2, 1));
}

TEST(VmGraphTest, PlanOfTheCompilerAndPrivateStoragesGiveTheSameBits) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Storage(1, 16).Storage(2, 16);
  vm.TensorIn(1, 3, {4}).Call("relu", {R(0), R(3)});
  vm.TensorIn(2, 4, {4}).Call("add", {R(3), R(3), R(4)});
  vm.TensorIn(1, 5, {4}).Call("add", {R(4), R(0), R(5)}).Return(5);
  const auto c = Convert(vm);
  StoragePlan plan = PlanStorage(c->graph(), kDLCPU).value();
  EXPECT_EQ(plan.slots.size(), 3u);
  for (uint32_t e = 0; e < plan.slot_of.size(); ++e) plan.slot_of[e] = e;
  plan.slots.assign(plan.slot_of.size(), {0, 16, kDLCPU, ""});
  EXPECT_EQ(ValuesOf(RunGraph(*c, {-1, 2, -3, 4})[0]),
            ValuesOf(RunGraph(*c, {-1, 2, -3, 4}, plan)[0]));
}

TEST(VmGraphTest, PartsOfAStorageBecomeStoragesOfTheirOwn) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Storage(1, 32);
  vm.TensorIn(1, 2, {4}).Call("relu", {R(0), R(2)});
  vm.TensorIn(1, 3, {4}, 16).Call("relu", {R(2), R(3)});
  vm.TensorIn(1, 4, {4}).Call("add", {R(3), R(0), R(4)}).Return(4);
  const auto c = Convert(vm);
  EXPECT_THAT(c->storage_ids(), ElementsAre(0, 1, 2, 1));
  EXPECT_THAT(c->made.notes, IsEmpty());
}

TEST(VmGraphTest, PartsThatOverlapAreNoted) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Storage(1, 24);
  vm.TensorIn(1, 2, {4}).Call("relu", {R(0), R(2)});
  vm.TensorIn(1, 3, {4}, 8).Call("relu", {R(0), R(3)}).Return(3);
  const auto c = Convert(vm);
  EXPECT_THAT(c->storage_ids(), ElementsAre(0, 1, 2));
  EXPECT_THAT(c->made.notes, ElementsAre(HasSubstr("overlap")));
}

TEST(VmGraphTest, NamesAreUniqueAndStable) {
  VmBuilder vm;
  vm.Function("main", {"add", "relu"}).Input(0, {4}).Input(1, {4});
  vm.Alloc(2, 3, {4}).Call("relu", {R(0), R(3)});
  vm.Alloc(4, 5, {4}).Call("relu", {R(3), R(5)});
  vm.Alloc(6, 7, {4}).Call("add", {R(5), R(1), R(7)}).Return(7);
  EXPECT_THAT(Convert(vm)->names(),
              ElementsAre("add", "relu", "relu_1", "relu_2", "add_1"));
}

TEST(VmGraphTest, ConstantNamesLeaveOutThoseOfInputs) {
  VmBuilder vm;
  vm.Function("main", {"p0"}).Input(0, {4}).Alloc(1, 2, {4});
  const int64_t bias = vm.Floats({1, 2, 3, 4});
  vm.Call("add", {R(0), bias, R(2)}).Return(2);
  EXPECT_THAT(Convert(vm)->names(), ElementsAre("p0", "p1", "add"));
}

TEST(VmGraphTest, ConstantThatIsUsedTwiceIsOneParameter) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Alloc(1, 2, {4});
  const int64_t bias = vm.Floats({1, 2, 3, 4});
  vm.Call("add", {bias, bias, R(2)}).Return(2);
  const auto c = Convert(vm);
  EXPECT_THAT(c->names(), ElementsAre("x", "p0", "add"));
  EXPECT_EQ(c->made.params.tensors.size(), 1u);
}

TEST(VmGraphTest, ReshapeIsANopThatSharesItsInput) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Alloc(1, 2, {4});
  vm.Call("relu", {R(0), R(2)});
  vm.Call("vm.builtin.reshape", {R(2), vm.Shape({2, 2})}, 3);
  vm.Call("vm.builtin.null_value", {}, 2).Return(3);
  const auto c = Convert(vm);
  EXPECT_THAT(c->names(), ElementsAre("x", "relu", "reshape_nop"));
  EXPECT_EQ(c->graph().nodes[2].function, kNopFunction);
  EXPECT_THAT(c->storage_ids(), ElementsAre(0, 1, 1));
  EXPECT_THAT(c->graph().entries[2].shape, ElementsAre(2, 2));
  const auto outputs = RunGraph(*c, {-1, 2, -3, 4});
  EXPECT_THAT(ValuesOf(outputs[0]), ElementsAre(0, 2, 0, 4));
}

TEST(VmGraphTest, KernelMayWriteSeveralTensors) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Alloc(1, 2, {2}).Alloc(3, 4, {2});
  vm.Call("split", {R(0), R(2), R(4)});
  vm.Call("vm.builtin.make_tuple", {R(2), R(4)}, 5);
  vm.Call("vm.builtin.tuple_getitem", {R(5), vm.I(1)}, 6);
  vm.Call("vm.builtin.make_tuple", {R(6), R(2)}, 7).Return(7);
  const auto c = Convert(vm);
  EXPECT_EQ(c->graph().nodes[1].num_outputs, 2u);
  ASSERT_EQ(c->graph().heads.size(), 2u);
  EXPECT_EQ(c->graph().heads[0].output, 1u);
  EXPECT_EQ(c->graph().heads[1].output, 0u);
}

TEST(VmGraphTest, NumbersOfAKernelAreAnAttributeOfItsNode) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Alloc(1, 2, {4}).Alloc(3, 4, {4});
  vm.Call("relu", {R(0), vm.I(3), vm.Number(256), R(2)});
  vm.Call("vm.builtin.call_tir_dyn",
          {vm.F("add"), R(2), R(2), R(4), vm.Shape({5, 6})});
  vm.Return(4);
  const auto c = Convert(vm);
  ASSERT_THAT(c->names(), ElementsAre("x", "relu", "add"));
  using Attr = std::pair<std::string, std::string>;
  EXPECT_THAT(c->graph().nodes[1].attrs,
              ElementsAre(Attr("call_numbers", "1=3 2=256")));
  EXPECT_THAT(c->graph().nodes[2].attrs,
              ElementsAre(Attr("call_numbers", "3=5 4=6")));
  EXPECT_EQ(c->graph().nodes[2].num_inputs, 2u);
  EXPECT_EQ(c->graph().nodes[2].num_outputs, 1u);
}

TEST(VmGraphTest, HeadsMayBeInputsConstantsAndTwiceTheSame) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Alloc(1, 2, {4});
  vm.Call("relu", {R(0), R(2)});
  const int64_t seven = vm.Floats({7});
  vm.Call("vm.builtin.make_tuple", {R(2), R(0), seven, R(2)}, 3).Return(3);
  const auto outputs = RunGraph(*Convert(vm), {-1, 2, -3, 4});
  ASSERT_EQ(outputs.size(), 4u);
  EXPECT_THAT(ValuesOf(outputs[0]), ElementsAre(0, 2, 0, 4));
  EXPECT_THAT(ValuesOf(outputs[1]), ElementsAre(-1, 2, -3, 4));
  EXPECT_THAT(ValuesOf(outputs[2]), ElementsAre(7));
  EXPECT_THAT(ValuesOf(outputs[3]), ElementsAre(0, 2, 0, 4));
}

TEST(VmGraphTest, NestedTuplesAreReturnedInOrder) {
  VmBuilder vm;
  vm.Function("main", {"x", "y"}).Input(0, {4}).Input(1, {2});
  vm.Call("vm.builtin.make_tuple", {R(0), R(1)}, 2);
  vm.Call("vm.builtin.make_tuple", {R(1), R(2)}, 3).Return(3);
  const auto c = Convert(vm);
  std::vector<uint32_t> nodes;
  for (const EntryRef& head : c->graph().heads) nodes.push_back(head.node);
  EXPECT_THAT(nodes, ElementsAre(1u, 0u, 1u));
}

TEST(VmGraphTest, RegisterWrittenAgainHoldsTheNewValue) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Alloc(1, 2, {4});
  vm.Call("relu", {R(0), R(2)}).Call("vm.builtin.copy", {R(2)}, 0);
  vm.Alloc(1, 2, {4}).Call("add", {R(0), R(0), R(2)}).Return(2);
  EXPECT_THAT(ValuesOf(RunGraph(*Convert(vm), {-1, 2, -3, 4})[0]),
              ElementsAre(0, 4, 0, 8));
}

TEST(VmGraphTest, ScalarNeedsNoMatchOfItsShape) {
  VmBuilder vm;
  vm.Function("main", {"x"});
  vm.Call("vm.builtin.check_tensor_info",
          {R(0), vm.I(0), vm.Type(kFloat32), vm.Text("")});
  vm.Alloc(1, 2, {}).Call("relu", {R(0), R(2)}).Return(2);
  EXPECT_THAT(Convert(vm)->graph().entries[0].shape, IsEmpty());
}

TEST(VmGraphTest, InputTupleBecomesItsItems) {
  VmBuilder vm;
  vm.Function("main", {"x", "w"}).Input(0, {4});
  vm.Call("vm.builtin.check_tuple_info", {R(1), vm.I(2), vm.Text("")});
  vm.Call("vm.builtin.tuple_getitem", {R(1), vm.I(1)}, 2).Input(2, {4});
  vm.Call("vm.builtin.tuple_getitem", {R(1), vm.I(0)}, 3).Input(3, {4});
  vm.Alloc(4, 5, {4}).Call("add", {R(2), R(3), R(5)}).Return(5);
  const auto c = Convert(vm);
  EXPECT_THAT(c->names(), ElementsAre("x", "w[0]", "w[1]", "add"));
  EXPECT_EQ(c->graph().nodes[3].inputs[0].node, 2u);
}

TEST(VmGraphTest, UnusedInputOfUnknownTypeIsLeftOutAndNoted) {
  VmBuilder vm;
  vm.Function("main", {"x", "unused"}).Input(0, {4}).Return(0);
  const auto c = Convert(vm);
  EXPECT_THAT(c->names(), ElementsAre("x"));
  EXPECT_THAT(c->made.notes, ElementsAre(HasSubstr("unused is left out")));
}

TEST(VmGraphTest, BoolIsThatOfTvmFfi) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}, {6, 8, 1}).Storage(1, 4);
  vm.TensorIn(1, 2, {4}, 0, {6, 8, 1}).Call("relu", {R(0), R(2)}).Return(2);
  const auto c = Convert(vm);
  EXPECT_EQ(ToString(c->graph().entries[0].dtype), "bool8");
  EXPECT_EQ(ToString(c->graph().entries[1].dtype), "bool8");
}

// x of (n, 2): stored in the heap, checked, and used for the shape of y.
VmBuilder OpenBatch() {
  VmBuilder vm;
  vm.Function("main", {"x"});
  vm.Call("vm.builtin.alloc_shape_heap", {vm.Vm(), vm.I(1)}, 1);
  vm.Call("vm.builtin.check_tensor_info",
          {R(0), vm.I(2), vm.Type(kFloat32), vm.Text("")});
  vm.Call("vm.builtin.match_shape", {R(0), R(1), vm.I(2), vm.I(1), vm.I(0),
                                     vm.I(0), vm.I(2), vm.Text("")});
  vm.Storage(2, 4096);
  vm.Call("vm.builtin.make_shape",
          {R(1), vm.I(2), vm.I(1), vm.I(0), vm.I(0), vm.I(2)}, 3);
  vm.Call("vm.builtin.alloc_tensor", {R(2), vm.I(0), R(3), vm.Type(kFloat32)},
          4);
  vm.Call("relu", {R(0), R(4)}).Return(4);
  return vm;
}

TEST(VmGraphTest, OpenDimensionIsBoundByTheInputGiven) {
  const auto c = Convert(OpenBatch(), "", {{{"x", {3, 2}, kFloat32}}, {}});
  ASSERT_EQ(c->graph().entries.size(), 2u);
  EXPECT_THAT(c->graph().entries[0].shape, ElementsAre(3, 2));
  EXPECT_THAT(c->graph().entries[1].shape, ElementsAre(3, 2));
}

// x of (n,) through a kernel that computes 4 * n, the bytes of y.
VmBuilder ComputedBytes() {
  VmBuilder vm;
  vm.Function("main", {"x"});
  vm.Call("vm.builtin.alloc_shape_heap", {vm.Vm(), vm.I(2)}, 1);
  vm.Call("vm.builtin.check_tensor_info",
          {R(0), vm.I(1), vm.Type(kFloat32), vm.Text("")});
  vm.Call("vm.builtin.match_shape",
          {R(0), R(1), vm.I(1), vm.I(1), vm.I(0), vm.Text("")});
  vm.Call("split", {R(1)});
  vm.Call("vm.builtin.make_shape", {R(1), vm.I(1), vm.I(1), vm.I(1)}, 2);
  vm.Call("vm.builtin.alloc_storage",
          {vm.Vm(), R(2), vm.I(0), vm.Type({1, 8, 1}), vm.Text("global")}, 3);
  vm.Call("vm.builtin.shape_of", {R(0)}, 4);
  vm.Call("vm.builtin.alloc_tensor", {R(3), vm.I(0), R(4), vm.Type(kFloat32)},
          5);
  vm.Call("relu", {R(0), R(5)}).Return(5);
  return vm;
}

TEST(VmGraphTest, KernelsComputeDimensionsWhereTheyMayRun) {
  VmBinding binding{{{"x", {3}, kFloat32}}, {}};
  binding.compute = [](std::string_view kernel, absl::Span<int64_t> heap) {
    EXPECT_EQ(kernel, "split");
    EXPECT_EQ(heap[0], 3);
    heap[1] = 4 * heap[0];
    return absl::OkStatus();
  };
  const auto c = Convert(ComputedBytes(), "", binding);
  ASSERT_EQ(c->graph().entries.size(), 2u);
  EXPECT_THAT(c->graph().entries[1].shape, ElementsAre(3));
}

TEST(VmGraphTest, DimensionsThatComeOutTooSmallAreNotFollowed) {
  VmBinding binding{{{"x", {3}, kFloat32}}, {}};
  binding.compute = [](std::string_view, absl::Span<int64_t> heap) {
    heap[1] = 8;
    return absl::OkStatus();
  };
  const std::string bytes = ComputedBytes().Bytes();
  const auto library = VmLibraryOf(bytes, {"relu", "split"});
  EXPECT_THAT(
      ReadVmGraph(*library, "", binding),
      FailsWith(StatusCode::kDataLoss, HasSubstr("a tensor of 12 bytes")));
}

TEST(VmGraphTest, DimensionInTheBytecodeGoesBeforeTheInputGiven) {
  const VmBinding binding{{{"x", {9}, kFloat32}}, {}};
  EXPECT_THAT(Convert(ReluThenAdd(), "", binding)->graph().entries[0].shape,
              ElementsAre(4));
}

TEST(VmGraphTest, ShapeOfATensorMayBeUsed) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Storage(1, 16);
  vm.Call("vm.builtin.shape_of", {R(0)}, 2);
  vm.Call("vm.builtin.alloc_tensor", {R(1), vm.I(0), R(2), vm.Type(kFloat32)},
          3);
  vm.Call("relu", {R(0), R(3)}).Return(3);
  EXPECT_THAT(Convert(vm)->graph().entries[1].shape, ElementsAre(4));
}

// --- Several functions
// ---------------------------------------------------------

VmBuilder TwoFunctions(const std::string& first, const std::string& second) {
  VmBuilder vm;
  vm.Function(first, {"x"}).Input(0, {4}).Return(0);
  vm.Function(second, {"x"}).Input(0, {4}).Alloc(1, 2, {4});
  vm.Call("relu", {R(0), R(2)}).Return(2);
  return vm;
}

TEST(VmGraphTest, MainIsTheFunctionUnlessAnotherIsNamed) {
  const VmBuilder vm = TwoFunctions("other", "main");
  EXPECT_EQ(Convert(vm)->graph().nodes.size(), 2u);
  EXPECT_EQ(Convert(vm, "other")->graph().nodes.size(), 1u);
}

TEST(VmGraphTest, OnlyFunctionNeedsNoName) {
  VmBuilder vm;
  vm.Function("net", {"x"}).Input(0, {4}).Return(0);
  EXPECT_EQ(Convert(vm)->graph().nodes.size(), 1u);
}

TEST(VmGraphTest, SeveralFunctionsWithoutMainNeedAChoice) {
  const std::string bytes = TwoFunctions("encode", "decode").Bytes();
  const auto library = VmLibraryOf(bytes, {"relu"});
  EXPECT_THAT(ReadVmGraph(*library, ""),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("encode, decode"),
                              HasSubstr("ArtefactFiles::function"))));
  EXPECT_THAT(ReadVmGraph(*library, "encoed"),
              FailsWith(StatusCode::kNotFound,
                        AllOf(HasSubstr("no function encoed"),
                              HasSubstr("did you mean encode?"))));
}

// --- Whole libraries
// -----------------------------------------------------------

class VmArtefactTest : public testing::TestWithParam<const char*> {};

TEST_P(VmArtefactTest, LibraryRunsAsItStands) {
  const LibraryCopy library(GetParam());
  const auto files = FindArtefact(library.path());
  ASSERT_THAT(files, IsOk());
  auto executor = CreateExecutor(*files, {});
  ASSERT_THAT(executor, IsOk());
  ASSERT_THAT((*executor)->SetInput("x", *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT((*executor)->Run(), IsOk());
  EXPECT_THAT(ValuesOf((*executor)->GetOutput(0).value()),
              ElementsAre(11, 22, 33, 44));
}

TEST_P(VmArtefactTest, VerifyFindsNothing) {
  const auto diagnostics =
      VerifyArtefact({"", LibraryPath(GetParam()), "", GetParam()});
  ASSERT_THAT(diagnostics, IsOk());
  EXPECT_THAT(diagnostics->items(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Eras, VmArtefactTest,
                         testing::Values("vm_classic", "vm_ffi_21", "vm_ffi"),
                         [](const auto& info) { return info.param; });

TEST(VmLibraryTest, DamagedBytecodeIsAFault) {
  const auto diagnostics =
      VerifyArtefact({"", LibraryPath("vm_damaged"), "", "vm_damaged"});
  ASSERT_THAT(diagnostics, IsOk());
  ASSERT_EQ(diagnostics->items().size(), 1u);
  EXPECT_THAT(diagnostics->items()[0].ToString(), HasSubstr("bytecode magic"));
}

TEST(VmLibraryTest, FunctionOfALibraryWithoutBytecodeIsRefused) {
  ArtefactFiles files{"", LibraryPath("factory"), "", "factory.so"};
  files.function = "main";
  EXPECT_THAT(LoadArtefact(files),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("leave out ArtefactFiles::function")));
}

}  // namespace
}  // namespace nodewise
