#include "nodewise/ir/verifier.h"

#include <algorithm>
#include <memory>
#include <unordered_set>

#include "contrib/ir/inference.h"
#include "contrib/ir/network_check.h"
#include "contrib/ir/network_editor.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/support/fault.h"

namespace nodewise {
namespace {

constexpr const char* kHeadings[] = {
    "Structure (links, order, what depends on what)",
    "Information (names, types, attributes)",
    "Run time (what the targets can do)",
};

// f(operation's number, a body of it) for each body of the network's
// operations that is there.
template <typename F>
void ForEachBody(const NetworkData& data, F f) {
  for (uint32_t id = 0; id < data.operations.size(); ++id) {
    const auto& operation = data.operations[id];
    if (!operation.has_value() || !operation->attrs.defined()) continue;
    for (const NamedBody& body : BodiesOf(operation->attrs)) {
      if (body.graph.body != nullptr) f(OperationId{id}, body);
    }
  }
}

struct CheckedNetwork {
  const Network* body;  // Null for the outermost one.
  std::unique_ptr<NetworkCheck> check;
};

// One for the network and one for each body in it, however deep; without
// recursion. A body that is used twice is checked once.
std::vector<CheckedNetwork> AllNetworks(const NetworkData& data,
                                        FaultSink* sink) {
  std::vector<CheckedNetwork> all;
  all.push_back({nullptr, std::make_unique<NetworkCheck>(data, "", sink)});
  std::unordered_set<const Network*> seen;
  for (size_t i = 0; i < all.size(); ++i) {
    const NetworkCheck& outer = *all[i].check;
    ForEachBody(outer.data(), [&](OperationId id, const NamedBody& body) {
      const Network* const network = body.graph.body.get();
      if (!seen.insert(network).second) return;
      const Operation& operation = *outer.data().operations[Index(id)];
      auto check = std::make_unique<NetworkCheck>(
          network->data(),
          fmt::format("{}{}: {}: ", outer.prefix(), PlaceOf(operation),
                      body.attribute),
          outer.RankOf(id), sink);
      all.push_back({network, std::move(check)});
    });
  }
  return all;
}

// The bodies with an error in them, however deep.
std::unordered_set<const Network*> DamagedBodies(
    const std::vector<CheckedNetwork>& networks) {
  std::unordered_set<const Network*> damaged;
  // Bodies come after the networks that they belong to, but one that is used
  // twice only after its first use; so this repeats until nothing changes.
  for (size_t before = SIZE_MAX; before != damaged.size();) {
    before = damaged.size();
    for (auto network = networks.rbegin(); network != networks.rend();
         ++network) {
      bool is_damaged = network->check->errors() > 0;
      ForEachBody(network->check->data(),
                  [&](OperationId, const NamedBody& body) {
                    is_damaged |= damaged.count(body.graph.body.get()) > 0;
                  });
      if (is_damaged) damaged.insert(network->body);
    }
  }
  return damaged;
}

}  // namespace

std::string NetworkFault::ToString() const {
  std::string text = where + ": " + found;
  if (!expected.empty()) text += ", expected " + expected;
  if (!hint.empty()) text += " (" + hint + ")";
  return text;
}

void FaultSink::Add(uint64_t rank, NetworkFault fault) {
  if (!fault.is_warning) ++errors_;
  if (faults_.size() < kMostFaults) {
    faults_.emplace_back(rank, std::move(fault));
    return;
  }
  // Faults that are not listed make the network invalid, too.
  is_cut_ = true;
  cut_errors_ = cut_errors_ || !fault.is_warning;
}

std::vector<NetworkFault> FaultSink::TakeSorted() {
  std::stable_sort(faults_.begin(), faults_.end(),
                   [](const auto& a, const auto& b) {
                     if (a.second.part != b.second.part) {
                       return a.second.part < b.second.part;
                     }
                     return a.first < b.first;
                   });
  std::vector<NetworkFault> sorted;
  sorted.reserve(faults_.size() + 1);
  for (auto& [rank, fault] : faults_) sorted.push_back(std::move(fault));
  if (is_cut_) {
    sorted.push_back({FaultPart::kRunTime, !cut_errors_, "network",
                      "more faults than are listed",
                      fmt::format("at most {}", kMostFaults),
                      "mend these first"});
  }
  return sorted;
}

std::vector<NetworkFault> Verify(const NetworkData& data,
                                 absl::Span<const Target> targets) {
  FaultSink sink;
  const auto networks = AllNetworks(data, &sink);
  for (const auto& [body, check] : networks) {
    check->CheckStructure();
    check->CheckInformation();
  }
  const auto damaged = DamagedBodies(networks);
  for (const auto& [body, check] : networks) check->CheckInference(damaged);
  // Targets are only shown valid networks: they may follow the links.
  if (!targets.empty() && sink.errors() == 0) {
    for (const auto& [body, check] : networks) {
      const auto copy = NetworkEditor::Unverified(check->data());
      check->AskTargets(*copy, targets);
    }
  }
  return sink.TakeSorted();
}

absl::Status ToStatus(absl::Span<const NetworkFault> faults) {
  const NetworkFault* first = nullptr;
  size_t more = 0;
  for (const NetworkFault& fault : faults) {
    if (fault.is_warning) continue;
    if (first == nullptr) {
      first = &fault;
    } else {
      ++more;
    }
  }
  if (first == nullptr) return absl::OkStatus();
  std::string text = first->ToString();
  if (more > 0) {
    text += fmt::format("; and {} more fault{}", more, more == 1 ? "" : "s");
  }
  return absl::DataLossError(text);
}

std::string FaultReport(absl::Span<const NetworkFault> faults) {
  std::string text;
  for (const FaultPart part :
       {FaultPart::kStructure, FaultPart::kInformation, FaultPart::kRunTime}) {
    std::string lines;
    for (const NetworkFault& fault : faults) {
      if (fault.part != part) continue;
      lines += fmt::format("  {}: {}\n", fault.is_warning ? "warning" : "error",
                           fault.ToString());
    }
    text += fmt::format("{}: {}", kHeadings[static_cast<size_t>(part)],
                        lines.empty() ? "no faults\n" : "\n" + lines);
  }
  return text;
}

// --- NetworkCheck

NetworkCheck::NetworkCheck(const NetworkData& data, std::string prefix,
                           FaultSink* sink)
    : data_(data),
      prefix_(std::move(prefix)),
      sink_(sink),
      positions_(data.operations.size(), UINT32_MAX),
      is_in_cycle_(data.operations.size(), false),
      is_sane_(data.values.size(), false),
      is_askable_(data.operations.size(), false) {
  for (uint32_t i = 0; i < data.order.size(); ++i) {
    const uint32_t id = Index(data.order[i]);
    if (id < positions_.size() && positions_[id] == UINT32_MAX) {
      positions_[id] = i;
    }
  }
}

NetworkCheck::NetworkCheck(const NetworkData& data, std::string prefix,
                           uint64_t rank, FaultSink* sink)
    : NetworkCheck(data, std::move(prefix), sink) {
  is_body_ = true;
  body_rank_ = rank;
}

uint64_t NetworkCheck::RankOf(OperationId id) const {
  if (is_body_) return body_rank_;
  // Operations in the order come first, then the others by number.
  const uint32_t position = positions_[Index(id)];
  return 1 +
         (position != UINT32_MAX ? position : uint64_t{UINT32_MAX} + Index(id));
}

uint64_t NetworkCheck::RankOf(const NetworkValue& value) const {
  if (is_body_) return body_rank_;
  return Find(data_, value.producer) != nullptr ? RankOf(value.producer) : 0;
}

std::string NetworkCheck::NetworkPlace() const {
  return fmt::format("network {}", Shortened(data_.name));
}

std::vector<OperationId> NetworkCheck::MakersOf(
    const Operation& operation) const {
  std::vector<OperationId> makers;
  for (const auto* ids : {&operation.inputs, &operation.after}) {
    for (const ValueId id : *ids) {
      const NetworkValue* const value = Find(data_, id);
      if (value == nullptr || Find(data_, value->producer) == nullptr) continue;
      makers.push_back(value->producer);
    }
  }
  return makers;
}

void NetworkCheck::Add(uint64_t rank, NetworkFault fault) {
  if (!fault.is_warning) ++errors_;
  fault.where = prefix_ + fault.where;
  sink_->Add(is_body_ ? body_rank_ : rank, std::move(fault));
}

void NetworkCheck::AskTargets(const Network& network,
                              absl::Span<const Target> targets) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    for (const Target& target : targets) {
      if (target.ask == nullptr) continue;
      const Support support = target.ask(network, operation);
      const auto add = [&](bool is_warning, const std::string& what) {
        Add(RankOf(id),
            {FaultPart::kRunTime, is_warning, PlaceOf(operation),
             fmt::format("{} {} {}: {}", target.name,
                         is_warning ? "is not at its best with" : "cannot run",
                         operation.kind(), what),
             "", ""});
      };
      if (!support.can) add(false, support.why_not);
      if (!support.can) continue;
      for (const std::string& penalty : support.penalties) add(true, penalty);
    }
  }
}

}  // namespace nodewise
