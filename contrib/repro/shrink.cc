#include "nodewise/repro/shrink.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "contrib/repro/node_trial.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status.h"

// A case is made simpler as long as its failure stays the same: first its
// tensors get shorter sides, then the numbers in them become zeros, ones or
// small integers. Nothing but a run says whether a change is allowed, so that
// runs are what is rationed.

namespace nodewise {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;  // By input.

// Rounded elements have one digit.
constexpr double kLargestInteger = 8;

template <typename E>
struct IsNumber : std::bool_constant<E::kIsCalculated &&
                                     DecodableElement<typename E::Stored>> {};
using NumberElements = ElementsWhere<IsNumber>;

// Sets each element to what `change` makes of its index and its number.
template <typename F>
absl::StatusOr<NDArray> Changed(const NDArray& tensor, F change) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray changed, tensor.CopyToHost());
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(tensor.shape()));
  bool has_numbers = false;
  VisitOneOf(NumberElements{}, tensor.dtype(), [&](auto element) {
    using T = typename decltype(element)::Stored;
    has_numbers = tensor.dtype().lanes == 1;
    if (!has_numbers) return;
    T* const elements = changed.As<T>();
    for (int64_t i = 0; i < count; ++i) {
      const double value = ToDouble(elements[i]);
      const double wanted = change(static_cast<uint64_t>(i), value);
      if (wanted != value) elements[i] = FromDouble<T>(wanted);
    }
  });
  if (has_numbers) return changed;
  return Unimplemented("elements of this type are not numbers");
}

absl::StatusOr<NDArray> FilledLike(const NDArray& tensor, double value) {
  return Changed(tensor, [value](uint64_t, double) { return value; });
}

absl::StatusOr<std::vector<uint64_t>> NonZeroElements(const NDArray& tensor) {
  std::vector<uint64_t> elements;
  const auto note = [&](uint64_t element, double value) {
    if (value != 0) elements.push_back(element);
    return value;
  };
  NODEWISE_RETURN_IF_ERROR(Changed(tensor, note).status());
  return elements;
}

// The elements are sorted.
absl::StatusOr<NDArray> WithZerosAt(const NDArray& tensor,
                                    absl::Span<const uint64_t> elements) {
  return Changed(tensor, [&](uint64_t element, double value) {
    const bool is_one_of_them = std::ranges::binary_search(elements, element);
    return is_one_of_them ? 0 : value;
  });
}

absl::StatusOr<NDArray> WithOnes(const NDArray& tensor) {
  return Changed(tensor,
                 [](uint64_t, double value) { return value == 0 ? 0.0 : 1.0; });
}

// Returns the tensor with each element rounded to an integer from -8 to 8, away
// from zero if it would become one.
absl::StatusOr<NDArray> WithSmallIntegers(const NDArray& tensor) {
  return Changed(tensor, [](uint64_t, double value) {
    if (value == 0 || std::isnan(value)) return value;
    const double size =
        std::clamp(std::round(std::fabs(value)), 1.0, kLargestInteger);
    return std::copysign(size, value);
  });
}

// Returns the part of the tensor that lies at its beginning along each side.
// REQUIRES: `shape` has as many sides, none of them longer.
absl::StatusOr<NDArray> BeginningOf(const NDArray& tensor,
                                    absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides = StridesOf(tensor.shape());
  DLTensor part = *tensor;
  part.shape = const_cast<int64_t*>(shape.data());
  part.strides = strides.data();
  return NDArray::Borrow(part, nullptr).CopyToHost();
}

TensorType WithSizes(const TensorType& type,
                     const std::vector<int64_t>& sizes) {
  return TensorType(type.dtype, Shape(sizes.begin(), sizes.end()));
}

// An empty output shows no failure, and one of unknown size could not be
// compared.
absl::Status SetOutputTypes(Region* region) {
  for (size_t i = 0; i < region->outputs.size(); ++i) {
    const ValueId id = region->network.outputs()[i];
    const auto sizes = region->network.value(id).type.sizes();
    if (!sizes) return InvalidArgument("the size of an output is not known");
    if (std::count(sizes->begin(), sizes->end(), 0) > 0) {
      return InvalidArgument("an output would be empty");
    }
    region->outputs[i] = WithSizes(region->outputs[i], *sizes);
  }
  return absl::OkStatus();
}

// The attributes that say what the node computes, and all others as they are.
void SetAttributes(const Region& region, GraphNode* node) {
  auto attrs = AttributesOf(region);
  for (auto& attribute : node->attrs) {
    if (FindAttribute(attrs, attribute.first) == nullptr) {
      attrs.push_back(std::move(attribute));
    }
  }
  node->attrs = std::move(attrs);
}

// Only built-in functions can be bound to tensors of other sizes.
bool CanBeResized(const ReproCase& node_case) {
  return node_case.library_file.empty() && node_case.region &&
         HasBuiltInFunctions(node_case.graph);
}

// Returns the case with inputs of these sizes, each the beginning of what it
// was, and without outputs. Fails with the error of the network if the node
// does not allow these sizes, and with kInvalidArgument if what it makes would
// be empty or of unknown size. REQUIRES: CanBeResized(), and a shape of as many
// sides, none of them longer, for each input.
absl::StatusOr<ReproCase> Resized(const ReproCase& node_case,
                                  const Shapes& shapes) {
  ReproCase resized = node_case;
  Region& region = *resized.region;
  const std::vector<ValueId> inputs(region.network.inputs().begin(),
                                    region.network.inputs().end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    ReproInput& input = resized.inputs[i];
    if (absl::MakeConstSpan(shapes[i]) == input.tensor.shape()) continue;
    NODEWISE_RETURN_IF_ERROR(region.network.SetInputType(
        inputs[i], WithSizes(TensorType::From(*input.tensor), shapes[i])));
    NODEWISE_ASSIGN_OR_RETURN(input.tensor,
                              BeginningOf(input.tensor, shapes[i]));
    if (!input.original.defined()) input.original = node_case.inputs[i].tensor;
  }
  NODEWISE_RETURN_IF_ERROR(SetOutputTypes(&region));
  Graph& graph = resized.graph;
  for (size_t i = 0; i < shapes.size(); ++i) graph.entries[i].shape = shapes[i];
  for (size_t i = 0; i < region.outputs.size(); ++i) {
    graph.entries[shapes.size() + i].shape = *region.outputs[i].sizes();
  }
  SetAttributes(region, &graph.nodes.back());
  NODEWISE_ASSIGN_OR_RETURN(resized.graph, ReadBack(graph));
  for (ReproOutput& output : resized.outputs) {
    output = {output.role, NDArray()};
  }
  return resized;
}

struct Shrinker {
  static constexpr bool kEvenIfNoRunsAreLeft = true;

  const uint64_t most_runs;
  ReproCase& node_case;
  const FailureKind kind;
  const ReproCase original = node_case;
  std::unique_ptr<NodeTrial> trial = nullptr;  // Runs the node of `node_case`.
  uint64_t runs = 0;

  absl::Status Run() {
    NODEWISE_RETURN_IF_ERROR(Bind());
    if (!Try(TensorsOf(node_case.inputs))) return GiveUp();
    // Half of the runs are left for the values.
    if (CanBeResized(node_case)) ShrinkShapes(most_runs / 2);
    for (size_t i = 0; i < node_case.inputs.size(); ++i) {
      if (MayChange(i)) ShrinkValues(i, runs + runs_left() / 2 + 1);
    }
    if (!Try(TensorsOf(node_case.inputs), kEvenIfNoRunsAreLeft))
      return GiveUp();
    node_case.shrink_runs = runs;
    return absl::OkStatus();
  }

  uint64_t runs_left() const { return runs < most_runs ? most_runs - runs : 0; }

  // A fault may lie in how a kernel keeps its parameters, and a constant
  // decides what the node computes.
  bool MayChange(size_t input) const {
    return !node_case.inputs[input].is_param &&
           !node_case.region->is_constant[input];
  }

  absl::Status Bind() {
    NODEWISE_ASSIGN_OR_RETURN(trial, NodeTrial::Create(node_case));
    return absl::OkStatus();
  }

  absl::Status GiveUp() {
    node_case = original;
    node_case.shrink_runs = runs;
    return absl::OkStatus();
  }

  // Inputs that cannot be run do not show the same failure.
  bool Try(const std::vector<NDArray>& inputs, bool always = false) {
    if (runs_left() == 0 && !always) return false;
    ++runs;
    auto outputs = trial->Run(inputs);
    if (!outputs.ok() || !ShowsWith(inputs, *outputs)) return false;
    node_case.outputs = *std::move(outputs);
    return true;
  }

  bool ShowsWith(const std::vector<NDArray>& inputs,
                 const std::vector<ReproOutput>& outputs) const {
    if (!node_case.failure) return Shows(outputs, kind);
    return FailsAsBefore(node_case, inputs).value_or(false);
  }

  // The tensor that the network gave is kept the first time that the input
  // changes.
  bool TryInput(size_t index, absl::StatusOr<NDArray> tensor) {
    if (!tensor.ok()) return false;
    std::vector<NDArray> inputs = TensorsOf(node_case.inputs);
    inputs[index] = *tensor;
    if (!Try(inputs)) return false;
    ReproInput& input = node_case.inputs[index];
    if (!input.original.defined()) input.original = input.tensor;
    input.tensor = *std::move(tensor);
    return true;
  }

  // Zeros everywhere are simplest. If they do not show the failure, ones are
  // tried, then as many elements as possible become zero, and the rest ones or
  // small integers.
  void ShrinkValues(size_t index, uint64_t last_run) {
    const NDArray& tensor = node_case.inputs[index].tensor;
    auto elements = NonZeroElements(tensor);
    if (!elements.ok() || elements->empty()) return;
    if (TryInput(index, FilledLike(tensor, 0))) return;
    const bool are_ones = TryInput(index, FilledLike(tensor, 1));
    if (are_ones) elements = NonZeroElements(tensor);
    DropElements(index, last_run, *std::move(elements));
    if (are_ones || TryInput(index, WithOnes(tensor))) return;
    TryInput(index, WithSmallIntegers(tensor));
  }

  // Zeros halves of what is left, then quarters, and so on: each time that a
  // part may go, it goes.
  void DropElements(size_t index, uint64_t last_run,
                    std::vector<uint64_t> left) {
    size_t parts = 2;
    while (left.size() > 1 && parts <= 2 * left.size() && runs < last_run) {
      const size_t size = (left.size() + parts - 1) / parts;
      bool has_dropped = false;
      for (size_t begin = 0; begin < left.size() && runs < last_run;) {
        const size_t end = std::min(begin + size, left.size());
        const auto part = absl::MakeConstSpan(left).subspan(begin, end - begin);
        const NDArray& tensor = node_case.inputs[index].tensor;
        if (part.size() < left.size() &&
            TryInput(index, WithZerosAt(tensor, part))) {
          left.erase(left.begin() + static_cast<ptrdiff_t>(begin),
                     left.begin() + static_cast<ptrdiff_t>(end));
          has_dropped = true;
        } else {
          begin = end;
        }
      }
      if (!has_dropped || size == 1) parts *= 2;
    }
  }

  Shapes CurrentShapes() const {
    Shapes shapes;
    for (const ReproInput& input : node_case.inputs) {
      const absl::Span<const int64_t> shape = input.tensor.shape();
      shapes.emplace_back(shape.begin(), shape.end());
    }
    return shapes;
  }

  // First what all inputs have in common, such as the batch, then each input's
  // sides for themselves.
  void ShrinkShapes(uint64_t last_run) {
    for (size_t side = 0; side < static_cast<size_t>(kMostDims); ++side) {
      int64_t size = -1;
      for (size_t i = 0; i < node_case.inputs.size(); ++i) {
        const auto shape = node_case.inputs[i].tensor.shape();
        if (MayChange(i) && side < shape.size()) {
          size = std::max(size, shape[side]);
        }
      }
      if (size < 0) break;
      ShrinkSide(side, size, last_run, std::nullopt);
    }
    for (size_t i = 0; i < node_case.inputs.size(); ++i) {
      if (!MayChange(i)) continue;
      const size_t rank = node_case.inputs[i].tensor.shape().size();
      for (size_t side = 0; side < rank; ++side) {
        ShrinkSide(side, node_case.inputs[i].tensor.shape()[side], last_run, i);
      }
    }
  }

  // A side is shortened to 1, or else by halves as long as that works.
  void ShrinkSide(size_t side, int64_t size, uint64_t last_run,
                  std::optional<size_t> input) {
    if (size <= 1 || TrySide(side, size, 1, last_run, input)) return;
    while (size > 2 && TrySide(side, size, size / 2, last_run, input)) {
      size /= 2;
    }
  }

  // Shortens that side of one input, or of all that have this size there.
  bool TrySide(size_t side, int64_t from, int64_t to, uint64_t last_run,
               std::optional<size_t> input) {
    if (runs >= last_run) return false;
    Shapes shapes = CurrentShapes();
    for (size_t i = 0; i < shapes.size(); ++i) {
      const bool is_meant = MayChange(i) && input.value_or(i) == i &&
                            side < shapes[i].size() && shapes[i][side] == from;
      if (is_meant) shapes[i][side] = to;
    }
    auto resized = Resized(node_case, shapes);
    if (!resized.ok()) return false;
    ReproCase larger = std::exchange(node_case, *std::move(resized));
    auto larger_trial = std::move(trial);
    if (Bind().ok() && Try(TensorsOf(node_case.inputs))) return true;
    node_case = std::move(larger);
    trial = std::move(larger_trial);
    return false;
  }
};

}  // namespace

absl::Status ShrinkCase(const ShrinkOptions& options, ReproCase* node_case) {
  if (options.most_runs == 0 || !node_case->region) return absl::OkStatus();
  if (node_case->failure) {
    // Two runs are for the beginning and the end.
    const bool can_be_tried = node_case->fails_alone.value_or(false) &&
                              HangBudget(options, *node_case) > 2;
    if (!can_be_tried) return absl::OkStatus();
  } else if (!node_case->may_run || node_case->FindWrong() == nullptr) {
    return absl::OkStatus();
  }
  Shrinker shrinker{RunBudget(options, *node_case), *node_case,
                    node_case->failure ? FailureKind() : KindOf(*node_case)};
  return shrinker.Run();
}

}  // namespace nodewise
