// Lets a C++ program that was written for TVM's runtime (0.8 to 0.19) run on
// nodewise as it stands. The program compiles this file with its own TVM
// headers and links libnodewise_runtime.so in place of libtvm_runtime.so;
// docs/tvm_hosts.md shows how.
//
// TVM's headers expect C++ symbols whose ABI changes with every release, so
// this is source code: it implements what those headers declare on TVM's C API,
// which does not change. The objects of the program (Module, NDArray, Array,
// ...) are made here and are not those of the runtime; to_runtime.h and
// from_runtime.h carry values from one to the other.

// TVM's headers and dmlc's both have macros called LOG and CHECK.
#ifndef DMLC_USE_LOGGING_LIBRARY
#define DMLC_USE_LOGGING_LIBRARY <tvm/runtime/logging.h>
#endif

#if __cplusplus < 201703L
#error \
    "compile tvm_host.cc with -std=c++17; other files may keep their standard"
#endif

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/container/closure.h>
#include <tvm/runtime/data_type.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/profiling.h>
#include <tvm/runtime/threading_backend.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "from_runtime.h"
#include "to_runtime.h"
#include "type_table.h"
#include "version.h"

namespace tvm {
namespace runtime {

using tvm_host::Arguments;
using tvm_host::Check;
using tvm_host::CValue;
using tvm_host::IntValue;
using tvm_host::Name;
using tvm_host::RuntimeArray;
using tvm_host::RuntimeError;
using tvm_host::RuntimeModule;
using tvm_host::SetReturn;
using tvm_host::Text;
using tvm_host::TypeTable;

// --- Object -----------------------------------------------------------------

// TVM's headers ask for the index of a type when it is first used, and keep it.
uint32_t Object::GetOrAllocRuntimeTypeIndex(
    const std::string& key, uint32_t static_tindex, uint32_t parent_tindex,
    uint32_t type_child_slots, bool type_child_slots_can_overflow) {
  return TypeTable::Get().Add(key, static_tindex, parent_tindex,
                              type_child_slots, type_child_slots_can_overflow);
}

bool Object::DerivedFrom(uint32_t parent_tindex) const {
  return TypeTable::Get().IsDerived(type_index_, parent_tindex);
}

// The runtime's own types are not in the program's table.
std::string Object::TypeIndex2Key(uint32_t tindex) {
  char* key = nullptr;
  if (TypeTable::Get().IsKnown(tindex) ||
      TVMObjectTypeIndex2Key(tindex, &key) != 0) {
    return TypeTable::Get().Find(tindex).key;
  }
  std::string text = key;
  std::free(key);
  return text;
}

size_t Object::TypeIndex2KeyHash(uint32_t tindex) {
  return std::hash<std::string>()(TypeIndex2Key(tindex));
}

uint32_t Object::TypeKey2Index(const std::string& key) {
  return TypeTable::Get().IndexOf(key);
}

// Types with fixed indices are not registered at first use, but only here.
TVM_REGISTER_OBJECT_TYPE(ModuleNode);
TVM_REGISTER_OBJECT_TYPE(NDArray::Container);
TVM_REGISTER_OBJECT_TYPE(StringObj);
TVM_REGISTER_OBJECT_TYPE(ArrayNode);
TVM_REGISTER_OBJECT_TYPE(MapNode);
TVM_REGISTER_OBJECT_TYPE(ShapeTupleObj);
TVM_REGISTER_OBJECT_TYPE(ADTObj);
TVM_REGISTER_OBJECT_TYPE(ClosureObj);
#if TVM_HOST_VERSION >= 9
TVM_REGISTER_OBJECT_TYPE(PackedFuncObj);
#endif

// --- NDArray ----------------------------------------------------------------

namespace {

// The runtime has functions for what TVM's C API has no entry for.
NDArray CallForArray(Arguments* arguments, const char* function) {
  TVMRetValue result;
  SetReturn(arguments->Call(function), &result);
  return result;
}

// The C API has no const; what is passed so is only read.
DLTensor* Mutable(const DLTensor* tensor) {
  return const_cast<DLTensor*>(tensor);
}

DLTensor* TensorOf(const NDArray& array) {
  if (!array.defined()) throw RuntimeError("the array is null");
  return Mutable(array.operator->());
}

}  // namespace

// The C API allocates as well, but takes no scope of memory.
NDArray NDArray::Empty(ShapeTuple shape, DLDataType dtype, Device dev,
                       Optional<String> mem_scope) {
  Arguments arguments;
  arguments.AddObject(shape);
  CValue type, device;
  type.value.v_type = dtype;
  type.code = kTVMDataType;
  device.value.v_device = dev;
  device.code = kDLDevice;
  arguments.Add(type);
  arguments.Add(device);
  arguments.AddObject(mem_scope);
  return CallForArray(&arguments, "runtime.TVMArrayAllocWithScope");
}

#if TVM_HOST_VERSION >= 17
NDArray NDArray::CreateView(ShapeTuple shape, DLDataType dtype,
                            uint64_t relative_byte_offset) {
  const auto offset = static_cast<int64_t>(relative_byte_offset);
#else
NDArray NDArray::CreateView(ShapeTuple shape, DLDataType dtype) {
  const int64_t offset = 0;
#endif
  Arguments arguments;
  arguments.AddObject(*this);
  arguments.AddObject(shape);
  CValue type;
  type.value.v_type = dtype;
  type.code = kTVMDataType;
  arguments.Add(type);
  arguments.Add(IntValue(offset));
  return CallForArray(&arguments, "runtime.TVMArrayCreateView");
}

NDArray NDArray::FromDLPack(DLManagedTensor* tensor) {
  TVMArrayHandle array = nullptr;
  Check(TVMArrayFromDLPack(tensor, &array));
  return RuntimeArray::Wrap(array);
}

// A null array is refused here: sharing it would read its first bytes.
DLManagedTensor* NDArray::ToDLPack() const {
  TensorOf(*this);
  return tvm_host::ShareByDlpack(*this);
}

void NDArray::CopyFromTo(const DLTensor* from, DLTensor* to,
                         TVMStreamHandle stream) {
  Check(TVMArrayCopyFromTo(Mutable(from), to, stream));
}

void NDArray::CopyFromBytes(const void* data, size_t nbytes) {
  Check(
      TVMArrayCopyFromBytes(TensorOf(*this), const_cast<void*>(data), nbytes));
}

void NDArray::CopyToBytes(void* data, size_t nbytes) const {
  Check(TVMArrayCopyToBytes(TensorOf(*this), data, nbytes));
}

ShapeTuple NDArray::Shape() const {
  const DLTensor* tensor = TensorOf(*this);
  return ShapeTuple(tensor->shape, tensor->shape + tensor->ndim);
}

runtime::DataType NDArray::DataType() const {
  return runtime::DataType(TensorOf(*this)->dtype);
}

#if TVM_HOST_VERSION >= 16
NDArray NDArray::CopyTo(const Device& dev, Optional<String> mem_scope) const {
  NDArray copy = Empty(Shape(), operator->()->dtype, dev, mem_scope);
  CopyTo(copy);
  return copy;
}
#endif

#if TVM_HOST_VERSION >= 9
// The caller may drop the tensor's shape, which the array then has of its own;
// the elements stay the caller's.
NDArray NDArray::FromExternalDLTensor(const DLTensor& dl_tensor) {
  struct Shared {
    DLManagedTensor managed;
    std::vector<int64_t> shape;
  };
  auto* shared =
      new Shared{{}, {dl_tensor.shape, dl_tensor.shape + dl_tensor.ndim}};
  shared->managed.dl_tensor = dl_tensor;
  shared->managed.dl_tensor.shape = shared->shape.data();
  shared->managed.manager_ctx = shared;
  shared->managed.deleter = [](DLManagedTensor* managed) {
    delete static_cast<Shared*>(managed->manager_ctx);
  };
  return FromDLPack(&shared->managed);
}

// Compiled code may load whole vectors, so that the address must be as aligned
// as that of an array which was allocated for it.
bool NDArray::AbilityOfZeroCopyForDLTensor(DLTensor* tensor,
                                           const Device& dev) {
  const auto address =
      reinterpret_cast<uintptr_t>(tensor->data) + tensor->byte_offset;
  return tensor->device.device_type == dev.device_type &&
         address % kAllocAlignment == 0;
}

NDArray NDArray::NewFromDLTensor(DLTensor* dl_tensor, const Device& dev) {
  NDArray copy =
      Empty(ShapeTuple(dl_tensor->shape, dl_tensor->shape + dl_tensor->ndim),
            dl_tensor->dtype, dev);
  copy.CopyFrom(dl_tensor);
  return copy;
}
#endif

// --- Module -----------------------------------------------------------------

namespace {

// The error of a module made by the program for what it does not support.
[[noreturn]] void Refuse(const ModuleNode* module, const char* what) {
  throw RuntimeError(std::string("a module of kind ") + module->type_key() +
                     " has no " + what);
}

// Modules with a cycle of imports would look for a function for ever.
bool IsReached(ModuleNode* from, const ModuleNode* wanted) {
  if (from == wanted) return true;
  return std::any_of(
      from->imports().begin(), from->imports().end(),
      [&](Module import) { return IsReached(import.operator->(), wanted); });
}

}  // namespace

Module Module::LoadFromFile(Name file_name, Name format) {
  TVMModuleHandle module = nullptr;
  Check(TVMModLoadFromFile(file_name.c_str(), format.c_str(), &module));
  return Module(make_object<RuntimeModule>(module));
}

// A module's own function comes first; imports are asked in their order, and
// each asks its own.
PackedFunc ModuleNode::GetFunction(Name name, bool query_imports) {
  PackedFunc function = GetFunction(name, GetObjectPtr<Object>(this));
  if (function != nullptr || !query_imports) return function;
  for (Module& import : imports_) {
    function = import.operator->()->GetFunction(name, query_imports);
    if (function != nullptr) break;
  }
  return function;
}

void ModuleNode::Import(Module other) {
  if (IsReached(other.operator->(), this)) {
    throw RuntimeError("a module cannot import one that imports it");
  }
  // The runtime must know of imports between its own modules, since it looks
  // for functions there without asking this program.
  auto* const here = dynamic_cast<RuntimeModule*>(this);
  auto* const there = dynamic_cast<RuntimeModule*>(other.operator->());
  if (here != nullptr && there != nullptr) {
    Check(TVMModImport(here->handle(), there->handle()));
  }
  imports_.push_back(std::move(other));
}

const PackedFunc* ModuleNode::GetFuncFromEnv(Name name) {
  const std::string key(name);
  // Modules of 0.8 have no mutex of their own. This one is recursive, since an
  // import may look for functions in turn.
  static std::recursive_mutex mutex;
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  auto& known = import_cache_[key];
  if (known != nullptr) return known.get();
  for (Module& import : imports_) {
    const PackedFunc function = import.GetFunction(name, true);
    if (function == nullptr) continue;
    known = std::make_shared<PackedFunc>(function);
    return known.get();
  }
  const PackedFunc* const registered = Registry::Get(name);
  if (registered == nullptr) Refuse(this, ("function " + key).c_str());
  return registered;
}

// Only what compiles networks saves modules; a program that runs them has no
// use for these, but TVM's headers declare them.
void ModuleNode::SaveToFile(Name, Name) { Refuse(this, "file form"); }
void ModuleNode::SaveToBinary(dmlc::Stream*) { Refuse(this, "binary form"); }
Text ModuleNode::GetSource(Name) { Refuse(this, "source"); }
#if TVM_HOST_VERSION >= 9
Text ModuleNode::GetFormat() { Refuse(this, "format"); }
#if TVM_HOST_VERSION < 12
bool ModuleNode::IsDSOExportable() const { return false; }
#endif
bool ModuleNode::ImplementsFunction(const String& name, bool query_imports) {
  return GetFunction(Text(name), query_imports) != nullptr;
}
#endif

bool RuntimeEnabled(Name target) {
  Arguments arguments;
  const std::string text(target);
  arguments.AddObject(String(text));
  return arguments.Call("runtime.RuntimeEnabled").value.v_int64 != 0;
}

// --- Registry ---------------------------------------------------------------

// The functions that the program registered, and those of the runtime that it
// has asked for. As in TVM, a pointer that was handed out stays valid and keeps
// its function when another function takes the name, so nothing is ever
// dropped.
struct Registry::Manager {
  static Manager& Get() {
    static auto* const manager = new Manager;
    return *manager;
  }

  struct Known {
    tvm_host::Handle handle{nullptr};  // The runtime's, for comparison.
    PackedFunc function;
  };

  std::recursive_mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<Registry>> made;
  std::deque<Known> kept;
  std::unordered_map<std::string, Known*> known;

  void Keep(const std::string& name, tvm_host::Handle handle,
            PackedFunc function) {
    kept.push_back({std::move(handle), std::move(function)});
    known[name] = &kept.back();
  }
};

namespace {

TVMFunctionHandle FindGlobal(Name name) {
  TVMFunctionHandle function = nullptr;
  Check(TVMFuncGetGlobal(name.c_str(), &function));
  return function;
}

}  // namespace

// The function itself comes with set_body(), so that a name without one may
// exist for a moment; the runtime hears of it only then.
Registry& Registry::Register(Name name, bool can_override) {
  Manager& manager = Manager::Get();
  const std::lock_guard<std::recursive_mutex> lock(manager.mutex);
  const tvm_host::Handle existing(FindGlobal(name));
  if (existing.get() != nullptr && !can_override) {
    throw RuntimeError(std::string("function ") + name.c_str() +
                       " is registered already");
  }
  std::unique_ptr<Registry>& entry = manager.made[name.c_str()];
  if (entry == nullptr) entry = std::make_unique<Registry>();
  entry->name_ = name;
  return *entry;
}

Registry& Registry::set_body(PackedFunc f) {
  Manager& manager = Manager::Get();
  const std::lock_guard<std::recursive_mutex> lock(manager.mutex);
  tvm_host::Handle callback(tvm_host::MakeCallback(f));
  Check(TVMFuncRegisterGlobal(name_.c_str(), callback.get(), 1));
  func_ = f;
  manager.Keep(name_.c_str(), std::move(callback), std::move(f));
  return *this;
}

// What the program registered is found as the runtime's function, too, so that
// one table decides which of several was registered last.
const PackedFunc* Registry::Get(Name name) {
  Manager& manager = Manager::Get();
  const std::lock_guard<std::recursive_mutex> lock(manager.mutex);
  tvm_host::Handle found(FindGlobal(name));
  if (found.get() == nullptr) return nullptr;
  Manager::Known*& known = manager.known[name.c_str()];
  // Another language may have put another function in its place.
  if (known == nullptr || known->handle.get() != found.get()) {
    TVMObjectRetain(found.get());
    PackedFunc function = tvm_host::WrapFunction(found.get());
    manager.Keep(name.c_str(), std::move(found), std::move(function));
  }
  return &known->function;
}

bool Registry::Remove(Name name) {
  const tvm_host::Handle existing(FindGlobal(name));
  if (existing.get() == nullptr) return false;
  Check(TVMFuncRemoveGlobal(name.c_str()));
  return true;
}

std::vector<Text> Registry::ListNames() {
  int count = 0;
  const char** names = nullptr;
  Check(TVMFuncListGlobalNames(&count, &names));
  return std::vector<Text>(names, names + count);
}

// Only a host in Python has signals of its own to look at here.
void EnvCheckSignals() {}

// --- Logging and types of one's own -----------------------------------------

// Errors come from the runtime, whose stack is not this program's.
std::string Backtrace() { return ""; }

namespace detail {

#if !TVM_LOG_CUSTOMIZE
LogFatal::Entry& LogFatal::GetEntry() {
  static thread_local Entry entry;
  return entry;
}
#if TVM_HOST_VERSION >= 11
const char* LogMessage::level_strings_[] = {
    ": Debug: ", ": ", ": Warning: ", ": Error: ", ": Fatal: "};
#endif
#endif

}  // namespace detail

// Types of one's own are registered with a compiler, and there is none here.
std::string GetCustomTypeName(uint8_t type_code) {
  throw RuntimeError("no custom type has the code " +
                     std::to_string(type_code));
}

bool GetCustomTypeRegistered(uint8_t) { return false; }

uint8_t ParseCustomDatatype(const std::string& s, const char**) {
  throw RuntimeError("no custom type is called " + s);
}

#include "devices.inc"

}  // namespace runtime
}  // namespace tvm
