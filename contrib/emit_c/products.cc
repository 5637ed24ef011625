// Products of matrices: a row of the result at a time.

#include <algorithm>

#include "contrib/emit_c/operation_code.h"
#include "contrib/emit_c/quantized.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {
namespace {

// Rows of B that are added to a row of the result at once: each element of the
// result is read and written once for all of them.
constexpr int64_t kTermsAtOnce = 4;

// One product of matrices that lie at indices of compact tensors.
struct Product {
  int64_t rows = 0;           // M
  int64_t columns = 0;        // N
  int64_t terms = 0;          // K
  bool left_turned = false;   // A is [K, M].
  bool right_turned = false;  // B is [N, K].
  std::string left;           // Pointers.
  std::string right;
  std::string result;
  DLDataType dtype{};    // The result's.
  DLDataType factors{};  // That of A and B, which may be shorter.
};

// x += y for integers must wrap around.
std::string Increase(const Product& product, const std::string& to,
                     const std::string& terms) {
  if (IsFloat(product.dtype)) return fmt::format("{} += {};", to, terms);
  return fmt::format("{0} = ({1})(({2}){0} + {3});", to, CTypeOf(product.dtype),
                     WrappingTypeOf(product.dtype), terms);
}

std::string_view SumType(DLDataType dtype) {
  return IsFloat(dtype) ? CTypeOf(dtype) : WrappingTypeOf(dtype);
}
// Returns the type that factors are read in. Few products of short integers
// fit into C's int, and compilers multiply those faster.
std::string_view FactorType(const Product& product) {
  return product.factors == kInt16 && product.dtype == kInt32
             ? CTypeOf(kInt16)
             : SumType(product.factors);
}

// Element k of row m of A.
std::string LeftElement(const Product& product, const std::string& k) {
  if (product.left_turned) {
    return fmt::format("{}[({}) * {} + m]", product.left, k, product.rows);
  }
  return fmt::format("{}[m * {} + {}]", product.left, product.terms, k);
}

void AddRows(CodeWriter* code, const Product& product, int64_t count) {
  const std::string_view type = FactorType(product);
  std::vector<std::string> terms;
  for (int64_t t = 0; t < count; ++t) {
    const std::string k = t == 0 ? "k" : fmt::format("k + {}", t);
    code->Line("const {} a{} = ({}){};", type, t, type,
               LeftElement(product, k));
    const std::string row =
        t == 0 ? "" : fmt::format("{} + ", t * product.columns);
    terms.push_back(fmt::format("a{} * b[{}n]", t, row));
  }
  code->Line("const {}* b = {} + k * {};", CTypeOf(product.factors),
             product.right, product.columns);
  code->Each("n", product.columns, "{}",
             Increase(product, "row[n]", SumOf(terms)));
}

// A row of the result is 0 at first, and then rows of B are added to it, each
// multiplied by an element of A: all of them are read in order, which suits the
// caches and the vectors of processors. What is left of K is added one by one.
void WriteByRows(CodeWriter* code, const Product& product) {
  code->For("m", product.rows);
  code->Line("{0}* restrict row = {1} + m * {2};", CTypeOf(product.dtype),
             product.result, product.columns);
  code->Line("memset(row, 0, {} * sizeof(*row));", product.columns);
  const int64_t whole = product.terms / kTermsAtOnce * kTermsAtOnce;
  if (whole > 0) {
    code->Open("for (int64_t k = 0; k < {}; k += {})", whole, kTermsAtOnce);
    AddRows(code, product, kTermsAtOnce);
    code->Close();
  }
  if (whole < product.terms) {
    code->Open("for (int64_t k = {}; k < {}; ++k)", whole, product.terms);
    AddRows(code, product, 1);
    code->Close();
  }
  code->Close();
}

// This way needs the factors of an element to lie one behind the other, in A
// and in B.
void WriteByDots(CodeWriter* code, const Product& product) {
  code->For("m", product.rows);
  code->Each("n", product.columns,
             "{0}[m * {1} + n] = nw_dot_float({2} + m * {3}, {4} + n * {3}, "
             "{3});",
             product.result, product.columns, product.left, product.terms,
             product.right);
  code->Close();
}

void WriteByElements(CodeWriter* code, const Product& product) {
  const std::string_view type = SumType(product.dtype);
  const std::string right =
      product.right_turned
          ? fmt::format("{}[n * {} + k]", product.right, product.terms)
          : fmt::format("{}[k * {} + n]", product.right, product.columns);
  code->For({{"m", product.rows}, {"n", product.columns}});
  code->Line("{} sum = 0;", type);
  code->Each("k", product.terms, "sum += ({0}){1} * ({0}){2};", type,
             LeftElement(product, "k"), right);
  code->Line("{}[m * {} + n] = ({})sum;", product.result, product.columns,
             CTypeOf(product.dtype));
  code->Close(2);
}

// Dots read both factors in order, but are of float32 only; the way by rows
// reads B and writes the result in order. Where B lies across and there is no
// dot for it, the result is computed element by element.
void WriteProduct(CodeWriter* code, const Product& product) {
  const bool is_row = product.columns == 1 && !product.right_turned;
  if ((product.right_turned || is_row) && !product.left_turned &&
      product.dtype == kFloat32) {
    return WriteByDots(code, product);
  }
  if (product.right_turned) return WriteByElements(code, product);
  WriteByRows(code, product);
}

// Lists of numbers are matrices of one row (left) or one column (right). The
// sides in front of the last two are loops, in which factors without them are
// repeated.
absl::Status WriteMatMulOf(OperationCode& operation, const CTensor& a,
                           const CTensor& b, const CTensor& out) {
  Sizes left = a.sizes;
  Sizes right = b.sizes;
  if (left.size() == 1) left.insert(left.begin(), 1);
  if (right.size() == 1) right.push_back(1);
  const Product product{.rows = left[left.size() - 2],
                        .columns = right.back(),
                        .terms = left.back(),
                        .left = "a",
                        .right = "b0",
                        .result = "y",
                        .dtype = out.dtype,
                        .factors = a.dtype};
  left.resize(left.size() - 2);
  right.resize(right.size() - 2);
  const size_t rank = std::max(left.size(), right.size());
  const Sizes batch(out.sizes.begin(),
                    out.sizes.begin() + static_cast<std::ptrdiff_t>(rank));
  // A step along the batch leads to the next matrix.
  const auto by_matrix = [](View view, int64_t elements) {
    for (int64_t& stride : view.strides) stride *= elements;
    return view;
  };
  const LoopNest nest(
      batch,
      {by_matrix(RepeatedView(left, batch), product.rows * product.terms),
       by_matrix(RepeatedView(right, batch), product.terms * product.columns),
       by_matrix(CompactView(batch), product.rows * product.columns)});
  CodeWriter& code = operation.code();
  // A sum of nothing reads nothing.
  if (product.terms == 0) {
    code.Line("memset({0}, 0, {1} * sizeof(*{0}));", out.name, out.count());
    return absl::OkStatus();
  }
  nest.Open(&code);
  code.Open();
  code.Line("const {}* a = {} + {};", a.type(), a.name, nest.At(0));
  code.Line("const {}* b0 = {} + {};", b.type(), b.name, nest.At(1));
  code.Line("{}* y = {} + {};", out.type(), out.name, nest.At(2));
  WriteProduct(&code, product);
  code.Close();
  nest.Close(&code);
  return absl::OkStatus();
}

absl::Status WriteMatMul(OperationCode& code) {
  return WriteMatMulOf(code, code.in(0), code.in(1), code.out());
}

// The matrices of a factor as [matrices, rows, columns]; a vector is one of a
// row (left) or a column.
Lines MatricesOf(const Sizes& sizes, bool is_left) {
  if (sizes.size() > 1) return LinesAlong(sizes, sizes.size() - 2);
  return is_left ? Lines{1, 1, sizes[0]} : Lines{1, sizes[0], 1};
}

// The zero points of a factor: one, one for each row of A or column of B, or
// one for each row of all matrices of A if B is one matrix.
absl::StatusOr<View> ZeroView(const OperationCode& code,
                              const ProductSlots& slots, bool is_left) {
  const Sizes& x = code.in(is_left ? slots.a : slots.b).sizes;
  const size_t zero = is_left ? slots.a_zero : slots.b_zero;
  View view{Sizes(x.size(), 0), 0};
  const int64_t count = code.has(zero) ? code.in(zero).count() : 1;
  if (count == 1) return view;
  const auto [items, rows, columns] = MatricesOf(x, is_left);
  if (!is_left && count == columns) {
    view.strides.back() = 1;
    return view;
  }
  if (is_left && count == rows) {
    view.strides[x.size() - 2] = 1;
    return view;
  }
  const bool is_one = code.in(slots.b).sizes.size() <= 2;
  if (!is_left || !is_one || count != items * rows) {
    return Refuse("input {}: has {} elements, expected 1 or {}", zero, count,
                  is_left ? rows : columns);
  }
  view = CompactView(Sizes(x.begin(), x.end() - 1));
  view.strides.push_back(0);
  return view;
}

// Zero points are taken off first, so that what is left is a plain product of
// short integers with sums of 32 bits.
absl::Status WriteIntegerProduct(OperationCode& code, const ProductSlots& slots,
                                 const CTensor& sums) {
  NODEWISE_ASSIGN_OR_RETURN(const View left, ZeroView(code, slots, true));
  NODEWISE_ASSIGN_OR_RETURN(const View right, ZeroView(code, slots, false));
  const CTensor a = CentredCopy(code, slots.a, slots.a_zero, left);
  const CTensor b = CentredCopy(code, slots.b, slots.b_zero, right);
  return WriteMatMulOf(code, a, b, sums);
}

absl::Status WriteMatMulInteger(OperationCode& code) {
  return WriteIntegerProduct(code, kIntegerProductSlots, code.out());
}

// There is one scale for all lines, one for each line of a matrix, or one for
// each line of every matrix. Lines are rows of A and columns of B. "n" counts
// the matrices.
absl::StatusOr<std::string> ScaleOfLine(const OperationCode& code, size_t i,
                                        const std::string& line, int64_t lines,
                                        int64_t items) {
  const CTensor& scale = code.in(i);
  std::string at = fmt::format("n * {} + {}", lines, line);
  if (scale.count() == lines) at = line;
  if (scale.count() == 1) at = "0";
  const bool fits = scale.count() == 1 || scale.count() == lines ||
                    scale.count() == lines * items;
  if (fits) return fmt::format("(double){}[{}]", scale.name, at);
  return Refuse("input {}: has {} elements, expected 1 or {}", i, scale.count(),
                lines);
}

// The sums are exact; only then they are scaled, in double and in the order of
// the reference, since another one could round elsewhere.
absl::Status WriteQLinearMatMul(OperationCode& code) {
  const CTensor& y = code.out();
  NODEWISE_RETURN_IF_ERROR(RequireOneScale(code));
  const int64_t rows = MatricesOf(code.in(0).sizes, true).size;
  const int64_t columns = MatricesOf(code.in(3).sizes, false).inner;
  const int64_t items = y.count() / (rows * columns);
  NODEWISE_ASSIGN_OR_RETURN(const std::string left,
                            ScaleOfLine(code, 1, "i", rows, items));
  NODEWISE_ASSIGN_OR_RETURN(const std::string right,
                            ScaleOfLine(code, 4, "j", columns, items));
  const CTensor sums = code.store().ScratchTensor(kInt32, code.out().sizes);
  NODEWISE_RETURN_IF_ERROR(
      WriteIntegerProduct(code, kQLinearProductSlots, sums));
  CodeWriter& writer = code.code();
  writer.For({{"n", items}, {"i", rows}, {"j", columns}});
  writer.Line("const double factor = {} * {};", left, right);
  writer.Line("const int64_t at = (n * {} + i) * {} + j;", rows, columns);
  writer.Line("{}[at] = {};", y.name,
              RequantizedText(code, sums.name + "[at]"));
  writer.Close(3);
  return absl::OkStatus();
}

// y = alpha y + beta C.
void WriteScaling(OperationCode& code, const ops::GemmAttributes& gemm) {
  const bool has_bias = code.has(2);
  if (gemm.alpha == 1 && !has_bias) return;
  const CTensor& out = code.out();
  std::vector<View> views = {CompactView(out.sizes)};
  if (has_bias) views.push_back(RepeatedView(code.in(2).sizes, out.sizes));
  const LoopNest nest(out.sizes, views);
  const std::string y = fmt::format("{}[{}]", out.name, nest.At(0));
  const std::string_view type = SumType(out.dtype);
  std::string sum = fmt::format("({}){}", type, y);
  if (gemm.alpha != 1) {
    sum = fmt::format("({}){} * {}", type, DoubleText(gemm.alpha), sum);
  }
  if (has_bias) {
    std::string bias =
        fmt::format("({}){}[{}]", type, code.in(2).name, nest.At(1));
    if (gemm.beta != 1) {
      bias = fmt::format("({}){} * {}", type, DoubleText(gemm.beta), bias);
    }
    sum += " + " + bias;
  }
  nest.Each(&code.code(), "{} = ({})({});", y, out.type(), sum);
}

absl::Status WriteGemm(OperationCode& code) {
  const auto& gemm = code.Common<ops::GemmAttributes, ops::Gemm, ops::Gemm1>();
  const CTensor& out = code.out();
  if (!IsFloat(out.dtype) && (gemm.alpha != 1 || gemm.beta != 1)) {
    return Refuse("multiplies integers by alpha or beta");
  }
  WriteProduct(&code.code(), {out.sizes[0], out.sizes[1],
                              code.in(0).sizes[gemm.transA ? 0 : 1],
                              gemm.transA, gemm.transB, code.in(0).name,
                              code.in(1).name, out.name, out.dtype, out.dtype});
  WriteScaling(code, gemm);
  return absl::OkStatus();
}

constexpr Row kProductRows[] = {
    SizedRow<ops::MatMul>(&WriteMatMul),
    SizedRow<ops::MatMulInteger>(&WriteMatMulInteger),
    SizedRow<ops::QLinearMatMul>(&WriteQLinearMatMul),
    SizedRow<ops::Gemm, ops::Gemm1>(&WriteGemm),
};

}  // namespace

absl::Span<const Row> ProductRows() { return kProductRows; }

}  // namespace nodewise::emit_c
