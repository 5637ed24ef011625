#include "nodewise/ir/pass.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <type_traits>

#include "nodewise/ir/network.h"
#include "tests/support/matchers.h"
#include "tests/support/network_ops.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using test_ops::AttrsOf;
using test_ops::Ops;
using test_ops::TextOf;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// x -> dequantize d -> relu r -> softmax s, the output.
class PassTest : public testing::Test {
 protected:
  PassTest() { EXPECT_THAT(net_.SetOutputs({s_}), IsOk()); }

  OperationId Maker(ValueId id) const { return net_.value(id).producer; }

  Network net_{"net"};
  ValueId x_ = net_.AddInput("x", TensorType({kDLInt, 8, 1}, {2, 2})).value();
  ValueId d_ = net_.Add(Ops(), test_ops::Dequantize{}, {x_}, "d").value();
  ValueId r_ = net_.Add(Ops(), test_ops::Relu{}, {d_}, "r").value();
  ValueId s_ = net_.Add(Ops(), test_ops::Softmax{}, {r_}, "s").value();
};

TEST_F(PassTest, PassesRunOneAfterTheOther) {
  std::vector<std::string> ran;
  const auto pass = [&](const char* name) {
    return Pass{name, [&ran, name](Network&) {
                  ran.emplace_back(name);
                  return absl::OkStatus();
                }};
  };
  EXPECT_THAT(RunPasses({pass("one"), pass("two")}, {}, net_), IsOk());
  EXPECT_THAT(ran, ElementsAre("one", "two"));
}

std::vector<std::string> TextsOf(const std::vector<PassFinding>& findings) {
  std::vector<std::string> texts;
  for (const PassFinding& each : findings) {
    texts.push_back(each.pass + ": " + each.finding.ToString());
  }
  return texts;
}

// OV-05, OV-22, OV-32: what a pass cuts off is said, with the pass that did it.
TEST_F(PassTest, WhatAPassCutsOffIsReported) {
  const Pass nothing{"nothing", [](Network&) { return absl::OkStatus(); }};
  const Pass cut{"cut", [&](Network& network) {
                   return network.ReplaceInput(Maker(s_), 0, d_);
                 }};
  const Pass fold{"fold", [&](Network& network) -> absl::Status {
                    const auto c = network.AddConstant("c", Floats({1}));
                    if (!c.ok()) return c.status();
                    return network.SetOutputs({*c});
                  }};
  const auto left = RunPasses({nothing, cut, fold}, {}, net_);
  ASSERT_THAT(left, IsOk());
  EXPECT_THAT(
      TextsOf(*left),
      testing::UnorderedElementsAre(
          HasSubstr("cut: operation r: no output of the network depends on it"),
          HasSubstr("fold: operation d: no output"),
          HasSubstr("fold: operation s: no output"),
          HasSubstr("fold: value x: no output of the network depends on it"),
          HasSubstr("fold: network net: output 0: is value c, which depends on "
                    "no input"),
          HasSubstr("fold: network net: output 0: is value c, and was made by "
                    "an operation")));
}

// OV-32
TEST_F(PassTest, InputsThatAPassTakesAwayAreReported) {
  ASSERT_THAT(net_.AddInput("y", TensorType(kFloat32, {2})), IsOk());
  const Pass drop{"drop", [](Network& network) {
                    return network.RemoveInput(network.FindValue("y").value());
                  }};
  const auto left = RunPasses({drop}, {}, net_);
  ASSERT_THAT(left, IsOk());
  EXPECT_THAT(TextsOf(*left),
              ElementsAre(HasSubstr("network net: has no input y any more")));
}

TEST_F(PassTest, OutputsThatAPassDropsAreReported) {
  ASSERT_THAT(net_.SetOutputs({s_, s_}), IsOk());
  const Pass drop{"drop",
                  [&](Network& network) { return network.SetOutputs({s_}); }};
  const auto left = RunPasses({drop}, {}, net_);
  ASSERT_THAT(left, IsOk());
  EXPECT_THAT(TextsOf(*left),
              ElementsAre(HasSubstr("network net: has 1 outputs, and had 2")));
}

TEST_F(PassTest, PassThatThrowsIsNamedAndTakenBack) {
  const std::string before = TextOf(net_);
  const Pass pass{"fold", [&](Network& network) -> absl::Status {
                    EXPECT_THAT(network.SetOutputs({r_}), IsOk());
                    throw std::runtime_error("no idea");
                  }};
  EXPECT_THAT(RunPasses({pass}, {}, net_),
              FailsWith(StatusCode::kInternal,
                        HasSubstr("pass fold: failed: threw no idea")));
  EXPECT_EQ(TextOf(net_), before);
}

TEST_F(PassTest, PassWithoutAFunctionIsRefused) {
  EXPECT_THAT(RunPasses({Pass{"empty", nullptr}}, {}, net_),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("pass empty: has no function")));
}

// OV-22.
TEST_F(PassTest, FailedPassIsNamedAndTakenBack) {
  const std::string before = TextOf(net_);
  const Pass pass{"fold", [&](Network& network) {
                    EXPECT_THAT(network.SetOutputs({r_}), IsOk());
                    return absl::UnimplementedError("cannot do it");
                  }};
  EXPECT_THAT(RunPasses({pass}, {}, net_),
              FailsWith(StatusCode::kUnimplemented,
                        HasSubstr("pass fold: failed: cannot do it")));
  EXPECT_EQ(TextOf(net_), before);
}

// OV-21, OV-22: the fault, the pass, and the network before and after it.
TEST_F(PassTest, FaultLeftByAPassIsNamedAndWritten) {
  test_ops::Moody::says = {TensorType(kFloat32)};
  ASSERT_THAT(net_.SetOpset("com.test", 1), IsOk());
  ASSERT_THAT(net_.Add(Ops(), test_ops::Moody{}, {s_}, "moody"), IsOk());
  const std::string before = TextOf(net_);
  const std::string folder =
      testing::TempDir() + "pass_test/" + std::to_string(getpid());
  const Pass pass{"spoil it", [&](Network& network) {
                    // The inferred types are no longer valid.
                    test_ops::Moody::says = {TensorType(kInt64)};
                    return network.SetOutputs({r_});
                  }};
  const std::string start = folder + "/spoil_it";
  EXPECT_THAT(
      RunPasses({pass}, {.folder = folder}, net_),
      FailsWith(StatusCode::kDataLoss,
                AllOf(HasSubstr("pass spoil it: left a network that is not "
                                "valid: operation moody: output 0 (Y): value "
                                "moody is of type float32[...], expected "
                                "int64[...]"),
                      HasSubstr("(see " + start + ".before.txt"))));
  EXPECT_EQ(ReadAll(start + ".before.txt"), before);
  EXPECT_THAT(ReadAll(start + ".after.txt"), HasSubstr("output %3;"));
  EXPECT_EQ(TextOf(net_), before);
  std::filesystem::remove_all(folder);
}

TEST_F(PassTest, FolderThatCannotBeWrittenIsSaid) {
  const Pass pass{"p", [](Network&) { return absl::InternalError("bad"); }};
  EXPECT_THAT(RunPasses({pass}, {.folder = "/dev/null/x"}, net_),
              FailsWith(StatusCode::kInternal,
                        AllOf(HasSubstr("pass p: failed: bad"),
                              HasSubstr("could not be written: /dev/null/x"))));
}

// OV-38.
TEST_F(PassTest, ChainsAreFoundByKind) {
  EXPECT_THAT(FindChains(net_, {"Dequantize", "Relu"}),
              ElementsAre(ElementsAre(Maker(d_), Maker(r_))));
  EXPECT_THAT(FindChains(net_, {"Dequantize", "Relu", "Softmax"}).size(), 1u);
  EXPECT_THAT(FindChains(net_, {"Dequantize", "Softmax"}), IsEmpty());
  EXPECT_THAT(FindChains(net_, {}), IsEmpty());
}

TEST_F(PassTest, ChainEndsWhereOthersReadToo) {
  ASSERT_THAT(net_.Add(Ops(), test_ops::Relu{}, {d_}, "other"), IsOk());
  EXPECT_THAT(FindChains(net_, {"Dequantize", "Relu"}), IsEmpty());
  EXPECT_EQ(
      FindChains(net_, {"Dequantize", "Relu"}, {.only_user = false}).size(),
      2u);
}

TEST_F(PassTest, ChainEndsAtAnOutputOfTheNetwork) {
  ASSERT_THAT(net_.SetOutputs({d_, s_}), IsOk());
  EXPECT_THAT(FindChains(net_, {"Dequantize", "Relu"}), IsEmpty());
}

// OV-38: what a pass does with a chain.
TEST_F(PassTest, ChainIsMergedIntoOneOperation) {
  const Pass merge{
      "merge", [](Network& network) -> absl::Status {
        for (const auto& chain : FindChains(network, {"Dequantize", "Relu"})) {
          const auto one = network.AddOperation(
              {.attrs = AttrsOf<test_ops::Dequantize>(),
               .inputs = network.operation(chain[0]).inputs,
               .name = "merged"});
          if (!one.ok()) return one.status();
          const ValueId old = network.operation(chain[1]).outputs[0];
          const ValueId made = network.operation(*one).outputs[0];
          const absl::Status status = network.ReplaceUses({old}, {made});
          if (!status.ok()) return status;
        }
        network.RemoveUnused();
        return absl::OkStatus();
      }};
  ASSERT_THAT(RunPasses({merge}, {}, net_), IsOk());
  ASSERT_EQ(net_.order().size(), 2u);
  EXPECT_EQ(net_.operation(net_.order()[0]).name, "merged");
  EXPECT_EQ(net_.operation(net_.order()[1]).name, "s");
}

// OV-06, OV-10, OV-11.
TEST_F(PassTest, SideTableIsOfOneVersionOfTheNetwork) {
  const SideTable<std::vector<int>> slots(net_, "plan", {0, 1});
  ASSERT_THAT(slots.Get(), IsOk());
  EXPECT_EQ(**slots.Get(), (std::vector<int>{0, 1}));
  ASSERT_THAT(net_.Rename(r_, "renamed"), IsOk());
  EXPECT_THAT(slots.Get(),
              FailsWith(StatusCode::kFailedPrecondition,
                        AllOf(HasSubstr("network net: was edited since pass "
                                        "plan"),
                              HasSubstr("run the pass again"))));
}

// OV-09.
TEST_F(PassTest, SideTableCannotBeMadeWithoutItsContent) {
  static_assert(!std::is_default_constructible_v<SideTable<int>>);
  static_assert(
      !std::is_constructible_v<SideTable<int>, const Network&, const char*>);
}

// OV-10.
TEST_F(PassTest, SideTableIsKeptByStepsThatChangeNothing) {
  const SideTable<int> table(net_, "plan", 7);
  const Pass look{
      "look", [](Network& network) { return network.FindValue("x").status(); }};
  ASSERT_THAT(RunPasses({look, look}, {}, net_), IsOk());
  ASSERT_THAT(net_.InferAgain(), IsOk());
  ASSERT_THAT(table.Get(), IsOk());
  EXPECT_EQ(**table.Get(), 7);
}

// OV-10.
TEST_F(PassTest, SideTableSurvivesARefusedEdit) {
  const SideTable<int> table(net_, "plan", 7);
  EXPECT_FALSE(net_.Remove(Maker(d_)).ok());
  EXPECT_FALSE(net_.ReplaceInput(Maker(r_), 0, x_).ok());
  EXPECT_THAT(table.Get(), IsOk());
}

// OV-11.
TEST_F(PassTest, SideTableKnowsANetworkThatWasAssigned) {
  const SideTable<int> table(net_, "plan", 7);
  net_ = Network("other");
  EXPECT_FALSE(table.Get().ok());
}

}  // namespace
}  // namespace nodewise
