#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "contrib/lab/autotest/networks/case_network.h"
#include "nodewise/autotest/network_draw.h"
#include "nodewise/ir/network.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// A file is one model with any name, a folder all that end in .onnx; what
// cannot be listed counts as empty.
std::vector<std::string> ModelsIn(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator at(path, error), end;
       !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".onnx") files.push_back(at->path());
  }
  std::ranges::sort(files);
  return files;
}

// A network is called as its file, which reports count its parts under.
absl::StatusOr<std::shared_ptr<const Network>> Load(const std::string& file) {
  DiagnosticList diagnostics;
  NODEWISE_ASSIGN_OR_RETURN(Network network,
                            ImportOnnx(file, AllOperators(), {}, &diagnostics));
  NetworkData data = network.data();
  data.name = fs::path(file).filename().string();
  NODEWISE_ASSIGN_OR_RETURN(network, Network::FromData(std::move(data)));
  return std::make_shared<const Network>(std::move(network));
}

using Sides = std::vector<int64_t>;

constexpr int64_t kMostOperations = 8;
constexpr int64_t kMostMutations = 4;
// The most elements of one tensor: the reference works out bounds for each.
constexpr int64_t kMostOfTensor = 1 << 17;
// Models have batches of one and images of hundreds; a part is tested with
// little.
constexpr int64_t kMostInputSide = 9;
constexpr int kOtherSize = 70;  // Per cent of sides that may change.
// Element by element, of floats, in every opset from 7 on.
constexpr const char* kPointwise[] = {"Relu", "Neg",       "Abs", "Sigmoid",
                                      "Tanh", "LeakyRelu", "Elu", "Identity"};

OperationSet NeighboursOf(const Network& network, OperationId id) {
  OperationSet neighbours;
  const Operation& operation = network.operation(id);
  for (const ValueId input : operation.inputs) {
    if (input == kNoValue) continue;
    const NetworkValue& value = network.value(input);
    if (value.kind == NetworkValue::Kind::kOutput) {
      neighbours.insert(value.producer);
    }
  }
  for (const ValueId output : OutputsOf(operation)) {
    for (const Use& use : network.value(output).uses) {
      neighbours.insert(use.user);
    }
  }
  return neighbours;
}

// Draws one operation and grows by one neighbour at a time, so that any
// connected part may come. The neighbours of all that is there are equally
// likely.
OperationSet DrawPart(const Network& network, Choices* choices) {
  const auto order = network.order();
  OperationSet part = {order[choices->UpTo(order.size() - 1)]};
  const int64_t wanted = choices->Between(1, kMostOperations);
  while (std::ssize(part) < wanted) {
    OperationSet next;
    for (const OperationId id : part) {
      for (const OperationId neighbour : NeighboursOf(network, id)) {
        if (part.count(neighbour) == 0) next.insert(neighbour);
      }
    }
    if (next.empty()) break;
    part.insert(*std::next(
        next.begin(), static_cast<ptrdiff_t>(choices->UpTo(next.size() - 1))));
  }
  return part;
}

// All that leaves the part is an output, also what the model makes for nothing.
absl::StatusOr<Network> CutPart(const Network& network,
                                const OperationSet& part) {
  ValueIds to;
  for (const OperationId id : part) {
    for (const ValueId output : OutputsOf(network.operation(id))) {
      const auto& uses = network.value(output).uses;
      const bool leaves =
          uses.empty() || std::ranges::any_of(uses, [&](const Use& use) {
            return !part.contains(use.user);
          });
      if (leaves) to.push_back(output);
    }
  }
  return ExtractNetwork(network, InputsFromOutside(network, part), to);
}

class Mutant {
 public:
  Mutant(Network network, Choices* choices)
      : network_(std::move(network)), choices_(choices) {}

  absl::StatusOr<OperatorCase> Make() {
    NODEWISE_RETURN_IF_ERROR(DrawSizes());
    for (int64_t i = choices_->Between(0, kMostMutations); i > 0; --i) {
      const Choices::Group group(choices_);
      // A change that the network refuses is left out.
      (void)Change();
    }
    return Finish();
  }

 private:
  // Other sizes, where all that is behind takes them. An unknown side has to
  // get a size, a known one may stay as it was.
  absl::Status DrawSizes() {
    const ValueIds inputs(network_.inputs().begin(), network_.inputs().end());
    for (const ValueId id : inputs) {
      const Choices::Group group(choices_);
      const TensorType type = network_.value(id).type;
      if (!type.has_rank() || !type.has_dtype()) {
        return Unimplemented("an input without a type");
      }
      Shape shape = *type.shape;
      for (Dim& side : shape) {
        const Dim before = side;
        if (before.is_known() && !choices_->Chance(kOtherSize)) continue;
        side = Dim(choices_->Between(1, kMostInputSide));
        const absl::Status changed =
            network_.SetInputType(id, TensorType(type.dtype, shape));
        if (changed.ok()) continue;
        if (!before.is_known()) return changed;
        side = before;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Change() {
    if (network_.order().empty()) return NotFound("nothing left");
    const OperationId id = choices_->One(network_.order());
    if (network_.operation(id).outputs[0] == kNoValue) {
      return NotFound("no output");
    }
    // The simplest changes come first.
    constexpr absl::Status (Mutant::*kWays[])(OperationId id) = {
        &Mutant::ShowOutput, &Mutant::Insert,           &Mutant::LeaveOut,
        &Mutant::Exchange,   &Mutant::ChangeAttributes, &Mutant::Duplicate};
    return (this->*choices_->One(kWays))(id);
  }

  ValueId FirstOutputOf(OperationId id) const {
    return network_.operation(id).outputs[0];
  }

  absl::Status ShowOutput(OperationId id) { return Show(FirstOutputOf(id)); }

  // A tensor that is shown cannot be optimised away, or change places with
  // another one that is computed to the same memory.
  absl::Status Show(ValueId output) {
    ValueIds outputs(network_.outputs().begin(), network_.outputs().end());
    if (std::ranges::count(outputs, output) > 0) return absl::OkStatus();
    outputs.push_back(output);
    return network_.SetOutputs(std::move(outputs));
  }

  // A pointwise operation fits behind any float, and can stand for any other
  // pointwise one.
  absl::StatusOr<OpAttrs> AnyPointwise() {
    const OperatorDef* const def =
        AllOperators().Find("", choices_->One(kPointwise), network_.opset());
    if (def == nullptr) return NotFound("not in this opset");
    return OpAttrs::Defaults(*def);
  }

  absl::StatusOr<ValueId> AddFirst(OpAttrs attrs, ValueIds inputs) {
    NODEWISE_ASSIGN_OR_RETURN(
        const OperationId made,
        network_.AddOperation({std::move(attrs), std::move(inputs)}));
    return FirstOutputOf(made);
  }

  absl::Status Insert(OperationId id) {
    const ValueId after = FirstOutputOf(id);
    NODEWISE_ASSIGN_OR_RETURN(OpAttrs attrs, AnyPointwise());
    NODEWISE_ASSIGN_OR_RETURN(const ValueId made,
                              AddFirst(std::move(attrs), {after}));
    return network_.ReplaceUses({after}, {made});
  }

  // An operation is left out only where its output looks like what it reads,
  // and another operation makes that, so that something is left.
  absl::Status LeaveOut(OperationId id) {
    const Operation& operation = network_.operation(id);
    if (operation.inputs.empty() || operation.inputs[0] == kNoValue) {
      return NotFound("reads nothing");
    }
    const ValueId from = operation.outputs[0];
    const ValueId to = operation.inputs[0];
    if (!(network_.value(from).type == network_.value(to).type) ||
        network_.value(to).kind != NetworkValue::Kind::kOutput) {
      return NotFound("is of another type");
    }
    NODEWISE_RETURN_IF_ERROR(network_.ReplaceUses({from}, {to}));
    network_.RemoveUnused();
    return absl::OkStatus();
  }

  // The network refuses another operation where the types do not fit.
  absl::Status Exchange(OperationId id) {
    const Operation& operation = network_.operation(id);
    if (operation.inputs.size() != 1 || operation.outputs.size() != 1) {
      return NotFound("reads more than one tensor");
    }
    NODEWISE_ASSIGN_OR_RETURN(OpAttrs attrs, AnyPointwise());
    return Replace(id, std::move(attrs));
  }

  absl::Status Replace(OperationId id, OpAttrs attrs) {
    const ValueId before = FirstOutputOf(id);
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId made,
        AddFirst(std::move(attrs), network_.operation(id).inputs));
    NODEWISE_RETURN_IF_ERROR(network_.ReplaceUses({before}, {made}));
    network_.RemoveUnused();
    return absl::OkStatus();
  }

  // Takes attributes that the operator's space draws. The inputs that it draws
  // with them are left: attributes that do not fit those of the model are
  // refused.
  absl::Status ChangeAttributes(OperationId id) {
    const Operation& operation = network_.operation(id);
    if (!HasSpace(operation.def()) || operation.outputs.size() != 1) {
      return NotFound("nothing to draw");
    }
    ConfigurationDraw draw(operation.def(),
                           network_.opset(operation.def().domain), choices_);
    const ValueId first =
        operation.inputs.empty() ? kNoValue : operation.inputs[0];
    if (first != kNoValue && network_.value(first).type.is_static()) {
      const TensorType& type = network_.value(first).type;
      draw.Prefer(type.dtype, *type.sizes());
    }
    NODEWISE_ASSIGN_OR_RETURN(const OperatorCase drawn, DrawCase(draw));
    NODEWISE_ASSIGN_OR_RETURN(
        OpAttrs attrs,
        MakeAttrs(operation.def(), drawn.configuration.attributes));
    return Replace(id, std::move(attrs));
  }

  absl::Status Duplicate(OperationId id) {
    const Operation operation = network_.operation(id);
    const ValueId once = operation.outputs[0];
    NODEWISE_ASSIGN_OR_RETURN(const ValueId again,
                              AddFirst(operation.attrs, operation.inputs));
    if (choices_->Chance()) return Show(again);
    const OperatorDef* add = AllOperators().Find("", "Add", network_.opset());
    NODEWISE_ASSIGN_OR_RETURN(const ValueId sum,
                              AddFirst(OpAttrs::Defaults(*add), {once, again}));
    return network_.ReplaceUses({once}, {sum});
  }

  absl::StatusOr<OperatorCase> Finish() {
    network_.RemoveUnused();
    NODEWISE_RETURN_IF_ERROR(RemoveUnusedInputs(&network_));
    if (network_.order().empty()) return NotFound("nothing left");
    NODEWISE_RETURN_IF_ERROR(CheckSizes());
    OperatorCase made;
    made.configuration.opset = network_.opset();
    for (const ValueId id : network_.inputs()) {
      made.configuration.inputs.push_back(InputOfType(network_.value(id).type));
    }
    SetNetwork(std::move(network_), &made);
    return made;
  }

  // A real model has tensors that the reference takes long for. Sizes are
  // multiplied up to the limit only, since their product may be beyond any
  // integer.
  absl::Status CheckSizes() const {
    for (const auto& value : network_.data().values) {
      if (!value.has_value() || value->kind == NetworkValue::Kind::kBarrier) {
        continue;
      }
      const auto sizes = value->type.sizes();
      if (!sizes.has_value() && value->kind != NetworkValue::Kind::kInput) {
        continue;  // Few candidates take it, but it is legal.
      }
      int64_t count = 1;
      for (const int64_t side : sizes.value_or(Sides{kMostOfTensor + 1})) {
        count = count > kMostOfTensor ? count : count * side;
      }
      if (count > kMostOfTensor) {
        return Unimplemented("{}: has more than {} elements", value->name,
                             kMostOfTensor);
      }
    }
    return absl::OkStatus();
  }

  Network network_;
  Choices* const choices_;
};

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<const Network>>> LoadModelsOf(
    const std::string& path) {
  std::vector<std::shared_ptr<const Network>> models;
  absl::Status first;
  for (const std::string& file : ModelsIn(path)) {
    auto model = Load(file);
    first.Update(model.status());
    if (model.ok()) models.push_back(*std::move(model));
  }
  if (!models.empty()) return models;
  first.Update(NotFound("{}: has no .onnx file", Printable(path)));
  return first;
}

std::unique_ptr<CaseSource> MutationSource(
    std::vector<std::shared_ptr<const Network>> models) {
  std::erase_if(models, [](const std::shared_ptr<const Network>& model) {
    return model->order().empty();
  });
  if (models.empty()) return nullptr;
  const auto model_of = [models = std::move(models)](uint64_t number) {
    return models[number % models.size()];
  };
  return std::make_unique<CaseSource>(CaseSource{
      [model_of](uint64_t number) { return model_of(number)->name(); },
      [model_of](uint64_t number,
                 Choices* choices) -> absl::StatusOr<OperatorCase> {
        const std::shared_ptr<const Network> model = model_of(number);
        NODEWISE_ASSIGN_OR_RETURN(Network cut,
                                  CutPart(*model, DrawPart(*model, choices)));
        return Mutant(std::move(cut), choices).Make();
      }});
}

}  // namespace nodewise
