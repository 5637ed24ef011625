#include "contrib/onnx/contrib_call.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "contrib/onnx/attributes.h"
#include "contrib/onnx/function_body.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

double NumberOf(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  NODEWISE_CHECK(std::from_chars(text.data(), end, number).ptr == end);
  return number;
}

bool IsNumber(std::string_view text) {
  return (text[0] >= '0' && text[0] <= '9') || text[0] == '-';
}

// The numbers of "[1, -2]".
std::vector<int64_t> IntegersOf(std::string_view text) {
  std::vector<int64_t> numbers;
  for (size_t at = 1; at < text.size(); ++at) {
    const size_t end = text.find_first_of(",]", at);
    const size_t first = text.find_first_not_of(' ', at);
    numbers.push_back(
        static_cast<int64_t>(NumberOf(text.substr(first, end - first))));
    at = end;
  }
  return numbers;
}

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
  } else if (std::holds_alternative<std::monostate>(attribute.fallback)) {
    made.set_type(static_cast<int>(AttributeType::kFloats));
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
  void SetPassed();
  proto::Attribute ValueOf(std::string_view text) const;
  absl::Status CheckWords(absl::Span<const BodyStatement> body) const;
  bool Holds(std::string_view condition) const;
  bool IsNeeded(std::string_view name, size_t index) const;
  absl::Status AddStatement(size_t index);
  absl::StatusOr<std::string> InputOf(const std::string& text);
  bool MovedToAttribute(const BodyStatement& statement, size_t input,
                        proto::Node* node) const;
  std::string ConstantOf(const proto::Attribute& value, bool is_real);
  absl::Status SetPermutation(const BodyStatement& statement,
                              proto::Node* node) const;
  void SetZero(const BodyStatement& statement, proto::Node* node) const;
  std::string Fresh(std::string_view name) {
    return fmt::format("{}_{}", name, ++names_);
  }
  const InputInfo& InfoOf(std::string_view input) const;
  DLDataType FirstType() const {
    return call_.inputs.empty() ? DLDataType{} : call_.inputs[0].type.dtype;
  }

  const ContribCall& call_;
  std::unique_ptr<proto::Function> function_;
  std::map<std::string, proto::Attribute, std::less<>> attributes_;
  std::vector<proto::Attribute> passed_;
  std::vector<BodyStatement> statements_;  // Whose conditions hold.
  // What a name stands for by now; empty: an input that is left out.
  std::map<std::string, std::string, std::less<>> current_;
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
    proto::Attribute value = DefaultOf(attribute);
    *function_->add_attribute_proto() = value;
    if (const auto* const given = call_.attribute(attribute.name)) {
      if (TypeOf(*given) != TypeOf(value)) {
        return absl::InvalidArgumentError(
            fmt::format("attribute {}: is of the wrong type", attribute.name));
      }
      value = *given;
    }
    attributes_.emplace(attribute.name, std::move(value));
  }
  SetPassed();
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
  element.set_type(static_cast<int>(AttributeType::kFloat));
  element.set_f(index < value.floats_size() ? value.floats(index) : 0);
  return element;
}

bool FunctionWriter::Holds(std::string_view condition) const {
  if (condition.empty()) return true;
  if (condition[0] == '!') return !Holds(condition.substr(1));
  if (condition[0] != '$') return InfoOf(condition).is_given;
  condition.remove_prefix(1);
  const size_t name_end =
      std::min(condition.find_first_of("!="), condition.size());
  const proto::Attribute& value =
      attributes_.find(condition.substr(0, name_end))->second;
  condition.remove_prefix(name_end);
  if (condition.empty()) return value.i() != 0;
  if (condition[0] == '=') return value.s() == condition.substr(1);
  return static_cast<double>(value.f()) != NumberOf(condition.substr(2));
}

const InputInfo& FunctionWriter::InfoOf(std::string_view input) const {
  for (size_t i = 0; i < call_.function.inputs.size(); ++i) {
    if (call_.function.inputs[i].name == input) return call_.inputs[i];
  }
  NODEWISE_CHECK(false);
  return call_.inputs[0];
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

absl::StatusOr<std::string> FunctionWriter::InputOf(const std::string& text) {
  if (text.empty()) return text;
  proto::Attribute value;
  if (text[0] == '[') {
    value.set_name("value_ints");
    value.set_type(static_cast<int>(AttributeType::kInts));
    for (const int64_t number : IntegersOf(text)) value.add_ints(number);
    return ConstantOf(value, false);
  }
  if (text[0] != '$' && !IsNumber(text)) return current_.at(text);
  value.set_name("value_float");
  value.set_type(static_cast<int>(AttributeType::kFloat));
  value.set_f(text[0] == '$' ? ValueOf(text).f()
                             : static_cast<float>(NumberOf(text)));
  return ConstantOf(value, true);
}

// Some lists were attributes in earlier opsets.
bool FunctionWriter::MovedToAttribute(const BodyStatement& statement,
                                      size_t input, proto::Node* node) const {
  const OperatorDef* const row = call_.ops.Find("", statement.op, call_.opset);
  const std::string& text = statement.inputs[input];
  if (row == nullptr || text.empty() || text[0] != '[') return false;
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

absl::Status FunctionWriter::SetPermutation(const BodyStatement& statement,
                                            proto::Node* node) const {
  const TensorType& type = InfoOf(statement.inputs[0]).type;
  if (!type.has_rank()) {
    return absl::InvalidArgumentError(
        fmt::format("input {}: has no known rank, expected one, since its "
                    "sides are exchanged",
                    statement.inputs[0]));
  }
  std::vector<int64_t> order;
  for (int i = 0; i < type.rank(); ++i) order.push_back(i);
  if (order.size() >= 2 && statement.op == "SwapLast") {
    std::swap(order.end()[-1], order.end()[-2]);
  } else if (order.size() >= 2) {
    std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  }
  node->set_op_type("Transpose");
  proto::Attribute& perm = *node->add_attribute();
  perm.set_name("perm");
  perm.set_type(static_cast<int>(AttributeType::kInts));
  for (const int64_t side : order) perm.add_ints(side);
  return absl::OkStatus();
}

void FunctionWriter::SetZero(const BodyStatement& statement,
                             proto::Node* node) const {
  const DLDataType dtype = InfoOf(statement.inputs[0]).type.dtype;
  node->set_op_type("Constant");
  node->clear_input();
  proto::Attribute& value = *node->add_attribute();
  value.set_name("value");
  value.set_type(static_cast<int>(AttributeType::kTensor));
  value.mutable_t()->set_data_type(
      static_cast<int32_t>(OnnxNumberOf(dtype).value_or(0)));
  // Not raw: such data would be read where it is, which is gone after the call.
  value.mutable_t()->add_int32_data(0);
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

absl::Status FunctionWriter::AddStatement(size_t index) {
  const BodyStatement& statement = statements_[index];
  proto::Node made;
  made.set_op_type(statement.op);
  for (const auto& [name, text] : statement.attributes) {
    if (name == "*") {
      for (const proto::Attribute& each : passed_) {
        *made.add_attribute() = each;
      }
      continue;
    }
    proto::Attribute& attribute = *made.add_attribute();
    if (text[0] == '$') {
      attribute = ValueOf(text);
    } else if (IsNumber(text)) {
      attribute.set_type(static_cast<int>(AttributeType::kInt));
      attribute.set_i(static_cast<int64_t>(NumberOf(text)));
    } else {
      attribute.set_type(static_cast<int>(AttributeType::kString));
      attribute.set_s(text);
    }
    attribute.set_name(name);
  }
  for (size_t i = 0; i < statement.inputs.size(); ++i) {
    if (MovedToAttribute(statement, i, &made)) continue;
    NODEWISE_ASSIGN_OR_RETURN(const std::string input,
                              InputOf(statement.inputs[i]));
    made.add_input(input);
  }
  if (statement.op == "ZeroOf") SetZero(statement, &made);
  if (statement.op == "SwapLast" || statement.op == "BatchToSecondLast") {
    NODEWISE_RETURN_IF_ERROR(SetPermutation(statement, &made));
  }
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
  for (const auto& [name, value] : attributes_) {
    if (value.s().empty()) continue;
    const std::string condition = fmt::format("${}={}", name, value.s());
    const std::pair<std::string, std::string> handed_on(name, "$" + name);
    const bool is_known = std::any_of(
        body.begin(), body.end(), [&](const BodyStatement& statement) {
          const auto& attributes = statement.attributes;
          return statement.condition == condition ||
                 std::find(attributes.begin(), attributes.end(), handed_on) !=
                     attributes.end();
        });
    if (is_known) continue;
    return absl::InvalidArgumentError(fmt::format(
        "attribute {}: is {}, which is not known", name, Shortened(value.s())));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<proto::Function>> FunctionWriter::Write() {
  NODEWISE_RETURN_IF_ERROR(Begin());
  const std::vector<BodyStatement> body = ParseBody(call_.function.body);
  NODEWISE_RETURN_IF_ERROR(CheckWords(body));
  for (const BodyStatement& statement : body) {
    if (!Holds(statement.condition)) continue;
    if (statement.op == "Refuse") {
      return absl::UnimplementedError(
          fmt::format("attribute {}: is set, which is not known",
                      statement.condition.substr(1)));
    }
    for (const std::string& name : statement.outputs) {
      last_[name] = statements_.size();
    }
    statements_.push_back(statement);
  }
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
