#include "nodewise/tensors/tensor_file_reader.h"

#include <filesystem>
#include <utility>

#include "contrib/tensors/npy.h"
#include "contrib/tensors/npz.h"
#include "contrib/tensors/tensor_format.h"
#include "nodewise/graph/params.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_proto.h"

namespace nodewise {
namespace {

class NpzFile final : public TensorFileReader {
 public:
  NpzFile(std::shared_ptr<MappedFile> file, NpzReader reader)
      : file_(std::move(file)), reader_(std::move(reader)) {}

  const std::vector<std::string>& names() const override {
    return reader_.names();
  }
  absl::StatusOr<NDArray> Read(size_t index) override {
    return reader_.Read(index);
  }

 private:
  std::shared_ptr<MappedFile> file_;  // Borrowed by the reader.
  NpzReader reader_;
};

class NpyFile final : public TensorFileReader {
 public:
  NpyFile(std::string path, std::shared_ptr<MappedFile> file)
      : path_(std::move(path)),
        file_(std::move(file)),
        names_{std::filesystem::path(path_).stem()} {}

  const std::vector<std::string>& names() const override { return names_; }
  absl::StatusOr<NDArray> Read(size_t) override {
    const WorkingOn on(path_);
    return ParseNpy(file_->bytes(), path_);
  }

 private:
  std::string path_;
  std::shared_ptr<MappedFile> file_;
  std::vector<std::string> names_;
};

// The tensors of formats that give them all at once.
class ParsedFile final : public TensorFileReader {
 public:
  explicit ParsedFile(std::vector<NamedTensor> tensors) {
    for (NamedTensor& entry : tensors) {
      names_.push_back(std::move(entry.name));
      tensors_.push_back(std::move(entry.tensor));
    }
  }

  const std::vector<std::string>& names() const override { return names_; }
  absl::StatusOr<NDArray> Read(size_t index) override {
    return tensors_[index];
  }

 private:
  std::vector<std::string> names_;
  std::vector<NDArray> tensors_;
};

absl::StatusOr<NamedTensor> ReadPb(const std::string& path,
                                   absl::Span<const uint8_t> bytes) {
  NODEWISE_ASSIGN_OR_RETURN(NamedTensor tensor, ParseTensorProto(bytes, path));
  if (tensor.name.empty()) tensor.name = std::filesystem::path(path).stem();
  return tensor;
}

// Only its names are in memory; the tensors stay in the mapped file. Bytes
// after the last tensor are not an error, as in TVM.
absl::StatusOr<std::unique_ptr<TensorFileReader>> OpenParamsFile(
    const std::string& path, const std::shared_ptr<MappedFile>& file) {
  NODEWISE_ASSIGN_OR_RETURN(Params params,
                            ParseParams(file->bytes(), path, file));
  return std::make_unique<ParsedFile>(std::move(params.tensors));
}

absl::StatusOr<std::unique_ptr<TensorFileReader>> OpenPbFile(
    const std::string& path, const MappedFile& file) {
  NODEWISE_ASSIGN_OR_RETURN(NamedTensor tensor, ReadPb(path, file.bytes()));
  return std::make_unique<ParsedFile>(
      std::vector<NamedTensor>{std::move(tensor)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorFileReader>> TensorFileReader::Open(
    const std::string& path) {
  const WorkingOn on(path);
  NODEWISE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  auto file = std::make_shared<MappedFile>(std::move(mapped));
  NODEWISE_ASSIGN_OR_RETURN(const TensorFormat format,
                            FormatOfFile(path, file->bytes()));
  switch (format) {
    case TensorFormat::kParams:
      return OpenParamsFile(path, file);
    case TensorFormat::kPb:
      return OpenPbFile(path, *file);
    case TensorFormat::kNpy:
      return std::make_unique<NpyFile>(path, std::move(file));
    case TensorFormat::kNpz:
      break;
  }
  NODEWISE_ASSIGN_OR_RETURN(NpzReader reader,
                            NpzReader::Open(file->bytes(), path));
  return std::make_unique<NpzFile>(std::move(file), std::move(reader));
}

}  // namespace nodewise
