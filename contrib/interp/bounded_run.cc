// Settles most tensors of a run without working all bounds out.
//
// A network that stands for a fused kernel is a chain: one operation, the
// source, rounds, and what follows computes element by element. So an element
// of the output depends on one of the source's, and moving that one within its
// bounds moves the output within the carried bounds. IsProvablyWithin() first
// moves every element by a bound that follows from its own size, which costs
// one more run of the chain. For the few elements that are left it works out
// their own bounds, from those elements alone. Only All() runs the network
// again with all bounds.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "contrib/interp/small_moves.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/layout.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Where more elements than one in so many are left after the first look, all
// bounds cost as little as theirs.
constexpr int64_t kFewOf = 4;
// Sums that are added up in another order differ by no more than this share.
constexpr double kSumsAgree = 0x1p-30;
// From here on inputs are repeated as NumPy does.
constexpr int kBroadcastOpset = 7;

using MaybeBounds = std::optional<Bounds>;

bool IsAnyIn(const std::vector<ValueId>& ids, const std::set<ValueId>& values) {
  return std::ranges::any_of(
      ids, [&](ValueId id) { return id != kNoValue && values.count(id) > 0; });
}

std::set<ValueId> AncestorsOf(const Network& network, ValueId output) {
  std::set<ValueId> found = {output};
  const auto order = network.order();
  for (size_t i = order.size(); i-- > 0;) {
    const Operation& operation = network.operation(order[i]);
    if (!IsAnyIn(operation.outputs, found)) continue;
    found.insert(operation.inputs.begin(), operation.inputs.end());
  }
  return found;
}

bool IsMove(const Operation& operation) {
  return operation.attrs.As<ops::Transpose>() != nullptr;
}

bool IsNorm(const Operation& operation) {
  return operation.kind() == "BatchNormalization";
}

// Between the source and the output there are only floats: where a decision
// falls, being a little off may change everything.
bool CanFollow(const Network& network, const Operation& operation) {
  return (IsElementwise(operation) || IsMove(operation)) &&
         operation.outputs.size() == 1 && operation.outputs[0] != kNoValue &&
         IsFloat(network.value(operation.outputs[0]).type.dtype);
}

// Returns what the own bounds of a follower are at least; 0 if that is not
// known without computing them.
//
// A Sum of n tensors is a sum of n terms t: n u (sum |t|) and 3 u (sqrt(n)
// norm(t) + sqrt(n) |y|) are at least so many u |y|, and both have HalfUlp(y)
// added (BoundSum() in contrib/ops/util/sum_bounds.h).
LeastBounds LeastBoundsOfFollower(const Operation& operation) {
  const ErrorBound& bound = operation.def().bound;
  if (bound.kind == ErrorBound::Kind::kUlps) return {0, 2 * bound.ulps};
  if (operation.kind() != "Sum" || !operation.def().domain.empty()) return {};
  const auto terms = static_cast<double>(operation.inputs.size());
  return {std::min(terms, 3.0), 1};
}

bool HasOwnBounds(const Operation& follower) {
  const LeastBounds own = LeastBoundsOfFollower(follower);
  return own.roundoffs + own.half_ulps > 0;
}

// How rounding errors come into one output of a network that is made like a
// fused kernel: one operation, the source, rounds; what follows it computes
// element by element, and in the end its elements may be moved.
//
// So each element of the output depends on one of the source's, and to move
// that one by no more than its bounds allow moves the output by no more than
// the carried bounds (network_bounds.h) allow. For these are the largest
// distances at the corners of the box that the inputs of each operation may lie
// in, and a point inside the box is not further away than some corner where
// the operation is monotonic, convex or concave in each of its inputs: all
// operations of IsElementwise() are within a range as small as rounding errors
// are. Operations beside the chain only enlarge the carried bounds, which are
// after each operation no less than that operation's own bounds, either.
struct RoundingChain {
  const Operation* source = nullptr;
  // The operations that depend on the source, in the order of the network; the
  // last of them makes the output. Empty if the source does.
  std::vector<const Operation*> followers;
  // The last so many of the followers are Transposes; no others are.
  size_t moves = 0;
  // Everything else that the output depends on is given to the network, but for
  // Transposes: then the carried bounds are those of the chain alone.
  bool stands_alone = true;

  absl::Span<const Operation* const> Computing() const {
    return absl::MakeConstSpan(followers).first(followers.size() - moves);
  }
  // Returns the last operation that computes, the source if nothing else does.
  const Operation& LastComputing() const {
    return Computing().empty() ? *source : *Computing().back();
  }
  // Returns the value that is moved, the output if nothing is.
  ValueId BeforeMoves() const { return LastComputing().outputs[0]; }
  // Returns whether only one follower, which computes, reads the result of the
  // operation of the chain. Then a kernel need not round it.
  bool IsHidden(const Network& network, const Operation& operation) const {
    const ValueId made = operation.outputs[0];
    return &LastComputing() != &operation &&
           network.value(made).uses.size() == 1 && !network.IsOutput(made);
  }
  // Returns what must be kept of a run to compute the followers again: what the
  // source reads and makes, what followers read of others, what is moved, and
  // what followers make that have bounds of their own.
  std::vector<ValueId> Needs() const {
    std::vector<ValueId> needs = source->inputs;
    needs.insert(needs.end(), {source->outputs[0], BeforeMoves()});
    std::set<ValueId> made;
    for (const Operation* follower : followers) {
      for (const ValueId id : follower->inputs) {
        if (made.count(id) == 0) needs.push_back(id);
      }
      made.insert(follower->outputs[0]);
      if (HasOwnBounds(*follower)) needs.push_back(follower->outputs[0]);
    }
    return needs;
  }
};

// Returns none for an output that is not made like that.
std::optional<RoundingChain> FindRoundingChain(const Network& network,
                                               ValueId output) {
  const std::set<ValueId> ancestors = AncestorsOf(network, output);
  RoundingChain chain;
  std::set<ValueId> dependent;
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    const bool is_move = IsMove(operation);
    if (!IsAnyIn(operation.outputs, ancestors)) continue;
    if (chain.source == nullptr &&
        operation.def().bound.kind != ErrorBound::Kind::kExact) {
      if (operation.outputs.size() != 1) return std::nullopt;
      chain.source = &operation;
    } else if (IsAnyIn(operation.inputs, dependent)) {
      if (!CanFollow(network, operation) || (chain.moves > 0 && !is_move)) {
        return std::nullopt;
      }
      chain.moves += is_move ? 1 : 0;
      chain.followers.push_back(&operation);
    } else {
      chain.stands_alone = chain.stands_alone && is_move;
      continue;
    }
    dependent.insert(operation.outputs[0]);
  }
  if (dependent.count(output) == 0) return std::nullopt;
  return chain;
}

// A chain in a network that has been run, with the tensors that it Needs().
struct ChainRun {
  const Network& network;
  const RoundingChain& chain;
  const std::map<ValueId, NDArray>& kept;

  // REQUIRES: the chain needs it.
  const NDArray& TensorOf(ValueId id) const {
    const auto found = kept.find(id);
    NODEWISE_CHECK(found != kept.end());
    return found->second;
  }
  const NDArray& SourceOutput() const {
    return TensorOf(chain.source->outputs[0]);
  }
  Tensors SourceInputs() const {
    Tensors inputs;
    for (const ValueId id : chain.source->inputs) {
      inputs.push_back(id == kNoValue ? NDArray() : TensorOf(id));
    }
    return inputs;
  }
};

// Returns where an element of a tensor with these sides, in row order, is in
// memory that has these strides.
int64_t PlaceIn(absl::Span<const int64_t> sides,
                absl::Span<const int64_t> strides, int64_t element) {
  int64_t found = 0;
  for (size_t side = sides.size(); side-- > 0;) {
    found += element % sides[side] * strides[side];
    element /= sides[side];
  }
  return found;
}

// Returns the strides with which a tensor of shape `from` is repeated to shape
// `to`; none if it cannot be.
std::optional<std::vector<int64_t>> RepeatingStrides(
    absl::Span<const int64_t> from, absl::Span<const int64_t> to) {
  if (from.size() > to.size()) return std::nullopt;
  std::vector<int64_t> strides(to.size());
  const std::vector<int64_t> compact = StridesOf(from);
  const size_t skipped = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1 && from[i] != to[skipped + i]) return std::nullopt;
    if (from[i] > 1) strides[skipped + i] = compact[i];
  }
  return strides;
}

// Collects elements of tensors, as one row, or as one number for each of them
// where an operator wants a number for each channel.
class Gatherer {
 public:
  Gatherer(const ChainRun& run, absl::Span<const int64_t> places)
      : run_(run), places_(places) {}

  absl::StatusOr<NDArray> Row(const NDArray& from) const {
    return Gather(from, {1, Count()}, [](int64_t place) { return place; });
  }

  // Adds what the follower reads beside the chain. Returns false if it cannot
  // be told which elements of that belong to which place.
  absl::StatusOr<bool> AddSides(const Operation& follower,
                                std::map<ValueId, BoundedTensor>* known) const {
    // The bounds of a normalization for folded weights depend on their whole
    // shape, which only the source's inputs have.
    if (IsNorm(follower) &&
        follower.inputs[0] != run_.chain.source->outputs[0]) {
      return false;
    }
    for (size_t slot = 0; slot < follower.inputs.size(); ++slot) {
      const ValueId id = follower.inputs[slot];
      if (id == kNoValue) continue;
      if (IsMade(id)) {
        if (IsNorm(follower) && slot > 0) return false;
        continue;
      }
      NODEWISE_ASSIGN_OR_RETURN(const NDArray gathered,
                                SideOf(follower, run_.TensorOf(id)));
      if (!gathered.defined()) return false;
      // One value may not be gathered in two ways.
      const auto [place, is_new] =
          known->emplace(id, BoundedTensor{gathered, {}});
      if (!is_new && !(place->second.tensor.shape() == gathered.shape())) {
        return false;
      }
    }
    return true;
  }

 private:
  int64_t Count() const { return static_cast<int64_t>(places_.size()); }

  bool IsMade(ValueId id) const {
    const auto makes = [id](const Operation* operation) {
      return operation->outputs[0] == id;
    };
    return makes(run_.chain.source) ||
           std::ranges::any_of(run_.chain.followers, makes);
  }

  // Returns what of the tensor belongs to the elements; undefined if that
  // cannot be told.
  absl::StatusOr<NDArray> SideOf(const Operation& follower,
                                 const NDArray& side) const {
    // Before the moves, all results have the shape of the last one, but for
    // sides of one element at the front; a normalization reads the source.
    const absl::Span<const int64_t> shape =
        (IsNorm(follower) ? run_.SourceOutput()
                          : run_.TensorOf(run_.chain.BeforeMoves()))
            .shape();
    if (IsNorm(follower)) {
      if (shape.size() < 2 || CountOf(side) != shape[1]) return NDArray();
      const int64_t inner = Product(shape.subspan(2));
      return Gather(side, {Count()},
                    [&](int64_t place) { return place / inner % shape[1]; });
    }
    if (CountOf(side) == 1) {
      // A side that has to be a scalar stays one.
      if (side.shape().size() <= 1) return side;
      return Gather(side, {1}, [](int64_t) { return 0; });
    }
    const auto strides = RepeatingStrides(side.shape(), shape);
    if (follower.def().since < kBroadcastOpset || !strides.has_value()) {
      return NDArray();
    }
    return Gather(side, {1, Count()}, [&](int64_t place) {
      return PlaceIn(shape, *strides, place);
    });
  }

  absl::StatusOr<NDArray> Gather(
      const NDArray& from, std::initializer_list<int64_t> shape,
      absl::FunctionRef<int64_t(int64_t)> place_of) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray made,
                              NDArray::Empty(shape, from.dtype(), kCpu));
    const size_t bytes = ElementBytes(from.dtype());
    const auto* const data = from.As<uint8_t>();
    auto* const to = made.As<uint8_t>();
    for (size_t i = 0; i < static_cast<size_t>(CountOf(made)); ++i) {
      const auto at = static_cast<size_t>(place_of(places_[i]));
      std::memcpy(to + i * bytes, data + at * bytes, bytes);
    }
    return made;
  }

  const ChainRun& run_;
  const absl::Span<const int64_t> places_;
};

// Sums that are added up in another order differ by a tiny share. Bounds are
// moved to this side by more than that share.
enum class Lean { kSmaller, kLarger };

// Sums have bounds of their own, which are moved to the side that `lean` asks
// for; those of a function that is off by so many ULP follow from its values.
absl::StatusOr<MaybeBounds> SourceBoundsAt(const ChainRun& run,
                                           absl::Span<const int64_t> places,
                                           Lean lean) {
  const Operation& source = *run.chain.source;
  const NDArray& output = run.SourceOutput();
  NODEWISE_ASSIGN_OR_RETURN(
      MaybeBounds bounds,
      BoundsAt(source.attrs, run.SourceInputs(), output, places));
  if (bounds.has_value()) {
    const double factor =
        1 + (lean == Lean::kLarger ? kSumsAgree : -kSumsAgree);
    for (double& bound : bounds->proved) bound *= factor;
    for (double& bound : bounds->expected) bound *= factor;
    return bounds;
  }
  const ErrorBound& ulps = source.def().bound;
  if (ulps.kind != ErrorBound::Kind::kUlps) return bounds;
  bounds.emplace();
  for (const int64_t place : places) {
    double value = 0;
    LoadDoubles(output, place, place + 1, &value);
    bounds->proved.push_back(2 * ulps.ulps * HalfUlp(output.dtype(), value));
  }
  bounds->expected = bounds->proved;
  return bounds;
}

// Carries the source's bounds at these places through what follows it. None if
// that cannot be told of single elements.
absl::StatusOr<MaybeBounds> CarryAtPlaces(const ChainRun& run,
                                          absl::Span<const int64_t> places,
                                          Bounds own) {
  const Gatherer gatherer(run, places);
  std::map<ValueId, BoundedTensor> known;
  for (const Operation* follower : run.chain.Computing()) {
    NODEWISE_ASSIGN_OR_RETURN(const bool is_told,
                              gatherer.AddSides(*follower, &known));
    if (!is_told) return MaybeBounds();
  }
  for (const ValueId id : run.chain.source->inputs) {
    if (id == kNoValue) continue;
    // Inputs of the source are given whole: their sizes say how many terms a
    // sum has.
    if (!known.emplace(id, BoundedTensor{run.TensorOf(id), {}}).second) {
      return MaybeBounds();
    }
  }
  const ValueId made = run.chain.source->outputs[0];
  NODEWISE_ASSIGN_OR_RETURN(NDArray row, gatherer.Row(run.SourceOutput()));
  known[made] = {std::move(row), std::move(own)};
  NODEWISE_ASSIGN_OR_RETURN(
      BoundedTensor carried,
      CarryBounds(run.network, made, run.chain.Computing(), std::move(known)));
  if (carried.bounds.proved.size() != places.size()) return MaybeBounds();
  return MaybeBounds(std::move(carried.bounds));
}

Bounds PartOf(const Bounds& bounds, int64_t begin, int64_t end) {
  const auto part = [&](const std::vector<double>& of) {
    return std::vector<double>(of.begin() + begin, of.begin() + end);
  };
  return {part(bounds.proved), part(bounds.expected)};
}

// Returns the bounds at these places. Where RoundingChain::stands_alone, they
// are those of InterpretCarryingBounds() but for the share kSumsAgree,
// elsewhere no larger ones; larger ones are unknown where those are, too.
// Evaluates nothing but these elements. None if their bounds cannot be had
// alone. REQUIRES: the source has as many elements as the output; the places
// are in ascending order.
absl::StatusOr<MaybeBounds> BoundsAtPlaces(const ChainRun& run,
                                           absl::Span<const int64_t> places,
                                           Lean lean) {
  NODEWISE_ASSIGN_OR_RETURN(MaybeBounds own, SourceBoundsAt(run, places, lean));
  if (!own.has_value() || run.chain.Computing().empty()) return own;
  // Each element is on its own, and what a part needs fits into a cache.
  constexpr int64_t kPart = 4096;
  constexpr double kNanosecondsPerPart = 200 * kPart;
  const auto count = static_cast<int64_t>(places.size());
  const int64_t parts = (count + kPart - 1) / kPart;
  std::vector<absl::StatusOr<MaybeBounds>> carried(static_cast<size_t>(parts));
  ParallelFor(parts, kNanosecondsPerPart, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      const int64_t begin = part * kPart;
      const int64_t end = std::min(begin + kPart, count);
      carried[static_cast<size_t>(part)] =
          CarryAtPlaces(run,
                        places.subspan(static_cast<size_t>(begin),
                                       static_cast<size_t>(end - begin)),
                        PartOf(*own, begin, end));
    }
  });
  Bounds joined;
  for (auto& part : carried) {
    NODEWISE_RETURN_IF_ERROR(part.status());
    if (!part->has_value()) return MaybeBounds();
    for (const auto list : {&Bounds::proved, &Bounds::expected}) {
      const std::vector<double>& more = **part.*list;
      (joined.*list).insert((joined.*list).end(), more.begin(), more.end());
    }
  }
  return MaybeBounds(std::move(joined));
}

// Returns where these elements of the output are before they are moved, which
// is where the elements of the source are that they depend on. REQUIRES: the
// source has as many elements as the output.
std::vector<int64_t> PlacesBeforeMoves(const ChainRun& run,
                                       absl::Span<const int64_t> elements) {
  std::vector<int64_t> places(elements.begin(), elements.end());
  const RoundingChain& chain = run.chain;
  if (chain.moves == 0) return places;
  const auto before = run.TensorOf(chain.BeforeMoves()).shape();
  std::vector<int64_t> shape(before.begin(), before.end());
  // By side of the output: the stride of that side in the tensor before all
  // moves.
  std::vector<int64_t> strides = StridesOf(shape);
  for (const Operation* move :
       absl::MakeConstSpan(chain.followers).last(chain.moves)) {
    const std::vector<int64_t> perm = move->attrs.As<ops::Transpose>()->perm;
    // Without a permutation the sides come in reverse.
    std::vector<int64_t> moved_shape(shape.rbegin(), shape.rend());
    std::vector<int64_t> moved(strides.rbegin(), strides.rend());
    for (size_t side = 0; side < perm.size(); ++side) {
      moved_shape[side] = shape[static_cast<size_t>(perm[side])];
      moved[side] = strides[static_cast<size_t>(perm[side])];
    }
    shape = std::move(moved_shape);
    strides = std::move(moved);
  }
  for (int64_t& place : places) place = PlaceIn(shape, strides, place);
  return places;
}

// A run with its inputs and the tensors that the bounds of its outputs need.
struct KeptRun {
  const Network& network;
  const std::vector<NDArray> inputs;
  std::vector<NDArray> outputs = {};
  std::map<ValueId, NDArray> kept = {};
  std::vector<BoundedTensor> all = {};  // Outputs; empty until asked for.

  // The first call costs one more run.
  absl::StatusOr<const std::vector<BoundedTensor>*> AllBounds() {
    if (all.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(all, InterpretCarryingBounds(network, inputs));
    }
    return &all;
  }
};

class OutputBounds : public BoundSource {
 public:
  OutputBounds(KeptRun* run, size_t output, std::optional<RoundingChain> chain)
      : run_(*run), output_(output), chain_(std::move(chain)) {}

  absl::StatusOr<BoundSpans> All() override {
    NODEWISE_ASSIGN_OR_RETURN(const auto* const all, run_.AllBounds());
    const Bounds& bounds = (*all)[output_].bounds;
    return BoundSpans{bounds.proved, bounds.expected};
  }

  absl::StatusOr<bool> IsProvablyWithin(
      const DLTensor& actual, const UnboundedLimit& unbounded) override {
    if (!chain_.has_value()) return false;
    const ChainRun run{run_.network, *chain_, run_.kept};
    const NDArray& source = run.SourceOutput();
    // Broadcasting would make several elements of one.
    if (!source.defined() || !IsFloat(source.dtype()) ||
        !IsFloat(middle().dtype()) || CountOf(source) != CountOf(middle())) {
      return false;
    }
    // Values beside the chain might have no bounds.
    const bool must_know = std::isfinite(unbounded.absolute);
    if (must_know && !chain_->stands_alone) return false;
    auto least = LeastBoundsOf(chain_->source->attrs, run.SourceInputs());
    if (!least.has_value()) return false;
    // The carried bounds allow for a sum that is not rounded.
    if (chain_->IsHidden(run.network, *chain_->source)) ++least->half_ulps;
    NDArray found = NDArray::Borrow(actual, nullptr);
    NODEWISE_RETURN_IF_ERROR(MakeReadable(&found));
    NODEWISE_ASSIGN_OR_RETURN(std::vector<int64_t> left,
                              UndecidedByLeastBounds(run, *least, found));
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
    return AreWithinTheirBounds(run, found, left, unbounded);
  }

 private:
  const NDArray& middle() const { return run_.outputs[output_]; }

  // Returns the elements of the output that nothing is certain about when only
  // the least bounds of each number are known.
  absl::StatusOr<std::vector<int64_t>> UndecidedByLeastBounds(
      const ChainRun& run, const LeastBounds& least,
      const NDArray& actual) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray moved,
                              MoveAll(run.SourceOutput(), least));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray end, Follow(run, moved));
    // The operation that computes the output rounds as well, unless it is the
    // source, whose rounding has been counted.
    const Operation& last = chain_->LastComputing();
    const LeastBounds own =
        &last == chain_->source ? LeastBounds() : LeastBoundsOfFollower(last);
    return ElementsBeyond({middle(), end, own}, actual);
  }

  // Computes the output from another result of the source.
  absl::StatusOr<NDArray> Follow(const ChainRun& run,
                                 const NDArray& source) const {
    std::map<ValueId, NDArray> made = {{chain_->source->outputs[0], source}};
    NDArray last = source;
    for (const Operation* follower : chain_->followers) {
      Tensors inputs;
      for (const ValueId id : follower->inputs) {
        const auto found = made.find(id);
        inputs.push_back(id == kNoValue        ? NDArray()
                         : found != made.end() ? found->second
                                               : run.TensorOf(id));
      }
      NODEWISE_ASSIGN_OR_RETURN(
          const Evaluated result,
          Evaluate(follower->attrs, std::move(inputs), {true}));
      last = result.outputs[0];
      if (follower != &chain_->LastComputing() && HasOwnBounds(*follower)) {
        // The carried bounds allow for a number that is not rounded.
        const bool is_hidden = chain_->IsHidden(run.network, *follower);
        NODEWISE_ASSIGN_OR_RETURN(
            last,
            MoveFurther(run.TensorOf(follower->outputs[0]), last,
                        LeastBoundsOfFollower(*follower), is_hidden ? 1 : 0));
      }
      made[follower->outputs[0]] = last;
    }
    return last;
  }

  absl::StatusOr<bool> AreWithinTheirBounds(
      const ChainRun& run, const NDArray& actual,
      absl::Span<const int64_t> elements,
      const UnboundedLimit& unbounded) const {
    const std::vector<int64_t> places = PlacesBeforeMoves(run, elements);
    std::vector<size_t> order(places.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(
        order, [&](size_t a, size_t b) { return places[a] < places[b]; });
    std::vector<int64_t> sorted;
    for (const size_t i : order) sorted.push_back(places[i]);
    NODEWISE_ASSIGN_OR_RETURN(const MaybeBounds bounds,
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
      if (error > bounds->proved[i] || error > bounds->expected[i]) {
        return false;
      }
      if (error > unbounded.absolute + unbounded.relative * std::fabs(x)) {
        far_off.push_back(sorted[i]);
      }
    }
    if (far_off.empty()) return true;
    // A bound is known unless a pole is within reach.
    NODEWISE_ASSIGN_OR_RETURN(const MaybeBounds larger,
                              BoundsAtPlaces(run, far_off, Lean::kLarger));
    return larger.has_value() &&
           std::ranges::none_of(larger->proved,
                                [](double bound) { return std::isnan(bound); });
  }

  KeptRun& run_;
  const size_t output_;
  const std::optional<RoundingChain> chain_;
};

class LazyRun : public BoundedRun {
 public:
  LazyRun(const Network& network, std::vector<NDArray> inputs)
      : run_{network, std::move(inputs)} {}

  absl::Status Run() {
    const Network& network = run_.network;
    const std::vector<NDArray>& inputs = run_.inputs;
    std::set<ValueId> needed;
    for (size_t i = 0; i < network.outputs().size(); ++i) {
      auto chain = FindRoundingChain(network, network.outputs()[i]);
      if (chain.has_value()) {
        for (const ValueId id : chain->Needs()) needed.insert(id);
      }
      bounds_.push_back(
          std::make_unique<OutputBounds>(&run_, i, std::move(chain)));
    }
    needed.erase(kNoValue);
    // Fewer inputs than the network has are refused by its run.
    for (size_t i = 0; i < inputs.size() && i < network.inputs().size(); ++i) {
      run_.kept[network.inputs()[i]] = inputs[i];
    }
    for (const ValueId id : needed) {
      const NetworkValue& value = network.value(id);
      if (value.kind == NetworkValue::Kind::kConstant) {
        run_.kept[id] = value.data;
      }
    }
    for (auto& [id, tensor] : run_.kept) {
      NODEWISE_RETURN_IF_ERROR(MakeReadable(&tensor));
    }
    InterpretOptions options;
    options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
      const std::vector<ValueId>& made = run.operation.outputs;
      for (size_t i = 0; i < made.size(); ++i) {
        if (needed.count(made[i]) == 0) continue;
        run_.kept[made[i]] = run.result.outputs[i];
      }
      return false;
    };
    NODEWISE_ASSIGN_OR_RETURN(run_.outputs,
                              Interpret(network, inputs, options));
    return absl::OkStatus();
  }

  const std::vector<NDArray>& outputs() const override { return run_.outputs; }
  BoundSource& bounds(size_t output) override { return *bounds_[output]; }

 private:
  KeptRun run_;
  std::vector<std::unique_ptr<OutputBounds>> bounds_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BoundedRun>> RunWithLazyBounds(
    const Network& network, std::vector<NDArray> inputs) {
  auto run = std::make_unique<LazyRun>(network, std::move(inputs));
  NODEWISE_RETURN_IF_ERROR(run->Run());
  return run;
}

}  // namespace nodewise
