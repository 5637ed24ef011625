#include "contrib/ops/util/reduce_shape.h"

#include "nodewise/ndarray/dtype.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

template <typename Side>
std::vector<Side> Remaining(absl::Span<const Side> shape,
                            const std::vector<bool>& is_reduced,
                            bool keepdims) {
  std::vector<Side> remaining;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!is_reduced[i]) {
      remaining.push_back(shape[i]);
    } else if (keepdims) {
      remaining.emplace_back(1);
    }
  }
  return remaining;
}

// Infers the shape for axes that are not known yet.
std::optional<Shape> AnyAxes(const Inputs& in, const ReduceRule& rule) {
  const Shape& shape = *in.type(0).shape;
  if (rule.keepdims) {
    Shape any = UnknownShape(in.type(0).rank());
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == Dim(1)) any[i] = 1;
    }
    return any;
  }
  const TensorType& axes = in.type(1);
  if (!axes.has_rank() || axes.rank() != 1 || !(*axes.shape)[0].is_known()) {
    return std::nullopt;
  }
  const int64_t count = (*axes.shape)[0].size();
  if (count <= 0 || count > in.type(0).rank()) return std::nullopt;
  return UnknownShape(in.type(0).rank() - static_cast<int>(count));
}

// Returns the axes: an empty list if input 1 is not given, none if they are not
// known.
std::optional<std::vector<int64_t>> KnownAxes(const Inputs& in) {
  if (!in.has(1)) return std::vector<int64_t>();
  return in.Ints(1);
}

}  // namespace

absl::StatusOr<std::vector<bool>> ReducedSides(absl::Span<const int64_t> axes,
                                               int rank,
                                               const ReduceRule& rule) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> from_front,
                            Axes(axes, rank));
  const bool all = axes.empty() && !rule.noop_with_empty_axes;
  std::vector<bool> is_reduced(static_cast<size_t>(rank), all);
  for (const int axis : from_front) {
    is_reduced[static_cast<size_t>(axis)] = true;
  }
  return is_reduced;
}

std::vector<int64_t> ReducedShape(absl::Span<const int64_t> shape,
                                  const std::vector<bool>& is_reduced,
                                  bool keepdims) {
  return Remaining<int64_t>(shape, is_reduced, keepdims);
}

absl::Status CheckReduce(const Inputs& in, const ReduceRule& rule) {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireType(in, 1, kInt64), RequireRank(in, 1, 0, 1)));
  const auto axes = KnownAxes(in);
  if (!axes.has_value() || !in.type(0).has_rank()) return absl::OkStatus();
  const auto sides = ReducedSides(*axes, in.type(0).rank(), rule);
  if (sides.ok()) return absl::OkStatus();
  return InputError(1, std::string(MessageOf(sides.status())));
}

absl::StatusOr<OutputInfos> InferReduce(const Inputs& in,
                                        const ReduceRule& rule) {
  TensorType type(in.type(0).dtype);
  if (!in.type(0).has_rank()) return OutputInfos{type};
  const auto axes = KnownAxes(in);
  if (!axes.has_value()) {
    type.shape = AnyAxes(in, rule);
    return OutputInfos{type};
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<bool> is_reduced,
                            ReducedSides(*axes, in.type(0).rank(), rule));
  type.shape = Remaining<Dim>(*in.type(0).shape, is_reduced, rule.keepdims);
  // A side of 0 may have hidden an overflow of the others.
  if (const auto sizes = type.sizes()) {
    NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
  }
  return OutputInfos{type};
}

}  // namespace nodewise
