#include "nodewise/gradient/gradient.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "contrib/lab/gradient/bodies.h"
#include "contrib/lab/gradient/definitions.h"
#include "contrib/lab/gradient/rules.h"
#include "fmt/format.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/layout.h"
#include "nodewise/precision/raise_opset.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using gradient::CloseBodies;
using gradient::ExpandDefinitions;
using gradient::FindRow;
using gradient::FreeName;
using gradient::IsFloatValue;
using gradient::IsZero;
using gradient::PathFrom;
using gradient::ReadsAny;
using gradient::Row;
using gradient::Rule;
using gradient::Term;
using gradient::Writer;

// From here on there is a sum of scattered elements, which rules need.
constexpr int kLeastOpset = 16;

class GradientMaker {
 public:
  explicit GradientMaker(Network network)
      : network_(std::move(network)), writer_(&network_) {}

  absl::StatusOr<GradientNetwork> Make(absl::Span<const size_t> inputs) {
    NODEWISE_RETURN_IF_ERROR(Expand(inputs));
    GradientNetwork made;
    NODEWISE_RETURN_IF_ERROR(AddCotangents(&made));
    forward_ = network_.data().values.size();
    const std::vector<OperationId> order(network_.order().begin(),
                                         network_.order().end());
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      NODEWISE_RETURN_IF_ERROR(GoBack(*id));
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
  // Writes what is defined by simpler operators in these, and notes what
  // depends on the inputs.
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
      reaching_[outputs[i]].push_back(writer_.Of(cotangent));
    }
    if (!made->outputs.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "no output is a float, so that there is no gradient");
  }

  // Returns the sum of all that reaches a value; an empty term if nothing does.
  Term Reaching(ValueId id) {
    const auto found = reaching_.find(id);
    if (found == reaching_.end()) return {};
    std::vector<Term>& terms = found->second;
    if (terms.size() > 1) terms = {writer_.Add(ops::Sum{}, terms)};
    return terms[0];
  }

  absl::Status GoBack(OperationId id) {
    // A copy: what the rule adds moves the network's operations.
    const Operation operation = network_.operation(id);
    if (!ReadsAny(operation, path_) || IsZero(operation))
      return absl::OkStatus();
    std::vector<Term> cotangents;
    bool is_reached = false;
    for (const ValueId output : operation.outputs) {
      cotangents.push_back(output == kNoValue ? Term() : Reaching(output));
      is_reached = is_reached || cotangents.back().is_given();
    }
    if (!is_reached) return absl::OkStatus();
    const Row* const row = FindRow(operation.def().type);
    if (row == nullptr) {
      return absl::UnimplementedError(
          fmt::format("operation {}: {} has no gradient yet",
                      Shortened(operation.name), operation.kind()));
    }
    Rule rule(operation, std::move(cotangents), path_, &writer_);
    row->rule(rule);
    NODEWISE_RETURN_IF_ERROR(writer_.status());
    for (const auto& [slot, term] : rule.given()) {
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
      if (!gradient.is_given()) {
        const Term x = writer_.Of(id);
        gradient = writer_.Filled(0, x.dtype(), x.sizes());
      }
      // What is made elsewhere, or stands for two inputs, keeps its name.
      if (gradient.is_given() && (Index(gradient.id()) < forward_ ||
                                  std::find(outputs.begin(), outputs.end(),
                                            gradient.id()) != outputs.end())) {
        gradient = writer_.Add(ops::Identity{}, {gradient});
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
  Writer writer_;
  // Before anything is replaced by what defines it.
  const std::vector<std::string> output_names_ = [this] {
    std::vector<std::string> names;
    for (const ValueId id : network_.outputs()) {
      names.push_back(network_.value(id).name);
    }
    return names;
  }();
  size_t forward_ = 0;  // Values below are not of the gradient.
  std::set<ValueId> path_;
  std::map<ValueId, std::vector<Term>> reaching_;
};

// Returns the network in an opset that rules need.
absl::StatusOr<Network> ReadyFor(const Network& network,
                                 absl::Span<const size_t> inputs) {
  for (const size_t input : inputs) {
    if (input < network.inputs().size() &&
        IsFloatValue(network, network.inputs()[input])) {
      continue;
    }
    return absl::InvalidArgumentError(fmt::format(
        "input {}: expected the number of an input that is a float", input));
  }
  if (inputs.empty()) {
    return absl::InvalidArgumentError(
        "no input is to be differentiated, expected at least one");
  }
  if (network.opset() >= kLeastOpset) return network;
  return InOpset(network, kLeastOpset);
}

}  // namespace

absl::StatusOr<GradientNetwork> GradientOf(const Network& network,
                                           absl::Span<const size_t> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(Network ready, ReadyFor(network, inputs));
  return GradientMaker(std::move(ready)).Make(inputs);
}

absl::StatusOr<Network> WrittenOut(const Network& network,
                                   absl::Span<const size_t> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(Network ready, ReadyFor(network, inputs));
  return GradientMaker(std::move(ready)).WriteOut(inputs);
}

std::vector<size_t> FloatInputs(const Network& network) {
  std::vector<size_t> inputs;
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    if (IsFloatValue(network, network.inputs()[i])) inputs.push_back(i);
  }
  return inputs;
}

std::optional<GradientKind> GradientKindOf(const OperatorDef& def) {
  const Row* const row = FindRow(def.type);
  if (row == nullptr) return std::nullopt;
  return row->kind;
}

}  // namespace nodewise
