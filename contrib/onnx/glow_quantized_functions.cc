#include "contrib/onnx/contrib_functions.h"
#include "nodewise/op/op_row.h"

// What all of Glow's quantized operators are made of: real numbers of integers
// with a scale and an offset, and integers of real numbers.

namespace nodewise {
namespace {

constexpr ContribFunction kGlowQuantizedFunctions[] = {
    kHelperRow("GlowReal", kGlowOpset, {"x"}, {"y"},
               {{"scale", 0.0F}, {"offset", 0}}, R"(
       z = CastAs(#$offset, x) if !type(x)=int32
       y = DequantizeLinear(x, $scale, z) if !type(x)=int32
       i = Cast<to=7>(x) if type(x)=int32
       i = Sub(i, #$offset) if type(x)=int32
       f = Cast<to=1>(i) if type(x)=int32
       y = Mul(f, $scale) if type(x)=int32)"),
    kHelperRow("GlowCentred", kGlowOpset, {"x"}, {"y"}, {{"offset", 0}}, R"(
       i = Cast<to=7>(x)
       i = Sub(i, #$offset)
       y = Cast<to=1>(i))"),
    // x / scale + offset, rounded half to even: not QuantizeLinear, which
    // rounds before it adds the offset.
    kHelperRow("GlowStored", kGlowOpset, {"x"}, {"y"},
               {{"scale", 0.0F}, {"offset", 0}, {"type", 3}}, R"(
       o = CastAs(#$offset, x)
       s = Div(x, $scale)
       s = Add(s, o)
       s = Round(s)
       y = nodewise.GlowClipped<type=$type>(s))"),
    // Whole numbers beyond the type become the nearest that it has, where a
    // Cast alone could make anything of them.
    kHelperRow("GlowClipped", kGlowOpset, {"x"}, {"y"}, {{"type", 3}}, R"(
       x = Clip(x, -128, 127) if $type=3
       x = Clip(x, 0, 255) if $type=2
       x = Clip(x, -32768, 32767) if $type=5
       i = Clip(x, -4e18, 4e18) if $type=6
       i = Cast<to=7>(i) if $type=6
       x = Clip(i, #-2147483648, #2147483647) if $type=6
       y = Cast<to=$type>(x))"),
    // This makes a number of steps of the result's scale the integer that
    // stands for it. Bodies of GlowNumbers::kSteps end with it.
    kHelperRow("GlowSteps", kGlowOpset, {"x"}, {"y"}, {{"type", 3}}, R"(
       r = nodewise.RoundAway(x)
       y = nodewise.GlowClipped<type=$type>(r))"),
    kHelperRow("RoundAway", kGlowOpset, {"x"}, {"y"}, {}, R"(
       a = Abs(x)
       f = Floor(a)
       d = Sub(a, f)
       up = GreaterOrEqual(d, 0.5)
       up = CastAs(up, x)
       r = Add(f, up)
       s = Sign(x)
       y = Mul(r, s))"),
};

}  // namespace

absl::Span<const ContribFunction> GlowQuantizedFunctions() {
  return kGlowQuantizedFunctions;
}

}  // namespace nodewise
