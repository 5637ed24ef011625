#include "runtime/builtin/array_arguments.h"

#include "fmt/format.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::StatusOr<absl::Span<const int64_t>> TakeShape(const char* function,
                                                    const int64_t* shape,
                                                    int ndim) {
  if (ndim < 0 || ndim > kMostDims) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: ndim is {}, expected 0 to {}", function, ndim, kMostDims));
  }
  if (ndim > 0 && shape == nullptr) return NullArgument(function, "shape");
  return absl::MakeConstSpan(shape, static_cast<size_t>(ndim));
}

absl::Status CheckMemoryScope(DLDevice device, std::string_view scope) {
  if (scope.empty() || scope == "global") return absl::OkStatus();
  return absl::UnimplementedError(fmt::format(
      "{}: memory scope {} is not supported", ToString(device), scope));
}

absl::Status CheckStream(const char* function, DLDevice device,
                         TVMStreamHandle stream) {
  NODEWISE_RETURN_IF_ERROR(FindDevice(device).status());
  if (stream == nullptr) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format(
      "{}: {} has no streams of its own", function, ToString(device)));
}

}  // namespace nodewise
