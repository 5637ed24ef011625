#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/support/byte_reader.h"

namespace nodewise {

// The limit of numpy 2; numpy 1 allows half as many dimensions.
inline constexpr size_t kNpyMaxRank = 64;

// What the front of a .npy file says about the data after it.
struct NpyHeader {
  DLDataType dtype{};
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// True if the bytes begin as a .npy file does.
bool LooksLikeNpy(absl::Span<const uint8_t> bytes);

// Reads magic, version (1.0, 2.0 or 3.0) and the header's dict, and leaves the
// reader at the data. Fails with kDataLoss, giving the byte, for what no .npy
// file has, and with kUnimplemented for types that a tensor cannot have.
absl::StatusOr<NpyHeader> ReadNpyHeader(ByteReader* reader);

// Returns the bytes that precede the data of a C-ordered tensor, a multiple of
// 64 long. Fails with kUnimplemented for types and ranks that numpy does not
// have.
absl::StatusOr<std::string> MakeNpyHeader(absl::Span<const int64_t> shape,
                                          DLDataType dtype);

}  // namespace nodewise
