#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/params.h"
#include "nodewise/support/file.h"

namespace nodewise {

// Returns the arrays of a whole .npz file, in the order of its directory, under
// their names without ".npy". `where` names the bytes in messages. Fails as
// ReadTensorFile does, and for a name that comes twice.
absl::StatusOr<std::vector<NamedTensor>> ParseNpz(
    absl::Span<const uint8_t> bytes, const std::string& where);

// Fails with kInvalidArgument for names that no .npz file can hold: too long,
// or used twice.
absl::Status CheckNpzNames(absl::Span<const NamedTensor> tensors);

// Writes the tensors as the bytes of a .npz file, unpacked.
// REQUIRES: CheckNpzNames() is OK.
absl::Status WriteNpz(absl::Span<const NamedTensor> tensors, OutputFile* file);

}  // namespace nodewise
