// Sanitizing whose first run goes well and one of the others does not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/memcheck/plan_sanitizer.h"
#include "tests/runtime/debug/more_kernels.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// x -> f, a copy that writes `extra` values past its output.
ExecutorMaker OneNode(int extra) {
  const FloatKernel kernel = [extra](const std::vector<float*>& tensors) {
    auto* const volatile out = tensors[1];
    for (int i = 0; i < 4 + extra; ++i) out[i] = tensors[0][i % 4];
  };
  return MakerOf(GraphBuilder().Input("x").Op("f", "faulty", {"x"}).Head("f"),
                 WithKernels({{"faulty", kernel}}));
}

// Makes no executor after the first `runs`.
ExecutorMaker Only(int runs, ExecutorMaker make) {
  return [=](DebugExecutor::DebugOptions options) mutable
         -> absl::StatusOr<std::unique_ptr<DebugExecutor>> {
    if (runs-- > 0) return make(std::move(options));
    return absl::ResourceExhaustedError("no memory for another run");
  };
}

TEST(SanitizePartlyTest, FaultIsReportedThoughNothingCouldBeCompared) {
  const auto report = Sanitize(Only(1, OneNode(/*extra=*/1)), {});
  ASSERT_THAT(report, IsOk());
  ASSERT_THAT(report->findings, SizeIs(1));
  EXPECT_THAT(report->findings[0].ToString(),
              HasSubstr("wrote 4 bytes past its"));
  EXPECT_THAT(report->outputs, SizeIs(1));
  EXPECT_THAT(
      report->not_compared,
      ElementsAre(
          FailsWith(StatusCode::kResourceExhausted,
                    "not compared over other unused bytes: no memory for "
                    "another run"),
          FailsWith(StatusCode::kResourceExhausted,
                    "not compared with storage of its own for every entry: no "
                    "memory for another run")));
}

TEST(SanitizePartlyTest, ComparisonThatCouldBeMadeIsNotMentioned) {
  const auto report = Sanitize(Only(2, OneNode(/*extra=*/0)), {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->findings, IsEmpty());
  EXPECT_THAT(report->not_compared,
              ElementsAre(FailsWith(StatusCode::kResourceExhausted,
                                    HasSubstr("storage of its own"))));
  const auto whole = Sanitize(OneNode(/*extra=*/0), {});
  ASSERT_THAT(whole, IsOk());
  EXPECT_THAT(whole->not_compared, IsEmpty());
}

TEST(SanitizePartlyTest, WithoutAFirstRunThereIsNoReport) {
  EXPECT_THAT(Sanitize(Only(0, OneNode(/*extra=*/1)), {}),
              FailsWith(StatusCode::kResourceExhausted,
                        "no memory for another "
                        "run"));
}

TEST(SanitizePartlyTest, RedZonesAreBounded) {
  EXPECT_THAT(Sanitize(OneNode(/*extra=*/0), {.red_zone = SIZE_MAX}),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("expected at most 1073741824")));
}

}  // namespace
}  // namespace nodewise
