#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "contrib/onednn/rows.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/pool.h"
#include "nodewise/support/status.h"

namespace nodewise::onednn {
namespace {

// A batch normalization that is computed once, with the weights of the
// convolution in front of it, instead of in each run.

// A batch normalization as it changes the product in front of it: (x - mean)
// factor + shift, channel by channel.
struct ChannelRules {
  struct Rule {
    double mean;
    double factor;
    double shift;
  };
  std::vector<Rule> channels;
  double most = 1;  // A bound of what they make of 1.
};

bool HasBatchNorm(const Call& call) {
  if (call.get().post_ops.empty()) return false;
  const OperatorDef& def = call.get().post_ops[0].op.def();
  return def.domain.empty() && def.name == "BatchNormalization";
}

// Refuses lists that are not constant, and numbers that are not finite.
absl::StatusOr<ChannelRules> ReadBatchNorm(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_ASSIGN_OR_RETURN(const float epsilon,
                            BatchNormEpsilon(call.get().post_ops[0].op));
  const auto channels = static_cast<size_t>(call.output_sizes()[1]);
  std::vector<double> lists[4];
  for (size_t i = 0; i < 4; ++i) {
    const size_t input = call.first_other(0) + i;
    NODEWISE_ASSIGN_OR_RETURN(lists[i], call.RequireNumbers(input));
    program.SetParameter(input);
    if (lists[i].size() == channels) continue;
    return Refuse("a list has {} elements, expected {}", lists[i].size(),
                  channels);
  }
  const auto& [scale, shift, mean, variance] = lists;
  ChannelRules rules;
  for (size_t c = 0; c < channels; ++c) {
    const double factor = scale[c] / std::sqrt(variance[c] + epsilon);
    rules.channels.push_back({mean[c], factor, shift[c]});
    const double most =
        (1 + std::fabs(mean[c])) * std::fabs(factor) + std::fabs(shift[c]);
    if (!std::isfinite(most)) return Refuse("has numbers that are not finite");
    rules.most = std::max(rules.most, most);
  }
  return rules;
}

// Returns the weights of a convolution, each rounded once, with the rules in
// them. They are [out, in / groups, ...], or of a transposed one [in, out /
// groups, ...].
absl::StatusOr<NDArray> FoldedWeights(
    const NDArray& weights, const ChannelRules& rules,
    std::optional<int64_t> transposed_groups) {
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray folded, NDArray::Empty(weights.shape(), weights.dtype(), kCpu));
  const int64_t rows = weights.shape()[0];
  const int64_t columns = weights.shape()[1];
  const int64_t run = CountOf(weights) / (rows * columns);
  const auto* from = weights.As<const float>();
  auto* to = folded.As<float>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      int64_t channel = row;
      if (transposed_groups.has_value()) {
        channel = row / (rows / *transposed_groups) * columns + column;
      }
      const double factor = rules.channels[static_cast<size_t>(channel)].factor;
      for (const auto* const end = from + run; from != end;) {
        *to++ = static_cast<float>(*from++ * factor);
      }
    }
  }
  return folded;
}

std::vector<float> FoldedBias(const NDArray* bias, const ChannelRules& rules) {
  std::vector<double> values(rules.channels.size());
  if (bias != nullptr) values = ToDoubles(*bias);
  std::vector<float> folded;
  for (size_t c = 0; c < values.size(); ++c) {
    const auto& [mean, factor, shift] = rules.channels[c];
    folded.push_back(static_cast<float>((values[c] - mean) * factor + shift));
  }
  return folded;
}

// The windows of an operator, small enough for oneDNN to compute with.
absl::StatusOr<Window> ReadWindow(const Call& call,
                                  const WindowAttributes& attributes) {
  NODEWISE_ASSIGN_OR_RETURN(
      Window window,
      ResolveWindow(attributes, static_cast<int>(call.sizes(0).size()) - 2));
  NODEWISE_RETURN_IF_ERROR(CheckWindows(
      call.sizes(0), {window.kernel, window.strides, window.dilations,
                      window.pads, window.pads}));
  return window;
}

// Convolutions take the sizes of their kernel from the weights.
template <typename Class>
absl::StatusOr<Window> ReadConvWindow(const Call& call, const Class& op,
                                      size_t weights) {
  const Sizes& w = call.sizes(weights);
  return ReadWindow(call, {op.auto_pad,
                           {w.begin() + 2, w.end()},
                           op.strides,
                           op.dilations,
                           op.pads,
                           false});
}

// The sizes of [out, in, ...] as oneDNN has them with groups.
Sizes GroupedSizes(const Sizes& weights, int64_t group) {
  if (group == 1) return weights;
  Sizes grouped = {group, weights[0] / group};
  grouped.insert(grouped.end(), weights.begin() + 1, weights.end());
  return grouped;
}

// Behind a convolution by matrix products, which it takes for plain layouts,
// oneDNN 2 and 3 compute what has a second operand element by element, a
// hundred times as slowly as the convolution itself.
absl::Status RefuseSlowPostOps(const Planned& planned,
                               const Attributes& attributes) {
  const std::string name = planned.plan.impl_info_str();
  const auto& list = attributes.post_ops;
  const bool is_binary = std::ranges::any_of(
      list, [](const PostOp& op) { return op.other.has_value(); });
  if (!is_binary || name.find("gemm") == std::string::npos) {
    return absl::OkStatus();
  }
  return Refuse("oneDNN fuses it in its slow code only ({})", name);
}

// Weights and bias of a convolution, with the batch normalization behind it.
struct ConvConstants {
  Value weights;
  std::optional<Value> bias;
  size_t num_folded = 0;  // Post-operations.
  double most = 1;        // As in ChannelRules.
};

absl::StatusOr<ConvConstants> ConstantsOf(
    ProgramBuilder& program, const Desc& weights,
    std::optional<int64_t> transposed_groups) {
  const Call& call = program.call();
  if (!HasBatchNorm(call)) {
    ConvConstants plain{program.Input(1, weights), std::nullopt};
    if (call.has(2)) {
      NODEWISE_ASSIGN_OR_RETURN(const Desc bias, call.InputDesc(2));
      plain.bias = program.Input(2, bias);
    }
    return plain;
  }
  NODEWISE_ASSIGN_OR_RETURN(const ChannelRules rules, ReadBatchNorm(program));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray* w, call.RequireConstant(1));
  const NDArray* bias = nullptr;
  if (call.has(2)) {
    NODEWISE_ASSIGN_OR_RETURN(bias, call.RequireConstant(2));
  }
  NDArray folded = *w;
  if (!program.is_dry()) {
    NODEWISE_ASSIGN_OR_RETURN(folded,
                              FoldedWeights(*w, rules, transposed_groups));
  }
  return ConvConstants{program.Constant(folded, weights),
                       program.List(FoldedBias(bias, rules)), 1, rules.most};
}

// Adds a convolution of float32 whose weights, input 1, lie as `weights` says,
// with a bias, input 2, if it is given. A batch normalization right behind it
// is folded into both. `transposed_groups` are those of a transposed
// convolution.
absl::Status AddConv(ProgramBuilder& program, ConvSpec spec,
                     const Desc& weights,
                     std::optional<int64_t> transposed_groups) {
  const Call& call = program.call();
  NODEWISE_ASSIGN_OR_RETURN(const ConvConstants constants,
                            ConstantsOf(program, weights, transposed_groups));
  const Sizes& w = call.sizes(1);
  double terms = 2 * constants.most;
  for (size_t side = 1; side < w.size(); ++side) {
    terms *= static_cast<double>(w[side]);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      Fused fused, FusePostOps(program, terms, {}, constants.num_folded));
  // oneDNN's fast code has one layout on both sides.
  NODEWISE_ASSIGN_OR_RETURN(const Desc given, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(spec.output, call.OutputDesc());
  spec.source = DescOf(call.sizes(0), DataType::f32, call.output_layout());
  if (constants.bias.has_value()) {
    spec.bias = ListDesc(call.output_sizes()[1]);
    fused.arguments.emplace_back(DNNL_ARG_BIAS, *constants.bias);
  }
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanConv(spec, fused.attributes));
  NODEWISE_RETURN_IF_ERROR(
      All(RefuseSlow(planned), RefuseSlowPostOps(planned, fused.attributes)));
  NODEWISE_ASSIGN_OR_RETURN(
      const Value ordered,
      program.Reordered(constants.weights,
                        ArgumentOf(planned, DNNL_ARG_WEIGHTS)));
  NODEWISE_ASSIGN_OR_RETURN(
      const Value source,
      program.Reordered(program.Input(0, given), spec.source));
  fused.arguments.emplace_back(DNNL_ARG_SRC, source);
  fused.arguments.emplace_back(DNNL_ARG_WEIGHTS, ordered);
  fused.arguments.emplace_back(DNNL_ARG_DST, program.Output(spec.output));
  return program.Add(planned, fused.arguments);
}

// What Conv and ConvTranspose demand of their tensors; input 1 are the weights.
absl::Status CheckConv(const Call& call) {
  return All(call.RequireAllFloat32(), CheckConvRanks(call, 1),
             call.RequirePlain(1));
}

// oneDNN has the weights [out, in, ...], ONNX [in, out, ...].
Desc SwappedWeights(const Sizes& w, int64_t group) {
  int64_t kernel = 1;
  for (size_t side = 2; side < w.size(); ++side) kernel *= w[side];
  Dims sizes;
  Dims strides;
  if (group > 1) {
    sizes.push_back(group);
    strides.push_back(w[0] / group * w[1] * kernel);
  }
  sizes.insert(sizes.end(), {w[1], w[0] / group});
  strides.insert(strides.end(), {kernel, w[1] * kernel});
  for (size_t side = 2; side < w.size(); ++side) {
    kernel /= w[side];
    sizes.push_back(w[side]);
    strides.push_back(kernel);
  }
  return {sizes, DataType::f32, strides};
}

// The padding of one side of which the output's size follows.
absl::Status PlaceSide(const ops::ConvTranspose& op, const Window& window,
                       size_t s, const Call& call, ConvSpec* spec) {
  const int64_t in = call.sizes(0)[s + 2];
  const int64_t out = call.output_sizes()[s + 2];
  const int64_t reach = (window.kernel[s] - 1) * window.dilations[s] + 1;
  const int64_t full = window.strides[s] * (in - 1) + reach;
  int64_t begin = window.pads[s];
  const bool is_same =
      op.auto_pad == Padding::kSameUpper || op.auto_pad == Padding::kSameLower;
  if (is_same || !op.output_shape.empty()) {
    const int64_t extra = op.output_padding.empty() ? 0 : op.output_padding[s];
    const int64_t total = std::max<int64_t>(full + extra - out, 0);
    const bool less_before = op.auto_pad == Padding::kSameUpper;
    begin = less_before ? total / 2 : total - total / 2;
  }
  spec->strides.push_back(window.strides[s]);
  spec->dilations.push_back(window.dilations[s] - 1);
  spec->pads_begin.push_back(begin);
  spec->pads_end.push_back(full - begin - out);
  // Elements that no tap reaches are the bias, which oneDNN does not promise.
  if (spec->pads_end.back() >= 0) return absl::OkStatus();
  return Refuse("the output reaches beyond the last window");
}

// With AVX-512, oneDNN 3.2 reads other elements of an operand of the output's
// size than it should behind a pool of plain tensors, even some beyond its end.
absl::Status CheckPostOps(const Call& call) {
  if (call.output_layout() != TensorLayout::kPlain) return absl::OkStatus();
  for (size_t k = 0; k < call.get().post_ops.size(); ++k) {
    if (call.get().post_ops[k].others.empty()) continue;
    const size_t other = call.first_other(k);
    if (call.is_given(other) && call.sizes(other) == call.output_sizes()) {
      return Refuse(
          "{}: is as large as the output, behind a pool of plain tensors",
          call.NameOf(other));
    }
  }
  return absl::OkStatus();
}

absl::Status AddPool(ProgramBuilder& program, PoolSpec spec) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(CheckPostOps(call));
  NODEWISE_ASSIGN_OR_RETURN(Fused fused, FusePostOps(program, 1));
  // oneDNN's fast code has one layout on both sides.
  NODEWISE_ASSIGN_OR_RETURN(const Desc given, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(const DataType type, DataTypeOf(call.dtype(0)));
  NODEWISE_ASSIGN_OR_RETURN(spec.output, call.OutputDesc());
  spec.source = DescOf(call.sizes(0), type, call.output_layout());
  NODEWISE_ASSIGN_OR_RETURN(
      const Planned planned,
      PlanOf<PoolForward>(fused.attributes, kInference, spec.algorithm,
                          spec.source, spec.output, spec.strides, spec.kernel,
                          spec.dilations, spec.pads_begin, spec.pads_end));
  NODEWISE_ASSIGN_OR_RETURN(
      const Value source,
      program.Reordered(program.Input(0, given), spec.source));
  fused.arguments.emplace_back(DNNL_ARG_SRC, source);
  fused.arguments.emplace_back(DNNL_ARG_DST, program.Output(spec.output));
  return program.Add(planned, fused.arguments);
}

// Besides float32, oneDNN takes the maximum of these types.
bool IsByte(DLDataType dtype) { return dtype == kInt8 || dtype == kUint8; }

}  // namespace

absl::Status RefuseSlow(const Planned& planned) {
  const std::string name = planned.plan.impl_info_str();
  if (!name.starts_with("ref")) return absl::OkStatus();
  return Refuse("oneDNN has only its slow code for it ({})", name);
}

// One to three spatial sides.
absl::Status CheckConvRanks(const Call& call, size_t weights) {
  NODEWISE_RETURN_IF_ERROR(call.RequireRank(3, 5));
  if (call.sizes(weights).size() == call.sizes(0).size()) {
    return absl::OkStatus();
  }
  return Refuse("the weights are of another rank than the data");
}

// SAME_* pads depend on the sizes, so the output is calculated again with those
// that have been found, and compared.
absl::StatusOr<Sizes> PlaceConv(const Call& call, const ops::ConvAttributes& op,
                                size_t weights, DataType type, ConvSpec* spec) {
  const Sizes& x = call.sizes(0);
  const Sizes& w = call.sizes(weights);
  NODEWISE_ASSIGN_OR_RETURN(Window window, ReadConvWindow(call, op, weights));
  Sizes output = {x[0], w[0]};
  for (size_t s = 0; s + 2 < x.size(); ++s) {
    const int side = static_cast<int>(s);
    PadSame(op.auto_pad, side, x[s + 2], &window);
    NODEWISE_ASSIGN_OR_RETURN(output.emplace_back(),
                              WindowCount(window, side, x[s + 2], false));
    spec->dilations.push_back(window.dilations[s] - 1);
  }
  if (output != call.output_sizes()) {
    return Refuse("makes {}, but the output is {}", ShapeToString(output),
                  ShapeToString(call.output_sizes()));
  }
  spec->strides = window.strides;
  const auto middle = window.pads.begin() + static_cast<int>(x.size()) - 2;
  spec->pads_begin.assign(window.pads.begin(), middle);
  spec->pads_end.assign(middle, window.pads.end());
  const Sizes grouped = GroupedSizes(w, op.group);
  spec->has_groups = op.group > 1;
  spec->weights = AnyOrder(grouped, type);
  return grouped;
}

// Weights lie in the order that oneDNN chooses, and are brought there when the
// kernel is made if they are constant.
absl::Status BuildConv(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(CheckConv(call));
  ConvSpec spec;
  NODEWISE_ASSIGN_OR_RETURN(
      const Sizes weights,
      PlaceConv(call, *call.op().As<ops::Conv>(), 1, DataType::f32, &spec));
  return AddConv(program, std::move(spec), DescOf(weights, DataType::f32),
                 std::nullopt);
}

// Pads of the end may follow from the output alone (output_padding), so windows
// are checked again with them.
absl::StatusOr<Desc> PlaceConvTranspose(const Call& call, ConvSpec* spec) {
  const auto& op = *call.op().As<ops::ConvTranspose>();
  NODEWISE_ASSIGN_OR_RETURN(const Window window, ReadConvWindow(call, op, 1));
  spec->is_transposed = true;
  spec->has_groups = op.group > 1;
  for (size_t s = 0; s < window.kernel.size(); ++s) {
    NODEWISE_RETURN_IF_ERROR(PlaceSide(op, window, s, call, spec));
  }
  NODEWISE_RETURN_IF_ERROR(CheckWindows(
      call.sizes(0), {window.kernel, spec->strides, spec->dilations,
                      spec->pads_begin, spec->pads_end}));
  Sizes sizes = call.sizes(1);
  std::swap(sizes[0], sizes[1]);
  sizes[0] *= op.group;
  sizes[1] /= op.group;
  spec->weights = AnyOrder(GroupedSizes(sizes, op.group), DataType::f32);
  return SwappedWeights(call.sizes(1), op.group);
}

// The batch normalization behind the operator is folded by output channel, for
// which the number of groups has to be known.
absl::Status BuildConvTranspose(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(CheckConv(call));
  ConvSpec spec;
  NODEWISE_ASSIGN_OR_RETURN(const Desc weights,
                            PlaceConvTranspose(call, &spec));
  return AddConv(program, std::move(spec), weights,
                 call.op().As<ops::ConvTranspose>()->group);
}

Algorithm AverageOf(const ops::AveragePool& op) {
  return op.count_include_pad ? Algorithm::pooling_avg_include_padding
                              : Algorithm::pooling_avg_exclude_padding;
}

// Padding at the end is as much as the last window needs, which with ceil_mode
// may be more than the operator says.
absl::StatusOr<PoolSpec> PlacePool(const Call& call,
                                   const ops::PoolAttributes& op,
                                   Algorithm algorithm, bool* reaches_beyond) {
  const Sizes& x = call.sizes(0);
  const size_t spatial = x.size() - 2;
  NODEWISE_ASSIGN_OR_RETURN(
      Window window, ReadWindow(call, {op.auto_pad, op.kernel_shape, op.strides,
                                       op.dilations, op.pads, op.ceil_mode}));
  PoolSpec spec;
  spec.algorithm = algorithm;
  *reaches_beyond = false;
  for (size_t s = 0; s < spatial; ++s) {
    PadSame(op.auto_pad, static_cast<int>(s), x[s + 2], &window);
    const int64_t out = call.output_sizes()[s + 2];
    const int64_t reach = (window.kernel[s] - 1) * window.dilations[s] + 1;
    const int64_t begin = window.pads[s];
    const int64_t needed =
        (out - 1) * window.strides[s] + reach - x[s + 2] - begin;
    const int64_t end = std::max(window.pads[s + spatial], needed);
    *reaches_beyond = *reaches_beyond || end > window.pads[s + spatial];
    if (begin >= reach || end >= reach) {
      return Refuse("has windows that lie in the padding altogether");
    }
    spec.pads_begin.push_back(begin);
    spec.pads_end.push_back(end);
    spec.dilations.push_back(window.dilations[s] - 1);
  }
  spec.kernel = window.kernel;
  spec.strides = window.strides;
  return spec;
}

// Integers have no NaN to guard, and nothing can be fused behind them.
absl::Status BuildMaxPool(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(call.RequireRank(3, 5));
  if (IsByte(call.dtype(0))) {
    NODEWISE_RETURN_IF_ERROR(call.RequireNoPostOps());
  } else {
    NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
    program.AddGuard({});
  }
  bool reaches_beyond = false;
  NODEWISE_ASSIGN_OR_RETURN(PoolSpec spec,
                            PlacePool(call, *call.op().As<ops::MaxPool>(),
                                      Algorithm::pooling_max, &reaches_beyond));
  return AddPool(program, std::move(spec));
}

absl::Status BuildAveragePool(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::AveragePool>();
  NODEWISE_RETURN_IF_ERROR(
      All(call.RequireAllFloat32(), call.RequireRank(3, 5)));
  bool reaches_beyond = false;
  NODEWISE_ASSIGN_OR_RETURN(
      PoolSpec spec, PlacePool(call, op, AverageOf(op), &reaches_beyond));
  if (reaches_beyond && op.count_include_pad) {
    return Refuse(
        "counts padding, and has windows that reach beyond it (ceil_mode), "
        "where oneDNN would count on");
  }
  return AddPool(program, std::move(spec));
}

PoolSpec GlobalPool(const Call& call, Algorithm algorithm) {
  const Sizes& x = call.sizes(0);
  PoolSpec spec;
  spec.algorithm = algorithm;
  spec.kernel.assign(x.begin() + 2, x.end());
  spec.strides.assign(spec.kernel.size(), 1);
  spec.dilations.assign(spec.kernel.size(), 0);
  spec.pads_begin = spec.pads_end = spec.dilations;
  return spec;
}

// The window is the whole plane, without padding.
absl::Status BuildGlobalPool(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(
      All(call.RequireAllFloat32(), call.RequireRank(3, 5)));
  const bool is_max = call.op().As<ops::GlobalMaxPool>() != nullptr;
  if (is_max) program.AddGuard({});
  PoolSpec spec =
      GlobalPool(call, is_max ? Algorithm::pooling_max
                              : Algorithm::pooling_avg_exclude_padding);
  NODEWISE_RETURN_IF_ERROR(
      CheckWindows(call.sizes(0), {spec.kernel, spec.strides, spec.dilations,
                                   spec.pads_begin, spec.pads_end}));
  return AddPool(program, std::move(spec));
}

}  // namespace nodewise::onednn
