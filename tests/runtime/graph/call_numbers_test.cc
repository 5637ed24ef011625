#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/graph/graph_executor.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns the call numbers of a node with an input and an output.
absl::StatusOr<std::vector<CallNumber>> NumbersOf(const std::string& text) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Op("r", "relu", {"x"})
                          .Attr("call_numbers", text)
                          .Head("r")
                          .Build();
  return CallNumbersOf(graph, NodeId{1}, 2);
}

TEST(CallNumbersTest, AreReadAsTheyAreWritten) {
  const std::vector<CallNumber> numbers = {{0, -3}, {2, 256}, {4, 7}};
  const std::string text = CallNumbersText(numbers);
  EXPECT_EQ(text, "0=-3 2=256 4=7");
  const auto read = NumbersOf(text);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(CallNumbersText(*read), text);
}

TEST(CallNumbersTest, NodeWithoutThemHasNone) {
  const Graph graph = AddThenRelu().Build();
  const auto read = CallNumbersOf(graph, NodeId{2}, 3);
  ASSERT_THAT(read, IsOk());
  EXPECT_THAT(*read, IsEmpty());
}

TEST(CallNumbersTest, WhatCannotBeACallIsLocated) {
  for (const char* text : {"1", "1=", "=3", "x=3", "-1=3", "1=3.5", "1=2 1=3",
                           "2=1 0=1", "3=1", "0=1 4=1"}) {
    EXPECT_THAT(NumbersOf(text),
                FailsWith(absl::StatusCode::kInvalidArgument,
                          AllOf(HasSubstr("/nodes/1/attrs/call_numbers"),
                                HasSubstr("in rising order"))))
        << text;
  }
}

}  // namespace
}  // namespace nodewise
