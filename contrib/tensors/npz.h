#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/tensors/zip_reader.h"
#include "contrib/tensors/zip_writer.h"
#include "nodewise/graph/params.h"
#include "nodewise/support/file.h"

namespace nodewise {

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
