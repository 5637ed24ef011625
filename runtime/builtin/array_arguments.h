#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/device/device.h"
#include "nodewise/func/packed_abi.h"

namespace nodewise {

// What TVM's C API and its named functions check alike.

// A shape as C gives it; `function` is who was given it.
absl::StatusOr<absl::Span<const int64_t>> TakeShape(const char* function,
                                                    const int64_t* shape,
                                                    int ndim);

// kUnimplemented for other memory than a device's plain one, "" or "global".
absl::Status CheckMemoryScope(DLDevice device, std::string_view scope);

// The CPU has one stream, which is null. kUnimplemented for another.
absl::Status CheckStream(const char* function, DLDevice device,
                         TVMStreamHandle stream);

}  // namespace nodewise
