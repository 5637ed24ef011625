#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/diagnose/answer.h"

namespace nodewise {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kRounded = "inputs are rounded to bfloat16";

NodeReport NodeOf(const std::string& name, const std::string& operators,
                  const std::string& cause = "") {
  NodeReport node;
  node.key = name;
  node.covers = {name};
  node.operators = operators;
  if (cause.empty()) return node;
  node.verdict = NodeVerdict::kBroken;
  node.cause = Cause{Cause::Kind::kPrecision, cause, "bfloat16"};
  return node;
}

TensorComparison OutputThatIs(Verdict verdict) {
  TensorComparison output;
  output.judgement.verdict = verdict;
  output.metrics.different = 1;
  output.metrics.difference_norm = 0.5;
  output.metrics.expected_norm = 1;
  return output;
}

// The nodes with a verdict that accuses are the culprits.
Answer AnswerWith(std::vector<NodeReport> nodes,
                  Verdict output = Verdict::kError) {
  LocateResult located;
  located.nodes = std::move(nodes);
  for (size_t i = 0; i < located.nodes.size(); ++i) {
    if (IsCulpritVerdict(located.nodes[i].verdict))
      located.culprits.push_back({i, std::nullopt, {}});
  }
  located.outputs.push_back(OutputThatIs(output));
  Answer answer;
  answer.search = Search::kProgramNodes;
  if (!located.culprits.empty()) answer.state = Answer::State::kWrong;
  answer.evidence.located = std::move(located);
  return answer;
}

TEST(SentenceTest, NodesThatAreAllRoundedAreToldAsThePrecision) {
  const std::string said =
      SentenceOf(AnswerWith({NodeOf("a", "Conv", kRounded), NodeOf("b", "Relu"),
                             NodeOf("c", "Conv", kRounded)}));
  EXPECT_EQ(said,
            "Both Conv compute in bfloat16: this is the runtime's precision, "
            "not a fault.");
}

TEST(SentenceTest, OperatorsOfSeveralKindsInOnePrecisionAreToldTogether) {
  const std::string said = SentenceOf(
      AnswerWith({NodeOf("a", "Conv", kRounded), NodeOf("b", "Conv", kRounded),
                  NodeOf("c", "Gemm", "results are rounded to bfloat16")}));
  EXPECT_THAT(said, StartsWith("Both Conv and the Gemm compute in bf"));
}

TEST(SentenceTest, OneOfSeveralThatIsRoundedIsAFault) {
  const std::string said = SentenceOf(
      AnswerWith({NodeOf("a", "Conv", kRounded), NodeOf("b", "Conv")}));
  EXPECT_EQ(said, "a (Conv) is wrong: its inputs are rounded to bfloat16.");
}

TEST(SentenceTest, SomeOfAKindAreCountedAndNamed) {
  const std::string said = SentenceOf(
      AnswerWith({NodeOf("a", "Conv", kRounded), NodeOf("b", "Conv", kRounded),
                  NodeOf("c", "Conv")}));
  EXPECT_THAT(said, StartsWith("2 of 3 Conv (a, b) are wrong: their inputs"));
}

// A single number of float16 may be one of bfloat16 by chance.
TEST(SentenceTest, ANodeOfFewNumbersFollowsTheManyThatAreRounded) {
  const auto rounded = [](const std::string& name, const std::string& type,
                          uint64_t elements) {
    NodeReport node = NodeOf(name, "Conv", "results are rounded to " + type);
    node.cause->type = type;
    node.worst = OutputThatIs(Verdict::kError);
    node.worst->metrics.elements = elements;
    return node;
  };
  EXPECT_THAT(SentenceOf(AnswerWith({rounded("a", "float16", 100),
                                     rounded("b", "float16", 100),
                                     rounded("c", "bfloat16", 1)})),
              StartsWith("All 3 Conv compute in float16"));
  EXPECT_THAT(SentenceOf(AnswerWith({rounded("a", "float16", 100),
                                     rounded("b", "float16", 100),
                                     rounded("c", "bfloat16", 100)})),
              HasSubstr("; c (Conv) is wrong"));
}

TEST(SentenceTest, WhatIsKnownOfARuntimeIsToldAsTheCause) {
  NodeReport node = NodeOf("a", "Sigmoid");
  node.verdict = NodeVerdict::kBroken;
  node.known = KnownUse{
      {KnownDeviation::Kind::kApproximation, "Sigmoid", "float32", "", 2}, 1.5};
  Answer answer = AnswerWith({node});
  answer.evidence.located->runtime = "net 1.0, cpu";
  EXPECT_THAT(SentenceOf(answer),
              HasSubstr("which is known of net 1.0 (an approximation, "));
  answer.evidence.located->nodes[0].known->times = 2;
  EXPECT_THAT(SentenceOf(answer), Not(HasSubstr("known")));
}

TEST(SentenceTest, AnErrorBeyondWhatIsKnownIsNamedHoweverSmall) {
  NodeReport node = NodeOf("a", "Sigmoid");
  node.verdict = NodeVerdict::kDeviates;
  node.known = KnownUse{
      {KnownDeviation::Kind::kApproximation, "Sigmoid", "float32", "", 2}, 2.5};
  Answer answer = AnswerWith({node}, Verdict::kPass);
  answer.evidence.located->runtime = "net 1.0, cpu";
  EXPECT_THAT(SentenceOf(answer),
              HasSubstr("; a (Sigmoid) deviates by more than is known of net "
                        "1.0"));
  answer.evidence.located->nodes[0].known->times = 1;
  EXPECT_THAT(SentenceOf(answer),
              HasSubstr("; Sigmoid deviates as is known of net 1.0, too "
                        "little to reach the outputs"));
}

TEST(SentenceTest, RepairingIsToldByWhatItDoesToTheOutputs) {
  const auto said_with = [](double share) {
    Answer answer = AnswerWith({NodeOf("a", "Conv", kRounded)});
    answer.evidence.located->culprits[0].share = share;
    return SentenceOf(answer);
  };
  EXPECT_THAT(said_with(1), HasSubstr("; repairing it repairs the outputs."));
  EXPECT_THAT(said_with(0.5),
              HasSubstr("; repairing it takes away 50 % of the error"));
  EXPECT_THAT(said_with(-3), HasSubstr("; repairing it alone repairs no "));
}

TEST(SentenceTest, ANodeThatMattersNowhereIsCountedAndNotAccused) {
  NodeReport small = NodeOf("a", "Sigmoid");
  small.verdict = NodeVerdict::kDeviates;
  EXPECT_EQ(SentenceOf(AnswerWith({small}, Verdict::kPass)),
            "No operation is to blame: all are right on what they read, and "
            "the outputs are within their tolerance; 1 node deviates from the "
            "definition by more than rounding, too little to matter.");
}

TEST(SentenceTest, TheFirstNodeThatMakesNanIsToldWhereAnOutputHasIt) {
  NodeReport first = NodeOf("exp", "Exp");
  first.verdict = NodeVerdict::kIntendedInfinity;
  Answer answer = AnswerWith({NodeOf("scale", "Mul"), first}, Verdict::kPass);
  EXPECT_THAT(SentenceOf(answer), Not(HasSubstr("exp")));
  answer.evidence.located->outputs[0].has_non_finite = true;
  EXPECT_THAT(SentenceOf(answer),
              HasSubstr("the first of which exp (Exp) makes of finite"));
}

TEST(SentenceTest, ANodeThatEndsTheRunIsToldByHowItDid) {
  NodeReport node = NodeOf("a", "Conv");
  node.verdict = NodeVerdict::kCrashes;
  node.reason = "crashed with SIGSEGV at address 0x10";
  node.failure = NodeFailure{};
  EXPECT_EQ(SentenceOf(AnswerWith({node}, Verdict::kPass)),
            "a (Conv): crashed with SIGSEGV at address 0x10.");
}

}  // namespace
}  // namespace nodewise
