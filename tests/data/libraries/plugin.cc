// A plug-in of C++ on TVM's headers: its functions look into the objects that
// they are given, and return objects of their own.

#include "tvm_classes.h"

namespace tvm {
namespace runtime {

std::string Object::TypeIndex2Key(uint32_t index) {
  return index == 77 ? "plugin.Thing" : "unknown";
}
void ModuleNode::SaveToFile(const Name&, const Name&) {}
void ModuleNode::SaveToBinary(void*) {}
Name ModuleNode::GetSource(const Name&) { return Name("source"); }
#if TVM >= 9
Name ModuleNode::GetFormat() { return Name("format"); }
#endif

namespace {

// --- arguments --------------------------------------------------------------

PackedFunc FunctionAt(TVMArgs args, int i) {
  void* const handle = args.values[i].v_handle;
#if TVM == 8
  return *static_cast<PackedFunc*>(handle);
#else
  return PackedFunc(static_cast<Object*>(handle));
#endif
}

// (array): the sum of its floats, held by a count of the plug-in's own.
void Sum(TVMArgs args, TVMRetValue* ret) {
  auto* const container = reinterpret_cast<NDArrayContainer*>(
      static_cast<char*>(args.values[0].v_handle) - sizeof(Object));
  if (container->type_index_ != 2) throw std::runtime_error("is not an array");
  const ObjectRef held(container);
  float sum = 0;
  for (int64_t i = 0; i < container->tensor.shape[0]; ++i) {
    sum += static_cast<float*>(container->tensor.data)[i];
  }
  ret->Set(static_cast<int64_t>(sum));
}

// (function, arguments...): what the function returns.
void Apply(TVMArgs args, TVMRetValue* ret) {
  const PackedFunc function = FunctionAt(args, 0);
  const PackedFunc again = function;
  again({args.values + 1, args.type_codes + 1, args.num_args - 1}, ret);
  if (ret->code != kTVMStr) return;
  // A std::string cannot leave by the C convention.
  const std::string text = *static_cast<std::string*>(ret->value.v_handle);
  ret->Set(String(text), kTVMObjectHandle);
}

// (object): its type, and the strings or numbers in it, as one string.
std::string Describe(Object* object) {
  std::string text;
  if (object == nullptr) return "null";
  switch (object->type_index_) {
    case 3:
      return std::string(String(object));
    case 4: {
      auto* const array = static_cast<ArrayNode*>(object);
      for (int64_t i = 0; i < array->size; ++i) {
        text += Describe(array->items()[i].get()) + ";";
      }
      return "[" + text + "]";
    }
    case 5: {
      auto* const map = static_cast<MapNode*>(object);
      for (uint64_t i = 0; map->slots <= 4 && i < map->size; ++i) {
        text += Describe(map->pairs()[2 * i].get()) + "=" +
                Describe(map->pairs()[2 * i + 1].get()) + ";";
      }
      return "{" + text + "}";
    }
    case 6: {
      auto* const shape = static_cast<ShapeTupleObj*>(object);
      for (uint64_t i = 0; i < shape->size; ++i) {
        text += std::to_string(shape->data[i]) + ",";
      }
      return "(" + text + ")";
    }
    default:
      return "type " + std::to_string(object->type_index_);
  }
}

void Text(TVMArgs args, TVMRetValue* ret) {
  const ObjectRef held(static_cast<Object*>(args.values[0].v_handle));
  ret->Set(String(Describe(held.get())), kTVMObjectHandle);
}

// (module, name, arguments...): what its function of that name returns.
void Ask(TVMArgs args, TVMRetValue* ret) {
  ModuleNode* const module = ModuleOf(args.values[0].v_handle);
  const ObjectRef self(module);
  const Name name(args.values[1].v_str);
  const PackedFunc function = module->GetFunction(name, self);
  if (!function) throw std::runtime_error("has no such function");
  function({args.values + 2, args.type_codes + 2, args.num_args - 2}, ret);
  if (ret->code == kTVMStr) ret->Set(0);
}

void KindAndImports(TVMArgs args, TVMRetValue* ret) {
  ModuleNode* const module = ModuleOf(args.values[0].v_handle);
  ret->Set(String(std::string(module->type_key()) + " " +
                  std::to_string(module->imports_.size())),
           kTVMObjectHandle);
}

void Source(TVMArgs args, TVMRetValue* ret) {
  ret->Set(String(std::string(
               ModuleOf(args.values[0].v_handle)->GetSource(Name("")))),
           kTVMObjectHandle);
}

// --- results ----------------------------------------------------------------

void MakeString(TVMArgs, TVMRetValue* ret) {
  ret->Set(String(std::string("a\0b", 3)), kTVMObjectHandle);
}

void MakeShape(TVMArgs, TVMRetValue* ret) {
  ret->Set(Make<ShapeTupleObj>(6, std::vector<int64_t>{2, 3}),
           kTVMObjectHandle);
}

void MakeList(TVMArgs, TVMRetValue* ret) {
  ret->Set(MakeArray({String("x"), ObjectRef(), String("z")}),
           kTVMObjectHandle);
}

// Adds its argument to the one that was given here.
void MakeAdder(TVMArgs args, TVMRetValue* ret) {
  // More than a std::function holds without memory of its own.
  const int64_t more[3] = {args.values[0].v_int64, 0, 0};
  ret->Set(PackedFunc([more](TVMArgs call, TVMRetValue* sum) {
    if (call.num_args != 1) throw std::runtime_error("adder: wants one number");
    sum->Set(more[0] + call.values[0].v_int64);
  }));
}

class Numbers final : public ModuleNode {
 public:
  const char* type_key() const final { return "numbers"; }
  PackedFunc GetFunction(const Name& name, const ObjectRef& self) final {
    const std::string wanted = name;
    if (wanted == "broken") throw std::runtime_error("it is broken");
    if (wanted != "answer") return PackedFunc();
    return PackedFunc([self](TVMArgs, TVMRetValue* ret) { ret->Set(42); });
  }
};

void MakeModule(TVMArgs, TVMRetValue* ret) {
  ret->Set(Make<Numbers>(1), kTVMModuleHandle);
}

struct Thing : Object {};
void MakeThing(TVMArgs, TVMRetValue* ret) {
  ret->Set(Make<Thing>(77), kTVMObjectHandle);
}

}  // namespace
}  // namespace runtime
}  // namespace tvm

EXPORT(plugin_sum, tvm::runtime::Sum)
EXPORT(plugin_apply, tvm::runtime::Apply)
EXPORT(plugin_text, tvm::runtime::Text)
EXPORT(plugin_ask, tvm::runtime::Ask)
EXPORT(plugin_kind, tvm::runtime::KindAndImports)
EXPORT(plugin_source, tvm::runtime::Source)
EXPORT(plugin_string, tvm::runtime::MakeString)
EXPORT(plugin_shape, tvm::runtime::MakeShape)
EXPORT(plugin_list, tvm::runtime::MakeList)
EXPORT(plugin_adder, tvm::runtime::MakeAdder)
EXPORT(plugin_module, tvm::runtime::MakeModule)
EXPORT(plugin_thing, tvm::runtime::MakeThing)
