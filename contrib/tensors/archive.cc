#include "nodewise/tensors/archive.h"

#include <utility>

#include "contrib/tensors/zip_reader.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class ZipArchive final : public FileArchive {
 public:
  ZipArchive(std::vector<ZipMember> members, std::string where)
      : members_(std::move(members)), where_(std::move(where)) {}

  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const ZipMember& member : members_) names.push_back(member.name);
    return names;
  }

  absl::StatusOr<std::string> Read(const std::string& name) const override {
    for (const ZipMember& member : members_) {
      if (member.name != name) continue;
      std::string buffer;
      const auto bytes = UnpackZipMember(member, &buffer);
      if (!bytes.ok()) {
        return At(fmt::format("{}: member {}", where_, QuotedZipName(name)),
                  bytes.status());
      }
      // A stored member lies in the archive, not in the buffer.
      if (buffer.empty()) buffer.assign(bytes->begin(), bytes->end());
      return buffer;
    }
    return absl::NotFoundError(
        fmt::format("{}: has no member {}", where_, QuotedZipName(name)));
  }

 private:
  const std::vector<ZipMember> members_;
  const std::string where_;
};

}  // namespace

bool FileArchive::IsOne(absl::Span<const uint8_t> bytes) {
  return LooksLikeZip(bytes);
}

absl::StatusOr<std::unique_ptr<const FileArchive>> FileArchive::Open(
    absl::Span<const uint8_t> bytes, std::string where) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<ZipMember> members,
                            ReadZipDirectory(bytes, where));
  return std::make_unique<const ZipArchive>(std::move(members),
                                            std::move(where));
}

}  // namespace nodewise
