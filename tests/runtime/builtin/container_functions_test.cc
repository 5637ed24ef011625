// The named functions by which bindings make containers and take them apart.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/func/containers.h"
#include "nodewise/func/registry.h"
#include "tests/support/call_function.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

template <typename... Args>
std::string TextOf(const char* maker, const Args&... args) {
  const absl::StatusOr<Value> made = Call(maker, args...);
  EXPECT_THAT(made, IsOk());
  const absl::StatusOr<Value> text = Call("node.AsRepr", *made);
  EXPECT_THAT(text, IsOk());
  return *text->Get<std::string>();
}

TEST(ContainerFunctionsTest, AdtIsTakenApart) {
  const auto adt = Call("runtime.ADT", 3, Floats({1}), "second");
  ASSERT_THAT(adt, IsOk());
  EXPECT_EQ(*Call("runtime.GetADTTag", *adt)->Get<int64_t>(), 3);
  EXPECT_EQ(*Call("runtime.GetADTSize", *adt)->Get<int64_t>(), 2);
  EXPECT_EQ(*Call("runtime.GetADTFields", *adt, 1)->Get<std::string>(),
            "second");
  EXPECT_THAT(Call("runtime.GetADTFields", *adt, 2),
              FailsWith(StatusCode::kOutOfRange,
                        "index 2 is out of range, there are 2"));
}

TEST(ContainerFunctionsTest, TupleIsAnAdtWithTheTagZero) {
  const auto tuple = Call("runtime.Tuple", Floats({1}));
  EXPECT_EQ(*Call("runtime.GetADTTag", *tuple)->Get<int64_t>(), 0);
  EXPECT_EQ(*Call("runtime.GetADTSize", *tuple)->Get<int64_t>(), 1);
}

TEST(ContainerFunctionsTest, AdtIsNotAnArray) {
  EXPECT_THAT(
      Call("runtime.ArraySize", *Call("runtime.Tuple")),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("expected an array")));
}

TEST(ContainerFunctionsTest, ObjectsAreHashedByWhichTheyAre) {
  const auto a = Call("runtime.String", "same");
  const auto b = Call("runtime.String", "same");
  const auto hash = [](const Value& value) {
    return *Call("runtime.ObjectPtrHash", value)->Get<int64_t>();
  };
  EXPECT_EQ(hash(*a), hash(*a));
  EXPECT_NE(hash(*a), hash(*b));
}

TEST(ContainerFunctionsTest, ObjectsAreShown) {
  EXPECT_EQ(TextOf("runtime.String", "a\"b"), "\"a\\\"b\"");
  EXPECT_EQ(TextOf("runtime.Array", 1, 2.5, "x", Value(), Value::Bool(true)),
            "[1, 2.5, \"x\", None, True]");
  EXPECT_EQ(TextOf("runtime.Map", "k", Floats({1, 2})),
            "{\"k\": float32 (2,)}");
  EXPECT_EQ(TextOf("runtime.ShapeTuple", 1, 2), "[1, 2]");
  EXPECT_EQ(TextOf("runtime.ADT", 3, 4), "ADT(3, [4])");
}

TEST(ContainerFunctionsTest, ObjectWithoutAFormIsShownByTypeAndAddress) {
  const auto function = FindFunction("runtime.Array").object();
  EXPECT_THAT(*Call("node.AsRepr", Ref<Object>(function))->Get<std::string>(),
              HasSubstr("runtime.PackedFunc(0x"));
}

TEST(ValueTest, BoolStaysABoolOnItsWay) {
  const auto echo = PackedFunc::FromBody(
      [](PackedArgs args) { return Value::Copy(*args.At(0)); });
  const auto result = echo.Call(Value::Bool(true));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->View().code(), kTVMArgBool);
  EXPECT_EQ(*result->View().AsInt(), 1);
}

}  // namespace
}  // namespace nodewise
