#include <algorithm>
#include <cmath>

#include "contrib/onednn/rows.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status.h"

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

// Two products of 255 and such a weight leave some room below 32,767.
constexpr int kMostWeightOfPairs = 63;

// The instruction sets of oneDNN that have the instructions, by its own
// account, which an environment variable may lower.
bool HasVnni() {
  using dnnl::cpu_isa;
  const cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == cpu_isa::avx2_vnni || isa == cpu_isa::avx512_core_vnni ||
         isa == cpu_isa::avx512_core_bf16 || isa == cpu_isa::avx512_core_amx;
}

// Where an operator has its inputs but the first factor, input 0. The scales of
// the operators that have some are right in front of the zero points.
struct Slots {
  size_t a_zero;
  size_t b;
  size_t b_zero;
  bool has_scales;
};
constexpr Slots kIntegerSlots = {2, 1, 3, false};
constexpr Slots kQLinearSlots = {2, 3, 5, true};

// A zero point that is not given is 0. A list of several is refused: oneDNN has
// one for each tensor.
absl::StatusOr<int32_t> ZeroPoint(const Call& call, size_t i) {
  if (!call.has(i)) return 0;
  NODEWISE_ASSIGN_OR_RETURN(const double zero, OneNumber(call, i));
  return static_cast<int32_t>(zero);
}

absl::Status RequireNoZeroPoint(const Call& call, size_t i) {
  if (!call.has(i)) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> zeros,
                            call.RequireNumbers(i));
  for (const double zero : zeros) {
    if (zero == 0) continue;
    return Refuse(
        "{}: is {}, but oneDNN has no zero points of weights (quantize them "
        "symmetrically)",
        call.NameOf(i), zero);
  }
  return absl::OkStatus();
}

// Data of int8 is refused on processors without VNNI, whose instructions take
// unsigned data.
absl::Status CheckTypes(const Call& call, const Slots& slots) {
  NODEWISE_RETURN_IF_ERROR(call.RequireNoPostOps());
  const auto refuse = [&](size_t slot, std::string_view expected) {
    return Refuse("{}: is of type {}, expected {}", call.NameOf(slot),
                  ToString(call.dtype(slot)), expected);
  };
  const DLDataType data = call.dtype(0);
  if (!(call.dtype(slots.b) == kInt8)) return refuse(slots.b, "int8");
  if (!(data == kUint8) && !(data == kInt8)) {
    return refuse(0, "int8 or uint8");
  }
  if (!(data == kUint8) && !HasVnni()) {
    return refuse(0,
                  "uint8: without VNNI oneDNN halves the weights of int8 data");
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
    const double size = std::fabs(static_cast<double>(data[i]));
    if (size > kMostWeight && !HasVnni()) {
      return Refuse(
          "{}: has a weight of {}, expected -64 to 64: without VNNI sums "
          "would saturate silently",
          call.NameOf(b), data[i]);
    }
    sums[line(i)] += size;
  }
  return *std::ranges::max_element(sums);
}

absl::Status RequireExact(double largest_line) {
  // The sum itself and what the zero point takes away from it.
  if (2 * 255 * largest_line < kMostSum) return absl::OkStatus();
  return Refuse("sums may be above 2^24, up to which oneDNN's are exact");
}

// Scales of the output by which sums of products are multiplied. Both QLinear
// operators have their scales and zero points in the same places.
absl::StatusOr<Rescale> RescaleOf(const Call& call, int side, double largest) {
  constexpr size_t kScaleOfA = 1, kScaleOfB = 4, kScaleOfY = 6, kZeroOfY = 7;
  Rescale rescale;
  NODEWISE_ASSIGN_OR_RETURN(const double a, OneNumber(call, kScaleOfA));
  NODEWISE_ASSIGN_OR_RETURN(const double y, OneNumber(call, kScaleOfY));
  NODEWISE_ASSIGN_OR_RETURN(rescale.output_zero, ZeroPoint(call, kZeroOfY));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> list,
                            call.RequireNumbers(kScaleOfB));
  for (const double b : list) {
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
  return Refuse("{}: has {} elements, expected 1 or {}", call.NameOf(kScaleOfB),
                rescale.scales.size(), expected);
}

// The input in the order that oneDNN has integer kernels for.
// Data that comes plain is reordered by a step of each run.
absl::StatusOr<Value> ChannelsLast(ProgramBuilder& program, size_t i,
                                   Desc* desc) {
  const Call& call = program.call();
  NODEWISE_ASSIGN_OR_RETURN(const Desc own, call.InputDesc(i));
  NODEWISE_ASSIGN_OR_RETURN(const DataType type, DataTypeOf(call.dtype(i)));
  *desc = DescOf(call.sizes(i), type, TensorLayout::kChannelsLast);
  return program.Reordered(program.Input(i, own), *desc);
}

// Padding may be negative, which cuts off and adds nothing.
bool IsPadded(const Dims& pads) {
  return std::ranges::any_of(pads, [](auto pad) { return pad > 0; });
}

// `grouped` are the sizes of the weights, as PlaceConv() returns them.
absl::Status AddIntegerConv(ProgramBuilder& program, const Slots& slots,
                            ConvSpec spec, const Sizes& grouped,
                            const Rescale& rescale,
                            const std::vector<float>& bias) {
  const Call& call = program.call();
  // oneDNN 2.6 takes the zero point of what is padded off in the wrong places
  // where there are three spatial sides (found by random networks).
  const bool is_padded = IsPadded(spec.pads_begin) || IsPadded(spec.pads_end);
  if (rescale.source_zero != 0 && is_padded && call.sizes(0).size() > 4) {
    return Refuse("has a zero point and padding of three spatial sides");
  }
  NODEWISE_ASSIGN_OR_RETURN(const Value source,
                            ChannelsLast(program, 0, &spec.source));
  NODEWISE_ASSIGN_OR_RETURN(const DataType type,
                            DataTypeOf(call.output_dtype()));
  spec.output = DescOf(call.output_sizes(), type, TensorLayout::kChannelsLast);
  Arguments arguments = {{DNNL_ARG_SRC, source}};
  if (!bias.empty()) {
    spec.bias = ListDesc(static_cast<int64_t>(bias.size()));
    arguments.emplace_back(DNNL_ARG_BIAS, program.List(bias));
  }
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanConv(spec, {{}, rescale}));
  NODEWISE_RETURN_IF_ERROR(RefuseSlow(planned));
  const Desc plain = DescOf(grouped, DataType::s8);
  NODEWISE_ASSIGN_OR_RETURN(const Value weights,
                            program.Weights(slots.b, plain, planned));
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

// Weights are [outputs, ...]: those of an output lie one behind the other.
absl::StatusOr<double> LargestOfConv(const Call& call, size_t b) {
  const auto lines = static_cast<size_t>(call.sizes(b)[0]);
  const int64_t size = call.count(b) / call.sizes(b)[0];
  return LargestLine(call, b, lines, [size](int64_t i) {
    return static_cast<size_t>(i / size);
  });
}

// An output is a column of B; a vector is one column.
absl::StatusOr<double> LargestOfMatMul(const Call& call, size_t b) {
  const int64_t columns = call.sizes(b).size() < 2 ? 1 : call.sizes(b).back();
  return LargestLine(
      call, b, static_cast<size_t>(columns),
      [columns](int64_t i) { return static_cast<size_t>(i % columns); });
}

absl::Status AddIntegerMatMul(ProgramBuilder& program, const Slots& slots,
                              const Rescale& rescale) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(
      All(call.RequirePlain(0), call.RequirePlain(slots.b)));
  const MatMulSizes sizes = SizesOfMatMul(call, 0, slots.b, true);
  NODEWISE_ASSIGN_OR_RETURN(const DataType a, DataTypeOf(call.dtype(0)));
  NODEWISE_ASSIGN_OR_RETURN(const DataType y, DataTypeOf(call.output_dtype()));
  const Desc left = DescOf(sizes.left, a);
  const Desc right = DescOf(sizes.right, DataType::s8);
  const Desc output = DescOf(sizes.output, y);
  // Sides of the product may be others than those of the call's output.
  Rescale placed = rescale;
  if (placed.side >= 0) {
    placed.side = static_cast<int>(sizes.output.size()) - 1;
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const Planned planned,
      PlanMatMul(left, AnyOrder(sizes.right, DataType::s8), output,
                 {{}, placed}));
  NODEWISE_RETURN_IF_ERROR(RefuseSlow(planned));
  NODEWISE_ASSIGN_OR_RETURN(const Value weights,
                            program.Weights(slots.b, right, planned));
  return program.AddFromInput(planned, left, output,
                              {{DNNL_ARG_WEIGHTS, weights}});
}

// How sums become the output: QLinear operators scale them, and those of the
// others have to be exact. `side` is that of the output which the scales of B
// lie along.
absl::StatusOr<Rescale> ReadRescale(const Call& call, const Slots& slots,
                                    int side, double largest) {
  Rescale rescale{{1}};
  if (slots.has_scales) {
    NODEWISE_ASSIGN_OR_RETURN(rescale, RescaleOf(call, side, largest));
  }
  NODEWISE_ASSIGN_OR_RETURN(rescale.source_zero, ZeroPoint(call, slots.a_zero));
  return rescale;
}

// The bias of a QLinearConv, of 32-bit integers in the scale of the sums.
absl::StatusOr<std::vector<float>> ReadBias(const Call& call,
                                            const Rescale& rescale) {
  constexpr size_t kBias = 8;
  std::vector<float> bias;
  if (!call.has(kBias)) return bias;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> numbers,
                            call.RequireNumbers(kBias));
  for (const double b : numbers) {
    const size_t k = rescale.scales.size() == 1 ? 0 : bias.size();
    const double scaled = b * double{rescale.scales[k]};
    if (!(std::fabs(scaled) < kMostScaled)) {
      return Refuse("the bias is too large for oneDNN's sums to be exact");
    }
    bias.push_back(static_cast<float>(BiasIsRescaled() ? scaled : b));
  }
  return bias;
}

template <typename Class>
absl::Status BuildConvOf(ProgramBuilder& program, const Slots& slots) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(CheckTypes(call, slots));
  NODEWISE_RETURN_IF_ERROR(CheckConvRanks(call, slots.b));
  NODEWISE_ASSIGN_OR_RETURN(const double largest, LargestOfConv(call, slots.b));
  if (!slots.has_scales) NODEWISE_RETURN_IF_ERROR(RequireExact(largest));
  ConvSpec spec;
  NODEWISE_ASSIGN_OR_RETURN(
      const Sizes weights,
      PlaceConv(call, *call.op().As<Class>(), slots.b, DataType::s8, &spec));
  NODEWISE_ASSIGN_OR_RETURN(const Rescale rescale,
                            ReadRescale(call, slots, 1, largest));
  std::vector<float> bias;
  if (slots.has_scales) {
    NODEWISE_ASSIGN_OR_RETURN(bias, ReadBias(call, rescale));
  }
  return AddIntegerConv(program, slots, std::move(spec), weights, rescale,
                        bias);
}

absl::Status BuildMatMulOf(ProgramBuilder& program, const Slots& slots) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(CheckTypes(call, slots));
  NODEWISE_ASSIGN_OR_RETURN(const double largest,
                            LargestOfMatMul(call, slots.b));
  if (!slots.has_scales) NODEWISE_RETURN_IF_ERROR(RequireExact(largest));
  const int last = static_cast<int>(call.output_sizes().size()) - 1;
  NODEWISE_ASSIGN_OR_RETURN(
      const Rescale rescale,
      ReadRescale(call, slots, std::max(last, 0), largest));
  return AddIntegerMatMul(program, slots, rescale);
}

// The scales of one tensor: for all of it, or along one side.
absl::StatusOr<Rescale> ScalesOf(const Call& call, int64_t axis,
                                 int64_t block_size) {
  if (block_size != 0) return Refuse("has scales for blocks");
  NODEWISE_RETURN_IF_ERROR(call.RequireFloat32(1));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> scales,
                            call.RequireNumbers(1));
  Rescale rescale;
  for (const double scale : scales) {
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
  NODEWISE_RETURN_IF_ERROR(
      All(call.RequireNoPostOps(), call.RequireOutputLike(0)));
  NODEWISE_ASSIGN_OR_RETURN(const Desc from, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(const Desc to, call.OutputDesc());
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanReorder(from, to, {{}, rescale}));
  return program.AddFromInput(planned, from, to);
}

}  // namespace

absl::Status BuildConvInteger(ProgramBuilder& program) {
  return BuildConvOf<ops::ConvInteger>(program, kIntegerSlots);
}
absl::Status BuildQLinearConv(ProgramBuilder& program) {
  return BuildConvOf<ops::QLinearConv>(program, kQLinearSlots);
}
absl::Status BuildMatMulInteger(ProgramBuilder& program) {
  return BuildMatMulOf(program, kIntegerSlots);
}
absl::Status BuildQLinearMatMul(ProgramBuilder& program) {
  return BuildMatMulOf(program, kQLinearSlots);
}

// oneDNN multiplies where the operator divides, so scales are turned round.
// Numbers whose quotient would not fit into 32 bits are left to the guard.
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
  for (float& scale : rescale.scales) {
    guard.most = std::min(guard.most, scale * kMostQuotient);
    scale = 1 / scale;
  }
  guard.least = -guard.most;
  program.AddGuard(guard);
  return AddRescale(program, rescale);
}

// The zero point is taken off in float32, which holds all integers of 8 bits.
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
