#include "tests/onnx/backend_suite.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "nodewise/ndarray/short_float.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/op/op_def.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// Cases whose recorded outputs are off by more than the rule allows, with what
// is allowed instead.
struct OwnTolerance {
  const char* name;
  double absolute;
  const char* reason;
};
constexpr OwnTolerance kOwnTolerances[] = {
    // The input is real, and at frequency 5 of 10 the factors are 1 and -1: the
    // imaginary parts are exactly 0.
    {"node/test_dft_inverse", 2e-7,
     "ten elements that are 0 are recorded as 1.907e-7, of an FFT in float32"},
    {"node/test_dft_inverse_opset19", 2e-7, "as node/test_dft_inverse"},
};

std::vector<fs::path> SortedEntries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool BeginsWith(const std::string& text, const char* prefix) {
  return text.rfind(prefix, 0) == 0;
}

// The tensors PREFIX0.pb, PREFIX1.pb, ... as far as there are any.
absl::StatusOr<std::vector<NDArray>> ReadTensors(const std::string& prefix) {
  std::vector<NDArray> tensors;
  while (true) {
    const std::string path = fmt::format("{}{}.pb", prefix, tensors.size());
    if (!fs::exists(path)) return tensors;
    NODEWISE_ASSIGN_OR_RETURN(const auto read, ReadTensorFile(path));
    tensors.push_back(read[0].tensor);
  }
}

// i / n for element i of n, as ONNX's runner feeds its light models; sides that
// are not known are 1.
absl::StatusOr<NDArray> DummyTensor(const TensorType& type) {
  std::vector<int64_t> shape;
  for (const Dim& dim : *type.shape) {
    shape.push_back(dim.is_known() ? dim.size() : 1);
  }
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                            NDArray::Empty(shape, kFloat32, kCpu));
  const size_t count = tensor.bytes() / sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    tensor.As<float>()[i] =
        static_cast<float>(static_cast<double>(i) / static_cast<double>(count));
  }
  return tensor;
}

bool DrawsNumbers(const Network& network) {
  const auto order = network.order();
  return std::any_of(order.begin(), order.end(), [&](OperationId id) {
    const Operation& operation = network.operation(id);
    return DrawsRandomNumbers(operation.def(), operation.inputs.size());
  });
}

// Mean, and the variance of the mean.
struct MeanOf {
  explicit MeanOf(const NDArray& tensor) {
    const std::vector<double> values = ToDoubles(tensor);
    const auto count = static_cast<double>(values.size());
    for (const double x : values) mean += x / count;
    for (const double x : values) {
      variance += (x - mean) * (x - mean) / count / count;
    }
  }
  double mean = 0;
  double variance = 0;
};

// Numbers that are drawn at random are alike if their means are.
absl::Status CompareDrawn(const NDArray& actual, const NDArray& expected) {
  constexpr double kDeviations = 6;
  if (actual.shape() != expected.shape() ||
      !(actual.dtype() == expected.dtype())) {
    return CompareTensors(actual, expected, {});
  }
  const MeanOf a(actual);
  const MeanOf b(expected);
  const double off = std::fabs(a.mean - b.mean);
  if (off <= kDeviations * std::sqrt(a.variance + b.variance)) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      fmt::format("is drawn around {:.6g}, expected "
                  "{:.6g}",
                  a.mean, b.mean));
}

absl::Status RunSet(const Network& network, std::vector<NDArray> inputs,
                    const std::vector<NDArray>& expected,
                    const BackendCase& one, NetworkRunner run) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> outputs,
                            run(network, std::move(inputs)));
  if (outputs.size() != expected.size()) {
    return absl::InternalError(fmt::format("has {} outputs, expected {}",
                                           outputs.size(), expected.size()));
  }
  if (!one.by_output.empty() && one.by_output.size() != expected.size()) {
    return absl::DataLossError(
        fmt::format("tolerance.json: has {} outputs, expected {}",
                    one.by_output.size(), expected.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tolerance& tolerance =
        one.by_output.empty() ? one.tolerance : one.by_output[i];
    const absl::Status status =
        DrawsNumbers(network)
            ? CompareDrawn(outputs[i], expected[i])
            : CompareTensors(outputs[i], expected[i], tolerance);
    if (!status.ok()) return At(fmt::format("output {}", i), status);
  }
  return absl::OkStatus();
}

absl::Status RunLight(const Network& network, const BackendCase& one,
                      NetworkRunner run) {
  std::vector<NDArray> inputs;
  for (const ValueId id : network.inputs()) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray input,
                              DummyTensor(network.value(id).type));
    inputs.push_back(std::move(input));
  }
  const std::string stem = fs::path(one.model).replace_extension("");
  NODEWISE_ASSIGN_OR_RETURN(const auto expected,
                            ReadTensors(stem + "_output_"));
  return RunSet(network, std::move(inputs), expected, one, run);
}

// Some of the light models have tolerances of their own: those of the large
// ones, whose data lies in another folder.
absl::StatusOr<Tolerance> ToleranceOf(const fs::path& data, std::string model) {
  Tolerance tolerance;
  model.erase(0, std::string("light_").size());
  const fs::path path = data / "real" / ("test_" + model) / "data.json";
  std::ifstream file(path);
  if (!file) return tolerance;
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) {
    return absl::DataLossError(path.string() + ": is not a JSON object");
  }
  tolerance.relative = json.value("rtol", tolerance.relative);
  tolerance.absolute = json.value("atol", tolerance.absolute);
  return tolerance;
}

absl::StatusOr<std::vector<Tolerance>> TolerancesBeside(const fs::path& model) {
  std::vector<Tolerance> tolerances;
  const fs::path path = model.parent_path() / "tolerance.json";
  std::ifstream file(path);
  if (!file) return tolerances;
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_array()) {
    return absl::DataLossError(path.string() + ": is not a JSON list");
  }
  for (const auto& output : json) {
    tolerances.push_back(
        {output.value("rtol", 0.0), output.value("atol", 0.0)});
  }
  return tolerances;
}

void SetOwnTolerance(BackendCase* one) {
  for (const OwnTolerance& own : kOwnTolerances) {
    if (one->name != own.name) continue;
    one->tolerance.absolute = own.absolute;
    one->is_inexact = true;
  }
}

template <typename T>
long double Number(const void* data, int64_t i) {
  return static_cast<long double>(static_cast<const T*>(data)[i]);
}

long double ElementOf(const NDArray& tensor, int64_t i) {
  const DLDataType dtype = tensor.dtype();
  const void* const data = tensor.data();
  const auto bits = [&] { return static_cast<const uint16_t*>(data)[i]; };
  if (dtype.code == kDLBfloat) return BfloatToFloat(bits());
  if (IsConverted(dtype)) {
    double value = 0;
    DecodeToDoubles(dtype, static_cast<const uint8_t*>(data) + i, 1, &value);
    return value;
  }
  if (dtype.code == kDLFloat) {
    if (dtype.bits == 16) return HalfToFloat(bits());
    return dtype.bits == 32 ? Number<float>(data, i) : Number<double>(data, i);
  }
  const bool is_signed = dtype.code == kDLInt;
  switch (ElementBytes(dtype)) {
    case 1:
      return is_signed ? Number<int8_t>(data, i) : Number<uint8_t>(data, i);
    case 2:
      return is_signed ? Number<int16_t>(data, i) : Number<uint16_t>(data, i);
    case 4:
      return is_signed ? Number<int32_t>(data, i) : Number<uint32_t>(data, i);
    default:
      return is_signed ? Number<int64_t>(data, i) : Number<uint64_t>(data, i);
  }
}

bool IsClose(long double actual, long double expected,
             const Tolerance& tolerance) {
  if (std::isnan(actual) || std::isnan(expected)) {
    return std::isnan(actual) && std::isnan(expected);
  }
  if (actual == expected) return true;
  if (std::isinf(actual) || std::isinf(expected)) return false;
  return std::fabs(actual - expected) <=
         tolerance.absolute + tolerance.relative * std::fabs(expected);
}

}  // namespace

absl::StatusOr<std::vector<BackendCase>> FindCases(const std::string& folder) {
  std::vector<BackendCase> cases;
  for (const char* suite :
       {"light", "node", "pytorch-converted", "pytorch-operator", "simple"}) {
    for (const fs::path& path : SortedEntries(fs::path(folder) / suite)) {
      BackendCase one;
      one.name = fmt::format("{}/{}", suite, path.stem().string());
      one.model = fs::is_directory(path) ? path / "model.onnx" : path;
      if (fs::path(one.model).extension() != ".onnx" ||
          !fs::exists(one.model)) {
        continue;
      }
      for (const fs::path& entry : SortedEntries(path)) {
        if (!BeginsWith(entry.filename(), "test_data_set")) continue;
        one.data_sets.push_back(entry);
      }
      if (one.data_sets.empty()) {
        NODEWISE_ASSIGN_OR_RETURN(one.tolerance,
                                  ToleranceOf(folder, path.stem()));
      } else {
        NODEWISE_ASSIGN_OR_RETURN(one.by_output, TolerancesBeside(one.model));
      }
      SetOwnTolerance(&one);
      cases.push_back(std::move(one));
    }
  }
  if (!cases.empty()) return cases;
  return absl::NotFoundError(fmt::format(
      "{}: holds no cases, expected onnx/backend/test/data of ONNX's package",
      folder));
}

std::vector<std::string> UnknownInexact(const std::vector<BackendCase>& cases) {
  std::vector<std::string> unknown;
  for (const OwnTolerance& own : kOwnTolerances) {
    const bool is_case = std::any_of(
        cases.begin(), cases.end(),
        [&](const BackendCase& one) { return one.name == own.name; });
    if (!is_case) unknown.push_back(own.name);
  }
  return unknown;
}

absl::Status RunCase(const BackendCase& one, NetworkRunner run) {
  DiagnosticList diagnostics;
  NODEWISE_ASSIGN_OR_RETURN(
      const Network network,
      ImportOnnx(one.model, AllOperators(), {}, &diagnostics));
  if (one.data_sets.empty()) return RunLight(network, one, run);
  for (const std::string& folder : one.data_sets) {
    NODEWISE_ASSIGN_OR_RETURN(auto inputs, ReadTensors(folder + "/input_"));
    NODEWISE_ASSIGN_OR_RETURN(const auto expected,
                              ReadTensors(folder + "/output_"));
    const absl::Status status =
        RunSet(network, std::move(inputs), expected, one, run);
    if (!status.ok()) return At(fs::path(folder).filename().string(), status);
  }
  return absl::OkStatus();
}

std::vector<std::string> MissingOperators(const BackendCase& one) {
  DiagnosticList diagnostics;
  std::set<std::string> missing;
  if (ImportOnnx(one.model, AllOperators(), {}, &diagnostics).ok()) return {};
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    if (diagnostic.found != "is not known" &&
        !BeginsWith(diagnostic.found, "is not supported") &&
        !BeginsWith(diagnostic.found, "is of domain")) {
      continue;
    }
    // "node n (Op, opset 13)".
    const size_t open = diagnostic.path.rfind('(') + 1;
    const size_t end = diagnostic.path.find_first_of(",)", open);
    missing.insert(diagnostic.path.substr(open, end - open));
  }
  return {missing.begin(), missing.end()};
}

absl::Status CompareTensors(const NDArray& actual, const NDArray& expected,
                            const Tolerance& tolerance) {
  if (actual.shape() != expected.shape() ||
      !(actual.dtype() == expected.dtype())) {
    return absl::InternalError(fmt::format(
        "is {}, expected {}", TypeToString(actual.shape(), actual.dtype()),
        TypeToString(expected.shape(), expected.dtype())));
  }
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(expected.shape()));
  int64_t differing = 0;
  int64_t first = 0;
  long double worst = 0;
  for (int64_t i = count - 1; i >= 0; --i) {
    const long double a = ElementOf(actual, i);
    const long double b = ElementOf(expected, i);
    if (IsClose(a, b, tolerance)) continue;
    ++differing;
    first = i;
    worst = std::max(worst, std::fabs(a - b));
  }
  if (differing == 0) return absl::OkStatus();
  return absl::InternalError(fmt::format(
      "{} of {} elements differ, by up to {:g}; element {} is {:.9g}, expected "
      "{:.9g} within {:g} + {:g} of it",
      differing, count, static_cast<double>(worst), first,
      static_cast<double>(ElementOf(actual, first)),
      static_cast<double>(ElementOf(expected, first)), tolerance.absolute,
      tolerance.relative));
}

absl::StatusOr<NotRun> ReadNotRun(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(path + ": cannot be opened");
  NotRun result;
  std::string line;
  bool in_cases = false;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) {
      in_cases = true;
      continue;
    }
    if (line[0] == '#') continue;
    std::istringstream words(line);
    std::string name;
    std::string value;
    std::string rest;
    if (!(words >> name >> value) || words >> rest) {
      return absl::DataLossError(fmt::format(
          "{}:{}: found \"{}\", expected two words", path, number, line));
    }
    const bool is_new =
        in_cases ? result.cases.emplace(name, value).second
                 : result.counts.emplace(name, std::stoul(value)).second;
    if (is_new) continue;
    return absl::DataLossError(
        fmt::format("{}:{}: {} is there twice", path, number, name));
  }
  return result;
}

std::vector<std::string> DiagnosticsOf(const NotRun& not_run,
                                       const std::vector<BackendCase>& cases) {
  std::set<std::string> names;
  for (const BackendCase& one : cases) names.insert(one.name);
  std::vector<std::string> diagnostics;
  std::map<std::string, size_t> found;
  for (const auto& [name, reason] : not_run.cases) {
    ++found[reason];
    if (names.count(name) == 0) {
      diagnostics.push_back(fmt::format("{}: is listed, but no case", name));
    }
  }
  for (const auto& [reason, count] : found) {
    if (not_run.counts.count(reason) == 0) {
      diagnostics.push_back(
          fmt::format("class {}: has no count, expected {}", reason, count));
    }
  }
  for (const auto& [reason, count] : not_run.counts) {
    if (found[reason] == count) continue;
    diagnostics.push_back(fmt::format("class {}: has {} cases, expected {}",
                                      reason, found[reason], count));
  }
  return diagnostics;
}

}  // namespace nodewise
