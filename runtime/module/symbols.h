#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/runtime/module.h"
#include "nodewise/support/ref.h"

namespace nodewise {

class LibraryModule;

// What `__tvm_module_ctx` of a library points at: where its compiled code looks
// functions up that it calls by name. There is one for each piece of loaded
// code, however many modules stand for it, because the code has one pointer.
class CallContext {
 public:
  CallContext() = default;
  CallContext(const CallContext&) = delete;

  // In the imports of the code's modules, then among the named functions. What
  // is returned stays valid for as long as the code is loaded: the code keeps
  // it in a cache that nobody can clear.
  absl::StatusOr<FunctionObject*> Find(std::string_view name);

  void Add(LibraryModule* module);
  void Remove(LibraryModule* module);
  // Lets go of the functions without dropping them.
  void LeakFunctions();

 private:
  // Recursive: finding a function may run a module's set-up code, which may
  // look up functions itself.
  std::recursive_mutex mutex_;
  std::vector<LibraryModule*> modules_;
  std::map<std::string, Ref<FunctionObject>, std::less<>> found_;
};

// Where a LibraryModule finds its code: a loaded file, or the symbols that were
// linked into the process.
class Symbols : public RefCounted {
 public:
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

// Opens a shared library after looking at it without running it. One object
// stands for a file for as long as it is loaded.
absl::StatusOr<Ref<Symbols>> OpenSharedLibrary(const std::string& path);

// Keeps a symbol for SystemLibrary(); a later one of that name replaces it.
void RegisterSystemSymbol(std::string_view name, void* address);

// Writes the addresses that compiled code expects into its `__TVM...`
// variables. kUnimplemented if it wants one that we do not have.
absl::Status PatchContext(const Symbols& symbols,
                          const std::vector<std::string>& variables);
// Adds a pointer for libraries that are loaded later.
void RegisterContextSymbol(std::string_view name, void* address);

}  // namespace nodewise
