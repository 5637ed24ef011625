#include "nodewise/runner/node_failure.h"

#include "absl/strings/cord.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

constexpr char kPayload[] = "nodewise/node-failure";

}  // namespace

std::string_view NameOf(NodeFailure::Kind kind) {
  switch (kind) {
    case NodeFailure::Kind::kCrash:
      return "crash";
    case NodeFailure::Kind::kHang:
      return "hang";
    case NodeFailure::Kind::kExit:
      return "exit";
    case NodeFailure::Kind::kError:
      return "error";
    case NodeFailure::Kind::kStrayWrite:
      return "stray write";
    case NodeFailure::Kind::kSideEffect:
      return "side effect";
  }
  return "";
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
  const auto text = static_cast<std::string>(*payload);
  const size_t first = text.find(' ');
  const size_t second = text.find(' ', first + 1);
  const size_t third = text.find(' ', second + 1);
  const auto kind = std::stoi(text);
  const size_t node_bytes = std::stoul(text.substr(first + 1));
  const size_t victim_bytes = std::stoul(text.substr(second + 1));
  NodeFailure failure;
  failure.kind = static_cast<NodeFailure::Kind>(kind);
  failure.node = text.substr(third + 1, node_bytes);
  failure.victim = text.substr(third + 1 + node_bytes, victim_bytes);
  failure.what = text.substr(third + 1 + node_bytes + victim_bytes);
  return failure;
}

}  // namespace nodewise
