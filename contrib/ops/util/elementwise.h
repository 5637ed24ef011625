#pragma once

// Loops over elements, and what operators that work on each element by itself
// have in common: reading and writing all types as a few wide ones, rules and
// evaluation of operators with one input or two, and their bounds. Only for the
// files of operators.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "contrib/ops/util/sum_bounds.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/support/status.h"

namespace nodewise {

// Loops over element types that are rarely met: their elements are read as one
// of three wide types, calculated with, and made short again. A loop over every
// element type by itself would take the compiler minutes.

// Wide elements that are calculated at a time: two lists of them stay in the
// first cache.
inline constexpr int64_t kWideBlock = 512;

// Calls f(W()) with the wide type that has all values of `dtype`: double for
// floats and Bools, int64_t and uint64_t for integers; refuses other types.
template <typename F>
absl::Status WithWide(DLDataType dtype, F&& f) {
  if (IsFloat(dtype) || IsBool(dtype)) return CallWith(f, double{});
  if (!IsInteger(dtype)) return RefuseType(dtype, "an integer of 8 to 64 bits");
  if (IsUnsigned(dtype)) return CallWith(f, uint64_t{});
  return CallWith(f, int64_t{});
}

template <typename W>
inline constexpr DLDataType kWideType = std::is_same_v<W, double>    ? kFloat64
                                        : std::is_same_v<W, int64_t> ? kInt64
                                                                     : kUint64;

// Reads elements [begin, end) of a tensor with that wide type. Integers may be
// read as either of the two: as int64_t, uint64_t ones keep their bits.
void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, double* to);
void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, int64_t* to);
void LoadWide(const NDArray& tensor, int64_t begin, int64_t end, uint64_t* to);

// Reads elements begin, begin + step, ..., `n` in all. The innermost side of a
// Broadcast has steps of 0 or 1; others are slow.
template <typename W>
void LoadWideSteps(const NDArray& tensor, int64_t begin, int64_t step,
                   int64_t n, W* to) {
  if (step == 1) {
    LoadWide(tensor, begin, begin + n, to);
  } else if (step == 0) {
    LoadWide(tensor, begin, begin + 1, to);
    std::fill(to + 1, to + n, to[0]);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = begin + i * step;
      LoadWide(tensor, at, at + 1, to + i);
    }
  }
}

// Writes elements [begin, end) of a tensor: doubles are rounded (FromDouble),
// integers lose their upper bits. In a Bool all but 0 is true.
void StoreWide(const double* from, int64_t begin, int64_t end,
               const NDArray& tensor);
void StoreWide(const int64_t* from, int64_t begin, int64_t end,
               const NDArray& tensor);
void StoreWide(const uint64_t* from, int64_t begin, int64_t end,
               const NDArray& tensor);

// Returns all elements in the wide type `W`: the tensor's own memory if they
// are of that type, else a copy that `copy` holds.
template <typename W>
const W* WideElements(const NDArray& tensor, std::vector<W>* copy) {
  if (tensor.dtype() == kWideType<W>) return tensor.As<W>();
  const int64_t count = CountOf(tensor);
  copy->resize(static_cast<size_t>(count));
  ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
    LoadWide(tensor, begin, end, copy->data() + begin);
  });
  return copy->data();
}

// Returns where the results of an output are put as `W`: in the tensor's own
// memory if it is of that type, else in `buffer`, from which StoreOutput()
// takes them.
template <typename W>
W* WideOutput(const NDArray& output, std::vector<W>* buffer) {
  if (output.dtype() == kWideType<W>) return output.As<W>();
  buffer->resize(static_cast<size_t>(CountOf(output)));
  return buffer->data();
}
template <typename W>
void StoreOutput(const std::vector<W>& buffer, const NDArray& output) {
  if (buffer.empty()) return;
  StoreWide(buffer.data(), 0, CountOf(output), output);
}

// The ends of an integer type, as numbers of 64 bits.
template <typename W>
W LeastOf(DLDataType dtype) {
  return std::numeric_limits<W>::min() >> (64 - dtype.bits);
}
template <typename W>
W LargestOf(DLDataType dtype) {
  return std::numeric_limits<W>::max() >> (64 - dtype.bits);
}

// Integers that sort as the elements do: NaN is above all numbers and equal to
// itself, and 0 equal to -0. They can be compared within one tensor only.
std::vector<uint64_t> SortKeys(const NDArray& tensor);

// y = f(x) of input 0, of its type, block by block: f(x, n) replaces the
// elements, which it gets as `W`, by the results. An element takes about `work`
// nanoseconds.
// REQUIRES: LoadWide() reads the input as `W`.
template <typename W>
using BlockFunction = absl::FunctionRef<void(W* x, int64_t n)>;
template <typename W>
absl::Status MapBlocks(EvalArgs& args, double work, BlockFunction<W> f);

// z = f(x, y) of inputs 0 and 1 as `plan` lays them out: f(x, y, n) leaves the
// results in `x`.
// REQUIRES: LoadWide() reads both inputs as `W`.
template <typename W>
using PairFunction = absl::FunctionRef<void(W* x, const W* y, int64_t n)>;
template <typename W>
absl::Status MapPairBlocks(EvalArgs& args, const Broadcast& plan,
                           DLDataType out_type, double work, PairFunction<W> f);

// z = f(x, y) element by element, calculated in the inputs' wide type.
template <typename F>
absl::Status MapWide(EvalArgs& args, const Broadcast& plan, DLDataType out_type,
                     F f) {
  return WithWide(args.dtype(0), [&](auto zero) {
    using W = decltype(zero);
    return MapPairBlocks<W>(args, plan, out_type, 4,
                            [&f](W* x, const W* y, int64_t n) {
                              for (int64_t i = 0; i < n; ++i)
                                x[i] = static_cast<W>(f(x[i], y[i]));
                            });
  });
}

// Elements that operators make of other numbers and back, and that none
// calculates with (IsConverted() in nodewise/op/tensor_loops.h).

bool IsShortInteger(DLDataType dtype);  // 2 or 4 bits.
bool IsShortFloat(DLDataType dtype);    // 4 or 8 bits.

// How a short float is encoded. REQUIRES: IsShortFloat(dtype).
ShortFloat ShortFormatOf(DLDataType dtype);

// Reads integers of 2 and 4 bits, and others, as LoadWide() does.
void LoadIntegers(const NDArray& tensor, int64_t begin, int64_t end,
                  int64_t* to);
// Writes integers, which lose their upper bits, as elements of any integer type
// or bool.
void StoreIntegers(const int64_t* from, int64_t begin, int64_t end,
                   const NDArray& tensor);
// Writes short floats. REQUIRES: IsShortFloat() of the tensor's type.
void StoreShortFloats(const double* from, int64_t begin, int64_t end,
                      const NDArray& tensor, ShortRounding rounding);

// Returns how far a short float is from its farther neighbour; 0 for NaN and
// infinity.
double ShortStep(DLDataType dtype, uint8_t pattern);

// Classes of operators that work on each element by itself derive from one of
// the templates below and have a function Eval().

// An integer of 64 bits with its upper bits dropped: wraps around.
template <typename T>
T Wrapped(uint64_t bits) {
  return static_cast<T>(bits);
}
template <typename T>
uint64_t Bits(T x) {
  return static_cast<uint64_t>(x);
}

// Returns the number of elements; 0 if it is not known.
double CountOf(const OutputInfo& output);
// Bases of rules: of operators whose output has the type of input 0, and of
// those that calculate once for each element.
struct KeepsType {
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
};
struct OneFlopEach {
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]);
  }
};

// Fails with kInvalidArgument if the outputs have more elements than can be
// counted.
absl::StatusOr<OutputInfos> Countable(absl::StatusOr<OutputInfos> outputs);

// Shape calculations: f for each pair of elements of inputs 0 and 1; none if
// nothing is known of one of them, or they are not int32 or int64.
std::optional<Shape> PairElements(const Inputs& in,
                                  Dim (*f)(const Dim&, const Dim&));
// Shape calculations: f for each element of input 0.
std::optional<Shape> MapElements(const Inputs& in, Dim (*f)(const Dim&));

// Some operators lose digits on the way to a small result: a kernel that adds 1
// and takes it away again is off by as much as it would be at 1. Their classes
// have a function Scale(x, y), the largest number that a usual kernel meets.
template <typename Class>
concept HasScale = requires(const Class& op, double x) {
  op.Scale(x, x);
};
// Classes with a faster way for many numbers at once have a function EvalAll(x,
// n), which replaces each.
template <typename Class>
concept HasOfAll = requires(double* x) {
  Class::EvalAll(x, 1);
};
// Classes that have Scale() count errors in units in the last place at that
// number.
inline constexpr double kScaledUlps = 4;

void FillScaledBounds(const NDArray& x, const NDArray& y, Bounds* bounds,
                      absl::FunctionRef<double(double x, double y)> scale);

// y = f(x) for floats, calculated in double, where `f` is so simple that the
// loop over float32, the usual type, has vector instructions: that is inlined.
template <typename F>
absl::Status MapSimple(EvalArgs& args, F f) {
  if (args.dtype(0) != kFloat32) {
    return MapBlocks<double>(args, 8, [f](double* x, int64_t n) {
      for (int64_t i = 0; i < n; ++i) x[i] = f(x[i]);
    });
  }
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                            args.MakeOutputOver(0, 0, args.shape(0), kFloat32));
  const float* const from = args.in(0).As<float>();
  float* const to = y.As<float>();
  ParallelFor(CountOf(y), 8, [&](int64_t begin, int64_t end) {
    MapSpan(from + begin, end - begin, to + begin, f);
  });
  return absl::OkStatus();
}

// Eval() of a class is fit for MapSimple().
inline constexpr bool kSimple = true;

// y = Eval(x), calculated in double, for floats.
template <typename Class, bool kIsSimple = false>
struct FloatMap : OneFlopEach, KeepsType {
  absl::Status Check(const Inputs& in) const { return RequireFloat(in, 0); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_RETURN_IF_ERROR(Map(args));
    if constexpr (HasScale<Class>) {
      if (Bounds* const bounds = args.bounds(0)) {
        const Class op = static_cast<const Class&>(*this);
        FillScaledBounds(args.in(0), args.outputs()[0], bounds,
                         [op](double x, double y) { return op.Scale(x, y); });
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Map(EvalArgs& args) const {
    [[maybe_unused]] const Class op = static_cast<const Class&>(*this);
    if constexpr (HasOfAll<Class>) {
      return MapBlocks<double>(args, 8, &Class::EvalAll);
    } else if constexpr (kIsSimple) {
      return MapSimple(args, [op](double x) { return op.Eval(x); });
    } else {
      return MapBlocks<double>(args, 8, [op](double* x, int64_t n) {
        for (int64_t i = 0; i < n; ++i) x[i] = op.Eval(x[i]);
      });
    }
  }
};

// y = Eval(x) for floats, which come as doubles, and integers, which come as
// those of 64 bits.
template <typename Class>
struct NumberMap : OneFlopEach, KeepsType {
  absl::Status Check(const Inputs& in) const { return RequireNumber(in, 0); }
  absl::Status Evaluate(EvalArgs& args) const {
    const Class op = static_cast<const Class&>(*this);
    if (IsFloat(args.dtype(0))) {
      return MapSimple(args, [op](double x) { return op.Eval(x); });
    }
    return IsUnsigned(args.dtype(0)) ? MapIntegers<uint64_t>(op, args)
                                     : MapIntegers<int64_t>(op, args);
  }

 private:
  template <typename W>
  static absl::Status MapIntegers(const Class& op, EvalArgs& args) {
    return MapBlocks<W>(args, 2, [op](W* x, int64_t n) {
      for (int64_t i = 0; i < n; ++i) x[i] = op.Eval(x[i]);
    });
  }
};

// z = f(x, y) of one element type: float32, and the integers of shapes and
// indices, as they are, other types in their wide type.
template <typename F>
absl::Status MapSame(EvalArgs& args, const Broadcast& plan, F f) {
  const DLDataType dtype = args.dtype(0);
  if (dtype == kFloat32) return MapPairs<float, float>(args, plan, dtype, f);
  if (dtype == kInt64) return MapPairs<int64_t, int64_t>(args, plan, dtype, f);
  if (dtype == kInt32) return MapPairs<int32_t, int32_t>(args, plan, dtype, f);
  return MapWide(args, plan, dtype, f);
}
// z = f(x, y), where the result is a Bool.
template <typename F>
absl::Status MapTruth(EvalArgs& args, const Broadcast& plan, F f) {
  const DLDataType dtype = args.dtype(0);
  const auto truth = [f](auto x, auto y) { return Bool{f(x, y)}; };
  if (dtype == kFloat32) return MapPairs<float, Bool>(args, plan, kBool, truth);
  if (dtype == kInt64) return MapPairs<int64_t, Bool>(args, plan, kBool, truth);
  if (dtype == kInt32) return MapPairs<int32_t, Bool>(args, plan, kBool, truth);
  return MapWide(args, plan, kBool, f);
}

// Broadcasts inputs 0 and 1 as NumPy does.
absl::StatusOr<Broadcast> BroadcastPair(const EvalArgs& args);

// Broadcasting of binary operators below opset 7. The shape of `y` with sides
// of 1 put in, so that NumPy's rules apply; kInvalidArgument if it does not
// fit.
absl::StatusOr<std::vector<int64_t>> AlignTo(absl::Span<const int64_t> x,
                                             absl::Span<const int64_t> y,
                                             const ops::AxisBroadcast& rule);
absl::Status CheckAligned(const Inputs& in, const ops::AxisBroadcast& rule);
absl::StatusOr<Broadcast> AlignedPair(const EvalArgs& args,
                                      const ops::AxisBroadcast& rule);

// Rules of binary operators, whose public class is `Class`; below opset 7 it
// has ops::AxisBroadcast. `F` has all that does not depend on the opset:
//   Check(in)         the types
//   ResultType(in)    the element type of the result
//   kElement          a function of two elements that are known, or null
//   Run(args, plan)   the calculation
template <typename Class, typename F>
struct Binary : Class, OneFlopEach {
  static constexpr bool kIsAtAxis =
      std::is_base_of_v<ops::AxisBroadcast, Class>;

  static constexpr auto Fields() {
    if constexpr (kIsAtAxis) {
      return FieldList(Field<&ops::AxisBroadcast::axis>("axis"),
                       Field<&ops::AxisBroadcast::broadcast>("broadcast"));
    } else {
      return FieldList();
    }
  }
  absl::Status Check(const Inputs& in) const {
    if constexpr (kIsAtAxis) {
      return All(F::Check(in), CheckAligned(in, *this));
    } else {
      return F::Check(in);
    }
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    if constexpr (kIsAtAxis) {
      return LikeInput(in, 0, F::ResultType(in));
    } else {
      NODEWISE_ASSIGN_OR_RETURN(
          OutputInfos out, Countable(BroadcastInputs(in, F::ResultType(in))));
      out[0].elements = PairElements(in, F::kElement);
      return out;
    }
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, PlanOf(args));
    return F::Run(args, plan);
  }

 private:
  absl::StatusOr<Broadcast> PlanOf(const EvalArgs& args) const {
    if constexpr (kIsAtAxis) {
      return AlignedPair(args, *this);
    } else {
      return BroadcastPair(args);
    }
  }
};
// A base of `F` for operators of which shapes are not calculated.
struct NoElement {
  static constexpr Dim (*kElement)(const Dim&, const Dim&) = nullptr;
};

// Returns the element type of input 0, or that of input 1 if it is not known
// yet.
DLDataType SharedType(const Inputs& in);

// Results that ONNX leaves open: its text does not say what comes of a NaN,
// say, so that kernels may differ and all be right (docs/compare.md).

// Lets a correct kernel give anything for those elements of an output that is
// made already: their bounds become infinite. Does nothing if no bounds are
// wanted. Other bounds that are not there yet become 0.
void AllowAny(EvalArgs& args, size_t output,
              absl::FunctionRef<bool(int64_t element)> is_open);

// Allows anything where output 0, of floats, is NaN; in output 1 too, if it is
// wanted and has as many elements.
void AllowAnyForNan(EvalArgs& args);

}  // namespace nodewise
