#include <gtest/gtest.h>

#include "nodewise/runner/input_files.h"
#include "nodewise/tensors/tensor_file.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two inputs, x and y, of float32 (4,).
class InputCollectorTest : public testing::Test {
 protected:
  InputCollectorTest()
      : graph_(AddThenRelu().Build()),
        list_(ListInputs(graph_, InputsOf(graph_))) {}

  // Writes the tensors to a file and returns its path.
  std::string FileOf(const std::string& name,
                     const std::vector<NamedTensor>& tensors) {
    const std::string path = testing::TempDir() + "/collector_" + name;
    EXPECT_THAT(WriteTensorFile(path, tensors), IsOk());
    return path;
  }
  std::vector<std::string> Errors() const {
    std::vector<std::string> lines;
    for (const Diagnostic& diagnostic : diagnostics_.items()) {
      lines.push_back(diagnostic.ToString());
    }
    return lines;
  }

  const Graph graph_;
  const std::unique_ptr<InputList> list_;
  const InputFiles files_;
  DiagnosticList diagnostics_;
  InputCollector collector_{*list_, files_, &diagnostics_};
};

TEST_F(InputCollectorTest, InputsAreInTheListsOrderAndSayWhereTheyAreFrom) {
  const std::string y = FileOf("y.npy", {{"y", Floats({5, 6, 7, 8})}});
  const std::string x = FileOf("x.npy", {{"x", Floats({1, 2, 3, 4})}});
  collector_.Assign({"y", y});
  collector_.Assign({"x", x});
  collector_.Complete(std::nullopt, {});
  ASSERT_THAT(Errors(), ElementsAre());
  const std::vector<RunInput> inputs = collector_.Inputs();
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(inputs[0].from, x);
  EXPECT_THAT(ValuesOf(inputs[1].tensor), ElementsAre(5, 6, 7, 8));
  EXPECT_EQ(NameInputs(*list_, inputs)[1].name, "y");
}

TEST_F(InputCollectorTest, EveryFaultIsReported) {
  const std::string two =
      FileOf("two.npz", {{"x", Floats({1})}, {"z", Floats({1, 2, 3, 4})}});
  collector_.Assign({"xx", "no such file"});
  collector_.Assign({"", two});
  collector_.Complete(1, {});
  EXPECT_THAT(
      Errors(),
      ElementsAre(
          HasSubstr("input xx: the graph has no such input"),
          HasSubstr("input x: is float32 (1,), expected float32 (4,)"),
          HasSubstr("input z: the graph has no such input, expected one "
                    "of x, y")));
}

TEST_F(InputCollectorTest, AFileOfAllMayHoldWhatIsFrozen) {
  InputFiles files;
  files.SetFrozen("z");
  InputCollector collector(*list_, files, &diagnostics_);
  collector.Assign({"", FileOf("three.npz", {{"x", Floats({1, 2, 3, 4})},
                                             {"y", Floats({1, 2, 3, 4})},
                                             {"z", Floats({1})}})});
  EXPECT_THAT(Errors(), ElementsAre());
  EXPECT_EQ(collector.Inputs().size(), 2u);
  collector.Assign({"z", "no such file"});
  EXPECT_THAT(Errors(), ElementsAre("input z: is given and frozen, expected "
                                    "one of both"));
}

TEST_F(InputCollectorTest, WhatIsMissingIsSaidWithTheCallersHint) {
  InputCollector::Hints hints;
  hints.how_to_give = [](const std::string& name) { return "give " + name; };
  collector_.Complete(std::nullopt, hints);
  EXPECT_THAT(Errors(),
              ElementsAre("input x: was not given, expected float32 (4,) "
                          "(give x)",
                          HasSubstr("(give y)")));
}

TEST_F(InputCollectorTest, GivingOneInputDoesNotChangeWhatIsDrawnForOthers) {
  collector_.Complete(7, {});
  const std::vector<RunInput> drawn = collector_.Inputs();
  InputCollector other(*list_, files_, &diagnostics_);
  other.Assign({"x", FileOf("x7.npy", {{"x", Floats({1, 2, 3, 4})}})});
  other.Complete(7, {});
  const std::vector<RunInput> inputs = other.Inputs();
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(inputs[1].from, "random, seed 7");
  EXPECT_EQ(ValuesOf(inputs[1].tensor), ValuesOf(drawn[1].tensor));
}

TEST_F(InputCollectorTest, OpenSizesCannotBeDrawn) {
  Network net("net");
  ASSERT_THAT(net.AddInput("x", TensorType(kFloat32, {Dim::Named("n")})),
              IsOk());
  const auto list = ListInputs(net);
  InputCollector collector(*list, files_, &diagnostics_);
  InputCollector::Hints hints;
  hints.how_to_size = [](const std::string& name, const TensorType&) {
    return ": size " + name;
  };
  collector.Complete(7, hints);
  EXPECT_THAT(Errors(), ElementsAre(HasSubstr(
                            "is float32[n], expected all sizes, to draw it: "
                            "size x")));
}

}  // namespace
}  // namespace nodewise
