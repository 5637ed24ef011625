#include <algorithm>

#include "contrib/ir/inference.h"
#include "contrib/ir/network_reader.h"
#include "contrib/ir/places.h"
#include "contrib/ir/tensor_text.h"
#include "contrib/ir/type_text.h"
#include "fmt/format.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Numbers may have gaps, where something was removed; how many is bounded, so
// that a short text cannot ask for much memory.
constexpr size_t kMostGaps = size_t{1} << 16;
constexpr size_t kFewestBytesOfItem = 8;

constexpr std::pair<std::string_view, NetworkValue::Kind> kKinds[] = {
    {"input", NetworkValue::Kind::kInput},
    {"constant", NetworkValue::Kind::kConstant},
    {"output", NetworkValue::Kind::kOutput},
    {"barrier", NetworkValue::Kind::kBarrier},
};

absl::StatusOr<NetworkValue::Kind> TakeKind(std::string_view* text) {
  SkipBlanks(text);
  const std::string_view start = *text;
  const std::string_view word = TakeWord(text);
  for (const auto& [name, kind] : kKinds) {
    if (name == word) return kind;
  }
  *text = start;
  return Expected("input, constant, output or barrier", start);
}

// Takes the statement before the outermost network; version 1 had none.
absl::Status TakeVersion(std::string_view* text) {
  SkipBlanks(text);
  const std::string_view first = *text;
  if (TakeWord(text) != "version") {
    *text = first;
    return absl::OkStatus();
  }
  SkipBlanks(text);
  const std::string_view start = *text;
  const auto version = TakeInteger(text);
  if (!version.ok() || *version < 1 || *version > kNetworkTextVersion) {
    *text = start;
    return Expected(fmt::format("a version from 1 to {}", kNetworkTextVersion),
                    start);
  }
  return TakeChar(text, ';') ? absl::OkStatus() : Expected(";", *text);
}

absl::StatusOr<NetworkData> ReadWhole(std::string_view* rest, const OpSet& ops,
                                      TextBudget* budget) {
  NODEWISE_RETURN_IF_ERROR(TakeVersion(rest));
  NetworkReader reader(rest, ops, budget);
  NODEWISE_ASSIGN_OR_RETURN(NetworkData data, reader.Read());
  SkipBlanks(rest);
  if (!rest->empty()) return Expected("the end, behind the network", *rest);
  return data;
}

}  // namespace

bool LooksLikeNetworkText(std::string_view text) {
  SkipBlanks(&text);
  const std::string_view word = TakeWord(&text);
  if (word != "version" && word != "network") return false;
  SkipBlanks(&text);
  return !text.empty() &&
         (word == "network" ? text[0] == '"'
                            : text[0] >= '0' && text[0] <= '9');
}

absl::StatusOr<NetworkData> ParseNetworkText(std::string_view text,
                                             const OpSet& ops,
                                             const std::string& where) {
  std::string_view rest = text;
  TextBudget budget;
  budget.numbers_left = kMostGaps + text.size() / kFewestBytesOfItem;
  auto data = ReadWhole(&rest, ops, &budget);
  if (data.ok()) return data;
  SkipBlanks(&rest);
  const std::string_view before = text.substr(0, text.size() - rest.size());
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  // npos + 1 is 0: the first line.
  const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  return absl::DataLossError(fmt::format("{}:{}:{}: {}", where, line, column,
                                         MessageOf(data.status())));
}

bool NetworkReader::TakeKeyword(std::string_view keyword) {
  SkipBlanks(&text_);
  const std::string_view start = text_;
  if (TakeWord(&text_) == keyword) return true;
  text_ = start;
  return false;
}

absl::Status NetworkReader::Need(char c) {
  if (TakeChar(&text_, c)) return absl::OkStatus();
  return Expected(std::string(1, c), text_);
}

absl::StatusOr<uint32_t> NetworkReader::ReadNumber(char sign) {
  SkipBlanks(&text_);
  const std::string_view start = text_;
  const std::string wanted = fmt::format("a number such as {:c}3", sign);
  if (!TakeChar(&text_, sign)) return Expected(wanted, start);
  const auto number = TakeInteger(&text_);
  if (!number.ok() || *number < 0 || *number >= UINT32_MAX) {
    text_ = start;
    return Expected(wanted, start);
  }
  return static_cast<uint32_t>(*number);
}

// TakeWord would also take the dot: "_.3" is a slot of no operation.
bool NetworkReader::TakeNothing() {
  SkipBlanks(&text_);
  const bool is_next =
      text_.substr(0, 1) == "_" &&
      (text_.size() == 1 || text_[1] == '.' || !IsWordPart(text_[1]));
  if (is_next) text_.remove_prefix(1);
  return is_next;
}

absl::StatusOr<ValueId> NetworkReader::ReadValueId() {
  if (TakeNothing()) return kNoValue;
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t number, ReadNumber('%'));
  return ValueId{number};
}

absl::StatusOr<OperationId> NetworkReader::ReadOperationId() {
  if (TakeNothing()) return kNoOperation;
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t number, ReadNumber('#'));
  return OperationId{number};
}

absl::StatusOr<std::vector<ValueId>> NetworkReader::ReadValueIds() {
  std::vector<ValueId> ids;
  do {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId id, ReadValueId());
    ids.push_back(id);
  } while (TakeChar(&text_, ','));
  return ids;
}

absl::Status NetworkReader::ReadFoundAndElements(NetworkValue* value) {
  if (TakeKeyword("found")) {
    NODEWISE_ASSIGN_OR_RETURN(value->found, TakeTensorType(&text_));
  }
  if (!TakeKeyword("elements")) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(value->elements, TakeShape(&text_));
  return absl::OkStatus();
}

absl::StatusOr<bool> NetworkReader::ReadNameAndType(NetworkValue* value) {
  NODEWISE_ASSIGN_OR_RETURN(value->name, TakeQuoted(&text_));
  if (!TakeChar(&text_, ':')) return false;
  NODEWISE_ASSIGN_OR_RETURN(value->type, TakeTensorType(&text_));
  return true;
}

absl::Status NetworkReader::MakeRoom(std::string_view start, size_t values,
                                     size_t operations) {
  values = std::max(values, data_.values.size());
  operations = std::max(operations, data_.operations.size());
  const size_t more =
      values - data_.values.size() + operations - data_.operations.size();
  if (more > budget_.numbers_left) {
    text_ = start;
    return Expected("numbers that are not that far apart", start);
  }
  budget_.numbers_left -= more;
  data_.values.resize(values);
  data_.operations.resize(operations);
  return absl::OkStatus();
}

absl::Status NetworkReader::Define(std::string_view start, uint32_t id,
                                   NetworkValue value) {
  NODEWISE_RETURN_IF_ERROR(MakeRoom(start, size_t{id} + 1, 0));
  if (data_.values[id].has_value()) {
    text_ = start;
    return Expected("a number that no value has yet", start);
  }
  data_.values[id] = std::move(value);
  return absl::OkStatus();
}

absl::StatusOr<NetworkData> NetworkReader::Read() {
  if (!TakeKeyword("network")) return Expected("network", text_);
  NODEWISE_ASSIGN_OR_RETURN(data_.name, TakeQuoted(&text_));
  NODEWISE_RETURN_IF_ERROR(Need('{'));
  data_.opsets.clear();
  while (!TakeChar(&text_, '}')) {
    NODEWISE_RETURN_IF_ERROR(ReadStatement());
    NODEWISE_RETURN_IF_ERROR(Need(';'));
  }
  FillOrder();
  FillUses();
  InferTypes();
  return std::move(data_);
}

absl::Status NetworkReader::ReadStatement() {
  SkipBlanks(&text_);
  const std::string_view start = text_;
  if (!text_.empty() && text_.front() == '#') return ReadOperation();
  const std::string_view keyword = TakeWord(&text_);
  if (keyword == "opset") return ReadOpset();
  if (keyword == "input") return ReadInput();
  if (keyword == "constant") return ReadConstant();
  if (keyword == "value") return ReadValue();
  if (keyword == "uses") return ReadUses();
  if (keyword == "numbers") return ReadNumbers();
  SkipBlanks(&text_);
  const bool is_empty = text_.substr(0, 1) == ";";
  if (keyword == "output") {
    NODEWISE_ASSIGN_OR_RETURN(data_.outputs, ReadValueIds());
    return absl::OkStatus();
  }
  if (keyword == "inputs") {
    has_inputs_ = true;
    data_.inputs.clear();
    if (is_empty) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(data_.inputs, ReadValueIds());
    return absl::OkStatus();
  }
  if (keyword == "order") {
    has_order_ = true;
    if (is_empty) return absl::OkStatus();
    do {
      NODEWISE_ASSIGN_OR_RETURN(const OperationId id, ReadOperationId());
      data_.order.push_back(id);
    } while (TakeChar(&text_, ','));
    return absl::OkStatus();
  }
  text_ = start;
  return Expected(
      "opset, input, constant, an operation such as #0, output, value, uses, "
      "inputs, order, numbers or }",
      start);
}

absl::Status NetworkReader::ReadOpset() {
  NODEWISE_ASSIGN_OR_RETURN(std::string domain, TakeQuoted(&text_));
  SkipBlanks(&text_);
  const std::string_view start = text_;
  NODEWISE_ASSIGN_OR_RETURN(const int64_t version, TakeInteger(&text_));
  if (version < INT32_MIN || version > INT32_MAX) {
    text_ = start;
    return Expected("a version", start);
  }
  data_.opsets.emplace_back(std::move(domain), static_cast<int>(version));
  return absl::OkStatus();
}

absl::Status NetworkReader::ReadInput() {
  SkipBlanks(&text_);
  const std::string_view start = text_;
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t id, ReadNumber('%'));
  NetworkValue value;
  value.id = ValueId{id};
  NODEWISE_ASSIGN_OR_RETURN(const bool has_type, ReadNameAndType(&value));
  if (!has_type) return Expected(": and a type", text_);
  if (!has_inputs_) data_.inputs.push_back(value.id);
  return Define(start, id, std::move(value));
}

absl::Status NetworkReader::ReadConstant() {
  SkipBlanks(&text_);
  const std::string_view start = text_;
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t id, ReadNumber('%'));
  NetworkValue value;
  value.id = ValueId{id};
  value.kind = NetworkValue::Kind::kConstant;
  NODEWISE_ASSIGN_OR_RETURN(value.name, TakeQuoted(&text_));
  NODEWISE_RETURN_IF_ERROR(Need('='));
  SkipBlanks(&text_);
  const std::string_view data = text_;
  NODEWISE_ASSIGN_OR_RETURN(value.data, TakeTensor(&text_));
  if (!value.data.defined()) {
    text_ = data;
    return Expected("data", data);
  }
  value.type = TensorType::Of(*value.data);
  value.elements = ElementsOf(value.data);
  return Define(start, id, std::move(value));
}

absl::Status NetworkReader::ReadValue() {
  SkipBlanks(&text_);
  const std::string_view start = text_;
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t id, ReadNumber('%'));
  NetworkValue value;
  value.id = ValueId{id};
  NODEWISE_ASSIGN_OR_RETURN(value.kind, TakeKind(&text_));
  NODEWISE_RETURN_IF_ERROR(ReadNameAndType(&value).status());
  if (TakeChar(&text_, '=')) {
    NODEWISE_ASSIGN_OR_RETURN(value.data, TakeTensor(&text_));
  }
  NODEWISE_RETURN_IF_ERROR(ReadFoundAndElements(&value));
  if (TakeKeyword("from")) {
    NODEWISE_ASSIGN_OR_RETURN(value.producer, ReadOperationId());
    NODEWISE_ASSIGN_OR_RETURN(value.slot, ReadNumber('.'));
  }
  if (TakeKeyword("id")) {
    NODEWISE_ASSIGN_OR_RETURN(value.id, ReadValueId());
  }
  return Define(start, id, std::move(value));
}

absl::Status NetworkReader::ReadUses() {
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t id, ReadNumber('%'));
  std::vector<Use> uses;
  SkipBlanks(&text_);
  while (!text_.empty() && text_.front() != ';') {
    Use use;
    NODEWISE_ASSIGN_OR_RETURN(use.user, ReadOperationId());
    const std::string_view start = text_;
    if (TakeChar(&text_, '.') && TakeKeyword("after")) {
      use.slot = kBarrierSlot;
    } else {
      text_ = start;
      NODEWISE_ASSIGN_OR_RETURN(use.slot, ReadNumber('.'));
    }
    uses.push_back(use);
    SkipBlanks(&text_);
  }
  uses_.emplace_back(ValueId{id}, std::move(uses));
  return absl::OkStatus();
}

absl::Status NetworkReader::ReadNumbers() {
  const std::string_view start = text_;
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t values, ReadNumber('%'));
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t operations, ReadNumber('#'));
  return MakeRoom(start, values, operations);
}

void NetworkReader::FillOrder() {
  if (!has_order_) data_.order = as_written_;
}

void NetworkReader::FillUses() {
  for (const OperationId id : as_written_) {
    const Operation& operation = *data_.operations[Index(id)];
    const auto add = [&](ValueId value, uint32_t slot) {
      if (Find(data_, value) == nullptr) return;
      data_.values[Index(value)]->uses.push_back({id, slot});
    };
    for (uint32_t i = 0; i < operation.inputs.size(); ++i) {
      add(operation.inputs[i], i);
    }
    for (const ValueId barrier : operation.after) add(barrier, kBarrierSlot);
  }
  for (auto& [id, uses] : uses_) {
    if (Find(data_, id) == nullptr) continue;
    data_.values[Index(id)]->uses = std::move(uses);
  }
}

// A type that cannot be inferred stays unknown, for Verify() to complain about.
void NetworkReader::InferTypes() {
  std::vector<bool> is_untyped(data_.values.size(), false);
  for (const ValueId id : untyped_) is_untyped[Index(id)] = true;
  for (const OperationId id : as_written_) {
    const Operation& operation = *data_.operations[Index(id)];
    const bool is_wanted = std::any_of(
        operation.outputs.begin(), operation.outputs.end(), [&](ValueId out) {
          return Index(out) < is_untyped.size() && is_untyped[Index(out)];
        });
    if (!is_wanted || !operation.attrs.defined()) continue;
    if (HasBodyAmong(operation.attrs, budget_.damaged)) continue;
    auto infos = CheckAndInfer(data_, operation);
    if (!infos.ok()) continue;
    for (size_t i = 0; i < infos->size(); ++i) {
      const uint32_t out = Index(operation.outputs[i]);
      if (out >= is_untyped.size() || !is_untyped[out]) continue;
      data_.values[out]->type = std::move((*infos)[i].type);
      data_.values[out]->elements = std::move((*infos)[i].elements);
    }
  }
}

}  // namespace nodewise
