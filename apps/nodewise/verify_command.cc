#include <utility>

#include "absl/strings/str_format.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/error_text.h"
#include "apps/nodewise/target_options.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class VerifyTarget : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddTargetOptions(options, &target_);
  }

  absl::StatusOr<Outcome> Run() override {
    NODEWISE_ASSIGN_OR_RETURN(const ArtefactFiles files, FilesOf(target_));
    NODEWISE_ASSIGN_OR_RETURN(FaultList found, VerifyArtefact(files));
    Outcome outcome;
    std::vector<Fault> warnings;
    for (Fault& fault : found.faults()) {
      const bool is_error = fault.severity == Fault::Severity::kError;
      outcome.text += (is_error ? "error: " : "warning: ") + LineOf(fault);
      outcome.text += '\n';
      (is_error ? outcome.errors : warnings).push_back(std::move(fault));
    }
    if (!outcome.errors.empty()) outcome.status = Outcome::Status::kDiffers;
    outcome.text += absl::StrFormat("%s: %s, %s\n", Printable(target_.target),
                                    CountOf(outcome.errors.size(), "error"),
                                    CountOf(warnings.size(), "warning"));
    outcome.json.AddFaults("warnings", warnings);
    outcome.json.Add("files", FilesIn(files));
    return outcome;
  }

 private:
  static std::vector<std::string> FilesIn(const ArtefactFiles& files) {
    std::vector<std::string> paths;
    for (const std::string* path :
         {&files.graph, &files.library, &files.params}) {
      if (!path->empty()) paths.push_back(*path);
    }
    return paths;
  }

  TargetOptions target_;
};

}  // namespace

const CommandRow kVerifyCommand = {
    "verify", "lists every fault of a compiled network, running none of it",
    "examples:\n"
    "  nodewise verify build/mlp\n"
    "  nodewise verify graph.json --lib lib.so --params params.params\n"
    "\nExit status: 0 no errors (warnings may be), 1 errors, 2 a file cannot "
    "be read.\n",
    [] { return std::unique_ptr<Command>(new VerifyTarget); }};

}  // namespace nodewise
