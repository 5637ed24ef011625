#include "contrib/align/graph_walk.h"

#include <algorithm>
#include <cmath>
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
// The roundoff assumed at least: nothing that is read was rounded if it is all
// integers.
constexpr double kFloatRoundoff = 6e-8;

std::vector<ValueId> Union(std::vector<ValueId> a,
                           const std::vector<ValueId>& b) {
  for (const ValueId id : b) {
    if (std::find(a.begin(), a.end(), id) == a.end()) a.push_back(id);
  }
  return a;
}

bool IsCut(const AlignedEntry& entry) {
  return !entry.matches.empty() && entry.matches[0].layout.cut.has_value();
}

}  // namespace

GraphWalk::GraphWalk(const WalkScene& scene, FollowedReference reference)
    : scene_(scene),
      precision_(std::make_shared<GraphPrecision>(
          scene.index, scene.network, scene.pairs, scene.alignment)),
      alike_(std::make_shared<const AlikeValues>(scene.network)),
      reference_(std::move(reference)),
      entries_(scene.index.graph().entries.size()),
      is_changed_(scene.network.data().values.size()),
      is_fitted_(scene.network.data().values.size()) {}

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
    const auto sizes = scene.network.value(*value).type.sizes();
    const auto& shape = scene.index.graph().entry(*entry).shape;
    walk.entries_[Index(*entry)].Explain(
        {{*value,
          Layout::SameOrder(sizes.has_value() ? *sizes : shape, shape)}});
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
    const bool is_whole = !match.has_unknown_order &&
                          !match.without_input.has_value() &&
                          !match.layout.cut.has_value();
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
  TensorMatcher matcher(recorded->facts(), tensors);
  if (scene_.alignment.entries[Index(entry)].is_rounded) {
    NODEWISE_ASSIGN_OR_RETURN(const double roundoff,
                              precision_->Inherited(entry));
    matcher.AllowRoundoff(roundoff);
  }
  return matcher;
}

absl::StatusOr<std::vector<EntryMatch>> GraphWalk::Compare(
    const TensorMatcher& matcher, const std::vector<ValueId>& candidates) {
  std::vector<EntryMatch> matches;
  const auto take = [&](ValueId id, const std::optional<TensorMatch>& match) {
    if (!match.has_value() || match->has_unknown_order) return;
    matches.push_back({id, match->layout, match->distance, false});
  };
  // A value that cannot be computed matches nothing.
  for (const ValueId id : candidates) {
    const auto value = reference_.ValueOf(id);
    if (!value.ok() || !MayMatch((*value)->facts, matcher.facts())) continue;
    take(id, matcher.Match((*value)->facts, (*value)->tensors));
  }
  const bool is_known = !matches.empty();
  for (const ValueId id : candidates) {
    if (is_known) break;
    const auto value = reference_.ValueOf(id);
    if (!value.ok() || !matcher.MayMatchRounded((*value)->facts)) continue;
    take(id, matcher.MatchRounded((*value)->facts, (*value)->tensors));
  }
  std::stable_sort(matches.begin(), matches.end(),
                   [](const EntryMatch& a, const EntryMatch& b) {
                     return a.distance < b.distance;
                   });
  return matches;
}

absl::Status GraphWalk::ExplainByParts(EntryId entry,
                                       const TensorMatcher& matcher) {
  if (!IsCut(scene_.alignment.entries[Index(entry)])) return absl::OkStatus();
  WalkedEntry& walked = entries_[Index(entry)];
  std::vector<HeldTensor> sound;
  std::optional<EntryMatch> wrong;
  for (EntryMatch match : scene_.alignment.entries[Index(entry)].matches) {
    const auto value = reference_.ValueOf(match.value);
    if (!value.ok()) return absl::OkStatus();
    match.distance = matcher.DistanceIn(match.layout, (*value)->tensors);
    walked.distance = std::max(walked.distance, match.distance);
    NODEWISE_ASSIGN_OR_RETURN(const bool is_sound,
                              IsSound(entry, matcher, match));
    if (!is_sound) {
      wrong = std::move(match);
      continue;
    }
    sound.push_back({match.value, match.layout});
    // A part has not all numbers of its whole.
    if (match.is_joined && !reference_.IsPinned(match.value)) {
      NODEWISE_RETURN_IF_ERROR(PinTo(entry, match));
    }
  }
  const bool is_joined =
      scene_.alignment.entries[Index(entry)].matches[0].is_joined;
  if (!is_joined) {
    // The rest may be missing by mistake: what is made of it shows that.
    if (sound.empty()) return absl::OkStatus();
    walked.sources.clear();
    for (const HeldTensor& part : sound) walked.sources.push_back(part.value);
    return absl::OkStatus();
  }
  if (wrong.has_value()) {
    walked.nearest = std::move(wrong);
    return absl::OkStatus();
  }
  walked.Explain(std::move(sound));
  return absl::OkStatus();
}

absl::Status GraphWalk::ExplainEntry(EntryId entry,
                                     const std::vector<ValueId>& sources) {
  WalkedEntry& walked = entries_[Index(entry)];
  if (walked.is_blamed || walked.is_accepted) return absl::OkStatus();
  const std::vector<HeldTensor> before =
      std::exchange(walked, WalkedEntry()).tensors;
  // The tensors that the entry was taken for, when other numbers were known
  // before it, are to be computed of the present ones.
  for (const HeldTensor& tensor : before) {
    if (is_changed_[Index(tensor.value)]) Forsake(tensor.value);
  }
  walked.sources = sources;
  const std::vector<ValueId> candidates = CandidatesFor(entry, sources);
  const bool is_float = IsFloat(scene_.index.graph().entry(entry).dtype);
  const bool is_cut = IsCut(scene_.alignment.entries[Index(entry)]);
  if (candidates.empty() && is_float && !is_cut) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const auto matcher, Read(entry));
  if (!matcher.has_value()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<EntryMatch> matches,
                            Compare(*matcher, candidates));
  if (matches.empty()) {
    NODEWISE_RETURN_IF_ERROR(ExplainByParts(entry, *matcher));
    if (walked.is_explained() || walked.nearest.has_value()) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto match,
                              DiscreteMatch(entry, *matcher, sources));
    if (!match.has_value()) return absl::OkStatus();
    walked.Explain({{match->value, match->layout}});
    return PinTo(entry, *match);
  }
  const EntryMatch& nearest = matches.front();
  walked.distance = nearest.distance;
  NODEWISE_ASSIGN_OR_RETURN(const bool is_sound,
                            IsSound(entry, *matcher, nearest));
  if (!is_sound) {
    walked.nearest = nearest;
    return absl::OkStatus();
  }
  std::vector<HeldTensor> held;
  for (const EntryMatch& match : matches) {
    if (!IsAsNear(match.distance, nearest.distance)) break;
    held.push_back({match.value, match.layout});
    // A scale that was fitted is not quite the one that the graph goes on with.
    const bool is_better = is_fitted_[Index(match.value)] &&
                           !match.layout.quantisation.has_value();
    if (!reference_.IsPinned(match.value) || is_better) {
      NODEWISE_RETURN_IF_ERROR(PinTo(entry, match));
    }
  }
  walked.Explain(std::move(held));
  return absl::OkStatus();
}

absl::StatusOr<double> GraphWalk::RoundoffOf(EntryId entry,
                                             ValueId value) const {
  NODEWISE_ASSIGN_OR_RETURN(const double read,
                            precision_->ReadBy(scene_.index.NodeOf(entry)));
  NODEWISE_ASSIGN_OR_RETURN(const double own, precision_->Of(entry));
  return std::max({UnitRoundoff(scene_.network.value(value).type.dtype),
                   UnitRoundoff(scene_.index.graph().entry(entry).dtype), read,
                   own});
}

absl::StatusOr<double> GraphWalk::CleanDistanceOf(EntryId entry,
                                                  ValueId value) const {
  NODEWISE_ASSIGN_OR_RETURN(const double roundoff, RoundoffOf(entry, value));
  return CleanDistance(roundoff);
}

absl::StatusOr<bool> GraphWalk::IsSound(EntryId entry,
                                        const TensorMatcher& matcher,
                                        const EntryMatch& match) {
  const DLDataType type = scene_.network.value(match.value).type.dtype;
  if (match.distance <= CleanDistance(type, matcher.facts().dtype)) return true;
  NODEWISE_ASSIGN_OR_RETURN(const double roundoff,
                            RoundoffOf(entry, match.value));
  if (match.distance <= CleanDistance(roundoff)) return true;
  return IsWithinRounding(matcher, match, std::max(roundoff, kFloatRoundoff));
}

absl::StatusOr<bool> GraphWalk::IsWithinRounding(const TensorMatcher& matcher,
                                                 const EntryMatch& match,
                                                 double roundoff) {
  // Numbers that are compiled and those that the reference reads differ by a
  // few roundings, which fall otherwise each time.
  constexpr double kRoundings = 16;
  constexpr uint64_t kTries = 2;
  constexpr double kTimes = 2;
  if (reference_.IsPinned(match.value)) return false;
  NODEWISE_ASSIGN_OR_RETURN(const auto value, reference_.ValueOf(match.value));
  const Layout same = Layout::SameOrder(value->facts.shape, value->facts.shape);
  Difference moved;
  for (uint64_t seed = 0; seed < kTries; ++seed) {
    const auto near =
        reference_.ValueNear(match.value, kRoundings * roundoff, seed);
    if (!near.ok() || (*near)->facts.shape != value->facts.shape) return false;
    const Difference one = TensorMatcher((*near)->facts, (*near)->tensors)
                               .DifferenceIn(same, value->tensors);
    moved.largest = std::max(moved.largest, one.largest);
    moved.root_mean_square =
        std::max(moved.root_mean_square, one.root_mean_square);
  }
  const Difference found = matcher.DifferenceIn(match.layout, value->tensors);
  const double clean = CleanDistance(roundoff);
  return std::isfinite(found.largest) &&
         found.largest <= kTimes * moved.largest + clean &&
         found.root_mean_square <= kTimes * moved.root_mean_square + clean;
}

absl::StatusOr<std::optional<EntryMatch>> GraphWalk::DiscreteMatch(
    EntryId entry, const TensorMatcher& matcher,
    const std::vector<ValueId>& sources) {
  if (IsFloat(matcher.facts().dtype)) return std::nullopt;
  for (const ValueId id : ReachableFrom(sources)) {
    if (IsFloat(scene_.network.value(id).type.dtype)) continue;
    const auto value = reference_.ValueOf(id);
    if (!value.ok() || (*value)->facts.shape != matcher.facts().shape) {
      continue;
    }
    const EntryMatch match{
        id, Layout::SameOrder((*value)->facts.shape, matcher.facts().shape), 0,
        false};
    NODEWISE_ASSIGN_OR_RETURN(const double read,
                              precision_->ReadBy(scene_.index.NodeOf(entry)));
    NODEWISE_ASSIGN_OR_RETURN(
        const bool is_sound,
        IsWithinRounding(matcher, match, std::max(read, kFloatRoundoff)));
    if (is_sound) return match;
  }
  return std::nullopt;
}

absl::Status GraphWalk::PinTo(EntryId entry, const EntryMatch& match) {
  const TensorKey key{scene_.index.KeyOf(scene_.index.NodeOf(entry)),
                      scene_.index.OutputOf(entry)};
  const NetworkValue& value = scene_.network.value(match.value);
  std::vector<NDArray> tensors;
  std::vector<int64_t> shape = match.layout.other_shape;
  if (shape.empty() && has_other_shapes_) {
    const auto made = reference_.ValueOf(match.value);
    if (made.ok()) shape = (*made)->facts.shape;
  }
  has_other_shapes_ = has_other_shapes_ || !match.layout.other_shape.empty();
  for (const RecordedPair& pair : scene_.pairs) {
    NODEWISE_ASSIGN_OR_RETURN(const size_t place, pair.compiled->Find(key));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray compiled,
                              pair.compiled->Load(place));
    NODEWISE_ASSIGN_OR_RETURN(const size_t known,
                              pair.network->Find({value.name}));
    const TensorSpool::Kept& kept = pair.network->kept()[known];
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray tensor,
        UndoLayout(match.layout, compiled, shape.empty() ? kept.shape : shape,
                   kept.dtype));
    tensors.push_back(std::move(tensor));
  }
  reference_.Pin(match.value, std::move(tensors));
  is_fitted_[Index(match.value)] = match.layout.quantisation.has_value();
  return absl::OkStatus();
}

absl::Status GraphWalk::Accept(EntryId entry, ValueId value,
                               const Layout& layout, double distance) {
  NODEWISE_RETURN_IF_ERROR(Blame(entry, value, layout, distance));
  entries_[Index(entry)].is_blamed = false;
  entries_[Index(entry)].is_accepted = true;
  return absl::OkStatus();
}

void GraphWalk::GiveUp(EntryId entry) {
  entries_[Index(entry)] = WalkedEntry();
  entries_[Index(entry)].is_blamed = true;
}

absl::Status GraphWalk::Blame(EntryId entry, ValueId value,
                              const Layout& layout, double distance) {
  NODEWISE_RETURN_IF_ERROR(MakeFree(entry, value));
  WalkedEntry& walked = entries_[Index(entry)];
  std::vector<HeldTensor> held = {{value, layout}};
  // A tensor that is made in the same way a second time may have been made
  // once.
  for (const ValueId other : alike_->With(value)) {
    if (!IsPinned(other)) held.push_back({other, layout});
  }
  walked.Explain(std::move(held));
  walked.is_blamed = true;
  walked.nearest.reset();
  walked.distance = distance;
  for (const HeldTensor& tensor : walked.tensors) {
    NODEWISE_RETURN_IF_ERROR(
        PinTo(entry, {tensor.value, layout, distance, false}));
    MarkChanged(tensor.value);
  }
  return absl::OkStatus();
}

void GraphWalk::MarkChanged(ValueId value) {
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
}

}  // namespace nodewise
