#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/func/ffi_function.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/module/module.h"
#include "nodewise/support/object_abi.h"
#include "nodewise/support/ref.h"
#include "runtime/module/library_abi.h"

namespace nodewise {

class LibraryModule;

// What a library's `__tvm_module_ctx` (`__tvm_ffi__library_ctx` with TVM-FFI)
// points at: where its compiled code looks up functions that it calls by name.
// There is one for each piece of loaded code, however many modules stand for
// it, because the code has one pointer.
class CallContext {
 public:
  CallContext();
  ~CallContext();
  CallContext(const CallContext&) = delete;

  // Returns the context with that address, or null: TVM's own runtime has
  // others.
  static CallContext* FromAddress(void* address);

  // Returns a handle for the code's TVMFuncCall or TVMFFIFunctionCall. Looks in
  // the imports of the code's modules, then among the named functions. The
  // handle stays valid for as long as the code is loaded: the code keeps it in
  // a cache that cannot be cleared.
  absl::StatusOr<void*> Find(std::string_view name);
  // Makes handles TVM-FFI's from now on.
  void UseFfi() { is_ffi_ = true; }

  void Add(LibraryModule* module);
  void Remove(LibraryModule* module);
  // Leaks the functions, so that they are never freed.
  void LeakFunctions();

 private:
  // Recursive: finding a function may run a module's set-up code, which may
  // look up functions itself.
  std::recursive_mutex mutex_;
  std::vector<LibraryModule*> modules_;
  absl::StatusOr<FunctionObject*> FindFunctionOf(std::string_view name);

  std::map<std::string, Ref<FunctionObject>, std::less<>> found_;
  std::map<std::string, Ref<FfiClosure>, std::less<>> closures_;
  bool is_ffi_ = false;
};

// Where a LibraryModule finds its code: a loaded file, or the symbols that were
// linked into the process.
class Symbols : public RefCounted {
 public:
  virtual LibraryAbi abi() const { return LibraryAbi::kPackedC; }
  // Returns the address of a function, or null.
  virtual void* Function(std::string_view name) const = 0;
  // Returns the address of a variable, or null.
  virtual void* Variable(std::string_view name) const = 0;
  virtual std::vector<std::string> FunctionNames() const = 0;
  // Returns the bytes from a variable to the end of the memory that it is in.
  virtual absl::Span<const uint8_t> BytesFrom(std::string_view name) const = 0;
  // The name of the place in messages.
  virtual const std::string& where() const = 0;
  CallContext& context() const { return context_; }

 private:
  mutable CallContext context_;
};

// Implements TVMBackendGetFuncFromEnv and its kin: looks up the handle of
// `name` for the code with this context. A context that is not ours belongs to
// a library that TVM's own runtime has loaded; then that runtime's function
// `symbol` is called. Returns 0, or -1 with the last error set.
int FindForCode(void* context, const char* name, const char* symbol,
                void** out);

// Opens a shared library after checking it without running it. There is one
// object for each file as long as it is loaded.
absl::StatusOr<Ref<Symbols>> OpenSharedLibrary(const std::string& path);

// Keeps a symbol for SystemLibrary(); a later one of that name replaces it.
void RegisterSystemSymbol(std::string_view name, void* address);

// Returns kUnimplemented, which names all functions of the runtime that code at
// `where` calls and that are not known here; OK if there are none.
absl::Status RefuseUnknown(const std::string& where,
                           const std::vector<std::string>& functions);

// Writes the addresses that compiled code expects into its `__TVM...`
// variables. Fails with kUnimplemented if it needs one that we do not have.
absl::Status PatchContext(const Symbols& symbols,
                          const std::vector<std::string>& variables);

// Builds the modules of a library from its symbols and its blob, if it has one.
absl::StatusOr<Ref<Module>> BuildModules(Ref<Symbols> symbols,
                                         std::string_view prefix);

// Modules between this runtime and compiled C++ on TVM's headers, which calls
// the virtual functions of its ModuleNode.

// Makes a module of one that compiled C++ has made, taking over its count.
Ref<Object> WrapTvmModule(ObjectHeader* module);

}  // namespace nodewise
