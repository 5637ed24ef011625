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
