#pragma once

// Networks for tests of lowering, and runs of them.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/graph/graph_executor.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/lower/lower.h"
#include "nodewise/ops/ops.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/support/status.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {

// Builds a network from the names of operators.
struct NetBuilder {
  Network net{"net"};

  ValueId In(const std::string& name, Shape shape,
             DLDataType dtype = kFloat32) {
    return net.AddInput(name, TensorType(dtype, std::move(shape))).value();
  }
  ValueId Const(const std::string& name, NDArray data) {
    return net.AddConstant(name, std::move(data)).value();
  }
  // Outputs are those that the operator requires unless they are named.
  absl::StatusOr<OperationId> TryOp(const std::string& kind,
                                    std::vector<ValueId> inputs,
                                    std::vector<NamedAttr> attrs = {},
                                    std::vector<std::string> outputs = {},
                                    std::string name = "") {
    NewOperation operation;
    NODEWISE_ASSIGN_OR_RETURN(
        operation.attrs, MakeAttrs(*AllOperators().Find("", kind, 21), attrs));
    operation.inputs = std::move(inputs);
    operation.outputs = std::move(outputs);
    operation.name = std::move(name);
    return net.AddOperation(std::move(operation));
  }
  std::vector<ValueId> Op(const std::string& kind, std::vector<ValueId> inputs,
                          std::vector<NamedAttr> attrs = {},
                          std::vector<std::string> outputs = {},
                          std::string name = "") {
    const auto id = TryOp(kind, std::move(inputs), std::move(attrs),
                          std::move(outputs), std::move(name));
    EXPECT_THAT(id, IsOk());
    return net.operation(*id).outputs;
  }
  void Out(std::vector<ValueId> outputs) {
    EXPECT_THAT(net.SetOutputs(std::move(outputs)), IsOk());
  }
};

inline const LowerOptions kPlain = {.fuse = false, .reuse_storage = false};

inline Ref<LoweredLibrary> ReferenceFunctions() {
  return BuiltInFunctions(AllOperators(), Backend::kReference);
}

inline absl::StatusOr<std::unique_ptr<GraphExecutor>> ExecutorOf(
    const Lowered& lowered,
    const Ref<Library>& library = ReferenceFunctions()) {
  NODEWISE_ASSIGN_OR_RETURN(auto executor,
                            GraphExecutor::Create(lowered.graph, library));
  NODEWISE_RETURN_IF_ERROR(
      executor->LoadParams(Params{lowered.params}).status());
  return executor;
}

// Runs the network's graph twice: nothing may remain from the first run.
inline absl::StatusOr<std::vector<NDArray>> RunLowered(
    const Network& network, const std::vector<NDArray>& inputs,
    const LowerOptions& options = {},
    const Ref<Library>& library = ReferenceFunctions()) {
  NODEWISE_ASSIGN_OR_RETURN(const Lowered lowered,
                            Lower(network, "net", options));
  NODEWISE_ASSIGN_OR_RETURN(const auto executor, ExecutorOf(lowered, library));
  for (size_t i = 0; i < inputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(executor->SetInput(i, *inputs[i]));
  }
  NODEWISE_RETURN_IF_ERROR(executor->Run());
  NODEWISE_RETURN_IF_ERROR(executor->Run());
  std::vector<NDArray> outputs;
  for (size_t i = 0; i < executor->NumOutputs(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray output, executor->GetOutput(i));
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy, output.CopyToHost());
    outputs.push_back(std::move(copy));
  }
  return outputs;
}

inline bool HaveSameBits(const NDArray& a, const NDArray& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// Expects the graph's outputs to be the interpreter's, bit for bit.
inline void ExpectAsInterpreted(const Network& network,
                                const std::vector<NDArray>& inputs,
                                const LowerOptions& options = {}) {
  const auto expected = Interpret(network, inputs);
  ASSERT_THAT(expected, IsOk());
  const auto found = RunLowered(network, inputs, options);
  ASSERT_THAT(found, IsOk());
  ASSERT_EQ(found->size(), expected->size());
  for (size_t i = 0; i < found->size(); ++i) {
    EXPECT_TRUE(HaveSameBits((*found)[i], (*expected)[i])) << "output " << i;
  }
}

}  // namespace nodewise
