#include <algorithm>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/ops/unary.h"

// Normalizations and losses, as what they are.

namespace nodewise::gradient {
namespace {

using Sizes = std::vector<int64_t>;
using Terms = std::vector<Term>;

// A number for each channel, as a tensor that broadcasts with x.
Term ByChannel(Term numbers, Term x) {
  Sizes sizes(static_cast<size_t>(std::max<int64_t>(x.rank(), 2)), 1);
  sizes[1] = numbers.count();
  return ReshapeTo(CastTo(numbers, x.dtype()), sizes);
}

// x less its mean, over the variance; both along these sides.
struct Normalized {
  Term y;
  Term mean;
  Term variance;
  Term inverse;  // 1 / sqrt(variance + epsilon).
};
Normalized Normalize(Term x, const Sizes& axes, double epsilon) {
  Normalized made;
  made.mean = MeanOver(x, axes);
  const Term from_mean = x - made.mean;
  made.variance = MeanOver(Square(from_mean), axes);
  made.inverse =
      x.writer().Add(ops::Reciprocal{}, {Sqrt(made.variance + epsilon)});
  made.y = from_mean * made.inverse;
  return made;
}

// The sides from `axis` on.
Sizes RowAxes(Term x, int64_t axis) {
  return Counting(axis < 0 ? axis + x.rank() : axis, x.rank());
}

Terms DefineBatchNorm(Rule& r) {
  const auto& op = r.As<ops::BatchNormalization>();
  const Term x = r.x();
  const Term scale = ByChannel(r.x(1), x);
  const Term shift = ByChannel(r.x(2), x);
  if (!op.training_mode) {
    const Term deviation = Sqrt(ByChannel(r.x(4), x) + double{op.epsilon});
    return {(x - ByChannel(r.x(3), x)) / deviation * scale + shift};
  }
  Sizes axes = Counting(0, x.rank());
  if (axes.size() > 1) axes.erase(axes.begin() + 1);
  const Normalized normal = Normalize(x, axes, op.epsilon);
  Terms outputs = {normal.y * scale + shift};
  const double share = 1 - double{op.momentum};
  const Term now[] = {normal.mean, normal.variance};
  for (size_t i = 0; i < 2; ++i) {
    const Term old = r.x(3 + i);
    const Term mine = CastTo(ReshapeTo(now[i], old.sizes()), old.dtype());
    outputs.push_back(old * double{op.momentum} + mine * share);
  }
  return outputs;
}

Terms DefineLayerNorm(Rule& r) {
  const auto& op = r.As<ops::LayerNormalization>();
  const Term x = r.x();
  const Normalized normal = Normalize(x, RowAxes(x, op.axis), op.epsilon);
  Term y = normal.y * r.x(1);
  if (r.has(2)) y = y + r.x(2);
  return {y, normal.mean, normal.inverse};
}

Terms DefineRmsNorm(Rule& r) {
  const auto& op = r.As<ops::RMSNormalization>();
  const Term x = r.x();
  const Term mean = MeanOver(Square(x), RowAxes(x, op.axis));
  return {x / Sqrt(mean + double{op.epsilon}) * r.x(1)};
}

Terms DefineInstanceNorm(Rule& r) {
  const Term x = r.x();
  const Normalized normal = Normalize(
      x, Counting(2, x.rank()), r.As<ops::InstanceNormalization>().epsilon);
  return {normal.y * ByChannel(r.x(1), x) + ByChannel(r.x(2), x)};
}

// Channels in groups; scale and shift are those of channels, or of groups.
Terms DefineGroups(Rule& r, int64_t groups, double epsilon) {
  const Term x = r.x();
  const Sizes sizes = x.sizes();
  if (sizes.size() < 2 || groups < 1) return {x};
  const int64_t count = sizes[0] * groups;
  const int64_t rest = count == 0 ? 0 : x.count() / count;
  const Term rows = ReshapeTo(x, {sizes[0], groups, rest});
  const Term y = Normalize(rows, {2}, epsilon).y;
  if (r.x(1).count() == groups) {
    return {ReshapeTo(y * ByChannel(r.x(1), y) + ByChannel(r.x(2), y), sizes)};
  }
  return {ReshapeTo(y, sizes) * ByChannel(r.x(1), x) + ByChannel(r.x(2), x)};
}

Terms DefineMeanVariance(Rule& r) {
  // The standard's function body adds this to the deviation.
  constexpr double kTiny = 1e-9F;
  Sizes axes = r.As<ops::MeanVarianceNormalization>().axes;
  if (axes.empty()) axes = Counting(0, r.x().rank());
  const Term from_mean = r.x() - MeanOver(r.x(), axes);
  return {from_mean / (Sqrt(MeanOver(Square(from_mean), axes)) + kTiny)};
}

Terms DefineLpNorm(Rule& r) {
  const auto& op = r.As<ops::LpNormalization>();
  const Term x = r.x();
  const Term norm = op.p == 1 ? SumOver(Abs(x), {op.axis})
                              : Sqrt(SumOver(Square(x), {op.axis}));
  return {x / norm};
}

// The losses of labels from logarithms of probabilities.
Term DefineLosses(Rule& r, Term logs, const ops::LossAttributes& op) {
  Writer& w = r.writer();
  const Term labels = r.x(1);
  Sizes one = labels.sizes();
  if (one.empty()) return logs;
  one.insert(one.begin() + 1, 1);
  Term places = labels;
  Term counts;
  if (op.ignore_index.has_value()) {
    const Term ignored = w.Add(
        ops::Equal{}, {labels, w.Number(static_cast<double>(*op.ignore_index),
                                        labels.dtype())});
    counts = CastTo(w.Add(ops::Not{}, {ignored}), logs.dtype());
    // Any label will do that there is.
    places = Choose(ignored, 0.0, labels);
  } else {
    counts = w.Filled(1, logs.dtype(), labels.sizes());
  }
  Term chosen = w.Add(ops::GatherElements{1}, {logs, ReshapeTo(places, one)});
  Term weights = counts;
  if (r.has(2)) weights = counts * w.Add(ops::Gather{0}, {r.x(2), places});
  const Term losses = -(ReshapeTo(chosen, labels.sizes()) * weights);
  if (op.reduction == ops::Reduction::kNone) return losses;
  const Sizes all = Counting(0, labels.rank());
  const Term sum = ReshapeTo(SumOver(losses, all), {});
  if (op.reduction == ops::Reduction::kSum) return sum;
  return sum / ReshapeTo(SumOver(weights, all), {});
}

Terms DefineCrossEntropy(Rule& r) {
  const Term logs = r.writer().Add(ops::LogSoftmax{1}, {r.x()});
  return {DefineLosses(r, logs, r.As<ops::SoftmaxCrossEntropyLoss>()), logs};
}

constexpr Row kNormRows[] = {
    DefinitionOf<ops::BatchNormalization>(&DefineBatchNorm),
    DefinitionOf<ops::GroupNormalization>([](Rule& r) {
      const auto& op = r.As<ops::GroupNormalization>();
      return DefineGroups(r, op.num_groups, op.epsilon);
    }),
    DefinitionOf<ops::GroupNormalization18>([](Rule& r) {
      const auto& op = r.As<ops::GroupNormalization18>();
      return DefineGroups(r, op.num_groups, op.epsilon);
    }),
    DefinitionOf<ops::InstanceNormalization>(&DefineInstanceNorm),
    DefinitionOf<ops::LayerNormalization>(&DefineLayerNorm),
    DefinitionOf<ops::LpNormalization>(&DefineLpNorm),
    DefinitionOf<ops::MeanVarianceNormalization>(&DefineMeanVariance),
    DefinitionOf<ops::NegativeLogLikelihoodLoss>([](Rule& r) -> Terms {
      return {DefineLosses(r, r.x(), r.As<ops::NegativeLogLikelihoodLoss>())};
    }),
    DefinitionOf<ops::RMSNormalization>(&DefineRmsNorm),
    DefinitionOf<ops::SoftmaxCrossEntropyLoss>(&DefineCrossEntropy),
};

}  // namespace

absl::Span<const Row> NormRows() { return kNormRows; }

}  // namespace nodewise::gradient
