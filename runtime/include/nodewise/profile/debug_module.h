#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/func/registry.h"
#include "nodewise/graph/executor_module.h"

namespace nodewise {

// A debug executor as a module. It has all functions of ExecutorModule, and
// those of TVM's debug executor with the results that TVM documents
// (docs/c_api.md).
//
// `run` times every node. It records a dump only if a root was set, by
// `nodewise.set_dump_root` or in the environment variable NODEWISE_DUMP_ROOT
// when the executor was made: hosts call `run` in loops.
class DebugModule : public ExecutorModule {
 public:
  explicit DebugModule(std::unique_ptr<DebugExecutor> executor)
      : ExecutorModule(std::move(executor)) {}

  absl::StatusOr<PackedFunc> GetFunction(std::string_view name) override;
  std::vector<std::string> FunctionNames() const override;

  DebugExecutor& debug() { return static_cast<DebugExecutor&>(executor()); }
  // Runs up to and including the node, if what has run is not out of date in
  // the pass that is under way, else in a new one.
  absl::Status RunUntil(NodeId node);

 private:
  uint64_t seen_changes_ = 0;  // Value of InputChanges() when the pass began.
};

// Returns the named functions of debugging: the creators
// tvm.graph_executor_debug.create and tvm.graph_runtime_debug.create, and those
// of reports.
absl::Span<const FunctionRow> DebugFunctions();

}  // namespace nodewise
