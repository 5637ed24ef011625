#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/signal.h"

// Fourier transforms. They are linear: the gradient of one is the one that
// turns the other way round.

namespace nodewise::gradient {
namespace {

using Sizes = std::vector<int64_t>;

// One transform. The axis is counted from the front.
struct FourierSides {
  int64_t axis = 0;
  int64_t length = 1;
  bool inverse = false;
  bool onesided = false;
};

// The axis is an attribute until opset 20.
Term Transformed(Term x, const FourierSides& by) {
  Writer& w = x.writer();
  const auto number = [&](int64_t n) {
    return w.Number(static_cast<double>(n), kInt64);
  };
  if (w.network().opset() < 20) {
    return w.Add(ops::DFT17{by.axis, by.inverse, by.onesided},
                 {x, number(by.length)});
  }
  return w.Add(ops::DFT{by.inverse, by.onesided},
               {x, number(by.length), number(by.axis)});
}

// As many elements of one side as wanted: the first ones, or zeros behind them.
Term WithSide(Term x, int64_t axis, int64_t wanted) {
  Sizes sizes = x.sizes();
  const auto at = static_cast<size_t>(axis);
  if (at >= sizes.size()) return x;
  if (sizes[at] >= wanted) return Part(x, axis, 0, wanted);
  sizes[at] = wanted - sizes[at];
  Writer& w = x.writer();
  return w.Add(ops::Concat{axis}, {x, w.Filled(0, x.dtype(), sizes)});
}

// What reaches half of a spectrum that real numbers were made of: each element
// stands for its mirror image, too, if it has another one.
Term HalfSpectrumGradient(Term dy, FourierSides by) {
  by.inverse = false;
  const Term half = Transformed(dy, by);
  std::vector<double> scales;
  for (int64_t k = 0; k <= by.length / 2; ++k) {
    const bool is_single = k == 0 || 2 * k == by.length;
    scales.push_back((is_single ? 1.0 : 2.0) / static_cast<double>(by.length));
  }
  Sizes line(dy.sizes().size(), 1);
  if (line.empty()) return dy;
  line[static_cast<size_t>(by.axis)] = by.length / 2 + 1;
  return half * dy.writer().Numbers(scales, dy.dtype(), line);
}

void GiveSignal(Rule& r, FourierSides by) {
  const Sizes sizes = r.x().sizes();
  if (sizes.empty()) return;
  if (by.axis < 0) by.axis += static_cast<int64_t>(sizes.size());
  const int64_t side = sizes[static_cast<size_t>(by.axis)];
  const bool is_real_inverse = by.inverse && by.onesided;
  by.length = is_real_inverse ? 2 * (side - 1) : side;
  if (r.has(1)) {
    const Sizes told = r.Ints(1);
    if (told.empty()) return;
    by.length = told[0];
  }
  Term dx;
  if (is_real_inverse) {
    dx = HalfSpectrumGradient(r.dy(), by);
  } else {
    const auto length = static_cast<double>(by.length);
    const FourierSides back{by.axis, by.length, !by.inverse, false};
    dx = Transformed(r.dy(), back) * (by.inverse ? 1 / length : length);
  }
  dx = WithSide(dx, by.axis, side);
  // A real input has no imaginary part.
  r.Give(0, WithSide(dx, static_cast<int64_t>(sizes.size()) - 1, sizes.back()));
}

void Dft17Rule(Rule& r) {
  const auto& op = r.As<ops::DFT17>();
  GiveSignal(r, {op.axis, 1, op.inverse, op.onesided});
}

void DftRule(Rule& r) {
  const auto& op = r.As<ops::DFT>();
  const Sizes axis = r.has(2) ? r.Ints(2) : Sizes{-2};
  if (axis.empty()) return;
  GiveSignal(r, {axis[0], 1, op.inverse, op.onesided});
}

// Transforms of frames that are cut out of the signal.
std::vector<Term> DefineStft(Rule& r) {
  const auto& op = r.As<ops::STFT>();
  Writer& w = r.writer();
  const Sizes signal = r.x().sizes();
  const Sizes step = r.Ints(1);
  const Sizes spectrum = r.y().sizes();
  int64_t length = signal.size() == 3 ? signal[1] : 0;
  if (r.has(2)) length = r.x(2).count();
  if (r.has(3)) {
    const Sizes told = r.Ints(3);
    if (!told.empty()) length = told[0];
  }
  if (!w.status().ok()) return {r.x()};
  Sizes places;
  for (int64_t frame = 0; frame < spectrum[1]; ++frame) {
    for (int64_t i = 0; i < length; ++i) places.push_back(frame * step[0] + i);
  }
  Term frames =
      w.Add(ops::Gather{1},
            {r.x(), ReshapeTo(w.Ints(places), {spectrum[1], length})});
  if (r.has(2)) frames = frames * ReshapeTo(r.x(2), {length, 1});
  return {Transformed(frames, {2, length, false, op.onesided})};
}

constexpr Row kSignalRows[] = {
    RuleOf<ops::DFT>(&DftRule),
    RuleOf<ops::DFT17>(&Dft17Rule),
    DefinitionOf<ops::STFT>(&DefineStft),
};

}  // namespace

absl::Span<const Row> SignalRows() { return kSignalRows; }

}  // namespace nodewise::gradient
