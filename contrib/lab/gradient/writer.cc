#include "contrib/lab/gradient/writer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/unary.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise::gradient {
namespace {

using Sizes = std::vector<int64_t>;

// Elements of constants that are calculated beforehand.
constexpr int64_t kMostFolded = 1 << 14;

Term Like(Term x, double number) {
  return x.writer().Number(number, x.dtype());
}

}  // namespace

DLDataType Term::dtype() const {
  if (!is_given()) return kFloat32;
  return writer_->network().value(id_).type.dtype;
}

std::vector<int64_t> Term::sizes() const {
  if (!is_given()) return {};
  const NetworkValue& value = writer_->network().value(id_);
  auto sizes = value.type.sizes();
  if (!sizes.has_value()) {
    writer_->Fail(absl::FailedPreconditionError(
        fmt::format("value {}: is {}, expected known sizes (bind them first)",
                    Shortened(value.name), ToString(value.type))));
    return {};
  }
  return *std::move(sizes);
}

int64_t Term::count() const { return Product(sizes()); }

bool Term::has_known_sizes() const {
  return is_given() && writer_->network().value(id_).type.sizes().has_value();
}

std::vector<ValueId> Writer::IdsOf(const std::vector<Term>& terms) {
  std::vector<ValueId> ids;
  ids.reserve(terms.size());
  for (const Term& term : terms) ids.push_back(term.id());
  return ids;
}

const OperatorDef* Writer::RowOf(const OperatorDef* newest) const {
  const OperatorDef* const held = AllOperators().Find(
      newest->domain, newest->name, network_.opset(newest->domain));
  return held != nullptr && held->type == newest->type ? held : newest;
}

std::vector<Term> Writer::AddLike(const OpAttrs& attrs,
                                  const std::vector<Term>& inputs,
                                  size_t count) {
  std::vector<Term> outputs(count, Term(this, kNoValue));
  if (!status_.ok()) return outputs;
  const Term known = count == 1 ? Folded(attrs, inputs) : Term();
  if (known.is_given()) return {known};
  NewOperation operation{attrs, IdsOf(inputs)};
  const std::string stem =
      fmt::format("{}_{}", attrs.def().name, network_.data().values.size());
  for (size_t i = 0; i < count; ++i) {
    operation.outputs.push_back(
        FreeName(network_, fmt::format("{}_of_gradient_{}", stem, i)));
  }
  const auto id = network_.AddOperation(std::move(operation));
  Fail(id.status());
  if (!id.ok()) return outputs;
  for (size_t i = 0; i < count; ++i) {
    outputs[i] = Of(network_.operation(*id).outputs[i]);
  }
  return outputs;
}

Term Writer::Folded(const OpAttrs& attrs, const std::vector<Term>& inputs) {
  Tensors tensors;
  bool is_known = attrs.defined() && !inputs.empty();
  for (const Term& term : inputs) {
    tensors.emplace_back();
    if (!term.is_given()) continue;
    const NDArray& data = network_.value(term.id()).data;
    is_known = is_known && data.defined() && CountOf(data) <= kMostFolded;
    tensors.back() = data;
  }
  if (!is_known) return {};
  const bool wanted[] = {true};
  const auto made = Evaluate(attrs, std::move(tensors), wanted);
  if (!made.ok()) return {};
  const NDArray& data = made->outputs[0];
  if (IsFloat(data.dtype()) || CountOf(data) > kMostFolded) return {};
  return Constant(data);
}

Term Writer::Constant(NDArray data) {
  if (!status_.ok()) return {this, kNoValue};
  const auto made = network_.AddConstant("", std::move(data));
  Fail(made.status());
  return {this, made.ok() ? *made : kNoValue};
}

Term Writer::Numbers(const std::vector<double>& numbers, DLDataType dtype,
                     const std::vector<int64_t>& sizes) {
  auto data = NDArray::Empty(sizes, dtype, kCpu);
  Fail(data.status());
  if (!data.ok()) return {this, kNoValue};
  StoreDoubles(numbers.data(), 0, static_cast<int64_t>(numbers.size()), *data);
  return Constant(*std::move(data));
}

Term Writer::Number(double number, DLDataType dtype) {
  return Numbers({number}, dtype, {});
}

Term Writer::Filled(double number, DLDataType dtype,
                    const std::vector<int64_t>& sizes) {
  return Numbers(
      std::vector<double>(static_cast<size_t>(Product(sizes)), number), dtype,
      sizes);
}

Term Writer::Ints(const std::vector<int64_t>& numbers) {
  auto data =
      NDArray::Empty({static_cast<int64_t>(numbers.size())}, kInt64, kCpu);
  Fail(data.status());
  if (!data.ok()) return {this, kNoValue};
  std::copy(numbers.begin(), numbers.end(), data->As<int64_t>());
  return Constant(*std::move(data));
}

Term operator+(Term a, Term b) { return a.writer().Add(ops::Add{}, {a, b}); }
Term operator-(Term a, Term b) { return a.writer().Add(ops::Sub{}, {a, b}); }
Term operator*(Term a, Term b) { return a.writer().Add(ops::Mul{}, {a, b}); }
Term operator/(Term a, Term b) { return a.writer().Add(ops::Div{}, {a, b}); }
Term operator+(Term a, double b) { return a + Like(a, b); }
Term operator-(Term a, double b) { return a - Like(a, b); }
Term operator*(Term a, double b) { return b == 1 ? a : a * Like(a, b); }
Term operator/(Term a, double b) { return b == 1 ? a : a / Like(a, b); }
Term operator-(double a, Term b) { return Like(b, a) - b; }
Term operator-(Term a) { return a.writer().Add(ops::Neg{}, {a}); }

Term Exp(Term x) { return x.writer().Add(ops::Exp{}, {x}); }
Term Sqrt(Term x) { return x.writer().Add(ops::Sqrt{}, {x}); }
Term Sign(Term x) { return x.writer().Add(ops::Sign{}, {x}); }
Term Abs(Term x) { return x.writer().Add(ops::Abs{}, {x}); }
Term Sigmoid(Term x) { return x.writer().Add(ops::Sigmoid{}, {x}); }
Term Square(Term x) { return x * x; }
Term Floor(Term x) { return x.writer().Add(ops::Floor{}, {x}); }
Term Ceil(Term x) { return x.writer().Add(ops::Ceil{}, {x}); }
Term AtLeast(Term x, double least) {
  return x.writer().Add(ops::Max{}, {x, Like(x, least)});
}
Term AtMost(Term x, double most) {
  return x.writer().Add(ops::Min{}, {x, Like(x, most)});
}
Term Power(Term x, double exponent) {
  if (exponent == 1) return x;
  return x.writer().Add(ops::Pow{}, {x, Like(x, exponent)});
}
Term Greater(Term x, double limit) {
  return x.writer().Add(ops::Greater{}, {x, Like(x, limit)});
}
Term Less(Term x, double limit) {
  return x.writer().Add(ops::Less{}, {x, Like(x, limit)});
}
Term Both(Term a, Term b) { return a.writer().Add(ops::And{}, {a, b}); }
Term Choose(Term condition, Term a, Term b) {
  return a.writer().Add(ops::Where{}, {condition, a, b});
}
Term Choose(Term condition, Term a, double b) {
  return Choose(condition, a, Like(a, b));
}
Term Choose(Term condition, double a, Term b) {
  return Choose(condition, Like(b, a), b);
}

Term CastTo(Term x, DLDataType dtype) {
  return x.dtype() == dtype ? x : x.writer().Add(ops::Cast{dtype}, {x});
}

Term ReshapeTo(Term x, const std::vector<int64_t>& sizes) {
  if (x.sizes() == sizes) return x;
  // Sides of 0 are sides of 0.
  const ops::Reshape reshape{std::find(sizes.begin(), sizes.end(), 0) !=
                             sizes.end()};
  return x.writer().Add(reshape, {x, x.writer().Ints(sizes)});
}

Term Flattened(Term x) {
  if (x.has_known_sizes()) return ReshapeTo(x, {x.count()});
  return x.writer().Add(ops::Reshape{}, {x, x.writer().Ints({-1})});
}

Term ExpandTo(Term x, const std::vector<int64_t>& sizes) {
  if (x.sizes() == sizes) return x;
  return x.writer().Add(ops::Expand{}, {x, x.writer().Ints(sizes)});
}

Term Transposed(Term x, const std::vector<int64_t>& order) {
  if (std::is_sorted(order.begin(), order.end())) return x;
  return x.writer().Add(ops::Transpose{order}, {x});
}

Term SwapLast(Term x) {
  Sizes order = Counting(0, x.rank());
  if (order.size() > 1)
    std::swap(order[order.size() - 1], order[order.size() - 2]);
  return Transposed(x, order);
}

Term SumOver(Term x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;
  return x.writer().Add(ops::ReduceSum{}, {x, x.writer().Ints(axes)});
}

Term MeanOver(Term x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;
  return x.writer().Add(ops::ReduceMean{}, {x, x.writer().Ints(axes)});
}

Term Part(Term x, int64_t axis, int64_t begin, int64_t end) {
  const Sizes sizes = x.sizes();
  if (sizes.empty()) return x;
  if (begin == 0 && end == sizes[static_cast<size_t>(axis)]) return x;
  Writer& writer = x.writer();
  return writer.Add(ops::Slice{}, {x, writer.Ints({begin}), writer.Ints({end}),
                                   writer.Ints({axis})});
}

Term ItemAt(Term x, int64_t axis, int64_t index) {
  const Term part = Part(x, axis, index, index + 1);
  Sizes sizes = part.sizes();
  if (sizes.empty()) return part;
  sizes.erase(sizes.begin() + axis);
  return ReshapeTo(part, sizes);
}

std::vector<Term> EqualParts(Term x, int64_t axis, int64_t count) {
  const Sizes sizes = x.sizes();
  if (count == 1 || sizes.empty()) {
    return std::vector<Term>(static_cast<size_t>(count), x);
  }
  Writer& writer = x.writer();
  const Sizes lengths(static_cast<size_t>(count),
                      sizes[static_cast<size_t>(axis)] / count);
  return writer.AddAll(ops::Split{axis, {}}, {x, writer.Ints(lengths)},
                       lengths.size());
}

Term Joined(const std::vector<Term>& terms, int64_t axis) {
  if (terms.size() == 1) return terms[0];
  return terms[0].writer().Add(ops::Concat{axis}, terms);
}

Term SumTo(Term x, const std::vector<int64_t>& sizes) {
  const Sizes from = x.sizes();
  if (from == sizes) return x;
  if (from.size() < sizes.size()) return ExpandTo(x, sizes);
  const size_t more = from.size() - sizes.size();
  Sizes axes;
  Sizes left = from;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i >= more && (sizes[i - more] != 1 || from[i] == 1)) continue;
    axes.push_back(static_cast<int64_t>(i));
    left[i] = 1;
  }
  left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(more));
  return ExpandTo(ReshapeTo(SumOver(x, axes), left), sizes);
}

Term ScatterAdded(Term indices, Term updates,
                  const std::vector<int64_t>& sizes) {
  Writer& writer = updates.writer();
  ops::ScatterElements scatter;
  scatter.reduction = ops::ScatterReduction::kAdd;
  const Term added =
      writer.Add(scatter, {writer.Filled(0, updates.dtype(), {Product(sizes)}),
                           Flattened(indices), Flattened(updates)});
  return ReshapeTo(added, sizes);
}

std::string FreeName(const Network& network, const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; network.HasValue(name); ++i) {
    name = fmt::format("{}_{}", wanted, i);
  }
  return name;
}

std::vector<int64_t> Counting(int64_t begin, int64_t end) {
  Sizes numbers(static_cast<size_t>(std::max<int64_t>(end - begin, 0)));
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

}  // namespace nodewise::gradient
