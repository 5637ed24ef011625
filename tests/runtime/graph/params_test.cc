#include "nodewise/graph/params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Where the fields of a list stand.
constexpr size_t kReserved = 8;
constexpr size_t kNameCount = 16;
constexpr size_t kNameLength = 24;

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

absl::StatusOr<Params> Parse(const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  return ParseParams(BytesOf(*owner), "p.params", owner);
}

std::string Serialized(const std::vector<NamedTensor>& tensors) {
  return SerializeParams(tensors).value();
}

template <typename T>
std::string Patched(std::string bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
  return bytes;
}

// An empty folder of this test's own.
std::filesystem::path Folder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(testing::TempDir()) / test->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(ParamsTest, EveryTypeComesBackBitForBit) {
  for (const char* name :
       {"float16",     "float32",     "float64",   "bfloat16", "int4",
        "int8",        "int16",       "int32",     "int64",    "uint4",
        "uint8",       "uint16",      "uint32",    "uint64",   "bool",
        "e4m3_float8", "e5m2_float8", "complex64", "handle",   "float32x4",
        "bool8",       "int8x3",      "boolx9",    "uint4x2"}) {
    const DLDataType dtype = ParseDType(name).value();
    std::vector<uint8_t> data(6 * ElementBytes(dtype));
    for (size_t i = 0; i < data.size(); ++i) data[i] = uint8_t(37 * i + 1);
    const std::string bytes =
        Serialized({{name, MakeTensor<uint8_t>({2, 3}, data, dtype)}});
    const auto params = Parse(bytes);
    ASSERT_THAT(params, IsOk()) << name;
    const NDArray& tensor = params->tensors[0].tensor;
    EXPECT_EQ(TypeToString(tensor.shape(), tensor.dtype()),
              std::string(name) + " (2, 3)");
    EXPECT_EQ(ValuesOf<uint8_t>(tensor), data) << name;
  }
}

// TV-21.
TEST(ParamsTest, BytesAreThoseOfTvm) {
  const std::string bytes = Serialized({{"w", MakeTensor<int8_t>({}, {3})}});
  const std::string expected(
      "\xB7\x9C\x04\x05\x4F\x8D\xE5\xF7"  // magic
      "\0\0\0\0\0\0\0\0"                  // reserved
      "\1\0\0\0\0\0\0\0"                  // names
      "\1\0\0\0\0\0\0\0w"                 // length, name
      "\1\0\0\0\0\0\0\0",                 // tensors
      41);
  EXPECT_EQ(bytes.substr(0, 41), expected);
  EXPECT_EQ(bytes.size(), 41 + 41u);
  EXPECT_TRUE(LooksLikeParams(BytesOf(bytes)));
  EXPECT_FALSE(LooksLikeParams(BytesOf(bytes.substr(0, 7))));
}

TEST(ParamsTest, EmptyListScalarAndEmptyTensorComeBack) {
  EXPECT_THAT(Parse(Serialized({}))->tensors, IsEmpty());
  const std::string bytes = Serialized({{"scalar", MakeTensor<float>({}, {2})},
                                        {"none", MakeTensor<float>({0}, {})}});
  const auto params = Parse(bytes);
  ASSERT_THAT(params, IsOk());
  EXPECT_THAT(params->tensors[0].tensor.shape(), IsEmpty());
  EXPECT_THAT(params->tensors[1].tensor.shape(), ElementsAre(0));
}

TEST(ParamsTest, NamesMayHoldAnyBytes) {
  const std::vector<std::string> names = {"",
                                          "a b",
                                          "ünï",
                                          std::string("nul\0in", 6),
                                          "\xFF\xFE",
                                          "a/../b\n\"",
                                          std::string(70000, 'n')};
  std::vector<NamedTensor> tensors;
  for (const auto& name : names) tensors.push_back({name, Floats({1})});
  const std::string bytes = Serialized(tensors);
  const auto params = Parse(bytes);
  ASSERT_THAT(params, IsOk());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(params->tensors[i].name, names[i]);
  }
  EXPECT_EQ(ParseParamNames(BytesOf(bytes), "p").value(), names);
}

TEST(ParamsTest, LastOfTheTensorsWithOneNameWins) {
  const std::string bytes =
      Serialized({{"w", Floats({1})}, {"v", Floats({2})}, {"w", Floats({3})}});
  const auto params = Parse(bytes);
  ASSERT_THAT(params, IsOk());
  EXPECT_EQ(params->tensors.size(), 3u);
  EXPECT_THAT(ValuesOf(*params->Find("w")), ElementsAre(3));
  EXPECT_EQ(params->Find("x"), nullptr);
}

TEST(ParamsTest, StridedTensorIsWrittenRowByRow) {
  NDArray tensor = MakeTensor<float>({2, 2}, {1, 2, 3, 4});
  DLTensor turned = *tensor;
  int64_t strides[] = {1, 2};
  turned.strides = strides;
  const std::string bytes =
      Serialized({{"w", NDArray::Borrow(turned, nullptr)}});
  EXPECT_THAT(ValuesOf(Parse(bytes)->tensors[0].tensor),
              ElementsAre(1, 3, 2, 4));
}

TEST(ParamsTest, TrailingBytesAreCounted) {
  const std::string bytes = Serialized({{"w", Floats({1})}});
  EXPECT_EQ(Parse(bytes)->trailing_bytes, 0u);
  EXPECT_EQ(Parse(bytes + "more")->trailing_bytes, 4u);
}

TEST(ParamsTest, OwnerLivesAsLongAsATensor) {
  auto bytes = std::make_shared<std::string>(Serialized({{"w", Floats({7})}}));
  const std::weak_ptr<std::string> watch = bytes;
  const auto span = BytesOf(*bytes);
  auto params = ParseParams(span, "p", std::move(bytes));
  NDArray kept = params->tensors[0].tensor;
  params = Params();
  EXPECT_THAT(ValuesOf(kept), ElementsAre(7));
  kept = NDArray();
  EXPECT_TRUE(watch.expired());
}

TEST(ParamsTest, NamesAreReadWithoutTheTensors) {
  const std::string bytes =
      Serialized({{"a", Floats({1})}, {"b", Floats({2})}});
  const std::string names = bytes.substr(0, kNameLength + 2 * 9);
  EXPECT_THAT(ParseParamNames(BytesOf(names), "p").value(),
              ElementsAre("a", "b"));
  EXPECT_THAT(Parse(names), FailsWith(StatusCode::kDataLoss,
                                      HasSubstr("tensor count needs 8 bytes")));
}

TEST(BadParamsTest, CutAtEveryByteIsDataLossThatSaysWhere) {
  const std::string bytes =
      Serialized({{"weight", Floats({1, 2})}, {"b", Floats({3})}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(Parse(bytes.substr(0, size)),
                FailsWith(StatusCode::kDataLoss, HasSubstr("p.params: byte ")))
        << size;
  }
}

TEST(BadParamsTest, CutTensorIsNamed) {
  const std::string bytes =
      Serialized({{"weight", Floats({1})}, {"bias", Floats({3})}});
  EXPECT_THAT(
      Parse(bytes.substr(0, bytes.size() - 1)),
      FailsWith(StatusCode::kDataLoss, HasSubstr("4 bytes, 3 are left (tensor "
                                                 "bias)")));
}

TEST(BadParamsTest, EveryFlippedByteParsesOrFailsCleanly) {
  std::string bytes =
      Serialized({{"w", Floats({1, 2})}, {"b", MakeTensor<int8_t>({}, {3})}});
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      const auto params =
          Parse(Patched(bytes, i, static_cast<char>(bytes[i] ^ flip)));
      if (!params.ok()) {
        EXPECT_EQ(params.status().code(), StatusCode::kDataLoss);
        continue;
      }
      for (const NamedTensor& entry : params->tensors) {
        EXPECT_THAT(entry.tensor.CopyToHost(), IsOk());
      }
    }
  }
}

TEST(BadParamsTest, FieldThatCannotBeTrueIsNamedWithItsByte) {
  const std::string bytes = Serialized({{"w", Floats({1})}});
  const size_t count = kNameLength + 9;
  const struct {
    std::string bytes;
    const char* where;
    const char* found;
  } rows[] = {
      {Patched(bytes, 0, uint64_t{1}), "byte 0:", "is this a .params file?"},
      {Patched(bytes, kNameCount, ~uint64_t{0}),
       "byte 16:", "name count is 18"},
      {Patched(bytes, kNameCount, uint64_t{1} << 60), "byte 16:", "only"},
      {Patched(bytes, kNameLength, ~uint64_t{0}), "byte 32:", "name needs 184"},
      {Patched(bytes, count, uint64_t{2}), "byte 33:", "tensor count is 2, "},
      {Patched(bytes, count, uint64_t{0}), "byte 33:", "expected 1 (one per"},
      {Patched(bytes, count, uint64_t{1} << 61), "byte 33:", "tensor count"},
      {Patched(bytes, count + 8, uint64_t{5}), "byte 41:", "tensor magic"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(Parse(row.bytes),
                FailsWith(StatusCode::kDataLoss,
                          AllOf(HasSubstr(row.where), HasSubstr(row.found))));
  }
  EXPECT_THAT(Parse(Patched(bytes, kReserved, uint64_t{9})), IsOk());
}

TEST(ParamsFileTest, FileIsReadWithoutBeingCopied) {
  const std::string path = Folder() / "p.params";
  ASSERT_THAT(WriteParams(path, {{"w", Floats({1, 2})}}), IsOk());
  const auto params = OpenParams(path);
  ASSERT_THAT(params, IsOk());
  EXPECT_EQ(std::filesystem::file_size(path),
            Serialized({{"w", Floats({1, 2})}}).size());
  EXPECT_THAT(ValuesOf(params->tensors[0].tensor), ElementsAre(1, 2));
}

TEST(ParamsFileTest, FileReplacesAnOlderOneWhenItIsComplete) {
  const std::string path = Folder() / "p.params";
  ASSERT_THAT(WriteParams(path, {{"w", Floats({1, 2, 3})}}), IsOk());
  const auto old = OpenParams(path);
  ASSERT_THAT(WriteParams(path, {{"w", Floats({4})}}), IsOk());
  EXPECT_THAT(ValuesOf(*old->Find("w")), ElementsAre(1, 2, 3));
  EXPECT_THAT(ValuesOf(*OpenParams(path)->Find("w")), ElementsAre(4));
}

TEST(ParamsFileTest, FileThatIsNoneIsNamed) {
  EXPECT_THAT(OpenParams("/no/such.params"),
              FailsWith(StatusCode::kNotFound, HasSubstr("/no/such.params")));
  EXPECT_THAT(OpenParams("/"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("directory")));
  const std::string path = Folder() / "empty.params";
  std::ofstream(path).close();
  EXPECT_THAT(OpenParams(path),
              FailsWith(StatusCode::kDataLoss, HasSubstr(path + ": byte 0: ")));
}

TEST(ParamsFileTest, PlaceThatCannotBeWrittenIsNamedAndLeftEmpty) {
  const auto folder = Folder();
  const std::string missing = folder / "no" / "p.params";
  EXPECT_THAT(WriteParams(missing, {{"w", Floats({1})}}),
              FailsWith(StatusCode::kNotFound, HasSubstr(missing)));
  std::filesystem::create_directory(folder / "taken");
  const std::string taken = folder / "taken";
  EXPECT_THAT(WriteParams(taken, {{"w", Floats({1})}}),
              FailsWith(StatusCode::kUnavailable, HasSubstr(taken)));
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    left.push_back(entry.path().filename());
  }
  EXPECT_THAT(left, ElementsAre("taken"));
}

TEST(ParamsFileTest, FolderWithoutPermissionIsRefused) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const auto folder = Folder();
  ASSERT_EQ(chmod(folder.c_str(), 0500), 0);
  const std::string path = folder / "p.params";
  EXPECT_THAT(WriteParams(path, {{"w", Floats({1})}}),
              FailsWith(StatusCode::kPermissionDenied, HasSubstr(path)));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(ParamsFileTest, TensorThatCannotBeFetchedLeavesNoFile) {
  const auto folder = Folder();
  const NDArray near = Floats({1});
  DLTensor far = *near;
  far.device = {kDLVPI, 0};
  EXPECT_THAT(
      WriteParams(folder / "p.params", {{"w", NDArray::Borrow(far, nullptr)}}),
      FailsWith(StatusCode::kUnavailable, HasSubstr("no such device")));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

}  // namespace
}  // namespace nodewise
