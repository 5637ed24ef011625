#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// The rule of ONNX's own runner: |actual - expected| <= atol + rtol |expected|,
// NaN is NaN, and shapes and types are equal.
struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

// One of the cases that ONNX's package brings for those who run its models: a
// model, and sets of inputs with the outputs that they must give.
struct BackendCase {
  std::string name;   // "node/test_relu"
  std::string model;  // The path of its .onnx.
  // Folders with input_0.pb, ..., output_0.pb, ...; none: the inputs are made
  // up and the outputs lie beside the model.
  std::vector<std::string> data_sets;
  Tolerance tolerance;
  // One for each output, if the case has a file tolerance.json beside its
  // model: a list of {"rtol", "atol"}.
  std::vector<Tolerance> by_output;
  // It has a tolerance of its own in kOwnTolerances (backend_suite.cc), since
  // the outputs that are recorded are less exact than the rule allows.
  bool is_inexact = false;
};

// All cases below the package's folder of data, in the order of their names.
absl::StatusOr<std::vector<BackendCase>> FindCases(const std::string& folder);

// Returns the names in kOwnTolerances that are not cases.
std::vector<std::string> UnknownInexact(const std::vector<BackendCase>& cases);

// A way to run a network once.
using NetworkRunner = absl::FunctionRef<absl::StatusOr<std::vector<NDArray>>(
    const Network& network, std::vector<NDArray> inputs)>;

// Runs the model on each set and returns the first fault, whether a failed
// import, one of the runner's, or an output that differs.
absl::Status RunCase(const BackendCase& one, NetworkRunner run);

// Returns the operators that keep the model from being imported, each once.
std::vector<std::string> MissingOperators(const BackendCase& one);

absl::Status CompareTensors(const NDArray& actual, const NDArray& expected,
                            const Tolerance& tolerance);

// The file that says which cases are not run: a line `CLASS COUNT` for each
// class, a blank line, and a line `CASE CLASS` for each case.
struct NotRun {
  std::map<std::string, std::string> cases;  // The class, by name.
  std::map<std::string, size_t> counts;      // By class.
};
absl::StatusOr<NotRun> ReadNotRun(const std::string& path);
// Returns the faults of the list, given all cases: cases that do not exist, and
// classes with a number of cases other than stated.
std::vector<std::string> DiagnosticsOf(const NotRun& not_run,
                                       const std::vector<BackendCase>& cases);

}  // namespace nodewise
