#include "contrib/ops/util/pool.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Taps k of [0, kernel) with low <= first + k * dilation < high.
std::pair<int64_t, int64_t> TapsWithin(int64_t first, int64_t dilation,
                                       int64_t kernel, int64_t low,
                                       int64_t high) {
  const int64_t begin =
      first >= low ? 0 : (low - first + dilation - 1) / dilation;
  const int64_t end = first >= high ? 0 : (high - 1 - first) / dilation + 1;
  const int64_t from = std::min(begin, kernel);
  return {from, std::max(from, std::min(end, kernel))};
}

}  // namespace

WindowAttributes WindowOf(const ops::PoolAttributes& pool) {
  return {pool.auto_pad,  pool.kernel_shape, pool.strides,
          pool.dilations, pool.pads,         pool.ceil_mode};
}

WindowAttributes WindowOf(const ops::LpPool1& pool) {
  return {pool.auto_pad, pool.kernel_shape, pool.strides, {}, pool.pads, false};
}

absl::Status CheckPool(const WindowAttributes& window, const Inputs& in) {
  NODEWISE_RETURN_IF_ERROR(RequireRank(in, 0, 3, INT_MAX));
  return ResolveWindow(window, static_cast<int>(window.kernel_shape.size()))
      .status();
}

absl::StatusOr<TensorType> InferPool(const WindowAttributes& window,
                                     const Inputs& in) {
  TensorType type(in.type(0).dtype);
  if (!in.type(0).has_rank()) return type;
  const Shape& x = *in.type(0).shape;
  NODEWISE_ASSIGN_OR_RETURN(const Shape sides, WindowedSides(window, x));
  type.shape = x;
  std::copy(sides.begin(), sides.end(), type.shape->begin() + 2);
  if (const auto sizes = type.sizes()) {
    NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
  }
  return type;
}

absl::StatusOr<PoolPlan> PoolPlan::Make(const WindowAttributes& window,
                                        absl::Span<const int64_t> input) {
  NODEWISE_ASSIGN_OR_RETURN(const PlacedWindow placed,
                            PlaceWindow(window, input.subspan(2)));
  PoolPlan plan;
  plan.output_ = {input[0], input[1]};
  plan.output_.insert(plan.output_.end(), placed.output.begin(),
                      placed.output.end());
  plan.sides_ = placed.output;
  plan.strides_ = StridesOf(placed.input);
  plan.dilations_ = placed.window.dilations;
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(plan.output_));
  plan.planes_ = count == 0 ? 0 : input[0] * input[1];
  if (count == 0) return plan;
  plan.plane_size_ = Product(placed.input);
  plan.places_ = Product(placed.output);
  const size_t spatial = placed.input.size();
  for (size_t s = 0; s < spatial; ++s) {
    const int64_t kernel = placed.window.kernel[s];
    const int64_t dilation = placed.window.dilations[s];
    const int64_t before = placed.window.pads[s];
    const int64_t size = placed.input[s];
    const int64_t behind = size + placed.window.pads[s + spatial];
    plan.window_size_ *= static_cast<double>(kernel);
    std::vector<Range> ranges;
    ranges.reserve(static_cast<size_t>(placed.output[s]));
    for (int64_t at = 0; at < placed.output[s]; ++at) {
      const int64_t first = at * placed.window.strides[s] - before;
      const auto inside = TapsWithin(first, dilation, kernel, 0, size);
      const auto padded = TapsWithin(first, dilation, kernel, -before, behind);
      ranges.push_back({first + inside.first * dilation,
                        inside.second - inside.first,
                        padded.second - padded.first});
    }
    plan.ranges_.push_back(std::move(ranges));
  }
  plan.SetLineTaps(placed);
  return plan;
}

// Only taps that some place sees inside: what a window has in padding may be
// longer than any loop. They are found from the last place to the first, whose
// windows see ever later taps.
void PoolPlan::SetLineTaps(const PlacedWindow& placed) {
  const Window& window = placed.window;
  const size_t last = placed.input.size() - 1;
  const int64_t size = placed.input[last];
  const int64_t kernel = window.kernel[last];
  const int64_t dilation = window.dilations[last];
  line_stride_ = window.strides[last];
  int64_t next = 0;
  for (int64_t place = sides_[last]; place-- > 0;) {
    const auto [low, high] = TapsWithin(
        place * line_stride_ - window.pads[last], dilation, kernel, 0, size);
    for (int64_t k = std::max(low, next); k < high; ++k) {
      const int64_t first = k * dilation - window.pads[last];
      const auto [begin, end] =
          TapsWithin(first, line_stride_, sides_[last], 0, size);
      line_taps_.push_back({begin, end - begin, first + begin * line_stride_});
    }
    next = std::max(next, high);
  }
}

PoolPlan::Placed::Placed(const PoolPlan& plan)
    : plan_(plan), ranges_(plan.ranges_.size()), tap_(plan.ranges_.size()) {}

int64_t PoolPlan::Placed::taps() const {
  int64_t taps = 1;
  for (const Range* range : ranges_) taps *= range->taps;
  return taps;
}

double PoolPlan::Placed::padded() const {
  double taps = 1;
  for (const Range* range : ranges_) taps *= static_cast<double>(range->padded);
  return taps;
}

}  // namespace nodewise
