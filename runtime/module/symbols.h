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
#include "nodewise/module/module.h"
#include "nodewise/support/ref.h"
#include "runtime/module/library_abi.h"

namespace nodewise {

class LibraryModule;

// What `__tvm_module_ctx` of a library points at (`__tvm_ffi__library_ctx` in
// one of TVM-FFI): where its compiled code looks
// functions up that it calls by name. There is one for each piece of loaded
// code, however many modules stand for it, because the code has one pointer.
class CallContext {
 public:
  CallContext();
  ~CallContext();
  CallContext(const CallContext&) = delete;

  // The context of that address, or null: TVM's own runtime has others.
  static CallContext* FromAddress(void* address);

  // A handle as the code's TVMFuncCall or TVMFFIFunctionCall takes it, from the
  // imports of the code's modules, then from the named functions. It stays
  // valid for as long as the code is loaded: the code keeps it in a cache that
  // nobody can clear.
  absl::StatusOr<void*> Find(std::string_view name);
  // From now on handles are TVM-FFI's.
  void UseFfi() { is_ffi_ = true; }

  void Add(LibraryModule* module);
  void Remove(LibraryModule* module);
  // Lets go of the functions without dropping them.
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
  // The address of a function, or null.
  virtual void* Function(std::string_view name) const = 0;
  // The address of a variable, or null.
  virtual void* Variable(std::string_view name) const = 0;
  virtual std::vector<std::string> FunctionNames() const = 0;
  // The bytes from a variable to the end of the memory it lies in.
  virtual absl::Span<const uint8_t> BytesFrom(std::string_view name) const = 0;
  // Names the place in messages.
  virtual const std::string& where() const = 0;
  CallContext& context() const { return context_; }

 private:
  mutable CallContext context_;
};

// What TVMBackendGetFuncFromEnv and its kin do: the handle that the code with
// this context gets for `name`. A context that is not ours is that of a library
// which TVM's own runtime has loaded, and that is asked for its function
// `symbol`. 0, or -1 with the last error.
int FindForCode(void* context, const char* name, const char* symbol,
                void** out);

// Opens a shared library after looking at it without running it. One object
// stands for a file for as long as it is loaded.
absl::StatusOr<Ref<Symbols>> OpenSharedLibrary(const std::string& path);

// Keeps a symbol for SystemLibrary(); a later one of that name replaces it.
void RegisterSystemSymbol(std::string_view name, void* address);

// Writes the addresses that compiled code expects into its `__TVM...`
// variables. kUnimplemented if it wants one that we do not have.
absl::Status PatchContext(const Symbols& symbols,
                          const std::vector<std::string>& variables);

}  // namespace nodewise
