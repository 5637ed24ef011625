#include "nodewise/graph/finding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nodewise {
namespace {

using ::testing::HasSubstr;

constexpr FindingKind kClause = {"clause", "test", Severity::kWarning,
                                 "a clause of its own"};
constexpr FindingKind kPredicate = {"predicate", "test", Severity::kError,
                                    "continues the place", true};

const NodePlace kNode = {NodeId{2}, "f#2", "node 2 (f)"};

std::string JsonOf(const Finding& finding) {
  JsonWriter json;
  AddFindings("findings", {finding}, &json);
  return json.Document();
}

TEST(FindingTest, KindSaysWhetherAColonFollowsThePlace) {
  EXPECT_EQ(MakeFinding(kClause, kNode, "its output differs").ToString(),
            "node 2 (f): its output differs");
  EXPECT_EQ(MakeFinding(kPredicate, kNode, "wrote 4 bytes").ToString(),
            "node 2 (f) wrote 4 bytes");
}

TEST(FindingTest, TextHasAllParts) {
  Finding finding =
      MakeFinding(kClause, FilePlace{"g.json", "/heads/0", 3, 7}, "node 9");
  finding.expected = "one of 3 nodes";
  finding.hint = "mend it";
  EXPECT_EQ(finding.ToString(),
            "g.json:3:7: /heads/0: node 9, expected one of 3 nodes (mend it)");
  EXPECT_EQ(MakeFinding(kClause, NamedPlace{}, "no place").ToString(),
            "no place");
}

TEST(FindingTest, HasTheSeverityOfItsKind) {
  EXPECT_EQ(MakeFinding(kClause, kNode, "x").severity, Severity::kWarning);
  EXPECT_EQ(MakeFinding(kPredicate, kNode, "x").severity, Severity::kError);
}

TEST(FindingTest, NodeAtFaultIsThatOfANodeOrAnEntry) {
  EXPECT_EQ(MakeFinding(kClause, kNode, "x").node()->node, NodeId{2});
  EXPECT_EQ(MakeFinding(kClause, EntryPlace{kNode, EntryId{5}, "a:0"}, "x")
                .node()
                ->key,
            "f#2");
  EXPECT_EQ(MakeFinding(kClause, FilePlace{"f", "p"}, "x").node(), nullptr);
}

TEST(FindingTest, NumbersAreFoundByName) {
  const Finding finding = MakeFinding(
      kClause, kNode, "x",
      {{"offset", int64_t{-8}}, {"bytes", uint64_t{4}}, {"largest", 0.5}});
  EXPECT_EQ(finding.Number("offset"), -8);
  EXPECT_EQ(finding.Number("bytes"), 4);
  EXPECT_EQ(finding.Number("largest"), 0.5);
  EXPECT_EQ(finding.Number("other"), std::nullopt);
}

TEST(FindingTest, JsonHasEveryMemberInItsOrder) {
  constexpr std::string_view kExpected = R"json({
  "findings": [
    {
      "where": "node 2 (f)",
      "found": "wrote",
      "expected": "",
      "hint": "",
      "node": "f#2",
      "text": "node 2 (f) wrote",
      "kind": "predicate",
      "severity": "error",
      "part": "test",
      "place": {
        "node": "f#2",
        "node_index": 2,
        "entry": "a:0",
        "entry_index": 5
      },
      "numbers": {
        "offset": -8,
        "address": 18446744073709551615
      }
    }
  ]
}
)json";
  const EntryPlace place = {kNode, EntryId{5}, "a:0"};
  EXPECT_EQ(
      JsonOf(MakeFinding(kPredicate, place, "wrote",
                         {{"offset", int64_t{-8}}, {"address", UINT64_MAX}})),
      kExpected);
}

TEST(FindingTest, JsonOfEachPlaceIsTyped) {
  EXPECT_THAT(JsonOf(MakeFinding(kClause, NamedPlace{"--dim"}, "x")),
              HasSubstr("\"place\": {\n        \"name\": \"--dim\"\n"));
  EXPECT_THAT(JsonOf(MakeFinding(kClause, FilePlace{"g", "/a", 3, 7}, "x")),
              HasSubstr("\"file\": \"g\",\n        \"path\": \"/a\",\n"
                        "        \"line\": 3,\n        \"column\": 7\n"));
  EXPECT_THAT(JsonOf(MakeFinding(kClause, FilePlace{"p", "byte 4"}, "x")),
              HasSubstr("\"file\": \"p\",\n        \"path\": \"byte 4\"\n"));
  EXPECT_THAT(
      JsonOf(MakeFinding(kClause, OperationPlace{"operation c", "c", ""}, "x")),
      HasSubstr("\"place\": {\n        \"operation\": \"c\"\n"));
}

TEST(FindingTest, FaultOfAFileKeepsItsPlaceAndSeverity) {
  Diagnostic diagnostic = {
      Severity::kWarning, "g.json", "/a", 3, 7, "found", "this", "do"};
  const Finding finding = FindingOf(diagnostic, finding_kinds::kFaultyFile);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  const FilePlace place = {"g.json", "/a", 3, 7};
  EXPECT_EQ(finding.place, FindingPlace(place));
  EXPECT_EQ(finding.ToString(), diagnostic.ToString());
}

TEST(FindingTest, ErrorWithoutAPlaceInAFileIsAtWhatItNames) {
  const Finding finding =
      FindingOf(absl::InvalidArgumentError("--dim: found x, expected y (z)"));
  EXPECT_EQ(finding.kind, finding_kinds::kCannotJudge);
  EXPECT_EQ(finding.place, FindingPlace(NamedPlace{"--dim"}));
  EXPECT_EQ(finding.ToString(), "--dim: found x, expected y (z)");
}

}  // namespace
}  // namespace nodewise
