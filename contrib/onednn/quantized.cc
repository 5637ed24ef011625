#include "contrib/onednn/quantized.h"

#include <cmath>

#include "contrib/onednn/conv.h"
#include "contrib/onednn/products.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::onednn {
namespace {

// Instructions before VNNI add two products in 16 bits, and saturate: 255 times
// the sum of two weights must not be above 32,767.
constexpr double kMostWeight = 64;
// Sums pass through a float on their way.
constexpr double kMostSum = 1 << 24;
// A scaled sum of this size is off by less than a tenth of a step.
constexpr double kMostScaled = 1e6;
// Quotients are 32-bit integers on their way, which larger ones do not fit.
constexpr float kMostQuotient = 1 << 30;

// Pairs of the largest one leave some room.
constexpr int kMostWeightOfPairs = 63;

bool HasVnni() {
  using dnnl::cpu_isa;
  const cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == cpu_isa::avx2_vnni || isa == cpu_isa::avx512_core_vnni ||
         isa == cpu_isa::avx512_core_bf16 || isa == cpu_isa::avx512_core_amx;
}

// Where an operator has its inputs.
struct Slots {
  size_t a = 0;
  size_t a_zero = 0;
  size_t b = 1;
  size_t b_zero = 0;
};

absl::StatusOr<int32_t> ZeroPoint(const Call& call, size_t i) {
  if (!call.has(i)) return 0;
  NODEWISE_ASSIGN_OR_RETURN(const double zero, OneNumber(call, i));
  return static_cast<int32_t>(zero);
}

absl::Status RequireNoZeroPoint(const Call& call, size_t i) {
  if (!call.has(i)) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const NDArray* const zeros,
                            call.RequireConstant(i));
  for (const double zero : ToDoubles(*zeros)) {
    if (zero == 0) continue;
    return Refuse(
        fmt::format("{}: is {}, but oneDNN has no zero points of "
                    "weights (quantize them symmetrically)",
                    call.NameOf(i), zero));
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const Call& call, const Slots& slots) {
  NODEWISE_RETURN_IF_ERROR(call.RequireNoPostOps());
  if (!(call.dtype(slots.b) == kInt8)) {
    return Refuse(fmt::format("{}: is of type {}, expected int8",
                              call.NameOf(slots.b),
                              ToString(call.dtype(slots.b))));
  }
  if (!(call.dtype(slots.a) == kUint8) && !(call.dtype(slots.a) == kInt8)) {
    return Refuse(fmt::format("{}: is of type {}, expected int8 or uint8",
                              call.NameOf(slots.a),
                              ToString(call.dtype(slots.a))));
  }
  if (!(call.dtype(slots.a) == kUint8) && !HasVnni()) {
    return Refuse(fmt::format(
        "{}: is of type {}, expected uint8: without VNNI oneDNN halves the "
        "weights of int8 data",
        call.NameOf(slots.a), ToString(call.dtype(slots.a))));
  }
  return RequireNoZeroPoint(call, slots.b_zero);
}

// Returns the largest absolute sum of the weights of one output. `line` says
// which output a weight belongs to.
template <typename F>
absl::StatusOr<double> LargestLine(const Call& call, size_t b, size_t lines,
                                   F line) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray* const weights,
                            call.RequireConstant(b));
  std::vector<double> sums(lines);
  const auto* const data = weights->As<int8_t>();
  for (int64_t i = 0; i < call.count(b); ++i) {
    const double size = std::fabs(double{static_cast<double>(data[i])});
    if (size > kMostWeight && !HasVnni()) {
      return Refuse(fmt::format(
          "{}: has a weight of {}, expected -64 to 64: without VNNI sums "
          "would saturate silently",
          call.NameOf(b), data[i]));
    }
    sums[line(i)] += size;
  }
  return *std::max_element(sums.begin(), sums.end());
}

absl::Status RequireExact(double largest_line) {
  // The sum itself and what the zero point takes away from it.
  if (2 * 255 * largest_line < kMostSum) return absl::OkStatus();
  return Refuse("sums may be above 2^24, up to which oneDNN's are exact");
}

// Scales of the output by which sums of products are multiplied.
absl::StatusOr<Rescale> RescaleOf(const Call& call, size_t a_scale,
                                  size_t b_scale, size_t y_scale, size_t y_zero,
                                  int side, double largest) {
  Rescale rescale;
  NODEWISE_ASSIGN_OR_RETURN(const double a, OneNumber(call, a_scale));
  NODEWISE_ASSIGN_OR_RETURN(const double y, OneNumber(call, y_scale));
  NODEWISE_ASSIGN_OR_RETURN(rescale.output_zero, ZeroPoint(call, y_zero));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray* const list,
                            call.RequireConstant(b_scale));
  for (const double b : ToDoubles(*list)) {
    const double scale = a * b / y;
    if (!(std::fabs(scale) * 255 * largest < kMostScaled)) {
      return Refuse("scaled sums may be too large for oneDNN's to be exact");
    }
    rescale.scales.push_back(static_cast<float>(scale));
  }
  if (rescale.scales.size() == 1) return rescale;
  rescale.side = side;
  const auto expected =
      static_cast<size_t>(call.output_sizes()[static_cast<size_t>(side)]);
  if (rescale.scales.size() == expected) return rescale;
  return Refuse(fmt::format("{}: has {} elements, expected 1 or {}",
                            call.NameOf(b_scale), rescale.scales.size(),
                            expected));
}

// The input in the order that oneDNN has integer kernels for.
absl::StatusOr<Value> ChannelsLast(ProgramBuilder& program, size_t i,
                                   Desc* desc) {
  const Call& call = program.call();
  NODEWISE_ASSIGN_OR_RETURN(const Desc own, call.InputDesc(i));
  NODEWISE_ASSIGN_OR_RETURN(const DataType type, DataTypeOf(call.dtype(i)));
  *desc = DescOf(call.sizes(i), type, TensorLayout::kChannelsLast);
  return program.Reordered(program.Input(i, own), *desc);
}

bool IsPadded(const Dims& pads) {
  return std::any_of(pads.begin(), pads.end(),
                     [](auto pad) { return pad > 0; });
}

absl::Status AddIntegerConv(ProgramBuilder& program, const Slots& slots,
                            ConvSpec spec, const ops::ConvAttributes& op,
                            const Rescale& rescale,
                            const std::vector<float>& bias) {
  const Call& call = program.call();
  // oneDNN 2.6 takes the zero point of what is padded off in the wrong places
  // where there are three spatial sides (found by random networks).
  const bool is_padded = IsPadded(spec.pads_begin) || IsPadded(spec.pads_end);
  if (rescale.source_zero != 0 && is_padded && call.sizes(slots.a).size() > 4) {
    return Refuse("has a zero point and padding of three spatial sides");
  }
  const Sizes grouped = GroupedSizes(call.sizes(slots.b), op.group);
  spec.has_groups = op.group > 1;
  spec.weights = AnyOrder(grouped, DataType::s8);
  NODEWISE_ASSIGN_OR_RETURN(const Value source,
                            ChannelsLast(program, slots.a, &spec.source));
  NODEWISE_ASSIGN_OR_RETURN(const DataType type,
                            DataTypeOf(call.output_dtype()));
  spec.output = DescOf(call.output_sizes(), type, TensorLayout::kChannelsLast);
  std::vector<std::pair<int, Value>> arguments = {{DNNL_ARG_SRC, source}};
  if (!bias.empty()) {
    const auto size = static_cast<int64_t>(bias.size());
    spec.bias = Desc({size}, DataType::f32, Dims{1});
    arguments.emplace_back(DNNL_ARG_BIAS, program.List(bias));
  }
  Attributes attributes;
  attributes.rescale = rescale;
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned, PlanConv(spec, attributes));
  NODEWISE_RETURN_IF_ERROR(RefuseSlow(planned));
  const Desc plain = DescOf(grouped, DataType::s8, TensorLayout::kPlain);
  NODEWISE_ASSIGN_OR_RETURN(
      const Value weights,
      program.Reordered(program.Input(slots.b, plain),
                        ArgumentOf(planned, DNNL_ARG_WEIGHTS)));
  arguments.emplace_back(DNNL_ARG_WEIGHTS, weights);
  NODEWISE_ASSIGN_OR_RETURN(const Desc output, call.OutputDesc());
  const bool is_last = output == spec.output;
  const Value made =
      is_last ? program.Output(output) : program.Scratch(spec.output);
  arguments.emplace_back(DNNL_ARG_DST, made);
  NODEWISE_RETURN_IF_ERROR(program.Add(planned, arguments));
  if (is_last) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const Planned reorder,
                            PlanReorder(spec.output, output, {}));
  return program.Add(
      reorder, {{DNNL_ARG_FROM, made}, {DNNL_ARG_TO, program.Output(output)}});
}

absl::StatusOr<double> LargestOfConv(const Call& call, size_t b) {
  const auto lines = static_cast<size_t>(call.sizes(b)[0]);
  const int64_t size = call.count(b) / call.sizes(b)[0];
  return LargestLine(call, b, lines, [size](int64_t i) {
    return static_cast<size_t>(i / size);
  });
}

absl::StatusOr<double> LargestOfMatMul(const Call& call, size_t b) {
  const int64_t columns = call.sizes(b).size() < 2 ? 1 : call.sizes(b).back();
  return LargestLine(
      call, b, static_cast<size_t>(columns),
      [columns](int64_t i) { return static_cast<size_t>(i % columns); });
}

absl::Status AddIntegerMatMul(ProgramBuilder& program, const Slots& slots,
                              const Rescale& rescale) {
  const Call& call = program.call();
  for (const size_t i : {slots.a, slots.b}) {
    NODEWISE_RETURN_IF_ERROR(call.RequirePlain(i));
  }
  const MatMulSizes sizes = SizesOfMatMul(call, slots.a, slots.b, true);
  NODEWISE_ASSIGN_OR_RETURN(const DataType a, DataTypeOf(call.dtype(slots.a)));
  NODEWISE_ASSIGN_OR_RETURN(const DataType y, DataTypeOf(call.output_dtype()));
  const Desc left = DescOf(sizes.left, a, TensorLayout::kPlain);
  const Desc right = DescOf(sizes.right, DataType::s8, TensorLayout::kPlain);
  const Desc output = DescOf(sizes.output, y, TensorLayout::kPlain);
  Attributes attributes;
  attributes.rescale = rescale;
  if (rescale.side >= 0) {
    attributes.rescale->side = static_cast<int>(sizes.output.size()) - 1;
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const Planned planned,
      PlanMatMul(left, AnyOrder(sizes.right, DataType::s8), output,
                 attributes));
  NODEWISE_RETURN_IF_ERROR(RefuseSlow(planned));
  NODEWISE_ASSIGN_OR_RETURN(
      const Value weights,
      program.Reordered(program.Input(slots.b, right),
                        ArgumentOf(planned, DNNL_ARG_WEIGHTS)));
  return program.Add(planned, {{DNNL_ARG_SRC, program.Input(slots.a, left)},
                               {DNNL_ARG_WEIGHTS, weights},
                               {DNNL_ARG_DST, program.Output(output)}});
}

}  // namespace

absl::Status BuildConvInteger(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::ConvInteger>();
  const Slots slots{0, 2, 1, 3};
  NODEWISE_RETURN_IF_ERROR(CheckTypes(call, slots));
  NODEWISE_RETURN_IF_ERROR(CheckConvRanks(call, slots.b));
  NODEWISE_ASSIGN_OR_RETURN(const double largest, LargestOfConv(call, slots.b));
  NODEWISE_RETURN_IF_ERROR(RequireExact(largest));
  ConvSpec spec;
  NODEWISE_RETURN_IF_ERROR(PlaceConv(call, op, slots.b, &spec));
  Rescale rescale;
  rescale.scales = {1};
  NODEWISE_ASSIGN_OR_RETURN(rescale.source_zero, ZeroPoint(call, slots.a_zero));
  return AddIntegerConv(program, slots, std::move(spec), op, rescale, {});
}

absl::Status BuildQLinearConv(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::QLinearConv>();
  const Slots slots{0, 2, 3, 5};
  constexpr size_t kBias = 8;
  NODEWISE_RETURN_IF_ERROR(CheckTypes(call, slots));
  NODEWISE_RETURN_IF_ERROR(CheckConvRanks(call, slots.b));
  NODEWISE_ASSIGN_OR_RETURN(const double largest, LargestOfConv(call, slots.b));
  ConvSpec spec;
  NODEWISE_RETURN_IF_ERROR(PlaceConv(call, op, slots.b, &spec));
  NODEWISE_ASSIGN_OR_RETURN(Rescale rescale,
                            RescaleOf(call, 1, 4, 6, 7, 1, largest));
  NODEWISE_ASSIGN_OR_RETURN(rescale.source_zero, ZeroPoint(call, slots.a_zero));
  std::vector<float> bias;
  if (call.has(kBias)) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray* const data,
                              call.RequireConstant(kBias));
    for (const double b : ToDoubles(*data)) {
      const size_t k = rescale.scales.size() == 1 ? 0 : bias.size();
      const double scaled = b * double{rescale.scales[k]};
      if (!(std::fabs(scaled) < kMostScaled)) {
        return Refuse("the bias is too large for oneDNN's sums to be exact");
      }
      bias.push_back(static_cast<float>(BiasIsRescaled() ? scaled : b));
    }
  }
  return AddIntegerConv(program, slots, std::move(spec), op, rescale, bias);
}

absl::Status BuildMatMulInteger(ProgramBuilder& program) {
  const Call& call = program.call();
  const Slots slots{0, 2, 1, 3};
  NODEWISE_RETURN_IF_ERROR(CheckTypes(call, slots));
  NODEWISE_ASSIGN_OR_RETURN(const double largest,
                            LargestOfMatMul(call, slots.b));
  NODEWISE_RETURN_IF_ERROR(RequireExact(largest));
  Rescale rescale;
  rescale.scales = {1};
  NODEWISE_ASSIGN_OR_RETURN(rescale.source_zero, ZeroPoint(call, slots.a_zero));
  return AddIntegerMatMul(program, slots, rescale);
}

absl::Status BuildQLinearMatMul(ProgramBuilder& program) {
  const Call& call = program.call();
  const Slots slots{0, 2, 3, 5};
  NODEWISE_RETURN_IF_ERROR(CheckTypes(call, slots));
  NODEWISE_ASSIGN_OR_RETURN(const double largest,
                            LargestOfMatMul(call, slots.b));
  const int last = static_cast<int>(call.output_sizes().size()) - 1;
  NODEWISE_ASSIGN_OR_RETURN(
      Rescale rescale, RescaleOf(call, 1, 4, 6, 7, std::max(last, 0), largest));
  NODEWISE_ASSIGN_OR_RETURN(rescale.source_zero, ZeroPoint(call, slots.a_zero));
  return AddIntegerMatMul(program, slots, rescale);
}

namespace {

// The scales of one tensor: for all of it, or along one side.
absl::StatusOr<Rescale> ScalesOf(const Call& call, int64_t axis,
                                 int64_t block_size) {
  if (block_size != 0) return Refuse("has scales for blocks");
  NODEWISE_RETURN_IF_ERROR(call.RequireFloat32(1));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray* const scales,
                            call.RequireConstant(1));
  Rescale rescale;
  for (const double scale : ToDoubles(*scales)) {
    if (!(scale > 0)) return Refuse("has a scale that is not above 0");
    rescale.scales.push_back(static_cast<float>(scale));
  }
  if (rescale.scales.size() == 1) return rescale;
  const auto rank = static_cast<int>(call.sizes(0).size());
  NODEWISE_ASSIGN_OR_RETURN(rescale.side, Axis(rank == 1 ? 0 : axis, rank));
  return rescale;
}

absl::Status AddRescale(ProgramBuilder& program, const Rescale& rescale) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(call.RequireNoPostOps());
  NODEWISE_RETURN_IF_ERROR(call.RequireOutputLike(0));
  NODEWISE_ASSIGN_OR_RETURN(const Desc from, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(const Desc to, call.OutputDesc());
  Attributes attributes;
  attributes.rescale = rescale;
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanReorder(from, to, attributes));
  return program.Add(planned, {{DNNL_ARG_FROM, program.Input(0, from)},
                               {DNNL_ARG_TO, program.Output(to)}});
}

}  // namespace

absl::Status BuildQuantize(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::QuantizeLinear>();
  NODEWISE_RETURN_IF_ERROR(call.RequireFloat32(0));
  if (op.precision.has_value() && !(*op.precision == kFloat32)) {
    return Refuse("divides in another type than float32");
  }
  if (call.output_dtype() == kInt32) return Refuse("makes int32");
  NODEWISE_ASSIGN_OR_RETURN(Rescale rescale,
                            ScalesOf(call, op.axis, op.block_size));
  NODEWISE_ASSIGN_OR_RETURN(rescale.output_zero, ZeroPoint(call, 2));
  Guard guard;
  guard.most = std::numeric_limits<float>::max();
  for (float& scale : rescale.scales) {
    guard.most = std::min(guard.most, scale * kMostQuotient);
    scale = 1 / scale;
  }
  guard.least = -guard.most;
  program.AddGuard(guard);
  return AddRescale(program, rescale);
}

absl::Status BuildDequantize(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::DequantizeLinear>();
  if (call.dtype(0) == kInt32) {
    return Refuse(
        "int32, which is not exact in float32, from which oneDNN "
        "takes the zero point");
  }
  NODEWISE_ASSIGN_OR_RETURN(Rescale rescale,
                            ScalesOf(call, op.axis, op.block_size));
  NODEWISE_ASSIGN_OR_RETURN(rescale.source_zero, ZeroPoint(call, 2));
  return AddRescale(program, rescale);
}

}  // namespace nodewise::onednn

namespace nodewise {

int OneDnnMostWeight() {
  return onednn::HasVnni() ? 127 : onednn::kMostWeightOfPairs;
}

}  // namespace nodewise
