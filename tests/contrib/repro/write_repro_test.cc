#include "nodewise/repro/write_repro.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "contrib/repro/repro_texts.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "tests/contrib/repro/repro_support.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing::SizeIs;

class WriteReproTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              (std::string("nodewise_repro_") + test->name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static ReproCase Case() {
    NetBuilder b;
    const ValueId x = b.In("x", {3});
    b.Out({b.Op("Relu", {x}, {}, {"y"}, "a/b")[0]});
    return std::move(CasesOf(Lower(b.net, "net").value(), ReferenceFunctions(),
                             {"a/b"}, {{"x", Floats({1, -2, 3})}})
                         .value()[0]);
  }

  fs::path folder_;
};

TEST_F(WriteReproTest, TensorsAreNamedByRoleAndLayer) {
  ASSERT_THAT(WriteRepro(Case(), folder_.string()), IsOk());
  const auto inputs = OpenParams((folder_ / "data/inputs.params").string());
  ASSERT_THAT(inputs, IsOk());
  ASSERT_THAT(inputs->tensors, SizeIs(1));
  EXPECT_EQ(inputs->tensors[0].name, "input_X_a_b");
  const auto reference =
      OpenParams((folder_ / "data/reference.params").string());
  ASSERT_THAT(reference, IsOk());
  EXPECT_EQ(reference->tensors[0].name, "ref_Y_a_b");
  EXPECT_EQ(ValuesOf(reference->tensors[0].tensor),
            (std::vector<float>{1, 0, 3}));
}

TEST(ReproProgramTest, IsIndentedFromTheFirstColumn) {
  const std::string text(ReproProgram());
  EXPECT_THAT(text, HasSubstr("\nint main(int argc, char** argv) {\n"
                              "  const std::string folder = "));
  EXPECT_TRUE(text.ends_with("\n}\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST_F(WriteReproTest, BuiltInFunctionsNeedNoLibraryAndNoProgram) {
  ASSERT_THAT(WriteRepro(Case(), folder_.string()), IsOk());
  EXPECT_FALSE(fs::exists(folder_ / "lib.so"));
  EXPECT_FALSE(fs::exists(folder_ / "main.cc"));
  EXPECT_TRUE(fs::exists(folder_ / "model.onnx"));
  EXPECT_TRUE(fs::exists(folder_ / "test_data_set_0/output_0.pb"));
}

TEST_F(WriteReproTest, ANodeThatMayNotRunIsWrittenWithWhatItShouldMake) {
  ReproCase node_case = Case();
  node_case.may_run = false;
  node_case.verdict = "crashes";
  node_case.reason = "SIGSEGV";
  ASSERT_THAT(JudgeCase(&node_case), IsOk());
  EXPECT_FALSE(node_case.outputs[0].candidate.defined());
  ASSERT_THAT(WriteRepro(node_case, folder_.string()), IsOk());
  EXPECT_FALSE(fs::exists(folder_ / "data/candidate.params"));
  EXPECT_TRUE(fs::exists(folder_ / "data/reference.params"));
  std::ifstream readme(folder_ / "README.md");
  const std::string text((std::istreambuf_iterator<char>(readme)), {});
  EXPECT_THAT(text, HasSubstr("it was found to be `crashes`: `SIGSEGV`"));
}

TEST_F(WriteReproTest, FunctionsInMemoryAloneAreRefused) {
  ReproCase node_case = Case();
  ClearBuiltInFunctions(&node_case.graph);
  EXPECT_THAT(WriteRepro(node_case, folder_.string()),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("expected a library in a file")));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(WriteReproTest, AFolderThatHoldsSomethingIsLeftAlone) {
  fs::create_directory(folder_);
  std::ofstream(folder_ / "mine") << "mine";
  EXPECT_THAT(WriteRepro(Case(), folder_.string()),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("holds mine, expected an empty folder")));
  EXPECT_EQ(
      std::distance(fs::directory_iterator(folder_), fs::directory_iterator()),
      1);
}

TEST_F(WriteReproTest, AFolderThatCannotBeMadeIsNamed) {
  EXPECT_THAT(WriteRepro(Case(), (folder_ / "no" / "where").string()),
              FailsWith(absl::StatusCode::kNotFound, HasSubstr("no/where")));
}

}  // namespace
}  // namespace nodewise
