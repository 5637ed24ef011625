#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "nodewise/ndarray/dtype.h"
#include "nodewise/vm/vm_library.h"
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
using ::testing::StartsWith;

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

absl::StatusOr<VmExecutable> Parse(const std::string& text,
                                   VmEra era = VmEra::kFfi) {
  return ParseVmExecutable(BytesOf(text), "vm.so", 0, era);
}

// From a block of its own size, so that ASan sees a read past the end.
absl::Status StatusOfParsing(const std::string& text) {
  const auto block = std::make_unique<uint8_t[]>(text.size());
  std::copy(text.begin(), text.end(), block.get());
  return ParseVmExecutable({block.get(), text.size()}, "vm.so", 0, VmEra::kFfi)
      .status();
}

TEST(VmExecutableTest, FunctionsHaveTheirNamesAndRanges) {
  VmBuilder vm;
  vm.Function("main", {"x", "y"}).Return(0);
  vm.Call("relu", {});
  const std::string bytes = vm.Bytes();
  const auto executable = Parse(bytes);
  ASSERT_THAT(executable, IsOk());
  EXPECT_EQ(executable->version, "0.14");
  ASSERT_EQ(executable->functions.size(), 2u);
  const VmFunction& main = executable->functions[0];
  EXPECT_EQ(main.kind, VmFunction::Kind::kBytecode);
  EXPECT_EQ(main.name, "main");
  EXPECT_THAT(main.params, ElementsAre("x", "y"));
  EXPECT_EQ(main.num_args, 2);
  EXPECT_EQ(main.first, 0);
  EXPECT_EQ(main.end, 2);
  EXPECT_EQ(executable->functions[1].kind, VmFunction::Kind::kPacked);
  EXPECT_EQ(executable->functions[1].name, "relu");
}

void ExpectOneOfEachConstant(VmEra era) {
  VmBuilder vm(era);
  vm.Floats({1, 2});
  vm.Shape({3, 4});
  vm.Text("text");
  vm.Number(-7);
  vm.Real(2.5);
  vm.Type({2, 16, 1});
  const std::string bytes = vm.Bytes();
  const auto executable = Parse(bytes, era);
  ASSERT_THAT(executable, IsOk());
  const auto& constants = executable->constants;
  ASSERT_EQ(constants.size(), 6u);
  EXPECT_THAT(ValuesOf(std::get<TensorRecord>(constants[0]).ToTensor()),
              ElementsAre(1, 2));
  EXPECT_THAT(std::get<VmShape>(constants[1]).dims, ElementsAre(3, 4));
  EXPECT_EQ(std::get<std::string_view>(constants[2]), "text");
  EXPECT_EQ(std::get<int64_t>(constants[3]), -7);
  EXPECT_EQ(std::get<double>(constants[4]), 2.5);
  EXPECT_EQ(ToString(std::get<DLDataType>(constants[5])), "float16");
}

TEST(VmExecutableTest, EveryKindOfConstantIsRead) {
  ExpectOneOfEachConstant(VmEra::kFfi);
}

TEST(VmExecutableTest, ConstantsBeforeFfiHaveOtherTags) {
  ExpectOneOfEachConstant(VmEra::kClassic);
}

TEST(VmExecutableTest, TagsOfTvm21AreToldByTheTensorMagic) {
  VmBuilder vm;
  vm.Floats({1, 2});
  vm.Shape({3, 4});
  std::string bytes = vm.Bytes();
  // 72 and 71 instead of 70 and 69.
  const size_t tensor = bytes.find(std::string("\x46\0\0\0\x3f\xa1", 6));
  ASSERT_NE(tensor, std::string::npos);
  bytes[tensor] = 72;
  const size_t shape = bytes.find(std::string("\x45\0\0\0\x02", 5));
  ASSERT_NE(shape, std::string::npos);
  bytes[shape] = 71;
  const auto executable = Parse(bytes);
  ASSERT_THAT(executable, IsOk());
  EXPECT_TRUE(std::holds_alternative<TensorRecord>(executable->constants[0]));
  EXPECT_TRUE(std::holds_alternative<VmShape>(executable->constants[1]));
}

TEST(VmExecutableTest, MemoryScopesStandInTheSecondFormOnly) {
  VmBuilder with;
  with.MemoryScope(3, "global.texture");
  const std::string bytes = with.Bytes();
  const auto executable = Parse(bytes);
  ASSERT_THAT(executable, IsOk());
  ASSERT_EQ(executable->memory_scopes.size(), 1u);
  EXPECT_EQ(executable->memory_scopes[0].first, 3);
  EXPECT_EQ(executable->memory_scopes[0].second, "global.texture");
  const std::string without = VmBuilder().WithoutScopes().Bytes();
  EXPECT_THAT(Parse(without)->memory_scopes, IsEmpty());
}

TEST(VmExecutableTest, InstructionsAreDecoded) {
  VmBuilder vm;
  vm.Function("main", {"x"});
  vm.Call("f", {vm.R(0), vm.I(-3), vm.Shape({1}), vm.F("f"), vm.Void()}, 2);
  vm.Return(2);
  const std::string bytes = vm.Bytes();
  const auto executable = Parse(bytes);
  ASSERT_THAT(executable, IsOk());
  const auto call = DecodeVmInstruction(*executable, 0);
  ASSERT_THAT(call, IsOk());
  EXPECT_EQ(call->opcode, VmInstruction::Opcode::kCall);
  EXPECT_EQ(call->target, 2);
  EXPECT_EQ(call->function, 1);
  ASSERT_EQ(call->args.size(), 5u);
  EXPECT_EQ(call->args[1].kind, VmArgument::Kind::kImmediate);
  EXPECT_EQ(call->args[1].value, -3);
  EXPECT_EQ(call->args[2].kind, VmArgument::Kind::kConstant);
  EXPECT_EQ(call->args[3].kind, VmArgument::Kind::kFunction);
  EXPECT_EQ(call->args[4].value, kVmVoidRegister);
  const auto ret = DecodeVmInstruction(*executable, 1);
  ASSERT_THAT(ret, IsOk());
  EXPECT_EQ(ret->opcode, VmInstruction::Opcode::kReturn);
  EXPECT_EQ(ret->target, 2);
}

TEST(VmExecutableTest, EveryCutIsDataLossWithAByte) {
  const std::string bytes = ReluThenAdd().Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_THAT(StatusOfParsing(bytes.substr(0, size)),
                FailsWith(StatusCode::kDataLoss, StartsWith("vm.so: byte ")))
        << size;
  }
  EXPECT_THAT(StatusOfParsing(bytes), IsOk());
}

TEST(VmExecutableTest, TrailingBytesAreRefused) {
  EXPECT_THAT(
      StatusOfParsing(ReluThenAdd().Bytes() + "more"),
      FailsWith(StatusCode::kDataLoss, HasSubstr("4 bytes, expected the end")));
}

TEST(VmExecutableTest, MagicIsChecked) {
  std::string bytes = ReluThenAdd().Bytes();
  bytes[0] = 'x';
  EXPECT_THAT(
      StatusOfParsing(bytes),
      FailsWith(StatusCode::kDataLoss, HasSubstr("byte 0: bytecode magic is")));
}

TEST(VmExecutableTest, FunctionOutsideTheInstructionsIsRefused) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Return(0).Range(0, 2);
  EXPECT_THAT(StatusOfParsing(vm.Bytes()),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("function main has instructions [0, 2), "
                                  "expected a part of its own of the 1")));
}

TEST(VmExecutableTest, FunctionsThatShareInstructionsAreRefused) {
  VmBuilder vm;
  vm.Function("f", {"x"}).Return(0).Return(0);
  vm.Function("g", {"x"}).Range(0, 1);
  EXPECT_THAT(
      StatusOfParsing(vm.Bytes()),
      FailsWith(StatusCode::kDataLoss, HasSubstr("function g has instru")));
}

TEST(VmExecutableTest, ArgumentsWithoutNamesForAllAreRefused) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Return(0).Args(2);
  EXPECT_THAT(StatusOfParsing(vm.Bytes()),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("has 2 arguments, expected one for each of "
                                  "its 1 names")));
}

TEST(VmExecutableTest, FewerRegistersThanArgumentsAreRefused) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Return(0).Registers(0);
  EXPECT_THAT(StatusOfParsing(vm.Bytes()),
              FailsWith(StatusCode::kDataLoss, HasSubstr("has 0 registers")));
}

// What a single instruction with these words is.
absl::Status StatusOfWords(const std::vector<int64_t>& words) {
  VmBuilder vm;
  vm.Function("main", {"x"}).Raw(words).Return(0);
  const std::string bytes = vm.Bytes();
  return DecodeVmInstruction(*Parse(bytes), 0).status();
}

TEST(VmExecutableTest, InstructionsThatCannotBeAreDataLoss) {
  struct Case {
    std::vector<int64_t> words;
    std::string message;
  };
  const Case cases[] = {
      {{}, "it goes on at word 0"},
      {{0}, "opcode is 0"},
      {{5, 0}, "opcode is 5"},
      {{2}, "it goes on at word 1, expected one before word 1"},
      {{1, 0, 9, 0}, "it calls function 9, expected one of the 1"},
      {{1, 0, -1, 0}, "it calls function -1"},
      {{1, 0, 0, 5}, "it has 5 arguments, but 0 words are left"},
      {{1, 0, 0, -1}, "it has -1 arguments"},
      {{1, 0, 0, 1, VmBuilder::Word(4, 0)}, "argument 0 is of kind 4"},
      {{1, 0, 0, 1, VmBuilder::Word(2, 0)}, "argument 0 is constant 0"},
      {{1, 0, 0, 1, VmBuilder::Word(3, 1)}, "argument 0 is function 1"},
      {{1, 0, 0, 1, VmBuilder::Word(3, -1)}, "argument 0 is function -1"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(StatusOfWords(c.words),
                FailsWith(StatusCode::kDataLoss, HasSubstr(c.message)));
  }
}

TEST(VmDTypeTest, SmallFloatsOfClassicLibrariesGetTheirNewNumbers) {
  EXPECT_EQ(VmDType({6, 8, 1}, VmEra::kClassic).code, kDTypeE4M3);
  EXPECT_EQ(VmDType({7, 8, 1}, VmEra::kClassic).code, kDTypeE5M2);
  EXPECT_EQ(VmDType({6, 8, 1}, VmEra::kFfi).code, kDTypeBool);
  EXPECT_EQ(VmDType({7, 8, 1}, VmEra::kFfi).code, 7);
}

TEST(OpenVmLibraryTest, BytecodeOfClassicLibraryIsFound) {
  const auto library = OpenVmLibrary(LibraryPath("vm_classic"));
  ASSERT_THAT(library, IsOk());
  ASSERT_NE(*library, nullptr);
  EXPECT_EQ((*library)->executable.era, VmEra::kClassic);
  EXPECT_TRUE((*library)->HasKernel("tvmgen_default_fused_add"));
  EXPECT_FALSE((*library)->HasKernel("tvmgen_default_fused_mul"));
}

TEST(OpenVmLibraryTest, BytecodeOfFfiLibraryIsFound) {
  const auto library = OpenVmLibrary(LibraryPath("vm_ffi"));
  ASSERT_THAT(library, IsOk());
  ASSERT_NE(*library, nullptr);
  EXPECT_EQ((*library)->executable.era, VmEra::kFfi);
}

TEST(OpenVmLibraryTest, LibraryWithoutBytecodeIsNone) {
  for (const char* name : {"add_llvm", "factory", "truncated"}) {
    const auto library = OpenVmLibrary(LibraryPath(name));
    ASSERT_THAT(library, IsOk());
    EXPECT_EQ(*library, nullptr);
  }
}

TEST(OpenVmLibraryTest, DamagedBytecodeIsLocatedInItsSymbol) {
  EXPECT_THAT(
      OpenVmLibrary(LibraryPath("vm_damaged")),
      FailsWith(StatusCode::kDataLoss,
                AllOf(HasSubstr("vm_damaged.so: __tvm_ffi__library_bin: byte "),
                      HasSubstr("bytecode magic"))));
}

}  // namespace
}  // namespace nodewise
