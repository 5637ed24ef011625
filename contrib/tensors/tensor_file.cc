#include "nodewise/tensors/tensor_file.h"

#include <dmlc/io.h>
#include <dmlc/memory_io.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <utility>

#include "contrib/tensors/numpy.h"
#include "contrib/tensors/spool_file.h"
#include "contrib/tensors/zip.h"
#include "dlpack/dlpack.h"
#include "nodewise/ndarray/record.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_proto.h"

namespace nodewise {

namespace {

enum class TensorFormat { kNpy, kNpz, kParams, kPb };

struct FormatRow {
  TensorFormat format;
  const char* extension;
  // Returns whether a file begins so; null if nothing identifies one.
  bool (*looks_like)(absl::Span<const uint8_t> bytes);
  bool holds_one;  // Exactly one tensor.
  bool is_numpys;  // Some types and ranks do not exist there.
};

// In the order of TensorFormat.
constexpr FormatRow kFormats[] = {
    {TensorFormat::kNpy, ".npy", &LooksLikeNpy, true, true},
    {TensorFormat::kNpz, ".npz", &LooksLikeZip, false, true},
    {TensorFormat::kParams, ".params", &LooksLikeParams, false, false},
    {TensorFormat::kPb, ".pb", nullptr, true, false},
};

const FormatRow& RowOf(TensorFormat format) {
  return kFormats[static_cast<size_t>(format)];
}

absl::StatusOr<TensorFormat> FormatOfExtension(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension();
  for (const FormatRow& row : kFormats) {
    if (row.extension == extension) return row.format;
  }
  return InvalidArgument(
      "{}: extension is \"{}\", expected .npy, .npz, .params or .pb", path,
      extension);
}

// The content comes first: a file may have been renamed. A file that is cut
// short or damaged at the front is judged by its extension.
absl::StatusOr<TensorFormat> FormatOfFile(const std::string& path,
                                          absl::Span<const uint8_t> bytes) {
  for (const FormatRow& row : kFormats) {
    if (row.looks_like != nullptr && row.looks_like(bytes)) return row.format;
  }
  return FormatOfExtension(path);
}

// Returns kUnimplemented for a tensor whose type numpy's formats do not have;
// the other formats are not checked. The tensor's data is not read.
absl::Status CheckTensorFits(TensorFormat format, const std::string& name,
                             const DLTensor& tensor) {
  if (!RowOf(format).is_numpys) return absl::OkStatus();
  const auto header = MakeNpyHeader(ShapeOf(tensor), tensor.dtype);
  return At("tensor " + name, header.status());
}

absl::Status CheckTensorCount(TensorFormat format, size_t count) {
  const FormatRow& row = RowOf(format);
  if (!row.holds_one || count == 1) return absl::OkStatus();
  return InvalidArgument(
      "{} tensors for a {} file, expected 1 (.npz holds any number)", count,
      row.extension);
}

// Everything that the format cannot hold is found before anything is written.
absl::Status CheckTensors(TensorFormat format,
                          absl::Span<const NamedTensor> tensors) {
  for (const NamedTensor& entry : tensors) {
    if (!entry.tensor.defined()) {
      return InvalidArgument("tensor {} is undefined", entry.name);
    }
    NODEWISE_RETURN_IF_ERROR(
        CheckTensorFits(format, entry.name, *entry.tensor));
  }
  NpzNames names;
  for (const NamedTensor& entry : tensors) {
    if (format != TensorFormat::kNpz) break;
    NODEWISE_RETURN_IF_ERROR(names.Add(entry.name));
  }
  return CheckTensorCount(format, tensors.size());
}

// Formats differ in how tensor number `index` is made of the mapped file, which
// the function keeps alive.
class OpenedFile final : public TensorFileReader {
 public:
  using ReadOne = std::function<absl::StatusOr<NDArray>(size_t index)>;

  OpenedFile(std::vector<std::string> names, ReadOne read)
      : names_(std::move(names)), read_(std::move(read)) {}

  // For formats that give all tensors at once.
  static std::unique_ptr<TensorFileReader> Parsed(
      std::vector<NamedTensor> tensors) {
    std::vector<std::string> names;
    for (NamedTensor& entry : tensors) names.push_back(std::move(entry.name));
    return std::make_unique<OpenedFile>(
        std::move(names), [tensors = std::move(tensors)](size_t index) {
          return tensors[index].tensor;
        });
  }

  const std::vector<std::string>& names() const override { return names_; }
  absl::StatusOr<NDArray> Read(size_t index) override { return read_(index); }

 private:
  const std::vector<std::string> names_;
  const ReadOne read_;
};

// Counts what has no tensor, and leaves to each format how one tensor is added.
// The file gets its name when it is complete, so that no reader ever sees a
// part.
class FileWriter : public TensorFileWriter {
 public:
  FileWriter(std::string path, OutputFile file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Consume(const TensorItem& item) override {
    if (item.tensor == nullptr) {
      ++num_skipped_;
      return absl::OkStatus();
    }
    const NDArray tensor = item.lasting.defined()
                               ? item.lasting
                               : NDArray::Borrow(*item.tensor, nullptr);
    return Add(item.key.Name(), tensor);
  }
  size_t num_skipped() const override { return num_skipped_; }

 protected:
  virtual absl::Status Add(const std::string& name, const NDArray& tensor) = 0;

  std::string path_;
  OutputFile file_;

 private:
  size_t num_skipped_ = 0;
};

// .npy and .pb. A second tensor is refused when it comes, and none at all when
// the file is to be finished.
class OneTensorWriter final : public FileWriter {
 public:
  OneTensorWriter(std::string path, OutputFile file, TensorFormat format)
      : FileWriter(std::move(path), std::move(file)), format_(format) {}

  absl::Status Add(const std::string& name, const NDArray& tensor) override {
    if (++count_ > 1) return CheckCount();
    if (format_ == TensorFormat::kPb) {
      const auto bytes = WriteTensorProto({name, tensor});
      if (!bytes.ok()) return At(path_, bytes.status());
      return file_.Write(*bytes);
    }
    NODEWISE_RETURN_IF_ERROR(
        At(path_, CheckTensorFits(format_, name, *tensor)));
    return WriteNpy(tensor, &file_);
  }
  absl::Status Finish() override {
    NODEWISE_RETURN_IF_ERROR(CheckCount());
    return file_.Commit();
  }

 private:
  absl::Status CheckCount() const {
    return At(path_, CheckTensorCount(format_, count_));
  }

  const TensorFormat format_;
  size_t count_ = 0;
};

class NpzFileWriter final : public FileWriter {
 public:
  NpzFileWriter(std::string path, OutputFile file)
      : FileWriter(std::move(path), std::move(file)), npz_(&file_) {}

  absl::Status Add(const std::string& name, const NDArray& tensor) override {
    // Both checks come before a byte of the member is written: an archive with
    // half a member could not be finished.
    NODEWISE_RETURN_IF_ERROR(
        At(path_, CheckTensorFits(TensorFormat::kNpz, name, *tensor)));
    NODEWISE_RETURN_IF_ERROR(At(path_, names_.Add(name)));
    return npz_.Add(name, tensor);
  }
  absl::Status Finish() override {
    NODEWISE_RETURN_IF_ERROR(npz_.Finish());
    return file_.Commit();
  }

 private:
  NpzNames names_;
  NpzWriter npz_;
};

// The names come first in a .params file, so that the tensors have to wait
// until all names are known: on the disk, not in memory.
class ParamsFileWriter final : public FileWriter {
 public:
  ParamsFileWriter(std::string path, OutputFile file, SpoolFile spool)
      : FileWriter(std::move(path), std::move(file)),
        spool_(std::move(spool)) {}

  absl::Status Add(const std::string& name, const NDArray& tensor) override {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray host, HostTensor(tensor));
    // A record is written as it will stand in the file, so that putting all of
    // them there later is a copy of bytes.
    std::string head;
    dmlc::MemoryStringStream stream(&head);
    WriteRecordHead(host.shape(), host.dtype(), &stream);
    NODEWISE_RETURN_IF_ERROR(spool_.Write(head.data(), head.size()));
    NODEWISE_RETURN_IF_ERROR(spool_.Write(host.data(), host.bytes()));
    names_.push_back(name);
    return absl::OkStatus();
  }
  absl::Status Finish() override {
    NODEWISE_RETURN_IF_ERROR(file_.Write(ParamsHeader(names_)));
    NODEWISE_RETURN_IF_ERROR(spool_.CopyTo(&file_));
    return file_.Commit();
  }

 private:
  SpoolFile spool_;
  std::vector<std::string> names_;
};

}  // namespace

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
        writer->Consume({.key = key, .tensor = entry.tensor.tensor()}));
  }
  return writer->Finish();
}

absl::StatusOr<std::unique_ptr<TensorFileReader>> TensorFileReader::Open(
    const std::string& path) {
  const WorkingOn on(path);
  NODEWISE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  const auto file = std::make_shared<MappedFile>(std::move(mapped));
  NODEWISE_ASSIGN_OR_RETURN(const TensorFormat format,
                            FormatOfFile(path, file->bytes()));
  const std::string stem = std::filesystem::path(path).stem();
  switch (format) {
    case TensorFormat::kParams: {
      // Only its names are in memory; the tensors stay in the mapped file.
      // Bytes after the last tensor are not an error, as in TVM.
      NODEWISE_ASSIGN_OR_RETURN(Params params,
                                ParseParams(file->bytes(), path, file));
      return OpenedFile::Parsed(std::move(params.tensors));
    }
    case TensorFormat::kPb: {
      NODEWISE_ASSIGN_OR_RETURN(NamedTensor tensor,
                                ParseTensorProto(file->bytes(), path));
      if (tensor.name.empty()) tensor.name = stem;
      return OpenedFile::Parsed({std::move(tensor)});
    }
    case TensorFormat::kNpy:
      return std::make_unique<OpenedFile>(
          std::vector<std::string>{stem}, [path, file](size_t) {
            const WorkingOn on(path);
            return ParseNpy(file->bytes(), path);
          });
    case TensorFormat::kNpz:
      break;
  }
  NODEWISE_ASSIGN_OR_RETURN(auto reader, NpzReader::Open(file->bytes(), path));
  const std::vector<std::string> names = reader.names();
  return std::make_unique<OpenedFile>(
      names, [file, reader = std::move(reader)](size_t index) {
        return reader.Read(index);
      });
}

absl::StatusOr<std::unique_ptr<TensorFileWriter>> TensorFileWriter::Create(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(const TensorFormat format, FormatOfExtension(path));
  NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  if (format == TensorFormat::kNpz) {
    return std::make_unique<NpzFileWriter>(path, std::move(file));
  }
  if (format == TensorFormat::kParams) {
    NODEWISE_ASSIGN_OR_RETURN(SpoolFile spool, SpoolFile::Create(path));
    return std::make_unique<ParamsFileWriter>(path, std::move(file),
                                              std::move(spool));
  }
  return std::make_unique<OneTensorWriter>(path, std::move(file), format);
}

}  // namespace nodewise
