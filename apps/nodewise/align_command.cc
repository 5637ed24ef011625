#include <optional>
#include <string>

#include "apps/nodewise/command.h"
#include "apps/nodewise/diagnose_options.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/diagnose/model_beside.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/report/answer_report.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Runs both sides on the same inputs and pairs their tensors by values; nothing
// is judged, so that the exit status only says whether it could be done.
class AlignWithModel : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddTargetOptions(options, &load_.target);
    // MODEL is declared behind TARGET, so that it comes second on the line.
    options->Add({
        {"MODEL", "",
         "the ONNX model that it was compiled from, or another build of that",
         &model_},
        DeviceOption(&load_.target),
    });
    AddInputOptions(options, &load_.inputs);
    options->Add({SetsOption(&sets_)});
    AddModelOptions(options, &load_.model);
    AddOpaqueOption(options, &load_.model);
    options->Add({AllLinesOption(&all_)});
  }

  absl::StatusOr<Report> Run() override {
    Report report;
    // Options about models are meant for MODEL, and not for the artefact.
    LoadOptions load = load_;
    load.model = ModelOptions();
    NODEWISE_ASSIGN_OR_RETURN(const Session session, LoadTarget(load, &report));
    if (report.status != Report::Status::kOk) return report;
    NODEWISE_ASSIGN_OR_RETURN(const Reference reference,
                              ReferenceNamed(model_, load_, ForeignOptions()));
    // The reference makes and drops a tensor for each operation.
    KeepFreedMemory();
    // All faults of the reference are shown, not the first alone.
    DiagnosticList faults;
    const auto aligned =
        AlignWith(session, reference, sets_.value_or(kInputSets), &faults);
    if (faults.HasErrors()) {
      report.AddErrors(faults);
      return report;
    }
    NODEWISE_RETURN_IF_ERROR(aligned.status());
    return ReportOf(*aligned, all_);
  }

 private:
  LoadOptions load_;
  std::string model_;
  std::optional<uint64_t> sets_;
  bool all_ = false;
};

}  // namespace

const CommandRow kAlignCommand = {
    "align", "shows which tensor of its model each node of an artefact makes",
    R"(examples:
  nodewise align build/net model.onnx --random-inputs 1
  nodewise align net.so model.onnx --inputs all.npz --json
  nodewise align new.so old.so --random-inputs 1

Both are run and their tensors are paired by their values, so that names and
fusion do not matter. Layouts that compilers use are undone.

Exit status: 0 if it could be done, 2 if not.
)",
    &MakeCommand<AlignWithModel>,
    /*runs_code=*/true};

}  // namespace nodewise
