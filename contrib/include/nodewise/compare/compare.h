#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/compare/bounds.h"
#include "nodewise/compare/failure_shape.h"
#include "nodewise/compare/metrics.h"
#include "nodewise/compare/rules.h"
#include "nodewise/tensors/tensor_sink.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// Which tensor of the candidate is compared with which of the reference. Always
// by name or by kind and order, never by position alone: runners may list the
// same outputs in another order, and a wrong pair looks like a broken operator.
// All functions are pure; any thread may call them.

// The candidate's name of a tensor, by the reference's.
using NameMap = std::map<std::string, std::string>;

// Reads a map file: on each line the reference's name and the candidate's,
// with a tab between them, or blanks if neither name has any. Empty lines and
// those that begin with # mean nothing. Fails with kInvalidArgument, naming
// file and line, for other text, and for a name that stands there twice on one
// side.
absl::StatusOr<NameMap> ParseNameMap(std::string_view text,
                                     const std::string& where);

// A tensor that has no partner of its name.
struct UnpairedTensor {
  std::string name;  // TensorKey::Name().
  std::string type;  // "float32 (1, 64)": only equal ones are paired.
};

// How sure a pair is.
enum class PairedBy {
  kName,
  kMap,
  kSpelling,  // The names are equal but for case, separators and endings.
  kOrder,     // The n-th of all that are called so but for numbers at the end.
  kWords,     // The names share most words.
};
// Returns "name", "map", "spelling", "order" or "words".
std::string_view NameOf(PairedBy by);

struct FuzzyPair {
  size_t expected = 0, actual = 0;  // Indices.
  PairedBy by = PairedBy::kSpelling;
};

// Pairs what is left, surest first, by the three last rules of PairedBy; both
// lists are in the order of their runs. No tensor is in two pairs, and where
// names fit several equally well, there is no pair. The result is in the order
// of the reference.
std::vector<FuzzyPair> PairFuzzily(absl::Span<const UnpairedTensor> expected,
                                   absl::Span<const UnpairedTensor> actual);

// Compares tensors with those of a reference: pairs them, measures how they
// differ (metrics.h) and judges that by a rule (rules.h). Knows tensors and
// nothing of graphs. Any thread may call all functions; a source is used by one
// at a time.

// A tensor of the reference and its partner.
struct TensorComparison {
  TensorKey key;        // The reference's.
  TensorKey candidate;  // What its partner is called.
  PairedBy paired_by = PairedBy::kName;
  std::string type;  // The reference's: "float32 (1, 64)".
  Metrics metrics;
  // If the reference has any, and they had to be worked out.
  std::optional<BoundCheck> bounds;
  // All elements are surely within their bounds, which were not worked out.
  bool is_surely_within = false;
  // Beyond the tolerance of its type, or of a rule that has its own: an
  // element, or all of them together.
  bool is_large = false;
  // An output of a network that holds NaN or infinities, right or wrong.
  bool has_non_finite = false;
  Judgement judgement;
  // If it was asked for and something differs.
  std::optional<DifferenceDetails> details;

  Verdict verdict() const { return judgement.verdict; }
  bool is_wrong() const { return verdict() == Verdict::kError; }
  bool is_equal() const { return metrics.different == 0; }
  // Returns the element that decides: the first that is not finite on one side
  // alone, else that with the largest error for its bound, if bounds judge,
  // else the one furthest beyond the tolerance, or with the largest error.
  // Means nothing if the tensors are equal.
  const ElementDifference& Worst() const;
};

// Returns the verdict that counts for a comparison on equal inputs: a warning
// accuses if the differences are large enough to matter, beyond the tolerance
// of the type; else it passes.
Verdict WeighedVerdict(const TensorComparison& comparison);

// Returns the largest error as a multiple of its bound: above 1 is wrong. 0 if
// nothing differs, infinity where a bound of 0 is exceeded or something is not
// finite, NaN if no bound is known. 1 for what is surely within its bounds.
double ErrorOverBound(const TensorComparison& comparison);

// Returns the norm of the difference for that of the reference: 0 if nothing
// differs, infinity where something is not finite on one side alone or the
// reference is all zeros.
double RelativeError(const TensorComparison& comparison);

struct CompareOptions {
  Rule rule = {};
  // Compares elements of different types as the numbers they are, instead of
  // refusing them.
  bool may_convert = false;
  // Looks at tensors that differ a second time, for the shape of the failure.
  bool describe = false;
};

// Compares a tensor with the reference's. Fails with kInvalidArgument, naming
// both, for different shapes or types, with kNotFound for an item without a
// tensor, and with kUnimplemented for types that have no numbers unless all
// bytes are equal. Bounds of a `bound_source` are only worked out where the
// verdict may depend on them, and then fails as BoundSource does.
absl::StatusOr<TensorComparison> CompareTensors(
    const TensorItem& reference, const DLTensor& candidate,
    const CompareOptions& options = {});

// A tensor that was not compared, and the reason.
struct SkippedTensor {
  enum class Kind {
    kMissing,      // Only one side has it.
    kOtherType,    // The other side has another shape or type: a difference.
    kOtherHash,    // Only hashes are known, and they differ: a difference.
    kNotRecorded,  // Its contents are not known, or not numbers.
  };
  TensorKey key;
  std::string why;
  Kind kind = Kind::kMissing;

  bool is_difference() const {
    return kind == Kind::kOtherType || kind == Kind::kOtherHash;
  }
};

struct Comparison {
  std::vector<TensorComparison> tensors;  // In the reference's order.
  std::vector<SkippedTensor> skipped;
  // Tensors of which both sides have only the hash, and the hashes are equal.
  uint64_t equal_hashes = 0;

  // Returns how many tensors have this verdict.
  size_t CountOf(Verdict verdict) const;
  // Returns how many tensors were skipped for this reason.
  size_t CountOf(SkippedTensor::Kind kind) const;
};

struct SourceOptions {
  CompareOptions compare = {};
  NameMap names = {};  // Wins over equal names.
  // Whether tensors without a partner of their name are paired fuzzily.
  bool pair_fuzzily = false;
};

// Compares what both sources have under the same key, and what the options
// pair. What only one has, or cannot be compared, is skipped with its reason;
// so is what the hashes alone say is different. A wrong tensor whose hash is
// that of another one of the reference is said to be a stale copy of it. What
// nodes have read is compared where both have its contents, and not mentioned
// otherwise. The candidate's tensors are all kept meanwhile, those of mapped
// files without memory. Fails as Visit() does, with kNotFound if a name of the
// map is not in its source, and with kFailedPrecondition, naming both sources,
// if there is nothing to compare.
absl::StatusOr<Comparison> CompareSources(TensorSource& reference,
                                          TensorSource& candidate,
                                          const SourceOptions& options = {});

}  // namespace nodewise
