// The checks of values that pass between the program and the runtime.

#include <dlpack/dlpack.h>
#include <tvm/runtime/container/adt.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/container/shape_tuple.h>
#include <tvm/runtime/container/string.h>

#include "cpp_host.h"

namespace host {
namespace {

// Passes a value through the runtime and back: compiled code of a library calls
// a function of this program with it.
template <typename T>
TVMRetValue ThroughTheRuntime(const T& value) {
  Module library = Module::LoadFromFile(closure_path);
  const PackedFunc echo(
      [](TVMArgs args, TVMRetValue* result) { *result = args[0]; });
  return library.GetFunction("calls_argument")(echo, value);
}

void ArraysAreCopiedAndSeen() {
  NDArray x = Floats(kX);
  EXPECT(x.IsContiguous() && x.Shape().size() == 1);
  EXPECT(x.DataType() == tvm::DataType::Float(32));
  NDArray copy = x.CopyTo(kCpu);
  static_cast<float*>(x->data)[0] = 9;
  EXPECT(ValuesOf(copy) == kX);
  copy.CopyFrom(x);
  EXPECT(ValuesOf(copy)[0] == 9);
  NDArray view = x.CreateView({2, 2}, kFloat);
  EXPECT(view->data == x->data && view->ndim == 2);
  x = NDArray();
  EXPECT(ValuesOf(view)[1] == 2);
  EXPECT(Contains(ErrorOf([&] { view.CreateView({5}, kFloat); }), "20 bytes"));
}

void ArraysGoThroughDlpack() {
  NDArray x = Floats(kX);
  DLManagedTensor* managed = x.ToDLPack();
  x = NDArray();
  NDArray back = NDArray::FromDLPack(managed);
  EXPECT(ValuesOf(back) == kX);
  DLManagedTensor* unused = back.ToDLPack();
  unused->deleter(unused);
}

// An array whose memory is the program's, under a container of its own.
void ArrayOfTheProgramIsShared() {
  static int freed = 0;
  struct Owned {
    DLManagedTensor managed{};
    std::vector<float> data = kX;
    int64_t shape[1] = {4};
  };
  auto* owned = new Owned;
  owned->managed.dl_tensor.data = owned->data.data();
  owned->managed.dl_tensor.device = kCpu;
  owned->managed.dl_tensor.ndim = 1;
  owned->managed.dl_tensor.dtype = kFloat;
  owned->managed.dl_tensor.shape = owned->shape;
  owned->managed.manager_ctx = owned;
  owned->managed.deleter = [](DLManagedTensor* managed) {
    ++freed;
    delete static_cast<Owned*>(managed->manager_ctx);
  };
  NDArray x = NDArray::FromDLPack(&owned->managed);
  NDArray back = ThroughTheRuntime(x);
  EXPECT(back->data == x->data);
  x = NDArray();
  EXPECT(freed == 0 && ValuesOf(back) == kX);
  back = NDArray();
  EXPECT(freed == 1);
}

void ValuesPassBothWays() {
  EXPECT(static_cast<int64_t>(ThroughTheRuntime(int64_t{1} << 40)) ==
         int64_t{1} << 40);
  EXPECT(static_cast<int>(ThroughTheRuntime(-7)) == -7);
  EXPECT(static_cast<double>(ThroughTheRuntime(2.5)) == 2.5);
  EXPECT(static_cast<bool>(ThroughTheRuntime(true)));
  EXPECT(ThroughTheRuntime("text").operator std::string() == "text");
  EXPECT(ThroughTheRuntime(nullptr).type_code() == kTVMNullptr);
  const DLDevice device = ThroughTheRuntime(kCpu);
  EXPECT(device.device_type == kDLCPU);
  const DLDataType type = ThroughTheRuntime(kFloat);
  EXPECT(type.bits == 32 && type.code == kDLFloat);
  int here = 0;
  void* pointer = ThroughTheRuntime(static_cast<void*>(&here));
  EXPECT(pointer == &here);
}

void ContainersPassBothWays() {
  String text = ThroughTheRuntime(String("some text"));
  EXPECT(text == "some text");
  Array<String> words = ThroughTheRuntime(Array<String>{"a", "b", "c"});
  EXPECT(words.size() == 3 && words[2] == "c");
  Map<String, ObjectRef> map;
  map.Set("array", Floats(kX));
  map.Set("words", words);
  map.Set("shape", ShapeTuple({2, 3}));
  Map<String, ObjectRef> back = ThroughTheRuntime(map);
  EXPECT(back.size() == 3);
  EXPECT(ValuesOf(tvm::Downcast<NDArray>(back["array"])) == kX);
  EXPECT(tvm::Downcast<Array<String>>(back["words"]).size() == 3);
  ShapeTuple shape = ThroughTheRuntime(ShapeTuple({1, 2, 3}));
  EXPECT(shape.size() == 3 && shape[2] == 3);
  ADT adt = ThroughTheRuntime(ADT(5, std::vector<ObjectRef>{words, shape}));
  EXPECT(adt.tag() == 5 && adt.size() == 2);
  EXPECT(adt->GetTypeKey() == "runtime.ADT");
  Array<ObjectRef> holes =
      ThroughTheRuntime(Array<ObjectRef>{ObjectRef(nullptr), String("x")});
  EXPECT(!holes[0].defined() && holes[1].defined());
  EXPECT(ThroughTheRuntime(Array<ObjectRef>())
             .
             operator Array<ObjectRef>()
             .empty());
  Module module = ThroughTheRuntime(Module::LoadFromFile(factory_path));
  EXPECT(module.GetFunction("default") != nullptr);
}

// Arguments that the caller moves.
void MovedContainersPass() {
  Array<String> words{"a", "b"};
  const PackedFunc echo(
      [](TVMArgs args, TVMRetValue* result) { *result = args[0]; });
  Module library = Module::LoadFromFile(closure_path);
  Array<String> back =
      library.GetFunction("calls_argument")(echo, std::move(words));
  EXPECT(back.size() == 2 && back[1] == "b");
}

void ClosuresPassBothWays() {
  int calls = 0;
  PackedFunc counts([&calls](TVMArgs args, TVMRetValue* result) {
    ++calls;
    *result = args[0].operator int() + 1;
  });
  PackedFunc back = ThroughTheRuntime(counts);
  EXPECT(static_cast<int>(back(41)) == 42 && calls == 1);
  PackedFunc again = ThroughTheRuntime(back);
  EXPECT(static_cast<int>(again(1)) == 2 && calls == 2);
  TypedPackedFunc<std::string(int, std::string)> typed(
      [](int count, std::string text) { return text + std::to_string(count); });
  PackedFunc untyped = ThroughTheRuntime(typed);
  EXPECT(untyped(3, "a").operator std::string() == "a3");
  // A function that makes functions.
  PackedFunc make([](TVMArgs args, TVMRetValue* result) {
    const int first = args[0];
    *result = PackedFunc([first](TVMArgs inner, TVMRetValue* sum) {
      *sum = first + inner[0].operator int();
    });
  });
  PackedFunc made = ThroughTheRuntime(make).operator PackedFunc()(40);
  EXPECT(static_cast<int>(made(2)) == 42);
}

void FunctionsAreRegistered() {
  EXPECT(static_cast<int>(Global("host.twice")(21)) == 42);
  EXPECT(Global("host.join")(7, String("n")).operator String() == "n7");
  EXPECT(Registry::Get("host.nothing") == nullptr);
  EXPECT(Contains(ErrorOf([] { Registry::Register("host.twice"); }),
                  "host.twice is registered already"));
  // A function that takes a name may call the previous one.
  const PackedFunc* const before = Registry::Get("host.twice");
  Registry::Register("host.twice", true)
      .set_body([before](TVMArgs args, TVMRetValue* result) {
        *result = static_cast<int>((*before)(args[0])) + 1;
      });
  EXPECT(static_cast<int>(Global("host.twice")(21)) == 43);
  EXPECT(static_cast<int>((*before)(21)) == 42);
  bool is_listed = false;
  for (const auto& name : Registry::ListNames()) {
    is_listed |= std::string(name) == "host.join";
  }
  EXPECT(is_listed);
  EXPECT(Registry::Remove("host.join") && !Registry::Remove("host.join"));
  EXPECT(Registry::Get("host.join") == nullptr);
}

// An error thrown in this program, below the runtime and the program again.
void ErrorsPassThroughTheRuntime() {
  Module library = Module::LoadFromFile(closure_path);
  const PackedFunc calls = library.GetFunction("calls_argument");
  const PackedFunc throws(
      [](TVMArgs, TVMRetValue*) { throw std::runtime_error("three deep"); });
  const PackedFunc middle([&](TVMArgs, TVMRetValue*) { calls(throws, 1); });
  EXPECT(Contains(ErrorOf([&] { calls(middle, 1); }), "three deep"));
}

// Types of the program's own, with room for children and without.
class Base : public Object {
 public:
  static constexpr const char* _type_key = "host.Base";
  static constexpr uint32_t _type_child_slots = 1;
  TVM_DECLARE_BASE_OBJECT_INFO(Base, Object);
};
class First : public Base {
 public:
  static constexpr const char* _type_key = "host.First";
  TVM_DECLARE_FINAL_OBJECT_INFO(First, Base);
};
class Second : public Base {
 public:
  static constexpr const char* _type_key = "host.Second";
  TVM_DECLARE_FINAL_OBJECT_INFO(Second, Base);
};

void TypesKnowTheirParents() {
  ObjectRef first(make_object<First>());
  ObjectRef second(make_object<Second>());
  EXPECT(first->IsInstance<Base>() && second->IsInstance<Base>());
  EXPECT(first->IsInstance<First>() && !first->IsInstance<Second>());
  EXPECT(!ObjectRef(make_object<Base>())->IsInstance<First>());
  EXPECT(!String("x")->IsInstance<Base>());
  EXPECT(first->GetTypeKey() == "host.First");
  EXPECT(Object::TypeKey2Index("host.First") == first->type_index());
  EXPECT(Contains(ErrorOf([&] { ThroughTheRuntime(first); }),
                  "host.First cannot be handed to the runtime"));
}

TVM_REGISTER_GLOBAL("host.twice").set_body([](TVMArgs args, TVMRetValue* rv) {
  *rv = 2 * args[0].operator int();
});
TVM_REGISTER_GLOBAL("host.join").set_body_typed([](int number, String text) {
  return String(std::string(text) + std::to_string(number));
});

}  // namespace

#define CHECK_ROW(name) \
  { #name, &name }

std::vector<Check> ValueChecks() {
  return {
      CHECK_ROW(ArraysAreCopiedAndSeen),      CHECK_ROW(ArraysGoThroughDlpack),
      CHECK_ROW(ArrayOfTheProgramIsShared),   CHECK_ROW(ValuesPassBothWays),
      CHECK_ROW(ContainersPassBothWays),      CHECK_ROW(MovedContainersPass),
      CHECK_ROW(ClosuresPassBothWays),        CHECK_ROW(FunctionsAreRegistered),
      CHECK_ROW(ErrorsPassThroughTheRuntime), CHECK_ROW(TypesKnowTheirParents),
  };
}

}  // namespace host
