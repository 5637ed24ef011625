#include "nodewise/tensors/tensor_source.h"

#include <filesystem>
#include <system_error>
#include <unordered_map>

#include "contrib/tensors/sources.h"
#include "contrib/tensors/test_set.h"
#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// How many names of a source a message lists that does not find one there.
constexpr size_t kMostListed = 8;

// The file of a dump that has its tensors. Its names are the dump's keys, and
// what else is known about them lies beside it.
constexpr char kDumpTensorsFile[] = "output_tensors.params";

// A file is opened once and stays mapped. Its tensors are read when they are
// handed out, so that one is in memory at a time.
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
      NODEWISE_RETURN_IF_ERROR(sink.Consume(
          {.key = keys_[i], .tensor = tensor.tensor(), .lasting = tensor}));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<NDArray> Find(const TensorKey& key) override {
    // Searching by name is made fast at the first question: most callers only
    // visit.
    if (by_name_.empty()) {
      for (size_t i = 0; i < keys_.size(); ++i) {
        by_name_.emplace(keys_[i].Name(), i);
      }
    }
    // The last of several tensors with one name counts, as in a map by name.
    std::optional<size_t> last;
    const auto [first, end] = by_name_.equal_range(key.Name());
    for (auto it = first; it != end; ++it) {
      const size_t i = it->second;
      if (keys_[i] == key) last = std::max(last.value_or(i), i);
    }
    if (last) return file_->Read(*last);
    // The names in the file need not be those of the keys, which may have been
    // taken apart.
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

// A test set is looked for first: its files are told by their names, and a
// folder of a model that has just one such set stands for that. With several
// sets the user has to choose, since their tensors have the same names.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenFolder(
    const std::string& path, const TestSetNames& names) {
  if (IsTestSet(path)) return OpenTestSet(path, names);
  auto dump = OpenDumpSource(path);
  if (!absl::IsNotFound(dump.status())) return dump;
  const std::vector<std::string> sets = TestSetsIn(path);
  if (sets.size() == 1) return OpenTestSet(sets[0], names);
  if (sets.empty()) {
    return InvalidArgument(
        "{}: is a folder without tensors, expected a dump, an ONNX test set "
        "(input_0.pb, output_0.pb) or a file of tensors",
        path);
  }
  return InvalidArgument("{}: has {} test sets, expected one (give one of {})",
                         path, sets.size(), ListOf(sets, 4));
}

}  // namespace

// Output 0 goes without a number, since most nodes have one output.
std::string TensorKey::Name() const {
  if (role == TensorRole::kInput) {
    return fmt::format("{}:input:{}", node, slot);
  }
  return slot == 0 ? node : fmt::format("{}:{}", node, slot);
}

absl::StatusOr<NDArray> TensorItem::Keep() const {
  if (lasting.defined()) return lasting;
  if (tensor != nullptr) return NDArray::Borrow(*tensor, nullptr).CopyToHost();
  return NotFound("{}: tensor {} is not there: {}", key.source, key.Name(),
                  why_absent);
}

// The message suggests a name that is alike, for one that was mistyped.
absl::Status TensorNotFound(const std::string& where, const TensorKey& key,
                            const std::vector<std::string>& names) {
  const std::string name = key.Name();
  if (names.empty()) {
    return NotFound("{}: has no tensors, expected {}", where, name);
  }
  return NotFound("{}: has no tensor {}, expected one of its {} ({}){}", where,
                  name, names.size(), ListOf(names, kMostListed),
                  DidYouMean(name, names));
}

bool IsNameOf(const std::string& name, const TensorKey& key) {
  if (name == key.Name()) return true;
  return key.role == TensorRole::kOutput && key.slot == 0 &&
         name == key.node + ":0";
}

bool IsRereadable(const TensorSource& source) {
  return dynamic_cast<const FileSource*>(&source) != nullptr;
}

absl::StatusOr<NDArray> TensorSource::Find(const TensorKey& key) {
  return Unimplemented(
      "{}: tensor {}: cannot be looked for, expected a dump or a file (its "
      "tensors can only be visited in order)",
      name(), key.Name());
}

absl::Status VisitEach(
    TensorSource& source,
    absl::FunctionRef<absl::Status(const TensorItem& item)> take) {
  class Sink final : public TensorSink {
   public:
    explicit Sink(absl::FunctionRef<absl::Status(const TensorItem& item)> take)
        : take_(take) {}
    absl::Status Consume(const TensorItem& item) override {
      return take_(item);
    }

   private:
    const absl::FunctionRef<absl::Status(const TensorItem& item)> take_;
  };
  Sink sink(take);
  return source.Visit(sink);
}

absl::StatusOr<std::unique_ptr<TensorSource>> OpenTensorSource(
    const std::string& path, const TestSetNames& names) {
  std::error_code error;
  if (fs::is_directory(path, error)) return OpenFolder(path, names);
  const fs::path file(path);
  // output_tensors.params is a .params file like others, and is read as one if
  // no dump is around it.
  if (file.filename() == kDumpTensorsFile && fs::exists(file, error)) {
    const fs::path folder = file.parent_path();
    auto dump = OpenDumpSource(folder.empty() ? "." : folder.string());
    if (!absl::IsNotFound(dump.status())) return dump;
  }
  NODEWISE_ASSIGN_OR_RETURN(auto opened, TensorFileReader::Open(path));
  return std::make_unique<FileSource>(path, std::move(opened));
}

}  // namespace nodewise
