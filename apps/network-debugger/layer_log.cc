#include "apps/network-debugger/layer_log.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "nodewise/graph/params.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// A prefix, a role and a number must fit the 255 bytes of a file's name, too.
constexpr size_t kLongestName = 100;

void Print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
      std::fflush(stdout) == 0) {
    return;
  }
  std::perror("network-debugger: stdout");
  std::exit(2);
}

std::string PlaceText(CodePlace place) {
  const std::string_view file = place.file;
  return fmt::format("[{}:{}] ", file.substr(file.rfind('/') + 1), place.line);
}

std::string ErrorText(const TensorComparison& output) {
  const ElementDifference& worst = output.Worst();
  std::string got, expected;
  // Nine digits tell float32 apart, seventeen float64.
  for (const int digits : {6, 9, 17}) {
    got = fmt::format("{:.{}g}", worst.actual, digits);
    expected = fmt::format("{:.{}g}", worst.expected, digits);
    if (got != expected) break;
  }
  return fmt::format("Error at output index {}, got {} expected {}",
                     worst.element, got, expected);
}

// With bounds there is no one threshold, so their own words are shown.
std::string CountText(const std::string& role, const TensorComparison& output,
                      std::optional<double> threshold) {
  const Metrics& metrics = output.metrics;
  if (!threshold.has_value()) {
    return fmt::format("{}: {}, largest error {:.6g}", role,
                       output.judgement.reason, metrics.largest_error.error);
  }
  return fmt::format(
      "{}: {} of {} beyond the threshold {:g}, largest error {:.6g}", role,
      metrics.outside, CountOf(metrics.elements, "element"), *threshold,
      metrics.largest_error.error);
}

}  // namespace

// Names of layers come from the model's file, and must not end a line.
void LogLine(std::string_view text, CodePlace place) {
  Print(PlaceText(place) + PrintableLines(text) + "\n");
}

absl::Status LayerLog::Begins(const Layer& layer) {
  // Like Glow, the log indents all lines about a layer to where the text of the
  // first one begins.
  const CodePlace place = CodePlace::Here();
  indent_ = PlaceText(place).size();
  LogLine(fmt::format("Verifying layer: {}\tType: {}", Printable(layer.name),
                      layer.kind),
          place);
  return absl::OkStatus();
}

absl::Status LayerLog::IsBroken(const BrokenLayer& broken) {
  const LayerResult& result = broken.result;
  const std::string indent(indent_, ' ');
  for (size_t i = 0; i < result.alone.size(); ++i) {
    if (!result.alone[i].is_wrong()) continue;
    Print(indent + ErrorText(result.alone[i]) + "\n");
    Print(indent +
          CountText(result.layer.outputs[i], result.alone[i], threshold_) +
          "\n");
  }
  Print(indent + "Results differ\n");
  if (folder_.empty()) return absl::OkStatus();
  Print(indent + "dumping tensors.\n");
  return Dump(broken);
}

// A layer that inherits errors, ends its run or cannot be judged has the reason
// between its first line and its last.
absl::Status LayerLog::Ends(const LayerResult& result) {
  const bool says_why = result.verdict == NodeVerdict::kInherits ||
                        result.verdict == NodeVerdict::kInconclusive ||
                        EndsRuns(result.verdict);
  if (says_why) {
    Print(fmt::format("{}{}: {}\n", std::string(indent_, ' '),
                      NameOf(result.verdict), result.reason));
  }
  LogLine(
      fmt::format("DONE Verifying layer: {}", Printable(result.layer.name)));
  Print("\n");
  return absl::OkStatus();
}

absl::Status LayerLog::Dump(const BrokenLayer& broken) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    return InvalidArgument("{}: cannot be made: {}", folder_, error.message());
  }
  const Layer& layer = broken.result.layer;
  const std::string name = FileNameOf(layer.name);
  for (size_t i = 0; i < broken.inputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(
        WriteOne("input", layer.inputs[i], name, broken.inputs[i]));
  }
  for (size_t i = 0; i < broken.outputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(
        WriteOne("ref", layer.outputs[i], name, broken.outputs[i]));
  }
  // A layer of a type that ONNX lacks cannot be written as a model; its tensors
  // have been written by then.
  const auto model = ExportOnnx(broken.network);
  if (!model.ok()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(
      OutputFile file,
      OutputFile::Create(fmt::format("{}/layer_{}.onnx", folder_, name)));
  NODEWISE_RETURN_IF_ERROR(file.Write(*model));
  return file.Commit();
}

// Names in models have slashes, among others, which no file's name may have. No
// two layers get the same name.
std::string LayerLog::FileNameOf(const std::string& layer) {
  std::string name = layer.substr(0, kLongestName);
  for (char& c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '.';
    if (!is_plain) c = '_';
  }
  std::string free = name;
  for (int number = 2; !file_names_.insert(free).second; ++number) {
    free = fmt::format("{}_{}", name, number);
  }
  return free;
}

// The files are .params files, which TVM reads, too.
absl::Status LayerLog::WriteOne(const std::string& prefix,
                                const std::string& role,
                                const std::string& layer,
                                const NDArray& tensor) const {
  return WriteParams(fmt::format("{}/{}_{}_{}", folder_, prefix, role, layer),
                     {{{role, tensor}}});
}

}  // namespace nodewise
