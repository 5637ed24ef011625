#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "contrib/lab/autotest/candidates/run_executor.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/autotest/autotest_report.h"
#include "nodewise/autotest/autotest_run.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/graph/params.h"
#include "nodewise/lower/lower.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "nodewise/repro/write_repro.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {

namespace {

// The program is compiled where the finding is looked at, against the installed
// runtime: so it knows nothing of this library, and prints its own numbers.
constexpr std::string_view kProgram =
    R"(// Runs the network in net/, whose functions are compiled C, on the inputs that
// failed, and shows what comes out beside what is right. Ends with 1 if they
// differ. usage: repro FOLDER
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "nodewise/artefact/artefact.h"
#include "nodewise/ndarray/elements.h"

namespace {

std::vector<double> NumbersOf(const nodewise::NDArray& tensor) {
  size_t count = 1;
  for (const int64_t side : tensor.shape()) count *= static_cast<size_t>(side);
  std::vector<double> numbers(count);
  nodewise::DecodeToDoubles(tensor.dtype(), tensor.data(), count,
                            numbers.data());
  return numbers;
}

bool Shows(size_t output, const nodewise::NDArray& right,
           const nodewise::NDArray& made) {
  const std::vector<double> x = NumbersOf(right);
  const std::vector<double> y = NumbersOf(made);
  bool differs = x.size() != y.size();
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    differs = true;
    std::printf("output %zu, element %zu: expected %.17g, found %.17g\n",
                output, i, x[i], y[i]);
  }
  return differs;
}

}  // namespace

int main(int count, char** words) {
  const std::string folder = count > 1 ? words[1] : ".";
  const auto files = nodewise::FindArtefact(folder + "/net");
  const auto inputs = nodewise::OpenParams(folder + "/inputs.params");
  const auto expected = nodewise::OpenParams(folder + "/expected.params");
  if (!files.ok() || !inputs.ok() || !expected.ok()) return 2;
  const auto executor = nodewise::CreateExecutor(*files, {});
  if (!executor.ok()) return 2;
  for (const auto& [name, tensor] : inputs->tensors) {
    if (!(*executor)->SetInput(name, *tensor).ok()) return 2;
  }
  if (!(*executor)->Run().ok()) return 2;
  bool differs = false;
  for (size_t i = 0; i < expected->tensors.size(); ++i) {
    const auto made = (*executor)->GetOutput(i);
    if (!made.ok()) return 2;
    differs = Shows(i, expected->tensors[i].tensor, *made) || differs;
  }
  return differs ? 1 : 0;
}
)";

// The folder is built where it lies, and names the library beside the graph as
// the runtime expects it.
constexpr std::string_view kBuild =
    R"(cmake_minimum_required(VERSION 3.25)
project(repro LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(nodewise REQUIRED)
# The functions of the network, where the runtime looks for them.
add_custom_command(OUTPUT ${CMAKE_SOURCE_DIR}/net/lib.so
  COMMAND ${CMAKE_C_COMPILER} -O2 -shared -fPIC lib.c -o lib.so -lm
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/net DEPENDS net/lib.c)
add_custom_target(net ALL DEPENDS ${CMAKE_SOURCE_DIR}/net/lib.so)
add_executable(repro repro.cc)
target_link_libraries(repro PRIVATE nodewise::runtime)
)";

// Writes what a finding about emitted C was compiled from, and a program in C++
// that runs it with the installed runtime library alone: net/ (an artefact, to
// be compiled), inputs.params, expected.params, repro.cc and CMakeLists.txt.
// Fails with kUnimplemented if there is no C for the network.
absl::Status WriteCompiledFinding(const AutotestFinding& finding,
                                  const std::string& folder) {
  const Network& network = *finding.made.network;
  NODEWISE_ASSIGN_OR_RETURN(const Lowered lowered, Lower(network, "case"));
  NODEWISE_ASSIGN_OR_RETURN(const EmittedC emitted,
                            EmitC(lowered.graph, AllOperators()));
  ArtefactTexts texts;
  texts.graph = emitted.graph.text.text;
  texts.source = emitted.source;
  const Params params{lowered.params};
  NODEWISE_RETURN_IF_ERROR(WriteArtefactFolder(folder + "/net", texts, params));
  std::vector<NamedTensor> inputs;
  for (const NDArray& tensor : finding.set.inputs) {
    const ValueId id = network.inputs()[inputs.size()];
    inputs.push_back({network.value(id).name, tensor});
  }
  // Outputs go by their places: those of the artefact may have other names.
  std::vector<NamedTensor> expected;
  for (const NDArray& tensor :
       finding.expected.value_or(std::vector<NDArray>())) {
    expected.push_back({fmt::format("{}", expected.size()), tensor});
  }
  NODEWISE_RETURN_IF_ERROR(WriteParams(folder + "/inputs.params", inputs));
  NODEWISE_RETURN_IF_ERROR(WriteParams(folder + "/expected.params", expected));
  NODEWISE_RETURN_IF_ERROR(ReplaceFile(folder + "/repro.cc", kProgram));
  return ReplaceFile(folder + "/CMakeLists.txt", kBuild);
}

constexpr size_t kMostShown = 16;
// A compiler or another program may say a lot, which belongs to the finding.
constexpr size_t kLongestReason = 2000;

// A line has room for some numbers; the files beside it hold all of them.
std::string NumbersOf(const NDArray& tensor) {
  const auto count = static_cast<size_t>(CountOf(tensor));
  std::vector<double> numbers(std::min(count, kMostShown));
  if (!DecodeToDoubles(tensor.dtype(), tensor.data(), numbers.size(),
                       numbers.data())) {
    return "?";
  }
  return fmt::format("{}{}", fmt::join(numbers, " "),
                     count > kMostShown ? " ..." : "");
}

// Names are those of a model, and may hold anything.
std::string Line(const std::string& name, const NDArray& tensor) {
  if (!tensor.defined()) return fmt::format("  {}: none\n", Printable(name));
  return fmt::format("  {}: {} {}\n", Printable(name),
                     ToString(TensorType::From(*tensor)), NumbersOf(tensor));
}

constexpr const char* kForwardFile = "/forward.onnx";

// The case that the model of a folder is the gradient of: none, unless there is
// such a file and its inputs and outputs have the names of a gradient's.
absl::StatusOr<std::shared_ptr<const BackwardCase>> ReadForwardCase(
    const std::string& folder, const Network& gradient) {
  const std::string path = folder + kForwardFile;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return nullptr;
  DiagnosticList diagnostics;
  auto forward = ImportOnnx(path, AllOperators(), {}, &diagnostics);
  NODEWISE_RETURN_IF_ERROR(forward.status());
  BackwardCase made{*std::move(forward), {}, {}};
  const Network& read = made.forward;
  // Returns the places of values whose name, with a prefix, is one of others.
  const auto places = [&](absl::Span<const ValueId> ids, const char* prefix,
                          absl::Span<const ValueId> others) {
    std::vector<size_t> found;
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::string name = prefix + read.value(ids[i]).name;
      if (std::ranges::any_of(others, [&](ValueId id) {
            return gradient.value(id).name == name;
          })) {
        found.push_back(i);
      }
    }
    return found;
  };
  made.outputs = places(read.outputs(), "cotangent_", gradient.inputs());
  made.inputs = places(read.inputs(), "gradient_", gradient.outputs());
  if (read.inputs().size() + made.outputs.size() != gradient.inputs().size() ||
      made.inputs.size() != gradient.outputs().size()) {
    return absl::InvalidArgumentError(
        path + ": model.onnx beside it is not its gradient");
  }
  return std::make_shared<const BackwardCase>(std::move(made));
}

// Programs that show the finding without nodewise: how they make a runner of
// the model.
struct OtherRuntime {
  std::string_view candidate;
  std::string_view import;
  std::string_view run;
};
constexpr OtherRuntime kOtherRuntimes[] = {
    {"ort", "import onnxruntime",
     "options = onnxruntime.SessionOptions()\n"
     "options.graph_optimization_level = (\n"
     "    onnxruntime.GraphOptimizationLevel.{level})\n"
     "session = onnxruntime.InferenceSession(\n"
     "    str(HERE / \"model.onnx\"), options,\n"
     "    providers=[\"CPUExecutionProvider\"])\n"
     "made = session.run(None, inputs)\n"
     "print(\"onnxruntime\", onnxruntime.__version__)\n"},
    {"onnx", "from onnx import reference",
     "evaluator = reference.ReferenceEvaluator(str(HERE / \"model.onnx\"))\n"
     "made = evaluator.run(None, inputs)\n"
     "print(\"onnx\", onnx.__version__)\n"},
};

// The program reads the test data of the folder, so that it needs nothing but
// onnx and the runtime that is to be shown.
constexpr std::string_view kProgramHead = R"(import pathlib

import numpy
import onnx
from onnx import numpy_helper
{}

HERE = pathlib.Path(__file__).resolve().parent
model = onnx.load(HERE / "model.onnx")

def tensors(kind):
    files = sorted((HERE / "test_data_set_0").glob(kind + "_*.pb"),
                   key=lambda file: int(file.stem.split("_")[1]))
    return [numpy_helper.to_array(onnx.load_tensor(file)) for file in files]

inputs = dict(zip([info.name for info in model.graph.input],
                  tensors("input")))
)";
constexpr std::string_view kProgramEnd = R"(
for name, array in inputs.items():
    print("input", name, array.dtype, array.tolist())
for info, right, found in zip(model.graph.output, tensors("output"), made):
    print("output", info.name)
    print("  expected", numpy.asarray(right).tolist())
    print("  found   ", numpy.asarray(found).tolist())
)";

// onnxruntime's name of a level. Optimisers are off where no level is asked
// for: what they make of one operation would be tested in its place.
std::string_view NameOfLevel(const std::string& level) {
  if (level == "basic") return "ORT_ENABLE_BASIC";
  if (level == "extended") return "ORT_ENABLE_EXTENDED";
  return level == "all" ? "ORT_ENABLE_ALL" : "ORT_DISABLE_ALL";
}

// Returns the text of repro.py; empty for what only nodewise runs.
// The texts have places for the import and for the level, and braces of Python,
// so they are not format strings.
std::string ProgramText(const TestedCandidate& candidate) {
  constexpr std::string_view kLevel = "{level}";
  for (const OtherRuntime& runtime : kOtherRuntimes) {
    if (runtime.candidate != candidate.name) continue;
    std::string head(kProgramHead);
    head.replace(head.find("{}"), 2, runtime.import);
    std::string run(runtime.run);
    const size_t level = run.find(kLevel);
    if (level != std::string::npos) {
      run.replace(level, kLevel.size(), NameOfLevel(candidate.ort_level));
    }
    return head + run + std::string(kProgramEnd);
  }
  return "";
}

// The page names what is wrong first, then how to see it again: by nodewise,
// and without it where there is a program for that.
std::string PageText(const AutotestFinding& finding,
                     const TestedCandidate& candidate, bool has_program,
                     bool has_c) {
  const bool is_backward = finding.made.backward != nullptr;
  std::string page = fmt::format(
      "# {}{}: {}\n\n`{}` makes of the inputs in `test_data_set_0` what no "
      "correct implementation makes: `{}`.\n\n{}\n"
      "`model.onnx` is {}, `test_data_set_0` its inputs and "
      "the right outputs, in the layout of ONNX's own tests.\n\n"
      "    nodewise autotest --case . --candidate {}{}\n\n"
      "runs it again, and ends with status 1 as long as it is wrong.\n",
      is_backward ? "gradient of " : "", TitleOf(finding.made),
      NameOf(finding.verdict.outcome), CodeSpan(candidate.name),
      CodeSpan(finding.verdict.reason, kLongestReason),
      CodeBlock(ToString(finding.made) + "\n" + DescribeTensors(finding)),
      is_backward && finding.made.configuration.is_network()
          ? "the gradient of the network in `forward.onnx`"
      : is_backward ? "the gradient of the operation in `forward.onnx`"
      : finding.made.configuration.is_network() ? "the network alone"
                                                : "the operation alone",
      ShellWord(candidate.name),
      candidate.ort_level.empty()
          ? ""
          : " --ort-level " + ShellWord(candidate.ort_level));
  if (has_program) {
    page += "`python3 repro.py` shows both outputs without nodewise.\n";
  }
  if (has_c) {
    page +=
        "`repro.cc` needs the installed runtime library alone: `net` is the "
        "network as C.\n\n```\ncmake -B build . && cmake --build build && "
        "build/repro .\n```\n\nshows what differs.\n";
  }
  if (!finding.attribution.empty()) {
    page += fmt::format("\nThe finding: {}.\n", finding.attribution);
  }
  if (finding.is_flaky) page += "\nIt does not fail each time.\n";
  return page;
}

}  // namespace

// Constants belong to the case as inputs do: a weight may be what is wrong.
std::string DescribeTensors(const AutotestFinding& finding) {
  std::string text;
  const Network& network = *finding.made.network;
  for (size_t i = 0; i < finding.set.inputs.size(); ++i) {
    text +=
        Line(network.value(network.inputs()[i]).name, finding.set.inputs[i]);
  }
  for (const auto& value : network.data().values) {
    if (value.has_value() && value->kind == NetworkValue::Kind::kConstant) {
      text += Line(value->name + " (constant)", value->data);
    }
  }
  // A candidate may make fewer outputs than the network has.
  const size_t output = finding.verdict.output;
  const auto add = [&](const char* what, const CandidateOutputs& outputs) {
    if (!outputs.ok()) {
      text += fmt::format("  {}: {}\n", what,
                          Printable(MessageOf(outputs.status())));
    } else if (output < outputs->size()) {
      const std::string& name = network.value(network.outputs()[output]).name;
      text += Line(fmt::format("{} {}", what, name), (*outputs)[output]);
    }
  };
  add("expected", finding.expected);
  add("found", finding.actual);
  return text;
}

// The check is that of reproductions, which are written to new folders as well.
absl::Status MakeFindingsFolder(const std::string& folder) {
  NODEWISE_RETURN_IF_ERROR(CheckReproFolder(folder));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return PermissionDenied("{}: cannot be made: {}", folder, error.message());
}

// A finding about C that cannot be written as C, a gradient say, is still shown
// by its model.
absl::Status WriteFindingFolder(const AutotestFinding& finding,
                                const TestedCandidate& candidate,
                                const std::string& folder) {
  NODEWISE_RETURN_IF_ERROR(
      WriteOnnxCase(folder, *finding.made.network, finding.set.inputs,
                    finding.expected.value_or(std::vector<NDArray>())));
  if (finding.made.backward != nullptr) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string forward,
                              ExportOnnx(finding.made.backward->forward));
    NODEWISE_RETURN_IF_ERROR(ReplaceFile(folder + kForwardFile, forward));
  }
  bool has_c = false;
  if (candidate.name == "c") {
    const absl::Status written = WriteCompiledFinding(finding, folder);
    if (!written.ok() && !absl::IsUnimplemented(written)) return written;
    has_c = written.ok();
  }
  const std::string program = ProgramText(candidate);
  if (!program.empty()) {
    NODEWISE_RETURN_IF_ERROR(ReplaceFile(folder + "/repro.py", program));
  }
  return ReplaceFile(folder + "/README.md",
                     PageText(finding, candidate, !program.empty(), has_c));
}

// The outputs beside the model are not read: the reference says what is right.
absl::StatusOr<AutotestFinding> JudgeFolder(const std::string& folder,
                                            Candidate& candidate) {
  DiagnosticList diagnostics;
  auto network =
      ImportOnnx(folder + "/model.onnx", AllOperators(), {}, &diagnostics);
  NODEWISE_RETURN_IF_ERROR(network.status());
  AutotestFinding found;
  found.made.network = std::make_shared<const Network>(*std::move(network));
  const Network& read = *found.made.network;
  NODEWISE_ASSIGN_OR_RETURN(found.made.backward, ReadForwardCase(folder, read));
  for (size_t i = 0; i < read.inputs().size(); ++i) {
    const auto path = fmt::format("{}/test_data_set_0/input_{}.pb", folder, i);
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, ReadTensorFile(path));
    const NetworkValue& input = read.value(read.inputs()[i]);
    if (tensors.size() != 1 || !IsOfType(tensors[0].tensor, input.type)) {
      return InvalidArgument(
          "{}: does not hold one tensor of the type {} of input {}", path,
          ToString(input.type), input.name);
    }
    found.set.inputs.push_back(tensors[0].tensor);
  }
  const CaseReference reference(read, found.made.backward != nullptr);
  found.expected = reference.Run(found.set.inputs);
  NODEWISE_RETURN_IF_ERROR(found.expected.status());
  found.actual =
      RunOnce(candidate, read, found.set.inputs, found.made.backward.get());
  found.verdict = reference.Judge(found.set, found.expected, found.actual);
  return found;
}

}  // namespace nodewise
