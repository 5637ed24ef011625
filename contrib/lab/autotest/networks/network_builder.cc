#include "contrib/lab/autotest/networks/network_builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "contrib/lab/autotest/spaces/spaces.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr int kFromPool = 80;      // Per cent of inputs.
constexpr int kFurtherOutput = 8;  // Per cent of tensors that something reads.
constexpr uint64_t kNewest = 3;    // Tensors that have two chances.

// Whether any number of the usual size will do.
bool IsFree(const InputDomain& domain) {
  return domain.least <= -3 && domain.most >= 3 && !domain.is_whole;
}

constexpr int kClipOfIntegers = 12;  // The opset that brought it.
constexpr int kSliceByInputs = 10;
constexpr double kMostCast = 100;  // Fits all integer types.

// Returns the order of sides that makes one shape of the other, if there is
// one.
std::optional<Sides> OrderFor(const Sides& from, const Sides& to) {
  if (from.size() != to.size()) return std::nullopt;
  Sides order;
  std::vector<bool> is_taken(from.size());
  for (const int64_t side : to) {
    size_t at = 0;
    // From behind, so that equal sides change places, too.
    for (at = from.size(); at-- > 0;) {
      if (!is_taken[at] && from[at] == side) break;
    }
    if (at >= from.size()) return std::nullopt;
    is_taken[at] = true;
    order.push_back(static_cast<int64_t>(at));
  }
  return order;
}

}  // namespace

NetworkBuilder::NetworkBuilder(BuilderOptions options, Choices* choices)
    : options_(std::move(options)), choices_(choices), network_("case") {
  (void)network_.SetOpset("", options_.opset);
}

// Operations that read the newest tensors make longer chains than those that
// read any tensor of the pool: so the newest three have two chances each.
std::optional<PoolTensor> NetworkBuilder::Any() {
  if (pool_.empty()) return std::nullopt;
  const uint64_t all = pool_.size();
  const uint64_t newest = std::min(kNewest, all);
  // 0 is the newest one.
  const uint64_t back = choices_->UpTo(newest + all - 1);
  return pool_[all - 1 - (back < newest ? back : back - newest)];
}

// Only tensors of known size and of a type that operators calculate with can be
// made to fit something.
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
  return {id, type.dtype, type.sizes().value_or(Sides{})};
}

// A body has no inputs of its own: what would be one is drawn, as a constant.
MadeValue NetworkBuilder::AddInput(const CaseInput& input) {
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

MadeValue NetworkBuilder::AddBodyInput(const PoolTensor& like) {
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId id,
      network_.AddInput(
          fmt::format("b{}", inputs_made_++),
          TensorType(like.dtype, Shape(like.shape.begin(), like.shape.end()))));
  Join(id);
  return id;
}

MadeValue NetworkBuilder::AddConstant(const NDArray& data) {
  return network_.AddConstant(fmt::format("w{}", values_made_++), data);
}

MadeValue NetworkBuilder::AddInts(const Sides& numbers) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                            TensorOfInts({std::ssize(numbers)}, numbers));
  return AddConstant(tensor);
}

MadeValue NetworkBuilder::AddNumber(DLDataType dtype, double number) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                            TensorOfDoubles(dtype, {}, {number}));
  return AddConstant(tensor);
}

// Outside of what it demands, the results of an operator are unknown, and
// demands on tensors of a body cannot be checked.
absl::Status NetworkBuilder::Demand(ValueId id, const InputDomain& domain) {
  if (options_.is_body) {
    return Unimplemented("what bodies read is not checked");
  }
  demands_.push_back({network_.value(id).name, domain});
  return absl::OkStatus();
}

// Fitting tensors are taken before others that have to be adapted, since each
// operation that adapts one dilutes the network. The newest is the simplest
// choice.
MadeValue NetworkBuilder::Feed(const CaseInput& input) {
  const Choices::Group group(choices_);
  if (input.fixed.defined() || !Chance(kFromPool)) return AddInput(input);
  std::vector<PoolTensor> fitting;
  std::ranges::copy_if(
      pool_, std::back_inserter(fitting), [&](const PoolTensor& tensor) {
        return tensor.dtype == input.dtype && tensor.shape == input.shape;
      });
  const std::optional<PoolTensor> from =
      fitting.empty()
          ? Any()
          : fitting[fitting.size() - 1 - choices_->UpTo(fitting.size() - 1)];
  if (!from.has_value()) return AddInput(input);
  // All that was added until it failed goes away again; the choices stay.
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

absl::StatusOr<ValueIds> NetworkBuilder::AddOperation(
    OpAttrs attrs, ValueIds inputs, const std::vector<bool>& outputs) {
  NewOperation operation{std::move(attrs), std::move(inputs)};
  operation.name = fmt::format("op{}", network_.order().size());
  for (const bool is_wanted : outputs) {
    operation.outputs.push_back(is_wanted ? fmt::format("v{}", values_made_++)
                                          : "");
  }
  NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                            network_.AddOperation(std::move(operation)));
  const Operation& made = network_.operation(id);
  // Random numbers are not judged, nor is anything that is made of them.
  const bool is_random = FindSpace(RandomSpaces(), made.def().name) != nullptr;
  for (const ValueId output : made.outputs) {
    if (output != kNoValue && !is_random) Join(output);
  }
  return made.outputs;
}

absl::StatusOr<ValueIds> NetworkBuilder::AddAll(
    std::string_view kind, const std::vector<NamedAttr>& attributes,
    ValueIds inputs, size_t outputs) {
  const OperatorDef* const def = AllOperators().Find("", kind, options_.opset);
  if (def == nullptr) {
    return NotFound("{} is not in opset {}", kind, options_.opset);
  }
  NODEWISE_ASSIGN_OR_RETURN(OpAttrs attrs, MakeAttrs(*def, attributes));
  return AddOperation(std::move(attrs), std::move(inputs),
                      std::vector<bool>(outputs, true));
}

MadeValue NetworkBuilder::Add(std::string_view kind,
                              const std::vector<NamedAttr>& attributes,
                              ValueIds inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const auto outputs,
                            AddAll(kind, attributes, std::move(inputs)));
  return outputs[0];
}

// The operator's own domain joins the opsets at the first of its operations.
absl::Status NetworkBuilder::AddCase(const OperatorCase& made) {
  const Configuration& configuration = made.configuration;
  const OperatorDef& def = *configuration.def;
  const std::string domain(def.domain);
  if (!domain.empty() && network_.opset(domain) == 0) {
    NODEWISE_RETURN_IF_ERROR(network_.SetOpset(domain, configuration.opset));
  }
  ValueIds inputs;
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

// A further output is one that something reads as well, which keeps optimisers
// from computing both operations together.
absl::StatusOr<OperatorCase> NetworkBuilder::Finish() {
  ValueIds outputs;
  for (const OperationId id : network_.order()) {
    for (const ValueId output : OutputsOf(network_.operation(id))) {
      const bool is_read = !network_.value(output).uses.empty();
      if (!is_read || Chance(kFurtherOutput)) outputs.push_back(output);
    }
  }
  if (outputs.empty()) return InvalidArgument("no operation");
  NODEWISE_RETURN_IF_ERROR(network_.SetOutputs(std::move(outputs)));
  network_.RemoveUnused();
  NODEWISE_RETURN_IF_ERROR(RemoveUnusedInputs(&network_));
  OperatorCase made;
  made.configuration.opset = options_.opset;
  for (const ValueId id : network_.inputs()) {
    made.configuration.inputs.push_back(inputs_[id]);
  }
  made.configuration.demands = std::move(demands_);
  SetNetwork(std::move(network_), &made);
  return made;
}

// The tensor that is made replaces `from`, for the steps that follow.
MadeValue NetworkBuilder::Cast(PoolTensor* from, DLDataType dtype) {
  if (from->dtype == dtype) return from->id;
  // The result for a float that the integer cannot hold is not judged, so such
  // floats are avoided.
  if (IsFloat(from->dtype) && IsInteger(dtype)) {
    const double least = IsUnsigned(dtype) ? 0 : -kMostCast;
    NODEWISE_ASSIGN_OR_RETURN(
        from->id, Within(*from, InputDomain::Within(least, kMostCast)));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      from->id,
      Add("Cast", {{"to", OnnxNumberOf(dtype).value_or(0)}}, {from->id}));
  from->dtype = dtype;
  return from->id;
}

MadeValue NetworkBuilder::Within(const PoolTensor& from,
                                 const InputDomain& domain) {
  // Clip alone puts numbers into a range: it does not make floats whole, and
  // takes neither bools nor, in older opsets, integers.
  const bool is_float = IsFloat(from.dtype);
  if ((domain.is_whole && is_float) || IsBool(from.dtype) ||
      (!is_float && options_.opset < kClipOfIntegers)) {
    return Unimplemented("nothing makes such numbers");
  }
  NODEWISE_RETURN_IF_ERROR(Demand(from.id, InputDomain::WithoutNan()));
  const double zero = IsUnsigned(from.dtype) ? 0 : domain.least;
  const double least = std::max(domain.least, std::min(zero, domain.most));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId low,
      AddNumber(from.dtype, is_float ? least : std::ceil(least)));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId high,
      AddNumber(from.dtype, is_float ? domain.most : std::floor(domain.most)));
  return Add("Clip", {}, {from.id, low, high});
}

// Joins all elements to one row, repeats the row or cuts it, and gives it the
// shape: this fits anything that has an element.
MadeValue NetworkBuilder::ReshapedFlat(const PoolTensor& from,
                                       const Sides& shape) {
  const int64_t have = Product(from.shape);
  const int64_t want = Product(shape);
  ValueId id = from.id;
  if (have != want) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId flat, AddInts({have}));
    NODEWISE_ASSIGN_OR_RETURN(id, Add("Reshape", {}, {id, flat}));
    if (have < want) {
      if (have == 0) return Unimplemented("nothing to repeat");
      NODEWISE_ASSIGN_OR_RETURN(const ValueId times,
                                AddInts({(want + have - 1) / have}));
      NODEWISE_ASSIGN_OR_RETURN(id, Add("Tile", {}, {id, times}));
    }
    if (want % std::max<int64_t>(have, 1) != 0 || have > want) {
      NODEWISE_ASSIGN_OR_RETURN(const ValueId begin, AddInts({0}));
      NODEWISE_ASSIGN_OR_RETURN(const ValueId end, AddInts({want}));
      NODEWISE_ASSIGN_OR_RETURN(const ValueId axis, AddInts({0}));
      NODEWISE_ASSIGN_OR_RETURN(id, Add("Slice", {}, {id, begin, end, axis}));
    }
  }
  // A Reshape takes 0 for the side that was there.
  if (shape.size() == 1 && have != want) return id;
  if (want == 0) return Unimplemented("no elements to reshape");
  NODEWISE_ASSIGN_OR_RETURN(const ValueId to, AddInts(shape));
  return Add("Reshape", {}, {id, to});
}

MadeValue NetworkBuilder::CutAndPadded(const PoolTensor& from,
                                       const Sides& shape) {
  const size_t rank = shape.size();
  Sides ends = from.shape;
  Sides pads(2 * rank);
  bool cuts = false;
  bool pads_any = false;
  for (size_t i = 0; i < rank; ++i) {
    ends[i] = std::min(from.shape[i], shape[i]);
    cuts = cuts || ends[i] < from.shape[i];
    pads[rank + i] = shape[i] - ends[i];
    pads_any = pads_any || pads[rank + i] > 0;
  }
  ValueId id = from.id;
  if (cuts) {
    Sides axes(rank);
    std::iota(axes.begin(), axes.end(), 0);
    NODEWISE_ASSIGN_OR_RETURN(const ValueId begin, AddInts(Sides(rank)));
    NODEWISE_ASSIGN_OR_RETURN(const ValueId end, AddInts(ends));
    NODEWISE_ASSIGN_OR_RETURN(const ValueId axis, AddInts(axes));
    NODEWISE_ASSIGN_OR_RETURN(id, Add("Slice", {}, {id, begin, end, axis}));
  }
  if (!pads_any) return id;
  NODEWISE_ASSIGN_OR_RETURN(const ValueId by, AddInts(pads));
  return Add("Pad", {}, {id, by});
}

// The ways that keep most of the tensor come first: another order of its sides,
// then a cut or a border, and last any shape at all.
MadeValue NetworkBuilder::Reshaped(const PoolTensor& from, const Sides& shape) {
  if (from.shape == shape) return from.id;
  const auto order = OrderFor(from.shape, shape);
  if (order.has_value() && Chance(70)) {
    return Add("Transpose", {{"perm", *order}}, {from.id});
  }
  const bool may_cut = from.shape.size() == shape.size() && !shape.empty();
  const bool may_pad = IsFloat(from.dtype) && options_.opset >= kSliceByInputs;
  if (may_cut && may_pad && Chance(60)) return CutAndPadded(from, shape);
  return ReshapedFlat(from, shape);
}

// First the type, since some ways to another shape take floats alone, and last
// the range, since padding adds zeros, which may lie outside of it.
MadeValue NetworkBuilder::Adapt(const PoolTensor& from, DLDataType dtype,
                                const Sides& shape, const InputDomain& domain) {
  const Choices::Group group(choices_);
  PoolTensor made = from;
  NODEWISE_ASSIGN_OR_RETURN(made.id, Cast(&made, dtype));
  NODEWISE_ASSIGN_OR_RETURN(made.id, Reshaped(made, shape));
  made.shape = shape;
  if (!(TensorOf(made.id).shape == shape)) {
    return Unimplemented("another shape came out");
  }
  if (domain.least > -3 || domain.most < 3 || domain.is_whole ||
      !domain.may_be_special) {
    NODEWISE_ASSIGN_OR_RETURN(made.id, Within(made, domain));
  } else if (IsFloat(dtype) && !domain.may_be_nan) {
    NODEWISE_RETURN_IF_ERROR(Demand(made.id, domain));
  }
  return made.id;
}

}  // namespace nodewise
