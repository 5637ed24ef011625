#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/device/device.h"
#include "nodewise/func/packed_abi.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/func/registry.h"

namespace nodewise {

// A named function returns this.
using Result = absl::StatusOr<Value>;

// Checks that TVM's C API and its named functions share.

// Returns a shape that C passed to `function`.
absl::StatusOr<absl::Span<const int64_t>> TakeShape(const char* function,
                                                    const int64_t* shape,
                                                    int ndim);

// Fails with kUnimplemented unless the scope is a device's plain memory, "" or
// "global".
absl::Status CheckMemoryScope(DLDevice device, std::string_view scope);

// Fails with kUnimplemented unless the stream is null, the CPU's only stream.
absl::Status CheckStream(const char* function, DLDevice device,
                         TVMStreamHandle stream);

// The named functions of this build, one table for each subject.
absl::Span<const FunctionRow> ArrayFunctions();
absl::Span<const FunctionRow> ContainerFunctions();
absl::Span<const FunctionRow> ModuleFunctions();
absl::Span<const FunctionRow> RuntimeFunctions();
absl::Span<const FunctionRow> SortFunctions();
absl::Span<const FunctionRow> TimingFunctions();

}  // namespace nodewise
