#include "contrib/autotest/cut_case.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/subnetwork.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using OperationSet = std::set<OperationId>;

// A network with what the reference makes of everything in it.
struct RecordedRun {
  FailingCase failing;
  std::map<ValueId, NDArray> tensors;
};

std::map<ValueId, NDArray> TensorsOf(const FailingCase& failing) {
  const Network& network = *failing.made.network;
  std::map<ValueId, NDArray> tensors;
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    tensors[network.inputs()[i]] = failing.set.inputs[i];
  }
  InterpretOptions options;
  options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
    for (size_t i = 0; i < run.operation.outputs.size(); ++i) {
      if (run.operation.outputs[i] != kNoValue) {
        tensors[run.operation.outputs[i]] = run.result.outputs[i];
      }
    }
    return false;
  };
  (void)Interpret(network, failing.set.inputs, options);
  return tensors;
}

CaseInput InputOf(const FailingCase& failing, const NetworkValue& value,
                  const NDArray& tensor) {
  const Network& network = *failing.made.network;
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    if (network.inputs()[i] == value.id) {
      return failing.made.configuration.inputs[i];
    }
  }
  const auto shape = tensor.shape();
  return {true, tensor.dtype(), {shape.begin(), shape.end()}};
}

// Returns the part of the network that makes `to` with these operations alone.
absl::StatusOr<FailingCase> Cut(const RecordedRun& run,
                                const OperationSet& kept,
                                const std::vector<ValueId>& to) {
  const Network& network = *run.failing.made.network;
  std::vector<ValueId> from;
  for (const OperationId id : kept) {
    for (const ValueId input : network.operation(id).inputs) {
      if (input == kNoValue) continue;
      const NetworkValue& value = network.value(input);
      const bool is_outside = value.kind == NetworkValue::Kind::kOutput
                                  ? kept.count(value.producer) == 0
                                  : value.kind == NetworkValue::Kind::kInput;
      if (is_outside &&
          std::find(from.begin(), from.end(), input) == from.end()) {
        from.push_back(input);
      }
    }
  }
  NODEWISE_ASSIGN_OR_RETURN(Network part, ExtractNetwork(network, from, to));
  FailingCase made;
  made.made.configuration.opset = run.failing.made.configuration.opset;
  made.made.configuration.demands = run.failing.made.configuration.demands;
  made.set.is_exact = run.failing.set.is_exact;
  const std::vector<ValueId> inputs(part.inputs().begin(),
                                    part.inputs().end());
  for (const ValueId id : inputs) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId before,
                              network.FindValue(part.value(id).name));
    const auto tensor = run.tensors.find(before);
    if (tensor == run.tensors.end() || !tensor->second.defined()) {
      return absl::NotFoundError("the reference does not make it");
    }
    made.set.inputs.push_back(tensor->second);
    made.made.configuration.inputs.push_back(
        InputOf(run.failing, network.value(before), tensor->second));
    NODEWISE_RETURN_IF_ERROR(
        part.SetInputType(id, TensorType::Of(*tensor->second)));
  }
  made.made.network = std::make_shared<const Network>(std::move(part));
  made.made.exact = nullptr;
  made.expected = CaseReference(made.made).Run(made.set.inputs);
  NODEWISE_RETURN_IF_ERROR(made.expected.status());
  return made;
}

std::vector<ValueId> OutputsOf(const Operation& operation) {
  std::vector<ValueId> outputs;
  for (const ValueId id : operation.outputs) {
    if (id != kNoValue) outputs.push_back(id);
  }
  return outputs;
}

// Returns what makes a value.
OperationSet Makers(const Network& network, ValueId of) {
  OperationSet makers;
  std::vector<ValueId> open = {of};
  while (!open.empty()) {
    const NetworkValue& value = network.value(open.back());
    open.pop_back();
    if (value.kind != NetworkValue::Kind::kOutput ||
        !makers.insert(value.producer).second) {
      continue;
    }
    for (const ValueId id : network.operation(value.producer).inputs) {
      if (id != kNoValue) open.push_back(id);
    }
  }
  return makers;
}

}  // namespace

std::vector<CaseBuild> CutsOf(const FailingCase& failing) {
  const Network& network = *failing.made.network;
  const size_t count = network.order().size();
  std::vector<CaseBuild> builds;
  // A part of a gradient is no gradient of the operation.
  if (failing.made.backward != nullptr) return builds;
  if (count < 2 && network.outputs().size() < 2) return builds;
  const auto run = std::make_shared<const RecordedRun>(
      RecordedRun{failing, TensorsOf(failing)});
  const auto add = [&](OperationSet kept, std::vector<ValueId> to) {
    builds.push_back([run, kept = std::move(kept), to = std::move(to)] {
      return Cut(*run, kept, to);
    });
  };
  for (const OperationId id : network.order()) {
    const auto outputs = OutputsOf(network.operation(id));
    if (count > 1) add({id}, outputs);
  }
  const bool has_one_output = network.outputs().size() == 1;
  for (const OperationId id : network.order()) {
    for (const ValueId output : OutputsOf(network.operation(id))) {
      const OperationSet makers = Makers(network, output);
      if (makers.size() < count || !has_one_output) add(makers, {output});
    }
  }
  const std::vector<ValueId> outputs(network.outputs().begin(),
                                     network.outputs().end());
  for (const OperationId id : network.order()) {
    OperationSet kept(network.order().begin(), network.order().end());
    kept.erase(id);
    const auto is_made = [&](ValueId output) {
      return network.value(output).producer != id;
    };
    if (std::all_of(outputs.begin(), outputs.end(), is_made)) {
      add(std::move(kept), outputs);
    }
  }
  return builds;
}

}  // namespace nodewise
