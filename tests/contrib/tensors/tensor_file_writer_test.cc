// Files written from a stream of tensors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "nodewise/tensors/tensor_file.h"
#include "tests/contrib/tensors/numpy_bytes.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status Take(TensorFileWriter& writer, const TensorKey& key,
                  const NDArray& tensor) {
  return writer.Consume({.key = key, .tensor = tensor.tensor()});
}

class StreamedFileTest : public testing::TestWithParam<const char*> {};

TEST_P(StreamedFileTest, HasTheBytesOfOneWrittenAtOnce) {
  const std::string path = TestPath("streamed") + GetParam();
  std::filesystem::remove(path);  // An earlier run leaves one.
  const auto writer = TensorFileWriter::Create(path).value();
  const NDArray a = Floats({1, 2, 3});
  const NDArray b = MakeTensor<int8_t>({2, 2}, {1, 2, 3, 4});
  ASSERT_THAT(Take(*writer, {"a"}, a), IsOk());
  ASSERT_THAT(Take(*writer, {"b", 1}, b), IsOk());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_THAT(writer->Finish(), IsOk());
  const std::string whole = TestPath("whole") + GetParam();
  ASSERT_THAT(WriteTensorFile(whole, {{"a", a}, {"b:1", b}}), IsOk());
  EXPECT_EQ(FileBytes(path), FileBytes(whole));
}

TEST_P(StreamedFileTest, CopiesWhatIsGoneAfterwards) {
  const std::string path = TestPath("gone") + GetParam();
  const auto writer = TensorFileWriter::Create(path).value();
  const NDArray memory = Floats({1});
  ASSERT_THAT(Take(*writer, {"a"}, memory), IsOk());
  *memory.As<float>() = 2;
  ASSERT_THAT(Take(*writer, {"b"}, memory), IsOk());
  *memory.As<float>() = 3;
  ASSERT_THAT(writer->Finish(), IsOk());
  const auto read = ReadTensorFile(path).value();
  EXPECT_THAT(ValuesOf(read[0].tensor), ElementsAre(1));
  EXPECT_THAT(ValuesOf(read[1].tensor), ElementsAre(2));
}

TEST_P(StreamedFileTest, NothingIsLeftWithoutFinish) {
  const std::string folder = TestPath("unfinished");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  {
    const auto writer =
        TensorFileWriter::Create(folder + "/x" + GetParam()).value();
    ASSERT_THAT(Take(*writer, {"a"}, Floats({1})), IsOk());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

INSTANTIATE_TEST_SUITE_P(All, StreamedFileTest,
                         testing::Values(".npz", ".params"),
                         [](const auto& info) { return info.param + 1; });

TEST(TensorFileWriterTest, ItemsWithoutTensorAreCounted) {
  const std::string path = TestPath("x.npz");
  const auto writer = TensorFileWriter::Create(path).value();
  const TensorKey key{"a"};
  ASSERT_THAT(writer->Consume({.key = key, .why_absent = "not recorded"}),
              IsOk());
  ASSERT_THAT(Take(*writer, {"b"}, Floats({1})), IsOk());
  ASSERT_THAT(writer->Finish(), IsOk());
  EXPECT_EQ(writer->num_skipped(), 1u);
  EXPECT_EQ(ReadTensorFile(path)->size(), 1u);
}

TEST(TensorFileWriterTest, FilesOfOneTensorTakeExactlyOne) {
  for (const char* extension : {".npy", ".pb"}) {
    const std::string path = TestPath("one") + extension;
    const auto writer = TensorFileWriter::Create(path).value();
    EXPECT_THAT(Take(*writer, {"a"}, Floats({1})), IsOk());
    EXPECT_THAT(
        Take(*writer, {"b"}, Floats({1})),
        FailsWith(StatusCode::kInvalidArgument, HasSubstr("2 tensors for a ")));
    EXPECT_THAT(
        TensorFileWriter::Create(path).value()->Finish(),
        FailsWith(StatusCode::kInvalidArgument, HasSubstr("0 tensors for a ")));
  }
}

TEST(TensorFileWriterTest, NpzRefusesANameThatComesTwice) {
  const std::string path = TestPath("x.npz");
  const auto writer = TensorFileWriter::Create(path).value();
  EXPECT_THAT(Take(*writer, {"a"}, Floats({1})), IsOk());
  EXPECT_THAT(Take(*writer, {"a"}, Floats({1})),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr(path + ": tensor a comes twice")));
}

TEST(TensorFileWriterTest, FailsForPathsThatCannotBeWritten) {
  EXPECT_THAT(TensorFileWriter::Create(TestPath("x.txt")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("\".txt\"")));
  const std::string path = TestPath("none") + "/x.params";
  EXPECT_THAT(TensorFileWriter::Create(path),
              FailsWith(StatusCode::kNotFound, HasSubstr(path)));
}

}  // namespace
}  // namespace nodewise
