#include "nodewise/tensors/tensor_file.h"

#include <filesystem>

#include "tests/contrib/tensors/numpy_bytes.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using testing::ElementsAre;

NDArray Counting(std::vector<int64_t> shape, DLDataType dtype) {
  const NDArray tensor = NDArray::Empty(shape, dtype, kCpu).value();
  for (size_t i = 0; i < tensor.bytes(); ++i) {
    tensor.As<uint8_t>()[i] = static_cast<uint8_t>(i);
  }
  return tensor;
}

void ExpectEqual(const NDArray& a, const NDArray& b) {
  EXPECT_EQ(TypeToString(a.shape(), a.dtype()),
            TypeToString(b.shape(), b.dtype()));
  EXPECT_EQ(DataOf(a), DataOf(b));
}

constexpr DLDataType kKeptByNumpy[] = {
    kBool,
    {kDLInt, 8, 1},
    {kDLInt, 16, 1},
    {kDLInt, 32, 1},
    {kDLInt, 64, 1},
    {kDLUInt, 8, 1},
    {kDLUInt, 16, 1},
    {kDLUInt, 32, 1},
    {kDLUInt, 64, 1},
    {kDLFloat, 16, 1},
    {kDLFloat, 32, 1},
    {kDLFloat, 64, 1},
    {kDLBfloat, 16, 1},
    {kDLComplex, 64, 1},
    {kDLComplex, 128, 1},
};

class FormatTest : public testing::TestWithParam<const char*> {};

TEST_P(FormatTest, EveryTypeComesBack) {
  for (const DLDataType dtype : kKeptByNumpy) {
    const std::string path = TestPath("x") + GetParam();
    const NDArray tensor = Counting({2, 3}, dtype);
    ASSERT_TRUE(WriteTensorFile(path, {{"x", tensor}}).ok());
    const auto read = ReadTensorFile(path);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->size(), 1u);
    ExpectEqual(read->at(0).tensor, tensor);
  }
}

TEST_P(FormatTest, EveryShapeComesBack) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {}, {0}, {3}, {2, 0, 4}, {1, 2, 3, 4, 5}}) {
    const std::string path = TestPath("x") + GetParam();
    const NDArray tensor = Counting(shape, kFloat32);
    ASSERT_TRUE(WriteTensorFile(path, {{"x", tensor}}).ok());
    const auto read = ReadTensorFile(path);
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectEqual(read->at(0).tensor, tensor);
  }
}

TEST_P(FormatTest, StridedTensorIsWrittenCompact) {
  const std::string path = TestPath("x") + GetParam();
  const NDArray base = Counting({2, 3}, {kDLUInt, 8, 1});
  int64_t shape[] = {3, 2};
  int64_t strides[] = {1, 3};
  DLTensor turned = *base;
  turned.shape = shape;
  turned.strides = strides;
  const NDArray tensor = NDArray::Borrow(turned, nullptr);
  ASSERT_TRUE(WriteTensorFile(path, {{"x", tensor}}).ok());
  const auto read = ReadTensorFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(DataOf(read->at(0).tensor), std::string("\0\3\1\4\2\5", 6));
}

TEST_P(FormatTest, FormatIsToldFromTheContent) {
  const std::string path = TestPath("x") + GetParam();
  const std::string renamed = TestPath("renamed.bin");
  ASSERT_TRUE(WriteTensorFile(path, {{"x", Counting({3}, kInt64)}}).ok());
  std::filesystem::rename(path, renamed);
  const auto read = ReadTensorFile(renamed);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->at(0).tensor.shape(), ElementsAre(3));
}

TEST_P(FormatTest, SameTensorsMakeTheSameBytes) {
  const std::string first = TestPath("a") + GetParam();
  const std::string second = TestPath("b") + GetParam();
  const NDArray tensor = Counting({3}, kFloat32);
  ASSERT_TRUE(WriteTensorFile(first, {{"x", tensor}}).ok());
  ASSERT_TRUE(WriteTensorFile(second, {{"x", tensor}}).ok());
  EXPECT_EQ(FileBytes(first), FileBytes(second));
}

TEST_P(FormatTest, UndefinedTensorIsInvalid) {
  const std::string path = TestPath("x") + GetParam();
  EXPECT_THAT(WriteTensorFile(path, {{"x", NDArray()}}),
              FailsNaming(StatusCode::kInvalidArgument,
                          path + ": tensor x is undefined"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_P(FormatTest, EmptyFileIsDataLoss) {
  const std::string path = TestPath("x") + GetParam();
  std::ofstream(path).flush();
  EXPECT_THAT(ReadTensorFile(path), FailsNaming(StatusCode::kDataLoss, path));
}

TEST_P(FormatTest, FolderThatIsNotThereIsNotFound) {
  const std::string path = TestPath("none/x") + GetParam();
  EXPECT_THAT(WriteTensorFile(path, {{"x", Counting({}, kInt64)}}),
              FailsNaming(StatusCode::kNotFound, path));
  EXPECT_THAT(ReadTensorFile(path), FailsNaming(StatusCode::kNotFound, path));
}

INSTANTIATE_TEST_SUITE_P(All, FormatTest,
                         testing::Values(".npy", ".npz", ".params"),
                         [](const auto& info) {
                           return std::string(info.param + 1);
                         });

TEST(TensorFileTest, ArrayIsNamedAfterItsFile) {
  const std::string path = TestPath("some.name.npy");
  ASSERT_TRUE(WriteTensorFile(path, {{"other", Counting({}, kInt64)}}).ok());
  const auto read = ReadTensorFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->at(0).name, "nodewise_ArrayIsNamedAfterItsFile_some.name");
}

TEST(TensorFileTest, ArchiveKeepsNamesAndOrder) {
  const std::string path = TestPath("x.npz");
  const NDArray tensor = Counting({2}, kFloat32);
  ASSERT_TRUE(WriteTensorFile(path, {{"z", tensor},
                                     {"stem/conv:0", tensor},
                                     {"a.npy", tensor},
                                     {"", tensor}})
                  .ok());
  const auto read = ReadTensorFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  std::vector<std::string> names;
  for (const NamedTensor& entry : *read) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("z", "stem/conv:0", "a.npy", ""));
}

TEST(TensorFileTest, FourBitIntegersBecomeBytes) {
  const std::string path = TestPath("x.npz");
  const auto status =
      WriteTensorFile(path, {{"s", Counting({3}, {kDLInt, 4, 1})},
                             {"u", Counting({3}, {kDLUInt, 4, 1})}});
  ASSERT_TRUE(status.ok()) << status;
  const auto read = ReadTensorFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToString(read->at(0).tensor.dtype()), "int8");
  EXPECT_EQ(ToString(read->at(1).tensor.dtype()), "uint8");
}

TEST(TensorFileTest, BoolOfTodaysTvmIsNumpysBool) {
  const std::string path = TestPath("x.npy");
  const NDArray bools = Counting({2}, kFfiBool);
  ASSERT_TRUE(WriteTensorFile(path, {{"x", bools}}).ok());
  const auto read = ReadTensorFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToString(read->at(0).tensor.dtype()), "bool");
}

TEST(TensorFileTest, EightBitFloatsAreWrittenAndNotGuessedBack) {
  for (const uint8_t code : {kDTypeE4M3, kDTypeE5M2}) {
    const std::string path = TestPath("x.npy");
    const NDArray tensor = Counting({3}, {code, 8, 1});
    ASSERT_TRUE(WriteTensorFile(path, {{"x", tensor}}).ok());
    EXPECT_THAT(ReadTensorFile(path),
                FailsNaming(StatusCode::kUnimplemented, "type '|V1'"));
  }
}

TEST(TensorFileTest, HandlesAreRefusedBeforeAnythingIsWritten) {
  const std::string path = TestPath("x.npz");
  EXPECT_THAT(
      WriteTensorFile(path, {{"x", Counting({1}, {kDLOpaqueHandle, 64, 1})}}),
      FailsNaming(StatusCode::kUnimplemented,
                  path + ": tensor x: type handle is none that numpy has"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TensorFileTest, OtherExtensionsAreInvalid) {
  for (const char* name : {"x.txt", "x", "x.NPY", ".npy"}) {
    const std::string path = testing::TempDir() + name;
    EXPECT_THAT(WriteTensorFile(path, {{"x", Counting({1}, kInt64)}}),
                FailsNaming(StatusCode::kInvalidArgument,
                            "expected .npy, .npz, .params or .pb"));
  }
}

TEST(TensorFileTest, OtherContentUnderAnotherExtensionIsInvalid) {
  const std::string path = TestPath("x.txt");
  std::ofstream(path) << "hello";
  EXPECT_THAT(ReadTensorFile(path),
              FailsNaming(StatusCode::kInvalidArgument,
                          "expected .npy, .npz, .params or .pb"));
}

TEST(TensorFileTest, ArrayFileHoldsExactlyOneTensor) {
  const NDArray tensor = Counting({1}, kInt64);
  const std::string path = TestPath("x.npy");
  EXPECT_THAT(WriteTensorFile(path, {}),
              FailsNaming(StatusCode::kInvalidArgument,
                          "0 tensors for a .npy file, expected 1"));
  EXPECT_THAT(WriteTensorFile(path, {{"a", tensor}, {"b", tensor}}),
              FailsNaming(StatusCode::kInvalidArgument, "2 tensors"));
}

TEST(TensorFileTest, NamesThatNoArchiveHoldsAreInvalid) {
  const NDArray tensor = Counting({1}, kInt64);
  const std::string path = TestPath("x.npz");
  EXPECT_THAT(
      WriteTensorFile(path, {{"a", tensor}, {"a", tensor}}),
      FailsNaming(StatusCode::kInvalidArgument, "tensor a comes twice"));
  EXPECT_THAT(WriteTensorFile(path, {{std::string(65532, 'a'), tensor}}),
              FailsNaming(StatusCode::kInvalidArgument, "has 65536 bytes"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace nodewise
