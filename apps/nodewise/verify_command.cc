#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/error_text.h"
#include "apps/nodewise/model_options.h"
#include "apps/nodewise/target_options.h"
#include "fmt/format.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

class VerifyTarget : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddTargetOptions(options, &target_);
    AddModelOptions(options, &model_);
  }

  absl::StatusOr<Outcome> Run() override {
    if (IsModel(target_.target)) return VerifyModel();
    NODEWISE_RETURN_IF_ERROR(CheckNoModelOptions(model_, target_.target));
    NODEWISE_ASSIGN_OR_RETURN(const ArtefactFiles files, FilesOf(target_));
    NODEWISE_RETURN_IF_ERROR(CheckFunctionIsMeant(files));
    NODEWISE_ASSIGN_OR_RETURN(const DiagnosticList found,
                              VerifyArtefact(files));
    return OutcomeOf(FindingsIn(found), PathsIn(files));
  }

 private:
  absl::StatusOr<Outcome> VerifyModel() {
    NODEWISE_RETURN_IF_ERROR(CheckModelTarget(target_));
    DiagnosticList found;
    const auto network = LoadModel(target_.target, model_, &found);
    if (!network.ok() && !found.HasErrors()) return network.status();
    std::vector<Finding> findings = FindingsIn(found);
    if (network.ok()) AddNetwork(*network, &findings);
    return OutcomeOf(std::move(findings), {target_.target});
  }

  static std::vector<Finding> FindingsIn(const DiagnosticList& found) {
    return FindingsOf(found.items(), finding_kinds::kFaultyFile);
  }

  static absl::Status CheckFunctionIsMeant(const ArtefactFiles& files) {
    const bool may_choose =
        files.graph.empty() && MayBeVmLibrary(files.library);
    if (files.function.empty() || may_choose) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "{}: is no VM library, so it has no function {} to choose (leave out "
        "--function)",
        files.target, files.function));
  }

  // Adds findings that the import should have prevented; there should be none.
  void AddNetwork(const Network& network,
                  std::vector<Finding>* findings) const {
    for (Finding& finding : Verify(network.data())) {
      auto& place = std::get<OperationPlace>(finding.place);
      place.text = target_.target + ": " + place.text;
      findings->push_back(std::move(finding));
    }
  }

  Outcome OutcomeOf(std::vector<Finding> findings,
                    const std::vector<std::string>& files) const {
    Outcome outcome;
    std::vector<Finding> warnings;
    for (Finding& finding : findings) {
      const bool is_error = finding.severity == Severity::kError;
      outcome.text += is_error ? "error: " : "warning: ";
      outcome.text += Printable(LineOf(finding));  // One line each.
      outcome.text += '\n';
      (is_error ? outcome.errors : warnings).push_back(std::move(finding));
    }
    if (!outcome.errors.empty()) outcome.status = Outcome::Status::kDiffers;
    outcome.text += fmt::format("{}: {}, {}\n", Printable(target_.target),
                                CountOf(outcome.errors.size(), "error"),
                                CountOf(warnings.size(), "warning"));
    AddFindings("warnings", warnings, &outcome.json);
    outcome.json.Add("files", files);
    return outcome;
  }

  TargetOptions target_;
  ModelOptions model_;
};

}  // namespace

const CommandRow kVerifyCommand = {
    "verify", "lists every fault of a network, running none of it",
    "examples:\n"
    "  nodewise verify build/mlp\n"
    "  nodewise verify graph.json --lib lib.so --params params.params\n"
    "  nodewise verify model.onnx\n"
    "\nExit status: 0 no errors (warnings may be), 1 errors, 2 a file cannot "
    "be read.\n",
    [] { return std::unique_ptr<Command>(new VerifyTarget); }};

}  // namespace nodewise
