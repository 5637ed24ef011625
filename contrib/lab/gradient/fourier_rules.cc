#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/signal.h"

// Fourier transforms of signals, and of frames that are cut out of them.

namespace nodewise::gradient {
namespace {

// Fourier transforms are linear: the gradient of one is the transform in the
// other direction. The axis is counted from the front.
struct FourierSides {
  int64_t axis = 0;
  int64_t length = 1;
  bool inverse = false;
  bool onesided = false;
};

// The axis is an attribute until opset 20.
Term Transformed(Term x, const FourierSides& by) {
  Writer& w = x.writer();
  if (w.network().opset() < 20) {
    return w.Add(ops::DFT17{by.axis, by.inverse, by.onesided},
                 {x, w.Int(by.length)});
  }
  return w.Add(ops::DFT{by.inverse, by.onesided},
               {x, w.Int(by.length), w.Int(by.axis)});
}

// As many elements of one side as wanted: the first ones, or zeros behind them.
Term WithSide(Term x, int64_t axis, int64_t wanted) {
  Sizes sizes = x.sizes();
  const auto at = static_cast<size_t>(axis);
  if (at >= sizes.size()) return x;
  if (sizes[at] >= wanted) return Part(x, axis, 0, wanted);
  sizes[at] = wanted - sizes[at];
  return Joined({x, x.writer().Filled(0, x.dtype(), sizes)}, axis);
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
  const size_t rank = dy.sizes().size();
  if (rank == 0) return dy;
  return half *
         dy.writer().Numbers(scales, dy.dtype(),
                             LineAlong(rank, by.axis, by.length / 2 + 1));
}

// A length that is told cuts the signal off, or adds zeros behind it, so the
// gradient is filled up or cut. Only the inverse transform divides by the
// length, so turning one transform back by the other takes a factor.
template <typename Class>
void GiveSignal(Rule& r, const Class& op, int64_t axis) {
  const Sizes sizes = r.x().sizes();
  if (sizes.empty()) return;
  const auto rank = static_cast<int64_t>(sizes.size());
  FourierSides by{FromFront(axis, rank), 1, op.inverse, op.onesided};
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
  r.SetGradient(0, WithSide(dx, rank - 1, sizes.back()));
}

void DftRule(Rule& r, const ops::DFT& op) {
  const Sizes axis = r.has(2) ? r.Ints(2) : Sizes{-2};
  if (!axis.empty()) GiveSignal(r, op, axis[0]);
}

Terms DefineStft(Rule& r) {
  const Sizes signal = r.x().sizes();
  const Sizes step = r.Ints(1);
  const Sizes spectrum = r.y().sizes();
  int64_t length = signal.size() == 3 ? signal[1] : 0;
  if (r.has(2)) length = r.x(2).count();
  if (r.has(3)) {
    const Sizes told = r.Ints(3);
    if (!told.empty()) length = told[0];
  }
  if (!r.writer.status().ok()) return {r.x()};
  Sizes places;
  for (int64_t frame = 0; frame < spectrum[1]; ++frame) {
    for (int64_t i = 0; i < length; ++i) places.push_back(frame * step[0] + i);
  }
  Term frames = Gathered(
      r.x(), 1, ReshapeTo(r.writer.Ints(places), {spectrum[1], length}));
  if (r.has(2)) frames = frames * ReshapeTo(r.x(2), {length, 1});
  return {Transformed(frames, {2, length, false, r.As<ops::STFT>().onesided})};
}

constexpr Row kFourierRows[] = {
    RuleOf<ops::DFT, &DftRule>(),
    RuleOf<ops::DFT17>([](Rule& r) {
      GiveSignal(r, r.As<ops::DFT17>(), r.As<ops::DFT17>().axis);
    }),
    DefinitionOf<ops::STFT>(&DefineStft),
};

}  // namespace

absl::Span<const Row> FourierRows() { return kFourierRows; }

}  // namespace nodewise::gradient
