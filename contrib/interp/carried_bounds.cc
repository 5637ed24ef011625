// Carries bounds along a run: each value has the distance that a correct
// kernel may be off by, and each operation is evaluated at the ends of these
// ranges to see how far that moves its result. Bounds become unknown, never
// too small, where that proves nothing.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/layout.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
// The bound where a correct kernel may make anything, infinities and NaN too.
constexpr double kOpen = std::numeric_limits<double>::infinity();

// Every further input with an error doubles the number of evaluations.
constexpr size_t kMostInexactInputs = 5;

bool IsExact(const Bounds& bounds) {
  return std::ranges::all_of(bounds.proved,
                             [](double bound) { return bound == 0; });
}

// Each element of an output of these operators is one of the first input;
// further inputs say only which one.
constexpr std::string_view kMovers[] = {
    "DepthToSpace", "Expand",       "Flatten",  "Gather",  "Identity",
    "Reshape",      "Slice",        "Split",    "Squeeze", "Tile",
    "Transpose",    "SpaceToDepth", "Unsqueeze"};

bool IsAmong(absl::Span<const std::string_view> kinds,
             const Operation& operation) {
  return operation.def().domain.empty() &&
         std::ranges::find(kinds, operation.kind()) != kinds.end();
}

// Operators besides kMovers whose results are numbers that they have read, or
// exact in any type.
constexpr std::string_view kChoosers[] = {
    "Abs",  "Ceil",  "Clip",    "Concat",    "Floor",     "GatherElements",
    "Max",  "Min",   "MaxPool", "ReduceMax", "ReduceMin", "GatherND",
    "Neg",  "Pad",   "Relu",    "Round",     "Sign",      "ScatterElements",
    "TopK", "Trilu", "Where",   "ScatterND"};

// Nothing is rounded where the result is in the type of what it was made of.
bool HasNothingToRound(const Operation& operation, const Tensors& inputs,
                       DLDataType output) {
  if (!IsAmong(kChoosers, operation) && !IsAmong(kMovers, operation)) {
    return false;
  }
  return std::ranges::all_of(inputs, [&](const NDArray& input) {
    return !input.defined() || !IsFloat(input.dtype()) ||
           TensorType(input.dtype()) == TensorType(output);
  });
}

// Where scales and zero points are exact, these compute element by element, and
// are monotonic.
bool IsQuantizing(const Operation& operation) {
  const std::string_view kind = operation.kind();
  return kind == "QuantizeLinear" || kind == "DequantizeLinear" ||
         kind == "FakeQuantize";
}

bool HasPole(const Operation& operation, size_t slot) {
  return (operation.kind() == "Div" && slot == 1) ||
         (operation.kind() == "Reciprocal" && slot == 0);
}

// Selects one of the two bounds.
using BoundList = std::vector<double> Bounds::*;
constexpr BoundList kBothLists[] = {&Bounds::proved, &Bounds::expected};

// One value that an operation reads and that may be off. An operation that
// reads it twice (the square of a number) reads the same number twice.
struct InexactInput {
  std::vector<size_t> slots;
  std::vector<double> values;
  const Bounds* bounds;
  bool has_pole = false;
};

class BoundsCarrier {
 public:
  explicit BoundsCarrier(const Network& network) : network_(network) {}

  void SetInput(ValueId id, const NDArray& tensor) {
    known_[id] = {tensor, {}};
  }

  void SetMade(ValueId id, BoundedTensor made) {
    known_[id] = std::move(made);
    if (!IsOutput(id)) AddRounding(&known_[id]);
  }

  absl::Status Run(const Operation& operation) {
    NODEWISE_ASSIGN_OR_RETURN(
        Evaluated made,
        Evaluate(operation.attrs, TensorsOf(operation), {true}, {true, {}}));
    return AddRun({operation, std::move(made), {}});
  }

  absl::Status AddRun(const OperationRun& run) {
    const Operation& operation = run.operation;
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const NDArray& output = run.result.outputs[i];
      if (operation.outputs[i] == kNoValue || !output.defined()) continue;
      // An operation that only moves exact values is exact, too.
      known_[operation.outputs[i]] = {
          output, IsMove(operation) ? Bounds() : run.result.bounds[i]};
    }
    NODEWISE_RETURN_IF_ERROR(Widen(operation));
    if (IsMove(operation)) return absl::OkStatus();
    for (const ValueId id : operation.outputs) {
      if (id == kNoValue || IsOutput(id) || !known_[id].tensor.defined() ||
          HasNothingToRound(operation, TensorsOf(operation),
                            known_[id].tensor.dtype())) {
        continue;
      }
      AddRounding(&known_[id]);
    }
    return absl::OkStatus();
  }

  BoundedTensor Known(ValueId id) const {
    const NetworkValue& value = network_.value(id);
    const auto known = known_.find(id);
    BoundedTensor result =
        known != known_.end() ? known->second : BoundedTensor{value.data, {}};
    // Exact values are kept without bounds.
    const auto count = static_cast<size_t>(CountOf(result.tensor));
    result.bounds.proved.resize(count);
    result.bounds.expected.resize(count);
    return result;
  }

 private:
  static bool IsMove(const Operation& operation) {
    return operation.attrs.As<ops::Transpose>() != nullptr;
  }

  // Returns whether the value comes out of the network, as it is or with its
  // elements moved.
  bool IsOutput(ValueId id) const {
    const auto& uses = network_.value(id).uses;
    return network_.IsOutput(id) ||
           std::ranges::any_of(uses, [this](const Use& use) {
             const Operation& user = network_.operation(use.user);
             return IsMove(user) && IsOutput(user.outputs[0]);
           });
  }

  // A kernel that fuses operations need not round what is between them. 0 is
  // what it is: divisors of 0 would be poles otherwise.
  static void AddRounding(BoundedTensor* between) {
    if (!between->tensor.defined()) return;
    const DLDataType dtype = between->tensor.dtype();
    if (!IsFloat(dtype)) return;
    const std::vector<double> values = ToDoubles(between->tensor);
    Bounds& bounds = between->bounds;
    bounds.proved.resize(values.size());
    bounds.expected.resize(values.size());
    const HalfUlps half_ulp(dtype);
    double* const proved = bounds.proved.data();
    double* const expected = bounds.expected.data();
    for (size_t i = 0; i < values.size(); ++i) {
      const double rounding = values[i] == 0 ? 0 : half_ulp(values[i]);
      proved[i] += rounding;
      expected[i] += rounding;
    }
  }

  absl::Status Widen(const Operation& operation) {
    if (MayBeFolded(operation)) AddFoldedRounding(operation.inputs[0]);
    const std::vector<InexactInput> inexact = InexactInputsOf(operation);
    if (inexact.empty()) return absl::OkStatus();
    const bool is_first_alone =
        inexact.size() == 1 && inexact[0].slots == std::vector<size_t>{0};
    if (is_first_alone && IsAmong(kMovers, operation)) {
      return MoveBounds(operation);
    }
    const bool is_followed =
        IsElementwise(operation) || (is_first_alone && IsQuantizing(operation));
    if (!is_followed || inexact.size() > kMostInexactInputs) {
      ForgetBounds(operation, inexact);
      return absl::OkStatus();
    }
    BoundedTensor& output = known_.at(operation.outputs[0]);
    const std::vector<double> middle = ToDoubles(output.tensor);
    // Which element of the output depends on which of the input is known only
    // where they are as many.
    if (std::ranges::any_of(inexact, [&](const InexactInput& input) {
          return input.values.size() != middle.size();
        })) {
      ForgetBounds(operation, inexact);
      return absl::OkStatus();
    }
    for (const BoundList list : kBothLists) {
      NODEWISE_ASSIGN_OR_RETURN(
          const auto bounds, BoundsAtCorners(operation, inexact, middle, list));
      MakeLarger(bounds, &(output.bounds.*list));
    }
    return absl::OkStatus();
  }

  // Kernels multiply the weights of a convolution by the factors of a batch
  // normalization behind it, once and for all.
  bool MayBeFolded(const Operation& operation) const {
    if (!operation.def().domain.empty() ||
        operation.kind() != "BatchNormalization") {
      return false;
    }
    const NetworkValue& x = network_.value(operation.inputs[0]);
    return x.kind == NetworkValue::Kind::kOutput &&
           network_.operation(x.producer).inputs.size() >= 2;
  }

  // Each of the weights is rounded once more then: one rounding beside as many
  // as there are terms.
  void AddFoldedRounding(ValueId sums) {
    const Operation& producer =
        network_.operation(network_.value(sums).producer);
    if (producer.inputs[1] == kNoValue) return;
    const auto weights = known_.find(producer.inputs[1]);
    const NDArray w = weights != known_.end()
                          ? weights->second.tensor
                          : network_.value(producer.inputs[1]).data;
    const auto known = known_.find(sums);
    if (!w.defined() || w.shape().size() < 2 || known == known_.end()) return;
    const auto outputs = std::max(w.shape()[0], w.shape()[1]);
    const double terms = std::max(
        1.0, static_cast<double>(CountOf(w) / std::max<int64_t>(outputs, 1)));
    Bounds& bounds = known->second.bounds;
    for (double& bound : bounds.proved) bound *= 1 + 1 / terms;
    for (double& bound : bounds.expected) bound *= 1 + 1 / std::sqrt(terms);
  }

  absl::Status MoveBounds(const Operation& operation) {
    const Bounds& from = known_.at(operation.inputs[0]).bounds;
    const absl::InlinedVector<bool, 4> wanted(operation.outputs.size(), true);
    for (const BoundList list : kBothLists) {
      Tensors inputs = TensorsOf(operation);
      NODEWISE_ASSIGN_OR_RETURN(
          inputs[0], FromDoubles(from.*list, inputs[0].shape(), kFloat64));
      NODEWISE_ASSIGN_OR_RETURN(
          const Evaluated moved,
          Evaluate(operation.attrs, std::move(inputs), wanted));
      for (size_t i = 0; i < operation.outputs.size(); ++i) {
        const auto output = known_.find(operation.outputs[i]);
        if (operation.outputs[i] == kNoValue || output == known_.end()) {
          continue;
        }
        output->second.bounds.*list = ToDoubles(moved.outputs[i]);
      }
    }
    return absl::OkStatus();
  }

  // By value and not by slot: a value that is read twice moves in both slots
  // at once.
  std::vector<InexactInput> InexactInputsOf(const Operation& operation) const {
    std::map<ValueId, InexactInput> inexact;
    for (size_t slot = 0; slot < operation.inputs.size(); ++slot) {
      const auto known = known_.find(operation.inputs[slot]);
      if (known == known_.end() || IsExact(known->second.bounds)) continue;
      InexactInput& input = inexact[known->first];
      input.slots.push_back(slot);
      input.has_pole |= HasPole(operation, slot);
      input.bounds = &known->second.bounds;
    }
    std::vector<InexactInput> inputs;
    for (auto& [id, input] : inexact) {
      input.values = ToDoubles(known_.at(id).tensor);
      inputs.push_back(std::move(input));
    }
    return inputs;
  }

  // Where an input may be anything, so may the result.
  void ForgetBounds(const Operation& operation,
                    const std::vector<InexactInput>& inexact) {
    const bool is_open =
        std::ranges::any_of(inexact, [](const InexactInput& input) {
          const std::vector<double>& proved = input.bounds->proved;
          return std::ranges::any_of(
              proved, [](double bound) { return std::isinf(bound); });
        });
    for (const ValueId id : operation.outputs) {
      const auto known = known_.find(id);
      if (id == kNoValue || known == known_.end()) continue;
      const auto count = static_cast<size_t>(CountOf(known->second.tensor));
      auto& [proved, expected] = known->second.bounds;
      expected.assign(count, kUnknown);
      proved.resize(count);
      for (double& bound : proved) {
        bound = is_open || std::isinf(bound) ? kOpen : kUnknown;
      }
    }
  }

  // Evaluates the operation with its inexact inputs at all corners of the box
  // that they lie in. Returns how far the results are from `middle`, with the
  // operation's own bounds there.
  absl::StatusOr<std::vector<double>> BoundsAtCorners(
      const Operation& operation, const std::vector<InexactInput>& inexact,
      const std::vector<double>& middle, BoundList list) const {
    std::vector<double> largest(middle.size());
    const Tensors given = TensorsOf(operation);
    std::vector<std::array<NDArray, 2>> ends(inexact.size());
    for (size_t i = 0; i < inexact.size(); ++i) {
      const NDArray& read = given[inexact[i].slots[0]];
      for (const size_t end : {0, 1}) {
        NODEWISE_ASSIGN_OR_RETURN(
            ends[i][end], Moved(read, inexact[i], end == 0 ? -1 : 1, list));
      }
    }
    const bool has_pole = std::ranges::any_of(
        inexact, [](const InexactInput& input) { return input.has_pole; });
    for (uint32_t corner = 0; corner < 1U << inexact.size(); ++corner) {
      Tensors inputs = given;
      for (size_t i = 0; i < inexact.size(); ++i) {
        for (const size_t slot : inexact[i].slots) {
          inputs[slot] = ends[i][corner >> i & 1];
        }
      }
      NODEWISE_ASSIGN_OR_RETURN(
          const Evaluated made,
          Evaluate(operation.attrs, std::move(inputs), {true}, {true, {}}));
      const std::vector<double> found = ToDoubles(made.outputs[0]);
      std::vector<double> bounds = made.bounds[0].*list;
      for (size_t i = 0; i < found.size(); ++i) {
        // Equal infinities are not apart.
        const double apart = std::fabs(found[i] - middle[i]);
        bounds[i] += found[i] == middle[i] ? 0 : apart;
        // A corner gives NaN: so may a kernel in place of the infinity.
        if (!has_pole && std::isnan(found[i]) && std::isinf(middle[i])) {
          bounds[i] = kOpen;
        }
      }
      for (const InexactInput& input : inexact) {
        const double* const read = (input.bounds->*list).data();
        for (size_t i = 0; i < bounds.size(); ++i) {
          if (std::isnan(read[i])) bounds[i] = kUnknown;
          if (std::isinf(read[i])) bounds[i] = kOpen;
        }
      }
      MakeLarger(bounds, &largest);
    }
    return largest;
  }

  // Constants are in no run, so that they are read from the network.
  Tensors TensorsOf(const Operation& operation) const {
    Tensors inputs(operation.inputs.size());
    for (size_t slot = 0; slot < inputs.size(); ++slot) {
      const ValueId id = operation.inputs[slot];
      if (id == kNoValue) continue;
      const auto known = known_.find(id);
      inputs[slot] = known != known_.end() ? known->second.tensor
                                           : network_.value(id).data;
    }
    return inputs;
  }

  // Ends are rounded away from the tensor: every real number in the range
  // counts, not only those that the type has.
  static absl::StatusOr<NDArray> Moved(const NDArray& tensor,
                                       const InexactInput& input, double sign,
                                       BoundList list) {
    std::vector<double> values = input.values;
    const double* const bounds = (input.bounds->*list).data();
    for (size_t i = 0; i < values.size(); ++i) {
      const bool at_pole = input.has_pole && std::fabs(values[i]) <= bounds[i];
      values[i] += at_pole ? kUnknown : sign * bounds[i];
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray moved,
        FromDoubles(values, tensor.shape(), tensor.dtype()));
    const std::vector<double> stored = ToDoubles(moved);
    const HalfUlps half_ulp(tensor.dtype());
    for (size_t i = 0; i < values.size(); ++i) {
      const double away = sign * half_ulp(values[i]);
      values[i] += sign * (values[i] - stored[i]) <= 0 ? 0 : away;
    }
    StoreDoubles(values.data(), 0, CountOf(moved), moved);
    return moved;
  }

  // An unknown bound stays unknown.
  static void MakeLarger(const std::vector<double>& bounds,
                         std::vector<double>* largest) {
    double* const to = largest->data();
    for (size_t i = 0; i < bounds.size(); ++i) {
      const bool is_larger = !(bounds[i] <= to[i]) && !std::isnan(to[i]);
      to[i] = is_larger ? bounds[i] : to[i];
    }
  }

  const Network& network_;
  // The values that were given and made. Regions are small, so none is let go.
  std::map<ValueId, BoundedTensor> known_;
};

}  // namespace

// Operations are evaluated here one by one: the tensors may be parts of those
// that a run of the network makes.
absl::StatusOr<BoundedTensor> CarryBounds(
    const Network& network, ValueId from,
    absl::Span<const Operation* const> operations,
    std::map<ValueId, BoundedTensor> known) {
  BoundsCarrier carrier(network);
  for (auto& [id, value] : known) {
    if (id != from) carrier.SetInput(id, value.tensor);
  }
  carrier.SetMade(from, std::move(known[from]));
  for (const Operation* operation : operations) {
    NODEWISE_RETURN_IF_ERROR(carrier.Run(*operation));
  }
  return carrier.Known(operations.empty() ? from
                                          : operations.back()->outputs[0]);
}

absl::StatusOr<std::vector<BoundedTensor>> InterpretCarryingBounds(
    const Network& network, std::vector<NDArray> inputs) {
  BoundsCarrier carrier(network);
  for (size_t i = 0; i < inputs.size() && i < network.inputs().size(); ++i) {
    carrier.SetInput(network.inputs()[i], inputs[i]);
  }
  InterpretOptions options;
  options.with_bounds = true;
  options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
    NODEWISE_RETURN_IF_ERROR(carrier.AddRun(run));
    return false;
  };
  NODEWISE_RETURN_IF_ERROR(
      Interpret(network, std::move(inputs), options).status());
  std::vector<BoundedTensor> outputs;
  for (const ValueId id : network.outputs()) {
    outputs.push_back(carrier.Known(id));
  }
  return outputs;
}

}  // namespace nodewise
