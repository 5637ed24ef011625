// Files of tensors that come one at a time.

#include <dmlc/io.h>
#include <dmlc/memory_io.h>

#include <memory>
#include <utility>

#include "contrib/tensors/npy.h"
#include "contrib/tensors/npy_header.h"
#include "contrib/tensors/npz.h"
#include "contrib/tensors/spool_file.h"
#include "contrib/tensors/tensor_format.h"
#include "fmt/format.h"
#include "nodewise/graph/params.h"
#include "nodewise/ndarray/record.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_file.h"
#include "nodewise/tensors/tensor_proto.h"

namespace nodewise {
namespace {

class FileWriter : public TensorFileWriter {
 public:
  FileWriter(std::string path, OutputFile file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Take(const TensorItem& item) override {
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

// .npy and .pb.
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

absl::Status CheckTensorFits(TensorFormat format, const std::string& name,
                             const DLTensor& tensor) {
  if (format == TensorFormat::kParams || format == TensorFormat::kPb) {
    return absl::OkStatus();
  }
  const auto header = MakeNpyHeader(ShapeOf(tensor), tensor.dtype);
  return At("tensor " + name, header.status());
}

absl::Status CheckTensorCount(TensorFormat format, size_t count) {
  if (format == TensorFormat::kNpz || format == TensorFormat::kParams ||
      count == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "{} tensors for a {} file, expected 1 (.npz holds any number)", count,
      format == TensorFormat::kPb ? ".pb" : ".npy"));
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
