#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/file.h"

namespace nodewise {

// Returns the array of a whole .npy file as a new C-ordered tensor. `where`
// names the bytes in messages. Fails as ReadTensorFile does; nothing is
// allocated for data that is missing.
absl::StatusOr<NDArray> ParseNpy(absl::Span<const uint8_t> bytes,
                                 std::string where);

// Returns `tensor` itself if it is compact and in host memory, otherwise a
// compact copy there.
absl::StatusOr<NDArray> HostTensor(const NDArray& tensor);

// Writes the tensor as the bytes of a .npy file.
absl::Status WriteNpy(const NDArray& tensor, OutputFile* file);

}  // namespace nodewise
