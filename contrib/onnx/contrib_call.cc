#include "contrib/onnx/contrib_call.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "contrib/onnx/attributes.h"
#include "contrib/onnx/body_condition.h"
#include "contrib/onnx/body_operators.h"
#include "contrib/onnx/function_body.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Says of an attribute or input that this one is not known.
absl::Status Refused(std::string_view condition) {
  const size_t open = condition.find('(');
  if (open != std::string_view::npos) {
    const size_t comma = condition.find(',');
    return absl::UnimplementedError(
        fmt::format("attribute {}: is not known for such an input",
                    condition.substr(open + 1, comma - open - 1)));
  }
  const bool is_attribute = condition.find('$') != std::string_view::npos;
  return absl::UnimplementedError(
      is_attribute
          ? fmt::format("attribute {}: is set, which is not known",
                        condition.substr(condition.find('$') + 1))
          : fmt::format("input {}: is given, which is not known", condition));
}

// Ends a name that stands for several values.
constexpr std::string_view kEach = "...";

proto::Attribute DefaultOf(const FunctionAttribute& attribute) {
  proto::Attribute made;
  made.set_name(std::string(attribute.name));
  if (const auto* const real = std::get_if<float>(&attribute.fallback)) {
    made.set_type(static_cast<int>(AttributeType::kFloat));
    made.set_f(*real);
  } else if (const auto* const whole =
                 std::get_if<int64_t>(&attribute.fallback)) {
    made.set_type(static_cast<int>(AttributeType::kInt));
    made.set_i(*whole);
  } else if (std::holds_alternative<NoFloats>(attribute.fallback)) {
    made.set_type(static_cast<int>(AttributeType::kFloats));
  } else if (std::holds_alternative<NoInts>(attribute.fallback)) {
    made.set_type(static_cast<int>(AttributeType::kInts));
  } else {
    made.set_type(static_cast<int>(AttributeType::kString));
    made.set_s(std::string(std::get<std::string_view>(attribute.fallback)));
  }
  return made;
}

// Writes the function of one call.
class FunctionWriter {
 public:
  explicit FunctionWriter(const ContribCall& call)
      : call_(call), function_(std::make_unique<proto::Function>()) {}

  absl::StatusOr<std::unique_ptr<proto::Function>> Write();

 private:
  absl::Status Begin();
  absl::Status SetAttributes();
  absl::Status SetAttribute(const FunctionAttribute& attribute);
  void SetPassed();
  proto::Attribute ValueOf(std::string_view text) const;
  absl::Status CheckWords(absl::Span<const BodyStatement> body) const;
  absl::Status CheckOutputs() const;
  absl::Status KeepStatements();
  void DropUnneeded();
  bool IsNeeded(std::string_view name, size_t index) const;
  absl::Status AddStatement(size_t index);
  absl::Status AddRepeated(size_t index);
  void SetNodeAttributes(const BodyStatement& statement,
                         proto::Node* node) const;
  absl::Status AddInputs(const BodyStatement& statement, proto::Node* node);
  std::string InputOf(const std::string& text);
  int64_t IntegerOf(std::string_view text) const;
  std::vector<int64_t> IntegersOf(std::string_view text) const;
  bool MovedToAttribute(const BodyStatement& statement, size_t input,
                        proto::Node* node) const;
  std::string ConstantOf(const proto::Attribute& value, bool is_real);
  std::string Fresh(std::string_view name) {
    return fmt::format("{}_{}", name, ++names_);
  }
  DLDataType FirstType() const {
    return call_.inputs.empty() ? DLDataType{} : call_.inputs[0].type.dtype;
  }

  const ContribCall& call_;
  std::unique_ptr<proto::Function> function_;
  CallAttributes attributes_;
  std::vector<proto::Attribute> passed_;
  std::vector<BodyStatement> statements_;  // Whose conditions hold.
  // What a name stands for by now; empty: an input that is left out.
  std::map<std::string, std::string, std::less<>> current_;
  // The values that NAME... stands for.
  std::map<std::string, std::vector<std::string>, std::less<>> lists_;
  // The last statement that makes an output, by its name.
  std::map<std::string, size_t, std::less<>> last_;
  size_t names_ = 0;
};

absl::Status FunctionWriter::Begin() {
  const ContribFunction& known = call_.function;
  function_->set_name(std::string(known.name));
  function_->set_domain(std::string(kContribDomain));
  for (size_t i = 0; i < known.inputs.size(); ++i) {
    const Param& param = known.inputs[i];
    const std::string name(param.name);
    if (param.kind == Param::Kind::kVariadic) {
      for (size_t j = i; j < call_.inputs.size(); ++j) {
        lists_[name].push_back(fmt::format("{}_{}", name, j - i));
        function_->add_input(lists_[name].back());
      }
      break;
    }
    function_->add_input(name);
    const bool is_given = call_.inputs[i].is_given;
    current_[name] = is_given ? name : "";
    if (is_given || param.kind == Param::Kind::kOptional) continue;
    return absl::InvalidArgumentError(
        fmt::format("input {}: is not given, expected a tensor", name));
  }
  for (const Param& param : known.outputs) {
    function_->add_output(std::string(param.name));
  }
  return SetAttributes();
}

absl::Status FunctionWriter::SetAttributes() {
  for (const FunctionAttribute& attribute : call_.function.attributes) {
    NODEWISE_RETURN_IF_ERROR(SetAttribute(attribute));
  }
  for (const FunctionAttribute& attribute : call_.more_attributes) {
    NODEWISE_RETURN_IF_ERROR(SetAttribute(attribute));
  }
  SetPassed();
  return absl::OkStatus();
}

absl::Status FunctionWriter::SetAttribute(const FunctionAttribute& attribute) {
  proto::Attribute value = DefaultOf(attribute);
  *function_->add_attribute_proto() = value;
  if (const auto* const given = call_.attribute(attribute.name)) {
    if (TypeOf(*given) != TypeOf(value)) {
      return absl::InvalidArgumentError(
          fmt::format("attribute {}: is of the wrong type", attribute.name));
    }
    value = *given;
  } else if (attribute.is_required) {
    return absl::InvalidArgumentError(
        fmt::format("attribute {}: is not given", attribute.name));
  }
  attributes_.emplace(attribute.name, std::move(value));
  return absl::OkStatus();
}

void FunctionWriter::SetPassed() {
  const OperatorDef* const row =
      call_.ops.Find("", call_.function.passes, call_.opset);
  if (row == nullptr) return;
  for (const AttrField& field : row->fields) {
    const std::string name(field.name);
    function_->add_attribute(name);
    const proto::Attribute* const given = call_.attribute(name);
    if (given == nullptr) continue;
    passed_.push_back(*given);
    passed_.back().set_name(name);
    passed_.back().clear_ref_attr_name();
  }
}

// The value of "$NAME" or "$NAME[i]".
proto::Attribute FunctionWriter::ValueOf(std::string_view text) const {
  const size_t bracket = std::min(text.find('['), text.size());
  const proto::Attribute& value =
      attributes_.find(text.substr(1, bracket - 1))->second;
  if (bracket == text.size()) return value;
  const auto index = static_cast<int>(
      NumberOf(text.substr(bracket + 1, text.size() - bracket - 2)));
  proto::Attribute element;
  if (TypeOf(value) == AttributeType::kInts) {
    element.set_type(static_cast<int>(AttributeType::kInt));
    element.set_i(index < value.ints_size() ? value.ints(index) : 0);
    return element;
  }
  element.set_type(static_cast<int>(AttributeType::kFloat));
  element.set_f(index < value.floats_size() ? value.floats(index) : 0);
  return element;
}

// Adds a constant of this value, in the type of the first input if it is real.
std::string FunctionWriter::ConstantOf(const proto::Attribute& value,
                                       bool is_real) {
  proto::Node* node = function_->add_node();
  node->set_op_type("Constant");
  *node->add_attribute() = value;
  std::string name = Fresh("constant");
  node->add_output(name);
  const DLDataType dtype = FirstType();
  if (!is_real || !IsFloat(dtype) || dtype == kFloat32) return name;
  node = function_->add_node();
  node->set_op_type("Cast");
  node->add_input(name);
  proto::Attribute& to = *node->add_attribute();
  to.set_name("to");
  to.set_type(static_cast<int>(AttributeType::kInt));
  to.set_i(OnnxNumberOf(dtype).value_or(0));
  name = Fresh("constant");
  node->add_output(name);
  return name;
}

// "$NAME", perhaps with "*NUMBER" and then "+NUMBER" behind it; or a number.
int64_t FunctionWriter::IntegerOf(std::string_view text) const {
  if (text[0] != '$') return static_cast<int64_t>(NumberOf(text));
  const size_t plus = std::min(text.find('+'), text.size());
  const size_t times = std::min(text.find('*'), plus);
  // Unsigned, since a model may give any number.
  auto number =
      static_cast<uint64_t>(int64_t{ValueOf(text.substr(0, times)).i()});
  if (times < plus) {
    number *= static_cast<uint64_t>(static_cast<int64_t>(
        NumberOf(text.substr(times + 1, plus - times - 1))));
  }
  if (plus < text.size()) {
    number += static_cast<uint64_t>(
        static_cast<int64_t>(NumberOf(text.substr(plus + 1))));
  }
  return static_cast<int64_t>(number);
}

// The numbers of "[1, -2, $side]", or of an attribute.
std::vector<int64_t> FunctionWriter::IntegersOf(std::string_view text) const {
  if (text[0] == '$') {
    const proto::Attribute value = ValueOf(text);
    return {value.ints().begin(), value.ints().end()};
  }
  std::vector<int64_t> numbers;
  for (size_t at = 1; at < text.size(); ++at) {
    const size_t bracket = text.find('[', at);
    const size_t inside = std::min(text.find_first_of(",]", at), text.size());
    // An element of a list, $NAME[i], has brackets of its own.
    const size_t end = bracket < inside
                           ? text.find_first_of(",]", text.find(']', at) + 1)
                           : inside;
    const size_t first = text.find_first_not_of(' ', at);
    numbers.push_back(IntegerOf(text.substr(first, end - first)));
    at = end;
  }
  return numbers;
}

std::string FunctionWriter::InputOf(const std::string& text) {
  if (text.empty()) return text;
  proto::Attribute value;
  const bool is_attribute = text[0] == '$';
  if (text[0] == '[' ||
      (is_attribute && TypeOf(ValueOf(text)) == AttributeType::kInts)) {
    value.set_name("value_ints");
    value.set_type(static_cast<int>(AttributeType::kInts));
    for (const int64_t number : IntegersOf(text)) value.add_ints(number);
    return ConstantOf(value, false);
  }
  if (is_attribute && TypeOf(ValueOf(text)) == AttributeType::kFloats) {
    value = ValueOf(text);
    value.set_name("value_floats");
    return ConstantOf(value, false);
  }
  if (text[0] == '#') {
    value.set_name("value_int");
    value.set_type(static_cast<int>(AttributeType::kInt));
    value.set_i(IntegerOf(std::string_view(text).substr(1)));
    return ConstantOf(value, false);
  }
  if (!is_attribute && !IsNumber(text)) return current_[text];
  value.set_name("value_float");
  value.set_type(static_cast<int>(AttributeType::kFloat));
  value.set_f(is_attribute ? ValueOf(text).f()
                           : static_cast<float>(NumberOf(text)));
  return ConstantOf(value, true);
}

// Some lists were attributes in earlier opsets.
bool FunctionWriter::MovedToAttribute(const BodyStatement& statement,
                                      size_t input, proto::Node* node) const {
  const OperatorDef* const row =
      call_.ops.Find(statement.domain, statement.op, call_.opset);
  const std::string& text = statement.inputs[input];
  if (row == nullptr || text.empty() || (text[0] != '[' && text[0] != '$')) {
    return false;
  }
  for (const MovedAttribute& moved : row->moved) {
    if (moved.input != input || call_.opset >= moved.until) continue;
    proto::Attribute& attribute = *node->add_attribute();
    attribute.set_name(std::string(moved.attribute));
    attribute.set_type(static_cast<int>(AttributeType::kInts));
    for (const int64_t number : IntegersOf(text)) attribute.add_ints(number);
    return true;
  }
  return false;
}

// Whether an output of this statement is wanted, or read by a later one.
bool FunctionWriter::IsNeeded(std::string_view name, size_t index) const {
  for (size_t i = index + 1; i < statements_.size(); ++i) {
    const auto& inputs = statements_[i].inputs;
    if (std::find(inputs.begin(), inputs.end(), name) != inputs.end()) {
      return true;
    }
  }
  for (size_t i = 0; i < call_.function.outputs.size(); ++i) {
    if (call_.function.outputs[i].name == name) return call_.wanted[i];
  }
  return false;
}

// Leaves out the statements whose outputs nothing needs.
void FunctionWriter::DropUnneeded() {
  std::set<std::string, std::less<>> needed;
  for (size_t i = 0; i < call_.function.outputs.size(); ++i) {
    if (call_.wanted[i]) needed.emplace(call_.function.outputs[i].name);
  }
  std::vector<BodyStatement> kept;
  for (size_t i = statements_.size(); i-- > 0;) {
    BodyStatement& statement = statements_[i];
    bool is_needed = false;
    for (const std::string& name : statement.outputs) {
      is_needed = needed.erase(name) > 0 || is_needed;
    }
    if (!is_needed) continue;
    needed.insert(statement.inputs.begin(), statement.inputs.end());
    kept.push_back(std::move(statement));
  }
  std::reverse(kept.begin(), kept.end());
  statements_ = std::move(kept);
}

void FunctionWriter::SetNodeAttributes(const BodyStatement& statement,
                                       proto::Node* node) const {
  for (const auto& [name, text] : statement.attributes) {
    if (name == "*") {
      for (const proto::Attribute& each : passed_) {
        *node->add_attribute() = each;
      }
      continue;
    }
    proto::Attribute& attribute = *node->add_attribute();
    if (text[0] == '$' && text.find_first_of("*+") != std::string::npos) {
      attribute.set_type(static_cast<int>(AttributeType::kInt));
      attribute.set_i(IntegerOf(text));
    } else if (text[0] == '$') {
      attribute = ValueOf(text);
    } else if (text[0] == '[') {
      attribute.set_type(static_cast<int>(AttributeType::kInts));
      for (const int64_t number : IntegersOf(text)) attribute.add_ints(number);
    } else if (IsNumber(text)) {
      attribute.set_type(static_cast<int>(AttributeType::kInt));
      attribute.set_i(static_cast<int64_t>(NumberOf(text)));
    } else {
      attribute.set_type(static_cast<int>(AttributeType::kString));
      attribute.set_s(text);
    }
    attribute.set_name(name);
  }
}

absl::Status FunctionWriter::AddInputs(const BodyStatement& statement,
                                       proto::Node* node) {
  for (size_t i = 0; i < statement.inputs.size(); ++i) {
    if (MovedToAttribute(statement, i, node)) continue;
    const std::string& text = statement.inputs[i];
    if (!text.ends_with(kEach)) {
      node->add_input(InputOf(text));
      continue;
    }
    // What a line has made has the dots in its name, the inputs have not.
    const auto made = lists_.find(text);
    const std::string given = text.substr(0, text.size() - kEach.size());
    for (const std::string& each :
         made == lists_.end() ? lists_[given] : made->second) {
      node->add_input(each);
    }
  }
  return ReplaceOwn(statement, call_, node);
}

// Adds a statement once for each group of variadic inputs.
absl::Status FunctionWriter::AddRepeated(size_t index) {
  const BodyStatement& statement = statements_[index];
  const std::string& text = statement.inputs[0];
  const size_t dots = text.rfind(kEach);
  const std::vector<std::string>& inputs = lists_[text.substr(0, dots)];
  const auto count =
      static_cast<size_t>(NumberOf(text.substr(dots + kEach.size())));
  if (inputs.empty() || inputs.size() % count != 0) {
    return absl::InvalidArgumentError(
        fmt::format("inputs {}: are {}, expected a multiple of {}",
                    text.substr(0, dots), inputs.size(), count));
  }
  for (size_t i = 0; i < inputs.size(); i += count) {
    proto::Node& made = *function_->add_node();
    made.set_op_type(statement.op);
    made.set_domain(statement.domain);
    SetNodeAttributes(statement, &made);
    for (size_t j = 0; j < count; ++j) made.add_input(inputs[i + j]);
    made.add_output(Fresh("each"));
    lists_[statement.outputs[0]].push_back(made.output(0));
  }
  return absl::OkStatus();
}

absl::Status FunctionWriter::AddStatement(size_t index) {
  const BodyStatement& statement = statements_[index];
  if (statement.outputs[0].ends_with(kEach)) return AddRepeated(index);
  proto::Node made;
  made.set_op_type(statement.op);
  made.set_domain(statement.domain);
  SetNodeAttributes(statement, &made);
  NODEWISE_RETURN_IF_ERROR(AddInputs(statement, &made));
  for (const std::string& name : statement.outputs) {
    const auto& outputs = function_->output();
    const bool is_output =
        std::find(outputs.begin(), outputs.end(), name) != outputs.end() &&
        last_.at(name) == index;
    current_[name] = !IsNeeded(name, index) ? ""
                     : is_output            ? name
                                            : Fresh(name);
    made.add_output(current_[name]);
  }
  *function_->add_node() = std::move(made);
  return absl::OkStatus();
}

// Every word that the node gives must be one that the body asks for.
absl::Status FunctionWriter::CheckWords(
    absl::Span<const BodyStatement> body) const {
  for (const FunctionAttribute& attribute : call_.function.attributes) {
    const std::string name(attribute.name);
    const std::string& word = attributes_.find(name)->second.s();
    const auto* const usual =
        std::get_if<std::string_view>(&attribute.fallback);
    if (usual == nullptr || word == *usual) continue;
    const std::string condition = fmt::format("${}={}", name, word);
    const std::string value = "$" + name;
    const bool is_known = std::any_of(
        body.begin(), body.end(), [&](const BodyStatement& statement) {
          const auto& attributes = statement.attributes;
          const auto parts = PartsOf(statement.condition);
          return std::find(parts.begin(), parts.end(), condition) !=
                     parts.end() ||
                 std::any_of(attributes.begin(), attributes.end(),
                             [&](const auto& attribute) {
                               return attribute.second == value;
                             });
        });
    if (is_known) continue;
    return absl::InvalidArgumentError(fmt::format(
        "attribute {}: is {}, which is not known", name, Shortened(word)));
  }
  return absl::OkStatus();
}

// Every output that is wanted must be made.
absl::Status FunctionWriter::CheckOutputs() const {
  for (size_t i = 0; i < call_.function.outputs.size(); ++i) {
    const std::string_view name = call_.function.outputs[i].name;
    const bool is_made = std::any_of(
        statements_.begin(), statements_.end(), [&](const auto& statement) {
          return std::find(statement.outputs.begin(), statement.outputs.end(),
                           name) != statement.outputs.end();
        });
    if (is_made || !call_.wanted[i]) continue;
    return absl::UnimplementedError(
        fmt::format("output {}: is read, which is not supported", name));
  }
  return absl::OkStatus();
}

// Keeps the statements whose conditions hold.
absl::Status FunctionWriter::KeepStatements() {
  const std::vector<BodyStatement> body = ParseBody(call_.function.body);
  NODEWISE_RETURN_IF_ERROR(CheckWords(body));
  for (const BodyStatement& statement : body) {
    const std::string_view condition = statement.condition;
    if (!Holds(condition, call_, attributes_)) continue;
    if (statement.op == "Refuse") {
      if (statement.inputs.empty()) return Refused(condition);
      return absl::UnimplementedError(fmt::format(
          "is not supported with {}", fmt::join(statement.inputs, ", ")));
    }
    statements_.push_back(statement);
  }
  NODEWISE_RETURN_IF_ERROR(CheckOutputs());
  DropUnneeded();
  for (size_t i = 0; i < statements_.size(); ++i) {
    for (const std::string& name : statements_[i].outputs) last_[name] = i;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<proto::Function>> FunctionWriter::Write() {
  NODEWISE_RETURN_IF_ERROR(Begin());
  NODEWISE_RETURN_IF_ERROR(KeepStatements());
  for (size_t i = 0; i < statements_.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(AddStatement(i));
  }
  return std::move(function_);
}

}  // namespace

absl::StatusOr<std::unique_ptr<proto::Function>> FunctionOf(
    const ContribCall& call) {
  return FunctionWriter(call).Write();
}

}  // namespace nodewise
