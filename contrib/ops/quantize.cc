#include "nodewise/ops/quantize.h"

#include <algorithm>
#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/quantize_rules.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/window_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"

namespace nodewise {

namespace {

// Quantization is division, rounding to the nearest even integer, and moving by
// the zero point. A kernel that divides in another order may land on the
// neighbour, so every element may be off by one step; one step of a float
// depends on where it is.

double RoundedTo(DLDataType dtype, double x) {
  VisitOneOf(FloatElements(), dtype, [&x](auto element) {
    x = ToDouble(FromDouble<typename decltype(element)::Stored>(x));
  });
  return x;
}

using OptionalType = std::optional<DLDataType>;

// An attribute of a type, where 0 means that none is set. ONNX has no type 0
// with a meaning, and exporters write it for an attribute that they leave out.
template <auto kMember>
constexpr AttrField TypeField(std::string_view name) {
  using Class = decltype(op_row::ClassOf(kMember));
  AttrField field = Field<kMember>(name);
  field.get = [](const void* op) {
    const OptionalType& type = static_cast<const Class*>(op)->*kMember;
    return type.has_value() ? op_row::Transport<OptionalType>::Get(type)
                            : AttrValue(int64_t{0});
  };
  field.set = [](void* op, AttrValue value) {
    OptionalType& type = static_cast<Class*>(op)->*kMember;
    const int64_t* const number = std::get_if<int64_t>(&value);
    if (number == nullptr || *number != 0) {
      return op_row::Transport<OptionalType>::Set(&type, std::move(value));
    }
    type.reset();
    return absl::OkStatus();
  };
  return field;
}

// Calls f(data, scale, zero_point) of doubles for each element.
template <typename F>
absl::Status MapScaled(const ScaleAttributes& attributes, const EvalArgs& args,
                       const NDArray& y, ShortRounding rounding, F f) {
  const std::vector<double> scales = ToDoubles(args.in(1));
  std::vector<double> zeros(scales.size(), 0);
  if (args.has(2)) zeros = ToDoubles(args.in(2));
  if (zeros.size() != scales.size()) {
    return WrongInput(2, "has {} elements, expected {}", zeros.size(),
                      scales.size());
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

// Returns the quantized type: the zero point's, else the attribute's. The zero
// point and the attribute may both name it, but not two types.
absl::StatusOr<DLDataType> QuantizedType(const Inputs& in,
                                         const OptionalType& told) {
  const bool has_zero = in.has(2);
  const DLDataType zero = in.type(2).dtype;
  if (has_zero && zero.bits != 0 && told.has_value() && !(zero == *told)) {
    return WrongAttribute("output_dtype", "is {}, but the zero point is {}",
                          ToString(*told), ToString(zero));
  }
  const DLDataType dtype = told.value_or(has_zero ? zero : kUint8);
  if (dtype.bits == 0 || IsQuantized(dtype)) return dtype;
  return WrongAttribute("output_dtype", "is {}, expected {}", ToString(dtype),
                        kQuantizedTypes);
}

// Scales may be powers of two, which have a type of 8 bits (E8M0).
bool IsPowerScale(const Inputs& in) {
  return in.type(1).dtype.code == kDTypeE8M0;
}

// Divides in the type of the scale or the one that the operator names. The
// quotient is rounded to the precision before it is rounded to an integer. Both
// roundings are ONNX's, and skipping the first would move ties.
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
    return All(RequireType(in, 2, &IsQuantized, kQuantizedTypes),
               CheckScale({axis, block_size}, in),
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
  // Floats are rounded by their own format, so only the quotient is calculated
  // here, and the zero point added before that rounding.
  absl::Status ToShortFloats(const EvalArgs& args, const NDArray& y,
                             const Quantizer& quantize) const {
    const ShortRounding rounding{.saturates = saturate};
    return MapScaled({axis, block_size}, args, y, rounding,
                     [&quantize](double x, double scale, double zero) {
                       return quantize.Quotient(x, scale) + zero;
                     });
  }
};

// Axes came with opset 13, blocks with 21, output_dtype with 23. A scale in
// powers of two says nothing about the type of the result, so output_dtype has
// to.
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
      NODEWISE_RETURN_IF_ERROR(
          RequireType(in, 0, &IsQuantized, kQuantizedTypes));
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

// Calculated in one pass without the integers in between; the type of these
// says only where the range ends.
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
    Bounds* const bounds = SizedBounds(args, 0, CountOf(y));
    if (bounds == nullptr) return absl::OkStatus();
    // One step is as long as the scale.
    const std::vector<double> scales = ToDoubles(args.in(1));
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

// The range of the data decides about the scale, so all of the input is read
// before any element is rounded.
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
    // The range always has 0 in it, which both ends begin with.
    const DynamicScale quantize = DynamicScale::FromRange(low, high);
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
    SetAllBounds(1, 4 * HalfUlp(kFloat32, static_cast<double>(scale)),
                 args.bounds(1));
    if (scale == 0) AllowAnyOfZeros(args);
    return absl::OkStatus();
  }

 private:
  // For zeros alone the formula gives a scale of 0 and quotients of NaN, which
  // may become any integer. Kernels choose another scale: 1, or 1 / 255.
  static void AllowAnyOfZeros(EvalArgs& args) {
    for (const size_t output : {0, 2}) {
      AllowAny(args, output, [](int64_t) { return true; });
    }
    SetAllBounds(1, 1, args.bounds(1));
  }
};

// The order of the inputs of both operators: a, its scale and zero point, then
// b's, then the output's.
enum Slot : size_t {
  kA,
  kAScale,
  kAZero,
  kB,
  kBScale,
  kBZero,
  kYScale,
  kYZero
};
// Only the convolution has a bias.
constexpr size_t kBias = 8;

// The products of quantized tensors borrow the rules of ConvInteger and
// MatMulInteger: checking, inferring and multiplying are theirs, with the
// scales and the output's zero point left out. Both are rows of opset 10.
const OperatorDef& IntegerRow(const char* name) {
  return *AllOperators().Find("", name, 10);
}

// The span of the result points into `infos`.
Inputs IntegerInputs(const Inputs& in, std::vector<InputInfo>* infos) {
  *infos = {in[kA], in[kB], in[kAZero], in[kBZero]};
  return Inputs(*infos);
}

absl::Status CheckScaleTypes(const Inputs& in) {
  return All(RequireFloat(in, kAScale), RequireFloat(in, kBScale),
             RequireFloat(in, kYScale));
}

absl::StatusOr<double> OneScale(const EvalArgs& args, size_t i) {
  const std::vector<double> scales = ToDoubles(args.in(i));
  if (scales.size() == 1) return scales[0];
  return WrongInput(i, "has {} elements, expected 1", scales.size());
}

// The scales of input `i`: one, or one for each of `count`. The bias is read by
// this, too, as it has a number for each channel.
absl::StatusOr<std::vector<double>> Scales(const EvalArgs& args, size_t i,
                                           int64_t count) {
  std::vector<double> scales = ToDoubles(args.in(i));
  const auto found = static_cast<int64_t>(scales.size());
  if (found == 1 || found == count) return scales;
  return WrongInput(i, "has {} elements, expected 1 or {}", found, count);
}

// Sums become numbers of the output: times the factor of the inputs' scales,
// over the scale of the output, rounded, moved by its zero point.
struct Requantizer {
  double scale = 1;  // The output's scale.
  double zero = 0;
  QuantRange range;

  bool is_float = false;

  double operator()(double sum, double factor) const {
    if (is_float) return sum * factor / scale + zero;
    return Saturated(std::nearbyint(sum * factor / scale) + zero, range);
  }
};

absl::StatusOr<Requantizer> RequantizerOf(const EvalArgs& args) {
  Requantizer requantize;
  NODEWISE_ASSIGN_OR_RETURN(requantize.scale, OneScale(args, kYScale));
  NODEWISE_ASSIGN_OR_RETURN(requantize.zero, OneScale(args, kYZero));
  requantize.is_float = IsShortFloat(args.dtype(kYZero));
  if (!requantize.is_float) requantize.range = *RangeOf(args.dtype(kYZero));
  return requantize;
}

// y[i] = requantized sums[i] + bias, by the factor of its row and column.
template <typename F>
absl::Status StoreScaled(EvalArgs& args, const NDArray& sums,
                         const Requantizer& requantize, F sum_and_factor) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  const auto scale = [&](int64_t begin, int64_t end, double* block) {
    for (int64_t i = begin; i < end; ++i) {
      const auto [sum, factor] = sum_and_factor(i, block[i - begin]);
      block[i - begin] = requantize(sum, factor);
    }
  };
  MapShortBlocks(sums, y, 10, {.saturates = true}, scale);
  BoundByOneStep(y, args.bounds(0));
  return absl::OkStatus();
}

// The common part of QLinearConv and QLinearMatMul. The `Rules` have
// Integers(): the product of integers that they scale. Errors name that
// product, since it numbers its inputs otherwise.
template <typename Rules>
struct QLinearProduct {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(CheckScaleTypes(in));
    NODEWISE_RETURN_IF_ERROR(RequireQuantized(in, kYZero));
    const OpAttrs integers = self().Integers();
    std::vector<InputInfo> infos;
    return At(integers.def().name,
              integers.def().check(integers.get(), IntegerInputs(in, &infos)));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const OpAttrs integers = self().Integers();
    std::vector<InputInfo> infos;
    auto inferred =
        integers.def().infer(integers.get(), IntegerInputs(in, &infos), 1);
    if (!inferred.ok()) return At(integers.def().name, inferred.status());
    (*inferred)[0].type.dtype = in.type(kYZero).dtype;
    return inferred;
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    const OpAttrs integers = self().Integers();
    std::vector<InputInfo> infos;
    return integers.def().flops(integers.get(), IntegerInputs(in, &infos), out);
  }

 protected:
  absl::StatusOr<NDArray> Sums(const EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const Evaluated product,
        Evaluate(self().Integers(),
                 {args.in(kA), args.in(kB), args.in(kAZero), args.in(kBZero)},
                 {true}));
    return product.outputs[0];
  }

 private:
  const Rules& self() const { return static_cast<const Rules&>(*this); }
};

// Weights may have a scale for each output channel. The bias is quantized with
// the product of the scales, so it is added to the sums as it is.
struct QLinearConv : ops::QLinearConv, QLinearProduct<QLinearConv> {
  static constexpr auto Fields() { return ConvFields(); }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireType(in, kBias, kInt32), RequireRank(in, kBias, 1)));
    return QLinearProduct::Check(in);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray sums, Sums(args));
    NODEWISE_ASSIGN_OR_RETURN(const Requantizer requantize,
                              RequantizerOf(args));
    const int64_t channels = sums.shape()[1];
    const int64_t inner = Product(sums.shape().subspan(2));
    NODEWISE_ASSIGN_OR_RETURN(const double a_scale, OneScale(args, kAScale));
    NODEWISE_ASSIGN_OR_RETURN(std::vector<double> scales,
                              Scales(args, kBScale, channels));
    scales.resize(static_cast<size_t>(channels), scales[0]);
    std::vector<double> bias(scales.size(), 0);
    if (args.has(kBias)) {
      NODEWISE_ASSIGN_OR_RETURN(bias, Scales(args, kBias, channels));
      bias.resize(scales.size(), bias[0]);
    }
    return StoreScaled(args, sums, requantize, [&](int64_t i, double sum) {
      const auto channel = static_cast<size_t>(i / inner % channels);
      return std::pair(sum + bias[channel], a_scale * scales[channel]);
    });
  }

 private:
  friend QLinearProduct;
  OpAttrs Integers() const {
    return OpAttrs::From(&IntegerRow("ConvInteger"), ops::ConvInteger{*this});
  }
};

// Scales or zero points: one for all, one for each line of a matrix, or one for
// each line of each matrix of a batch. A list that is shorter than all lines
// repeats, so that one formula serves all three cases.
struct LineValues {
  std::vector<double> values;
  int64_t lines = 1;

  double At(int64_t item, int64_t line) const {
    const auto count = static_cast<int64_t>(values.size());
    return values[static_cast<size_t>((item * lines + line) % count)];
  }
};
absl::StatusOr<LineValues> LineValuesOf(const EvalArgs& args, size_t i,
                                        int64_t lines, int64_t items) {
  LineValues list{ToDoubles(args.in(i)), lines};
  const auto count = static_cast<int64_t>(list.values.size());
  if (count == 1 || (count > 0 && (count == lines || count == lines * items)))
    return list;
  return WrongInput(i, "has {} elements, expected 1 or {}", count, lines);
}

// The matrices of an input; a vector is one of a row, or of a column.
struct MatrixSizes {
  int64_t items = 1;
  int64_t rows = 1;
  int64_t columns = 1;
};
// Sides before the last two count matrices, whether or not the other factor has
// them.
MatrixSizes LeftSizes(absl::Span<const int64_t> shape) {
  if (shape.size() < 2) return {1, 1, shape[0]};
  const size_t rank = shape.size();
  return {Product(shape.first(rank - 2)), shape[rank - 2], shape[rank - 1]};
}
MatrixSizes RightSizes(absl::Span<const int64_t> shape) {
  return shape.size() < 2 ? MatrixSizes{1, shape[0], 1} : LeftSizes(shape);
}

// A type that opset 21 added to integers of 8 bits. A scale in powers of two
// (E8M0) has 8 bits, but is not a factor of a product.
bool IsByteFloat(DLDataType dtype) {
  return IsShortFloat(dtype) && dtype.bits == 8 && dtype.code != kDTypeE8M0;
}
bool HasByteFloats(const Inputs& in) {
  return IsByteFloat(in.type(kA).dtype) || IsByteFloat(in.type(kB).dtype) ||
         IsByteFloat(in.type(kYZero).dtype);
}

// The numbers of an input as doubles, less their zero points. A zero point may
// belong to a row of a or a column of b, as scales do.
absl::StatusOr<NDArray> CenteredOf(const EvalArgs& args, size_t i,
                                   bool of_sizes) {
  const bool is_left = i == kA;
  const NDArray& x = args.in(i);
  const MatrixSizes sizes =
      is_left ? LeftSizes(x.shape()) : RightSizes(x.shape());
  NODEWISE_ASSIGN_OR_RETURN(
      const LineValues zeros,
      LineValuesOf(args, i + 2, is_left ? sizes.rows : sizes.columns,
                   sizes.items));
  std::vector<double> values = ToDoubles(x);
  for (size_t at = 0; at < values.size(); ++at) {
    const auto place = static_cast<int64_t>(at);
    const int64_t row = place / sizes.columns;
    const int64_t line = is_left ? row % sizes.rows : place % sizes.columns;
    values[at] -= zeros.At(row / sizes.rows, line);
    if (of_sizes) values[at] = std::fabs(values[at]);
  }
  return FromDoubles(values, x.shape(), kFloat64);
}

// Products of matrices of which some are floats of 8 bits go by way of MatMul
// in double, after the zero points are subtracted. They have no accumulator of
// integers to imitate.
struct FloatProduct {
  static OpAttrs Floats() {
    return OpAttrs::From(AllOperators().Find("", "MatMul", 13), ops::MatMul{});
  }
  static absl::Status Check(const Inputs& in) {
    const auto has_a_byte = [](DLDataType dtype) {
      return IsByteFloat(dtype) || dtype == kInt8 || dtype == kUint8;
    };
    for (const size_t i : {kA, kB, kYZero}) {
      NODEWISE_RETURN_IF_ERROR(
          RequireType(in, i, has_a_byte, "an integer or a float of 8 bits"));
    }
    for (const size_t i : {kA, kB}) {
      if (!in.type(i).has_dtype()) continue;
      NODEWISE_RETURN_IF_ERROR(RequireType(in, i + 2, in.type(i).dtype));
    }
    NODEWISE_RETURN_IF_ERROR(CheckScaleTypes(in));
    const OpAttrs product = Floats();
    return product.def().check(product.get(), Inputs(Doubles(in)));
  }
  static absl::StatusOr<OutputInfos> Infer(const Inputs& in) {
    const OpAttrs product = Floats();
    NODEWISE_ASSIGN_OR_RETURN(
        OutputInfos inferred,
        product.def().infer(product.get(), Inputs(Doubles(in)), 1));
    inferred[0].type.dtype = in.type(kYZero).dtype;
    return inferred;
  }
  // Returns the sums, and with `of_sizes` those of absolute values.
  static absl::StatusOr<NDArray> Sums(const EvalArgs& args, bool of_sizes) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray a, CenteredOf(args, kA, of_sizes));
    NODEWISE_ASSIGN_OR_RETURN(NDArray b, CenteredOf(args, kB, of_sizes));
    NODEWISE_ASSIGN_OR_RETURN(
        const Evaluated product,
        nodewise::Evaluate(Floats(), {std::move(a), std::move(b)}, {true}));
    return product.outputs[0];
  }
  static std::vector<InputInfo> Doubles(const Inputs& in) {
    std::vector<InputInfo> infos = {in[kA], in[kB]};
    for (InputInfo& info : infos) {
      info.type.dtype = kFloat64;
      info.constant = nullptr;
    }
    return infos;
  }
};

// One scale, one for each row of a or column of b, or one for each of each
// matrix of a batch. Whether floats of 8 bits take part decides which product
// it is, here and in every function.
struct QLinearMatMul : ops::QLinearMatMul, QLinearProduct<QLinearMatMul> {
  absl::Status Check(const Inputs& in) const {
    return HasByteFloats(in) ? FloatProduct::Check(in)
                             : QLinearProduct::Check(in);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return HasByteFloats(in) ? FloatProduct::Infer(in)
                             : QLinearProduct::Infer(in);
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    if (!HasByteFloats(in)) return QLinearProduct::Flops(in, out);
    const OpAttrs product = FloatProduct::Floats();
    return product.def().flops(product.get(), Inputs(FloatProduct::Doubles(in)),
                               out);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const bool has_floats = IsByteFloat(args.dtype(kA)) ||
                            IsByteFloat(args.dtype(kB)) ||
                            IsByteFloat(args.dtype(kYZero));
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray sums,
        has_floats ? FloatProduct::Sums(args, false) : Sums(args));
    NODEWISE_ASSIGN_OR_RETURN(const Requantizer requantize,
                              RequantizerOf(args));
    const int64_t columns = RightSizes(args.shape(kB)).columns;
    const int64_t rows = LeftSizes(args.shape(kA)).rows;
    const int64_t count = CountOf(sums);
    const int64_t items =
        count == 0 ? 1 : count / std::max<int64_t>(1, rows * columns);
    NODEWISE_ASSIGN_OR_RETURN(const LineValues a,
                              LineValuesOf(args, kAScale, rows, items));
    NODEWISE_ASSIGN_OR_RETURN(const LineValues b,
                              LineValuesOf(args, kBScale, columns, items));
    const auto factor = [&](int64_t i) {
      const int64_t item = i / (rows * columns);
      return a.At(item, i / columns % rows) * b.At(item, i % columns);
    };
    NODEWISE_RETURN_IF_ERROR(StoreScaled(
        args, sums, requantize,
        [&](int64_t i, double sum) { return std::pair(sum, factor(i)); }));
    Bounds* const bounds = args.bounds(0);
    if (!has_floats || bounds == nullptr) return absl::OkStatus();
    // Sums of floats are rounded, too. A kernel may add them up in float32. The
    // sizes of the terms are a second product, made only for the bounds.
    NODEWISE_ASSIGN_OR_RETURN(const NDArray all,
                              FloatProduct::Sums(args, true));
    const std::vector<double> sizes = ToDoubles(all);
    const auto terms =
        static_cast<double>(LeftSizes(args.shape(kA)).columns + 4);
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      bounds->proved[at] += std::fabs(terms * UnitRoundoff(kFloat32) *
                                      sizes[at] * factor(i) / requantize.scale);
    }
    bounds->expected = bounds->proved;
    return absl::OkStatus();
  }

 private:
  friend QLinearProduct;
  static OpAttrs Integers() {
    return OpAttrs::From(&IntegerRow("MatMulInteger"), ops::MatMulInteger{});
  }
};

constexpr OperatorDef kQuantizeRows[] = {
    Row<ops::QuantizeLinear, QuantizeLinear>(
        "QuantizeLinear", 10, {"x", "y_scale", Optional("y_zero_point")}, {"y"},
        kSum),
    Row<ops::DequantizeLinear, DequantizeLinear>(
        "DequantizeLinear", 10, {"x", "x_scale", Optional("x_zero_point")},
        {"y"}, Ulps(1)),
    Row<ops::DynamicQuantizeLinear, DynamicQuantizeLinear>(
        "DynamicQuantizeLinear", 11, {"x"}, {"y", "y_scale", "y_zero_point"},
        kSum),
    Row<ops::FakeQuantize, FakeQuantize>(
        {.name = "FakeQuantize",
         .domain = "nodewise",
         .inputs = {"x", "scale", Optional("zero_point")},
         .outputs = {"y"},
         .bound = kSum}),
    Row<ops::QLinearConv, QLinearConv>(
        "QLinearConv", 10,
        {"x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point",
         "y_scale", "y_zero_point", Optional("B")},
        {"y"}, kSum),
    Row<ops::QLinearMatMul, QLinearMatMul>(
        "QLinearMatMul", 10,
        {"a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point",
         "y_scale", "y_zero_point"},
        {"y"}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> QuantizeOperators() { return kQuantizeRows; }

}  // namespace nodewise
