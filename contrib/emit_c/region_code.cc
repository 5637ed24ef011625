#include "contrib/emit_c/region_code.h"

#include <map>
#include <set>
#include <utility>

#include "contrib/emit_c/element_group.h"
#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

class RegionWriter {
 public:
  RegionWriter(const Region& region, std::vector<Refusal>* refusals)
      : region_(region),
        network_(region.network),
        refusals_(refusals),
        code_(1) {
    store_.code = &code_;
  }

  RegionCode Write() {
    for (const ValueId id : network_.inputs()) {
      const NetworkValue& value = network_.value(id);
      AddTensor(id, fmt::format("in{}", made_.inputs.size()), value.type,
                &made_.inputs);
    }
    for (size_t i = 0; i < network_.outputs().size(); ++i) {
      AddTensor(network_.outputs()[i], fmt::format("out{}", i),
                region_.outputs[i], &made_.outputs);
    }
    for (const OperationId id : network_.order()) {
      const Operation& operation = network_.operation(id);
      if (!ReadsRefused(operation)) {
        const absl::Status status = Add(operation);
        if (status.ok()) continue;
        AddRefusal(operation, status);
      }
      refused_.insert(operation.outputs.begin(), operation.outputs.end());
    }
    Flush();
    made_.body = WithDefinitions(code_.Take());
    made_.scratch_bytes = store_.scratch_bytes;
    return std::move(made_);
  }

 private:
  void AddTensor(ValueId id, std::string name, const TensorType& type,
                 std::vector<CTensor>* list) {
    const auto sizes = type.sizes();
    list->push_back({std::move(name), type.dtype, sizes.value_or(Sizes())});
    if (!sizes.has_value() || CTypeOf(type.dtype).empty()) {
      untyped_.insert(id);
    }
    tensors_.emplace(id, list->back());
  }

  // Many constants only say what the code is to be like, and are not read.
  std::string WithDefinitions(const std::string& code) const {
    CodeWriter definitions(1);
    for (const auto& [name, line] : store_.definitions) {
      if (HasWord(code, name)) definitions.Line(line);
    }
    return definitions.Take() + code;
  }

  // Only what is refused for itself is worth a message.
  bool ReadsRefused(const Operation& operation) const {
    for (const ValueId id : operation.inputs) {
      if (id != kNoValue && refused_.contains(id)) return true;
    }
    return false;
  }

  void AddRefusal(const Operation& operation, const absl::Status& status) {
    refusals_->push_back({operation.name, std::string(operation.kind()),
                          std::string(MessageOf(status))});
  }

  absl::Status Add(const Operation& operation) {
    const Row* const row = FindRow(operation.def().type);
    if (row == nullptr) return Refuse("there is no C for this operator");
    NODEWISE_RETURN_IF_ERROR(MakeTensors(operation, row->is_by_element()));
    if (row->is_by_element()) return AddToGroup(operation, *row);
    if (MakesNothing(operation)) return absl::OkStatus();
    Flush();
    code_.Line(fmt::format("/* {} */", row->name));
    OperationCode code(network_, operation, TensorsOf(operation.inputs),
                       TensorsOf(operation.outputs), &store_);
    NODEWISE_RETURN_IF_ERROR(row->write(code));
    if (store_.scratch_bytes < RegionStore::kTooMuch) return absl::OkStatus();
    return Refuse("it needs more memory of its own than there can be");
  }

  // Every value that the code reads or writes has a tensor with a name, but for
  // those that exist only one element at a time.
  absl::Status MakeTensors(const Operation& operation, bool is_by_element) {
    for (const ValueId id : operation.inputs) {
      if (id == kNoValue) continue;
      if (untyped_.contains(id)) return RefuseType(id);
      if (!tensors_.contains(id)) NODEWISE_RETURN_IF_ERROR(MakeTable(id));
    }
    for (const ValueId id : operation.outputs) {
      if (id == kNoValue || tensors_.contains(id)) continue;
      const TensorType& type = network_.value(id).type;
      if (!type.is_static() || CTypeOf(type.dtype).empty()) {
        untyped_.insert(id);
        return RefuseType(id);
      }
      CTensor tensor{"", type.dtype, *type.sizes()};
      if (!is_by_element) {
        tensor.name = store_.Scratch(tensor.type(), tensor.count());
      }
      tensors_.emplace(id, std::move(tensor));
    }
    for (const ValueId id : operation.outputs) {
      if (id != kNoValue && untyped_.contains(id)) return RefuseType(id);
    }
    return absl::OkStatus();
  }

  // Code that fills no element would have variables that nothing reads.
  bool MakesNothing(const Operation& operation) const {
    for (const ValueId id : operation.outputs) {
      if (id != kNoValue && tensors_.at(id).count() > 0) return false;
    }
    return true;
  }

  absl::Status RefuseType(ValueId id) const {
    return Refuse(fmt::format(
        "{}: is {}, expected bool, or an integer or a "
        "float of 32 or 64 bits, with all its sizes",
        network_.value(id).name, ToString(network_.value(id).type)));
  }

  // A constant of the region becomes a table, if any code reads it.
  absl::Status MakeTable(ValueId id) {
    const NetworkValue& value = network_.value(id);
    if (value.kind != NetworkValue::Kind::kConstant ||
        CTypeOf(value.type.dtype).empty()) {
      return RefuseType(id);
    }
    CTensor tensor{"", value.type.dtype, *value.type.sizes()};
    tensor.name = store_.Table(value.data);
    tensors_.emplace(id, std::move(tensor));
    return absl::OkStatus();
  }

  std::vector<CTensor> TensorsOf(const std::vector<ValueId>& values) const {
    std::vector<CTensor> tensors;
    for (const ValueId id : values) {
      tensors.push_back(id == kNoValue ? CTensor() : tensors_.at(id));
    }
    return tensors;
  }

  absl::Status AddToGroup(const Operation& operation, const Row& row) {
    const CTensor& out = tensors_.at(operation.outputs[0]);
    bool fits = !group_.empty() && group_.sizes() == out.sizes;
    for (const ValueId id : operation.inputs) {
      fits = fits && (id == kNoValue || !group_.Makes(id) ||
                      tensors_.at(id).sizes == out.sizes);
    }
    if (!fits) Flush();
    return group_.Add(operation, row, tensors_);
  }

  // Writes the group. What is read by later operations gets memory.
  void Flush() {
    if (group_.empty()) return;
    for (const ValueId id : group_.made()) {
      CTensor& tensor = tensors_.at(id);
      if (!tensor.name.empty() || !IsReadBehind(id)) continue;
      tensor.name = store_.Scratch(tensor.type(), tensor.count());
    }
    group_.Write(&code_, tensors_);
    group_ = ElementGroup();
  }

  bool IsReadBehind(ValueId id) const {
    for (const Use& use : network_.value(id).uses) {
      if (!group_.Has(use.user)) return true;
    }
    return false;
  }

  const Region& region_;
  const Network& network_;
  std::vector<Refusal>* const refusals_;
  CodeWriter code_;
  RegionStore store_;
  RegionCode made_;
  std::map<ValueId, CTensor> tensors_;
  std::set<ValueId> untyped_;
  std::set<ValueId> refused_;  // Outputs of what there is no C for.
  ElementGroup group_;
};

}  // namespace

RegionCode CodeOf(const Region& region, std::vector<Refusal>* refusals) {
  return RegionWriter(region, refusals).Write();
}

}  // namespace nodewise::emit_c
