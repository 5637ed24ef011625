#include "apps/nodewise/verify_network.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "apps/nodewise/error_text.h"
#include "fmt/format.h"
#include "nodewise/interp/reference_target.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// The targets of networks that this build has.
const Target* const kTargets[] = {&ReferenceTarget()};

absl::StatusOr<std::vector<Target>> TargetsNamed(
    const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const Target* target : kTargets) known.emplace_back(target->traits.name);
  std::vector<Target> targets;
  for (const std::string& name : names) {
    const auto place = std::find(known.begin(), known.end(), name);
    if (place == known.end()) {
      return absl::InvalidArgumentError(fmt::format(
          "--target {}: there is no such target of networks, expected one of "
          "{}",
          name, ListOf(known)));
    }
    targets.push_back(*kTargets[place - known.begin()]);
  }
  return targets;
}

// What was found about a network before and after it could be checked.
struct Verdict {
  std::vector<Finding> in_file;
  std::optional<NetworkData> network;
};

absl::StatusOr<Verdict> ReadModel(const std::string& path,
                                  const ModelOptions& model) {
  DiagnosticList found;
  auto network = LoadModel(path, model, &found);
  if (!network.ok() && !found.HasErrors()) return network.status();
  Verdict verdict;
  verdict.in_file = FindingsOf(found.items(), finding_kinds::kFaultyFile);
  if (network.ok()) verdict.network = network->data();
  return verdict;
}

absl::StatusOr<Verdict> ReadText(const std::string& path) {
  Verdict verdict;
  NODEWISE_ASSIGN_OR_RETURN(verdict.network, LoadNetworkText(path));
  return verdict;
}

// Why a part was not checked, or "".
std::string WhyNotChecked(const NetworkPart& part, const Verdict& verdict,
                          const std::vector<std::string>& targets,
                          bool has_errors) {
  if (!verdict.network.has_value()) return "the file is at fault";
  if (part.name != network_kinds::kRunTime) return "";
  if (targets.empty()) return "no target was named (--target reference)";
  return has_errors ? "there are errors above" : "";
}

// `nothing` is what a part without findings says.
void AddPart(const NetworkPart& part, std::vector<Finding> findings,
             const std::string& why_not, const char* nothing,
             std::vector<Finding>* warnings, Outcome* outcome) {
  const size_t errors = outcome->errors.size();
  const size_t warned = warnings->size();
  const bool is_empty = findings.empty();
  outcome->text += fmt::format("{}:{}\n", part.heading,
                               !why_not.empty() ? " not checked: " + why_not
                               : is_empty       ? nothing
                                                : "");
  AddFindingLines(std::move(findings), "  ", warnings, outcome);
  outcome->json.BeginObject();
  outcome->json.Add("part", part.name);
  outcome->json.Add("checked", why_not.empty());
  if (!why_not.empty()) outcome->json.Add("why_not", why_not);
  outcome->json.Add("errors", uint64_t{outcome->errors.size() - errors});
  outcome->json.Add("warnings", uint64_t{warnings->size() - warned});
  outcome->json.EndObject();
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

}  // namespace

bool IsNetworkText(const std::string& path) {
  const auto file = MappedFile::Open(path);
  if (!file.ok()) return false;
  return LooksLikeNetworkText(file->text());
}

void AddFindingLines(std::vector<Finding> findings, const char* indent,
                     std::vector<Finding>* warnings, Outcome* outcome) {
  for (Finding& finding : findings) {
    const bool is_error = finding.severity == Severity::kError;
    outcome->text +=
        fmt::format("{}{}: {}\n", indent, is_error ? "error" : "warning",
                    Printable(LineOf(finding)));  // One line each.
    (is_error ? outcome->errors : *warnings).push_back(std::move(finding));
  }
}

void FinishVerdict(const std::string& path,
                   const std::vector<Finding>& warnings, Outcome* outcome) {
  if (!outcome->errors.empty()) outcome->status = Outcome::Status::kDiffers;
  outcome->text += fmt::format("{}: {}, {}\n", Printable(path),
                               CountOf(outcome->errors.size(), "error"),
                               CountOf(warnings.size(), "warning"));
  AddFindings("warnings", warnings, &outcome->json);
}

absl::StatusOr<Outcome> VerifyNetwork(const std::string& path,
                                      const ModelOptions& model,
                                      const std::vector<std::string>& names) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<Target> targets,
                            TargetsNamed(names));
  NODEWISE_ASSIGN_OR_RETURN(
      Verdict verdict, IsModel(path) ? ReadModel(path, model) : ReadText(path));
  std::vector<Finding> found;
  if (verdict.network.has_value()) found = Verify(*verdict.network, targets);
  const bool has_errors = !ToStatus(found).ok();
  for (Finding& finding : found) {
    auto& place = std::get<OperationPlace>(finding.place);
    place.text = path + ": " + place.text;
  }
  Outcome outcome;
  std::vector<Finding> warnings;
  if (!verdict.in_file.empty()) {
    outcome.text += "File:\n";
    AddFindingLines(verdict.in_file, "  ", &warnings, &outcome);
  }
  // That the list is cut belongs to no part.
  auto cut = TakeIf(&found, [](const Finding& finding) {
    return finding.kind == network_kinds::kNotListed;
  });
  const char* const nothing = cut.empty() ? " no faults" : " none listed";
  outcome.json.BeginArray("parts");
  for (const NetworkPart& part : NetworkParts()) {
    auto findings = TakeIf(&found, [&](const Finding& finding) {
      return finding.part() == part.name;
    });
    AddPart(part, std::move(findings),
            WhyNotChecked(part, verdict, names, has_errors), nothing, &warnings,
            &outcome);
  }
  outcome.json.EndArray();
  AddFindingLines(std::move(cut), "", &warnings, &outcome);
  FinishVerdict(path, warnings, &outcome);
  return outcome;
}

}  // namespace nodewise
