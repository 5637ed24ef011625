// Reads operator_signatures.txt, which is a part of the program.

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

std::pair<int, int> RangeOf(std::string_view text) {
  const size_t dash = text.find('-');
  return {CountIn(text.substr(0, dash)), CountIn(text.substr(dash + 1))};
}

OperatorSignature::Param ParamOf(
    std::string_view text,
    const std::map<std::string_view, uint64_t>& elements) {
  OperatorSignature::Param param;
  const char last = text.back();
  if (last == '?') param.kind = OperatorSignature::Kind::kOptional;
  if (last == '*' || last == '+') {
    param.kind = OperatorSignature::Kind::kVariadic;
    param.is_homogeneous = last == '*';
  }
  if (param.kind != OperatorSignature::Kind::kSingle) text.remove_suffix(1);
  param.type = text;
  param.elements = elements.at(text);
  param.may_be_no_tensor = (param.elements & 1) != 0;
  return param;
}

OperatorSignature::Attribute AttributeOf(std::string_view text) {
  OperatorSignature::Attribute attribute;
  const size_t colon = text.find(':');
  attribute.name = text.substr(0, colon);
  text.remove_prefix(colon + 1);
  attribute.is_required = text.back() == '!';
  if (attribute.is_required) text.remove_suffix(1);
  attribute.type = NumberIn<int>(text);
  return attribute;
}

OperatorSignature SignatureOf(const TextParts& head, const TextParts& parts) {
  OperatorSignature made;
  std::string_view since = head[1];
  made.is_deprecated = since.back() == '-';
  if (made.is_deprecated) since.remove_suffix(1);
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
