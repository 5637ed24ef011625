// Tensors of the network that are held together: by one entry, though neither
// is made of the other.

#include <algorithm>
#include <vector>

#include "contrib/align/graph_walk.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Returns by value whether this one is made of it.
std::vector<bool> AncestorsOf(const Network& network, ValueId id) {
  std::vector<bool> seen(network.data().values.size());
  std::vector<ValueId> waiting = {id};
  while (!waiting.empty()) {
    const NetworkValue& value = network.value(waiting.back());
    waiting.pop_back();
    if (value.kind != NetworkValue::Kind::kOutput) continue;
    for (const ValueId input : network.operation(value.producer).inputs) {
      if (input == kNoValue || seen[Index(input)]) continue;
      seen[Index(input)] = true;
      waiting.push_back(input);
    }
  }
  return seen;
}

}  // namespace

bool GraphWalk::MayBeMeant(ValueId id) const {
  if (!IsPinned(id)) return true;
  const std::vector<EntryId> holders = HoldersOf(id);
  return !holders.empty() &&
         std::all_of(holders.begin(), holders.end(), [&](EntryId holder) {
           const WalkedEntry& walked = entry(holder);
           const bool is_decided = (walked.is_blamed || walked.is_accepted) &&
                                   walked.tensors[0].value == id;
           return !is_decided &&
                  std::any_of(walked.tensors.begin(), walked.tensors.end(),
                              [&](const HeldTensor& tensor) {
                                return tensor.value != id &&
                                       !AncestorsOf(scene_.network,
                                                    tensor.value)[Index(id)];
                              });
         });
}

bool GraphWalk::IsIdle(EntryId id) const {
  const Graph& graph = scene_.index.graph();
  const WalkedEntry& walked = entry(id);
  const std::vector<EntryRef>& reads =
      graph.node(scene_.index.NodeOf(id)).inputs;
  return walked.is_explained() &&
         std::all_of(
             walked.tensors.begin(), walked.tensors.end(),
             [&](const HeldTensor& tensor) {
               return std::any_of(
                   reads.begin(), reads.end(), [&](const EntryRef& ref) {
                     return entry(graph.EntryOf(ref)).Holds(tensor.value);
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

std::vector<ValueId> GraphWalk::SharedWith(ValueId id) const {
  std::vector<ValueId> shared;
  std::vector<bool> ancestors;
  for (const EntryId holder : HoldersOf(id)) {
    const WalkedEntry& walked = entry(holder);
    const bool is_decided = (walked.is_blamed || walked.is_accepted) &&
                            walked.tensors[0].value == id;
    if (is_decided || walked.tensors.size() < 2) return {};
    if (ancestors.empty()) ancestors = AncestorsOf(scene_.network, id);
    bool has_other = false;
    for (const HeldTensor& tensor : walked.tensors) {
      if (tensor.value == id || ancestors[Index(tensor.value)] ||
          AncestorsOf(scene_.network, tensor.value)[Index(id)]) {
        continue;
      }
      has_other = true;
      if (std::find(shared.begin(), shared.end(), tensor.value) ==
          shared.end()) {
        shared.push_back(tensor.value);
      }
    }
    if (!has_other) return {};
  }
  return shared;
}

void GraphWalk::Forsake(ValueId id) {
  const bool is_made =
      scene_.network.value(id).kind == NetworkValue::Kind::kOutput;
  if (is_made && HoldersOf(id).empty()) reference_.Unpin(id);
}

absl::Status GraphWalk::MakeFree(EntryId entry, ValueId value) {
  WalkedEntry& walked = entries_[Index(entry)];
  const std::vector<HeldTensor> before = walked.tensors;
  walked.tensors.clear();
  for (const HeldTensor& tensor : before) {
    if (tensor.value != value) Forsake(tensor.value);
  }
  if (!IsPinned(value) || !MayBeMeant(value)) return absl::OkStatus();
  reference_.ReleaseBehind(value);
  for (uint32_t e = 0; e < entries_.size(); ++e) {
    WalkedEntry& other = entries_[e];
    const bool is_decided = other.is_blamed || other.is_accepted;
    std::erase_if(other.tensors, [&](const HeldTensor& tensor) {
      return other.tensors.size() > 1 && tensor.value == value;
    });
    if (!is_decided) continue;
    for (const HeldTensor& tensor : other.tensors) {
      if (IsPinned(tensor.value)) continue;
      NODEWISE_RETURN_IF_ERROR(PinTo(
          EntryId{e}, {tensor.value, tensor.layout, other.distance, false}));
    }
  }
  return absl::OkStatus();
}

}  // namespace nodewise
