// The gradients of cases, as cases of their own.

#include <algorithm>
#include <memory>
#include <utility>

#include "contrib/lab/autotest/networks/case_network.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A network to be differentiated, with what is known of its inputs.
struct ForwardCase {
  Configuration configuration;
  Network network;
};

// Contents that a configuration has decided on may decide on shapes: they
// become a constant, so that the gradient has known sizes.
absl::StatusOr<ForwardCase> ForwardOfOperator(const OperatorCase& made) {
  ForwardCase forward{made.configuration, Network()};
  for (CaseInput& input : forward.configuration.inputs) {
    if (input.is_given && input.fixed.defined()) input.is_constant = true;
  }
  NODEWISE_ASSIGN_OR_RETURN(forward.network, NetworkOf(forward.configuration));
  return forward;
}

// Inputs that are fixed become constants, for the same reason as those of an
// operator.
absl::StatusOr<ForwardCase> ForwardOfNetwork(const OperatorCase& made) {
  ForwardCase forward{made.configuration, *made.network};
  forward.configuration.inputs.clear();
  const auto inputs = made.network->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const CaseInput& input = made.configuration.inputs[i];
    if (input.fixed.defined()) {
      NODEWISE_RETURN_IF_ERROR(forward.network.Freeze(inputs[i], input.fixed));
    } else {
      forward.configuration.inputs.push_back(input);
    }
  }
  return forward;
}

// Returns whether floats go through an operation that has no gradient, or not
// for this use of it. Rules of gradients look at attributes, types and shapes,
// so the operation is cut out and differentiated by itself, and the error is
// asked.
bool StopsGradients(const Network& network, const Operation& operation) {
  ValueIds inputs;
  for (const ValueId id : operation.inputs) {
    if (id != kNoValue && std::ranges::count(inputs, id) == 0 &&
        network.value(id).kind != NetworkValue::Kind::kConstant) {
      inputs.push_back(id);
    }
  }
  if (inputs.empty()) return false;
  const auto alone = ExtractNetwork(network, inputs, OutputsOf(operation));
  if (!alone.ok()) return true;
  const std::vector<size_t> wanted = FloatInputs(*alone);
  if (wanted.empty()) return false;
  const absl::Status made = GradientOf(*alone, wanted).status();
  // It is not an error to use operations that make no floats.
  return !made.ok() && !absl::IsInvalidArgument(made);
}

ValueIds OutputsReadOutside(const Network& network, const OperationSet& part) {
  const auto outputs = network.outputs();
  ValueIds made;
  for (const OperationId id : part) {
    for (const ValueId output : OutputsOf(network.operation(id))) {
      const bool is_read = std::ranges::any_of(
          network.value(output).uses,
          [&](const Use& use) { return !part.contains(use.user); });
      if (is_read || std::ranges::count(outputs, output) > 0) {
        made.push_back(output);
      }
    }
  }
  return made;
}

// Leaves out the operations without a gradient: what they read is an output of
// the rest, and what they make an input. Inputs that were there before keep
// what the configuration knows of them.
absl::StatusOr<ForwardCase> DifferentiablePart(const ForwardCase& whole) {
  const Network& network = whole.network;
  OperationSet kept;
  for (const OperationId id : network.order()) {
    if (!StopsGradients(network, network.operation(id))) kept.insert(id);
  }
  if (kept.empty() || kept.size() == network.order().size()) {
    return Unimplemented("the network has no gradient");
  }
  ForwardCase part{whole.configuration, Network()};
  NODEWISE_ASSIGN_OR_RETURN(
      part.network, ExtractNetwork(network, InputsFromOutside(network, kept),
                                   OutputsReadOutside(network, kept)));
  part.configuration.inputs.clear();
  const auto inputs = network.inputs();
  for (const ValueId id : part.network.inputs()) {
    const NetworkValue& value = part.network.value(id);
    NODEWISE_ASSIGN_OR_RETURN(const ValueId old, network.FindValue(value.name));
    const auto place = std::ranges::find(inputs, old);
    if (place != inputs.end()) {
      part.configuration.inputs.push_back(
          whole.configuration
              .inputs[static_cast<size_t>(place - inputs.begin())]);
    } else if (value.type.is_static()) {
      part.configuration.inputs.push_back(InputOfType(value.type));
    } else {
      return Unimplemented("sizes that only a run tells");
    }
  }
  return part;
}

// Returns whether what the outputs are weighed by has a part in the gradient.
// Without that it is zero or constant for any weights, and tests nothing.
bool IsReached(const OperatorCase& made) {
  const Network& network = *made.network;
  const size_t given = made.backward->forward.inputs().size();
  return std::ranges::any_of(network.inputs().subspan(given), [&](ValueId id) {
    return !network.value(id).uses.empty();
  });
}

// Most networks have a gradient as they are. Looking for the operations that
// stop it takes a gradient of each, so that is done for the others alone.
absl::StatusOr<OperatorCase> BackwardOfNetwork(const OperatorCase& made) {
  NODEWISE_ASSIGN_OR_RETURN(ForwardCase forward, ForwardOfNetwork(made));
  auto backward = GradientCaseOf(forward.configuration, forward.network);
  if (absl::IsUnimplemented(backward.status()) ||
      absl::IsFailedPrecondition(backward.status())) {
    NODEWISE_ASSIGN_OR_RETURN(forward, DifferentiablePart(forward));
    backward = GradientCaseOf(std::move(forward.configuration),
                              std::move(forward.network));
  }
  NODEWISE_RETURN_IF_ERROR(backward.status());
  if (!IsReached(*backward)) {
    return InvalidArgument("nothing reaches an input");
  }
  return backward;
}

}  // namespace

// An operator whose gradient is zero everywhere would be compared with nothing.
bool HasBackwardSpace(const OperatorDef& def) {
  const auto kind = GradientKindOf(def);
  return HasSpace(def) && kind.has_value() && *kind != GradientKind::kZero;
}

// An input that has to be whole holds places and gets no gradient, though its
// type may be a float. The network of a gradient has the inputs of the forward
// one first, then the cotangents.
absl::StatusOr<OperatorCase> GradientCaseOf(Configuration configuration,
                                            Network forward) {
  OperatorCase made;
  std::vector<size_t> wanted;
  size_t given = 0;
  for (const CaseInput& input : configuration.inputs) {
    if (!input.is_given || input.is_constant) continue;
    if (IsFloat(input.dtype) && !input.domain.is_whole) wanted.push_back(given);
    ++given;
  }
  if (wanted.empty()) {
    return InvalidArgument("no input can be differentiated");
  }
  NODEWISE_ASSIGN_OR_RETURN(auto gradient, GradientOf(forward, wanted));
  // Only the inputs of the forward network need known sizes: cotangents get
  // theirs from a run.
  const auto inputs = gradient.network.inputs().first(forward.inputs().size());
  const bool is_drawn = std::ranges::all_of(inputs, [&gradient](ValueId id) {
    return gradient.network.value(id).type.is_static();
  });
  if (!is_drawn) return Unimplemented("sizes that only a run tells");
  made.configuration = std::move(configuration);
  SetNetwork(std::move(gradient.network), &made);
  made.backward = std::make_shared<const BackwardCase>(
      BackwardCase{std::move(forward), std::move(gradient.outputs),
                   std::move(gradient.inputs)});
  return made;
}

absl::StatusOr<OperatorCase> BackwardOf(const OperatorCase& made) {
  if (made.configuration.is_network()) return BackwardOfNetwork(made);
  NODEWISE_ASSIGN_OR_RETURN(ForwardCase forward, ForwardOfOperator(made));
  return GradientCaseOf(std::move(forward.configuration),
                        std::move(forward.network));
}

// The forward network is run only where sizes are open, since that takes as
// long as the reference itself.
absl::StatusOr<std::vector<NDArray>> WithCotangents(
    const BackwardCase& backward, const Network& gradient,
    std::vector<NDArray> inputs, Choices* choices) {
  const auto cotangents = gradient.inputs().subspan(inputs.size());
  std::vector<NDArray> outputs;
  if (std::ranges::any_of(cotangents, [&](ValueId id) {
        return !gradient.value(id).type.sizes().has_value();
      })) {
    NODEWISE_ASSIGN_OR_RETURN(outputs, Interpret(backward.forward, inputs));
  }
  for (size_t i = 0; i < cotangents.size(); ++i) {
    const TensorType& type = gradient.value(cotangents[i]).type;
    auto sizes = type.sizes();
    if (!sizes.has_value()) {
      const auto shape = outputs[backward.outputs[i]].shape();
      sizes.emplace(shape.begin(), shape.end());
    }
    NODEWISE_ASSIGN_OR_RETURN(inputs.emplace_back(),
                              DrawTensor(type.dtype, *sizes, {}, choices));
  }
  return inputs;
}

}  // namespace nodewise
