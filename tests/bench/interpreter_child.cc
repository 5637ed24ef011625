// One side of the interpreter's benchmark, a process of its own:
//   nodewise_bench_interpreter MODEL.onnx INPUTS.npz
// answers every line that it is sent with one of its own; see peer.h.

#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_file.h"
#include "tests/bench/memory.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

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

absl::Status Answer(const std::string& model, const std::string& inputs_path) {
  DiagnosticList diagnostics;
  NODEWISE_ASSIGN_OR_RETURN(
      const Network network,
      ImportOnnx(model, AllOperators(), {}, &diagnostics));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> inputs,
                            ReadInputs(inputs_path, network));
  KeepFreedMemory();
  const Interpreter interpreter(network);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "memory") {
      std::printf("%zu\n", PeakBytes());
      std::fflush(stdout);
      continue;
    }
    absl::StatusOr<std::vector<NDArray>> outputs;
    InterpretOptions options;
    options.with_bounds = line == "bounds";
    const double time =
        NanosecondsOf([&] { outputs = interpreter.Run(inputs, options); });
    NODEWISE_RETURN_IF_ERROR(outputs.status());
    if (line != "run" && line != "bounds") {
      NODEWISE_RETURN_IF_ERROR(
          WriteTensorFile(line, {{{"y", outputs->front()}}}));
    }
    std::printf("%.0f\n", time);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace nodewise

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const absl::Status status = nodewise::Answer(argv[1], argv[2]);
  if (!status.ok()) std::cerr << status.message() << '\n';
  return status.ok() ? 0 : 2;
}
