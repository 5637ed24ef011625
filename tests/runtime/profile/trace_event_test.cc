#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nodewise/dump/dump.h"
#include "nodewise/profile/profile.h"
#include "runtime/profile/profile_text.h"
#include "tests/support/fixtures.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::nlohmann::json;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// `nanoseconds` is by node.
std::string TvmTrace(const Graph& graph,
                     const std::vector<int64_t>& nanoseconds) {
  std::vector<NodeTime> times;
  for (const int64_t duration : nanoseconds) times.push_back({5, 5 + duration});
  std::string text;
  WriteTvmTrace(graph, times,
                [&text](std::string_view piece) { text += piece; });
  return text;
}

TEST(PythonFloatTest, IsWhatPythonPrints) {
  const std::pair<double, const char*> cases[] = {
      {0, "0.0"},
      {12, "12.0"},
      {0.1, "0.1"},
      {-2.25, "-2.25"},
      {1.0 / 3, "0.3333333333333333"},
      {1e-4, "0.0001"},
      {1.5e-5, "1.5e-05"},
      {1e-300, "1e-300"},
      {1e15, "1000000000000000.0"},
      {9007199254740993, "9007199254740992.0"},
      {1e16, "1e+16"},
      {std::nan(""), "nan"},
      {-INFINITY, "-inf"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(PythonFloat(value), text);
}

TEST(RoundToTest, RoundsTheBinaryValueAsPythonDoes) {
  EXPECT_EQ(RoundTo(2.675, 2), 2.67);  // It is a little less than that.
  EXPECT_EQ(RoundTo(0.125, 2), 0.12);  // Exactly between: to even.
  EXPECT_EQ(RoundTo(0.375, 2), 0.38);
  EXPECT_EQ(RoundTo(-1.006, 2), -1.01);
  EXPECT_TRUE(std::isnan(RoundTo(std::nan(""), 2)));
}

// Two nodes, twice: 1 to 3.5 us and 3.5 to 7 us, then 100 us later.
Profile TwoRuns() {
  Profile profile;
  for (const int64_t start : {1000, 101000}) {
    TimedRun run;
    run.whole = {start - 200, start + 6300};
    run.nodes = {{}, {}, {start, start + 2500}, {start + 2500, start + 6001}};
    profile.runs.push_back(run);
  }
  return profile;
}

json TraceOf(const Graph& graph, Profile profile,
             std::vector<WorkerSpan> workers = {}) {
  const StoragePlan plan = PlanStorage(graph, kDLCPU).value();
  profile.workers = std::move(workers);
  return json::parse(ProfileTrace(GraphIndex(graph, plan), profile));
}

std::vector<json> EventsOf(const json& trace, const std::string& phase) {
  std::vector<json> events;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) events.push_back(event);
  }
  return events;
}

TEST(ProfileTraceTest, NodesStandInsideTheirRun) {
  const json trace = TraceOf(AddThenRelu().Build(), TwoRuns());
  EXPECT_EQ(trace["displayTimeUnit"], "ns");
  const auto spans = EventsOf(trace, "X");
  ASSERT_EQ(spans.size(), 6u);
  EXPECT_EQ(spans[0]["name"], "run 0");
  EXPECT_EQ(spans[0]["ts"], 0.0);
  EXPECT_EQ(spans[0]["dur"], 6.5);
  EXPECT_EQ(spans[1]["ts"], 0.2);
  EXPECT_EQ(spans[1]["dur"], 2.5);
  EXPECT_EQ(spans[2]["dur"], 3.501);
  EXPECT_EQ(spans[3]["name"], "run 1");
  EXPECT_EQ(spans[5]["args"]["run"], 1);
  for (const json& span : spans) EXPECT_EQ(span["tid"], spans[0]["tid"]);
}

TEST(ProfileTraceTest, NodeSaysWhatItReadsAndWrites) {
  const json trace = TraceOf(AddThenRelu().Build(), TwoRuns());
  const json args = EventsOf(trace, "X")[1]["args"];
  EXPECT_EQ(args["inputs"], "float32(4,), float32(4,)");
  EXPECT_EQ(args["outputs"], "float32(4,)");
  EXPECT_EQ(args["bytes_read"], 32);
  EXPECT_EQ(args["bytes_written"], 16);
  EXPECT_EQ(args["op"], AddThenRelu().Build().nodes[2].function);
}

TEST(ProfileTraceTest, LiveBytesAreACounter) {
  const auto counts = EventsOf(TraceOf(AddThenRelu().Build(), TwoRuns()), "C");
  ASSERT_EQ(counts.size(), 4u);
  EXPECT_EQ(counts[0]["name"], "live bytes");
  EXPECT_EQ(counts[0]["args"]["bytes"], 48);
  EXPECT_EQ(counts[1]["args"]["bytes"], 64);
}

TEST(ProfileTraceTest, EachWorkerHasItsTrack) {
  const json trace =
      TraceOf(AddThenRelu().Build(), TwoRuns(),
              {{3000, 3400, 3, NodeId{2}}, {1100, 1500, 0, NodeId{2}}});
  std::vector<std::string> tracks;
  for (const json& event : EventsOf(trace, "M")) {
    tracks.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(tracks, ElementsAre("nodewise", "nodes", "worker 0", "worker 3"));
  const auto spans = EventsOf(trace, "X");
  EXPECT_NE(spans[2]["tid"], spans[1]["tid"]);
  EXPECT_EQ(spans[2]["name"], spans[1]["name"]);
}

TEST(ProfileTraceTest, WatchedRunStandsBehindTheOthers) {
  Profile profile = TwoRuns();
  profile.watched.whole = {200000, 206000};
  profile.watched.nodes = {{}, {}, {200000, 203000}, {203000, 206000}};
  const auto spans = EventsOf(
      TraceOf(AddThenRelu().Build(), profile, {{203100, 205000, 1, NodeId{3}}}),
      "X");
  ASSERT_EQ(spans.size(), 10u);
  EXPECT_EQ(spans[6]["name"], "run 2, workers watched");
  EXPECT_EQ(spans[9]["name"], spans[8]["name"]);
  EXPECT_NE(spans[9]["tid"], spans[8]["tid"]);
}

TEST(ProfileTraceTest, TimesRise) {
  const json trace =
      TraceOf(AddThenRelu().Build(), TwoRuns(),
              {{103000, 103400, 1, NodeId{3}}, {900, 1500, 0, NodeId{2}}});
  double last = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    EXPECT_GE(event["ts"], last);
    last = event["ts"];
  }
  EXPECT_GT(last, 100);
}

TEST(ProfileTraceTest, NodeThatTookNoTimeIsNotShown) {
  Profile profile = TwoRuns();
  profile.runs.resize(1);
  profile.runs[0].nodes[2] = {};
  EXPECT_EQ(EventsOf(TraceOf(AddThenRelu().Build(), profile), "X").size(), 2u);
}

TEST(ProfileTraceTest, WithoutRunsItIsEmptyAndStillATrace) {
  EXPECT_THAT(EventsOf(TraceOf(AddThenRelu().Build(), Profile()), "X"),
              ElementsAre());
}

TEST(ProfileTraceTest, IsJsonForAnyNameOfANode) {
  Graph graph = AddThenRelu().Build();
  for (const std::string& name :
       {std::string("a\0b\n\"\\", 6), std::string("\xC3\x28\xFF"),
        std::string(10240, 'n'), std::string("},{")}) {
    graph.nodes[2].name = graph.nodes[2].function = name;
    const json span = EventsOf(TraceOf(graph, TwoRuns()), "X")[1];
    EXPECT_EQ(span["name"], span["args"]["op"]);
    const json event =
        json::parse(TvmTrace(graph, {0, 0, 1000, 2000}))["traceEvents"][4];
    EXPECT_EQ(event["name"], span["name"]);
  }
}

TEST(TvmTraceTest, EveryNodeBeginsWhereTheOneBeforeItEnds) {
  const Graph graph =
      GraphBuilder().Input("x").Op("caf\xC3\xA9", "f", {"x"}).Build();
  EXPECT_EQ(
      TvmTrace(graph, {0, 250}),
      R"({"displayTimeUnit": "ns", "traceEvents": [)"
      R"({"ts": 0.0, "tid": 1, "pid": 1, "name": "x", "ph": "B"}, )"
      R"({"ts": 0.0, "tid": 1, "pid": 1, "name": "x", "ph": "E"}, )"
      R"({"ts": 0.0, "tid": 1, "pid": 1, "name": "caf\u00e9", "ph": "B"}, )"
      R"({"ts": 0.25, "tid": 1, "pid": 1, "name": "caf\u00e9", "ph": "E"}]})");
}

TEST(TvmTraceTest, NodesWithoutATimeTakeNone) {
  EXPECT_THAT(
      TvmTrace(AddThenRelu().Build(), {}),
      HasSubstr(
          R"({"ts": 0.0, "tid": 1, "pid": 1, "name": "relu0", "ph": "E"})"));
}

std::string TextOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A trace with T for each of its times, which are moved to `times`.
std::string WithoutTimes(const std::string& text, std::vector<double>* times) {
  static constexpr std::string_view kKey = "\"ts\": ";
  std::string rest;
  size_t from = 0;
  for (size_t at = text.find(kKey); at != std::string::npos;
       at = text.find(kKey, from)) {
    at += kKey.size();
    rest += text.substr(from, at - from) + "T";
    from = std::min(text.find(',', at), text.size());
    const std::string time = text.substr(at, from - at);
    times->push_back(std::stod(time));
    EXPECT_EQ(PythonFloat(times->back()), time);
  }
  return rest + text.substr(from);
}

class TvmTraceFixtureTest : public testing::TestWithParam<std::string> {};

// Times are rounded to nanoseconds, which TVM does not do.
TEST_P(TvmTraceFixtureTest, IsThatOfTvm) {
  const auto graph =
      ParseGraph(GraphText::FromFile(GetParam() + "/graph.json").value());
  ASSERT_THAT(graph, IsOk());
  std::string expected = TextOfFile(
      GetParam() +
      "/tvm_debug/_tvmdbg_device_CPU_0/_tvmdbg_execution_trace.json");
  if (expected.ends_with('\n')) expected.pop_back();
  std::vector<double> sums;
  const std::string expected_rest = WithoutTimes(expected, &sums);
  std::vector<int64_t> nanoseconds;
  for (size_t i = 0; i + 1 < sums.size(); i += 2) {
    nanoseconds.push_back(std::llround(sums[i + 1] * 1000) -
                          std::llround(sums[i] * 1000));
  }
  std::vector<double> our_sums;
  EXPECT_EQ(WithoutTimes(TvmTrace(*graph, nanoseconds), &our_sums),
            expected_rest);
  EXPECT_THAT(our_sums, Pointwise(DoubleNear(0.0005 + 1e-9), sums));
}

INSTANTIATE_TEST_SUITE_P(Tvm, TvmTraceFixtureTest,
                         testing::ValuesIn(FixtureFolders("tvm-0.14")),
                         [](const testing::TestParamInfo<std::string>& info) {
                           return FixtureName(info.param);
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TvmTraceFixtureTest);

TEST(TvmTraceTest, FixturesAreThere) {
  if (FixturesFolder().empty()) {
    GTEST_SKIP() << "no ../shared/fixtures: traces of real TVM not compared";
  }
  EXPECT_GE(FixtureFolders("tvm-0.14").size(), 9u);
}

}  // namespace
}  // namespace nodewise
