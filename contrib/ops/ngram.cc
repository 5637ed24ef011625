#include "nodewise/ops/ngram.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

using ops::NgramMode;
template <>
struct Words<NgramMode> {
  static constexpr std::pair<NgramMode, std::string_view> kAll[] = {
      {NgramMode::kTf, "TF"},
      {NgramMode::kIdf, "IDF"},
      {NgramMode::kTfIdf, "TFIDF"}};
};

namespace {

// A larger place is taken for a fault.
constexpr int64_t kMostPlaces = int64_t{1} << 31;

// The n-grams of a pool by content. One may occur more than once.
using Ngram = std::vector<int64_t>;
using Pool = std::map<Ngram, std::vector<size_t>>;

struct TfIdfVectorizer : ops::TfIdfVectorizer {
  static constexpr auto Fields() {
    return FieldList(
        RequiredField<&TfIdfVectorizer::max_gram_length>("max_gram_length"),
        RequiredField<&TfIdfVectorizer::max_skip_count>("max_skip_count"),
        RequiredField<&TfIdfVectorizer::min_gram_length>("min_gram_length"),
        RequiredField<&TfIdfVectorizer::mode>("mode"),
        RequiredField<&TfIdfVectorizer::ngram_counts>("ngram_counts"),
        RequiredField<&TfIdfVectorizer::ngram_indexes>("ngram_indexes"),
        Field<&TfIdfVectorizer::pool_int64s>("pool_int64s"),
        Field<&TfIdfVectorizer::pool_strings>("pool_strings"),
        Field<&TfIdfVectorizer::weights>("weights"));
  }
  absl::Status Check(const Inputs& in) const;
  OutputInfos Infer(const Inputs& in) const;
  absl::Status Evaluate(EvalArgs& args) const;

 private:
  absl::Status CheckPool() const;
  absl::Status CheckIndexes() const;
  int64_t Places() const {
    return *std::max_element(ngram_indexes.begin(), ngram_indexes.end()) + 1;
  }
  // Returns how many n-grams of length `n` + 1 the pool has. REQUIRES: the pool
  // is valid.
  int64_t CountAt(size_t n) const {
    const int64_t end = n + 1 < ngram_counts.size()
                            ? ngram_counts[n + 1]
                            : static_cast<int64_t>(pool_int64s->size());
    return (end - ngram_counts[n]) / static_cast<int64_t>(n + 1);
  }
  Pool MakePool() const;
  // By n-gram of the pool.
  std::vector<int64_t> Counts(const Pool& pool,
                              absl::Span<const int64_t> row) const;
  SumOfTerms Term(size_t ngram, int64_t count) const;
};

absl::Status TfIdfVectorizer::Check(const Inputs& in) const {
  if (pool_strings.has_value()) {
    return absl::UnimplementedError(
        "attribute pool_strings: is given, and strings are refused, expected "
        "pool_int64s");
  }
  if (!pool_int64s.has_value()) {
    return AttributeError("pool_int64s", "is missing, expected the n-grams");
  }
  if (min_gram_length < 1 || max_gram_length < min_gram_length) {
    return AttributeError(
        "min_gram_length",
        fmt::format("is {}, expected 1 to max_gram_length ({})",
                    min_gram_length.get(), max_gram_length.get()));
  }
  if (max_skip_count < 0) {
    return AttributeError(
        "max_skip_count",
        fmt::format("is {}, expected 0 or more", max_skip_count.get()));
  }
  return All(RequireIndex(in, 0), RequireRank(in, 0, 1, 2), CheckPool(),
             CheckIndexes());
}

absl::Status TfIdfVectorizer::CheckPool() const {
  const auto size = static_cast<int64_t>(pool_int64s->size());
  int64_t begin = 0;
  for (size_t n = 0; n <= ngram_counts.size(); ++n) {
    const int64_t end = n < ngram_counts.size() ? ngram_counts[n] : size;
    // The pool begins with the n-grams of length 1.
    const bool is_whole =
        n == 0 ? end == 0 : (end - begin) % static_cast<int64_t>(n) == 0;
    if (end < begin || end > size || !is_whole) {
      return AttributeError(
          "ngram_counts",
          fmt::format("does not cut a pool of {} numbers into n-grams of "
                      "1, 2, ... ({} is not an end for those of {})",
                      size, end, n));
    }
    begin = end;
  }
  return absl::OkStatus();
}

absl::Status TfIdfVectorizer::CheckIndexes() const {
  size_t ngrams = 0;
  for (size_t n = 0; n < ngram_counts.size(); ++n) {
    ngrams += static_cast<size_t>(CountAt(n));
  }
  if (ngram_indexes.empty() || ngram_indexes.size() != ngrams) {
    return AttributeError(
        "ngram_indexes",
        fmt::format("has {} places, expected one for each of the {} "
                    "n-grams, and 1 at least",
                    ngram_indexes.size(), ngrams));
  }
  for (const int64_t place : ngram_indexes) {
    if (place >= 0 && place < kMostPlaces) continue;
    return AttributeError("ngram_indexes",
                          fmt::format("has {}, expected 0 to 2^31", place));
  }
  if (!weights.has_value() || weights->empty() || weights->size() == ngrams) {
    return absl::OkStatus();
  }
  return AttributeError("weights", fmt::format("has {} numbers, expected {}",
                                               weights->size(), ngrams));
}

OutputInfos TfIdfVectorizer::Infer(const Inputs& in) const {
  if (!in.type(0).has_rank()) return {TensorType(kFloat32)};
  Shape shape = *in.type(0).shape;
  shape.back() = Places();
  return {TensorType(kFloat32, std::move(shape))};
}

Pool TfIdfVectorizer::MakePool() const {
  Pool pool;
  size_t id = 0;
  for (size_t n = 0; n < ngram_counts.size(); ++n) {
    const auto length = static_cast<int64_t>(n + 1);
    const bool is_wanted =
        length >= min_gram_length && length <= max_gram_length;
    const int64_t* from = pool_int64s->data() + ngram_counts[n];
    for (int64_t i = 0; i < CountAt(n); ++i, ++id, from += length) {
      if (is_wanted) pool[Ngram(from, from + length)].push_back(id);
    }
  }
  return pool;
}

std::vector<int64_t> TfIdfVectorizer::Counts(
    const Pool& pool, absl::Span<const int64_t> row) const {
  std::vector<int64_t> counts(ngram_indexes.size());
  const auto size = static_cast<int64_t>(row.size());
  const int64_t longest = std::min(
      {max_gram_length.get(), size, static_cast<int64_t>(ngram_counts.size())});
  for (int64_t length = min_gram_length; length <= longest; ++length) {
    if (CountAt(static_cast<size_t>(length - 1)) == 0) continue;
    Ngram ngram(static_cast<size_t>(length));
    // A single number skips nothing, so the limit does not matter.
    const int64_t most_skips = length == 1 ? 0 : max_skip_count.get();
    for (int64_t step = 1; step - 1 <= most_skips; ++step) {
      if (step > (size - 1) / std::max<int64_t>(length - 1, 1) && length > 1) {
        break;
      }
      const int64_t starts = size - step * (length - 1);
      for (int64_t start = 0; start < starts; ++start) {
        for (int64_t i = 0; i < length; ++i) {
          ngram[static_cast<size_t>(i)] =
              row[static_cast<size_t>(start + i * step)];
        }
        const auto found = pool.find(ngram);
        if (found == pool.end()) continue;
        for (const size_t id : found->second) ++counts[id];
      }
    }
  }
  return counts;
}

// What an n-gram adds to its place.
SumOfTerms TfIdfVectorizer::Term(size_t ngram, int64_t count) const {
  double term = static_cast<double>(count);
  if (mode == NgramMode::kIdf) term = std::min(term, 1.0);
  if (mode != NgramMode::kTf && weights.has_value() && !weights->empty()) {
    term *= (*weights)[ngram];
  }
  return {1, std::fabs(term), term * term, term};
}

absl::Status TfIdfVectorizer::Evaluate(EvalArgs& args) const {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int64_t> x, args.Ints(0));
  const Pool pool = MakePool();
  const auto shape = args.shape(0);
  const int64_t rows = shape.size() == 2 ? shape[0] : 1;
  const auto size = static_cast<size_t>(shape.back());
  const auto places = static_cast<size_t>(Places());
  Bounds* const bounds = args.bounds(0);
  if (bounds != nullptr) {
    bounds->proved.resize(static_cast<size_t>(CountOf(y)));
    bounds->expected.resize(bounds->proved.size());
  }
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = static_cast<size_t>(r);
    const std::vector<int64_t> counts =
        Counts(pool, absl::MakeConstSpan(x).subspan(row * size, size));
    std::vector<SumOfTerms> sums(places);
    for (size_t ngram = 0; ngram < counts.size(); ++ngram) {
      if (counts[ngram] == 0) continue;
      SumOfTerms& sum = sums[static_cast<size_t>(ngram_indexes[ngram])];
      const SumOfTerms term = Term(ngram, counts[ngram]);
      sum.terms += term.terms;
      sum.absolute += term.absolute;
      sum.squares += term.squares;
      sum.result += term.result;
    }
    for (size_t i = 0; i < places; ++i) {
      const size_t at = row * places + i;
      y.As<float>()[at] = static_cast<float>(sums[i].result);
      if (bounds == nullptr) continue;
      // Counts are exact.
      const SumBound bound = mode == NgramMode::kTf || sums[i].terms == 0
                                 ? SumBound{0, 0}
                                 : BoundSum(kFloat32, sums[i]);
      bounds->proved[at] = bound.proved;
      bounds->expected[at] = bound.expected;
    }
  }
  return absl::OkStatus();
}

constexpr OperatorDef kNgramOperators[] = {
    Row<ops::TfIdfVectorizer, TfIdfVectorizer>({.name = "TfIdfVectorizer",
                                                .since = 9,
                                                .inputs = {"X"},
                                                .outputs = {"Y"},
                                                .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> NgramOperators() { return kNgramOperators; }

}  // namespace nodewise
