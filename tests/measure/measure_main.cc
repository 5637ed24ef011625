// Plants faults, has them looked for, and says how often that was right: see
// docs/measured.md. Every case runs in a child; results are kept in a file, and
// a second start goes on where the first one was stopped.

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/support/status.h"
#include "tests/measure/case_list.h"
#include "tests/measure/children.h"
#include "tests/measure/run_case.h"
#include "tests/measure/summary.h"

namespace nodewise {
namespace {

constexpr const char* kUsage = R"(usage: nodewise_measure_locate [OPTION...]

  --what LIST      faults, clean, fixtures, foreign (all four)
  --network LIST   of the zoo, or light:NAME for NAME_SEED.onnx in --models
  --kind LIST      kinds of faults
  --method LIST    ways to look for them
  --seed N         the first seed (1)
  --cases N        how many faults to plant, and how many clean runs to make
  --faults N       how many faults (1000)
  --clean N        how many clean runs (1000)
  --draws N        how many inputs are drawn for each clean network (8)
  --foreign N      how many runs by onnxruntime (1000)
  --models DIR     where models are, as make_models.py writes them
  --python PROGRAM the Python that has onnxruntime (none: no foreign runs)
  --results FILE   where results are kept, and taken from (none)
  --jobs N         how many cases run at a time (1)
  --time SECONDS   when to stop; the next start goes on there
  --case CASE      run this one alone, in this process, as failures name it
  --report         run nothing; show what is in --results

Exit status: 0 if all is as it must be, 1 if not, 2 for bad use.
)";

struct Arguments {
  Selection selection;
  ChildOptions children;
  std::string results;
  std::string only;
  bool reports_alone = false;
};

absl::Status BadUse(const std::string& option, const std::string& value) {
  return absl::InvalidArgumentError(fmt::format(
      "{}: found \"{}\", expected another (--help)", option, value));
}

absl::Status ReadNumber(const std::string& option, const std::string& value,
                        uint64_t* number) {
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, *number);
  if (read.ec == std::errc() && read.ptr == end) return absl::OkStatus();
  return BadUse(option, value);
}

absl::Status ReadWhat(const std::string& value, std::vector<Case::What>* what) {
  for (const std::string& word : SplitAt(',', value)) {
    if (word == "faults") {
      what->push_back(Case::What::kFault);
    } else if (word == "clean") {
      what->push_back(Case::What::kClean);
    } else if (word == "fixtures") {
      what->push_back(Case::What::kFixture);
    } else if (word == "foreign") {
      what->push_back(Case::What::kForeign);
    } else {
      return BadUse("--what", word);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadOption(const std::string& option, const std::string& value,
                        Arguments* read) {
  Selection& selection = read->selection;
  const std::map<std::string, std::vector<std::string>*> lists = {
      {"--network", &selection.networks},
      {"--kind", &selection.kinds},
      {"--method", &selection.methods}};
  const std::map<std::string, std::string*> texts = {
      {"--models", &selection.models},
      {"--python", &read->children.folders.python},
      {"--results", &read->results},
      {"--case", &read->only}};
  uint64_t number = 0;
  const std::map<std::string, uint64_t*> numbers = {
      {"--seed", &selection.seed},
      {"--faults", &selection.faults},
      {"--clean", &selection.clean_runs},
      {"--foreign", &selection.foreign_runs},
      {"--draws", &selection.draws},
      {"--cases", &number},
      {"--jobs", &number},
      {"--time", &number}};
  if (option == "--what") return ReadWhat(value, &selection.what);
  if (const auto list = lists.find(option); list != lists.end()) {
    *list->second = SplitAt(',', value);
    return absl::OkStatus();
  }
  if (const auto text = texts.find(option); text != texts.end()) {
    *text->second = value;
    return absl::OkStatus();
  }
  const auto found = numbers.find(option);
  if (found == numbers.end()) return BadUse("option", option);
  NODEWISE_RETURN_IF_ERROR(ReadNumber(option, value, found->second));
  if (option == "--jobs") read->children.jobs = std::max<uint64_t>(1, number);
  if (option == "--time") read->children.seconds = static_cast<double>(number);
  if (option == "--cases") {
    selection.faults = selection.clean_runs = selection.foreign_runs = number;
  }
  return absl::OkStatus();
}

absl::StatusOr<Arguments> ReadArguments(int argc, char** argv) {
  Arguments read;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--report") {
      read.reports_alone = true;
      continue;
    }
    if (i + 1 == argc) return BadUse("option", argv[i]);
    NODEWISE_RETURN_IF_ERROR(ReadOption(argv[i], argv[i + 1], &read));
    ++i;
  }
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe");
  read.children.program = self.string();
  read.children.folders.models = read.selection.models;
  read.selection.has_onnxruntime = !read.children.folders.python.empty();
  const auto scratch = self.parent_path().parent_path() / "measure";
  std::filesystem::create_directories(scratch);
  read.children.folders.scratch = scratch.string();
  return read;
}

// Begins a new line, even if a killed run has left a part of one at the end.
std::ofstream OpenToAppend(const std::string& path) {
  std::ofstream file;
  if (path.empty()) return file;
  std::ifstream old(path, std::ios::binary | std::ios::ate);
  char last = '\n';
  if (old && old.tellg() > 0) old.seekg(-1, std::ios::end).get(last);
  file.open(path, std::ios::app);
  if (last != '\n') file << '\n';
  return file;
}

// A line that a killed run has left incomplete is not a result.
std::vector<Result> KnownResults(const std::string& path) {
  std::vector<Result> known;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    auto result = ParseResult(line);
    if (result.ok()) known.push_back(*std::move(result));
  }
  return known;
}

int Report(const Arguments& arguments, const std::vector<Result>& results) {
  std::fputs(Tables(results).c_str(), stdout);
  const std::vector<Result> failures = Failures(results);
  for (const Result& failure : failures) {
    std::printf(
        "%s: node %s: %s\n  %s%s%s --case '%s'\n",
        std::string(NameOf(failure.outcome)).c_str(), failure.node.c_str(),
        failure.text.c_str(), arguments.children.program.c_str(),
        arguments.selection.models.empty() ? "" : " --models ",
        arguments.selection.models.c_str(), failure.id.ToString().c_str());
  }
  std::printf("%zu results, %zu not as they must be\n", results.size(),
              failures.size());
  return failures.empty() ? 0 : 1;
}

absl::StatusOr<int> RunOne(const Arguments& arguments) {
  NODEWISE_ASSIGN_OR_RETURN(const Case wanted, ParseCase(arguments.only));
  const Result result = CaseRunner(arguments.children.folders).Run(wanted);
  std::printf("%s\n", result.ToLine().c_str());
  return Failures({result}).empty() ? 0 : 1;
}

absl::StatusOr<int> Measure(const Arguments& arguments) {
  if (!arguments.only.empty()) return RunOne(arguments);
  std::vector<Result> results = KnownResults(arguments.results);
  if (arguments.reports_alone) return Report(arguments, results);
  NODEWISE_ASSIGN_OR_RETURN(std::vector<Case> cases,
                            ListCases(arguments.selection));
  std::set<Case> wanted(cases.begin(), cases.end()), done;
  std::erase_if(results, [&](const Result& result) {
    return !wanted.contains(result.id) || !done.insert(result.id).second;
  });
  std::erase_if(cases, [&](const Case& one) { return done.contains(one); });
  std::printf("seeds from %lu on; %zu cases, %zu of them known\n",
              arguments.selection.seed, wanted.size(), done.size());
  std::fflush(stdout);
  std::ofstream kept = OpenToAppend(arguments.results);
  NODEWISE_RETURN_IF_ERROR(
      RunInChildren(cases, arguments.children, [&](const Result& result) {
        results.push_back(result);
        kept << result.ToLine() << std::endl;
      }));
  std::sort(results.begin(), results.end(),
            [](const Result& a, const Result& b) { return a.id < b.id; });
  if (results.size() < wanted.size()) {
    std::printf("stopped after %zu cases\n", results.size());
  }
  return Report(arguments, results);
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == kChildFlag) {
    return RunAsChild(argc, argv);
  }
  if (argc > 1 && std::string(argv[1]) == "--help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const auto arguments = ReadArguments(argc, argv);
  const auto status = arguments.ok() ? Measure(*arguments) : arguments.status();
  if (status.ok()) return *status;
  std::fprintf(stderr, "%s\n", std::string(status.status().message()).c_str());
  return 2;
}

}  // namespace
}  // namespace nodewise

int main(int argc, char** argv) { return nodewise::Main(argc, argv); }
