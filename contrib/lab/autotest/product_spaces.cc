#include <utility>
#include <vector>

#include "contrib/lab/autotest/space_families.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMostSide = 40;

void DrawMatMul(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Often(15) && draw.opset() >= 9
                               ? draw.One({kInt32, kInt64})
                               : draw.Float();
  const int64_t m = draw.Side(kMostSide, true);
  const int64_t k = draw.Side(kMostSide, true);
  const int64_t n = draw.Side(kMostSide, true);
  Ints batch;
  for (int64_t i = draw.One<int64_t>({0, 0, 1, 2}); i > 0; --i) {
    batch.push_back(draw.Between(1, 3));
  }
  Ints a = draw.PartOf(batch);
  Ints b = draw.PartOf(batch);
  const bool is_row = draw.Often(10);
  const bool is_column = draw.Often(10);
  if (is_row) {
    a = {k};
  } else {
    a.insert(a.end(), {m, k});
  }
  if (is_column) {
    b = {k};
  } else {
    b.insert(b.end(), {k, n});
  }
  draw.Input(dtype, std::move(a));
  draw.Weight(dtype, std::move(b));
}

void DrawGemm(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Often(15) && draw.opset() >= 9
                               ? draw.One({kInt32, kInt64})
                               : draw.Float();
  const int64_t m = draw.Side(kMostSide, true);
  const int64_t k = draw.Side(kMostSide, true);
  const int64_t n = draw.Side(kMostSide, true);
  const bool turns_a = draw.Often();
  const bool turns_b = draw.Often();
  if (turns_a || draw.Often(20)) draw.Attr("transA", turns_a ? 1 : 0);
  if (turns_b || draw.Often(20)) draw.Attr("transB", turns_b ? 1 : 0);
  if (draw.Often(30)) {
    draw.Attr("alpha", draw.One<float>({1, 2, 0.5, -1, 0, 0.3F}));
  }
  if (draw.Often(30)) {
    draw.Attr("beta", draw.One<float>({1, 2, 0.5, -1, 0, 0.3F}));
  }
  draw.Input(dtype, turns_a ? Ints{k, m} : Ints{m, k});
  draw.Weight(dtype, turns_b ? Ints{n, k} : Ints{k, n});
  if (draw.def().since < 7) {
    const bool broadcasts = draw.Often();
    if (broadcasts || draw.Often()) {
      draw.Attr("broadcast", broadcasts ? 1 : 0);
    }
    draw.Weight(dtype, broadcasts ? draw.PartOf({m, n}) : Ints{m, n});
  } else if (draw.opset() < 11 || draw.Often(70)) {
    draw.Weight(dtype, draw.PartOf({m, n}));
  }
}

constexpr OperatorSpace kProductSpaces[] = {
    {"Gemm", &DrawGemm},
    {"MatMul", &DrawMatMul},
};

}  // namespace

absl::Span<const OperatorSpace> ProductSpaces() { return kProductSpaces; }

}  // namespace nodewise
