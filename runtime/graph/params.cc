#include "nodewise/graph/params.h"

#include <dmlc/io.h>
#include <dmlc/memory_io.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "fmt/format.h"
#include "nodewise/ndarray/record.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr uint64_t kListMagic = 0xF7E58D4F05049CB7;

// dmlc's stream interface over a file that appears when it is complete. The
// interface cannot report errors, so the first one is kept.
class FileStream final : public dmlc::Stream {
 public:
  explicit FileStream(OutputFile* file) : file_(file) {}

  size_t Read(void*, size_t) override { return 0; }
  void Write(const void* data, size_t size) override {
    if (status_.ok()) status_ = file_->Write(data, size);
  }
  using dmlc::Stream::Write;
  const absl::Status& status() const { return status_; }

 private:
  OutputFile* file_;
  absl::Status status_;
};

// The format: magic, a reserved word, the names, then as many records of
// tensors, all little-endian (docs/formats/params.md).
template <typename Items, typename Name>
void WriteHeader(const Items& items, Name name, dmlc::Stream* stream) {
  stream->Write(kListMagic);
  stream->Write(uint64_t{0});
  stream->Write(static_cast<uint64_t>(items.size()));
  for (const auto& item : items) stream->Write(std::invoke(name, item));
  stream->Write(static_cast<uint64_t>(items.size()));
}

// One tensor at a time is fetched from its device, since all of them may not
// fit in the host's memory twice.
absl::Status WriteList(absl::Span<const NamedTensor> tensors,
                       dmlc::Stream* stream) {
  WriteHeader(tensors, &NamedTensor::name, stream);
  for (const NamedTensor& entry : tensors) {
    NDArray host = entry.tensor;
    if (DeviceTypeOf(host.device()) != kDLCPU || !IsCompact(*host)) {
      NODEWISE_ASSIGN_OR_RETURN(host, host.CopyToHost());
    }
    WriteTensorRecord(*host, stream);
  }
  return absl::OkStatus();
}

// What a reader does about bytes that end too early. A dump of a process that
// was killed is still of use up to where it breaks off.
enum class AtEnd { kRefuse, kKeepWhatIsThere };

// Reads as much of the magic as there is, so that a file that was cut within it
// is told from another kind of file.
absl::Status ReadMagic(ByteReader* reader) {
  const size_t start = reader->offset();
  uint64_t magic = 0;
  const size_t size = std::min(reader->left(), sizeof(magic));
  NODEWISE_ASSIGN_OR_RETURN(const auto bytes, reader->Bytes("magic", size));
  // An empty span may have a null pointer, which memcpy must not see.
  if (size > 0) std::memcpy(&magic, bytes.data(), size);
  // Bytes cut short within the magic must be the beginning of it.
  if (std::memcmp(&magic, &kListMagic, size) != 0) {
    return reader->ErrorAt(
        start,
        fmt::format(
            "list magic is {:016x}, expected {:016x} (is this a .params file?)",
            magic, kListMagic));
  }
  return reader->Bytes("list magic", sizeof(magic) - size).status();
}

// Adds the names that are there, even if it fails.
absl::Status ReadNames(ByteReader* reader, AtEnd at_end,
                       std::vector<std::string>* names) {
  NODEWISE_RETURN_IF_ERROR(ReadMagic(reader));
  NODEWISE_RETURN_IF_ERROR(
      reader->Read<uint64_t>("list reserved field").status());
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            at_end == AtEnd::kRefuse
                                ? reader->Count("name count", sizeof(uint64_t))
                                : reader->Read<uint64_t>("name count"));
  names->reserve(std::min(count, reader->left() / sizeof(uint64_t)));
  for (uint64_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(names->emplace_back(), reader->String("name"));
  }
  return absl::OkStatus();
}

// A file that is cut has fewer tensors than it announces, so the count is not
// held against its size then.
absl::Status ReadTensorCount(ByteReader* reader, AtEnd at_end,
                             size_t num_names) {
  const size_t start = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(
      const uint64_t count,
      at_end == AtEnd::kRefuse
          ? reader->Count("tensor count", kLeastRecordBytes)
          : reader->Read<uint64_t>("tensor count"));
  if (count == num_names) return absl::OkStatus();
  return reader->ErrorAt(
      start, fmt::format("tensor count is {}, expected {} (one per name)",
                         count, num_names));
}

absl::Status ForTensor(const absl::Status& status, std::string_view name) {
  return absl::Status(status.code(),
                      fmt::format("{} (tensor {})", MessageOf(status), name));
}

// Adds the complete tensors and the names without one, even if it fails.
absl::Status ReadList(ByteReader* reader, AtEnd at_end,
                      const std::shared_ptr<void>& owner,
                      PartialParams* partial) {
  std::vector<std::string>& names = partial->missing;
  std::vector<NamedTensor>& tensors = partial->params.tensors;
  NODEWISE_RETURN_IF_ERROR(ReadNames(reader, at_end, &names));
  NODEWISE_RETURN_IF_ERROR(ReadTensorCount(reader, at_end, names.size()));
  tensors.reserve(std::min(names.size(), reader->left() / kLeastRecordBytes));
  absl::Status status;
  for (const std::string& name : names) {
    const auto record = ReadTensorRecord(reader);
    status = record.ok() ? absl::OkStatus() : ForTensor(record.status(), name);
    if (!status.ok()) break;
    tensors.push_back({name, NDArray::Borrow(record->ToTensor(), owner)});
  }
  names.erase(names.begin(),
              names.begin() + static_cast<ptrdiff_t>(tensors.size()));
  partial->params.trailing_bytes = status.ok() ? reader->left() : 0;
  return status;
}

}  // namespace

// The search begins at the end, where TVM's last tensor of a name stands.
const NDArray* Params::Find(std::string_view name) const {
  for (auto entry = tensors.rbegin(); entry != tensors.rend(); ++entry) {
    if (entry->name == name) return &entry->tensor;
  }
  return nullptr;
}

// Nothing is handed out of a file that has a fault anywhere.
absl::StatusOr<Params> ParseParams(absl::Span<const uint8_t> bytes,
                                   std::string where,
                                   const std::shared_ptr<void>& owner) {
  const WorkingOn on(where);
  ByteReader reader(bytes, where);
  PartialParams partial;
  NODEWISE_RETURN_IF_ERROR(ReadList(&reader, AtEnd::kRefuse, owner, &partial));
  return std::move(partial.params);
}

absl::StatusOr<PartialParams> ParsePartialParams(
    absl::Span<const uint8_t> bytes, std::string where,
    const std::shared_ptr<void>& owner) {
  const WorkingOn on(where);
  ByteReader reader(bytes, where);
  PartialParams partial;
  const absl::Status status =
      ReadList(&reader, AtEnd::kKeepWhatIsThere, owner, &partial);
  if (status.ok()) return partial;
  // Bytes that are there but wrong are damage, for which no guess is made.
  if (!reader.ran_out()) return status;
  partial.is_cut = true;
  partial.cut_at = bytes.size();
  return partial;
}

absl::StatusOr<std::vector<std::string>> ParseParamNames(
    absl::Span<const uint8_t> bytes, std::string where) {
  ByteReader reader(bytes, std::move(where));
  std::vector<std::string> names;
  NODEWISE_RETURN_IF_ERROR(ReadNames(&reader, AtEnd::kRefuse, &names));
  return names;
}

absl::StatusOr<Params> OpenParams(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto shared = std::make_shared<MappedFile>(std::move(file));
  return ParseParams(shared->bytes(), path, shared);
}

absl::StatusOr<PartialParams> OpenPartialParams(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto shared = std::make_shared<MappedFile>(std::move(file));
  return ParsePartialParams(shared->bytes(), path, shared);
}

// The tensors borrow the mapped file, so that a file may be recovered onto
// itself: it is replaced only when the new one is complete.
absl::Status RecoverParams(const std::string& from, const std::string& to) {
  NODEWISE_ASSIGN_OR_RETURN(const PartialParams partial,
                            OpenPartialParams(from));
  return WriteParams(to, partial.params.tensors);
}

bool LooksLikeParams(absl::Span<const uint8_t> bytes) {
  uint64_t magic = 0;
  if (bytes.size() < sizeof(magic)) return false;
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  return magic == kListMagic;
}

absl::Status WriteParams(const std::string& path,
                         absl::Span<const NamedTensor> tensors) {
  const WorkingOn on(path);
  NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  FileStream stream(&file);
  NODEWISE_RETURN_IF_ERROR(WriteList(tensors, &stream));
  NODEWISE_RETURN_IF_ERROR(stream.status());
  return file.Commit();
}

absl::StatusOr<std::string> SerializeParams(
    absl::Span<const NamedTensor> tensors) {
  std::string bytes;
  dmlc::MemoryStringStream stream(&bytes);
  NODEWISE_RETURN_IF_ERROR(WriteList(tensors, &stream));
  return bytes;
}

std::string ParamsHeader(absl::Span<const std::string> names) {
  std::string bytes;
  dmlc::MemoryStringStream stream(&bytes);
  WriteHeader(names, std::identity(), &stream);
  return bytes;
}

}  // namespace nodewise
