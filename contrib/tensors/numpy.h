#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/tensors/zip.h"
#include "dlpack/dlpack.h"
#include "nodewise/graph/params.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/file.h"

namespace nodewise {

// The limit of numpy 2; numpy 1 allows half as many dimensions.
inline constexpr size_t kNpyMaxRank = 64;

// The front of a .npy file, which describes the data after it.
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

// Returns how many bytes the data of a tensor takes. Fails as TensorBytes(),
// also where a dimension of 0 hides others that no memory could hold.
absl::StatusOr<size_t> CheckedBytes(absl::Span<const int64_t> shape,
                                    DLDataType dtype);

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

// The arrays of an .npz file, read one at a time.
class NpzReader {
 public:
  // Reads the directory of the whole file, which is borrowed. `where` names the
  // bytes in messages. Fails as ReadTensorFile does, and for a name that comes
  // twice.
  static absl::StatusOr<NpzReader> Open(absl::Span<const uint8_t> bytes,
                                        std::string where);

  // The names without ".npy", in the order of the directory.
  const std::vector<std::string>& names() const { return names_; }
  // Returns an array, in memory of its own. REQUIRES: `index` is below
  // names().size().
  absl::StatusOr<NDArray> Read(size_t index) const;

 private:
  NpzReader() = default;

  std::string where_;
  std::vector<ZipMember> members_;
  std::vector<std::string> names_;
};

// The names in an .npz file that is to be written.
class NpzNames {
 public:
  // Fails with kInvalidArgument for a name that no file can hold: too long, or
  // used before.
  absl::Status Add(const std::string& name);

 private:
  std::unordered_set<std::string> names_;
};

// Writes an .npz file, unpacked, one array after the other.
class NpzWriter {
 public:
  // The file is borrowed.
  explicit NpzWriter(OutputFile* file) : zip_(file) {}

  // Fails with kUnimplemented for types that numpy does not have; nothing has
  // been written then. REQUIRES: NpzNames takes all the names.
  absl::Status Add(const std::string& name, const NDArray& tensor);
  // Writes the directory. REQUIRES: nothing is added afterwards.
  absl::Status Finish() { return zip_.Finish(); }

 private:
  ZipWriter zip_;
};

// Returns the arrays of a whole .npz file, in the order of its directory, under
// their names without ".npy". `where` names the bytes in messages. Fails as
// ReadTensorFile does, and for a name that comes twice.
absl::StatusOr<std::vector<NamedTensor>> ParseNpz(
    absl::Span<const uint8_t> bytes, const std::string& where);

}  // namespace nodewise
