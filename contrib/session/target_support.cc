#include "nodewise/session/target_support.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/lower/lowering_plan.h"
#include "nodewise/ops/ops.h"
#include "nodewise/passes/known_part.h"
#include "nodewise/session/session.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// As `run` and `convert --emit c` lower.
LowerOptions OptionsFor(const std::string& target) {
  LoweringSpec lowering;
  if (target == "onednn") return LowerOptionsOf(lowering);
  lowering.chooses_layouts = false;
  LowerOptions options = LowerOptionsOf(lowering);
  options.makers = {CKernels()};
  return options;
}

class SupportReader {
 public:
  SupportReader(const Network& network, const std::string& target)
      : network_(network) {
    support_.target = target;
  }

  TargetSupport Read(const KernelTable& table) {
    support_.nodes = table.rows().size();
    for (const PlannedKernel& row : table.rows()) {
      for (const OperationChoice& choice : row.choice.operations) {
        Add(row.choice, choice);
      }
    }
    support_.by.assign(counts_.begin(), counts_.end());
    return std::move(support_);
  }

 private:
  void Add(const KernelChoice& node, const OperationChoice& choice) {
    ++support_.operations;
    ++counts_[choice.kernel.empty() ? "nothing" : choice.kernel];
    // An operation that its whole node was refused for has no reason of its
    // own.
    std::string why = choice.why_not;
    if (why.empty()) why = absl::StrJoin(node.refusals, "; ");
    if (choice.kernel.empty()) {
      AddFinding(network_kinds::kUnsupported, choice.operation,
                 fmt::format("{} cannot run {}: {}", support_.target,
                             KindOf(choice.operation), why));
    } else if (!why.empty()) {
      AddFinding(network_kinds::kPenalty, choice.operation,
                 fmt::format("{} falls back to {} for {}: {}", support_.target,
                             TitleOfKernel(choice.kernel),
                             KindOf(choice.operation), why));
    } else if (!choice.remark.empty()) {
      AddFinding(
          network_kinds::kPenalty, choice.operation,
          fmt::format("{} is not at its best with {}: {}", support_.target,
                      KindOf(choice.operation), choice.remark));
    }
  }

  void AddFinding(const FindingKind& kind, const std::string& operation,
                  std::string found) {
    support_.findings.push_back(MakeFinding(
        kind, OperationPlace{"operation " + operation, operation, ""},
        std::move(found)));
  }

  std::string_view KindOf(const std::string& name) const {
    const auto id = network_.FindOperation(name);
    return id.ok() ? network_.operation(*id).kind() : "an operation";
  }

  const Network& network_;
  TargetSupport support_;
  std::map<std::string, size_t> counts_;
};

}  // namespace

absl::StatusOr<TargetSupport> AskTarget(const Network& network,
                                        const std::string& target) {
  // Opaque operations are left out when a model is lowered, too.
  std::optional<KnownPart> part;
  absl::Status status;
  if (!OpaqueOperations(network).empty()) {
    auto known = KnownPartOf(network);
    if (known.ok()) part = *std::move(known);
    status = known.status();
  }
  const Network& known = part.has_value() ? part->network : network;
  std::shared_ptr<const KernelTable> table;
  if (status.ok()) {
    const auto plan = LoweringPlan::Make(known, OptionsFor(target));
    status = plan.status();
    if (plan.ok()) {
      NODEWISE_ASSIGN_OR_RETURN(table, plan->kernels());
    }
  }
  if (table != nullptr) return SupportReader(known, target).Read(*table);
  TargetSupport support;
  support.target = target;
  support.why_not = std::string(MessageOf(status));
  // Runs are left to the interpreter then, but nothing else writes C.
  const bool falls_back = target == "onednn";
  support.findings.push_back(MakeFinding(
      falls_back ? network_kinds::kPenalty : network_kinds::kUnsupported,
      OperationPlace{fmt::format("network {}", Shortened(network.name())), "",
                     ""},
      fmt::format("{} cannot be lowered for it: {}", target, support.why_not)));
  return support;
}

absl::StatusOr<EmittedC> EmitModelC(const Graph& graph) {
  return EmitC(graph, AllOperators());
}

}  // namespace nodewise
