#include "contrib/tensors/npz.h"

#include <string_view>
#include <unordered_set>
#include <utility>

#include "contrib/tensors/npy.h"
#include "contrib/tensors/npy_header.h"
#include "fmt/format.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr std::string_view kSuffix = ".npy";

std::string TensorName(std::string_view member) {
  if (member.size() >= kSuffix.size() &&
      member.substr(member.size() - kSuffix.size()) == kSuffix) {
    member.remove_suffix(kSuffix.size());
  }
  return std::string(member);
}

absl::Status CheckNames(absl::Span<const ZipMember> members,
                        const std::string& where) {
  std::unordered_set<std::string> names;
  for (const ZipMember& member : members) {
    if (names.insert(TensorName(member.name)).second) continue;
    return absl::DataLossError(
        fmt::format("{}: member {} comes twice, expected it once", where,
                    QuotedZipName(member.name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<NDArray> ReadMember(const ZipMember& member,
                                   const std::string& where) {
  const std::string place = where + ": " + QuotedZipName(member.name);
  std::string buffer;
  const auto bytes = UnpackZipMember(member, &buffer);
  if (!bytes.ok()) {
    return At(fmt::format("{}: byte {}", place, member.offset), bytes.status());
  }
  return ParseNpy(*bytes, place);
}

}  // namespace

absl::StatusOr<NpzReader> NpzReader::Open(absl::Span<const uint8_t> bytes,
                                          std::string where) {
  NpzReader reader;
  NODEWISE_ASSIGN_OR_RETURN(reader.members_, ReadZipDirectory(bytes, where));
  NODEWISE_RETURN_IF_ERROR(CheckNames(reader.members_, where));
  reader.where_ = std::move(where);
  for (const ZipMember& member : reader.members_) {
    reader.names_.push_back(TensorName(member.name));
  }
  return reader;
}

absl::StatusOr<NDArray> NpzReader::Read(size_t index) const {
  const WorkingOn on(where_);
  return ReadMember(members_[index], where_);
}

absl::Status NpzNames::Add(const std::string& name) {
  const size_t size = name.size() + kSuffix.size();
  if (size > ZipWriter::kMaxNameBytes) {
    return absl::InvalidArgumentError(
        fmt::format("member name has {} bytes, expected at most {}", size,
                    ZipWriter::kMaxNameBytes));
  }
  // An archive may hold a name twice, but a reader would only find one.
  if (names_.insert(name).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("tensor {} comes twice, expected it once", name));
}

absl::Status NpzWriter::Add(const std::string& name, const NDArray& tensor) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string header,
                            MakeNpyHeader(tensor.shape(), tensor.dtype()));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray host, HostTensor(tensor));
  return zip_.Add(name + std::string(kSuffix), header,
                  {host.As<uint8_t>(), host.bytes()});
}

absl::StatusOr<std::vector<NamedTensor>> ParseNpz(
    absl::Span<const uint8_t> bytes, const std::string& where) {
  NODEWISE_ASSIGN_OR_RETURN(const NpzReader reader,
                            NpzReader::Open(bytes, where));
  std::vector<NamedTensor> tensors;
  tensors.reserve(reader.names().size());
  for (size_t i = 0; i < reader.names().size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, reader.Read(i));
    tensors.push_back({reader.names()[i], std::move(tensor)});
  }
  return tensors;
}

}  // namespace nodewise
