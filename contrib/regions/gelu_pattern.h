#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/ops/unary.h"

namespace nodewise {

// A Gelu that is written as several operations, as exporters write it:
// x / 2 * (1 + erf(x / sqrt(2))), or the approximation by tanh, with sums and
// products in any order. The operations compute a Gelu only if the numbers in
// them are the right ones, and these may not be known before the first run.
class GeluPattern {
 public:
  // Returns the Gelu of `x` that operations of the network make, if there is
  // one whose values, except for its result, are read by no other operation and
  // are not outputs. `is_number` says of a value that it is a constant with one
  // element; it must be valid for the call alone.
  static std::optional<GeluPattern> Find(
      const Network& network, ValueId x,
      absl::FunctionRef<bool(ValueId)> is_number);

  // In the network's order; the last one makes the result.
  const std::vector<OperationId>& operations() const { return operations_; }
  // The constants that it reads.
  const std::vector<ValueId>& numbers() const { return numbers_; }
  ops::GeluFormula formula() const { return formula_; }

  // Whether the operations are a Gelu with these numbers, in the order of
  // numbers(), which are roundings to a type whose numbers next to 1 are
  // `spacing` away from it.
  bool Holds(absl::Span<const double> numbers, double spacing) const;

  // The steps of the computation, each made from parts before it.
  struct Part {
    enum class Kind { kInput, kNumber, kAdd, kMul, kDiv, kPow, kErf, kTanh };
    Kind kind;
    size_t left = 0;  // For kNumber: which number.
    size_t right = 0;
  };

 private:
  std::vector<OperationId> operations_;
  std::vector<ValueId> numbers_;
  ops::GeluFormula formula_ = ops::GeluFormula::kErf;
  std::vector<Part> parts_;  // The last one is the result.

  friend struct GeluFinder;
};

}  // namespace nodewise
