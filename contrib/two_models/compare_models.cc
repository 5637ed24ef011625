// Which layers make two models of one network differ.
//
// First the values are paired. A layer is what lies between pairs: operations
// of the reference, and those of the target that stand for them. Then each
// layer of the target is put into the reference alone, which shows what it
// costs where all else is right; the most costly ones are put back in the
// target. Of a target with fewer bits a curve is drawn, from no layer kept to
// all, and the number of layers to keep is read from it.

#include "nodewise/two_models/compare_models.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "contrib/two_models/mixed_models.h"
#include "contrib/two_models/model_side.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Smaller errors are what rounding does to a few operations of float32, and are
// not worth a run of all that is behind the layer.
constexpr double kRounding = 4e-6;
// Larger errors are not made by rounding to few bits: numbers have gone
// elsewhere.
constexpr double kMoved = 0.25;
// How much of a model's tensors stays in memory: each is read again for every
// layer.
constexpr size_t kMostBytes = size_t{512} << 20;
constexpr size_t kNoPair = SIZE_MAX;
// How many tools that round otherwise the error with a keep-list is measured
// for.
constexpr uint64_t kTools = 16;

bool ComputesInIntegers(const Network& network) {
  return std::ranges::any_of(network.order(), [&](OperationId id) {
    const std::string_view kind = network.operation(id).kind();
    return kind == "QuantizeLinear" || kind == "DynamicQuantizeLinear" ||
           IsOfIntegers(kind) || kind == "MatMulInteger" ||
           kind == "ConvInteger";
  });
}

// The static quantiser of onnxruntime lowers these unless it is told otherwise.
// It passes all else by.
bool IsQuantised(std::string_view kind) {
  constexpr std::array<std::string_view, 11> kKinds[] = {
      {"Add", "ArgMax", "AveragePool", "BatchNormalization", "Clip", "Concat",
       "Conv", "ConvTranspose", "CumSum", "Flatten", "Gather"},
      {"GatherElements", "Gemm", "GlobalAveragePool", "MatMul",
       "InstanceNormalization", "MaxPool", "LayerNormalization", "Mul",
       "LeakyRelu", "Pad", "Relu"},
      {"Reshape", "Resize", "Sigmoid", "Slice", "Softmax", "Split", "Squeeze",
       "TopK", "Transpose", "Unsqueeze", "Where"},
  };
  return std::ranges::any_of(kKinds, [kind](const auto& row) {
    return std::ranges::find(row, kind) != row.end();
  });
}

bool HasFloats(const Network& network, DLDataType dtype) {
  return std::ranges::any_of(network.order(), [&](OperationId id) {
    const ValueId output = network.operation(id).outputs[0];
    return output != kNoValue && network.value(output).type.dtype == dtype;
  });
}

// Whether two operations compute the same of what they are given, as far as
// kind, attributes and constants say.
// Inputs that are not constants are not compared: both operations lie between
// the same pairs.
bool AreTwins(const Network& network, OperationId id, const Network& other,
              OperationId other_id) {
  const Operation& a = network.operation(id);
  const Operation& b = other.operation(other_id);
  // In another opset the row is another one, and may have the same class.
  if (a.kind() != b.kind() || a.def().type != b.def().type ||
      !a.def().equal(a.attrs.get(), b.attrs.get()) ||
      a.inputs.size() != b.inputs.size()) {
    return false;
  }
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    if ((a.inputs[i] == kNoValue) != (b.inputs[i] == kNoValue)) return false;
    if (a.inputs[i] == kNoValue) continue;
    const NDArray& x = network.value(a.inputs[i]).data;
    const NDArray& y = other.value(b.inputs[i]).data;
    if (x.defined() != y.defined()) return false;
    if (x.defined() && !HaveOneContent(x, y)) return false;
  }
  return true;
}

// Integers come before floats: a model that computes in both was quantised, and
// its floats are what is left of it.
std::string LoweredTo(const Network& reference, const Network& target) {
  if (ComputesInIntegers(target) && !ComputesInIntegers(reference)) {
    return "8-bit integers";
  }
  const std::pair<DLDataType, const char*> shorter[] = {
      {kFloat16, "float16"}, {kBfloat16, "bfloat16"}};
  for (const auto& [dtype, name] : shorter) {
    if (HasFloats(target, dtype) && !HasFloats(reference, dtype)) return name;
  }
  return "";
}

// The operations between pairs of one model.
struct Layer {
  std::vector<OperationId> operations;  // In the order of the model.
  // Those that make what it reads of constants alone.
  std::vector<OperationId> constants;
  std::vector<size_t> reads;  // The pairs before it.
};

// Returns what makes the last value of a chain out of those of other pairs.
// `pair_of` is by the first value of a chain.
Layer LayerOf(const ModelSide& side, const ValueChain& chain,
              const std::vector<size_t>& pair_of) {
  const Network& network = side.network();
  Layer layer;
  std::vector<ValueId> waiting = {chain.read};
  std::vector<bool> seen(network.data().operations.size());
  while (!waiting.empty()) {
    const NetworkValue& value = network.value(waiting.back());
    waiting.pop_back();
    if (value.kind != NetworkValue::Kind::kOutput ||
        seen[Index(value.producer)]) {
      continue;
    }
    seen[Index(value.producer)] = true;
    for (const ValueId input : network.operation(value.producer).inputs) {
      if (input == kNoValue) continue;
      const ValueId made =
          side.Varies(input) ? side.ChainOf(input).made : input;
      const size_t pair = pair_of[Index(made)];
      if (made == chain.made || pair == kNoPair) {
        waiting.push_back(input);
      } else {
        layer.reads.push_back(pair);
      }
    }
  }
  for (const OperationId id : network.order()) {
    if (!seen[Index(id)]) continue;
    (side.VariesIn(id) ? layer.operations : layer.constants).push_back(id);
  }
  return layer;
}

int64_t WeightsOf(const Network& network, OperationId id) {
  int64_t count = 0;
  for (const NDArray& constant : ConstantsOf(network, network.operation(id))) {
    count += CountOf(constant);
  }
  return count;
}

// The points of the curve: each of the first few, then at growing distances,
// since each costs a run of both models.
std::vector<size_t> PointsUpTo(size_t count) {
  std::vector<size_t> points;
  size_t next = 1;
  for (size_t kept = 0; kept < count; kept = next) {
    points.push_back(kept);
    next = std::max(kept + 1, kept + kept / 2);
  }
  points.push_back(count);
  return points;
}

class ModelComparer {
 public:
  explicit ModelComparer(const ModelComparisonRequest& request)
      : request_(request),
        reference_side_(request.reference),
        target_side_(request.target) {}

  // The target's numbers are all that there is of it.
  absl::StatusOr<ModelComparison> RunOnTensors() {
    NODEWISE_RETURN_IF_ERROR(MatchInputs());
    RunningModel followed = Reference();
    RunningModel target = Target();
    NODEWISE_ASSIGN_OR_RETURN(result_.pairing,
                              PairModels(&followed, &target, inputs_));
    ListLayers();
    for (ModelLayer& layer : result_.layers) {
      NODEWISE_RETURN_IF_ERROR(CompareMade(&followed, &layer));
    }
    std::erase_if(result_.layers, [](const ModelLayer& layer) {
      return layer.made->verdict() != Verdict::kError;
    });
    for (const ValueId id : result_.pairing.target_alone) {
      result_.tensors_alone.push_back(request_.target.value(id).name);
    }
    return std::move(result_);
  }

  absl::StatusOr<ModelComparison> Run() {
    NODEWISE_RETURN_IF_ERROR(MatchInputs());
    RunningModel reference = Reference();
    RunningModel target = Target();
    // Both models run as they are; what follows is tried on copies, which share
    // what has been computed.
    NODEWISE_ASSIGN_OR_RETURN(expected_, OutputsOf(&reference));
    NODEWISE_RETURN_IF_ERROR(OutputsOf(&target).status());
    RunningModel followed = reference;
    NODEWISE_ASSIGN_OR_RETURN(result_.pairing,
                              PairModels(&followed, &target, inputs_));
    ListLayers();
    result_.lowered = LoweredTo(request_.reference, request_.target);
    if (ComputesInIntegers(request_.target)) LeaveIgnoredByQuantiser();
    MixedModels mixed(result_.pairing, reads_, &reference, &target);
    NODEWISE_RETURN_IF_ERROR(CompareOutputs(&followed, &target));
    if (result_.lowered.empty() && result_.AreOutputsWrong()) {
      const auto type = ShorterWeights(request_.reference, request_.target);
      result_.are_weights_lowered = type.has_value();
      result_.lowered = type.value_or("");
    }
    // Where models of one precision agree, there is nothing to share out, and
    // outputs of other sizes have no error that could be.
    if ((result_.lowered.empty() && !result_.AreOutputsWrong()) ||
        !result_.missing_outputs.empty()) {
      result_.layers.clear();
      return std::move(result_);
    }
    NODEWISE_ASSIGN_OR_RETURN(
        result_.narrow_ranges,
        FindNarrowRanges(result_.pairing, target_side_, &reference));
    NODEWISE_RETURN_IF_ERROR(MeasureAlone(&mixed));
    NODEWISE_RETURN_IF_ERROR(MeasureRepaired(&mixed, &followed));
    if (!result_.lowered.empty()) NODEWISE_RETURN_IF_ERROR(DrawCurve(&mixed));
    return std::move(result_);
  }

 private:
  // Each model on the given inputs. REQUIRES: MatchInputs().
  RunningModel Reference() const {
    return {&reference_side_, FollowedReference(request_.reference,
                                                reference_inputs_, kMostBytes)};
  }
  RunningModel Target() const {
    return {&target_side_,
            FollowedReference(request_.target, request_.inputs, kMostBytes)};
  }

  // All sets have the same inputs, so that the last one says which of them go
  // together.
  absl::Status MatchInputs() {
    for (const std::vector<NDArray>& set : request_.inputs) {
      NODEWISE_ASSIGN_OR_RETURN(
          MatchedInputs matched,
          MatchModelInputs(request_.reference, request_.target, set));
      reference_inputs_.push_back(matched.tensors);
      inputs_ = std::move(matched);
    }
    result_.notes = inputs_.notes;
    return absl::OkStatus();
  }

  // Takes the target's own outputs in the form of the reference's. What went
  // together as a pair may lie otherwise; what has no pair is compared as it
  // is.
  absl::Status CompareOutputs(RunningModel* followed, RunningModel* target) {
    NODEWISE_ASSIGN_OR_RETURN(found_, OutputsOf(followed));
    NODEWISE_ASSIGN_OR_RETURN(const auto own, OutputsOf(target));
    const Network& network = request_.reference;
    for (size_t i = 0; i < network.outputs().size(); ++i) {
      const std::optional<size_t> partner =
          PartnerOfOutput(network, request_.target, i);
      const std::string& name = network.value(network.outputs()[i]).name;
      if (!partner.has_value()) {
        result_.missing_outputs.push_back(
            fmt::format("output {}: the target has none", Printable(name)));
        continue;
      }
      NoteShape(name, own[0][*partner], expected_[0][i]);
      if (!ArePair(network.outputs()[i], request_.target.outputs()[*partner])) {
        for (size_t set = 0; set < own.size(); ++set) {
          found_[set][i] = own[set][*partner];
        }
      }
      if (CountOf(found_[0][i]) != CountOf(expected_[0][i])) {
        result_.missing_outputs.push_back(fmt::format(
            "output {}: has {} in the target, expected {}", Printable(name),
            CountOf(static_cast<uint64_t>(CountOf(found_[0][i])), "element"),
            CountOf(expected_[0][i])));
        continue;
      }
      NODEWISE_RETURN_IF_ERROR(CompareOutput(i, name));
    }
    // Outputs of other sizes have no error that could be shared out.
    result_.error = result_.missing_outputs.empty()
                        ? OutputError(expected_, found_)
                        : std::numeric_limits<double>::infinity();
    return absl::OkStatus();
  }

  bool ArePair(ValueId reference, ValueId target) const {
    return std::ranges::any_of(
        result_.pairing.pairs, [&](const ValuePair& pair) {
          return pair.reference.made == reference_side_.MadeOf(reference) &&
                 pair.target.made == target_side_.MadeOf(target);
        });
  }

  void NoteShape(const std::string& name, const NDArray& found,
                 const NDArray& expected) {
    if (found.shape() == expected.shape()) return;
    result_.notes.push_back(
        fmt::format("output {} is ({}) in the target and ({}) in the reference",
                    Printable(name), fmt::join(found.shape(), ", "),
                    fmt::join(expected.shape(), ", ")));
  }

  absl::Status CompareOutput(size_t output, const std::string& name) {
    // The worst set is the one that counts.
    std::optional<TensorComparison> worst;
    for (size_t set = 0; set < expected_.size(); ++set) {
      const NDArray& expected = expected_[set][output];
      NODEWISE_ASSIGN_OR_RETURN(const NDArray found,
                                InForm(found_[set][output], expected));
      found_[set][output] = found;
      NODEWISE_ASSIGN_OR_RETURN(auto one, Compared(name, expected, found));
      if (!worst.has_value() ||
          one.metrics.difference_norm > worst->metrics.difference_norm) {
        worst = std::move(one);
      }
    }
    result_.outputs.push_back(*std::move(worst));
    return absl::OkStatus();
  }

  static absl::StatusOr<NDArray> InForm(const NDArray& tensor,
                                        const NDArray& like) {
    if (tensor.shape() == like.shape() && tensor.dtype() == like.dtype()) {
      return tensor;
    }
    NODEWISE_ASSIGN_OR_RETURN(NDArray made,
                              NDArray::Empty(like.shape(), like.dtype(), kCpu));
    StoreDoubles(ToDoubles(tensor).data(), 0, CountOf(made), made);
    return made;
  }

  static absl::StatusOr<TensorComparison> Compared(const std::string& name,
                                                   const NDArray& expected,
                                                   const NDArray& found) {
    const TensorKey key{name, 0, TensorRole::kOutput, "reference"};
    return CompareTensors({.key = key, .tensor = expected.tensor()}, *found,
                          {.rule = {Rule::Kind::kByType}});
  }

  // Layers that only move numbers are not judged, unless the numbers come out
  // wrong: then one was moved elsewhere.
  void ListLayers() {
    const std::vector<ValuePair>& pairs = result_.pairing.pairs;
    std::vector<size_t> in_reference(request_.reference.data().values.size(),
                                     kNoPair);
    std::vector<size_t> in_target(request_.target.data().values.size(),
                                  kNoPair);
    for (size_t i = 0; i < pairs.size(); ++i) {
      in_reference[Index(pairs[i].reference.made)] = i;
      in_target[Index(pairs[i].target.made)] = i;
    }
    is_made_.resize(pairs.size());
    is_unknown_.resize(pairs.size());
    moves_.resize(pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      Layer in_one = LayerOf(reference_side_, pairs[i].reference, in_reference);
      Layer in_other = LayerOf(target_side_, pairs[i].target, in_target);
      reads_.push_back(in_one.reads);
      for (const size_t read : in_other.reads) reads_.back().push_back(read);
      ModelLayer layer;
      layer.pair = i;
      layer.own_error = pairs[i].own_error;
      layer.reference = std::move(in_one.operations);
      layer.reference_constants = std::move(in_one.constants);
      layer.target = std::move(in_other.operations);
      // An input is made by nothing; what becomes of it belongs to its readers.
      if (pairs[i].way == ValuePair::Way::kInput || layer.reference.empty()) {
        continue;
      }
      is_made_[i] = true;
      is_unknown_[i] = IsIgnoredByQuantiser(layer);
      // Operations that only move numbers cost nothing of their own: in what
      // form the numbers are is up to what computes with them.
      const bool only_moves =
          std::ranges::all_of(layer.reference, [&](OperationId id) {
            return OnlyMovesNumbers(request_.reference.operation(id).kind());
          });
      if (layer.own_error < kMoved && only_moves) {
        moves_[i] = std::move(layer.reference);
        continue;
      }
      ++result_.judged;
      NameLayer(&layer);
      result_.layers.push_back(std::move(layer));
    }
  }

  // Whether the layer is as in the reference, and of operators that a quantiser
  // passes by.
  bool IsIgnoredByQuantiser(const ModelLayer& layer) const {
    return ChangedOperations(layer).empty() &&
           std::ranges::none_of(layer.reference, [&](OperationId id) {
             return IsQuantised(request_.reference.operation(id).kind());
           });
  }

  // A layer that the quantiser does not know asks for no tensor in 8 bits: it
  // has that form where a layer asks for it that makes or reads the tensor too.
  // Where none does, the quantiser knows more operators than we do.
  void LeaveIgnoredByQuantiser() {
    std::vector<std::vector<size_t>> around(is_made_.size());
    for (size_t i = 0; i < is_made_.size(); ++i) {
      if (is_made_[i]) around[i].push_back(i);
      for (const size_t read : reads_[i]) around[read].push_back(i);
    }
    for (size_t i = 0; i < around.size(); ++i) {
      const ValueChain& chain = result_.pairing.pairs[i].target;
      if (!target_side_.IsCoarse(chain.made) ||
          std::ranges::any_of(
              around[i], [&](size_t pair) { return !is_unknown_[pair]; })) {
        continue;
      }
      for (const size_t pair : around[i]) is_unknown_[pair] = false;
    }
    for (size_t i = 0; i < is_made_.size(); ++i) {
      if (is_unknown_[i]) is_made_[i] = false;
    }
    std::erase_if(result_.layers, [&](const ModelLayer& layer) {
      return !is_made_[layer.pair];
    });
  }

  // Operations of the reference that the target does not have as they are.
  std::vector<OperationId> ChangedOperations(const ModelLayer& layer) const {
    std::vector<OperationId> changed;
    std::vector<OperationId> left = layer.target;
    for (const OperationId id : layer.reference) {
      const auto twin = std::ranges::find_if(left, [&](OperationId other) {
        return AreTwins(request_.reference, id, request_.target, other);
      });
      if (twin == left.end()) {
        changed.push_back(id);
      } else {
        left.erase(twin);
      }
    }
    return changed;
  }

  // People know a layer by its weights. Those that the target has as they are
  // cannot be what makes the difference.
  void NameLayer(ModelLayer* layer) const {
    const Network& network = request_.reference;
    std::vector<OperationId> changed = ChangedOperations(*layer);
    if (changed.empty()) changed = layer->reference;
    OperationId known = changed.back();
    int64_t weights = 0;
    for (const OperationId id : changed) {
      if (WeightsOf(network, id) <= weights) continue;
      weights = WeightsOf(network, id);
      known = id;
    }
    layer->name = network.operation(known).name;
    layer->value =
        network.value(result_.pairing.pairs[layer->pair].reference.made).name;
    layer->kind = std::string(network.operation(known).kind());
  }

  absl::Status MeasureAlone(MixedModels* mixed) {
    size_t done = 0;
    for (ModelLayer& layer : result_.layers) {
      Progress(done++, result_.layers.size());
      const bool is_coarse =
          target_side_.IsCoarse(result_.pairing.pairs[layer.pair].target.made);
      // Numbers that the target has may hide an error, such as saturated ones;
      // with the reference's own it shows.
      if (result_.lowered.empty() && !is_coarse &&
          layer.own_error < kRounding) {
        continue;
      }
      std::vector<bool> is_target(result_.pairing.pairs.size());
      is_target[layer.pair] = true;
      NODEWISE_ASSIGN_OR_RETURN(const auto outputs, mixed->RunMixed(is_target));
      layer.alone = OutputError(expected_, outputs);
    }
    Progress(done, result_.layers.size());
    std::erase_if(result_.layers, [](const ModelLayer& layer) {
      return layer.alone == 0 && layer.own_error < kRounding;
    });
    std::ranges::stable_sort(result_.layers, std::greater(),
                             &ModelLayer::alone);
    return absl::OkStatus();
  }

  absl::Status MeasureRepaired(MixedModels* mixed, RunningModel* followed) {
    const size_t count =
        std::min(request_.most_repaired, result_.layers.size());
    for (size_t i = 0; i < count; ++i) {
      ModelLayer& layer = result_.layers[i];
      NODEWISE_ASSIGN_OR_RETURN(
          const auto outputs,
          mixed->RunMixed(TargetExcept(KeptWithMoves({layer.pair}))));
      layer.left = OutputError(expected_, outputs);
      NODEWISE_RETURN_IF_ERROR(CompareMade(followed, &layer));
    }
    return absl::OkStatus();
  }

  // Compares what the layer makes with what the reference makes of the same
  // numbers.
  absl::Status CompareMade(RunningModel* followed, ModelLayer* layer) const {
    const ValueId id = result_.pairing.pairs[layer->pair].reference.made;
    NODEWISE_ASSIGN_OR_RETURN(const auto found, followed->Tensors(id));
    RunningModel alone = *followed;
    alone.values.Unpin(id);
    NODEWISE_ASSIGN_OR_RETURN(const auto expected, alone.Tensors(id));
    NODEWISE_ASSIGN_OR_RETURN(
        layer->made,
        Compared(request_.reference.value(id).name, expected[0], found[0]));
    return absl::OkStatus();
  }

  absl::Status DrawCurve(MixedModels* mixed) {
    Sensitivity& drawn = result_.sensitivity;
    for (const ModelLayer& layer : result_.layers) {
      if (layer.alone > 0) {
        drawn.ranking.push_back({layer.name, layer.kind, layer.alone});
      }
    }
    for (const size_t count : PointsUpTo(drawn.ranking.size())) {
      double error = result_.error;
      if (count > 0) {
        NODEWISE_ASSIGN_OR_RETURN(
            const auto outputs,
            mixed->RunMixed(TargetExcept(KeptWithMoves(First(count)))));
        error = OutputError(expected_, outputs);
      }
      drawn.curve.push_back({count, error});
    }
    drawn.Suggest();
    ListKept();
    return StateSuggested(mixed);
  }

  // Which steps of few bits are taken depends on the last bits of the floats
  // before them, and these on the tool: what is stated of the keep-list is the
  // largest error of tools that round otherwise.
  absl::Status StateSuggested(MixedModels* mixed) {
    Sensitivity& drawn = result_.sensitivity;
    const std::vector<bool> is_target =
        TargetExcept(KeptWithMoves(First(drawn.suggested)));
    const uint64_t tools = ComputesInIntegers(request_.target) ? kTools : 0;
    for (uint64_t tool = 1; tool <= tools; ++tool) {
      Progress(tool - 1, tools);
      NODEWISE_ASSIGN_OR_RETURN(const auto outputs,
                                mixed->RunMixed(is_target, tool));
      drawn.suggested_error =
          std::max(drawn.suggested_error, OutputError(expected_, outputs));
    }
    Progress(tools, tools);
    return absl::OkStatus();
  }

  std::vector<size_t> First(size_t count) const {
    std::vector<size_t> pairs;
    for (size_t i = 0; i < count; ++i) pairs.push_back(result_.layers[i].pair);
    return pairs;
  }

  // Returns the layers of these pairs with what only moves the numbers that
  // they read or make: a tool that lowers a move lowers the tensor.
  std::vector<bool> KeptWithMoves(const std::vector<size_t>& pairs) const {
    std::vector<bool> kept(is_made_.size());
    for (const size_t pair : pairs) kept[pair] = true;
    const auto is_move = [&](size_t pair) { return !moves_[pair].empty(); };
    for (size_t i = 0; i < kept.size(); ++i) {
      for (const size_t read : reads_[i]) {
        if (is_move(i) && kept[read]) kept[i] = true;
      }
    }
    for (size_t i = kept.size(); i-- > 0;) {
      for (const size_t read : reads_[i]) {
        if (is_move(read) && kept[i]) kept[read] = true;
      }
    }
    return kept;
  }

  std::vector<bool> TargetExcept(const std::vector<bool>& kept) const {
    std::vector<bool> is_target = is_made_;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) is_target[i] = false;
    }
    return is_target;
  }

  // All operations to keep, each once: a tool that makes the model again knows
  // operations.
  void ListKept() {
    const Network& network = request_.reference;
    const auto add_name = [&](const std::string& name) {
      if (std::ranges::find(result_.keep, name) == result_.keep.end()) {
        result_.keep.push_back(name);
      }
    };
    const auto add = [&](const std::vector<OperationId>& operations) {
      for (const OperationId id : operations) {
        add_name(network.operation(id).name);
        for (const ValueId input : network.operation(id).inputs) {
          if (input == kNoValue) continue;
          const NetworkValue& value = network.value(input);
          for (const std::string& name : value.folded_from) add_name(name);
        }
      }
    };
    const size_t count = result_.sensitivity.suggested;
    for (size_t i = 0; i < count; ++i) {
      add(WithoutMerged(result_.layers[i]));
      add(result_.layers[i].reference_constants);
    }
    const std::vector<bool> kept = KeptWithMoves(First(count));
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) add(moves_[i]);
    }
  }

  // The layer's operations but those that the quantiser merged into the form of
  // what they read. It does so only where it lowers what makes that; told to
  // keep them, it would give the tensor a wider range.
  std::vector<OperationId> WithoutMerged(const ModelLayer& layer) const {
    std::vector<OperationId> kept;
    for (const OperationId id : layer.reference) {
      const std::string_view kind = request_.reference.operation(id).kind();
      const bool is_merged =
          (kind == "Relu" || kind == "Clip") && layer.reference.size() > 1 &&
          std::ranges::none_of(layer.target, [&](OperationId other) {
            return request_.target.operation(other).kind() == kind;
          });
      if (!is_merged) kept.push_back(id);
    }
    return kept;
  }

  void Progress(size_t done, size_t total) const {
    if (request_.progress != nullptr) request_.progress(done, total);
  }

  const ModelComparisonRequest& request_;
  const ModelSide reference_side_;
  const ModelSide target_side_;
  std::vector<std::vector<NDArray>> reference_inputs_;
  MatchedInputs inputs_;
  std::vector<std::vector<size_t>> reads_;       // Both by pair.
  std::vector<bool> is_made_;                    // Not an input.
  std::vector<bool> is_unknown_;                 // IsIgnoredByQuantiser().
  std::vector<std::vector<OperationId>> moves_;  // If they only move numbers.
  MixedModels::Outputs expected_;
  MixedModels::Outputs found_;
  ModelComparison result_;
};

// A network that has these tensors, and nothing that makes them.
absl::StatusOr<Network> NetworkOfTensors(
    absl::Span<const NamedTensor> tensors) {
  Network network("tensors");
  for (const NamedTensor& tensor : tensors) {
    NODEWISE_RETURN_IF_ERROR(
        network.AddInput(tensor.name, TensorType::From(*tensor.tensor))
            .status());
  }
  return network;
}

}  // namespace

bool ModelComparison::AreOutputsWrong() const {
  if (!missing_outputs.empty()) return true;
  return std::ranges::any_of(outputs, [](const TensorComparison& output) {
    return output.verdict() == Verdict::kError;
  });
}

bool HaveOneContent(const NDArray& a, const NDArray& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

absl::StatusOr<ModelComparison> CompareWithTensors(
    const Network& network, absl::Span<const NamedTensor> tensors) {
  NODEWISE_ASSIGN_OR_RETURN(const Network target, NetworkOfTensors(tensors));
  for (const ValueId input : network.inputs()) {
    const std::string& name = network.value(input).name;
    if (target.HasValue(name)) continue;
    return InvalidArgument(
        "input {}: is not among the tensors, expected all inputs of the model "
        "by their names",
        Printable(name));
  }
  ModelComparisonRequest request{network, target, {{}}};
  for (const NamedTensor& tensor : tensors) {
    request.inputs[0].push_back(tensor.tensor);
  }
  return ModelComparer(request).RunOnTensors();
}

absl::StatusOr<ModelComparison> CompareModels(
    const ModelComparisonRequest& request) {
  if (request.inputs.empty()) {
    return InvalidArgument(
        "two models: no inputs are given, expected one set at least");
  }
  return ModelComparer(request).Run();
}

}  // namespace nodewise
