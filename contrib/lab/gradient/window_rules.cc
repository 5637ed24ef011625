#include <algorithm>
#include <numeric>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/sampling.h"
#include "nodewise/ops/unary.h"

// Windows that slide over spatial sides.

namespace nodewise::gradient {
namespace {

using Sizes = std::vector<int64_t>;
using Terms = std::vector<Term>;

Sizes Spatial(const Sizes& sizes) {
  if (sizes.size() < 2) return {};
  return {sizes.begin() + 2, sizes.end()};
}

// These sizes, and then the spatial ones.
Sizes Joined(Sizes first, const Sizes& spatial) {
  first.insert(first.end(), spatial.begin(), spatial.end());
  return first;
}

int64_t ReachOf(const Window& window, size_t side) {
  return (window.kernel[side] - 1) * window.dilations[side] + 1;
}

// The window with its pads, for an input of these spatial sides.
template <typename Class>
Window WindowOf(Writer& writer, const Class& op, Sizes kernel,
                const Sizes& spatial) {
  auto window = ResolveWindow({op.auto_pad, std::move(kernel), op.strides,
                               op.dilations, op.pads, false},
                              static_cast<int>(spatial.size()));
  writer.Fail(window.status());
  if (!window.ok()) return {};
  for (size_t s = 0; s < spatial.size(); ++s) {
    PadSame(op.auto_pad, static_cast<int>(s), spatial[s], &*window);
  }
  return *std::move(window);
}

// Changes the pads at the end so that there are exactly `places` windows, the
// last of which may have reached beyond the padding. Returns what no window
// reaches of each side.
Sizes FitPads(const Sizes& spatial, const Sizes& places, Window* window) {
  const size_t count = spatial.size();
  Sizes unreached(count, 0);
  if (window->strides.size() != count || places.size() != count) return {};
  for (size_t s = 0; s < count; ++s) {
    const int64_t reached =
        window->strides[s] * (places[s] - 1) + ReachOf(*window, s);
    const int64_t end = reached - window->pads[s] - spatial[s];
    window->pads[count + s] = std::max<int64_t>(end, 0);
    unreached[s] = std::max<int64_t>(-end, 0);
  }
  return unreached;
}

void SetWindow(const Window& window, ops::ConvAttributes* conv) {
  conv->kernel_shape = window.kernel;
  conv->strides = window.strides;
  conv->dilations = window.dilations;
  conv->pads = window.pads;
}

// What reaches the input of a convolution.
Term InputGradient(Term dy, Term weights, int64_t group, Window window,
                   const Sizes& input) {
  ops::ConvTranspose conv;
  conv.group = group;
  conv.output_padding = FitPads(Spatial(input), Spatial(dy.sizes()), &window);
  SetWindow(window, &conv);
  return dy.writer().Add(conv, {dy, weights});
}

// What reaches the weights of a convolution: one over the input, with the
// cotangents as weights, the strides as dilations, and channels and batch
// exchanged. The groups are groups of channels again.
Term WeightGradient(Term input, Term dy, int64_t group, const Window& window,
                    const Sizes& weights) {
  const Sizes x = input.sizes();
  const Sizes y = dy.sizes();
  const Sizes kernel = Spatial(weights);
  if (x.size() < 3 || y.size() < 3) return {&dy.writer(), kNoValue};
  const int64_t in = x[1] / group;
  const int64_t out = y[1] / group;
  Sizes order = Counting(0, static_cast<int64_t>(x.size()) + 1);
  order[0] = 2, order[1] = 1, order[2] = 0;  // [N, G, C] to [C, G, N].
  const Term planes = ReshapeTo(
      Transposed(ReshapeTo(input, Joined({x[0], group, in}, Spatial(x))),
                 order),
      Joined({in, group * x[0]}, Spatial(x)));
  order[0] = 1, order[1] = 2, order[2] = 0;  // [N, G, C] to [G, C, N].
  const Term kernels = ReshapeTo(
      Transposed(ReshapeTo(dy, Joined({y[0], group, out}, Spatial(y))), order),
      Joined({group * out, y[0]}, Spatial(y)));
  ops::Conv conv;
  conv.group = group;
  conv.kernel_shape = Spatial(y);
  conv.strides = window.dilations;
  conv.dilations = window.strides;
  conv.pads = window.pads;
  // Where windows do not reach the end, there are more places than weights.
  Term made = dy.writer().Add(conv, {planes, kernels});
  for (size_t s = 0; s < kernel.size(); ++s) {
    made = Part(made, static_cast<int64_t>(s) + 2, 0, kernel[s]);
  }
  Sizes swap = Counting(0, static_cast<int64_t>(x.size()));
  std::swap(swap[0], swap[1]);
  return Transposed(made, swap);
}

void GiveBias(Rule& r) {
  if (!r.has(2)) return;
  Sizes axes = Counting(0, r.dy().rank());
  if (axes.size() > 1) axes.erase(axes.begin() + 1);
  r.Give(2, ReshapeTo(SumOver(r.dy(), axes), r.x(2).sizes()));
}

void ConvRule(Rule& r) {
  const auto& op = r.As<ops::Conv>();
  const Sizes x = r.x().sizes();
  const Sizes weights = r.x(1).sizes();
  const Window window = WindowOf(r.writer(), op, Spatial(weights), Spatial(x));
  if (!r.writer().status().ok()) return;
  r.Give(0, InputGradient(r.dy(), r.x(1), op.group, window, x));
  r.Give(1, WeightGradient(r.x(), r.dy(), op.group, window, weights));
  GiveBias(r);
}

// How a transposed convolution lies in its output: the pads follow from the
// sizes there are, but for how an odd number of them is shared.
Window TransposedWindow(Rule& r) {
  const auto& op = r.As<ops::ConvTranspose>();
  const Sizes places = Spatial(r.x().sizes());
  const Sizes output = Spatial(r.dy().sizes());
  auto made = ResolveWindow({op.auto_pad, Spatial(r.x(1).sizes()), op.strides,
                             op.dilations, op.pads, false},
                            static_cast<int>(places.size()));
  r.writer().Fail(made.status());
  if (!made.ok()) return {};
  Window window = *std::move(made);
  const bool is_same =
      op.auto_pad == Padding::kSameUpper || op.auto_pad == Padding::kSameLower;
  for (size_t s = 0; s < places.size(); ++s) {
    const int64_t more = op.output_padding.empty() ? 0 : op.output_padding[s];
    const int64_t full =
        window.strides[s] * (places[s] - 1) + ReachOf(window, s);
    const int64_t total = std::max<int64_t>(full + more - output[s], 0);
    if (is_same || !op.output_shape.empty()) {
      window.pads[s] =
          op.auto_pad == Padding::kSameUpper ? total / 2 : total - total / 2;
    }
  }
  return window;
}

// The convolution whose input the output is.
void ConvTransposeRule(Rule& r) {
  const auto& op = r.As<ops::ConvTranspose>();
  Window window = TransposedWindow(r);
  if (!r.writer().status().ok()) return;
  const Sizes places = Spatial(r.x().sizes());
  FitPads(Spatial(r.dy().sizes()), places, &window);
  ops::Conv conv;
  conv.group = op.group;
  SetWindow(window, &conv);
  Term dx = r.writer().Add(conv, {r.dy(), r.x(1)});
  for (size_t s = 0; s < places.size(); ++s) {
    dx = Part(dx, static_cast<int64_t>(s) + 2, 0, places[s]);
  }
  r.Give(0, dx);
  r.Give(1, WeightGradient(r.dy(), r.x(), op.group, window, r.x(1).sizes()));
  GiveBias(r);
}

// The sum of each window: a convolution of each plane with ones.
template <typename Class>
Term WindowSum(Term x, const Class& op, const Sizes& output, Window* window) {
  Writer& writer = x.writer();
  const Sizes sizes = x.sizes();
  *window = WindowOf(writer, op, op.kernel_shape, Spatial(sizes));
  if (!writer.status().ok()) return {&writer, kNoValue};
  Window fitted = *window;
  FitPads(Spatial(sizes), Spatial(output), &fitted);
  ops::Conv conv;
  SetWindow(fitted, &conv);
  const Term planes =
      ReshapeTo(x, Joined({sizes[0] * sizes[1], 1}, Spatial(sizes)));
  const Term sum = writer.Add(
      conv,
      {planes, writer.Filled(1, x.dtype(), Joined({1, 1}, window->kernel))});
  return ReshapeTo(sum, output);
}

// How many elements of one side count in the window at `place`.
double CountAt(const Window& window, size_t side, int64_t size, int64_t place,
               bool counts_pads) {
  const int64_t before = window.pads[side];
  const int64_t behind = window.pads[window.kernel.size() + side];
  const int64_t least = counts_pads ? -before : 0;
  const int64_t most = size + (counts_pads ? behind : 0);
  double count = 0;
  for (int64_t k = 0; k < window.kernel[side]; ++k) {
    const int64_t at =
        place * window.strides[side] - before + k * window.dilations[side];
    if (at >= least && at < most) ++count;
  }
  return count;
}

// How many elements count in each window, as a tensor of one plane.
std::vector<double> CountsOf(const Window& window, const Sizes& spatial,
                             const Sizes& places, bool counts_pads) {
  std::vector<double> counts = {1};
  for (size_t s = 0; s < spatial.size(); ++s) {
    std::vector<double> longer;
    for (const double outer : counts) {
      for (int64_t place = 0; place < places[s]; ++place) {
        longer.push_back(outer *
                         CountAt(window, s, spatial[s], place, counts_pads));
      }
    }
    counts = std::move(longer);
  }
  return counts;
}

Terms DefineAveragePool(Rule& r) {
  const auto& op = r.As<ops::AveragePool>();
  const Sizes output = r.y().sizes();
  Window window;
  const Term sum = WindowSum(r.x(), op, output, &window);
  if (!r.writer().status().ok()) return {sum};
  const std::vector<double> counts = CountsOf(
      window, Spatial(r.x().sizes()), Spatial(output), op.count_include_pad);
  return {sum / r.writer().Numbers(counts, sum.dtype(),
                                   Joined({1, 1}, Spatial(output)))};
}

Terms DefineLpPool(Rule& r) {
  const auto& op = r.As<ops::LpPool>();
  const auto p = static_cast<double>(op.p);
  Window window;
  const Term sum = WindowSum(Power(Abs(r.x()), p), op, r.y().sizes(), &window);
  return {Power(sum, 1 / p)};
}

// The indices of the largest elements are places in the whole tensor.
void MaxPoolRule(Rule& r) {
  if (!r.has_dy(0)) return;
  ops::MaxPool pool = r.As<ops::MaxPool>();
  pool.storage_order = false;
  const Term places = r.writer().AddAll(pool, {r.x()}, 2)[1];
  r.Give(0, ScatterAdded(places, r.dy(), r.x().sizes()));
}

Sizes PlaneAxes(Term x) { return Counting(2, x.rank()); }

Terms DefineGlobalMaxPool(Rule& r) {
  Writer& w = r.writer();
  return {w.Add(ops::ReduceMax{}, {r.x(), w.Ints(PlaneAxes(r.x()))})};
}

Terms DefineGlobalNorm(Rule& r, double p) {
  const Term sum = SumOver(Power(Abs(r.x()), p), PlaneAxes(r.x()));
  return {Power(sum, 1 / p)};
}

// The sum of the squares of neighbouring channels is a convolution along them.
Terms DefineLrn(Rule& r) {
  const auto& op = r.As<ops::LRN>();
  const Term x = r.x();
  const Sizes sizes = x.sizes();
  if (sizes.size() < 2) return {x};
  Writer& w = r.writer();
  const int64_t inner = Product(Spatial(sizes));
  const int64_t before = (op.size - 1) / 2;
  ops::Conv conv;
  conv.pads = {before, 0, op.size - 1 - before, 0};
  const Term planes = ReshapeTo(Square(x), {sizes[0], 1, sizes[1], inner});
  const Term sum = ReshapeTo(
      w.Add(conv, {planes, w.Filled(1, x.dtype(), {1, 1, op.size.get(), 1})}),
      sizes);
  const double scale = op.alpha / static_cast<double>(op.size.get());
  return {x / Power(sum * scale + double{op.bias}, op.beta)};
}

// Which element of an image each element of the columns goes to; behind the
// last one what goes nowhere.
Sizes ColumnTargets(const Window& window, const Sizes& image) {
  Sizes counts;
  for (size_t s = 0; s < image.size(); ++s) {
    counts.push_back(
        *WindowCount(window, static_cast<int>(s), image[s], false));
  }
  Sizes targets;
  for (int64_t tap = 0; tap < Product(window.kernel); ++tap) {
    for (int64_t place = 0; place < Product(counts); ++place) {
      int64_t taps = tap;
      int64_t places = place;
      int64_t element = 0;
      int64_t step = 1;
      bool is_inside = true;
      for (size_t s = image.size(); s-- > 0; step *= image[s]) {
        const int64_t at = places % counts[s] * window.strides[s] +
                           taps % window.kernel[s] * window.dilations[s] -
                           window.pads[s];
        is_inside = is_inside && at >= 0 && at < image[s];
        element += at * step;
        places /= counts[s];
        taps /= window.kernel[s];
      }
      targets.push_back(is_inside ? element : Product(image));
    }
  }
  return targets;
}

// Each column gets what reaches the elements that it was added to.
void Col2ImRule(Rule& r) {
  const auto& op = r.As<ops::Col2Im>();
  Writer& w = r.writer();
  const Sizes columns = r.x().sizes();
  const Sizes y = r.dy().sizes();
  const auto window = ResolveWindow({ops::Padding::kNotset, r.Ints(2),
                                     op.strides, op.dilations, op.pads, false},
                                    static_cast<int>(y.size()) - 2);
  w.Fail(window.status());
  if (!w.status().ok()) return;
  const Sizes image = Spatial(y);
  const Sizes targets = ColumnTargets(*window, image);
  const int64_t planes = y[0] * y[1];
  const Term elements =
      w.Add(ops::Concat{1}, {ReshapeTo(r.dy(), {planes, Product(image)}),
                             w.Filled(0, r.dy().dtype(), {planes, 1})});
  r.Give(0, ReshapeTo(w.Add(ops::Gather{1}, {elements, w.Ints(targets)}),
                      columns));
}

constexpr Row kWindowRows[] = {
    DefinitionOf<ops::AveragePool>(&DefineAveragePool),
    RuleOf<ops::Col2Im>(&Col2ImRule),
    RuleOf<ops::Conv>(&ConvRule),
    RuleOf<ops::ConvTranspose>(&ConvTransposeRule),
    DefinitionOf<ops::GlobalAveragePool>(
        [](Rule& r) -> Terms { return {MeanOver(r.x(), PlaneAxes(r.x()))}; }),
    DefinitionOf<ops::GlobalLpPool>([](Rule& r) {
      return DefineGlobalNorm(r,
                              static_cast<double>(r.As<ops::GlobalLpPool>().p));
    }),
    DefinitionOf<ops::GlobalLpPool1>([](Rule& r) {
      return DefineGlobalNorm(r, r.As<ops::GlobalLpPool1>().p);
    }),
    DefinitionOf<ops::GlobalMaxPool>(&DefineGlobalMaxPool),
    DefinitionOf<ops::LRN>(&DefineLrn),
    DefinitionOf<ops::LpPool>(&DefineLpPool),
    RuleOf<ops::MaxPool>(&MaxPoolRule),
};

}  // namespace

absl::Span<const Row> WindowRows() { return kWindowRows; }

}  // namespace nodewise::gradient
