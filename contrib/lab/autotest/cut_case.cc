#include "contrib/lab/autotest/cut_case.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "contrib/lab/autotest/backward_network.h"
#include "contrib/lab/autotest/network_part.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using OperationSet = std::set<OperationId>;

// A network with what the reference makes of everything in it.
struct RecordedRun {
  FailingCase failing;
  std::map<ValueId, NDArray> tensors;
  std::map<ValueId, NDArray> cotangents;  // If the case is a gradient.
};

std::map<ValueId, NDArray> TensorsOf(const FailingCase& failing) {
  const Network& network = SubjectOf(failing.made);
  // In a gradient, cotangents come after them.
  const std::vector<NDArray> inputs(
      failing.set.inputs.begin(),
      failing.set.inputs.begin() +
          static_cast<ptrdiff_t>(network.inputs().size()));
  std::map<ValueId, NDArray> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    tensors[network.inputs()[i]] = inputs[i];
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
  (void)Interpret(network, inputs, options);
  return tensors;
}

// Adds an input to a value, for all that reads it; returns its place among the
// inputs.
absl::StatusOr<size_t> AddTo(ValueId value, Network* network) {
  const TensorType type = network->value(value).type;
  if (!type.is_static() || !IsFloat(type.dtype)) {
    return absl::NotFoundError("nothing can be added to it");
  }
  NODEWISE_ASSIGN_OR_RETURN(const ValueId added, network->AddInput("", type));
  auto sum = network->Add(AllOperators(), ops::Add{}, {value, added});
  if (!sum.ok()) {
    NODEWISE_RETURN_IF_ERROR(network->RemoveInput(added));
    return sum.status();
  }
  NODEWISE_RETURN_IF_ERROR(network->ReplaceUses({value}, {*sum}));
  return network->inputs().size() - 1;
}

// Minus zero, since adding it changes no number, not even another minus zero.
absl::StatusOr<NDArray> MinusZeros(const TensorType& type) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray zeros,
                            NDArray::Empty(*type.sizes(), type.dtype, kCpu));
  const std::vector<double> numbers(static_cast<size_t>(CountOf(zeros)), -0.0);
  StoreDoubles(numbers.data(), 0, CountOf(zeros), zeros);
  return zeros;
}

// Returns what reaches each float that the operations of the network make: a
// zero is added to it, and the gradient is that for the zero.
absl::StatusOr<std::map<ValueId, NDArray>> CotangentsOf(
    const FailingCase& failing) {
  const Network& forward = SubjectOf(failing.made);
  const auto begin = failing.set.inputs.begin();
  const auto given = begin + static_cast<ptrdiff_t>(forward.inputs().size());
  Network network = forward;
  std::vector<ValueId> values;
  std::vector<size_t> wanted;
  std::vector<NDArray> inputs(begin, given);
  for (const OperationId id : forward.order()) {
    for (const ValueId output : forward.operation(id).outputs) {
      if (output == kNoValue) continue;
      const auto input = AddTo(output, &network);
      if (!input.ok()) continue;
      wanted.push_back(*input);
      values.push_back(output);
      NODEWISE_ASSIGN_OR_RETURN(inputs.emplace_back(),
                                MinusZeros(forward.value(output).type));
    }
  }
  inputs.insert(inputs.end(), given, failing.set.inputs.end());
  NODEWISE_ASSIGN_OR_RETURN(const GradientNetwork gradient,
                            GradientOf(network, wanted));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> reaching,
                            Interpret(gradient.network, inputs));
  std::map<ValueId, NDArray> cotangents;
  for (size_t i = 0; i < values.size(); ++i) {
    cotangents[values[i]] = reaching[i];
  }
  return cotangents;
}

// Makes the gradient of a part that has been cut out of a forward network.
absl::Status Differentiate(const RecordedRun& run, FailingCase* part) {
  const Network& network = SubjectOf(run.failing.made);
  NODEWISE_ASSIGN_OR_RETURN(part->made, GradientCaseOf(part->made.configuration,
                                                       *part->made.network));
  const BackwardCase& backward = *part->made.backward;
  for (const size_t output : backward.outputs) {
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId before,
        network.FindValue(
            backward.forward.value(backward.forward.outputs()[output]).name));
    const auto cotangent = run.cotangents.find(before);
    if (cotangent == run.cotangents.end()) {
      return absl::NotFoundError("nothing reaches it");
    }
    part->set.inputs.push_back(cotangent->second);
  }
  return absl::OkStatus();
}

CaseInput InputOf(const FailingCase& failing, const NetworkValue& value,
                  const NDArray& tensor) {
  const Network& network = SubjectOf(failing.made);
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
  const Network& network = SubjectOf(run.failing.made);
  const std::vector<ValueId> from = ReadFromOutside(network, kept);
  NODEWISE_ASSIGN_OR_RETURN(Network part, ExtractNetwork(network, from, to));
  FailingCase made;
  made.made.configuration.opset = run.failing.made.configuration.opset;
  made.made.configuration.demands = run.failing.made.configuration.demands;
  made.set.is_exact = run.failing.set.is_exact;
  const std::vector<ValueId> inputs(part.inputs().begin(), part.inputs().end());
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
  if (run.failing.made.backward != nullptr) {
    NODEWISE_RETURN_IF_ERROR(Differentiate(run, &made));
  }
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
  const Network& network = SubjectOf(failing.made);
  const size_t count = network.order().size();
  std::vector<CaseBuild> builds;
  if (count < 2 && network.outputs().size() < 2) return builds;
  auto recorded = std::make_shared<RecordedRun>();
  recorded->failing = failing;
  recorded->tensors = TensorsOf(failing);
  if (failing.made.backward != nullptr) {
    auto cotangents = CotangentsOf(failing);
    if (!cotangents.ok()) return builds;
    recorded->cotangents = *std::move(cotangents);
  }
  const std::shared_ptr<const RecordedRun> run = std::move(recorded);
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
