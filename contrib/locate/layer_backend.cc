#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/lower/lower.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/built_in_functions.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

struct BackendRow {
  const char* name;
  Backend backend;
};

// CPU is what users of Glow call the one that is fast on CPUs.
constexpr BackendRow kBackends[] = {
    {"Interpreter", Backend::kReference},
    {"reference", Backend::kReference},
    {"OneDNN", Backend::kFastest},
    {"CPU", Backend::kFastest},
};

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

}  // namespace

absl::StatusOr<LayerModule> MakeLayerModule(const Network& network,
                                            std::string name, bool fuse,
                                            Backend layouts,
                                            std::vector<ImportedCall> calls) {
  LowerOptions options = LoweringFor(AllOperators(), layouts);
  options.fuse = fuse;
  if (!fuse) calls.clear();
  if (!calls.empty()) {
    options.is_observed = [&calls](const Network& all, ValueId id) {
      return CallOf(calls, all.value(id).name) == nullptr;
    };
  }
  NODEWISE_ASSIGN_OR_RETURN(Lowered lowered,
                            Lower(network, name + ": graph JSON", options));
  return LayerModule{std::move(name),
                     std::move(lowered.graph),
                     {std::move(lowered.params)},
                     {},
                     std::make_shared<const Network>(network),
                     std::move(calls)};
}

LayerBackend::LayerBackend(std::string name) : name_(std::move(name)) {}

LayerBackend::LayerBackend(std::string name, Ref<Library> functions)
    : name_(std::move(name)), functions_(std::move(functions)) {}

LayerBackend::LayerBackend(std::string name, ForeignCommand program)
    : name_(std::move(name)), program_(std::move(program)) {}

absl::StatusOr<Ref<Library>> LayerBackend::Functions() const {
  if (functions_ || program_.has_value()) return functions_;
  for (const BackendRow& row : kBackends) {
    if (LowerCase(row.name) != LowerCase(name_)) continue;
    return Ref<Library>(BuiltInFunctions(AllOperators(), row.backend));
  }
  const std::vector<std::string> names = LayerBackendNames();
  return absl::NotFoundError(
      fmt::format("backend {}: there is none of that name, expected one of "
                  "{}{}",
                  Printable(name_), ListOf(names), DidYouMean(name_, names)));
}

std::vector<std::string> LayerBackendNames() {
  std::vector<std::string> names;
  for (const BackendRow& row : kBackends) names.emplace_back(row.name);
  return names;
}

}  // namespace nodewise
