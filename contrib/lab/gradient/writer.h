#pragma once

// Formulas as operations of a network. What a formula adds may be more than is
// needed: what nothing reads is removed in the end.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/unary.h"

namespace nodewise::gradient {

class Writer;
using Sizes = std::vector<int64_t>;
// Numbers from `begin` to below `end`.
Sizes Counting(int64_t begin, int64_t end);

// A tensor in a formula. After an error all are empty, and so is every term
// made of them. So formulas need not ask whether something has failed before
// they index into sizes that may be missing then.
class Term {
 public:
  Term() = default;
  Term(Writer* writer, ValueId id) : writer_(writer), id_(id) {}

  ValueId id() const { return id_; }
  bool is_given() const { return id_ != kNoValue; }
  Writer& writer() const { return *writer_; }
  // What is known about it; sizes that are not known are an error of the
  // writer's.
  DLDataType dtype() const;
  Sizes sizes() const;
  int64_t rank() const { return static_cast<int64_t>(sizes().size()); }
  int64_t count() const { return Product(sizes()); }
  bool has_known_sizes() const;

 private:
  Writer* writer_ = nullptr;
  ValueId id_ = kNoValue;
};
using Terms = std::vector<Term>;

// Adds operations to a network, and keeps the first error.
class Writer {
 public:
  explicit Writer(Network* network) : network_(*network) {}

  const absl::Status& status() const { return status_; }
  Network& network() { return network_; }
  void Fail(const absl::Status& status) { status_.Update(status); }
  Term TermOf(ValueId id) { return {this, status_.ok() ? id : kNoValue}; }
  // The value that adding has returned; an empty term if it failed.
  Term TermOf(const absl::StatusOr<ValueId>& added) {
    Fail(added.status());
    return {this, added.ok() ? *added : kNoValue};
  }

  // An operation with one output.
  template <typename Class>
  Term Add(const Class& op, const Terms& inputs) {
    if (!status_.ok()) return {this, kNoValue};
    const Term known = Folded(AttrsOf(op), inputs);
    if (known.is_given()) return known;
    return TermOf(network_.Add(AllOperators(), op, IdsOf(inputs)));
  }
  // Adds an operation with these attributes and `count` outputs.
  Terms AddLike(const OpAttrs& attrs, const Terms& inputs, size_t count = 1);
  template <typename Class>
  Terms AddAll(const Class& op, const Terms& inputs, size_t count) {
    return AddLike(AttrsOf(op), inputs, count);
  }

  // One number, of rank 0.
  Term Number(double number, DLDataType dtype);
  Term Int(int64_t number) {
    return Number(static_cast<double>(number), kInt64);
  }
  Term Filled(double number, DLDataType dtype, const Sizes& sizes);
  Term Numbers(const std::vector<double>& numbers, DLDataType dtype,
               const Sizes& sizes);
  // int64, of rank 1.
  Term Ints(const Sizes& numbers);

 private:
  template <typename Class>
  OpAttrs AttrsOf(const Class& op) const {
    return OpAttrs::From(RowOf(AllOperators().FindType(&kTypeTag<Class>)), op);
  }
  Term Constant(absl::StatusOr<NDArray> data);
  // Returns integers and truth values that are calculated from constants alone
  // as a constant, so that less is left for runs of the network; an empty term
  // for all else.
  Term Folded(const OpAttrs& attrs, const Terms& inputs);
  static std::vector<ValueId> IdsOf(const Terms& terms);
  const OperatorDef* RowOf(const OperatorDef* newest) const;

  Network& network_;
  absl::Status status_;
};

// An operator of one input, and of two.
template <typename Class>
Term Apply(const Class& op, Term x) {
  return x.writer().Add(op, {x});
}
template <typename Class>
Term Apply(const Class& op, Term a, Term b) {
  return a.writer().Add(op, {a, b});
}

// A number as a tensor that broadcasts with x.
inline Term Like(Term x, double number) {
  return x.writer().Number(number, x.dtype());
}
inline Term operator+(Term a, Term b) { return Apply(ops::Add{}, a, b); }
inline Term operator-(Term a, Term b) { return Apply(ops::Sub{}, a, b); }
inline Term operator*(Term a, Term b) { return Apply(ops::Mul{}, a, b); }
inline Term operator/(Term a, Term b) { return Apply(ops::Div{}, a, b); }
inline Term operator+(Term a, double b) { return a + Like(a, b); }
inline Term operator-(Term a, double b) { return a - Like(a, b); }
inline Term operator*(Term a, double b) { return b == 1 ? a : a * Like(a, b); }
inline Term operator/(Term a, double b) { return b == 1 ? a : a / Like(a, b); }
inline Term operator-(double a, Term b) { return Like(b, a) - b; }
inline Term operator-(Term a) { return Apply(ops::Neg{}, a); }

// Functions of one tensor, comparisons, and choices between two.
inline Term Exp(Term x) { return Apply(ops::Exp{}, x); }
inline Term Sqrt(Term x) { return Apply(ops::Sqrt{}, x); }
inline Term Sign(Term x) { return Apply(ops::Sign{}, x); }
inline Term Abs(Term x) { return Apply(ops::Abs{}, x); }
inline Term Sigmoid(Term x) { return Apply(ops::Sigmoid{}, x); }
inline Term Tanh(Term x) { return Apply(ops::Tanh{}, x); }
inline Term Square(Term x) { return x * x; }
inline Term Floor(Term x) { return Apply(ops::Floor{}, x); }
inline Term Ceil(Term x) { return Apply(ops::Ceil{}, x); }
inline Term Power(Term x, double exponent) {
  return exponent == 1 ? x : Apply(ops::Pow{}, x, Like(x, exponent));
}
// A number is a limit of all elements, or stands for a tensor of the other's
// type.
inline Term AtLeast(Term x, Term least) { return Apply(ops::Max{}, x, least); }
inline Term AtLeast(Term x, double least) { return AtLeast(x, Like(x, least)); }
inline Term AtMost(Term x, Term most) { return Apply(ops::Min{}, x, most); }
inline Term AtMost(Term x, double most) { return AtMost(x, Like(x, most)); }
inline Term Equal(Term a, Term b) { return Apply(ops::Equal{}, a, b); }
inline Term Greater(Term x, double limit) {
  return Apply(ops::Greater{}, x, Like(x, limit));
}
inline Term Less(Term a, Term b) { return Apply(ops::Less{}, a, b); }
inline Term Less(Term x, double limit) { return Less(x, Like(x, limit)); }
inline Term Not(Term x) { return Apply(ops::Not{}, x); }
inline Term Both(Term a, Term b) { return Apply(ops::And{}, a, b); }
inline Term Either(Term a, Term b) { return Apply(ops::Or{}, a, b); }
inline Term Choose(Term condition, Term a, Term b) {
  return a.writer().Add(ops::Where{}, {condition, a, b});
}
inline Term Choose(Term condition, Term a, double b) {
  return Choose(condition, a, Like(a, b));
}
inline Term Choose(Term condition, double a, Term b) {
  return Choose(condition, Like(b, a), b);
}

// The product of matrices.
inline Term Times(Term a, Term b) { return Apply(ops::MatMul{}, a, b); }

// Itself, if it is of that type.
inline Term CastTo(Term x, DLDataType dtype) {
  return x.dtype() == dtype ? x : Apply(ops::Cast{dtype}, x);
}
inline Term ZerosLike(Term x) {
  return x.writer().Filled(0, x.dtype(), x.sizes());
}
Term ReshapeTo(Term x, const Sizes& sizes);
// As a list. What is known about the number of elements may be nothing.
Term Flattened(Term x);
Term ExpandTo(Term x, const Sizes& sizes);
Term Transposed(Term x, const Sizes& order);
Term SwapLast(Term x);  // The last two sides.
// Along the sides that are named, which stay with size 1.
inline Term SumOver(Term x, const Sizes& axes) {
  if (axes.empty()) return x;
  return Apply(ops::ReduceSum{}, x, x.writer().Ints(axes));
}
inline Term MeanOver(Term x, const Sizes& axes) {
  if (axes.empty()) return x;
  return Apply(ops::ReduceMean{}, x, x.writer().Ints(axes));
}
inline Term MaxOver(Term x, const Sizes& axes) {
  return Apply(ops::ReduceMax{}, x, x.writer().Ints(axes));
}
// Along all sides.
inline Term SumOfAll(Term x) { return SumOver(x, Counting(0, x.rank())); }
// [begin, end) of one side.
Term Part(Term x, int64_t axis, int64_t begin, int64_t end);
// One of one side, which goes.
Term ItemAt(Term x, int64_t axis, int64_t index);
// One side in equal parts. REQUIRES: it is a multiple of `count`, above 0.
Terms EqualParts(Term x, int64_t axis, int64_t count);
// The slices of one side that the indices name.
inline Term Gathered(Term x, int64_t axis, Term indices) {
  return Apply(ops::Gather{axis}, x, indices);
}
// The terms one after the other along a side. REQUIRES: there is one.
inline Term Joined(const Terms& terms, int64_t axis) {
  if (terms.size() == 1) return terms[0];
  return terms[0].writer().Add(ops::Concat{axis}, terms);
}
// Undoes broadcasting: sums over all sides along which a tensor of these sizes
// was repeated, or repeats what has fewer elements.
Term SumTo(Term x, const Sizes& sizes);
// Zeros of these sizes with the updates added where the indices say, both of
// one element for each. Index 0 is the first element. How many updates there
// are need not be known.
Term ScatterAdded(Term indices, Term updates, const Sizes& sizes);
// Zeros of these sizes, with the updates in place of those along the axis that
// the indices name.
Term PutInto(const Sizes& sizes, int64_t axis, Term indices, Term updates);

// Returns a name that no value has, the wanted one if it can be.
std::string FreeName(const Network& network, const std::string& wanted);

// All axes but that of channels, which is the second one.
Sizes AxesBesideChannels(int64_t rank);
// `count` sides of 1, but for this one.
Sizes LineAlong(size_t count, int64_t axis, int64_t size);
// The axis counted from the front, if it is counted from the end.
inline int64_t FromFront(int64_t axis, int64_t rank) {
  return axis < 0 ? axis + rank : axis;
}

}  // namespace nodewise::gradient
