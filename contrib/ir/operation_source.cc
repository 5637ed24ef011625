#include "nodewise/ir/operation_source.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nodewise {

std::string OperationSource::ToString() const {
  if (!line.has_value()) return module;
  return module.empty() ? line->ToString()
                        : fmt::format("{}, {}", module, line->ToString());
}

std::optional<OperationSource> SourceOf(const Operation& operation) {
  if (operation.origin == nullptr) return std::nullopt;
  OperationSource source;
  source.operation = operation.name;
  source.line = SourceLineOf(*operation.origin);
  const auto path = ModulePathOf(*operation.origin);
  if (path.has_value())
    source.module = fmt::format("{}", fmt::join(*path, "/"));
  if (source.module.empty() && !source.line.has_value()) return std::nullopt;
  return source;
}

std::vector<OperationSource> SourcesOf(
    absl::Span<const std::string> operations,
    absl::Span<const std::shared_ptr<const Network>> networks) {
  std::vector<OperationSource> sources;
  for (const std::string& name : operations) {
    for (const auto& network : networks) {
      if (network == nullptr || !network->HasOperation(name)) continue;
      auto source = SourceOf(network->operation(*network->FindOperation(name)));
      if (!source.has_value()) continue;
      sources.push_back(*std::move(source));
      break;
    }
  }
  return sources;
}

std::vector<std::string> TextsOf(absl::Span<const OperationSource> sources) {
  std::vector<std::string> texts;
  for (const OperationSource& source : sources) {
    std::string text = source.ToString();
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) {
      texts.push_back(std::move(text));
    }
  }
  return texts;
}

}  // namespace nodewise
