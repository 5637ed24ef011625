// Files of tensors as sources.

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "contrib/tensors/dump_keys.h"
#include "contrib/tensors/sources.h"
#include "contrib/tensors/tensor_names.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/found_again.h"
#include "nodewise/tensors/tensor_file_reader.h"

namespace nodewise {
namespace {

class FileSource final : public TensorSource {
 public:
  FileSource(std::string path, std::unique_ptr<TensorFileReader> file)
      : path_(std::move(path)),
        file_(std::move(file)),
        keys_(KeysOfNames(file_->names(), path_)) {}

  const std::string& name() const override { return path_; }
  absl::Status Visit(TensorSink& sink) override {
    for (size_t i = 0; i < keys_.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, file_->Read(i));
      NODEWISE_RETURN_IF_ERROR(sink.Take(
          {.key = keys_[i], .tensor = tensor.tensor(), .lasting = tensor}));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<NDArray> Find(const TensorKey& key) override {
    if (by_name_.empty()) {
      for (size_t i = 0; i < keys_.size(); ++i) {
        by_name_.emplace(keys_[i].Name(), i);
      }
    }
    // The last of several, as one who keeps them by name would have it.
    std::optional<size_t> last;
    const auto [first, end] = by_name_.equal_range(key.Name());
    for (auto it = first; it != end; ++it) {
      const size_t i = it->second;
      if (keys_[i] == key) last = std::max(last.value_or(i), i);
    }
    if (last.has_value()) return file_->Read(*last);
    for (size_t i = keys_.size(); i-- > 0;) {
      if (IsNameOf(file_->names()[i], key)) return file_->Read(i);
    }
    return TensorNotFound(path_, key, file_->names());
  }

 private:
  std::string path_;
  std::unique_ptr<TensorFileReader> file_;
  std::vector<TensorKey> keys_;  // By the reader's index.
  std::unordered_multimap<std::string, size_t> by_name_;  // Made when asked.
};

}  // namespace

bool IsFoundAgain(const TensorSource& source) {
  return dynamic_cast<const FileSource*>(&source) != nullptr;
}

absl::StatusOr<std::unique_ptr<TensorSource>> OpenFileSource(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(auto file, TensorFileReader::Open(path));
  return std::make_unique<FileSource>(path, std::move(file));
}

}  // namespace nodewise
