#include <algorithm>

#include "contrib/ir/places.h"
#include "contrib/ir/type_text.h"
#include "fmt/format.h"
#include "nodewise/ir/network_text.h"

namespace nodewise {
namespace {

constexpr const char* kKindNames[] = {"input", "constant", "output", "barrier"};

std::string IdText(ValueId id) {
  return id == kNoValue ? "_" : fmt::format("%{}", Index(id));
}
std::string IdText(OperationId id) {
  return id == kNoOperation ? "_" : fmt::format("#{}", Index(id));
}

template <typename T, typename ToText>
std::string Items(const std::vector<T>& items, ToText to_text) {
  std::string text;
  for (const T& item : items) {
    text += (text.empty() ? "" : ", ") + to_text(item);
  }
  return text;
}

template <typename Id>
std::string IdList(const std::vector<Id>& ids) {
  return Items(ids, [](Id id) { return IdText(id); });
}

std::string UseText(const Use& use) {
  return IdText(use.user) + (use.slot == kBarrierSlot
                                 ? std::string(".after")
                                 : fmt::format(".{}", use.slot));
}

// Uses have no order that means anything; sorted ones can be compared.
std::vector<Use> Sorted(std::vector<Use> uses) {
  std::ranges::sort(uses, [](const Use& a, const Use& b) {
    return a.user != b.user ? a.user < b.user : a.slot < b.slot;
  });
  return uses;
}

// Behind a type stand the one that a run found, and known elements.
std::string FoundTypeText(const NetworkValue& value) {
  std::string text;
  if (value.found.has_value()) text += " found " + ToString(*value.found);
  if (value.elements.has_value()) {
    text += " elements " + ToString(*value.elements);
  }
  return text;
}

// Writes one network. What follows from the rest, as it does in a valid
// network, is left out; everything else is written, so that the text has all
// that the data has.
class Printer {
 public:
  Printer(const NetworkData& data, const TextOptions& options, int depth)
      : data_(data),
        options_(options),
        indent_(static_cast<size_t>(depth) * 2, ' '),
        depth_(depth),
        is_written_(data.values.size(), false) {}

  std::string Run() {
    text_ = "network " + Quoted(data_.name) + " {\n";
    for (const auto& [domain, version] : data_.opsets) {
      Line(fmt::format("opset {} {}", Quoted(domain), version));
    }
    PrintInputs();
    PrintConstants();
    PrintOperations();
    if (!data_.outputs.empty()) {
      Line("output " + IdList(data_.outputs));
    }
    PrintRest();
    return text_ + indent_ + "}";
  }

 private:
  void Line(const std::string& statement) {
    text_ += indent_ + "  " + statement + ";\n";
  }

  static bool IsPlain(const NetworkValue& value, ValueId id) {
    return value.id == id && value.producer == kNoOperation && value.slot == 0;
  }

  // Inputs are written in the order of the list of inputs. Where that list does
  // not have each of them once, they are written by number, and so is the list
  // itself.
  void PrintInputs() {
    std::vector<ValueId> of_kind;
    bool is_right = true;
    ForEachValue(data_, [&](ValueId id, const NetworkValue& value) {
      if (value.kind != NetworkValue::Kind::kInput) return;
      of_kind.push_back(id);
      is_right = is_right && IsPlainInput(id);
    });
    std::vector<ValueId> listed = data_.inputs;
    std::ranges::sort(listed);
    is_right = is_right && listed == of_kind;
    for (const ValueId id : is_right ? data_.inputs : of_kind) {
      if (!IsPlainInput(id)) continue;
      const NetworkValue& value = *Find(data_, id);
      Line(fmt::format("input {} {}: {}", IdText(id), Quoted(value.name),
                       ToString(value.type)));
      is_written_[Index(id)] = true;
    }
    if (!is_right) Line("inputs " + IdList(data_.inputs));
  }

  bool IsPlainInput(ValueId id) const {
    const NetworkValue& value = *Find(data_, id);
    return IsPlain(value, id) && !value.data.defined() &&
           !value.elements.has_value();
  }

  // A constant whose type or elements are not those of its data is written with
  // the rest, as a value with all its fields.
  void PrintConstants() {
    ForEachValue(data_, [&](ValueId id, const NetworkValue& value) {
      if (value.kind != NetworkValue::Kind::kConstant || !IsPlain(value, id) ||
          !value.data.defined() ||
          !(TensorType::From(*value.data) == value.type) ||
          value.elements != ElementsOf(value.data)) {
        return;
      }
      Line(fmt::format("constant {} {} = {}", IdText(id), Quoted(value.name),
                       TensorText(value.data, options_.max_elements)));
      is_written_[Index(id)] = true;
    });
  }

  // Operations are written in the order in which they run. Only an order that
  // does not list each of them once gets a statement of its own.
  void PrintOperations() {
    std::vector<OperationId> all;
    ForEachOperation(
        data_, [&](OperationId id, const Operation&) { all.push_back(id); });
    std::vector<OperationId> listed = data_.order;
    std::ranges::sort(listed);
    const bool is_right = listed == all;
    for (const OperationId id : is_right ? data_.order : all) {
      Line(OperationText(id, *Find(data_, id)));
    }
    if (!is_right) Line("order " + IdList(data_.order));
  }

  // An operation whose number is not that of its place says so behind the
  // rest.
  std::string OperationText(OperationId id, const Operation& operation) {
    std::string text = fmt::format(
        "{} {} = {}({}){} -> {} barrier {}", IdText(id), Quoted(operation.name),
        KindText(operation), IdList(operation.inputs), AttrsText(operation),
        OutputsText(id, operation), BarrierText(id, operation));
    if (!operation.after.empty()) {
      text += " after " + IdList(operation.after);
    }
    if (operation.id != id) text += " id " + IdText(operation.id);
    return text;
  }

  static std::string NameText(std::string_view name) {
    return IsWord(name) ? std::string(name) : Quoted(name);
  }

  static std::string KindText(const Operation& operation) {
    if (!operation.attrs.defined()) return "none";
    const OperatorDef& def = operation.def();
    // An operator that is called so must not look like a missing one.
    const std::string name =
        def.name == "none" ? Quoted(def.name) : NameText(def.name);
    std::string text = fmt::format("{}@{}", name, def.since);
    if (!def.domain.empty()) text += " of " + Quoted(def.domain);
    return text;
  }

  std::string AttrsText(const Operation& operation) const {
    if (!operation.attrs.defined()) return "";
    const auto to_text = [this](const NamedAttr& attr) {
      return NameText(attr.name) + ": " +
             std::visit(
                 [this](const auto& value) { return this->AttrText(value); },
                 attr.value);
    };
    const std::string text = Items(NamedAttrsOf(operation.attrs), to_text);
    return text.empty() ? "" : " {" + text + "}";
  }

  static std::string AttrText(int64_t number) {
    return fmt::format("int {}", number);
  }
  static std::string AttrText(float number) {
    return "float " + FloatText(number);
  }
  static std::string AttrText(const std::string& text) {
    return "string " + Quoted(text);
  }
  static std::string AttrText(const std::vector<int64_t>& list) {
    return fmt::format(
        "ints [{}]", Items(list, [](int64_t n) { return std::to_string(n); }));
  }
  static std::string AttrText(const std::vector<float>& list) {
    return fmt::format("floats [{}]", Items(list, &FloatText));
  }
  static std::string AttrText(const std::vector<std::string>& list) {
    return fmt::format("strings [{}]", Items(list, &Quoted));
  }
  std::string AttrText(const NDArray& tensor) const {
    return "tensor " + TensorText(tensor, options_.max_elements);
  }
  std::string AttrText(const Subgraph& graph) const {
    const std::string start = fmt::format("graph {} ", graph.captures);
    if (graph.body == nullptr) return start + "none";
    return start + Printer(graph.body->data(), options_, depth_ + 2).Run();
  }

  // A value is written where it is made, with name and type, if all that it
  // holds follows from that place; else its number alone stands here, and the
  // rest of it in a statement of its own.
  std::string OutputsText(OperationId id, const Operation& operation) {
    std::string text;
    for (uint32_t slot = 0; slot < operation.outputs.size(); ++slot) {
      const ValueId output = operation.outputs[slot];
      text += (slot == 0 ? "" : ", ") + IdText(output);
      const NetworkValue* const value = Find(data_, output);
      if (value == nullptr || is_written_[Index(output)] ||
          value->kind != NetworkValue::Kind::kOutput || value->id != output ||
          value->producer != id || value->slot != slot ||
          value->data.defined()) {
        continue;
      }
      is_written_[Index(output)] = true;
      text += fmt::format(" {}: {}{}", Quoted(value->name),
                          ToString(value->type), FoundTypeText(*value));
    }
    return text.empty() ? "none" : text;
  }

  // "barrier ref %3" is the number alone, of a value that is written elsewhere.
  std::string BarrierText(OperationId id, const Operation& operation) {
    const NetworkValue* const value = Find(data_, operation.barrier);
    const bool is_right =
        value != nullptr && !is_written_[Index(operation.barrier)] &&
        value->kind == NetworkValue::Kind::kBarrier &&
        value->id == operation.barrier && value->producer == id &&
        value->slot == 0 && value->name.empty() &&
        value->type == TensorType() && !value->data.defined() &&
        !value->elements.has_value();
    if (is_right) is_written_[Index(operation.barrier)] = true;
    return (is_right ? "" : "ref ") + IdText(operation.barrier);
  }

  void PrintRest() {
    ForEachValue(data_, [&](ValueId id, const NetworkValue& value) {
      if (!is_written_[Index(id)]) Line(ValueText(id, value));
    });
    PrintUses();
    const size_t values = data_.values.size();
    const size_t operations = data_.operations.size();
    // A network that is read back must not give numbers of removed items again.
    if ((values > 0 && !data_.values.back().has_value()) ||
        (operations > 0 && !data_.operations.back().has_value())) {
      Line(fmt::format("numbers %{} #{}", values, operations));
    }
  }

  std::string ValueText(ValueId id, const NetworkValue& value) const {
    std::string text = fmt::format("value {} {} {}: {}", IdText(id),
                                   kKindNames[static_cast<size_t>(value.kind)],
                                   Quoted(value.name), ToString(value.type));
    if (value.data.defined()) {
      text += " = " + TensorText(value.data, options_.max_elements);
    }
    text += FoundTypeText(value);
    if (value.producer != kNoOperation || value.slot != 0) {
      text += fmt::format(" from {}.{}", IdText(value.producer), value.slot);
    }
    if (value.id != id) text += " id " + IdText(value.id);
    return text;
  }

  // In a valid network the uses follow from what the operations read.
  void PrintUses() {
    std::vector<std::vector<Use>> expected(data_.values.size());
    ForEachOperation(data_, [&](OperationId id, const Operation& operation) {
      ForEachUse(operation, [&](ValueId value, uint32_t slot) {
        if (Find(data_, value) == nullptr) return;
        expected[Index(value)].push_back({id, slot});
      });
    });
    ForEachValue(data_, [&](ValueId id, const NetworkValue& value) {
      const std::vector<Use> uses = Sorted(value.uses);
      if (uses == Sorted(std::move(expected[Index(id)]))) return;
      std::string text = "uses " + IdText(id);
      for (const Use& use : uses) text += " " + UseText(use);
      Line(text);
    });
  }

  const NetworkData& data_;
  const TextOptions& options_;
  const std::string indent_;
  const int depth_;
  std::vector<bool> is_written_;  // By value.
  std::string text_;
};

}  // namespace

std::string NetworkToText(const NetworkData& data, const TextOptions& options) {
  return fmt::format("version {};\n{}\n", kNetworkTextVersion,
                     Printer(data, options, 0).Run());
}

}  // namespace nodewise
