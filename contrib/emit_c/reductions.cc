// Reductions of sides to one number, pools over all places, and probabilities.

#include <algorithm>

#include "contrib/emit_c/parted_loops.h"
#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/axis.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

// A number that is made of many, element by element.
struct Fold {
  std::string type;
  std::string first;
  std::string step;  // With "x", the element, and "r", the result so far.
  std::string end;   // An expression of "r".
  bool is_from_peak = false;  // "peak" is the largest of the elements.
};

View ResultView(const Sizes& sizes, const std::vector<bool>& is_taken) {
  Sizes kept = sizes;
  for (size_t s = 0; s < kept.size(); ++s) {
    if (is_taken[s]) kept[s] = 1;
  }
  return RepeatedView(kept, sizes);
}

absl::Status WriteFold(OperationCode& operation, const Fold& fold,
                       const std::vector<bool>& is_taken) {
  const CTensor& x = operation.in(0);
  const CTensor& y = operation.out();
  CodeWriter& code = operation.code();
  const PartedLoops loops(
      x.sizes, PartedSides(x.sizes.size(), is_taken),
      {CompactView(x.sizes), ResultView(x.sizes, is_taken)});
  if (y.count() == 0) return absl::OkStatus();
  loops.OpenKept(&code);
  if (fold.is_from_peak) {
    code.Line("double peak = -INFINITY;");
    if (!loops.takes_nothing()) {
      loops.OpenTaken(&code);
      // Sides of 1 have no loop, and no block of their own for a second x.
      code.Line(
          fmt::format("const double p = (double){}[{}];", x.name, loops.At(0)));
      code.Line("if (p > peak) peak = p;");
      loops.CloseTaken(&code);
    }
    code.Line("if (isinf(peak)) peak = 0;");
  }
  code.Line(fmt::format("{} r = {};", fold.type, fold.first));
  if (!loops.takes_nothing()) {
    loops.OpenTaken(&code);
    code.Line(fmt::format("const {0} x = ({0}){1}[{2}];", fold.type, x.name,
                          loops.At(0)));
    code.Line(fold.step);
    loops.CloseTaken(&code);
  }
  // The result's index does not depend on what was taken together.
  code.Line(fmt::format("{}[{}] = ({})({});", y.name, loops.At(1), y.type(),
                        fold.end));
  loops.CloseKept(&code);
  return absl::OkStatus();
}

// The sides that a reduction takes together.
absl::StatusOr<std::vector<bool>> TakenSides(const OperationCode& code,
                                             bool noop_without_axes) {
  const int rank = static_cast<int>(code.in(0).sizes.size());
  std::vector<bool> is_taken(static_cast<size_t>(rank), false);
  std::optional<Sizes> axes;
  if (code.has(1)) {
    axes = code.Ints(1);
    if (!axes.has_value()) {
      // As many different axes as there are sides are all of them. Lowering
      // leaves such axes to the run, since no type depends on their order.
      if (code.in(1).count() != rank) {
        return Refuse("its axes are not constant");
      }
      is_taken.assign(is_taken.size(), true);
      return is_taken;
    }
  }
  if (!axes.has_value() || axes->empty()) {
    is_taken.assign(is_taken.size(), !noop_without_axes);
    return is_taken;
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> sides, Axes(*axes, rank));
  for (const int side : sides) is_taken[static_cast<size_t>(side)] = true;
  return is_taken;
}

template <typename Class>
absl::Status WriteReduction(OperationCode& code, const Fold& fold) {
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<bool> is_taken,
      TakenSides(code, code.As<Class>()->noop_with_empty_axes));
  return WriteFold(code, fold, is_taken);
}

bool TakesFloats(const OperationCode& code) {
  return IsFloat(code.in(0).dtype);
}

absl::Status WriteReduceSum(OperationCode& code) {
  const std::string type = TakesFloats(code) ? "double" : "uint64_t";
  return WriteReduction<ops::ReduceSum>(code, {type, "0", "r += x;", "r"});
}

absl::Status WriteReduceMean(OperationCode& code) {
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<bool> is_taken,
      TakenSides(code, code.As<ops::ReduceMean>()->noop_with_empty_axes));
  const Sizes& sizes = code.in(0).sizes;
  const int64_t count = PartedSides(sizes.size(), is_taken).CountTaken(sizes);
  if (TakesFloats(code)) {
    return WriteFold(
        code,
        {"double", "0", "r += x;",
         fmt::format("r / {}", DoubleText(static_cast<double>(count)))},
        is_taken);
  }
  if (code.in(0).dtype == kUint64) return Refuse("is of type uint64");
  return WriteFold(code,
                   {"int64_t", "0", "r += x;",
                    fmt::format("r / {}", std::max<int64_t>(count, 1))},
                   is_taken);
}

absl::Status WriteReduceSumSquare(OperationCode& code) {
  const std::string type = TakesFloats(code) ? "double" : "uint64_t";
  return WriteReduction<ops::ReduceSumSquare>(code,
                                              {type, "0", "r += x * x;", "r"});
}

absl::Status WriteReduceL1(OperationCode& code) {
  if (TakesFloats(code)) {
    return WriteReduction<ops::ReduceL1>(code,
                                         {"double", "0", "r += fabs(x);", "r"});
  }
  if (IsUnsigned(code.in(0).dtype)) {
    return WriteReduction<ops::ReduceL1>(code,
                                         {"uint64_t", "0", "r += x;", "r"});
  }
  return WriteReduction<ops::ReduceL1>(
      code, {"int64_t", "0",
             "r = (int64_t)((uint64_t)r + (x < 0 ? 0 - (uint64_t)x : "
             "(uint64_t)x));",
             "r"});
}

// The kinds that only floats have here.
template <typename Class>
absl::Status WriteFloatReduction(OperationCode& code, const Fold& fold) {
  if (!TakesFloats(code)) return Refuse("is of integers");
  return WriteReduction<Class>(code, fold);
}
absl::Status WriteReduceL2(OperationCode& code) {
  return WriteFloatReduction<ops::ReduceL2>(
      code, {"double", "0", "r += x * x;", "sqrt(r)"});
}
absl::Status WriteReduceLogSum(OperationCode& code) {
  return WriteFloatReduction<ops::ReduceLogSum>(
      code, {"double", "0", "r += x;", "log(r)"});
}
absl::Status WriteReduceLogSumExp(OperationCode& code) {
  return WriteFloatReduction<ops::ReduceLogSumExp>(
      code, {"double", "0", "r += exp(x - peak);", "log(r) + peak", true});
}

absl::Status WriteReduceProd(OperationCode& code) {
  const std::string type = TakesFloats(code) ? "double" : "uint64_t";
  return WriteReduction<ops::ReduceProd>(code, {type, "1", "r *= x;", "r"});
}

// The largest or smallest; NaN wins.
Fold ExtremeOf(const CTensor& x, char sign) {
  const bool is_largest = sign == '>';
  const std::string type(x.type());
  if (IsFloat(x.dtype)) {
    return {type, is_largest ? "-INFINITY" : "INFINITY",
            fmt::format("if (x {} r || x != x) r = x;", sign), "r"};
  }
  std::string first = is_largest ? "0" : "1";  // For truth values.
  if (!IsBool(x.dtype)) {
    const std::string_view letter = IsUnsigned(x.dtype) ? "U" : "";
    first = is_largest && IsUnsigned(x.dtype)
                ? "0"
                : fmt::format("{}INT{}_{}", letter, x.dtype.bits,
                              is_largest ? "MIN" : "MAX");
  }
  return {type, first, fmt::format("if (x {} r) r = x;", sign), "r"};
}
absl::Status WriteReduceMax(OperationCode& code) {
  return WriteReduction<ops::ReduceMax>(code, ExtremeOf(code.in(0), '>'));
}
absl::Status WriteReduceMin(OperationCode& code) {
  return WriteReduction<ops::ReduceMin>(code, ExtremeOf(code.in(0), '<'));
}

std::vector<bool> SpatialSides(const OperationCode& code) {
  std::vector<bool> is_taken(code.in(0).sizes.size(), true);
  is_taken[0] = is_taken[1] = false;
  return is_taken;
}
absl::Status WriteGlobalAverage(OperationCode& code) {
  const Sizes& sizes = code.in(0).sizes;
  const int64_t count = CountIn(absl::MakeConstSpan(sizes).subspan(2));
  return WriteFold(
      code,
      {"double", "0", "r += x;",
       fmt::format("r / {}", DoubleText(static_cast<double>(count)))},
      SpatialSides(code));
}
absl::Status WriteGlobalMax(OperationCode& code) {
  return WriteFold(code, ExtremeOf(code.in(0), '>'), SpatialSides(code));
}

// [outer, size, inner]: what lies along `size` is one distribution.
struct Lines {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
Lines LinesOf(const Sizes& sizes, int64_t axis, bool takes_rest) {
  const auto all = absl::MakeConstSpan(sizes);
  const auto side = static_cast<size_t>(
      axis < 0 ? axis + static_cast<int64_t>(sizes.size()) : axis);
  if (takes_rest) {
    return {CountIn(all.subspan(0, side)), CountIn(all.subspan(side)), 1};
  }
  return {CountIn(all.subspan(0, side)), sizes[side],
          CountIn(all.subspan(side + 1))};
}

void OpenLines(CodeWriter* code, const Lines& lines, const CTensor& x,
               const CTensor& y) {
  code->For("o", lines.outer);
  code->For("i", lines.inner);
  for (const auto& [name, tensor, constness] :
       {std::tuple("x", &x, "const "), std::tuple("y", &y, "")}) {
    code->Line(fmt::format("{}{}* {} = {} + o * {} + i;", constness,
                           tensor->type(), name, tensor->name,
                           lines.size * lines.inner));
  }
}

std::string Place(const Lines& lines) {
  return lines.inner == 1 ? "j" : fmt::format("j * {}", lines.inner);
}

void WritePeak(CodeWriter* code, const Lines& lines) {
  code->Line("double peak = -INFINITY;");
  code->For("j", lines.size);
  code->Line(fmt::format("if (x[{0}] > peak) peak = x[{0}];", Place(lines)));
  code->Close();
}

absl::Status WriteSoftmaxOf(OperationCode& operation, const Lines& lines,
                            bool is_log) {
  const CTensor& y = operation.out();
  if (y.count() == 0) return absl::OkStatus();
  CodeWriter& code = operation.code();
  const std::string row = operation.store().Scratch("double", lines.size);
  OpenLines(&code, lines, operation.in(0), y);
  WritePeak(&code, lines);
  code.Line("double sum = 0;");
  code.For("j", lines.size);
  code.Line(fmt::format("{}[j] = exp(x[{}] - peak);", row, Place(lines)));
  code.Line(fmt::format("sum += {}[j];", row));
  code.Close();
  if (is_log) code.Line("sum = log(sum);");
  code.For("j", lines.size);
  code.Line(is_log ? fmt::format("y[{0}] = ({1})(x[{0}] - peak - sum);",
                                 Place(lines), y.type())
                   : fmt::format("y[{0}] = ({1})({2}[j] / sum);", Place(lines),
                                 y.type(), row));
  code.Close(3);
  return absl::OkStatus();
}

template <typename Class, bool kTakesRest, bool kIsLog>
absl::Status WriteSoftmax(OperationCode& code) {
  return WriteSoftmaxOf(
      code, LinesOf(code.in(0).sizes, code.As<Class>()->axis, kTakesRest),
      kIsLog);
}

// The first NaN wins, and among equals the first or the last.
absl::Status WriteArgOf(OperationCode& operation, const ops::ArgAttributes& op,
                        char sign) {
  const CTensor& x = operation.in(0);
  if (operation.out().count() == 0) return absl::OkStatus();
  const Lines lines = LinesOf(x.sizes, op.axis, false);
  CodeWriter& code = operation.code();
  code.For("o", lines.outer);
  code.For("i", lines.inner);
  code.Line(fmt::format("const {}* x = {} + o * {} + i;", x.type(), x.name,
                        lines.size * lines.inner));
  code.Line("int64_t best = 0;");
  code.For("j", lines.size);
  code.Line(
      fmt::format("const {} a = x[{}], b = x[best{}];", x.type(), Place(lines),
                  lines.inner == 1 ? "" : fmt::format(" * {}", lines.inner)));
  const std::string better =
      fmt::format("a {}{} b", sign, op.select_last_index ? "=" : "");
  code.Line(IsFloat(x.dtype)
                ? fmt::format("if (b == b && ({} || a != a)) best = j;", better)
                : fmt::format("if ({}) best = j;", better));
  code.Close();
  code.Line(
      fmt::format("{}[o * {} + i] = best;", operation.out().name, lines.inner));
  code.Close(2);
  return absl::OkStatus();
}
absl::Status WriteArgMax(OperationCode& code) {
  return WriteArgOf(code, *code.As<ops::ArgMax>(), '>');
}
absl::Status WriteArgMin(OperationCode& code) {
  return WriteArgOf(code, *code.As<ops::ArgMin>(), '<');
}

// Declares how many lines there are, how long they are, and how far apart the
// elements of one lie. The axis may be known only when the code runs.
void WriteLines(OperationCode& operation, const Sizes& sizes) {
  CodeWriter& code = operation.code();
  const auto all = absl::MakeConstSpan(sizes);
  Sizes inner;
  for (size_t side = 0; side < sizes.size(); ++side) {
    inner.push_back(CountIn(all.subspan(side + 1)));
  }
  code.Line(fmt::format("const int64_t axis = nw_index({}[0], {});",
                        operation.in(1).name, sizes.size()));
  code.Line("if (axis < 0) return nw_fail(\"an axis is out of range\");");
  code.Line(fmt::format("const int64_t size = {}[axis], inner = {}[axis];",
                        operation.store().Table(sizes),
                        operation.store().Table(inner)));
  code.Line(
      fmt::format("const int64_t outer = {} / (size * inner);", CountIn(all)));
}

// Sums or products of all elements up to each.
absl::Status WriteCumulative(OperationCode& operation,
                             const ops::CumulativeAttributes& op, bool adds) {
  const CTensor& x = operation.in(0);
  const CTensor& y = operation.out();
  if (y.count() == 0) return absl::OkStatus();
  const std::string_view type =
      IsFloat(y.dtype) ? "double" : WrappingTypeOf(y.dtype);
  CodeWriter& code = operation.code();
  code.Open();
  WriteLines(operation, x.sizes);
  code.For("o", "outer");
  code.For("i", "inner");
  code.Line(fmt::format("{} sum = {};", type, adds ? 0 : 1));
  code.For("j", "size");
  code.Line(fmt::format("const int64_t at = (o * size + {}) * inner + i;",
                        op.reverse ? "size - 1 - j" : "j"));
  const std::string store = fmt::format("{}[at] = ({})sum;", y.name, y.type());
  if (op.exclusive) code.Line(store);
  code.Line(fmt::format("sum {}= ({}){}[at];", adds ? '+' : '*', type, x.name));
  if (!op.exclusive) code.Line(store);
  code.Close(4);
  return absl::OkStatus();
}
absl::Status WriteCumSum(OperationCode& code) {
  return WriteCumulative(code, *code.As<ops::CumSum>(), true);
}
absl::Status WriteCumProd(OperationCode& code) {
  return WriteCumulative(code, *code.As<ops::CumProd>(), false);
}

constexpr Row kReductionRows[] = {
    LoopRow<ops::ReduceSum>("ReduceSum", &WriteReduceSum),
    LoopRow<ops::ReduceMean>("ReduceMean", &WriteReduceMean),
    LoopRow<ops::ReduceSumSquare>("ReduceSumSquare", &WriteReduceSumSquare),
    LoopRow<ops::ReduceL1>("ReduceL1", &WriteReduceL1),
    LoopRow<ops::ReduceL2>("ReduceL2", &WriteReduceL2),
    LoopRow<ops::ReduceLogSum>("ReduceLogSum", &WriteReduceLogSum),
    LoopRow<ops::ReduceLogSumExp>("ReduceLogSumExp", &WriteReduceLogSumExp),
    LoopRow<ops::ReduceProd>("ReduceProd", &WriteReduceProd),
    LoopRow<ops::ReduceMax>("ReduceMax", &WriteReduceMax),
    LoopRow<ops::ReduceMin>("ReduceMin", &WriteReduceMin),
    LoopRow<ops::GlobalAveragePool>("GlobalAveragePool", &WriteGlobalAverage),
    LoopRow<ops::GlobalMaxPool>("GlobalMaxPool", &WriteGlobalMax),
    LoopRow<ops::Softmax>("Softmax", &WriteSoftmax<ops::Softmax, false, false>),
    LoopRow<ops::Softmax1>("Softmax",
                           &WriteSoftmax<ops::Softmax1, true, false>),
    LoopRow<ops::LogSoftmax>("LogSoftmax",
                             &WriteSoftmax<ops::LogSoftmax, false, true>),
    LoopRow<ops::LogSoftmax1>("LogSoftmax",
                              &WriteSoftmax<ops::LogSoftmax1, true, true>),
    LoopRow<ops::ArgMax>("ArgMax", &WriteArgMax),
    LoopRow<ops::ArgMin>("ArgMin", &WriteArgMin),
    LoopRow<ops::CumSum>("CumSum", &WriteCumSum),
    LoopRow<ops::CumProd>("CumProd", &WriteCumProd),
};

}  // namespace

absl::Span<const Row> ReductionRows() { return kReductionRows; }

}  // namespace nodewise::emit_c
