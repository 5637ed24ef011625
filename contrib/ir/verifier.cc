#include "nodewise/ir/verifier.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <unordered_set>

#include "contrib/ir/inference.h"
#include "contrib/ir/network_check.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {
namespace {

constexpr NetworkPart kParts[] = {
    {network_kinds::kStructure,
     "Structure (links, order, what depends on what)"},
    {network_kinds::kInformation, "Information (names, types, attributes)"},
    {network_kinds::kRunTime, "Run time (what the targets can do)"},
};

size_t PartRank(const Finding& finding) {
  size_t rank = 0;
  while (kParts[rank].name != finding.part()) ++rank;
  return rank;
}

bool IsError(const Finding& finding) {
  return finding.severity == Severity::kError;
}

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
                                        FindingSink* sink) {
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

void FindingSink::Add(uint64_t rank, Finding finding) {
  const bool is_error = IsError(finding);
  if (is_error) ++errors_;
  auto& list = is_error ? listed_errors_ : warnings_;
  if (list.size() < kMostFindings) {
    list.emplace_back(rank, std::move(finding));
    return;
  }
  // Those that are not listed make the network invalid, too.
  is_cut_ = true;
  cut_errors_ = cut_errors_ || is_error;
}

std::vector<Finding> FindingSink::TakeSorted() {
  // Warnings get the room that errors have left.
  const size_t room = kMostFindings - listed_errors_.size();
  if (warnings_.size() > room) {
    is_cut_ = true;
    warnings_.resize(room);
  }
  std::vector<std::pair<uint64_t, Finding>> all = std::move(listed_errors_);
  std::move(warnings_.begin(), warnings_.end(), std::back_inserter(all));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(PartRank(a.second), a.first) <
           std::pair(PartRank(b.second), b.first);
  });
  std::vector<Finding> sorted;
  sorted.reserve(all.size() + 1);
  for (auto& [rank, finding] : all) sorted.push_back(std::move(finding));
  if (is_cut_) {
    sorted.push_back(
        {network_kinds::kNotListed,
         cut_errors_ ? Severity::kError : Severity::kWarning,
         OperationPlace{"network", "", ""}, "more faults than are listed",
         fmt::format("at most {}", kMostFindings), "mend these first"});
  }
  return sorted;
}

std::vector<Finding> Verify(const NetworkData& data,
                            absl::Span<const Target> targets) {
  FindingSink sink;
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
      check->AskTargets(targets);
    }
  }
  return sink.TakeSorted();
}

absl::Span<const NetworkPart> NetworkParts() { return kParts; }

absl::Status ToStatus(absl::Span<const Finding> findings) {
  const Finding* first = nullptr;
  size_t more = 0;
  for (const Finding& finding : findings) {
    if (!IsError(finding)) continue;
    if (first == nullptr) {
      first = &finding;
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

std::string FindingReport(absl::Span<const Finding> findings) {
  std::string text;
  for (const NetworkPart& part : kParts) {
    std::string lines;
    for (const Finding& finding : findings) {
      if (finding.part() != part.name) continue;
      lines += fmt::format("  {}: {}\n", IsError(finding) ? "error" : "warning",
                           finding.ToString());
    }
    text += fmt::format("{}: {}", part.heading,
                        lines.empty() ? "no faults\n" : "\n" + lines);
  }
  return text;
}

// --- NetworkCheck

NetworkCheck::NetworkCheck(const NetworkData& data, std::string prefix,
                           FindingSink* sink)
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
                           uint64_t rank, FindingSink* sink)
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

NetworkCheck::Subject NetworkCheck::About(OperationId id) const {
  const Operation* const operation = Find(data_, id);
  return {RankOf(id), operation == nullptr ? "" : NameOf(*operation), ""};
}

NetworkCheck::Subject NetworkCheck::About(const NetworkValue& value) const {
  return {RankOf(value), "", NameOf(value)};
}

void NetworkCheck::Add(const FindingKind& kind, Subject subject,
                       std::string where, std::string found,
                       std::string expected, std::string hint) {
  Finding finding =
      MakeFinding(kind,
                  OperationPlace{prefix_ + where, std::move(subject.operation),
                                 std::move(subject.value)},
                  std::move(found));
  finding.expected = std::move(expected);
  finding.hint = std::move(hint);
  if (IsError(finding)) ++errors_;
  sink_->Add(is_body_ ? body_rank_ : subject.rank, std::move(finding));
}

void NetworkCheck::AskTargets(absl::Span<const Target> targets) {
  for (const OperationId id : data_.order) {
    const Operation& operation = *Find(data_, id);
    const std::vector<InputInfo> inputs = InputInfosOf(data_, operation.inputs);
    const OutputInfos outputs = OutputInfosOf(data_, operation);
    for (const Target& target : targets) {
      const Support support =
          SupportOf(target, operation.attrs, Inputs(inputs), outputs);
      const auto add = [&](const FindingKind& kind, const std::string& what) {
        Add(kind, About(id), PlaceOf(operation),
            fmt::format("{} {} {}: {}", target.traits.name,
                        kind == network_kinds::kPenalty
                            ? "is not at its best with"
                            : "cannot run",
                        operation.kind(), what));
      };
      if (!support.can) add(network_kinds::kUnsupported, support.why_not);
      if (!support.can) continue;
      for (const std::string& penalty : support.penalties) {
        add(network_kinds::kPenalty, penalty);
      }
    }
  }
}

}  // namespace nodewise
