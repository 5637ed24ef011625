#include "nodewise/report/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/report/report.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// A report with lines, a table, notes and a graph of three nodes.
Report Told() {
  Report report;
  report.status = Report::Status::kDiffers;
  report.text += "culprit: b, broken\n";
  TextTable table;
  for (int i = 0; i < 30; ++i) table.AddRow({"row", std::to_string(i)});
  report.text.Add(table, 2, 20);
  report.text += "the end\n";
  report.notes = {"a note"};
  report.json.AddRaw("graph",
                     R"({"nodes": [{"node": "x", "function": "", "reads": []},
                     {"node": "a", "function": "f", "reads": [0]},
                     {"node": "b<&", "function": "f", "reads": [1]},
                     {"node": "c", "function": "f", "reads": [2]}]})");
  report.json.AddRaw("verdicts",
                     R"([{"node": "a", "node_index": 1, "kind": "healthy"},
          {"node": "b<&", "node_index": 2, "kind": "broken", "reason": "off"},
          {"node": "c", "node_index": 3, "kind": "healthy"}])");
  report.json.AddRaw(
      "culprits",
      R"([{"node": "b<&", "node_index": 2, "kind": "broken", "explanations":
          [{"source_node": "pool", "what": "AveragePool instead of MaxPool"}]
         }])");
  return report;
}

std::string Document(const Report& report) {
  return DocumentOf(report, {"locate", {"nodewise", "locate", "net"}});
}

TEST(ArchiveTest, WhatWasToldComesBack) {
  const auto archive = ParseArchive(Document(Told()), "a.json");
  ASSERT_THAT(archive, IsOk());
  EXPECT_EQ(archive->verb, "locate");
  EXPECT_EQ(archive->status, "differs");
  EXPECT_THAT(archive->command, ElementsAre("nodewise", "locate", "net"));
  EXPECT_THAT(archive->notes, ElementsAre("a note"));
  EXPECT_EQ(ReportOf(*archive).text.ToString(), Told().text.ToString());
}

TEST(ArchiveTest, AListThatWasCutCanBeShownWhole) {
  const auto archive = ParseArchive(Document(Told()), "a.json");
  ASSERT_THAT(archive, IsOk());
  EXPECT_THAT(archive->text.ToString(), HasSubstr("... 10 more"));
  EXPECT_THAT(archive->text.ToString({0, true}),
              AllOf(HasSubstr("row  29\n"), Not(HasSubstr("more"))));
}

TEST(ArchiveTest, MembersThatAreNotKnownAreSkipped) {
  Report report = Told();
  report.json.Add("from_tomorrow", true);
  EXPECT_THAT(ParseArchive(Document(report), "a.json"), IsOk());
}

TEST(ArchiveTest, ANewerKindIsRefusedByName) {
  std::string text = Document(Told());
  text.replace(text.find("nodewise/1"), 10, "nodewise/2");
  EXPECT_THAT(ParseArchive(text, "a.json"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("a.json: "), HasSubstr("nodewise/2"),
                              HasSubstr("newer"))));
}

TEST(ArchiveTest, WhatIsNotAnArchiveIsRefused) {
  for (const char* text : {"", "[]", "{}", "{\"schema\": 1}", "{\"a\":", "1"}) {
    EXPECT_THAT(
        ParseArchive(text, "a.json"),
        FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("a.json: ")))
        << text;
  }
}

TEST(ArchiveTest, AMemberOfAnotherTypeIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("notes": 3)", "/notes: expected an array of texts"},
      {R"("report": {})", "/report: expected an array"},
      {R"("report": [{"rows": 1}])", "/report/rows: expected an array"},
      {R"("graph": {"nodes": [{"reads": [0]}]})",
       "/graph/nodes/reads: expected numbers of nodes before it"},
      {R"("graph": {"nodes": [{"reads": []}]}, "verdicts":
          [{"node_index": 7}])",
       "/node_index: expected the number of a node"},
  };
  for (const auto& [member, message] : cases) {
    const std::string text =
        R"({"schema": "nodewise/1", )" + std::string(member) + "}";
    EXPECT_THAT(ParseArchive(text, "a.json"),
                FailsWith(absl::StatusCode::kDataLoss, HasSubstr(message)));
  }
}

TEST(ArchiveTest, ATableThatOneLongCellMakesHugeIsRefused) {
  const std::string long_cell(100'000, 'a');
  std::string rows = "[\"" + long_cell + "\", \"b\"]";
  for (int i = 0; i < 1000; ++i) rows += R"(, ["", "b"])";
  EXPECT_THAT(ParseArchive(R"({"schema": "nodewise/1", "report": [{"rows": [)" +
                               rows + "]}]}",
                           "a.json"),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("expected tables that take at most")));
}

TEST(ArchiveTest, ARowOfVeryManyCellsIsRefused) {
  std::string row = "\"\"";
  for (int i = 0; i < 64; ++i) row += ", \"\"";
  EXPECT_THAT(
      ParseArchive(
          R"({"schema": "nodewise/1", "report": [{"rows": [[)" + row + "]]}]}",
          "a.json"),
      FailsWith(absl::StatusCode::kDataLoss, HasSubstr("at most 64 cells")));
}

TEST(PictureTest, TheCulpritIsMarkedAndWhatIsBehindItIsGrey) {
  const auto archive = ParseArchive(Document(Told()), "a.json");
  ASSERT_THAT(archive, IsOk());
  const auto picture = PictureOf(*archive);
  ASSERT_THAT(picture, IsOk());
  EXPECT_THAT(*picture,
              AllOf(HasSubstr("b&lt;&amp;"),
                    HasSubstr("AveragePool instead of MaxPool"),
                    HasSubstr("right on what it reads"), HasSubstr("</svg>")));
}

TEST(PictureTest, OfTwoDumpsItDoesNotSayWhatIsRight) {
  const auto archive = ParseArchive(
      R"({"schema": "nodewise/1", "graph": {"nodes": [
          {"node": "a", "function": "f", "reads": []},
          {"node": "b", "function": "f", "reads": [0]},
          {"node": "c", "function": "f", "reads": [0]}]},
          "culprits": [{"node_index": 0, "kind": "differs"}],
          "verdicts": [{"node_index": 1, "kind": "follows"},
          {"node_index": 2, "kind": "alike"}]})",
      "a.json");
  ASSERT_THAT(archive, IsOk());
  const auto picture = PictureOf(*archive);
  ASSERT_THAT(picture, IsOk());
  EXPECT_THAT(*picture,
              AllOf(HasSubstr("reads what differs"), HasSubstr(">alike<"),
                    Not(HasSubstr("right on what it reads"))));
}

TEST(PictureTest, NodesFarFromTheCulpritAreLeftOut) {
  const auto archive = ParseArchive(Document(Told()), "a.json");
  ASSERT_THAT(archive, IsOk());
  PictureOptions near;
  near.steps_before = 1;
  near.steps_behind = 0;
  const auto picture = PictureOf(*archive, near);
  ASSERT_THAT(picture, IsOk());
  EXPECT_THAT(*picture,
              AllOf(HasSubstr(">a</text>"), Not(HasSubstr(">c</text>")),
                    HasSubstr("stroke-dasharray")));
}

TEST(PictureTest, AnArchiveWithoutAGraphHasNone) {
  Report report;
  report.text += "fine\n";
  const auto archive = ParseArchive(Document(report), "a.json");
  ASSERT_THAT(archive, IsOk());
  EXPECT_THAT(PictureOf(*archive), FailsWith(absl::StatusCode::kNotFound,
                                             HasSubstr("has no graph")));
}

}  // namespace
}  // namespace nodewise
