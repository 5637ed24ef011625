#include "nodewise/graph/call_numbers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

std::optional<CallNumber> ParseNumber(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  CallNumber number;
  if (!absl::SimpleAtoi(parts.first, &number.place) ||
      !absl::SimpleAtoi(parts.second, &number.value)) {
    return std::nullopt;
  }
  return number;
}

bool IsText(const std::string& text, size_t tensors,
            std::vector<CallNumber>* numbers) {
  for (const absl::string_view part :
       absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::optional<CallNumber> number = ParseNumber(part);
    if (!number.has_value()) return false;
    if (!numbers->empty() && number->place <= numbers->back().place) {
      return false;
    }
    numbers->push_back(*number);
  }
  return numbers->empty() || numbers->back().place < tensors + numbers->size();
}

}  // namespace

std::string CallNumbersText(absl::Span<const CallNumber> numbers) {
  std::string text;
  for (const CallNumber& number : numbers) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", number.place,
                        number.value);
  }
  return text;
}

absl::StatusOr<std::vector<CallNumber>> CallNumbersOf(const Graph& graph,
                                                      NodeId node,
                                                      size_t tensors) {
  std::vector<CallNumber> numbers;
  for (const auto& [key, text] : graph.node(node).attrs) {
    if (key != kCallNumbers) continue;
    if (IsText(text, tensors, &numbers)) continue;
    return absl::InvalidArgumentError(
        GraphError(graph,
                   fmt::format("/nodes/{}/attrs/{}", Index(node), kCallNumbers),
                   fmt::format("\"{}\"", text),
                   "place=number for arguments in rising order")
            .message());
  }
  return numbers;
}

}  // namespace nodewise
