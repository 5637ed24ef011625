#include "nodewise/locate/dump_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contrib/diagnose/diagnose_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TensorComparison Compared(const std::string& node, Verdict verdict) {
  TensorComparison tensor;
  tensor.key.node = node;
  tensor.judgement.verdict = verdict;
  return tensor;
}

SkippedTensor Skipped(const std::string& node, SkippedTensor::Kind kind) {
  return {{node}, "", kind};
}

// The dump of x, turn, size and grow, which read one another in this order.
class DumpDifferenceTest : public testing::Test {
 protected:
  std::vector<std::string> KeysThat(DumpedNode state,
                                    const Comparison& comparison) const {
    const std::string path = dump_.spec().path;
    const auto where = LocateDumpDifference(path, path, comparison);
    EXPECT_THAT(where, IsOk());
    std::vector<std::string> keys;
    if (!where.ok()) return keys;
    for (const NodeId node : where->NodesThat(state)) {
      keys.push_back(where->index->KeyOf(node));
    }
    return keys;
  }

  const DumpOf dump_{Speaking(*ThreeOperations())};
};

TEST_F(DumpDifferenceTest, ItBeginsWhereWhatIsReadIsAlike) {
  Comparison comparison;
  comparison.tensors = {
      Compared("x", Verdict::kPass), Compared("turn", Verdict::kError),
      Compared("size", Verdict::kError), Compared("grow", Verdict::kPass)};
  EXPECT_THAT(KeysThat(DumpedNode::kBegins, comparison), ElementsAre("turn"));
  EXPECT_THAT(KeysThat(DumpedNode::kFollows, comparison), ElementsAre("size"));
  EXPECT_THAT(KeysThat(DumpedNode::kAlike, comparison),
              ElementsAre("x", "grow"));
}

TEST_F(DumpDifferenceTest, AnInputThatDiffersIsWhereItBegins) {
  Comparison comparison;
  comparison.tensors = {Compared("x", Verdict::kError),
                        Compared("turn", Verdict::kError)};
  EXPECT_THAT(KeysThat(DumpedNode::kBegins, comparison), ElementsAre("x"));
  const std::string path = dump_.spec().path;
  const auto where = LocateDumpDifference(path, path, comparison);
  ASSERT_THAT(where, IsOk());
  const NodeId x = where->NodesThat(DumpedNode::kBegins)[0];
  EXPECT_THAT(std::string(ReasonFor(*where, x)), HasSubstr("does not compute"));
  ASSERT_EQ(where->ReadersOf(x).size(), 1);
  EXPECT_EQ(where->index->KeyOf(where->ReadersOf(x)[0]), "turn");
}

TEST_F(DumpDifferenceTest, WhatReadsSomethingThatWasNotComparedIsUnclear) {
  Comparison comparison;
  comparison.tensors = {Compared("x", Verdict::kPass),
                        Compared("size", Verdict::kError)};
  comparison.skipped = {Skipped("turn", SkippedTensor::Kind::kMissing)};
  EXPECT_THAT(KeysThat(DumpedNode::kUnclear, comparison), ElementsAre("size"));
  EXPECT_THAT(KeysThat(DumpedNode::kBegins, comparison), IsEmpty());
  EXPECT_THAT(KeysThat(DumpedNode::kNotCompared, comparison),
              ElementsAre("turn", "grow"));
}

TEST_F(DumpDifferenceTest, AnotherTypeOrHashIsADifference) {
  Comparison comparison;
  comparison.tensors = {Compared("x", Verdict::kPass)};
  comparison.skipped = {Skipped("turn", SkippedTensor::Kind::kOtherHash),
                        Skipped("size", SkippedTensor::Kind::kOtherType)};
  EXPECT_THAT(KeysThat(DumpedNode::kBegins, comparison), ElementsAre("turn"));
  EXPECT_THAT(KeysThat(DumpedNode::kFollows, comparison), ElementsAre("size"));
}

TEST_F(DumpDifferenceTest, TensorsOfEqualHashesAreAlike) {
  Comparison comparison;
  comparison.equal_hashes = 3;
  comparison.skipped = {Skipped("size", SkippedTensor::Kind::kOtherHash)};
  EXPECT_THAT(KeysThat(DumpedNode::kBegins, comparison), ElementsAre("size"));
  EXPECT_THAT(KeysThat(DumpedNode::kAlike, comparison),
              ElementsAre("x", "turn", "grow"));
}

TEST_F(DumpDifferenceTest, WhatIsNotADumpHasNoGraph) {
  EXPECT_THAT(LocateDumpDifference(dump_.spec().path, "/nowhere", {}),
              FailsWith(absl::StatusCode::kNotFound, HasSubstr("/nowhere")));
}

}  // namespace
}  // namespace nodewise
