#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/func/registry.h"
#include "nodewise/graph/executor_module.h"

namespace nodewise {

class TvmReport;

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

 private:
  using Result = absl::StatusOr<Value>;
  using Method = Result (DebugModule::*)(PackedArgs);
  struct MethodRow {
    std::string_view name;
    Method method;
  };
  static const MethodRow kMethods[];

  DebugExecutor& debug() { return static_cast<DebugExecutor&>(executor()); }
  absl::StatusOr<NodeId> NodeArgument(PackedArgs args, int index);
  // Returns the array, or copies it into the argument if there is one.
  Result Deliver(EntryId entry, PackedArgs args, int index);
  absl::StatusOr<EntryId> EntryArguments(PackedArgs args);
  absl::Status RunUntilNode(NodeId node);
  absl::StatusOr<Ref<TvmReport>> MakeReport();
  Result DebugGetOutput(PackedArgs args);
  Result GetOutputByLayer(PackedArgs args);
  Result ExecuteNode(PackedArgs args);
  Result GetNodeOutput(PackedArgs args);
  Result RunIndividual(PackedArgs args);
  Result RunIndividualNode(PackedArgs args);
  Result Profile(PackedArgs args);
  Result ProfileRpc(PackedArgs args);
  Result SetDumpRoot(PackedArgs args);
  Result GetDumpFolder(PackedArgs args);

  uint64_t seen_changes_ = 0;  // Value of InputChanges() when the pass began.
};

// Returns the named functions of debugging: the creators
// tvm.graph_executor_debug.create and tvm.graph_runtime_debug.create, and those
// of reports.
absl::Span<const FunctionRow> DebugFunctions();

}  // namespace nodewise
