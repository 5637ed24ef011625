#include "contrib/tensors/npz.h"

#include <string_view>
#include <unordered_set>
#include <utility>

#include "contrib/tensors/npy.h"
#include "contrib/tensors/npy_header.h"
#include "contrib/tensors/zip_reader.h"
#include "contrib/tensors/zip_writer.h"
#include "fmt/format.h"
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

absl::Status WriteMember(const NamedTensor& entry, ZipWriter* writer) {
  const NDArray& tensor = entry.tensor;
  NODEWISE_ASSIGN_OR_RETURN(const std::string header,
                            MakeNpyHeader(tensor.shape(), tensor.dtype()));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray host, HostTensor(tensor));
  return writer->Add(entry.name + std::string(kSuffix), header,
                     {host.As<uint8_t>(), host.bytes()});
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> ParseNpz(
    absl::Span<const uint8_t> bytes, const std::string& where) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<ZipMember> members,
                            ReadZipDirectory(bytes, where));
  NODEWISE_RETURN_IF_ERROR(CheckNames(members, where));
  std::vector<NamedTensor> tensors;
  tensors.reserve(members.size());
  for (const ZipMember& member : members) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, ReadMember(member, where));
    tensors.push_back({TensorName(member.name), std::move(tensor)});
  }
  return tensors;
}

absl::Status CheckNpzNames(absl::Span<const NamedTensor> tensors) {
  std::unordered_set<std::string_view> names;
  for (const NamedTensor& entry : tensors) {
    const size_t size = entry.name.size() + kSuffix.size();
    if (size > ZipWriter::kMaxNameBytes) {
      return absl::InvalidArgumentError(
          fmt::format("member name has {} bytes, expected at most {}", size,
                      ZipWriter::kMaxNameBytes));
    }
    // An archive may hold a name twice, but nobody could read both.
    if (names.insert(entry.name).second) continue;
    return absl::InvalidArgumentError(
        fmt::format("tensor {} comes twice, expected it once", entry.name));
  }
  return absl::OkStatus();
}

absl::Status WriteNpz(absl::Span<const NamedTensor> tensors, OutputFile* file) {
  ZipWriter writer(file);
  for (const NamedTensor& entry : tensors) {
    NODEWISE_RETURN_IF_ERROR(WriteMember(entry, &writer));
  }
  return writer.Finish();
}

}  // namespace nodewise
