#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/emit_c/operation_code.h"
#include "nodewise/ops/arithmetic.h"

namespace nodewise::emit_c {

// An element of an operation that computes each of its elements by itself.
struct Scalar {
  std::string name;  // A variable's; empty for an input that is not given.
  DLDataType dtype{};
  std::string_view type() const { return CTypeOf(dtype); }
};
struct ElementCode {
  const Operation& operation;
  std::vector<Scalar> in;
  DLDataType out{};  // The type that the expression is of.
  // The type of the output's elements, which it is rounded to.
  DLDataType stored{};

  template <typename Class>
  const Class* As() const {
    return operation.attrs.As<Class>();
  }
  bool has(size_t i) const { return i < in.size() && !in[i].name.empty(); }
};

// What there is C for, by operator. Exactly one of `write`, `element` and
// `formula` is set.
struct Row {
  std::string_view name;
  const void* type = nullptr;  // OperatorDef::type
  // Writes loops that fill the outputs.
  absl::Status (*write)(OperationCode& code) = nullptr;
  // Returns an expression for an element of the output. Inputs are repeated as
  // NumPy does.
  absl::StatusOr<std::string> (*element)(const ElementCode& code) = nullptr;
  // The expression of a float's function of one number {x}, a double.
  std::string_view formula = {};
  // The loops only move elements, and do not depend on their values. Other
  // loops are given floats of 16 bits in 32.
  bool moves = false;
  // Its loops compute so much that they should be compiled for their sizes.
  // Others are shared among nodes of other sizes.
  bool keeps_sizes = false;
  // Returns how the second input is repeated below opset 7.
  const ops::AxisBroadcast* (*axis)(const void* op) = nullptr;

  bool is_by_element() const { return write == nullptr; }
};

// Returns null for an operator that there is no C for.
const Row* FindRow(const void* type);

// The rows of each family.
absl::Span<const Row> UnaryRows();
absl::Span<const Row> BinaryRows();
absl::Span<const Row> ProductRows();
absl::Span<const Row> WindowRows();
absl::Span<const Row> ReductionRows();
absl::Span<const Row> NormRows();
absl::Span<const Row> MoveRows();
absl::Span<const Row> PickRows();
absl::Span<const Row> ScatterRows();
absl::Span<const Row> TransformRows();
absl::Span<const Row> QuantizedRows();
absl::Span<const Row> ResizeRows();
absl::Span<const Row> RecurrentRows();
absl::Span<const Row> BodyRows();
std::vector<absl::Span<const Row>> AllRows();

template <typename Class>
constexpr Row LoopRow(std::string_view name,
                      absl::Status (*write)(OperationCode& code)) {
  return {name, &kTypeTag<Class>, write};
}
template <typename Class>
constexpr Row MoveRow(std::string_view name,
                      absl::Status (*write)(OperationCode& code)) {
  Row row{name, &kTypeTag<Class>, write};
  row.moves = true;
  return row;
}
template <typename Class>
constexpr Row SizedRow(std::string_view name,
                       absl::Status (*write)(OperationCode& code)) {
  Row row{name, &kTypeTag<Class>, write};
  row.keeps_sizes = true;
  return row;
}
template <typename Class>
constexpr Row ElementRow(
    std::string_view name,
    absl::StatusOr<std::string> (*element)(const ElementCode& code)) {
  return {name, &kTypeTag<Class>, nullptr, element};
}
template <typename Class>
constexpr Row OldElementRow(
    std::string_view name,
    absl::StatusOr<std::string> (*element)(const ElementCode& code)) {
  return {name,
          &kTypeTag<Class>,
          nullptr,
          element,
          {},
          false,
          false,
          [](const void* op) -> const ops::AxisBroadcast* {
            return static_cast<const Class*>(op);
          }};
}
template <typename Class>
constexpr Row FormulaRow(std::string_view name, std::string_view formula) {
  return {name, &kTypeTag<Class>, nullptr, nullptr, formula};
}

}  // namespace nodewise::emit_c
