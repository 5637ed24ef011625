#include "runtime/profile/tvm_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "nodewise/device/device.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Cell = TvmReport::Cell;
using Row = TvmReport::Row;

std::string Text(const Row& row, std::string_view key) {
  const auto place = row.find(key);
  return place == row.end() ? "(none)" : std::get<std::string>(place->second);
}
double Microseconds(const Row& row) {
  return std::get<TvmReport::Duration>(row.at("Duration (us)")).microseconds;
}
double PercentOf(const Row& row) {
  return std::get<TvmReport::Percent>(row.at("Percent")).percent;
}

// A call of 1 or more columns beside its name, time and count.
Row Call(const std::string& name, double us, Row more = {}) {
  more.merge(Row{{"Name", name},
                 {"Duration (us)", TvmReport::Duration{us}},
                 {"Count", int64_t{1}}});
  return more;
}

Ref<TvmReport> ReportOf(std::vector<Row> calls) {
  auto report = MakeRef<TvmReport>();
  report->calls = std::move(calls);
  return report;
}

std::vector<std::string> LinesOf(const std::string& text) {
  return absl::StrSplit(text, '\n');
}

// The names of a table's rows: what stands before the first space of each.
std::vector<std::string> NamesIn(const std::string& table) {
  std::vector<std::string> names;
  for (const std::string& line : LinesOf(table)) {
    if (line.empty()) break;
    names.push_back(line.substr(0, line.find(' ')));
  }
  return names;
}

// x -> conv -> reshape (__nop) -> relu, 40, 0 and 10 us of a run of 80.
Ref<TvmReport> ReportOfRun(const std::vector<DLDevice>& devices) {
  const Graph graph =
      GraphBuilder()
          .Input("x", {.shape = {1, 3}})
          .Op("c", "fused_conv", {"x"}, {{.shape = {1, 4}}})
          .Attr("hash", "a1b2")
          .Attr("data_layout", "NCHW")
          .Attr("other", "not shown")
          .Op("n", "__nop", {"c"}, {{.shape = {4}}})
          .Op("r", "fused_relu", {"n"}, {{.shape = {}, .dtype = "int8"}})
          .Head("r")
          .Build();
  const TimedRun run{.nodes = {{0, 0}, {1000, 41000}, {0, 0}, {50000, 60000}},
                     .whole = {0, 80000}};
  return MakeTvmReport(graph, run, devices, 3);
}

TEST(TvmReportTest, EveryFunctionNodeIsACallAlsoANop) {
  const auto report = ReportOfRun({kCpu, kCpu, kCpu, kCpu});
  ASSERT_EQ(report->calls.size(), 3);
  EXPECT_EQ(Text(report->calls[0], "Name"), "fused_conv");
  EXPECT_EQ(Text(report->calls[1], "Name"), "__nop");
  EXPECT_EQ(Text(report->calls[2], "Name"), "fused_relu");
  EXPECT_EQ(Microseconds(report->calls[0]), 40);
  EXPECT_EQ(Microseconds(report->calls[1]), 0);
  EXPECT_EQ(std::get<int64_t>(report->calls[2].at("Count")), 1);
}

TEST(TvmReportTest, CallSaysShapesDeviceHashAndLayouts) {
  const auto report = ReportOfRun({kCpu, kCpu, kCpu, kCpu});
  const Row& conv = report->calls[0];
  EXPECT_EQ(Text(conv, "Argument Shapes"), "float32[1, 3], float32[1, 4]");
  EXPECT_EQ(Text(conv, "Device"), "cpu0");
  EXPECT_EQ(Text(conv, "Hash"), "a1b2");
  EXPECT_EQ(Text(conv, "data_layout"), "NCHW");
  EXPECT_EQ(Text(conv, "other"), "(none)");
  const Row& relu = report->calls[2];
  EXPECT_EQ(Text(relu, "Argument Shapes"), "float32[4], int8[]");
  EXPECT_EQ(Text(relu, "Hash"), "(none)");
}

TEST(TvmReportTest, PercentIsOfTheLongestDeviceWhichIsTheRun) {
  const DLDevice cuda = MakeDevice(kDLCUDA, 1);
  const auto report = ReportOfRun({kCpu, cuda, kCpu, kCpu});
  EXPECT_EQ(PercentOf(report->calls[0]), 50);
  EXPECT_EQ(PercentOf(report->calls[2]), 12.5);
  ASSERT_EQ(report->device_metrics.size(), 2);
  const Row& total = report->device_metrics.at("cuda1");
  EXPECT_EQ(Microseconds(total), 80);
  EXPECT_EQ(Text(total, "Name"), "Total");
  EXPECT_EQ(Text(total, "Device"), "cuda1");
  EXPECT_FALSE(total.contains("Percent"));
}

TEST(TvmReportTest, RunWithoutTimeHasNoPercents) {
  const Graph graph = AddThenRelu().Build();
  const TimedRun run{.nodes = std::vector<NodeTime>(4), .whole = {}};
  const auto report = MakeTvmReport(graph, run, {kCpu, kCpu, kCpu, kCpu}, 1);
  EXPECT_EQ(PercentOf(report->calls[0]), 0);
}

TEST(TvmReportTest, TableIsThatOfTvm) {
  const auto report = ReportOfRun({kCpu, kCpu, kCpu, kCpu});
  EXPECT_EQ(
      ReportTable(*report, true, true, true),
      "Name        Duration (us)  Percent  Device  Count               "
      "Argument Shapes  Hash  data_layout  \n"
      "fused_conv          40.00    50.00    cpu0      1  float32[1, 3], "
      "float32[1, 4]  a1b2         NCHW  \n"
      "fused_relu          10.00    12.50    cpu0      1            "
      "float32[4], int8[]                     \n"
      "__nop                0.00     0.00    cpu0      1     float32[1, 4], "
      "float32[4]                     \n"
      "----------                                                              "
      " "
      "                           \n"
      "Sum                 50.00    62.50              3                       "
      " "
      "                           \n"
      "Total               80.00             cpu0      1                       "
      " "
      "                           \n"
      "\n"
      "Configuration\n"
      "-------------\n"
      "Executor: Graph\n"
      "Number of threads: 3\n");
}

TEST(TvmReportTest, SumsAreLeftOutOnRequest) {
  const auto report = ReportOfRun({kCpu, kCpu, kCpu, kCpu});
  EXPECT_THAT(
      NamesIn(ReportTable(*report, false, true, false)),
      ElementsAre("Name", "fused_conv", "__nop", "fused_relu", "Total"));
}

TEST(TvmReportTest, SortIsByTimeAndKeepsTheOrderOfEquals) {
  const auto report =
      ReportOf({Call("a", 1), Call("b", 2), Row{{"Name", "untimed"}},
                Call("c", 2), Call("d", 3)});
  EXPECT_THAT(NamesIn(ReportTable(*report, true, false, false)),
              ElementsAre("Name", "d", "b", "c", "a", "untimed"));
  EXPECT_THAT(NamesIn(ReportTable(*report, false, false, false)),
              ElementsAre("Name", "a", "b", "untimed", "c", "d"));
}

TEST(TvmReportTest, CallsOfOneHashAndShapeAndDeviceAreOneRow) {
  const auto call = [](const char* name, const char* hash, const char* shapes,
                       const char* device) {
    return Call(
        name, 1,
        {{"Hash", hash}, {"Argument Shapes", shapes}, {"Device", device}});
  };
  const auto report = ReportOf(
      {call("first", "h", "s", "cpu0"), call("hash", "i", "s", "cpu0"),
       call("shapes", "h", "t", "cpu0"), call("device", "h", "s", "cpu1"),
       call("first", "h", "s", "cpu0")});
  EXPECT_THAT(NamesIn(ReportTable(*report, true, true, false)),
              ElementsAre("Name", "first", "hash", "shapes", "device"));
}

TEST(TvmReportTest, TextsThatOnlyLookAlikeTogetherAreNotAggregated) {
  const auto report = ReportOf({Call("ab", 1, {{"Argument Shapes", "c"}}),
                                Call("a", 1, {{"Argument Shapes", "bc"}})});
  EXPECT_THAT(NamesIn(ReportTable(*report, true, true, false)),
              ElementsAre("Name", "ab", "a"));
}

TEST(TvmReportTest, AggregationAddsAveragesRatiosAndDropsTextsThatDiffer) {
  const auto more = [](double percent, double ratio, const char* layout) {
    return Row{{"Percent", TvmReport::Percent{percent}},
               {"hits", TvmReport::Ratio{ratio}},
               {"layout", layout}};
  };
  const auto report =
      ReportOf({Call("f", 1, more(10, 0.5, "NCHW")),
                Call("f", 2, more(20, 0.25, "NHWC")), Call("f", 4, {})});
  const auto lines = LinesOf(ReportTable(*report, true, true, true));
  EXPECT_EQ(lines[0],
            "Name        Duration (us)  Percent  Device  Count  Argument "
            "Shapes  hits  layout  ");
  EXPECT_EQ(lines[1],
            "f                    7.00    30.00              3                "
            "   0.38          ");
  EXPECT_EQ(lines[3],
            "Sum                  7.00    30.00              3                "
            "                 ");
}

TEST(TvmReportTest, CellsOfTwoKindsHaveNoSum) {
  const auto report =
      ReportOf({Call("f", 1, {{"x", int64_t{1}}}),
                Call("f", 1, {{"x", TvmReport::Percent{1}}}),
                Call("g", 1, {{"x", std::numeric_limits<int64_t>::max()}}),
                Call("g", 1, {{"x", int64_t{1}}})});
  const std::string table = ReportTable(*report, false, true, false);
  EXPECT_THAT(LinesOf(table)[1], Not(HasSubstr("1  1")));
  EXPECT_THAT(LinesOf(table)[2], HasSubstr("9223372036854775807"));
}

TEST(TvmReportTest, NameCanNotBreakTheTable) {
  const auto report = ReportOf({Call("a\nb\x1b[2J", 1), Call("\xC3\xA4", 2)});
  const auto lines = LinesOf(ReportTable(*report, false, false, false));
  EXPECT_THAT(lines[1], StartsWith("a?b?[2J           1.00  "));
  EXPECT_THAT(lines[2], StartsWith("\xC3\xA4                 2.00  "));
}

TEST(TvmReportTest, NumbersFollowTheLocale) {
  lconv locale{};
  char point[] = ",", dot[] = ".", none[] = "";
  char thousands[] = "\3", indian[] = "\3\2", once[] = {3, CHAR_MAX, 0};
  locale.decimal_point = point;
  locale.thousands_sep = dot;
  locale.grouping = thousands;
  EXPECT_EQ(LocalNumber("-1234567.89", locale), "-1.234.567,89");
  EXPECT_EQ(LocalNumber("123.40", locale), "123,40");
  EXPECT_EQ(LocalNumber("123", locale), "123");
  EXPECT_EQ(LocalNumber("-inf", locale), "-inf");
  EXPECT_EQ(LocalNumber("1e+30", locale), "1e+30");
  locale.grouping = indian;
  EXPECT_EQ(LocalNumber("123456789", locale), "12.34.56.789");
  locale.grouping = once;
  EXPECT_EQ(LocalNumber("123456789", locale), "123456.789");
  locale.thousands_sep = none;
  EXPECT_EQ(LocalNumber("123456789", locale), "123456789");
}

TEST(TvmReportTest, CsvHeaderIsSortedByBytesAndMissingCellsAreEmpty) {
  const auto report =
      ReportOf({Call("f", 1234567.5, {{"a", TvmReport::Ratio{0.125}}}),
                Call("g", 2, {{"Hash", "h"}})});
  EXPECT_EQ(ReportCsv(*report),
            "Count,Duration (us),Hash,Name,a\n"
            "1,1.23457e+06,,\"f\",0.125\n"
            "1,2,\"h\",\"g\",\n");
}

TEST(TvmReportTest, CsvDoublesQuotes) {
  const auto report = ReportOf({Row{{"Na\"me", "say \"x\", y"}, {"b", "c"}}});
  EXPECT_EQ(ReportCsv(*report),
            "\"Na\"\"me\",b\n"
            "\"say \"\"x\"\", y\",\"c\"\n");
}

TEST(TvmReportTest, JsonIsThatOfTvm) {
  auto report = ReportOf({Call("f", 0.1)});
  report->device_metrics["cpu0"] = {{"Name", "Total"}};
  report->configuration = {{"Number of threads", int64_t{2}}};
  EXPECT_EQ(ReportJson(*report),
            R"({"calls":[{"Count":{"count":1},)"
            "\"Duration (us)\":{\"microseconds\":0.10000000000000001},"
            R"("Name":{"string":"f"}}],)"
            R"("device_metrics":{"cpu0":{"Name":{"string":"Total"}}},)"
            R"("configuration":{"Number of threads":{"count":2}}})");
}

TEST(TvmReportTest, JsonIsValidForAnyName) {
  for (const char* name : {"\"", "\\", "a\nb", "\x01", "\xC3\xA4", "\xFF"}) {
    const auto report = ReportOf({Row{{name, std::string(name)}}});
    EXPECT_TRUE(nlohmann::json::accept(ReportJson(*report))) << name;
  }
  const auto infinite = ReportOf({Call("f", HUGE_VAL)});
  EXPECT_TRUE(nlohmann::json::accept(ReportJson(*infinite)));
}

TEST(TvmReportTest, JsonComesBackAsItWas) {
  auto report = ReportOfRun({kCpu, kCpu, kCpu, kCpu});
  report->calls.push_back(
      Call("\"quoted\"\n", 0.125,
           {{"hits", TvmReport::Ratio{0.1}}, {"least", INT64_MIN}}));
  report->calls.emplace_back();
  const std::string json = ReportJson(*report);
  const auto read = ParseReport(json);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(ReportJson(**read), json);
  EXPECT_EQ(ReportTable(**read, true, true, true),
            ReportTable(*report, true, true, true));
}

TEST(TvmReportTest, JsonOfOtherOrderAndIntegersIsRead) {
  const auto report = ParseReport(
      "\n{\"calls\": [ {\"Duration (us)\": {\"microseconds\": 3}} ] }");
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(Microseconds((*report)->calls[0]), 3);
  EXPECT_THAT(ParseReport("{}"), IsOk());
}

TEST(TvmReportTest, TextThatIsNotJsonIsRefusedWithLineAndColumn) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "report:1:1: not JSON"},
      {"{\n  x", "report:2:3: not JSON"},
      {"{} {}", "report:1:4: not JSON"},
      {R"({"calls":[{"a":{"percent":1e999}}]})",
       "report:1:31: not JSON: number overflow"},
      {"{\"\xFF\":1}", "report:1:3: not JSON"},
      {R"({"calls":[{)", "report:1:12: not JSON"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ParseReport(text),
                FailsWith(StatusCode::kDataLoss, StartsWith(message)))
        << text;
  }
}

TEST(TvmReportTest, JsonThatIsNotAReportIsRefusedWithItsPath) {
  const std::pair<std::string, const char*> cases[] = {
      {"[]", "report: an array, expected an object"},
      {"7", "report: a number, expected an object"},
      {R"({"x":1})", "report: /x: is not a part of a report, expected calls"},
      {R"({"calls":{}})", "/calls: an object, expected an array"},
      {R"({"calls":[{},[]]})", "/calls/1: an array, expected an obj"},
      {R"({"calls":[null]})", "/calls/0: null, expected an object"},
      {R"({"configuration":[]})", "/configuration: an array, exp"},
      {R"({"device_metrics":{"cpu0":"x"}})",
       "/device_metrics/cpu0: a string, expected an object"},
      {R"({"calls":[{"a":1}]})", "/calls/0/a: a number, expected an obj"},
      {R"({"calls":[{"a":{}}]})", "/calls/0/a: an empty object"},
      {R"({"calls":[{"a":{"b":1}}]})", "/calls/0/a/b: is not a kind of value"},
      {R"({"calls":[{"a":{"count":1,"ratio":1}}]})",
       "/calls/0/a/ratio: is a second value, expected one"},
      {R"({"calls":[{"a":{"count":1.5}}]})",
       "/calls/0/a/count: a number, expected a 64-bit integer"},
      {R"({"calls":[{"a":{"count":9223372036854775808}}]})",
       "/calls/0/a/count: a number, expected a 64-bit integer"},
      {R"({"calls":[{"a":{"percent":true}}]})",
       "/calls/0/a/percent: a boolean, expected a number"},
      {R"({"calls":[{"a":{"string":1}}]})",
       "/calls/0/a/string: a number, expected a string"},
      {R"({"calls":[{"a":{"string":{}}}]})",
       "/calls/0/a/string: an object, expected a string"},
      {R"({"calls":[{"Name":{"count":1}}]})",
       "/calls/0/Name/count: is of another kind, expected a string"},
      {R"({"calls":[{"a":{"count":1},"a":{"count":1}}]})",
       "/calls/0/a: stands here twice"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ParseReport(text),
                FailsWith(StatusCode::kDataLoss,
                          AllOf(StartsWith("report: "), HasSubstr(message))))
        << text;
  }
}

TEST(TvmReportTest, DepthOfATextCostsNothing) {
  const std::string deep(1 << 20, '[');
  EXPECT_THAT(ParseReport(R"({"calls":)" + deep),
              FailsWith(StatusCode::kDataLoss, HasSubstr("/calls/0: ")));
}

TEST(TvmReportTest, TextWhoseTableWouldFillTheMemoryIsRefused) {
  // A column of a megabyte, and a thousand lines.
  std::string text =
      R"({"calls":[{"a":{"string":")" + std::string(1 << 20, 'x') + "\"}}";
  for (int i = 0; i < 1000; ++i) text += ",{}";
  EXPECT_THAT(ParseReport(text + "]}"),
              FailsWith(StatusCode::kDataLoss, HasSubstr("too large")));
  EXPECT_THAT(ParseReport(std::string((64 << 20) + 1, ' ')),
              FailsWith(StatusCode::kDataLoss, HasSubstr("bytes")));
}

TEST(ProfilingFunctionsTest, GiveEveryFormOfAReportThatWasRead) {
  const std::string json = ReportJson(*ReportOf({Call("f", 1), Call("f", 1)}));
  const auto report = FindFunction("runtime.profiling.FromJSON").Call(json);
  ASSERT_THAT(report, IsOk());
  const auto call = [&](const char* name, auto... args) {
    const auto text = FindFunction(name).Call(*report, args...);
    return text.ok() ? *text->template Get<std::string>()
                     : std::string(text.status().message());
  };
  EXPECT_EQ(call("runtime.profiling.AsJSON"), json);
  EXPECT_THAT(call("runtime.profiling.AsCSV"), StartsWith("Count,"));
  EXPECT_THAT(NamesIn(call("runtime.profiling.AsTable", 1, 1, 1)),
              ElementsAre("Name", "f", "----------", "Sum"));
  EXPECT_THAT(NamesIn(call("runtime.profiling.AsTable", 1, 0, 0)),
              ElementsAre("Name", "f", "f"));
}

TEST(ProfilingFunctionsTest, RefuseWhatIsNotAReport) {
  EXPECT_THAT(
      FindFunction("runtime.profiling.AsCSV").Call("text"),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("a profiling report")));
  EXPECT_THAT(FindFunction("runtime.profiling.FromJSON").Call("{"),
              FailsWith(StatusCode::kDataLoss, StartsWith("report:1:")));
}

}  // namespace
}  // namespace nodewise
