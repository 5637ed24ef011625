#include "contrib/ops/util/quantize_rules.h"

#include <algorithm>

#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// One scale for the tensor, one for each index along an axis, or one for each
// block of neighbours along an axis: the shape of the scale says which. A
// single number is for the tensor, a list for an axis, and a scale of the rank
// of the data for blocks.
enum class Granularity { kTensor, kAxis, kBlock };

struct ScalePlan {
  Granularity granularity = Granularity::kTensor;
  AxisSplit split;
  int64_t block = 1;
};

// The last block may be shorter than the others.
absl::StatusOr<ScalePlan> PlanScale(const ScaleAttributes& attributes,
                                    absl::Span<const int64_t> data,
                                    absl::Span<const int64_t> scale) {
  ScalePlan plan;
  if (Product(scale) == 1 && scale.size() <= 1) return plan;
  const int rank = static_cast<int>(data.size());
  // A vector has one axis only, so the default does not apply.
  const int64_t axis = rank == 1 ? 0 : attributes.axis;
  NODEWISE_ASSIGN_OR_RETURN(const int at, Axis(axis, rank));
  plan.split = SplitAt(data, at);
  if (scale.size() == 1) {
    plan.granularity = Granularity::kAxis;
    if (scale[0] == plan.split.size) return plan;
    return WrongInput(1, "has {} elements, expected {} as axis {} of the data",
                      scale[0], plan.split.size, at);
  }
  plan.granularity = Granularity::kBlock;
  plan.block = attributes.block_size;
  std::vector<int64_t> expected(data.begin(), data.end());
  int64_t& blocks = expected[static_cast<size_t>(at)];
  if (plan.block < 1) {
    return AttributeError("block_size",
                          "is not above 0, but the scale has several sides");
  }
  blocks = blocks / plan.block + (blocks % plan.block != 0 ? 1 : 0);
  if (scale == absl::MakeConstSpan(expected)) return plan;
  return WrongInput(1, "is of shape {}, expected {}", ShapeToString(scale),
                    ShapeToString(expected));
}

// Calls `f` for the runs among elements [begin, end). A run has one scale, or
// for blocks scales side by side; it ends where the inner sides do, and where
// the caller's part does.
void VisitScaleRuns(const ScalePlan& plan, int64_t begin, int64_t end,
                    absl::FunctionRef<void(const ScaleRun& run)> f) {
  if (plan.granularity == Granularity::kTensor) {
    f({begin, end - begin, 0, 0});
    return;
  }
  const AxisSplit& split = plan.split;
  const int64_t blocks =
      split.size / plan.block + (split.size % plan.block != 0 ? 1 : 0);
  for (int64_t i = begin; i < end;) {
    const int64_t inner = i % split.inner;
    const int64_t at = i / split.inner % split.size;
    const int64_t n = std::min(split.inner - inner, end - i);
    if (plan.granularity == Granularity::kAxis) {
      f({i, n, at, 0});
    } else {
      const int64_t outer = i / split.inner / split.size;
      const int64_t row = outer * blocks + at / plan.block;
      f({i, n, row * split.inner + inner, 1});
    }
    i += n;
  }
}

}  // namespace

// Shorter integers than a byte have values as many as their bits can make.
std::optional<QuantRange> RangeOf(DLDataType dtype) {
  if (dtype == kInt8) return QuantRange{-128, 127};
  if (dtype == kUint8) return QuantRange{0, 255};
  if (dtype == kInt16) return QuantRange{-32768, 32767};
  if (dtype == kUint16) return QuantRange{0, 65535};
  if (!IsShortInteger(dtype)) return std::nullopt;
  const double values = 1 << dtype.bits;
  const double low = dtype.code == kDLInt ? -values / 2 : 0;
  return QuantRange{low, low + values - 1};
}

// In float32 throughout: ONNX defines this operator by others of that type, and
// each of their roundings shows in the zero point.
DynamicScale DynamicScale::FromRange(float low, float high) {
  low = std::min(low, 0.0F);
  high = std::max(high, 0.0F);
  const float scale = (high - low) / 255.0F;
  const float middle = scale == 0 ? 0 : 0 - low / scale;
  return {scale,
          std::nearbyint(Saturated(static_cast<double>(middle), {0, 255}))};
}

absl::Status RequireQuantized(const Inputs& in, size_t i) {
  const auto is_quantized = [](DLDataType dtype) {
    return RangeOf(dtype).has_value() && !IsShortInteger(dtype);
  };
  return RequireType(in, i, is_quantized, "an integer of 8 or 16 bits");
}

bool IsQuantized(DLDataType dtype) {
  return RangeOf(dtype).has_value() ||
         (IsShortFloat(dtype) && dtype.code != kDTypeE8M0);
}

// A scale and a zero point of one element each fit, even where one is a scalar
// and the other a list.
absl::Status CheckScale(const ScaleAttributes& attributes, const Inputs& in) {
  if (attributes.block_size < 0) {
    return WrongAttribute("block_size", "is {}, expected 0 or more",
                          attributes.block_size);
  }
  const auto scale = in.type(1).sizes();
  const auto zero = in.type(2).sizes();
  if (in.has(2) && scale.has_value() && zero.has_value() && *scale != *zero &&
      (Product(*scale) != 1 || Product(*zero) != 1)) {
    return WrongInput(2, "is of shape {}, expected {} as the scale is",
                      ShapeToString(*zero), ShapeToString(*scale));
  }
  const auto data = in.type(0).sizes();
  if (!scale.has_value() || !data.has_value()) return absl::OkStatus();
  return PlanScale(attributes, *data, *scale).status();
}

absl::Status ForEachScaleRun(const ScaleAttributes& attributes,
                             const EvalArgs& args,
                             absl::FunctionRef<void(const ScaleRun& run)> f) {
  NODEWISE_ASSIGN_OR_RETURN(
      const ScalePlan plan,
      PlanScale(attributes, args.shape(0), args.shape(1)));
  ParallelFor(CountOf(args.in(0)), 4, [&](int64_t begin, int64_t end) {
    VisitScaleRuns(plan, begin, end, f);
  });
  return absl::OkStatus();
}

absl::Status MapScaleRuns(
    const ScaleAttributes& attributes, const EvalArgs& args, const NDArray& y,
    absl::FunctionRef<void(const ScaleRun& run, double* x)> f,
    ShortRounding rounding) {
  NODEWISE_ASSIGN_OR_RETURN(
      const ScalePlan plan,
      PlanScale(attributes, args.shape(0), args.shape(1)));
  MapShortBlocks(args.in(0), y, 4, rounding,
                 [&](int64_t begin, int64_t end, double* block) {
                   VisitScaleRuns(plan, begin, end, [&](const ScaleRun& run) {
                     f(run, block + (run.begin - begin));
                   });
                 });
  return absl::OkStatus();
}

// A block of doubles stays in the cache from reading to rounding.
void MapShortBlocks(
    const NDArray& x, const NDArray& y, double work, ShortRounding rounding,
    absl::FunctionRef<void(int64_t begin, int64_t end, double* block)> f) {
  const bool is_short = IsShortFloat(y.dtype());
  ParallelFor(CountOf(x), work, [&](int64_t begin, int64_t end) {
    double block[kWideBlock];
    for (int64_t at = begin; at < end; at += kWideBlock) {
      const int64_t next = std::min(at + kWideBlock, end);
      LoadDoubles(x, at, next, block);
      f(at, next, block);
      if (is_short) {
        StoreShortFloats(block, at, next, y, rounding);
      } else {
        StoreDoubles(block, at, next, y);
      }
    }
  });
}

// Between integers a step is 1; between short floats it grows with the number.
void BoundByOneStep(const NDArray& y, Bounds* bounds) {
  if (bounds == nullptr) return;
  bounds->proved.assign(static_cast<size_t>(CountOf(y)), 1);
  if (IsShortFloat(y.dtype())) {
    for (size_t i = 0; i < bounds->proved.size(); ++i) {
      bounds->proved[i] = ShortStep(y.dtype(), y.As<uint8_t>()[i]);
    }
  }
  bounds->expected = bounds->proved;
}

}  // namespace nodewise
