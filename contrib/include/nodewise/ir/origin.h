#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace nodewise {

class Network;
struct Operation;

// Where an operation is from in the program that made the model: what exporters
// leave about that in the metadata of an ONNX node. It is kept in their words,
// so that it can be written again, and is read when it is asked for.
struct Origin {
  // Keys as the exporter has them, each once. Values are shared: operations of
  // one line of a program have the same.
  std::vector<std::pair<std::string, std::shared_ptr<const std::string>>> notes;
};

// The key of what is not in the metadata but in the description of a node,
// where older exporters leave a trace.
inline constexpr std::string_view kDescriptionKey = "doc_string";

// Returns whether a note of this key says where a node is from.
bool IsOriginKey(std::string_view key);

// A line of the program that made the model.
struct SourceLine {
  std::string file;      // As the exporter has it, with its folders.
  uint32_t line = 0;     // From 1.
  std::string function;  // "forward"
  std::string code;      // What stands there; empty if the exporter omits it.

  // "net.py:41 in forward: x = self.conv(x)", without the file's folders.
  std::string ToString() const;
  friend bool operator==(const SourceLine&, const SourceLine&) = default;
};

// Returns the innermost line of a stack trace that is of the model's program
// and not of the framework below it (torch, jax, ...); a trace in the words of
// Python, of TorchScript or of jax. Returns none if all are of the framework.
std::optional<SourceLine> FindSourceLine(std::string_view trace);

// Returns the line that the operation is from.
std::optional<SourceLine> SourceLineOf(const Origin& origin);

// Returns the modules around the operation, from the outside: layers, 0, conv.
// Empty for what stands in the outermost module. None if the exporter says
// nothing of modules.
std::optional<std::vector<std::string>> ModulePathOf(const Origin& origin);

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
