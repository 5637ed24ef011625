// One side of the benchmarks of models, a process of its own:
//   nodewise_bench_model KIND MODEL.onnx INPUTS.npz
// answers every line that it is sent with one of its own; see peer.h. KIND says
// what runs the model: `interpreter`, or `graph`, an executor with the fastest
// kernels of this build.

#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/graph/graph_executor.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/lower/lower.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/built_in_functions.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_file.h"
#include "tests/bench/memory.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

// Runs the model once and returns its first output. With bounds on all rounding
// errors, if that can be.
using RunModel = std::function<absl::StatusOr<NDArray>(bool with_bounds)>;

absl::StatusOr<std::vector<NDArray>> ReadInputs(const std::string& path,
                                                const Network& network) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors,
                            ReadTensorFile(path));
  std::vector<NDArray> inputs(network.inputs().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (NamedTensor& tensor : tensors) {
      if (tensor.name != network.value(network.inputs()[i]).name) continue;
      inputs[i] = std::move(tensor.tensor);
    }
  }
  return inputs;
}

RunModel Interpreted(const Network& network, std::vector<NDArray> inputs) {
  KeepFreedMemory();
  const auto interpreter = std::make_shared<Interpreter>(network);
  return [interpreter, inputs = std::move(inputs)](
             bool with_bounds) -> absl::StatusOr<NDArray> {
    InterpretOptions options;
    options.with_bounds = with_bounds;
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> outputs,
                              interpreter->Run(inputs, options));
    return outputs.front();
  };
}

absl::StatusOr<RunModel> AsGraph(const Network& network,
                                 std::vector<NDArray> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(
      const Lowered lowered,
      Lower(network, "graph", LoweringFor(AllOperators())));
  NODEWISE_ASSIGN_OR_RETURN(
      std::shared_ptr<GraphExecutor> executor,
      GraphExecutor::Create(lowered.graph, BuiltInFunctions(AllOperators())));
  NODEWISE_RETURN_IF_ERROR(
      executor->LoadParams(Params{lowered.params}).status());
  return
      [executor, inputs = std::move(inputs)](bool) -> absl::StatusOr<NDArray> {
        for (size_t i = 0; i < inputs.size(); ++i) {
          NODEWISE_RETURN_IF_ERROR(executor->SetInput(i, *inputs[i]));
        }
        NODEWISE_RETURN_IF_ERROR(executor->Run());
        return executor->GetOutput(0);
      };
}

absl::Status Answer(const RunModel& run) {
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "memory") {
      std::printf("%zu\n", PeakBytes());
      std::fflush(stdout);
      continue;
    }
    absl::StatusOr<NDArray> output;
    const double time = NanosecondsOf([&] { output = run(line == "bounds"); });
    NODEWISE_RETURN_IF_ERROR(output.status());
    if (line != "run" && line != "bounds") {
      NODEWISE_RETURN_IF_ERROR(WriteTensorFile(line, {{{"y", *output}}}));
    }
    std::printf("%.0f\n", time);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

absl::Status Serve(const std::string& kind, const std::string& model,
                   const std::string& inputs_path) {
  DiagnosticList diagnostics;
  NODEWISE_ASSIGN_OR_RETURN(
      const Network network,
      ImportOnnx(model, AllOperators(), {}, &diagnostics));
  NODEWISE_ASSIGN_OR_RETURN(std::vector<NDArray> inputs,
                            ReadInputs(inputs_path, network));
  if (kind == "interpreter") {
    return Answer(Interpreted(network, std::move(inputs)));
  }
  NODEWISE_ASSIGN_OR_RETURN(const RunModel run,
                            AsGraph(network, std::move(inputs)));
  return Answer(run);
}

}  // namespace
}  // namespace nodewise

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const absl::Status status = nodewise::Serve(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::cerr << status.message() << '\n';
  return status.ok() ? 0 : 2;
}
