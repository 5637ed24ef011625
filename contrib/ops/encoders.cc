#include "nodewise/ops/encoders.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/classic_rules.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/support/status.h"

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

template <typename T>
NDArray LabelList(DLDataType dtype, const std::vector<T>& values) {
  if (values.empty()) return {};
  const int64_t shape[] = {static_cast<int64_t>(values.size())};
  auto tensor = NDArray::Empty(shape, dtype, kCpu);
  if (!tensor.ok()) return {};
  std::copy(values.begin(), values.end(), tensor->template As<T>());
  return *std::move(tensor);
}

struct LabelTable {
  NDArray keys;
  NDArray values;
  NDArray fallback;  // One value, or none of another type.
};

// Returns a number that keys have in common if they are the same. By value
// every NaN is one key, and so are 0 and -0; by bits they are different ones. A
// float32 is widened for this, so that keys of both float types have one form.
template <typename T>
uint64_t CommonKey(T key, bool by_value) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr uint64_t kNan = 0x7FF8000000000000;
    if (by_value && std::isnan(key)) return kNan;
    const double wide = static_cast<double>(key);
    return std::bit_cast<uint64_t>(by_value && wide == 0 ? 0.0 : wide);
  } else {
    return static_cast<uint64_t>(static_cast<int64_t>(key));
  }
}

template <typename F>
absl::Status WithKey(DLDataType dtype, F&& f) {
  if (dtype == kInt64) return CallWith(f, int64_t{});
  if (dtype == kInt32) return CallWith(f, int32_t{});
  if (dtype == kInt16) return CallWith(f, int16_t{});
  if (dtype == kFloat32) return CallWith(f, float{});
  if (dtype == kFloat64) return CallWith(f, double{});
  return RefuseType(dtype, "an integer of 16 to 64 bits, float32 or float64");
}

// The table of the attributes that version 2 has too.
absl::StatusOr<LabelTable> TableOf(const ops::LabelEncoder2& op) {
  NODEWISE_RETURN_IF_ERROR(
      All(RefuseStrings("keys_strings", op.keys_strings),
          RefuseStrings("values_strings", op.values_strings)));
  if (!op.keys_int64s.empty() && !op.keys_floats.empty()) {
    return AttributeError("keys_floats", "is given beside keys_int64s");
  }
  if (!op.values_int64s.empty() && !op.values_floats.empty()) {
    return AttributeError("values_floats", "is given beside values_int64s");
  }
  const auto list = [](const auto& integers, const auto& floats) {
    return floats.empty() ? LabelList(kInt64, integers)
                          : LabelList(kFloat32, floats);
  };
  return LabelTable{list(op.keys_int64s, op.keys_floats),
                    list(op.values_int64s, op.values_floats), NDArray()};
}

// Adds what stands in tensors, which only version 4 has.
absl::Status AddTensors(const ops::LabelEncoder& op, LabelTable* table) {
  const struct {
    const char* name;
    const std::optional<NDArray>& given;
    NDArray* part;
  } tensors[] = {{"keys_tensor", op.keys_tensor, &table->keys},
                 {"values_tensor", op.values_tensor, &table->values},
                 {"default_tensor", op.default_tensor, &table->fallback}};
  for (const auto& [name, given, part] : tensors) {
    if (!given.has_value()) continue;
    if (part->defined()) {
      return AttributeError(name, "is given beside another list");
    }
    const absl::Status known = WithKey(given->dtype(), [](auto) {});
    if (!known.ok()) return AttributeError(name, std::string(MessageOf(known)));
    *part = *given;
  }
  return absl::OkStatus();
}

absl::Status CheckTable(const LabelTable& table) {
  if (!table.keys.defined()) {
    return AttributeError("keys_int64s", "is missing, as other keys are");
  }
  if (!table.values.defined()) {
    return AttributeError("values_int64s", "is missing, as other values are");
  }
  if (CountOf(table.keys) != CountOf(table.values)) {
    return WrongAttribute("keys_*", "has {} elements, but values_* has {}",
                          CountOf(table.keys), CountOf(table.values));
  }
  if (table.fallback.defined() &&
      (!(table.fallback.dtype() == table.values.dtype()) ||
       CountOf(table.fallback) != 1)) {
    return WrongAttribute("default_tensor",
                          "is not a single element of type {}, as values are",
                          ToString(table.values.dtype()));
  }
  return absl::OkStatus();
}

// Returns the value of keys that are not in the table, in the type of the
// values: that of the tensor, or the attribute for their type. An int64_t is
// not made a double on the way, where it would lose digits.
absl::StatusOr<NDArray> FallbackOf(const LabelTable& table, int64_t integer,
                                   float number) {
  if (table.fallback.defined()) return table.fallback;
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray one,
      NDArray::Empty(absl::Span<const int64_t>(), table.values.dtype(), kCpu));
  const double value = IsFloat(one.dtype()) ? static_cast<double>(number)
                                            : static_cast<double>(integer);
  if (one.dtype() == kInt64) {
    *one.As<int64_t>() = integer;
  } else {
    StoreDoubles(&value, 0, 1, one);
  }
  return one;
}

// Values are copied as bytes, since they may be of any type. The version that
// compares keys by value also takes the last one of equal keys, not the first.
absl::Status LookUp(EvalArgs& args, const LabelTable& table,
                    const NDArray& fallback, bool by_value) {
  const NDArray& x = args.in(0);
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray y, args.MakeOutput(0, x.shape(), table.values.dtype()));
  const size_t bytes = ElementBytes(y.dtype());
  const auto* const values = table.values.As<uint8_t>();
  auto* const to = y.As<uint8_t>();
  return WithKey(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::map<uint64_t, const uint8_t*> places;
    // Keys have the type of the input, as Check() has seen.
    const T* const keys = table.keys.As<T>();
    for (int64_t i = 0; i < CountOf(table.keys); ++i) {
      const auto* const value = values + static_cast<size_t>(i) * bytes;
      const auto place =
          places.emplace(CommonKey(keys[i], by_value), value).first;
      if (by_value) place->second = value;
    }
    const T* const from = x.As<T>();
    for (int64_t i = 0; i < CountOf(x); ++i) {
      const auto found = places.find(CommonKey(from[i], by_value));
      std::memcpy(
          to + static_cast<size_t>(i) * bytes,
          found == places.end() ? fallback.As<uint8_t>() : found->second,
          bytes);
    }
  });
}

template <typename Class>
struct Encoder : Class {
  // Version 4 has a tensor for each kind of lists, too.
  static constexpr auto Fields() {
    constexpr auto kLists =
        FieldList(Field<&Class::default_float>("default_float"),
                  Field<&Class::default_int64>("default_int64"),
                  Field<&Class::default_string>("default_string"),
                  Field<&Class::keys_floats>("keys_floats"),
                  Field<&Class::keys_int64s>("keys_int64s"),
                  Field<&Class::keys_strings>("keys_strings"),
                  Field<&Class::values_floats>("values_floats"),
                  Field<&Class::values_int64s>("values_int64s"),
                  Field<&Class::values_strings>("values_strings"));
    if constexpr (kHasTensors) {
      return SortedFields(
          kLists, FieldList(Field<&Class::default_tensor>("default_tensor"),
                            Field<&Class::keys_tensor>("keys_tensor"),
                            Field<&Class::values_tensor>("values_tensor")));
    } else {
      return kLists;
    }
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_ASSIGN_OR_RETURN(const LabelTable table, Table());
    return RequireType(in, 0, table.keys.dtype());
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    NODEWISE_ASSIGN_OR_RETURN(const LabelTable table, Table());
    return LikeInput(in, 0, table.values.dtype());
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const LabelTable table, Table());
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray fallback,
        FallbackOf(table, this->default_int64, this->default_float));
    // How keys are compared changed with the version that brought the tensors.
    return LookUp(args, table, fallback, kHasTensors);
  }

 private:
  static constexpr bool kHasTensors = std::is_same_v<Class, ops::LabelEncoder>;

  // Made anew for each question, since an operation keeps nothing but its
  // attributes.
  absl::StatusOr<LabelTable> Table() const {
    NODEWISE_ASSIGN_OR_RETURN(LabelTable table, TableOf(*this));
    if constexpr (kHasTensors) {
      NODEWISE_RETURN_IF_ERROR(AddTensors(*this, &table));
    }
    NODEWISE_RETURN_IF_ERROR(CheckTable(table));
    return table;
  }
};

// Cuts a number off to an integer; none if that has more than 64 bits.
template <typename T>
std::optional<int64_t> AsCategory(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    // 2^63, which is the first number that is too large. NaN fits nowhere.
    constexpr T kEnd = static_cast<T>(9223372036854775808.0);
    if (!(x >= -kEnd && x < kEnd)) return std::nullopt;
  }
  return static_cast<int64_t>(x);
}

// The result has one more side, with a place for each category.
struct OneHotEncoder : ops::OneHotEncoder {
  static constexpr auto Fields() {
    using Class = ops::OneHotEncoder;
    return FieldList(Field<&Class::cats_int64s>("cats_int64s"),
                     Field<&Class::cats_strings>("cats_strings"),
                     Field<&Class::zeros>("zeros"));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(RefuseStrings("cats_strings", cats_strings));
    if (cats_int64s.empty()) {
      return AttributeError("cats_int64s", "is missing, expected categories");
    }
    return RequireClassic(in, 0);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    TensorType type(kFloat32);
    type.shape = in.type(0).shape;
    if (type.shape.has_value()) type.shape->emplace_back(Categories());
    return Countable(OutputInfos{std::move(type)});
  }

  absl::Status Evaluate(EvalArgs& args) const {
    const NDArray& x = args.in(0);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    auto* const to = y.As<float>();
    std::fill_n(to, CountOf(y), 0.0F);
    // If a category is there twice, its last place counts.
    std::map<int64_t, int64_t> places;
    for (int64_t i = 0; i < Categories(); ++i) {
      places[cats_int64s[static_cast<size_t>(i)]] = i;
    }
    return WithKey(x.dtype(), [&](auto zero) -> absl::Status {
      using T = decltype(zero);
      const T* const from = x.As<T>();
      for (int64_t i = 0; i < CountOf(x); ++i) {
        // A number that is not a category is an error only if `zeros` says so.
        const std::optional<int64_t> category = AsCategory(from[i]);
        const auto found =
            category.has_value() ? places.find(*category) : places.end();
        if (found != places.end()) {
          to[i * Categories() + found->second] = 1;
        } else if (!zeros) {
          return WrongInput(0, "has {}, expected a category, since zeros is 0",
                            from[i]);
        }
      }
      return absl::OkStatus();
    });
  }

 private:
  int64_t Categories() const {
    return static_cast<int64_t>(cats_int64s.size());
  }
};

// Rows are built in double and stored as float32, whose own rounding is the
// only one for all types but integers of 64 bits, which may be rounded to
// float64 on the way.
struct FeatureVectorizer : ops::FeatureVectorizer {
  static constexpr auto Fields() {
    using Class = ops::FeatureVectorizer;
    return FieldList(Field<&Class::inputdimensions>("inputdimensions"));
  }

  absl::Status Check(const Inputs& in) const {
    if (in.size() == 0) {
      return InvalidArgument("has no input, expected one or more");
    }
    if (!inputdimensions.empty() && inputdimensions.size() != in.size()) {
      return WrongAttribute("inputdimensions",
                            "has {} elements, expected {}, one for each input",
                            inputdimensions.size(), in.size());
    }
    // No row is that wide, and the sum of all widths cannot overflow.
    constexpr int64_t kMost = int64_t{1} << 40;
    for (const int64_t width : inputdimensions) {
      if (width >= 0 && width <= kMost) continue;
      return WrongAttribute("inputdimensions", "has {}, expected 0 or more",
                            width);
    }
    for (size_t i = 0; i < in.size(); ++i) {
      NODEWISE_RETURN_IF_ERROR(
          All(RequireClassic(in, i), RequireRank(in, i, 1, INT32_MAX)));
      const Dim rows = CountRows(in, i);
      const Dim first = CountRows(in, 0);
      if (!rows.is_known() || !first.is_known() ||
          rows.size() == first.size()) {
        continue;
      }
      return WrongInput(i, "has {} rows, expected {} as input 0", rows.size(),
                        first.size());
    }
    return RequireSameType(in);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    Dim width = 0;
    for (size_t i = 0; i < in.size(); ++i) width = Plus(width, Width(in, i));
    return Countable(
        OutputInfos{TensorType(kFloat32, Shape{CountRows(in, 0), width})});
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const int64_t rows = y.shape()[0];
    const int64_t width = y.shape()[1];
    // A row that is shorter than it should be is filled up with 0.
    std::vector<double> out(static_cast<size_t>(rows * width), 0);
    // In a row of the output, the columns of all inputs lie side by side.
    int64_t begin = 0;
    for (size_t i = 0; i < args.num_inputs(); ++i) {
      const auto shape = args.shape(i);
      const int64_t given = Product(shape.subspan(shape.size() == 1 ? 0 : 1));
      const int64_t wanted =
          inputdimensions.empty() ? given : inputdimensions[i];
      const std::vector<double> x = ToDoubles(args.in(i));
      for (int64_t row = 0; row < rows; ++row) {
        std::copy_n(x.begin() + row * given, std::min(given, wanted),
                    out.begin() + row * width + begin);
      }
      begin += wanted;
    }
    StoreDoubles(out.data(), 0, CountOf(y), y);
    return absl::OkStatus();
  }

 private:
  Dim Width(const Inputs& in, size_t i) const {
    if (!inputdimensions.empty()) return inputdimensions[i];
    const std::optional<Shape>& shape = in.type(i).shape;
    if (!shape.has_value()) return {};
    return ProductOf(*shape, shape->size() == 1 ? 0 : 1, shape->size());
  }
};

// The output is as long as its highest place, so a larger one is taken for a
// fault.
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

  absl::Status Check(const Inputs& in) const {
    if (pool_strings.has_value()) {
      return Unimplemented(
          "attribute pool_strings: is given, and strings are refused, expected "
          "pool_int64s");
    }
    if (!pool_int64s.has_value()) {
      return AttributeError("pool_int64s", "is missing, expected the n-grams");
    }
    // Lengths are numbers of the model, and loops go through all of them.
    if (min_gram_length < 1 || max_gram_length < min_gram_length) {
      return WrongAttribute("min_gram_length",
                            "is {}, expected 1 to max_gram_length ({})",
                            min_gram_length.get(), max_gram_length.get());
    }
    if (max_skip_count < 0) {
      return WrongAttribute("max_skip_count", "is {}, expected 0 or more",
                            max_skip_count.get());
    }
    return All(RequireIndex(in, 0), RequireRank(in, 0, 1, 2), CheckPool(),
               CheckIndexes());
  }
  OutputInfos Infer(const Inputs& in) const {
    if (!in.type(0).has_rank()) return {TensorType(kFloat32)};
    Shape shape = *in.type(0).shape;
    shape.back() = Places();
    return {TensorType(kFloat32, std::move(shape))};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<int64_t> x, args.Ints(0));
    const Pool pool = MakePool();
    const auto shape = args.shape(0);
    const int64_t rows = shape.size() == 2 ? shape[0] : 1;
    const auto size = static_cast<size_t>(shape.back());
    // Several n-grams may have one place, where what they add is summed in
    // double, in the order of the pool.
    const auto places = static_cast<size_t>(Places());
    Bounds* const bounds = SizedBounds(args, 0, CountOf(y));
    // A vector is one row.
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<size_t>(r);
      const std::vector<int64_t> counts =
          Counts(pool, absl::MakeConstSpan(x).subspan(row * size, size));
      std::vector<SumOfTerms> sums(places);
      for (size_t ngram = 0; ngram < counts.size(); ++ngram) {
        if (counts[ngram] == 0) continue;
        SumOfTerms& sum = sums[static_cast<size_t>(ngram_indexes[ngram])];
        sum.terms += 1;
        sum.Add(TermOf(ngram, counts[ngram]));
      }
      for (size_t i = 0; i < places; ++i) {
        const size_t at = row * places + i;
        y.As<float>()[at] = static_cast<float>(sums[i].result);
        // Counts are exact, with bounds of 0.
        if (bounds == nullptr || mode == NgramMode::kTf || sums[i].terms == 0) {
          continue;
        }
        BoundSum(kFloat32, sums[i]).SetAt(at, bounds);
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckPool() const {
    const auto size = static_cast<int64_t>(pool_int64s->size());
    // Each number says where the n-grams of one length begin: those before it
    // have to be whole, and the last ones end with the pool.
    int64_t begin = 0;
    for (size_t n = 0; n <= ngram_counts.size(); ++n) {
      const int64_t end = n < ngram_counts.size() ? ngram_counts[n] : size;
      // The pool begins with the n-grams of length 1.
      const bool is_whole =
          n == 0 ? end == 0 : (end - begin) % static_cast<int64_t>(n) == 0;
      if (end < begin || end > size || !is_whole) {
        return WrongAttribute("ngram_counts",
                              "does not cut a pool of {} numbers into n-grams "
                              "of 1, 2, ... ({} is not an end for those of {})",
                              size, end, n);
      }
      begin = end;
    }
    return absl::OkStatus();
  }
  absl::Status CheckIndexes() const {
    size_t ngrams = 0;
    for (size_t n = 0; n < ngram_counts.size(); ++n) {
      ngrams += static_cast<size_t>(CountAt(n));
    }
    // Without a place there would be no output, whose side is the highest one.
    if (ngram_indexes.empty() || ngram_indexes.size() != ngrams) {
      return WrongAttribute("ngram_indexes",
                            "has {} places, expected one for each of the {} "
                            "n-grams, and 1 at least",
                            ngram_indexes.size(), ngrams);
    }
    for (const int64_t place : ngram_indexes) {
      if (place >= 0 && place < kMostPlaces) continue;
      return WrongAttribute("ngram_indexes", "has {}, expected 0 to 2^31",
                            place);
    }
    if (!weights.has_value() || weights->empty() || weights->size() == ngrams) {
      return absl::OkStatus();
    }
    return WrongAttribute("weights", "has {} numbers, expected {}",
                          weights->size(), ngrams);
  }
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
  Pool MakePool() const {
    // N-grams are numbered through all lengths, wanted or not, since
    // ngram_indexes and weights count all of them.
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
  // Counts the n-grams of the pool in a row. The numbers of an n-gram need not
  // lie beside each other: they may be `step` apart, the same for all of them.
  std::vector<int64_t> Counts(const Pool& pool,
                              absl::Span<const int64_t> row) const {
    std::vector<int64_t> counts(ngram_indexes.size());
    const auto size = static_cast<int64_t>(row.size());
    // A longer n-gram does not fit into the row, or the pool has none.
    const int64_t longest =
        std::min({max_gram_length.get(), size,
                  static_cast<int64_t>(ngram_counts.size())});
    for (int64_t length = min_gram_length; length <= longest; ++length) {
      if (CountAt(static_cast<size_t>(length - 1)) == 0) continue;
      Ngram ngram(static_cast<size_t>(length));
      // A single number skips nothing, so the limit does not matter.
      const int64_t most_skips = length == 1 ? 0 : max_skip_count.get();
      for (int64_t step = 1; step - 1 <= most_skips; ++step) {
        if (step > (size - 1) / std::max<int64_t>(length - 1, 1) &&
            length > 1) {
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
  // Returns what an n-gram adds to its place in the output: how often it occurs
  // (kTf), its weight if it occurs at all (kIdf), or the product of the two.
  // Where no weights are given, each is 1.
  double TermOf(size_t ngram, int64_t count) const {
    double term = static_cast<double>(count);
    if (mode == NgramMode::kIdf) term = std::min(term, 1.0);
    if (mode != NgramMode::kTf && weights.has_value() && !weights->empty()) {
      term *= (*weights)[ngram];
    }
    return term;
  }
};

constexpr OperatorDef kEncoders[] = {
    ClassicRow<ops::LabelEncoder2, Encoder<ops::LabelEncoder2>>(
        "LabelEncoder", 2, {"X"}, {"Y"}),
    ClassicRow<ops::LabelEncoder, Encoder<ops::LabelEncoder>>("LabelEncoder", 4,
                                                              {"X"}, {"Y"}),
    ClassicRow<ops::OneHotEncoder, OneHotEncoder>("OneHotEncoder", 1, {"X"},
                                                  {"Y"}),
    ClassicRow<ops::FeatureVectorizer, FeatureVectorizer>(
        "FeatureVectorizer", 1, {Variadic("X")}, {"Y"}, Ulps(1)),
    Row<ops::TfIdfVectorizer, TfIdfVectorizer>("TfIdfVectorizer", 9, {"X"},
                                               {"Y"}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> EncoderOperators() { return kEncoders; }

}  // namespace nodewise
