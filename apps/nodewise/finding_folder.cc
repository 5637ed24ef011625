#include "apps/nodewise/finding_folder.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/repro/write_repro.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

constexpr size_t kMostShown = 16;

std::string NumbersOf(const NDArray& tensor) {
  std::vector<double> numbers(kMostShown);
  uint64_t count = 1;
  for (const int64_t side : tensor.shape()) count *= static_cast<uint64_t>(side);
  numbers.resize(std::min<uint64_t>(count, kMostShown));
  if (!DecodeToDoubles(tensor.dtype(), tensor.data(), numbers.size(),
                       numbers.data())) {
    return "?";
  }
  return fmt::format("{}{}", fmt::join(numbers, " "),
                     count > kMostShown ? " ..." : "");
}

std::string Line(const std::string& name, const NDArray& tensor) {
  if (!tensor.defined()) return fmt::format("  {}: none\n", name);
  return fmt::format("  {}: {} {}\n", name, ToString(TensorType::Of(*tensor)),
                     NumbersOf(tensor));
}

}  // namespace

std::string DescribeTensors(const AutotestFinding& finding) {
  std::string text;
  const Network& network = *finding.made.network;
  for (size_t i = 0; i < finding.set.inputs.size(); ++i) {
    text += Line(network.value(network.inputs()[i]).name,
                 finding.set.inputs[i]);
  }
  for (const auto& value : network.data().values) {
    if (value.has_value() && value->kind == NetworkValue::Kind::kConstant) {
      text += Line(value->name + " (constant)", value->data);
    }
  }
  const auto add = [&](const char* what, const CandidateOutputs& outputs) {
    if (!outputs.ok()) {
      text += fmt::format("  {}: {}\n", what, MessageOf(outputs.status()));
      return;
    }
    if (finding.verdict.output >= outputs->size()) return;
    text += Line(fmt::format("{} y{}", what, finding.verdict.output),
                 (*outputs)[finding.verdict.output]);
  };
  add("expected", finding.expected);
  add("found", finding.actual);
  return text;
}

absl::Status MakeFindingsFolder(const std::string& folder) {
  NODEWISE_RETURN_IF_ERROR(CheckReproFolder(folder));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("{}: cannot be made: {}", folder, error.message()));
}

absl::Status WriteFindingFolder(const AutotestFinding& finding,
                                const std::string& candidate,
                                const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::vector<NDArray> none;
  NODEWISE_RETURN_IF_ERROR(WriteOnnxCase(
      folder, *finding.made.network, finding.set.inputs,
      finding.expected.ok() ? *finding.expected : none));
  std::string page = fmt::format(
      "# {}: {}\n\n`{}` makes of the inputs in `test_data_set_0` what no "
      "correct implementation makes: {}.\n\n"
      "```\n{}\n{}```\n\n"
      "`model.onnx` is the operation alone, `test_data_set_0` its inputs and "
      "the right outputs, in the layout of ONNX's own tests.\n",
      finding.made.configuration.def->name, NameOf(finding.verdict.outcome),
      candidate, finding.verdict.reason, ToString(finding.made.configuration),
      DescribeTensors(finding));
  if (finding.is_flaky) page += "\nIt does not fail each time.\n";
  NODEWISE_ASSIGN_OR_RETURN(OutputFile file,
                            OutputFile::Create(folder + "/README.md"));
  NODEWISE_RETURN_IF_ERROR(file.Write(page));
  return file.Commit();
}

}  // namespace nodewise
