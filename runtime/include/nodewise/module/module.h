#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/support/ref.h"

namespace nodewise {

// What can be done with a module; TVM's numbers.
enum ModuleProperty : int {
  kModuleIsSerializable = 1,  // A library may carry it.
  kModuleIsRunnable = 2,
  kModuleIsExportable = 4,  // As object code of a shared library.
};

// Something that functions are asked of by name: a compiled library, a factory,
// an executor, code for a device. Modules import modules. Looking functions up
// is thread-safe, importing is not.
class Module : public Object {
 public:
  std::string_view object_type() const override { return "runtime.Module"; }
  int type_code() const override { return kTVMModuleHandle; }

  // What kind of module it is, in TVM's words: "library",
  // "GraphExecutorFactory", "GraphExecutor", "opencl", ...
  virtual std::string_view kind() const = 0;
  // Its ModuleProperty bits.
  virtual int properties() const { return 0; }

  // This module's function of that name. A null function if it has none, which
  // is no error; an error if it has one that cannot be had.
  virtual absl::StatusOr<PackedFunc> GetFunction(std::string_view name) = 0;
  // The same here, and then in the imports, depth first.
  absl::StatusOr<PackedFunc> FindFunction(std::string_view name);

  // The names that GetFunction knows, where they can be listed.
  virtual std::vector<std::string> FunctionNames() const { return {}; }
  // FunctionNames of this module and all its imports, for hints.
  std::vector<std::string> AllFunctionNames();

  const std::vector<Ref<Module>>& imports() const { return imports_; }
  // kInvalidArgument if that would make a circle.
  absl::Status Import(Ref<Module> module);
  void ClearImports() { imports_.clear(); }
  // This module and all that it imports, depth first, each once.
  std::vector<Module*> Tree();

 private:
  std::vector<Ref<Module>> imports_;
};

// Loads a TVM library: `path` ends in .so (.dll, .dylib and .dso too), or
// `format` says "so". Nothing of it runs but its constructors. The result is
// the root of the library's import tree. Loading one file again while it is in
// use gives other modules over the same code, since the process holds one copy.
//
// Fails with kNotFound (no such file), kInvalidArgument (not a shared library,
// another machine's), kDataLoss (damaged), kUnimplemented (a module kind we do
// not know), kFailedPrecondition (the file was replaced while its old content
// is loaded).
absl::StatusOr<Ref<Module>> LoadModule(const std::string& path,
                                       std::string_view format = "");

// The functions that were linked into this process with TVM's --system-lib,
// those whose names begin with `prefix` first. One module a prefix.
absl::StatusOr<Ref<Module>> SystemLibrary(std::string_view prefix = "");

// What the executor asks a library for when it binds a node.
struct KernelRequest {
  std::string_view function;
  // The node's attributes, without those that describe the call.
  absl::Span<const std::pair<std::string, std::string>> attrs;
  // Types of the inputs and then the outputs; valid during the call.
  absl::Span<const DLTensor* const> arguments;
  size_t num_outputs = 0;
};

// Hands out kernels by name. A compiled library looks the symbol up; a built-in
// one makes the kernel from the node's attributes and shapes, since a packed
// function receives tensors only.
class Library : public RefCounted {
 public:
  // The function, or null if there is none that needs no request.
  virtual absl::StatusOr<PackedFunc> Find(std::string_view name) = 0;
  // kNotFound, with the nearest name, if there is no such function.
  virtual absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) = 0;
};

// The functions of a module and its imports.
Ref<Library> LibraryOf(Ref<Module> module);

// A kernel that is part of this process: `make` sees what the node wants and
// returns the function, or says why it cannot.
struct BuiltInKernel {
  std::string name;
  std::function<absl::StatusOr<PackedFunc>(const KernelRequest&)> make;
};
Ref<Library> BuiltInLibrary(std::vector<BuiltInKernel> kernels);

}  // namespace nodewise
