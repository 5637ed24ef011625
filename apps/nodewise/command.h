#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/report/report.h"

namespace nodewise {

// A verb of `nodewise`: declares its options, has them filled in, and runs
// once.
class Command {
 public:
  virtual ~Command() = default;

  virtual void AddOptions(OptionList* options) = 0;
  // A status that is not OK stands for an report with that one error and no
  // text.
  virtual absl::StatusOr<Report> Run() = 0;

  // Has Run() add to the document what only an archive holds
  // (docs/formats/archive.md).
  void KeepArchive() { keeps_archive_ = true; }

 protected:
  bool keeps_archive() const { return keeps_archive_; }

 private:
  bool keeps_archive_ = false;
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
  // Returns what help says besides; may be null.
  std::string (*more_help)() = nullptr;
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
extern const CommandRow kAdapterCommand;
extern const CommandRow kReproCommand;
extern const CommandRow kReportCommand;
extern const CommandRow kInspectCommand;
extern const CommandRow kVerifyCommand;
extern const CommandRow kExtractCommand;
extern const CommandRow kConvertCommand;

}  // namespace nodewise
