// Convolutions and pools: a row of the output at a time.

#include "contrib/emit_c/windows.h"

#include <algorithm>

#include "contrib/emit_c/operation_code.h"
#include "contrib/emit_c/quantized.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {

absl::StatusOr<int64_t> ReachOf(int64_t places, int64_t stride, int64_t taps,
                                int64_t dilation) {
  int64_t steps = 0, spread = 0, reach = 0;
  const bool is_too_large =
      __builtin_mul_overflow(places - 1, stride, &steps) ||
      __builtin_mul_overflow(taps - 1, dilation, &spread) ||
      __builtin_add_overflow(steps, spread, &reach) || reach >= kMostElements;
  if (!is_too_large) return reach + 1;
  return Refuse(
      "{} windows reach over more than {} elements of a side, of which no "
      "memory holds a copy",
      places, kMostElements);
}

namespace {

// Where the windows of a convolution or a pool lie. Lists are by spatial side.
// The code walks over planes that have their padding around them, so that no
// loop asks whether it is outside.
struct WindowPlan {
  Window window;
  Sizes input;
  Sizes output;
  Sizes padded;  // What the windows reach of a plane with its padding.

  size_t sides() const { return input.size(); }
  bool needs_padding() const {
    return padded != input ||
           std::any_of(window.pads.begin(),
                       window.pads.begin() + static_cast<int>(sides()),
                       [](int64_t pad) { return pad != 0; });
  }
  int64_t plane() const { return CountIn(padded); }
  int64_t taps() const { return CountIn(window.kernel); }
  // Returns how many of a window's taps lie in the input, or with
  // `with_padding` in that or the padding that the operator asks for, as an
  // expression of the place along a side.
  std::string TapCount(size_t side, bool with_padding,
                       const std::string& place) const {
    const int64_t begin = window.pads[side];
    const int64_t least = with_padding ? -begin : 0;
    const int64_t end =
        input[side] + (with_padding ? window.pads[side + sides()] : 0);
    const int64_t last = (output[side] - 1) * window.strides[side] - begin +
                         (window.kernel[side] - 1) * window.dilations[side];
    // All windows lie inside if the first and the last do.
    if (-begin >= least && last < end) {
      return fmt::format("{}", window.kernel[side]);
    }
    return fmt::format("nw_taps({} * {} - {}, {}, {}, {}, {})", place,
                       window.strides[side], begin, window.kernel[side],
                       window.dilations[side], least, end);
  }

  // Open loops over all places or taps but along the last side, whose loop is
  // the innermost and has code of its own: "o0", ... and "k0", ...
  void OpenRows(CodeWriter* code) const { OpenLeading(code, "o", output); }
  void OpenTaps(CodeWriter* code) const {
    OpenLeading(code, "k", window.kernel);
  }
  // Return the index of a row of the output in its plane, of the first element
  // under it in the padded plane, and of the first tap of the line of taps.
  std::string RowIndex() const {
    return IndexText("o", LeadingStrides(output));
  }
  std::string TapIndex() const {
    return IndexText("k", LeadingStrides(window.kernel));
  }
  std::string SourceIndex() const {
    const Sizes strides = LeadingStrides(padded);
    std::vector<std::string> terms;
    for (size_t s = 0; s < strides.size(); ++s) {
      terms.push_back(fmt::format("(o{0} * {1} + k{0} * {2}) * {3}", s,
                                  window.strides[s], window.dilations[s],
                                  strides[s]));
    }
    return SumOf(terms);
  }
  std::string IndexUnderTap(int64_t t) const {
    const int64_t stride = window.strides.back();
    const int64_t offset = t * window.dilations.back();
    std::string index = stride == 1 ? "o" : fmt::format("o * {}", stride);
    if (offset != 0) index += fmt::format(" + {}", offset);
    return index;
  }

 private:
  void OpenLeading(CodeWriter* code, std::string_view letter,
                   const Sizes& sizes) const {
    for (size_t s = 0; s + 1 < sides(); ++s) {
      code->For(fmt::format("{}{}", letter, s), sizes[s]);
    }
  }
  static Sizes LeadingStrides(const Sizes& sizes) {
    Sizes strides = CompactView(sizes).strides;
    strides.resize(std::max<size_t>(strides.size(), 1) - 1);
    return strides;
  }
};

// Padding behind the last window is left out: the padded side reaches as far as
// the windows do.
absl::StatusOr<WindowPlan> PlanWindows(const WindowAttributes& attributes,
                                       const CTensor& x, const CTensor& y) {
  WindowPlan plan;
  plan.input.assign(x.sizes.begin() + 2, x.sizes.end());
  plan.output.assign(y.sizes.begin() + 2, y.sizes.end());
  const int spatial = static_cast<int>(plan.input.size());
  NODEWISE_ASSIGN_OR_RETURN(plan.window, ResolveWindow(attributes, spatial));
  for (int side = 0; side < spatial; ++side) {
    const auto s = static_cast<size_t>(side);
    PadSame(attributes.auto_pad, side, plan.input[s], &plan.window);
    NODEWISE_ASSIGN_OR_RETURN(
        const int64_t needed,
        ReachOf(std::max<int64_t>(plan.output[s], 1), plan.window.strides[s],
                plan.window.kernel[s], plan.window.dilations[s]));
    // Where the windows leave out the end of a side, the plane can be used as
    // it is.
    plan.padded.push_back(
        plan.window.pads[s] == 0 ? std::max(needed, plan.input[s]) : needed);
  }
  return plan;
}

// Writes loops that copy planes to `to`, surrounded by `fill`.
// All of `to` is filled first, and then the planes are copied into its middle,
// as far as the windows reach.
void PadPlanes(CodeWriter* code, const WindowPlan& plan, int64_t planes,
               const std::string& from, const std::string& to,
               const std::string& fill) {
  code->Each("i", planes * plan.plane(), "{}[i] = {};", to, fill);
  const auto with_planes = [planes](Sizes sides) {
    sides.insert(sides.begin(), planes);
    return CompactView(sides);
  };
  const View from_view = with_planes(plan.input);
  View to_view = with_planes(plan.padded);
  Sizes copied = {planes};
  for (size_t s = 0; s < plan.sides(); ++s) {
    const int64_t begin = plan.window.pads[s];
    to_view.offset += begin * to_view.strides[s + 1];
    copied.push_back(
        std::max<int64_t>(0, std::min(plan.input[s], plan.padded[s] - begin)));
  }
  CopyCode(code, copied, from, from_view, to, to_view);
}

// Using more factors at once than fit into registers is not faster.
constexpr int64_t kFactorsAtOnce = 8;
constexpr int64_t kChannelsAtOnce = 4;
// Lines of more taps are a loop: each would be a line of code.
constexpr int64_t kMostWrittenTaps = 64;

// row[o] += the sum of factors times what they lie on. Products of short
// integers fit into C's int, and it is their sum that may wrap around.
void AddToRow(CodeWriter* code, int64_t count,
              const std::vector<std::string>& products) {
  std::vector<std::string> terms;
  for (const std::string& product : products) {
    terms.push_back("(sum_type)(" + product + ")");
  }
  code->Each("o", count, "row[o] += {};", SumOf(terms));
}

// A convolution, whose tensors need not be those of an operation.
struct Conv {
  CTensor x;
  CTensor w;
  CTensor y;
  std::string bias;  // Empty: none.
  // The type that sums are taken in, as wide as the elements of y.
  std::string_view sum_type;
  // These follow from the attributes; WriteConvOf() fills them in.
  int64_t groups = 1;
  WindowPlan plan{};

  int64_t group_channels() const { return x.sizes[1] / groups; }
};

// Without windows that overlap, a plane is one row. So the loop over a row is
// as long as can be.
void JoinSides(Conv* conv) {
  WindowPlan& plan = conv->plan;
  if (plan.needs_padding() || plan.taps() != 1 ||
      plan.window.strides != Sizes(plan.sides(), 1)) {
    return;
  }
  plan.input = plan.output = plan.padded = {CountIn(plan.input)};
  plan.window = {{1}, {1}, {1}, {0, 0}};
}

// The channels of a convolution without neighbours, some at once.
void AddChannels(CodeWriter* code, const Conv& conv) {
  const int64_t all = conv.group_channels();
  const int64_t plane = conv.plan.plane();
  const auto add = [&](int64_t begin, int64_t end, int64_t step) {
    if (begin == end) return;
    code->Open("for (int64_t c = {}; c < {}; c += {})", begin, end, step);
    code->Line("const element_type* from = x + c * {};", plane);
    std::vector<std::string> products;
    for (int64_t t = 0; t < step; ++t) {
      code->Line("const element_type w{0} = w[c + {0}];", t);
      products.push_back(fmt::format("w{} * from[o + {}]", t, t * plane));
    }
    AddToRow(code, conv.plan.output.back(), products);
    code->Close();
  };
  const int64_t whole = all / kChannelsAtOnce * kChannelsAtOnce;
  add(0, whole, kChannelsAtOnce);
  add(whole, all, 1);
}

// A line of taps is added at once, in groups of as many factors as there are
// registers for. All loops but that over the row lie outside of it, so that the
// innermost one reads and writes in order.
void AddWindows(CodeWriter* code, const Conv& conv) {
  const WindowPlan& plan = conv.plan;
  const int64_t taps = plan.window.kernel.back();
  code->For("c", conv.group_channels());
  plan.OpenTaps(code);
  code->Line("const element_type* from = x + c * {} + {};", plan.plane(),
             plan.SourceIndex());
  code->Line("const element_type* v = w + c * {} + {};", plan.taps(),
             plan.TapIndex());
  if (taps > kMostWrittenTaps) {
    code->For("k", taps);
    AddToRow(code, plan.output.back(),
             {fmt::format("v[k] * from[{} + k * {}]", plan.IndexUnderTap(0),
                          plan.window.dilations.back())});
    code->Close();
  }
  for (int64_t first = 0; taps <= kMostWrittenTaps && first < taps;
       first += kFactorsAtOnce) {
    std::vector<std::string> products;
    const int64_t end = std::min(taps, first + kFactorsAtOnce);
    for (int64_t t = first; t < end; ++t) {
      code->Line("const element_type w{0} = v[{0}];", t);
      products.push_back(
          fmt::format("w{} * from[{}]", t, plan.IndexUnderTap(t)));
    }
    AddToRow(code, plan.output.back(), products);
  }
  code->Close(static_cast<int>(plan.sides()));
}

void WriteRows(CodeWriter* code, const Conv& conv, const std::string& image) {
  const WindowPlan& plan = conv.plan;
  code->For("m", conv.w.sizes[0]);
  code->Line("const element_type* x = {} + m / {} * {};", image,
             conv.w.sizes[0] / conv.groups,
             conv.group_channels() * plan.plane());
  code->Line("const element_type* w = {} + m * {};", conv.w.name,
             conv.group_channels() * plan.taps());
  plan.OpenRows(code);
  code->Line("sum_type* restrict row = (sum_type*){} + (n * {} + m) * {} + {};",
             conv.y.name, conv.w.sizes[0], CountIn(plan.output),
             plan.RowIndex());
  code->Each("o", plan.output.back(), "row[o] = {};",
             conv.bias.empty() ? "0" : conv.bias + "[m]");
  const bool is_joined =
      plan.sides() == 1 && plan.taps() == 1 && plan.window.strides[0] == 1;
  is_joined ? AddChannels(code, conv) : AddWindows(code, conv);
  code->Close(static_cast<int>(plan.sides() - 1) + 1);
}

// A convolution has the sizes of its kernel from its weights.
template <typename Class>
WindowAttributes ConvWindow(const Class& op, const Sizes& w) {
  return {op.auto_pad, {w.begin() + 2, w.end()},
          op.strides,  op.dilations,
          op.pads,     false};
}

absl::Status WriteConvOf(OperationCode& operation,
                         const ops::ConvAttributes& op, Conv conv) {
  conv.groups = op.group;
  NODEWISE_ASSIGN_OR_RETURN(
      conv.plan, PlanWindows(ConvWindow(op, conv.w.sizes), conv.x, conv.y));
  JoinSides(&conv);
  const WindowPlan& plan = conv.plan;
  const int64_t channels = conv.x.sizes[1];
  CodeWriter& code = operation.code();
  code.Open();
  code.Line("typedef {} element_type;", conv.x.type());
  code.Line("typedef {} sum_type;", conv.sum_type);
  code.For("n", conv.x.sizes[0]);
  std::string image =
      fmt::format("{} + n * {}", conv.x.name, channels * CountIn(plan.input));
  if (plan.needs_padding()) {
    const std::string to =
        operation.store().Scratch(conv.x.type(), channels * plan.plane());
    PadPlanes(&code, plan, channels, "(" + image + ")", to, "0");
    image = to;
  }
  WriteRows(&code, conv, image);
  code.Close(2);
  return absl::OkStatus();
}

// Floats are summed up in the type of the tensors, as docs/emit_c.md says.
absl::Status WriteConv(OperationCode& code) {
  return WriteConvOf(code, *code.As<ops::Conv>(),
                     {code.in(0), code.in(1), code.out(),
                      code.has(2) ? code.in(2).name : "", code.out().type()});
}

// The zero points of weights: one, or one for each channel of the output.
// Zero points lie along the first side of the weights, that of the output
// channels.
absl::StatusOr<CTensor> CentredWeights(OperationCode& code, size_t weights,
                                       size_t zero) {
  const Sizes& w = code.in(weights).sizes;
  View view{Sizes(w.size(), 0), 0};
  if (code.has(zero) && code.in(zero).count() != 1) {
    if (code.in(zero).count() != w[0]) {
      return Refuse("input {}: has {} elements, expected 1 or {}", zero,
                    code.in(zero).count(), w[0]);
    }
    view.strides[0] = 1;
  }
  return CentredCopy(code, weights, zero, view);
}

// Padding of integers has the value of the zero point, which is 0 once that is
// taken off.
absl::Status WriteIntegerConv(OperationCode& code,
                              const ops::ConvAttributes& op,
                              const ProductSlots& slots, const CTensor& sums) {
  if (code.has(slots.a_zero) && code.in(slots.a_zero).count() != 1) {
    return Refuse("the zero point of X has more than one element");
  }
  const View one{Sizes(code.in(slots.a).sizes.size(), 0), 0};
  NODEWISE_ASSIGN_OR_RETURN(const CTensor w,
                            CentredWeights(code, slots.b, slots.b_zero));
  return WriteConvOf(
      code, op,
      {CentredCopy(code, slots.a, slots.a_zero, one), w, sums, "", "uint32_t"});
}

// The sums of a ConvInteger are its output.
absl::Status WriteConvInteger(OperationCode& code) {
  return WriteIntegerConv(code, *code.As<ops::ConvInteger>(),
                          kIntegerProductSlots, code.out());
}

absl::Status CheckScales(const OperationCode& code) {
  NODEWISE_RETURN_IF_ERROR(RequireOneScale(code));
  const int64_t channels = code.out().sizes[1];
  if (code.in(1).count() != 1) return Refuse("X has more than one scale");
  for (const size_t i : {4, 8}) {
    const int64_t count = code.has(i) ? code.in(i).count() : 1;
    if (count == 1 || count == channels) continue;
    return Refuse("input {}: has {} elements, expected 1 or {}", i, count,
                  channels);
  }
  return absl::OkStatus();
}

// The bias is added to the sums as an integer of their scale, before they are
// scaled.
absl::Status WriteQLinearConv(OperationCode& code) {
  NODEWISE_RETURN_IF_ERROR(CheckScales(code));
  const CTensor sums = code.store().ScratchTensor(kInt32, code.out().sizes);
  NODEWISE_RETURN_IF_ERROR(WriteIntegerConv(code, *code.As<ops::QLinearConv>(),
                                            kQLinearProductSlots, sums));
  const int64_t channels = sums.sizes[1];
  const int64_t inner = CountIn(absl::MakeConstSpan(sums.sizes).subspan(2));
  const auto of_channel = [&](size_t i) {
    return fmt::format("(double){}[{}]", code.in(i).name,
                       code.in(i).count() == 1 ? "0" : "m");
  };
  code.code().For({{"n", sums.sizes[0]}, {"m", channels}});
  code.code().Line("const double factor = (double){}[0] * {};", code.in(1).name,
                   of_channel(4));
  code.code().For("i", inner);
  code.code().Line("const int64_t at = (n * {} + m) * {} + i;", channels,
                   inner);
  code.code().Line(
      "{}[at] = {};", code.out().name,
      RequantizedText(code, code.has(8) ? fmt::format("({}[at] + {})",
                                                      sums.name, of_channel(8))
                                        : sums.name + "[at]"));
  code.code().Close(3);
  return absl::OkStatus();
}

// Adds each element of X, times the weights, to the places of a whole plane, of
// which the output is a part.
struct Scattering {
  Window window;
  Sizes input;
  Sizes full;
  Sizes pads;  // Before.
};

// With an output_shape or auto_pad, pads follow from the size of the output:
// what is too much of the whole plane is cut off, and the odd one in front or
// behind.
absl::StatusOr<Scattering> PlaceScattering(const ops::ConvTranspose& op,
                                           const CTensor& x, const CTensor& w,
                                           const CTensor& y) {
  Scattering plan;
  plan.input.assign(x.sizes.begin() + 2, x.sizes.end());
  NODEWISE_ASSIGN_OR_RETURN(plan.window,
                            ResolveWindow(ConvWindow(op, w.sizes),
                                          static_cast<int>(plan.input.size())));
  const Window& window = plan.window;
  for (size_t s = 0; s < plan.input.size(); ++s) {
    NODEWISE_ASSIGN_OR_RETURN(const int64_t full,
                              ReachOf(plan.input[s], window.strides[s],
                                      window.kernel[s], window.dilations[s]));
    const int64_t extra = op.output_padding.empty() ? 0 : op.output_padding[s];
    const int64_t total = std::max<int64_t>(full + extra - y.sizes[s + 2], 0);
    const bool is_same = op.auto_pad == ops::Padding::kSameUpper ||
                         op.auto_pad == ops::Padding::kSameLower;
    const bool is_given = op.output_shape.empty() && !is_same;
    const bool less_before = op.auto_pad == ops::Padding::kSameUpper;
    plan.full.push_back(full);
    plan.pads.push_back(is_given      ? window.pads[s]
                        : less_before ? total / 2
                                      : total - total / 2);
  }
  return plan;
}

// Nothing is asked about borders, since the whole plane has room for every tap;
// the part that is the output is cut out of it behind.
void ScatterPlanes(CodeWriter* code, const Scattering& plan, int64_t channels) {
  const size_t sides = plan.input.size();
  const View in = CompactView(plan.input);
  const View full = CompactView(plan.full);
  const View kernel = CompactView(plan.window.kernel);
  std::string from = fmt::format("x + c * {}", CountIn(plan.input));
  std::string to = "sums";
  std::string tap = "v";
  code->For("c", channels);
  code->Line("const float_type* v = w + c * weights;");
  for (size_t s = 0; s + 1 < sides; ++s) {
    code->For(fmt::format("i{}", s), plan.input[s]);
    code->For(fmt::format("k{}", s), plan.window.kernel[s]);
    from += fmt::format(" + i{} * {}", s, in.strides[s]);
    to += fmt::format(" + (i{0} * {1} + k{0} * {2}) * {3}", s,
                      plan.window.strides[s], plan.window.dilations[s],
                      full.strides[s]);
    tap += fmt::format(" + k{} * {}", s, kernel.strides[s]);
  }
  code->For("k", plan.window.kernel.back());
  code->Line("const float_type* row = {};", from);
  code->Line("float_type* restrict sum = {} + k * {};", to,
             plan.window.dilations.back());
  code->Line("const float_type factor = ({})[k];", tap);
  code->Each("i", plan.input.back(), "sum[i * {}] += factor * row[i];",
             plan.window.strides.back());
  code->Close(static_cast<int>(2 * (sides - 1)) + 2);
}

absl::Status WriteConvTranspose(OperationCode& operation) {
  const auto& op = *operation.As<ops::ConvTranspose>();
  const CTensor& x = operation.in(0);
  const CTensor& w = operation.in(1);
  const CTensor& y = operation.out();
  NODEWISE_ASSIGN_OR_RETURN(const Scattering plan,
                            PlaceScattering(op, x, w, y));
  const int64_t outputs = w.sizes[1];  // Those of a group.
  const int64_t channels = x.sizes[1] / op.group;
  const int64_t taps = CountIn(plan.window.kernel);
  const int64_t full = CountIn(plan.full);
  CodeWriter& code = operation.code();
  const std::string sums = operation.store().Scratch(y.type(), full);
  code.Open();
  code.Line("typedef {} float_type;", y.type());
  code.Line("float_type* sums = {};", sums);
  code.Line("const int64_t weights = {};", outputs * taps);
  code.For({{"n", x.sizes[0]}, {"g", op.group}, {"m", outputs}});
  code.Line("const float_type* x = {} + (n * {} + g) * {};", x.name, op.group,
            channels * CountIn(plan.input));
  code.Line("const float_type* w = {} + g * {} * weights + m * {};", w.name,
            channels, taps);
  code.Line("float_type* to = {} + ((n * {} + g) * {} + m) * {};", y.name,
            op.group, outputs, y.count() / (y.sizes[0] * y.sizes[1]));
  const std::string bias =
      operation.has(2)
          ? fmt::format("{}[g * {} + m]", operation.in(2).name, outputs)
          : "0";
  code.Line("memset(sums, 0, {} * sizeof(*sums));", full);
  ScatterPlanes(&code, plan, channels);
  const Sizes out(y.sizes.begin() + 2, y.sizes.end());
  code.Each("i", CountIn(out), "to[i] = {};", bias);
  View from_view = CompactView(plan.full);
  Sizes copied;
  for (size_t s = 0; s < out.size(); ++s) {
    from_view.offset += plan.pads[s] * from_view.strides[s];
    copied.push_back(std::min(out[s], plan.full[s] - plan.pads[s]));
  }
  const LoopNest nest(copied, {from_view, CompactView(out)});
  nest.Each(&code, "to[{}] += sums[{}];", nest.At(1), nest.At(0));
  code.Close(4);
  return absl::OkStatus();
}

// How a pool treats the elements under its windows.
struct Pooling {
  std::string type;   // That a row is computed in.
  std::string fill;   // What padding counts as.
  std::string first;  // What a row begins with.
  std::string step;   // An expression of {row} and {x}.
  std::string end;    // An expression of "v", the row's element.
};

absl::Status WritePool(OperationCode& operation, const WindowPlan& plan,
                       const Pooling& pooling) {
  const CTensor& x = operation.in(0);
  const CTensor& y = operation.out();
  CodeWriter& code = operation.code();
  const std::string row =
      operation.store().Scratch(pooling.type, plan.output.back());
  code.For("p", x.sizes[0] * x.sizes[1]);
  std::string from = fmt::format("{} + p * {}", x.name, CountIn(plan.input));
  if (plan.needs_padding()) {
    const std::string to = operation.store().Scratch(x.type(), plan.plane());
    PadPlanes(&code, plan, 1, "(" + from + ")", to, pooling.fill);
    from = to;
  }
  plan.OpenRows(&code);
  code.Each("o", plan.output.back(), "{}[o] = {};", row, pooling.first);
  plan.OpenTaps(&code);
  code.Line("const {}* from = {} + {};", x.type(), from, plan.SourceIndex());
  code.For({{"k", plan.window.kernel.back()}, {"o", plan.output.back()}});
  code.Line("const {} a = from[{} + k * {}];", x.type(), plan.IndexUnderTap(0),
            plan.window.dilations.back());
  code.Line(fmt::runtime(pooling.step), fmt::arg("row", row + "[o]"),
            fmt::arg("x", "a"));
  code.Close(static_cast<int>(plan.sides() - 1) + 2);
  code.For("o", plan.output.back());
  code.Line("const {} v = {}[o];", pooling.type, row);
  code.Line("{}[p * {} + {} + o] = ({})({});", y.name, CountIn(plan.output),
            plan.RowIndex(), y.type(), pooling.end);
  code.Close(static_cast<int>(plan.sides() - 1) + 2);
  return absl::OkStatus();
}

// Pools have their kernels among the attributes, and convolutions in the sizes
// of their weights.
absl::StatusOr<WindowPlan> PlanPool(const OperationCode& code,
                                    const ops::PoolAttributes& op) {
  return PlanWindows({op.auto_pad, op.kernel_shape, op.strides, op.dilations,
                      op.pads, op.ceil_mode},
                     code.in(0), code.out());
}

// The number that every other replaces.
// Padding of a maximum counts as this, so that it never wins.
std::string LowestText(DLDataType dtype) {
  if (IsFloat(dtype)) return "-INFINITY";
  if (IsUnsigned(dtype)) return "0";
  return fmt::format("INT{}_MIN", dtype.bits);
}

// A NaN replaces every number, and is replaced by none.
absl::Status WriteMaxPool(OperationCode& code) {
  if (code.wants(1)) return Refuse("its indices are wanted");
  const CTensor& x = code.in(0);
  NODEWISE_ASSIGN_OR_RETURN(const WindowPlan plan,
                            PlanPool(code, *code.As<ops::MaxPool>()));
  const std::string lowest = LowestText(x.dtype);
  const std::string step =
      IsFloat(x.dtype) ? "{row} = {x} > {row} || {x} != {x} ? {x} : {row};"
                       : "{row} = {x} > {row} ? {x} : {row};";
  return WritePool(code, plan,
                   {std::string(x.type()), lowest, lowest, step, "v"});
}

// The number of elements under a window is a product over the sides, of which
// each is mostly a constant (TapCount).
absl::Status WriteAveragePool(OperationCode& code) {
  const auto& op = *code.As<ops::AveragePool>();
  NODEWISE_ASSIGN_OR_RETURN(const WindowPlan plan, PlanPool(code, op));
  std::string count;
  for (size_t s = 0; s < plan.sides(); ++s) {
    const std::string index =
        s + 1 == plan.sides() ? "o" : fmt::format("o{}", s);
    count +=
        (s == 0 ? "" : " * ") + plan.TapCount(s, op.count_include_pad, index);
  }
  return WritePool(
      code, plan,
      {"double", "0", "0", "{row} += {x};", fmt::format("v / ({})", count)});
}

// Powers and roots of 1 and 2 need no pow().
absl::Status WriteLpPool(OperationCode& code) {
  const auto& op = *code.As<ops::LpPool>();
  NODEWISE_ASSIGN_OR_RETURN(const WindowPlan plan, PlanPool(code, op));
  const std::string power = DoubleText(static_cast<double>(op.p));
  Pooling pooling{"double", "0", "0",
                  fmt::format("{{row}} += pow(fabs({{x}}), {});", power),
                  fmt::format("pow(v, 1 / {})", power)};
  if (op.p == 1) {
    pooling.step = "{row} += fabs({x});";
    pooling.end = "v";
  } else if (op.p == 2) {
    pooling.step = "{row} += (double){x} * {x};";
    pooling.end = "sqrt(v)";
  }
  return WritePool(code, plan, pooling);
}

constexpr Row kWindowRows[] = {
    SizedRow<ops::Conv>(&WriteConv),
    SizedRow<ops::ConvInteger>(&WriteConvInteger),
    SizedRow<ops::QLinearConv>(&WriteQLinearConv),
    SizedRow<ops::ConvTranspose>(&WriteConvTranspose),
    SizedRow<ops::MaxPool>(&WriteMaxPool),
    SizedRow<ops::AveragePool>(&WriteAveragePool),
    SizedRow<ops::LpPool>(&WriteLpPool),
};

}  // namespace

absl::Span<const Row> WindowRows() { return kWindowRows; }

}  // namespace nodewise::emit_c
