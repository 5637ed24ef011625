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
    NODEWISE_ASSIGN_OR_RETURN(FaultList found, VerifyArtefact(files));
    return OutcomeOf(std::move(found), PathsIn(files));
  }

 private:
  absl::StatusOr<Outcome> VerifyModel() {
    NODEWISE_RETURN_IF_ERROR(CheckModelTarget(target_));
    FaultList found;
    const auto network = LoadModel(target_.target, model_, &found);
    if (!network.ok() && !found.HasErrors()) return network.status();
    if (network.ok()) AddFaults(*network, &found);
    return OutcomeOf(std::move(found), {target_.target});
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

  // Adds faults that the import should have refused; there should be none.
  void AddFaults(const Network& network, FaultList* found) const {
    for (NetworkFault& fault : Verify(network.data())) {
      Fault entry;
      entry.severity = fault.is_warning ? Fault::Severity::kWarning
                                        : Fault::Severity::kError;
      entry.file = target_.target;
      entry.path = std::move(fault.where);
      entry.found = std::move(fault.found);
      entry.expected = std::move(fault.expected);
      entry.hint = std::move(fault.hint);
      found->Add(std::move(entry));
    }
  }

  Outcome OutcomeOf(FaultList found,
                    const std::vector<std::string>& files) const {
    Outcome outcome;
    std::vector<Fault> warnings;
    for (Fault& fault : found.faults()) {
      const bool is_error = fault.severity == Fault::Severity::kError;
      outcome.text += is_error ? "error: " : "warning: ";
      outcome.text += Printable(LineOf(fault));  // One line each.
      outcome.text += '\n';
      (is_error ? outcome.errors : warnings).push_back(std::move(fault));
    }
    if (!outcome.errors.empty()) outcome.status = Outcome::Status::kDiffers;
    outcome.text += fmt::format("{}: {}, {}\n", Printable(target_.target),
                                CountOf(outcome.errors.size(), "error"),
                                CountOf(warnings.size(), "warning"));
    outcome.json.AddFaults("warnings", warnings);
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
