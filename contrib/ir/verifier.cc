// Puts a check of a network together: its structure (verify_structure.cc), and
// here its information and what targets can do with it. Bodies of operations
// are networks of their own, which are checked like the outermost one.

#include "nodewise/ir/verifier.h"

#include <algorithm>
#include <climits>
#include <iterator>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "contrib/ir/inference.h"
#include "contrib/ir/network_check.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr NetworkPart kParts[] = {
    {network_kinds::kStructure,
     "Structure (links, order, what depends on what)"},
    {network_kinds::kInformation, "Information (names, types, attributes)"},
    {network_kinds::kRunTime, "Run time (what the targets can do)"},
};

// Reports have the parts in this order, since a broken link makes what is said
// of types doubtful.
size_t PartRank(const Finding& finding) {
  size_t rank = 0;
  while (kParts[rank].name != finding.part()) ++rank;
  return rank;
}

bool IsError(const Finding& finding) {
  return finding.severity == Severity::kError;
}

std::string OpsetRange(int newest) {
  return newest == INT_MAX ? "1 or more" : fmt::format("1 to {}", newest);
}

std::string ElementsText(const std::optional<Shape>& elements) {
  return elements.has_value() ? "elements " + ToString(*elements)
                              : "no known elements";
}

// f(operation's number, a body of it) for each body of the network's
// operations that is there.
template <typename F>
void ForEachBody(const NetworkData& data, F f) {
  ForEachOperation(data, [&](OperationId id, const Operation& operation) {
    if (!operation.attrs.defined()) return;
    for (const NamedBody& body : BodiesOf(operation.attrs)) {
      if (body.graph.body != nullptr) f(id, body);
    }
  });
}

struct CheckedNetwork {
  const Network* body;  // Null for the outermost one.
  std::unique_ptr<NetworkCheck> check;
};

// Lists the network and each body in it, however deep, without recursion. A
// body that is used twice is checked once.
std::vector<CheckedNetwork> AllNetworks(const NetworkData& data,
                                        FindingSink* sink) {
  std::vector<CheckedNetwork> all;
  all.push_back(
      {nullptr, std::make_unique<NetworkCheck>(data, "", std::nullopt, sink)});
  std::unordered_set<const Network*> seen;
  for (size_t i = 0; i < all.size(); ++i) {
    const NetworkCheck& outer = *all[i].check;
    ForEachBody(outer.data(), [&](OperationId id, const NamedBody& body) {
      const Network* const network = body.graph.body.get();
      if (!seen.insert(network).second) return;
      std::string prefix =
          fmt::format("{}{}: {}: ", outer.prefix(),
                      PlaceOf(*Find(outer.data(), id)), body.attribute);
      all.push_back({network, std::make_unique<NetworkCheck>(
                                  network->data(), std::move(prefix),
                                  outer.RankOf(id), sink)});
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

// Errors and warnings are listed apart, so that many warnings cannot push an
// error out.
void FindingSink::Add(uint64_t rank, Finding finding) {
  const bool is_error = IsError(finding);
  if (is_error) ++errors_;
  auto& list = is_error ? listed_errors_ : warnings_;
  if (list.size() < kMostFindings) {
    list.emplace_back(rank, std::move(finding));
    return;
  }
  // Errors that are not listed make the network invalid, too.
  is_cut_ = true;
  cut_errors_ = cut_errors_ || is_error;
}

// Stable, since findings about one operation come in an order that reads well.
std::vector<Finding> FindingSink::TakeSorted() {
  // Warnings get the room that errors have left.
  const size_t room = kMostFindings - listed_errors_.size();
  if (warnings_.size() > room) {
    is_cut_ = true;
    warnings_.resize(room);
  }
  std::vector<std::pair<uint64_t, Finding>> all = std::move(listed_errors_);
  std::move(warnings_.begin(), warnings_.end(), std::back_inserter(all));
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) {
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

// Three rounds over all networks. Inference comes after structure and
// information of all of them: an operator with a body is asked only if no
// fault was found in that body, however deep, since operators follow links
// without checking.
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
      check->QueryTargets(targets);
    }
  }
  return sink.TakeSorted();
}

absl::Span<const NetworkPart> NetworkParts() { return kParts; }

// One message has room for one fault; the number of the others tells whether
// mending it will do.
absl::Status ToStatus(absl::Span<const Finding> findings) {
  const auto first = std::ranges::find_if(findings, &IsError);
  if (first == findings.end()) return absl::OkStatus();
  std::string text = first->ToString();
  const auto more = std::count_if(first + 1, findings.end(), &IsError);
  if (more > 0) {
    text += fmt::format("; and {} more fault{}", more, more == 1 ? "" : "s");
  }
  return absl::DataLossError(text);
}

// A part without faults says so, or a reader would not know that it was looked
// at.
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

NetworkCheck::NetworkCheck(const NetworkData& data, std::string prefix,
                           std::optional<uint64_t> body_rank, FindingSink* sink)
    : data_(data),
      prefix_(std::move(prefix)),
      body_rank_(body_rank),
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

uint64_t NetworkCheck::RankOf(OperationId id) const {
  if (body_rank_.has_value()) return *body_rank_;
  // Operations in the order come first, then the others by number.
  const uint32_t position = positions_[Index(id)];
  return 1 +
         (position != UINT32_MAX ? position : uint64_t{UINT32_MAX} + Index(id));
}

// A value stands with the operation that makes it; inputs and constants come
// before all of them.
uint64_t NetworkCheck::RankOf(const NetworkValue& value) const {
  if (body_rank_.has_value()) return *body_rank_;
  return Find(data_, value.producer) != nullptr ? RankOf(value.producer) : 0;
}

NetworkCheck::Subject NetworkCheck::About(OperationId id) const {
  const Operation* const operation = Find(data_, id);
  return {RankOf(id), operation == nullptr ? "" : NameOf(*operation), ""};
}

NetworkCheck::Subject NetworkCheck::About(const NetworkValue& value) const {
  return {RankOf(value), "", NameOf(value)};
}

void NetworkCheck::Add(const FindingKind& kind, Subject subject,
                       std::string_view where, std::string found,
                       std::string expected, std::string hint) {
  Finding finding = MakeFinding(
      kind,
      OperationPlace{prefix_ + std::string(where), std::move(subject.operation),
                     std::move(subject.value)},
      std::move(found));
  finding.expected = std::move(expected);
  finding.hint = std::move(hint);
  if (IsError(finding)) ++errors_;
  sink_->Add(body_rank_.value_or(subject.rank), std::move(finding));
}

// Bodies are networks of their own here, so that each operation in them is
// asked about with its own place.
void NetworkCheck::QueryTargets(absl::Span<const Target> targets) {
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

void NetworkCheck::CheckInformation() {
  CheckOpsets();
  CheckNames();
  ForEachValue(data_, [&](ValueId id, const NetworkValue& value) {
    CheckValue(id, value);
  });
  ForEachOperation(data_, [&](OperationId id, const Operation& operation) {
    is_askable_[Index(id)] = CheckOperator(id, operation);
  });
}

// An operator is asked only about what it may rely on: its row holds, its
// arity is right, its inputs have sane types.
void NetworkCheck::CheckInference(
    const std::unordered_set<const Network*>& damaged) {
  ForEachOperation(data_, [&](OperationId id, const Operation& operation) {
    if (is_askable_[Index(id)] && !HasBodyAmong(operation.attrs, damaged) &&
        HasValidInputs(operation)) {
      CheckInferred(id, operation);
    }
  });
}

// "ai.onnx" is another name of the standard domain, which networks have as "".
// Two versions of one domain would leave open which rows hold.
void NetworkCheck::CheckOpsets() {
  std::unordered_map<std::string_view, int> versions;
  const auto add = [&](std::string found, std::string expected) {
    Information({}, PlaceOf(data_), std::move(found), std::move(expected));
  };
  for (const auto& [domain, version] : data_.opsets) {
    const std::string found =
        fmt::format("has opset {} of domain \"{}\"", version, domain);
    const int newest = NewestOpsetOf(domain);
    if (domain == "ai.onnx") add(found, "it as domain \"\"");
    if (version < 1 || version > newest) add(found, OpsetRange(newest));
    const auto [first, is_new] = versions.emplace(domain, version);
    if (is_new) continue;
    add(fmt::format("{}, and {} as well", found, first->second),
        "one opset of a domain");
  }
}

template <typename Id, typename Item>
void NetworkCheck::CheckName(
    const char* what, Id id, const Item& item,
    std::unordered_map<std::string_view, uint32_t>* seen) {
  const auto add = [&](std::string_view where, std::string found,
                       std::string expected) {
    Subject subject;
    if constexpr (std::is_same_v<Id, OperationId>) {
      subject = About(id);
    } else {
      subject = About(item);
    }
    Information(std::move(subject), where, std::move(found),
                std::move(expected));
  };
  constexpr char kSign = std::is_same_v<Id, OperationId> ? '#' : '%';
  if (item.name.empty()) {
    add(fmt::format("{} {}{}", what, kSign, Index(id)), "has no name", "one");
    return;
  }
  const auto [first, is_new] = seen->emplace(item.name, Index(id));
  if (is_new) return;
  add(fmt::format("{} {}", what, NameOf(item)),
      fmt::format("{}s {}{} and {}{} have this name", what, kSign,
                  first->second, kSign, Index(id)),
      fmt::format("one {} of a name", what));
}

void NetworkCheck::CheckNames() {
  std::unordered_map<std::string_view, uint32_t> values;
  ForEachValue(data_, [&](ValueId id, const NetworkValue& value) {
    if (value.kind == NetworkValue::Kind::kBarrier) return;
    CheckName("value", id, value, &values);
  });
  std::unordered_map<std::string_view, uint32_t> operations;
  ForEachOperation(data_, [&](OperationId id, const Operation& operation) {
    CheckName("operation", id, operation, &operations);
  });
}

// A value whose type no tensor can have is not shown to operators: they
// calculate with sides.
void NetworkCheck::CheckValue(ValueId id, const NetworkValue& value) {
  const auto add = [&](std::string found, std::string expected = "") {
    Information(About(value), PlaceOf(data_, value), std::move(found),
                std::move(expected));
  };
  if (value.kind == NetworkValue::Kind::kBarrier) {
    if (!value.name.empty() || !(value.type == TensorType()) ||
        value.data.defined() || value.elements.has_value()) {
      add("is a barrier with a name, a type or data", "none of these");
    }
    return;
  }
  const absl::Status status = CheckType(value.type);
  if (!status.ok()) return add(std::string(MessageOf(status)));
  is_sane_[Index(id)] = true;
  if (value.kind == NetworkValue::Kind::kConstant) {
    CheckConstant(id, value);
  } else if (value.data.defined()) {
    add("has data, and is not a constant", "data of constants only");
  }
  if (value.kind == NetworkValue::Kind::kInput && value.elements.has_value()) {
    add("is an input with " + ElementsText(value.elements),
        "none before the network runs");
    is_sane_[Index(id)] = false;
  }
}

// Data that is on a device or not compact would have to be copied to be looked
// at, and elements are read from it as they lie.
void NetworkCheck::CheckConstant(ValueId id, const NetworkValue& value) {
  const auto add = [&](std::string found, std::string expected) {
    Information(About(value), PlaceOf(data_, value), std::move(found),
                std::move(expected));
    is_sane_[Index(id)] = false;
  };
  if (!value.data.defined()) return add("is a constant without data", "data");
  const TensorType type = TensorType::From(*value.data);
  if (!CheckType(type).ok()) {
    return add("has data that cannot be", ToString(type));
  }
  if (DeviceTypeOf(value.data.device()) != kDLCPU || !IsCompact(*value.data)) {
    return add("has data that is on a device or not compact",
               "compact data in host memory");
  }
  if (!(type == value.type)) {
    return add("is of type " + ToString(value.type),
               ToString(type) + ", which its data is");
  }
  const std::optional<Shape> elements = ElementsOf(value.data);
  if (value.elements != elements) {
    add("has " + ElementsText(value.elements),
        ElementsText(elements) + ", as in its data");
  }
}

int NetworkCheck::OpsetOf(std::string_view domain) const {
  const auto found = std::ranges::find_if(
      data_.opsets, [&](const auto& opset) { return opset.first == domain; });
  return found == data_.opsets.end() ? 0 : found->second;
}

// All faults are told, not only the first: a reader mends a file once.
bool NetworkCheck::CheckOperator(OperationId id, const Operation& operation) {
  const std::string place = PlaceOf(operation);
  if (!operation.attrs.defined()) {
    Information(About(id), place, "has no operator", "one");
    return false;
  }
  const OperatorDef& def = operation.def();
  const int opset = OpsetOf(def.domain);
  if (opset > 0) {
    Information(id, CheckHoldsIn(operation, opset));
  } else {
    Information(
        About(id), place,
        fmt::format("the network has no opset of domain \"{}\"", def.domain),
        fmt::format("one for {}", def.name));
  }
  Information(id, At(place, CheckRequired(operation.attrs)));
  const absl::Status arity = CheckArity(operation);
  Information(id, arity);
  return CheckBodies(id, operation) && arity.ok();
}

// Returns false if the operator cannot be asked, since a body is missing or
// captures more than there is.
bool NetworkCheck::CheckBodies(OperationId id, const Operation& operation) {
  const std::vector<NamedBody> bodies = BodiesOf(operation.attrs);
  const std::string place = PlaceOf(operation);
  bool are_there = true;
  size_t captures = 0;
  for (const NamedBody& body : bodies) {
    captures += body.graph.captures;
    if (body.graph.body != nullptr) continue;
    Information(About(id), place,
                fmt::format("attribute {} has no graph", body.attribute),
                "one");
    are_there = false;
  }
  if (are_there && !bodies.empty()) {
    Information(id, CheckBodiesHold(operation, [&](std::string_view domain) {
                  return OpsetOf(domain);
                }));
  }
  if (captures <= operation.inputs.size()) return are_there;
  Information(About(id), place,
              fmt::format("its bodies capture {} values", captures),
              fmt::format("at most its {} inputs", operation.inputs.size()));
  return false;
}

// An optional input that is not given is sane.
bool NetworkCheck::HasValidInputs(const Operation& operation) const {
  return std::ranges::all_of(operation.inputs, [this](ValueId input) {
    return input == kNoValue ||
           (Find(data_, input) != nullptr && is_sane_[Index(input)]);
  });
}

// The types of outputs are compared with what inference makes of the inputs as
// they are stored, so that one wrong type is one finding and not one for
// everything behind it.
void NetworkCheck::CheckInferred(OperationId id, const Operation& operation) {
  const absl::Status status = CheckRestrictions(data_, operation);
  if (!status.ok()) return Information(id, status);
  const auto infos = InferOutputs(data_, operation);
  if (!infos.ok()) return Information(id, infos.status());
  for (size_t i = 0; i < infos->size(); ++i) {
    const NetworkValue* const value = Find(data_, operation.outputs[i]);
    if (value == nullptr || value->kind != NetworkValue::Kind::kOutput) {
      continue;
    }
    const auto add = [&](const std::string& is, const std::string& inferred) {
      Information(About(id), PlaceOfOutput(operation, i),
                  fmt::format("{} {}", PlaceOf(data_, *value), is),
                  inferred + ", as inferred");
    };
    const auto& [type, elements] = (*infos)[i];
    if (!(value->type == type)) {
      add("is of type " + ToString(value->type), ToString(type));
    } else if (value->elements != elements) {
      add("has " + ElementsText(value->elements), ElementsText(elements));
    }
  }
}

void NetworkCheck::Information(OperationId id, const absl::Status& status) {
  if (status.ok()) return;
  const std::string place = PlaceOf(*Find(data_, id));
  std::string_view found = MessageOf(status);
  if (found.starts_with(place + ": ")) found.remove_prefix(place.size() + 2);
  Information(About(id), place, std::string(found));
}

}  // namespace nodewise
