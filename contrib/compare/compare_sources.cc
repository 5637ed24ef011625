// Two sources of tensors are compared in two steps. All of the candidate's
// tensors are kept first; then each tensor of the reference is compared as it
// comes with the one of its name, or the one that a map gives it. What is left
// on both sides is paired by how alike the names are, if that was asked for.

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "nodewise/compare/compare.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr char kBlanks[] = " \t\r";

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// The two names of a line; none unless there are two. With a tab in it, a line
// may have names with blanks. A second tab, or a second blank where there is no
// tab, leaves open where the first name ends.
std::optional<std::pair<std::string, std::string>> NamesIn(
    std::string_view line) {
  size_t end = line.find('\t');
  const bool has_tab = end != std::string_view::npos;
  if (!has_tab) end = line.find(' ');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view left = Trimmed(line.substr(0, end));
  const std::string_view right = Trimmed(line.substr(end));
  const bool is_clear =
      right.find(has_tab ? '\t' : ' ') == std::string_view::npos;
  if (left.empty() || right.empty() || !is_clear) return std::nullopt;
  return std::pair(std::string(left), std::string(right));
}

// All that a source said of a tensor. Its contents are read again where they
// were let go.
struct Kept {
  TensorKey key;
  std::string type;  // Empty if there was no tensor.
  NDArray tensor;
  std::string why_absent;
  std::optional<TensorHash> hash;

  bool has_tensor() const { return !type.empty(); }
};

// How much is kept of a file whose tensors are found again; the rest is read
// twice. Files of up to 256 MiB are read once.
constexpr size_t kMostKeptBytes = size_t{1} << 28;

// Keeps the tensors of a source, which must outlive it.
class KeptTensors : public TensorSink {
 public:
  explicit KeptTensors(TensorSource& source)
      : source_(source), may_let_go_(IsRereadable(source)) {}

  absl::Status Consume(const TensorItem& item) override {
    Kept kept;
    kept.key = item.key;
    kept.why_absent = item.why_absent;
    kept.hash = item.hash;
    if (item.tensor != nullptr) {
      const NDArray borrowed = NDArray::Borrow(*item.tensor, nullptr);
      kept.type = TypeToString(borrowed.shape(), borrowed.dtype());
      const size_t bytes = may_let_go_ ? borrowed.bytes() : 0;
      if (bytes <= kMostKeptBytes - bytes_) {
        bytes_ += bytes;
        NODEWISE_ASSIGN_OR_RETURN(kept.tensor, item.Keep());
      }
    }
    kept_.push_back(std::move(kept));
    return absl::OkStatus();
  }

  const std::vector<Kept>& kept() const { return kept_; }
  // REQUIRES: kept.has_tensor().
  absl::StatusOr<NDArray> TensorOf(const Kept& kept) const {
    if (kept.tensor.defined()) return kept.tensor;
    return source_.Find(kept.key);
  }

 private:
  TensorSource& source_;
  const bool may_let_go_;
  size_t bytes_ = 0;  // Kept of what could be found again.
  std::vector<Kept> kept_;
};

class ComparingSink : public TensorSink {
 public:
  ComparingSink(TensorSource& reference, const KeptTensors& candidate,
                const SourceOptions& options)
      : candidate_(candidate), options_(options), unpaired_(reference) {
    for (const Kept& kept : candidate.kept()) waiting_[kept.key.Name()] = &kept;
    for (const auto& [expected, actual] : options.names) mapped_.insert(actual);
  }

  absl::Status Consume(const TensorItem& item) override {
    const std::string name = item.key.Name();
    const WorkingOn on(name);
    if (item.hash && item.hash->kind == HashKind::kXxh3) {
      names_by_hash_.emplace(item.hash->value, name);
    }
    const auto mapped = options_.names.find(name);
    const bool is_mapped = mapped != options_.names.end();
    const std::string& partner = is_mapped ? mapped->second : name;
    if (is_mapped) found_names_.insert(name);
    const auto found = waiting_.find(partner);
    const bool is_taken = !is_mapped && mapped_.contains(partner);
    if (found == waiting_.end() || is_taken) return AddUnpaired(item);
    const Kept& kept = *found->second;
    waiting_.erase(found);
    Compare(item, kept, is_mapped ? PairedBy::kMap : PairedBy::kName);
    return absl::OkStatus();
  }

  absl::StatusOr<Comparison> Finish() {
    NODEWISE_RETURN_IF_ERROR(CheckMap());
    std::vector<const Kept*> left;
    for (const Kept& kept : candidate_.kept()) {
      const auto waiting = waiting_.find(kept.key.Name());
      if (waiting != waiting_.end() && waiting->second == &kept) {
        left.push_back(&kept);
      }
    }
    if (options_.pair_fuzzily) PairLeft(left);
    AddStaleCopies();
    for (const Kept& kept : unpaired_.kept()) {
      if (is_paired_.contains(&kept)) continue;
      SkipMissing(kept.key, "the candidate does not have it");
    }
    for (const Kept* kept : left) {
      if (is_paired_.contains(kept)) continue;
      SkipMissing(kept->key, "the reference does not have it");
    }
    return std::move(comparison_);
  }

 private:
  // A tensor that has no partner yet is kept as long as it may get one.
  absl::Status AddUnpaired(const TensorItem& item) {
    if (options_.pair_fuzzily) return unpaired_.Consume(item);
    SkipMissing(item.key, "the candidate does not have it");
    return absl::OkStatus();
  }

  void Compare(const TensorItem& item, const Kept& kept, PairedBy by) {
    // Without contents on one side the hashes must do.
    if (item.tensor == nullptr || !kept.has_tensor()) {
      return CompareHashesOf(item, kept);
    }
    const auto actual = candidate_.TensorOf(kept);
    if (!actual.ok()) return SkipUnreadable(item.key, actual.status());
    auto compared = CompareTensors(item, **actual, options_.compare);
    if (absl::IsInvalidArgument(compared.status())) {
      return Skip(item.key,
                  std::string(MessageOf(compared.status())) +
                      RelationOf(item, **actual),
                  SkippedTensor::Kind::kOtherType);
    }
    if (!compared.ok()) return SkipUnreadable(item.key, compared.status());
    if (compared->is_wrong() && kept.hash) {
      wrong_.emplace_back(comparison_.tensors.size(), *kept.hash);
    }
    compared->candidate = kept.key;
    compared->paired_by = by;
    comparison_.tensors.push_back(*std::move(compared));
  }

  // Programs that feed a network its input in another shape or type mean the
  // same numbers all the same.
  std::string RelationOf(const TensorItem& item, const DLTensor& actual) const {
    if (!options_.compare.describe) return "";
    const auto relation = FindRelation(*item.tensor, actual);
    if (!relation) return "";
    return "; it is " + WordsOf(*relation, *item.tensor);
  }

  // Dumps of statistics have no tensors, and most of what they can show is that
  // tensors are equal. An input of a node is not counted: some output is the
  // same tensor.
  void CompareHashesOf(const TensorItem& item, const Kept& kept) {
    const bool was_read = item.key.role == TensorRole::kInput;
    if (item.hash && kept.hash) {
      const HashMatch match = CompareHashes(*item.hash, *kept.hash);
      if (match == HashMatch::kSame) {
        comparison_.equal_hashes += was_read ? 0 : 1;
        return;
      }
      if (match == HashMatch::kDifferent && !was_read) {
        return Skip(item.key, "only hashes are known, and they differ",
                    SkippedTensor::Kind::kOtherHash);
      }
    }
    if (was_read) return;
    const std::string why =
        item.tensor == nullptr
            ? fmt::format("the reference has no tensor: {}", item.why_absent)
            : "the candidate has no tensor: " + kept.why_absent;
    Skip(item.key, why, SkippedTensor::Kind::kNotRecorded);
  }

  // Says which wrong tensors are equal to another one of the reference. A
  // kernel that was given the wrong buffer, or did not run, leaves the bytes of
  // another tensor. Only hashes of one kind can be compared.
  void AddStaleCopies() {
    for (const auto& [index, hash] : wrong_) {
      const auto found = names_by_hash_.find(hash.value);
      if (hash.kind != HashKind::kXxh3 || found == names_by_hash_.end()) {
        continue;
      }
      TensorComparison& tensor = comparison_.tensors[index];
      if (!tensor.details) tensor.details.emplace();
      tensor.details->patterns.insert(
          tensor.details->patterns.begin(),
          {FailureShape::kStaleCopy,
           "has the bytes of the reference's " + found->second});
    }
  }

  void PairLeft(const std::vector<const Kept*>& left) {
    std::vector<const Kept*> here, there;
    std::vector<UnpairedTensor> expected, actual;
    const auto add = [](const Kept& kept, std::vector<const Kept*>* side,
                        std::vector<UnpairedTensor>* names) {
      if (!kept.has_tensor()) return;
      side->push_back(&kept);
      names->push_back({kept.key.Name(), kept.type});
    };
    for (const Kept& kept : unpaired_.kept()) add(kept, &here, &expected);
    for (const Kept* kept : left) add(*kept, &there, &actual);
    for (const FuzzyPair& pair : PairFuzzily(expected, actual)) {
      const Kept& reference = *here[pair.expected];
      const Kept& candidate = *there[pair.actual];
      const auto tensor = unpaired_.TensorOf(reference);
      if (tensor.ok()) {
        Compare({.key = reference.key,
                 .tensor = tensor->tensor(),
                 .why_absent = reference.why_absent},
                candidate, pair.by);
      } else {
        SkipUnreadable(reference.key, tensor.status());
      }
      is_paired_.insert(&reference);
      is_paired_.insert(&candidate);
    }
  }

  absl::Status CheckMap() const {
    // A map with a mistyped name would silently compare less than it was
    // written for.
    std::set<std::string> there;
    for (const Kept& kept : candidate_.kept()) there.insert(kept.key.Name());
    for (const auto& [expected, actual] : options_.names) {
      const bool is_here = found_names_.contains(expected);
      if (is_here && there.contains(actual)) continue;
      return NotFound(
          "the map names {} -> {}: the {} has no tensor of that name, expected "
          "names of both",
          Printable(expected), Printable(actual),
          is_here ? "candidate" : "reference");
    }
    return absl::OkStatus();
  }

  // Inputs of nodes are not missed: some output is the same tensor.
  void SkipMissing(const TensorKey& key, std::string why) {
    if (key.role == TensorRole::kInput) return;
    Skip(key, std::move(why), SkippedTensor::Kind::kMissing);
  }
  void SkipUnreadable(const TensorKey& key, const absl::Status& status) {
    Skip(key, std::string(MessageOf(status)),
         SkippedTensor::Kind::kNotRecorded);
  }
  void Skip(const TensorKey& key, std::string why, SkippedTensor::Kind kind) {
    comparison_.skipped.push_back({key, std::move(why), kind});
  }

  const KeptTensors& candidate_;
  const SourceOptions& options_;
  std::unordered_map<std::string, const Kept*> waiting_;  // By name.
  std::set<std::string> mapped_;       // The candidate's names in the map.
  std::set<std::string> found_names_;  // The reference's that have come.
  std::unordered_map<uint64_t, std::string> names_by_hash_;
  // By index, the candidate's hashes.
  std::vector<std::pair<size_t, TensorHash>> wrong_;
  KeptTensors unpaired_;  // Tensors of the reference.
  std::set<const Kept*> is_paired_;
  Comparison comparison_;
};

}  // namespace

absl::StatusOr<NameMap> ParseNameMap(std::string_view text,
                                     const std::string& where) {
  NameMap names;
  std::set<std::string> actual;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line[0] == '#') continue;
    const auto found = NamesIn(line);
    if (!found) {
      return InvalidArgument(
          "{}:{}: found \"{}\", expected two names (with a tab between them)",
          where, number, Printable(line));
    }
    if (!names.emplace(*found).second || !actual.insert(found->second).second) {
      return InvalidArgument(
          "{}:{}: a name of \"{}\" stands there a second time, expected it "
          "once",
          where, number, Printable(line));
    }
  }
  return names;
}

std::string_view NameOf(PairedBy by) {
  constexpr std::string_view kNames[] = {"name", "map", "spelling", "order",
                                         "words"};
  return kNames[static_cast<size_t>(by)];
}

absl::StatusOr<Comparison> CompareSources(TensorSource& reference,
                                          TensorSource& candidate,
                                          const SourceOptions& options) {
  KeptTensors collected(candidate);
  NODEWISE_RETURN_IF_ERROR(candidate.Visit(collected));
  ComparingSink sink(reference, collected, options);
  NODEWISE_RETURN_IF_ERROR(reference.Visit(sink));
  NODEWISE_ASSIGN_OR_RETURN(Comparison comparison, sink.Finish());
  const bool differ =
      std::ranges::any_of(comparison.skipped, &SkippedTensor::is_difference);
  if (comparison.tensors.empty() && comparison.equal_hashes == 0 && !differ) {
    // Why the first of the tensors was not compared.
    std::string why;
    if (!comparison.skipped.empty()) {
      const SkippedTensor& first = comparison.skipped[0];
      why = fmt::format(" ({}: {})", Printable(first.key.Name()),
                        Printable(first.why));
    }
    return FailedPrecondition(
        "{} and {}: there is nothing to compare{}, expected tensors with the "
        "same names",
        reference.name(), candidate.name(), why);
  }
  return comparison;
}

}  // namespace nodewise
