#pragma once

// Formulas as operations of a network. What a formula adds may be more than is
// needed: what nothing reads is removed in the end.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"

namespace nodewise::gradient {

class Writer;

// A tensor in a formula. After an error all are empty, and so is every term
// made of them.
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
  std::vector<int64_t> sizes() const;
  int64_t rank() const { return static_cast<int64_t>(sizes().size()); }
  int64_t count() const;
  bool has_known_sizes() const;

 private:
  Writer* writer_ = nullptr;
  ValueId id_ = kNoValue;
};

// Adds operations to a network, and keeps the first error.
class Writer {
 public:
  explicit Writer(Network* network) : network_(*network) {}

  const absl::Status& status() const { return status_; }
  Network& network() { return network_; }
  void Fail(const absl::Status& status) { status_.Update(status); }
  Term Of(ValueId id) { return {this, status_.ok() ? id : kNoValue}; }

  // An operation with one output.
  template <typename Class>
  Term Add(const Class& op, const std::vector<Term>& inputs) {
    if (!status_.ok()) return {this, kNoValue};
    const Term known = Folded(AttrsOf(op), inputs);
    if (known.is_given()) return known;
    auto made = network_.Add(AllOperators(), op, IdsOf(inputs));
    Fail(made.status());
    return {this, made.ok() ? *made : kNoValue};
  }
  // Adds an operation with these attributes and `count` outputs.
  std::vector<Term> AddLike(const OpAttrs& attrs,
                            const std::vector<Term>& inputs, size_t count = 1);
  template <typename Class>
  std::vector<Term> AddAll(const Class& op, const std::vector<Term>& inputs,
                           size_t count) {
    return AddLike(AttrsOf(op), inputs, count);
  }

  Term Constant(NDArray data);
  // One number, of rank 0.
  Term Number(double number, DLDataType dtype);
  Term Filled(double number, DLDataType dtype,
              const std::vector<int64_t>& sizes);
  Term Numbers(const std::vector<double>& numbers, DLDataType dtype,
               const std::vector<int64_t>& sizes);
  // int64, of rank 1.
  Term Ints(const std::vector<int64_t>& numbers);

 private:
  template <typename Class>
  OpAttrs AttrsOf(const Class& op) const {
    return OpAttrs::Of(RowOf(AllOperators().FindType(&kTypeTag<Class>)), op);
  }
  // Returns integers and truth values that are calculated from constants alone
  // as a constant, so that less is left for runs of the network; an empty term
  // for all else.
  Term Folded(const OpAttrs& attrs, const std::vector<Term>& inputs);
  static std::vector<ValueId> IdsOf(const std::vector<Term>& terms);
  const OperatorDef* RowOf(const OperatorDef* newest) const;

  Network& network_;
  absl::Status status_;
};

Term operator+(Term a, Term b);
Term operator-(Term a, Term b);
Term operator*(Term a, Term b);
Term operator/(Term a, Term b);
Term operator+(Term a, double b);
Term operator-(Term a, double b);
Term operator*(Term a, double b);
Term operator/(Term a, double b);
Term operator-(double a, Term b);
Term operator-(Term a);

template <typename Class>
Term Apply(const Class& op, Term x) {
  return x.writer().Add(op, {x});
}
// Functions of one tensor, and choices between two.
Term Exp(Term x);
Term Sqrt(Term x);
Term Sign(Term x);
Term Abs(Term x);
Term Sigmoid(Term x);
Term Square(Term x);
Term Floor(Term x);
Term Ceil(Term x);
Term AtLeast(Term x, double least);
Term AtMost(Term x, double most);
Term Power(Term x, double exponent);
Term Greater(Term x, double limit);
Term Less(Term x, double limit);
Term Both(Term a, Term b);
// Numbers stand for tensors of the other's type.
Term Choose(Term condition, Term a, Term b);
Term Choose(Term condition, Term a, double b);
Term Choose(Term condition, double a, Term b);

Term CastTo(Term x, DLDataType dtype);  // Itself, if it is of that type.
Term ReshapeTo(Term x, const std::vector<int64_t>& sizes);
// As a list. What is known about the number of elements may be nothing.
Term Flattened(Term x);
Term ExpandTo(Term x, const std::vector<int64_t>& sizes);
Term Transposed(Term x, const std::vector<int64_t>& order);
Term SwapLast(Term x);  // The last two sides.
// Along the sides that are named, which stay with size 1.
Term SumOver(Term x, const std::vector<int64_t>& axes);
Term MeanOver(Term x, const std::vector<int64_t>& axes);
// [begin, end) of one side.
Term Part(Term x, int64_t axis, int64_t begin, int64_t end);
// One of one side, which goes.
Term ItemAt(Term x, int64_t axis, int64_t index);
// One side in equal parts. REQUIRES: it is a multiple of `count`, above 0.
std::vector<Term> EqualParts(Term x, int64_t axis, int64_t count);
// The terms one after the other along a side. REQUIRES: there is one.
Term Joined(const std::vector<Term>& terms, int64_t axis);
// Undoes broadcasting: sums over all sides along which a tensor of these sizes
// was repeated, or repeats what has fewer elements.
Term SumTo(Term x, const std::vector<int64_t>& sizes);
// Zeros of these sizes with the updates added where the indices say, both of
// one element for each. Index 0 is the first element. How many updates there
// are need not be known.
Term ScatterAdded(Term indices, Term updates,
                  const std::vector<int64_t>& sizes);

// Returns a name that no value has, the wanted one if it can be.
std::string FreeName(const Network& network, const std::string& wanted);

std::vector<int64_t> Counting(int64_t begin, int64_t end);

}  // namespace nodewise::gradient
