#pragma once

// What operators that work on each element by itself have in common. Their
// classes derive from one of the templates below and have a function Of().

#include <cstdint>
#include <optional>
#include <type_traits>

#include "contrib/ops/util/wide_elements.h"
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
// Classes with a faster way for many numbers at once have a function OfAll(x,
// n), which replaces each.
template <typename Class>
concept HasOfAll = requires(double* x) {
  Class::OfAll(x, 1);
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

// Of() of a class is fit for MapSimple().
inline constexpr bool kSimple = true;

// y = Of(x), calculated in double, for floats.
template <typename Class, bool kIsSimple = false>
struct FloatMap {
  absl::Status Check(const Inputs& in) const { return RequireFloat(in, 0); }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
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
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]);
  }

 private:
  absl::Status Map(EvalArgs& args) const {
    [[maybe_unused]] const Class op = static_cast<const Class&>(*this);
    if constexpr (HasOfAll<Class>) {
      return MapBlocks<double>(args, 8, &Class::OfAll);
    } else if constexpr (kIsSimple) {
      return MapSimple(args, [op](double x) { return op.Of(x); });
    } else {
      return MapBlocks<double>(args, 8, [op](double* x, int64_t n) {
        for (int64_t i = 0; i < n; ++i) x[i] = op.Of(x[i]);
      });
    }
  }
};

// y = Of(x) for floats, which come as doubles, and integers, which come as
// those of 64 bits.
template <typename Class>
struct NumberMap {
  absl::Status Check(const Inputs& in) const { return RequireNumber(in, 0); }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    const Class op = static_cast<const Class&>(*this);
    if (IsFloat(args.dtype(0))) {
      return MapSimple(args, [op](double x) { return op.Of(x); });
    }
    return IsUnsigned(args.dtype(0)) ? MapIntegers<uint64_t>(op, args)
                                     : MapIntegers<int64_t>(op, args);
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]);
  }

 private:
  template <typename W>
  static absl::Status MapIntegers(const Class& op, EvalArgs& args) {
    return MapBlocks<W>(args, 2, [op](W* x, int64_t n) {
      for (int64_t i = 0; i < n; ++i) x[i] = op.Of(x[i]);
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
