#include "nodewise/tensors/tensor_file.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "contrib/tensors/npy.h"
#include "contrib/tensors/npy_header.h"
#include "contrib/tensors/npz.h"
#include "contrib/tensors/zip_reader.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_proto.h"

namespace nodewise {
namespace {

enum class Format { kNpy, kNpz, kParams, kPb };

absl::StatusOr<Format> FormatOfExtension(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension();
  if (extension == ".npy") return Format::kNpy;
  if (extension == ".npz") return Format::kNpz;
  if (extension == ".params") return Format::kParams;
  if (extension == ".pb") return Format::kPb;
  return absl::InvalidArgumentError(
      fmt::format("{}: extension is \"{}\", expected .npy, .npz, .params or "
                  ".pb",
                  path, extension));
}

// The content comes first: a file may have been renamed. A file that is cut
// short or damaged at the front is judged by its extension. Nothing in a .pb
// file identifies it as one.
absl::StatusOr<Format> FormatOf(const std::string& path,
                                absl::Span<const uint8_t> bytes) {
  if (LooksLikeNpy(bytes)) return Format::kNpy;
  if (LooksLikeZip(bytes)) return Format::kNpz;
  if (LooksLikeParams(bytes)) return Format::kParams;
  return FormatOfExtension(path);
}

// Everything that the format cannot hold is found before anything is written.
absl::Status CheckTensors(Format format,
                          absl::Span<const NamedTensor> tensors) {
  for (const NamedTensor& entry : tensors) {
    if (!entry.tensor.defined()) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {} is undefined", entry.name));
    }
    if (format == Format::kParams || format == Format::kPb) continue;
    const auto header =
        MakeNpyHeader(entry.tensor.shape(), entry.tensor.dtype());
    if (!header.ok()) return At("tensor " + entry.name, header.status());
  }
  if (format == Format::kNpz) return CheckNpzNames(tensors);
  if (format == Format::kParams || tensors.size() == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "{} tensors for a {} file, expected 1 (.npz holds any number)",
      tensors.size(), format == Format::kPb ? ".pb" : ".npy"));
}

absl::StatusOr<NamedTensor> ReadPb(const std::string& path,
                                   absl::Span<const uint8_t> bytes) {
  NODEWISE_ASSIGN_OR_RETURN(NamedTensor tensor, ParseTensorProto(bytes, path));
  if (tensor.name.empty()) tensor.name = std::filesystem::path(path).stem();
  return tensor;
}

absl::Status WritePb(const std::string& path, const NamedTensor& tensor) {
  const auto bytes = WriteTensorProto(tensor);
  if (!bytes.ok()) return At(path, bytes.status());
  NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  NODEWISE_RETURN_IF_ERROR(file.Write(*bytes));
  return file.Commit();
}

absl::Status WriteNumpyFile(const std::string& path, Format format,
                            absl::Span<const NamedTensor> tensors) {
  NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  const absl::Status status = format == Format::kNpy
                                  ? WriteNpy(tensors[0].tensor, &file)
                                  : WriteNpz(tensors, &file);
  NODEWISE_RETURN_IF_ERROR(status);
  return file.Commit();
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> ReadTensorFile(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  const auto file = std::make_shared<MappedFile>(std::move(mapped));
  NODEWISE_ASSIGN_OR_RETURN(const Format format, FormatOf(path, file->bytes()));
  if (format == Format::kNpz) return ParseNpz(file->bytes(), path);
  if (format == Format::kNpy) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, ParseNpy(file->bytes(), path));
    return std::vector<NamedTensor>{
        {std::filesystem::path(path).stem(), std::move(tensor)}};
  }
  if (format == Format::kPb) {
    NODEWISE_ASSIGN_OR_RETURN(NamedTensor tensor, ReadPb(path, file->bytes()));
    return std::vector<NamedTensor>{std::move(tensor)};
  }
  // Bytes after the last tensor are no error, as in TVM.
  NODEWISE_ASSIGN_OR_RETURN(Params params,
                            ParseParams(file->bytes(), path, file));
  return std::move(params.tensors);
}

absl::Status WriteTensorFile(const std::string& path,
                             absl::Span<const NamedTensor> tensors) {
  NODEWISE_ASSIGN_OR_RETURN(const Format format, FormatOfExtension(path));
  const absl::Status status = CheckTensors(format, tensors);
  if (!status.ok()) return At(path, status);
  if (format == Format::kParams) return WriteParams(path, tensors);
  if (format == Format::kPb) return WritePb(path, tensors[0]);
  return WriteNumpyFile(path, format, tensors);
}

}  // namespace nodewise
