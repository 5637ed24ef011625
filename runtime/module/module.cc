#include "nodewise/module/module.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "runtime/module/library_module.h"

namespace nodewise {
namespace {

// What an executor asks for kernels: it need not know whether these come from a
// file or are part of the process.
class ModuleLibrary final : public Library {
 public:
  explicit ModuleLibrary(Ref<Module> module) : module_(std::move(module)) {}

  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return module_->FindFunction(name);
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, Find(request.function));
    if (function) return function;
    return NotFound("the library has no function {}{}", request.function,
                    DidYouMean(request.function, module_->AllFunctionNames()));
  }

 private:
  Ref<Module> module_;
};

// The built-in functions need a node's attributes and shapes, so that none can
// be found by name alone.
class TableLibrary final : public Library {
 public:
  explicit TableLibrary(std::vector<BuiltInKernel> kernels)
      : kernels_(std::move(kernels)) {}

  absl::StatusOr<PackedFunc> Find(std::string_view) override {
    return PackedFunc();
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    std::vector<std::string> names;
    for (const BuiltInKernel& kernel : kernels_) {
      if (kernel.name == request.function) return kernel.make(request);
      names.push_back(kernel.name);
    }
    return NotFound("there is no built-in function {}{}", request.function,
                    DidYouMean(request.function, names));
  }

 private:
  std::vector<BuiltInKernel> kernels_;
};

}  // namespace

// Depth first: the imports of the first import come before the second one, as
// TVM looks functions up.
std::vector<Module*> Module::Tree() {
  std::vector<Module*> tree;
  std::vector<Module*> waiting = {this};
  // Imports may share imports: each module is visited once, since a hostile
  // library could have far too many paths.
  std::unordered_set<Module*> seen;
  while (!waiting.empty()) {
    Module* const module = waiting.back();
    waiting.pop_back();
    if (!seen.insert(module).second) continue;
    tree.push_back(module);
    const auto& imports = module->imports_;
    for (auto import = imports.rbegin(); import != imports.rend(); ++import) {
      waiting.push_back(import->get());
    }
  }
  return tree;
}

absl::StatusOr<PackedFunc> Module::FindFunction(std::string_view name) {
  for (Module* module : Tree()) {
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, module->GetFunction(name));
    if (function) return function;
  }
  return PackedFunc();
}

std::vector<std::string> Module::AllFunctionNames() {
  std::vector<std::string> names;
  for (Module* module : Tree()) {
    for (std::string& name : module->FunctionNames()) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

// A circle would never be freed, and walking along it would not end.
absl::Status Module::Import(Ref<Module> module) {
  const std::vector<Module*> tree = module->Tree();
  if (std::ranges::find(tree, this) != tree.end()) {
    return InvalidArgument(
        "a {} module cannot import a {} module that imports it", kind(),
        module->kind());
  }
  seen_imports_.push_back(module->handle());
  imports_.push_back(std::move(module));
  return absl::OkStatus();
}

void Module::ClearImports() {
  seen_imports_.clear();
  imports_.clear();
}

Ref<Library> LibraryOf(Ref<Module> module) {
  return MakeRef<ModuleLibrary>(std::move(module));
}

Ref<Library> BuiltInLibrary(std::vector<BuiltInKernel> kernels) {
  return MakeRef<TableLibrary>(std::move(kernels));
}

}  // namespace nodewise
