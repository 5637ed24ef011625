// Runs the cases of ONNX's package against the reference:
//   nodewise_onnx_backend DATA [--not-run FILE] [--filter TEXT]
//     [--list-missing] [--as-graph [--reference] | --as-c COMPILER]
// DATA is onnx/backend/test/data of the package. Prints each case that fails,
// then how many passed, failed and were skipped, by class, and how many had a
// tolerance of their own. With --as-graph the cases are lowered and run by the
// executor for graphs, by the fastest kernels or the reference's; those whose
// sizes depend on data are listed as OPEN and skipped. With --as-c they are
// lowered, written as C and compiled, and run by that executor; those that
// there is no C for are listed as NO C. Exits with 0 if none failed, 1 if one
// did, 2 if it could not run them.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/support/status.h"
#include "tests/onnx/backend_suite.h"
#include "tests/onnx/emitted_cases.h"
#include "tests/onnx/lowered_case.h"

namespace nodewise {
namespace {

struct Options {
  std::string data;
  std::string not_run;
  std::string filter;
  bool list_missing = false;
  bool as_graph = false;
  bool reference = false;
  std::string compiler;  // The C compiler; empty: none is used.
};

struct Counts {
  size_t passed = 0;
  size_t failed = 0;
  size_t inexact = 0;                     // Ran with a tolerance of their own.
  std::map<std::string, size_t> skipped;  // By class.
};

bool Read(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--list-missing") {
      options->list_missing = true;
    } else if (word == "--as-graph") {
      options->as_graph = true;
    } else if (word == "--reference") {
      options->reference = true;
    } else if (word == "--as-c" && i + 1 < argc) {
      options->compiler = argv[++i];
    } else if ((word == "--not-run" || word == "--filter") && i + 1 < argc) {
      (word == "--filter" ? options->filter : options->not_run) = argv[++i];
    } else if (word[0] != '-' && options->data.empty()) {
      options->data = word;
    } else {
      return false;
    }
  }
  return !options->data.empty();
}

std::string SuiteOf(const std::string& name) {
  return name.substr(0, name.find('/'));
}

void ListMissing(const std::vector<BackendCase>& cases) {
  std::map<std::string, size_t> by_operator;
  size_t held_up = 0;
  for (const BackendCase& one : cases) {
    const auto missing = MissingOperators(one);
    held_up += missing.empty() ? 0 : 1;
    for (const std::string& name : missing) ++by_operator[name];
  }
  std::vector<std::pair<size_t, std::string>> rows;
  for (const auto& [name, count] : by_operator) rows.push_back({count, name});
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::pair(b.first, a.second) < std::pair(a.first, b.second);
  });
  for (const auto& [count, name] : rows) {
    fmt::print("{:5}  {}\n", count, name);
  }
  fmt::print("{} of {} cases want an operator that is missing\n", held_up,
             cases.size());
}

using CaseRunner = std::function<absl::Status(const BackendCase&)>;

absl::Status RunByInterpreter(const BackendCase& one) {
  return RunCase(one, [](const Network& network, std::vector<NDArray> inputs) {
    return Interpret(network, std::move(inputs));
  });
}

CaseRunner RunnerByGraph(Backend backend) {
  return [backend](const BackendCase& one) {
    return RunCase(one,
                   [&](const Network& network, std::vector<NDArray> inputs) {
                     return RunAsGraph(network, std::move(inputs), backend);
                   });
  };
}

// Compiles all cases that are to be run. Returns why others cannot be.
absl::StatusOr<std::map<std::string, absl::Status>> CompileAll(
    const std::vector<BackendCase>& cases, const NotRun& not_run,
    const std::string& compiler, EmittedCases* emitted) {
  std::map<std::string, absl::Status> refused;
  for (const BackendCase& one : cases) {
    if (not_run.cases.contains(one.name)) continue;
    // Nothing has run yet that could be compared.
    absl::Status added;
    RunCase(one,
            [&](const Network& network, std::vector<NDArray> inputs)
                -> absl::StatusOr<std::vector<NDArray>> {
              added = emitted->Add(network, std::move(inputs));
              return absl::CancelledError("only noted");
            })
        .IgnoreError();
    if (!added.ok()) refused[one.name] = added;
  }
  NODEWISE_RETURN_IF_ERROR(emitted->Compile(compiler));
  return refused;
}

// Returns the counts by suite.
std::map<std::string, Counts> RunAll(const std::vector<BackendCase>& cases,
                                     const NotRun& not_run,
                                     const CaseRunner& run, bool may_refuse) {
  std::map<std::string, Counts> counts;
  for (const BackendCase& one : cases) {
    Counts& suite = counts[SuiteOf(one.name)];
    const auto listed = not_run.cases.find(one.name);
    if (listed != not_run.cases.end()) {
      ++suite.skipped[listed->second];
      continue;
    }
    const absl::Status status = run(one);
    if (may_refuse && absl::IsUnimplemented(status)) {
      const bool is_open =
          MessageOf(status).find("no C for") == std::string::npos;
      ++suite.skipped[is_open ? "sizes are open" : "there is no C"];
      fmt::print("{} {}: {}\n", is_open ? "OPEN" : "NO C", one.name,
                 MessageOf(status));
      continue;
    }
    if (one.is_inexact) ++suite.inexact;
    ++(status.ok() ? suite.passed : suite.failed);
    if (!status.ok()) {
      fmt::print("FAILED {}: {}\n", one.name, MessageOf(status));
    }
  }
  return counts;
}

size_t Show(const std::map<std::string, Counts>& counts) {
  std::map<std::string, size_t> by_class;
  size_t passed = 0;
  size_t failed = 0;
  size_t skipped = 0;
  size_t inexact = 0;
  for (const auto& [suite, count] : counts) {
    size_t left_out = 0;
    for (const auto& [reason, n] : count.skipped) {
      by_class[reason] += n;
      left_out += n;
    }
    fmt::print("{:<18} {:5} passed {:5} failed {:5} skipped\n", suite,
               count.passed, count.failed, left_out);
    passed += count.passed;
    failed += count.failed;
    inexact += count.inexact;
    skipped += left_out;
  }
  for (const auto& [reason, n] : by_class) {
    fmt::print("skipped, {:<17} {:5}\n", reason, n);
  }
  fmt::print("{} ran with a tolerance of their own\n", inexact);
  fmt::print("{} passed, {} failed, {} skipped\n", passed, failed, skipped);
  return failed;
}

int Main(const Options& options) {
  auto cases = FindCases(options.data);
  absl::StatusOr<NotRun> not_run = NotRun();
  if (!options.not_run.empty()) not_run = ReadNotRun(options.not_run);
  for (const absl::Status& status : {cases.status(), not_run.status()}) {
    if (status.ok()) continue;
    fmt::print(stderr, "{}\n", MessageOf(status));
    return 2;
  }
  // The lists only apply to ONNX's package, not to other folders of cases.
  std::vector<std::string> diagnostics;
  if (!options.not_run.empty()) {
    diagnostics = DiagnosticsOf(*not_run, *cases);
    for (const std::string& name : UnknownInexact(*cases)) {
      diagnostics.push_back(name +
                            ": has a tolerance of its own, but is not a case");
    }
  }
  for (const std::string& diagnostic : diagnostics) {
    fmt::print("LIST {}\n", diagnostic);
  }
  cases->erase(std::remove_if(cases->begin(), cases->end(),
                              [&](const BackendCase& one) {
                                return one.name.find(options.filter) ==
                                       std::string::npos;
                              }),
               cases->end());
  if (options.list_missing) {
    ListMissing(*cases);
    return 0;
  }
  EmittedCases emitted;
  std::map<std::string, absl::Status> refused;
  CaseRunner run = &RunByInterpreter;
  if (options.as_graph) {
    run = RunnerByGraph(options.reference ? Backend::kReference
                                          : Backend::kFastest);
  }
  if (!options.compiler.empty()) {
    auto found = CompileAll(*cases, *not_run, options.compiler, &emitted);
    if (!found.ok()) {
      fmt::print(stderr, "{}\n", MessageOf(found.status()));
      return 2;
    }
    refused = *std::move(found);
    run = [&](const BackendCase& one) {
      const auto why = refused.find(one.name);
      if (why != refused.end()) return why->second;
      return RunCase(one,
                     [&](const Network& network, std::vector<NDArray> inputs) {
                       return emitted.Run(network, std::move(inputs));
                     });
    };
  }
  const size_t failed = Show(RunAll(
      *cases, *not_run, run, options.as_graph || !options.compiler.empty()));
  return failed + diagnostics.size() > 0 ? 1 : 0;
}

}  // namespace
}  // namespace nodewise

int main(int argc, char** argv) {
  nodewise::Options options;
  if (!nodewise::Read(argc, argv, &options)) {
    fmt::print(stderr,
               "usage: {} DATA [--not-run FILE] [--filter TEXT] "
               "[--list-missing] [--as-graph [--reference] | --as-c "
               "COMPILER]\n",
               argv[0]);
    return 2;
  }
  return nodewise::Main(options);
}
