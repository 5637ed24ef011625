#include "contrib/interp/chain_elements.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/slice.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Sums that are added up in another order differ by no more than this share.
constexpr double kSumsAgree = 0x1p-30;
// From here on inputs are repeated as NumPy does.
constexpr int kBroadcastOpset = 7;

// The number that each element of a tensor of shape `to` has in one of shape
// `from`, which is repeated to it.
class RepeatedPlaces {
 public:
  RepeatedPlaces(absl::Span<const int64_t> from, absl::Span<const int64_t> to)
      : to_(to), strides_(to.size()) {
    const std::vector<int64_t> compact = StridesOf(from);
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] > 1) strides_[to.size() - from.size() + i] = compact[i];
    }
  }

  int64_t Of(int64_t place) const {
    int64_t found = 0;
    for (size_t side = to_.size(); side-- > 0;) {
      found += place % to_[side] * strides_[side];
      place /= to_[side];
    }
    return found;
  }

 private:
  const absl::Span<const int64_t> to_;
  std::vector<int64_t> strides_;
};

bool CanRepeat(absl::Span<const int64_t> from, absl::Span<const int64_t> to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t side = to[to.size() - from.size() + i];
    if (from[i] != 1 && from[i] != side) return false;
  }
  return true;
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

  // Adds what the follower reads of others. Returns false if it cannot be told
  // which of it belongs to an element.
  absl::StatusOr<bool> AddSides(const Operation& follower,
                                std::map<ValueId, BoundedTensor>* known) const {
    const bool is_norm = follower.kind() == "BatchNormalization";
    // Its bounds for folded weights depend on their whole shape, which only the
    // source's inputs have.
    if (is_norm && follower.inputs[0] != run_.chain.source->outputs[0]) {
      return false;
    }
    const std::vector<int64_t> shape = ShapeAt(follower);
    for (size_t slot = 0; slot < follower.inputs.size(); ++slot) {
      const ValueId id = follower.inputs[slot];
      if (id == kNoValue) continue;
      if (IsMade(id)) {
        if (is_norm && slot > 0) return false;
        continue;
      }
      const NDArray side = run_.tensor_of(id);
      absl::StatusOr<NDArray> gathered;
      if (is_norm) {
        if (shape.size() < 2 || CountOf(side) != shape[1]) return false;
        const int64_t inner = Product(absl::MakeConstSpan(shape).subspan(2));
        gathered = Gather(side, {Count()}, [&](int64_t place) {
          return place / inner % shape[1];
        });
      } else if (CountOf(side) == 1) {
        // A side that has to be a scalar stays one.
        gathered = side.shape().size() <= 1 ? side : Gather(side, {1}, {});
      } else if (follower.def().since < kBroadcastOpset ||
                 !CanRepeat(side.shape(), shape)) {
        return false;
      } else {
        const RepeatedPlaces places(side.shape(), shape);
        gathered = Gather(side, {1, Count()},
                          [&](int64_t place) { return places.Of(place); });
      }
      if (!gathered.ok()) return gathered.status();
      // One value may not be gathered in two ways.
      const bool is_new =
          known->emplace(id, BoundedTensor{*gathered, {}}).second;
      if (!is_new && !(known->at(id).tensor.shape() == gathered->shape())) {
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
           std::any_of(run_.chain.followers.begin(), run_.chain.followers.end(),
                       makes);
  }

  // All that is not moved has the shape of the last of it, but for sides of one
  // element at the front; a normalization reads the source.
  std::vector<int64_t> ShapeAt(const Operation& follower) const {
    const bool is_norm = follower.kind() == "BatchNormalization";
    const NDArray tensor = run_.tensor_of(
        is_norm ? run_.chain.source->outputs[0] : run_.chain.BeforeMoves());
    return {tensor.shape().begin(), tensor.shape().end()};
  }

  // Without a function, the first element.
  absl::StatusOr<NDArray> Gather(
      const NDArray& from, std::initializer_list<int64_t> shape,
      const std::function<int64_t(int64_t)>& place_of) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray made,
                              NDArray::Empty(shape, from.dtype(), kCpu));
    const size_t bytes = ElementBytes(from.dtype());
    const auto* const data = from.As<uint8_t>();
    auto* const to = made.As<uint8_t>();
    for (int64_t i = 0; i < CountOf(made); ++i) {
      const auto at = static_cast<size_t>(
          place_of ? place_of(places_[static_cast<size_t>(i)]) : 0);
      std::memcpy(to + static_cast<size_t>(i) * bytes, data + at * bytes,
                  bytes);
    }
    return made;
  }

  const ChainRun& run_;
  const absl::Span<const int64_t> places_;
};

// The source's own bounds.
absl::StatusOr<std::optional<Bounds>> SourceBoundsAt(
    const ChainRun& run, absl::Span<const int64_t> places, Lean lean) {
  const Operation& source = *run.chain.source;
  const NDArray output = run.tensor_of(source.outputs[0]);
  Tensors inputs;
  for (const ValueId id : source.inputs) {
    inputs.push_back(id == kNoValue ? NDArray() : run.tensor_of(id));
  }
  NODEWISE_ASSIGN_OR_RETURN(std::optional<Bounds> bounds,
                            BoundsAt(source.attrs, inputs, output, places));
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
absl::StatusOr<std::optional<Bounds>> CarryAtPlaces(
    const ChainRun& run, absl::Span<const Operation* const> computing,
    absl::Span<const int64_t> places, Bounds own) {
  const Gatherer gatherer(run, places);
  const ValueId made = run.chain.source->outputs[0];
  std::map<ValueId, BoundedTensor> known;
  for (const Operation* follower : computing) {
    NODEWISE_ASSIGN_OR_RETURN(const bool is_told,
                              gatherer.AddSides(*follower, &known));
    if (!is_told) return std::optional<Bounds>();
  }
  for (const ValueId id : run.chain.source->inputs) {
    if (id == kNoValue) continue;
    // Only its whole sizes say how many terms a sum has.
    const bool is_new =
        known.emplace(id, BoundedTensor{run.tensor_of(id), {}}).second;
    if (!is_new) return std::optional<Bounds>();
  }
  NODEWISE_ASSIGN_OR_RETURN(NDArray row, gatherer.Row(run.tensor_of(made)));
  known[made] = {std::move(row), std::move(own)};
  NODEWISE_ASSIGN_OR_RETURN(
      BoundedTensor carried,
      CarryBounds(run.network, made, computing, std::move(known)));
  if (carried.bounds.proved.size() != places.size()) {
    return std::optional<Bounds>();
  }
  return std::optional<Bounds>(std::move(carried.bounds));
}

Bounds PartOf(const Bounds& bounds, int64_t begin, int64_t end) {
  const auto part = [&](const std::vector<double>& of) {
    return std::vector<double>(of.begin() + begin, of.begin() + end);
  };
  return {part(bounds.proved), part(bounds.expected)};
}

}  // namespace

std::vector<int64_t> PlacesBeforeMoves(const ChainRun& run,
                                       absl::Span<const int64_t> elements) {
  std::vector<int64_t> places(elements.begin(), elements.end());
  const RoundingChain& chain = run.chain;
  const auto& followers = chain.followers;
  const NDArray before = run.tensor_of(chain.BeforeMoves());
  std::vector<int64_t> shape(before.shape().begin(), before.shape().end());
  // The step in the tensor that is moved which each side of the output has.
  std::vector<int64_t> strides = StridesOf(shape);
  for (size_t i = followers.size() - chain.moves; i < followers.size(); ++i) {
    const std::vector<int64_t> perm =
        followers[i]->attrs.As<ops::Transpose>()->perm;
    std::vector<int64_t> moved_shape(shape.rbegin(), shape.rend());
    std::vector<int64_t> moved(strides.rbegin(), strides.rend());
    for (size_t side = 0; side < perm.size(); ++side) {
      moved_shape[side] = shape[static_cast<size_t>(perm[side])];
      moved[side] = strides[static_cast<size_t>(perm[side])];
    }
    shape = std::move(moved_shape);
    strides = std::move(moved);
  }
  if (chain.moves == 0) return places;
  for (int64_t& place : places) {
    int64_t found = 0;
    for (size_t side = shape.size(); side-- > 0;) {
      found += place % shape[side] * strides[side];
      place /= shape[side];
    }
    place = found;
  }
  return places;
}

absl::StatusOr<std::optional<Bounds>> BoundsAtPlaces(
    const ChainRun& run, absl::Span<const int64_t> places, Lean lean) {
  const RoundingChain& chain = run.chain;
  NODEWISE_ASSIGN_OR_RETURN(std::optional<Bounds> own,
                            SourceBoundsAt(run, places, lean));
  if (!own.has_value()) return own;
  const auto computing = absl::MakeConstSpan(chain.followers)
                             .first(chain.followers.size() - chain.moves);
  if (computing.empty()) return own;
  // Each element is on its own, and what a part needs fits into a cache.
  constexpr int64_t kPart = 4096;
  constexpr double kNanosecondsPerPart = 200 * kPart;
  const auto count = static_cast<int64_t>(places.size());
  const int64_t parts = (count + kPart - 1) / kPart;
  std::vector<absl::StatusOr<std::optional<Bounds>>> carried(
      static_cast<size_t>(parts));
  ParallelFor(parts, kNanosecondsPerPart, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      const int64_t begin = part * kPart;
      const int64_t end = std::min(begin + kPart, count);
      carried[static_cast<size_t>(part)] =
          CarryAtPlaces(run, computing,
                        places.subspan(static_cast<size_t>(begin),
                                       static_cast<size_t>(end - begin)),
                        PartOf(*own, begin, end));
    }
  });
  Bounds joined;
  for (auto& part : carried) {
    NODEWISE_RETURN_IF_ERROR(part.status());
    if (!part->has_value()) return std::optional<Bounds>();
    const Bounds& bounds = **part;
    joined.proved.insert(joined.proved.end(), bounds.proved.begin(),
                         bounds.proved.end());
    joined.expected.insert(joined.expected.end(), bounds.expected.begin(),
                           bounds.expected.end());
  }
  return std::optional<Bounds>(std::move(joined));
}

}  // namespace nodewise
