// How a target would run a network, asked without lowering it.

#include "nodewise/session/target_support.h"

#include <map>
#include <optional>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/lower/lowering_plan.h"
#include "nodewise/ops/ops.h"
#include "nodewise/passes/known_part.h"
#include "nodewise/session/session.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// As `run` and `convert --emit c` lower.
LowerOptions OptionsFor(const std::string& target) {
  LowerOptions options =
      LowerOptionsOf({.chooses_layouts = target == "onednn"});
  if (target != "onednn") options.makers = {CKernels()};
  return options;
}

// Adds what there is to say of an operation that no kernel computes, or not the
// target's own, or not as fast as it could.
void AddFinding(const Network& network, const KernelChoice& node,
                const OperationChoice& choice, TargetSupport* support) {
  // An operation that its whole node was refused for has no reason of its own.
  const std::string why = choice.why_not.empty()
                              ? absl::StrJoin(node.refusals, "; ")
                              : choice.why_not;
  if (!choice.kernel.empty() && why.empty() && choice.remark.empty()) return;
  const std::string& name = choice.operation;
  const auto id = network.FindOperation(name);
  const std::string_view operation =
      id.ok() ? network.operation(*id).kind() : "an operation";
  const FindingKind* kind = &network_kinds::kPenalty;
  std::string found;
  if (choice.kernel.empty()) {
    kind = &network_kinds::kUnsupported;
    found =
        fmt::format("{} cannot run {}: {}", support->target, operation, why);
  } else if (!why.empty()) {
    found = fmt::format("{} falls back to {} for {}: {}", support->target,
                        TitleOfKernel(choice.kernel), operation, why);
  } else {
    found = fmt::format("{} is not at its best with {}: {}", support->target,
                        operation, choice.remark);
  }
  support->findings.push_back(MakeFinding(
      *kind, OperationPlace{"operation " + name, name, ""}, std::move(found)));
}

// The table is the one that lowering fills in, so that what is told here is
// what a run would do.
TargetSupport SupportIn(const KernelTable& table, const Network& network,
                        const std::string& target) {
  TargetSupport support;
  support.target = target;
  support.nodes = table.rows().size();
  std::map<std::string, size_t> counts;
  for (const PlannedKernel& row : table.rows()) {
    for (const OperationChoice& choice : row.choice.operations) {
      ++support.operations;
      ++counts[choice.kernel.empty() ? "nothing" : choice.kernel];
      AddFinding(network, row.choice, choice, &support);
    }
  }
  support.by.assign(counts.begin(), counts.end());
  return support;
}

}  // namespace

// A network that cannot be lowered at all has one finding, and no operations.
absl::StatusOr<TargetSupport> QueryTarget(const Network& network,
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
  if (table != nullptr) return SupportIn(*table, known, target);
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
