#include "nodewise/ops/einsum.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/matmul_parts.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A letter, or a side that an ellipsis stands for: kEllipsis plus its place
// counted from the last.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 1000;  // Above all letters.

// An equation as it is written, before the ranks of the inputs are known.
struct Equation {
  std::vector<Labels> terms;
  Labels output;
};

bool Has(const Labels& labels, Label label) {
  return std::ranges::find(labels, label) != labels.end();
}

absl::Status EquationError(std::string_view equation, const char* message) {
  return WrongAttribute("equation", "\"{}\": {}", equation, message);
}

// An equation without an arrow: the output has the labels that occur once, in
// alphabetical order, after the ellipsis.
Labels ImpliedOutput(const std::vector<Labels>& terms) {
  std::map<Label, int> counts;
  for (const Labels& labels : terms) {
    for (const Label label : labels) ++counts[label];
  }
  Labels output;
  if (counts.erase(kEllipsis) > 0) output.push_back(kEllipsis);
  for (const auto& [label, count] : counts) {
    if (count == 1) output.push_back(label);
  }
  return output;
}

// Spaces mean nothing, and an ellipsis may stand once in a term.
absl::StatusOr<Equation> ParseEquation(const std::string& text) {
  Equation equation;
  Labels term;
  bool in_output = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      term.push_back(c);
    } else if (text.compare(i, 3, "...") == 0) {
      if (Has(term, kEllipsis)) {
        return EquationError(text, "has two ellipses in a term");
      }
      term.push_back(kEllipsis);
      i += 2;
    } else if (!in_output && (c == ',' || text.compare(i, 2, "->") == 0)) {
      // A comma and an arrow both end a term. A term may be empty: one number.
      equation.terms.push_back(std::exchange(term, {}));
      in_output = c != ',';
      if (in_output) ++i;
    } else {
      return EquationError(text, "has a character that means nothing there");
    }
  }
  if (in_output) {
    equation.output = term;
    return equation;
  }
  equation.terms.push_back(std::move(term));
  equation.output = ImpliedOutput(equation.terms);
  return equation;
}

Labels ExpandEllipsis(const Labels& labels, size_t sides) {
  Labels all;
  for (const Label label : labels) {
    if (label != kEllipsis) {
      all.push_back(label);
      continue;
    }
    for (size_t i = sides; i-- > 0;) {
      all.push_back(kEllipsis + static_cast<Label>(i));
    }
  }
  return all;
}

struct Expanded {
  bool is_known = false;  // False, and all else empty, if a rank is not.
  std::vector<Labels> terms;
  Labels output;
  std::map<Label, Dim> sides;
};

// Learns the size of a label's side; a side of 1 is repeated, as by NumPy.
absl::Status AddSide(Label label, const Dim& side, Expanded* expanded) {
  Dim& known = expanded->sides.try_emplace(label, Dim(1)).first->second;
  if (side == Dim(1) || known == side) return absl::OkStatus();
  if (known == Dim(1) || (!known.is_known() && side.is_known())) {
    known = side;
    return absl::OkStatus();
  }
  if (!known.is_known() || !side.is_known()) return absl::OkStatus();
  return InvalidArgument("one letter stands for sides of {} and {}",
                         known.size(), side.size());
}

// An ellipsis stands for the sides that the letters of a term leave, counted
// from the last, so that those of different numbers are repeated as by NumPy.
absl::StatusOr<Expanded> ExpandAll(const Equation& equation,
                                   const std::string& text, const Inputs& in) {
  Expanded expanded{true, {}, {}, {}};
  size_t ellipsis = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const Labels& term = equation.terms[i];
    const auto rank = static_cast<size_t>(in.type(i).rank());
    const bool has_ellipsis = Has(term, kEllipsis);
    const size_t letters = term.size() - (has_ellipsis ? 1 : 0);
    if (rank < letters || (!has_ellipsis && rank != letters)) {
      return WrongInput(i, "has rank {}, expected {} as the equation says",
                        rank, letters);
    }
    ellipsis = std::max(ellipsis, rank - letters);
    expanded.terms.push_back(ExpandEllipsis(term, rank - letters));
    for (size_t s = 0; s < rank; ++s) {
      NODEWISE_RETURN_IF_ERROR(
          AddSide(expanded.terms[i][s], (*in.type(i).shape)[s], &expanded));
    }
  }
  expanded.output = ExpandEllipsis(equation.output, ellipsis);
  // Sorted, labels that come twice lie beside each other.
  Labels sorted = expanded.output;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) {
    return EquationError(text, "has a letter twice in its output");
  }
  for (const Label label : sorted) {
    if (expanded.sides.count(label) > 0) continue;
    return EquationError(text, "has a letter in its output only");
  }
  return expanded;
}

// A tensor whose sides have labels, each at most once. Number is double, or
// uint64_t for integers modulo 2^64.
template <typename Number>
struct Term {
  Labels labels;
  std::vector<Number> values;
};

struct LabelSizes {
  const std::map<Label, Dim>& sides;

  int64_t of(Label label) const { return sides.at(label).size(); }
  absl::StatusOr<int64_t> Count(const Labels& labels) const {
    std::vector<int64_t> sizes;
    for (const Label label : labels) sizes.push_back(of(label));
    NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(sizes));
    // 64 GiB of doubles.
    constexpr int64_t kMost = int64_t{1} << 33;
    if (count <= kMost) return count;
    return ResourceExhausted(
        "an intermediate product has {} elements, expected {} at most", count,
        kMost);
  }
};

// Sums or repeats: to[kept] = sum over `summed` of from[...], where `strides`
// has the steps of kept and summed labels through `from`.
template <typename Number>
void GatherTerm(const Number* from, absl::Span<const int64_t> sizes,
                absl::Span<const int64_t> strides, size_t kept, Number* to) {
  // `at` counts through all sides like the digits of a number, and `offset`
  // follows it through `from`.
  const int64_t outer = Product(sizes.first(kept));
  const int64_t inner = Product(sizes.subspan(kept));
  std::vector<int64_t> at(sizes.size());
  int64_t offset = 0;
  for (int64_t i = 0; i < outer; ++i) {
    Number sum = 0;
    for (int64_t j = 0; j < inner; ++j) {
      sum += from[offset];
      for (size_t s = sizes.size(); s-- > 0;) {
        offset += strides[s];
        if (++at[s] < sizes[s]) break;
        offset -= strides[s] * sizes[s];
        at[s] = 0;
      }
    }
    to[i] = sum;
  }
}

// Returns `from`, whose sides are `labels` with these strides, as a term of
// `kept`; the other labels are summed. A label that comes twice stands for a
// diagonal: the strides of its sides are added up.
template <typename Number>
absl::StatusOr<Term<Number>> Reordered(const Number* from, const Labels& labels,
                                       const std::vector<int64_t>& strides,
                                       const Labels& kept,
                                       const LabelSizes& sizes) {
  // GatherTerm() wants the labels that are kept first, those that are summed
  // last.
  Labels order = kept;
  for (const Label label : labels) {
    if (!Has(order, label)) order.push_back(label);
  }
  std::vector<int64_t> order_sizes;
  std::vector<int64_t> order_strides;
  for (const Label label : order) {
    int64_t stride = 0;
    for (size_t s = 0; s < labels.size(); ++s) {
      if (labels[s] == label) stride += strides[s];
    }
    order_sizes.push_back(sizes.of(label));
    order_strides.push_back(stride);
  }
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, sizes.Count(kept));
  Term<Number> term{kept, std::vector<Number>(static_cast<size_t>(count))};
  if (count > 0) {
    GatherTerm(from, order_sizes, order_strides, kept.size(),
               term.values.data());
  }
  return term;
}

template <typename Number>
absl::StatusOr<Term<Number>> Reordered(const Term<Number>& term,
                                       const Labels& kept,
                                       const LabelSizes& sizes) {
  std::vector<int64_t> shape;
  for (const Label label : term.labels) shape.push_back(sizes.of(label));
  return Reordered(term.values.data(), term.labels, StridesOf(shape), kept,
                   sizes);
}

// Which labels two terms share, among those still needed: these four groups are
// the sides of a matrix product, or of many at once.
struct Sharing {
  Labels items;  // Both, needed.
  Labels rows;   // The left one only.
  Labels columns;
  Labels depth;  // Both, summed.
};
template <typename Number>
Sharing SharingOf(const Term<Number>& a, const Term<Number>& b,
                  const Labels& needed) {
  Sharing sharing;
  for (const Label label : a.labels) {
    if (!Has(b.labels, label)) {
      sharing.rows.push_back(label);
    } else if (Has(needed, label)) {
      sharing.items.push_back(label);
    } else {
      sharing.depth.push_back(label);
    }
  }
  for (const Label label : b.labels) {
    if (!Has(a.labels, label)) sharing.columns.push_back(label);
  }
  return sharing;
}

Labels Joined(Labels a, const Labels& b, const Labels& c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

template <typename Number>
void MultiplyTerms(const MatrixOperands& operands, Number* to) {
  const ProductSizes& sizes = operands.sizes;
  if constexpr (std::is_same_v<Number, double>) {
    MultiplyFactors(operands, Terms::kPlain, [&](const ProductTile& tile) {
      for (int64_t r = 0; r < tile.rows; ++r) {
        std::copy_n(
            tile.Row(r), tile.columns,
            to + (tile.item * sizes.rows + tile.row + r) * sizes.columns +
                tile.column);
      }
    });
  } else {
    MultiplyIntegers<uint64_t>(
        operands, [&](int64_t item, int64_t row, const uint64_t* sums) {
          std::copy_n(sums, sizes.columns,
                      to + (item * sizes.rows + row) * sizes.columns);
        });
  }
}

// Multiplies two terms and sums over the labels that neither the output nor a
// later term needs. Both are laid out as matrices first, since the product of
// matrices is by far faster than a loop over all labels.
template <typename Number>
absl::StatusOr<Term<Number>> Contract(const Term<Number>& a,
                                      const Term<Number>& b,
                                      const Labels& needed,
                                      const LabelSizes& sizes) {
  const Sharing sharing = SharingOf(a, b, needed);
  NODEWISE_ASSIGN_OR_RETURN(
      const Term<Number> left,
      Reordered(a, Joined(sharing.items, sharing.rows, sharing.depth), sizes));
  NODEWISE_ASSIGN_OR_RETURN(
      const Term<Number> right,
      Reordered(b, Joined(sharing.items, sharing.columns, sharing.depth),
                sizes));
  Term<Number> result{Joined(sharing.items, sharing.rows, sharing.columns), {}};
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, sizes.Count(result.labels));
  result.values.resize(static_cast<size_t>(count));
  if (count == 0) return result;
  MatrixOperands operands;
  ProductSizes& product = operands.sizes;
  NODEWISE_ASSIGN_OR_RETURN(product.items, sizes.Count(sharing.items));
  NODEWISE_ASSIGN_OR_RETURN(product.rows, sizes.Count(sharing.rows));
  NODEWISE_ASSIGN_OR_RETURN(product.columns, sizes.Count(sharing.columns));
  NODEWISE_ASSIGN_OR_RETURN(product.depth, sizes.Count(sharing.depth));
  // Both factors have the depth as their last side, so that the steps of a sum
  // lie beside each other. For integers kFloat64 does not count, since
  // MultiplyIntegers() reads the type of its template argument.
  operands.left = {kFloat64, left.values.data(), product.depth, 1};
  operands.right = {kFloat64, right.values.data(), product.depth, 1};
  // Both lists have the 0 of the first item already.
  for (int64_t i = 1; i < product.items; ++i) {
    operands.left_begins.push_back(i * product.rows * product.depth);
    operands.right_begins.push_back(i * product.columns * product.depth);
  }
  MultiplyTerms(operands, result.values.data());
  return result;
}

// A function of the elements of inputs; null to leave them as they are.
template <typename Number>
using Change = Number (*)(Number x);

template <typename Number>
std::vector<Number> Load(const NDArray& tensor, Change<Number> f) {
  std::vector<Number> values(static_cast<size_t>(CountOf(tensor)));
  LoadWide(tensor, 0, CountOf(tensor), values.data());
  if (f != nullptr)
    std::transform(values.begin(), values.end(), values.begin(), f);
  return values;
}

// The result, in the order of the output: the terms are multiplied one after
// the other, from the left. A label that no later term needs is summed as soon
// as it can be, which keeps the products small.
template <typename Number>
absl::StatusOr<std::vector<Number>> Calculate(const EvalArgs& args,
                                              const Expanded& all,
                                              Change<Number> f = nullptr) {
  const LabelSizes sizes{all.sides};
  std::optional<Term<Number>> product;
  for (size_t i = 0; i < args.num_inputs(); ++i) {
    Labels needed = all.output;  // And by the later terms.
    for (size_t j = i + 1; j < all.terms.size(); ++j) {
      needed.insert(needed.end(), all.terms[j].begin(), all.terms[j].end());
    }
    // Sides of 1 are repeated: they are left out.
    Labels labels;
    std::vector<int64_t> strides;
    Labels kept;
    const std::vector<int64_t> compact = StridesOf(args.shape(i));
    for (size_t s = 0; s < compact.size(); ++s) {
      const Label label = all.terms[i][s];
      if (args.shape(i)[s] == 1) continue;
      labels.push_back(label);
      strides.push_back(compact[s]);
      // A label of this input alone that is not needed is summed right away.
      const bool in_product =
          product.has_value() && Has(product->labels, label);
      if ((Has(needed, label) || in_product) && !Has(kept, label)) {
        kept.push_back(label);
      }
    }
    const std::vector<Number> values = Load(args.in(i), f);
    NODEWISE_ASSIGN_OR_RETURN(
        Term<Number> term,
        Reordered(values.data(), labels, strides, kept, sizes));
    if (!product.has_value()) {
      product = std::move(term);
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(product, Contract(*product, term, needed, sizes));
  }
  NODEWISE_ASSIGN_OR_RETURN(Term<Number> result,
                            Reordered(*product, all.output, sizes));
  return std::move(result.values);
}

// Counts the terms of each sum, and a rounding for each further factor.
double TermsOf(const Expanded& all) {
  double summed = 1;
  for (const auto& [label, side] : all.sides) {
    if (!Has(all.output, label)) summed *= static_cast<double>(side.size());
  }
  return summed + static_cast<double>(all.terms.size());
}

// The equation is parsed anew for each question, since an operation keeps
// nothing but its attributes.
struct Einsum : ops::Einsum {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&Einsum::equation>("equation"));
  }
  absl::Status Check(const Inputs& in) const {
    for (size_t i = 0; i < in.size(); ++i) {
      NODEWISE_RETURN_IF_ERROR(RequireNumber(in, i));
    }
    NODEWISE_RETURN_IF_ERROR(RequireSameType(in));
    return Expand(in).status();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    TensorType type;
    for (size_t i = 0; i < in.size() && !type.has_dtype(); ++i) {
      type.dtype = in.type(i).dtype;
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto expanded, Expand(in));
    if (!expanded.is_known) return OutputInfos{std::move(type)};
    Shape shape;
    for (const Label label : expanded.output) {
      shape.push_back(expanded.sides.at(label));
    }
    type.shape = std::move(shape);
    return Countable(OutputInfos{std::move(type)});
  }

  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto all,
                              Expand(Inputs(GivenInputs(args))));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out, args.MakeOutput(0));
    // Integers modulo 2^64 are right in all narrower types, too.
    if (!IsFloat(args.dtype(0))) {
      NODEWISE_ASSIGN_OR_RETURN(const std::vector<uint64_t> values,
                                Calculate<uint64_t>(args, all));
      StoreWide(values.data(), 0, CountOf(out), out);
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto values, Calculate<double>(args, all));
    StoreDoubles(values.data(), 0, CountOf(out), out);
    Bounds* const bounds = args.bounds(0);
    if (bounds == nullptr) return absl::OkStatus();
    // This equation of other elements gives what BoundSums() wants: the sums of
    // the terms' sizes and of their squares.
    NODEWISE_ASSIGN_OR_RETURN(
        bounds->proved,
        Calculate<double>(args, all, [](double x) { return std::fabs(x); }));
    NODEWISE_ASSIGN_OR_RETURN(
        bounds->expected,
        Calculate<double>(args, all, [](double x) { return x * x; }));
    BoundSums(out, TermsOf(all), bounds);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Expanded> Expand(const Inputs& in) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto parsed, ParseEquation(equation.get()));
    if (parsed.terms.size() != in.size()) {
      return EquationError(equation.get(),
                           "has another number of terms than there are inputs");
    }
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in.type(i).has_rank()) return Expanded();
    }
    return ExpandAll(parsed, equation.get(), in);
  }
};

constexpr OperatorDef kEinsums[] = {
    Row<ops::Einsum, Einsum>("Einsum", 12, {Variadic("Inputs")}, {"Output"},
                             kSum),
};

}  // namespace

absl::Span<const OperatorDef> EinsumOperators() { return kEinsums; }

}  // namespace nodewise
