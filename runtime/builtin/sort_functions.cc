#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/status.h"
#include "runtime/builtin/builtin_functions.h"

namespace nodewise {
namespace {

// Compiled code of topk, argsort and sort calls these by name. A tensor is
// sorted row by row along one axis: the elements of a row become keys, and a
// stable sort of the row's indices by their keys gives the order. The results
// are the first indices in that order, the elements at them, or both. Equal
// elements keep their order, and NaN goes to the end whichever way it is
// sorted.

// The rows along the sorted axis: where they begin and how far apart their
// elements are, in elements.
struct Rows {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};

// A negative axis counts from the end, as in Python.
absl::StatusOr<Rows> RowsAlong(const DLTensor& tensor, int64_t axis) {
  if (axis < 0) axis += tensor.ndim;
  if (!IsCompact(tensor)) {
    return InvalidArgument(
        "sort: the input is strided, expected a compact tensor");
  }
  if (axis < 0 || axis >= tensor.ndim) {
    return InvalidArgument("sort: axis {} of a tensor with {} dimensions", axis,
                           tensor.ndim);
  }
  Rows rows;
  for (int d = 0; d < tensor.ndim; ++d) {
    int64_t& part =
        d < axis ? rows.outer : (d == axis ? rows.length : rows.inner);
    part *= tensor.shape[d];
  }
  return rows;
}

// An element to sort by. int64 does not fit a double, so both are kept. One of
// the two is always 0, so comparing first the one and then the other is right
// for both kinds.
struct Key {
  double number;
  int64_t integer;
};

// Returns the keys of `count` elements, `step` apart. Fails with kUnimplemented
// for types without numbers, uint64, which a key does not hold, and "bool8".
absl::StatusOr<std::vector<Key>> KeysOf(const DLTensor& tensor, int64_t start,
                                        int64_t step, int64_t count) {
  std::vector<Key> keys;
  VisitElementType(tensor.dtype, [&](auto element) {
    using E = decltype(element);
    using T = typename E::Stored;
    if constexpr (E::kIsCalculated && !std::is_same_v<T, uint64_t> &&
                  E::kDType.code != kDTypeBool) {
      keys.reserve(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) {
        const T x = LoadElement<T>(DataOf(tensor),
                                   static_cast<size_t>(start + i * step));
        if constexpr (std::is_integral_v<T>) {
          keys.push_back({0, x});
        } else if constexpr (std::is_same_v<T, Bool>) {
          keys.push_back({0, x.bits});
        } else {
          keys.push_back({DecodeElement(x), 0});
        }
      }
    }
  });
  if (keys.size() == static_cast<size_t>(count)) return keys;
  return Unimplemented("sort: cannot sort {}", ToString(tensor.dtype));
}

// NaN comes after every number in both directions, and two NaN are equal,
// without which a sort would have no order to go by.
bool Before(const Key& a, const Key& b, bool ascending) {
  if (std::isnan(a.number) || std::isnan(b.number)) {
    return !std::isnan(a.number) && std::isnan(b.number);
  }
  const Key& first = ascending ? a : b;
  const Key& second = ascending ? b : a;
  return first.number < second.number || first.integer < second.integer;
}

// Compiled code chooses the type of its indices, and floats are among its
// choices.
absl::Status StoreIndex(const DLTensor& tensor, int64_t at, int64_t index) {
  const auto store = [&](auto value) {
    std::memcpy(static_cast<char*>(DataOf(tensor)) +
                    at * static_cast<int64_t>(sizeof(value)),
                &value, sizeof(value));
    return absl::OkStatus();
  };
  switch (tensor.dtype.code << 8 | tensor.dtype.bits) {
    case kDLInt << 8 | 32:
      return store(static_cast<int32_t>(index));
    case kDLInt << 8 | 64:
      return store(index);
    case kDLFloat << 8 | 32:
      return store(static_cast<float>(index));
    case kDLFloat << 8 | 64:
      return store(static_cast<double>(index));
    default:
      return Unimplemented("sort: cannot give indices as {}",
                           ToString(tensor.dtype));
  }
}

// The tensor to sort, and where the results go; an unwanted result is null.
struct SortJob {
  const DLTensor* input = nullptr;
  const DLTensor* values = nullptr;
  const DLTensor* indices = nullptr;
  // How many elements of each row take part (argsort of a part), or null for
  // all.
  const DLTensor* counts = nullptr;
  int64_t axis = -1;
  int64_t keep = 0;  // Below 1: all.
  bool ascending = true;
};

// The elements that take no part stay where they are, behind those that do.
absl::StatusOr<std::vector<int64_t>> SortedRow(const SortJob& job,
                                               const Rows& rows, int64_t start,
                                               int64_t count) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<Key> keys,
                            KeysOf(*job.input, start, rows.inner, count));
  std::vector<int64_t> order(static_cast<size_t>(rows.length));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.begin() + count,
                   [&](int64_t a, int64_t b) {
                     return Before(keys[static_cast<size_t>(a)],
                                   keys[static_cast<size_t>(b)], job.ascending);
                   });
  return order;
}

absl::Status CheckRoom(const DLTensor* tensor, const char* what,
                       int64_t wanted) {
  if (tensor == nullptr) return absl::OkStatus();
  if (!IsCompact(*tensor)) {
    return InvalidArgument(
        "sort: the {} are strided, expected a compact tensor", what);
  }
  NODEWISE_ASSIGN_OR_RETURN(const int64_t room, NumElements(ShapeOf(*tensor)));
  if (room >= wanted) return absl::OkStatus();
  return InvalidArgument("sort: the {} have {} elements, expected {}", what,
                         room, wanted);
}

// Compiled code has made the outputs, so their sizes are checked before a byte
// is written.
absl::Status CheckTensors(const SortJob& job, const Rows& rows, int64_t keep) {
  const int64_t num_rows = rows.outer * rows.inner;
  NODEWISE_RETURN_IF_ERROR(CheckRoom(job.values, "values", num_rows * keep));
  NODEWISE_RETURN_IF_ERROR(CheckRoom(job.indices, "indices", num_rows * keep));
  NODEWISE_RETURN_IF_ERROR(CheckRoom(job.counts, "counts", num_rows));
  if (job.values == nullptr ||
      IsSameType(job.values->dtype, job.input->dtype)) {
    return absl::OkStatus();
  }
  return InvalidArgument("sort: the values are {}, expected {} as the input is",
                         ToString(job.values->dtype),
                         ToString(job.input->dtype));
}

const char* ElementAt(const DLTensor& tensor, int64_t index) {
  return static_cast<const char*>(DataOf(tensor)) +
         static_cast<size_t>(index) * ElementBytes(tensor.dtype);
}

// Copies the bytes of a row's elements: the values may overwrite the input.
std::string BytesOfRow(const DLTensor& input, const Rows& rows, int64_t start) {
  std::string bytes;
  for (int64_t i = 0; i < rows.length; ++i) {
    bytes.append(ElementAt(input, start + i * rows.inner),
                 ElementBytes(input.dtype));
  }
  return bytes;
}

absl::Status Store(const SortJob& job, int64_t to, std::string_view row,
                   int64_t index) {
  if (job.indices != nullptr) {
    NODEWISE_RETURN_IF_ERROR(StoreIndex(*job.indices, to, index));
  }
  if (job.values != nullptr) {
    const size_t width = ElementBytes(job.input->dtype);
    std::memcpy(const_cast<char*>(ElementAt(*job.values, to)),
                row.data() + static_cast<size_t>(index) * width, width);
  }
  return absl::OkStatus();
}

// Row by row, so that memory is needed for one row alone however large the
// tensor is.
Result Sort(const SortJob& job) {
  NODEWISE_ASSIGN_OR_RETURN(const Rows rows, RowsAlong(*job.input, job.axis));
  const int64_t keep =
      job.keep < 1 ? rows.length : std::min(job.keep, rows.length);
  NODEWISE_RETURN_IF_ERROR(CheckTensors(job, rows, keep));
  for (int64_t row = 0; row < rows.outer * rows.inner; ++row) {
    const int64_t outer = row / rows.inner;
    const int64_t inner = row % rows.inner;
    const int64_t start = outer * rows.length * rows.inner + inner;
    int64_t count = rows.length;
    if (job.counts != nullptr) {
      const auto wanted =
          LoadElement<int32_t>(DataOf(*job.counts), static_cast<size_t>(row));
      count = std::clamp<int64_t>(wanted, 0, count);
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<int64_t> order,
                              SortedRow(job, rows, start, count));
    std::string bytes;
    if (job.values != nullptr) bytes = BytesOfRow(*job.input, rows, start);
    for (int64_t i = 0; i < keep; ++i) {
      const int64_t index = order[static_cast<size_t>(i)];
      const int64_t to = outer * keep * rows.inner + i * rows.inner + inner;
      NODEWISE_RETURN_IF_ERROR(Store(job, to, bytes, index));
    }
  }
  return Value();
}

// The axis and the direction are the last two arguments of all but topk.
absl::Status ReadAxis(PackedArgs args, int axis, int ascending, SortJob* job) {
  NODEWISE_ASSIGN_OR_RETURN(job->axis, args.IntAt(axis));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t order, args.IntAt(ascending));
  job->ascending = order != 0;
  return absl::OkStatus();
}

// (input, output, axis, is_ascend): the template argument says whether the
// output takes values or indices.
template <const DLTensor* SortJob::*output>
Result SortWhole(PackedArgs args) {
  SortJob job;
  NODEWISE_ASSIGN_OR_RETURN(job.input, args.TensorAt(0));
  NODEWISE_ASSIGN_OR_RETURN(job.*output, args.TensorAt(1));
  NODEWISE_RETURN_IF_ERROR(ReadAxis(args, 2, 3, &job));
  return Sort(job);
}

// (input, counts, output, axis, is_ascend): only the first elements of each row
// are sorted, as many as `counts` says.
Result ArgSortPart(PackedArgs args) {
  SortJob job;
  NODEWISE_ASSIGN_OR_RETURN(job.input, args.TensorAt(0));
  NODEWISE_ASSIGN_OR_RETURN(job.counts, args.TensorAt(1));
  NODEWISE_ASSIGN_OR_RETURN(job.indices, args.TensorAt(2));
  NODEWISE_RETURN_IF_ERROR(ReadAxis(args, 3, 4, &job));
  if (job.counts->dtype == DLDataType{kDLInt, 32, 1}) return Sort(job);
  return InvalidArgument("argsort_nms: counts are {}, expected int32",
                         ToString(job.counts->dtype));
}

// (input, outputs..., k, axis, "both" | "values" | "indices", is_ascend)
Result TopK(PackedArgs args) {
  const int last = args.size() - 1;
  if (last < 5) {
    return InvalidArgument("topk: got {} arguments, expected at least 6",
                           args.size());
  }
  SortJob job;
  NODEWISE_ASSIGN_OR_RETURN(job.input, args.TensorAt(0));
  NODEWISE_ASSIGN_OR_RETURN(job.keep, args.IntAt(last - 3));
  NODEWISE_RETURN_IF_ERROR(ReadAxis(args, last - 2, last, &job));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view wanted,
                            args.TextAt(last - 1));
  const bool both = wanted == "both";
  if (!both && wanted != "values" && wanted != "indices") {
    return InvalidArgument(
        "topk: found \"{}\", expected both, values or indices", wanted);
  }
  if (wanted != "indices") {
    NODEWISE_ASSIGN_OR_RETURN(job.values, args.TensorAt(1));
  }
  if (wanted != "values") {
    NODEWISE_ASSIGN_OR_RETURN(job.indices, args.TensorAt(both ? 2 : 1));
  }
  return Sort(job);
}

constexpr FunctionRow kSortFunctions[] = {
    {"tvm.contrib.sort.argsort", &SortWhole<&SortJob::indices>},
    {"tvm.contrib.sort.argsort_nms", &ArgSortPart},
    {"tvm.contrib.sort.sort", &SortWhole<&SortJob::values>},
    {"tvm.contrib.sort.topk", &TopK},
};

}  // namespace

absl::Span<const FunctionRow> SortFunctions() { return kSortFunctions; }

}  // namespace nodewise
