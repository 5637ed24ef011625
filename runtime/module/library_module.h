#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nodewise/module/module.h"
#include "runtime/module/symbols.h"

namespace nodewise {

// The compiled functions of a TVM library.
class LibraryModule final : public Module {
 public:
  explicit LibraryModule(Ref<Symbols> symbols);
  ~LibraryModule() override;

  std::string_view kind() const override { return "library"; }
  int properties() const override {
    return kModuleIsSerializable | kModuleIsRunnable;
  }
  absl::StatusOr<PackedFunc> GetFunction(std::string_view name) override;
  std::vector<std::string> FunctionNames() const override;

  // Finds the function that compiled code asks for: in this module's imports,
  // then in its neighbours. TVM 0.8 and later look in the imports of the
  // library, TVM 0.7 in those of the root; this way code of either finds its
  // functions.
  absl::StatusOr<PackedFunc> FindForCode(std::string_view name);
  // REQUIRES: none of them imports this module, directly or not.
  void SetNeighbours(std::vector<Ref<Module>> neighbours) {
    neighbours_ = std::move(neighbours);
  }

 private:
  absl::StatusOr<std::string> ResolveEntryName(std::string_view name) const;

  Ref<Symbols> symbols_;
  std::vector<Ref<Module>> neighbours_;
};

// Builds the modules of a library from its symbols and its blob, if it has one.
absl::StatusOr<Ref<Module>> BuildModules(Ref<Symbols> symbols,
                                         std::string_view prefix);

}  // namespace nodewise
