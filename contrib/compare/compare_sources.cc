// Two sources of tensors, paired and compared.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/compare/compare.h"
#include "nodewise/compare/tensor_relation.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/found_again.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {
namespace {

// What a source said of a tensor. Its contents are read again where they were
// let go.
struct Kept {
  TensorKey key;
  std::string type;  // Empty if there was no tensor.
  NDArray tensor;
  std::string why_absent;
  std::optional<TensorHash> hash;

  bool has_tensor() const { return !type.empty(); }
};

// How much is kept of a file whose tensors are found again; the rest is read
// twice.
constexpr size_t kMostKeptBytes = size_t{1} << 28;

// Keeps the tensors of a source, which must outlive it.
class KeptTensors : public TensorSink {
 public:
  explicit KeptTensors(TensorSource& source)
      : source_(source), may_let_go_(IsFoundAgain(source)) {}

  absl::Status Take(const TensorItem& item) override {
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

// Returns what to read of a tensor that was kept.
TensorItem ItemOfKept(const Kept& kept, const NDArray& tensor) {
  TensorItem item{.key = kept.key};
  if (tensor.defined()) item.tensor = tensor.tensor();
  item.why_absent = kept.why_absent;
  return item;
}

UnpairedTensor UnpairedOf(const Kept& kept) {
  return {kept.key.Name(), kept.type};
}

// Compares each tensor of the reference as it comes.
class ComparingSink : public TensorSink {
 public:
  ComparingSink(TensorSource& reference, const KeptTensors& candidate,
                const SourceOptions& options)
      : candidate_(candidate), options_(options), unpaired_(reference) {
    for (const Kept& kept : candidate.kept()) {
      waiting_[kept.key.Name()] = &kept;
    }
    for (const auto& [expected, actual] : options.names) mapped_.insert(actual);
  }

  absl::Status Take(const TensorItem& item) override {
    const std::string name = item.key.Name();
    const WorkingOn on(name);
    if (item.hash.has_value()) NoteHash(name, *item.hash);
    const auto mapped = options_.names.find(name);
    const bool is_mapped = mapped != options_.names.end();
    const std::string& partner = is_mapped ? mapped->second : name;
    if (is_mapped) found_names_.insert(name);
    const auto found = waiting_.find(partner);
    const bool is_taken = !is_mapped && mapped_.contains(partner);
    if (found == waiting_.end() || is_taken) return TakeUnpaired(item);
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
    if (options_.pair_fuzzily) PairLeft(&left);
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
  // It is kept as long as it may get a partner.
  absl::Status TakeUnpaired(const TensorItem& item) {
    if (options_.pair_fuzzily) return unpaired_.Take(item);
    SkipMissing(item.key, "the candidate does not have it");
    return absl::OkStatus();
  }

  void Compare(const TensorItem& item, const Kept& kept, PairedBy by) {
    if (item.tensor == nullptr || !kept.has_tensor()) {
      return CompareHashesOf(item, kept);
    }
    const auto actual = candidate_.TensorOf(kept);
    if (!actual.ok()) {
      return Skip(item.key, std::string(MessageOf(actual.status())),
                  SkippedTensor::Kind::kNotRecorded);
    }
    auto compared = CompareTensors(item, **actual, options_.compare);
    if (!compared.ok()) {
      const std::string why(MessageOf(compared.status()));
      if (!absl::IsInvalidArgument(compared.status())) {
        return Skip(item.key, why, SkippedTensor::Kind::kNotRecorded);
      }
      return Skip(item.key, why + RelationOf(item, **actual),
                  SkippedTensor::Kind::kOtherType);
    }
    if (compared->is_wrong() && kept.hash.has_value()) {
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
    if (!relation.has_value()) return "";
    return "; it is " + WordsOf(*relation, *item.tensor);
  }

  void CompareHashesOf(const TensorItem& item, const Kept& kept) {
    const bool was_read = item.key.role == TensorRole::kInput;
    if (item.hash.has_value() && kept.hash.has_value()) {
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

  void NoteHash(const std::string& name, TensorHash hash) {
    if (hash.kind == HashKind::kXxh3) names_by_hash_.emplace(hash.value, name);
  }

  // Says which wrong tensors are equal to another one of the reference.
  void AddStaleCopies() {
    for (const auto& [index, hash] : wrong_) {
      const auto found = names_by_hash_.find(hash.value);
      if (hash.kind != HashKind::kXxh3 || found == names_by_hash_.end()) {
        continue;
      }
      TensorComparison& tensor = comparison_.tensors[index];
      if (!tensor.details.has_value()) tensor.details.emplace();
      tensor.details->patterns.insert(
          tensor.details->patterns.begin(),
          {FailureShape::kStaleCopy,
           "has the bytes of the reference's " + found->second});
    }
  }

  void PairLeft(std::vector<const Kept*>* left) {
    std::vector<const Kept*> here;
    for (const Kept& kept : unpaired_.kept()) {
      if (kept.has_tensor()) here.push_back(&kept);
    }
    std::vector<const Kept*> there;
    for (const Kept* kept : *left) {
      if (kept->has_tensor()) there.push_back(kept);
    }
    std::vector<UnpairedTensor> expected, actual;
    for (const Kept* kept : here) expected.push_back(UnpairedOf(*kept));
    for (const Kept* kept : there) actual.push_back(UnpairedOf(*kept));
    for (const FuzzyPair& pair : PairFuzzily(expected, actual)) {
      const Kept& reference = *here[pair.expected];
      const Kept& candidate = *there[pair.actual];
      const auto tensor = unpaired_.TensorOf(reference);
      if (tensor.ok()) {
        Compare(ItemOfKept(reference, *tensor), candidate, pair.by);
      } else {
        Skip(reference.key, std::string(MessageOf(tensor.status())),
             SkippedTensor::Kind::kNotRecorded);
      }
      is_paired_.insert(&reference);
      is_paired_.insert(&candidate);
    }
  }

  absl::Status CheckMap() const {
    std::set<std::string> there;
    for (const Kept& kept : candidate_.kept()) there.insert(kept.key.Name());
    for (const auto& [expected, actual] : options_.names) {
      const bool is_here = found_names_.contains(expected);
      if (is_here && there.contains(actual)) continue;
      return absl::NotFoundError(fmt::format(
          "the map names {} -> {}: the {} has no tensor of that name, expected "
          "names of both",
          Printable(expected), Printable(actual),
          is_here ? "candidate" : "reference"));
    }
    return absl::OkStatus();
  }

  // Inputs of nodes are not missed.
  void SkipMissing(const TensorKey& key, std::string why) {
    if (key.role == TensorRole::kInput) return;
    Skip(key, std::move(why), SkippedTensor::Kind::kMissing);
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

// Why the first of the tensors was not compared.
std::string FirstReason(const Comparison& comparison) {
  if (comparison.skipped.empty()) return "";
  const SkippedTensor& first = comparison.skipped[0];
  return fmt::format(" ({}: {})", Printable(first.key.Name()),
                     Printable(first.why));
}

}  // namespace

absl::StatusOr<Comparison> CompareSources(TensorSource& reference,
                                          TensorSource& candidate,
                                          const SourceOptions& options) {
  KeptTensors collected(candidate);
  NODEWISE_RETURN_IF_ERROR(candidate.Visit(collected));
  ComparingSink sink(reference, collected, options);
  NODEWISE_RETURN_IF_ERROR(reference.Visit(sink));
  NODEWISE_ASSIGN_OR_RETURN(Comparison comparison, sink.Finish());
  const bool differ =
      std::any_of(comparison.skipped.begin(), comparison.skipped.end(),
                  [](const SkippedTensor& one) { return one.is_difference(); });
  if (comparison.tensors.empty() && comparison.equal_hashes == 0 && !differ) {
    return absl::FailedPreconditionError(fmt::format(
        "{} and {}: there is nothing to compare{}, expected tensors with the "
        "same names",
        reference.name(), candidate.name(), FirstReason(comparison)));
  }
  return comparison;
}

}  // namespace nodewise
