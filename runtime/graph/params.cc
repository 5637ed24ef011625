#include "nodewise/runtime/params.h"

#include <dmlc/io.h>
#include <dmlc/memory_io.h>

#include <cstring>

#include "absl/strings/str_format.h"
#include "nodewise/runtime/record.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/status_macros.h"

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

absl::Status WriteList(absl::Span<const NamedTensor> tensors,
                       dmlc::Stream* stream) {
  stream->Write(kListMagic);
  stream->Write(uint64_t{0});
  stream->Write(static_cast<uint64_t>(tensors.size()));
  for (const NamedTensor& entry : tensors) stream->Write(entry.name);
  stream->Write(static_cast<uint64_t>(tensors.size()));
  for (const NamedTensor& entry : tensors) {
    NDArray host = entry.tensor;
    if (DeviceTypeOf(host.device()) != kDLCPU || !IsCompact(*host)) {
      NODEWISE_ASSIGN_OR_RETURN(host, host.CopyToHost());
    }
    WriteTensorRecord(*host, stream);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadNames(ByteReader* reader) {
  const size_t start = reader->offset();
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t magic,
                            reader->Read<uint64_t>("list magic"));
  if (magic != kListMagic) {
    return reader->Fault(
        start, absl::StrFormat("list magic is %016x, expected %016x (is this a "
                               ".params file?)",
                               magic, kListMagic));
  }
  NODEWISE_RETURN_IF_ERROR(
      reader->Read<uint64_t>("list reserved field").status());
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            reader->Count("name count", sizeof(uint64_t)));
  std::vector<std::string> names;
  names.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view name,
                              reader->String("name"));
    names.emplace_back(name);
  }
  return names;
}

// Puts the tensor's name into a message about its bytes.
absl::Status ForTensor(const absl::Status& status, std::string_view name) {
  return absl::Status(status.code(), absl::StrFormat("%s (tensor %s)",
                                                     MessageOf(status), name));
}

}  // namespace

const NDArray* Params::Find(std::string_view name) const {
  for (auto entry = tensors.rbegin(); entry != tensors.rend(); ++entry) {
    if (entry->name == name) return &entry->tensor;
  }
  return nullptr;
}

absl::StatusOr<Params> ParseParams(absl::Span<const uint8_t> bytes,
                                   std::string where,
                                   std::shared_ptr<void> owner) {
  ByteReader reader(bytes, std::move(where));
  NODEWISE_ASSIGN_OR_RETURN(std::vector<std::string> names, ReadNames(&reader));
  const size_t count_at = reader.offset();
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count,
                            reader.Count("tensor count", kLeastRecordBytes));
  if (count != names.size()) {
    return reader.Fault(count_at,
                        absl::StrFormat("tensor count is %d, expected "
                                        "%d (one per name)",
                                        count, names.size()));
  }
  Params params;
  params.tensors.reserve(count);
  for (std::string& name : names) {
    const auto record = ReadTensorRecord(&reader);
    if (!record.ok()) return ForTensor(record.status(), name);
    params.tensors.push_back(
        {std::move(name), NDArray::Borrow(record->ToTensor(), owner)});
  }
  params.trailing_bytes = reader.left();
  return params;
}

absl::StatusOr<std::vector<std::string>> ParseParamNames(
    absl::Span<const uint8_t> bytes, std::string where) {
  ByteReader reader(bytes, std::move(where));
  return ReadNames(&reader);
}

absl::StatusOr<Params> OpenParams(const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto shared = std::make_shared<MappedFile>(std::move(file));
  return ParseParams(shared->bytes(), path, shared);
}

bool LooksLikeParams(absl::Span<const uint8_t> bytes) {
  uint64_t magic = 0;
  if (bytes.size() < sizeof(magic)) return false;
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  return magic == kListMagic;
}

absl::Status WriteParams(const std::string& path,
                         absl::Span<const NamedTensor> tensors) {
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

}  // namespace nodewise
