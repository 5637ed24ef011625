#include <sstream>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "nodewise/runner/runner.h"

namespace nodewise {
namespace {

// Statuses of Abseil carry payloads under the address of a type; ours is told
// apart by the project's name.
constexpr char kPayload[] = "nodewise/node-failure";

}  // namespace

std::string_view NameOf(NodeFailure::Kind kind) {
  // In the order of the enumeration.
  constexpr std::string_view kNames[] = {"crash", "hang",        "exit",
                                         "error", "stray write", "side effect"};
  return kNames[static_cast<size_t>(kind)];
}

absl::Status StatusOf(const NodeFailure& failure, std::string_view title,
                      absl::StatusCode code) {
  absl::Status status(code, fmt::format("{}: {}", title, failure.what));
  // The kind, the numbers of bytes of both keys, and all texts: names may hold
  // any character.
  status.SetPayload(
      kPayload,
      absl::Cord(fmt::format("{} {} {} {}{}{}", static_cast<int>(failure.kind),
                             failure.node.size(), failure.victim.size(),
                             failure.node, failure.victim, failure.what)));
  return status;
}

std::optional<NodeFailure> FailureOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return std::nullopt;
  // StatusOf() alone writes it, so that it has no faults to look for.
  const auto text = static_cast<std::string>(*payload);
  std::istringstream numbers(text);
  int kind = 0;
  size_t node_bytes = 0, victim_bytes = 0;
  numbers >> kind >> node_bytes >> victim_bytes;
  const std::string texts =
      text.substr(static_cast<size_t>(numbers.tellg()) + 1);
  NodeFailure failure;
  failure.kind = static_cast<NodeFailure::Kind>(kind);
  failure.node = texts.substr(0, node_bytes);
  failure.victim = texts.substr(node_bytes, victim_bytes);
  failure.what = texts.substr(node_bytes + victim_bytes);
  return failure;
}

}  // namespace nodewise
