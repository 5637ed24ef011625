// Normalizations. Sums are taken in double, as the reference takes them.

#include <algorithm>

#include "contrib/emit_c/operation_code.h"
#include "contrib/emit_c/parted_loops.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/norm.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {
namespace {

// The versions differ in how they say that they do not train, and whether the
// statistics may be those of each place.
absl::Status WriteBatchNorm(OperationCode& operation) {
  const auto* const newest = operation.As<ops::BatchNormalization>();
  const auto* const seven = operation.As<ops::BatchNormalization7>();
  const auto* const one = operation.As<ops::BatchNormalization1>();
  if (newest != nullptr && newest->training_mode) {
    return Refuse("attribute training_mode: is 1");
  }
  if (one != nullptr && one->is_test == 0) {
    return Refuse("attribute is_test: is 0");
  }
  const bool is_spatial =
      (seven == nullptr || seven->spatial) && (one == nullptr || one->spatial);
  const double epsilon =
      operation
          .Common<ops::BatchNormAttributes, ops::BatchNormalization,
                  ops::BatchNormalization9, ops::BatchNormalization7,
                  ops::BatchNormalization1>()
          .epsilon;
  for (size_t i = 1; i < operation.num_outputs(); ++i) {
    if (operation.wants(i)) return Refuse("its statistics are wanted");
  }
  if (!is_spatial) return Refuse("attribute spatial: is 0");
  const CTensor& x = operation.in(0);
  const int64_t channels = x.sizes.size() > 1 ? x.sizes[1] : 1;
  const int64_t run = x.count() / (x.sizes[0] * channels);
  CodeWriter& code = operation.code();
  code.For({{"n", x.sizes[0]}, {"c", channels}});
  code.Line("const int64_t begin = (n * {} + c) * {};", channels, run);
  code.Line("const double factor = {}[c] / sqrt((double){}[c] + {});",
            operation.in(1).name, operation.in(4).name, DoubleText(epsilon));
  code.Line("const double mean = {}[c];", operation.in(3).name);
  code.Line("const double bias = {}[c];", operation.in(2).name);
  code.Each("i", run,
            "{}[begin + i] = ({})(({}[begin + i] - mean) * factor + bias);",
            operation.out().name, operation.out().type(), x.name);
  code.Close(2);
  return absl::OkStatus();
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

// Three passes over the numbers: their mean, the mean square of what is left
// without it, and the results. One pass for both sums would lose digits where
// the mean is large.
void WriteNorm(OperationCode& operation, const Norm& norm) {
  const CTensor& x = operation.in(0);
  const CTensor& y = operation.out();
  CodeWriter& code = operation.code();
  const View none{Sizes(norm.sizes.size()), 0};
  const PartedLoops loops(
      norm.sizes, norm.is_taken,
      {CompactView(norm.sizes), norm.scale.empty() ? none : norm.scale_view,
       norm.bias.empty() ? none : norm.bias_view});
  const std::string element = fmt::format("{}[{}]", x.name, loops.At(0));
  const std::string count = CountText(CountTaken(norm.sizes, norm.is_taken));
  loops.OpenKept(&code);
  if (norm.has_mean) {
    code.Line("double mean = 0;");
    loops.WriteTaken(&code, {"mean += " + element + ";"});
    code.Line("mean /= {};", count);
  } else {
    code.Line("const double mean = 0;");
  }
  code.Line("double squares = 0;");
  loops.WriteTaken(
      &code, {"const double a = " + element + " - mean;", "squares += a * a;"});
  code.Line("squares /= {};", count);
  code.Line("const double inverse = {};", norm.inverse);
  std::string result = element + " - mean) * inverse";
  if (!norm.scale.empty()) {
    result += fmt::format(" * {}[{}]", norm.scale, loops.At(1));
  }
  if (!norm.bias.empty()) {
    result += fmt::format(" + {}[{}]", norm.bias, loops.At(2));
  }
  loops.WriteTaken(&code, {fmt::format("{}[{}] = ({})(({});", y.name,
                                       loops.At(0), y.type(), result)});
  loops.CloseKept(&code);
}

// Epsilon keeps the root of a constant row away from 0.
std::string InverseRoot(double epsilon) {
  return fmt::format("1 / sqrt(squares + {})", DoubleText(epsilon));
}

// Normalizes all sides from the axis on; scale and bias are repeated over X by
// NumPy's rule.
absl::Status WriteFromAxis(OperationCode& code, int64_t axis, double epsilon,
                           bool has_mean) {
  Norm norm;
  norm.sizes = code.in(0).sizes;
  norm.has_mean = has_mean;
  NODEWISE_ASSIGN_OR_RETURN(const size_t first, SideAt(axis, norm.sizes));
  norm.is_taken.resize(first, false);
  norm.is_taken.resize(norm.sizes.size(), true);
  norm.inverse = InverseRoot(epsilon);
  if (code.has(1)) {
    norm.scale = code.in(1).name;
    norm.scale_view = RepeatedView(code.in(1).sizes, norm.sizes);
  }
  if (code.has(2)) {
    norm.bias = code.in(2).name;
    norm.bias_view = RepeatedView(code.in(2).sizes, norm.sizes);
  }
  WriteNorm(code, norm);
  return absl::OkStatus();
}

absl::Status WriteLayerNorm(OperationCode& code) {
  const auto& op = *code.As<ops::LayerNormalization>();
  if (code.wants(1) || code.wants(2)) {
    return Refuse("its mean or deviation is wanted");
  }
  return WriteFromAxis(code, op.axis, op.epsilon, true);
}

absl::Status WriteRmsNorm(OperationCode& code) {
  const auto& op = *code.As<ops::RMSNormalization>();
  return WriteFromAxis(code, op.axis, op.epsilon, false);
}

// X as [images, groups, channels of a group, places]; scale and bias are by
// group, by channel, or by both.
absl::Status WriteGroups(OperationCode& code, int64_t groups, bool by_channel,
                         double epsilon) {
  const Sizes& x = code.in(0).sizes;
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
  return absl::OkStatus();
}
absl::Status WriteInstanceNorm(OperationCode& code) {
  return WriteGroups(code, code.in(0).sizes[1], true,
                     code.As<ops::InstanceNormalization>()->epsilon);
}
template <typename Class, bool kByChannel>
absl::Status WriteGroupNorm(OperationCode& code) {
  const auto& op = *code.As<Class>();
  return WriteGroups(code, op.num_groups, kByChannel, op.epsilon);
}

// MeanVarianceNormalization has the epsilon of its function in ONNX: a float,
// added to the deviation and not to the variance.
absl::Status WriteMeanVariance(OperationCode& code) {
  const auto& op = *code.As<ops::MeanVarianceNormalization>();
  Norm norm;
  norm.sizes = code.in(0).sizes;
  norm.is_taken.assign(norm.sizes.size(), true);
  if (!op.axes.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(norm.is_taken, SidesAt(op.axes, norm.sizes));
  }
  norm.inverse = "1 / (sqrt(squares) + (double)1e-9f)";
  WriteNorm(code, norm);
  return absl::OkStatus();
}

// Each element is divided by a power of the sum of squares over neighbouring
// channels. A size beyond twice the channels reaches all of them anyway, and is
// cut so that no index overflows.
absl::Status WriteLrn(OperationCode& operation) {
  const auto& op = *operation.As<ops::LRN>();
  const CTensor& x = operation.in(0);
  const int64_t channels = x.sizes[1];
  const int64_t run = x.count() / (x.sizes[0] * channels);
  const int64_t size = std::min(op.size.get(), 2 * channels);
  const int64_t before = (size - 1) / 2;
  CodeWriter& code = operation.code();
  code.For({{"n", x.sizes[0]}, {"c", channels}});
  code.Line("const int64_t first = c < {0} ? 0 : c - {0};", before);
  code.Line("const int64_t last = c + {0} < {1} ? c + {0} : {1};",
            size - 1 - before, channels - 1);
  code.For("i", run);
  code.Line("double sum = 0;");
  code.Open("for (int64_t k = first; k <= last; ++k)");
  code.Line("const double a = {}[(n * {} + k) * {} + i];", x.name, channels,
            run);
  code.Line("sum += a * a;");
  code.Close();
  code.Line("const int64_t at = (n * {} + c) * {} + i;", channels, run);
  code.Line("{}[at] = ({})({}[at] / pow({} + {} * sum, {}));",
            operation.out().name, operation.out().type(), x.name,
            DoubleText(op.bias),
            DoubleText(double{op.alpha} / static_cast<double>(op.size.get())),
            DoubleText(op.beta));
  code.Close(3);
  return absl::OkStatus();
}

// A row of zeros has the norm 0 and stays as it is.
absl::Status WriteLpNorm(OperationCode& operation) {
  const auto& op = *operation.As<ops::LpNormalization>();
  const CTensor& x = operation.in(0);
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<bool> is_taken,
                            SidesAt({op.axis}, x.sizes));
  const PartedLoops loops(x.sizes, is_taken, {CompactView(x.sizes)});
  CodeWriter& code = operation.code();
  const std::string at = loops.At(0);
  loops.OpenKept(&code);
  code.Line("double norm = 0;");
  loops.WriteTaken(&code, {fmt::format("const double a = {}[{}];", x.name, at),
                           op.p == 1 ? "norm += fabs(a);" : "norm += a * a;"});
  if (op.p == 2) code.Line("norm = sqrt(norm);");
  loops.WriteTaken(
      &code,
      {fmt::format("{0}[{1}] = ({2})(norm == 0 ? 0 : {3}[{1}] / norm);",
                   operation.out().name, at, operation.out().type(), x.name)});
  loops.CloseKept(&code);
  return absl::OkStatus();
}

constexpr Row kNormRows[] = {
    LoopRow<ops::BatchNormalization, ops::BatchNormalization9,
            ops::BatchNormalization7, ops::BatchNormalization1>(
        &WriteBatchNorm),
    LoopRow<ops::LayerNormalization>(&WriteLayerNorm),
    LoopRow<ops::RMSNormalization>(&WriteRmsNorm),
    LoopRow<ops::InstanceNormalization>(&WriteInstanceNorm),
    LoopRow<ops::GroupNormalization>(
        &WriteGroupNorm<ops::GroupNormalization, true>),
    LoopRow<ops::GroupNormalization18>(
        &WriteGroupNorm<ops::GroupNormalization18, false>),
    LoopRow<ops::MeanVarianceNormalization>(&WriteMeanVariance),
    LoopRow<ops::LRN>(&WriteLrn),
    LoopRow<ops::LpNormalization>(&WriteLpNorm),
};

}  // namespace

absl::Span<const Row> NormRows() { return kNormRows; }

}  // namespace nodewise::emit_c
