#include "nodewise/tensors/tensor_type.h"

#include <algorithm>

#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// ONNX's TensorProto.DataType. Those with bits 0 are refused.
struct OnnxType {
  int64_t number;
  std::string_view name;
  DLDataType dtype;
};
constexpr OnnxType kOnnxTypes[] = {
    {1, "float", {kDLFloat, 32, 1}},
    {2, "uint8", {kDLUInt, 8, 1}},
    {3, "int8", {kDLInt, 8, 1}},
    {4, "uint16", {kDLUInt, 16, 1}},
    {5, "int16", {kDLInt, 16, 1}},
    {6, "int32", {kDLInt, 32, 1}},
    {7, "int64", {kDLInt, 64, 1}},
    {8, "string", {}},
    {9, "bool", kBool},
    {10, "float16", {kDLFloat, 16, 1}},
    {11, "double", {kDLFloat, 64, 1}},
    {12, "uint32", {kDLUInt, 32, 1}},
    {13, "uint64", {kDLUInt, 64, 1}},
    {14, "complex64", {}},
    {15, "complex128", {}},
    {16, "bfloat16", {kDLBfloat, 16, 1}},
    {17, "float8e4m3fn", {kDTypeE4M3, 8, 1}},
    {18, "float8e4m3fnuz", {kDTypeE4M3Fnuz, 8, 1}},
    {19, "float8e5m2", {kDTypeE5M2, 8, 1}},
    {20, "float8e5m2fnuz", {kDTypeE5M2Fnuz, 8, 1}},
    {21, "uint4", {kDLUInt, 4, 1}},
    {22, "int4", {kDLInt, 4, 1}},
    {23, "float4e2m1", {kDTypeE2M1, 4, 1}},
    {24, "float8e8m0", {kDTypeE8M0, 8, 1}},
    {25, "uint2", {kDLUInt, 2, 1}},
    {26, "int2", {kDLInt, 2, 1}},
    {27, "float6e2m3", {}},
    {28, "float6e3m2", {}},
};

// Names are not compared: two names may stand for one number.
bool AreDimsCompatible(const Dim& a, const Dim& b) {
  return !a.is_known() || !b.is_known() || a.size() == b.size();
}

absl::Status Differ(const TensorType& a, const TensorType& b) {
  return InvalidArgument("{} does not agree with {}", ToString(a), ToString(b));
}

absl::StatusOr<Dim> BroadcastSides(absl::Span<const Shape> shapes,
                                   size_t from_end) {
  Dim all(1);
  for (const Shape& shape : shapes) {
    if (shape.size() <= from_end) continue;
    const Dim& dim = shape[shape.size() - 1 - from_end];
    if (dim == Dim(1) || dim == all) continue;
    // A side of 1 is stretched to any other, so only two known sides that are
    // both longer can contradict each other.
    if (all != Dim(1) && all.is_known() && dim.is_known()) {
      return InvalidArgument(
          "sides of {} and {} ({} from the last) cannot be broadcast, expected "
          "equal ones or a 1",
          all.size(), dim.size(), from_end);
    }
    // A known side wins over an unknown one, which must be that or 1 if the
    // network is right.
    if (all == Dim(1) || dim.is_known()) {
      all = dim;
    } else if (!all.is_known()) {
      all = Dim();  // Either of them may be 1.
    }
  }
  return all;
}

}  // namespace

Dim Dim::Named(std::string name) {
  Dim dim;
  dim.name_ = std::move(name);
  return dim;
}

TensorType TensorType::From(const DLTensor& tensor) {
  const auto sizes = ShapeOf(tensor);
  return TensorType(tensor.dtype, Shape(sizes.begin(), sizes.end()));
}

bool TensorType::is_static() const {
  return has_rank() && std::ranges::all_of(*shape, [](const Dim& dim) {
           return dim.is_known();
         });
}

std::optional<std::vector<int64_t>> TensorType::sizes() const {
  if (!is_static()) return std::nullopt;
  std::vector<int64_t> numbers;
  numbers.reserve(shape->size());
  for (const Dim& dim : *shape) numbers.push_back(dim.size());
  return numbers;
}

bool operator==(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

bool AreCompatible(const TensorType& a, const TensorType& b) {
  if (a.has_dtype() && b.has_dtype() && !(a.dtype == b.dtype)) return false;
  if (!a.has_rank() || !b.has_rank()) return true;
  return std::equal(a.shape->begin(), a.shape->end(), b.shape->begin(),
                    b.shape->end(), &AreDimsCompatible);
}

// A known number wins over a name, and a name over nothing.
absl::StatusOr<TensorType> Unite(const TensorType& a, const TensorType& b) {
  if (!AreCompatible(a, b)) return Differ(a, b);
  TensorType both = a;
  if (!both.has_dtype()) both.dtype = b.dtype;
  if (!both.has_rank()) both.shape = b.shape;
  if (!b.has_rank()) return both;
  for (size_t i = 0; i < both.shape->size(); ++i) {
    Dim& dim = (*both.shape)[i];
    const Dim& other = (*b.shape)[i];
    if (dim.is_known()) continue;
    if (other.is_known() || dim.name().empty()) dim = other;
  }
  return both;
}

absl::StatusOr<Shape> BroadcastShapes(absl::Span<const Shape> shapes) {
  size_t rank = 0;
  for (const Shape& shape : shapes) rank = std::max(rank, shape.size());
  Shape result(rank);
  for (size_t i = 0; i < rank; ++i) {
    auto side = BroadcastSides(shapes, i);
    if (!side.ok()) {
      // The message begins with all shapes, since a side alone does not say
      // which inputs are meant.
      std::string all;
      for (const Shape& shape : shapes) {
        all += (all.empty() ? "" : " and ") + ToString(shape);
      }
      return At(all, side.status());
    }
    result[rank - 1 - i] = *std::move(side);
  }
  return result;
}

// A type that ONNX has and tensors here do not is told from a number that means
// nothing: the first is a limit of this program, the second a damaged file.
absl::StatusOr<DLDataType> DTypeFromOnnx(int64_t number) {
  for (const OnnxType& type : kOnnxTypes) {
    if (type.number != number) continue;
    if (type.dtype.bits != 0) return type.dtype;
    return Unimplemented("element type {} ({}) is not supported", type.name,
                         number);
  }
  return InvalidArgument(
      "element type {} is unknown, expected one of ONNX's, 1 to {}", number,
      std::size(kOnnxTypes));
}

// Rows of refused types have no element type, and would be found by one that is
// not set.
std::optional<int64_t> OnnxNumberOf(DLDataType dtype) {
  for (const OnnxType& type : kOnnxTypes) {
    if (type.dtype.bits != 0 && type.dtype == dtype) return type.number;
  }
  return std::nullopt;
}

}  // namespace nodewise
