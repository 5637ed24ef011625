#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/runner/input_files.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// How executors get the parameters of a target.
enum class ParamUse {
  kCopied,
  // They read them where they are, as far as that is possible
  // (GraphExecutor::BindParams). The caller must make sure that no node writes
  // to them, or only in a process of its own.
  kInPlace,
};

// A compiled network that has been loaded. Makes executors of it, each with
// tensors of its own; it knows its inputs before there is one. Does not change
// once it is loaded, so that any thread may use it, as far as the library's own
// code allows it.
class GraphTarget {
 public:
  using TypesOfInputs =
      absl::FunctionRef<absl::StatusOr<std::vector<VmInputType>>()>;

  // Loads what FindArtefact() found, to run on these devices. `types` is called
  // only for a VM library that leaves dimensions open; it returns the types of
  // the inputs that are at hand. `built_ins` is for LoadArtefact. Fails as
  // that, or as `types`.
  static absl::StatusOr<std::shared_ptr<const GraphTarget>> Load(
      ArtefactFiles files, std::vector<DLDevice> devices, TypesOfInputs types,
      const Ref<Library>& built_ins = nullptr);
  // Takes what is in memory already; `name` is what messages call it. REQUIRES:
  // the graph is sound (CheckGraph), and there is a library.
  static absl::StatusOr<std::shared_ptr<const GraphTarget>> FromArtefact(
      std::string name, Artefact artefact, std::vector<DLDevice> devices,
      ParamUse param_use = ParamUse::kCopied);

  // Makes a target of another artefact that comes from the same files, runs on
  // the same devices and uses its parameters in the same way. REQUIRES: as
  // FromArtefact().
  absl::StatusOr<std::shared_ptr<const GraphTarget>> WithArtefact(
      Artefact artefact) const;

  GraphTarget(const GraphTarget&) = delete;
  GraphTarget& operator=(const GraphTarget&) = delete;

  const std::string& name() const { return files_.target; }
  const ArtefactFiles& files() const { return files_; }
  const Artefact& artefact() const { return artefact_; }
  const Graph& graph() const { return artefact_.graph; }
  const std::vector<DLDevice>& devices() const { return devices_; }
  const InputList& inputs() const { return *inputs_; }
  // The index of the graph, without a plan.
  const GraphIndex& index() const { return *index_; }
  // The one with the storage plan of the first device, made when it is first
  // asked for and owned by the target. Fails as PlanStorage().
  absl::StatusOr<const GraphIndex*> PlannedIndex() const;

  // Names the files that the parameters come from, for messages.
  std::string ParamsLocation() const;
  // The parameters that the graph does not have, which nothing reads.
  const std::vector<std::string>& unknown_params() const {
    return unknown_params_;
  }

  // Makes an executor and sets the parameters, then `inputs`, which come from
  // an InputCollector of this target's inputs. Fails as GraphExecutor::Create
  // and GraphExecutor::LoadParams.
  absl::StatusOr<std::unique_ptr<GraphExecutor>> MakeExecutor(
      absl::Span<const RunInput> inputs = {}) const;

  // Set the parameters, or these and then `inputs`, in an executor of this
  // target that the caller has made.
  absl::Status SetParams(GraphExecutor* executor) const;
  absl::Status SetAll(absl::Span<const RunInput> inputs,
                      GraphExecutor* executor) const;

 private:
  GraphTarget(ArtefactFiles files, Artefact artefact,
              std::vector<DLDevice> devices, ParamUse param_use)
      : files_(std::move(files)),
        artefact_(std::move(artefact)),
        devices_(std::move(devices)),
        param_use_(param_use) {}

  static absl::StatusOr<std::shared_ptr<const GraphTarget>> Make(
      ArtefactFiles files, Artefact artefact, std::vector<DLDevice> devices,
      ParamUse param_use);
  // Finds out what is known of the graph before it runs.
  absl::Status Init();

  const ArtefactFiles files_;
  const Artefact artefact_;
  const std::vector<DLDevice> devices_;
  const ParamUse param_use_;
  std::unique_ptr<const InputList> inputs_;
  std::unique_ptr<const GraphIndex> index_;
  mutable std::once_flag is_planned_;
  mutable absl::Status plan_status_;
  mutable StoragePlan plan_;
  mutable std::unique_ptr<const GraphIndex> planned_index_;
  std::vector<std::string> unknown_params_;
};

// What all runners of compiled graphs have in common: an executor, and setting
// its inputs. By itself it is the plain runner, which cannot be looked into.
class GraphRunner : public Runner {
 public:
  // `executor` is one of the target, with its parameters set.
  GraphRunner(std::string_view kind, std::shared_ptr<const GraphTarget> target,
              std::unique_ptr<GraphExecutor> executor);

  const std::string& name() const override { return name_; }
  const InputList& inputs() const override { return target_->inputs(); }
  const std::vector<std::string>& outputs() const override { return outputs_; }
  bool Can(Capability) const override { return false; }

 protected:
  absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                       const RunOptions& options) override;

  const GraphTarget& target() const { return *target_; }
  // Sets the inputs, and the parameters again where a run has changed one.
  absl::Status SetInputs(const std::vector<NDArray>& tensors);
  // Says that this run has given a parameter other contents.
  void ParamsChanged() { are_params_changed_ = true; }
  // Runs all nodes as often as the options say.
  absl::Status RunAll(const RunOptions& options, RunResult* result);

 private:
  const std::string name_;
  const std::shared_ptr<const GraphTarget> target_;
  const std::unique_ptr<GraphExecutor> executor_;
  std::vector<std::string> outputs_;
  bool are_params_changed_ = false;
};

}  // namespace nodewise
