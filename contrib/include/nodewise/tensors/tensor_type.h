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

// How long one side of a tensor is: a number, or a name that stands for one
// that is not known yet, or unknown altogether. The same name means the same
// number everywhere in a network. Elements that are known (InputInfo::elements)
// are written so too and may be negative; sides of a tensor may not.
class Dim {
 public:
  Dim() = default;                    // Unknown.
  Dim(int64_t size) : size_(size) {}  // NOLINT: a number is a dimension.
  // Unknown without a name.
  static Dim Named(std::string name);

  bool is_known() const { return size_ != kUnknown; }
  // REQUIRES: is_known().
  int64_t size() const { return size_; }
  const std::string& name() const { return name_; }

  // Equal as written; two unknown ones need not be the same number.
  friend bool operator==(const Dim&, const Dim&) = default;

 private:
  static constexpr int64_t kUnknown = INT64_MIN;

  int64_t size_ = kUnknown;
  std::string name_;
};

using Shape = std::vector<Dim>;

// What is known of a tensor before the network runs. Barriers have none.
struct TensorType {
  DLDataType dtype{};          // bits 0: not known.
  std::optional<Shape> shape;  // None: not even the rank is known.

  TensorType() = default;
  explicit TensorType(DLDataType type) : dtype(type) {}
  TensorType(DLDataType type, Shape dims)
      : dtype(type), shape(std::move(dims)) {}
  static TensorType Of(const DLTensor& tensor);

  bool has_dtype() const { return dtype.bits != 0; }
  bool has_rank() const { return shape.has_value(); }
  // REQUIRES: has_rank().
  int rank() const { return static_cast<int>(shape->size()); }
  // True if the shape is known to the last number.
  bool is_static() const;
  // The numbers, if is_static().
  std::optional<std::vector<int64_t>> sizes() const;

  friend bool operator==(const TensorType& a, const TensorType& b);
};

// "float32[batch, 3, ?]", "int64[]" for rank 0, "float32[...]" for any rank,
// "?[...]" if nothing is known; names that are no words are in quotes.
// ParseTensorType reads it back, and fails with kInvalidArgument.
std::string ToString(const TensorType& type);
std::string ToString(const Shape& shape);  // "[batch, 3, ?]"
absl::StatusOr<TensorType> ParseTensorType(std::string_view text);

// True if a tensor of the one type may be one of the other: where both know
// something, they agree.
bool AreCompatible(const TensorType& a, const TensorType& b);
// What both know together; kInvalidArgument, naming what differs.
absl::StatusOr<TensorType> Unite(const TensorType& a, const TensorType& b);

// Element types as ONNX numbers them. kUnimplemented, by name, for those that
// are refused; kInvalidArgument for numbers that it does not have.
absl::StatusOr<DLDataType> DTypeFromOnnx(int64_t number);
// None for a type that ONNX does not have, or that is refused.
std::optional<int64_t> OnnxNumberOf(DLDataType dtype);

// NumPy's broadcasting, with what is known: sides of 1 give way, a named side
// against another unknown one is unknown. kInvalidArgument, naming the sides.
absl::StatusOr<Shape> BroadcastShapes(absl::Span<const Shape> shapes);

}  // namespace nodewise
