#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"

namespace nodewise {

// The length of one side of a tensor: a number, a name that stands for one that
// is not known yet, or unknown altogether. One name means one number everywhere
// in a network. Known elements (InputInfo::elements) use this type too and may
// be negative; sides of a tensor may not.
class Dim {
 public:
  Dim() = default;                    // Unknown.
  Dim(int64_t size) : size_(size) {}  // NOLINT: a number is a dimension.
  // An empty name gives an unknown one.
  static Dim Named(std::string name);

  bool is_known() const { return size_ != kUnknown; }
  // REQUIRES: is_known().
  int64_t size() const { return size_; }
  const std::string& name() const { return name_; }

  // Compares what is written; two unknown ones need not be the same number.
  friend bool operator==(const Dim&, const Dim&) = default;

 private:
  static constexpr int64_t kUnknown = INT64_MIN;

  int64_t size_ = kUnknown;
  std::string name_;
};

using Shape = std::vector<Dim>;

// The type of a tensor as far as it is known before the network runs. Barriers
// have no type.
struct TensorType {
  DLDataType dtype{};          // bits 0: not known.
  std::optional<Shape> shape;  // None: not even the rank is known.

  TensorType() = default;
  explicit TensorType(DLDataType type) : dtype(type) {}
  TensorType(DLDataType type, Shape dims)
      : dtype(type), shape(std::move(dims)) {}
  static TensorType From(const DLTensor& tensor);

  bool has_dtype() const { return dtype.bits != 0; }
  bool has_rank() const { return shape.has_value(); }
  // REQUIRES: has_rank().
  int rank() const { return static_cast<int>(shape->size()); }
  // True if every side of the shape is a known number.
  bool is_static() const;
  // The numbers, if is_static().
  std::optional<std::vector<int64_t>> sizes() const;

  friend bool operator==(const TensorType& a, const TensorType& b);
};

// "float32[batch, 3, ?]", "int64[]" for rank 0, "float32[...]" for any rank,
// "?[...]" if nothing is known; names that are not words are in quotes.
// ParseTensorType reads it back, and fails with kInvalidArgument.
std::string ToString(const TensorType& type);
std::string ToString(const Shape& shape);  // "[batch, 3, ?]"
absl::StatusOr<TensorType> ParseTensorType(std::string_view text);

// Returns whether a tensor may have both types: where both know something, they
// agree.
bool AreCompatible(const TensorType& a, const TensorType& b);
// Returns what both know together; fails with kInvalidArgument, naming what
// differs.
absl::StatusOr<TensorType> Unite(const TensorType& a, const TensorType& b);

// Returns the element type with ONNX's number. Fails with kUnimplemented, by
// name, for types that are refused, and with kInvalidArgument for numbers that
// ONNX does not have.
absl::StatusOr<DLDataType> DTypeFromOnnx(int64_t number);
// Returns none for a type that ONNX does not have, or that is refused.
std::optional<int64_t> OnnxNumberOf(DLDataType dtype);

// Broadcasts as NumPy does, with what is known: a side of 1 takes the other
// size, a named side against another unknown one is unknown. Fails with
// kInvalidArgument, naming the sides.
absl::StatusOr<Shape> BroadcastShapes(absl::Span<const Shape> shapes);

}  // namespace nodewise
