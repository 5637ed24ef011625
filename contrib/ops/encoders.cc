#include "nodewise/ops/encoders.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/classic_rules.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

template <typename T>
NDArray LabelList(DLDataType dtype, const std::vector<T>& values) {
  const int64_t shape[] = {static_cast<int64_t>(values.size())};
  auto tensor = NDArray::Empty(shape, dtype, kCpu);
  if (!tensor.ok()) return {};
  std::copy(values.begin(), values.end(), tensor->template As<T>());
  return *std::move(tensor);
}

// What is looked up, and what is found there, one tensor each.
struct LabelTable {
  NDArray keys;
  NDArray values;
  NDArray fallback;  // One value, or none of another type.
};

// How keys are compared.
struct KeyRule {
  bool by_bits = true;  // Else by value, and every NaN is the same.
  bool last_counts = false;

  // Returns a number that keys have in common if they are the same.
  template <typename T>
  uint64_t operator()(T key) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (!by_bits && std::isnan(key)) return kNan;
      const double wide = static_cast<double>(key);
      // -0 and 0 are one value.
      return std::bit_cast<uint64_t>(by_bits || wide != 0 ? wide : 0.0);
    } else {
      return static_cast<uint64_t>(static_cast<int64_t>(key));
    }
  }

 private:
  static constexpr uint64_t kNan = 0x7FF8000000000000;
};

// Calls `f` with a key of the type, or fails.
template <typename F>
absl::Status WithKey(DLDataType dtype, F&& f) {
  if (dtype == kInt64) return f(int64_t{});
  if (dtype == kInt32) return f(int32_t{});
  if (dtype == kInt16) return f(int16_t{});
  if (dtype == kFloat32) return f(float{});
  if (dtype == kFloat64) return f(double{});
  return RefuseType(dtype, "an integer of 16 to 64 bits, float32 or float64");
}
absl::Status CheckKeyType(DLDataType dtype) {
  return WithKey(dtype, [](auto) { return absl::OkStatus(); });
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
  LabelTable table;
  if (!op.keys_int64s.empty()) table.keys = LabelList(kInt64, op.keys_int64s);
  if (!op.keys_floats.empty()) table.keys = LabelList(kFloat32, op.keys_floats);
  if (!op.values_int64s.empty()) {
    table.values = LabelList(kInt64, op.values_int64s);
  }
  if (!op.values_floats.empty()) {
    table.values = LabelList(kFloat32, op.values_floats);
  }
  return table;
}

// Puts in what tensors say, which only version 4 has.
absl::Status AddTensors(const ops::LabelEncoder& op, LabelTable* table) {
  const std::pair<const char*, NDArray LabelTable::*> parts[] = {
      {"keys_tensor", &LabelTable::keys},
      {"values_tensor", &LabelTable::values},
      {"default_tensor", &LabelTable::fallback}};
  const std::optional<NDArray>* const given[] = {
      &op.keys_tensor, &op.values_tensor, &op.default_tensor};
  for (size_t i = 0; i < std::size(parts); ++i) {
    const auto& [name, part] = parts[i];
    if (!given[i]->has_value()) continue;
    if ((table->*part).defined()) {
      return AttributeError(name, "is given beside another list");
    }
    const absl::Status known = CheckKeyType((*given[i])->dtype());
    if (!known.ok()) return AttributeError(name, std::string(MessageOf(known)));
    table->*part = **given[i];
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
    return AttributeError(
        "keys_*", fmt::format("has {} elements, but values_* has {}",
                              CountOf(table.keys), CountOf(table.values)));
  }
  if (table.fallback.defined() &&
      (!(table.fallback.dtype() == table.values.dtype()) ||
       CountOf(table.fallback) != 1)) {
    return AttributeError("default_tensor",
                          fmt::format("is not a single element of type {}, as "
                                      "values are",
                                      ToString(table.values.dtype())));
  }
  return absl::OkStatus();
}

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

absl::Status LookUp(EvalArgs& args, const LabelTable& table,
                    const NDArray& fallback, const KeyRule& rule) {
  const NDArray& x = args.in(0);
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray y, args.MakeOutput(0, x.shape(), table.values.dtype()));
  const size_t bytes = ElementBytes(y.dtype());
  const auto* const values = table.values.As<uint8_t>();
  auto* const to = y.As<uint8_t>();
  return WithKey(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::map<uint64_t, const uint8_t*> places;
    const T* const keys = table.keys.As<T>();
    for (int64_t i = 0; i < CountOf(table.keys); ++i) {
      const auto [place, is_new] = places.emplace(
          rule(keys[i]), values + static_cast<size_t>(i) * bytes);
      if (!is_new && rule.last_counts) {
        place->second = values + static_cast<size_t>(i) * bytes;
      }
    }
    const T* const from = x.As<T>();
    for (int64_t i = 0; i < CountOf(x); ++i) {
      const auto found = places.find(rule(from[i]));
      std::memcpy(
          to + static_cast<size_t>(i) * bytes,
          found == places.end() ? fallback.As<uint8_t>() : found->second,
          bytes);
    }
    return absl::OkStatus();
  });
}

// Both versions. The class has the attributes, the rules have Table().
template <typename Class>
struct Encoder : Class {
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
    return LookUp(args, table, fallback, {!kHasTensors, kHasTensors});
  }

 protected:
  static constexpr bool kHasTensors = std::is_same_v<Class, ops::LabelEncoder>;

  absl::StatusOr<LabelTable> Table() const {
    NODEWISE_ASSIGN_OR_RETURN(LabelTable table, TableOf(*this));
    if constexpr (kHasTensors) {
      NODEWISE_RETURN_IF_ERROR(AddTensors(*this, &table));
    }
    NODEWISE_RETURN_IF_ERROR(CheckTable(table));
    return table;
  }
};

struct LabelEncoder2 : Encoder<ops::LabelEncoder2> {
  static constexpr auto Fields() {
    using Class = ops::LabelEncoder2;
    return FieldList(Field<&Class::default_float>("default_float"),
                     Field<&Class::default_int64>("default_int64"),
                     Field<&Class::default_string>("default_string"),
                     Field<&Class::keys_floats>("keys_floats"),
                     Field<&Class::keys_int64s>("keys_int64s"),
                     Field<&Class::keys_strings>("keys_strings"),
                     Field<&Class::values_floats>("values_floats"),
                     Field<&Class::values_int64s>("values_int64s"),
                     Field<&Class::values_strings>("values_strings"));
  }
};

struct LabelEncoder : Encoder<ops::LabelEncoder> {
  static constexpr auto Fields() {
    using Class = ops::LabelEncoder;
    return FieldList(Field<&Class::default_float>("default_float"),
                     Field<&Class::default_int64>("default_int64"),
                     Field<&Class::default_string>("default_string"),
                     Field<&Class::default_tensor>("default_tensor"),
                     Field<&Class::keys_floats>("keys_floats"),
                     Field<&Class::keys_int64s>("keys_int64s"),
                     Field<&Class::keys_strings>("keys_strings"),
                     Field<&Class::keys_tensor>("keys_tensor"),
                     Field<&Class::values_floats>("values_floats"),
                     Field<&Class::values_int64s>("values_int64s"),
                     Field<&Class::values_strings>("values_strings"),
                     Field<&Class::values_tensor>("values_tensor"));
  }
};

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
    if (const auto sizes = type.sizes()) {
      NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
    }
    return OutputInfos{std::move(type)};
  }
  absl::Status Evaluate(EvalArgs& args) const;

 private:
  int64_t Categories() const {
    return static_cast<int64_t>(cats_int64s.size());
  }
};

// Made an integer; none for what fits into none.
template <typename T>
std::optional<int64_t> AsCategory(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr T kEnd = static_cast<T>(9223372036854775808.0);
    if (!(x >= -kEnd && x < kEnd)) return std::nullopt;
  }
  return static_cast<int64_t>(x);
}

absl::Status OneHotEncoder::Evaluate(EvalArgs& args) const {
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
      const std::optional<int64_t> category = AsCategory(from[i]);
      const auto found =
          category.has_value() ? places.find(*category) : places.end();
      if (found != places.end()) {
        to[i * Categories() + found->second] = 1;
      } else if (!zeros) {
        return InputError(0, fmt::format("has {}, expected a category, since "
                                         "zeros is 0",
                                         from[i]));
      }
    }
    return absl::OkStatus();
  });
}

struct FeatureVectorizer : ops::FeatureVectorizer {
  static constexpr auto Fields() {
    using Class = ops::FeatureVectorizer;
    return FieldList(Field<&Class::inputdimensions>("inputdimensions"));
  }
  absl::Status Check(const Inputs& in) const;
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const;
  absl::Status Evaluate(EvalArgs& args) const;

 private:
  // How many of the output's columns are for input `i`.
  Dim Width(const Inputs& in, size_t i) const {
    if (!inputdimensions.empty()) return inputdimensions[i];
    const std::optional<Shape>& shape = in.type(i).shape;
    if (!shape.has_value()) return {};
    return ProductOf(*shape, shape->size() == 1 ? 0 : 1, shape->size());
  }
};

absl::Status FeatureVectorizer::Check(const Inputs& in) const {
  if (in.size() == 0) {
    return absl::InvalidArgumentError("has no input, expected one or more");
  }
  if (!inputdimensions.empty() && inputdimensions.size() != in.size()) {
    return AttributeError("inputdimensions",
                          fmt::format("has {} elements, expected {}, one for "
                                      "each input",
                                      inputdimensions.size(), in.size()));
  }
  constexpr int64_t kMost = int64_t{1} << 40;
  for (const int64_t width : inputdimensions) {
    if (width >= 0 && width <= kMost) continue;
    return AttributeError("inputdimensions",
                          fmt::format("has {}, expected 0 or more", width));
  }
  for (size_t i = 0; i < in.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireClassic(in, i), RequireRank(in, i, 1, INT32_MAX)));
    const Dim rows = CountRows(in, i);
    const Dim first = CountRows(in, 0);
    if (!rows.is_known() || !first.is_known() || rows.size() == first.size()) {
      continue;
    }
    return InputError(i, fmt::format("has {} rows, expected {} as input 0",
                                     rows.size(), first.size()));
  }
  return RequireSameType(in);
}

absl::StatusOr<OutputInfos> FeatureVectorizer::Infer(const Inputs& in) const {
  Dim width = 0;
  for (size_t i = 0; i < in.size(); ++i) width = Plus(width, Width(in, i));
  TensorType type(kFloat32, Shape{CountRows(in, 0), width});
  if (const auto sizes = type.sizes()) {
    NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
  }
  return OutputInfos{std::move(type)};
}

absl::Status FeatureVectorizer::Evaluate(EvalArgs& args) const {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  const int64_t rows = y.shape()[0];
  const int64_t width = y.shape()[1];
  std::vector<double> out(static_cast<size_t>(rows * width), 0);
  int64_t begin = 0;
  for (size_t i = 0; i < args.num_inputs(); ++i) {
    const auto shape = args.shape(i);
    const int64_t given = Product(shape.subspan(shape.size() == 1 ? 0 : 1));
    const int64_t wanted = inputdimensions.empty() ? given : inputdimensions[i];
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

constexpr OperatorDef kEncoders[] = {
    Row<ops::LabelEncoder2, LabelEncoder2>({.name = "LabelEncoder",
                                            .domain = "ai.onnx.ml",
                                            .since = 2,
                                            .inputs = {"X"},
                                            .outputs = {"Y"}}),
    Row<ops::LabelEncoder, LabelEncoder>({.name = "LabelEncoder",
                                          .domain = "ai.onnx.ml",
                                          .since = 4,
                                          .inputs = {"X"},
                                          .outputs = {"Y"}}),
    Row<ops::OneHotEncoder, OneHotEncoder>({.name = "OneHotEncoder",
                                            .domain = "ai.onnx.ml",
                                            .inputs = {"X"},
                                            .outputs = {"Y"}}),
    Row<ops::FeatureVectorizer, FeatureVectorizer>(
        {.name = "FeatureVectorizer",
         .domain = "ai.onnx.ml",
         .inputs = {Variadic("X")},
         .outputs = {"Y"},
         // Integers of 64 bits may be rounded to float64 on the way.
         .bound = Ulps(1)}),
};

}  // namespace

absl::Span<const OperatorDef> EncoderOperators() { return kEncoders; }

}  // namespace nodewise
