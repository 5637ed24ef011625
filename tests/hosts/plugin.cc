// A plug-in as a user of TVM writes it: functions of TVM's classes, exported.
// plugin_host.py loads it.

#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/container/shape_tuple.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

namespace {

using namespace tvm::runtime;  // NOLINT: as TVM's own examples do.

double Sum(NDArray array) {
  const NDArray kept = array;
  double sum = 0;
  for (int64_t i = 0; i < kept->shape[0]; ++i) {
    sum += static_cast<float*>(kept->data)[i];
  }
  return sum;
}

int64_t Apply(PackedFunc function, int64_t x) { return function(x); }

String Join(Array<String> words, String between) {
  std::string text;
  for (const String& word : words) {
    text += (text.empty() ? "" : std::string(between)) + std::string(word);
  }
  return String(text);
}

NDArray Lookup(Map<String, NDArray> arrays, String key) { return arrays[key]; }

int64_t Product(ShapeTuple shape) {
  int64_t product = 1;
  for (const int64_t side : shape) product *= side;
  return product;
}

int64_t Ask(Module module, std::string name) {
  PackedFunc function = module.GetFunction(name, true);
  return function != nullptr ? function().operator int64_t() : -1;
}

std::string KindOf(Module module) { return module->type_key(); }

// What the runtime was handed by it goes back to the runtime.
Module Executor(Module factory, DLDevice device) {
  const PackedFunc* create = Registry::Get("tvm.graph_executor.create");
  const std::string json = factory.GetFunction("get_graph_json")();
  return (*create)(json, factory->imports()[0],
                   static_cast<int>(device.device_type), 0);
}

ShapeTuple MakeShape(int64_t rank) {
  return ShapeTuple(std::vector<int64_t>(static_cast<size_t>(rank), 3));
}
Array<String> MakeArray() { return {"a", "b", "c"}; }
Map<String, String> MakeMap(int64_t count) {
  Map<String, String> map;
  for (int64_t i = 0; i < count; ++i) {
    map.Set("k" + std::to_string(i), "v" + std::to_string(i));
  }
  return map;
}
PackedFunc MakeAdder(int64_t n) {
  return TypedPackedFunc<int64_t(int64_t)>([n](int64_t x) { return x + n; });
}

template <typename Result, typename Argument>
Argument ArgumentOf(Result (*)(Argument));
using Name = decltype(ArgumentOf(&Registry::Get));

class Numbers final : public ModuleNode {
 public:
  const char* type_key() const final { return "numbers"; }
  PackedFunc GetFunction(Name name, const ObjectPtr<Object>& self) final {
    if (name != "answer") return PackedFunc();
    return PackedFunc([self](TVMArgs, TVMRetValue* result) { *result = 42; });
  }
};
Module MakeModule() { return Module(make_object<Numbers>()); }
NDArray MakeNDArray(int64_t n) {
  NDArray array =
      NDArray::Empty({n}, DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  for (int64_t i = 0; i < n; ++i) static_cast<float*>(array->data)[i] = i;
  return array;
}
int64_t Fail(int64_t x) {
  ICHECK_GT(x, 5) << "too small";
  return x;
}

}  // namespace

TVM_DLL_EXPORT_TYPED_FUNC(sum, Sum);
TVM_DLL_EXPORT_TYPED_FUNC(apply, Apply);
TVM_DLL_EXPORT_TYPED_FUNC(join, Join);
TVM_DLL_EXPORT_TYPED_FUNC(lookup, Lookup);
TVM_DLL_EXPORT_TYPED_FUNC(product, Product);
TVM_DLL_EXPORT_TYPED_FUNC(ask, Ask);
TVM_DLL_EXPORT_TYPED_FUNC(executor, Executor);
TVM_DLL_EXPORT_TYPED_FUNC(kind_of, [](Module module) -> String {
  return String(KindOf(module));
});
TVM_DLL_EXPORT_TYPED_FUNC(make_shape, MakeShape);
TVM_DLL_EXPORT_TYPED_FUNC(make_array, MakeArray);
TVM_DLL_EXPORT_TYPED_FUNC(make_map, MakeMap);
TVM_DLL_EXPORT_TYPED_FUNC(make_adder, MakeAdder);
TVM_DLL_EXPORT_TYPED_FUNC(make_module, MakeModule);
TVM_DLL_EXPORT_TYPED_FUNC(make_ndarray, MakeNDArray);
TVM_DLL_EXPORT_TYPED_FUNC(fail, Fail);
