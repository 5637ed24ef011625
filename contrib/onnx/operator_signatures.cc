// Reads operator_signatures.txt, which is a part of the program, when it is
// first asked for. A line "[DOMAIN]" begins the operators of a domain; any
// other is one operator in one version, and the versions of an operator follow
// each other in ascending order. Views of the text serve as names.

#include "contrib/onnx/operator_signatures.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <map>
#include <tuple>
#include <utility>

#include "nodewise/support/check.h"

namespace nodewise {
namespace {

constexpr std::string_view kSignatures =
#include "contrib/onnx/operator_signatures.inc"
    ;

using TextParts = std::vector<std::string_view>;
using Versions = std::vector<OperatorSignature>;  // In their order.
using SignatureTable =
    std::map<std::pair<std::string_view, std::string_view>, Versions>;

TextParts SplitAt(std::string_view text, char between) {
  TextParts words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(between), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

template <typename Number>
Number NumberIn(std::string_view text, int base = 10) {
  Number number{};
  const char* const end = text.data() + text.size();
  NODEWISE_CHECK(std::from_chars(text.data(), end, number, base).ptr == end);
  return number;
}

int CountIn(std::string_view text) {
  return text == "*" ? INT_MAX : NumberIn<int>(text);
}

// "1-3"; "1-*" has no end.
std::pair<int, int> RangeOf(std::string_view text) {
  const size_t dash = text.find('-');
  return {CountIn(text.substr(0, dash)), CountIn(text.substr(dash + 1))};
}

bool TakeMark(char mark, std::string_view* text) {
  if (!text->ends_with(mark)) return false;
  text->remove_suffix(1);
  return true;
}

// "T", with a '?' if it may be left out, a '*' if it is variadic, or a '+' if
// each of the variadic ones may have a type of its own.
OperatorSignature::Param ParamOf(
    std::string_view text,
    const std::map<std::string_view, uint64_t>& elements) {
  OperatorSignature::Param param;
  if (TakeMark('?', &text)) {
    param.kind = OperatorSignature::Kind::kOptional;
  } else if (TakeMark('*', &text)) {
    param.kind = OperatorSignature::Kind::kVariadic;
  } else if (TakeMark('+', &text)) {
    param.kind = OperatorSignature::Kind::kVariadic;
    param.is_homogeneous = false;
  }
  param.type = text;
  param.elements = elements.at(text);
  return param;
}

// "axis:2", with a '!' if it is required.
OperatorSignature::Attribute AttributeOf(std::string_view text) {
  const bool is_required = TakeMark('!', &text);
  const size_t colon = text.find(':');
  return {text.substr(0, colon), NumberIn<int>(text.substr(colon + 1)),
          is_required};
}

// A line has these parts between its `|`: head, inputs, outputs, attributes,
// and the element types that each type variable may be.
OperatorSignature SignatureOf(const TextParts& head, const TextParts& parts) {
  OperatorSignature made;
  std::string_view since = head[1];
  made.is_deprecated = TakeMark('-', &since);
  made.since = NumberIn<int>(since);
  std::tie(made.least_inputs, made.most_inputs) = RangeOf(head[2]);
  std::tie(made.least_outputs, made.most_outputs) = RangeOf(head[3]);
  std::map<std::string_view, uint64_t> elements;
  for (const std::string_view word : SplitAt(parts[4], ' ')) {
    const size_t equal = word.rfind('=');
    elements.emplace(word.substr(0, equal),
                     NumberIn<uint64_t>(word.substr(equal + 1), 16));
  }
  for (const std::string_view word : SplitAt(parts[1], ' ')) {
    made.inputs.push_back(ParamOf(word, elements));
  }
  for (const std::string_view word : SplitAt(parts[2], ' ')) {
    made.outputs.push_back(ParamOf(word, elements));
  }
  for (const std::string_view word : SplitAt(parts[3], ' ')) {
    if (word == "*") {
      made.takes_more_attributes = true;
      continue;
    }
    made.attributes.push_back(AttributeOf(word));
  }
  return made;
}

SignatureTable ReadTable() {
  SignatureTable table;
  std::string_view domain;
  for (const std::string_view line : SplitAt(kSignatures, '\n')) {
    if (line.empty()) continue;
    if (line.front() == '[') {
      domain = line.substr(1, line.size() - 2);
      continue;
    }
    TextParts parts = SplitAt(line, '|');
    parts.resize(5);
    const TextParts head = SplitAt(parts[0], ' ');
    table[{domain, head[0]}].push_back(SignatureOf(head, parts));
  }
  return table;
}

}  // namespace

const OperatorSignature* FindSignature(std::string_view domain,
                                       std::string_view name, int version) {
  static const SignatureTable table = ReadTable();
  const auto row = table.find({domain, name});
  if (row == table.end()) return nullptr;
  const OperatorSignature* found = nullptr;
  for (const OperatorSignature& each : row->second) {
    if (each.since <= version) found = &each;
  }
  return found;
}

}  // namespace nodewise
