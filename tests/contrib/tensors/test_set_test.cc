// ONNX's test sets as sources.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "nodewise/tensors/tensor_file.h"
#include "tests/contrib/tensors/tensor_source_support.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string EmptyFolder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder = testing::TempDir() + "test_set_" + test->name();
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void WritePb(const std::string& path, const std::string& name, float value) {
  EXPECT_THAT(WriteTensorFile(path, {{name, Floats({value})}}), IsOk());
}

TEST(TestSetTest, TensorsAreCalledAsTheFilesSay) {
  const std::string folder = EmptyFolder();
  WritePb(folder + "/output_0.pb", "y", 3);
  WritePb(folder + "/input_1.pb", "", 2);
  WritePb(folder + "/input_0.pb", "x", 1);
  const auto items = VisitAll(*OpenTensorSource(folder).value());
  EXPECT_THAT(NamesOf(items), ElementsAre("x", "input_1", "y"));
  EXPECT_TRUE(items[0].is_network_input);
  EXPECT_TRUE(items[1].is_network_input);
  EXPECT_FALSE(items[2].is_network_input);
}

TEST(TestSetTest, NamesOfTheModelWin) {
  const std::string folder = EmptyFolder();
  WritePb(folder + "/input_0.pb", "x", 1);
  WritePb(folder + "/output_0.pb", "y", 2);
  const auto source =
      OpenTensorSource(folder, {.inputs = {"in"}, .outputs = {"out"}}).value();
  EXPECT_THAT(NamesOf(VisitAll(*source)), ElementsAre("in", "out"));
  EXPECT_THAT(source->Find({"out"}), IsOk());
  EXPECT_THAT(source->Find({"y"}),
              FailsWith(StatusCode::kNotFound, HasSubstr("(in, out)")));
}

TEST(TestSetTest, FilesAreOrderedByNumber) {
  const std::string folder = EmptyFolder();
  std::vector<std::string> expected;
  for (int i = 0; i < 11; ++i) {
    WritePb(folder + "/input_" + std::to_string(i) + ".pb", "", 1);
    expected.push_back("input_" + std::to_string(i));
  }
  const auto items = VisitAll(*OpenTensorSource(folder).value());
  EXPECT_EQ(NamesOf(items), expected);
}

TEST(TestSetTest, MissingNumberIsNamed) {
  const std::string folder = EmptyFolder();
  WritePb(folder + "/input_0.pb", "x", 1);
  WritePb(folder + "/input_2.pb", "z", 1);
  EXPECT_THAT(OpenTensorSource(folder),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("has input_2.pb but no input_1.pb")));
}

TEST(TestSetTest, MoreFilesThanTheModelHasInputsAreRefused) {
  const std::string folder = EmptyFolder();
  WritePb(folder + "/input_0.pb", "x", 1);
  WritePb(folder + "/input_1.pb", "y", 1);
  EXPECT_THAT(
      OpenTensorSource(folder, {.inputs = {"x"}}),
      FailsWith(StatusCode::kInvalidArgument,
                HasSubstr("has 2 files input_N.pb, expected at most 1")));
}

TEST(TestSetTest, OtherFilesAreNotPartOfIt) {
  const std::string folder = EmptyFolder();
  WritePb(folder + "/output_0.pb", "y", 1);
  for (const char* other : {"input_00.pb", "input_0.npy", "input_.pb",
                            "input_-1.pb", "notes.txt"}) {
    WriteWhole(folder + "/" + other, "no tensor");
  }
  EXPECT_THAT(NamesOf(VisitAll(*OpenTensorSource(folder).value())),
              ElementsAre("y"));
}

TEST(TestSetTest, FolderOfAModelLeadsToItsOnlySet) {
  const std::string folder = EmptyFolder();
  fs::create_directories(folder + "/test_data_set_0");
  WritePb(folder + "/test_data_set_0/input_0.pb", "x", 1);
  EXPECT_EQ(OpenTensorSource(folder).value()->name(),
            folder + "/test_data_set_0");
  fs::create_directories(folder + "/test_data_set_1");
  WritePb(folder + "/test_data_set_1/input_0.pb", "x", 1);
  EXPECT_THAT(OpenTensorSource(folder),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("has 2 test sets, expected one"),
                              HasSubstr("test_data_set_1"))));
}

}  // namespace
}  // namespace nodewise
