// Operators that take the elements along some sides together: reductions of
// sides to one number, pools over all places, probabilities and running sums.
// Sums are taken in double, as the reference takes them.

#include "contrib/emit_c/operation_code.h"
#include "contrib/emit_c/parted_loops.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/axis.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {
namespace {

// A number that is made of many, element by element.
struct Fold {
  std::string type;
  std::string first;
  std::string step;  // With "x", the element, and "r", the result so far.
  std::string end;   // An expression of "r".
  // "peak" is the largest of the elements, which is taken off before an
  // exponential, so that it does not overflow.
  bool is_from_peak = false;
};

// The result lies on the places of x with a stride of 0 along the sides that
// are taken together.
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
      x.sizes, is_taken, {CompactView(x.sizes), ResultView(x.sizes, is_taken)});
  const std::string element = fmt::format("{}[{}]", x.name, loops.At(0));
  loops.OpenKept(&code);
  if (fold.is_from_peak) {
    code.Line("double peak = -INFINITY;");
    // Sides of 1 have no loop, and no block of their own for a second x.
    loops.WriteTaken(&code, {"const double p = (double)" + element + ";",
                             "if (p > peak) peak = p;"});
    code.Line("if (isinf(peak)) peak = 0;");
  }
  code.Line("{} r = {};", fold.type, fold.first);
  loops.WriteTaken(
      &code,
      {fmt::format("const {0} x = ({0}){1};", fold.type, element), fold.step});
  // The result's index does not depend on what was taken together.
  code.Line("{}[{}] = ({})({});", y.name, loops.At(1), y.type(), fold.end);
  loops.CloseKept(&code);
  return absl::OkStatus();
}

absl::Status WriteMean(OperationCode& code, const std::vector<bool>& is_taken) {
  const int64_t count = CountTaken(code.in(0).sizes, is_taken);
  return WriteFold(code, {"double", "0", "r += x;", "r / " + CountText(count)},
                   is_taken);
}

absl::StatusOr<std::vector<bool>> ReducedSidesOf(const OperationCode& code) {
  const auto& op =
      code.Common<ops::ReduceAttributes, ops::ReduceSum, ops::ReduceMean,
                  ops::ReduceSumSquare, ops::ReduceL1, ops::ReduceL2,
                  ops::ReduceLogSum, ops::ReduceLogSumExp, ops::ReduceProd,
                  ops::ReduceMax, ops::ReduceMin>();
  const Sizes& x = code.in(0).sizes;
  std::optional<Sizes> axes;
  if (code.has(1)) {
    axes = code.Ints(1);
    if (!axes.has_value()) {
      // As many different axes as there are sides are all of them. Lowering
      // leaves such axes to the run, since no type depends on their order.
      if (code.in(1).count() != static_cast<int64_t>(x.size())) {
        return Refuse("its axes are not constant");
      }
      return std::vector<bool>(x.size(), true);
    }
  }
  if (!axes.has_value() || axes->empty()) {
    return std::vector<bool>(x.size(), !op.noop_with_empty_axes);
  }
  return SidesAt(*axes, x);
}

absl::Status WriteReduction(OperationCode& code, const Fold& fold) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<bool> is_taken,
                            ReducedSidesOf(code));
  return WriteFold(code, fold, is_taken);
}

bool TakesFloats(const OperationCode& code) {
  return IsFloat(code.in(0).dtype);
}

// Folds whose text is the same for all types: floats are folded in double, and
// integers in uint64_t, where they wrap around.
struct PlainFold {
  const char* first;
  const char* step;
  const char* end;
  bool is_of_floats = false;  // There is C for floats only.
  bool is_from_peak = false;
};
constexpr PlainFold kSum = {"0", "r += x;", "r"};
constexpr PlainFold kSumSquare = {"0", "r += x * x;", "r"};
constexpr PlainFold kProd = {"1", "r *= x;", "r"};
constexpr PlainFold kL2 = {"0", "r += x * x;", "sqrt(r)", true};
constexpr PlainFold kLogSum = {"0", "r += x;", "log(r)", true};
constexpr PlainFold kLogSumExp = {"0", "r += exp(x - peak);", "log(r) + peak",
                                  true, true};

template <const PlainFold& kFold>
absl::Status WritePlainFold(OperationCode& code) {
  const bool is_float = TakesFloats(code);
  if (kFold.is_of_floats && !is_float) return Refuse("is of integers");
  return WriteReduction(code, {is_float ? "double" : "uint64_t", kFold.first,
                               kFold.step, kFold.end, kFold.is_from_peak});
}

// A mean of integers is cut off, as a division of integers in C. One of no
// elements would divide by 0, and of floats gives NaN, as it should.
absl::Status WriteReduceMean(OperationCode& code) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<bool> is_taken,
                            ReducedSidesOf(code));
  if (code.in(0).dtype == kUint64) return Refuse("is of type uint64");
  if (TakesFloats(code)) return WriteMean(code, is_taken);
  const int64_t count = CountTaken(code.in(0).sizes, is_taken);
  const std::string end = fmt::format("r / {}", std::max<int64_t>(count, 1));
  return WriteFold(code, {"int64_t", "0", "r += x;", end}, is_taken);
}

// The absolute value of the smallest integer does not fit into its type, so it
// is added without a sign.
absl::Status WriteReduceL1(OperationCode& code) {
  Fold fold{"int64_t", "0",
            "r = (int64_t)((uint64_t)r + (x < 0 ? 0 - (uint64_t)x : "
            "(uint64_t)x));",
            "r"};
  if (TakesFloats(code)) fold = {"double", "0", "r += fabs(x);", "r"};
  if (IsUnsigned(code.in(0).dtype)) fold = {"uint64_t", "0", "r += x;", "r"};
  return WriteReduction(code, fold);
}

// The largest or smallest; NaN wins.
// A fold begins with the number that every other replaces, which is also the
// result of no elements.
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
template <char kSign>
absl::Status WriteExtreme(OperationCode& code) {
  return WriteReduction(code, ExtremeOf(code.in(0), kSign));
}

std::vector<bool> SpatialSides(const OperationCode& code) {
  std::vector<bool> is_taken(code.in(0).sizes.size(), true);
  is_taken[0] = is_taken[1] = false;
  return is_taken;
}
// A pool over all places is a reduction of the spatial sides.
absl::Status WriteGlobalAverage(OperationCode& code) {
  return WriteMean(code, SpatialSides(code));
}
absl::Status WriteGlobalMax(OperationCode& code) {
  return WriteFold(code, ExtremeOf(code.in(0), '>'), SpatialSides(code));
}

// A distribution lies along `size`. With `takes_rest` that is all
// from the axis on, as below opset 13.
Lines LinesOf(const Sizes& sizes, int64_t axis, bool takes_rest) {
  const auto side = static_cast<size_t>(
      axis < 0 ? axis + static_cast<int64_t>(sizes.size()) : axis);
  if (!takes_rest) return LinesAlong(sizes, side);
  const auto all = absl::MakeConstSpan(sizes);
  return {CountIn(all.first(side)), CountIn(all.subspan(side)), 1};
}

// Declares where the line of a tensor begins, inside loops over "o" and "i".
void PointAtLine(CodeWriter* code, const Lines& lines, std::string_view name,
                 const CTensor& tensor, std::string_view constness) {
  code->Line("{}{}* {} = {} + o * {} + i;", constness, tensor.type(), name,
             tensor.name, lines.size * lines.inner);
}

std::string Place(const Lines& lines) {
  return lines.inner == 1 ? "j" : fmt::format("j * {}", lines.inner);
}

// The largest of a line is taken off before the exponentials, of which one is 1
// then and none overflows.
template <typename Class, bool kTakesRest, bool kIsLog>
absl::Status WriteSoftmax(OperationCode& operation) {
  const Lines lines =
      LinesOf(operation.in(0).sizes, operation.As<Class>()->axis, kTakesRest);
  const CTensor& y = operation.out();
  CodeWriter& code = operation.code();
  const std::string row = operation.store().Scratch("double", lines.size);
  const std::string at = Place(lines);
  code.For({{"o", lines.outer}, {"i", lines.inner}});
  PointAtLine(&code, lines, "x", operation.in(0), "const ");
  PointAtLine(&code, lines, "y", y, "");
  code.Line("double peak = -INFINITY;");
  code.Each("j", lines.size, "if (x[{0}] > peak) peak = x[{0}];", at);
  code.Line("double sum = 0;");
  code.For("j", lines.size);
  code.Line("{}[j] = exp(x[{}] - peak);", row, at);
  code.Line("sum += {}[j];", row);
  code.Close();
  if (kIsLog) {
    code.Line("sum = log(sum);");
    code.Each("j", lines.size, "y[{0}] = ({1})(x[{0}] - peak - sum);", at,
              y.type());
  } else {
    code.Each("j", lines.size, "y[{0}] = ({1})({2}[j] / sum);", at, y.type(),
              row);
  }
  code.Close(2);
  return absl::OkStatus();
}

// The first NaN wins, and among equals the first or the last.
template <typename Class, char kSign>
absl::Status WriteArg(OperationCode& operation) {
  const ops::ArgAttributes& op = *operation.As<Class>();
  const CTensor& x = operation.in(0);
  const Lines lines = LinesOf(x.sizes, op.axis, false);
  CodeWriter& code = operation.code();
  code.For({{"o", lines.outer}, {"i", lines.inner}});
  PointAtLine(&code, lines, "x", x, "const ");
  code.Line("int64_t best = 0;");
  code.For("j", lines.size);
  code.Line("const {} a = x[{}], b = x[best{}];", x.type(), Place(lines),
            lines.inner == 1 ? "" : fmt::format(" * {}", lines.inner));
  const std::string better =
      fmt::format("a {}{} b", kSign, op.select_last_index ? "=" : "");
  code.Line(IsFloat(x.dtype)
                ? fmt::format("if (b == b && ({} || a != a)) best = j;", better)
                : fmt::format("if ({}) best = j;", better));
  code.Close();
  code.Line("{}[o * {} + i] = best;", operation.out().name, lines.inner);
  code.Close(2);
  return absl::OkStatus();
}

// Declares how many lines there are, how long they are, and how far apart the
// elements of one lie. The axis may be known only when the code runs.
void WriteLines(OperationCode& operation, const Sizes& sizes) {
  CodeWriter& code = operation.code();
  code.Line("const int64_t axis = nw_index({}[0], {});", operation.in(1).name,
            sizes.size());
  code.Line("if (axis < 0) return nw_fail(\"an axis is out of range\");");
  const std::string inner = operation.store().Table(CompactView(sizes).strides);
  code.Line("const int64_t size = {}[axis], inner = {}[axis];",
            operation.store().Table(sizes), inner);
  code.Line("const int64_t outer = {} / (size * inner);", CountIn(sizes));
}

template <typename Class, bool kAdds>
absl::Status WriteCumulative(OperationCode& operation) {
  const ops::CumulativeAttributes& op = *operation.As<Class>();
  const CTensor& x = operation.in(0);
  const CTensor& y = operation.out();
  const std::string_view type =
      IsFloat(y.dtype) ? "double" : WrappingTypeOf(y.dtype);
  CodeWriter& code = operation.code();
  code.Open();
  WriteLines(operation, x.sizes);
  code.For("o", "outer");
  code.For("i", "inner");
  code.Line("{} sum = {};", type, kAdds ? 0 : 1);
  code.For("j", "size");
  code.Line("const int64_t at = (o * size + {}) * inner + i;",
            op.reverse ? "size - 1 - j" : "j");
  const std::string store = fmt::format("{}[at] = ({})sum;", y.name, y.type());
  if (op.exclusive) code.Line(store);
  code.Line("sum {}= ({}){}[at];", kAdds ? '+' : '*', type, x.name);
  if (!op.exclusive) code.Line(store);
  code.Close(4);
  return absl::OkStatus();
}
constexpr Row kReductionRows[] = {
    LoopRow<ops::ReduceSum>(&WritePlainFold<kSum>),
    LoopRow<ops::ReduceMean>(&WriteReduceMean),
    LoopRow<ops::ReduceSumSquare>(&WritePlainFold<kSumSquare>),
    LoopRow<ops::ReduceL1>(&WriteReduceL1),
    LoopRow<ops::ReduceL2>(&WritePlainFold<kL2>),
    LoopRow<ops::ReduceLogSum>(&WritePlainFold<kLogSum>),
    LoopRow<ops::ReduceLogSumExp>(&WritePlainFold<kLogSumExp>),
    LoopRow<ops::ReduceProd>(&WritePlainFold<kProd>),
    LoopRow<ops::ReduceMax>(&WriteExtreme<'>'>),
    LoopRow<ops::ReduceMin>(&WriteExtreme<'<'>),
    LoopRow<ops::GlobalAveragePool>(&WriteGlobalAverage),
    LoopRow<ops::GlobalMaxPool>(&WriteGlobalMax),
    LoopRow<ops::Softmax>(&WriteSoftmax<ops::Softmax, false, false>),
    LoopRow<ops::Softmax1>(&WriteSoftmax<ops::Softmax1, true, false>),
    LoopRow<ops::LogSoftmax>(&WriteSoftmax<ops::LogSoftmax, false, true>),
    LoopRow<ops::LogSoftmax1>(&WriteSoftmax<ops::LogSoftmax1, true, true>),
    LoopRow<ops::ArgMax>(&WriteArg<ops::ArgMax, '>'>),
    LoopRow<ops::ArgMin>(&WriteArg<ops::ArgMin, '<'>),
    LoopRow<ops::CumSum>(&WriteCumulative<ops::CumSum, true>),
    LoopRow<ops::CumProd>(&WriteCumulative<ops::CumProd, false>),
};

}  // namespace

absl::Span<const Row> ReductionRows() { return kReductionRows; }

}  // namespace nodewise::emit_c
