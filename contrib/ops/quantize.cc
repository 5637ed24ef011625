#include "nodewise/ops/quantize.h"

#include <algorithm>
#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/quantize_rules.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Returns the number rounded to this type.
double RoundedTo(DLDataType dtype, double x) {
  VisitOneOf(FloatElements(), dtype, [&x](auto element) {
    x = ToDouble(FromDouble<typename decltype(element)::Stored>(x));
  });
  return x;
}

using OptionalType = std::optional<DLDataType>;

// A type that files call 0 where it is not set.
template <auto kMember>
constexpr AttrField TypeField(std::string_view name) {
  using Class = decltype(op_row::ClassOf(kMember));
  return {name,
          false,
          false,
          false,
          [](const void* op) -> std::optional<AttrValue> {
            const OptionalType& type = static_cast<const Class*>(op)->*kMember;
            if (!type.has_value()) return AttrValue(int64_t{0});
            return op_row::Transport<DLDataType>::Get(*type);
          },
          [](void* op, AttrValue value) {
            OptionalType& type = static_cast<Class*>(op)->*kMember;
            const int64_t* const number = std::get_if<int64_t>(&value);
            if (number != nullptr && *number == 0) {
              type.reset();
              return absl::OkStatus();
            }
            return op_row::Transport<OptionalType>::Set(&type,
                                                        std::move(value));
          }};
}

// Calls f(data, scale, zero_point) of doubles for each element.
template <typename F>
absl::Status MapScaled(const ScaleAttributes& attributes, const EvalArgs& args,
                       const NDArray& y, ShortRounding rounding, F f) {
  const std::vector<double> scales = ToDoubles(args.in(1));
  std::vector<double> zeros(scales.size(), 0);
  if (args.has(2)) zeros = ToDoubles(args.in(2));
  if (zeros.size() != scales.size()) {
    return InputError(2, fmt::format("has {} elements, expected {}",
                                     zeros.size(), scales.size()));
  }
  const auto map = [&](const ScaleRun& run, double* x) {
    for (int64_t i = 0; i < run.n; ++i) {
      const auto k = static_cast<size_t>(run.scale + i * run.step);
      x[i] = f(x[i], scales[k], zeros[k]);
    }
  };
  return MapScaleRuns(attributes, args, y, map, rounding);
}
template <typename F>
absl::Status MapScaled(const ScaleAttributes& attributes, const EvalArgs& args,
                       const NDArray& y, F f) {
  return MapScaled(attributes, args, y, ShortRounding(), f);
}

constexpr const char* kQuantizedTypes =
    "an integer of 2 to 16 bits or a float of 4 or 8 bits with a sign";

// Returns the quantized type: the zero point's, else the attribute's.
absl::StatusOr<DLDataType> QuantizedType(const Inputs& in,
                                         const OptionalType& told) {
  const bool has_zero = in.has(2);
  const DLDataType zero = in.type(2).dtype;
  if (has_zero && zero.bits != 0 && told.has_value() && !(zero == *told)) {
    return AttributeError("output_dtype",
                          fmt::format("is {}, but the zero point is {}",
                                      ToString(*told), ToString(zero)));
  }
  const DLDataType dtype = told.value_or(has_zero ? zero : kUint8);
  if (dtype.bits == 0 || IsQuantized(dtype)) return dtype;
  return AttributeError(
      "output_dtype",
      fmt::format("is {}, expected {}", ToString(dtype), kQuantizedTypes));
}

absl::Status RequireLowPrecision(const Inputs& in, size_t i) {
  const DLDataType dtype = in.type(i).dtype;
  if (!in.has(i) || dtype.bits == 0 || IsQuantized(dtype)) {
    return absl::OkStatus();
  }
  return InputError(i,
                    std::string(MessageOf(RefuseType(dtype, kQuantizedTypes))));
}

// Scales may be powers of two in 8 bits.
bool IsPowerScale(const Inputs& in) {
  return in.type(1).dtype.code == kDTypeE8M0;
}

// Divides in the type of the scale or the one that the operator names.
struct Quantizer {
  DLDataType precision{};
  QuantRange range;

  double Quotient(double x, double scale) const {
    return RoundedTo(precision,
                     RoundedTo(precision, x) / RoundedTo(precision, scale));
  }
  double operator()(double x, double scale, double zero) const {
    return Saturated(std::nearbyint(Quotient(x, scale)) + zero, range);
  }
};

// Axes came with opset 13, floats of 8 bits with 19, integers of 4 and 16 bits,
// blocks and output_dtype with 21, precision and floats of 4 bits with 23,
// integers of 2 bits with 25, scales in powers of two with 28.
struct QuantizeLinear : ops::QuantizeLinear {
  static constexpr auto Fields() {
    return FieldList(Field<&QuantizeLinear::axis>("axis"),
                     Field<&QuantizeLinear::block_size>("block_size"),
                     TypeField<&QuantizeLinear::output_dtype>("output_dtype"),
                     TypeField<&QuantizeLinear::precision>("precision"),
                     Field<&QuantizeLinear::saturate>("saturate"));
  }

  absl::Status Check(const Inputs& in) const {
    const DLDataType x = in.type(0).dtype;
    if (x.bits != 0 && !(x == kInt32)) {
      NODEWISE_RETURN_IF_ERROR(RequireFloat(in, 0));
    }
    if (precision.has_value() && !IsFloat(*precision)) {
      return AttributeError("precision", "is not a float");
    }
    if (!IsPowerScale(in)) NODEWISE_RETURN_IF_ERROR(RequireNumber(in, 1));
    return All(RequireLowPrecision(in, 2), CheckScale({axis, block_size}, in),
               QuantizedType(in, output_dtype).status());
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    NODEWISE_ASSIGN_OR_RETURN(const DLDataType dtype,
                              QuantizedType(in, output_dtype));
    return LikeInput(in, 0, dtype);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const DLDataType type =
        precision.value_or(IsFloat(args.dtype(1)) ? args.dtype(1) : kFloat32);
    if (IsShortFloat(y.dtype())) {
      NODEWISE_RETURN_IF_ERROR(ToShortFloats(args, y, {type, {}}));
    } else {
      const Quantizer quantize{type, *RangeOf(y.dtype())};
      NODEWISE_RETURN_IF_ERROR(
          MapScaled({axis, block_size}, args, y, quantize));
    }
    BoundByOneStep(y, args.bounds(0));
    return absl::OkStatus();
  }

 private:
  absl::Status ToShortFloats(const EvalArgs& args, const NDArray& y,
                             const Quantizer& quantize) const {
    const ShortRounding rounding{.saturates = saturate};
    return MapScaled({axis, block_size}, args, y, rounding,
                     [&quantize](double x, double scale, double zero) {
                       return quantize.Quotient(x, scale) + zero;
                     });
  }
};

// Axes came with opset 13, blocks with 21, output_dtype with 23.
struct DequantizeLinear : ops::DequantizeLinear {
  static constexpr auto Fields() {
    return FieldList(
        Field<&DequantizeLinear::axis>("axis"),
        Field<&DequantizeLinear::block_size>("block_size"),
        TypeField<&DequantizeLinear::output_dtype>("output_dtype"));
  }

  absl::Status Check(const Inputs& in) const {
    const DLDataType x = in.type(0).dtype;
    if (!(x == kInt32)) {
      NODEWISE_RETURN_IF_ERROR(RequireLowPrecision(in, 0));
    }
    if (x.bits != 0) {
      NODEWISE_RETURN_IF_ERROR(RequireType(in, 2, x));
    }
    if (output_dtype.has_value() && !IsFloat(*output_dtype)) {
      return AttributeError("output_dtype", "is not a float");
    }
    if (IsPowerScale(in)) {
      if (output_dtype.has_value()) return CheckScale({axis, block_size}, in);
      return AttributeError("output_dtype",
                            "is not given, expected a float, which the scale "
                            "is not");
    }
    return All(RequireFloat(in, 1), CheckScale({axis, block_size}, in));
  }
  OutputInfos Infer(const Inputs& in) const {
    return LikeInput(in, 0, output_dtype.value_or(in.type(1).dtype));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    return MapScaled(
        {axis, block_size}, args, y,
        [](double x, double scale, double zero) { return (x - zero) * scale; });
  }
};

struct FakeQuantize : ops::FakeQuantize {
  static constexpr auto Fields() {
    return FieldList(Field<&FakeQuantize::axis>("axis"),
                     Field<&FakeQuantize::block_size>("block_size"),
                     TypeField<&FakeQuantize::output_dtype>("output_dtype"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_ASSIGN_OR_RETURN(const DLDataType between,
                              QuantizedType(in, output_dtype));
    if (IsShortFloat(between)) {
      return AttributeError("output_dtype", "is a float, expected an integer");
    }
    return All(RequireFloat(in, 0), RequireFloat(in, 1),
               CheckScale({axis, block_size}, in));
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const DLDataType between =
        output_dtype.value_or(args.has(2) ? args.dtype(2) : kUint8);
    const Quantizer quantize{args.dtype(1), *RangeOf(between)};
    NODEWISE_RETURN_IF_ERROR(MapScaled(
        {axis, block_size}, args, y, [&](double x, double scale, double zero) {
          return (quantize(x, scale, zero) - zero) * scale;
        }));
    Bounds* const bounds = args.bounds(0);
    if (bounds == nullptr) return absl::OkStatus();
    // One step is as long as the scale.
    const std::vector<double> scales = ToDoubles(args.in(1));
    bounds->proved.resize(static_cast<size_t>(CountOf(y)));
    NODEWISE_RETURN_IF_ERROR(
        ForEachScaleRun({axis, block_size}, args, [&](const ScaleRun& run) {
          for (int64_t i = 0; i < run.n; ++i) {
            const auto k = static_cast<size_t>(run.scale + i * run.step);
            bounds->proved[static_cast<size_t>(run.begin + i)] =
                std::fabs(scales[k]);
          }
        }));
    bounds->expected = bounds->proved;
    return absl::OkStatus();
  }
};

struct DynamicQuantizeLinear : ops::DynamicQuantizeLinear {
  absl::Status Check(const Inputs& in) const {
    return RequireType(in, 0, kFloat32);
  }
  OutputInfos Infer(const Inputs& in) const {
    TensorType y = in.type(0);
    y.dtype = kUint8;
    return {y, TensorType(kFloat32, Shape()), TensorType(kUint8, Shape())};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const NDArray& x = args.in(0);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y_scale, args.MakeOutput(1));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y_zero, args.MakeOutput(2));
    const float* const from = x.As<float>();
    float low = 0;
    float high = 0;
    for (int64_t i = 0; i < CountOf(x); ++i) {
      low = std::min(low, from[i]);
      high = std::max(high, from[i]);
    }
    const DynamicScale quantize = DynamicScale::Of(low, high);
    const float scale = quantize.scale;
    *y_scale.As<float>() = scale;
    *y_zero.As<uint8_t>() = static_cast<uint8_t>(quantize.zero);
    auto* const to = y.As<uint8_t>();
    ParallelFor(CountOf(x), 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        to[i] = static_cast<uint8_t>(quantize.Quantized(from[i]));
      }
    });
    BoundByOneStep(y, args.bounds(0));
    BoundByOneStep(y_zero, args.bounds(2));
    if (Bounds* const bounds = args.bounds(1)) {
      bounds->proved = {4 * HalfUlp(kFloat32, static_cast<double>(scale))};
      bounds->expected = bounds->proved;
    }
    if (scale == 0) AllowAnyOfZeros(args);
    return absl::OkStatus();
  }

 private:
  // By the formula the scale is 0, and the others are NaN as integers, which
  // can be anything. Kernels choose another scale: 1, or 1 / 255.
  static void AllowAnyOfZeros(EvalArgs& args) {
    for (const size_t output : {0, 2}) {
      AllowAny(args, output, [](int64_t) { return true; });
    }
    Bounds* const bounds = args.bounds(1);
    if (bounds == nullptr) return;
    bounds->proved = {1};
    bounds->expected = bounds->proved;
  }
};

constexpr OperatorDef kQuantizeRows[] = {
    Row<ops::QuantizeLinear, QuantizeLinear>(
        {.name = "QuantizeLinear",
         .since = 10,
         .inputs = {"x", "y_scale", Optional("y_zero_point")},
         .outputs = {"y"},
         .bound = kSum}),
    Row<ops::DequantizeLinear, DequantizeLinear>(
        {.name = "DequantizeLinear",
         .since = 10,
         .inputs = {"x", "x_scale", Optional("x_zero_point")},
         .outputs = {"y"},
         .bound = Ulps(1)}),
    Row<ops::DynamicQuantizeLinear, DynamicQuantizeLinear>(
        {.name = "DynamicQuantizeLinear",
         .since = 11,
         .inputs = {"x"},
         .outputs = {"y", "y_scale", "y_zero_point"},
         .bound = kSum}),
    Row<ops::FakeQuantize, FakeQuantize>(
        {.name = "FakeQuantize",
         .domain = "nodewise",
         .since = 1,
         .inputs = {"x", "scale", Optional("zero_point")},
         .outputs = {"y"},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> QuantizeOperators() { return kQuantizeRows; }

}  // namespace nodewise
