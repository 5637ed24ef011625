// How a tensor is made to fit what an operator wants to read.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "contrib/lab/autotest/network_builder.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using Sides = std::vector<int64_t>;

constexpr int kClipOfIntegers = 12;  // The opset that brought it.
constexpr int kSliceByInputs = 10;
constexpr double kMostCast = 100;  // Fits all integer types.

int64_t CountOf(const Sides& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         std::multiplies<>());
}

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

absl::StatusOr<ValueId> NetworkBuilder::Cast(PoolTensor* from,
                                             DLDataType dtype) {
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

absl::StatusOr<ValueId> NetworkBuilder::Within(const PoolTensor& from,
                                               const InputDomain& domain) {
  const bool is_float = IsFloat(from.dtype);
  if ((domain.is_whole && is_float) || IsBool(from.dtype) ||
      (!is_float && options_.opset < kClipOfIntegers)) {
    return absl::UnimplementedError("nothing makes such numbers");
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

absl::StatusOr<ValueId> NetworkBuilder::ReshapedFlat(const PoolTensor& from,
                                                     const Sides& shape) {
  const int64_t have = CountOf(from.shape);
  const int64_t want = CountOf(shape);
  ValueId id = from.id;
  if (have != want) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId flat, AddInts({have}));
    NODEWISE_ASSIGN_OR_RETURN(id, Add("Reshape", {}, {id, flat}));
    if (have < want) {
      if (have == 0) return absl::UnimplementedError("nothing to repeat");
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
  if (want == 0) return absl::UnimplementedError("no elements to reshape");
  NODEWISE_ASSIGN_OR_RETURN(const ValueId to, AddInts(shape));
  return Add("Reshape", {}, {id, to});
}

absl::StatusOr<ValueId> NetworkBuilder::CutAndPadded(const PoolTensor& from,
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

absl::StatusOr<ValueId> NetworkBuilder::Reshaped(const PoolTensor& from,
                                                 const Sides& shape) {
  if (from.shape == shape) return from.id;
  const auto order = OrderFor(from.shape, shape);
  if (order.has_value() && Often(70)) {
    return Add("Transpose", {{"perm", *order}}, {from.id});
  }
  const bool may_cut = from.shape.size() == shape.size() && !shape.empty();
  const bool may_pad = IsFloat(from.dtype) && options_.opset >= kSliceByInputs;
  if (may_cut && may_pad && Often(60)) return CutAndPadded(from, shape);
  return ReshapedFlat(from, shape);
}

absl::StatusOr<ValueId> NetworkBuilder::Adapt(const PoolTensor& from,
                                              DLDataType dtype,
                                              const Sides& shape,
                                              const InputDomain& domain) {
  const Choices::Group group(choices_);
  PoolTensor made = from;
  NODEWISE_ASSIGN_OR_RETURN(made.id, Cast(&made, dtype));
  NODEWISE_ASSIGN_OR_RETURN(made.id, Reshaped(made, shape));
  made.shape = shape;
  if (!(TensorOf(made.id).shape == shape)) {
    return absl::UnimplementedError("another shape came out");
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
