// The map: which tensors of the network each entry of the compiled graph holds.
//
// Both sides are run with the same inputs, several times, and all that they
// make is kept. Each entry that depends on inputs is compared with all tensors
// of the network: first as it is, then as nearly as its rounding allows, then
// as a part of a tensor or as several that are joined. Tensors that are as near
// as the nearest one all count, since operations between them may change no
// number. An entry that matches nothing is inside of the operations between
// what the nearest entries before and behind it hold; it may be what one of
// these makes without an input that a later node adds.

#include "nodewise/align/alignment.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "contrib/align/align_limits.h"
#include "contrib/align/network_walk.h"
#include "contrib/align/precision.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// An operation without one of its inputs, and what it makes then.
struct PartialResult {
  size_t without = 0;
  TensorFacts facts;
  std::vector<NDArray> tensors;  // By set of inputs.
};

// Returns the tensor as it was recorded, undefined if it was not.
absl::StatusOr<NDArray> TensorIn(const RecordedPair& pair,
                                 const NetworkValue& value) {
  if (value.kind == NetworkValue::Kind::kConstant) {
    NDArray data = value.data;
    NODEWISE_RETURN_IF_ERROR(MakeReadable(&data));
    return data;
  }
  const auto place = pair.network->Find({value.name});
  if (!place.ok()) return NDArray();
  return pair.network->Load(*place);
}

// Fills in what the operation makes without the input; returns false if it
// makes nothing then.
absl::StatusOr<bool> MakePartial(const Network& network,
                                 absl::Span<const RecordedPair> pairs,
                                 const Operation& operation,
                                 PartialResult* partial) {
  for (const RecordedPair& pair : pairs) {
    Tensors inputs;
    for (size_t slot = 0; slot < operation.inputs.size(); ++slot) {
      const ValueId id = operation.inputs[slot];
      NDArray tensor;
      if (slot != partial->without && id != kNoValue) {
        NODEWISE_ASSIGN_OR_RETURN(tensor, TensorIn(pair, network.value(id)));
        if (!tensor.defined()) return false;
      }
      inputs.push_back(std::move(tensor));
    }
    // An operator that needs the input after all, here, makes nothing.
    auto made = Evaluate(operation.attrs, std::move(inputs), {true});
    if (!made.ok()) return false;
    partial->tensors.push_back(std::move(made->outputs[0]));
    const NDArray& tensor = partial->tensors.back();
    partial->facts.stats.push_back(StatsOf(*tensor));
    partial->facts.dtype = tensor.dtype();
    partial->facts.shape.assign(tensor.shape().begin(), tensor.shape().end());
    if (tensor.shape() != partial->tensors[0].shape()) return false;
  }
  return true;
}

// Looks at the entries that match nothing.
struct GapCloser {
  const GraphIndex& index;
  const Network& network;
  const absl::Span<const RecordedPair> pairs;
  std::vector<AlignedEntry>& entries;
  std::set<ValueId> held = {};  // By some entry.
  std::map<OperationId, std::vector<PartialResult>> partials = {};

  absl::Status Run() {
    held.insert(network.inputs().begin(), network.inputs().end());
    for (const AlignedEntry& entry : entries) {
      for (const EntryMatch& match : entry.matches) held.insert(match.value);
    }
    for (AlignedEntry& entry : entries) {
      if (!entry.varies || !entry.matches.empty() ||
          !index.graph().IsFunction(index.NodeOf(entry.entry))) {
        continue;
      }
      entry.between = Between(entry.entry);
      NODEWISE_RETURN_IF_ERROR(MatchPartially(&entry));
    }
    return absl::OkStatus();
  }

  // The values that the nearest matched entries behind this one hold.
  std::vector<ValueId> HeldBehind(EntryId begin) const {
    // Behind a matched entry nothing says more about this one, so that each way
    // ends at the first.
    std::vector<ValueId> behind;
    std::set<EntryId> seen = {begin};
    std::vector<EntryId> waiting = {begin};
    while (!waiting.empty()) {
      const EntryId next = waiting.back();
      waiting.pop_back();
      for (const NodeId reader : index.ReadersOf(next)) {
        for (const EntryId made : EntriesMadeBy(index.graph(), reader)) {
          const AlignedEntry& entry = entries[Index(made)];
          if (!entry.varies || !seen.insert(made).second) continue;
          if (entry.matches.empty()) {
            waiting.push_back(made);
          } else {
            behind.push_back(entry.matches[0].value);
          }
        }
      }
    }
    return behind;
  }

  // The walk ends at values that entries hold, but not at those behind: the
  // operations that make these are between, too.
  std::vector<OperationId> Between(EntryId entry) const {
    const std::vector<ValueId> begins = HeldBehind(entry);
    std::set<OperationId> between;
    WalkBack(network, begins, [&](const NetworkValue& value) {
      if (value.kind != NetworkValue::Kind::kOutput ||
          (held.count(value.id) > 0 && !Contains(begins, value.id))) {
        return false;
      }
      between.insert(value.producer);
      return true;
    });
    return InOrder(network, between);
  }

  absl::Status MatchPartially(AlignedEntry* entry) {
    if (entry->between.size() > kMostOperationsOfNode) return absl::OkStatus();
    const auto recorded = RecordedEntry(index, pairs, entry->entry);
    if (!recorded.has_value()) return absl::OkStatus();
    std::optional<TensorMatcher> matcher;
    for (const OperationId id : entry->between) {
      NODEWISE_ASSIGN_OR_RETURN(const auto* const some, PartialsOf(id));
      for (const PartialResult& partial : *some) {
        if (!MayMatch(partial.facts, recorded->facts)) continue;
        if (!matcher.has_value()) {
          NODEWISE_ASSIGN_OR_RETURN(matcher, TensorMatcher::Create(*recorded));
        }
        const auto match = matcher->Match(partial.facts, partial.tensors);
        if (!match.has_value() || match->has_unknown_order) continue;
        entry->matches.push_back({network.operation(id).outputs[0],
                                  match->layout, match->distance, false,
                                  partial.without});
      }
    }
    std::ranges::stable_sort(entry->matches, {}, &EntryMatch::distance);
    return absl::OkStatus();
  }

  // Returns what the operation makes without each of its optional inputs that
  // do not depend on inputs of the network: those are what is added later.
  absl::StatusOr<const std::vector<PartialResult>*> PartialsOf(OperationId id) {
    const auto [found, is_new] = partials.try_emplace(id);
    const Operation& operation = network.operation(id);
    if (!is_new || operation.outputs.size() != 1) return &found->second;
    const OperatorDef& def = operation.attrs.def();
    for (size_t slot = 0; slot < operation.inputs.size(); ++slot) {
      const bool is_optional = slot < def.inputs.size() &&
                               def.inputs[slot].kind == Param::Kind::kOptional;
      const ValueId input = operation.inputs[slot];
      if (!is_optional || input == kNoValue ||
          network.value(input).kind != NetworkValue::Kind::kConstant) {
        continue;
      }
      PartialResult partial{slot, {}, {}};
      NODEWISE_ASSIGN_OR_RETURN(
          const bool is_made, MakePartial(network, pairs, operation, &partial));
      if (is_made) found->second.push_back(std::move(partial));
    }
    return &found->second;
  }
};

// Which tensors depend on what is given to a run.
// Nodes stand in an order in which they can run, so that one pass is enough.
std::vector<bool> VaryingEntries(const GraphIndex& index,
                                 const std::set<std::string>& given) {
  const Graph& graph = index.graph();
  std::vector<bool> varies(graph.entries.size());
  for (const NodeId node : AllNodes(graph)) {
    const bool is_varying =
        (!graph.IsFunction(node) && given.count(index.KeyOf(node))) ||
        std::ranges::any_of(ReadsOf(graph, node),
                            [&](EntryId read) { return varies[Index(read)]; });
    for (const EntryId made : EntriesMadeBy(graph, node)) {
      varies[Index(made)] = is_varying;
    }
  }
  return varies;
}

std::vector<ValueId> VaryingValues(const Network& network) {
  std::vector<ValueId> varying(network.inputs().begin(),
                               network.inputs().end());
  std::vector<bool> varies(network.data().values.size());
  for (const ValueId id : varying) varies[Index(id)] = true;
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    const bool reads =
        std::ranges::any_of(operation.inputs, [&](ValueId input) {
          return input != kNoValue && varies[Index(input)];
        });
    if (!reads) continue;
    for (const ValueId output : operation.outputs) {
      if (output == kNoValue) continue;
      varies[Index(output)] = true;
      varying.push_back(output);
    }
  }
  return varying;
}

void AddMatch(ValueId value, const std::optional<TensorMatch>& match,
              std::vector<EntryMatch>* matches) {
  if (!match.has_value()) return;
  matches->push_back(
      {value, match->layout, match->distance, match->has_unknown_order});
}

// Rounding makes one of two equal tensors a little nearer than the other, so
// all that are about as near as the nearest one stay. A match whose order of
// elements is known goes before any whose order is not, however near.
void KeepNearest(std::vector<EntryMatch>* matches) {
  std::ranges::stable_sort(*matches, {}, [](const EntryMatch& match) {
    return std::pair(match.has_unknown_order, match.distance);
  });
  const auto is_further = [&](const EntryMatch& match) {
    const EntryMatch& nearest = matches->front();
    return match.has_unknown_order != nearest.has_unknown_order ||
           !IsEquallyNear(match.distance, nearest.distance);
  };
  matches->erase(std::ranges::find_if(*matches, is_further), matches->end());
}

// The entry is read only if the statistics of some tensor allow a match.
absl::StatusOr<std::vector<EntryMatch>> MatchesOf(
    const RecordedTensor& compiled, const std::vector<SourceTensor>& sources,
    GraphPrecision* precision, AlignedEntry* entry) {
  std::vector<EntryMatch> matches;
  std::optional<TensorMatcher> matcher;
  for (const auto& [value, recorded] : sources) {
    if (!MayMatch(recorded.facts, compiled.facts)) continue;
    if (!matcher.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(matcher, TensorMatcher::Create(compiled));
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, recorded.Load());
    AddMatch(value, matcher->Match(recorded.facts, tensors), &matches);
  }
  if (matches.empty() && compiled.facts.stats[0].has_numbers) {
    if (!matcher.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(matcher, TensorMatcher::Create(compiled));
    }
    NODEWISE_ASSIGN_OR_RETURN(const double roundoff,
                              precision->Inherited(entry->entry));
    matcher->AllowRoundoff(roundoff);
    for (const auto& [value, recorded] : sources) {
      if (!matcher->MayMatchRounded(recorded.facts)) continue;
      NODEWISE_ASSIGN_OR_RETURN(const auto tensors, recorded.Load());
      AddMatch(value, matcher->MatchRounded(recorded.facts, tensors), &matches);
    }
    entry->is_rounded = !matches.empty();
    if (matches.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(matches, FindWholes(*matcher, sources));
    }
    // All parts are there together, so none is dropped because another is
    // nearer.
    if (matches.empty()) return FindParts(*matcher, sources);
  }
  KeepNearest(&matches);
  return matches;
}

}  // namespace

size_t Alignment::CountVarying(const Graph& graph) const {
  return std::ranges::count_if(FunctionNodesOf(graph), [&](NodeId node) {
    return entries[Index(graph.EntryOf(node, 0))].varies;
  });
}

size_t Alignment::CountMatched(const GraphIndex& index) const {
  std::set<NodeId> matched;
  for (const AlignedEntry& entry : entries) {
    const NodeId node = index.NodeOf(entry.entry);
    if (index.graph().IsFunction(node) && !entry.matches.empty() &&
        !entry.matches[0].has_unknown_order) {
      matched.insert(node);
    }
  }
  return matched.size();
}

size_t Alignment::CountBetween(const GraphIndex& index,
                               size_t most_operations) const {
  std::set<NodeId> between;
  for (const AlignedEntry& entry : entries) {
    if (entry.matches.empty() && !entry.between.empty() &&
        entry.between.size() <= most_operations) {
      between.insert(index.NodeOf(entry.entry));
    }
  }
  // A node is not between others if another output of it is matched.
  for (const AlignedEntry& entry : entries) {
    if (!entry.matches.empty()) between.erase(index.NodeOf(entry.entry));
  }
  return between.size();
}

absl::StatusOr<Alignment> Align(const GraphIndex& index, const Network& network,
                                absl::Span<const RecordedPair> pairs) {
  if (pairs.empty()) {
    return FailedPrecondition(
        "nothing was recorded, expected the runs of one set of inputs at "
        "least");
  }
  std::vector<SourceTensor> sources;
  for (const ValueId id : VaryingValues(network)) {
    auto recorded = RecordedValue(network, pairs, id);
    if (recorded.has_value()) sources.push_back({id, *std::move(recorded)});
  }
  std::set<std::string> given;
  for (const PairedInput& input : pairs[0].inputs) given.insert(input.compiled);
  const std::vector<bool> varies = VaryingEntries(index, given);
  Alignment alignment;
  for (uint32_t e = 0; e < varies.size(); ++e) {
    alignment.entries.push_back({EntryId{e}, varies[e], {}, false, {}});
  }
  // The precision of an entry follows from the entries before it, which are
  // matched already when it is asked for.
  GraphPrecision precision({index, network, pairs, alignment});
  size_t compared = 0;
  for (AlignedEntry& entry : alignment.entries) {
    if (!entry.varies) continue;
    const auto recorded = RecordedEntry(index, pairs, entry.entry);
    if (!recorded.has_value()) continue;
    ++compared;
    NODEWISE_ASSIGN_OR_RETURN(
        entry.matches, MatchesOf(*recorded, sources, &precision, &entry));
  }
  if (compared == 0 || sources.empty()) {
    return FailedPrecondition(
        "{} of the compiled network and {} of the model depend on inputs and "
        "were recorded, expected some of both",
        CountOf(compared, "tensor"), CountOf(sources.size(), "tensor"));
  }
  GapCloser gaps{index, network, pairs, alignment.entries};
  NODEWISE_RETURN_IF_ERROR(gaps.Run());
  return alignment;
}

}  // namespace nodewise
