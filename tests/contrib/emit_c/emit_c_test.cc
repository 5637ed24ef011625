#include "nodewise/emit_c/emit_c.h"

#include <gtest/gtest.h>

#include "contrib/emit_c/windows.h"
#include "nodewise/graph/graph_json.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

absl::StatusOr<EmittedC> Emitted(const Network& network,
                                 const LowerOptions& options = {}) {
  NODEWISE_ASSIGN_OR_RETURN(const Lowered lowered,
                            Lower(network, "net", options));
  return EmitC(lowered.graph, AllOperators());
}

// y = -x, where the operation has any name.
absl::StatusOr<EmittedC> EmittedNeg(const std::string& name) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  b.Out(b.Op("Neg", {x}, {}, {"y"}, name));
  return Emitted(b.net);
}

TEST(EmitCTest, TheGraphNamesTheFunctionsOfTheSource) {
  const auto emitted = EmittedNeg("neg");
  ASSERT_THAT(emitted, IsOk());
  EXPECT_FALSE(HasBuiltInFunctions(emitted->graph));
  EXPECT_EQ(emitted->graph.nodes[1].function, "nodewise_neg");
  EXPECT_THAT(emitted->source,
              HasSubstr("NW_EXPORT int nodewise_neg(TVMValue* args"));
}

TEST(EmitCTest, NodesThatComputeTheSameShareAFunction) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  const ValueId y = b.In("y", {2});
  const ValueId z = b.In("z", {3});
  b.Out({b.Op("Neg", {x})[0], b.Op("Neg", {y})[0], b.Op("Neg", {z})[0]});
  const auto emitted = Emitted(b.net);
  ASSERT_THAT(emitted, IsOk());
  const auto& nodes = emitted->graph.nodes;
  EXPECT_EQ(nodes[3].function, nodes[4].function);
  EXPECT_NE(nodes[3].function, nodes[5].function);
}

TEST(EmitCTest, FusedElementsAreComputedInOneLoop) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 3});
  const ValueId bias = b.In("bias", {3});
  const ValueId sum = b.Op("Add", {x, bias})[0];
  b.Out(b.Op("Relu", {sum}));
  const auto emitted = Emitted(b.net);
  ASSERT_THAT(emitted, IsOk());
  EXPECT_THAT(emitted->source, AllOf(HasSubstr("/* Add, Relu */"),
                                     Not(HasSubstr("malloc(64)"))));
}

// An infinite element shows the difference.
TEST(EmitCTest, ClipWithoutLimitsHasTheEndsOfItsType) {
  NetBuilder b;
  b.Out(b.Op("Clip", {b.In("x", {2})}));
  const auto emitted = Emitted(b.net);
  ASSERT_THAT(emitted, IsOk());
  EXPECT_THAT(emitted->source, AllOf(HasSubstr("< (-3.4028234663852886e+38)"),
                                     HasSubstr("> 3.4028234663852886e+38")));
}

// C has one scope for all of it where there are no loops.
TEST(EmitCTest, AReductionOfOneElementNamesItOnce) {
  NetBuilder b;
  b.Out(b.Op("ReduceLogSumExp", {b.In("x", {1})}));
  const auto emitted = Emitted(b.net);
  ASSERT_THAT(emitted, IsOk());
  const size_t first = emitted->source.find("const double x =");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(emitted->source.find("const double x =", first + 1),
            std::string::npos);
}

TEST(EmitCTest, ANameStaysInsideItsComment) {
  const auto emitted = EmittedNeg("*/ int x; /* ?\?/\n\\ \"$(rm)\" \xc3\xa9");
  ASSERT_THAT(emitted, IsOk());
  EXPECT_THAT(emitted->source,
              HasSubstr("\n *   <2a>/ int x; /<2a> <3f><3f>/<0a><5c> "
                        "\"$(rm)\" <c3><a9> (Neg)\n */\n"));
}

TEST(EmitCTest, NamesChangeNothingButComments) {
  const auto a = EmittedNeg("a");
  const auto b = EmittedNeg("while");
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  std::string source = a->source;
  source.replace(source.find("*   a (Neg)"), 11, "*   while (Neg)");
  EXPECT_EQ(source, b->source);
}

TEST(EmitCTest, AllOperationsAreNamedThatThereIsNoCFor) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 3});
  const ValueId first = b.Op("Hardmax", {x}, {}, {}, "first")[0];
  const ValueId neg = b.Op("Neg", {first})[0];
  const ValueId half =
      b.Op("Cast", {neg}, {{"to", int64_t{17}}}, {}, "second")[0];
  b.Out({half});
  EXPECT_THAT(
      Emitted(b.net),
      FailsWith(absl::StatusCode::kUnimplemented,
                AllOf(HasSubstr("there is no C for 2 operations: first "
                                "(Hardmax): there is no C for this operator"),
                      HasSubstr("; second (Cast): "), HasSubstr("float8"))));
}

TEST(EmitCTest, AGraphWithoutRegionsIsRefused) {
  NetBuilder b;
  b.Out(b.Op("Neg", {b.In("x", {2})}));
  auto lowered = Lower(b.net, "net");
  ASSERT_THAT(lowered, IsOk());
  lowered->graph.nodes[1].attrs.clear();
  EXPECT_THAT(EmitC(lowered->graph, AllOperators()),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("does not say what it computes")));
}

// Sides of a billion elements: a table for each place would take gigabytes.
constexpr int64_t kHuge = int64_t{1} << 30;

TEST(EmitCTest, PaddedPoolsOfHugeSidesAreShortCode) {
  for (const int64_t counts_padding : {0, 1}) {
    NetBuilder b;
    const ValueId x = b.In("x", {1, 1, kHuge});
    b.Out(b.Op("AveragePool", {x},
               {{"kernel_shape", std::vector<int64_t>{3}},
                {"pads", std::vector<int64_t>{1, 1}},
                {"count_include_pad", counts_padding}}));
    const auto emitted = Emitted(b.net);
    ASSERT_THAT(emitted, IsOk());
    EXPECT_LT(emitted->source.size(), 20'000u);
  }
}

TEST(EmitCTest, PadsOfHugeSidesAreShortCode) {
  for (const char* mode : {"constant", "edge", "reflect"}) {
    NetBuilder b;
    const ValueId x = b.In("x", {kHuge});
    const ValueId pads = b.Const("pads", MakeTensor<int64_t>({2}, {1, 2}));
    b.Out(b.Op("Pad", {x, pads}, {{"mode", std::string(mode)}}));
    const auto emitted = Emitted(b.net);
    ASSERT_THAT(emitted, IsOk());
    EXPECT_LT(emitted->source.size(), 20'000u);
  }
}

TEST(EmitCTest, WindowsOfManyTapsAreALoop) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 1, kHuge});
  const ValueId w = b.In("w", {1, 1, kHuge / 2});
  b.Out(b.Op("Conv", {x, w}));
  const auto emitted = Emitted(b.net);
  ASSERT_THAT(emitted, IsOk());
  EXPECT_LT(emitted->source.size(), 20'000u);
}

// Operators refuse windows that reach so far, until their limits change.
TEST(WindowPlanTest, WhatNoMemoryHoldsIsRefused) {
  EXPECT_EQ(
      emit_c::ReachOf(/*places=*/3, /*stride=*/2, /*taps=*/2, /*dilation=*/1)
          .value(),
      6);
  EXPECT_THAT(emit_c::ReachOf(2, int64_t{1} << 46, 1, 1),
              FailsWith(absl::StatusCode::kUnimplemented,
                        HasSubstr("windows reach over more than")));
  EXPECT_THAT(emit_c::ReachOf(INT64_MAX, INT64_MAX, 1, 1),
              FailsWith(absl::StatusCode::kUnimplemented, HasSubstr("reach")));
}

}  // namespace
}  // namespace nodewise
