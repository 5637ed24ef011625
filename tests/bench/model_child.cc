// One side of the benchmarks of models, a process of its own:
//   nodewise_bench_model KIND MODEL.onnx INPUTS.npz
// answers every line that it is sent with one of its own; see peer.h. KIND says
// what runs the model: `interpreter`, or `graph`, an executor with the fastest
// kernels of this build. With the KIND `judge`, the line `run` runs the
// interpreter, and the lines `judged` and `bounded` judge a run of such a
// graph, recorded before, by the reference: with lazy bounds, and with all of
// them worked out.

#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/lower/lower.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_collector.h"
#include "nodewise/tensors/tensor_file.h"
#include "nodewise/tensors/tensor_observer.h"
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

// Answers what a judged run takes.
class JudgedRun {
 public:
  static absl::StatusOr<std::unique_ptr<JudgedRun>> Make(
      const Network& network, const std::vector<NDArray>& inputs) {
    auto judged = std::make_unique<JudgedRun>();
    NODEWISE_ASSIGN_OR_RETURN(
        judged->lowered_, Lower(network, "graph", LoweringFor(AllOperators())));
    NODEWISE_ASSIGN_OR_RETURN(
        const auto executor,
        DebugExecutor::Create(judged->lowered_.graph,
                              BuiltInFunctions(AllOperators()), {}));
    NODEWISE_RETURN_IF_ERROR(
        executor->LoadParams(Params{judged->lowered_.params}).status());
    for (size_t i = 0; i < inputs.size(); ++i) {
      NODEWISE_RETURN_IF_ERROR(executor->SetInput(i, *inputs[i]));
    }
    NODEWISE_RETURN_IF_ERROR(
        SourceOfRuns(executor.get(), {})->Visit(judged->run_));
    return judged;
  }

  absl::Status Judge(bool with_all_bounds) {
    NodeCheckOptions options;
    options.with_all_bounds = with_all_bounds;
    return CheckNodes(GraphIndex(lowered_.graph), AllOperators(), run_, options)
        .status();
  }

 private:
  Lowered lowered_;
  TensorCollector run_;
};

absl::Status AnswerJudge(const Network& network, std::vector<NDArray> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const auto judged,
                            JudgedRun::Make(network, inputs));
  const RunModel run = Interpreted(network, std::move(inputs));
  for (std::string line; std::getline(std::cin, line);) {
    absl::Status status;
    const double time = NanosecondsOf([&] {
      status = line == "run" ? run(false).status()
                             : judged->Judge(line == "bounded");
    });
    NODEWISE_RETURN_IF_ERROR(status);
    std::printf("%.0f\n", time);
    std::fflush(stdout);
  }
  return absl::OkStatus();
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
  if (kind == "judge") return AnswerJudge(network, std::move(inputs));
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
