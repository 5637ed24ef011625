#include <vector>

#include "contrib/lab/autotest/space_families.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

// Axes were an attribute below opset 18, and below 13 for ReduceSum.
void DrawReduce(ConfigurationDraw& draw) {
  const int inputs_since = draw.Is("ReduceSum") ? 13 : 18;
  const DLDataType dtype = draw.Legal();
  const Ints shape = draw.Sides(0, 5);
  const bool takes_logarithms = draw.Is("ReduceLogSum") && draw.Often(70);
  draw.Input(dtype, shape,
             takes_logarithms ? InputDomain::Within(0.125, 4) : InputDomain());
  draw.Flag("keepdims");
  if (draw.opset() >= inputs_since) draw.Flag("noop_with_empty_axes");
  if (draw.Often(80) && !shape.empty()) {
    draw.Ints(draw.SignedAxes(shape.size(),
                              draw.opset() >= inputs_since && draw.Often(10)));
  }
}

void DrawArgExtreme(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  if (draw.Often(80)) {
    draw.Attr("axis", draw.opset() >= 11 ? draw.SignedAxis(shape.size())
                                         : draw.Axis(shape.size()));
  }
  draw.Flag("keepdims");
  if (draw.opset() >= 12) draw.Flag("select_last_index");
  draw.Input(draw.Number(), shape);
}

void DrawCumulative(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4);
  draw.Flag("exclusive");
  draw.Flag("reverse");
  draw.Input(draw.Number(), shape);
  const auto axis = static_cast<double>(draw.SignedAxis(shape.size()));
  draw.Numbers(draw.One({kInt64, kInt32}), draw.Often(20) ? Ints{1} : Ints{},
               {axis}, draw.Often());
}

// Below opset 13 all sides from the axis on are one.
void DrawSoftmax(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4);
  if (draw.Often(75)) {
    const bool is_last = draw.def().since < 13 && draw.Often(10);
    draw.Attr("axis", is_last              ? static_cast<int64_t>(shape.size())
                      : draw.opset() >= 11 ? draw.SignedAxis(shape.size())
                                           : draw.Axis(shape.size()));
  }
  draw.Input(draw.Float(), shape,
             draw.Is("Hardmax") ? InputDomain::WithoutNan() : InputDomain());
}

void DrawTopK(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = rank - 1;
  if (draw.Often(80)) {
    axis = draw.opset() >= 11 ? draw.SignedAxis(shape.size())
                              : draw.Axis(shape.size());
    draw.Attr("axis", axis);
  }
  const int64_t side = shape[static_cast<size_t>((axis + rank) % rank)];
  int64_t k = std::min<int64_t>(draw.Between(1, 9), side);
  if (draw.Often(5)) k = 0;
  if (draw.opset() >= 11) {
    draw.Flag("largest");
    const bool may_be_unsorted = draw.Often(20);
    // The order of more than one element would be open.
    if (may_be_unsorted) k = std::min<int64_t>(k, 1);
    if (may_be_unsorted || draw.Often()) {
      draw.Attr("sorted", may_be_unsorted ? 0 : 1);
    }
  }
  draw.Outputs(2);
  draw.Input(draw.Number(), shape, InputDomain::WithoutNan());
  draw.Ints({k});
}

void DrawUnique(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 3, false);
  if (draw.Often()) draw.Attr("axis", draw.SignedAxis(shape.size()));
  draw.Flag("sorted");
  draw.WantOutputs({true, draw.Often(), draw.Often(), draw.Often()});
  draw.Input(draw.Number(), shape, InputDomain::WithoutNan());
}

constexpr OperatorSpace kReduceSpaces[] = {
    {"ArgMax", &DrawArgExtreme},   {"ArgMin", &DrawArgExtreme},
    {"CumProd", &DrawCumulative},  {"CumSum", &DrawCumulative},
    {"Hardmax", &DrawSoftmax},     {"LogSoftmax", &DrawSoftmax},
    {"ReduceL1", &DrawReduce},     {"ReduceL2", &DrawReduce},
    {"ReduceLogSum", &DrawReduce}, {"ReduceLogSumExp", &DrawReduce},
    {"ReduceMax", &DrawReduce},    {"ReduceMean", &DrawReduce},
    {"ReduceMin", &DrawReduce},    {"ReduceProd", &DrawReduce},
    {"ReduceSum", &DrawReduce},    {"ReduceSumSquare", &DrawReduce},
    {"Softmax", &DrawSoftmax},     {"TopK", &DrawTopK},
    {"Unique", &DrawUnique},
};

}  // namespace

absl::Span<const OperatorSpace> ReduceSpaces() { return kReduceSpaces; }

}  // namespace nodewise
