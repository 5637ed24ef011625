// Reports that a host makes, and takes apart by their attributes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/func/containers.h"
#include "nodewise/func/registry.h"
#include "tests/support/call_function.h"
#include "tests/support/matchers.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

template <typename... Args>
Value Made(const char* name, const Args&... args) {
  auto made = Call(name, args...);
  EXPECT_THAT(made, IsOk()) << name;
  return made.ok() ? *made : Value();
}

// One call of 3 us, half of the whole.
Value MakeReport() {
  const Value row =
      Made("runtime.Map", "Name", Made("runtime.String", "conv"),
           "Duration (us)", Made("runtime.profiling.Duration", 3.0), "Percent",
           Made("runtime.profiling.Percent", 50), "Count",
           Made("runtime.profiling.Count", 2), "IPC",
           Made("runtime.profiling.Ratio", 1.5));
  const Value device = Made("runtime.Map", "Duration (us)",
                            Made("runtime.profiling.Duration", 6.0));
  return Made("runtime.profiling.Report", Made("runtime.Array", row),
              Made("runtime.Map", "cpu0", device),
              Made("runtime.Map", "Executor", Made("runtime.String", "Graph")));
}

TEST(ReportObjectsTest, ReportOfAHostIsWrittenAsAnyOther) {
  const Value report = MakeReport();
  EXPECT_EQ(*Made("runtime.profiling.AsCSV", report).Get<std::string>(),
            "Count,Duration (us),IPC,Name,Percent\n2,3,1.5,\"conv\",50\n");
  EXPECT_THAT(*Made("runtime.profiling.AsJSON", report).Get<std::string>(),
              HasSubstr("\"Executor\":{\"string\":\"Graph\"}"));
}

TEST(ReportObjectsTest, ReportIsShownAsItsTable) {
  const Value report = MakeReport();
  EXPECT_EQ(
      *Made("node.AsRepr", report).Get<std::string>(),
      *Made("runtime.profiling.AsTable", report, 1, 1, 1).Get<std::string>());
}

TEST(ReportObjectsTest, AttributesAreReadByName) {
  const Value calls = Made("node.NodeGetAttr", MakeReport(), "calls");
  const Value call = Made("runtime.ArrayGetItem", calls, 0);
  const Value duration = Made("runtime.MapGetItem", call, "Duration (us)");
  EXPECT_EQ(*Made("node.NodeGetAttr", duration, "microseconds").Get<double>(),
            3.0);
  const Value count = Made("runtime.MapGetItem", call, "Count");
  EXPECT_EQ(*Made("node.NodeGetAttr", count, "value").Get<int64_t>(), 2);
  EXPECT_EQ(Made("node.NodeGetAttr", MakeReport(), "configuration")
                .View()
                .AsObject<MapObject>("map")
                .value()
                ->items()
                .size(),
            1);
}

TEST(ReportObjectsTest, MissingAttributeIsPythonsAttributeError) {
  EXPECT_THAT(Call("node.NodeGetAttr", MakeReport(), "nothing"),
              FailsWith(StatusCode::kNotFound,
                        "AttributeError: runtime.profiling.Report has no "
                        "nothing"));
  EXPECT_EQ(
      *Made("node.NodeGetAttr", MakeReport(), "type_key").Get<std::string>(),
      "runtime.profiling.Report");
  EXPECT_THAT(Call("node.NodeGetAttr", Made("runtime.Array"), "size"),
              FailsWith(StatusCode::kNotFound,
                        "AttributeError: Array has no "
                        "size"));
}

TEST(ReportObjectsTest, AttributesAreListed) {
  const Value list = Made("node.NodeListAttrNames", MakeReport());
  const PackedFunc names(
      list.View().AsObject<FunctionObject>("function").value());
  EXPECT_EQ(*names.Call(-1)->Get<int64_t>(), 3);
  EXPECT_EQ(*names.Call(0)->Get<std::string>(), "calls");
  EXPECT_THAT(names.Call(3),
              FailsWith(StatusCode::kOutOfRange, HasSubstr("there are 3")));
}

TEST(ReportObjectsTest, ValuesOfAnotherKindAreRefused) {
  const Value row =
      Made("runtime.Map", "Duration (us)", Made("runtime.profiling.Count", 2));
  EXPECT_THAT(Call("runtime.profiling.Report", Made("runtime.Array", row),
                   Made("runtime.Map")),
              FailsWith(StatusCode::kInvalidArgument,
                        "report: Duration (us) is a count, expected "
                        "microseconds"));
  const Value number = Made("runtime.Map", "Count", 2);
  EXPECT_THAT(Call("runtime.profiling.Report", Made("runtime.Array", number),
                   Made("runtime.Map")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("Count: ")));
}

TEST(ProfileFunctionTest, CallsTheFunctionAfterItsWarmUp) {
  const auto factory = LoadTestLibrary("factory");
  const Value profiled =
      Made("runtime.profiling.ProfileFunction", Ref<Object>(factory), kAdd, 1,
           0, 2, Made("runtime.Array"));
  const PackedFunc function(
      profiled.View().AsObject<FunctionObject>("function").value());
  const NDArray x = Floats({1, 2, 3, 4});
  const NDArray sum = Floats({0, 0, 0, 0});
  const auto metrics = function.Call(x, x, sum);
  ASSERT_THAT(metrics, IsOk());
  EXPECT_EQ(*Made("runtime.MapSize", *metrics).Get<int64_t>(), 0);
  EXPECT_EQ(ValuesOf(sum)[0], 2);
  EXPECT_THAT(Call("runtime.profiling.ProfileFunction", Ref<Object>(factory),
                   kAdd, 1, 0, 2, Made("runtime.Array", 1)),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("collectors")));
}

}  // namespace
}  // namespace nodewise
