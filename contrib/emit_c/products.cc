// Products of matrices: a row of the result at a time.

#include <algorithm>

#include "contrib/emit_c/integer_products.h"
#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status_macros.h"

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

// Returns the type that sums are taken in.
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

std::string LeftAt(const Product& product, const std::string& k) {
  if (product.left_turned) {
    return fmt::format("{}[({}) * {} + m]", product.left, k, product.rows);
  }
  return fmt::format("{}[m * {} + {}]", product.left, product.terms, k);
}

// Adds rows k, k + 1, ... of B to the row.
void AddRows(CodeWriter* code, const Product& product, int64_t count) {
  const std::string_view type = FactorType(product);
  std::string sum;
  for (int64_t t = 0; t < count; ++t) {
    const std::string k = t == 0 ? "k" : fmt::format("k + {}", t);
    code->Line(fmt::format("const {} a{} = ({}){};", type, t, type,
                           LeftAt(product, k)));
    sum += fmt::format("{}a{} * b[{}n]", t == 0 ? "" : " + ", t,
                       t == 0 ? "" : fmt::format("{} + ", t * product.columns));
  }
  code->Line(fmt::format("const {}* b = {} + k * {};", CTypeOf(product.factors),
                         product.right, product.columns));
  code->For("n", product.columns);
  code->Line(Increase(product, "row[n]", sum));
  code->Close();
}

void WriteByRows(CodeWriter* code, const Product& product) {
  code->For("m", product.rows);
  code->Line(fmt::format("{0}* restrict row = {1} + m * {2};",
                         CTypeOf(product.dtype), product.result,
                         product.columns));
  code->Line(
      fmt::format("memset(row, 0, {} * sizeof(*row));", product.columns));
  const int64_t whole = product.terms / kTermsAtOnce * kTermsAtOnce;
  if (whole > 0) {
    code->Open(fmt::format("for (int64_t k = 0; k < {}; k += {})", whole,
                           kTermsAtOnce));
    AddRows(code, product, kTermsAtOnce);
    code->Close();
  }
  if (whole < product.terms) {
    code->Open(
        fmt::format("for (int64_t k = {}; k < {}; ++k)", whole, product.terms));
    AddRows(code, product, 1);
    code->Close();
  }
  code->Close();
}

// Where both factors of an element lie one behind the other.
void WriteByDots(CodeWriter* code, const Product& product) {
  code->For("m", product.rows);
  code->For("n", product.columns);
  code->Line(
      fmt::format("{0}[m * {1} + n] = nw_dot_float({2} + m * {3}, {4} "
                  "+ n * {3}, {3});",
                  product.result, product.columns, product.left, product.terms,
                  product.right));
  code->Close(2);
}

void WriteByElements(CodeWriter* code, const Product& product) {
  const std::string_view type = SumType(product.dtype);
  code->For("m", product.rows);
  code->For("n", product.columns);
  code->Line(fmt::format("{} sum = 0;", type));
  code->For("k", product.terms);
  const std::string right =
      product.right_turned
          ? fmt::format("{}[n * {} + k]", product.right, product.terms)
          : fmt::format("{}[k * {} + n]", product.right, product.columns);
  code->Line(fmt::format("sum += ({0}){1} * ({0}){2};", type,
                         LeftAt(product, "k"), right));
  code->Close();
  code->Line(fmt::format("{}[m * {} + n] = ({})sum;", product.result,
                         product.columns, CTypeOf(product.dtype)));
  code->Close(2);
}

void WriteProduct(CodeWriter* code, const Product& product) {
  if (product.rows * product.columns == 0) return;
  const bool is_row = product.columns == 1 && !product.right_turned;
  if ((product.right_turned || is_row) && !product.left_turned &&
      product.dtype == kFloat32) {
    return WriteByDots(code, product);
  }
  if (product.right_turned) return WriteByElements(code, product);
  WriteByRows(code, product);
}

// Lists of numbers are matrices of one row (left) or one column (right).
absl::Status WriteMatMulOf(OperationCode& code, const CTensor& a,
                           const CTensor& b, const CTensor& out) {
  Sizes left = a.sizes;
  Sizes right = b.sizes;
  if (left.size() == 1) left.insert(left.begin(), 1);
  if (right.size() == 1) right.push_back(1);
  Product product;
  product.dtype = out.dtype;
  product.factors = a.dtype;
  product.rows = left[left.size() - 2];
  product.terms = left.back();
  product.columns = right.back();
  left.resize(left.size() - 2);
  right.resize(right.size() - 2);
  const size_t rank = std::max(left.size(), right.size());
  Sizes batch(out.sizes.begin(),
              out.sizes.begin() + static_cast<std::ptrdiff_t>(rank));
  View from_left = RepeatedView(left, batch);
  View from_right = RepeatedView(right, batch);
  View to = CompactView(batch);
  for (int64_t& s : from_left.strides) s *= product.rows * product.terms;
  for (int64_t& s : from_right.strides) s *= product.terms * product.columns;
  for (int64_t& s : to.strides) s *= product.rows * product.columns;
  const LoopNest nest(batch, {from_left, from_right, to});
  if (nest.is_empty()) return absl::OkStatus();
  // A sum of nothing reads nothing.
  if (product.terms == 0) {
    code.code().Line(fmt::format("memset({0}, 0, {1} * sizeof(*{0}));",
                                 out.name, out.count()));
    return absl::OkStatus();
  }
  nest.Open(&code.code());
  product.left = "a";
  product.right = "b0";
  product.result = "y";
  code.code().Open();
  const auto point = [&](const char* name, const CTensor& tensor,
                         std::string_view constness, size_t view) {
    code.code().Line(fmt::format("{}{}* {} = {} + {};", constness,
                                 tensor.type(), name, tensor.name,
                                 nest.At(view)));
  };
  point("a", a, "const ", 0);
  point("b0", b, "const ", 1);
  point("y", out, "", 2);
  WriteProduct(&code.code(), product);
  code.code().Close();
  nest.Close(&code.code());
  return absl::OkStatus();
}

absl::Status WriteMatMul(OperationCode& code) {
  return WriteMatMulOf(code, code.in(0), code.in(1), code.out());
}

// The matrices of a factor; a vector is one of a row (left) or a column.
struct FactorSizes {
  int64_t items = 1;
  int64_t rows = 1;
  int64_t columns = 1;
};
FactorSizes SizesOfFactor(const Sizes& sizes, bool is_left) {
  if (sizes.size() == 1) {
    return is_left ? FactorSizes{1, 1, sizes[0]} : FactorSizes{1, sizes[0], 1};
  }
  const auto all = absl::MakeConstSpan(sizes);
  const size_t rank = sizes.size();
  return {CountIn(all.first(rank - 2)), sizes[rank - 2], sizes[rank - 1]};
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
  const FactorSizes sizes = SizesOfFactor(x, is_left);
  if (!is_left && count == sizes.columns) {
    view.strides.back() = 1;
    return view;
  }
  if (is_left && count == sizes.rows) {
    view.strides[x.size() - 2] = 1;
    return view;
  }
  const bool is_one = code.in(slots.b).sizes.size() <= 2;
  if (!is_left || !is_one || count != sizes.items * sizes.rows) {
    return Refuse(fmt::format("input {}: has {} elements, expected 1 or {}",
                              zero, count,
                              is_left ? sizes.rows : sizes.columns));
  }
  view = CompactView(Sizes(x.begin(), x.end() - 1));
  view.strides.push_back(0);
  return view;
}

absl::Status WriteIntegerProduct(OperationCode& code, const ProductSlots& slots,
                                 const CTensor& sums) {
  if (sums.count() == 0) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const View left, ZeroView(code, slots, true));
  NODEWISE_ASSIGN_OR_RETURN(const View right, ZeroView(code, slots, false));
  const CTensor a = CentredCopy(code, slots.a, slots.a_zero, left);
  const CTensor b = CentredCopy(code, slots.b, slots.b_zero, right);
  return WriteMatMulOf(code, a, b, sums);
}

absl::Status WriteMatMulInteger(OperationCode& code) {
  return WriteIntegerProduct(code, kIntegerProductSlots, code.out());
}

// Returns the scale of a line, of which there is one for all, one for each line
// of a matrix, or one for each of each matrix.
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
  return Refuse(fmt::format("input {}: has {} elements, expected 1 or {}", i,
                            scale.count(), lines));
}

absl::Status WriteQLinearMatMul(OperationCode& code) {
  const CTensor& y = code.out();
  if (y.count() == 0) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(RequireOneScale(code));
  const int64_t rows = SizesOfFactor(code.in(0).sizes, true).rows;
  const int64_t columns = SizesOfFactor(code.in(3).sizes, false).columns;
  const int64_t items = y.count() / (rows * columns);
  NODEWISE_ASSIGN_OR_RETURN(const std::string left,
                            ScaleOfLine(code, 1, "i", rows, items));
  NODEWISE_ASSIGN_OR_RETURN(const std::string right,
                            ScaleOfLine(code, 4, "j", columns, items));
  const CTensor sums = IntegerSums(code);
  NODEWISE_RETURN_IF_ERROR(
      WriteIntegerProduct(code, kQLinearProductSlots, sums));
  code.code().For("n", items);
  code.code().For("i", rows);
  code.code().For("j", columns);
  code.code().Line(fmt::format("const double factor = {} * {};", left, right));
  code.code().Line(
      fmt::format("const int64_t at = (n * {} + i) * {} + j;", rows, columns));
  code.code().Line(fmt::format("{}[at] = {};", y.name,
                               RequantizedText(code, sums.name + "[at]")));
  code.code().Close(3);
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
  if (nest.is_empty()) return;
  nest.Open(&code.code());
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
  code.code().Line(fmt::format("{} = ({})({});", y, out.type(), sum));
  nest.Close(&code.code());
}

absl::Status WriteGemmOf(OperationCode& code, const ops::GemmAttributes& gemm) {
  if (!IsFloat(code.out().dtype) && (gemm.alpha != 1 || gemm.beta != 1)) {
    return Refuse("multiplies integers by alpha or beta");
  }
  const Sizes& a = code.in(0).sizes;
  Product product;
  product.dtype = code.out().dtype;
  product.factors = product.dtype;
  product.rows = code.out().sizes[0];
  product.columns = code.out().sizes[1];
  product.terms = a[gemm.transA ? 0 : 1];
  product.left_turned = gemm.transA;
  product.right_turned = gemm.transB;
  product.left = code.in(0).name;
  product.right = code.in(1).name;
  product.result = code.out().name;
  WriteProduct(&code.code(), product);
  WriteScaling(code, gemm);
  return absl::OkStatus();
}

absl::Status WriteGemm(OperationCode& code) {
  return WriteGemmOf(code, *code.As<ops::Gemm>());
}
absl::Status WriteOldGemm(OperationCode& code) {
  return WriteGemmOf(code, *code.As<ops::Gemm1>());
}

constexpr Row kProductRows[] = {
    SizedRow<ops::MatMul>("MatMul", &WriteMatMul),
    SizedRow<ops::MatMulInteger>("MatMulInteger", &WriteMatMulInteger),
    SizedRow<ops::QLinearMatMul>("QLinearMatMul", &WriteQLinearMatMul),
    SizedRow<ops::Gemm>("Gemm", &WriteGemm),
    SizedRow<ops::Gemm1>("Gemm", &WriteOldGemm),
};

}  // namespace

absl::Span<const Row> ProductRows() { return kProductRows; }

}  // namespace nodewise::emit_c
