#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/report/report.h"

namespace nodewise {

// Where the value of an option that takes a whole number goes.
struct NumberOption {
  std::optional<uint64_t>* value;
  uint64_t least = 0;
  uint64_t most = UINT64_MAX;
};

// An option or argument of a verb. `value` decides what it takes: a bool makes
// a flag, a vector an option that may be given again.
struct CommandOption {
  std::string name;         // "--lib", "-o,--output"; "TARGET" without a dash.
  std::string placeholder;  // Stands for the value in help; empty: none.
  std::string help;
  std::variant<bool*, std::string*, std::vector<std::string>*, NumberOption>
      value;
  bool takes_rest = false;  // All values up to the next option are its own.

  // Arguments without a name are needed; a vector of them takes one or more
  // and comes last.
  bool is_positional() const { return name[0] != '-'; }
  bool is_flag() const { return std::holds_alternative<bool*>(value); }
  bool takes_many() const {
    return std::holds_alternative<std::vector<std::string>*>(value);
  }
  bool IsCalled(const std::string& one) const;
};

// The options and arguments that a command accepts; the only code that reads
// command lines. The values must outlive the list.
class OptionList {
 public:
  void Add(std::initializer_list<CommandOption> options) {
    options_.insert(options_.end(), options);
  }

  // Fills in the values. Fails with kInvalidArgument, with what was found and
  // the nearest option, for anything that is not accepted.
  absl::Status Parse(const std::vector<std::string>& arguments) const;

  // Returns those of a command line's arguments that `other` takes, too, but
  // for the options called in `except`: positionals, and options with their
  // values. REQUIRES: this list parses the arguments.
  std::vector<std::string> SharedWith(
      const OptionList& other, const std::vector<std::string>& arguments,
      const std::vector<std::string>& except) const;

  // " TARGET [options]", and the lines that describe each option.
  std::string Usage() const;
  std::string Help() const;

 private:
  // Returns the option of that name, or null.
  const CommandOption* Find(const std::string& name) const;
  absl::Status CheckFlags(const std::vector<std::string>& arguments) const;
  // Assigns what is not an option to the positionals.
  absl::Status SortRest(const std::vector<std::string>& rest,
                        std::vector<std::vector<std::string>>* given) const;

  std::vector<CommandOption> options_;
};

// Options that several verbs have.
CommandOption AllLinesOption(bool* all);
CommandOption ThreadsOption(std::optional<uint64_t>* threads);

// Has parallel loops of compiled code run on so many threads, if that is said.
void UseThreads(const std::optional<uint64_t>& threads);

// Whether options were given, with their names.
using GivenOptions = std::vector<std::pair<bool, const char*>>;

// Fails with kInvalidArgument if one of them was given: the message is the name
// of the first such option between `before` and `after`.
absl::Status RefuseGiven(const GivenOptions& options, std::string_view before,
                         std::string_view after);

// Returns kInvalidArgument: "--sort: found \"x\", expected time or graph".
absl::Status BadValue(std::string_view option, std::string_view found,
                      std::string_view expected);

// Reads a number that takes up all of `text`; returns whether there is one.
template <typename T>
bool ReadNumber(std::string_view text, T* number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end;
}

// Reads "I/N", the I-th of N parts, from 1 on; returns whether it is that.
bool ReadShard(std::string_view text, uint64_t* part, uint64_t* parts);

// A verb of `nodewise`: declares its options, has them filled in, and runs
// once.
class Command {
 public:
  virtual ~Command() = default;

  virtual void AddOptions(OptionList* options) = 0;
  // A status that is not OK stands for a report with that one error and no
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

template <typename T>
std::unique_ptr<Command> MakeCommand() {
  return std::make_unique<T>();
}

// A row of the table of commands.
struct CommandRow {
  const char* name;
  const char* summary;   // One line, for the list of commands.
  const char* examples;  // Shell lines, and what else to know.
  std::unique_ptr<Command> (*make)() = nullptr;
  // Whether it may call code that is not ours, which may end its process.
  bool runs_code = false;
  // Returns what help says besides; may be null.
  std::string (*more_help)() = nullptr;
  // Says why this build has the verb by name only; then `make` is null.
  absl::Status (*missing)() = nullptr;
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
