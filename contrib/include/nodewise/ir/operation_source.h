#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/ir/origin.h"

namespace nodewise {

// Where an operation is from in the program that made the model.
struct OperationSource {
  std::string operation;
  std::string module;  // "layers/0/conv"; empty if it is not known.
  std::optional<SourceLine> line;

  // "layers/0/conv, net.py:41 in forward: x = self.conv(x)"
  std::string ToString() const;
};

// Returns where an operation is from; none if its exporter does not say.
std::optional<OperationSource> SourceOf(const Operation& operation);

// Returns where the operations of these names are from, in their order, as far
// as one of the networks says. A network may be null.
std::vector<OperationSource> SourcesOf(
    absl::Span<const std::string> operations,
    absl::Span<const std::shared_ptr<const Network>> networks);

// Returns the sources as texts, each once.
std::vector<std::string> TextsOf(absl::Span<const OperationSource> sources);

}  // namespace nodewise
