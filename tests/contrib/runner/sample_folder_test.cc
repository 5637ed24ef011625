#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nodewise/runner/input_files.h"
#include "nodewise/tensors/tensor_file.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// Two inputs, x and y, of float32 (4,).
class SampleFolderTest : public testing::Test {
 protected:
  SampleFolderTest()
      : folder_(fs::path(testing::TempDir()) /
                ("samples_" + std::string(testing::UnitTest::GetInstance()
                                              ->current_test_info()
                                              ->name()))),
        graph_(AddThenRelu().Build()),
        list_(ListInputs(graph_, InputsOf(graph_))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  // Writes a file of one tensor, with the folder that it is in.
  std::string Write(const std::string& file, const std::string& tensor) {
    const fs::path path = folder_ / file;
    fs::create_directories(path.parent_path());
    EXPECT_THAT(WriteTensorFile(path, {{tensor, Floats({1, 2, 3, 4})}}),
                IsOk());
    return path;
  }
  void WriteText(const std::string& file) {
    std::ofstream(folder_ / file) << "text";
  }
  std::vector<std::string> NamesOf(const std::string& sample) {
    std::vector<std::string> names;
    const auto files = FilesOfSample(folder_ / sample, *list_);
    EXPECT_THAT(files, IsOk());
    for (const InputFile& file : *files) {
      names.push_back(file.name + "=" +
                      fs::path(file.path).filename().string());
    }
    return names;
  }

  const fs::path folder_;
  const Graph graph_;
  const std::unique_ptr<InputList> list_;
};

TEST_F(SampleFolderTest, NumbersInNamesAreCompared) {
  for (const char* name : {"s10.npz", "s2.npz", "s02.npz", "s1.params"}) {
    Write(name, "x");
  }
  Write("set_3/input_0.pb", "x");
  WriteText("README");
  WriteText("model.onnx");
  const auto found = ListSamples(folder_);
  ASSERT_THAT(found, IsOk());
  std::vector<std::string> names;
  for (const std::string& path : found->samples) {
    names.push_back(fs::path(path).filename());
  }
  EXPECT_THAT(
      names, ElementsAre("s1.params", "s02.npz", "s2.npz", "s10.npz", "set_3"));
  EXPECT_THAT(found->passed_over, ElementsAre("README", "model.onnx"));
}

TEST_F(SampleFolderTest, ATestSetHasItsInputsByNameOrOrder) {
  Write("named/input_0.pb", "y");
  Write("named/input_1.pb", "x");
  Write("named/output_0.pb", "z");
  Write("unnamed/input_0.pb", "a");
  Write("unnamed/input_1.pb", "b");
  EXPECT_THAT(NamesOf("named"), ElementsAre("y=input_0.pb", "x=input_1.pb"));
  EXPECT_THAT(NamesOf("unnamed"), ElementsAre("x=input_0.pb", "y=input_1.pb"));
  Write("many/input_2.pb", "a");
  EXPECT_THAT(FilesOfSample(folder_ / "many", *list_),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("input_2.pb: is input 2 of a test set, "
                                  "expected at most 2 inputs")));
}

TEST_F(SampleFolderTest, OtherFoldersAndFilesNameTheirTensorsThemselves) {
  Write("folder/x.npy", "x");
  Write("folder/y.npy", "y");
  Write("all.npz", "x");
  EXPECT_THAT(NamesOf("folder"), ElementsAre("=x.npy", "=y.npy"));
  EXPECT_THAT(NamesOf("all.npz"), ElementsAre("=all.npz"));
}

TEST_F(SampleFolderTest, WhatHasNoSamplesSaysWhatIsExpected) {
  EXPECT_THAT(ListSamples(folder_ / "missing"),
              FailsWith(absl::StatusCode::kNotFound, HasSubstr("missing")));
  EXPECT_THAT(ListSamples(folder_),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("has no samples")));
  fs::create_directories(folder_ / "empty");
  EXPECT_THAT(FilesOfSample(folder_ / "empty", *list_),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("empty: is a folder without inputs")));
  Write("set/input_0.pb", "x");
  EXPECT_THAT(ListSamples(folder_ / "set"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("which is one sample")));
}

}  // namespace
}  // namespace nodewise
