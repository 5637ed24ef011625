#include "contrib/onnx/body_condition.h"

#include <algorithm>
#include <charconv>

#include "contrib/onnx/attributes.h"
#include "nodewise/support/check.h"

namespace nodewise {
namespace {

double NumberIn(const proto::Attribute& value) {
  return TypeOf(value) == AttributeType::kFloat
             ? static_cast<double>(value.f())
             : static_cast<double>(value.i());
}

// Returns "x" of "rank(x)", and takes both off the condition.
std::string_view TakeArgument(std::string_view* condition) {
  const size_t open = condition->find('(');
  const size_t close = condition->find(')');
  NODEWISE_CHECK(close != std::string_view::npos);
  const auto argument = condition->substr(open + 1, close - open - 1);
  condition->remove_prefix(close + 1);
  return argument;
}

// Whether an attribute is as "=WORD" says, or "!=NUMBER", "<NUMBER".
bool Compares(const proto::Attribute& value, std::string_view comparison) {
  if (comparison.empty()) {
    return value.ints_size() > 0 || value.floats_size() > 0 ||
           NumberIn(value) != 0;
  }
  if (comparison[0] == '<') {
    return NumberIn(value) < NumberOf(comparison.substr(1));
  }
  if (comparison[0] == '!') {
    return NumberIn(value) != NumberOf(comparison.substr(2));
  }
  if (TypeOf(value) == AttributeType::kString) {
    return value.s() == comparison.substr(1);
  }
  return NumberIn(value) == NumberOf(comparison.substr(1));
}

bool PartHolds(std::string_view part, const ContribCall& call,
               const CallAttributes& attributes) {
  if (part[0] == '!') return !PartHolds(part.substr(1), call, attributes);
  if (part[0] == '$') {
    part.remove_prefix(1);
    const size_t end = std::min(part.find_first_of("!=<"), part.size());
    return Compares(attributes.find(part.substr(0, end))->second,
                    part.substr(end));
  }
  if (part.starts_with("rank(")) {
    const TensorType& type = InfoOf(TakeArgument(&part), call).type;
    return type.has_rank() &&
           static_cast<double>(type.rank()) == NumberOf(part.substr(1));
  }
  if (part.starts_with("type(")) {
    const InputInfo& info = InfoOf(TakeArgument(&part), call);
    return info.is_given && ToString(info.type.dtype) == part.substr(1);
  }
  if (part.starts_with("last(")) {
    const std::string_view names = TakeArgument(&part);
    const size_t comma = names.find(", ");
    const int64_t axis = attributes.find(names.substr(0, comma))->second.i();
    const TensorType& type = InfoOf(names.substr(comma + 2), call).type;
    return axis == -1 || (type.has_rank() && axis == type.rank() - 1);
  }
  return InfoOf(part, call).is_given;
}

}  // namespace

bool Holds(std::string_view condition, const ContribCall& call,
           const CallAttributes& attributes) {
  const std::vector<std::string_view> parts = PartsOf(condition);
  return std::all_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return PartHolds(part, call, attributes);
  });
}

std::vector<std::string_view> PartsOf(std::string_view condition) {
  constexpr std::string_view kAnd = " and ";
  std::vector<std::string_view> parts;
  while (!condition.empty()) {
    const size_t end = std::min(condition.find(kAnd), condition.size());
    parts.push_back(condition.substr(0, end));
    condition.remove_prefix(std::min(end + kAnd.size(), condition.size()));
  }
  return parts;
}

double NumberOf(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  NODEWISE_CHECK(std::from_chars(text.data(), end, number).ptr == end);
  return number;
}

bool IsNumber(std::string_view text) {
  return (text[0] >= '0' && text[0] <= '9') || text[0] == '-';
}

const InputInfo& InfoOf(std::string_view input, const ContribCall& call) {
  for (size_t i = 0; i < call.function.inputs.size(); ++i) {
    if (call.function.inputs[i].name == input) return call.inputs[i];
  }
  NODEWISE_CHECK(false);
  return call.inputs[0];
}

}  // namespace nodewise
