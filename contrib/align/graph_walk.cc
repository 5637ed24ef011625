#include "contrib/align/graph_walk.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "contrib/align/recorded_tensor.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// One compiled node seldom covers more operations than this in a row.
constexpr size_t kMostDepth = 16;
constexpr size_t kMostReachable = 96;

std::vector<ValueId> Union(std::vector<ValueId> a,
                           const std::vector<ValueId>& b) {
  for (const ValueId id : b) {
    if (std::find(a.begin(), a.end(), id) == a.end()) a.push_back(id);
  }
  return a;
}

}  // namespace

double CleanDistance(DLDataType source, DLDataType compiled) {
  const double u = std::max(UnitRoundoff(source), UnitRoundoff(compiled));
  // Long sums in another order, and functions that are approximated, are some
  // hundred units off.
  constexpr double kRoundings = 512;
  constexpr double kMost = 0.1;
  return std::min(kRoundings * u, kMost);
}

absl::StatusOr<NDArray> UndoLayout(const Layout& layout,
                                   const NDArray& compiled,
                                   absl::Span<const int64_t> shape,
                                   DLDataType dtype) {
  if (layout.is_same_order() && compiled.dtype() == dtype) {
    return compiled.View(shape, dtype);
  }
  NODEWISE_ASSIGN_OR_RETURN(NDArray source, NDArray::Empty(shape, dtype, kCpu));
  // A source that is repeated or padded is there all the same.
  std::memset(source.data(), 0, source.bytes());
  const int64_t count = CountOf(compiled);
  std::vector<double> numbers(static_cast<size_t>(count));
  LoadDoubles(compiled, 0, count, numbers.data());
  const std::vector<int64_t> places = PlacesOf(layout);
  const auto put = [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t place =
          layout.is_same_order() ? static_cast<int64_t>(i) : places[i];
      if (place == kPaddingPlace) continue;
      source.As<T>()[place] = FromDouble<T>(numbers[i]);
    }
    return absl::OkStatus();
  };
  if (IsFloat(dtype)) {
    NODEWISE_RETURN_IF_ERROR(WithFloat(dtype, put));
  } else if (IsInteger(dtype)) {
    NODEWISE_RETURN_IF_ERROR(WithInteger(dtype, put));
  } else {
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (places[i] == kPaddingPlace) continue;
      source.As<uint8_t>()[places[i]] = numbers[i] != 0 ? 1 : 0;
    }
  }
  return source;
}

GraphWalk::GraphWalk(const WalkScene& scene, FollowedReference reference)
    : scene_(scene),
      reference_(std::move(reference)),
      entries_(scene.index.graph().entries.size()),
      is_changed_(scene.network.data().values.size()) {}

absl::StatusOr<GraphWalk> GraphWalk::Create(const WalkScene& scene) {
  std::vector<std::vector<NDArray>> inputs;
  for (const RecordedPair& pair : scene.pairs) {
    std::vector<NDArray> set;
    for (const ValueId id : scene.network.inputs()) {
      NODEWISE_ASSIGN_OR_RETURN(
          const size_t place,
          pair.network->Find({scene.network.value(id).name}));
      NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, pair.network->Load(place));
      set.push_back(std::move(tensor));
    }
    inputs.push_back(std::move(set));
  }
  GraphWalk walk(scene, FollowedReference(scene.network, inputs));
  for (const PairedInput& input : scene.pairs[0].inputs) {
    const auto entry = scene.index.FindEntry(input.compiled);
    const auto value = scene.network.FindValue(input.network);
    if (!entry.ok() || !value.ok()) continue;
    walk.entries_[Index(*entry)].values = {*value};
    const auto sizes = scene.network.value(*value).type.sizes();
    const auto& shape = scene.index.graph().entry(*entry).shape;
    walk.entries_[Index(*entry)].layouts = {
        Layout::SameOrder(sizes.has_value() ? *sizes : shape, shape)};
    walk.entries_[Index(*entry)].sources = {*value};
  }
  return walk;
}

absl::Status GraphWalk::ExplainFrom(uint32_t node) {
  const Graph& graph = scene_.index.graph();
  for (uint32_t n = node; n < graph.nodes.size(); ++n) {
    NODEWISE_RETURN_IF_ERROR(ExplainNode(NodeId{n}));
  }
  return absl::OkStatus();
}

absl::Status GraphWalk::ExplainNode(NodeId node) {
  const Graph& graph = scene_.index.graph();
  if (!graph.IsFunction(node)) return absl::OkStatus();
  const std::vector<ValueId> sources = SourcesOf(node);
  for (uint32_t output = 0; output < graph.OutputsOf(node); ++output) {
    const EntryId entry = graph.EntryOf(node, output);
    if (!scene_.alignment.entries[Index(entry)].varies) continue;
    NODEWISE_RETURN_IF_ERROR(ExplainEntry(entry, sources));
  }
  return absl::OkStatus();
}

std::vector<ValueId> GraphWalk::SourcesOf(NodeId node) const {
  const Graph& graph = scene_.index.graph();
  std::vector<ValueId> sources;
  for (const EntryRef& input : graph.node(node).inputs) {
    sources = Union(std::move(sources),
                    entries_[Index(graph.EntryOf(input))].sources);
  }
  return sources;
}

std::vector<ValueId> GraphWalk::ReachableFrom(
    const std::vector<ValueId>& sources) const {
  std::vector<ValueId> reachable = sources;
  std::set<ValueId> seen(sources.begin(), sources.end());
  size_t begin = 0;
  for (size_t depth = 0; depth < kMostDepth; ++depth) {
    const size_t end = reachable.size();
    for (size_t i = begin; i < end; ++i) {
      for (const Use& use : scene_.network.value(reachable[i]).uses) {
        if (use.slot == kBarrierSlot) continue;
        for (const ValueId output :
             scene_.network.operation(use.user).outputs) {
          if (output == kNoValue || !seen.insert(output).second) continue;
          if (reachable.size() == kMostReachable) return reachable;
          reachable.push_back(output);
        }
      }
    }
    begin = end;
  }
  return reachable;
}

std::vector<ValueId> GraphWalk::CandidatesFor(
    EntryId entry, const std::vector<ValueId>& sources) const {
  std::vector<ValueId> candidates;
  for (const EntryMatch& match :
       scene_.alignment.entries[Index(entry)].matches) {
    const bool is_whole =
        !match.has_unknown_order && !match.without_input.has_value();
    if (is_whole) candidates.push_back(match.value);
  }
  // Where nothing was blamed, the alignment has compared what is compared here.
  std::vector<ValueId> changed;
  for (const ValueId id : ReachableFrom(sources)) {
    if (is_changed_[Index(id)]) changed.push_back(id);
  }
  return Union(std::move(candidates), changed);
}

absl::StatusOr<std::optional<TensorMatcher>> GraphWalk::Read(
    EntryId entry) const {
  const TensorKey key{scene_.index.KeyOf(scene_.index.NodeOf(entry)),
                      scene_.index.OutputOf(entry)};
  const auto recorded = RecordedTensor::Find(
      SpoolsOf(scene_.pairs, &RecordedPair::compiled), key);
  if (!recorded.has_value()) return std::nullopt;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                            recorded->Load());
  return TensorMatcher(recorded->facts(), tensors);
}

absl::Status GraphWalk::ExplainEntry(EntryId entry,
                                     const std::vector<ValueId>& sources) {
  WalkedEntry& walked = entries_[Index(entry)];
  if (walked.is_blamed) return absl::OkStatus();
  walked = WalkedEntry();
  walked.sources = sources;
  std::vector<EntryMatch> matches;
  std::optional<TensorMatcher> matcher;
  for (const ValueId id : CandidatesFor(entry, sources)) {
    // What cannot be computed matches nothing.
    const auto value = reference_.ValueOf(id);
    if (!value.ok()) continue;
    if (!matcher.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(matcher, Read(entry));
      if (!matcher.has_value()) return absl::OkStatus();
    }
    if (!MayMatch((*value)->facts, matcher->facts())) continue;
    const auto match = matcher->Match((*value)->facts, (*value)->tensors);
    if (!match.has_value() || match->has_unknown_order) continue;
    matches.push_back({id, match->layout, match->distance, false});
  }
  if (matches.empty()) return absl::OkStatus();
  std::stable_sort(matches.begin(), matches.end(),
                   [](const EntryMatch& a, const EntryMatch& b) {
                     return a.distance < b.distance;
                   });
  const EntryMatch& nearest = matches.front();
  walked.distance = nearest.distance;
  const NetworkValue& value = scene_.network.value(nearest.value);
  if (nearest.distance >
      CleanDistance(value.type.dtype, matcher->facts().dtype)) {
    walked.nearest = nearest;
    return absl::OkStatus();
  }
  for (const EntryMatch& match : matches) {
    if (!IsAsNear(match.distance, nearest.distance)) break;
    walked.values.push_back(match.value);
    walked.layouts.push_back(match.layout);
    if (!reference_.IsPinned(match.value)) {
      NODEWISE_RETURN_IF_ERROR(PinTo(entry, match));
    }
  }
  walked.sources = walked.values;
  return absl::OkStatus();
}

absl::Status GraphWalk::PinTo(EntryId entry, const EntryMatch& match) {
  const TensorKey key{scene_.index.KeyOf(scene_.index.NodeOf(entry)),
                      scene_.index.OutputOf(entry)};
  const NetworkValue& value = scene_.network.value(match.value);
  std::vector<NDArray> tensors;
  for (const RecordedPair& pair : scene_.pairs) {
    NODEWISE_ASSIGN_OR_RETURN(const size_t place, pair.compiled->Find(key));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray compiled,
                              pair.compiled->Load(place));
    NODEWISE_ASSIGN_OR_RETURN(const size_t known,
                              pair.network->Find({value.name}));
    const TensorSpool::Kept& kept = pair.network->kept()[known];
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray tensor,
        UndoLayout(match.layout, compiled, kept.shape, kept.dtype));
    tensors.push_back(std::move(tensor));
  }
  reference_.Pin(match.value, std::move(tensors));
  return absl::OkStatus();
}

absl::Status GraphWalk::Blame(EntryId entry, ValueId value,
                              const Layout& layout, double distance) {
  WalkedEntry& walked = entries_[Index(entry)];
  walked.values = {value};
  walked.layouts = {layout};
  walked.sources = {value};
  walked.is_blamed = true;
  walked.distance = distance;
  NODEWISE_RETURN_IF_ERROR(PinTo(entry, {value, layout, distance, false}));
  std::vector<ValueId> changed = {value};
  while (!changed.empty()) {
    const ValueId next = changed.back();
    changed.pop_back();
    if (is_changed_[Index(next)]) continue;
    is_changed_[Index(next)] = true;
    for (const Use& use : scene_.network.value(next).uses) {
      if (use.slot == kBarrierSlot) continue;
      for (const ValueId output : scene_.network.operation(use.user).outputs) {
        if (output != kNoValue) changed.push_back(output);
      }
    }
  }
  return absl::OkStatus();
}

// What is added to a part of an operation comes later, and so does its fault.
bool GraphWalk::IsSoundPart(EntryId id) const {
  const AlignedEntry& entry = scene_.alignment.entries[Index(id)];
  if (entry.matches.empty()) return false;
  const EntryMatch& nearest = entry.matches.front();
  const DLDataType compiled = scene_.index.graph().entry(id).dtype;
  const DLDataType source = scene_.network.value(nearest.value).type.dtype;
  return nearest.without_input.has_value() &&
         !is_changed_[Index(nearest.value)] &&
         nearest.distance <= CleanDistance(source, compiled);
}

std::vector<bool> GraphWalk::FineEntries() const {
  const Graph& graph = scene_.index.graph();
  std::vector<bool> fine(entries_.size(), true);
  std::set<EntryId> heads;
  for (const EntryRef& head : graph.heads) heads.insert(graph.EntryOf(head));
  std::vector<bool> is_node_fine(graph.nodes.size(), true);
  for (size_t n = graph.nodes.size(); n > 0; --n) {
    const NodeId node{static_cast<uint32_t>(n - 1)};
    for (uint32_t output = 0; output < graph.OutputsOf(node); ++output) {
      const EntryId id = graph.EntryOf(node, output);
      const WalkedEntry& walked = entries_[Index(id)];
      if (!scene_.alignment.entries[Index(id)].varies ||
          walked.is_explained() || IsSoundPart(id)) {
        continue;
      }
      const absl::Span<const NodeId> readers = scene_.index.ReadersOf(id);
      // One that nobody reads may be a second output that is not wanted.
      const bool is_last = heads.count(id) > 0;
      fine[Index(id)] =
          !is_last &&
          std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
            return is_node_fine[Index(reader)];
          });
      if (!fine[Index(id)]) is_node_fine[n - 1] = false;
    }
  }
  return fine;
}

}  // namespace nodewise
