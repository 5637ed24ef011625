// Convolutions and pools: a row of the output at a time.

#include <algorithm>

#include "contrib/emit_c/rows.h"
#include "contrib/emit_c/window_plan.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/conv_transpose.h"
#include "nodewise/ops/pool.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

// More factors at once than fit into registers are no faster.
constexpr int64_t kFactorsAtOnce = 8;
constexpr int64_t kChannelsAtOnce = 4;
// Lines of more taps are a loop: each would be a line of code.
constexpr int64_t kMostWrittenTaps = 64;

// row[o] += the sum of factors times what they lie on.
void AddToRow(CodeWriter* code, int64_t count,
              const std::vector<std::string>& products) {
  code->For("o", count);
  std::string sum;
  for (const std::string& product : products) {
    sum += (sum.empty() ? "" : " + ") + product;
  }
  code->Line(fmt::format("row[o] += {};", sum));
  code->Close();
}

struct ConvShape {
  WindowPlan plan;
  int64_t images = 0;
  int64_t channels = 0;
  int64_t outputs = 0;  // Channels of the output.
  int64_t groups = 1;
  int64_t group_channels() const { return channels / groups; }
  int64_t group_outputs() const { return outputs / groups; }
};

// Without windows that overlap, a plane is one row.
void JoinSides(ConvShape* shape) {
  WindowPlan& plan = shape->plan;
  if (plan.needs_padding() || plan.taps() != 1) return;
  for (size_t s = 0; s < plan.sides(); ++s) {
    if (plan.window.strides[s] != 1) return;
  }
  plan.input = plan.output = plan.padded = {CountIn(plan.input)};
  plan.window = {{1}, {1}, {1}, {0, 0}};
}

// The channels of a convolution without neighbours, some at once.
void AddChannels(CodeWriter* code, const ConvShape& shape) {
  const int64_t all = shape.group_channels();
  const int64_t plane = shape.plan.plane();
  const auto add = [&](int64_t begin, int64_t end, int64_t step) {
    if (begin == end) return;
    code->Open(
        fmt::format("for (int64_t c = {}; c < {}; c += {})", begin, end, step));
    code->Line(fmt::format("const float_type* from = x + c * {};", plane));
    std::vector<std::string> products;
    for (int64_t t = 0; t < step; ++t) {
      code->Line(fmt::format("const float_type w{0} = w[c + {0}];", t));
      products.push_back(fmt::format("w{} * from[o + {}]", t, t * plane));
    }
    AddToRow(code, shape.plan.output.back(), products);
    code->Close();
  };
  const int64_t whole = all / kChannelsAtOnce * kChannelsAtOnce;
  add(0, whole, kChannelsAtOnce);
  add(whole, all, 1);
}

void AddWindows(CodeWriter* code, const ConvShape& shape) {
  const WindowPlan& plan = shape.plan;
  const int64_t taps = plan.window.kernel.back();
  code->For("c", shape.group_channels());
  OpenTaps(code, plan);
  code->Line(fmt::format("const float_type* from = x + c * {} + {};",
                         plan.plane(), SourceIndex(plan)));
  code->Line(fmt::format("const float_type* v = w + c * {} + {};", plan.taps(),
                         TapIndex(plan)));
  if (taps > kMostWrittenTaps) {
    code->For("k", taps);
    AddToRow(code, plan.output.back(),
             {fmt::format("v[k] * from[{} + k * {}]", UnderTap(plan, 0),
                          plan.window.dilations.back())});
    code->Close();
  }
  for (int64_t first = 0; taps <= kMostWrittenTaps && first < taps;
       first += kFactorsAtOnce) {
    std::vector<std::string> products;
    const int64_t end = std::min(taps, first + kFactorsAtOnce);
    for (int64_t t = first; t < end; ++t) {
      code->Line(fmt::format("const float_type w{0} = v[{0}];", t));
      products.push_back(fmt::format("w{} * from[{}]", t, UnderTap(plan, t)));
    }
    AddToRow(code, plan.output.back(), products);
  }
  code->Close(static_cast<int>(plan.sides()));
}

absl::StatusOr<ConvShape> ShapeOfConv(OperationCode& code) {
  const auto& op = *code.As<ops::Conv>();
  const Sizes& w = code.in(1).sizes;
  ConvShape shape;
  const Sizes kernel(w.begin() + 2, w.end());
  NODEWISE_ASSIGN_OR_RETURN(
      shape.plan, PlanWindows({op.auto_pad, kernel, op.strides, op.dilations,
                               op.pads, false},
                              code.in(0), code.out()));
  shape.images = code.in(0).sizes[0];
  shape.channels = code.in(0).sizes[1];
  shape.outputs = w[0];
  shape.groups = op.group;
  return shape;
}

absl::Status WriteConv(OperationCode& operation) {
  NODEWISE_ASSIGN_OR_RETURN(ConvShape shape, ShapeOfConv(operation));
  JoinSides(&shape);
  const WindowPlan& plan = shape.plan;
  CodeWriter& code = operation.code();
  if (operation.out().count() == 0) return absl::OkStatus();
  const std::string_view type = operation.out().type();
  code.Open();
  code.Line(fmt::format("typedef {} float_type;", type));
  code.For("n", shape.images);
  std::string image = fmt::format("{} + n * {}", operation.in(0).name,
                                  shape.channels * CountIn(plan.input));
  if (plan.needs_padding()) {
    const std::string to =
        operation.store().Scratch(type, shape.channels * plan.plane());
    PadPlanes(&code, plan, shape.channels, "(" + image + ")", to, "0");
    image = to;
  }
  code.For("m", shape.outputs);
  code.Line(fmt::format("const float_type* x = {} + m / {} * {};", image,
                        shape.group_outputs(),
                        shape.group_channels() * plan.plane()));
  code.Line(fmt::format("const float_type* w = {} + m * {};",
                        operation.in(1).name,
                        shape.group_channels() * plan.taps()));
  OpenRows(&code, plan);
  code.Line(
      fmt::format("float_type* restrict row = {} + (n * {} + m) * {} + "
                  "{};",
                  operation.out().name, shape.outputs, CountIn(plan.output),
                  RowIndex(plan)));
  code.For("o", plan.output.back());
  code.Line(fmt::format("row[o] = {};",
                        operation.has(2) ? operation.in(2).name + "[m]" : "0"));
  code.Close();
  const bool is_joined =
      plan.sides() == 1 && plan.taps() == 1 && plan.window.strides[0] == 1;
  is_joined ? AddChannels(&code, shape) : AddWindows(&code, shape);
  code.Close(static_cast<int>(plan.sides() - 1) + 3);
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

absl::StatusOr<Scattering> PlaceScattering(const ops::ConvTranspose& op,
                                           Window window, const CTensor& x,
                                           const CTensor& y) {
  Scattering plan;
  plan.input.assign(x.sizes.begin() + 2, x.sizes.end());
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
  plan.window = std::move(window);
  return plan;
}

void ScatterPlanes(CodeWriter* code, const Scattering& plan, int64_t channels) {
  const size_t sides = plan.input.size();
  const View in = CompactView(plan.input);
  const View full = CompactView(plan.full);
  const View kernel = CompactView(plan.window.kernel);
  std::string from = fmt::format("x + c * {}", CountIn(plan.input));
  std::string to = "sums";
  std::string tap = "v";
  code->For("c", channels);
  code->Line(fmt::format("const float_type* v = w + c * weights;"));
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
  code->Line(fmt::format("const float_type* row = {};", from));
  code->Line(fmt::format("float_type* restrict sum = {} + k * {};", to,
                         plan.window.dilations.back()));
  code->Line(fmt::format("const float_type factor = ({})[k];", tap));
  code->For("i", plan.input.back());
  code->Line(fmt::format("sum[i * {}] += factor * row[i];",
                         plan.window.strides.back()));
  code->Close(static_cast<int>(2 * (sides - 1)) + 3);
}

absl::Status WriteConvTranspose(OperationCode& operation) {
  const auto& op = *operation.As<ops::ConvTranspose>();
  const CTensor& x = operation.in(0);
  const CTensor& w = operation.in(1);
  const CTensor& y = operation.out();
  const Sizes kernel(w.sizes.begin() + 2, w.sizes.end());
  NODEWISE_ASSIGN_OR_RETURN(Window window,
                            ResolveWindow({op.auto_pad, kernel, op.strides,
                                           op.dilations, op.pads, false},
                                          static_cast<int>(kernel.size())));
  NODEWISE_ASSIGN_OR_RETURN(const Scattering plan,
                            PlaceScattering(op, std::move(window), x, y));
  const int64_t outputs = w.sizes[1];  // Of a group.
  const int64_t channels = x.sizes[1] / op.group;
  const int64_t taps = CountIn(kernel);
  const int64_t full = CountIn(plan.full);
  if (y.count() == 0) return absl::OkStatus();
  CodeWriter& code = operation.code();
  const std::string sums = operation.store().Scratch(y.type(), full);
  code.Open();
  code.Line(fmt::format("typedef {} float_type;", y.type()));
  code.Line(fmt::format("float_type* sums = {};", sums));
  code.Line(fmt::format("const int64_t weights = {};", outputs * taps));
  code.For("n", x.sizes[0]);
  code.For("g", op.group);
  code.For("m", outputs);
  code.Line(fmt::format("const float_type* x = {} + (n * {} + g) * {};", x.name,
                        op.group, channels * CountIn(plan.input)));
  code.Line(fmt::format("const float_type* w = {} + g * {} * weights + m * {};",
                        w.name, channels, taps));
  code.Line(fmt::format("float_type* to = {} + ((n * {} + g) * {} + m) * {};",
                        y.name, op.group, outputs,
                        y.count() / (y.sizes[0] * y.sizes[1])));
  const std::string bias =
      operation.has(2)
          ? fmt::format("{}[g * {} + m]", operation.in(2).name, outputs)
          : "0";
  code.Line(fmt::format("memset(sums, 0, {} * sizeof(*sums));", full));
  ScatterPlanes(&code, plan, channels);
  const Sizes out(y.sizes.begin() + 2, y.sizes.end());
  code.For("i", CountIn(out));
  code.Line(fmt::format("to[i] = {};", bias));
  code.Close();
  View from_view = CompactView(plan.full);
  Sizes copied;
  for (size_t s = 0; s < out.size(); ++s) {
    from_view.offset += plan.pads[s] * from_view.strides[s];
    copied.push_back(std::min(out[s], plan.full[s] - plan.pads[s]));
  }
  const LoopNest nest(copied, {from_view, CompactView(out)});
  nest.Open(&code);
  code.Line(fmt::format("to[{}] += sums[{}];", nest.At(1), nest.At(0)));
  nest.Close(&code);
  code.Close(4);
  return absl::OkStatus();
}

// What a pool does with the elements under its windows.
struct Pooling {
  std::string type;   // That a row is computed in.
  std::string fill;   // What padding counts as.
  std::string first;  // What a row begins with.
  std::string step;   // Of {row} and {x}.
  std::string end;    // Of the row's element "v".
};

// Computes a row in memory of its own, and then stores it.
absl::Status WritePool(OperationCode& operation, const WindowPlan& plan,
                       const Pooling& pooling) {
  const CTensor& x = operation.in(0);
  const CTensor& y = operation.out();
  if (y.count() == 0) return absl::OkStatus();
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
  OpenRows(&code, plan);
  code.For("o", plan.output.back());
  code.Line(fmt::format("{}[o] = {};", row, pooling.first));
  code.Close();
  OpenTaps(&code, plan);
  code.Line(fmt::format("const {}* from = {} + {};", x.type(), from,
                        SourceIndex(plan)));
  code.For("k", plan.window.kernel.back());
  code.For("o", plan.output.back());
  code.Line(fmt::format("const {} a = from[{} + k * {}];", x.type(),
                        UnderTap(plan, 0), plan.window.dilations.back()));
  code.Line(fmt::format(fmt::runtime(pooling.step),
                        fmt::arg("row", row + "[o]"), fmt::arg("x", "a")));
  code.Close(static_cast<int>(plan.sides() - 1) + 2);
  code.For("o", plan.output.back());
  code.Line(fmt::format("const {} v = {}[o];", pooling.type, row));
  code.Line(fmt::format("{}[p * {} + {} + o] = ({})({});", y.name,
                        CountIn(plan.output), RowIndex(plan), y.type(),
                        pooling.end));
  code.Close(static_cast<int>(plan.sides() - 1) + 2);
  return absl::OkStatus();
}

template <typename Class>
WindowAttributes AttributesOfPool(const Class& op) {
  return {op.auto_pad,  op.kernel_shape, op.strides,
          op.dilations, op.pads,         op.ceil_mode};
}

// The number that every other replaces.
std::string LowestText(DLDataType dtype) {
  if (IsFloat(dtype)) return "-INFINITY";
  if (IsUnsigned(dtype)) return "0";
  return fmt::format("INT{}_MIN", dtype.bits);
}

absl::Status WriteMaxPool(OperationCode& code) {
  if (code.wants(1)) return Refuse("its indices are wanted");
  const CTensor& x = code.in(0);
  NODEWISE_ASSIGN_OR_RETURN(
      const WindowPlan plan,
      PlanWindows(AttributesOfPool(*code.As<ops::MaxPool>()), x, code.out()));
  const std::string lowest = LowestText(x.dtype);
  const std::string step =
      IsFloat(x.dtype) ? "{row} = {x} > {row} || {x} != {x} ? {x} : {row};"
                       : "{row} = {x} > {row} ? {x} : {row};";
  return WritePool(code, plan,
                   {std::string(x.type()), lowest, lowest, step, "v"});
}

absl::Status WriteAveragePool(OperationCode& code) {
  const auto& op = *code.As<ops::AveragePool>();
  NODEWISE_ASSIGN_OR_RETURN(
      const WindowPlan plan,
      PlanWindows(AttributesOfPool(op), code.in(0), code.out()));
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

absl::Status WriteLpPoolOf(OperationCode& code, double p,
                           const WindowAttributes& attributes) {
  NODEWISE_ASSIGN_OR_RETURN(const WindowPlan plan,
                            PlanWindows(attributes, code.in(0), code.out()));
  const std::string power = DoubleText(p);
  const std::string step =
      p == 1   ? std::string("{row} += fabs({x});")
      : p == 2 ? std::string("{row} += (double){x} * {x};")
               : fmt::format("{{row}} += pow(fabs({{x}}), {});", power);
  const std::string end = p == 1   ? std::string("v")
                          : p == 2 ? std::string("sqrt(v)")
                                   : fmt::format("pow(v, 1 / {})", power);
  return WritePool(code, plan, {"double", "0", "0", step, end});
}
absl::Status WriteLpPool(OperationCode& code) {
  const auto& op = *code.As<ops::LpPool>();
  return WriteLpPoolOf(code, static_cast<double>(op.p), AttributesOfPool(op));
}

constexpr Row kWindowRows[] = {
    LoopRow<ops::Conv>("Conv", &WriteConv),
    LoopRow<ops::ConvTranspose>("ConvTranspose", &WriteConvTranspose),
    LoopRow<ops::MaxPool>("MaxPool", &WriteMaxPool),
    LoopRow<ops::AveragePool>("AveragePool", &WriteAveragePool),
    LoopRow<ops::LpPool>("LpPool", &WriteLpPool),
};

}  // namespace

absl::Span<const Row> WindowRows() { return kWindowRows; }

}  // namespace nodewise::emit_c
