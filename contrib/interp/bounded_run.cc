#include "nodewise/interp/bounded_run.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "contrib/interp/chain_elements.h"
#include "contrib/interp/interpreter_plan.h"
#include "contrib/interp/rounding_chain.h"
#include "contrib/interp/small_moves.h"
#include "nodewise/interp/carried_bounds.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Where more elements than one in so many are left after the first look, all
// bounds cost as little as theirs.
constexpr int64_t kFewOf = 4;

class LazyRun;

// The bounds of one output.
class OutputBounds : public BoundSource {
 public:
  OutputBounds(LazyRun* run, size_t output, std::optional<RoundingChain> chain)
      : run_(*run), output_(output), chain_(std::move(chain)) {}

  const std::optional<RoundingChain>& chain() const { return chain_; }
  absl::StatusOr<bool> IsSurelyWithin(const DLTensor& actual,
                                      const UnboundedLimit& unbounded) override;
  absl::StatusOr<BoundSpans> All() override;

 private:
  // The steps of IsSurelyWithin(): `left` are the elements of the output that
  // nothing is certain about.
  absl::StatusOr<std::vector<int64_t>> LeftByLeastBounds(
      const LeastBounds& least, const NDArray& actual) const;
  absl::StatusOr<bool> AreWithinTheirBounds(
      const NDArray& actual, absl::Span<const int64_t> elements,
      const UnboundedLimit& unbounded) const;

  // The own bounds of what computes the output from the source's.
  LeastBounds OwnLeast() const {
    const Operation& last = chain_->LastComputing();
    return &last == chain_->source ? LeastBounds()
                                   : LeastBoundsOfFollower(last);
  }
  const NDArray& middle() const;
  const NDArray& SourceOutput() const;
  Tensors SourceInputs() const;
  // Computes the output from another result of the source.
  absl::StatusOr<NDArray> Follow(const NDArray& source) const;

  LazyRun& run_;
  const size_t output_;
  const std::optional<RoundingChain> chain_;
};

class LazyRun : public BoundedRun {
 public:
  LazyRun(const Network& network, std::vector<NDArray> inputs)
      : network_(network), inputs_(std::move(inputs)) {}

  absl::Status Run() {
    std::set<ValueId> needed;
    for (size_t i = 0; i < network_.outputs().size(); ++i) {
      auto chain = FindRoundingChain(network_, network_.outputs()[i]);
      if (chain.has_value()) {
        for (const ValueId id : chain->Needs()) needed.insert(id);
      }
      bounds_.push_back(
          std::make_unique<OutputBounds>(this, i, std::move(chain)));
    }
    for (size_t i = 0; i < inputs_.size() && i < network_.inputs().size();
         ++i) {
      kept_[network_.inputs()[i]] = inputs_[i];
    }
    for (const ValueId id : needed) {
      if (id == kNoValue) continue;
      const NetworkValue& value = network_.value(id);
      if (value.kind == NetworkValue::Kind::kConstant) kept_[id] = value.data;
    }
    for (auto& [id, tensor] : kept_) {
      NODEWISE_RETURN_IF_ERROR(MakeReadable(&tensor));
    }
    InterpretOptions options;
    options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
      const std::vector<ValueId>& made = run.operation.outputs;
      for (size_t i = 0; i < made.size(); ++i) {
        if (needed.count(made[i]) > 0) kept_[made[i]] = run.result.outputs[i];
      }
      return false;
    };
    NODEWISE_ASSIGN_OR_RETURN(outputs_, Interpret(network_, inputs_, options));
    return absl::OkStatus();
  }

  const Network& network() const { return network_; }
  const std::vector<NDArray>& outputs() const override { return outputs_; }
  BoundSource& bounds(size_t output) override { return *bounds_[output]; }

  // REQUIRES: a chain needs it.
  const NDArray& TensorOf(ValueId id) const {
    const auto kept = kept_.find(id);
    NODEWISE_CHECK(kept != kept_.end());
    return kept->second;
  }

  // Bounds of all outputs, of one more run.
  absl::StatusOr<const std::vector<BoundedTensor>*> AllBounds() {
    if (all_.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(all_,
                                InterpretCarryingBounds(network_, inputs_));
    }
    return &all_;
  }

 private:
  const Network& network_;
  const std::vector<NDArray> inputs_;
  std::vector<NDArray> outputs_;
  std::map<ValueId, NDArray> kept_;
  std::vector<std::unique_ptr<OutputBounds>> bounds_;
  std::vector<BoundedTensor> all_;
};

const NDArray& OutputBounds::middle() const { return run_.outputs()[output_]; }

const NDArray& OutputBounds::SourceOutput() const {
  return run_.TensorOf(chain_->source->outputs[0]);
}

Tensors OutputBounds::SourceInputs() const {
  Tensors inputs;
  for (const ValueId id : chain_->source->inputs) {
    inputs.push_back(id == kNoValue ? NDArray() : run_.TensorOf(id));
  }
  return inputs;
}

absl::StatusOr<NDArray> OutputBounds::Follow(const NDArray& source) const {
  std::map<ValueId, NDArray> made = {{chain_->source->outputs[0], source}};
  NDArray last = source;
  for (const Operation* follower : chain_->followers) {
    Tensors inputs;
    for (const ValueId id : follower->inputs) {
      const auto found = made.find(id);
      inputs.push_back(id == kNoValue        ? NDArray()
                       : found != made.end() ? found->second
                                             : run_.TensorOf(id));
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const Evaluated result,
        Evaluate(follower->attrs, std::move(inputs), {true}));
    last = result.outputs[0];
    const LeastBounds own = LeastBoundsOfFollower(*follower);
    if (follower != &chain_->LastComputing() &&
        own.roundoffs + own.half_ulps > 0) {
      // The carried bounds allow for a number that is not rounded.
      const bool is_hidden = chain_->IsHidden(run_.network(), *follower);
      NODEWISE_ASSIGN_OR_RETURN(
          last, MoveFurther(run_.TensorOf(follower->outputs[0]), last, own,
                            is_hidden ? 1 : 0));
    }
    made[follower->outputs[0]] = last;
  }
  return last;
}

absl::StatusOr<std::vector<int64_t>> OutputBounds::LeftByLeastBounds(
    const LeastBounds& least, const NDArray& actual) const {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray moved,
                            MoveAll(SourceOutput(), least));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray end, Follow(moved));
  return ElementsBeyond({middle(), end, OwnLeast()}, actual);
}

absl::StatusOr<bool> OutputBounds::AreWithinTheirBounds(
    const NDArray& actual, absl::Span<const int64_t> elements,
    const UnboundedLimit& unbounded) const {
  const auto tensor_of = [this](ValueId id) { return run_.TensorOf(id); };
  const ChainRun run{run_.network(), *chain_, tensor_of};
  const std::vector<int64_t> places = PlacesBeforeMoves(run, elements);
  std::vector<size_t> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return places[a] < places[b]; });
  std::vector<int64_t> sorted;
  for (const size_t i : order) sorted.push_back(places[i]);
  NODEWISE_ASSIGN_OR_RETURN(const std::optional<Bounds> bounds,
                            BoundsAtPlaces(run, sorted, Lean::kSmaller));
  if (!bounds.has_value()) return false;
  std::vector<int64_t> far_off;
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t element = elements[order[i]];
    double x = 0;
    double y = 0;
    LoadDoubles(middle(), element, element + 1, &x);
    LoadDoubles(actual, element, element + 1, &y);
    const double error = std::fabs(y - x);
    if (error > bounds->proved[i] || error > bounds->expected[i]) return false;
    if (error > unbounded.absolute + unbounded.relative * std::fabs(x)) {
      far_off.push_back(sorted[i]);
    }
  }
  if (far_off.empty()) return true;
  // A bound is known unless a pole is within reach.
  NODEWISE_ASSIGN_OR_RETURN(const std::optional<Bounds> larger,
                            BoundsAtPlaces(run, far_off, Lean::kLarger));
  return larger.has_value() &&
         std::none_of(larger->proved.begin(), larger->proved.end(),
                      [](double bound) { return std::isnan(bound); });
}

absl::StatusOr<bool> OutputBounds::IsSurelyWithin(
    const DLTensor& actual, const UnboundedLimit& unbounded) {
  if (!chain_.has_value()) return false;
  const NDArray& source = SourceOutput();
  // Broadcasting would make several elements of one.
  if (!source.defined() || !IsFloat(source.dtype()) ||
      !IsFloat(middle().dtype()) || CountOf(source) != CountOf(middle())) {
    return false;
  }
  // Values beside the chain might have no bounds.
  const bool must_know = std::isfinite(unbounded.absolute);
  if (must_know && !chain_->stands_alone) return false;
  auto least = LeastBoundsOf(chain_->source->attrs, SourceInputs());
  if (!least.has_value()) return false;
  // The carried bounds allow for a sum that is not rounded.
  if (chain_->IsHidden(run_.network(), *chain_->source)) ++least->half_ulps;
  NDArray found = NDArray::Borrow(actual, nullptr);
  NODEWISE_RETURN_IF_ERROR(MakeReadable(&found));
  NODEWISE_ASSIGN_OR_RETURN(std::vector<int64_t> left,
                            LeftByLeastBounds(*least, found));
  if (must_know) {
    const std::vector<int64_t> known =
        ElementsBeyond(middle(), unbounded, found);
    std::vector<int64_t> all;
    std::set_union(left.begin(), left.end(), known.begin(), known.end(),
                   std::back_inserter(all));
    left = std::move(all);
  }
  if (left.empty()) return true;
  const auto count = static_cast<int64_t>(left.size());
  if (count > std::max(CountOf(source) / kFewOf, kFewOf)) return false;
  return AreWithinTheirBounds(found, left, unbounded);
}

absl::StatusOr<BoundSpans> OutputBounds::All() {
  NODEWISE_ASSIGN_OR_RETURN(const auto* const all, run_.AllBounds());
  const Bounds& bounds = (*all)[output_].bounds;
  return BoundSpans{bounds.proved, bounds.expected};
}

}  // namespace

absl::StatusOr<std::unique_ptr<BoundedRun>> RunWithLazyBounds(
    const Network& network, std::vector<NDArray> inputs) {
  auto run = std::make_unique<LazyRun>(network, std::move(inputs));
  NODEWISE_RETURN_IF_ERROR(run->Run());
  return run;
}

}  // namespace nodewise
