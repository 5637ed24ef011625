#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/support/ref.h"

namespace nodewise {

// What can be done with a module; the numbers are TVM's.
enum ModuleProperty : int {
  kModuleIsSerializable = 1,  // A library may carry it.
  kModuleIsRunnable = 2,
  kModuleIsExportable = 4,  // It can become object code of a library.
};

// Something that has functions by name: a compiled library, a factory, an
// executor, code for a device. Modules import modules. Looking functions up is
// thread-safe, importing is not.
class Module : public Object {
 public:
  Module() : Object(kModuleType) {}

  std::string_view object_type() const override { return "runtime.Module"; }
  int type_code() const override { return kTVMModuleHandle; }
  const char* TvmTypeKey() const override;
  TvmFunctionResult TvmGetFunction(const void* name, const void* self) override;

  // The kind of module, as TVM names it: "library", "GraphExecutorFactory",
  // "GraphExecutor", "opencl", ...
  virtual std::string_view kind() const = 0;
  // Its ModuleProperty bits.
  virtual int properties() const { return 0; }

  // Returns this module's function of that name, or a null function if it has
  // none. Fails if it has one that cannot be used.
  virtual absl::StatusOr<PackedFunc> GetFunction(std::string_view name) = 0;
  // Looks here, and then in the imports, depth first.
  absl::StatusOr<PackedFunc> FindFunction(std::string_view name);

  // Returns the names that GetFunction knows, where they can be listed.
  virtual std::vector<std::string> FunctionNames() const { return {}; }
  // Returns FunctionNames of this module and all its imports, for hints.
  std::vector<std::string> AllFunctionNames();

  const std::vector<Ref<Module>>& imports() const { return imports_; }
  // Fails with kInvalidArgument if that would make a cycle.
  absl::Status Import(Ref<Module> module);
  void ClearImports();
  // Returns this module and all that it imports, depth first, each once.
  std::vector<Module*> Tree();

 private:
  // What TVM's ModuleNode::imports() returns: the headers of imports_.
  std::vector<ObjectHeader*> seen_imports_;
  std::vector<Ref<Module>> imports_;
};

// Loads a TVM library: `path` ends in .so (.dll, .dylib and .dso too), or
// `format` says "so". Runs nothing but its constructors. The result is the root
// of the library's import tree. Loading a file again while it is in use gives
// new modules over the same code, since the process holds one copy.
//
// Fails with kNotFound (no such file), kInvalidArgument (not a shared library,
// another machine's), kDataLoss (damaged), kUnimplemented (a module kind we do
// not know), kFailedPrecondition (the file was replaced while its old content
// is loaded).
absl::StatusOr<Ref<Module>> LoadModule(const std::string& path,
                                       std::string_view format = "");

// Returns the module of the functions that were linked into this process with
// TVM's --system-lib; names that begin with `prefix` are tried first. There is
// one module for each prefix.
absl::StatusOr<Ref<Module>> SystemLibrary(std::string_view prefix = "");

// What an executor knows about changes of a tensor that no node writes. A
// kernel that keeps something made of its contents, such as reordered weights,
// sees here whether they may be others than in its last run.
struct TensorChanges {
  uint64_t count = 0;     // Grows whenever the executor may have changed it.
  bool is_lent = false;   // Its memory was handed out, for ever.
  bool is_bound = false;  // It lies in a caller's memory.

  // Its memory may be written to at any time without the executor's knowledge.
  bool may_be_unseen() const { return is_lent || is_bound; }
};

// What the executor asks a library for when it binds a node.
struct KernelRequest {
  std::string_view function;
  // The node's attributes, without those that describe the call.
  absl::Span<const std::pair<std::string, std::string>> attrs;
  // The inputs and then the outputs, for their types; valid during the call.
  absl::Span<const DLTensor* const> arguments;
  size_t num_outputs = 0;
  // By argument: null for one that nodes write, or that is not alone in its
  // memory. Empty if the caller knows nothing. They last as long as the calls,
  // and are for the thread that calls.
  absl::Span<const std::shared_ptr<const TensorChanges>> changes = {};
};

// Hands out kernels by name. A compiled library looks the symbol up; a built-in
// one makes the kernel from the node's attributes and shapes, since a packed
// function receives tensors only.
class Library : public RefCounted {
 public:
  // Returns the function, or null if there is none that needs no request.
  virtual absl::StatusOr<PackedFunc> Find(std::string_view name) = 0;
  // Returns the function. Fails with kNotFound, with the nearest name, if there
  // is none.
  virtual absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) = 0;
  // Returns what the addresses of tensors must be multiples of, beside the size
  // of an element: compiled code may assume 64 in all releases of TVM but 0.7
  // to 0.9, whose 128 no x86 or Arm instruction asks for.
  virtual size_t NeededAlignment() const { return 64; }
};

// Returns a library of the functions of a module and its imports.
Ref<Library> LibraryOf(Ref<Module> module);

// A kernel that is part of this process: `make` gets the node's request and
// returns the function, or says why it cannot.
struct BuiltInKernel {
  std::string name;
  std::function<absl::StatusOr<PackedFunc>(const KernelRequest&)> make;
};
Ref<Library> BuiltInLibrary(std::vector<BuiltInKernel> kernels);

}  // namespace nodewise
