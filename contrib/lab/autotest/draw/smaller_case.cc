// Smaller cases to try in the place of one that fails: parts that are cut out
// of its network, and the whole of it with shorter sides.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "contrib/lab/autotest/draw/shrink_case.h"
#include "contrib/lab/autotest/networks/case_network.h"
#include "fmt/format.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

struct RecordedRun {
  FailingCase failing;
  std::map<ValueId, NDArray> tensors;
  std::map<ValueId, NDArray> cotangents;  // If the case is a gradient.
};

// A run that fails half-way leaves what it has made until then; what is missing
// is noticed by the cuts that need it.
std::map<ValueId, NDArray> TensorsOf(const FailingCase& failing) {
  const Network& network = SubjectOf(failing.made);
  // A gradient reads cotangents behind the inputs of the network.
  std::vector<NDArray> inputs = failing.set.inputs;
  inputs.resize(network.inputs().size());
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

// Adds a new input to a value, for all that reads the value, and returns the
// place of the input. It is removed again if the sum cannot be made, so that
// the network stays sound.
absl::StatusOr<size_t> AddTo(ValueId value, Network* network) {
  const TensorType type = network->value(value).type;
  if (!type.is_static() || !IsFloat(type.dtype)) {
    return NotFound("nothing can be added to it");
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
  const std::vector<int64_t> sizes = *type.sizes();
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(sizes));
  return TensorOfDoubles(type.dtype, sizes,
                         std::vector<double>(static_cast<size_t>(count), -0.0));
}

// Returns what reaches each float that the operations of the network make: a
// zero is added to it, and the gradient is that for the zero.
absl::StatusOr<std::map<ValueId, NDArray>> CotangentsOf(
    const FailingCase& failing) {
  const Network& forward = SubjectOf(failing.made);
  const auto begin = failing.set.inputs.begin();
  const auto given = begin + static_cast<ptrdiff_t>(forward.inputs().size());
  Network network = forward;
  ValueIds values;
  std::vector<size_t> wanted;
  std::vector<NDArray> inputs(begin, given);
  for (const OperationId id : forward.order()) {
    for (const ValueId output : OutputsOf(forward.operation(id))) {
      const auto input = AddTo(output, &network);
      if (!input.ok()) continue;
      wanted.push_back(*input);
      values.push_back(output);
      NODEWISE_ASSIGN_OR_RETURN(inputs.emplace_back(),
                                MinusZeros(forward.value(output).type));
    }
  }
  inputs.insert(inputs.end(), given, failing.set.inputs.end());
  NODEWISE_ASSIGN_OR_RETURN(const auto gradient, GradientOf(network, wanted));
  NODEWISE_ASSIGN_OR_RETURN(const auto reaching,
                            Interpret(gradient.network, inputs));
  std::map<ValueId, NDArray> cotangents;
  for (size_t i = 0; i < values.size(); ++i) {
    cotangents[values[i]] = reaching[i];
  }
  return cotangents;
}

// Makes the gradient of a part that has been cut out of a forward network.
// The outputs of the part are weighed by what has reached these tensors
// in the whole network, so that the part gets the numbers that it failed with.
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
      return NotFound("nothing reaches it");
    }
    part->set.inputs.push_back(cotangent->second);
  }
  return absl::OkStatus();
}

// An input of the whole network stays what it was. A tensor at the cut was not
// drawn, so that any of its numbers may be made simpler.
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
// Values are found by their names, which a part keeps, while their numbers
// change. Types of inputs become those of the tensors: the network may have
// left sizes open.
absl::StatusOr<FailingCase> Cut(const RecordedRun& run,
                                const OperationSet& kept, const ValueIds& to) {
  const Network& network = SubjectOf(run.failing.made);
  const ValueIds from = InputsFromOutside(network, kept);
  NODEWISE_ASSIGN_OR_RETURN(Network part, ExtractNetwork(network, from, to));
  FailingCase made;
  made.made.configuration.opset = run.failing.made.configuration.opset;
  made.made.configuration.demands = run.failing.made.configuration.demands;
  made.set.is_exact = run.failing.set.is_exact;
  const ValueIds inputs(part.inputs().begin(), part.inputs().end());
  for (const ValueId id : inputs) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId before,
                              network.FindValue(part.value(id).name));
    const auto tensor = run.tensors.find(before);
    if (tensor == run.tensors.end() || !tensor->second.defined()) {
      return NotFound("the reference does not make it");
    }
    made.set.inputs.push_back(tensor->second);
    made.made.configuration.inputs.push_back(
        InputOf(run.failing, network.value(before), tensor->second));
    NODEWISE_RETURN_IF_ERROR(
        part.SetInputType(id, TensorType::From(*tensor->second)));
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

// Returns all operations that a value depends on.
OperationSet Makers(const Network& network, ValueId of) {
  OperationSet makers;
  ValueIds open = {of};
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

using Sides = std::vector<int64_t>;

// What becomes of the whole numbers that may stand for sizes and places.
// Nothing says which of them do, so all ways are tried, and those that are
// wrong are refused by the rules, or do not fail alike.
enum class SizeNumbers {
  kKept,
  kEqual,      // Those of the size change.
  kMultiples,  // And those of so many times the size.
  kPlaces,     // And places beyond what is left become the last one.
};

struct Place {
  ValueId value = kNoValue;
  size_t side = 0;
};

struct SideChange {
  int64_t from = 0;
  int64_t to = 0;
  SizeNumbers numbers = SizeNumbers::kKept;
  bool keeps_last = false;  // Elements, not the first ones.
  std::optional<Place> only = std::nullopt;

  // What becomes of a side, or of a number that stands for one.
  int64_t Shrunk(int64_t size) const {
    if (size == from) return to;
    const bool is_multiple =
        numbers == SizeNumbers::kMultiples && size > 0 && size % from == 0;
    return is_multiple ? size / from * to : size;
  }
  int64_t ShrunkNumber(int64_t number) const {
    if (numbers == SizeNumbers::kKept) return number;
    if (numbers == SizeNumbers::kPlaces && number >= to && number < from) {
      return to - 1;
    }
    return Shrunk(number);
  }
  Sides ShrunkShape(ValueId value, absl::Span<const int64_t> shape) const {
    Sides sides(shape.begin(), shape.end());
    for (size_t i = 0; i < sides.size(); ++i) {
      const bool changes =
          !only.has_value() || (only->value == value && only->side == i);
      if (changes) sides[i] = Shrunk(sides[i]);
    }
    return sides;
  }
};

absl::StatusOr<NDArray> Part(const NDArray& tensor, const Sides& shape,
                             bool keeps_last) {
  const auto before = tensor.shape();
  if (shape.size() != before.size()) {
    return InvalidArgument("another rank");
  }
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(shape));
  const std::vector<double> from = ToDoubles(tensor);
  std::vector<double> to(static_cast<size_t>(count));
  for (size_t i = 0; i < to.size(); ++i) {
    size_t rest = i;
    size_t place = 0;
    size_t stride = 1;
    for (size_t side = shape.size(); side-- > 0;) {
      const auto size = static_cast<size_t>(shape[side]);
      const auto all = static_cast<size_t>(before[side]);
      if (size > all) return InvalidArgument("a larger side");
      const size_t skipped = keeps_last ? all - size : 0;
      place += (skipped + rest % size) * stride;
      rest /= size;
      stride *= all;
    }
    to[i] = from[place];
  }
  return TensorOfDoubles(tensor.dtype(), shape, to);
}

// Contents that a configuration has decided on are sizes, counts or places, and
// any of the ways may be right; numbers that were drawn can only be places.
absl::StatusOr<NDArray> Smaller(ValueId id, const NDArray& tensor,
                                bool is_decided, const SideChange& change) {
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray part,
      Part(tensor, change.ShrunkShape(id, tensor.shape()), change.keeps_last));
  const bool may_be_sizes = part.dtype() == kInt64 || part.dtype() == kInt32;
  if (!may_be_sizes || change.numbers == SizeNumbers::kKept ||
      (!is_decided && change.numbers != SizeNumbers::kPlaces)) {
    return part;
  }
  std::vector<double> numbers = ToDoubles(part);
  for (double& number : numbers) {
    // A Slice may end at the largest number there is, which is not a size.
    if (number < 0 || number > 1e9) continue;
    number =
        static_cast<double>(change.ShrunkNumber(static_cast<int64_t>(number)));
  }
  return TensorOfDoubles(part.dtype(), part.shape(), numbers);
}

bool ChangeNumbers(const SideChange& change, std::vector<NamedAttr>* named) {
  if (change.numbers == SizeNumbers::kKept) return false;
  bool has_changed = false;
  for (NamedAttr& attr : *named) {
    auto* const list = std::get_if<std::vector<int64_t>>(&attr.value);
    if (list == nullptr) continue;
    for (int64_t& number : *list) {
      const int64_t before = number;
      number = change.Shrunk(number);
      has_changed = has_changed || number != before;
    }
  }
  return has_changed;
}

absl::StatusOr<OpAttrs> WithOtherNumbers(const OpAttrs& attrs,
                                         const SideChange& change) {
  std::vector<NamedAttr> named = NamedAttrsOf(attrs);
  if (!ChangeNumbers(change, &named)) return attrs;
  return MakeAttrs(attrs.def(), named);
}

// Adds what weighs the outputs of a gradient, as large as these are now.
absl::Status AddCotangents(const FailingCase& before, bool keeps_last,
                           FailingCase* made) {
  const Network& network = *made->made.network;
  for (size_t i = made->set.inputs.size(); i < network.inputs().size(); ++i) {
    const auto sizes = network.value(network.inputs()[i]).type.sizes();
    if (!sizes.has_value() || i >= before.set.inputs.size()) {
      return InvalidArgument("other outputs");
    }
    NODEWISE_ASSIGN_OR_RETURN(made->set.inputs.emplace_back(),
                              Part(before.set.inputs[i], *sizes, keeps_last));
  }
  return absl::OkStatus();
}

// An input has its shape told beside its contents.
void ReplaceTensor(const NDArray& tensor, CaseInput* input) {
  if (input->fixed.defined()) input->fixed = tensor;
  input->shape = Sides(tensor.shape().begin(), tensor.shape().end());
}

absl::StatusOr<Network> SmallerOperator(const FailingCase& before,
                                        const SideChange& change,
                                        FailingCase* made) {
  const Network& network = SubjectOf(before.made);
  Configuration& configuration = made->made.configuration;
  size_t given = 0;
  for (size_t i = 0; i < configuration.inputs.size(); ++i) {
    CaseInput& input = configuration.inputs[i];
    if (!input.is_given) continue;
    NODEWISE_ASSIGN_OR_RETURN(const ValueId id,
                              network.FindValue(fmt::format("x{}", i)));
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray tensor,
        Smaller(id,
                input.is_constant ? input.fixed : before.set.inputs[given++],
                input.fixed.defined(), change));
    ReplaceTensor(tensor, &input);
    if (!input.is_constant) made->set.inputs.push_back(tensor);
  }
  ChangeNumbers(change, &configuration.attributes);
  return NetworkOf(configuration);
}

absl::StatusOr<Network> SmallerNetwork(const FailingCase& before,
                                       const SideChange& change,
                                       FailingCase* made) {
  const Network& network = SubjectOf(before.made);
  NetworkChanges changes;
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    const ValueId id = network.inputs()[i];
    CaseInput& input = made->made.configuration.inputs[i];
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray tensor,
        Smaller(id, before.set.inputs[i], input.fixed.defined(), change));
    ReplaceTensor(tensor, &input);
    changes.inputs[id] = TensorType::From(*tensor);
    made->set.inputs.push_back(tensor);
  }
  for (const auto& value : network.data().values) {
    if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant) {
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(changes.constants[value->id],
                              Smaller(value->id, value->data, true, change));
  }
  changes.attributes = [&change](const OpAttrs& attrs) {
    return WithOtherNumbers(attrs, change);
  };
  Network smaller(network.name());
  for (const auto& [domain, version] : network.data().opsets) {
    NODEWISE_RETURN_IF_ERROR(smaller.SetOpset(domain, version));
  }
  NODEWISE_ASSIGN_OR_RETURN(auto outputs,
                            AddCopy(network, "", changes, &smaller));
  NODEWISE_RETURN_IF_ERROR(smaller.SetOutputs(std::move(outputs)));
  return smaller;
}

// Most of these cases are not legal, and are refused by a rule of an operator
// on the way: that is left to the rules, since only they know which sides have
// to agree.
absl::StatusOr<FailingCase> WithSmallerSides(const FailingCase& before,
                                             const SideChange& change) {
  FailingCase made;
  made.made.configuration = before.made.configuration;
  made.set.is_exact = before.set.is_exact;
  NODEWISE_ASSIGN_OR_RETURN(Network smaller,
                            before.made.configuration.is_network()
                                ? SmallerNetwork(before, change, &made)
                                : SmallerOperator(before, change, &made));
  if (before.made.backward == nullptr) {
    made.made.network = std::make_shared<const Network>(std::move(smaller));
  } else {
    NODEWISE_ASSIGN_OR_RETURN(
        made.made,
        GradientCaseOf(std::move(made.made.configuration), std::move(smaller)));
    NODEWISE_RETURN_IF_ERROR(AddCotangents(before, change.keeps_last, &made));
  }
  made.expected = CaseReference(made.made).Run(made.set.inputs);
  NODEWISE_RETURN_IF_ERROR(made.expected.status());
  return made;
}

// Returns the sides of inputs and constants, by their sizes, the largest first.
std::map<int64_t, std::vector<Place>, std::greater<>> PlacesOf(
    const FailingCase& failing) {
  const Network& network = SubjectOf(failing.made);
  std::map<int64_t, std::vector<Place>, std::greater<>> places;
  const auto add = [&places](ValueId id, absl::Span<const int64_t> shape) {
    for (size_t side = 0; side < shape.size(); ++side) {
      if (shape[side] > 1) places[shape[side]].push_back({id, side});
    }
  };
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    add(network.inputs()[i], failing.set.inputs[i].shape());
  }
  for (const auto& value : network.data().values) {
    if (value.has_value() && value->kind == NetworkValue::Kind::kConstant) {
      add(value->id, value->data.shape());
    }
  }
  return places;
}

}  // namespace

// The run is recorded once for all cuts, which share it.
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
  const auto add = [&](OperationSet kept, ValueIds to) {
    builds.push_back([run, kept = std::move(kept), to = std::move(to)] {
      return Cut(*run, kept, to);
    });
  };
  for (const OperationId id : network.order()) {
    if (count > 1) add({id}, OutputsOf(network.operation(id)));
  }
  const bool has_one_output = network.outputs().size() == 1;
  for (const OperationId id : network.order()) {
    for (const ValueId output : OutputsOf(network.operation(id))) {
      const OperationSet makers = Makers(network, output);
      if (makers.size() < count || !has_one_output) add(makers, {output});
    }
  }
  const ValueIds outputs(network.outputs().begin(), network.outputs().end());
  for (const OperationId id : network.order()) {
    OperationSet kept(network.order().begin(), network.order().end());
    kept.erase(id);
    const auto is_made = [&](ValueId output) {
      return network.value(output).producer != id;
    };
    if (std::ranges::all_of(outputs, is_made)) add(std::move(kept), outputs);
  }
  return builds;
}

// The largest size first, and of it the smallest ends: these save most. All
// sides of one size together come before single ones, since operators want most
// of them to agree.
std::vector<CaseBuild> SmallerSidesOf(const FailingCase& failing) {
  const auto before = std::make_shared<const FailingCase>(failing);
  std::vector<CaseBuild> builds;
  const auto add = [&](const SideChange& change) {
    for (const bool keeps_last : {false, true}) {
      SideChange each = change;
      each.keeps_last = keeps_last;
      builds.push_back(
          [before, each] { return WithSmallerSides(*before, each); });
    }
  };
  for (const auto& [size, places] : PlacesOf(failing)) {
    for (const int64_t to : std::set<int64_t>{1, 2, 3, size / 2, size - 1}) {
      if (to >= size) continue;
      for (const SizeNumbers numbers :
           {SizeNumbers::kEqual, SizeNumbers::kKept, SizeNumbers::kMultiples,
            SizeNumbers::kPlaces}) {
        add({size, to, numbers});
      }
      if (places.size() == 1) continue;
      for (const Place& place : places) {
        add({size, to, SizeNumbers::kKept, false, place});
      }
    }
  }
  return builds;
}

}  // namespace nodewise
