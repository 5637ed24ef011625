#include <gtest/gtest.h>

#include "nodewise/graph/dump_key.h"
#include "nodewise/graph/graph_inputs.h"
#include "tests/support/graph_builder.h"

namespace nodewise {
namespace {

using Kind = ParamNames::Kind;
constexpr DLDataType kFloat = {kDLFloat, 32, 1};

// Two inputs called p0, of 4 and of 2 elements.
Graph InputsOfOneName() {
  return GraphBuilder()
      .Input("p0")
      .Input("p0", {.shape = {2}})
      .Op("sum", "add", {"#0", "#0"})
      .Head("sum")
      .Build();
}

TEST(ParamNamesTest, TypeTellsInputsOfOneNameApart) {
  const Graph graph = InputsOfOneName();
  const ParamNames names(graph);
  EXPECT_EQ(names.Find("p0", {4}, kFloat).input, 0u);
  EXPECT_EQ(names.Find("p0", {2}, kFloat).input, 1u);
}

TEST(ParamNamesTest, LastOneIsMeantWhereNoTypeFits) {
  const Graph graph = InputsOfOneName();
  const auto meaning = ParamNames(graph).Find("p0", {3}, kFloat);
  EXPECT_EQ(meaning.kind, Kind::kInput);
  EXPECT_EQ(meaning.input, 1u);
}

TEST(ParamNamesTest, KeyOfADumpMeansItsNode) {
  const Graph graph = InputsOfOneName();
  const ParamNames names(graph);
  const auto input = names.Find(DumpKeyOf("p0", NodeId{0}, 0), {2}, kFloat);
  EXPECT_EQ(input.kind, Kind::kInput);
  EXPECT_EQ(input.input, 0u);  // Its type does not matter.
  EXPECT_EQ(names.Find(DumpKeyOf("sum", NodeId{2}, 0), {4}, kFloat).kind,
            Kind::kComputed);
  EXPECT_EQ(names.Find(DumpKeyOf("sum", NodeId{0}, 0), {4}, kFloat).kind,
            Kind::kUnknown);
}

TEST(ParamNamesTest, OtherNamesMeanNothing) {
  const Graph graph = InputsOfOneName();
  EXPECT_EQ(ParamNames(graph).Find("q", {4}, kFloat).kind, Kind::kUnknown);
}

}  // namespace
}  // namespace nodewise
