#include "nodewise/align/alignment.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "contrib/align/alignment_gaps.h"
#include "contrib/align/precision.h"
#include "contrib/align/recorded_tensor.h"
#include "contrib/align/tensor_match.h"
#include "contrib/align/tensor_parts.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

std::string Identifier(std::string name) {
  for (char& c : name) {
    const bool is_kept = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z');
    if (!is_kept) c = '_';
  }
  return name;
}

// Returns where a name is among others, as it is or as compilers write it; the
// number of names if it is not.
size_t PlaceOfName(const std::vector<std::string>& names,
                   const std::string& name) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    found =
        std::find_if(names.begin(), names.end(), [&](const std::string& other) {
          return Identifier(other) == Identifier(name);
        });
  }
  return static_cast<size_t>(found - names.begin());
}

// Runs the network and puts aside all that it makes.
absl::StatusOr<std::unique_ptr<TensorSpool>> RecordNetwork(
    Runner* network, absl::Span<const NamedTensor> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(auto spool, TensorSpool::Create());
  RunOptions options;
  options.sink = spool.get();
  NODEWISE_RETURN_IF_ERROR(network->Run(inputs, options).status());
  return spool;
}

// A compiled network may read and make numbers in a shorter type, or in a
// longer one.
absl::StatusOr<std::vector<NamedTensor>> InTypesOf(
    const InputList& list, absl::Span<const NamedTensor> inputs) {
  std::vector<NamedTensor> typed;
  for (const NamedTensor& input : inputs) {
    typed.push_back(input);
    const auto place = list.Find(input.name);
    if (!place.ok()) continue;  // A run reports this error.
    const DLDataType dtype = list.Type(*place).dtype;
    if (!HasNumbers(dtype) || !HasNumbers(input.tensor.dtype())) continue;
    NODEWISE_ASSIGN_OR_RETURN(typed.back().tensor, InType(input.tensor, dtype));
  }
  return typed;
}

std::vector<size_t> NeededOf(const InputList& list) {
  std::vector<size_t> needed;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list.IsNeeded(i)) needed.push_back(i);
  }
  return needed;
}

std::set<std::string> UnneededKeys(const InputList& list) {
  std::set<std::string> unneeded;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list.IsNeeded(i)) unneeded.insert(list.Key(i));
  }
  return unneeded;
}

// Which tensors depend on what is given to a run.
std::vector<bool> VaryingEntries(const GraphIndex& index,
                                 const std::set<std::string>& given) {
  const Graph& graph = index.graph();
  std::vector<bool> varies(graph.entries.size());
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    bool is_varying =
        !graph.IsFunction(NodeId{n}) && given.count(index.KeyOf(NodeId{n})) > 0;
    for (const EntryRef& input : graph.nodes[n].inputs) {
      is_varying = is_varying || varies[Index(graph.EntryOf(input))];
    }
    for (uint32_t e = graph.node_row_ptr[n]; e < graph.node_row_ptr[n + 1];
         ++e) {
      varies[e] = is_varying;
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
    const bool reads = std::any_of(
        operation.inputs.begin(), operation.inputs.end(), [&](ValueId input) {
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

struct SourceTensor {
  ValueId value;
  RecordedTensor recorded;
};

// Adds those that hold the numbers of a source, though more coarsely rounded.
absl::Status AddRounded(const TensorMatcher& matcher,
                        const std::vector<SourceTensor>& sources,
                        std::vector<EntryMatch>* matches) {
  for (const SourceTensor& source : sources) {
    if (!matcher.MayMatchRounded(source.recorded.facts())) continue;
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                              source.recorded.Load());
    const std::optional<TensorMatch> match =
        matcher.MatchRounded(source.recorded.facts(), tensors);
    if (!match.has_value()) continue;
    matches->push_back({source.value, match->layout, match->distance,
                        match->has_unknown_order});
  }
  return absl::OkStatus();
}

// Returns the tensors that the compiled one is a part of, or has as parts.
absl::StatusOr<std::vector<EntryMatch>> CutMatchesOf(
    const TensorMatcher& matcher, const std::vector<SourceTensor>& sources) {
  std::vector<PartCandidate> candidates;
  for (size_t i = 0; i < sources.size(); ++i) {
    candidates.push_back({i, &sources[i].recorded.facts()});
  }
  const auto load = [&](size_t i) { return sources[i].recorded.Load(); };
  std::vector<EntryMatch> matches;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<PartMatch> wholes,
                            FindWholes(matcher, candidates, load));
  for (const PartMatch& whole : wholes) {
    matches.push_back(
        {sources[whole.place].value, whole.match.layout, whole.match.distance});
  }
  if (!matches.empty()) return matches;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<PartMatch> parts,
                            FindParts(matcher, candidates, load));
  for (const PartMatch& part : parts) {
    matches.push_back({sources[part.place].value, part.match.layout,
                       part.match.distance, false, std::nullopt, true});
  }
  return matches;
}

absl::StatusOr<std::vector<EntryMatch>> MatchesOf(
    const RecordedTensor& compiled, const std::vector<SourceTensor>& sources,
    GraphPrecision* precision, AlignedEntry* entry) {
  std::vector<EntryMatch> matches;
  std::optional<TensorMatcher> matcher;
  for (const SourceTensor& source : sources) {
    if (!MayMatch(source.recorded.facts(), compiled.facts())) continue;
    if (!matcher.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                                compiled.Load());
      matcher.emplace(compiled.facts(), tensors);
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                              source.recorded.Load());
    const std::optional<TensorMatch> match =
        matcher->Match(source.recorded.facts(), tensors);
    if (!match.has_value()) continue;
    matches.push_back({source.value, match->layout, match->distance,
                       match->has_unknown_order});
  }
  if (matches.empty() && compiled.facts().stats[0].has_numbers) {
    if (!matcher.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                                compiled.Load());
      matcher.emplace(compiled.facts(), tensors);
    }
    NODEWISE_ASSIGN_OR_RETURN(const double roundoff,
                              precision->Inherited(entry->entry));
    matcher->AllowRoundoff(roundoff);
    NODEWISE_RETURN_IF_ERROR(AddRounded(*matcher, sources, &matches));
    entry->is_rounded = !matches.empty();
    if (matches.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(matches, CutMatchesOf(*matcher, sources));
      if (!matches.empty() && matches[0].is_joined) return matches;
    }
  }
  std::stable_sort(matches.begin(), matches.end(),
                   [](const EntryMatch& a, const EntryMatch& b) {
                     return std::pair(a.has_unknown_order, a.distance) <
                            std::pair(b.has_unknown_order, b.distance);
                   });
  const auto is_further = [&](const EntryMatch& match) {
    const EntryMatch& nearest = matches.front();
    return match.has_unknown_order != nearest.has_unknown_order ||
           !IsAsNear(match.distance, nearest.distance);
  };
  matches.erase(std::find_if(matches.begin(), matches.end(), is_further),
                matches.end());
  return matches;
}

}  // namespace

absl::StatusOr<std::vector<size_t>> PairInputs(const InputList& compiled,
                                               const InputList& network) {
  const std::vector<size_t> needed = NeededOf(compiled);
  const std::vector<size_t> given = NeededOf(network);
  std::vector<std::string> names;
  for (const size_t input : given) names.push_back(network.Name(input));
  std::vector<size_t> pairs;
  for (size_t i = 0; i < needed.size(); ++i) {
    const std::string name = compiled.Name(needed[i]);
    size_t found = PlaceOfName(names, name);
    if (found == given.size() && i < given.size() &&
        AreCompatible(compiled.Type(needed[i]), network.Type(given[i]))) {
      found = i;
    }
    if (found == given.size()) {
      return absl::InvalidArgumentError(fmt::format(
          "input {}: {} of the compiled network, expected an input of the "
          "model with its name, or with its type in the same place (the "
          "model has {})",
          Printable(name), compiled.TypeText(needed[i]), ListOf(names)));
    }
    pairs.push_back(given[found]);
  }
  return pairs;
}

std::vector<size_t> PairsByPlace(const InputList& compiled,
                                 const InputList& network,
                                 absl::Span<const size_t> pairs) {
  const std::vector<size_t> needed = NeededOf(compiled);
  std::vector<size_t> by_place;
  for (size_t i = 0; i < pairs.size() && i < needed.size(); ++i) {
    const std::vector<std::string> name = {network.Name(pairs[i])};
    if (PlaceOfName(name, compiled.Name(needed[i])) == name.size()) {
      by_place.push_back(i);
    }
  }
  return by_place;
}

absl::StatusOr<RecordedPair> RecordPair(Runner* compiled, Runner* network,
                                        absl::Span<const size_t> pairs,
                                        absl::Span<const NamedTensor> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> given,
                            InTypesOf(network->inputs(), inputs));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                            MatchInputs(network->inputs(), given));
  RecordedPair recorded;
  NODEWISE_ASSIGN_OR_RETURN(recorded.network, RecordNetwork(network, given));
  const std::vector<size_t> needed = NeededOf(compiled->inputs());
  std::vector<NamedTensor> compiled_inputs;
  for (size_t i = 0; i < needed.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray tensor,
        InType(tensors[pairs[i]], compiled->inputs().Type(needed[i]).dtype));
    compiled_inputs.push_back(
        {compiled->inputs().Key(needed[i]), std::move(tensor)});
    recorded.inputs.push_back(
        {compiled_inputs.back().name, network->inputs().Name(pairs[i])});
  }
  NODEWISE_ASSIGN_OR_RETURN(recorded.compiled, TensorSpool::Create());
  RunOptions options;
  options.sink = recorded.compiled.get();
  // Parameters are not looked at.
  options.select =
      [unneeded = UnneededKeys(compiled->inputs())](const std::string& node) {
        return unneeded.count(node) == 0;
      };
  NODEWISE_ASSIGN_OR_RETURN(RunResult result,
                            compiled->Run(compiled_inputs, options));
  for (NamedTensor& output : result.outputs) {
    recorded.outputs.push_back(std::move(output.tensor));
  }
  return recorded;
}

absl::StatusOr<RecordedPair> RecordFromDump(const GraphIndex& index,
                                            TensorSource* dump,
                                            Runner* network) {
  const Graph& graph = index.graph();
  RecordedPair recorded;
  NODEWISE_ASSIGN_OR_RETURN(recorded.compiled, TensorSpool::Create());
  NODEWISE_RETURN_IF_ERROR(dump->Visit(*recorded.compiled));
  std::vector<std::string> keys;
  for (const uint32_t node : graph.arg_nodes) {
    keys.push_back(index.KeyOf(NodeId{node}));
  }
  std::vector<NamedTensor> inputs;
  for (const size_t i : NeededOf(network->inputs())) {
    const std::string name = network->inputs().Name(i);
    const size_t key = PlaceOfName(keys, name);
    if (key == keys.size()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: has no input {}, expected a dump of what was "
                      "compiled from the model (its graph has {})",
                      dump->name(), Printable(name), ListOf(keys, 8)));
    }
    NODEWISE_ASSIGN_OR_RETURN(const size_t place,
                              recorded.compiled->Find({keys[key]}));
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, recorded.compiled->Load(place));
    inputs.push_back({name, std::move(tensor)});
    recorded.inputs.push_back({keys[key], name});
  }
  NODEWISE_ASSIGN_OR_RETURN(inputs, InTypesOf(network->inputs(), inputs));
  NODEWISE_ASSIGN_OR_RETURN(recorded.network, RecordNetwork(network, inputs));
  return recorded;
}

size_t Alignment::CountVarying(const Graph& graph) const {
  size_t count = 0;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (!graph.IsFunction(NodeId{n})) continue;
    if (entries[graph.node_row_ptr[n]].varies) ++count;
  }
  return count;
}

size_t Alignment::CountMatched(const GraphIndex& index) const {
  const Graph& graph = index.graph();
  std::set<NodeId> matched;
  for (const AlignedEntry& entry : entries) {
    const NodeId node = index.NodeOf(entry.entry);
    if (!graph.IsFunction(node) || entry.matches.empty() ||
        entry.matches[0].has_unknown_order) {
      continue;
    }
    matched.insert(node);
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
  // A node with another output that is matched counts there.
  for (const AlignedEntry& entry : entries) {
    if (!entry.matches.empty()) between.erase(index.NodeOf(entry.entry));
  }
  return between.size();
}

absl::StatusOr<Alignment> Align(const GraphIndex& index, const Network& network,
                                absl::Span<const RecordedPair> pairs) {
  if (pairs.empty()) {
    return absl::FailedPreconditionError(
        "nothing was recorded, expected the runs of one set of inputs at "
        "least");
  }
  std::vector<SourceTensor> sources;
  for (const ValueId id : VaryingValues(network)) {
    auto recorded = RecordedTensor::Find(
        SpoolsOf(pairs, &RecordedPair::network), {network.value(id).name});
    if (recorded.has_value()) sources.push_back({id, *std::move(recorded)});
  }
  const Graph& graph = index.graph();
  std::set<std::string> given;
  for (const PairedInput& input : pairs[0].inputs) given.insert(input.compiled);
  const std::vector<bool> varies = VaryingEntries(index, given);
  Alignment alignment;
  size_t compared = 0;
  for (uint32_t e = 0; e < graph.entries.size(); ++e) {
    AlignedEntry entry;
    entry.entry = EntryId{e};
    entry.varies = varies[e];
    alignment.entries.push_back(entry);
  }
  GraphPrecision precision(index, network, pairs, alignment);
  for (uint32_t e = 0; e < graph.entries.size(); ++e) {
    if (!varies[e]) continue;
    const NodeId node = index.NodeOf(EntryId{e});
    const TensorKey key{index.KeyOf(node), index.OutputOf(EntryId{e})};
    const auto recorded =
        RecordedTensor::Find(SpoolsOf(pairs, &RecordedPair::compiled), key);
    if (!recorded.has_value()) continue;
    ++compared;
    AlignedEntry& entry = alignment.entries[e];
    NODEWISE_ASSIGN_OR_RETURN(
        entry.matches, MatchesOf(*recorded, sources, &precision, &entry));
  }
  if (compared == 0 || sources.empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "{} of the compiled network and {} of the model depend on inputs and "
        "were recorded, expected some of both",
        CountOf(compared, "tensor"), CountOf(sources.size(), "tensor")));
  }
  NODEWISE_RETURN_IF_ERROR(CloseGaps(index, network, pairs, &alignment));
  return alignment;
}

}  // namespace nodewise
