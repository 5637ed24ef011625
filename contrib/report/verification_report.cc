// Faults of a model or of a network as text, part by part.

#include "nodewise/report/verification_report.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/session/model_file.h"
#include "nodewise/session/target_support.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// The targets that Verify() asks operation by operation; the others are those
// that networks are lowered for, whose table is asked.
const Target* const kTargets[] = {&ReferenceTarget()};

struct WantedTargets {
  std::vector<Target> by_operation;
  std::vector<std::string> by_lowering;
};

// Both kinds of target have one list of names, since their difference is none
// of the user's business.
absl::StatusOr<WantedTargets> TargetsNamed(
    const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const Target* target : kTargets) known.emplace_back(target->traits.name);
  for (const std::string_view name : kLoweringTargets) known.emplace_back(name);
  WantedTargets wanted;
  for (const std::string& name : names) {
    const auto place = std::ranges::find(known, name);
    if (place == known.end()) {
      return InvalidArgument(
          "{} {}: there is no such target of networks, expected one of {}",
          NameOf(Way::kMachine), name, ListOf(known));
    }
    const auto i = static_cast<size_t>(place - known.begin());
    if (i < std::size(kTargets)) {
      wanted.by_operation.push_back(*kTargets[i]);
    } else {
      wanted.by_lowering.push_back(name);
    }
  }
  return wanted;
}

struct ReadNetwork {
  std::vector<Finding> in_file;
  std::vector<Finding> at_import;  // Findings of the three parts.
  std::optional<NetworkData> network;
};

// Faults that the verifier knows have a kind of it, wherever they are found;
// the others are of the file. A network as text is checked by the verifier
// alone.
absl::StatusOr<ReadNetwork> Read(const std::string& path, ModelSpec spec) {
  ReadNetwork verdict;
  if (!IsModel(path)) {
    NODEWISE_ASSIGN_OR_RETURN(verdict.network, LoadNetworkText(path));
    return verdict;
  }
  DiagnosticList found;
  std::vector<const FindingKind*> kinds;
  spec.report_unused = true;
  spec.check_specification = true;
  spec.kinds = &kinds;
  auto network = LoadModel(path, spec, &found);
  if (!network.ok() && !found.HasErrors()) return network.status();
  kinds.resize(found.items().size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    const Diagnostic& each = found.items()[i];
    if (kinds[i] == nullptr) {
      verdict.in_file.push_back(FindingOf(each, finding_kinds::kFaultyFile));
    } else {
      verdict.at_import.push_back(FindingOf(each, *kinds[i]));
    }
  }
  if (network.ok()) verdict.network = network->data();
  return verdict;
}

struct Extent {
  std::string why_not;  // Why nothing was; or "".
  bool is_partial = false;
};

// Links are known by names alone. An operation whose inputs are at fault has no
// types, so that more faults may turn up once these are mended.
Extent ExtentOf(const NetworkPart& part, const ReadNetwork& verdict,
                const std::vector<std::string>& targets, bool has_errors) {
  const bool is_partial = !verdict.network.has_value();
  if (part.name == network_kinds::kStructure) return {};
  if (part.name == network_kinds::kInformation) return {"", is_partial};
  if (is_partial || has_errors) return {"there are errors"};
  if (targets.empty())
    return {fmt::format("no target was named ({} onednn, c or reference)",
                        NameOf(Way::kMachine))};
  return {};
}

// `nothing` is what a part without findings says.
void AddPart(const NetworkPart& part, std::vector<Finding> findings,
             const Extent& extent, const char* nothing,
             std::vector<Finding>* warnings, Report* report) {
  const size_t errors = report->errors.size();
  const size_t warned = warnings->size();
  const bool is_empty = findings.empty();
  AddText(report, "{}{}:{}\n", part.heading,
          extent.is_partial ? ", as far as it could be checked" : "",
          !extent.why_not.empty() ? " not checked: " + extent.why_not
          : is_empty              ? nothing
                                  : "");
  AddFindingLines(std::move(findings), "  ", warnings, report);
  AddMembers(report, "part", part.name, "checked", extent.why_not.empty(),
             "why_not", IfAny{extent.why_not}, "partly",
             OptionalIf(extent.is_partial, true), "errors",
             report->errors.size() - errors, "warnings",
             warnings->size() - warned);
}

template <typename Predicate>
std::vector<Finding> TakeIf(std::vector<Finding>* findings,
                            Predicate predicate) {
  std::vector<Finding> taken;
  std::copy_if(findings->begin(), findings->end(), std::back_inserter(taken),
               predicate);
  std::erase_if(*findings, predicate);
  return taken;
}

// The network is made once for all targets; making one infers every type.
absl::StatusOr<std::vector<TargetSupport>> QueryAllTargets(
    const NetworkData& data, const std::vector<std::string>& targets) {
  std::vector<TargetSupport> supports;
  if (targets.empty()) return supports;
  NODEWISE_ASSIGN_OR_RETURN(const Network network, Network::FromData(data));
  for (const std::string& target : targets) {
    NODEWISE_ASSIGN_OR_RETURN(auto support, QueryTarget(network, target));
    supports.push_back(std::move(support));
  }
  return supports;
}

void ShowSupports(const std::vector<TargetSupport>& supports, Report* report) {
  if (supports.empty()) return;
  AddObjects(report, "targets", supports, [&](const auto& support) {
    std::vector<std::string> counts;
    AddMembers(report, "target", support.target, "nodes", support.nodes,
               "operations", support.operations);
    report->json.BeginObject("by");
    for (const auto& [kernel, count] : support.by) {
      counts.push_back(fmt::format("{} by {}", count, TitleOfKernel(kernel)));
      AddMembers(report, kernel, count);
    }
    report->json.EndObject();
    AddMembers(report, "why_not", IfAny{support.why_not});
    report->text +=
        support.why_not.empty()
            ? fmt::format("{}: {} in {}: {}\n", support.target,
                          CountOf(support.operations, "operation"),
                          CountOf(support.nodes, "node"),
                          counts.empty() ? "nothing to run" : ListOf(counts))
            : fmt::format("{}: not asked\n", support.target);
  });
}

void ShowParts(const ReadNetwork& verdict, std::vector<Finding> found,
               const std::vector<std::string>& targets, bool has_errors,
               std::vector<Finding>* warnings, Report* report) {
  if (!verdict.in_file.empty()) {
    report->text += "File:\n";
    AddFindingLines(verdict.in_file, "  ", warnings, report);
  }
  // The finding that the list was cut belongs to no part.
  auto cut = TakeIf(&found, [](const Finding& finding) {
    return finding.kind == network_kinds::kNotListed;
  });
  const char* const nothing = cut.empty() ? " no faults" : " none listed";
  AddObjects(report, "parts", NetworkParts(), [&](const auto& part) {
    auto findings = TakeIf(&found, [&](const Finding& finding) {
      return finding.part() == part.name;
    });
    AddPart(part, std::move(findings),
            ExtentOf(part, verdict, targets, has_errors), nothing, warnings,
            report);
  });
  AddFindingLines(std::move(cut), "", warnings, report);
}

}  // namespace

void AddFindingLines(std::vector<Finding> findings, const char* indent,
                     std::vector<Finding>* warnings, Report* report) {
  for (Finding& finding : findings) {
    const bool is_error = finding.severity == Severity::kError;
    AddText(report, "{}{}: {}\n", indent, is_error ? "error" : "warning",
            Printable(LineOf(finding)));  // One line each.
    (is_error ? report->errors : *warnings).push_back(std::move(finding));
  }
}

// Warnings alone leave a model valid.
void FinishVerdict(const std::string& path,
                   const std::vector<Finding>& warnings, Report* report) {
  if (!report->errors.empty()) report->status = Report::Status::kDiffers;
  AddText(report, "{}: {}, {}\n", Printable(path),
          CountOf(report->errors.size(), "error"),
          CountOf(warnings.size(), "warning"));
  AddFindings("warnings", warnings, &report->json);
}

// Targets are asked only about a network without faults: of another one they
// could say nothing that holds once it is mended.
absl::StatusOr<Report> VerifyNetwork(const std::string& path,
                                     const ModelSpec& model,
                                     const std::vector<std::string>& names) {
  NODEWISE_ASSIGN_OR_RETURN(const WantedTargets targets, TargetsNamed(names));
  NODEWISE_ASSIGN_OR_RETURN(const ReadNetwork verdict, Read(path, model));
  std::vector<Finding> found;
  if (verdict.network.has_value()) {
    found = Verify(*verdict.network, targets.by_operation);
  }
  std::vector<TargetSupport> supports;
  if (verdict.network.has_value() && ToStatus(found).ok()) {
    NODEWISE_ASSIGN_OR_RETURN(
        supports, QueryAllTargets(*verdict.network, targets.by_lowering));
  }
  const bool has_errors =
      !ToStatus(found).ok() || !ToStatus(verdict.at_import).ok();
  for (TargetSupport& support : supports) {
    std::move(support.findings.begin(), support.findings.end(),
              std::back_inserter(found));
  }
  for (Finding& finding : found) {
    auto& place = std::get<OperationPlace>(finding.place);
    place.text = path + ": " + place.text;
  }
  found.insert(found.begin(), verdict.at_import.begin(),
               verdict.at_import.end());
  Report report;
  std::vector<Finding> warnings;
  ShowParts(verdict, std::move(found), names, has_errors, &warnings, &report);
  ShowSupports(supports, &report);
  FinishVerdict(path, warnings, &report);
  return report;
}

}  // namespace nodewise
