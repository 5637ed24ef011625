#include "contrib/regions/onednn_plan.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "contrib/regions/half_floats.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/channels_last.h"

namespace nodewise {

// How the values of a region lie in memory while it is computed, all by value
// but the last.
struct LayoutMap {
  std::vector<TensorLayout> layout;
  // In whose memory it is: its own, or that of the value at the other end of a
  // Transpose which is the same tensor in the other layout.
  std::vector<ValueId> home;
  std::vector<bool> is_transpose;  // By operation: one that is not computed.
};

// Returns the map in which every tensor is plain.
LayoutMap PlainIn(const Region& region);
// Returns the map with Transposes between layouts taken as names of one tensor
// in either of them, and with the channels last in what is made between them;
// none if there are no such Transposes.
std::optional<LayoutMap> ChannelsLastIn(const Region& region);

namespace {

// The layouts between which a Transpose moves its tensor.
enum class Direction { kToLast, kToFirst, kOther };

// Lowering has written these Transposes into the region to say how tensors lie
// outside. Below three sides there is nothing to move.
Direction DirectionOf(const Operation& operation) {
  const auto* const op = operation.attrs.As<ops::Transpose>();
  if (op == nullptr || op->perm.size() < 3) return Direction::kOther;
  const int rank = static_cast<int>(op->perm.size());
  if (op->perm == SidesToChannelsLast(rank)) return Direction::kToLast;
  return op->perm == SidesToChannelsFirst(rank) ? Direction::kToFirst
                                                : Direction::kOther;
}

// Calls of these gain nothing by a constant operand, which would be copied.
constexpr std::string_view kBinary[] = {"Add", "Sum", "Sub", "Mul",
                                        "Div", "Max", "Min"};
// The binary operators whose inputs can change places.
constexpr std::string_view kCommuting[] = {"Add", "Sum", "Mul", "Max", "Min"};
// Beside the errors of so many products, that of oneDNN's erf does not count.
// Elsewhere, a Gelu with it may miss the bounds of the operations that it is
// written in by half as much again; one with a tanh keeps them.
constexpr std::string_view kProducts[] = {"Conv", "ConvTranspose", "Gemm",
                                          "MatMul"};

template <size_t N>
bool IsOneOf(const std::string_view (&kinds)[N], const OperatorDef& def) {
  return def.domain.empty() &&
         std::ranges::find(kinds, def.name) != std::end(kinds);
}
bool HasBody(const Operation& operation) {
  const auto& fields = operation.def().fields;
  return std::ranges::any_of(
      fields, [](const AttrField& field) { return field.is_graph; });
}

// Stands for a constant whose contents are not known yet. Small ones may be
// scales, of which 0 would be refused; of large ones no page is touched.
absl::StatusOr<NDArray> Placeholder(const TensorType& type) {
  constexpr size_t kMostOnes = 4096;
  const auto sizes = type.sizes();
  if (!sizes.has_value()) return Unimplemented("a constant has no known sizes");
  NODEWISE_ASSIGN_OR_RETURN(const size_t bytes,
                            TensorBytes(*sizes, type.dtype));
  // calloc() hands out pages that are not there until they are touched, so the
  // plan of a large model takes no memory for its weights.
  const std::shared_ptr<void> memory(std::calloc(bytes + 1, 1), &std::free);
  if (memory == nullptr) {
    return ResourceExhausted("there is no memory for a constant");
  }
  DLTensor tensor{};
  tensor.data = memory.get();
  tensor.device = kCpu;
  tensor.dtype = type.dtype;
  tensor.ndim = static_cast<int>(sizes->size());
  tensor.shape = const_cast<int64_t*>(sizes->data());
  NDArray made = NDArray::Borrow(tensor, memory);
  if (type.dtype == kFloat32 && bytes <= kMostOnes) {
    std::fill_n(made.As<float>(), bytes / sizeof(float), 1.0F);
  }
  return made;
}

class StepPlanner {
 public:
  StepPlanner(const Region& region, const LayoutMap& layouts)
      : network_(region.network),
        layouts_(layouts),
        is_taken_(layouts.is_transpose),
        is_constant_(network_.data().values.size()),
        types_(network_.data().values.size()),
        float_types_(types_.size(), kFloat32) {
    for (size_t i = 0; i < network_.inputs().size(); ++i) {
      is_constant_[Index(network_.inputs()[i])] = region.is_constant[i];
    }
    for (const auto& value : network_.data().values) {
      if (value.has_value()) types_[Index(value->id)] = value->type;
    }
    for (size_t i = 0; i < network_.outputs().size(); ++i) {
      types_[Index(network_.outputs()[i])] = region.outputs[i];
    }
    for (size_t i = 0; i < types_.size(); ++i) {
      // oneDNN has no half types below AVX-512, so that calls are planned in
      // float32 on every machine alike, and are converted around.
      if (!IsHalfFloat(types_[i].dtype)) continue;
      float_types_[i] = types_[i].dtype;
      types_[i].dtype = kFloat32;
    }
  }

  // Greedy: an operation that no step has yet begins one, which takes in what
  // follows for as long as oneDNN can fuse it. A longer step saves a pass over
  // memory and never costs one, so there is nothing to weigh.
  absl::StatusOr<std::vector<PlannedStep>> Plan() {
    std::vector<PlannedStep> steps;
    for (const OperationId id : network_.order()) {
      if (is_taken_[Index(id)]) continue;
      const Operation& operation = network_.operation(id);
      PlannedStep step;
      if (!BeginGelu(operation, &step)) {
        NODEWISE_ASSIGN_OR_RETURN(step, Begin(operation));
      }
      if (step.is_call()) {
        while (Extend(&step)) {
        }
        // A body is run by an interpreter, which a single step does not have;
        // the reference computes such a region as a whole.
      } else if (HasBody(operation)) {
        return Unimplemented(
            "{}: has a network inside, which needs an interpreter",
            operation.name);
      }
      for (const OperationId taken : step.operations) {
        is_taken_[Index(taken)] = true;
      }
      steps.push_back(std::move(step));
    }
    SortByLast(&steps);
    return steps;
  }

 private:
  // A fused operation may read a value that is made after the step's first
  // operation.
  void SortByLast(std::vector<PlannedStep>* steps) const {
    std::vector<size_t> places(network_.data().operations.size());
    for (size_t i = 0; i < network_.order().size(); ++i) {
      places[Index(network_.order()[i])] = i;
    }
    std::ranges::sort(*steps, [&](const PlannedStep& a, const PlannedStep& b) {
      return places[Index(a.operations.back())] <
             places[Index(b.operations.back())];
    });
  }

  absl::StatusOr<OneDnnInput> MakeInput(ValueId value, bool may_keep,
                                        PlannedInput* planned) const {
    OneDnnInput input;
    if (value == kNoValue) return input;
    planned->value = layouts_.home[Index(value)];
    input.type = types_[Index(value)];
    input.layout = layouts_.layout[Index(value)];
    const NetworkValue& known = network_.value(value);
    if (known.kind == NetworkValue::Kind::kConstant) {
      // A constant of the network decides types, so it stays as it is for ever.
      planned->is_kept = true;
      input.constant = known.data;
      if (IsHalfFloat(known.data.dtype())) {
        NODEWISE_ASSIGN_OR_RETURN(input.constant, WideCopy(known.data));
      }
    } else if (may_keep && is_constant_[Index(value)]) {
      planned->is_kept = true;
      NODEWISE_ASSIGN_OR_RETURN(input.constant, Placeholder(input.type));
    }
    return input;
  }

  absl::StatusOr<std::vector<OneDnnInput>> MakeInputs(
      const Operation& operation, absl::Span<const ValueId> values,
      std::vector<PlannedInput>* planned) const {
    const bool may_keep = !IsOneOf(kBinary, operation.def());
    std::vector<OneDnnInput> inputs;
    for (const ValueId value : values) {
      NODEWISE_ASSIGN_OR_RETURN(
          inputs.emplace_back(),
          MakeInput(value, may_keep, &planned->emplace_back()));
    }
    return inputs;
  }

  void SetResult(ValueId value, PlannedStep* step) const {
    step->call.output = types_[Index(value)];
    step->call.output_layout = layouts_.layout[Index(value)];
    step->result = layouts_.home[Index(value)];
  }

  // The type of its floats, float32 if it has none; none if there are several.
  std::optional<DLDataType> FloatTypeOf(const Operation& operation) const {
    std::optional<DLDataType> found;
    std::vector<ValueId> values = operation.inputs;
    values.insert(values.end(), operation.outputs.begin(),
                  operation.outputs.end());
    for (const ValueId value : values) {
      if (value == kNoValue || !(types_[Index(value)].dtype == kFloat32)) {
        continue;
      }
      const DLDataType type = float_types_[Index(value)];
      // One conversion goes around the whole call.
      if (found.has_value() && !(*found == type)) return std::nullopt;
      found = type;
    }
    return found.value_or(kFloat32);
  }

  // A step of this operation alone, with the reason if oneDNN cannot do it.
  absl::StatusOr<PlannedStep> Begin(const Operation& operation) const {
    PlannedStep step;
    step.operations = {operation.id};
    for (size_t i = 1; i < operation.outputs.size(); ++i) {
      if (operation.outputs[i] != kNoValue) {
        step.why_not = "oneDNN makes its first output alone";
        return step;
      }
    }
    const auto float_type = FloatTypeOf(operation);
    if (!float_type.has_value()) {
      step.why_not = "has floats of several types";
      return step;
    }
    step.float_type = *float_type;
    step.call.overflows_as_float16 = step.float_type == kFloat16;
    step.call.op = operation.attrs;
    NODEWISE_ASSIGN_OR_RETURN(
        step.call.inputs,
        MakeInputs(operation, operation.inputs, &step.inputs));
    SetResult(operation.outputs[0], &step);
    const Support support = OneDnnSupports(step.call);
    if (!support.can) {
      step.why_not = support.why_not;
    } else if (!support.penalties.empty()) {
      step.penalty = support.penalties[0];
    }
    return step;
  }

  // Returns the only operation that reads the value, if there is one and
  // nothing else needs it.
  const Operation* OnlyReader(ValueId value) const {
    const auto& uses = network_.value(value).uses;
    const auto outputs = network_.outputs();
    // A barrier waits for the operation itself, which would be gone as such.
    if (uses.size() != 1 || uses[0].slot == kBarrierSlot ||
        std::ranges::find(outputs, value) != outputs.end()) {
      return nullptr;
    }
    return &network_.operation(uses[0].user);
  }

  // Fuses what reads the step's result, if oneDNN can and stays as fast.
  bool Extend(PlannedStep* step) const {
    const ValueId result =
        network_.operation(step->operations.back()).outputs[0];
    PlannedStep longer = *step;
    if (AppendGelu(result, &longer) && Accept(std::move(longer), step)) {
      return true;
    }
    const Operation* const reader = OnlyReader(result);
    if (reader == nullptr || reader->outputs.size() != 1 ||
        is_taken_[Index(reader->id)]) {
      return false;
    }
    longer = *step;
    return Append(*reader, result, &longer).ok() &&
           Accept(std::move(longer), step);
  }
  static bool Accept(PlannedStep longer, PlannedStep* step) {
    const Support support = OneDnnSupports(longer.call);
    if (!support.can) return false;
    // A fused operation must not make a fast call slow; by itself it would cost
    // less.
    if (!support.penalties.empty() && step->penalty.empty()) return false;
    *step = std::move(longer);
    return true;
  }

  // Returns the Gelu that is computed of the value, if none of its operations
  // are in a step yet.
  std::optional<GeluPattern> GeluOf(ValueId value) const {
    if (value == kNoValue || IsNumber(value)) return std::nullopt;
    auto gelu = GeluPattern::Find(
        network_, value, [this](ValueId other) { return IsNumber(other); });
    if (!gelu.has_value()) return std::nullopt;
    for (const OperationId id : gelu->operations()) {
      if (is_taken_[Index(id)]) return std::nullopt;
    }
    const size_t made = Index(ResultOf(*gelu));
    // The one call reads and makes tensors of one type.
    if (!(types_[Index(value)] == types_[made]) ||
        !(float_types_[Index(value)] == float_types_[made])) {
      return std::nullopt;
    }
    return gelu;
  }
  ValueId ResultOf(const GeluPattern& gelu) const {
    return network_.operation(gelu.operations().back()).outputs[0];
  }
  bool IsNumber(ValueId value) const {
    const bool is_constant =
        is_constant_[Index(value)] ||
        network_.value(value).kind == NetworkValue::Kind::kConstant;
    const auto sizes = types_[Index(value)].sizes();
    return is_constant && sizes.has_value() &&
           std::ranges::all_of(*sizes, [](int64_t size) { return size == 1; });
  }
  static OpAttrs GeluAttrs(const GeluPattern& gelu) {
    return OpAttrs::From(AllOperators().FindType(&kTypeTag<ops::Gelu>),
                         ops::Gelu{gelu.formula()});
  }

  // A step that is a Gelu and begins with the operation, if there is one and
  // oneDNN can do it.
  bool BeginGelu(const Operation& operation, PlannedStep* step) const {
    for (const ValueId value : operation.inputs) {
      auto gelu = GeluOf(value);
      if (!gelu.has_value() || gelu->operations()[0] != operation.id ||
          gelu->formula() == ops::GeluFormula::kErf) {
        continue;
      }
      PlannedStep made;
      made.call.op = GeluAttrs(*gelu);
      SetResult(ResultOf(*gelu), &made);
      made.float_type = float_types_[Index(value)];
      made.call.overflows_as_float16 = made.float_type == kFloat16;
      auto input = MakeInput(value, false, &made.inputs.emplace_back());
      if (!input.ok()) return false;
      made.call.inputs.push_back(*std::move(input));
      made.operations = gelu->operations();
      made.gelus.push_back(*std::move(gelu));
      if (!OneDnnSupports(made.call).can) return false;
      *step = std::move(made);
      return true;
    }
    return false;
  }
  bool AppendGelu(ValueId result, PlannedStep* step) const {
    auto gelu = GeluOf(result);
    if (!gelu.has_value() || !IsReadInside(result, gelu->operations())) {
      return false;
    }
    if (gelu->formula() == ops::GeluFormula::kErf &&
        !IsOneOf(kProducts, step->call.op.def())) {
      return false;
    }
    step->call.post_ops.push_back({GeluAttrs(*gelu), {}});
    SetResult(ResultOf(*gelu), step);
    step->operations.insert(step->operations.end(), gelu->operations().begin(),
                            gelu->operations().end());
    step->gelus.push_back(*std::move(gelu));
    return true;
  }
  bool IsReadInside(ValueId value,
                    const std::vector<OperationId>& inside) const {
    const auto outputs = network_.outputs();
    if (std::ranges::find(outputs, value) != outputs.end()) return false;
    const auto& uses = network_.value(value).uses;
    return std::ranges::all_of(uses, [&](const Use& use) {
      return std::ranges::find(inside, use.user) != inside.end();
    });
  }

  absl::Status Append(const Operation& operation, ValueId result,
                      PlannedStep* step) const {
    // oneDNN fuses an operation with the result as its first operand.
    std::vector<ValueId> others = operation.inputs;
    const bool may_swap =
        others.size() == 2 && IsOneOf(kCommuting, operation.def());
    if (may_swap && others[1] == result) std::swap(others[0], others[1]);
    if (others.empty() || others[0] != result) {
      return Unimplemented("reads the result as another operand");
    }
    const auto float_type = FloatTypeOf(operation);
    if (!float_type.has_value() || !(*float_type == step->float_type)) {
      return Unimplemented("has floats of another type");
    }
    others.erase(others.begin());
    OneDnnPostOp& post_op = step->call.post_ops.emplace_back();
    post_op.op = operation.attrs;
    NODEWISE_ASSIGN_OR_RETURN(post_op.others,
                              MakeInputs(operation, others, &step->inputs));
    SetResult(operation.outputs[0], step);
    step->operations.push_back(operation.id);
    return absl::OkStatus();
  }

  const Network& network_;
  const LayoutMap& layouts_;
  std::vector<bool> is_taken_;     // By operation.
  std::vector<bool> is_constant_;  // By value.
  // By value. Tensors of float16 or bfloat16 are float32 here.
  std::vector<TensorType> types_;
  std::vector<DLDataType> float_types_;  // By value: what it really is.
};

}  // namespace
LayoutMap PlainIn(const Region& region) {
  const NetworkData& data = region.network.data();
  LayoutMap map;
  map.layout.assign(data.values.size(), TensorLayout::kPlain);
  for (size_t i = 0; i < data.values.size(); ++i) {
    map.home.push_back(static_cast<ValueId>(i));
  }
  map.is_transpose.resize(data.operations.size());
  return map;
}

std::optional<LayoutMap> ChannelsLastIn(const Region& region) {
  const Network& network = region.network;
  const size_t num_values = network.data().values.size();
  LayoutMap map = PlainIn(region);
  bool is_any = false;
  // Values whose tensor is made in the region, and whose layout may be chosen.
  std::vector<bool> is_free(num_values);
  std::vector<bool> is_weight(num_values);
  for (const auto& value : network.data().values) {
    if (!value.has_value()) continue;
    is_free[Index(value->id)] = value->kind == NetworkValue::Kind::kOutput;
    is_weight[Index(value->id)] = value->kind == NetworkValue::Kind::kConstant;
  }
  for (const ValueId id : network.outputs()) is_free[Index(id)] = false;
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    is_weight[Index(network.inputs()[i])] = region.is_constant[i];
  }
  // The value in the usual order lives in the memory of the one with its
  // channels last; it is never stored by itself.
  const auto join = [&](ValueId first, ValueId last, OperationId transpose) {
    map.layout[Index(first)] = TensorLayout::kChannelsLast;
    map.home[Index(first)] = last;
    map.is_transpose[Index(transpose)] = is_any = true;
    is_free[Index(first)] = is_free[Index(last)] = false;
  };
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    const Direction direction = DirectionOf(operation);
    if (direction == Direction::kOther) continue;
    const ValueId from = operation.inputs[0];
    const ValueId to = operation.outputs[0];
    const bool is_input =
        network.value(from).kind == NetworkValue::Kind::kInput;
    if (direction == Direction::kToFirst && is_input && is_free[Index(to)] &&
        !is_weight[Index(from)]) {
      join(to, from, id);
    } else if (direction == Direction::kToLast && is_free[Index(from)]) {
      join(from, to, id);
    }
  }
  // Then all values are plain outside, and the plain map says the same in less.
  if (!is_any) return std::nullopt;
  for (const auto& value : network.data().values) {
    if (!value.has_value() || !is_free[Index(value->id)]) continue;
    if (!HasLayouts(value->type)) continue;
    map.layout[Index(value->id)] = TensorLayout::kChannelsLast;
  }
  return map;
}

absl::StatusOr<std::vector<PlannedStep>> PlanSteps(const Region& region) {
  const auto layouts = ChannelsLastIn(region);
  if (layouts.has_value()) {
    // With other layouts inside, a step that is not a call would read tensors
    // in an order that definitions do not know, so all must be calls.
    auto steps = StepPlanner(region, *layouts).Plan();
    const auto is_call = [](const PlannedStep& step) { return step.is_call(); };
    if (steps.ok() && std::ranges::all_of(*steps, is_call)) return steps;
  }
  NODEWISE_ASSIGN_OR_RETURN(std::vector<PlannedStep> steps,
                            StepPlanner(region, PlainIn(region)).Plan());
  // One call is enough: a region without any is as well left to the reference,
  // which then need not copy.
  std::string reasons;
  for (const PlannedStep& step : steps) {
    if (step.is_call()) return steps;
    const Operation& operation = region.network.operation(step.operations[0]);
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ",
                           operation.kind(), step.why_not);
  }
  return absl::UnimplementedError(
      reasons.empty() ? "there is nothing to compute" : reasons);
}

DLDataType PlannedStep::OutputType() const {
  return call.output.dtype == kFloat32 ? float_type : call.output.dtype;
}

std::string PlannedStep::Remark() const {
  if (!IsHalfFloat(float_type)) return penalty;
  return fmt::format("{}{}computed in float32, with {} converted around it",
                     penalty, penalty.empty() ? "" : "; ",
                     ToString(float_type));
}

bool PlannedStep::is_plain() const {
  const auto is_last = [](const OneDnnInput& input) {
    return input.layout == TensorLayout::kChannelsLast;
  };
  return call.output_layout != TensorLayout::kChannelsLast &&
         std::ranges::none_of(call.inputs, is_last) &&
         std::ranges::none_of(call.post_ops, [&](const OneDnnPostOp& post_op) {
           return std::ranges::any_of(post_op.others, is_last);
         });
}

OneDnnInput& InputOf(OneDnnCall* call, size_t place) {
  if (place < call->inputs.size()) return call->inputs[place];
  place -= call->inputs.size();
  for (OneDnnPostOp& post_op : call->post_ops) {
    if (place < post_op.others.size()) return post_op.others[place];
    place -= post_op.others.size();
  }
  NODEWISE_CHECK(false);
  return call->inputs[0];
}

}  // namespace nodewise
