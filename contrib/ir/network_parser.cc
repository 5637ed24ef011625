// Reads networks as network_printer.cc writes them
// (docs/formats/network_text.md).
//
// One pass takes the statements one by one, into data that need not be a valid
// network: tests and people write damaged ones for Verify() to judge. Then what
// a text may leave out is filled in: the order, which is that of writing, the
// uses, which follow from the inputs, and types, which can be inferred. Texts
// come from anywhere, so that numbers, depth and memory are bounded by the
// length of the text.

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "contrib/ir/inference.h"
#include "contrib/ir/network_editor.h"
#include "contrib/ir/places.h"
#include "contrib/ir/type_text.h"
#include "fmt/format.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Numbers may have gaps, where something was removed; how many is bounded, so
// that a short text cannot ask for much memory.
constexpr size_t kMostGaps = size_t{1} << 16;
// The shortest statement that defines a value or an operation is longer.
constexpr size_t kFewestBytesOfItem = 8;
// Bodies within bodies; each is a call of the reader within another.
constexpr int kMostDepth = 32;

constexpr std::pair<std::string_view, NetworkValue::Kind> kKinds[] = {
    {"input", NetworkValue::Kind::kInput},
    {"constant", NetworkValue::Kind::kConstant},
    {"output", NetworkValue::Kind::kOutput},
    {"barrier", NetworkValue::Kind::kBarrier},
};

// All networks of one text together may cost no more than this.
struct TextBudget {
  int depth = 0;            // Bodies within bodies.
  size_t numbers_left = 0;  // For values and operations, given or skipped.
  // Bodies that are not valid: they must not be shown to operators.
  std::unordered_set<const Network*> damaged = {};
};

absl::StatusOr<std::string> TakeName(std::string_view* text) {
  const std::string_view word = TakeWord(text);
  if (!word.empty()) return std::string(word);
  return TakeQuoted(text);
}

absl::StatusOr<uint32_t> TakeNumber(char sign, std::string_view* text) {
  const std::string_view start = SkipBlanks(text);
  const std::string wanted = fmt::format("a number such as {:c}3", sign);
  if (!TakeChar(text, sign)) return Expected(wanted, start);
  const auto number = TakeInteger(text);
  if (!number.ok() || *number < 0 || *number >= UINT32_MAX) {
    return ExpectedAt(start, wanted, text);
  }
  return static_cast<uint32_t>(*number);
}

// "_" or a number. TakeWord would also take the dot: "_.3" is a slot of no
// operation.
template <typename Id, char kSign>
absl::StatusOr<Id> TakeId(std::string_view* text) {
  const std::string_view next = SkipBlanks(text);
  if (next.starts_with('_') &&
      (next.size() == 1 || next[1] == '.' || !IsWordPart(next[1]))) {
    text->remove_prefix(1);
    return Id{UINT32_MAX};
  }
  NODEWISE_ASSIGN_OR_RETURN(const uint32_t number, TakeNumber(kSign, text));
  return Id{number};
}
constexpr auto* kTakeValueId = &TakeId<ValueId, '%'>;
constexpr auto* kTakeOperationId = &TakeId<OperationId, '#'>;

class NetworkReader {
 public:
  NetworkReader(std::string_view* text, const OpSet& ops, TextBudget* budget)
      : text_(*text), ops_(ops), budget_(*budget) {}

  // Stops after the network, or at the fault in it.
  absl::StatusOr<NetworkData> Read() {
    if (!TakeKeyword("network")) return Expected("network", text_);
    NODEWISE_ASSIGN_OR_RETURN(data_.name, TakeQuoted(&text_));
    NODEWISE_RETURN_IF_ERROR(ExpectChar('{'));
    data_.opsets.clear();
    while (!TakeChar(&text_, '}')) {
      NODEWISE_RETURN_IF_ERROR(ReadStatement());
      NODEWISE_RETURN_IF_ERROR(ExpectChar(';'));
    }
    if (!has_order_) data_.order = as_written_;
    FillUses();
    InferTypes();
    return std::move(data_);
  }

 private:
  bool TakeKeyword(std::string_view keyword) {
    const std::string_view start = SkipBlanks(&text_);
    if (TakeWord(&text_) == keyword) return true;
    text_ = start;
    return false;
  }

  absl::Status ExpectChar(char c) {
    if (TakeChar(&text_, c)) return absl::OkStatus();
    return Expected(std::string(1, c), text_);
  }

  absl::Status ReadStatement() {
    const std::string_view start = SkipBlanks(&text_);
    if (start.starts_with('#')) return ReadOperation();
    const std::string_view keyword = TakeWord(&text_);
    if (keyword == "opset") return ReadOpset();
    if (keyword == "input" || keyword == "constant" || keyword == "value") {
      return ReadValue(keyword);
    }
    if (keyword == "uses") return ReadUses();
    if (keyword == "numbers") return ReadNumbers();
    const bool is_empty = SkipBlanks(&text_).starts_with(';');
    if (keyword == "output") {
      NODEWISE_ASSIGN_OR_RETURN(data_.outputs, ReadValueIds());
    } else if (keyword == "inputs") {
      has_inputs_ = true;
      data_.inputs.clear();
      if (is_empty) return absl::OkStatus();
      NODEWISE_ASSIGN_OR_RETURN(data_.inputs, ReadValueIds());
    } else if (keyword == "order") {
      has_order_ = true;
      if (is_empty) return absl::OkStatus();
      NODEWISE_ASSIGN_OR_RETURN(
          const auto more, TakeItems<OperationId>(&text_, kTakeOperationId));
      data_.order.insert(data_.order.end(), more.begin(), more.end());
    } else {
      return ExpectedAt(start,
                        "opset, input, constant, an operation such as #0, "
                        "output, value, uses, inputs, order, numbers or }",
                        &text_);
    }
    return absl::OkStatus();
  }

  absl::Status ReadOpset() {
    NODEWISE_ASSIGN_OR_RETURN(std::string domain, TakeQuoted(&text_));
    const std::string_view start = SkipBlanks(&text_);
    NODEWISE_ASSIGN_OR_RETURN(const int64_t version, TakeInteger(&text_));
    if (version < INT32_MIN || version > INT32_MAX) {
      return ExpectedAt(start, "a version", &text_);
    }
    data_.opsets.emplace_back(std::move(domain), static_cast<int>(version));
    return absl::OkStatus();
  }

  // "input" and "constant" are what a valid network has; "value" says all that
  // a value may hold, for those of damaged ones.
  absl::Status ReadValue(std::string_view keyword) {
    const std::string_view start = SkipBlanks(&text_);
    NODEWISE_ASSIGN_OR_RETURN(const uint32_t id, TakeNumber('%', &text_));
    NetworkValue value;
    value.id = ValueId{id};
    if (keyword == "constant") {
      NODEWISE_RETURN_IF_ERROR(ReadConstant(&value));
    } else if (keyword == "value") {
      NODEWISE_RETURN_IF_ERROR(ReadAnyValue(&value));
    } else {
      NODEWISE_ASSIGN_OR_RETURN(const bool has_type, ReadNameAndType(&value));
      if (!has_type) return Expected(": and a type", text_);
      if (!has_inputs_) data_.inputs.push_back(value.id);
    }
    return Define(start, id, std::move(value));
  }

  absl::Status ReadConstant(NetworkValue* value) {
    value->kind = NetworkValue::Kind::kConstant;
    NODEWISE_ASSIGN_OR_RETURN(value->name, TakeQuoted(&text_));
    NODEWISE_RETURN_IF_ERROR(ExpectChar('='));
    const std::string_view start = SkipBlanks(&text_);
    NODEWISE_ASSIGN_OR_RETURN(value->data, TakeTensor(&text_));
    if (!value->data.defined()) return ExpectedAt(start, "data", &text_);
    value->type = TensorType::From(*value->data);
    value->elements = ElementsOf(value->data);
    return absl::OkStatus();
  }

  absl::Status ReadAnyValue(NetworkValue* value) {
    const std::string_view start = SkipBlanks(&text_);
    const std::string_view word = TakeWord(&text_);
    const auto* const kind = std::ranges::find_if(
        kKinds, [&](const auto& each) { return each.first == word; });
    if (kind == std::end(kKinds)) {
      return ExpectedAt(start, "input, constant, output or barrier", &text_);
    }
    value->kind = kind->second;
    NODEWISE_RETURN_IF_ERROR(ReadNameAndType(value).status());
    if (TakeChar(&text_, '=')) {
      NODEWISE_ASSIGN_OR_RETURN(value->data, TakeTensor(&text_));
    }
    NODEWISE_RETURN_IF_ERROR(ReadFoundAndElements(value));
    if (TakeKeyword("from")) {
      NODEWISE_ASSIGN_OR_RETURN(value->producer, kTakeOperationId(&text_));
      NODEWISE_ASSIGN_OR_RETURN(value->slot, TakeNumber('.', &text_));
    }
    if (TakeKeyword("id")) {
      NODEWISE_ASSIGN_OR_RETURN(value->id, kTakeValueId(&text_));
    }
    return absl::OkStatus();
  }

  absl::Status ReadUses() {
    NODEWISE_ASSIGN_OR_RETURN(const uint32_t id, TakeNumber('%', &text_));
    std::vector<Use> uses;
    while (!SkipBlanks(&text_).empty() && text_.front() != ';') {
      Use use;
      NODEWISE_ASSIGN_OR_RETURN(use.user, kTakeOperationId(&text_));
      const std::string_view start = text_;
      if (TakeChar(&text_, '.') && TakeKeyword("after")) {
        use.slot = kBarrierSlot;
      } else {
        text_ = start;
        NODEWISE_ASSIGN_OR_RETURN(use.slot, TakeNumber('.', &text_));
      }
      uses.push_back(use);
    }
    uses_.emplace_back(ValueId{id}, std::move(uses));
    return absl::OkStatus();
  }

  // A text may state the numbers that come next, since the last ones may be of
  // what was removed.
  absl::Status ReadNumbers() {
    const std::string_view start = text_;
    NODEWISE_ASSIGN_OR_RETURN(const uint32_t values, TakeNumber('%', &text_));
    NODEWISE_ASSIGN_OR_RETURN(const uint32_t operations,
                              TakeNumber('#', &text_));
    return MakeRoom(start, values, operations);
  }

  // The attributes are checked against the operator as soon as they are there,
  // and a fault in them is put at the operator's name: which of them is wrong
  // is in the message.
  absl::Status ReadOperation() {
    const std::string_view start = text_;
    NODEWISE_ASSIGN_OR_RETURN(const uint32_t number, TakeNumber('#', &text_));
    const OperationId id{number};
    Operation operation;
    operation.id = id;
    NODEWISE_ASSIGN_OR_RETURN(operation.name, TakeQuoted(&text_));
    NODEWISE_RETURN_IF_ERROR(ExpectChar('='));
    const std::string_view kind = SkipBlanks(&text_);
    NODEWISE_ASSIGN_OR_RETURN(const OperatorDef* def, ReadKind());
    NODEWISE_RETURN_IF_ERROR(ExpectChar('('));
    if (!TakeChar(&text_, ')')) {
      NODEWISE_ASSIGN_OR_RETURN(operation.inputs, ReadValueIds());
      NODEWISE_RETURN_IF_ERROR(ExpectChar(')'));
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedAttr> attrs, ReadAttrs());
    if (def != nullptr) {
      auto made = MakeAttrs(*def, attrs);
      if (!made.ok()) text_ = kind;
      NODEWISE_ASSIGN_OR_RETURN(operation.attrs, std::move(made));
    }
    NODEWISE_RETURN_IF_ERROR(ReadOutputsOf(id, &operation));
    NODEWISE_RETURN_IF_ERROR(ReadBarriersOf(id, &operation));
    if (TakeKeyword("id")) {
      NODEWISE_ASSIGN_OR_RETURN(operation.id, kTakeOperationId(&text_));
    }
    NODEWISE_RETURN_IF_ERROR(MakeRoom(start, 0, size_t{number} + 1));
    if (data_.operations[number].has_value()) {
      return ExpectedAt(start, "a number that no operation has yet", &text_);
    }
    data_.operations[number] = std::move(operation);
    as_written_.push_back(id);
    return absl::OkStatus();
  }

  // Null for "none", an operation without an operator.
  absl::StatusOr<const OperatorDef*> ReadKind() {
    if (TakeKeyword("none")) return nullptr;
    const std::string_view start = text_;
    NODEWISE_ASSIGN_OR_RETURN(const std::string name, TakeName(&text_));
    NODEWISE_RETURN_IF_ERROR(ExpectChar('@'));
    NODEWISE_ASSIGN_OR_RETURN(const int64_t version, TakeInteger(&text_));
    std::string domain;
    if (TakeKeyword("of")) {
      NODEWISE_ASSIGN_OR_RETURN(domain, TakeQuoted(&text_));
    }
    const OperatorDef* const def =
        version < 1 || version > INT32_MAX
            ? nullptr
            : ops_.Find(domain, name, static_cast<int>(version));
    if (def != nullptr) return def;
    text_ = start;
    return Invalid("there is no operator {}@{} of domain \"{}\"{}",
                   Shortened(name), version, Shortened(domain),
                   DidYouMean(name, ops_.Names()));
  }

  absl::StatusOr<std::vector<NamedAttr>> ReadAttrs() {
    if (!TakeChar(&text_, '{') || TakeChar(&text_, '}')) {
      return std::vector<NamedAttr>();
    }
    const auto take = [&](std::string_view*) -> absl::StatusOr<NamedAttr> {
      NamedAttr attr;
      NODEWISE_ASSIGN_OR_RETURN(attr.name, TakeName(&text_));
      NODEWISE_RETURN_IF_ERROR(ExpectChar(':'));
      NODEWISE_ASSIGN_OR_RETURN(attr.value, ReadAttrValue());
      return attr;
    };
    NODEWISE_ASSIGN_OR_RETURN(auto attrs, TakeItems<NamedAttr>(&text_, take));
    NODEWISE_RETURN_IF_ERROR(ExpectChar('}'));
    return attrs;
  }

  absl::StatusOr<AttrValue> ReadAttrValue() {
    const std::string_view start = SkipBlanks(&text_);
    const std::string_view kind = TakeWord(&text_);
    if (kind == "int") return TakeInteger(&text_);
    if (kind == "float") return TakeFloat(&text_);
    if (kind == "string") return TakeQuoted(&text_);
    if (kind == "ints") return TakeList<int64_t>(&text_, &TakeInteger);
    if (kind == "floats") return TakeList<float>(&text_, &TakeFloat);
    if (kind == "strings") return TakeList<std::string>(&text_, &TakeQuoted);
    if (kind == "tensor") return TakeTensor(&text_);
    if (kind == "graph") return ReadGraph();
    return ExpectedAt(
        start, "int, float, string, ints, floats, strings, tensor or graph",
        &text_);
  }

  // A body that is not valid is kept all the same, so that Verify() can say
  // why. It must not be shown to operators, which follow links.
  absl::StatusOr<AttrValue> ReadGraph() {
    const std::string_view start = SkipBlanks(&text_);
    NODEWISE_ASSIGN_OR_RETURN(const int64_t captures, TakeInteger(&text_));
    if (captures < 0 || captures >= UINT32_MAX) {
      return ExpectedAt(start, "a number of captured values", &text_);
    }
    Subgraph graph;
    graph.captures = static_cast<uint32_t>(captures);
    if (TakeKeyword("none")) return graph;
    if (budget_.depth >= kMostDepth) {
      return Expected("bodies that are not nested as deep", text_);
    }
    ++budget_.depth;
    NODEWISE_ASSIGN_OR_RETURN(NetworkData data,
                              NetworkReader(&text_, ops_, &budget_).Read());
    --budget_.depth;
    auto valid = Network::FromData(data);
    if (valid.ok()) {
      graph.body = ShareNetwork(*std::move(valid));
    } else {
      graph.body = NetworkEditor::Unverified(std::move(data));
      budget_.damaged.insert(graph.body.get());
    }
    return graph;
  }

  absl::Status ReadOutputsOf(OperationId id, Operation* operation) {
    if (!TakeChar(&text_, '-') || !TakeChar(&text_, '>')) {
      return Expected("-> and the outputs", text_);
    }
    if (TakeKeyword("none")) return absl::OkStatus();
    do {
      NODEWISE_RETURN_IF_ERROR(ReadOutput(id, operation));
    } while (TakeChar(&text_, ','));
    return absl::OkStatus();
  }

  // A number with a name is a value that is made here; without, one that is
  // written elsewhere.
  absl::Status ReadOutput(OperationId id, Operation* operation) {
    const std::string_view start = SkipBlanks(&text_);
    NODEWISE_ASSIGN_OR_RETURN(const ValueId output, kTakeValueId(&text_));
    NetworkValue value{
        .id = output,
        .kind = NetworkValue::Kind::kOutput,
        .producer = id,
        .slot = static_cast<uint32_t>(operation->outputs.size())};
    operation->outputs.push_back(output);
    if (!SkipBlanks(&text_).starts_with('"') || output == kNoValue) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const bool has_type, ReadNameAndType(&value));
    if (has_type) {
      NODEWISE_RETURN_IF_ERROR(ReadFoundAndElements(&value));
    }
    NODEWISE_RETURN_IF_ERROR(Define(start, Index(output), std::move(value)));
    if (!has_type) untyped_.push_back(output);
    return absl::OkStatus();
  }

  // "barrier ref %3" names a value that is written elsewhere.
  absl::Status ReadBarriersOf(OperationId id, Operation* operation) {
    if (!TakeKeyword("barrier")) return Expected("barrier", text_);
    const bool is_reference = TakeKeyword("ref");
    const std::string_view start = SkipBlanks(&text_);
    NODEWISE_ASSIGN_OR_RETURN(operation->barrier, kTakeValueId(&text_));
    if (!is_reference && operation->barrier != kNoValue) {
      NODEWISE_RETURN_IF_ERROR(Define(start, Index(operation->barrier),
                                      {.id = operation->barrier,
                                       .kind = NetworkValue::Kind::kBarrier,
                                       .producer = id}));
    }
    if (!TakeKeyword("after")) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(operation->after, ReadValueIds());
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<ValueId>> ReadValueIds() {
    return TakeItems<ValueId>(&text_, kTakeValueId);
  }

  absl::Status ReadFoundAndElements(NetworkValue* value) {
    if (TakeKeyword("found")) {
      NODEWISE_ASSIGN_OR_RETURN(value->found, TakeTensorType(&text_));
    }
    if (!TakeKeyword("elements")) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(value->elements, TakeShape(&text_));
    return absl::OkStatus();
  }

  // Reads "name: type"; returns false if the type is missing.
  absl::StatusOr<bool> ReadNameAndType(NetworkValue* value) {
    NODEWISE_ASSIGN_OR_RETURN(value->name, TakeQuoted(&text_));
    if (!TakeChar(&text_, ':')) return false;
    NODEWISE_ASSIGN_OR_RETURN(value->type, TakeTensorType(&text_));
    return true;
  }

  // Makes at least this many numbers for values and operations.
  // Numbers that are skipped count like those that are given: "%4000000000"
  // alone would else ask for gigabytes.
  absl::Status MakeRoom(std::string_view start, size_t values,
                        size_t operations) {
    values = std::max(values, data_.values.size());
    operations = std::max(operations, data_.operations.size());
    const size_t more =
        values - data_.values.size() + operations - data_.operations.size();
    if (more > budget_.numbers_left) {
      return ExpectedAt(start, "numbers that are not that far apart", &text_);
    }
    budget_.numbers_left -= more;
    data_.values.resize(values);
    data_.operations.resize(operations);
    return absl::OkStatus();
  }

  absl::Status Define(std::string_view start, uint32_t id, NetworkValue value) {
    NODEWISE_RETURN_IF_ERROR(MakeRoom(start, size_t{id} + 1, 0));
    if (data_.values[id].has_value()) {
      return ExpectedAt(start, "a number that no value has yet", &text_);
    }
    data_.values[id] = std::move(value);
    return absl::OkStatus();
  }

  // A "uses" statement stands for the whole list of that value: it is there
  // only where the list is not what follows from the inputs.
  void FillUses() {
    for (const OperationId id : as_written_) {
      ForEachUse(*Find(data_, id), [&](ValueId value, uint32_t slot) {
        if (Find(data_, value) == nullptr) return;
        data_.values[Index(value)]->uses.push_back({id, slot});
      });
    }
    for (auto& [id, uses] : uses_) {
      if (Find(data_, id) == nullptr) continue;
      data_.values[Index(id)]->uses = std::move(uses);
    }
  }

  // A type that cannot be inferred stays unknown, for Verify() to complain
  // about.
  void InferTypes() {
    std::vector<bool> is_untyped(data_.values.size(), false);
    for (const ValueId id : untyped_) is_untyped[Index(id)] = true;
    for (const OperationId id : as_written_) {
      const Operation& operation = *Find(data_, id);
      if (!operation.attrs.defined() ||
          !IsAnyMarked(operation.outputs, is_untyped) ||
          HasBodyAmong(operation.attrs, budget_.damaged)) {
        continue;
      }
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

  std::string_view& text_;
  const OpSet& ops_;
  TextBudget& budget_;
  NetworkData data_;
  std::vector<OperationId> as_written_;
  bool has_order_ = false;
  bool has_inputs_ = false;
  std::vector<ValueId> untyped_;
  std::vector<std::pair<ValueId, std::vector<Use>>> uses_;
};

// Takes the statement before the outermost network; version 1 had none.
absl::Status TakeVersion(std::string_view* text) {
  const std::string_view first = SkipBlanks(text);
  if (TakeWord(text) != "version") {
    *text = first;
    return absl::OkStatus();
  }
  const std::string_view start = SkipBlanks(text);
  const auto version = TakeInteger(text);
  if (!version.ok() || *version < 1 || *version > kNetworkTextVersion) {
    return ExpectedAt(
        start, fmt::format("a version from 1 to {}", kNetworkTextVersion),
        text);
  }
  return TakeChar(text, ';') ? absl::OkStatus() : Expected(";", *text);
}

absl::StatusOr<NetworkData> ReadWhole(std::string_view* rest, const OpSet& ops,
                                      TextBudget* budget) {
  NODEWISE_RETURN_IF_ERROR(TakeVersion(rest));
  NetworkReader reader(rest, ops, budget);
  NODEWISE_ASSIGN_OR_RETURN(NetworkData data, reader.Read());
  if (SkipBlanks(rest).empty()) return data;
  return Expected("the end, behind the network", *rest);
}

}  // namespace

bool LooksLikeNetworkText(std::string_view text) {
  const std::string_view word = TakeWord(&text);
  if (SkipBlanks(&text).empty()) return false;
  return word == "network"   ? text[0] == '"'
         : word == "version" ? text[0] >= '0' && text[0] <= '9'
                             : false;
}

absl::StatusOr<NetworkData> ParseNetworkText(std::string_view text,
                                             const OpSet& ops,
                                             const std::string& where) {
  std::string_view rest = text;
  TextBudget budget;
  budget.numbers_left = kMostGaps + text.size() / kFewestBytesOfItem;
  auto data = ReadWhole(&rest, ops, &budget);
  if (data.ok()) return data;
  // The reader stops at the fault, so that what is left says where it is.
  SkipBlanks(&rest);
  const std::string_view before = text.substr(0, text.size() - rest.size());
  const auto line = 1 + std::ranges::count(before, '\n');
  // npos + 1 is 0: the first line.
  const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  return DataLoss("{}:{}:{}: {}", where, line, column,
                  MessageOf(data.status()));
}

}  // namespace nodewise
