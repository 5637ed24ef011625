// Makes the function that a call of a table's operator stands for, out of the
// lines of its row: takes the lines apart, keeps those whose conditions hold
// for what the call gives and whose results something needs, and writes a node
// of ONNX for each.

#include "contrib/onnx/function_body.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/check.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

std::string_view Stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

// The parts between the commas that stand in no brackets.
// Lists of integers are elements themselves, with commas of their own.
std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> parts;
  if (Stripped(text).empty()) return parts;
  int depth = 0;
  size_t first = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) {
      depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
      if (text[i] != ',' || depth > 0) continue;
    }
    parts.emplace_back(Stripped(text.substr(first, i - first)));
    first = i + 1;
  }
  return parts;
}

std::string_view TakeBetween(char begin, char end, std::string_view* text) {
  NODEWISE_CHECK(!text->empty() && text->front() == begin);
  const size_t last = text->find(end);
  NODEWISE_CHECK(last != std::string_view::npos);
  const std::string_view inside = text->substr(1, last - 1);
  text->remove_prefix(last + 1);
  return inside;
}

BodyStatement ParseLine(std::string_view line) {
  BodyStatement statement;
  const size_t equals = line.find(" = ");
  NODEWISE_CHECK(equals != std::string_view::npos);
  statement.outputs = SplitList(line.substr(0, equals));
  line.remove_prefix(equals + 3);
  const size_t op_end = line.find_first_of("<(");
  NODEWISE_CHECK(op_end != std::string_view::npos);
  statement.op = std::string(line.substr(0, op_end));
  const size_t dot = statement.op.rfind('.');
  if (dot != std::string::npos) {
    statement.domain = statement.op.substr(0, dot);
    statement.op.erase(0, dot + 1);
  }
  line.remove_prefix(op_end);
  if (line.front() == '<') {
    for (const std::string& part : SplitList(TakeBetween('<', '>', &line))) {
      if (part == "*") {
        statement.attributes.emplace_back(part, "");
        continue;
      }
      const size_t split = part.find('=');
      NODEWISE_CHECK(split != std::string::npos);
      statement.attributes.emplace_back(part.substr(0, split),
                                        part.substr(split + 1));
    }
  }
  statement.inputs = SplitList(TakeBetween('(', ')', &line));
  line = Stripped(line);
  if (line.empty()) return statement;
  constexpr std::string_view kIf = "if ";
  NODEWISE_CHECK(line.starts_with(kIf));
  statement.condition = std::string(line.substr(kIf.size()));
  return statement;
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

// REQUIRES: all of the text is a number.
double NumberOf(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  NODEWISE_CHECK(std::from_chars(text.data(), end, number).ptr == end);
  return number;
}

bool IsNumber(std::string_view text) {
  return (text[0] >= '0' && text[0] <= '9') || text[0] == '-';
}

// The attributes of a call: those of the node, and the defaults of the others.
using CallAttributes = std::map<std::string, proto::Attribute, std::less<>>;

const InputInfo& InfoOf(std::string_view input, const ContribCall& call) {
  const auto& inputs = call.function.inputs;
  const auto* const found = std::ranges::find(inputs, input, &Param::name);
  NODEWISE_CHECK(found != inputs.end());
  return call.inputs[static_cast<size_t>(found - inputs.begin())];
}

double NumberIn(const proto::Attribute& value) {
  return TypeOf(value) == AttributeType::kFloat
             ? static_cast<double>(value.f())
             : static_cast<double>(value.i());
}

// Whether an attribute is as "=WORD" says, or "!=NUMBER", "<NUMBER"; with no
// text, whether it is set at all.
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
  comparison.remove_prefix(1);
  return TypeOf(value) == AttributeType::kString
             ? value.s() == comparison
             : NumberIn(value) == NumberOf(comparison);
}

// What is not known of a type does not hold: a rank that is asked for must be
// certain, or the function would not fit the tensor.
bool PartHolds(std::string_view part, const ContribCall& call,
               const CallAttributes& attributes) {
  if (part[0] == '!') return !PartHolds(part.substr(1), call, attributes);
  if (part[0] == '$') {
    part.remove_prefix(1);
    const size_t end = std::min(part.find_first_of("!=<"), part.size());
    return Compares(attributes.find(part.substr(0, end))->second,
                    part.substr(end));
  }
  const size_t open = part.find('(');
  if (open == std::string_view::npos) return InfoOf(part, call).is_given;
  const size_t close = part.find(')');
  NODEWISE_CHECK(close != std::string_view::npos);
  const std::string_view rule = part.substr(0, open);
  const std::string_view argument = part.substr(open + 1, close - open - 1);
  if (rule == "last") {
    const size_t comma = argument.find(", ");
    const int64_t axis = attributes.find(argument.substr(0, comma))->second.i();
    const TensorType& type = InfoOf(argument.substr(comma + 2), call).type;
    return axis == -1 || (type.has_rank() && axis == type.rank() - 1);
  }
  // Behind the bracket stands a '=', and what is asked for.
  const std::string_view wanted = part.substr(close + 2);
  const InputInfo& info = InfoOf(argument, call);
  if (rule == "type") {
    return info.is_given && ToString(info.type.dtype) == wanted;
  }
  NODEWISE_CHECK(rule == "rank");
  return info.type.has_rank() &&
         static_cast<double>(info.type.rank()) == NumberOf(wanted);
}

// A condition that does not follow the rules ends the process, as do other
// mistakes in bodies.
bool Holds(std::string_view condition, const ContribCall& call,
           const CallAttributes& attributes) {
  return std::ranges::all_of(PartsOf(condition), [&](std::string_view part) {
    return PartHolds(part, call, attributes);
  });
}

absl::Status Refused(std::string_view condition) {
  const size_t open = condition.find('(');
  if (open != std::string_view::npos) {
    const size_t comma = condition.find(',');
    return Unimplemented("attribute {}: is not known for such an input",
                         condition.substr(open + 1, comma - open - 1));
  }
  const bool is_attribute = condition.find('$') != std::string_view::npos;
  return absl::UnimplementedError(
      is_attribute
          ? fmt::format("attribute {}: is set, which is not known",
                        condition.substr(condition.find('$') + 1))
          : fmt::format("input {}: is given, which is not known", condition));
}

// A permutation depends on the rank, which only the call knows, and Transpose
// takes it as an attribute.
absl::Status SetPermutation(const BodyStatement& statement,
                            const ContribCall& call, proto::Node* node) {
  const std::string& like = statement.inputs.back();
  const TensorType& type = InfoOf(like, call).type;
  if (!type.has_rank()) {
    return InvalidArgument(
        "input {}: has no known rank, expected one, since its sides are "
        "exchanged",
        like);
  }
  std::vector<int64_t> order;
  for (int i = 0; i < type.rank(); ++i) order.push_back(i);
  if (order.size() < 2) {
    // There is nothing to exchange.
  } else if (statement.op == "SwapLast") {
    std::swap(order.end()[-1], order.end()[-2]);
  } else if (statement.op == "BatchToSecondLast") {
    std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  } else if (statement.op == "ChannelsFirst") {
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  } else {
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  }
  while (node->input_size() > 1) node->mutable_input()->RemoveLast();
  node->set_op_type("Transpose");
  *node->add_attribute() = NamedAttribute("perm", order);
  return absl::OkStatus();
}

// A zero point has the type of the numbers that it belongs to.
void SetZero(const BodyStatement& statement, const ContribCall& call,
             proto::Node* node) {
  const DLDataType dtype = InfoOf(statement.inputs[0], call).type.dtype;
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

absl::Status SetCast(const BodyStatement& statement, const ContribCall& call,
                     proto::Node* node) {
  const std::string& like = statement.inputs[1];
  const auto number = OnnxNumberOf(InfoOf(like, call).type.dtype);
  if (!number.has_value()) {
    return InvalidArgument("input {}: has no known type, expected one", like);
  }
  node->set_op_type("Cast");
  node->mutable_input()->RemoveLast();
  *node->add_attribute() = NamedAttribute("to", int64_t{*number});
  return absl::OkStatus();
}

// `node` is the statement's, with its inputs; it stays as it is unless only
// bodies have its operator (function_body.h). Fails with kInvalidArgument if
// what is known of the inputs of the call does not say what the operator means.
absl::Status ReplaceOwn(const BodyStatement& statement, const ContribCall& call,
                        proto::Node* node) {
  if (!statement.domain.empty()) return absl::OkStatus();
  if (statement.op == "ZeroOf") SetZero(statement, call, node);
  if (statement.op == "CastAs") return SetCast(statement, call, node);
  for (const std::string_view op :
       {"SwapLast", "BatchToSecondLast", "ChannelsFirst", "ChannelsLast"}) {
    if (statement.op == op) return SetPermutation(statement, call, node);
  }
  return absl::OkStatus();
}

// Ends a name that stands for several values.
constexpr std::string_view kEach = "...";

proto::Attribute DefaultOf(const FunctionAttribute& attribute) {
  struct ToValue {
    AttrValue operator()(int64_t number) const { return number; }
    AttrValue operator()(float number) const { return number; }
    AttrValue operator()(std::string_view word) const {
      return std::string(word);
    }
    AttrValue operator()(NoFloats) const { return std::vector<float>(); }
    AttrValue operator()(NoInts) const { return std::vector<int64_t>(); }
  };
  return NamedAttribute(attribute.name,
                        std::visit(ToValue(), attribute.fallback));
}

class FunctionWriter {
 public:
  explicit FunctionWriter(const ContribCall& call)
      : call_(call), function_(std::make_unique<proto::Function>()) {}

  absl::StatusOr<std::unique_ptr<proto::Function>> Write();

 private:
  absl::Status Begin();
  absl::Status SetAttribute(const FunctionAttribute& attribute);
  void SetPassed();
  proto::Attribute ValueOf(std::string_view text) const;
  absl::Status CheckWords(absl::Span<const BodyStatement> body) const;
  absl::Status CheckOutputs() const;
  absl::Status KeepStatements();
  void DropUnneeded();
  bool IsNeeded(std::string_view name, size_t index) const;
  absl::Status AddStatement(size_t index);
  absl::Status AddRepeated(const BodyStatement& statement);
  proto::Node NodeFor(const BodyStatement& statement) const;
  absl::Status AddInputs(const BodyStatement& statement, proto::Node* node);
  std::string InputOf(const std::string& text);
  int64_t IntegerOf(std::string_view text) const;
  std::vector<int64_t> IntegersOf(std::string_view text) const;
  bool MovedToAttribute(const BodyStatement& statement, size_t input,
                        proto::Node* node) const;
  std::string AddConstant(const proto::Attribute& value, bool is_real);
  std::string Fresh(std::string_view name) {
    return fmt::format("{}_{}", name, ++names_);
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

// The function has the names of the row for its inputs and outputs. Its
// attributes are declared, so that a call may give them, but no node refers to
// them: their values are written into the nodes.
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
    return InvalidArgument("input {}: is not given, expected a tensor", name);
  }
  for (const Param& param : known.outputs) {
    function_->add_output(std::string(param.name));
  }
  for (const FunctionAttribute& attribute : known.attributes) {
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
      return InvalidArgument("attribute {}: is of the wrong type",
                             attribute.name);
    }
    value = *given;
  } else if (attribute.is_required) {
    return InvalidArgument("attribute {}: is not given", attribute.name);
  }
  attributes_.emplace(attribute.name, std::move(value));
  return absl::OkStatus();
}

// Attributes that are passed on are those of the node, unchanged; the operator
// that gets them says what is wrong with them.
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
  if (TypeOf(value) == AttributeType::kInts) {
    return NamedAttribute(
        "", int64_t{index < value.ints_size() ? value.ints(index) : 0});
  }
  return NamedAttribute(
      "", index < value.floats_size() ? value.floats(index) : 0.0F);
}

// Adds a constant of this value, in the type of the first input if it is real.
std::string FunctionWriter::AddConstant(const proto::Attribute& value,
                                        bool is_real) {
  proto::Node* node = function_->add_node();
  node->set_op_type("Constant");
  *node->add_attribute() = value;
  std::string name = Fresh("constant");
  node->add_output(name);
  const DLDataType dtype =
      call_.inputs.empty() ? DLDataType{} : call_.inputs[0].type.dtype;
  if (!is_real || !IsFloat(dtype) || dtype == kFloat32) return name;
  node = function_->add_node();
  node->set_op_type("Cast");
  node->add_input(name);
  *node->add_attribute() =
      NamedAttribute("to", int64_t{OnnxNumberOf(dtype).value_or(0)});
  name = Fresh("constant");
  node->add_output(name);
  return name;
}

// "$NAME", perhaps with "*NUMBER" and then "+NUMBER" behind it; or a number.
int64_t FunctionWriter::IntegerOf(std::string_view text) const {
  const auto whole = [](std::string_view number) {
    return static_cast<int64_t>(NumberOf(number));
  };
  if (text[0] != '$') return whole(text);
  const size_t plus = std::min(text.find('+'), text.size());
  const size_t times = std::min(text.find('*'), plus);
  // Unsigned, since a model may give any number.
  auto number =
      static_cast<uint64_t>(int64_t{ValueOf(text.substr(0, times)).i()});
  if (times < plus) {
    number *=
        static_cast<uint64_t>(whole(text.substr(times + 1, plus - times - 1)));
  }
  if (plus < text.size()) {
    number += static_cast<uint64_t>(whole(text.substr(plus + 1)));
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

// Returns what a line reads there: a value's name, or that of a constant, which
// is added, named as an attribute of Constant is for its type.
std::string FunctionWriter::InputOf(const std::string& text) {
  if (text.empty()) return text;
  const bool is_attribute = text[0] == '$';
  const AttributeType type =
      is_attribute ? TypeOf(ValueOf(text)) : AttributeType::kUndefined;
  if (text[0] == '[' || type == AttributeType::kInts) {
    return AddConstant(NamedAttribute("value_ints", IntegersOf(text)), false);
  }
  if (type == AttributeType::kFloats) {
    proto::Attribute value = ValueOf(text);
    value.set_name("value_floats");
    return AddConstant(value, false);
  }
  if (text[0] == '#') {
    const int64_t number = IntegerOf(std::string_view(text).substr(1));
    return AddConstant(NamedAttribute("value_int", number), false);
  }
  if (!is_attribute && !IsNumber(text)) return current_[text];
  const float number =
      is_attribute ? ValueOf(text).f() : static_cast<float>(NumberOf(text));
  return AddConstant(NamedAttribute("value_float", number), true);
}

// Some lists were attributes in earlier opsets.
// The importer of nodes turns such attributes into inputs again; bodies are
// written for the newest form.
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
    *node->add_attribute() = NamedAttribute(moved.attribute, IntegersOf(text));
    return true;
  }
  return false;
}

// Whether an output of this statement is wanted, or read by a later one.
bool FunctionWriter::IsNeeded(std::string_view name, size_t index) const {
  for (size_t i = index + 1; i < statements_.size(); ++i) {
    if (IsIn(statements_[i].inputs, name)) return true;
  }
  for (size_t i = 0; i < call_.function.outputs.size(); ++i) {
    if (call_.function.outputs[i].name == name) return call_.wanted[i];
  }
  return false;
}

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
  std::ranges::reverse(kept);
  statements_ = std::move(kept);
}

proto::Node FunctionWriter::NodeFor(const BodyStatement& statement) const {
  proto::Node node;
  node.set_op_type(statement.op);
  node.set_domain(statement.domain);
  for (const auto& [name, text] : statement.attributes) {
    if (name == "*") {
      node.mutable_attribute()->Add(passed_.begin(), passed_.end());
      continue;
    }
    proto::Attribute& attribute = *node.add_attribute();
    const bool is_attribute = text[0] == '$';
    if (is_attribute && text.find_first_of("*+") == std::string::npos) {
      attribute = ValueOf(text);
      attribute.set_name(name);
    } else if (is_attribute || IsNumber(text)) {
      attribute = NamedAttribute(name, IntegerOf(text));
    } else if (text[0] == '[') {
      attribute = NamedAttribute(name, IntegersOf(text));
    } else {
      attribute = NamedAttribute(name, text);
    }
  }
  return node;
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
    const auto* const made = FindOrNull(lists_, text);
    const std::string given = text.substr(0, text.size() - kEach.size());
    for (const std::string& each : made == nullptr ? lists_[given] : *made) {
      node->add_input(each);
    }
  }
  return ReplaceOwn(statement, call_, node);
}

// Adds a statement once for each group of variadic inputs.
absl::Status FunctionWriter::AddRepeated(const BodyStatement& statement) {
  const std::string& text = statement.inputs[0];
  const size_t dots = text.rfind(kEach);
  const std::vector<std::string>& inputs = lists_[text.substr(0, dots)];
  const auto count =
      static_cast<size_t>(NumberOf(text.substr(dots + kEach.size())));
  if (inputs.empty() || inputs.size() % count != 0) {
    return InvalidArgument("inputs {}: are {}, expected a multiple of {}",
                           text.substr(0, dots), inputs.size(), count);
  }
  for (size_t i = 0; i < inputs.size(); i += count) {
    proto::Node& made = *function_->add_node();
    made = NodeFor(statement);
    for (size_t j = 0; j < count; ++j) made.add_input(inputs[i + j]);
    made.add_output(Fresh("each"));
    lists_[statement.outputs[0]].push_back(made.output(0));
  }
  return absl::OkStatus();
}

// A name that is given several times becomes as many names, since a graph may
// give each only once; the last one keeps it if it is an output of the
// function.
absl::Status FunctionWriter::AddStatement(size_t index) {
  const BodyStatement& statement = statements_[index];
  if (statement.outputs[0].ends_with(kEach)) return AddRepeated(statement);
  proto::Node made = NodeFor(statement);
  // The constants of a node must stand before it, so that AddInputs() adds them
  // first.
  NODEWISE_RETURN_IF_ERROR(AddInputs(statement, &made));
  for (const std::string& name : statement.outputs) {
    const bool is_output =
        IsIn(function_->output(), name) && last_.at(name) == index;
    current_[name] = !IsNeeded(name, index) ? ""
                     : is_output            ? name
                                            : Fresh(name);
    made.add_output(current_[name]);
  }
  *function_->add_node() = std::move(made);
  return absl::OkStatus();
}

// Every word that the node gives must be one that the body asks for, in a
// condition or by handing the attribute on; otherwise no line would hold for it
// and the function would be a wrong one.
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
    const bool is_known =
        std::ranges::any_of(body, [&](const BodyStatement& statement) {
          return IsIn(PartsOf(statement.condition), condition) ||
                 std::ranges::any_of(
                     statement.attributes,
                     [&](const auto& given) { return given.second == value; });
        });
    if (is_known) continue;
    return InvalidArgument("attribute {}: is {}, which is not known", name,
                           Shortened(word));
  }
  return absl::OkStatus();
}

absl::Status FunctionWriter::CheckOutputs() const {
  for (size_t i = 0; i < call_.function.outputs.size(); ++i) {
    const std::string_view name = call_.function.outputs[i].name;
    const bool is_made =
        std::ranges::any_of(statements_, [&](const BodyStatement& statement) {
          return IsIn(statement.outputs, name);
        });
    if (is_made || !call_.wanted[i]) continue;
    return Unimplemented("output {}: is read, which is not supported", name);
  }
  return absl::OkStatus();
}

absl::Status FunctionWriter::KeepStatements() {
  std::vector<BodyStatement> body = ParseBody(call_.function.body);
  NODEWISE_RETURN_IF_ERROR(CheckWords(body));
  for (BodyStatement& statement : body) {
    const std::string_view condition = statement.condition;
    if (!Holds(condition, call_, attributes_)) continue;
    if (statement.op == "Refuse") {
      if (statement.inputs.empty()) return Refused(condition);
      return Unimplemented("is not supported with {}",
                           fmt::join(statement.inputs, ", "));
    }
    statements_.push_back(std::move(statement));
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

std::vector<BodyStatement> ParseBody(std::string_view body) {
  std::vector<BodyStatement> statements;
  std::string line;
  while (!body.empty()) {
    const size_t end = std::min(body.find('\n'), body.size());
    if (!line.empty()) line += ' ';
    line += Stripped(body.substr(0, end));
    body.remove_prefix(std::min(end + 1, body.size()));
    // A statement goes on as long as its inputs are not closed.
    if (line.find(')') == std::string::npos || line.ends_with(" and") ||
        line.ends_with(" if")) {
      continue;
    }
    statements.push_back(ParseLine(std::exchange(line, "")));
  }
  NODEWISE_CHECK(line.empty());
  return statements;
}

absl::StatusOr<std::unique_ptr<proto::Function>> FunctionOf(
    const ContribCall& call) {
  return FunctionWriter(call).Write();
}

}  // namespace nodewise
