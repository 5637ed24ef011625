#include "nodewise/precision/raise_opset.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "contrib/precision/network_copy.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/dropout.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/resize.h"
#include "nodewise/ops/roi.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using Values = std::vector<ValueId>;

// An operation of the old network, and what stands for its inputs in the new
// one.
struct OldOperation {
  const Operation& operation;
  Values inputs;

  template <typename Class>
  const Class& As() const {
    return *operation.attrs.As<Class>();
  }
};

template <typename Class>
absl::StatusOr<Values> Replace(const OldOperation& old, const Class& op,
                               Values inputs, NetworkCopy& copy,
                               const std::string& suffix = "") {
  NODEWISE_ASSIGN_OR_RETURN(OpAttrs attrs, copy.AttrsOf(op));
  std::vector<std::string> suffixes(old.operation.outputs.size());
  suffixes.back() = suffix;
  return copy.AddAs(old.operation, std::move(attrs), std::move(inputs),
                    suffixes);
}

absl::StatusOr<ValueId> AddIntegers(const std::string& name,
                                    absl::Span<const int64_t> numbers,
                                    NetworkCopy& copy) {
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray data,
      NDArray::Empty({static_cast<int64_t>(numbers.size())}, kInt64, kCpu));
  std::copy(numbers.begin(), numbers.end(), data.As<int64_t>());
  return copy.AddConstant(name, data);
}

// Where the newer operator takes all that the older one does, and means the
// same by it: the same class in another row.
template <typename Class>
absl::StatusOr<Values> Keep(const OldOperation& old, NetworkCopy& copy) {
  return Replace(old, old.As<Class>(), old.inputs, copy);
}

// Converts an operator whose second input lies on sides of the first from an
// axis on. Sides of 1 behind its own make NumPy's rule find the same sides.
template <typename Old, typename Now>
absl::StatusOr<Values> Align(const OldOperation& old, NetworkCopy& copy) {
  const auto& op = old.As<Old>();
  if (!op.broadcast || !op.axis.has_value()) {
    return Replace(old, Now{}, old.inputs, copy);
  }
  const TensorType& a = copy.made().value(old.inputs[0]).type;
  const TensorType& b = copy.made().value(old.inputs[1]).type;
  if (!a.has_rank() || !b.has_rank()) {
    return InvalidArgument("has an axis, and inputs of unknown rank");
  }
  const int64_t axis = *op.axis < 0 ? *op.axis + a.rank() : *op.axis;
  const int64_t behind = a.rank() - axis - b.rank();
  // NumPy aligns sides from the end, as the axis does here already.
  if (behind <= 0) return Replace(old, Now{}, old.inputs, copy);
  std::vector<int64_t> axes(static_cast<size_t>(behind));
  std::iota(axes.begin(), axes.end(), b.rank());
  const std::string name = copy.NameOf(old.operation.outputs[0]) + "_aligned";
  NODEWISE_ASSIGN_OR_RETURN(const ValueId sides,
                            AddIntegers(name + "_axes", axes, copy));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId aligned,
      copy.Add(ops::Unsqueeze{}, {old.inputs[1], sides}, name));
  return Replace(old, Now{}, {old.inputs[0], aligned}, copy);
}

// Converts to a class that has all attributes of the older one and further
// ones, which `now` has.
template <typename Attributes, typename Old, typename Now>
absl::StatusOr<Values> Extend(const OldOperation& old, Now now,
                              NetworkCopy& copy) {
  static_cast<Attributes&>(now) = old.As<Old>();
  return Replace(old, now, old.inputs, copy);
}

absl::StatusOr<Values> ConvertGemm(const OldOperation& old, NetworkCopy& copy) {
  return Extend<ops::GemmAttributes, ops::Gemm1>(old, ops::Gemm{}, copy);
}

template <typename Old>
absl::StatusOr<Values> ConvertBatchNorm(const OldOperation& old,
                                        NetworkCopy& copy) {
  // From this opset on an attribute says whether a BatchNormalization trains,
  // and the outputs of training are others.
  constexpr int kSaysWhether = 14;
  if constexpr (!std::is_same_v<Old, ops::BatchNormalization9>) {
    if (!old.As<Old>().spatial) {
      return InvalidArgument(
          "attribute spatial is 0, which later opsets do not have");
    }
  }
  if (copy.made().opset() < kSaysWhether) {
    return Extend<ops::BatchNormAttributes, Old>(
        old, ops::BatchNormalization9{}, copy);
  }
  if (old.operation.outputs.size() > 1) {
    return InvalidArgument("has outputs of training that later opsets do not");
  }
  return Extend<ops::BatchNormAttributes, Old>(old, ops::BatchNormalization{},
                                               copy);
}

// The mask has become a tensor of truth values.
template <typename Old>
absl::StatusOr<Values> ConvertDropout(const OldOperation& old,
                                      NetworkCopy& copy) {
  if constexpr (std::is_same_v<Old, ops::Dropout6>) {
    const auto& op = old.As<Old>();
    if (!op.is_test && op.ratio != 0)
      return InvalidArgument("is in training mode");
  }
  const Values& outputs = old.operation.outputs;
  const bool has_mask = outputs.size() > 1 && outputs[1] != kNoValue;
  // A mask that nothing reads may have any type, and needs no Cast.
  const bool is_read =
      has_mask &&
      (!copy.old().value(outputs[1]).uses.empty() || copy.IsOutput(outputs[1]));
  NODEWISE_ASSIGN_OR_RETURN(
      Values made,
      Replace(old, ops::Dropout{}, old.inputs, copy, is_read ? "_bool" : ""));
  if (!is_read) return made;
  const std::string& name = copy.NameOf(outputs[1]);
  const TensorType& type = copy.old().value(outputs[1]).type;
  if (!type.has_dtype())
    return InvalidArgument("has a mask of an unknown type");
  NODEWISE_ASSIGN_OR_RETURN(made[1], copy.Add(ops::Cast{type.dtype}, {made[1]},
                                              name + "_cast", name));
  return made;
}

// Returns the side along which all distributions lie: the only one from `axis`
// on that is not 1 long. None if there are several. `axis` is the rank at most.
std::optional<int64_t> OnlySide(const TensorType& type, int64_t axis) {
  if (!type.has_rank()) return std::nullopt;
  const int64_t rank = type.rank();
  if (axis < 0) axis += rank;
  if (axis >= rank) return std::nullopt;
  std::optional<int64_t> only;
  bool is_empty = false;
  size_t others = 0;
  for (int64_t i = 0; i < rank; ++i) {
    const Dim& side = (*type.shape)[static_cast<size_t>(i)];
    is_empty |= side.is_known() && side.size() == 0;
    if (i < axis || (side.is_known() && side.size() == 1)) continue;
    if (only.has_value()) ++others;
    only = i;
  }
  // Where there are no elements, all sides are as good.
  if (others > 0 && !is_empty) return std::nullopt;
  return only.value_or(rank - 1);
}

// The older operator takes all sides from the axis on for one distribution, so
// they are made the rows of a matrix.
template <typename Old, typename Now>
absl::StatusOr<Values> ConvertSoftmax(const OldOperation& old,
                                      NetworkCopy& copy) {
  const int64_t axis = old.As<Old>().axis;
  const ValueId x = old.inputs[0];
  const TensorType type = copy.made().value(x).type;
  // Where one side alone is longer than 1, both rules say the same.
  const auto only = OnlySide(type, axis);
  if (only.has_value()) return Replace(old, Now{*only}, {x}, copy);
  const std::string name = copy.NameOf(old.operation.outputs[0]);
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueId rows, copy.Add(ops::Flatten{axis}, {x}, name + "_in_rows"));
  NODEWISE_ASSIGN_OR_RETURN(Values made,
                            Replace(old, Now{1}, {rows}, copy, "_rows"));
  // A shape that is known is a constant, which needs no operation in the run.
  const auto sizes = type.sizes();
  NODEWISE_ASSIGN_OR_RETURN(const ValueId shape,
                            sizes.has_value()
                                ? AddIntegers(name + "_shape", *sizes, copy)
                                : copy.Add(ops::Shape{}, {x}, name + "_shape"));
  NODEWISE_ASSIGN_OR_RETURN(made[0], copy.Add(ops::Reshape{}, {made[0], shape},
                                              name + "_reshape", name));
  return made;
}

// Below opset 11 the nearest element was searched upwards along sides that
// shrink.
absl::StatusOr<Values> ConvertResize(const OldOperation& old,
                                     NetworkCopy& copy) {
  ops::Resize resize;
  resize.mode = old.As<ops::Resize10>().mode;
  resize.coordinate_transformation_mode = ops::CoordinateRule::kAsymmetric;
  resize.nearest_mode = ops::NearestRule::kFloor;
  const NetworkValue& scales = copy.made().value(old.inputs[1]);
  if (resize.mode == ops::Interpolation::kNearest) {
    if (!scales.data.defined()) {
      return InvalidArgument(
          "takes the nearest element with scales that are not constant");
    }
    const std::vector<double> all = ToDoubles(scales.data);
    const auto shrinks = [](double scale) { return scale < 1; };
    const auto grows = [](double scale) { return scale > 1; };
    if (std::ranges::any_of(all, shrinks)) {
      if (std::ranges::any_of(all, grows)) {
        return InvalidArgument(
            "takes the nearest element where some sides grow and others "
            "shrink");
      }
      resize.nearest_mode = ops::NearestRule::kCeil;
    }
  }
  return Replace(old, resize, {old.inputs[0], kNoValue, old.inputs[1]}, copy);
}

// Pixels were counted in one way only.
absl::StatusOr<Values> ConvertRoiAlign(const OldOperation& old,
                                       NetworkCopy& copy) {
  ops::RoiAlign align;
  align.coordinate_transformation_mode = ops::RoiPixels::kOutputHalf;
  return Extend<ops::RoiAlignAttributes, ops::RoiAlign10>(old, align, copy);
}

struct OldOperator {
  const void* type;
  absl::StatusOr<Values> (*convert)(const OldOperation&, NetworkCopy&);
};

template <auto convert, typename Old>
constexpr OldOperator kRow = {&kTypeTag<Old>, convert};
template <typename Class>
constexpr OldOperator kKept = kRow<&Keep<Class>, Class>;
template <typename Old, typename Now>
constexpr OldOperator kAligned = kRow<&Align<Old, Now>, Old>;
template <typename Old, typename Now>
constexpr OldOperator kInRows = kRow<&ConvertSoftmax<Old, Now>, Old>;
template <typename Old>
constexpr OldOperator kDropout = kRow<&ConvertDropout<Old>, Old>;
template <typename Old>
constexpr OldOperator kBatchNorm = kRow<&ConvertBatchNorm<Old>, Old>;

constexpr OldOperator kOldOperators[] = {
    kInRows<ops::Softmax1, ops::Softmax>,
    kInRows<ops::LogSoftmax1, ops::LogSoftmax>,
    kInRows<ops::Hardmax1, ops::Hardmax>,
    kDropout<ops::Dropout6>,
    kDropout<ops::Dropout7>,
    kBatchNorm<ops::BatchNormalization1>,
    kBatchNorm<ops::BatchNormalization7>,
    kBatchNorm<ops::BatchNormalization9>,
    kRow<&ConvertGemm, ops::Gemm1>,
    kRow<&ConvertResize, ops::Resize10>,
    kRow<&ConvertRoiAlign, ops::RoiAlign10>,
    kKept<ops::Max>,
    kKept<ops::Min>,
    kKept<ops::Sum>,
    kKept<ops::Mean>,
    kAligned<ops::Add1, ops::Add>,
    kAligned<ops::Sub1, ops::Sub>,
    kAligned<ops::Mul1, ops::Mul>,
    kAligned<ops::Div1, ops::Div>,
    kAligned<ops::Pow1, ops::Pow>,
    kAligned<ops::And1, ops::And>,
    kAligned<ops::Or1, ops::Or>,
    kAligned<ops::Xor1, ops::Xor>,
    kAligned<ops::Equal1, ops::Equal>,
    kAligned<ops::Greater1, ops::Greater>,
    kAligned<ops::Less1, ops::Less>,
};

// The attributes, with bodies in the opset. Most operations have no body, and
// their attributes are shared as they are.
absl::StatusOr<OpAttrs> WithBodiesIn(int version, const OpAttrs& attrs) {
  const auto fields = attrs.def().fields;
  if (std::ranges::none_of(
          fields, [](const AttrField& field) { return field.is_graph; })) {
    return attrs;
  }
  std::vector<NamedAttr> all = NamedAttrsOf(attrs);
  for (NamedAttr& each : all) {
    auto* const graph = std::get_if<Subgraph>(&each.value);
    if (graph == nullptr || graph->body == nullptr) continue;
    auto body = InOpset(*graph->body, version);
    if (!body.ok()) return At("in a body", body.status());
    graph->body = ShareNetwork(*std::move(body));
  }
  return MakeAttrs(attrs.def(), all);
}

absl::StatusOr<Values> AddInOpset(int version, const OldOperation& old,
                                  NetworkCopy& copy) {
  const OperatorDef& def = old.operation.def();
  const std::string place =
      fmt::format("operation {}", Shortened(old.operation.name));
  const auto* const row =
      std::ranges::find(kOldOperators, def.type, &OldOperator::type);
  if (def.domain.empty() && version >= def.until &&
      row != std::end(kOldOperators)) {
    auto made = row->convert(old, copy);
    if (made.ok()) return made;
    return At(fmt::format("{}: {} in opset {}", place, def.name, version),
              made.status());
  }
  auto attrs = WithBodiesIn(version, old.operation.attrs);
  if (!attrs.ok()) return At(place, attrs.status());
  const std::vector<std::string> suffixes(old.operation.outputs.size());
  return copy.AddAs(old.operation, *std::move(attrs), old.inputs, suffixes);
}

}  // namespace

absl::StatusOr<Network> InOpset(const Network& network, int version) {
  NODEWISE_ASSIGN_OR_RETURN(NetworkCopy copy,
                            NetworkCopy::Begin(network, version));
  for (const OperationId id : network.order()) {
    OldOperation old{network.operation(id), {}};
    for (const ValueId input : old.operation.inputs) {
      NODEWISE_ASSIGN_OR_RETURN(old.inputs.emplace_back(),
                                copy.ValueFor(input));
    }
    NODEWISE_ASSIGN_OR_RETURN(const Values made,
                              AddInOpset(version, old, copy));
    for (size_t i = 0; i < made.size(); ++i) {
      // Replacements have made a value of the same name for each.
      if (made[i] != kNoValue) copy.Set(old.operation.outputs[i], made[i]);
    }
  }
  return copy.Finish();
}

}  // namespace nodewise
