#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/graph/finding.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/json_writer.h"

namespace nodewise {

// The outcome of a command, in all the forms in which it may be shown.
struct Outcome {
  // The numbers are the exit statuses.
  enum class Status {
    kOk = 0,       // Fine, or a match.
    kDiffers = 1,  // A mismatch, or faults in what was judged.
    kError = 2,    // Could not judge.
  };

  Status status = Status::kOk;
  std::string text;  // For people, on stdout.
  JsonWriter json;   // What the document holds after its envelope.
  // With kError they go to stderr; otherwise `text` contains them.
  std::vector<Finding> errors;
  std::vector<std::string> notes;  // Worth knowing, but no faults.
  // What compiled code has done to the floating-point environment; set where
  // the outcome is shown. No reason for another status by itself.
  std::vector<Finding> float_findings;

  // For failures when there is already something to show.
  void AddError(const absl::Status& error) {
    status = Status::kError;
    errors.push_back(FindingOf(error));
  }
  void AddErrors(const DiagnosticList& found) {
    status = Status::kError;
    for (const Diagnostic& diagnostic : found.items()) {
      errors.push_back(FindingOf(diagnostic, finding_kinds::kCannotJudge));
    }
  }
};

// A verb of `nodewise`: declares its options, has them filled in, and runs
// once.
class Command {
 public:
  virtual ~Command() = default;

  virtual void AddOptions(OptionList* options) = 0;
  // A status that is not OK stands for an outcome with that one error and no
  // text.
  virtual absl::StatusOr<Outcome> Run() = 0;
};

// A row of the table of commands.
struct CommandRow {
  const char* name;
  const char* summary;   // One line, for the list of commands.
  const char* examples;  // Shell lines, and what else to know.
  std::unique_ptr<Command> (*make)();
  // Says why this build has the verb by name only; then `make` is null.
  absl::Status (*missing)() = nullptr;
  // Whether it may call code that is not ours, which may end its process.
  bool runs_code = false;
};

// Returns all commands, in the order in which help lists them.
absl::Span<const CommandRow> Commands();

// The rows, each defined beside its command.
extern const CommandRow kDemoCommand;
extern const CommandRow kRunCommand;
extern const CommandRow kProfileCommand;
extern const CommandRow kDumpCommand;
extern const CommandRow kCompareCommand;
extern const CommandRow kLocateCommand;
extern const CommandRow kAlignCommand;
extern const CommandRow kAutotestCommand;
extern const CommandRow kReproCommand;
extern const CommandRow kInspectCommand;
extern const CommandRow kVerifyCommand;
extern const CommandRow kExtractCommand;
extern const CommandRow kConvertCommand;

}  // namespace nodewise
