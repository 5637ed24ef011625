#include "nodewise/func/packed_func.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "nodewise/func/c_api.h"
#include "nodewise/func/containers.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kNo[] = "";  // The conversion is refused.

// What each conversion makes of an argument, as text.
struct Conversions {
  std::string as_int, as_double, as_handle, as_device, as_string, as_tensor;
};

template <typename T, typename Print>
std::string Shown(const absl::StatusOr<T>& value, Print print) {
  if (value.ok()) return print(*value);
  EXPECT_THAT(value, FailsWith(StatusCode::kInvalidArgument,
                               HasSubstr("argument is ")));
  return kNo;
}

Conversions Convert(const ArgView& arg) {
  const auto yes = [](const auto&) { return std::string("yes"); };
  const auto number = [](auto value) {
    return std::to_string(static_cast<int64_t>(value));
  };
  return {Shown(arg.AsInt(), number),
          Shown(arg.AsDouble(), number),
          Shown(arg.AsHandle(), yes),
          Shown(arg.AsDevice(), yes),
          Shown(arg.AsString(), [](auto text) { return std::string(text); }),
          Shown(arg.AsTensor(), yes)};
}

TEST(ArgViewTest, ConvertsAsTvmDoes) {
  const Ref<Object> text_object = MakeRef<StringObject>("obj");
  const Ref<Object> shape_object = MakeRef<ShapeObject>(ShapeOf(*Floats({1})));
  int memory = 0;
  struct Case {
    Value value;
    Conversions expected;
  };
  const Case cases[] = {
      {Value(7), {"7", "7", kNo, kNo, kNo, kNo}},
      {Value(2.0), {kNo, "2", kNo, kNo, kNo, kNo}},
      {Value::Handle(&memory), {kNo, kNo, "yes", kNo, kNo, kNo}},
      {Value(), {kNo, kNo, "yes", kNo, kNo, kNo}},
      {Value("txt"), {kNo, kNo, kNo, kNo, "txt", kNo}},
      {Value(Value::Bytes{"raw"}), {kNo, kNo, kNo, kNo, "raw", kNo}},
      {Value(text_object), {kNo, kNo, kNo, kNo, "obj", kNo}},
      {Value(shape_object), {kNo, kNo, kNo, kNo, kNo, kNo}},
      {Value(kCpu), {kNo, kNo, kNo, "yes", kNo, kNo}},
      {Value(kFloat32), {kNo, kNo, kNo, kNo, kNo, kNo}},
      {Value(Floats({1})), {kNo, kNo, "yes", kNo, kNo, "yes"}},
  };
  for (const Case& c : cases) {
    const Conversions actual = Convert(c.value.View());
    const std::string type(TypeCodeName(c.value.View().code()));
    EXPECT_EQ(actual.as_int, c.expected.as_int) << type;
    EXPECT_EQ(actual.as_double, c.expected.as_double) << type;
    EXPECT_EQ(actual.as_handle, c.expected.as_handle) << type;
    EXPECT_EQ(actual.as_device, c.expected.as_device) << type;
    EXPECT_EQ(actual.as_string, c.expected.as_string) << type;
    EXPECT_EQ(actual.as_tensor, c.expected.as_tensor) << type;
  }
}

TEST(ArgViewTest, BoolOfNewerReleasesIsAnInt) {
  TVMValue value{};
  value.v_int64 = 5;
  EXPECT_EQ(*ArgView(value, kTVMArgBool).AsInt(), 1);
}

TEST(ArgViewTest, TextIsKnownBeforeItIsConverted) {
  const Ref<Object> text = MakeRef<StringObject>("obj");
  const Value texts[] = {Value("a"), Value(Value::Bytes{"b"}), Value(text)};
  for (const Value& value : texts) {
    EXPECT_TRUE(value.View().IsText());
    EXPECT_THAT(value.View().AsString(), IsOk());
  }
  EXPECT_FALSE(Value(1).View().IsText());
  EXPECT_FALSE(Value(kFloat32).View().IsText());
  EXPECT_FALSE(Value().View().IsText());
}

TEST(ArgViewTest, BytesMayHoldZeros) {
  const Value bytes(Value::Bytes{std::string("a\0b", 3)});
  EXPECT_EQ(bytes.View().AsString()->size(), 3u);
}

TEST(ArgViewTest, MismatchNamesBothTypes) {
  EXPECT_THAT(Value("x").View().AsTensor(),
              FailsWith(StatusCode::kInvalidArgument,
                        "argument is string, expected tensor"));
  EXPECT_THAT(ArgView(TVMValue{}, 99).AsInt(),
              FailsWith(StatusCode::kInvalidArgument,
                        "argument is of an unknown type, expected int"));
}

TEST(ArgViewTest, NullPointersAreMismatches) {
  EXPECT_FALSE(ArgView(TVMValue{}, kTVMStr).AsString().ok());
  EXPECT_FALSE(ArgView(TVMValue{}, kTVMBytes).AsString().ok());
  EXPECT_FALSE(ArgView(TVMValue{}, kTVMDLTensorHandle).AsTensor().ok());
  EXPECT_FALSE(ArgView(TVMValue{}, kTVMNDArrayHandle).AsNDArray().ok());
  for (const int code : {kTVMObjectHandle, kTVMObjectRValueRefArg}) {
    EXPECT_FALSE(ArgView(TVMValue{}, code).AsObject<Object>("x").ok()) << code;
  }
}

TEST(ArgViewTest, ObjectByReferenceIsTheObject) {
  const Ref<Object> text = MakeRef<StringObject>("obj");
  ObjectHeader* pointer = text->handle();
  TVMValue value{};
  value.v_handle = &pointer;
  EXPECT_EQ(*ArgView(value, kTVMObjectRValueRefArg).AsString(), "obj");
}

TEST(ArgViewTest, ArrayIsSharedAndTensorIsBorrowed) {
  const NDArray array = Floats({1, 2});
  const auto shared = Value(array).View().AsNDArray();
  ASSERT_THAT(shared, IsOk());
  EXPECT_EQ(shared->tensor(), array.tensor());
  TVMValue value{};
  value.v_handle = array.tensor();
  const auto borrowed = ArgView(value, kTVMDLTensorHandle).AsNDArray();
  ASSERT_THAT(borrowed, IsOk());
  EXPECT_NE(borrowed->tensor(), array.tensor());
  EXPECT_EQ(borrowed->data(), array.data());
}

TEST(PackedArgsTest, ReadingPastTheEndIsTheCallersError) {
  const PackedFunc function =
      PackedFunc::FromBody([](PackedArgs args) -> absl::StatusOr<Value> {
        const auto second = args.At(1);
        if (!second.ok()) return second.status();
        return Value();
      });
  EXPECT_THAT(function.Call(1),
              FailsWith(StatusCode::kInvalidArgument,
                        "not enough arguments: 1 passed, argument 1 is "
                        "needed"));
}

// Sends a value to C and takes it back.
absl::StatusOr<Value> ThroughC(Value value, int* code) {
  TVMValue raw{};
  std::move(value).MoveToC(&raw, code);
  return Value::AdoptFromC(raw, *code);
}

TEST(ValueTest, ComesBackFromCAsItWent) {
  int memory = 0;
  int code = -1;
  EXPECT_EQ(*ThroughC(Value(-7), &code)->Get<int64_t>(), -7);
  EXPECT_EQ(code, kTVMArgInt);
  EXPECT_EQ(*ThroughC(Value(0.5), &code)->Get<double>(), 0.5);
  EXPECT_EQ(code, kTVMArgFloat);
  EXPECT_EQ(*ThroughC(Value::Handle(&memory), &code)->Get<void*>(), &memory);
  EXPECT_EQ(code, kTVMOpaqueHandle);
  EXPECT_TRUE(ThroughC(Value(), &code)->IsNull());
  EXPECT_EQ(code, kTVMNullptr);
  EXPECT_EQ(*ThroughC(Value("text"), &code)->Get<std::string>(), "text");
  EXPECT_EQ(code, kTVMStr);
  EXPECT_EQ(ThroughC(Value(kCpu), &code)->Get<DLDevice>()->device_type, kDLCPU);
  EXPECT_EQ(code, kDLDevice);
}

TEST(ValueTest, TypesBecomeTextOnTheWayToC) {
  int code = -1;
  EXPECT_EQ(*ThroughC(Value(kFloat32), &code)->Get<std::string>(), "float32");
  EXPECT_EQ(code, kTVMStr);
}

TEST(ValueTest, BytesKeepTheirZeros) {
  int code = -1;
  const std::string raw("a\0b", 3);
  const auto back = ThroughC(Value(Value::Bytes{raw}), &code);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(code, kTVMBytes);
  EXPECT_EQ(back->Get<Value::Bytes>()->data, raw);
}

TEST(ValueTest, UndefinedArrayAndObjectAreNull) {
  EXPECT_TRUE(Value(NDArray()).View().IsNull());
  EXPECT_TRUE(Value(Ref<Object>()).View().IsNull());
}

TEST(ValueTest, TextForCStaysUntilTheNextOnTheThread) {
  TVMValue first{};
  TVMValue second{};
  int code = 0;
  Value("of this thread").MoveToC(&first, &code);
  std::thread([&second] {
    int other_code = 0;
    Value("of the other").MoveToC(&second, &other_code);
    EXPECT_STREQ(second.v_str, "of the other");
  }).join();
  EXPECT_STREQ(first.v_str, "of this thread");
}

TEST(ValueTest, ViewOfACopyIsItsOwn) {
  const Value first(Value::Bytes{"first"});
  const Value copy = first;
  const ArgView view = first.View();
  EXPECT_EQ(*copy.View().AsString(), "first");
  EXPECT_NE(copy.View().value().v_handle, view.value().v_handle);
}

TEST(ValueTest, CopyOfAnUnknownTypeIsRefused) {
  EXPECT_THAT(
      Value::Copy(ArgView(TVMValue{}, 99)),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("of an unknown type")));
}

// An object that says when it is gone.
struct Witness final : Object {
  explicit Witness(bool* gone) : gone(gone) {}
  ~Witness() override { *gone = true; }
  std::string_view object_type() const override { return "Witness"; }
  bool* gone;
};

TEST(ValueTest, ObjectGivenToCIsTheReceivers) {
  bool gone = false;
  TVMValue raw{};
  int code = 0;
  Value(Ref<Object>(MakeRef<Witness>(&gone))).MoveToC(&raw, &code);
  EXPECT_EQ(code, kTVMObjectHandle);
  EXPECT_FALSE(gone);
  EXPECT_EQ(TVMObjectFree(raw.v_handle), 0);
  EXPECT_TRUE(gone);
}

TEST(ValueTest, ArrayGivenToCIsTheReceivers) {
  bool gone = false;
  std::shared_ptr<void> owner(nullptr, [&](void*) { gone = true; });
  NDArray array = NDArray::Borrow(*Floats({}), std::move(owner));
  TVMValue raw{};
  int code = 0;
  Value(std::move(array)).MoveToC(&raw, &code);
  EXPECT_EQ(code, kTVMNDArrayHandle);
  EXPECT_FALSE(gone);
  EXPECT_EQ(TVMArrayFree(static_cast<DLTensor*>(raw.v_handle)), 0);
  EXPECT_TRUE(gone);
}

TEST(ValueTest, CopiedArgumentSharesItsObject) {
  bool gone = false;
  Value copy;
  {
    const Value original(Ref<Object>(MakeRef<Witness>(&gone)));
    copy = Value::Copy(original.View()).value();
  }
  EXPECT_FALSE(gone);
  copy = Value();
  EXPECT_TRUE(gone);
}

TEST(PackedFuncTest, CallPassesCppValues) {
  const PackedFunc join =
      PackedFunc::FromBody([](PackedArgs args) -> absl::StatusOr<Value> {
        std::string codes;
        for (int i = 0; i < args.size(); ++i) {
          codes += std::to_string(args.codes()[i]) + " ";
        }
        return Value(codes);
      });
  const auto codes =
      join.Call(1, 2.5, "text", kCpu, kFloat32, Floats({1}), Value());
  ASSERT_THAT(codes, IsOk());
  EXPECT_EQ(*codes->Get<std::string>(), "0 2 11 6 5 13 4 ");
  EXPECT_EQ(*join.Call()->Get<std::string>(), "");
}

TEST(PackedFuncTest, ErrorKeepsItsCodeOnTheWayThroughC) {
  const PackedFunc fail =
      PackedFunc::FromBody([](PackedArgs) -> absl::StatusOr<Value> {
        return absl::UnavailableError("no such device");
      });
  EXPECT_THAT(fail.Call(),
              FailsWith(StatusCode::kUnavailable, "no such device"));
}

TEST(PackedFuncTest, ExceptionsBecomeErrors) {
  const PackedFunc throws =
      PackedFunc::FromBody([](PackedArgs args) -> absl::StatusOr<Value> {
        if (args.size() == 0) throw 5;
        throw std::runtime_error("out of luck");
      });
  EXPECT_THAT(throws.Call(1), FailsWith(StatusCode::kInternal,
                                        "the function threw: out of luck"));
  EXPECT_THAT(throws.Call(), FailsWith(StatusCode::kInternal,
                                       "the function threw something unknown"));
}

TEST(PackedFuncTest, CopiesAreOneFunction) {
  bool gone = false;
  PackedFunc copy;
  {
    const PackedFunc function = PackedFunc::FromAddress(
        [](TVMValue*, int*, int, TVMValue*, int*, void*) { return 0; }, nullptr,
        MakeRef<Witness>(&gone));
    copy = function;
    EXPECT_EQ(copy.object().get(), function.object().get());
  }
  EXPECT_FALSE(gone);
  EXPECT_THAT(copy.Call(), IsOk());
  copy = PackedFunc();
  EXPECT_TRUE(gone);
}

TEST(PackedFuncTest, FunctionMayDropItselfWhileItRuns) {
  PackedFunc holder;
  holder = PackedFunc::FromBody([&holder](PackedArgs) -> absl::StatusOr<Value> {
    const PackedFunc mine = std::exchange(holder, PackedFunc());
    return Value(1);
  });
  const PackedFunc caller = holder;
  EXPECT_EQ(*caller.Call()->Get<int64_t>(), 1);
  EXPECT_FALSE(holder);
}

// A callback that adds its argument to what `total` points at.
int AddToTotal(TVMValue* args, int* codes, int count, TVMRetValueHandle ret,
               void* total) {
  if (count != 1 || codes[0] != kTVMArgInt) {
    TVMAPISetLastError("wants one int");
    return -1;
  }
  TVMValue sum{};
  sum.v_int64 = *static_cast<int64_t*>(total) += args[0].v_int64;
  int code = kTVMArgInt;
  return TVMCFuncSetReturn(ret, &sum, &code, 1);
}
void ResetTotal(void* total) { *static_cast<int64_t*>(total) = 0; }

TEST(PackedFuncTest, CallbackReturnsThroughItsHandle) {
  int64_t total = 0;
  const PackedFunc add = PackedFunc::FromCallback(&AddToTotal, &total, nullptr);
  EXPECT_EQ(*add.Call(5)->Get<int64_t>(), 5);
  EXPECT_EQ(*add.Call(6)->Get<int64_t>(), 11);
  EXPECT_THAT(add.Call("x"), FailsWith(StatusCode::kInternal, "wants one int"));
}

TEST(PackedFuncTest, FinalizerRunsWithTheLastCopy) {
  int64_t total = 3;
  PackedFunc add = PackedFunc::FromCallback(&AddToTotal, &total, &ResetTotal);
  {
    const PackedFunc copy = std::exchange(add, PackedFunc());
    EXPECT_EQ(total, 3);
  }
  EXPECT_EQ(total, 0);
}

TEST(TypeCodeNameTest, EveryCodeHasAName) {
  EXPECT_EQ(TypeCodeName(kTVMArgInt), "int");
  EXPECT_EQ(TypeCodeName(kTVMNDArrayHandle), "NDArray");
  EXPECT_EQ(TypeCodeName(kTVMArgBool), "bool");
  EXPECT_EQ(TypeCodeName(-1), "of an unknown type");
  EXPECT_EQ(TypeCodeName(16), "of an unknown type");
}

}  // namespace
}  // namespace nodewise
