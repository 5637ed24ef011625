// Normalizations. Sums are taken in double.

#include <algorithm>

#include "contrib/emit_c/parted_loops.h"
#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/norm.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

absl::Status WriteBatchNormOf(OperationCode& operation, double epsilon,
                              bool is_spatial) {
  const CTensor& x = operation.in(0);
  for (size_t i = 1; i < operation.num_outputs(); ++i) {
    if (operation.wants(i)) return Refuse("its statistics are wanted");
  }
  if (!is_spatial) return Refuse("attribute spatial: is 0");
  if (x.count() == 0) return absl::OkStatus();
  const int64_t channels = x.sizes.size() > 1 ? x.sizes[1] : 1;
  const int64_t run = x.count() / (x.sizes[0] * channels);
  CodeWriter& code = operation.code();
  code.For("n", x.sizes[0]);
  code.For("c", channels);
  code.Line(
      fmt::format("const int64_t begin = (n * {} + c) * {};", channels, run));
  code.Line(fmt::format(
      "const double factor = {}[c] / sqrt((double){}[c] + {});",
      operation.in(1).name, operation.in(4).name, DoubleText(epsilon)));
  code.Line(fmt::format("const double mean = {}[c];", operation.in(3).name));
  code.Line(fmt::format("const double bias = {}[c];", operation.in(2).name));
  code.For("i", run);
  code.Line(fmt::format(
      "{}[begin + i] = ({})(({}[begin + i] - mean) * factor + bias);",
      operation.out().name, operation.out().type(), x.name));
  code.Close(3);
  return absl::OkStatus();
}

absl::Status WriteBatchNorm(OperationCode& code) {
  const auto& op = *code.As<ops::BatchNormalization>();
  if (op.training_mode) return Refuse("attribute training_mode: is 1");
  return WriteBatchNormOf(code, op.epsilon, true);
}
absl::Status WriteBatchNorm9(OperationCode& code) {
  return WriteBatchNormOf(code, code.As<ops::BatchNormalization9>()->epsilon,
                          true);
}
absl::Status WriteBatchNorm7(OperationCode& code) {
  const auto& op = *code.As<ops::BatchNormalization7>();
  return WriteBatchNormOf(code, op.epsilon, op.spatial);
}
absl::Status WriteBatchNorm1(OperationCode& code) {
  const auto& op = *code.As<ops::BatchNormalization1>();
  if (op.is_test == 0) return Refuse("attribute is_test: is 0");
  return WriteBatchNormOf(code, op.epsilon, op.spatial);
}

// Numbers that are normalized together, and what is done to each of them.
struct Norm {
  Sizes sizes;  // The sizes of X, perhaps with sides split.
  std::vector<bool> is_taken;
  std::string inverse;      // An expression of "squares", the mean square.
  bool has_mean = true;     // Is subtracted first.
  std::string scale, bias;  // Pointers; may be empty.
  View scale_view, bias_view;
};

void WriteNorm(OperationCode& operation, const Norm& norm) {
  const CTensor& x = operation.in(0);
  const CTensor& y = operation.out();
  if (x.count() == 0) return;
  CodeWriter& code = operation.code();
  const PartedSides sides(norm.sizes.size(), norm.is_taken);
  const View compact = CompactView(norm.sizes);
  View none;
  none.strides.resize(norm.sizes.size());
  const PartedLoops loops(norm.sizes, sides,
                          {compact, norm.scale.empty() ? none : norm.scale_view,
                           norm.bias.empty() ? none : norm.bias_view});
  const std::string element = fmt::format("{}[{}]", x.name, loops.At(0));
  const std::string count =
      DoubleText(static_cast<double>(sides.CountTaken(norm.sizes)));
  loops.OpenKept(&code);
  if (norm.has_mean) {
    code.Line("double mean = 0;");
    loops.OpenTaken(&code);
    code.Line(fmt::format("mean += {};", element));
    loops.CloseTaken(&code);
    code.Line(fmt::format("mean /= {};", count));
  } else {
    code.Line("const double mean = 0;");
  }
  code.Line("double squares = 0;");
  loops.OpenTaken(&code);
  code.Line(fmt::format("const double a = {} - mean;", element));
  code.Line("squares += a * a;");
  loops.CloseTaken(&code);
  code.Line(fmt::format("squares /= {};", count));
  code.Line(fmt::format("const double inverse = {};", norm.inverse));
  loops.OpenTaken(&code);
  std::string result = fmt::format("({} - mean) * inverse", element);
  if (!norm.scale.empty()) {
    result += fmt::format(" * {}[{}]", norm.scale, loops.At(1));
  }
  if (!norm.bias.empty()) {
    result += fmt::format(" + {}[{}]", norm.bias, loops.At(2));
  }
  code.Line(
      fmt::format("{}[{}] = ({})({});", y.name, loops.At(0), y.type(), result));
  loops.CloseTaken(&code);
  loops.CloseKept(&code);
}

std::string InverseRoot(double epsilon) {
  return fmt::format("1 / sqrt(squares + {})", DoubleText(epsilon));
}

absl::StatusOr<std::vector<bool>> SidesFrom(const Sizes& sizes, int64_t axis) {
  NODEWISE_ASSIGN_OR_RETURN(const int first,
                            Axis(axis, static_cast<int>(sizes.size())));
  std::vector<bool> is_taken(sizes.size());
  for (auto s = static_cast<size_t>(first); s < sizes.size(); ++s) {
    is_taken[s] = true;
  }
  return is_taken;
}

// Scale and bias that NumPy's rule repeats over X.
void SetRepeated(const OperationCode& code, Norm* norm) {
  if (code.has(1)) {
    norm->scale = code.in(1).name;
    norm->scale_view = RepeatedView(code.in(1).sizes, norm->sizes);
  }
  if (code.has(2)) {
    norm->bias = code.in(2).name;
    norm->bias_view = RepeatedView(code.in(2).sizes, norm->sizes);
  }
}

absl::Status WriteLayerNorm(OperationCode& code) {
  const auto& op = *code.As<ops::LayerNormalization>();
  if (code.wants(1) || code.wants(2)) {
    return Refuse("its mean or deviation is wanted");
  }
  Norm norm;
  norm.sizes = code.in(0).sizes;
  NODEWISE_ASSIGN_OR_RETURN(norm.is_taken, SidesFrom(norm.sizes, op.axis));
  norm.inverse = InverseRoot(op.epsilon);
  SetRepeated(code, &norm);
  WriteNorm(code, norm);
  return absl::OkStatus();
}

absl::Status WriteRmsNorm(OperationCode& code) {
  const auto& op = *code.As<ops::RMSNormalization>();
  Norm norm;
  norm.sizes = code.in(0).sizes;
  norm.has_mean = false;
  NODEWISE_ASSIGN_OR_RETURN(norm.is_taken, SidesFrom(norm.sizes, op.axis));
  norm.inverse = InverseRoot(op.epsilon);
  SetRepeated(code, &norm);
  WriteNorm(code, norm);
  return absl::OkStatus();
}

// X as [images, groups, channels of a group, places]; scale and bias are by
// group, by channel, or by both.
void WriteGroups(OperationCode& code, int64_t groups, bool by_channel,
                 double epsilon) {
  const Sizes& x = code.in(0).sizes;
  if (code.in(0).count() == 0) return;
  Norm norm;
  const int64_t channels = x[1] / groups;
  norm.sizes = {x[0], groups, channels, code.in(0).count() / (x[0] * x[1])};
  norm.is_taken = {false, false, true, true};
  norm.inverse = InverseRoot(epsilon);
  norm.scale = code.in(1).name;
  norm.bias = code.in(2).name;
  norm.scale_view = {by_channel ? Sizes{0, channels, 1, 0} : Sizes{0, 1, 0, 0},
                     0};
  norm.bias_view = norm.scale_view;
  WriteNorm(code, norm);
}
absl::Status WriteInstanceNorm(OperationCode& code) {
  WriteGroups(code, code.in(0).sizes[1], true,
              code.As<ops::InstanceNormalization>()->epsilon);
  return absl::OkStatus();
}
absl::Status WriteGroupNorm(OperationCode& code) {
  const auto& op = *code.As<ops::GroupNormalization>();
  WriteGroups(code, op.num_groups, true, op.epsilon);
  return absl::OkStatus();
}
absl::Status WriteGroupNorm18(OperationCode& code) {
  const auto& op = *code.As<ops::GroupNormalization18>();
  WriteGroups(code, op.num_groups, false, op.epsilon);
  return absl::OkStatus();
}

absl::Status WriteMeanVariance(OperationCode& code) {
  const auto& op = *code.As<ops::MeanVarianceNormalization>();
  Norm norm;
  norm.sizes = code.in(0).sizes;
  norm.is_taken.assign(norm.sizes.size(), op.axes.empty());
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> sides,
                            Axes(op.axes, static_cast<int>(norm.sizes.size())));
  for (const int side : sides) norm.is_taken[static_cast<size_t>(side)] = true;
  norm.inverse = "1 / (sqrt(squares) + (double)1e-9f)";
  WriteNorm(code, norm);
  return absl::OkStatus();
}

absl::Status WriteLrn(OperationCode& operation) {
  const auto& op = *operation.As<ops::LRN>();
  const CTensor& x = operation.in(0);
  if (x.count() == 0) return absl::OkStatus();
  const int64_t channels = x.sizes[1];
  const int64_t run = x.count() / (x.sizes[0] * channels);
  const int64_t size = std::min(op.size.get(), 2 * channels);
  const int64_t before = (size - 1) / 2;
  CodeWriter& code = operation.code();
  code.For("n", x.sizes[0]);
  code.For("c", channels);
  code.Line(
      fmt::format("const int64_t first = c < {0} ? 0 : c - {0};", before));
  code.Line(fmt::format("const int64_t last = c + {0} < {1} ? c + {0} : {1};",
                        size - 1 - before, channels - 1));
  code.For("i", run);
  code.Line("double sum = 0;");
  code.Open("for (int64_t k = first; k <= last; ++k)");
  code.Line(fmt::format("const double a = {}[(n * {} + k) * {} + i];", x.name,
                        channels, run));
  code.Line("sum += a * a;");
  code.Close();
  code.Line(
      fmt::format("const int64_t at = (n * {} + c) * {} + i;", channels, run));
  code.Line(fmt::format(
      "{}[at] = ({})({}[at] / pow({} + {} * sum, {}));", operation.out().name,
      operation.out().type(), x.name, DoubleText(op.bias),
      DoubleText(double{op.alpha} / static_cast<double>(op.size.get())),
      DoubleText(op.beta)));
  code.Close(3);
  return absl::OkStatus();
}

absl::Status WriteLpNorm(OperationCode& operation) {
  const auto& op = *operation.As<ops::LpNormalization>();
  const CTensor& x = operation.in(0);
  const size_t rank = x.sizes.size();
  NODEWISE_ASSIGN_OR_RETURN(const int side,
                            Axis(op.axis, static_cast<int>(rank)));
  std::vector<bool> is_taken(rank);
  is_taken[static_cast<size_t>(side)] = true;
  if (x.count() == 0) return absl::OkStatus();
  const PartedLoops loops(x.sizes, PartedSides(rank, is_taken),
                          {CompactView(x.sizes)});
  CodeWriter& code = operation.code();
  const std::string at = loops.At(0);
  loops.OpenKept(&code);
  code.Line("double norm = 0;");
  loops.OpenTaken(&code);
  code.Line(fmt::format("const double a = {}[{}];", x.name, at));
  code.Line(op.p == 1 ? "norm += fabs(a);" : "norm += a * a;");
  loops.CloseTaken(&code);
  if (op.p == 2) code.Line("norm = sqrt(norm);");
  loops.OpenTaken(&code);
  code.Line(fmt::format("{0}[{1}] = ({2})(norm == 0 ? 0 : {3}[{1}] / norm);",
                        operation.out().name, at, operation.out().type(),
                        x.name));
  loops.CloseTaken(&code);
  loops.CloseKept(&code);
  return absl::OkStatus();
}

constexpr Row kNormRows[] = {
    LoopRow<ops::BatchNormalization>("BatchNormalization", &WriteBatchNorm),
    LoopRow<ops::BatchNormalization9>("BatchNormalization", &WriteBatchNorm9),
    LoopRow<ops::BatchNormalization7>("BatchNormalization", &WriteBatchNorm7),
    LoopRow<ops::BatchNormalization1>("BatchNormalization", &WriteBatchNorm1),
    LoopRow<ops::LayerNormalization>("LayerNormalization", &WriteLayerNorm),
    LoopRow<ops::RMSNormalization>("RMSNormalization", &WriteRmsNorm),
    LoopRow<ops::InstanceNormalization>("InstanceNormalization",
                                        &WriteInstanceNorm),
    LoopRow<ops::GroupNormalization>("GroupNormalization", &WriteGroupNorm),
    LoopRow<ops::GroupNormalization18>("GroupNormalization", &WriteGroupNorm18),
    LoopRow<ops::MeanVarianceNormalization>("MeanVarianceNormalization",
                                            &WriteMeanVariance),
    LoopRow<ops::LRN>("LRN", &WriteLrn),
    LoopRow<ops::LpNormalization>("LpNormalization", &WriteLpNorm),
};

}  // namespace

absl::Span<const Row> NormRows() { return kNormRows; }

}  // namespace nodewise::emit_c
