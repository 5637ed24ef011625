#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <stdexcept>

#include "nodewise/func/c_errors.h"
#include "nodewise/func/containers.h"
#include "nodewise/func/tvm_object_abi.h"
#include "nodewise/module/module.h"
#include "nodewise/support/status.h"
#include "runtime/module/library_module.h"

namespace nodewise {
namespace {

// How the virtual functions of ModuleNode pass names and functions.
enum class ModuleForm {
  kStdFunctions,  // TVM 0.8: std::string, std::function.
  kStdNames,      // 0.9 to 0.12: std::string, objects.
  kObjects,       // Since 0.13: String, objects.
};

// Returns the form of the code at an address, by the functions of ModuleNode
// that its library has or calls. The names have TVM's types in them, as the
// compiler mangles them, and these changed with the releases. Both the code's
// own library and the process are asked, since TVM's runtime may be linked in
// or stand beside it.
ModuleForm FormOf(const void* address) {
  constexpr char kNames[] =
      "_ZN3tvm7runtime10ModuleNode10SaveToFileERKNS0_6StringES4_";
  constexpr char kSince9[] = "_ZN3tvm7runtime10ModuleNode9GetFormatB5cxx11Ev";
  Dl_info info;
  void* library = nullptr;
  if (dladdr(address, &info) != 0) {
    library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }
  const auto has = [&](const char* symbol) {
    return (library != nullptr && dlsym(library, symbol) != nullptr) ||
           dlsym(RTLD_DEFAULT, symbol) != nullptr;
  };
  ModuleForm form = ModuleForm::kStdFunctions;
  if (has(kNames)) {
    form = ModuleForm::kObjects;
  } else if (has(kSince9)) {
    form = ModuleForm::kStdNames;
  }
  if (library != nullptr) dlclose(library);
  return form;
}

// A module as its class sees it, and the beginning of its virtual functions.
// The layout is that of the C++ ABI that GCC and Clang share: the pointer to
// the virtual functions first, then the members, of which the imports are the
// first that is read here.
struct TvmModule {
  using TypeKey = const char* (*)(const TvmModule* self);
  using GetFunction = TvmFunctionResult (*)(TvmModule* self, const void* name,
                                            ObjectHeader* const* holder);
  struct Functions {
    const void* destructors[2];
    TypeKey type_key;
    GetFunction get_function;
  };

  const Functions* functions;
  ObjectHeader header;
  ObjectHeader** imports;  // A std::vector.
  ObjectHeader** imports_end;

  static TvmModule* Of(ObjectHeader* header) {
    return reinterpret_cast<TvmModule*>(reinterpret_cast<char*>(header) -
                                        offsetof(TvmModule, header));
  }
};
static_assert(offsetof(TvmModule, header) == sizeof(void*));

// Stands for a module that compiled C++ has made, and owns a count of it. Its
// class lies in a library that this runtime knows nothing of, so that all calls
// go by the places of the virtual functions.
class WrappedModule final : public Module {
 public:
  explicit WrappedModule(ObjectHeader* header)
      : module_(TvmModule::Of(header)),
        form_(FormOf(module_->functions)),
        kind_(module_->functions->type_key(module_)) {}
  ~WrappedModule() override { module_->header.Release(); }

  std::string_view kind() const override { return kind_; }
  int properties() const override { return kModuleIsRunnable; }
  absl::StatusOr<PackedFunc> GetFunction(std::string_view name) override {
    try {
      return Get(std::string(name));
    } catch (...) {
      return Internal("a module of kind {}, asked for function {}, {}", kind_,
                      name, TextOfException());
    }
  }

 private:
  // A std::function comes back in the four words themselves, and is moved to
  // memory that FunctionDropper frees.
  PackedFunc Get(const std::string& name) {
    const Ref<StringObject> text = MakeRef<StringObject>(name);
    ObjectHeader* const text_header = text->handle();
    const void* const argument = form_ == ModuleForm::kObjects
                                     ? static_cast<const void*>(&text_header)
                                     : &name;
    ObjectHeader* const self = &module_->header;
    const TvmFunctionResult found =
        module_->functions->get_function(module_, argument, &self);
    void* function = found.words[0];
    if (form_ == ModuleForm::kStdFunctions) {
      if (found.words[2] == nullptr) return PackedFunc();
      function = ::operator new(sizeof(TvmStdFunction));
      std::memcpy(function, found.words.data(), sizeof(TvmStdFunction));
    }
    const Ref<Object> object = Object::Adopt(function, kTVMPackedFuncHandle);
    auto* const adopted = dynamic_cast<FunctionObject*>(object.get());
    return PackedFunc(Ref<FunctionObject>(adopted));
  }

  TvmModule* const module_;
  const ModuleForm form_;
  const std::string kind_;
};

// A std::string, or TVM's String, which points to an object of its type. The
// type of the object says which: a std::string begins with the address of its
// characters, which hold no such number by chance.
std::string_view TextOf(const void* name, bool* is_object) {
  const auto* const object = *static_cast<const TvmString* const*>(name);
  *is_object = object != nullptr && object->header.type_index == kStringType;
  if (*is_object) return {object->data, static_cast<size_t>(object->size)};
  return *static_cast<const std::string*>(name);
}

}  // namespace

Ref<Object> WrapTvmModule(ObjectHeader* module) {
  return MakeRef<WrappedModule>(module);
}

const char* Module::TvmTypeKey() const {
  // Kinds are constants that end with a zero, or strings.
  return kind().data();
}

// Only the caller's release says in which form the result is expected: an
// object in one word, or the 32 bytes of a std::function. Where the name is an
// object, the release is new enough to tell; else the calling code is looked
// at.
TvmFunctionResult Module::TvmGetFunction(const void* name, const void*) {
  bool is_object = false;
  const std::string_view text = TextOf(name, &is_object);
  absl::StatusOr<PackedFunc> function = GetFunction(text);
  if (!function.ok()) {
    // The caller is C++, whose functions report errors by exceptions alone.
    throw std::runtime_error(std::string(function.status().message()));
  }
  void* const given = Object::ToHandle(function->object());
  if (is_object ||
      FormOf(__builtin_return_address(0)) == ModuleForm::kStdNames) {
    return TvmFunctionResult(given);
  }
  if (given == nullptr) return TvmFunctionResult(std::array<void*, 4>{});
  std::array<void*, 4> all;
  std::memcpy(all.data(), given, sizeof(TvmStdFunction));
  all[0] = given;
  all[1] = reinterpret_cast<void*>(&DeleteObject);
  return TvmFunctionResult(all);
}

}  // namespace nodewise
