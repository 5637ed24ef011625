// Libraries of C++ on TVM's headers, which look into this runtime's objects
// and return objects of their own: tests/data/libraries/plugin.cc, compiled as
// with the headers of three eras.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "nodewise/func/containers.h"
#include "nodewise/func/registry.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

class TvmPluginTest : public ::testing::TestWithParam<std::string> {
 protected:
  TvmPluginTest() : library_(LoadTestLibrary("plugin_" + GetParam())) {}

  template <typename... Args>
  absl::StatusOr<Value> Call(std::string_view name, const Args&... args) {
    return FunctionOf(library_, name).Call(args...);
  }
  template <typename... Args>
  std::string Text(std::string_view name, const Args&... args) {
    const absl::StatusOr<Value> value = Call(name, args...);
    if (!value.ok()) return std::string(value.status().message());
    return std::string(value->View().AsString().value_or("no text"));
  }

  Ref<Module> library_;
};

INSTANTIATE_TEST_SUITE_P(Eras, TvmPluginTest, ::testing::Values("8", "9", "13"),
                         [](const auto& info) { return "Tvm" + info.param; });

PackedFunc Doubler() {
  return PackedFunc::FromBody([](PackedArgs args) -> absl::StatusOr<Value> {
    if (args.size() != 1) return absl::InvalidArgumentError("wants a number");
    return Value(2 * args.IntAt(0).value());
  });
}

TEST_P(TvmPluginTest, ArrayArgumentIsReadAndCounted) {
  const NDArray array = Floats({1, 2, 3, 4});
  EXPECT_EQ(IntOf(Call("plugin_sum", array)), 10);
  EXPECT_TRUE(array.is_held_once());
}

TEST_P(TvmPluginTest, FunctionArgumentIsCopiedAndCalled) {
  const PackedFunc doubler = Doubler();
  const Value function(Ref<Object>(doubler.object()));
  EXPECT_EQ(IntOf(Call("plugin_apply", function, 21)), 42);
  EXPECT_EQ(IntOf(Call("plugin_apply", function, 4)), 8);
}

TEST_P(TvmPluginTest, TextThatAFunctionReturnsArrives) {
  const PackedFunc greeting = PackedFunc::FromBody(
      [](PackedArgs) -> absl::StatusOr<Value> { return Value("hello"); });
  EXPECT_EQ(Text("plugin_apply", Ref<Object>(greeting.object())), "hello");
}

TEST_P(TvmPluginTest, ErrorOfAFunctionArgumentComesThroughThePlugin) {
  EXPECT_THAT(Call("plugin_apply", Ref<Object>(Doubler().object())),
              FailsWith(StatusCode::kInternal, HasSubstr("wants a number")));
}

TEST_P(TvmPluginTest, ContainersAreReadInMemory) {
  const Ref<Object> list = ArrayObject::Make(
      {Value("a"), Value(), Ref<Object>(MakeRef<StringObject>("b"))});
  EXPECT_EQ(Text("plugin_text", list), "[a;null;b;]");
  const int64_t dims[] = {1, 64};
  EXPECT_EQ(Text("plugin_text", Ref<Object>(MakeRef<ShapeObject>(dims))),
            "(1,64,)");
  MapObject::Items items;
  std::string expected;
  for (const char* key : {"k1", "k2", "k3", "k4", "k5", "k6", "k2"}) {
    items.emplace_back(key, Value(std::string("of ") + key));
    if (items.size() < 7) expected += std::string(key) + "=of " + key + ";";
  }
  EXPECT_EQ(Text("plugin_text", Ref<Object>(MapObject::Make(items))),
            "{" + expected + "}");
}

TEST_P(TvmPluginTest, ModuleArgumentIsAskedForItsFunctions) {
  const Ref<Object> module = LoadTestLibrary("returns");
  EXPECT_EQ(IntOf(Call("plugin_ask", module, "returns_int")), 42);
  EXPECT_EQ(IntOf(Call("plugin_ask", module, "counts_arguments", 1, 2)), 2);
  EXPECT_THAT(Call("plugin_ask", module, "nothing"),
              FailsWith(StatusCode::kInternal, HasSubstr("no such function")));
}

TEST_P(TvmPluginTest, ModuleArgumentTellsItsKindAndImports) {
  const Ref<Object> module = LoadTestLibrary("factory");
  EXPECT_EQ(Text("plugin_kind", module), "GraphExecutorFactory 1");
}

TEST_P(TvmPluginTest, WhatAModuleCannotDoIsAnErrorWithItsType) {
  const Ref<Object> module = LoadTestLibrary("factory");
  EXPECT_THAT(Call("plugin_source", module),
              FailsWith(StatusCode::kInternal,
                        HasSubstr("an object of type runtime.Module")));
}

TEST_P(TvmPluginTest, StringResultKeepsItsZeros) {
  EXPECT_EQ(Text("plugin_string"), std::string("a\0b", 3));
}

TEST_P(TvmPluginTest, ShapeAndArrayResultsAreTakenApart) {
  const Value shape = Call("plugin_shape").value();
  const auto dims = shape.View().AsObject<ShapeObject>("a shape");
  ASSERT_THAT(dims, IsOk());
  EXPECT_THAT((*dims)->dims, ::testing::ElementsAre(2, 3));
  const Value list = Call("plugin_list").value();
  const PackedFunc item = FindFunction("runtime.ArrayGetItem");
  EXPECT_EQ(IntOf(FindFunction("runtime.ArraySize").Call(list)), 3);
  EXPECT_EQ(*item.Call(list, 2)->View().AsString(), "z");
  EXPECT_TRUE(item.Call(list, 1)->IsNull());
}

TEST_P(TvmPluginTest, FunctionResultIsCalledAndFailsAsItDoes) {
  const Value adder = Call("plugin_adder", 40).value();
  const PackedFunc add(adder.View().AsObject<FunctionObject>("f").value());
  EXPECT_EQ(IntOf(add.Call(2)), 42);
  EXPECT_THAT(add.Call(1, 2), FailsWith(StatusCode::kInternal,
                                        HasSubstr("adder: wants one number")));
  // And goes back in.
  EXPECT_EQ(IntOf(Call("plugin_apply", adder, 1)), 41);
}

TEST_P(TvmPluginTest, ModuleResultHasItsFunctions) {
  const Ref<Module> numbers = ModuleOf(Call("plugin_module"));
  EXPECT_EQ(numbers->kind(), "numbers");
  EXPECT_EQ(IntOf(FunctionOf(numbers, "answer").Call()), 42);
  EXPECT_FALSE(*numbers->GetFunction("nothing"));
  EXPECT_THAT(numbers->GetFunction("broken"),
              FailsWith(StatusCode::kInternal, HasSubstr("it is broken")));
  EXPECT_EQ(IntOf(Call("plugin_ask", Ref<Object>(numbers), "answer")), 42);
}

TEST_P(TvmPluginTest, ObjectOfAnotherTypeIsHeldAndNamedWhereItIsRefused) {
  const Value thing = Call("plugin_thing").value();
  EXPECT_EQ(Text("plugin_text", thing), "type 77");
  EXPECT_THAT(FindFunction("runtime.ArraySize").Call(thing),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("of type plugin.Thing, expected an array")));
}

TEST_P(TvmPluginTest, ObjectsOutliveTheLibrary) {
  const Value text = Call("plugin_string").value();
  library_ = nullptr;
  EXPECT_EQ(text.View().AsString()->size(), 3u);
}

}  // namespace
}  // namespace nodewise
