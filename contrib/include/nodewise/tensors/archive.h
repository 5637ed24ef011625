#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// A zip archive with any kind of members. Any thread may read.
class FileArchive {
 public:
  // Returns whether the bytes begin as an archive does.
  static bool IsOne(absl::Span<const uint8_t> bytes);
  // Reads the directory. The bytes must outlive the object; `where` names them
  // in messages. Fails with kDataLoss, giving the byte, for a damaged archive,
  // and with kUnimplemented for members that are encrypted or packed by a
  // method other than deflate.
  static absl::StatusOr<std::unique_ptr<const FileArchive>> Open(
      absl::Span<const uint8_t> bytes, std::string where);
  virtual ~FileArchive() = default;

  // In the order of the directory.
  virtual std::vector<std::string> Names() const = 0;
  // Returns the bytes of a member, unpacked and checked. Fails with kNotFound,
  // with kDataLoss if it is damaged, and with kResourceExhausted if there is no
  // memory for it.
  virtual absl::StatusOr<std::string> Read(const std::string& name) const = 0;
};

}  // namespace nodewise
