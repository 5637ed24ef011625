#include "contrib/lab/autotest/network_builder.h"

#include <algorithm>
#include <utility>

#include "contrib/lab/autotest/space_families.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr int kFromPool = 80;      // Per cent of inputs.
constexpr int kFurtherOutput = 8;  // Per cent of tensors that something reads.
constexpr uint64_t kNewest = 3;    // So many are as likely as all others.

// Whether any number of the usual size will do.
bool IsFree(const InputDomain& domain) {
  return domain.least <= -3 && domain.most >= 3 && !domain.is_whole;
}

// What a random operator makes is not judged, nor what is made of it.
bool IsRandom(const OperatorDef& def) {
  const auto spaces = RandomSpaces();
  return std::any_of(
      spaces.begin(), spaces.end(),
      [&def](const OperatorSpace& space) { return space.name == def.name; });
}

}  // namespace

NetworkBuilder::NetworkBuilder(BuilderOptions options, Choices* choices)
    : options_(std::move(options)), choices_(choices), network_("case") {
  (void)network_.SetOpset("", options_.opset);
}

bool NetworkBuilder::Often(int percent) {
  return choices_->UpTo(99) >= static_cast<uint64_t>(100 - percent);
}

int64_t NetworkBuilder::Between(int64_t least, int64_t most) {
  if (most <= least) return least;
  return least + static_cast<int64_t>(
                     choices_->UpTo(static_cast<uint64_t>(most - least)));
}

std::optional<PoolTensor> NetworkBuilder::Any() {
  if (pool_.empty()) return std::nullopt;
  const uint64_t all = pool_.size();
  const uint64_t newest = std::min(kNewest, all);
  // 0 is the newest one.
  const uint64_t back = choices_->UpTo(newest + all - 1);
  return pool_[all - 1 - (back < newest ? back : back - newest)];
}

void NetworkBuilder::Join(ValueId id) {
  const NetworkValue& value = network_.value(id);
  auto sizes = value.type.sizes();
  if (!sizes.has_value() || !value.type.has_dtype()) return;
  const DLDataType dtype = value.type.dtype;
  if (!IsFloat(dtype) && !IsInteger(dtype) && !IsBool(dtype)) return;
  pool_.push_back({id, dtype, *std::move(sizes)});
}

PoolTensor NetworkBuilder::TensorOf(ValueId id) const {
  const TensorType& type = network_.value(id).type;
  return {id, type.dtype, type.sizes().value_or(std::vector<int64_t>{})};
}

absl::StatusOr<ValueId> NetworkBuilder::AddInput(const CaseInput& input) {
  NDArray contents = input.fixed;
  if (!contents.defined() && options_.is_body) {
    InputDomain domain = input.domain;
    if (options_.is_exact && IsFree(domain)) domain.is_whole = true;
    NODEWISE_ASSIGN_OR_RETURN(
        contents, DrawTensor(input.dtype, input.shape, domain, choices_));
  }
  if (contents.defined() && (input.is_constant || options_.is_body)) {
    return AddConstant(contents);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId id,
      network_.AddInput(fmt::format("x{}", inputs_made_++),
                        TensorType(input.dtype, Shape(input.shape.begin(),
                                                      input.shape.end()))));
  inputs_[id] = input;
  if (!input.fixed.defined() && IsFree(input.domain)) Join(id);
  return id;
}

absl::StatusOr<ValueId> NetworkBuilder::AddBodyInput(
    DLDataType dtype, const std::vector<int64_t>& shape) {
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId id,
      network_.AddInput(fmt::format("b{}", inputs_made_++),
                        TensorType(dtype, Shape(shape.begin(), shape.end()))));
  Join(id);
  return id;
}

absl::StatusOr<ValueId> NetworkBuilder::AddConstant(const NDArray& data) {
  return network_.AddConstant(fmt::format("w{}", values_made_++), data);
}

absl::StatusOr<ValueId> NetworkBuilder::AddInts(
    const std::vector<int64_t>& numbers) {
  const int64_t shape[] = {static_cast<int64_t>(numbers.size())};
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                            NDArray::Empty(shape, kInt64, kCpu));
  std::copy(numbers.begin(), numbers.end(), tensor.As<int64_t>());
  return AddConstant(tensor);
}

absl::StatusOr<ValueId> NetworkBuilder::AddNumber(
    DLDataType dtype, double number, const std::vector<int64_t>& shape) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                            NDArray::Empty(shape, dtype, kCpu));
  const std::vector<double> numbers(static_cast<size_t>(CountOf(tensor)),
                                    number);
  StoreDoubles(numbers.data(), 0, CountOf(tensor), tensor);
  return AddConstant(tensor);
}

// Outside of what it demands, the results of an operator are unknown, and
// demands on tensors of a body cannot be checked.
absl::Status NetworkBuilder::Demand(ValueId id, const InputDomain& domain) {
  if (options_.is_body) {
    return absl::UnimplementedError("what bodies read is not checked");
  }
  demands_.push_back({network_.value(id).name, domain});
  return absl::OkStatus();
}

absl::StatusOr<ValueId> NetworkBuilder::Feed(const CaseInput& input) {
  const Choices::Group group(choices_);
  if (input.fixed.defined() || !Often(kFromPool)) return AddInput(input);
  std::vector<PoolTensor> fitting;
  for (const PoolTensor& tensor : pool_) {
    if (tensor.dtype == input.dtype && tensor.shape == input.shape) {
      fitting.push_back(tensor);
    }
  }
  std::optional<PoolTensor> from;
  if (!fitting.empty()) {
    from = fitting[fitting.size() - 1 - choices_->UpTo(fitting.size() - 1)];
  } else {
    from = Any();
  }
  if (!from.has_value()) return AddInput(input);
  const Network before = network_;
  const std::vector<PoolTensor> pool_before = pool_;
  const size_t demands_before = demands_.size();
  auto fed = Adapt(*from, input.dtype, input.shape, input.domain);
  if (fed.ok()) return fed;
  network_ = before;
  pool_ = pool_before;
  demands_.resize(demands_before);
  return AddInput(input);
}

absl::StatusOr<std::vector<ValueId>> NetworkBuilder::AddOperation(
    OpAttrs attrs, std::vector<ValueId> inputs,
    const std::vector<bool>& outputs) {
  NewOperation operation{std::move(attrs), std::move(inputs)};
  operation.name = fmt::format("op{}", network_.order().size());
  for (const bool is_wanted : outputs) {
    operation.outputs.push_back(is_wanted ? fmt::format("v{}", values_made_++)
                                          : "");
  }
  NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                            network_.AddOperation(std::move(operation)));
  const Operation& made = network_.operation(id);
  for (const ValueId output : made.outputs) {
    if (output != kNoValue && !IsRandom(made.def())) Join(output);
  }
  return made.outputs;
}

absl::StatusOr<std::vector<ValueId>> NetworkBuilder::AddAll(
    std::string_view kind, const std::vector<NamedAttr>& attributes,
    std::vector<ValueId> inputs, size_t outputs) {
  const OperatorDef* const def = AllOperators().Find("", kind, options_.opset);
  if (def == nullptr) {
    return absl::NotFoundError(
        fmt::format("{} is not in opset {}", kind, options_.opset));
  }
  NODEWISE_ASSIGN_OR_RETURN(OpAttrs attrs, MakeAttrs(*def, attributes));
  return AddOperation(std::move(attrs), std::move(inputs),
                      std::vector<bool>(outputs, true));
}

absl::StatusOr<ValueId> NetworkBuilder::Add(
    std::string_view kind, const std::vector<NamedAttr>& attributes,
    std::vector<ValueId> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                            AddAll(kind, attributes, std::move(inputs)));
  return outputs[0];
}

absl::Status NetworkBuilder::AddCase(const OperatorCase& made) {
  const Configuration& configuration = made.configuration;
  const OperatorDef& def = *configuration.def;
  const std::string domain(def.domain);
  if (!domain.empty() && network_.opset(domain) == 0) {
    NODEWISE_RETURN_IF_ERROR(network_.SetOpset(domain, configuration.opset));
  }
  std::vector<ValueId> inputs;
  for (const CaseInput& input : configuration.inputs) {
    ValueId& id = inputs.emplace_back(kNoValue);
    if (!input.is_given) continue;
    NODEWISE_ASSIGN_OR_RETURN(id, Feed(input));
  }
  NODEWISE_ASSIGN_OR_RETURN(OpAttrs attrs,
                            MakeAttrs(def, configuration.attributes));
  return AddOperation(std::move(attrs), std::move(inputs),
                      configuration.outputs)
      .status();
}

absl::StatusOr<OperatorCase> NetworkBuilder::Finish() {
  std::vector<ValueId> outputs;
  for (const OperationId id : network_.order()) {
    for (const ValueId output : network_.operation(id).outputs) {
      if (output == kNoValue) continue;
      const bool is_read = !network_.value(output).uses.empty();
      if (!is_read || Often(kFurtherOutput)) outputs.push_back(output);
    }
  }
  if (outputs.empty()) return absl::InvalidArgumentError("no operation");
  NODEWISE_RETURN_IF_ERROR(network_.SetOutputs(std::move(outputs)));
  network_.RemoveUnused();
  const std::vector<ValueId> inputs(network_.inputs().begin(),
                                    network_.inputs().end());
  for (const ValueId id : inputs) {
    if (network_.value(id).uses.empty()) {
      NODEWISE_RETURN_IF_ERROR(network_.RemoveInput(id));
    }
  }
  OperatorCase made;
  made.configuration.opset = options_.opset;
  for (const ValueId id : network_.inputs()) {
    made.configuration.inputs.push_back(inputs_[id]);
  }
  made.configuration.demands = std::move(demands_);
  made.network = std::make_shared<const Network>(std::move(network_));
  made.exact = ExactSource::Of(*made.network);
  return made;
}

}  // namespace nodewise
