#include "nodewise/runner/network_runner.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Sees the operations of one run: hands what they make to the sink, and ends
// the run where the rule says.
struct OperationObserver {
  const Network& network;
  const std::string& source;
  const RunOptions& options;
  RunResult& result;
  OperationId until = kNoOperation;

  // Finds the operation of the stop rule.
  absl::Status Prepare() {
    if (!options.stop.has_value() || options.stop->node.empty()) {
      return absl::OkStatus();
    }
    const auto operation = network.FindOperation(options.stop->node);
    if (!operation.ok()) return At(options.stop->where, operation.status());
    until = *operation;
    return absl::OkStatus();
  }

  absl::Status EmitInputs(const std::vector<NDArray>& tensors) const {
    for (size_t i = 0; i < tensors.size() && options.sink != nullptr; ++i) {
      NODEWISE_RETURN_IF_ERROR(
          Emit(network.inputs()[i], tensors[i],
               [](TensorItem* item) { item->is_network_input = true; }));
    }
    return absl::OkStatus();
  }

  // Tensors go out before the rule is looked at, so that a sink has seen the
  // node at which the run stops.
  absl::StatusOr<bool> Observe(const OperationRun& run) {
    if (options.sink != nullptr) NODEWISE_RETURN_IF_ERROR(EmitOutputs(run));
    if (!options.stop.has_value()) return false;
    const bool made_value = options.stop->values.has_value() && MadeValue(run);
    if (!made_value && until != run.operation.id) return false;
    return Stop(run, made_value);
  }

 private:
  const std::string& NameOf(ValueId id) const { return network.value(id).name; }

  // `complete` adds what else is known of the tensor.
  absl::Status Emit(ValueId id, const NDArray& tensor,
                    absl::FunctionRef<void(TensorItem*)> complete) const {
    if (!options.Selects(NameOf(id))) return absl::OkStatus();
    const TensorKey key{NameOf(id), 0, TensorRole::kOutput, source};
    TensorItem item = ItemOf(key, tensor);
    complete(&item);
    return options.sink->Consume(item);
  }

  absl::Status EmitOutputs(const OperationRun& run) const {
    for (size_t i = 0; i < run.operation.outputs.size(); ++i) {
      if (!IsMade(run, i)) continue;
      const auto complete = [&](TensorItem* item) {
        item->time = run.time;
        if (!options.with_bounds || i >= run.result.bounds.size()) return;
        item->proved_bounds = run.result.bounds[i].proved;
        item->expected_bounds = run.result.bounds[i].expected;
      };
      NODEWISE_RETURN_IF_ERROR(
          Emit(run.operation.outputs[i], run.result.outputs[i], complete));
    }
    return absl::OkStatus();
  }

  static bool IsMade(const OperationRun& run, size_t output) {
    return run.operation.outputs[output] != kNoValue &&
           run.result.outputs[output].defined();
  }

  // A type without numbers is noted and passed over, since nothing can be said
  // of its values.
  bool MadeValue(const OperationRun& run) {
    for (size_t i = 0; i < run.result.outputs.size(); ++i) {
      if (!IsMade(run, i)) continue;
      const NDArray& tensor = run.result.outputs[i];
      if (!HasNumbers(tensor.dtype())) {
        result.unread.push_back(
            {NameOf(run.operation.outputs[i]), tensor.dtype()});
      } else if (HoldsValue(StatsOf(*tensor), *options.stop->values)) {
        return true;
      }
    }
    return false;
  }

  absl::StatusOr<bool> Stop(const OperationRun& run, bool made_value) {
    const Operation& operation = run.operation;
    result.stopped = StopPlace{
        operation.name,
        fmt::format("operation {} ({})", operation.name, operation.kind()),
        std::string(operation.kind()), made_value};
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      if (operation.outputs[i] == kNoValue) continue;
      NODEWISE_ASSIGN_OR_RETURN(NDArray copy,
                                run.result.outputs[i].CopyToHost());
      result.outputs.push_back({NameOf(operation.outputs[i]), std::move(copy)});
    }
    return true;
  }
};

class NetworkRunner : public Runner {
 public:
  NetworkRunner(std::string name, std::shared_ptr<const Network> network,
                const Evaluator& evaluator)
      : name_(std::move(name)),
        network_(std::move(network)),
        interpreter_(*network_, evaluator),
        inputs_(ListInputs(*network_)) {
    // A value may be an output twice.
    std::vector<std::string> names;
    for (const ValueId id : network_->outputs()) {
      names.push_back(network_->value(id).name);
    }
    outputs_ = UniqueNames(names);
  }

  const std::string& name() const override { return name_; }
  const InputList& inputs() const override { return *inputs_; }
  const std::vector<std::string>& outputs() const override { return outputs_; }
  bool Can(Capability capability) const override {
    return capability != Capability::kNodeInputs;
  }

 protected:
  absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                       const RunOptions& options) override {
    RunResult result;
    OperationObserver observer{*network_, name_, options, result};
    NODEWISE_RETURN_IF_ERROR(observer.Prepare());
    InterpretOptions interpret;
    interpret.with_bounds = options.with_bounds;
    NODEWISE_RETURN_IF_ERROR(
        TakePatches(options.patches, &tensors, &interpret.replaced));
    // Without an observer the interpreter frees tensors as early as it can.
    if (options.sink != nullptr || options.stop.has_value()) {
      interpret.observe = [&](const OperationRun& run) {
        return observer.Observe(run);
      };
    }
    std::vector<NDArray> outputs;
    for (uint64_t i = 0; i < options.repeats; ++i) {
      // A sink sees every repeat as a whole run; the time of handing out is not
      // that of the network.
      NODEWISE_RETURN_IF_ERROR(observer.EmitInputs(tensors));
      const int64_t start_ns = ClockNanoseconds();
      NODEWISE_ASSIGN_OR_RETURN(outputs, interpreter_.Run(tensors, interpret));
      result.durations_ns.push_back(ClockNanoseconds() - start_ns);
      if (result.stopped.has_value()) return result;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      // A constant, an input or what a sink keeps would be the caller's too.
      if (!outputs[i].is_held_once()) {
        NODEWISE_ASSIGN_OR_RETURN(outputs[i], outputs[i].CopyToHost());
      }
      result.outputs.push_back({outputs_[i], std::move(outputs[i])});
    }
    return result;
  }

 private:
  // A patch of an input takes the place of what was given.
  absl::Status TakePatches(const std::vector<TensorPatch>& patches,
                           std::vector<NDArray>* inputs,
                           std::map<ValueId, NDArray>* replaced) const {
    std::set<ValueId> patched;
    for (const TensorPatch& patch : patches) {
      const auto id = network_->FindValue(patch.entry);
      if (!id.ok()) return At(patch.where, id.status());
      const NetworkValue& value = network_->value(*id);
      NODEWISE_RETURN_IF_ERROR(At(patch.where, CheckPatch(patch, value)));
      // The interpreter may write over a tensor that it holds alone, and the
      // patch is the caller's.
      auto tensor = patch.tensor.CopyToHost();
      if (!tensor.ok()) return At(patch.where, tensor.status());
      if (!patched.insert(*id).second) {
        return At(patch.where,
                  InvalidArgument("{}: value {}: is given twice, expected once",
                                  patch.from, patch.entry));
      }
      if (value.kind != NetworkValue::Kind::kInput) {
        (*replaced)[*id] = *std::move(tensor);
        continue;
      }
      for (size_t i = 0; i < inputs->size(); ++i) {
        if (network_->inputs()[i] == *id) (*inputs)[i] = *tensor;
      }
    }
    return absl::OkStatus();
  }

  const std::string name_;
  const std::shared_ptr<const Network> network_;
  const Interpreter interpreter_;
  const std::unique_ptr<const InputList> inputs_;
  std::vector<std::string> outputs_;
};

}  // namespace

std::unique_ptr<Runner> MakeNetworkRunner(
    const std::string& kind, const std::string& target,
    std::shared_ptr<const Network> network, const Evaluator& evaluator) {
  return std::make_unique<NetworkRunner>(kind + " " + target,
                                         std::move(network), evaluator);
}

}  // namespace nodewise
