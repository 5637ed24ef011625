#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "apps/nodewise/target_options.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/graph/graph_index.h"

namespace nodewise {

// A target that has been loaded, and the inputs for it. Makes executors that
// are ready to run, each with tensors of its own.
class LoadedTarget {
 public:
  // Both must outlive the result.
  static absl::StatusOr<std::unique_ptr<LoadedTarget>> Load(
      const TargetOptions& target, const InputOptions& inputs);

  const ArtefactFiles& files() const { return files_; }
  const Graph& graph() const { return artefact_.graph; }
  // The index of the graph, without a plan: executors have their own.
  const GraphIndex& index() const { return *index_; }
  // Makes the first executor and reports all faults of its inputs, and what is
  // worth knowing about the parameters. Null if there were faults. The files of
  // the inputs are read once, here or by Load(), so that all executors have the
  // same inputs, whatever the code that runs does to files and folders.
  std::unique_ptr<GraphExecutor> MakeFirst(Outcome* outcome);

  // REQUIRES: MakeFirst() has succeeded; SetAll() requires it too.
  absl::StatusOr<std::unique_ptr<GraphExecutor>> MakePlain() const;
  // For executors of another class: the artefact to make them of, and setting
  // the parameters and the first executor's inputs.
  const Artefact& artefact() const { return artefact_; }
  const std::vector<DLDevice>& devices() const { return devices_; }
  absl::Status SetAll(GraphExecutor* executor) const;

  // Where the inputs of the first executor came from.
  const std::vector<InputSource>& sources() const { return sources_; }
  const InputOptions& inputs() const { return inputs_.options(); }
  const TargetOptions& target() const { return target_; }

 private:
  LoadedTarget(const TargetOptions& target, const InputOptions& inputs)
      : target_(target), inputs_(inputs) {}

  std::string WhereParamsAre() const;
  absl::Status SetParams(GraphExecutor* executor, LoadedParams* loaded) const;

  const TargetOptions& target_;
  InputFiles inputs_;
  ArtefactFiles files_;
  Artefact artefact_;
  std::optional<GraphIndex> index_;
  std::vector<DLDevice> devices_;
  std::vector<InputSource> sources_;
};

// Shows the head of a report: the target and its files, the inputs.
void ShowNetwork(const LoadedTarget& network, const GraphExecutor& executor,
                 Outcome* outcome);

}  // namespace nodewise
