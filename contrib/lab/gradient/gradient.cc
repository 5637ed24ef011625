
#include <algorithm>
#include <initializer_list>

#include "contrib/lab/gradient/rules.h"
#include "fmt/format.h"
#include "nodewise/precision/raise_opset.h"
#include "nodewise/support/check.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise::gradient {
namespace {

// Operators that make floats of floats and have neither a rule nor a
// definition: a new operator stands here until it has one in the table of its
// *_rules.cc. A test compares the list with what cannot be differentiated, in
// both directions, so that a line that is not needed any more is found, too.
constexpr std::initializer_list<std::string_view> kWithoutGradient = {};

// Scatter operators can add up elements since this opset, which rules need.
constexpr int kLeastOpset = 16;

// Definitions may use operators that are defined, as those of recurrent layers
// use Clip. One that led back to itself would be written out for ever.
constexpr int kMostRounds = 8;

const Row* FindRow(const void* type) {
  for (const auto rows :
       {ElementwiseRows(), SumRows(), WindowRows(), FourierRows(), MoveRows(),
        ImageRows(), SequenceRows(), ControlRows()}) {
    for (const Row& row : rows) {
      if (row.type == type) return &row;
    }
  }
  return nullptr;
}

bool IsFloatValue(const Network& network, ValueId id) {
  return id != kNoValue && IsFloat(network.value(id).type.dtype);
}

// Returns whether what depends on these values reaches the operation, and has
// a gradient there: that of an operator which is constant nearly everywhere is
// zero.
bool PropagatesGradient(const Operation& operation,
                        const std::set<ValueId>& values) {
  const auto reaches = [&](ValueId id) { return values.contains(id); };
  if (std::ranges::none_of(operation.inputs, reaches)) return false;
  const Row* const row = FindRow(operation.def().type);
  return row == nullptr || row->kind != GradientKind::kZero;
}

std::string PlaceOf(const Operation& operation) {
  return fmt::format("operation {}: {}", Shortened(operation.name),
                     operation.kind());
}

// Replaces one operation by its definition in simpler operators. A formula may
// calculate in another type than the output has, such as a longer one than
// 16-bit floats.
absl::Status Define(const Operation& operation, const Row& row,
                    const std::set<ValueId>& path, Network* network) {
  Writer writer(network);
  Rule rule{operation, {}, path, writer};
  const Terms outputs = row.define(rule);
  NODEWISE_RETURN_IF_ERROR(writer.status());
  std::vector<ValueId> from, to;
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    const ValueId output = operation.outputs[i];
    if (output == kNoValue) continue;
    NODEWISE_CHECK(i < outputs.size());
    from.push_back(output);
    to.push_back(CastTo(outputs[i], network->value(output).type.dtype).id());
  }
  NODEWISE_RETURN_IF_ERROR(writer.status());
  NODEWISE_RETURN_IF_ERROR(network->ReplaceUses(from, to));
  return network->Remove(operation.id);
}

// Writes each operation that depends on these values and has a definition in
// simpler operators. Fails as GradientOf does.
absl::Status ExpandDefinitions(absl::Span<const ValueId> from,
                               Network* network) {
  for (int round = 0; round < kMostRounds; ++round) {
    const std::set<ValueId> path = PathFrom(*network, from);
    bool is_done = true;
    for (const OperationId id : OrderOf(*network)) {
      // A copy: what is written moves the network's operations.
      const Operation operation = network->operation(id);
      const Row* const row = FindRow(operation.def().type);
      if (row == nullptr || row->define == nullptr) continue;
      if (!PropagatesGradient(operation, path)) continue;
      is_done = false;
      NODEWISE_RETURN_IF_ERROR(Define(operation, *row, path, network));
    }
    if (is_done) return absl::OkStatus();
  }
  return Internal("definitions of operators have no end");
}

// Goes back through a network, from its last operation to its first. What
// reaches a value is complete when the operation that makes it is come to,
// since all that read it stand behind it.
class GradientMaker {
 public:
  explicit GradientMaker(Network network) : network_(std::move(network)) {
    for (const ValueId id : network_.outputs()) {
      output_names_.push_back(network_.value(id).name);
    }
  }

  absl::StatusOr<GradientNetwork> Make(absl::Span<const size_t> inputs) {
    NODEWISE_RETURN_IF_ERROR(Expand(inputs));
    GradientNetwork made;
    NODEWISE_RETURN_IF_ERROR(AddCotangents(&made));
    forward_ = network_.data().values.size();
    const std::vector<OperationId> order = OrderOf(network_);
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      NODEWISE_RETURN_IF_ERROR(Backpropagate(*id));
    }
    NODEWISE_RETURN_IF_ERROR(SetGradients(inputs));
    network_.RemoveUnused();
    made.inputs.assign(inputs.begin(), inputs.end());
    made.network = std::move(network_);
    return made;
  }

  absl::StatusOr<Network> WriteOut(absl::Span<const size_t> inputs) {
    NODEWISE_RETURN_IF_ERROR(Expand(inputs));
    network_.RemoveUnused();
    return std::move(network_);
  }

 private:
  absl::Status Expand(absl::Span<const size_t> inputs) {
    std::vector<ValueId> from;
    for (const size_t input : inputs) {
      from.push_back(network_.inputs()[input]);
    }
    NODEWISE_RETURN_IF_ERROR(CloseBodies(&network_));
    NODEWISE_RETURN_IF_ERROR(ExpandDefinitions(from, &network_));
    path_ = PathFrom(network_, from);
    return absl::OkStatus();
  }

  // Cotangents are inputs behind those of the network, in the order of the
  // outputs. An integer has none.
  absl::Status AddCotangents(GradientNetwork* made) {
    const std::vector<ValueId> outputs(network_.outputs().begin(),
                                       network_.outputs().end());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!IsFloatValue(network_, outputs[i])) continue;
      made->outputs.push_back(i);
      NODEWISE_ASSIGN_OR_RETURN(
          const ValueId cotangent,
          network_.AddInput(FreeName(network_, "cotangent_" + output_names_[i]),
                            network_.value(outputs[i]).type));
      reaching_[outputs[i]].push_back(writer_.TermOf(cotangent));
    }
    if (!made->outputs.empty()) return absl::OkStatus();
    return InvalidArgument(
        "no output is a float, so that there is no gradient");
  }

  // Returns the sum of all that reaches a value; an empty term if nothing does.
  Term Reaching(ValueId id) {
    const auto found = reaching_.find(id);
    if (found == reaching_.end()) return {};
    Terms& terms = found->second;
    if (terms.size() > 1) terms = {writer_.Add(ops::Sum{}, terms)};
    return terms[0];
  }

  // Does nothing for an operation that no wanted input leads to, or whose
  // results nothing has reached.
  absl::Status Backpropagate(OperationId id) {
    // A copy: what the rule adds moves the network's operations.
    const Operation operation = network_.operation(id);
    if (!PropagatesGradient(operation, path_)) return absl::OkStatus();
    Terms cotangents;
    bool is_reached = false;
    for (const ValueId output : operation.outputs) {
      cotangents.push_back(output == kNoValue ? Term() : Reaching(output));
      is_reached = is_reached || cotangents.back().is_given();
    }
    if (!is_reached) return absl::OkStatus();
    const Row* const row = FindRow(operation.def().type);
    if (row == nullptr) {
      return Unimplemented("{} has no gradient yet", PlaceOf(operation));
    }
    Rule rule{operation, std::move(cotangents), path_, writer_};
    row->GiveGradients(rule);
    NODEWISE_RETURN_IF_ERROR(writer_.status());
    for (const auto& [slot, term] : rule.given) {
      const ValueId input = operation.inputs[slot];
      if (path_.contains(input)) reaching_[input].push_back(term);
    }
    return absl::OkStatus();
  }

  absl::Status SetGradients(absl::Span<const size_t> inputs) {
    std::vector<ValueId> outputs;
    for (const size_t input : inputs) {
      const ValueId id = network_.inputs()[input];
      Term gradient = Reaching(id);
      // Nothing that can be differentiated leads from here to an output.
      if (!gradient.is_given()) gradient = ZerosLike(writer_.TermOf(id));
      // What is made elsewhere, or stands for two inputs, keeps its name.
      if (gradient.is_given() &&
          (Index(gradient.id()) < forward_ ||
           std::ranges::count(outputs, gradient.id()) > 0)) {
        gradient = Apply(ops::Identity{}, gradient);
      }
      NODEWISE_RETURN_IF_ERROR(writer_.status());
      NODEWISE_RETURN_IF_ERROR(network_.Rename(
          gradient.id(),
          FreeName(network_, "gradient_" + network_.value(id).name)));
      outputs.push_back(gradient.id());
    }
    return network_.SetOutputs(std::move(outputs));
  }

  Network network_;
  Writer writer_{&network_};
  // The names of the outputs, before definitions replace operations.
  std::vector<std::string> output_names_;
  size_t forward_ = 0;  // Values below are not of the gradient.
  std::set<ValueId> path_;
  std::map<ValueId, Terms> reaching_;
};

// Returns the network in an opset that rules need.
absl::StatusOr<Network> ReadyFor(const Network& network,
                                 absl::Span<const size_t> inputs) {
  for (const size_t input : inputs) {
    if (input < network.inputs().size() &&
        IsFloatValue(network, network.inputs()[input])) {
      continue;
    }
    return InvalidArgument(
        "input {}: expected the number of an input that is a float", input);
  }
  if (inputs.empty()) {
    return InvalidArgument(
        "no input is to be differentiated, expected at least one");
  }
  if (network.opset() >= kLeastOpset) return network;
  return InOpset(network, kLeastOpset);
}

}  // namespace

std::optional<Sizes> Rule::KnownInts(size_t i) const {
  if (!writer.status().ok()) return std::nullopt;
  return Inputs(writer.network().InputsOf(operation.id)).Ints(i);
}

Sizes Rule::Ints(size_t i) const {
  auto ints = KnownInts(i);
  if (ints.has_value()) return *std::move(ints);
  writer.Fail(FailedPrecondition(
      "{}: has a gradient only if input {} is known beforehand",
      PlaceOf(operation), i));
  return {};
}

// An integer has no gradient, also where a formula would give one.
void Rule::SetGradient(size_t i, Term gradient) {
  if (!has(i) || !gradient.is_given()) return;
  if (!IsFloat(x(i).dtype())) return;
  given[i] = CastTo(SumTo(gradient, x(i).sizes()), x(i).dtype());
}

void Rule::Refuse(std::string_view what) const {
  writer.Fail(
      Unimplemented("{}: has no gradient {}", PlaceOf(operation), what));
}

void Rule::Fail(const absl::Status& status) const {
  writer.Fail(At(PlaceOf(operation), status));
}

std::vector<OperationId> OrderOf(const Network& network) {
  return {network.order().begin(), network.order().end()};
}

std::set<ValueId> PathFrom(const Network& network,
                           absl::Span<const ValueId> from) {
  std::set<ValueId> path(from.begin(), from.end());
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (!PropagatesGradient(operation, path)) continue;
    for (const ValueId output : operation.outputs) {
      if (IsFloatValue(network, output)) path.insert(output);
    }
  }
  return path;
}

}  // namespace nodewise::gradient

namespace nodewise {

absl::StatusOr<GradientNetwork> GradientOf(const Network& network,
                                           absl::Span<const size_t> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(Network ready, gradient::ReadyFor(network, inputs));
  return gradient::GradientMaker(std::move(ready)).Make(inputs);
}

absl::StatusOr<Network> WrittenOut(const Network& network,
                                   absl::Span<const size_t> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(Network ready, gradient::ReadyFor(network, inputs));
  return gradient::GradientMaker(std::move(ready)).WriteOut(inputs);
}

std::vector<size_t> FloatInputs(const Network& network) {
  std::vector<size_t> inputs;
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    if (gradient::IsFloatValue(network, network.inputs()[i])) {
      inputs.push_back(i);
    }
  }
  return inputs;
}

std::optional<GradientKind> GradientKindOf(const OperatorDef& def) {
  const gradient::Row* const row = gradient::FindRow(def.type);
  if (row == nullptr) return std::nullopt;
  return row->kind;
}

absl::Span<const std::string_view> OperatorsWithoutGradient() {
  const auto& names = gradient::kWithoutGradient;
  return {names.begin(), names.size()};
}

}  // namespace nodewise
