#include "contrib/emit_c/region_code.h"

#include <map>
#include <set>
#include <utility>

#include "contrib/emit_c/element_group.h"
#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

bool IsShort(DLDataType dtype) {
  return dtype == kFloat16 || dtype == kBfloat16;
}

// Writes the operations of a network: a region, or the body of an operation in
// one.
class NetworkWriter {
 public:
  NetworkWriter(const Network& network, RegionStore* store,
                std::vector<Refusal>* refusals)
      : network_(network),
        store_(*store),
        code_(*store->code),
        refusals_(refusals) {}

  // Gives a value a tensor that is there already.
  void AddTensor(ValueId id, const CTensor& tensor, bool is_known) {
    if (!is_known || tensor.type().empty()) untyped_.insert(id);
    tensors_.emplace(id, tensor);
  }
  bool Has(ValueId id) const { return tensors_.contains(id); }

  void Write() {
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
  }

  // Writes a copy of a value that is an input or a constant, or that has
  // another tensor already. REQUIRES: Write() has been called.
  absl::Status CopyTo(ValueId id, const CTensor& to) {
    if (refused_.contains(id)) return absl::OkStatus();
    if (untyped_.contains(id)) return RefuseType(id);
    if (!Has(id)) NODEWISE_RETURN_IF_ERROR(MakeTable(id));
    const View view = CompactView(to.sizes);
    CopyCode(&code_, to.sizes, tensors_.at(id).name, view, to.name, view);
    return absl::OkStatus();
  }

 private:
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
    store_.keeps_sizes = store_.keeps_sizes || row->keeps_sizes;
    code_.Line(fmt::format("/* {} */", row->name));
    // C has one scope for the names of all code that is in no loop.
    const bool is_alone = network_.order().size() == 1;
    if (!is_alone) code_.Open();
    NODEWISE_RETURN_IF_ERROR(row->moves ? WriteRaw(operation, *row)
                                        : WriteWide(operation, *row));
    if (!is_alone) code_.Close();
    if (store_.scratch_bytes < RegionStore::kTooMuch) return absl::OkStatus();
    return Refuse("it needs more memory of its own than there can be");
  }

  absl::Status WriteRaw(const Operation& operation, const Row& row) {
    OperationCode code(network_, operation, TensorsOf(operation.inputs),
                       TensorsOf(operation.outputs), &store_);
    return row.write(code);
  }

  // C has no floats of 16 bits: they are computed in float, and rounded once.
  absl::Status WriteWide(const Operation& operation, const Row& row) {
    std::vector<CTensor> inputs = TensorsOf(operation.inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (IsShort(inputs[i].dtype)) {
        inputs[i] = Widened(operation.inputs[i], inputs[i]);
      }
    }
    const std::vector<CTensor> outputs = TensorsOf(operation.outputs);
    std::vector<CTensor> wide = outputs;
    for (CTensor& output : wide) {
      if (!IsShort(output.dtype)) continue;
      output.dtype = kFloat32;
      output.name = store_.Scratch(output.type(), output.count());
    }
    OperationCode code(network_, operation, inputs, wide, &store_);
    NODEWISE_RETURN_IF_ERROR(row.write(code));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!IsShort(outputs[i].dtype)) continue;
      code_.For("i", outputs[i].count());
      code_.Line(fmt::format("{}[i] = nw_to_{}({}[i]);", outputs[i].name,
                             ShortFloatName(outputs[i].dtype), wide[i].name));
      code_.Close();
    }
    return absl::OkStatus();
  }

  CTensor Widened(ValueId id, const CTensor& tensor) {
    const auto [found, is_new] = widened_.emplace(id, tensor);
    CTensor& wide = found->second;
    if (!is_new) return wide;
    wide.dtype = kFloat32;
    wide.name = store_.Scratch(wide.type(), wide.count());
    code_.For("i", wide.count());
    code_.Line(fmt::format("{}[i] = nw_from_{}({}[i]);", wide.name,
                           ShortFloatName(tensor.dtype), tensor.name));
    code_.Close();
    return wide;
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
        "{}: is {}, expected bool, an integer of 8 bits or more or a float of "
        "16 bits or more, with all its sizes",
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

  // Writes the group. Tensors that later operations read get memory.
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

  const Network& network_;
  RegionStore& store_;
  CodeWriter& code_;
  std::vector<Refusal>* const refusals_;
  std::map<ValueId, CTensor> tensors_;
  std::map<ValueId, CTensor> widened_;  // Floats of 16 bits, in 32.
  std::set<ValueId> untyped_;
  std::set<ValueId> refused_;  // Outputs of what there is no C for.
  ElementGroup group_;
};

// Many constants only say what the code is to be like, and are not read.
std::string WithDefinitions(const RegionStore& store, const std::string& code) {
  const std::set<std::string_view> words = WordsOf(code);
  CodeWriter definitions(1);
  for (const auto& [name, line] : store.definitions) {
    if (words.contains(name)) definitions.Line(line);
  }
  return definitions.Take() + code;
}

CTensor TensorOf(std::string name, const TensorType& type) {
  return {std::move(name), type.dtype, type.sizes().value_or(Sizes())};
}

std::string TextOf(const std::vector<Refusal>& refusals) {
  std::string text;
  for (const Refusal& one : refusals) {
    text += fmt::format("{}{} ({}): {}", text.empty() ? "" : ", ",
                        one.operation, one.kind, one.why);
  }
  return text;
}

}  // namespace

RegionCode CodeOf(const Region& region, std::vector<Refusal>* refusals) {
  CodeWriter code(1);
  RegionStore store;
  store.code = &code;
  NetworkWriter writer(region.network, &store, refusals);
  RegionCode made;
  for (const ValueId id : region.network.inputs()) {
    const TensorType& type = region.network.value(id).type;
    made.inputs.push_back(
        TensorOf(fmt::format("in{}", made.inputs.size()), type));
    writer.AddTensor(id, made.inputs.back(), type.is_static());
  }
  for (size_t i = 0; i < region.network.outputs().size(); ++i) {
    const TensorType& type = region.outputs[i];
    made.outputs.push_back(TensorOf(fmt::format("out{}", i), type));
    writer.AddTensor(region.network.outputs()[i], made.outputs.back(),
                     type.is_static());
  }
  writer.Write();
  made.body = WithDefinitions(store, code.Take());
  made.scratch_bytes = store.scratch_bytes;
  made.keeps_sizes = store.keeps_sizes;
  return made;
}

absl::Status WriteBody(OperationCode& code, const Network& body,
                       absl::Span<const CTensor> inputs,
                       absl::Span<const CTensor> outputs) {
  std::vector<Refusal> refusals;
  NetworkWriter writer(body, &code.store(), &refusals);
  for (size_t i = 0; i < inputs.size(); ++i) {
    writer.AddTensor(body.inputs()[i], inputs[i], true);
  }
  // What the body only passes on, or gives twice, is copied.
  std::vector<size_t> copied;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = body.outputs()[i];
    const bool is_made = body.value(id).kind == NetworkValue::Kind::kOutput;
    if (is_made && !writer.Has(id)) {
      writer.AddTensor(id, outputs[i], true);
    } else {
      copied.push_back(i);
    }
  }
  writer.Write();
  for (const size_t i : copied) {
    NODEWISE_RETURN_IF_ERROR(writer.CopyTo(body.outputs()[i], outputs[i]));
  }
  if (refusals.empty()) return absl::OkStatus();
  return Refuse(TextOf(refusals));
}

}  // namespace nodewise::emit_c
