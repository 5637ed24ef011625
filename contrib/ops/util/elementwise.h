#pragma once

// What operators that work on each element by itself have in common. Their
// classes derive from one of the templates below and have a function Of().

#include <cstdint>
#include <optional>
#include <type_traits>

#include "nodewise/op/evaluate.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/axis_broadcast.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

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

// Fails with kInvalidArgument if the outputs have more elements than can be
// counted.
absl::StatusOr<OutputInfos> Countable(absl::StatusOr<OutputInfos> outputs);

// Shape calculations: f for each pair of elements of inputs 0 and 1; none if
// nothing is known of one of them, or they are no int32 or int64.
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
// Classes that have Scale() count errors in units in the last place at that
// number.
inline constexpr double kScaledUlps = 4;

template <typename Class>
void FillScaledBounds(const Class& op, const NDArray& x, const NDArray& y,
                      Bounds* bounds) {
  const std::vector<double> in = ToDoubles(x);
  const std::vector<double> out = ToDoubles(y);
  bounds->proved.resize(out.size());
  for (size_t i = 0; i < out.size(); ++i) {
    bounds->proved[i] = kScaledUlps * 2 *
                        HalfUlp(y.dtype(), std::max(std::fabs(out[i]),
                                                    op.Scale(in[i], out[i])));
  }
  bounds->expected = bounds->proved;
}

// y = Of(x), calculated in double, for floats.
template <typename Class>
struct FloatMap {
  absl::Status Check(const Inputs& in) const { return RequireFloat(in, 0); }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    const Class op = static_cast<const Class&>(*this);
    NODEWISE_RETURN_IF_ERROR(
        MapFloats(args, [op](double x) { return op.Of(x); }));
    if constexpr (HasScale<Class>) {
      if (Bounds* const bounds = args.bounds(0)) {
        FillScaledBounds(op, args.in(0), args.outputs()[0], bounds);
      }
    }
    return absl::OkStatus();
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]);
  }
};

// y = Of(x) for floats, which come as doubles, and integers, as they are.
template <typename Class>
struct NumberMap {
  absl::Status Check(const Inputs& in) const { return RequireNumber(in, 0); }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    const Class op = static_cast<const Class&>(*this);
    if (IsFloat(args.dtype(0))) {
      return MapFloats(args, [op](double x) { return op.Of(x); });
    }
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, args.shape(0), args.dtype(0)));
    return WithInteger(args.dtype(0), [&](auto zero) {
      using T = decltype(zero);
      const T* const from = args.in(0).As<T>();
      T* const to = y.As<T>();
      ParallelFor(CountOf(y), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = op.Of(from[i]);
      });
      return absl::OkStatus();
    });
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]);
  }
};

// z = f(x, y) of one element type, which 16-bit floats pass as doubles.
template <typename T, typename F>
absl::Status MapSame(EvalArgs& args, const Broadcast& plan, F f) {
  const DLDataType dtype = args.dtype(0);
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>) {
    return MapPairs<T, T>(args, plan, dtype, [f](T x, T y) {
      return FromDouble<T>(f(ToDouble(x), ToDouble(y)));
    });
  } else {
    return MapPairs<T, T>(args, plan, dtype, f);
  }
}
// z = f(x, y), where the result is a Bool.
template <typename T, typename F>
absl::Status MapTruth(EvalArgs& args, const Broadcast& plan, F f) {
  const auto truth = [](bool value) { return Bool{value}; };
  if constexpr (std::is_arithmetic_v<T>) {
    return MapPairs<T, Bool>(args, plan, kBool,
                             [=](T x, T y) { return truth(f(x, y)); });
  } else {
    return MapPairs<T, Bool>(args, plan, kBool, [=](T x, T y) {
      return truth(f(ToDouble(x), ToDouble(y)));
    });
  }
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

// Rules of binary operators, whose public class is `Class`. `F` has what does
// not depend on the opset:
//   Check(in)         the types
//   ResultType(in)    the element type of the result
//   Element           a function of two elements that are known, or null
//   Run(args, plan)   the calculation
template <typename Class, typename F>
struct Binary : Class {
  absl::Status Check(const Inputs& in) const { return F::Check(in); }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    NODEWISE_ASSIGN_OR_RETURN(
        OutputInfos out, Countable(BroadcastInputs(in, F::ResultType(in))));
    out[0].elements = PairElements(in, F::kElement);
    return out;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, BroadcastPair(args));
    return F::Run(args, plan);
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]);
  }
};
// Rules of binary operators below opset 7; `Class` has ops::AxisBroadcast.
template <typename Class, typename F>
struct BinaryAtAxis : Class {
  static constexpr auto Fields() {
    return FieldList(Field<&ops::AxisBroadcast::axis>("axis"),
                     Field<&ops::AxisBroadcast::broadcast>("broadcast"));
  }
  absl::Status Check(const Inputs& in) const {
    return All(F::Check(in), CheckAligned(in, *this));
  }
  OutputInfos Infer(const Inputs& in) const {
    return LikeInput(in, 0, F::ResultType(in));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, AlignedPair(args, *this));
    return F::Run(args, plan);
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]);
  }
};

// Returns the element type of input 0, or that of input 1 if it is not known
// yet.
DLDataType SharedType(const Inputs& in);

}  // namespace nodewise
