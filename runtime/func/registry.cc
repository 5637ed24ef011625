#include "nodewise/func/registry.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Looking up is far more frequent than adding, and many threads do it.
struct Registry {
  std::shared_mutex mutex;
  std::map<std::string, PackedFunc, std::less<>> functions;
};

// Never destroyed: compiled code may call functions while the process ends.
Registry& GlobalRegistry() {
  static Registry* const registry = [] {
    auto* made = new Registry;
    for (const absl::Span<const FunctionRow> table : BuiltInFunctions()) {
      for (const FunctionRow& row : table) {
        made->functions.emplace(row.name, PackedFunc::FromBody(row.body));
      }
    }
    return made;
  }();
  return *registry;
}

}  // namespace

absl::Status RegisterFunction(std::string_view name, PackedFunc function,
                              bool replace) {
  Registry& registry = GlobalRegistry();
  const std::unique_lock lock(registry.mutex);
  const auto [place, added] =
      registry.functions.try_emplace(std::string(name), function);
  if (added) return absl::OkStatus();
  if (!replace) {
    return AlreadyExists(
        "function {} is registered already (ask to replace it)", name);
  }
  // The old function is dropped with the parameter, after the lock: its
  // finalizer is the host's code and may call the registry.
  std::swap(place->second, function);
  return absl::OkStatus();
}

PackedFunc FindFunction(std::string_view name) {
  Registry& registry = GlobalRegistry();
  const std::shared_lock lock(registry.mutex);
  const auto place = registry.functions.find(name);
  return place == registry.functions.end() ? PackedFunc() : place->second;
}

absl::Status RemoveFunction(std::string_view name) {
  Registry& registry = GlobalRegistry();
  PackedFunc removed;  // Outlives the lock, as in RegisterFunction().
  const std::unique_lock lock(registry.mutex);
  const auto place = registry.functions.find(name);
  if (place == registry.functions.end()) {
    return NotFound("no function {} is registered", name);
  }
  std::swap(place->second, removed);
  registry.functions.erase(place);
  return absl::OkStatus();
}

// A map keeps its keys in order.
std::vector<std::string> FunctionNames() {
  Registry& registry = GlobalRegistry();
  const std::shared_lock lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, function] : registry.functions) names.push_back(name);
  return names;
}

}  // namespace nodewise
