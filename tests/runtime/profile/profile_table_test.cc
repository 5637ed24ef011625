#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "nodewise/profile/profile.h"
#include "tests/runtime/profile/profile_support.h"
#include "tests/support/fixtures.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string TableOf(const Graph& graph, const Profile& profile,
                    const TableOptions& options) {
  const ProfileSummary summary = Summarised(graph, profile);
  return ProfileTable(graph, summary, profile, options);
}

class ClockTableTest : public testing::Test {
 protected:
  void SetUp() override { SetZone("UTC0"); }
  void TearDown() override {
    unsetenv("TZ");
    tzset();
  }
  static void SetZone(const char* zone) {
    setenv("TZ", zone, 1);
    tzset();
  }
};

// TV-35, TV-36, TV-37, TV-38, TV-40, TV-41, TV-42.
TEST_F(ClockTableTest, HasTheColumnsAndTheRuleOfTheDocumentation) {
  const Profile profile = ProfileOf({RunOf({0, 56524, 213108600})});
  EXPECT_EQ(TableOf(ThreeNodes(), profile, {}),
            "Node Name  Ops             Time(us)  Time(%)  Start Time       "
            "End Time         Shape       Inputs  Outputs  \n"
            "---------  ---             --------  -------  ----------       "
            "--------         -----       ------  -------  \n"
            "a          fused_a         56.52     0.03     15:24:44.177475  "
            "15:24:44.177532  (64, 1, 1)  1       1        \n"
            "b          fused_b_longer  213108.6  99.97    15:24:44.177532  "
            "15:24:44.390641  (3,)        2       2        ");
}

// TV-43 and TV-44: a tensor that is read twice is two inputs of the call.
TEST_F(ClockTableTest, InputsAndOutputsAreThoseOfTheCall) {
  Graph graph = GraphBuilder()
                    .Input("x")
                    .Op("square", "multiply", {"x", "x"}, {{}, {}, {}})
                    .Build();
  graph.nodes[1].num_inputs = 7;  // A number that nothing reads.
  const std::string table = TableOf(graph, ProfileOf({RunOf({0, 1000})}), {});
  EXPECT_THAT(LinesOf(table)[2], HasSubstr("  (4,)   2       3"));
  const auto measurements = LinesOf(TableOf(
      graph, ProfileOf({RunOf({0, 1000})}), {TableLayout::kMeasurements}));
  EXPECT_THAT(measurements[2], HasSubstr("  (4,)   2       3"));
}

// TV-39.
TEST_F(ClockTableTest, SharesAreRoundedOneByOneAndNeedNotAddUp) {
  const auto small = LinesOf(
      TableOf(ThreeNodes(), ProfileOf({RunOf({0, 56520, 365586280})}), {}));
  EXPECT_THAT(small[2], testing::ContainsRegex(" 56.52 +0.02 "));
  GraphBuilder four;
  four.Input("x");
  for (const char* name : {"a", "b", "c", "d"}) four.Op(name, "f", {"x"});
  const auto lines = LinesOf(TableOf(
      four.Build(), ProfileOf({RunOf({0, 1000, 1000, 1000, 3000})}), {}));
  for (const size_t row : {2, 3, 4}) {
    EXPECT_THAT(lines[row], testing::ContainsRegex(" 1.0 +16.67 "));
  }
  EXPECT_THAT(lines[5], testing::ContainsRegex(" 3.0 +50.0 "));
}

// TV-40.
TEST_F(ClockTableTest, ClockIsLocal) {
  SetZone("XXX-05:30");
  const Profile profile = ProfileOf({RunOf({0, 1000, 1000})});
  EXPECT_THAT(TableOf(ThreeNodes(), profile, {}),
              HasSubstr("  20:54:44.177475  20:54:44.177476  "));
}

TEST_F(ClockTableTest, EndIsTheStartOfTheNodeThatFollows) {
  for (const int64_t ns : {1, 999, 1000, 1001, 1994, 1996, 12345, 999999999}) {
    for (const int64_t start : {1000, 1001, 1500, 1999}) {
      const TimedRun run = RunOf({0, ns, 5}, start);
      const auto lines = LinesOf(TableOf(ThreeNodes(), ProfileOf({run}), {}));
      std::istringstream first(lines[2]), second(lines[3]);
      std::string skipped, end, next_start;
      first >> skipped >> skipped >> skipped >> skipped >> skipped >> end;
      second >> skipped >> skipped >> skipped >> skipped >> next_start;
      EXPECT_EQ(end, next_start);
      EXPECT_THAT(end, StartsWith("15:24:4"));
    }
  }
}

TEST_F(ClockTableTest, TimeAndClockAreThoseOfTheMeanRun) {
  const Profile profile =
      ProfileOf({RunOf({0, 1000, 1000}), RunOf({0, 2000, 4000}, 9000000)});
  const auto lines = LinesOf(TableOf(ThreeNodes(), profile, {}));
  EXPECT_THAT(lines[2], StartsWith("a          fused_a         1.5       37.5 "
                                   "    15:24:44.177475  15:24:44.177477  "));
  EXPECT_THAT(lines[3], StartsWith("b          fused_b_longer  2.5       62.5 "
                                   "    15:24:44.177477  15:24:44.177480  "));
}

// Returns the columns Time(us), Start Time and End Time of each row, the clock
// in microseconds of its minute.
std::vector<std::array<double, 3>> ClockColumns(const std::string& table) {
  std::vector<std::array<double, 3>> rows;
  const std::vector<std::string> lines = LinesOf(table);
  for (size_t i = 2; i < lines.size(); ++i) {
    std::istringstream line(lines[i]);
    std::string skipped, start, end;
    double time = 0;
    line >> skipped >> skipped >> time >> skipped >> start >> end;
    rows.push_back({time, std::stod(start.substr(6)) * 1e6,
                    std::stod(end.substr(6)) * 1e6});
  }
  return rows;
}

// TV-41 and TV-46, of the table as it is printed: short nodes too, whose times
// all are lost in rounding.
TEST_F(ClockTableTest, RowsTakeTheirTimeAndDoNotOverlap) {
  for (const int64_t start : {0, 1, 999, 123456}) {
    GraphBuilder graph;
    graph.Input("x");
    std::vector<int64_t> durations = {0};
    for (int i = 0; i < 50; ++i) {
      graph.Op(fmt::format("n{}", i), "f", {"x"});
      durations.push_back(i * 377 % 4001);
    }
    std::vector<int64_t> others = durations;
    for (int64_t& ns : others) ns = ns * 3 / 2;
    const Profile profile =
        ProfileOf({RunOf(durations, start), RunOf(others, 9000000)});
    double last_end = 0;
    const auto rows = ClockColumns(TableOf(graph.Build(), profile, {}));
    ASSERT_EQ(rows.size(), 50);
    for (const auto& [time, row_start, row_end] : rows) {
      EXPECT_GE(row_end - row_start + 1e-4, time);
      EXPECT_GE(row_start, last_end);
      last_end = row_end;
    }
  }
}

TEST_F(ClockTableTest, NodeThatTookNoTimeStandsWhereTheOneBeforeItEnded) {
  const Profile profile = ProfileOf({RunOf({0, 3000, 0})});
  EXPECT_THAT(LinesOf(TableOf(ThreeNodes(), profile, {}))[3],
              HasSubstr(" 0.0       0.0      15:24:44.177478  "
                        "15:24:44.177478  "));
}

TEST_F(ClockTableTest, WithoutARunThereIsNoClock) {
  EXPECT_THAT(LinesOf(TableOf(ThreeNodes(), ProfileOf({}), {}))[2],
              HasSubstr("0.0       0.0      -           -         (64"));
}

// TV-45.
TEST_F(ClockTableTest, SortingKeepsTheOrderOfEqualTimes) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Op("a", "f", {"x"})
                          .Op("b", "f", {"a"})
                          .Op("c", "f", {"b"})
                          .Op("d", "f", {"c"})
                          .Build();
  const Profile profile = ProfileOf({RunOf({0, 2001, 3000, 2002, 3000})});
  const auto lines = LinesOf(
      TableOf(graph, profile, {TableLayout::kClock, /*sort_by_time=*/true}));
  ASSERT_EQ(lines.size(), 6u);
  std::string order;
  for (size_t i = 2; i < 6; ++i) order += lines[i][0];
  EXPECT_EQ(order, "bdac");
}

TEST_F(ClockTableTest, RowsLeftOutAreCounted) {
  const Profile profile = ProfileOf({RunOf({0, 1000, 2000})});
  const auto lines =
      LinesOf(TableOf(ThreeNodes(), profile, {TableLayout::kClock, true, 1}));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[2], StartsWith("b "));
  EXPECT_EQ(lines[3], "(1 more row)");
}

TEST_F(ClockTableTest, AnyNameStaysOnItsLine) {
  const Profile profile = ProfileOf({RunOf({0, 1000, 2000})});
  Graph graph = ThreeNodes();
  graph.nodes[1].name = std::string("l\n\r\t\x7f\0\x80\xC3\xA9", 9);
  graph.nodes[2].name = std::string(10240, 'n');
  const auto lines = LinesOf(TableOf(graph, profile, {}));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[2], StartsWith("l\\x0a\\x0d\\x09\\x7f\\x00\\x80\xC3\xA9 "));
  EXPECT_THAT(lines[3], StartsWith(std::string(500, 'n') + "...  fused"));
  EXPECT_EQ(lines[2].size(), lines[3].size() + 1);  // One character of two.
}

TEST_F(ClockTableTest, LineOfATerminalFitsItsWidth) {
  Graph graph = ThreeNodes();
  graph.nodes[1].name = "fused_" + std::string(80, 'a') + "_1";
  graph.nodes[1].function = "fused_" + std::string(200, 'b');
  TableOptions options;
  options.line_width = 120;
  const Profile profile = ProfileOf({RunOf({0, 1000, 2000})});
  for (const auto& line : LinesOf(TableOf(graph, profile, options))) {
    EXPECT_LE(line.size(), 120u) << line;
  }
}

TEST_F(ClockTableTest, NameThatIsTooLongForTheLineKeepsItsEnd) {
  Graph graph = ThreeNodes();
  graph.nodes[1].name = "fused_" + std::string(80, 'a') + "_1";
  TableOptions options;
  options.line_width = 120;
  const Profile profile = ProfileOf({RunOf({0, 1000, 2000})});
  EXPECT_THAT(LinesOf(TableOf(graph, profile, options))[2],
              testing::ContainsRegex("^fused_a+\\.\\.\\.a+_1  fused_a  "));
}

TEST_F(ClockTableTest, OnATerminalAColumnThatRepeatsTheNamesIsLeftOut) {
  Graph graph = ThreeNodes();
  for (GraphNode& node : graph.nodes) node.function = node.name;
  TableOptions options;
  options.line_width = 120;
  const Profile profile = ProfileOf({RunOf({0, 1000, 2000})});
  EXPECT_THAT(LinesOf(TableOf(graph, profile, options))[0],
              StartsWith("Node Name  Time(us)  "));
}

TEST(MeasurementsTableTest, NodeWithTwoOutputsHasTwoRowsAndCountsOnce) {
  Profile profile;
  profile.isolated = {{}, {3e-6, 5e-6}, {12e-6, 12e-6}};
  EXPECT_EQ(
      TableOf(ThreeNodes(), profile, {TableLayout::kMeasurements, true}),
      "Node Name   Ops             Time(us)  Time(%)  Shape       Inputs  "
      "Outputs  Measurements(us)  \n"
      "---------   ---             --------  -------  -----       ------  "
      "-------  ----------------  \n"
      "b           fused_b_longer  12.0      75.0     (3,)        2       "
      "2        [12.0, 12.0]      \n"
      "b           fused_b_longer  12.0      75.0     ()          2       "
      "2        [12.0, 12.0]      \n"
      "a           fused_a         4.0       25.0     (64, 1, 1)  1       "
      "1        [3.0, 5.0]        \n"
      "Total_time  -               16.0      -        -           -       "
      "-        -                 ");
}

TEST(MeasurementsTableTest, ShowsTheRunsWhereNothingWasMeasuredByItself) {
  const Profile profile = ProfileOf({RunOf({0, 1000, 1}), RunOf({0, 2500, 1})});
  const std::string table =
      TableOf(ThreeNodes(), profile, {TableLayout::kMeasurements});
  EXPECT_THAT(table, HasSubstr("  [1.0, 2.5] "));
  EXPECT_THAT(table, Not(HasSubstr("Total_time")));
}

class TvmTableTest : public testing::TestWithParam<std::string> {};

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The table itself has too few digits to compute its percentages from.
std::vector<std::vector<double>> TimesOfTrace(const std::string& path) {
  std::vector<std::vector<double>> times;
  double begin = 0;
  const json trace = json::parse(ReadAll(path));
  for (const json& event : trace["traceEvents"]) {
    const double ts = event["ts"];
    if (event["ph"] == "E") times.push_back({(ts - begin) * 1e-6});
    begin = ts;
  }
  return times;
}

// TV-38, TV-39.
TEST_P(TvmTableTest, IsThatOfTvmByteForByte) {
  const std::string debug = GetParam() + "/tvm_debug/";
  const auto graph =
      ParseGraph(GraphText::FromFile(GetParam() + "/graph.json").value());
  ASSERT_THAT(graph, IsOk());
  Profile profile;
  profile.isolated =
      TimesOfTrace(debug + "_tvmdbg_device_CPU_0/_tvmdbg_execution_trace.json");
  std::string expected = ReadAll(debug + "table.txt");
  if (expected.ends_with('\n')) expected.pop_back();
  EXPECT_EQ(TableOf(*graph, profile, {TableLayout::kMeasurements, true}),
            expected);
}

INSTANTIATE_TEST_SUITE_P(Tvm, TvmTableTest,
                         testing::ValuesIn(FixtureFolders("tvm-0.14")),
                         [](const testing::TestParamInfo<std::string>& info) {
                           return FixtureName(info.param);
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TvmTableTest);

TEST(TvmTableTest, FixturesAreThere) {
  if (FixturesFolder().empty()) {
    GTEST_SKIP() << "no ../shared/fixtures: tables of real TVM not compared";
  }
  EXPECT_GE(FixtureFolders("tvm-0.14").size(), 9u);
}

TEST(MeasurementsTableTest, GraphWithoutNodesHasAnEmptyTable) {
  for (const Graph& graph :
       {GraphBuilder().Build(), GraphBuilder().Input("x").Head("x").Build()}) {
    const Profile profile = ProfileOf({RunOf({0})});
    const ProfileSummary summary = Summarised(graph, profile);
    EXPECT_EQ(summary.peak_live_bytes, 16u * graph.nodes.size());
    EXPECT_EQ(LinesOf(ProfileTable(graph, summary, profile, {})).size(), 2u);
    EXPECT_EQ(LinesOf(ProfileCsv(graph, summary, profile)).size(), 1u);
    EXPECT_TRUE(
        json::parse(ProfileJson(GraphIndex(graph), summary, profile))["nodes"]
            .empty());
    EXPECT_THAT(TableOf(graph, profile, {TableLayout::kMeasurements, true}),
                HasSubstr("Total_time  -    0.0 "));
  }
}

TEST(ProfileFooterTest, ComparesTheRunWithItsNodesAndWithAPlainRun) {
  Profile profile = ProfileOf({RunOf({0, 2000, 2000})});
  profile.runs[0].whole.end_ns += 1000;
  profile.plain_ns = {4000, 4200};
  profile.notes = {"cycles: not counted\nhere"};
  const Graph graph = ThreeNodes();
  const std::string footer = ProfileFooter(Summarised(graph, profile), profile);
  EXPECT_THAT(
      LinesOf(footer),
      ElementsAre("nodes              4.00 us  sum of the means of 2 nodes",
                  "debug run          5.00 us  mean of 1",
                  "rest               1.00 us  20.00 % of the debug run, in no "
                  "node",
                  "plain run          4.10 us  median of 2; min 4.00, mean "
                  "4.10",
                  "cost               0.90 us  21.95 % of the plain run, by "
                  "the means",
                  "memory     288 bytes (0.00 MiB) needed at most at once, by "
                  "the storage plan",
                  "note       cycles: not counted\\x0ahere"));
}

TEST(ProfileFooterTest, PlainRunThatWasNotMeasuredIsSaid) {
  const Graph graph = ThreeNodes();
  const std::string footer =
      ProfileFooter(Summarised(graph, Profile()), Profile());
  EXPECT_THAT(footer,
              HasSubstr("\nplain run             -     not measured\n"));
}

TEST(ProfileCsvTest, HasEveryFigure) {
  Profile profile = ProfileOf({RunOf({0, 1000, 2000}), RunOf({0, 3000, 2000})});
  profile.isolated = {{}, {5e-7, 7e-7}};
  profile.counters = {{"cycles", {0, 12.5, std::nan("")}}};
  const Graph graph = ThreeNodes();
  const auto lines =
      LinesOf(ProfileCsv(graph, Summarised(graph, profile), profile));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], AllOf(StartsWith("node,name,op,inputs,outputs,shapes,"),
                              EndsWith(",gb_per_s,live_bytes,cycles")));
  EXPECT_EQ(lines[1],
            "1,a,fused_a,1,1,\"(64, 1, 1)\",2.0,1.0,2.0,3.0,3.0,3.0,1.0,50.0,"
            "1.0; 3.0,1000,2000,0.6,0.5; 0.7,16,256,0.136,272,12.5");
  EXPECT_THAT(lines[2], AllOf(StartsWith("2,b,fused_b_longer,2,2,"
                                         "\"(3,); ()\",2.0,"),
                              EndsWith(",,,272,16,0.144,288,")));
}

TEST(ProfileCsvTest, NameIsQuotedWhereItMustBe) {
  Graph graph = ThreeNodes();
  graph.nodes[1].name = "a,\"b\"\r\nc";
  graph.nodes[2].name = std::string("\0\xFF", 2);
  const Profile profile;
  const std::string csv =
      ProfileCsv(graph, Summarised(graph, profile), profile);
  EXPECT_THAT(csv, HasSubstr("\n1,\"a,\"\"b\"\"\\x0d\\x0ac\",fused_a,"));
  EXPECT_THAT(csv, HasSubstr("\n2,\\x00\\xff,fused_b"));
}

TEST(ProfileJsonTest, KeepsTheTwoMeasurementsApart) {
  Profile profile = ProfileOf({RunOf({0, 1000, 2000}), RunOf({0, 3000, 2000})});
  profile.isolated = {{}, {5e-7, 7e-7}, {}};
  const Graph graph = ThreeNodes();
  const json out = json::parse(
      ProfileJson(GraphIndex(graph), Summarised(graph, profile), profile));
  const json& a = out["nodes"][0];
  EXPECT_EQ(a["in_place"]["mean_us"], 2.0);
  EXPECT_EQ(a["in_place"]["runs_us"], json({1.0, 3.0}));
  EXPECT_EQ(a["in_place"]["intervals_ns"],
            json::parse("[[1000, 2000], [1000, 4000]]"));
  EXPECT_EQ(a["isolated"]["repeats_us"].size(), 2u);
  EXPECT_TRUE(out["nodes"][1]["isolated"].is_null());
  EXPECT_EQ(out["debug_runs_ns"], json::parse("[[1000, 4000], [1000, 6000]]"));
}

TEST(ProfileJsonTest, NopLiesWhereTheNodeBeforeItEnded) {
  const Graph graph = GraphBuilder()
                          .Input("x", {{4}, "float32", 0})
                          .Op("first", "__nop", {"x"}, {{{4}, "float32", 0}})
                          .Op("a", "f", {"first"}, {{{4}, "float32", 1}})
                          .Op("n", "__nop", {"a"}, {{{2, 2}, "float32", 1}})
                          .Op("b", "f", {"n"})
                          .Head("b")
                          .Build();
  const Profile profile =
      ProfileOf({RunOf({0, 0, 7, 0, 5}), RunOf({0, 0, 3, 0, 4}, 2000)});
  const ProfileSummary summary = Summarised(graph, profile);
  const json nodes =
      json::parse(ProfileJson(GraphIndex(graph), summary, profile))["nodes"];
  const auto intervals = [&](size_t row) {
    return nodes[row]["in_place"]["intervals_ns"];
  };
  EXPECT_EQ(intervals(0), json::parse("[[1000, 1000], [2000, 2000]]"));
  EXPECT_EQ(intervals(2), json::parse("[[1007, 1007], [2003, 2003]]"));
  EXPECT_EQ(intervals(3), json::parse("[[1007, 1012], [2003, 2007]]"));
  // The CSV says so of the first run.
  EXPECT_EQ(intervals(2)[0][0], summary.nodes[2].first_start_ns);
  EXPECT_EQ(intervals(2)[0][1], summary.nodes[2].first_end_ns);
}

TEST(ProfileJsonTest, NumbersAreReadBackAsTheyWere) {
  Profile profile = ProfileOf({RunOf({0, 1, 3})});
  profile.isolated = {{}, {1.0 / 3e6}, {0.1}};
  profile.counters = {{"huge", {0, 1e300, std::nan("")}}};
  const Graph graph = ThreeNodes();
  const ProfileSummary summary = Summarised(graph, profile);
  const json nodes =
      json::parse(ProfileJson(GraphIndex(graph), summary, profile))["nodes"];
  EXPECT_EQ(nodes[0]["isolated"]["mean_us"].get<double>(),
            summary.nodes[0].isolated_us[0]);
  EXPECT_EQ(nodes[0]["gb_per_s"].get<double>(), summary.nodes[0].gb_per_s);
  EXPECT_EQ(nodes[0]["counters"]["huge"].get<double>(), 1e300);
  EXPECT_TRUE(nodes[1]["counters"]["huge"].is_null());
}

TEST(ProfileJsonTest, IsJsonForAnyNameOfANode) {
  std::string every;
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  Graph graph = ThreeNodes();
  const Profile profile = ProfileOf({RunOf({0, 1, 3})});
  for (const std::string& name :
       {every, std::string(10240, '"'), std::string("\xED\xA0\x80"),
        std::string("\xF0\x9F\x98"), std::string("</script>,\n\r\\")}) {
    graph.nodes[1].name = graph.nodes[1].function = name;
    const json out = json::parse(
        ProfileJson(GraphIndex(graph), Summarised(graph, profile), profile));
    EXPECT_EQ(out["nodes"][0]["name"], out["nodes"][0]["op"]);
  }
  EXPECT_EQ(graph.nodes[1].name, "</script>,\n\r\\");
}

}  // namespace
}  // namespace nodewise
