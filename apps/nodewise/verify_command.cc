
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/device/device.h"
#include "nodewise/report/verification_report.h"
#include "nodewise/session/model_file.h"
#include "nodewise/session/session.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A misspelt device is answered with all devices that TVM has a number for.
std::string DeviceNames() {
  // DLPack's numbers are small; they have gaps, which have no name.
  constexpr int kLastType = 64;
  std::string names;
  for (int type = 1; type <= kLastType; ++type) {
    const std::string name = DeviceTypeName(type);
    if (!ParseDeviceType(name).ok()) continue;
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

// Reads all of a network and runs nothing of it. A model and an artefact have
// different faults, and different things that they are to run on.
class VerifyTarget : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddTargetOptions(options, &target_);
    options->Add({
        {"--target", "NAME",
         "what it is to run on: a device of an artefact (those of this build); "
         "onednn, c or reference for a network; may be given again",
         &targets_},
        {"--strict", "",
         "for ONNX models: nodes that stand before what they read are an "
         "error, as the specification has it, not a warning",
         &is_strict_},
    });
    AddModelOptions(options, &model_);
  }

  absl::StatusOr<Report> Run() override {
    const bool is_model = IsModel(target_.target);
    // A text of a network is one already, and has no dimensions to fill in.
    if (!is_model) {
      GivenOptions given = GivenOptionsOf(model_);
      given.emplace_back(is_strict_, "--strict");
      NODEWISE_RETURN_IF_ERROR(CheckNoModelOptions(given, target_.target));
    }
    if (is_model || IsNetworkText(target_.target)) {
      NODEWISE_RETURN_IF_ERROR(CheckModelTarget(target_));
      NODEWISE_ASSIGN_OR_RETURN(ModelSpec spec, SpecOf(model_));
      spec.refuse_unsorted = is_strict_;
      NODEWISE_ASSIGN_OR_RETURN(Report report,
                                VerifyNetwork(target_.target, spec, targets_));
      // An artefact has several files, so that the document has a list for a
      // model, too.
      report.json.Add("files", std::vector<std::string>{target_.target});
      return report;
    }
    return VerifyFiles();
  }

 private:
  // An artefact may lack any of its files; the report says which were looked
  // at.
  absl::StatusOr<Report> VerifyFiles() const {
    VerifyOptions options;
    // A graph may call functions that are built in instead of a library's.
    options.built_ins = BuiltIns();
    for (const std::string& name : targets_) {
      auto type = ParseDeviceType(name);
      if (!type.ok()) {
        return InvalidArgument(
            "--target: found \"{}\", expected one of: {} (an artefact's "
            "targets are devices)",
            name, DeviceNames());
      }
      options.device_types.push_back(*type);
    }
    NODEWISE_ASSIGN_OR_RETURN(const TargetSpec target, SpecOf(target_));
    NODEWISE_ASSIGN_OR_RETURN(const ArtefactFiles files, FilesOf(target));
    NODEWISE_RETURN_IF_ERROR(CheckFunctionApplies(files));
    NODEWISE_ASSIGN_OR_RETURN(const DiagnosticList found,
                              VerifyArtefact(files, options));
    // Warnings are shown, but the exit status only counts errors.
    Report report;
    std::vector<Finding> warnings;
    AddFindingLines(FindingsOf(found.items(), finding_kinds::kFaultyFile), "",
                    &warnings, &report);
    FinishVerdict(target_.target, warnings, &report);
    report.json.Add("files", PathsIn(files));
    return report;
  }

  static absl::Status CheckFunctionApplies(const ArtefactFiles& files) {
    // Only a library of bytecode may have several functions to choose from.
    const bool may_choose =
        files.graph.empty() && MayBeVmLibrary(files.library);
    if (files.function.empty() || may_choose) return absl::OkStatus();
    return InvalidArgument(
        "{}: is not a VM library, so it has no function {} to choose (leave "
        "out --function)",
        files.target, files.function);
  }

  TargetOptions target_;
  std::vector<std::string> targets_;
  ModelOptions model_;
  bool is_strict_ = false;
};

}  // namespace

const CommandRow kVerifyCommand = {
    "verify", "lists every fault of a network, running none of it",
    R"(examples:
  nodewise verify build/mlp
  nodewise verify graph.json --lib lib.so --params params.params
  nodewise verify model.onnx --target onednn
  nodewise verify build/opencl-net --target opencl

Exit status: 0 no errors (warnings may be), 1 errors, 2 a file cannot be read.
)",
    &MakeCommand<VerifyTarget>};

}  // namespace nodewise
