#include "nodewise/tensors/tensor_file.h"

#include <filesystem>
#include <utility>

#include "contrib/tensors/npy_header.h"
#include "contrib/tensors/npz.h"
#include "contrib/tensors/tensor_format.h"
#include "contrib/tensors/zip_reader.h"
#include "fmt/format.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_file_reader.h"

namespace nodewise {
namespace {

// Everything that the format cannot hold is found before anything is written.
absl::Status CheckTensors(TensorFormat format,
                          absl::Span<const NamedTensor> tensors) {
  NpzNames names;
  for (const NamedTensor& entry : tensors) {
    if (!entry.tensor.defined()) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {} is undefined", entry.name));
    }
    NODEWISE_RETURN_IF_ERROR(
        CheckTensorFits(format, entry.name, *entry.tensor));
  }
  if (format == TensorFormat::kNpz) {
    for (const NamedTensor& entry : tensors) {
      NODEWISE_RETURN_IF_ERROR(names.Add(entry.name));
    }
  }
  return CheckTensorCount(format, tensors.size());
}

}  // namespace

absl::StatusOr<TensorFormat> FormatOfExtension(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension();
  if (extension == ".npy") return TensorFormat::kNpy;
  if (extension == ".npz") return TensorFormat::kNpz;
  if (extension == ".params") return TensorFormat::kParams;
  if (extension == ".pb") return TensorFormat::kPb;
  return absl::InvalidArgumentError(
      fmt::format("{}: extension is \"{}\", expected .npy, .npz, .params or "
                  ".pb",
                  path, extension));
}

// The content comes first: a file may have been renamed. A file that is cut
// short or damaged at the front is judged by its extension. Nothing in a .pb
// file identifies it as one.
absl::StatusOr<TensorFormat> FormatOfFile(const std::string& path,
                                          absl::Span<const uint8_t> bytes) {
  if (LooksLikeNpy(bytes)) return TensorFormat::kNpy;
  if (LooksLikeZip(bytes)) return TensorFormat::kNpz;
  if (LooksLikeParams(bytes)) return TensorFormat::kParams;
  return FormatOfExtension(path);
}

absl::StatusOr<std::vector<NamedTensor>> ReadTensorFile(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const auto file, TensorFileReader::Open(path));
  std::vector<NamedTensor> tensors;
  tensors.reserve(file->names().size());
  for (size_t i = 0; i < file->names().size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, file->Read(i));
    tensors.push_back({file->names()[i], std::move(tensor)});
  }
  return tensors;
}

absl::Status WriteTensorFile(const std::string& path,
                             absl::Span<const NamedTensor> tensors) {
  const WorkingOn on(path);
  NODEWISE_ASSIGN_OR_RETURN(const TensorFormat format, FormatOfExtension(path));
  const absl::Status status = CheckTensors(format, tensors);
  if (!status.ok()) return At(path, status);
  // The names are all known, so that nothing needs to be put aside.
  if (format == TensorFormat::kParams) return WriteParams(path, tensors);
  NODEWISE_ASSIGN_OR_RETURN(const auto writer, TensorFileWriter::Create(path));
  for (const NamedTensor& entry : tensors) {
    const TensorKey key{.node = entry.name};
    NODEWISE_RETURN_IF_ERROR(
        writer->Take({.key = key, .tensor = entry.tensor.tensor()}));
  }
  return writer->Finish();
}

}  // namespace nodewise
