#include "contrib/repro/simple_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr double kLargestInteger = 8;

template <typename E>
struct IsNumber : std::bool_constant<E::kIsCalculated &&
                                     DecodableElement<typename E::Stored>> {};
using NumberElements = ElementsWhere<IsNumber>;

// Sets each element to what `change` makes of its index and its number.
template <typename F>
absl::StatusOr<NDArray> Changed(const NDArray& tensor, F change) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray changed, tensor.CopyToHost());
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(tensor.shape()));
  bool has_numbers = false;
  VisitOneOf(NumberElements{}, tensor.dtype(), [&](auto element) {
    using T = typename decltype(element)::Stored;
    has_numbers = tensor.dtype().lanes == 1;
    if (!has_numbers) return;
    T* const elements = changed.As<T>();
    for (int64_t i = 0; i < count; ++i) {
      const double value = ToDouble(elements[i]);
      const double wanted = change(static_cast<uint64_t>(i), value);
      if (wanted != value) elements[i] = FromDouble<T>(wanted);
    }
  });
  if (has_numbers) return changed;
  return absl::UnimplementedError("elements of this type are not numbers");
}

}  // namespace

absl::StatusOr<NDArray> FilledLike(const NDArray& tensor, double value) {
  return Changed(tensor, [value](uint64_t, double) { return value; });
}

absl::StatusOr<std::vector<uint64_t>> NonZeroElements(const NDArray& tensor) {
  std::vector<uint64_t> elements;
  const auto note = [&](uint64_t element, double value) {
    if (value != 0) elements.push_back(element);
    return value;
  };
  NODEWISE_RETURN_IF_ERROR(Changed(tensor, note).status());
  return elements;
}

absl::StatusOr<NDArray> WithZerosAt(const NDArray& tensor,
                                    absl::Span<const uint64_t> elements) {
  return Changed(tensor, [&](uint64_t element, double value) {
    const bool is_one_of_them =
        std::binary_search(elements.begin(), elements.end(), element);
    return is_one_of_them ? 0 : value;
  });
}

absl::StatusOr<NDArray> WithOnes(const NDArray& tensor) {
  return Changed(tensor,
                 [](uint64_t, double value) { return value == 0 ? 0.0 : 1.0; });
}

absl::StatusOr<NDArray> WithSmallIntegers(const NDArray& tensor) {
  return Changed(tensor, [](uint64_t, double value) {
    if (value == 0 || std::isnan(value)) return value;
    const double size =
        std::clamp(std::round(std::fabs(value)), 1.0, kLargestInteger);
    return std::copysign(size, value);
  });
}

absl::StatusOr<NDArray> BeginningOf(const NDArray& tensor,
                                    absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t side = shape.size(); side-- > 0;) {
    strides[side] = stride;
    stride *= tensor.shape()[side];
  }
  DLTensor part = *tensor;
  part.shape = const_cast<int64_t*>(shape.data());
  part.strides = strides.data();
  return NDArray::Borrow(part, nullptr).CopyToHost();
}

}  // namespace nodewise
