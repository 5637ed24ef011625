#include "nodewise/tensors/tensor_source.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <unordered_map>

#include "absl/strings/numbers.h"
#include "contrib/tensors/sources.h"
#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_collector.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// How many names of a source a message lists that does not find one there.
constexpr size_t kMostListed = 8;

// The file of a dump that has its tensors. Its names are the dump's keys, and
// what else is known about them lies beside it.
constexpr char kDumpTensorsFile[] = "output_tensors.params";

// Borrows what was kept. The item is lent for one call, and the collector keeps
// all that it points to.
TensorItem ItemOf(const TensorCollector::Kept& kept) {
  TensorItem item{.key = kept.key};
  if (kept.tensor.defined()) item.tensor = kept.tensor.tensor();
  item.lasting = kept.tensor;
  item.why_absent = kept.why_absent;
  item.hash = kept.hash;
  if (kept.stats) item.stats = &*kept.stats;
  item.time = kept.time;
  if (kept.origin) item.origin = &*kept.origin;
  item.is_network_input = kept.is_network_input;
  return item;
}

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
    // The last of several, as one who keeps them by name would have it.
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

// ONNX's test sets: folders with input_0.pb, ..., output_0.pb, ...

constexpr std::string_view kInput = "input";
constexpr std::string_view kOutput = "output";

// Returns the number N of a file KIND_N.pb. A name such as input_01.pb is not
// one of a test set, since two files could claim one number then.
std::optional<uint32_t> NumberOf(const std::string& file,
                                 std::string_view kind) {
  uint32_t number = 0;
  const fs::path path(file);
  const std::string stem = path.stem();
  const std::string prefix = std::string(kind) + "_";
  if (path.extension() != ".pb" || !stem.starts_with(prefix) ||
      !absl::SimpleAtoi(stem.substr(prefix.size()), &number) ||
      prefix + std::to_string(number) != stem) {
    return std::nullopt;
  }
  return number;
}

// Calls f(path) with the entries of a folder; with none if it cannot be read.
template <typename F>
void ForEachIn(const std::string& folder, F f) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    f(at->path());
  }
}

// Returns the files KIND_N.pb by their numbers.
std::map<uint32_t, std::string> FilesOf(const std::string& folder,
                                        std::string_view kind) {
  std::map<uint32_t, std::string> files;
  ForEachIn(folder, [&](const fs::path& path) {
    const auto number = NumberOf(path.filename(), kind);
    if (number) files[*number] = path;
  });
  return files;
}

// A file of a test set holds one tensor.
struct SetFile {
  std::string path;
  std::string name;  // Empty: the one in the file.
  bool is_input = false;
};

// Appends the files of one kind in their order. None may be missing: all after
// it would get another's name.
absl::Status AddFiles(const std::string& folder, std::string_view kind,
                      const std::vector<std::string>& names,
                      std::vector<SetFile>* files) {
  const auto found = FilesOf(folder, kind);
  uint32_t expected = 0;
  for (const auto& [number, path] : found) {
    if (number != expected) {
      return DataLoss(
          "{}: has {}_{}.pb but no {}_{}.pb, expected all numbers from 0 on",
          folder, kind, number, kind, expected);
    }
    if (!names.empty() && number >= names.size()) {
      return InvalidArgument(
          "{}: has {} files {}_N.pb, expected at most {} (one for each {} of "
          "the model)",
          folder, found.size(), kind, names.size(), kind);
    }
    files->push_back(
        {path, names.empty() ? "" : names[number], kind == kInput});
    ++expected;
  }
  return absl::OkStatus();
}

// Names that are given for the model's inputs and outputs win over those in the
// files, which may be empty.
class TestSet final : public TensorSource {
 public:
  TestSet(std::string folder, std::vector<SetFile> files)
      : folder_(std::move(folder)), files_(std::move(files)) {}

  const std::string& name() const override { return folder_; }
  absl::Status Visit(TensorSink& sink) override {
    for (const SetFile& file : files_) {
      NODEWISE_ASSIGN_OR_RETURN(const NamedTensor entry, Read(file));
      const TensorKey key{.node = entry.name, .source = folder_};
      NODEWISE_RETURN_IF_ERROR(
          sink.Consume({.key = key,
                        .tensor = entry.tensor.tensor(),
                        .lasting = entry.tensor,
                        .is_network_input = file.is_input}));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<NDArray> Find(const TensorKey& key) override {
    std::vector<std::string> names;
    for (size_t i = files_.size(); i-- > 0;) {
      const SetFile& file = files_[i];
      // A file whose name is given need not be read to be passed over.
      if (file.name.empty() || IsNameOf(file.name, key)) {
        NODEWISE_ASSIGN_OR_RETURN(const NamedTensor entry, Read(file));
        if (IsNameOf(entry.name, key)) return entry.tensor;
        names.push_back(entry.name);
      } else {
        names.push_back(file.name);
      }
    }
    return TensorNotFound(folder_, key, {names.rbegin(), names.rend()});
  }

 private:
  static absl::StatusOr<NamedTensor> Read(const SetFile& file) {
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, ReadTensorFile(file.path));
    if (tensors.size() != 1) {
      return DataLoss("{}: has {} tensors, expected 1", file.path,
                      tensors.size());
    }
    return NamedTensor{file.name.empty() ? tensors[0].name : file.name,
                       tensors[0].tensor};
  }

  std::string folder_;
  std::vector<SetFile> files_;
};

// Returns whether a folder has a file input_N.pb or output_N.pb.
bool IsTestSet(const std::string& folder) {
  return !FilesOf(folder, kInput).empty() || !FilesOf(folder, kOutput).empty();
}

absl::StatusOr<std::unique_ptr<TensorSource>> OpenTestSet(
    const std::string& folder, const TestSetNames& names) {
  std::vector<SetFile> files;
  NODEWISE_RETURN_IF_ERROR(AddFiles(folder, kInput, names.inputs, &files));
  NODEWISE_RETURN_IF_ERROR(AddFiles(folder, kOutput, names.outputs, &files));
  return std::make_unique<TestSet>(folder, std::move(files));
}

// Returns the folders test_data_set_N of a model's folder.
std::vector<std::string> TestSetsIn(const std::string& folder) {
  std::vector<std::string> sets;
  ForEachIn(folder, [&](const fs::path& path) {
    if (path.filename().string().starts_with("test_data_set_") &&
        IsTestSet(path)) {
      sets.push_back(path);
    }
  });
  std::ranges::sort(sets);
  return sets;
}

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

absl::Status TensorCollector::Consume(const TensorItem& item) {
  Kept kept;
  kept.key = item.key;
  if (item.tensor != nullptr) {
    NODEWISE_ASSIGN_OR_RETURN(kept.tensor, item.Keep());
  }
  kept.why_absent = item.why_absent;
  kept.hash = item.hash;
  if (item.stats != nullptr) kept.stats = *item.stats;
  kept.time = item.time;
  if (item.origin != nullptr) kept.origin = *item.origin;
  kept.is_network_input = item.is_network_input;
  kept_.push_back(std::move(kept));
  return absl::OkStatus();
}

absl::Status TensorCollector::Visit(TensorSink& sink) {
  for (const Kept& kept : kept_) {
    NODEWISE_RETURN_IF_ERROR(sink.Consume(ItemOf(kept)));
  }
  return absl::OkStatus();
}

absl::StatusOr<NDArray> TensorCollector::Find(const TensorKey& key) {
  for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept) {
    if (kept->key == key) return ItemOf(*kept).Keep();
  }
  std::vector<std::string> names;
  for (const Kept& kept : kept_) names.push_back(kept.key.Name());
  return TensorNotFound(name_, key, names);
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
  // That file is a .params file like others, and is read as one if no dump is
  // around it.
  if (file.filename() == kDumpTensorsFile && fs::exists(file, error)) {
    const fs::path folder = file.parent_path();
    auto dump = OpenDumpSource(folder.empty() ? "." : folder.string());
    if (!absl::IsNotFound(dump.status())) return dump;
  }
  NODEWISE_ASSIGN_OR_RETURN(auto opened, TensorFileReader::Open(path));
  return std::make_unique<FileSource>(path, std::move(opened));
}

}  // namespace nodewise
