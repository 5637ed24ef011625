#include <algorithm>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/roi.h"
#include "nodewise/ops/sampling.h"

// Windows that slide over spatial sides: convolutions and pools.

namespace nodewise::gradient {
namespace {

Sizes Spatial(const Sizes& sizes) {
  if (sizes.size() < 2) return {};
  return {sizes.begin() + 2, sizes.end()};
}

Sizes WithSpatial(Sizes first, const Sizes& spatial) {
  first.insert(first.end(), spatial.begin(), spatial.end());
  return first;
}

Term FirstOfSides(Term x, const Sizes& spatial) {
  for (size_t s = 0; s < spatial.size(); ++s) {
    x = Part(x, static_cast<int64_t>(s) + 2, 0, spatial[s]);
  }
  return x;
}

int64_t ReachOf(const Window& window, size_t side) {
  return (window.kernel[side] - 1) * window.dilations[side] + 1;
}

// The window with its pads, for an input of these spatial sides.
template <typename Class>
Window WindowOf(Writer& writer, const Class& op, Sizes kernel,
                const Sizes& spatial) {
  Window window = Resolved(writer, op, std::move(kernel), spatial.size());
  if (!writer.status().ok()) return {};
  for (size_t s = 0; s < spatial.size(); ++s) {
    PadSame(op.auto_pad, static_cast<int>(s), spatial[s], &window);
  }
  return window;
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

template <typename Class>
Class ConvWith(const Window& window, int64_t group) {
  Class conv;
  conv.group = group;
  conv.kernel_shape = window.kernel;
  conv.strides = window.strides;
  conv.dilations = window.dilations;
  conv.pads = window.pads;
  return conv;
}

// What reaches the input of a convolution. Elements that no window reaches get
// zeros, as a transposed convolution's output padding does.
Term InputGradient(Term dy, Term weights, int64_t group, Window window,
                   const Sizes& input) {
  const Sizes unreached = FitPads(Spatial(input), Spatial(dy.sizes()), &window);
  auto conv = ConvWith<ops::ConvTranspose>(window, group);
  conv.output_padding = unreached;
  return Apply(conv, dy, weights);
}

// The batch, the groups and the channels of a group, [N, G, C], in another
// order, as two sides of these sizes.
Term Regrouped(Term x, int64_t group, const Sizes& order, const Sizes& two) {
  const Sizes sizes = x.sizes();
  const Sizes spatial = Spatial(sizes);
  const Sizes whole = WithSpatial(order, Counting(3, x.rank() + 1));
  const Term split =
      ReshapeTo(x, WithSpatial({sizes[0], group, sizes[1] / group}, spatial));
  return ReshapeTo(Transposed(split, whole), WithSpatial(two, spatial));
}

// What reaches the weights of a convolution: one over the input, with the
// cotangents as weights, the strides as dilations, and channels and batch
// exchanged. The groups are groups of channels again.
Term WeightGradient(Term input, Term dy, int64_t group, const Window& window,
                    const Sizes& weights) {
  const Sizes x = input.sizes();
  const Sizes y = dy.sizes();
  if (x.size() < 3 || y.size() < 3) return {&dy.writer(), kNoValue};
  const Term planes =  // [C, G, N].
      Regrouped(input, group, {2, 1, 0}, {x[1] / group, group * x[0]});
  const Term kernels =  // [G, C, N].
      Regrouped(dy, group, {1, 2, 0}, {y[1] / group * group, y[0]});
  const auto conv = ConvWith<ops::Conv>(
      {Spatial(y), window.dilations, window.strides, window.pads}, group);
  // Where windows do not reach the end, there are more places than weights.
  const Term made =
      FirstOfSides(Apply(conv, planes, kernels), Spatial(weights));
  Sizes swap = Counting(0, static_cast<int64_t>(x.size()));
  std::swap(swap[0], swap[1]);
  return Transposed(made, swap);
}

void GiveBias(Rule& r) {
  if (!r.has(2)) return;
  r.SetGradient(2, ReshapeTo(SumOver(r.dy(), AxesBesideChannels(r.dy().rank())),
                             r.x(2).sizes()));
}

void ConvRule(Rule& r, const ops::Conv& op) {
  const Sizes x = r.x().sizes();
  const Sizes weights = r.x(1).sizes();
  const Window window = WindowOf(r.writer, op, Spatial(weights), Spatial(x));
  if (!r.writer.status().ok()) return;
  r.SetGradient(0, InputGradient(r.dy(), r.x(1), op.group, window, x));
  r.SetGradient(1, WeightGradient(r.x(), r.dy(), op.group, window, weights));
  GiveBias(r);
}

// How a transposed convolution lies in its output: the pads follow from the
// sizes there are, but for how an odd number of them is shared.
Window TransposedWindow(const Rule& r, const ops::ConvTranspose& op) {
  const Sizes places = Spatial(r.x().sizes());
  const Sizes output = Spatial(r.dy().sizes());
  Window window =
      Resolved(r.writer, op, Spatial(r.x(1).sizes()), places.size());
  if (!r.writer.status().ok()) return {};
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

// A transposed convolution is the gradient of a convolution, so its own
// gradient is that convolution.
void ConvTransposeRule(Rule& r, const ops::ConvTranspose& op) {
  Window window = TransposedWindow(r, op);
  if (!r.writer.status().ok()) return;
  const Sizes places = Spatial(r.x().sizes());
  FitPads(Spatial(r.dy().sizes()), places, &window);
  const auto conv = ConvWith<ops::Conv>(window, op.group);
  r.SetGradient(0, FirstOfSides(Apply(conv, r.dy(), r.x(1)), places));
  r.SetGradient(
      1, WeightGradient(r.dy(), r.x(), op.group, window, r.x(1).sizes()));
  GiveBias(r);
}

// Which element of an image each element of the columns goes to; behind the
// last one what goes nowhere. Columns are by tap, then by window, and both are
// numbers of several digits, one for each side with the last one first.
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

// Each column gets what reaches the elements that it was added to. One more
// element of 0 behind them is what columns outside of the image get.
void Col2ImRule(Rule& r, const ops::Col2Im& op) {
  Writer& w = r.writer;
  const Sizes columns = r.x().sizes();
  const Sizes y = r.dy().sizes();
  const Sizes image = Spatial(y);
  const Window window = Resolved(w, op, r.Ints(2), image.size());
  if (!w.status().ok()) return;
  const Sizes targets = ColumnTargets(window, image);
  const int64_t planes = y[0] * y[1];
  const Term elements = Joined({ReshapeTo(r.dy(), {planes, Product(image)}),
                                w.Filled(0, r.dy().dtype(), {planes, 1})},
                               1);
  r.SetGradient(0, ReshapeTo(Gathered(elements, 1, w.Ints(targets)), columns));
}

// The sum of each window: a convolution of each plane with ones.
Term WindowSum(Term x, Window window, const Sizes& output) {
  const Sizes sizes = x.sizes();
  FitPads(Spatial(sizes), Spatial(output), &window);
  const Term planes =
      ReshapeTo(x, WithSpatial({sizes[0] * sizes[1], 1}, Spatial(sizes)));
  const Term ones =
      x.writer().Filled(1, x.dtype(), WithSpatial({1, 1}, window.kernel));
  return ReshapeTo(Apply(ConvWith<ops::Conv>(window, 1), planes, ones), output);
}

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

// How many elements count in each window, as a tensor of one plane: the product
// of what counts along each side.
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

// The counts are those of the window before its pads are fitted: a window that
// reaches beyond the padding, as rounding up makes them, counts less.
Terms DefineAveragePool(Rule& r, const ops::AveragePool& op) {
  const Sizes output = r.y().sizes();
  const Sizes spatial = Spatial(r.x().sizes());
  const Window window = WindowOf(r.writer, op, op.kernel_shape, spatial);
  if (!r.writer.status().ok()) return {};
  const Term sum = WindowSum(r.x(), window, output);
  const std::vector<double> counts =
      CountsOf(window, spatial, Spatial(output), op.count_include_pad);
  return {sum / r.writer.Numbers(counts, sum.dtype(),
                                 WithSpatial({1, 1}, Spatial(output)))};
}

Terms DefineLpPool(Rule& r, const ops::LpPool& op) {
  const auto p = static_cast<double>(op.p);
  const Window window =
      WindowOf(r.writer, op, op.kernel_shape, Spatial(r.x().sizes()));
  if (!r.writer.status().ok()) return {};
  const Term sum = WindowSum(Power(Abs(r.x()), p), window, r.y().sizes());
  return {Power(sum, 1 / p)};
}

// The indices of the largest elements are places in the whole tensor.
void MaxPoolRule(Rule& r) {
  if (!r.has_dy(0)) return;
  ops::MaxPool pool = r.As<ops::MaxPool>();
  // Places of elements as they lie in memory, which ScatterAdded takes.
  pool.storage_order = false;
  const Term places = r.writer.AddAll(pool, {r.x()}, 2)[1];
  r.SetGradient(0, ScatterAdded(places, r.dy(), r.x().sizes()));
}

// Indices are places in the smallest tensor that pools to the input; in a
// larger one the same element has another place.
Term PlacesIn(Term index, const Sizes& smallest, const Sizes& larger) {
  if (smallest == larger) return index;
  Writer& w = index.writer();
  Term place = w.Int(0);
  int64_t step = 1;
  Term rest = index;
  for (size_t s = smallest.size(); s-- > 0;) {
    const Term outer = rest / w.Int(smallest[s]);
    place = place + (rest - outer * w.Int(smallest[s])) * w.Int(step);
    rest = outer;
    step *= larger[s];
  }
  return place;
}

Term MaxUnpoolFormula(Point p, const ops::MaxUnpool& op) {
  const Sizes x = p.x.sizes();
  const Sizes larger = p.dy.sizes();
  const size_t count = op.kernel_shape.size();
  const Window window = Resolved(p.r.writer, op, op.kernel_shape, count);
  if (!p.r.writer.status().ok()) return {};
  Sizes smallest = x;
  for (size_t s = 0; s < count; ++s) {
    smallest[s + 2] = (x[s + 2] - 1) * window.strides[s] + window.kernel[s] -
                      window.pads[s] - window.pads[s + count];
  }
  return Gathered(Flattened(p.dy), 0, PlacesIn(p.r.x(1), smallest, larger));
}

Sizes PlaneAxes(Term x) { return Counting(2, x.rank()); }

template <typename Class>
Terms DefineGlobalNorm(Rule& r, const Class& op) {
  const auto p = static_cast<double>(op.p);
  const Term sum = SumOver(Power(Abs(r.x()), p), PlaneAxes(r.x()));
  return {Power(sum, 1 / p)};
}

// The sum of the squares of neighbouring channels is a convolution along them.
Terms DefineLrn(Rule& r, const ops::LRN& op) {
  const Term x = r.x();
  const Sizes sizes = x.sizes();
  if (sizes.size() < 2) return {x};
  const int64_t inner = Product(Spatial(sizes));
  const int64_t before = (op.size - 1) / 2;
  ops::Conv conv;
  conv.pads = {before, 0, op.size - 1 - before, 0};
  const Term planes = ReshapeTo(Square(x), {sizes[0], 1, sizes[1], inner});
  const Term ones = r.writer.Filled(1, x.dtype(), {1, 1, op.size.get(), 1});
  const Term sum = ReshapeTo(Apply(conv, planes, ones), sizes);
  const double scale = op.alpha / static_cast<double>(op.size.get());
  return {x / Power(sum * scale + double{op.bias}, op.beta)};
}

constexpr Row kWindowRows[] = {
    DefinitionOf<ops::AveragePool, &DefineAveragePool>(),
    RuleOf<ops::Col2Im, &Col2ImRule>(),
    RuleOf<ops::Conv, &ConvRule>(),
    RuleOf<ops::ConvTranspose, &ConvTransposeRule>(),
    DefinitionOf<ops::GlobalAveragePool>(
        [](Rule& r) -> Terms { return {MeanOver(r.x(), PlaneAxes(r.x()))}; }),
    DefinitionOf<ops::GlobalLpPool, &DefineGlobalNorm>(),
    DefinitionOf<ops::GlobalLpPool1, &DefineGlobalNorm>(),
    DefinitionOf<ops::GlobalMaxPool>(
        [](Rule& r) -> Terms { return {MaxOver(r.x(), PlaneAxes(r.x()))}; }),
    DefinitionOf<ops::LRN, &DefineLrn>(),
    DefinitionOf<ops::LpPool, &DefineLpPool>(),
    RuleOf<ops::MaxPool>(&MaxPoolRule),
    FormulaOf<ops::MaxUnpool, &MaxUnpoolFormula>(),
};

}  // namespace

Window Resolved(Writer& writer, const WindowAttributes& attributes,
                size_t spatial) {
  auto window = ResolveWindow(attributes, static_cast<int>(spatial));
  writer.Fail(window.status());
  return window.ok() ? *std::move(window) : Window();
}

absl::Span<const Row> WindowRows() { return kWindowRows; }

}  // namespace nodewise::gradient
