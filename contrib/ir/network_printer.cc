#include <algorithm>

#include "contrib/ir/places.h"
#include "contrib/ir/tensor_text.h"
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

template <typename Id>
std::string IdList(absl::Span<const Id> ids) {
  std::string text;
  for (const Id id : ids) text += (text.empty() ? "" : ", ") + IdText(id);
  return text;
}

template <typename T, typename ToText>
std::string List(const std::vector<T>& items, ToText to_text) {
  std::string text;
  for (const T& item : items) {
    text += (text.empty() ? "" : ", ") + to_text(item);
  }
  return "[" + text + "]";
}

std::string UseText(const Use& use) {
  return IdText(use.user) + (use.slot == kBarrierSlot
                                 ? std::string(".after")
                                 : fmt::format(".{}", use.slot));
}

bool LessUse(const Use& a, const Use& b) {
  return a.user != b.user ? a.user < b.user : a.slot < b.slot;
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
      Line("output " + IdList<ValueId>(data_.outputs));
    }
    PrintRest();
    return text_ + indent_ + "}";
  }

 private:
  void Line(const std::string& statement) {
    text_ += indent_ + "  " + statement + ";\n";
  }

  bool IsPlain(const NetworkValue& value, uint32_t id) const {
    return Index(value.id) == id && value.producer == kNoOperation &&
           value.slot == 0;
  }

  void PrintInputs() {
    std::vector<ValueId> of_kind;
    for (uint32_t id = 0; id < data_.values.size(); ++id) {
      const auto& value = data_.values[id];
      if (value.has_value() && value->kind == NetworkValue::Kind::kInput) {
        of_kind.push_back(ValueId{id});
      }
    }
    std::vector<ValueId> listed = data_.inputs;
    std::sort(listed.begin(), listed.end());
    const bool is_right =
        listed == of_kind &&
        std::all_of(of_kind.begin(), of_kind.end(),
                    [&](ValueId id) { return IsPlainInput(id); });
    for (const ValueId id : is_right ? data_.inputs : of_kind) {
      if (!IsPlainInput(id)) continue;
      const NetworkValue& value = *data_.values[Index(id)];
      Line(fmt::format("input {} {}: {}", IdText(id), Quoted(value.name),
                       ToString(value.type)));
      is_written_[Index(id)] = true;
    }
    if (!is_right) Line("inputs " + IdList<ValueId>(data_.inputs));
  }

  bool IsPlainInput(ValueId id) const {
    const NetworkValue& value = *data_.values[Index(id)];
    return IsPlain(value, Index(id)) && !value.data.defined() &&
           !value.elements.has_value();
  }

  void PrintConstants() {
    for (uint32_t id = 0; id < data_.values.size(); ++id) {
      const auto& value = data_.values[id];
      if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant ||
          !IsPlain(*value, id) || !value->data.defined() ||
          !(TensorType::Of(*value->data) == value->type) ||
          value->elements != ElementsOf(value->data)) {
        continue;
      }
      Line(fmt::format("constant {} {} = {}", IdText(ValueId{id}),
                       Quoted(value->name),
                       TensorText(value->data, options_.max_elements)));
      is_written_[id] = true;
    }
  }

  void PrintOperations() {
    std::vector<OperationId> all;
    for (uint32_t id = 0; id < data_.operations.size(); ++id) {
      if (data_.operations[id].has_value()) all.push_back(OperationId{id});
    }
    std::vector<OperationId> listed = data_.order;
    std::sort(listed.begin(), listed.end());
    const bool is_right = listed == all;
    for (const OperationId id : is_right ? data_.order : all) {
      Line(OperationText(id, *data_.operations[Index(id)]));
    }
    if (!is_right) Line("order " + IdList<OperationId>(data_.order));
  }

  std::string OperationText(OperationId id, const Operation& operation) {
    std::string text =
        fmt::format("{} {} = {}({}){} -> {} barrier {}", IdText(id),
                    Quoted(operation.name), KindText(operation),
                    IdList<ValueId>(operation.inputs), AttrsText(operation),
                    OutputsText(id, operation), BarrierText(id, operation));
    if (!operation.after.empty()) {
      text += " after " + IdList<ValueId>(operation.after);
    }
    if (operation.id != id) text += " id " + IdText(operation.id);
    return text;
  }

  std::string KindText(const Operation& operation) const {
    if (!operation.attrs.defined()) return "none";
    const OperatorDef& def = operation.def();
    const std::string name = IsWord(def.name) && def.name != "none"
                                 ? std::string(def.name)
                                 : Quoted(def.name);
    std::string text = fmt::format("{}@{}", name, def.since);
    if (!def.domain.empty()) text += " of " + Quoted(def.domain);
    return text;
  }

  std::string AttrsText(const Operation& operation) const {
    if (!operation.attrs.defined()) return "";
    std::string text;
    for (const NamedAttr& attr : NamedAttrsOf(operation.attrs)) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ",
                          IsWord(attr.name) ? attr.name : Quoted(attr.name),
                          AttrText(attr.value));
    }
    return text.empty() ? "" : " {" + text + "}";
  }

  std::string AttrText(const AttrValue& value) const {
    const auto number = [](int64_t n) { return std::to_string(n); };
    struct Texts {
      const Printer* printer;
      decltype(number) number_text;
      std::string operator()(int64_t n) const {
        return "int " + number_text(n);
      }
      std::string operator()(float n) const { return "float " + FloatText(n); }
      std::string operator()(const std::string& s) const {
        return "string " + Quoted(s);
      }
      std::string operator()(const std::vector<int64_t>& list) const {
        return "ints " + List(list, number_text);
      }
      std::string operator()(const std::vector<float>& list) const {
        return "floats " + List(list, &FloatText);
      }
      std::string operator()(const std::vector<std::string>& list) const {
        return "strings " +
               List(list, [](const std::string& s) { return Quoted(s); });
      }
      std::string operator()(const NDArray& tensor) const {
        return "tensor " + TensorText(tensor, printer->options_.max_elements);
      }
      std::string operator()(const Subgraph& graph) const {
        return printer->GraphText(graph);
      }
    };
    return std::visit(Texts{this, number}, value);
  }

  std::string GraphText(const Subgraph& graph) const {
    const std::string start = fmt::format("graph {} ", graph.captures);
    if (graph.body == nullptr) return start + "none";
    return start + Printer(graph.body->data(), options_, depth_ + 2).Run();
  }

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
      text +=
          fmt::format(" {}: {}", Quoted(value->name), ToString(value->type));
      if (value->found.has_value()) {
        text += " found " + ToString(*value->found);
      }
      if (value->elements.has_value()) {
        text += " elements " + ToString(*value->elements);
      }
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

  // Prints what does not follow from the rest.
  void PrintRest() {
    for (uint32_t id = 0; id < data_.values.size(); ++id) {
      const auto& value = data_.values[id];
      if (value.has_value() && !is_written_[id]) {
        Line(ValueText(id, *value));
      }
    }
    PrintUses();
    const size_t values = data_.values.size();
    const size_t operations = data_.operations.size();
    if ((values > 0 && !data_.values.back().has_value()) ||
        (operations > 0 && !data_.operations.back().has_value())) {
      Line(fmt::format("numbers %{} #{}", values, operations));
    }
  }

  std::string ValueText(uint32_t id, const NetworkValue& value) const {
    std::string text = fmt::format("value {} {} {}: {}", IdText(ValueId{id}),
                                   kKindNames[static_cast<size_t>(value.kind)],
                                   Quoted(value.name), ToString(value.type));
    if (value.data.defined()) {
      text += " = " + TensorText(value.data, options_.max_elements);
    }
    if (value.found.has_value()) text += " found " + ToString(*value.found);
    if (value.elements.has_value()) {
      text += " elements " + ToString(*value.elements);
    }
    if (value.producer != kNoOperation || value.slot != 0) {
      text += fmt::format(" from {}.{}", IdText(value.producer), value.slot);
    }
    if (Index(value.id) != id) text += " id " + IdText(value.id);
    return text;
  }

  void PrintUses() {
    std::vector<std::vector<Use>> expected(data_.values.size());
    for (uint32_t id = 0; id < data_.operations.size(); ++id) {
      if (!data_.operations[id].has_value()) continue;
      const Operation& operation = *data_.operations[id];
      const auto add = [&](ValueId value, uint32_t slot) {
        if (Find(data_, value) == nullptr) return;
        expected[Index(value)].push_back({OperationId{id}, slot});
      };
      for (uint32_t slot = 0; slot < operation.inputs.size(); ++slot) {
        add(operation.inputs[slot], slot);
      }
      for (const ValueId barrier : operation.after) add(barrier, kBarrierSlot);
    }
    for (uint32_t id = 0; id < data_.values.size(); ++id) {
      if (!data_.values[id].has_value()) continue;
      std::vector<Use> uses = data_.values[id]->uses;
      std::sort(uses.begin(), uses.end(), &LessUse);
      std::sort(expected[id].begin(), expected[id].end(), &LessUse);
      if (uses == expected[id]) continue;
      std::string text = "uses " + IdText(ValueId{id});
      for (const Use& use : uses) text += " " + UseText(use);
      Line(text);
    }
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
