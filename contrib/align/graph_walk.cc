// The walk through the compiled graph.
//
// A node is right if what it makes is what the network makes of what the node
// has read. So wherever an entry is found to hold a tensor of the network, the
// entry's numbers are pinned in the reference in the place of that tensor, and
// what the reference makes of them is what the next nodes have to make: errors
// of earlier nodes come along on both sides and cancel out. An entry is
// explained if it is as near to such a tensor as the roundings between allow.
// Where it is near enough to be known again and no nearer, or is like nothing,
// it is left without a tensor, and SettledEntries() says whether that is a
// fault: it is not where all that is made of the entry is explained.

#include "contrib/align/graph_walk.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "contrib/align/network_walk.h"
#include "nodewise/op/op_def.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

bool AreEqual(const NDArray& a, const NDArray& b) {
  return a.data() == b.data() ||
         (a.bytes() == b.bytes() &&
          std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// Returns by value the first constant that is equal to it, itself for all else.
// Most constants of one shape differ in their first bytes.
std::vector<ValueId> FirstEqualConstants(const Network& network) {
  std::vector<ValueId> first(network.data().values.size(), kNoValue);
  std::map<std::tuple<int, int, std::vector<int64_t>>,
           std::vector<const NetworkValue*>>
      different;
  for (const auto& value : network.data().values) {
    if (!value.has_value()) continue;
    first[Index(value->id)] = value->id;
    const NDArray& data = value->data;
    if (value->kind != NetworkValue::Kind::kConstant || !data.defined() ||
        data.device().device_type != kDLCPU) {
      continue;
    }
    auto& others = different[{data.dtype().code,
                              data.dtype().bits,
                              {data.shape().begin(), data.shape().end()}}];
    const auto equal = std::ranges::find_if(
        others,
        [&](const NetworkValue* other) { return AreEqual(data, other->data); });
    if (equal == others.end()) {
      others.push_back(&*value);
    } else {
      first[Index(value->id)] = (*equal)->id;
    }
  }
  return first;
}

// Returns by value the others that are made like it: by the same operator with
// the same attributes, of the same values or of such that are made alike, and
// of equal constants. They have the same numbers for every input of the
// network, and a compiler may compute them once. Each is known by the first
// one, which takes its place in what later operations read.
std::vector<std::vector<ValueId>> EquivalentValues(const Network& network) {
  std::vector<ValueId> first = FirstEqualConstants(network);
  std::map<std::tuple<const OperatorDef*, std::vector<ValueId>, size_t>,
           std::vector<OperationId>>
      made;
  std::map<ValueId, std::vector<ValueId>> groups;
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    std::vector<ValueId> inputs = operation.inputs;
    for (ValueId& input : inputs) {
      if (input != kNoValue) input = first[Index(input)];
    }
    auto& others =
        made[{&operation.def(), std::move(inputs), operation.outputs.size()}];
    const auto like = std::ranges::find_if(others, [&](OperationId other) {
      return network.operation(other).attrs == operation.attrs;
    });
    const bool is_new = like == others.end();
    const OperationId first_like = is_new ? id : *like;
    if (is_new) others.push_back(id);
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const ValueId output = operation.outputs[i];
      if (output == kNoValue) continue;
      const ValueId one = network.operation(first_like).outputs[i];
      if (one != kNoValue) first[Index(output)] = one;
      groups[first[Index(output)]].push_back(output);
    }
  }
  std::vector<std::vector<ValueId>> alike(first.size());
  for (const auto& [one, values] : groups) {
    for (const ValueId id : values) {
      alike[Index(id)] = values;
      std::erase(alike[Index(id)], id);
    }
  }
  return alike;
}

std::vector<ValueId> Union(std::vector<ValueId> a,
                           const std::vector<ValueId>& b) {
  for (const ValueId id : b) {
    if (!Contains(a, id)) a.push_back(id);
  }
  return a;
}

bool IsCut(const AlignedEntry& entry) {
  return !entry.matches.empty() && entry.matches[0].layout.cut.has_value();
}

// Here `id` counts as its own ancestor.
std::vector<bool> AncestorsOf(const Network& network, ValueId id) {
  return WalkBack(network, {id}, [](const NetworkValue&) { return true; });
}

}  // namespace

GraphWalk::GraphWalk(const WalkScene& scene, FollowedReference reference)
    : scene_(scene),
      precision_(std::make_shared<GraphPrecision>(scene)),
      alike_(std::make_shared<const std::vector<std::vector<ValueId>>>(
          EquivalentValues(scene.network))),
      reference_(std::move(reference)),
      entries_(scene.index.graph().entries.size()),
      is_changed_(scene.network.data().values.size()),
      is_fitted_(scene.network.data().values.size()) {}

absl::StatusOr<GraphWalk> GraphWalk::Create(const WalkScene& scene) {
  std::vector<std::vector<NDArray>> inputs(scene.pairs.size());
  for (size_t set = 0; set < inputs.size(); ++set) {
    const TensorSpool& spool = *scene.pairs[set].network;
    for (const ValueId id : scene.network.inputs()) {
      NODEWISE_ASSIGN_OR_RETURN(const size_t place,
                                spool.Find({scene.network.value(id).name}));
      NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, spool.Load(place));
      inputs[set].push_back(std::move(tensor));
    }
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

absl::Status GraphWalk::ExplainNodes(uint32_t begin, uint32_t end) {
  const size_t count = graph().nodes.size();
  for (uint32_t n = begin; n < std::min<size_t>(end, count); ++n) {
    NODEWISE_RETURN_IF_ERROR(ExplainNode(NodeId{n}));
  }
  return absl::OkStatus();
}

absl::Status GraphWalk::ExplainNode(NodeId node) {
  if (!graph().IsFunction(node)) return absl::OkStatus();
  const std::vector<ValueId> sources = SourcesOf(node);
  for (const EntryId entry : EntriesMadeBy(graph(), node)) {
    if (!aligned(entry).varies) continue;
    NODEWISE_RETURN_IF_ERROR(ExplainEntry(entry, sources));
  }
  return absl::OkStatus();
}

std::vector<ValueId> GraphWalk::SourcesOf(NodeId node) const {
  std::vector<ValueId> sources;
  for (const EntryId read : ReadsOf(graph(), node)) {
    sources = Union(std::move(sources), entry(read).sources);
  }
  return sources;
}

// Values are in the order of the number of operations between, and not as deep
// as possible, since the nearest ones are the likeliest.
std::vector<ValueId> GraphWalk::ReachableFrom(
    const std::vector<ValueId>& sources) const {
  std::vector<ValueId> reachable = sources;
  std::set<ValueId> seen(sources.begin(), sources.end());
  size_t begin = 0;
  for (size_t depth = 0; depth < kMostOperationsOfNode; ++depth) {
    const size_t end = reachable.size();
    for (; begin < end; ++begin) {
      for (const Use& use : network().value(reachable[begin]).uses) {
        if (use.slot == kBarrierSlot) continue;
        for (const ValueId output : network().operation(use.user).outputs) {
          if (output == kNoValue || !seen.insert(output).second) continue;
          if (reachable.size() == kMostReachable) return reachable;
          reachable.push_back(output);
        }
      }
    }
  }
  return reachable;
}

// Where nothing was blamed, the alignment has compared the entry with all
// tensors. Only those that depend on what was blamed are new.
std::vector<ValueId> GraphWalk::CandidatesFor(
    EntryId entry, const std::vector<ValueId>& sources) const {
  std::vector<ValueId> candidates;
  for (const EntryMatch& match : aligned(entry).matches) {
    const bool is_whole = !match.has_unknown_order &&
                          !match.without_input.has_value() &&
                          !match.layout.cut.has_value();
    if (is_whole) candidates.push_back(match.value);
  }
  std::vector<ValueId> changed = ReachableFrom(sources);
  std::erase_if(changed, [&](ValueId id) { return !is_changed_[Index(id)]; });
  return Union(std::move(candidates), changed);
}

absl::StatusOr<std::optional<TensorMatcher>> GraphWalk::Read(
    EntryId entry) const {
  const auto recorded = RecordedEntry(scene_.index, scene_.pairs, entry);
  if (!recorded.has_value()) return std::nullopt;
  NODEWISE_ASSIGN_OR_RETURN(auto matcher, TensorMatcher::Create(*recorded));
  if (aligned(entry).is_rounded) {
    NODEWISE_ASSIGN_OR_RETURN(const double roundoff,
                              precision_->Inherited(entry));
    matcher.AllowRoundoff(roundoff);
  }
  return matcher;
}

absl::StatusOr<std::vector<EntryMatch>> GraphWalk::Compare(
    const TensorMatcher& matcher, const std::vector<ValueId>& candidates) {
  std::vector<EntryMatch> matches;
  // An entry that matches as it is need not match as coarser numbers.
  for (const bool is_rounded : {false, true}) {
    if (!matches.empty()) break;
    for (const ValueId id : candidates) {
      // A value that cannot be computed matches nothing.
      const auto value = reference_.ValueOf(id);
      if (!value.ok()) continue;
      const auto& [facts, tensors] = **value;
      if (is_rounded ? !matcher.MayMatchRounded(facts)
                     : !MayMatch(facts, matcher.facts())) {
        continue;
      }
      const auto match = is_rounded ? matcher.MatchRounded(facts, tensors)
                                    : matcher.Match(facts, tensors);
      if (!match.has_value() || match->has_unknown_order) continue;
      matches.push_back({id, match->layout, match->distance, false});
    }
  }
  std::ranges::stable_sort(matches, {}, &EntryMatch::distance);
  return matches;
}

absl::Status GraphWalk::ExplainByParts(EntryId entry,
                                       const TensorMatcher& matcher) {
  if (!IsCut(aligned(entry))) return absl::OkStatus();
  const std::vector<EntryMatch>& matches = aligned(entry).matches;
  WalkedEntry& walked = entries_[Index(entry)];
  std::vector<HeldTensor> sound;
  std::optional<EntryMatch> wrong;
  for (EntryMatch match : matches) {
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
      NODEWISE_RETURN_IF_ERROR(PinTo(entry, match.value, match.layout));
    }
  }
  if (matches[0].is_joined) {
    if (wrong.has_value()) {
      walked.nearest = std::move(wrong);
    } else {
      walked.Explain(std::move(sound));
    }
    return absl::OkStatus();
  }
  // The rest may be missing by mistake, and what is made of it shows that: the
  // readers depend on the whole, but the entry is not taken for it.
  if (sound.empty()) return absl::OkStatus();
  walked.Explain(std::move(sound));
  walked.tensors.clear();
  return absl::OkStatus();
}

absl::Status GraphWalk::ExplainEntry(EntryId entry,
                                     const std::vector<ValueId>& sources) {
  WalkedEntry& walked = entries_[Index(entry)];
  if (walked.is_decided()) return absl::OkStatus();
  const std::vector<HeldTensor> before =
      std::exchange(walked, WalkedEntry()).tensors;
  // The tensors that the entry was taken for, when other numbers were known
  // before it, are to be computed of the present ones.
  for (const HeldTensor& tensor : before) {
    if (is_changed_[Index(tensor.value)]) UnpinIfNotHeld(tensor.value);
  }
  walked.sources = sources;
  const std::vector<ValueId> candidates = CandidatesFor(entry, sources);
  const bool is_float = IsFloat(graph().entry(entry).dtype);
  const bool is_cut = IsCut(aligned(entry));
  if (candidates.empty() && is_float && !is_cut) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const auto matcher, Read(entry));
  if (!matcher.has_value()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const auto matches, Compare(*matcher, candidates));
  if (matches.empty()) {
    NODEWISE_RETURN_IF_ERROR(ExplainByParts(entry, *matcher));
    if (walked.is_explained() || walked.nearest.has_value()) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto match,
                              DiscreteMatch(entry, *matcher, sources));
    if (!match.has_value()) return absl::OkStatus();
    walked.Explain({*match});
    return PinTo(entry, match->value, match->layout);
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
    if (!IsEquallyNear(match.distance, nearest.distance)) break;
    held.push_back({match.value, match.layout});
    // A scale that was fitted is not quite the one that the graph goes on with.
    const bool is_better = is_fitted_[Index(match.value)] &&
                           !match.layout.quantisation.has_value();
    if (!reference_.IsPinned(match.value) || is_better) {
      NODEWISE_RETURN_IF_ERROR(PinTo(entry, match.value, match.layout));
    }
  }
  walked.Explain(std::move(held));
  return absl::OkStatus();
}

absl::StatusOr<double> GraphWalk::RoundoffOf(EntryId entry,
                                             ValueId value) const {
  NODEWISE_ASSIGN_OR_RETURN(const auto read, precision_->ReadBy(NodeOf(entry)));
  NODEWISE_ASSIGN_OR_RETURN(const double own, precision_->RoundoffFor(entry));
  return std::max({UnitRoundoff(network().value(value).type.dtype),
                   UnitRoundoff(graph().entry(entry).dtype), read, own});
}

absl::StatusOr<double> GraphWalk::CleanDistanceOf(EntryId entry,
                                                  ValueId value) const {
  NODEWISE_ASSIGN_OR_RETURN(const double roundoff, RoundoffOf(entry, value));
  return CleanDistance(roundoff);
}

// The cheapest way to know it comes first: by the types, by the numbers that
// were read, and by computing the reference again.
absl::StatusOr<bool> GraphWalk::IsSound(EntryId entry,
                                        const TensorMatcher& matcher,
                                        const EntryMatch& match) {
  const DLDataType type = network().value(match.value).type.dtype;
  if (match.distance <= CleanDistance(type, matcher.facts().dtype)) return true;
  NODEWISE_ASSIGN_OR_RETURN(const double roundoff,
                            RoundoffOf(entry, match.value));
  if (match.distance <= CleanDistance(roundoff)) return true;
  return IsWithinRounding(matcher, match.value, match.layout,
                          std::max(roundoff, kFloatRoundoff));
}

// Rounding may decide between two results: next to a step, or a maximum, a
// number turns into something else. The reference does so, too, if what it
// reads is moved by some roundings. Both the largest difference and the mean
// one have to be explained, since one element that jumps says nothing about
// all others.
absl::StatusOr<bool> GraphWalk::IsWithinRounding(const TensorMatcher& matcher,
                                                 ValueId id,
                                                 const Layout& layout,
                                                 double roundoff) {
  if (reference_.IsPinned(id)) return false;
  NODEWISE_ASSIGN_OR_RETURN(const auto value, reference_.ValueOf(id));
  const Layout same = Layout::SameOrder(value->facts.shape, value->facts.shape);
  Difference moved;
  for (uint64_t seed = 0; seed < kMovedTries; ++seed) {
    const auto near =
        reference_.PerturbedValue(id, kMovedRoundings * roundoff, seed);
    if (!near.ok() || (*near)->facts.shape != value->facts.shape) return false;
    const Difference one = TensorMatcher((*near)->facts, (*near)->tensors)
                               .DifferenceIn(same, value->tensors);
    moved.largest = std::max(moved.largest, one.largest);
    moved.root_mean_square =
        std::max(moved.root_mean_square, one.root_mean_square);
  }
  const Difference found = matcher.DifferenceIn(layout, value->tensors);
  const double clean = CleanDistance(roundoff);
  return std::isfinite(found.largest) &&
         found.largest <= kMovedTimes * moved.largest + clean &&
         found.root_mean_square <= kMovedTimes * moved.root_mean_square + clean;
}

absl::StatusOr<std::optional<HeldTensor>> GraphWalk::DiscreteMatch(
    EntryId entry, const TensorMatcher& matcher,
    const std::vector<ValueId>& sources) {
  if (IsFloat(matcher.facts().dtype)) return std::nullopt;
  const std::vector<int64_t>& shape = matcher.facts().shape;
  for (const ValueId id : ReachableFrom(sources)) {
    if (IsFloat(network().value(id).type.dtype)) continue;
    const auto value = reference_.ValueOf(id);
    if (!value.ok() || (*value)->facts.shape != shape) continue;
    const Layout same = Layout::SameOrder(shape, shape);
    NODEWISE_ASSIGN_OR_RETURN(const double read,
                              precision_->ReadBy(NodeOf(entry)));
    NODEWISE_ASSIGN_OR_RETURN(
        const bool is_sound,
        IsWithinRounding(matcher, id, same, std::max(read, kFloatRoundoff)));
    if (is_sound) return HeldTensor{id, same};
  }
  return std::nullopt;
}

// The shape and type are those of the network's own run, which knows them even
// where the network leaves them open.
absl::Status GraphWalk::PinTo(EntryId entry, ValueId id, const Layout& layout) {
  const TensorKey key{scene_.index.KeyOf(NodeOf(entry)),
                      scene_.index.OutputOf(entry)};
  std::vector<NDArray> tensors;
  std::vector<int64_t> shape = layout.other_shape;
  // Behind a tensor of the wrong size, others have sizes that the network's own
  // run does not show.
  if (shape.empty() && has_other_shapes_) {
    const auto made = reference_.ValueOf(id);
    if (made.ok()) shape = (*made)->facts.shape;
  }
  has_other_shapes_ = has_other_shapes_ || !layout.other_shape.empty();
  for (const RecordedPair& pair : scene_.pairs) {
    NODEWISE_ASSIGN_OR_RETURN(const size_t place, pair.compiled->Find(key));
    NODEWISE_ASSIGN_OR_RETURN(const auto compiled, pair.compiled->Load(place));
    NODEWISE_ASSIGN_OR_RETURN(const size_t known,
                              pair.network->Find({network().value(id).name}));
    const TensorSpool::Kept& kept = pair.network->kept()[known];
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray tensor,
        UndoLayout(layout, compiled, shape.empty() ? kept.shape : shape,
                   kept.dtype));
    tensors.push_back(std::move(tensor));
  }
  reference_.Pin(id, std::move(tensors));
  is_fitted_[Index(id)] = layout.quantisation.has_value();
  return absl::OkStatus();
}

absl::Status GraphWalk::Accept(const Guess& guess) {
  NODEWISE_RETURN_IF_ERROR(Blame(guess));
  entries_[Index(guess.entry)].by = WalkedEntry::By::kAccepted;
  return absl::OkStatus();
}

void GraphWalk::GiveUp(EntryId entry) {
  entries_[Index(entry)] = WalkedEntry();
  entries_[Index(entry)].by = WalkedEntry::By::kBlamed;
}

// All that depends on the tensor has other numbers from now on than the
// alignment has compared, and is marked, so that the walk compares it anew.
absl::Status GraphWalk::Blame(const Guess& guess) {
  NODEWISE_RETURN_IF_ERROR(UnassignEntry(guess.entry, guess.value));
  WalkedEntry& walked = entries_[Index(guess.entry)];
  std::vector<HeldTensor> held = {{guess.value, guess.layout}};
  // A tensor that is made in the same way a second time may have been made
  // once.
  for (const ValueId other : (*alike_)[Index(guess.value)]) {
    if (!IsPinned(other)) held.push_back({other, guess.layout});
  }
  walked.Explain(std::move(held));
  walked.by = WalkedEntry::By::kBlamed;
  walked.nearest.reset();
  walked.distance = guess.distance;
  for (const HeldTensor& tensor : walked.tensors) {
    NODEWISE_RETURN_IF_ERROR(PinTo(guess.entry, tensor.value, guess.layout));
    MarkChanged(tensor.value);
  }
  return absl::OkStatus();
}

void GraphWalk::MarkChanged(ValueId value) {
  if (is_changed_[Index(value)]) return;
  is_changed_[Index(value)] = true;
  WalkBehind(network(), value, [this](ValueId made) {
    if (is_changed_[Index(made)]) return false;
    is_changed_[Index(made)] = true;
    return true;
  });
}

bool GraphWalk::MayBeIntended(ValueId id) const {
  if (!IsPinned(id)) return true;
  const std::vector<EntryId> holders = HoldersOf(id);
  return !holders.empty() && std::ranges::all_of(holders, [&](EntryId holder) {
    const WalkedEntry& walked = entry(holder);
    return !walked.IsDecidedAs(id) &&
           std::ranges::any_of(walked.tensors, [&](const auto& tensor) {
             return tensor.value != id &&
                    !AncestorsOf(network(), tensor.value)[Index(id)];
           });
  });
}

bool GraphWalk::IsIdle(EntryId id) const {
  const SomeEntries reads = ReadsOf(graph(), NodeOf(id));
  return entry(id).is_explained() &&
         std::ranges::all_of(entry(id).tensors, [&](const auto& tensor) {
           return std::ranges::any_of(reads, [&](EntryId read) {
             return entry(read).Holds(tensor.value);
           });
         });
}

std::vector<EntryId> GraphWalk::HoldersOf(ValueId id) const {
  std::vector<EntryId> holders;
  for (uint32_t e = 0; e < entries_.size(); ++e) {
    if (entries_[e].Holds(id)) holders.push_back(EntryId{e});
  }
  return holders;
}

// A tensor that is made of the other one does not count: a Reshape has the same
// numbers, too, and the two are not in doubt.
std::vector<ValueId> GraphWalk::SharedWith(ValueId id) const {
  std::vector<ValueId> shared;
  std::vector<bool> ancestors;
  for (const EntryId holder : HoldersOf(id)) {
    const WalkedEntry& walked = entry(holder);
    if (walked.IsDecidedAs(id) || walked.tensors.size() < 2) return {};
    if (ancestors.empty()) ancestors = AncestorsOf(network(), id);
    std::vector<ValueId> others;
    for (const HeldTensor& tensor : walked.tensors) {
      if (!ancestors[Index(tensor.value)] &&
          !AncestorsOf(network(), tensor.value)[Index(id)]) {
        others.push_back(tensor.value);
      }
    }
    if (others.empty()) return {};
    shared = Union(std::move(shared), others);
  }
  return shared;
}

void GraphWalk::UnpinIfNotHeld(ValueId id) {
  const bool is_made = network().value(id).kind == NetworkValue::Kind::kOutput;
  if (is_made && HoldersOf(id).empty()) reference_.Unpin(id);
}

absl::Status GraphWalk::UnassignEntry(EntryId entry, ValueId value) {
  for (const HeldTensor& tensor :
       std::exchange(entries_[Index(entry)].tensors, {})) {
    if (tensor.value != value) UnpinIfNotHeld(tensor.value);
  }
  if (!IsPinned(value) || !MayBeIntended(value)) return absl::OkStatus();
  // All that was made of the value as another entry had it is unknown again,
  // and other entries that were decided on keep what they are.
  reference_.UnpinDependents(value);
  for (uint32_t e = 0; e < entries_.size(); ++e) {
    WalkedEntry& other = entries_[e];
    std::erase_if(other.tensors, [&](const HeldTensor& tensor) {
      return other.tensors.size() > 1 && tensor.value == value;
    });
    if (!other.is_decided()) continue;
    for (const HeldTensor& tensor : other.tensors) {
      if (IsPinned(tensor.value)) continue;
      NODEWISE_RETURN_IF_ERROR(PinTo(EntryId{e}, tensor.value, tensor.layout));
    }
  }
  return absl::OkStatus();
}

// An entry that is explained all the same ends the doubt for what is made of
// it.
std::vector<bool> GraphWalk::EntriesBehindUnknown() const {
  std::vector<bool> behind(entries_.size());
  for (uint32_t e = 0; e < entries_.size(); ++e) {
    if (entries_[e].is_explained()) continue;
    behind[e] =
        entries_[e].is_blamed() ||
        std::ranges::any_of(ReadsOf(graph(), NodeOf(EntryId{e})),
                            [&](EntryId read) { return behind[Index(read)]; });
  }
  return behind;
}

// A later node adds the rest of the operation, and a fault in that rest is the
// later node's.
bool GraphWalk::IsSoundPart(EntryId id) const {
  const AlignedEntry& entry = aligned(id);
  if (entry.matches.empty()) return false;
  const EntryMatch& nearest = entry.matches.front();
  const DLDataType compiled = graph().entry(id).dtype;
  const DLDataType source = network().value(nearest.value).type.dtype;
  return nearest.without_input.has_value() &&
         !is_changed_[Index(nearest.value)] &&
         nearest.distance <= CleanDistance(source, compiled);
}

// From the last node backwards, so that the readers of an entry are known.
std::vector<bool> GraphWalk::SettledEntries() const {
  std::vector<bool> fine(entries_.size(), true);
  std::set<EntryId> heads;
  for (const EntryRef& head : graph().heads)
    heads.insert(graph().EntryOf(head));
  const std::vector<bool> behind = EntriesBehindUnknown();
  std::vector<bool> is_node_fine(graph().nodes.size(), true);
  for (size_t n = graph().nodes.size(); n-- > 0;) {
    const NodeId node{static_cast<uint32_t>(n)};
    for (const EntryId id : EntriesMadeBy(graph(), node)) {
      if (!aligned(id).varies || entry(id).is_explained() ||
          behind[Index(id)] || IsSoundPart(id)) {
        continue;
      }
      // An entry that no node reads may be a second output that is not wanted.
      const bool is_last = heads.count(id) > 0;
      fine[Index(id)] =
          !is_last && std::ranges::all_of(ReadersOf(id), [&](NodeId reader) {
            return is_node_fine[Index(reader)];
          });
      if (!fine[Index(id)]) is_node_fine[n] = false;
    }
  }
  return fine;
}

}  // namespace nodewise
