#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "apps/nodewise/command.h"
#include "apps/nodewise/error_text.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Indexed by Outcome::Status.
constexpr const char* kStatusNames[] = {"ok", "differs", "error"};

using Arguments = std::vector<std::string>;

// Looks only before any "--".
bool Has(const Arguments& arguments, std::string_view option) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::find(arguments.begin(), end, option) != end;
}

std::string MainHelp() {
  std::string help =
      "nodewise runs compiled neural networks and says what is wrong with "
      "them.\n\nusage: nodewise VERB [options]\n\n";
  for (const CommandRow& row : Commands()) {
    help += fmt::format("  {:<10}{}\n", row.name, row.summary);
  }
  return help +
         "  help      this text, or that of a verb: nodewise help VERB\n\n"
         "  --version the version\n\n"
         "Every verb takes --help and --json. Exit status: 0 fine, 1 something "
         "differs or\nis faulty, 2 could not judge.\n";
}

// A verb's options and where they go.
struct Invocation {
  const CommandRow& row;
  std::unique_ptr<Command> command = row.make();
  OptionList options;
  bool json = false;

  explicit Invocation(const CommandRow& command_row) : row(command_row) {
    command->AddOptions(&options);
    options.AddFlag(
        "--json", "one JSON document on stdout, and nothing else there", &json);
  }
};

std::string HelpOf(const CommandRow& row) {
  const Invocation invocation(row);
  return fmt::format("nodewise {}: {}\n\nusage: nodewise {}{}\n\n{}\n{}",
                     row.name, row.summary, row.name,
                     invocation.options.Usage(), invocation.options.Help(),
                     row.examples);
}

const CommandRow* FindCommand(std::string_view name) {
  for (const CommandRow& row : Commands()) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

// Reports bad use: the error and where to read more.
Outcome BadUse(std::string_view where, const absl::Status& status,
               const std::string& help) {
  Finding error = FindingOf(At(where, status));
  error.hint += error.hint.empty() ? help : "; " + help;
  Outcome outcome;
  outcome.status = Outcome::Status::kError;
  outcome.errors.push_back(std::move(error));
  return outcome;
}

Outcome UnknownCommand(const std::string& name) {
  std::vector<std::string> names = {"help"};
  std::string listed = "help";
  for (const CommandRow& row : Commands()) {
    names.push_back(row.name);
    listed += fmt::format(", {}", row.name);
  }
  return BadUse("verb " + name,
                absl::InvalidArgumentError(
                    fmt::format("there is no such verb, expected one of "
                                "{}{}",
                                listed, DidYouMean(name, names))),
                "nodewise help");
}

Outcome MissingCommand(const CommandRow& row) {
  Outcome outcome;
  outcome.AddError(row.missing());
  return outcome;
}

Outcome RunCommand(const CommandRow& row, const Arguments& arguments) {
  Invocation invocation(row);
  const absl::Status parsed = invocation.options.Parse(arguments);
  if (!parsed.ok()) {
    return BadUse(row.name, parsed,
                  fmt::format("nodewise {} --help", row.name));
  }
  absl::StatusOr<Outcome> outcome = invocation.command->Run();
  if (outcome.ok()) return *std::move(outcome);
  Outcome failed;
  failed.AddError(outcome.status());
  return failed;
}

std::string DocumentOf(const Outcome& outcome, const std::string& verb) {
  JsonWriter document;
  document.Add("schema", "nodewise/1");
  document.Add("verb", verb);
  document.Add("status", kStatusNames[static_cast<int>(outcome.status)]);
  AddFindings("errors", outcome.errors, &document);
  document.Add("notes", outcome.notes);
  document.Append(outcome.json);
  return document.Document();
}

// Returns false, and says so, if writing to stdout fails.
bool Print(const std::string& text, std::FILE* out = stdout) {
  const bool printed =
      std::fwrite(text.data(), 1, text.size(), out) == text.size() &&
      std::fflush(out) == 0;
  if (!printed) std::perror("nodewise: stdout");
  return printed;
}

// Writes what it can: fmt::print would throw where stderr takes nothing, and
// the exit status says the main thing all the same.
void PrintToStderr(const std::string& text) {
  std::fputs(text.c_str(), stderr);
}

// Sends what a network's functions print to stderr from now on. Returns the
// original stdout; stdout itself, if it cannot be moved.
std::FILE* KeepStdoutForUs() {
  const int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (kept < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return stdout;
  std::FILE* const out = fdopen(kept, "w");
  return out != nullptr ? out : stdout;
}

// Mapped files cause this if they become shorter.
void SayBusError(int) {
  constexpr std::string_view kText =
      "nodewise: a file became shorter while it was read, or a function of the "
      "network read where there is no memory (SIGBUS)\n";
  if (write(STDERR_FILENO, kText.data(), kText.size()) < 0) _exit(2);
  _exit(2);
}

// The verb that is running, and where its report goes.
struct Task {
  std::string verb;
  bool json = false;
  std::FILE* out = stdout;
};

int Show(const Outcome& outcome, const Task& task) {
  const std::string& text =
      task.json ? DocumentOf(outcome, task.verb) : outcome.text;
  if (!Print(text, task.out)) return 2;
  if (task.json) return static_cast<int>(outcome.status);
  for (const std::string& note : outcome.notes) {
    PrintToStderr(fmt::format("nodewise: note: {}\n", Printable(note)));
  }
  if (outcome.status == Outcome::Status::kError) {
    for (const Finding& error : outcome.errors) {
      PrintToStderr(fmt::format("nodewise: {}\n", LineOf(error)));
    }
  }
  return static_cast<int>(outcome.status);
}

// A network's function may call exit(), which must not look like success.
Task current_task;
bool is_finished = false;
pid_t main_process = 0;
void RefuseEarlyExit() {
  if (is_finished || getpid() != main_process) return;
  Outcome outcome;
  outcome.AddError(absl::AbortedError(
      "the process was ended by a function of the network, which called exit() "
      "(nodewise run --isolate says by which)"));
  _exit(Show(outcome, current_task));
}

// Files opened later must not become stdin, stdout or stderr, to which a
// network's functions write. Writing to a closed stdout remains an error.
void FillClosedDescriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) >= 0) continue;
    (void)open("/dev/null", number == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int Main(Arguments arguments) {
  if (arguments.empty()) {
    PrintToStderr(MainHelp());
    return 2;
  }
  const bool json = Has(arguments, "--json");
  std::string verb = arguments[0];
  arguments.erase(arguments.begin());
  if (verb == "--version") {
    return Print("nodewise " NODEWISE_VERSION "\n") ? 0 : 2;
  }
  bool wants_help = Has(arguments, "--help") || Has(arguments, "-h");
  if (verb == "help" || verb == "--help" || verb == "-h") {
    if (arguments.empty() || wants_help || arguments[0] == "help") {
      return Print(MainHelp()) ? 0 : 2;
    }
    verb = arguments[0];
    wants_help = true;
  }
  const CommandRow* const row = FindCommand(verb);
  current_task = {verb, json};
  if (row == nullptr) return Show(UnknownCommand(verb), current_task);
  if (row->missing != nullptr) {
    return Show(MissingCommand(*row), current_task);
  }
  if (wants_help) return Print(HelpOf(*row)) ? 0 : 2;
  if (json || Has(arguments, "--csv")) current_task.out = KeepStdoutForUs();
  return Show(RunCommand(*row, arguments), current_task);
}

}  // namespace
}  // namespace nodewise

int main(int argc, char** argv) {
  nodewise::FillClosedDescriptors();
  nodewise::main_process = getpid();
  std::atexit(nodewise::RefuseEarlyExit);
  std::signal(SIGBUS, nodewise::SayBusError);
  const int status = nodewise::Main({argv + std::min(argc, 1), argv + argc});
  nodewise::is_finished = true;
  return status;
}
