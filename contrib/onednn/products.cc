#include <algorithm>
#include <cmath>

#include "contrib/onednn/rows.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status.h"

namespace nodewise::onednn {
namespace {

// Whether an operand of a post-operation still fits when the batches of the
// product become rows of one matrix: a number and a row are repeated over rows
// in either form, and one with the output's sizes is folded as the output is.
bool IsFoldable(const Call& call, size_t i) {
  const Sizes& own = call.sizes(i);
  const Sizes& output = call.output_sizes();
  const int64_t count = call.count(i);
  if (count == 1 || own == output) return true;
  return !own.empty() && !output.empty() && own.back() == output.back() &&
         count == own.back();
}

// One operand that does not fit keeps the batches: as rows of one matrix, they
// would have it repeated over other rows.
bool AreAllFoldable(const Call& call, size_t first) {
  for (size_t i = first; i < call.num_inputs(); ++i) {
    if (call.is_given(i) && !IsFoldable(call, i)) return false;
  }
  return true;
}

// A row, and one number, become a matrix with one row, which oneDNN repeats.
absl::StatusOr<Desc> OtherDesc(const Call& call, size_t i,
                               const MatMulSizes& sizes) {
  NODEWISE_RETURN_IF_ERROR(call.RequirePlain(i));
  if (sizes.output == call.output_sizes()) {
    return BroadcastDesc(call, i, sizes.output, TensorLayout::kPlain);
  }
  Sizes row(sizes.output.size(), 1);
  row.back() = call.count(i);
  const bool is_all = call.sizes(i) == call.output_sizes();
  const bool fits = IsFoldable(call, i) && (is_all || row.back() == 1 ||
                                            row.back() == sizes.output.back());
  if (!fits) {
    return Refuse("{}: does not fit a product of these sizes", call.NameOf(i));
  }
  NODEWISE_ASSIGN_OR_RETURN(const DataType type, DataTypeOf(call.dtype(i)));
  return DescOf(is_all ? sizes.output : row, type);
}

// Plans the product with constant weights in oneDNN's own order, in which it is
// fastest, unless little memory is wanted and that copy would be a large one.
absl::StatusOr<Planned> PlanProduct(const Call& call, const Desc& left,
                                    const Desc& right, const MatMulSizes& sizes,
                                    const Attributes& attributes) {
  const Desc output = DescOf(sizes.output, DataType::f32);
  constexpr int64_t kLargeCopy = (int64_t{16} << 20) / sizeof(float);
  if (call.constant(1) == nullptr) {
    return PlanMatMul(left, right, output, attributes);
  }
  if (LowMemoryScope::IsWanted() && call.count(1) >= kLargeCopy) {
    auto planned = PlanMatMul(left, right, output, attributes);
    if (planned.ok() && RefuseSlow(*planned).ok()) return planned;
  }
  return PlanMatMul(left, AnyOrder(sizes.right, DataType::f32), output,
                    attributes);
}

absl::Status AddMatMul(ProgramBuilder& program, const Desc& left,
                       const Desc& right, const MatMulSizes& sizes,
                       Fused fused) {
  const Desc output = DescOf(sizes.output, DataType::f32);
  NODEWISE_ASSIGN_OR_RETURN(
      const Planned planned,
      PlanProduct(program.call(), left, right, sizes, fused.attributes));
  NODEWISE_RETURN_IF_ERROR(RefuseSlow(planned));
  NODEWISE_ASSIGN_OR_RETURN(const Value ordered,
                            program.Weights(1, right, planned));
  fused.arguments.emplace_back(DNNL_ARG_WEIGHTS, ordered);
  return program.AddFromInput(planned, left, output, fused.arguments);
}

// Each element is a sum of so many products (Guard::terms). Twice as many
// count, so that operands which are added have room as well.
double TermsOf(const MatMulSizes& sizes) {
  return 2 * static_cast<double>(sizes.left.back());
}

DescOfOther BesideProduct(const Call& call, const MatMulSizes& sizes) {
  return [&call, sizes](size_t i) { return OtherDesc(call, i, sizes); };
}

// A matrix [rows, columns] that may lie the other way round.
Desc MatrixDesc(int64_t rows, int64_t columns, bool is_transposed) {
  const Dims strides = is_transposed ? Dims{1, rows} : Dims{columns, 1};
  return {Dims{rows, columns}, DataType::f32, strides};
}

// beta C, if C is given. C may have any shape that NumPy repeats, so it becomes
// a post-operation and not oneDNN's bias. A factor other than 1 is multiplied
// into a constant once.
absl::Status AddBias(ProgramBuilder& program, float beta,
                     const MatMulSizes& sizes, std::vector<PostOp>* list,
                     Arguments* arguments) {
  const Call& call = program.call();
  if (!call.has(2) || beta == 0) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(
      const Desc desc,
      BroadcastDesc(call, 2, sizes.output, TensorLayout::kPlain));
  const int argument =
      DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(list->size())) |
      DNNL_ARG_SRC_1;
  list->push_back({Algorithm::binary_add, 0, 0, desc});
  if (beta == 1) {
    arguments->emplace_back(argument, program.Input(2, desc));
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(const NDArray* const c, call.RequireConstant(2));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray scaled,
                            NDArray::Empty(c->shape(), kFloat32, kCpu));
  for (int64_t i = 0; i < call.count(2); ++i) {
    scaled.As<float>()[i] = beta * c->As<float>()[i];
  }
  arguments->emplace_back(argument, program.Constant(scaled, desc));
  return absl::OkStatus();
}

}  // namespace

// Batches of the left are rows of one tall matrix where the right is one
// matrix, so that there is one product instead of many.
MatMulSizes SizesOfMatMul(const Call& call, size_t left, size_t right,
                          bool may_fold) {
  Sizes a = call.sizes(left);
  Sizes b = call.sizes(right);
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  const size_t rank = std::max(a.size(), b.size());
  a.insert(a.begin(), rank - a.size(), 1);
  b.insert(b.begin(), rank - b.size(), 1);
  const auto front = absl::MakeConstSpan(b).first(rank - 2);
  if (may_fold && rank > 2 && ProductOf(front) == 1) {
    const int64_t rows = ProductOf(absl::MakeConstSpan(a).first(rank - 1));
    return {{rows, a.back()}, {b[rank - 2], b.back()}, {rows, b.back()}};
  }
  MatMulSizes sizes{a, b, a};
  for (size_t side = 0; side + 2 < rank; ++side) {
    sizes.output[side] = std::max(a[side], b[side]);
  }
  sizes.output.back() = b.back();
  return sizes;
}

absl::Status BuildMatMul(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(All(call.RequireAllFloat32(), call.RequirePlain(0),
                               call.RequirePlain(1),
                               call.RequirePlainOutput()));
  const MatMulSizes sizes = SizesOfMatMul(call, 0, 1, AreAllFoldable(call, 2));
  NODEWISE_ASSIGN_OR_RETURN(
      Fused fused,
      FusePostOps(program, TermsOf(sizes), {}, 0, BesideProduct(call, sizes)));
  return AddMatMul(program, DescOf(sizes.left, DataType::f32),
                   DescOf(sizes.right, DataType::f32), sizes, std::move(fused));
}

// Transposed matrices are described by their strides, and nothing is moved.
// Alpha is a factor in front of all post-operations.
absl::Status BuildGemm(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::Gemm>();
  NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
  const Sizes& a = call.sizes(0);
  const Sizes& b = call.sizes(1);
  MatMulSizes sizes;
  sizes.left = {a[op.transA ? 1 : 0], a[op.transA ? 0 : 1]};
  sizes.right = {b[op.transB ? 1 : 0], b[op.transB ? 0 : 1]};
  sizes.output = {sizes.left[0], sizes.right[1]};
  std::vector<PostOp> before;
  if (op.alpha != 1) {
    before.push_back({Algorithm::eltwise_linear, op.alpha, 0, std::nullopt});
  }
  Arguments bias;
  NODEWISE_RETURN_IF_ERROR(AddBias(program, op.beta, sizes, &before, &bias));
  const double terms = TermsOf(sizes) * std::max({1.0F, std::fabs(op.alpha),
                                                  std::fabs(op.beta)});
  NODEWISE_ASSIGN_OR_RETURN(
      Fused fused,
      FusePostOps(program, terms, before, 0, BesideProduct(call, sizes)));
  fused.arguments.insert(fused.arguments.end(), bias.begin(), bias.end());
  return AddMatMul(program, MatrixDesc(sizes.left[0], sizes.left[1], op.transA),
                   MatrixDesc(sizes.right[0], sizes.right[1], op.transB), sizes,
                   std::move(fused));
}

}  // namespace nodewise::onednn
