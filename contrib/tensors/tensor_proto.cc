#include "nodewise/tensors/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/packed_elements.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {
namespace {

// More than any operator can do with, and few enough to print.
constexpr size_t kMostDims = 64;

// The elements of a list that a message names, if there are any.
struct DataList {
  const char* name;
  size_t size;
};

std::vector<DataList> ListsOf(const TensorFields& fields) {
  std::vector<DataList> found;
  for (const DataList& list :
       {DataList{"float_data", fields.floats.size()},
        DataList{"int32_data", fields.int32s.size()},
        DataList{"int64_data", fields.int64s.size()},
        DataList{"double_data", fields.doubles.size()},
        DataList{"uint64_data", fields.uint64s.size()}}) {
    if (list.size > 0) found.push_back(list);
  }
  return found;
}

// Returns the list that holds the elements of a type if they are not raw.
const char* ListFor(DLDataType dtype) {
  if (dtype.code == kDLFloat && dtype.bits == 32) return "float_data";
  if (dtype.code == kDLFloat && dtype.bits == 64) return "double_data";
  if (dtype.code == kDLInt && dtype.bits == 64) return "int64_data";
  if (dtype.code == kDLUInt && dtype.bits >= 32) return "uint64_data";
  return "int32_data";
}

absl::Status WrongSize(const char* list, size_t found, int64_t expected,
                       const char* unit, const TensorFields& fields,
                       DLDataType dtype) {
  return absl::DataLossError(fmt::format("{} has {} {}, expected {} for {}",
                                         list, found, unit, expected,
                                         TypeToString(fields.dims, dtype)));
}

// Requires exactly one list, the right one, of the right size; or raw data
// alone.
absl::Status CheckData(const TensorFields& fields, DLDataType dtype,
                       int64_t elements) {
  const std::vector<DataList> lists = ListsOf(fields);
  if (lists.size() + (fields.has_raw ? 1 : 0) > 1) {
    return absl::DataLossError(
        fmt::format("has both {} and {}, expected its data once", lists[0].name,
                    fields.has_raw ? "raw_data" : lists[1].name));
  }
  const size_t stored = OnnxBytes(dtype, elements);
  if (fields.has_raw) {
    if (fields.raw.size() == stored) return absl::OkStatus();
    return WrongSize("raw_data", fields.raw.size(),
                     static_cast<int64_t>(stored), "bytes", fields, dtype);
  }
  const char* const list = ListFor(dtype);
  if (!lists.empty() && lists[0].name != std::string_view(list)) {
    return absl::DataLossError(
        fmt::format("has its data in {}, expected {} or raw_data for {}",
                    lists[0].name, list, ToString(dtype)));
  }
  const size_t found = lists.empty() ? 0 : lists[0].size;
  // Each number of this list is a byte of packed elements.
  const bool is_packed = IsPackedByOnnx(dtype);
  const auto expected = is_packed ? static_cast<int64_t>(stored) : elements;
  if (found == static_cast<size_t>(expected)) return absl::OkStatus();
  return WrongSize(list, found, expected, is_packed ? "bytes" : "elements",
                   fields, dtype);
}

template <typename To, typename From>
absl::Status CopyList(const char* list, absl::Span<const From> from,
                      const NDArray& to) {
  To* const out = to.As<To>();
  for (size_t i = 0; i < from.size(); ++i) {
    out[i] = static_cast<To>(from[i]);
    if (static_cast<From>(out[i]) == from[i]) continue;
    if constexpr (std::is_integral_v<From>) {
      return absl::DataLossError(fmt::format(
          "{}: element {} is {}, expected {:d} to {:d}", list, i, from[i],
          std::numeric_limits<To>::min(), std::numeric_limits<To>::max()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBools(const NDArray& tensor) {
  const uint8_t* const data = tensor.As<uint8_t>();
  const uint8_t* const end = data + tensor.bytes();
  const uint8_t* const wrong =
      std::find_if(data, end, [](uint8_t byte) { return byte > 1; });
  if (wrong == end) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "element {} is {}, expected 0 or 1 for bool", wrong - data, *wrong));
}

absl::Status UnpackInt32s(absl::Span<const int32_t> from, const NDArray& to) {
  std::vector<uint8_t> bytes;
  bytes.reserve(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    // Some writers give packed bytes a sign.
    if (from[i] < INT8_MIN || from[i] > UINT8_MAX) {
      return absl::DataLossError(fmt::format(
          "int32_data: number {} is {}, expected a byte of packed elements", i,
          from[i]));
    }
    bytes.push_back(static_cast<uint8_t>(from[i]));
  }
  UnpackElements(bytes, to);
  return absl::OkStatus();
}

// This list holds integers as they are, short floats and bool as their bits.
absl::Status CopyInt32s(absl::Span<const int32_t> from, const NDArray& to) {
  if (IsPackedByOnnx(to.dtype())) return UnpackInt32s(from, to);
  absl::Status status;
  VisitElementType(to.dtype(), [&](auto element) {
    using T = typename decltype(element)::Stored;
    if constexpr (std::is_integral_v<T> && sizeof(T) <= sizeof(int32_t)) {
      status = CopyList<T>("int32_data", from, to);
    } else if constexpr (sizeof(T) <= sizeof(uint16_t)) {
      using Bits = std::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>;
      status = CopyList<Bits>("int32_data", from, to);
    }
  });
  return status;
}

absl::Status CopyData(const TensorFields& fields, const NDArray& to) {
  const DLDataType dtype = to.dtype();
  if (fields.has_raw && IsPackedByOnnx(dtype)) {
    UnpackElements(fields.raw, to);
    return absl::OkStatus();
  }
  if (fields.has_raw) {
    return CopyFromBytes(fields.raw.data(), fields.raw.size(), *to);
  }
  if (!fields.floats.empty()) {
    return CopyFromBytes(fields.floats.data(), to.bytes(), *to);
  }
  if (!fields.doubles.empty()) {
    return CopyFromBytes(fields.doubles.data(), to.bytes(), *to);
  }
  if (!fields.int64s.empty()) {
    return CopyFromBytes(fields.int64s.data(), to.bytes(), *to);
  }
  if (dtype.code == kDLUInt && dtype.bits == 32) {
    return CopyList<uint32_t>("uint64_data", fields.uint64s, to);
  }
  if (dtype.code == kDLUInt && dtype.bits == 64) {
    return CopyList<uint64_t>("uint64_data", fields.uint64s, to);
  }
  return CopyInt32s(fields.int32s, to);
}

bool IsAligned(const uint8_t* data, DLDataType dtype) {
  return reinterpret_cast<uintptr_t>(data) % ElementBytes(dtype) == 0;
}

NDArray Borrowed(const TensorFields& fields, DLDataType dtype,
                 const std::shared_ptr<void>& owner) {
  DLTensor tensor{};
  tensor.data = const_cast<uint8_t*>(fields.raw.data());
  tensor.device = kCpu;
  tensor.ndim = static_cast<int32_t>(fields.dims.size());
  tensor.dtype = dtype;
  tensor.shape = const_cast<int64_t*>(fields.dims.data());
  NDArray borrowed = NDArray::Borrow(tensor, owner);
  borrowed.MakeReadOnly();  // A message must not be written into.
  return borrowed;
}

// A dimension of 0 must not hide others that no memory could hold.
absl::StatusOr<size_t> DataBytes(absl::Span<const int64_t> dims,
                                 DLDataType dtype) {
  if (dims.size() > kMostDims) {
    return absl::DataLossError(fmt::format(
        "has {} dimensions, expected at most {}", dims.size(), kMostDims));
  }
  std::vector<int64_t> shape(dims.begin(), dims.end());
  std::replace(shape.begin(), shape.end(), int64_t{0}, int64_t{1});
  const auto most = TensorBytes(shape, dtype);
  if (!most.ok()) {
    return absl::Status(absl::StatusCode::kDataLoss, most.status().message());
  }
  return TensorBytes(dims, dtype);
}

}  // namespace

absl::StatusOr<NDArray> MakeTensor(const TensorFields& fields,
                                   const std::shared_ptr<void>& owner) {
  NODEWISE_ASSIGN_OR_RETURN(const DLDataType dtype,
                            DTypeFromOnnx(fields.data_type));
  NODEWISE_ASSIGN_OR_RETURN(const size_t bytes, DataBytes(fields.dims, dtype));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t elements, NumElements(fields.dims));
  NODEWISE_RETURN_IF_ERROR(CheckData(fields, dtype, elements));
  NDArray tensor;
  if (owner != nullptr && fields.has_raw && bytes > 0 &&
      !IsPackedByOnnx(dtype) && IsAligned(fields.raw.data(), dtype)) {
    tensor = Borrowed(fields, dtype, owner);
  } else {
    NODEWISE_ASSIGN_OR_RETURN(tensor, NDArray::Empty(fields.dims, dtype, kCpu));
    if (bytes > 0) NODEWISE_RETURN_IF_ERROR(CopyData(fields, tensor));
  }
  if (dtype == kBool) NODEWISE_RETURN_IF_ERROR(CheckBools(tensor));
  return tensor;
}

}  // namespace nodewise
