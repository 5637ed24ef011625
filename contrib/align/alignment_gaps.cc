#include "contrib/align/alignment_gaps.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "contrib/align/recorded_tensor.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/interp/evaluator.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// An operation without one of its inputs, and what it makes then.
struct PartialResult {
  OperationId operation;
  size_t without = 0;
  TensorFacts facts;
  std::vector<NDArray> tensors;  // By set of inputs.
};

class GapCloser {
 public:
  GapCloser(const GraphIndex& index, const Network& network,
            absl::Span<const RecordedPair> pairs, Alignment* alignment)
      : index_(index),
        graph_(index.graph()),
        network_(network),
        pairs_(pairs),
        entries_(alignment->entries) {
    for (const AlignedEntry& entry : entries_) {
      for (const EntryMatch& match : entry.matches) held_.insert(match.value);
    }
    for (const ValueId id : network.inputs()) held_.insert(id);
  }

  absl::Status Run() {
    for (AlignedEntry& entry : entries_) {
      if (!IsGap(entry)) continue;
      entry.between = Between(entry.entry);
      NODEWISE_RETURN_IF_ERROR(MatchPartly(&entry));
    }
    return absl::OkStatus();
  }

 private:
  bool IsGap(const AlignedEntry& entry) const {
    return entry.varies && entry.matches.empty() &&
           graph_.IsFunction(index_.NodeOf(entry.entry));
  }

  // The values that the nearest matched entries behind this one hold.
  std::vector<ValueId> HeldBehind(EntryId begin) const {
    std::vector<ValueId> held;
    std::set<EntryId> seen = {begin};
    std::vector<EntryId> waiting = {begin};
    while (!waiting.empty()) {
      const EntryId next = waiting.back();
      waiting.pop_back();
      for (const NodeId reader : index_.ReadersOf(next)) {
        for (uint32_t i = 0; i < graph_.OutputsOf(reader); ++i) {
          const EntryId made = graph_.EntryOf(reader, i);
          const AlignedEntry& entry = entries_[Index(made)];
          if (!entry.varies || !seen.insert(made).second) continue;
          if (entry.matches.empty()) {
            waiting.push_back(made);
          } else {
            held.push_back(entry.matches[0].value);
          }
        }
      }
    }
    return held;
  }

  std::vector<OperationId> Between(EntryId entry) const {
    std::vector<ValueId> waiting = HeldBehind(entry);
    std::set<OperationId> between;
    // What lies behind is held, too, but what makes it is inside.
    std::set<ValueId> begins(waiting.begin(), waiting.end());
    while (!waiting.empty()) {
      const ValueId id = waiting.back();
      waiting.pop_back();
      const NetworkValue& value = network_.value(id);
      const bool is_end = held_.count(id) > 0 && begins.count(id) == 0;
      begins.erase(id);
      if (is_end || value.kind != NetworkValue::Kind::kOutput ||
          !between.insert(value.producer).second) {
        continue;
      }
      for (const ValueId input : network_.operation(value.producer).inputs) {
        if (input != kNoValue) waiting.push_back(input);
      }
    }
    std::vector<OperationId> ordered;
    for (const OperationId id : network_.order()) {
      if (between.count(id) > 0) ordered.push_back(id);
    }
    return ordered;
  }

  absl::Status MatchPartly(AlignedEntry* entry) {
    // With more operations than these it is unclear which one the entry would
    // be a part of.
    constexpr size_t kMostOperations = 16;
    if (entry->between.size() > kMostOperations) return absl::OkStatus();
    const NodeId node = index_.NodeOf(entry->entry);
    const auto recorded = RecordedTensor::Find(
        SpoolsOf(pairs_, &RecordedPair::compiled),
        {index_.KeyOf(node), index_.OutputOf(entry->entry)});
    if (!recorded.has_value()) return absl::OkStatus();
    std::optional<TensorMatcher> matcher;
    for (const OperationId id : entry->between) {
      NODEWISE_ASSIGN_OR_RETURN(const auto* const partials, PartialsOf(id));
      for (const PartialResult& partial : *partials) {
        if (!MayMatch(partial.facts, recorded->facts())) continue;
        if (!matcher.has_value()) {
          NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                                    recorded->Load());
          matcher.emplace(recorded->facts(), tensors);
        }
        const auto match = matcher->Match(partial.facts, partial.tensors);
        if (!match.has_value() || match->has_unknown_order) continue;
        entry->matches.push_back({network_.operation(id).outputs[0],
                                  match->layout, match->distance, false,
                                  partial.without});
      }
    }
    std::stable_sort(entry->matches.begin(), entry->matches.end(),
                     [](const EntryMatch& a, const EntryMatch& b) {
                       return a.distance < b.distance;
                     });
    return absl::OkStatus();
  }

  // What the operation makes without each of its optional inputs that do not
  // depend on inputs of the network: those are what is added later.
  absl::StatusOr<const std::vector<PartialResult>*> PartialsOf(OperationId id) {
    const auto [found, is_new] = partials_.try_emplace(id);
    if (!is_new) return &found->second;
    const Operation& operation = network_.operation(id);
    const OperatorDef& def = operation.attrs.def();
    if (operation.outputs.size() != 1) return &found->second;
    for (size_t slot = 0; slot < operation.inputs.size(); ++slot) {
      const bool is_optional = slot < def.inputs.size() &&
                               def.inputs[slot].kind == Param::Kind::kOptional;
      const ValueId input = operation.inputs[slot];
      if (!is_optional || input == kNoValue ||
          network_.value(input).kind != NetworkValue::Kind::kConstant) {
        continue;
      }
      PartialResult partial{id, slot, {}, {}};
      NODEWISE_ASSIGN_OR_RETURN(const bool is_made, Make(operation, &partial));
      if (is_made) found->second.push_back(std::move(partial));
    }
    return &found->second;
  }

  absl::StatusOr<bool> Make(const Operation& operation,
                            PartialResult* partial) const {
    for (const RecordedPair& pair : pairs_) {
      Tensors inputs;
      for (size_t slot = 0; slot < operation.inputs.size(); ++slot) {
        const ValueId id = operation.inputs[slot];
        NDArray tensor;
        if (slot != partial->without && id != kNoValue) {
          NODEWISE_ASSIGN_OR_RETURN(tensor, TensorOf(pair, id));
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

  // Undefined if it was not recorded.
  absl::StatusOr<NDArray> TensorOf(const RecordedPair& pair, ValueId id) const {
    const NetworkValue& value = network_.value(id);
    if (value.kind == NetworkValue::Kind::kConstant) {
      NDArray data = value.data;
      NODEWISE_RETURN_IF_ERROR(MakeReadable(&data));
      return data;
    }
    const auto place = pair.network->Find({value.name});
    if (!place.ok()) return NDArray();
    return pair.network->Load(*place);
  }

  const GraphIndex& index_;
  const Graph& graph_;
  const Network& network_;
  const absl::Span<const RecordedPair> pairs_;
  std::vector<AlignedEntry>& entries_;
  std::set<ValueId> held_;  // By some entry.
  std::map<OperationId, std::vector<PartialResult>> partials_;
};

}  // namespace

absl::Status CloseGaps(const GraphIndex& index, const Network& network,
                       absl::Span<const RecordedPair> pairs,
                       Alignment* alignment) {
  return GapCloser(index, network, pairs, alignment).Run();
}

}  // namespace nodewise
