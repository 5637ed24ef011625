#include "tests/measure/exact_effect.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status.h"
#include "tests/measure/node_tensors.h"

namespace nodewise {
namespace {

using Tensors = std::vector<NDArray>;

constexpr uint64_t kDraws = 4;
constexpr int64_t kLargest = 2;
// One of so many numbers is not 0. The first that makes no sum too large for
// its type counts.
constexpr int64_t kEvery[] = {1, 4, 16, 64};

// What multiplies and adds. All else that is exact only moves and chooses.
constexpr std::string_view kSums[] = {"Add",       "Conv", "ConvTranspose",
                                      "Gemm",      "Mul",  "MatMul",
                                      "ReduceSum", "Sub",  "Sum"};

// Whether a network is one of sums, products, convolutions, gathers and their
// chains. Other operations that happen to make whole numbers, as a norm of
// zeros does, are not exact computations.
bool IsOfExactKinds(const Network& network) {
  const auto& order = network.order();
  return std::all_of(order.begin(), order.end(), [&](OperationId id) {
    const Operation& operation = network.operation(id);
    return operation.def().bound.kind == ErrorBound::Kind::kExact ||
           std::find(std::begin(kSums), std::end(kSums), operation.kind()) !=
               std::end(kSums);
  });
}

absl::StatusOr<NDArray> DrawWholeNumbers(const NDArray& like, size_t input,
                                         int64_t every, uint64_t seed) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray drawn,
                            NDArray::Empty(like.shape(), like.dtype(), kCpu));
  RandomSource random(seed, fmt::format("whole numbers {}", input));
  // A number that is not a float may be a place.
  const bool is_float = IsFloat(like.dtype());
  std::vector<double> numbers(static_cast<size_t>(CountOf(drawn)));
  for (double& number : numbers) {
    if (random.Between(1, every) != 1) continue;
    number = static_cast<double>(is_float ? random.Between(-kLargest, kLargest)
                                          : random.Between(0, 1));
  }
  StoreDoubles(numbers.data(), 0, CountOf(drawn), drawn);
  return drawn;
}

absl::StatusOr<Tensors> WithoutSigns(const Tensors& tensors) {
  Tensors sizes;
  for (const NDArray& tensor : tensors) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray copy, tensor.CopyToHost());
    std::vector<double> numbers = ToDoubles(copy);
    for (double& number : numbers) number = std::fabs(number);
    StoreDoubles(numbers.data(), 0, CountOf(copy), copy);
    sizes.push_back(copy);
  }
  return sizes;
}

// Whether all that operations make is whole, and small enough that the type has
// all whole numbers up to there.
bool IsWholeAndSmall(const NDArray& tensor) {
  if (!tensor.defined() || !IsFloat(tensor.dtype())) return true;
  const double first_gap = 1 / UnitRoundoff(tensor.dtype());
  const std::vector<double> numbers = ToDoubles(tensor);
  return std::all_of(numbers.begin(), numbers.end(), [&](double x) {
    return std::fabs(x) < first_gap && x == std::trunc(x);
  });
}

// A network that cannot be computed with whole numbers, as they are not shapes,
// does not stay whole either.
bool StaysWhole(const Network& network, const Tensors& inputs,
                Tensors* outputs) {
  bool is_whole = true;
  InterpretOptions options;
  options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
    for (const NDArray& output : run.result.outputs) {
      is_whole = is_whole && IsWholeAndSmall(output);
    }
    return false;
  };
  auto made = Interpret(network, inputs, options);
  if (!made.ok()) return false;
  *outputs = *std::move(made);
  return is_whole;
}

// Zeros of either sign are equal, and so are NaN.
bool AreEqual(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> left = ToDoubles(a[i]), right = ToDoubles(b[i]);
    const auto is_equal = [](double x, double y) {
      return x == y || (std::isnan(x) && std::isnan(y));
    };
    if (!std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    is_equal)) {
      return false;
    }
  }
  return true;
}

// The node with and without its fault.
class ExactNode {
 public:
  ExactNode(const SubjectTarget& right, const SubjectTarget& wrong, NodeId node,
            const std::vector<NamedTensor>& inputs)
      : right_(right), wrong_(wrong), node_(node), inputs_(inputs) {}

  absl::StatusOr<ExactEffect> Measure() {
    NODEWISE_ASSIGN_OR_RETURN(tensors_, TensorsOf(right_, node_, inputs_));
    NODEWISE_ASSIGN_OR_RETURN(
        const Region region,
        RegionOfNode(right_.target->graph(), node_, tensors_));
    if (!IsOfExactKinds(region.network)) return ExactEffect::kNotExact;
    for (const int64_t every : kEvery) {
      ExactEffect effect = ExactEffect::kNotExact;
      for (uint64_t draw = 1; draw <= kDraws; ++draw) {
        NODEWISE_ASSIGN_OR_RETURN(effect, TryDraw(region, every, draw));
        if (effect != ExactEffect::kSameBits) break;
      }
      if (effect != ExactEffect::kNotExact) return effect;
    }
    return ExactEffect::kNotExact;
  }

 private:
  absl::StatusOr<ExactEffect> TryDraw(const Region& region, int64_t every,
                                      uint64_t draw) const {
    Tensors drawn;
    for (size_t i = 0; i < tensors_.inputs.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(
          NDArray tensor,
          DrawWholeNumbers(tensors_.inputs[i], FirstOf(i), every, draw));
      drawn.push_back(std::move(tensor));
    }
    NODEWISE_ASSIGN_OR_RETURN(const Tensors sizes, WithoutSigns(drawn));
    Tensors expected, largest;
    if (!StaysWhole(region.network, sizes, &largest) ||
        !StaysWhole(region.network, drawn, &expected)) {
      return ExactEffect::kNotExact;
    }
    NODEWISE_ASSIGN_OR_RETURN(const Tensors sound,
                              OutputsOn(right_, node_, drawn, inputs_));
    if (!AreEqual(sound, expected)) return ExactEffect::kNotExact;
    NODEWISE_ASSIGN_OR_RETURN(const Tensors faulty,
                              OutputsOn(wrong_, node_, drawn, inputs_));
    return AreEqual(sound, faulty) ? ExactEffect::kSameBits
                                   : ExactEffect::kOtherBits;
  }

  // The first input that is the same tensor.
  size_t FirstOf(size_t input) const {
    const Graph& graph = right_.target->graph();
    const auto& refs = graph.node(node_).inputs;
    size_t first = 0;
    while (graph.EntryOf(refs[first]) != graph.EntryOf(refs[input])) ++first;
    return first;
  }

  const SubjectTarget& right_;
  const SubjectTarget& wrong_;
  const NodeId node_;
  const std::vector<NamedTensor>& inputs_;
  NodeTensors tensors_;
};

}  // namespace

std::string_view NameOf(ExactEffect effect) {
  constexpr std::string_view kNames[] = {"not exact", "same bits",
                                         "other bits"};
  return kNames[static_cast<size_t>(effect)];
}

absl::StatusOr<ExactEffect> MeasureExactEffect(
    const Subject& subject, const PlantedGraph& planted,
    const std::vector<NamedTensor>& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(
      const SubjectTarget right,
      TargetOf(subject.name, subject.graph, subject.library, subject.params));
  NODEWISE_ASSIGN_OR_RETURN(
      const SubjectTarget wrong,
      TargetOf(subject.name, planted.graph, planted.library, subject.params));
  return ExactNode(right, wrong, planted.fault.node, inputs).Measure();
}

}  // namespace nodewise
