#include "nodewise/autotest/configuration.h"

#include <numeric>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Floats first; in all lists the first type is the simplest, and those that
// fewer kernels have come later.
constexpr DLDataType kNumbers[] = {kFloat32, kFloat16, kFloat64, kBfloat16,
                                   kInt64,   kInt32,   kInt8,    kUint8,
                                   kInt16,   kUint16,  kUint32,  kUint64};
constexpr size_t kFloatTypes = 4;
constexpr DLDataType kAll[] = {kFloat32, kFloat16, kFloat64, kBfloat16, kInt64,
                               kInt32,   kInt8,    kUint8,   kBool,     kInt16,
                               kUint16,  kUint32,  kUint64};
constexpr int kGivenPercent = 15;  // Per cent of shapes that only a run tells.
// Sides beside the small ones: around the widths of vectors and tiles.
constexpr int64_t kTailSides[] = {5,  7,  8,  9,  15, 16, 17,
                                  31, 32, 33, 63, 64, 65};
constexpr uint64_t kSmallSides = 4;  // From 1 on.
// How often, in per cent, a draw repeats a type, shape or side that is there
// already.
// An operator of a network has to read what others make, or the network would
// be as many networks side by side; but new tensors have to come, too, or all
// of a network would have one shape.
constexpr int kPreferredTypes = 85;
constexpr int kPreferredShapes = 75;
constexpr int kPreferredSides = 50;

// Any version in which the row holds, the newest being the simplest. The rows
// of other domains are drawn at the version that brought them.
int DrawOpset(const OperatorDef& def, Choices* choices) {
  const int last =
      def.domain.empty() ? std::min(kNewestOpset, def.until - 1) : def.since;
  const int newest = std::max(last, def.since);
  return newest - static_cast<int>(
                      choices->UpTo(static_cast<uint64_t>(newest - def.since)));
}

TensorType TypeOf(const CaseInput& input) {
  return TensorType(input.dtype, Shape(input.shape.begin(), input.shape.end()));
}

// A text for messages: long lists and tensors are cut.
struct AttrText {
  std::string operator()(int64_t x) const { return fmt::format("{}", x); }
  std::string operator()(float x) const { return fmt::format("{}", x); }
  std::string operator()(const std::string& x) const { return x; }
  std::string operator()(const NDArray& x) const {
    return x.defined() ? ToString(TensorType::From(*x)) : "?";
  }
  std::string operator()(const Subgraph& x) const {
    return fmt::format("a body of {}", x.body->order().size());
  }
  template <typename T>
  std::string operator()(const std::vector<T>& list) const {
    constexpr size_t kShown = 8;
    const auto shown =
        absl::MakeConstSpan(list).first(std::min(list.size(), kShown));
    return fmt::format("[{}{}]", fmt::join(shown, ", "),
                       list.size() > kShown ? ", ..." : "");
  }
};

}  // namespace

// The names of values say their places, which shrinking and reports rely on.
absl::StatusOr<Network> NetworkOf(const Configuration& configuration) {
  const OperatorDef& def = *configuration.def;
  Network network("case");
  NODEWISE_RETURN_IF_ERROR(
      network.SetOpset(std::string(def.domain), configuration.opset));
  NewOperation operation;
  NODEWISE_ASSIGN_OR_RETURN(operation.attrs,
                            MakeAttrs(def, configuration.attributes));
  for (size_t i = 0; i < configuration.inputs.size(); ++i) {
    const CaseInput& input = configuration.inputs[i];
    ValueId& id = operation.inputs.emplace_back(kNoValue);
    if (!input.is_given) continue;
    std::string name = fmt::format("x{}", i);
    if (input.is_constant) {
      NODEWISE_ASSIGN_OR_RETURN(
          id, network.AddConstant(std::move(name), input.fixed));
    } else {
      NODEWISE_ASSIGN_OR_RETURN(
          id, network.AddInput(std::move(name), TypeOf(input)));
    }
  }
  for (size_t i = 0; i < configuration.outputs.size(); ++i) {
    operation.outputs.push_back(configuration.outputs[i] ? fmt::format("y{}", i)
                                                         : "");
  }
  operation.name = "op";
  NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                            network.AddOperation(std::move(operation)));
  std::vector<ValueId> outputs = network.operation(id).outputs;
  std::erase(outputs, kNoValue);
  NODEWISE_RETURN_IF_ERROR(network.SetOutputs(std::move(outputs)));
  return network;
}

// Each input is a group of its own among the choices, as DrawTensor() makes
// one.
absl::StatusOr<std::vector<NDArray>> DrawInputs(
    const Configuration& configuration, Choices* choices, SpecialKind special) {
  std::vector<NDArray> inputs;
  inputs.reserve(configuration.inputs.size());
  for (const CaseInput& input : configuration.inputs) {
    if (!input.is_given || input.is_constant) continue;
    NDArray& tensor = inputs.emplace_back(input.fixed);
    if (tensor.defined()) continue;
    NODEWISE_ASSIGN_OR_RETURN(
        tensor,
        DrawTensor(input.dtype, input.shape, input.domain, choices, special));
  }
  return inputs;
}

std::string ToString(const Configuration& configuration) {
  std::vector<std::string> attributes;
  for (const NamedAttr& attr : configuration.attributes) {
    attributes.push_back(
        fmt::format("{}={}", attr.name, std::visit(AttrText(), attr.value)));
  }
  std::vector<std::string> inputs;
  for (const CaseInput& input : configuration.inputs) {
    inputs.push_back(input.is_given ? ToString(TypeOf(input)) : "none");
  }
  return fmt::format("{} {} ({}) {}", configuration.def->name,
                     configuration.opset, fmt::join(attributes, ", "),
                     fmt::join(inputs, ", "));
}

ConfigurationDraw::ConfigurationDraw(const OperatorDef& def, Choices* choices)
    : ConfigurationDraw(def, DrawOpset(def, choices), choices) {}

ConfigurationDraw::ConfigurationDraw(const OperatorDef& def, int opset,
                                     Choices* choices)
    : choices_(choices) {
  configuration_.def = &def;
  configuration_.opset = opset;
  configuration_.outputs.assign(def.min_outputs(), true);
}

// Half of all draws take the first type, since a fault in another type mostly
// shows in the first as well, and is simpler to read there.
DLDataType ConfigurationDraw::Type(absl::Span<const DLDataType> types) {
  const bool is_there = std::ranges::any_of(types, [this](DLDataType type) {
    return TensorType(type) == TensorType(preferred_type_);
  });
  if (is_there && TakesPreferred(kPreferredTypes)) return preferred_type_;
  if (types.size() == 1 || !Chance()) return types[0];
  return types[choices_->UpTo(types.size() - 1)];
}

DLDataType ConfigurationDraw::Float() {
  return Type(absl::MakeConstSpan(kNumbers).first(kFloatTypes));
}
DLDataType ConfigurationDraw::Integer() {
  return Type(absl::MakeConstSpan(kNumbers).subspan(kFloatTypes));
}
DLDataType ConfigurationDraw::Number() { return Type(kNumbers); }
DLDataType ConfigurationDraw::Any() { return Type(kAll); }

// The rules of the operator are asked with inputs of known types and unknown
// shapes. Rules that want several types at once accept none of these, and then
// any type is drawn, and the draw is refused or not.
DLDataType ConfigurationDraw::Legal() {
  const OpAttrs defaults = OpAttrs::Defaults(def());
  std::vector<InputInfo> infos(std::max<size_t>(def().min_inputs(), 1));
  std::vector<DLDataType> legal;
  for (const DLDataType dtype : kAll) {
    for (InputInfo& info : infos) info = {true, TensorType(dtype)};
    if (def().check(defaults.get(), Inputs(infos)).ok()) legal.push_back(dtype);
  }
  return legal.empty() ? Any() : Type(legal);
}

// A side is one choice, and a smaller choice is never a longer side. Empty
// sides come last all the same, since they are special and not simple. Of 100
// places, 70 are shared by the small sides and 28 by the others.
int64_t ConfigurationDraw::Side(int64_t most, bool may_be_empty) {
  constexpr uint64_t kSmallShare = 70;
  constexpr uint64_t kEmptyShare = 2;
  if (!preferred_shape_.empty() && TakesPreferred(kPreferredSides)) {
    const int64_t side = One(preferred_shape_);
    if (side <= most && (side > 0 || may_be_empty)) return side;
  }
  const uint64_t place = choices_->UpTo(may_be_empty ? 99 : 99 - kEmptyShare);
  if (place > 99 - kEmptyShare) return 0;
  const int64_t side =
      place < kSmallShare
          ? 1 + static_cast<int64_t>(place * kSmallSides / kSmallShare)
          : kTailSides[(place - kSmallShare) * std::size(kTailSides) /
                       (100 - kEmptyShare - kSmallShare)];
  return std::min(side, std::max<int64_t>(most, 1));
}

IntList ConfigurationDraw::Sides(int64_t least_rank, int64_t most_rank,
                                 bool may_be_empty) {
  const Choices::Group group(choices_);
  const auto rank = std::ssize(preferred_shape_);
  const bool is_empty = std::ranges::count(preferred_shape_, 0) > 0;
  if (rank >= least_rank && rank <= most_rank && (may_be_empty || !is_empty) &&
      TakesPreferred(kPreferredShapes)) {
    return preferred_shape_;
  }
  IntList sides(static_cast<size_t>(Between(least_rank, most_rank)));
  int64_t room = kMostElements;
  for (int64_t& side : sides) {
    side = Side(room, may_be_empty);
    room /= std::max<int64_t>(side, 1);
  }
  return sides;
}

// Broadcasting repeats what such a part lacks: sides at the front, and sides of
// which it has 1.
IntList ConfigurationDraw::PartOf(const IntList& shape) {
  const Choices::Group group(choices_);
  IntList part = shape;
  if (Chance(25)) {
    part.erase(part.begin(), part.begin() + Between(0, std::ssize(part)));
  }
  for (int64_t& side : part) {
    if (Chance(20)) side = 1;
  }
  return part;
}

// A negative number names the same axis, so that this is one more choice and
// does not change the first one.
int64_t ConfigurationDraw::SignedAxis(size_t rank) {
  const int64_t axis = Axis(rank);
  const auto count = std::max<int64_t>(static_cast<int64_t>(rank), 1);
  return Chance(30) ? axis - count : axis;
}

IntList ConfigurationDraw::Axes(size_t rank, bool may_be_none) {
  const Choices::Group group(choices_);
  IntList axes;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (Chance(40)) axes.push_back(static_cast<int64_t>(axis));
  }
  if (axes.empty() && !may_be_none && rank > 0) axes.push_back(Axis(rank));
  return axes;
}

IntList ConfigurationDraw::SignedAxes(size_t rank, bool may_be_none,
                                      int negative_since) {
  IntList axes = Axes(rank, may_be_none);
  const Choices::Group group(choices_);
  if (Chance(20)) std::ranges::reverse(axes);
  for (int64_t& axis : axes) {
    if (opset() >= negative_since && Chance(25)) {
      axis -= static_cast<int64_t>(rank);
    }
  }
  return axes;
}

IntList ConfigurationDraw::Distinct(int64_t count, int64_t how_many) {
  const Choices::Group group(choices_);
  // Two choices give any number of different numbers: those at equal steps
  // around a circle.
  const int64_t first = Between(0, count - 1);
  int64_t step = Between(1, count);
  // Then no number comes twice before all have come.
  while (std::gcd(step, count) != 1) ++step;
  IntList numbers(
      static_cast<size_t>(std::max<int64_t>(std::min(count, how_many), 0)));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = (first + static_cast<int64_t>(i) * step) % count;
  }
  return numbers;
}

IntList ConfigurationDraw::Order(size_t count) {
  const Choices::Group group(choices_);
  IntList order(count);
  std::iota(order.begin(), order.end(), 0);
  // A shuffle in which 0 leaves each element at its place.
  for (size_t i = 0; i + 1 < count; ++i) {
    std::swap(order[i], order[i + choices_->UpTo(count - 1 - i)]);
  }
  return order;
}

void ConfigurationDraw::Input(DLDataType dtype, IntList shape,
                              InputDomain domain) {
  configuration_.inputs.push_back({true, dtype, std::move(shape), domain});
}

void ConfigurationDraw::AddConstant(DLDataType dtype, IntList shape,
                                    const InputDomain& usual) {
  // A domain that holds -1 to 1 keeps several whole numbers; a narrower one is
  // special, and left as it is.
  InputDomain domain = usual;
  if (prefers_whole_ && domain.least <= -1 && domain.most >= 1) {
    domain.is_whole = true;
  }
  auto drawn = DrawTensor(dtype, shape, domain, choices_);
  status_.Update(drawn.status());
  configuration_.inputs.push_back({true, dtype, std::move(shape), domain,
                                   std::move(drawn).value_or(NDArray()), true});
}

// Compilers compute with constants ahead, and lay weights out for their
// kernels; a weight that is an input takes the other way.
void ConfigurationDraw::Weight(DLDataType dtype, IntList shape,
                               InputDomain domain) {
  if (IsAttribute() || Chance()) {
    AddConstant(dtype, std::move(shape), domain);
  } else {
    Input(dtype, std::move(shape), domain);
  }
}

void ConfigurationDraw::Fixed(NDArray contents, bool is_constant) {
  const auto shape = contents.shape();
  configuration_.inputs.push_back({true,
                                   contents.dtype(),
                                   {shape.begin(), shape.end()},
                                   {},
                                   contents,
                                   is_constant});
}

void ConfigurationDraw::Numbers(DLDataType dtype, const IntList& shape,
                                const std::vector<double>& numbers,
                                bool is_constant) {
  auto tensor = TensorOfDoubles(dtype, shape, numbers);
  status_.Update(tensor.status());
  if (tensor.ok()) Fixed(*std::move(tensor), is_constant || IsAttribute());
}

void ConfigurationDraw::AddInts(absl::Span<const int64_t> shape,
                                absl::Span<const int64_t> numbers) {
  auto tensor = TensorOfInts(shape, numbers);
  status_.Update(tensor.status());
  if (!tensor.ok()) return;
  Fixed(*std::move(tensor), IsAttribute() || !Chance(kGivenPercent));
}

// Many attributes became inputs. A space adds them as inputs in any case, and
// an older opset turns constants into attributes; so there they have to be
// constant.
bool ConfigurationDraw::IsAttribute() const {
  return std::ranges::any_of(def().moved, [this](const MovedAttribute& moved) {
    return moved.input == configuration_.inputs.size() && opset() < moved.until;
  });
}

// Inputs at the end that are not given are left out altogether, as models do.
absl::StatusOr<Configuration> ConfigurationDraw::Finish() {
  if (!status_.ok()) return status_;
  std::vector<CaseInput>& inputs = configuration_.inputs;
  while (!inputs.empty() && !inputs.back().is_given) inputs.pop_back();
  return std::move(configuration_);
}

}  // namespace nodewise
