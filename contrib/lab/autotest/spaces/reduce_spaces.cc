// Operators along axes: reductions, softmax, normalisation and losses.

#include <algorithm>

#include "contrib/lab/autotest/spaces/spaces.h"

namespace nodewise {
namespace {

// Axes were an attribute below opset 18, and below 13 for ReduceSum. Logarithms
// are of positive numbers most of the time, or nearly all results would be NaN.
void DrawReduce(ConfigurationDraw& draw) {
  const int inputs_since = draw.Is("ReduceSum") ? 13 : 18;
  const DLDataType dtype = draw.Legal();
  const Ints shape = draw.Sides(0, 5);
  const bool takes_logarithms = draw.Is("ReduceLogSum") && draw.Chance(70);
  draw.Input(dtype, shape,
             takes_logarithms ? InputDomain::Within(0.125, 4) : InputDomain());
  draw.Flag("keepdims");
  if (draw.opset() >= inputs_since) draw.Flag("noop_with_empty_axes");
  if (draw.Chance(80) && !shape.empty()) {
    draw.Ints(draw.SignedAxes(shape.size(),
                              draw.opset() >= inputs_since && draw.Chance(10)));
  }
}

// With equal elements the first place counts, or the last one if an attribute
// says so.
void DrawArgExtreme(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  if (draw.Chance(80)) draw.Attr("axis", draw.AxisOfOpset(shape.size()));
  draw.Flag("keepdims");
  if (draw.opset() >= 12) draw.Flag("select_last_index");
  draw.Input(draw.Number(), shape);
}

void DrawCumulative(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4);
  draw.Flag("exclusive");
  draw.Flag("reverse");
  draw.Input(draw.Number(), shape);
  // The axis is an input, of rank 0 or 1.
  const auto axis = static_cast<double>(draw.SignedAxis(shape.size()));
  draw.Numbers(draw.One({kInt64, kInt32}), draw.Chance(20) ? Ints{1} : Ints{},
               {axis}, draw.Chance());
}

// Below opset 13 all sides from the axis on are one, and an axis behind the
// last side is legal: then each element is a row. Hardmax marks the largest
// element, and it is not said whether NaN is larger than a number.
void DrawSoftmax(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4);
  if (draw.Chance(75)) {
    const bool is_last = draw.def().since < 13 && draw.Chance(10);
    draw.Attr("axis",
              is_last ? std::ssize(shape) : draw.AxisOfOpset(shape.size()));
  }
  draw.Input(draw.Float(), shape,
             draw.Is("Hardmax") ? InputDomain::WithoutNan() : InputDomain());
}

void DrawTopK(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4);
  const int64_t axis = AxisOr(-1, draw, shape.size(), 80);
  int64_t k = std::min(draw.Between(1, 9), shape[PlaceOf(axis, shape)]);
  if (draw.Chance(5)) k = 0;
  if (draw.opset() >= 11) {
    draw.Flag("largest");
    const bool may_be_unsorted = draw.Chance(20);
    // The order of more than one element would be open.
    if (may_be_unsorted) k = std::min<int64_t>(k, 1);
    draw.AttrUnless("sorted", !may_be_unsorted, 1);
  }
  draw.Outputs(2);
  draw.Input(draw.Number(), shape, InputDomain::WithoutNan());
  draw.Ints({k});
}

// The outputs behind the first one may be left out: places and counts.
void DrawUnique(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 3, false);
  if (draw.Chance()) draw.Attr("axis", draw.SignedAxis(shape.size()));
  draw.Flag("sorted");
  draw.WantOutputs({true, draw.Chance(), draw.Chance(), draw.Chance()});
  draw.Input(draw.Number(), shape, InputDomain::WithoutNan());
}

// 0 shows whether an epsilon is added that was not asked for.
constexpr std::initializer_list<float> kEpsilons = {1e-5F, 1e-3F, 0.1F, 0};

// Statistics have a type of their own from opset 15 on. Below 9 they may be by
// element of a plane instead of by channel, below 7 an attribute says that this
// is not training. A variance is positive: its root divides.
void DrawBatchNorm(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(2, 5, false);
  const DLDataType dtype = draw.Float();
  const DLDataType of_scale =
      draw.opset() >= 15 && draw.Chance(20) ? draw.Float() : dtype;
  const DLDataType of_mean =
      draw.opset() >= 15 && draw.Chance(20) ? draw.Float() : dtype;
  Ints list = {shape[1]};
  draw.MaybeAttr<float>("epsilon", {1e-5F, 1e-3F, 0.1F});
  draw.MaybeAttr<float>("momentum", {0.9F, 0.5F, 0, 1});
  if (draw.def().since < 7) draw.Attr("is_test", 1);
  if (draw.def().since < 9 && draw.Chance()) {
    const bool is_spatial = draw.Chance();
    draw.Attr("spatial", is_spatial ? 1 : 0);
    if (!is_spatial) list = Ints(shape.begin() + 1, shape.end());
  }
  if (draw.def().since >= 14 && draw.Chance()) {
    const bool trains = draw.Chance();
    draw.Attr("training_mode", trains ? 1 : 0);
    if (trains) draw.Outputs(draw.Chance() ? 3 : 1);
  }
  draw.Input(dtype, shape);
  draw.Weight(of_scale, list);
  draw.Weight(of_scale, list);
  draw.Weight(of_mean, list);
  draw.Weight(of_mean, list, InputDomain::Within(0.0625, 4));
}

void DrawInstanceNorm(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(3, 5, false);
  const DLDataType dtype = draw.Float();
  draw.MaybeAttr("epsilon", kEpsilons);
  draw.Input(dtype, shape);
  draw.Weight(dtype, {shape[1]});
  draw.Weight(dtype, {shape[1]});
}

void DrawGroupNorm(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(3, 5, false);
  const int64_t groups = draw.Between(1, 4);
  shape[1] = groups * draw.Side(5);
  const DLDataType dtype = draw.Float();
  // Factors were by group in the first version.
  const bool is_by_channel = draw.def().since >= 21;
  draw.Attr("num_groups", groups);
  draw.MaybeAttr("epsilon", kEpsilons);
  if (is_by_channel) draw.MaybeAttr<int64_t>("stash_type", {1, 11});
  const Ints factors = {is_by_channel ? shape[1] : groups};
  draw.Input(dtype, shape);
  draw.Weight(dtype, factors);
  draw.Weight(dtype, factors);
}

// Factors are as large as the rows, which begin at the axis, or broadcast to
// them.
void DrawLayerNorm(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const DLDataType dtype = draw.Float();
  const int64_t axis = AxisOr(-1, draw, shape.size(), 70);
  const auto first = static_cast<ptrdiff_t>(PlaceOf(axis, shape));
  const Ints rows(shape.begin() + first, shape.end());
  draw.MaybeAttr("epsilon", kEpsilons);
  draw.MaybeAttr<int64_t>("stash_type", {1, 11, 1});
  draw.Input(dtype, shape);
  draw.Weight(dtype, draw.Chance(20) ? draw.PartOf(rows) : rows);
  if (draw.Is("RMSNormalization")) return;
  if (draw.Chance())
    draw.Weight(dtype, draw.Chance(20) ? draw.PartOf(rows) : rows);
  if (draw.Chance(30)) draw.WantOutputs({true, draw.Chance(), draw.Chance()});
}

void DrawLpNorm(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4);
  if (draw.Chance(70)) draw.Attr("axis", draw.SignedAxis(shape.size()));
  draw.MaybeAttr<int64_t>("p", {2, 1});
  draw.Input(draw.Float(), shape);
}

// Without the attribute the axes are 0, 2 and 3, so there are four sides then.
void DrawMeanVariance(ConfigurationDraw& draw) {
  const bool has_axes = draw.Chance(70);
  const Ints shape =
      has_axes ? draw.Sides(1, 5, false) : draw.Sides(4, 4, false);
  if (has_axes) draw.Attr("axes", draw.SignedAxes(shape.size()));
  draw.Input(draw.Float(), shape);
}

// The window of channels may be even, and is longer behind the element then.
void DrawLrn(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(3, 5, false);
  draw.Attr("size", draw.Between(1, 6));
  draw.MaybeAttr<float>("alpha", {1e-4F, 0.5F, 0, 1});
  draw.MaybeAttr<float>("beta", {0.75F, 0.5F, 1, 0});
  draw.MaybeAttr<float>("bias", {1, 2, 0.5F});
  draw.Input(draw.Float(), shape);
}

// Scores are by example and class, labels by example; more sides, such as those
// of an image, are of both.
void DrawLoss(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(2, 4, false);
  const DLDataType dtype = draw.Float();
  Ints labels = shape;
  labels.erase(labels.begin() + 1);
  draw.MaybeWord("reduction", {"mean", "sum", "none"});
  // A label that is ignored may be one that is none of the classes.
  int64_t least = 0;
  if (draw.Chance(40)) {
    least = draw.Chance(30) ? -1 : 0;
    draw.Attr("ignore_index",
              least < 0 ? least : draw.Between(0, shape[1] - 1));
  }
  draw.Input(dtype, shape);
  draw.Input(draw.One({kInt64, kInt32}), labels,
             InputDomain::Whole(least, shape[1] - 1));
  if (draw.Chance()) {
    draw.Weight(dtype, {shape[1]}, InputDomain::Within(0.125, 2));
  }
  if (draw.Is("SoftmaxCrossEntropyLoss") && draw.Chance()) draw.Outputs(2);
}

constexpr OperatorSpace kReduceSpaces[] = {
    {&DrawArgExtreme, "ArgMax ArgMin"},
    {&DrawBatchNorm, "BatchNormalization"},
    {&DrawCumulative, "CumProd CumSum"},
    {&DrawGroupNorm, "GroupNormalization"},
    {&DrawSoftmax, "Hardmax LogSoftmax Softmax"},
    {&DrawInstanceNorm, "InstanceNormalization"},
    {&DrawLrn, "LRN"},
    {&DrawLayerNorm, "LayerNormalization RMSNormalization"},
    {&DrawLpNorm, "LpNormalization"},
    {&DrawMeanVariance, "MeanVarianceNormalization"},
    {&DrawLoss, "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"},
    {&DrawReduce,
     "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean "
     "ReduceMin ReduceProd ReduceSum ReduceSumSquare"},
    {&DrawTopK, "TopK"},
    {&DrawUnique, "Unique"}};

}  // namespace

absl::Span<const OperatorSpace> ReduceSpaces() { return kReduceSpaces; }

}  // namespace nodewise
