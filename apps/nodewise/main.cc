#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "apps/nodewise/command.h"
#include "apps/nodewise/output_files.h"
#include "apps/nodewise/supervisor.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/graph/finding.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"
#include "nodewise/support/temporary.h"
#include "nodewise/support/version.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

using Arguments = std::vector<std::string>;

// Messages of the libraries say what can be done, and here that is an option.
constexpr std::pair<Way, std::string_view> kOptionsOfWays[] = {
    {Way::kLibraryFile, "--lib"},
    {Way::kFunction, "--function"},
    {Way::kMachine, "--target"},
    {Way::kUnfused, "--no-fuse"},
    {Way::kDims, "--dim"},
    {Way::kFreeze, "--freeze"},
    {Way::kInputs, "--inputs FILE"},
    {Way::kOpaqueProgram, "--opaque ort"},
    {Way::kSanitizer, "nodewise run --sanitize"},
    {Way::kMoreTime, "--node-timeout"},
    {Way::kRecovery, "nodewise inspect --recover"},
    {Way::kNodeTable, "nodewise profile --csv"},
    {Way::kEveryLine, "--all"},
    {Way::kCounters, "nodewise profile --counter"},
    {Way::kNodeByNode, "locate --method auto"},
    {Way::kModelBeside, "nodewise locate --reference MODEL.onnx"},
    {Way::kSeed, "--seed"},
    {Way::kWholeDocument, "--json"},
    {Way::kKeep, "--keep"},
    {Way::kVerification, "nodewise verify"},
    {Way::kRuntimeOption, "--runtime-option"},
    {Way::kModelOfProgram, "--model FILE"},
    {Way::kReference, "--reference"},
    {Way::kMethod, "--method"},
    {Way::kRepeats, "--repeats"},
    {Way::kExactInputs, "--inputs exact"},
    {Way::kReferee, "--referee"},
    {Way::kStrict, "--strict"},
    {Way::kLearning, "nodewise adapter learn"},
    {Way::kKnownFile, "--known"},
    {Way::kReproFolder, "--repro"},
    {Way::kAnonymous, "--anonymous"},
    {Way::kInputSets, "--sets"},
    {Way::kSpecialInputs, "--special-inputs"},
    {Way::kTrust, "--trust"},
    {Way::kThird, "--third"},
    {Way::kSeries, "--series"},
    {Way::kSamples, "--samples"},
    {Way::kMostSamples, "--worst"},
    {Way::kMostCulprits, "--top"},
};

// A new way needs an option here.
static_assert(std::size(kOptionsOfWays) ==
              static_cast<size_t>(Way::kMostCulprits) + 1);

std::string_view OptionOf(Way way) {
  for (const auto& [known, option] : kOptionsOfWays) {
    if (known == way) return option;
  }
  return "";
}

// What stands behind "--" is not an option.
bool Has(const Arguments& arguments, std::string_view option) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::find(arguments.begin(), end, option) != end;
}

// The verbs come from the table, so that none is forgotten here.
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

struct Invocation {
  const CommandRow& row;
  std::unique_ptr<Command> command = row.make();
  OptionList options;
  bool json = false;
  std::string archive;

  explicit Invocation(const CommandRow& command_row) : row(command_row) {
    command->AddOptions(&options);
    options.Add({
        {"--json", "", "one JSON document on stdout, and nothing else there",
         &json},
        {"--archive", "FILE",
         "writes that document to FILE, with what a picture or a page needs; "
         "nodewise report shows it again",
         &archive},
    });
  }
};

// Makes a command to ask it for its options; it never runs.
std::string HelpOf(const CommandRow& row) {
  const Invocation invocation(row);
  return fmt::format("nodewise {}: {}\n\nusage: nodewise {}{}\n\n{}\n{}{}",
                     row.name, row.summary, row.name,
                     invocation.options.Usage(), invocation.options.Help(),
                     row.more_help == nullptr ? "" : row.more_help() + "\n",
                     row.examples);
}

// There are so few verbs that a table by name would cost more than it saves.
const CommandRow* FindCommand(std::string_view name) {
  for (const CommandRow& row : Commands()) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

Report ErrorReport(Finding error) {
  Report report;
  report.status = Report::Status::kError;
  report.errors.push_back(std::move(error));
  return report;
}

Report BadUse(std::string_view where, const absl::Status& status,
              const std::string& help) {
  Finding error = FindingOf(At(where, status));
  error.hint += error.hint.empty() ? help : "; " + help;
  return ErrorReport(std::move(error));
}

// Help is not in the table of verbs, and may be what was misspelt.
Report UnknownCommand(const std::string& name) {
  std::vector<std::string> names = {"help"};
  for (const CommandRow& row : Commands()) names.push_back(row.name);
  return BadUse(
      "verb " + name,
      InvalidArgument("there is no such verb, expected one of {}{}",
                      fmt::join(names, ", "), DidYouMean(name, names)),
      "nodewise help");
}

// Returns the command that says which node ended the process.
std::string IsolatingCommand(const CommandRow& row,
                             const Arguments& arguments) {
  // Each of these options is another way to run, or writes a file again.
  const std::vector<std::string> except = {
      "--output",   "--repeat", "--until",   "--patch",         "--stop-on",
      "--sanitize", "--sweep",  "--isolate", "--time-limit-ms", "--archive"};
  Arguments shared = Invocation(row).options.SharedWith(
      Invocation(kRunCommand).options, arguments, except);
  shared.insert(shared.begin(), {"nodewise", "run", "--isolate"});
  return ShellLine(shared);
}

Report EarlyEndReport(Finding finding, const CommandRow& row,
                      const Arguments& arguments) {
  finding.hint = fmt::format("each node in a process of its own: {}",
                             IsolatingCommand(row, arguments));
  return ErrorReport(std::move(finding));
}

// Only this process shows the report, and not one that a function has forked.
pid_t main_process = 0;

struct Task {
  std::string verb;
  bool json = false;
  Arguments command = {};
  std::string archive = {};  // The file that it is kept in, or empty.
  std::FILE* out = stdout;
};

Task current_task;

// The archive's path is checked before the verb runs: its work would be lost.
absl::StatusOr<Report> TryCommand(const CommandRow& row,
                                  const Arguments& arguments) {
  Invocation invocation(row);
  const absl::Status parsed = invocation.options.Parse(arguments);
  if (!parsed.ok()) {
    return BadUse(row.name, parsed,
                  fmt::format("nodewise {} --help", row.name));
  }
  if (!invocation.archive.empty()) {
    NODEWISE_RETURN_IF_ERROR(
        At("--archive", CheckFilePath(invocation.archive)));
    current_task.archive = invocation.archive;
    invocation.command->KeepArchive();
  }
  return invocation.command->Run();
}

// Memory may run out anywhere, also in the libraries that we call. It is caught
// here, where all that the command has begun has been taken back.
Report RunCommand(const CommandRow& row, const Arguments& arguments) {
  const WorkingOn on(row.name);
  absl::StatusOr<Report> report;
  try {
    report = TryCommand(row, arguments);
  } catch (...) {
    report = StatusOfHandled(row.name);
  }
  // A report that lacks something for want of memory must not look complete.
  if (report.ok()) {
    const auto shortage = FirstShortage();
    const bool is_said = report->status == Report::Status::kError;
    if (shortage.has_value() && !is_said) report->AddError(*shortage);
    return *std::move(report);
  }
  return ErrorReport(FindingOf(report.status()));
}

// A full disk shows only when the buffer is flushed.
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
  RemoveLeftBehind();
  constexpr std::string_view kText =
      "nodewise: a file became shorter while it was read, or a function of the "
      "network read where there is no memory (SIGBUS)\n";
  if (write(STDERR_FILENO, kText.data(), kText.size()) < 0) _exit(2);
  _exit(2);
}

bool WriteArchive(const Report& report, const Task& task) {
  if (task.archive.empty()) return true;
  const absl::Status status = WriteWholeFile(
      task.archive, DocumentOf(report, {task.verb, task.command}));
  if (status.ok()) return true;
  PrintToStderr(
      fmt::format("nodewise: --archive: {}\n", Printable(MessageOf(status))));
  return false;
}

int Show(Report report, const Task& task) {
  // A function of the network may have forked, and both have come here.
  if (getpid() != main_process) _exit(2);
  if (std::string note = NoteOfLeftThread(); !note.empty()) {
    report.notes.push_back(std::move(note));
  }
  // Findings about the floating-point environment are shown with every verb,
  // wherever they were made.
  report.float_findings = TakeFloatFindings();
  // The archive comes first: a report on stdout says that it is there.
  if (!WriteArchive(report, task)) return 2;
  const std::string text =
      task.json ? DocumentOf(report, {task.verb, task.command})
                : PrintableLines(report.text.ToString({LineWidth(), false}));
  if (!Print(text, task.out)) return 2;
  if (task.json) return static_cast<int>(report.status);
  for (const std::string& note : report.notes) {
    PrintToStderr(fmt::format("nodewise: note: {}\n", Printable(note)));
  }
  // Notes and warnings go to stderr, so that stdout has the answer alone.
  for (const Finding& finding : report.float_findings) {
    PrintToStderr(fmt::format("nodewise: warning: {}\n", LineOf(finding)));
  }
  if (report.status == Report::Status::kError) {
    for (const Finding& error : report.errors) {
      PrintToStderr(fmt::format("nodewise: {}\n", LineOf(error)));
    }
  }
  return static_cast<int>(report.status);
}

// A network's function may call exit(), which must not look like success. Where
// another process waits for this one, that one says so.
bool is_finished = false;
void RefuseEarlyExit() {
  if (is_finished || getpid() != main_process) return;
  // OpenMP's library, for one, calls exit() when it can have no thread.
  const bool is_short = MemoryIsShort();
  if (IsSupervised()) {
    if (is_short) NoteShortMemory();
    return;
  }
  const Finding error = FindingOf(
      is_short
          ? OutOfMemory()
          : Aborted("the process was ended by a function of the network, which "
                    "called exit() (nodewise run --isolate says by which)"));
  RemoveLeftBehind();
  _exit(Show(ErrorReport(error), current_task));
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
  // Without a verb there is no answer, so the help goes to stderr like an
  // error.
  if (arguments.empty()) {
    PrintToStderr(MainHelp());
    return 2;
  }
  // The document says how it was asked for.
  Arguments command = {"nodewise"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  // --json is looked for before the options are parsed, as errors of the
  // parsing are a document, too.
  const bool json = Has(arguments, "--json");
  std::string verb = arguments[0];
  arguments.erase(arguments.begin());
  if (verb == "--version") {
    return Print(fmt::format("nodewise {}\n", Version())) ? 0 : 2;
  }
  // "nodewise help VERB" and "nodewise VERB --help" are the same.
  bool wants_help = Has(arguments, "--help") || Has(arguments, "-h");
  if (verb == "help" || verb == "--help" || verb == "-h") {
    if (arguments.empty() || wants_help || arguments[0] == "help") {
      return Print(MainHelp()) ? 0 : 2;
    }
    verb = arguments[0];
    wants_help = true;
  }
  const CommandRow* const row = FindCommand(verb);
  current_task = {verb, json, command};
  if (row == nullptr) return Show(UnknownCommand(verb), current_task);
  // A build may lack what a verb needs; it says so, since a verb that is
  // unknown would look like a spelling mistake.
  if (row->missing != nullptr) {
    return Show(ErrorReport(FindingOf(row->missing())), current_task);
  }
  if (wants_help) return Print(HelpOf(*row)) ? 0 : 2;
  // What a network's functions print would end up amid the document.
  if (json || Has(arguments, "--csv")) current_task.out = KeepStdoutForUs();
  const auto work = [&] {
    main_process = getpid();
    // A child runs code that may write to any descriptor.
    pthread_atfork(nullptr, nullptr, [] {
      if (current_task.out != stdout) close(fileno(current_task.out));
    });
    return Show(RunCommand(*row, arguments), current_task);
  };
  // Code that is not ours may end its process, which must still be reported.
  if (!row->runs_code) return work();
  return RunSupervised(work, [&](const Finding& end) {
    return Show(EarlyEndReport(end, *row, arguments), current_task);
  });
}

}  // namespace
}  // namespace nodewise

int main(int argc, char** argv) {
  // Results are judged in the default float environment. Compiled code runs in
  // one of its own, which its libraries may change (float_environment.h).
  const nodewise::DefaultFloatEnvironment floats;
  nodewise::SetNamesOfWays(&nodewise::OptionOf);
  nodewise::EndWithStatus("nodewise", 2);
  nodewise::FillClosedDescriptors();
  nodewise::main_process = getpid();
  std::atexit(nodewise::RefuseEarlyExit);
  std::signal(SIGBUS, nodewise::SayBusError);
  nodewise::CleanUpOnSignals();
  const int status = nodewise::Main({argv + std::min(argc, 1), argv + argc});
  nodewise::is_finished = true;
  return status;
}
