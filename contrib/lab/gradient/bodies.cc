#include "contrib/lab/gradient/bodies.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ops/control_flow.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::gradient {
namespace {

// One operation with bodies, and what is known about its inputs.
class Closing {
 public:
  Closing(const Operation& operation, Network* network)
      : operation_(operation), network_(*network) {}

  absl::Status Run() {
    if (const auto* const op = operation_.attrs.As<ops::If>()) {
      return CloseIf(*op);
    }
    if (const auto* const op = operation_.attrs.As<ops::Loop>()) {
      return CloseLoop(*op);
    }
    if (const auto* const op = operation_.attrs.As<ops::Scan>()) {
      return CloseScan(*op);
    }
    return absl::OkStatus();
  }

 private:
  const TensorType& TypeOf(size_t input) const {
    return network_.value(operation_.inputs[input]).type;
  }

  absl::Status CloseIf(ops::If op) {
    NODEWISE_RETURN_IF_ERROR(Close({}, 1, &op.else_branch));
    NODEWISE_RETURN_IF_ERROR(
        Close({}, 1 + op.else_branch.captures, &op.then_branch));
    return Replace(OpAttrs::Of(&operation_.def(), op));
  }

  absl::Status CloseLoop(ops::Loop op) {
    const size_t carried = operation_.inputs.size() - 2 - op.body.captures;
    std::vector<TensorType> types = {TensorType(kInt64, Shape()),
                                     TensorType(kBool, Shape())};
    for (size_t i = 0; i < carried; ++i) types.push_back(TypeOf(2 + i));
    NODEWISE_RETURN_IF_ERROR(Close(types, 2 + carried, &op.body));
    for (size_t i = 0; i < carried; ++i) {
      const ValueId made = op.body.body->outputs()[1 + i];
      // Otherwise the types hold for the first trip alone.
      if (!(op.body.body->value(made).type == types[2 + i])) {
        return absl::OkStatus();
      }
    }
    return Replace(OpAttrs::Of(&operation_.def(), op));
  }

  absl::Status CloseScan(ops::Scan op) {
    const size_t given = operation_.inputs.size() - op.body.captures;
    const size_t states = given - static_cast<size_t>(op.num_scan_inputs);
    std::vector<TensorType> types;
    for (size_t i = 0; i < given; ++i) {
      TensorType type = TypeOf(i);
      if (i >= states && type.has_rank()) {
        int64_t axis = AttributeAt(op.scan_input_axes, i - states);
        if (axis < 0) axis += type.rank();
        type.shape->erase(type.shape->begin() + axis);
      }
      types.push_back(std::move(type));
    }
    NODEWISE_RETURN_IF_ERROR(Close(types, given, &op.body));
    return Replace(OpAttrs::Of(&operation_.def(), op));
  }

  // `types` are those of the inputs that the operator defines; captures begin
  // with input `first` of the operation.
  absl::Status Close(absl::Span<const TensorType> types, size_t first,
                     Subgraph* graph) const {
    Network body = *graph->body;
    const std::vector<ValueId> inputs(body.inputs().begin(),
                                      body.inputs().end());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_captured = i >= types.size();
      const NetworkValue* const source =
          is_captured
              ? &network_.value(operation_.inputs[first + i - types.size()])
              : nullptr;
      if (is_captured && source->kind == NetworkValue::Kind::kConstant) {
        NODEWISE_ASSIGN_OR_RETURN(const ValueId data,
                                  body.AddConstant("", source->data));
        NODEWISE_RETURN_IF_ERROR(body.ReplaceUses({&inputs[i], 1}, {&data, 1}));
        continue;
      }
      NODEWISE_ASSIGN_OR_RETURN(TensorType type,
                                Unite(body.value(inputs[i]).type,
                                      is_captured ? source->type : types[i]));
      if (!(type == body.value(inputs[i]).type)) {
        NODEWISE_RETURN_IF_ERROR(body.SetInputType(inputs[i], std::move(type)));
      }
    }
    graph->body = ShareNetwork(std::move(body));
    return absl::OkStatus();
  }

  absl::Status Replace(const OpAttrs& attrs) {
    NewOperation operation{attrs, operation_.inputs};
    std::vector<ValueId> from;
    for (const ValueId output : operation_.outputs) {
      if (output == kNoValue) {
        operation.outputs.emplace_back();
        continue;
      }
      operation.outputs.push_back(
          FreeName(network_, network_.value(output).name + "_closed"));
      from.push_back(output);
    }
    NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                              network_.AddOperation(std::move(operation)));
    std::vector<ValueId> to;
    for (const ValueId output : network_.operation(id).outputs) {
      if (output != kNoValue) to.push_back(output);
    }
    NODEWISE_RETURN_IF_ERROR(network_.ReplaceUses(from, to));
    return network_.Remove(operation_.id);
  }

  const Operation operation_;
  Network& network_;
};

}  // namespace

int64_t AttributeAt(absl::Span<const int64_t> list, size_t i) {
  return i < list.size() ? list[i] : 0;
}

absl::Status CloseBodies(Network* network) {
  const std::vector<OperationId> order(network->order().begin(),
                                       network->order().end());
  for (const OperationId id : order) {
    NODEWISE_RETURN_IF_ERROR(Closing(network->operation(id), network).Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<Network> GradientOfBody(Network body,
                                       const std::vector<size_t>& outputs,
                                       const std::vector<size_t>& inputs) {
  std::vector<ValueId> reached;
  for (const size_t i : outputs) reached.push_back(body.outputs()[i]);
  NODEWISE_RETURN_IF_ERROR(body.SetOutputs(std::move(reached)));
  auto made = GradientOf(body, inputs);
  if (!made.ok()) return At("in a body", made.status());
  return std::move(made->network);
}

BodyEditor::BodyEditor(Network network)
    : network_(std::move(network)),
      writer_(&network_),
      old_(network_.inputs().begin(), network_.inputs().end()) {}

bool BodyEditor::Reads(size_t old) const {
  const auto outputs = network_.outputs();
  return !network_.value(old_[old]).uses.empty() ||
         std::find(outputs.begin(), outputs.end(), old_[old]) != outputs.end();
}

TensorType BodyEditor::TypeOf(size_t old) const {
  return network_.value(old_[old]).type;
}

Term BodyEditor::AddInput(const TensorType& type) {
  if (!writer_.status().ok()) return writer_.Of(kNoValue);
  const auto added =
      network_.AddInput(FreeName(network_, "input_of_gradient"), type);
  writer_.Fail(added.status());
  return writer_.Of(added.ok() ? *added : kNoValue);
}

Term BodyEditor::Capture(Term outer, const TensorType& type) {
  captured_.push_back(outer);
  return AddInput(type);
}

void BodyEditor::ReplaceByCapture(size_t old, Term outer) {
  if (Reads(old)) Replace(old, Capture(outer, TypeOf(old)));
}

std::vector<Term> BodyEditor::Outputs() {
  std::vector<ValueId> from;
  std::vector<ValueId> to;
  for (const auto& [old, by] : by_) {
    from.push_back(old_[old]);
    to.push_back(by.id());
  }
  if (writer_.status().ok() && !from.empty()) {
    writer_.Fail(network_.ReplaceUses(from, to));
  }
  std::vector<Term> outputs;
  for (const ValueId id : network_.outputs()) outputs.push_back(writer_.Of(id));
  return outputs;
}

absl::StatusOr<Subgraph> BodyEditor::Finish(const std::vector<Term>& outputs) {
  NODEWISE_RETURN_IF_ERROR(writer_.status());
  std::vector<ValueId> ids;
  for (const Term& output : outputs) ids.push_back(output.id());
  NODEWISE_RETURN_IF_ERROR(network_.SetOutputs(std::move(ids)));
  network_.RemoveUnused();
  for (const ValueId id : old_) {
    NODEWISE_RETURN_IF_ERROR(network_.RemoveInput(id));
  }
  return Subgraph{ShareNetwork(std::move(network_)),
                  static_cast<uint32_t>(captured_.size())};
}

}  // namespace nodewise::gradient
