#include "contrib/emit_c/region_code.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "contrib/emit_c/operation_code.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/control_flow.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {
namespace {

// The side of the first input that the second one's first side goes with; none
// if the second one goes with the last sides of the first.
std::optional<int64_t> AxisOf(const Row& row, const Operation& operation) {
  // Below opset 7 the slope is one number, or one for each channel.
  if (operation.attrs.As<ops::PRelu>() && operation.def().since < 7) return 1;
  const ops::AxisBroadcast* const old = row.axis(operation.attrs);
  return old != nullptr && old->broadcast ? old->axis : std::nullopt;
}

// The sides of an input as they lie on those of the output.
Sizes AlignedSizes(const Row& row, const Operation& operation, size_t slot,
                   const Sizes& sizes, size_t rank) {
  if (slot != 1 || CountIn(sizes) == 1) return sizes;
  const std::optional<int64_t> axis = AxisOf(row, operation);
  if (!axis.has_value()) return sizes;
  const auto sides = static_cast<int64_t>(rank);
  const int64_t first = *axis < 0 ? *axis + sides : *axis;
  // Sides of 1 behind those of the input move it to the front.
  Sizes aligned = sizes;
  while (static_cast<int64_t>(aligned.size()) + first < sides) {
    aligned.push_back(1);
  }
  return aligned;
}

bool IsRepeatable(const Sizes& from, const Sizes& to) {
  return from.size() <= to.size() &&
         std::equal(from.rbegin(), from.rend(), to.rbegin(),
                    [](int64_t a, int64_t b) { return a == 1 || a == b; });
}

// Returns the expression put through nw_FUNCTION_half or its like; unchanged if
// the type is not a float of 16 bits.
std::string AsShort(std::string_view function, DLDataType dtype,
                    const std::string& expression) {
  const std::string_view name = ShortFloatName(dtype);
  return name.empty() ? expression
                      : fmt::format("nw_{}_{}({})", function, name, expression);
}

// Operations that follow each other, and whose elements are computed one by
// one, all in one loop. What one of them makes for another is a variable inside
// that loop, so it needs no memory. All have the same sizes; inputs that are
// repeated over them are loaded by views with strides of 0.
class ElementGroup {
 public:
  bool empty() const { return steps_.empty(); }
  // REQUIRES: !empty().
  const Sizes& sizes() const { return sizes_; }

  bool Makes(ValueId id) const { return variables_.contains(id); }
  bool Has(OperationId id) const {
    return std::ranges::any_of(
        steps_, [&](const Step& step) { return step.operation == id; });
  }
  const std::vector<ValueId>& made() const { return made_; }

  // Changes nothing if it fails.
  absl::Status Add(const Operation& operation, const Row& row,
                   const std::map<ValueId, CTensor>& tensors) {
    ElementGroup next = *this;
    const ValueId output = operation.outputs[0];
    const CTensor& out = tensors.at(output);
    next.sizes_ = out.sizes;
    ElementCode code{operation, {}, ComputedType(out.dtype), out.dtype};
    for (size_t slot = 0; slot < operation.inputs.size(); ++slot) {
      const ValueId id = operation.inputs[slot];
      // A CastLike uses only the type of its second input.
      const bool is_type = slot == 1 && operation.attrs.As<ops::CastLike>();
      if (id == kNoValue || is_type) {
        code.in.emplace_back();
        continue;
      }
      const CTensor& in = tensors.at(id);
      const auto variable = next.variables_.find(id);
      const Sizes aligned =
          AlignedSizes(row, operation, slot, in.sizes, out.sizes.size());
      if (!IsRepeatable(aligned, out.sizes)) {
        return Refuse("input {}: does not lie on the output", slot);
      }
      code.in.push_back(
          {variable != next.variables_.end()
               ? variable->second
               : next.LoadOf(id, RepeatedView(aligned, out.sizes)),
           ComputedType(in.dtype)});
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::string expression,
                              ExpressionOf(row, code));
    next.variables_[output] = next.Variable();
    next.made_.push_back(output);
    // Every operation of the reference rounds what it makes.
    next.steps_.push_back({operation.id, operation.def().name, output,
                           AsShort("as", out.dtype, expression)});
    *this = std::move(next);
    return absl::OkStatus();
  }
  // Only a value whose tensor has a name is stored; any other is a variable of
  // the loop alone.
  void Write(CodeWriter* code,
             const std::map<ValueId, CTensor>& tensors) const {
    std::vector<View> views;
    for (const Load& load : loads_) views.push_back(load.view);
    views.push_back(CompactView(sizes_));
    const LoopNest nest(sizes_, views);
    if (nest.is_empty()) return;
    const auto append_name = [](std::string* text, const Step& step) {
      text->append(step.name);
    };
    code->Line("/* {} */", absl::StrJoin(steps_, ", ", append_name));
    // C has one scope for the names of all code that is in no loop.
    const bool is_block = CountIn(sizes_) == 1;
    if (is_block) code->Open();
    nest.Open(code);
    const auto define = [&](const CTensor& tensor, const std::string& variable,
                            const std::string& value) {
      code->Line("const {} {} = {};", CTypeOf(ComputedType(tensor.dtype)),
                 variable, value);
    };
    for (size_t i = 0; i < loads_.size(); ++i) {
      if (!IsRead(loads_[i].variable)) continue;
      const CTensor& tensor = tensors.at(loads_[i].value);
      define(tensor, loads_[i].variable,
             AsShort("from", tensor.dtype,
                     fmt::format("{}[{}]", tensor.name, nest.At(i))));
    }
    for (const Step& step : steps_) {
      const CTensor& tensor = tensors.at(step.output);
      const std::string& variable = variables_.at(step.output);
      define(tensor, variable, step.expression);
      if (tensor.name.empty()) continue;
      code->Line("{}[{}] = {};", tensor.name, nest.At(loads_.size()),
                 AsShort("to", tensor.dtype, variable));
    }
    nest.Close(code);
    if (is_block) code->Close();
  }

 private:
  struct Load {
    ValueId value;
    View view;
    std::string variable;
  };
  struct Step {
    OperationId operation;
    std::string_view name;
    ValueId output;
    std::string expression;
  };

  // An operator may want an input for its type alone.
  bool IsRead(const std::string& variable) const {
    return std::ranges::any_of(steps_, [&](const Step& step) {
      return HasWord(step.expression, variable);
    });
  }
  std::string Variable() const {
    return fmt::format("x{}", loads_.size() + steps_.size());
  }
  std::string LoadOf(ValueId id, const View& view) {
    for (const Load& load : loads_) {
      if (load.value == id && load.view.strides == view.strides) {
        return load.variable;
      }
    }
    loads_.push_back({id, view, Variable()});
    return loads_.back().variable;
  }

  Sizes sizes_;
  std::vector<Load> loads_;
  std::vector<Step> steps_;
  std::map<ValueId, std::string> variables_;  // By output.
  std::vector<ValueId> made_;
};

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
        refusals_->push_back({operation.name, std::string(operation.kind()),
                              std::string(MessageOf(status))});
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
    return std::ranges::any_of(operation.inputs, [&](ValueId id) {
      return id != kNoValue && refused_.contains(id);
    });
  }

  absl::Status Add(const Operation& operation) {
    const Row* const row = FindRow(operation.def().type);
    if (row == nullptr) return Refuse("there is no C for this operator");
    NODEWISE_RETURN_IF_ERROR(MakeTensors(operation, row->is_by_element()));
    if (row->is_by_element()) return AddToGroup(operation, *row);
    if (HasEmptyOutputs(operation)) return absl::OkStatus();
    Flush();
    store_.keeps_sizes = store_.keeps_sizes || row->keeps_sizes;
    code_.Line("/* {} */", operation.def().name);
    // C has one scope for the names of all code that is in no loop.
    const bool is_alone = network_.order().size() == 1;
    if (!is_alone) code_.Open();
    NODEWISE_RETURN_IF_ERROR(WriteLoops(operation, *row));
    if (!is_alone) code_.Close();
    if (store_.scratch_bytes < RegionStore::kTooMuch) return absl::OkStatus();
    return Refuse("it needs more memory of its own than there can be");
  }

  // C has no floats of 16 bits: they are computed in float, and rounded once.
  // Loops that only move elements take their bits as they are.
  absl::Status WriteLoops(const Operation& operation, const Row& row) {
    std::vector<CTensor> inputs = TensorsOf(operation.inputs);
    const std::vector<CTensor> outputs = TensorsOf(operation.outputs);
    std::vector<CTensor> wide = outputs;
    const auto is_widened = [&](const CTensor& tensor) {
      return !row.moves && !ShortFloatName(tensor.dtype).empty();
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (is_widened(inputs[i])) {
        inputs[i] = Widened(operation.inputs[i], inputs[i]);
      }
    }
    for (CTensor& output : wide) {
      if (is_widened(output)) {
        output = store_.ScratchTensor(kFloat32, output.sizes);
      }
    }
    OperationCode code{network_, operation, inputs, wide, &store_};
    NODEWISE_RETURN_IF_ERROR(row.write(code));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!is_widened(outputs[i])) continue;
      code_.Each("i", outputs[i].count(), "{}[i] = nw_to_{}({}[i]);",
                 outputs[i].name, ShortFloatName(outputs[i].dtype),
                 wide[i].name);
    }
    return absl::OkStatus();
  }

  // A value is widened once, however many operations read it.
  CTensor Widened(ValueId id, const CTensor& tensor) {
    const auto [found, is_new] = widened_.try_emplace(id);
    CTensor& wide = found->second;
    if (!is_new) return wide;
    wide = store_.ScratchTensor(kFloat32, tensor.sizes);
    code_.Each("i", wide.count(), "{}[i] = nw_from_{}({}[i]);", wide.name,
               ShortFloatName(tensor.dtype), tensor.name);
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
  bool HasEmptyOutputs(const Operation& operation) const {
    return std::ranges::all_of(operation.outputs, [&](ValueId id) {
      return id == kNoValue || tensors_.at(id).count() == 0;
    });
  }

  absl::Status RefuseType(ValueId id) const {
    return Refuse(
        "{}: is {}, expected bool, an integer of 8 bits or more or a float of "
        "16 bits or more, with all its sizes",
        network_.value(id).name, ToString(network_.value(id).type));
  }

  // A constant of the region becomes a table, if any code reads it.
  absl::Status MakeTable(ValueId id) {
    const NetworkValue& value = network_.value(id);
    if (value.kind != NetworkValue::Kind::kConstant ||
        CTypeOf(value.type.dtype).empty()) {
      return RefuseType(id);
    }
    tensors_.emplace(id, CTensor{store_.Table(value.data), value.type.dtype,
                                 *value.type.sizes()});
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
    const auto& uses = network_.value(id).uses;
    return std::ranges::any_of(
        uses, [&](const Use& use) { return !group_.Has(use.user); });
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
  return definitions.TakeText() + code;
}

// Writes the body of an operation, which reads and fills tensors that are
// there: as many inputs as it has, and as many outputs at most. Refuses what
// there is no C for.
absl::Status WriteBody(OperationCode& code, const Network& body,
                       absl::Span<const CTensor> inputs,
                       absl::Span<const CTensor> outputs) {
  std::vector<Refusal> refusals;
  NetworkWriter writer(body, &code.store(), &refusals);
  for (size_t i = 0; i < inputs.size(); ++i) {
    writer.AddTensor(body.inputs()[i], inputs[i], true);
  }
  // Values that the body only passes on, or gives twice, are copied.
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
  return Refuse("{}", TextOf(refusals, ", "));
}

// Writes a branch, which captures the inputs from `first` on.
absl::Status WriteBranch(OperationCode& code, const char* name,
                         const Subgraph& branch, size_t first) {
  std::vector<CTensor> inputs;
  for (size_t i = 0; i < branch.captures; ++i) {
    inputs.push_back(code.in(first + i));
  }
  std::vector<CTensor> outputs;
  for (size_t i = 0; i < code.num_outputs(); ++i) {
    if (!code.wants(i)) return Refuse("an output is not wanted");
    outputs.push_back(code.out(i));
  }
  return At(name, WriteBody(code, *branch.body, inputs, outputs));
}

// The branches' outputs are of the sizes of the operation's, which are known,
// so each of them fills the same memory. The operation's inputs are the
// condition, what the else branch captures, and what the then branch does.
absl::Status WriteIf(OperationCode& code) {
  const auto& op = *code.As<ops::If>();
  code.code().Open("if ({}[0])", code.in(0).name);
  NODEWISE_RETURN_IF_ERROR(WriteBranch(code, "then_branch", op.then_branch,
                                       1 + op.else_branch.captures));
  code.code().Close();
  code.code().Open("else");
  NODEWISE_RETURN_IF_ERROR(WriteBranch(code, "else_branch", op.else_branch, 1));
  code.code().Close();
  return absl::OkStatus();
}

constexpr Row kBodyRows[] = {MoveRow<ops::If>(&WriteIf)};

}  // namespace

// Every operation that is refused is named, and not the first alone, so that a
// reader sees all there is to do.
std::string TextOf(absl::Span<const Refusal> refusals, const char* between) {
  return absl::StrJoin(
      refusals, between, [](std::string* text, const Refusal& one) {
        *text += fmt::format("{} ({}): {}", one.operation, one.kind, one.why);
      });
}

// Outputs are added before anything is written, so that the operation which
// makes one writes into the function's own parameter and not into scratch
// memory.
RegionCode CodeOf(const Region& region, std::vector<Refusal>* refusals) {
  CodeWriter code(1);
  RegionStore store;
  store.code = &code;
  NetworkWriter writer(region.network, &store, refusals);
  RegionCode made;
  for (const ValueId id : region.network.inputs()) {
    const TensorType& type = region.network.value(id).type;
    made.inputs.push_back({fmt::format("in{}", made.inputs.size()), type.dtype,
                           type.sizes().value_or(Sizes())});
    writer.AddTensor(id, made.inputs.back(), type.is_static());
  }
  for (size_t i = 0; i < region.network.outputs().size(); ++i) {
    const TensorType& type = region.outputs[i];
    made.outputs.push_back(
        {fmt::format("out{}", i), type.dtype, type.sizes().value_or(Sizes())});
    writer.AddTensor(region.network.outputs()[i], made.outputs.back(),
                     type.is_static());
  }
  writer.Write();
  made.body = WithDefinitions(store, code.TakeText());
  made.scratch_bytes = store.scratch_bytes;
  made.keeps_sizes = store.keeps_sizes;
  return made;
}

absl::Span<const Row> BodyRows() { return kBodyRows; }

}  // namespace nodewise::emit_c
