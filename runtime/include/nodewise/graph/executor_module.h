#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nodewise/graph/graph_executor.h"
#include "nodewise/module/module.h"

namespace nodewise {

// A graph executor as a module, with the functions that TVM's has
// (docs/c_api.md lists them): what host programs in C and in Python hold.
class ExecutorModule : public Module {
 public:
  explicit ExecutorModule(std::unique_ptr<GraphExecutor> executor)
      : executor_(std::move(executor)) {}

  std::string_view kind() const override { return "GraphExecutor"; }
  int properties() const override { return kModuleIsRunnable; }
  absl::StatusOr<PackedFunc> GetFunction(std::string_view name) override;
  std::vector<std::string> FunctionNames() const override;

  GraphExecutor& executor() { return *executor_; }
  const GraphExecutor& executor() const { return *executor_; }

 private:
  using Method = absl::StatusOr<Value> (ExecutorModule::*)(PackedArgs);
  struct MethodRow {
    std::string_view name;
    Method method;
  };
  static const MethodRow kMethods[];

  absl::StatusOr<size_t> InputArgument(PackedArgs args, int index) const;
  absl::StatusOr<size_t> OutputNamed(std::string_view name) const;
  absl::StatusOr<size_t> OutputArgument(PackedArgs args, int index) const;
  absl::StatusOr<Value> SetInput(PackedArgs args);
  absl::StatusOr<Value> SetInputs(PackedArgs args);
  absl::StatusOr<Value> SetParam(PackedArgs args);
  absl::StatusOr<Value> SetInputZeroCopy(PackedArgs args);
  absl::StatusOr<Value> SetOutputZeroCopy(PackedArgs args);
  absl::StatusOr<Value> GetInput(PackedArgs args);
  absl::StatusOr<Value> GetOutput(PackedArgs args);
  absl::StatusOr<Value> GetInputIndex(PackedArgs args);
  absl::StatusOr<Value> GetNumInputs(PackedArgs args);
  absl::StatusOr<Value> GetNumOutputs(PackedArgs args);
  absl::StatusOr<Value> GetInputInfo(PackedArgs args);
  absl::StatusOr<Value> GetOutputInfo(PackedArgs args);
  absl::StatusOr<Value> Run(PackedArgs args);
  absl::StatusOr<Value> RunFromInputs(PackedArgs args);
  absl::StatusOr<Value> LoadParams(PackedArgs args);
  absl::StatusOr<Value> ShareParams(PackedArgs args);

  std::unique_ptr<GraphExecutor> executor_;
};

// The arguments of the functions that create executors: graph JSON, module, an
// optional function that looks up linked parameters, then pairs of device type
// and number.
struct CreateArguments {
  Graph graph;
  Ref<Library> library;
  GraphExecutor::Options options;
};
absl::StatusOr<CreateArguments> TakeCreateArguments(PackedArgs args);

// The registered function tvm.graph_executor.create.
absl::StatusOr<Value> CreateGraphExecutor(PackedArgs args);

}  // namespace nodewise
