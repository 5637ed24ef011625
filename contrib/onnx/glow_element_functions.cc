#include "contrib/onnx/contrib_functions.h"
#include "nodewise/op/op_row.h"

// Glow's operators that work on each element by itself. i0_qScale and the like
// are the scales and offsets of inputs and outputs.

namespace nodewise {
namespace {

constexpr ContribFunction UnaryFunction(std::string_view name,
                                        std::string_view body) {
  return GlowRow(name, {"Input"}, {}, body);
}

constexpr ContribFunction BinaryFunction(std::string_view name,
                                         std::string_view body) {
  return GlowRow(name, {"LHS", "RHS"}, {}, body);
}

constexpr ContribFunction kGlowElementFunctions[] = {
    // Two numbers of 8 bits, brought to steps of 2^-15, added, and brought to
    // steps of the result.
    kHelperRow("GlowSum", kGlowOpset, {"a", "b"}, {"y"},
               {{"a_scale", 0.0F},
                {"a_offset", 0},
                {"b_scale", 0.0F},
                {"b_offset", 0},
                {"scale", 0.0F},
                {"offset", 0}},
               R"(
       a = nodewise.GlowLarge<scale=$a_scale, offset=$a_offset>(a)
       b = nodewise.GlowLarge<scale=$b_scale, offset=$b_offset>(b)
       i = Add(a, b)
       f = Cast<to=1>(i)
       s = Div(0.000030517578125, $scale)
       f = Mul(f, s)
       o = Cast<to=1>(#$offset)
       y = Add(f, o))"),
    kHelperRow("GlowLarge", kGlowOpset, {"x"}, {"y"},
               {{"scale", 0.0F}, {"offset", 0}}, R"(
       f = nodewise.GlowCentred<offset=$offset>(x)
       s = Div($scale, 0.000030517578125)
       f = Mul(f, s)
       f = nodewise.RoundAway(f)
       y = Cast<to=6>(f))"),
    GlowStepsRow("Add", {"LHS", "RHS"}, {}, R"(
       Result = Add(LHS, RHS) if !$steps
       Result = nodewise.GlowSum<a_scale=$i0_qScale, a_offset=$i0_qOffset,
           b_scale=$i1_qScale, b_offset=$i1_qOffset, scale=$o0_qScale,
           offset=$o0_qOffset>(LHS, RHS) if $steps)"),
    GlowStepsRow("Sub", {"LHS", "RHS"}, {}, R"(
       Result = Sub(LHS, RHS) if !$steps
       l = nodewise.GlowCentred<offset=$i0_qOffset>(LHS)
       r = nodewise.GlowCentred<offset=$i1_qOffset>(RHS)
       s = Div($i0_qScale, $o0_qScale)
       t = Div($i1_qScale, $o0_qScale)
       l = Mul(s, l)
       r = Mul(t, r)
       d = Sub(l, r)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(d, o) if $steps)"),
    GlowStepsRow("Mul", {"LHS", "RHS"}, {}, R"(
       Result = Mul(LHS, RHS) if !$steps
       l = nodewise.GlowCentred<offset=$i0_qOffset>(LHS)
       r = nodewise.GlowCentred<offset=$i1_qOffset>(RHS)
       s = Mul($i0_qScale, $i1_qScale)
       s = Div(s, $o0_qScale)
       p = Mul(l, r)
       p = Mul(p, s)
       p = nodewise.RoundAway(p)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(p, o) if $steps)"),
    GlowStepsRow("Div", {"LHS", "RHS"}, {}, R"(
       Result = Div(LHS, RHS) if !$steps
       l = nodewise.GlowCentred<offset=$i0_qOffset>(LHS)
       r = nodewise.GlowCentred<offset=$i1_qOffset>(RHS)
       l = Mul($i0_qScale, l)
       s = Mul($i1_qScale, $o0_qScale)
       r = Mul(s, r)
       d = Div(l, r)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(d, o) if $steps)"),
    // The constant is an attribute, although its name is one that Glow gives to
    // inputs elsewhere.
    GlowRow("MulConst", {"RHS"}, {{"LHS", 0.0F}}, "Result = Mul($LHS, RHS)"),
    GlowRow("RsubConst", {"RHS"}, {{"LHS", 0.0F}}, "Result = Sub($LHS, RHS)"),
    // Integers are divided in float32; ONNX's Div of integers would cut the
    // fraction off before Floor sees it.
    GlowRow("FloorDiv", {"LHS", "RHS"}, {{"Truncate", 0}}, R"(
       LHS = Cast<to=1>(LHS) if !$o0_qScale
       RHS = Cast<to=1>(RHS) if !$o0_qScale
       d = Div(LHS, RHS)
       d = Floor(d) if !$Truncate
       d = nodewise.Truncated(d) if $Truncate
       Result = Cast<to=$o0_type>(d) if !$o0_qScale
       Result = Identity(d) if $o0_qScale)"),
    BinaryFunction("Fmod", R"(
       l = Cast<to=1>(LHS) if !$o0_qScale
       r = Cast<to=1>(RHS) if !$o0_qScale
       m = Mod<fmod=1>(l, r)
       Result = Cast<to=$o0_type>(m) if !$o0_qScale
       Result = Mod<fmod=1>(LHS, RHS) if $o0_qScale)"),
    // The remainder has the sign of the dividend; where it is to follow the
    // divisor, the divisor is added to one below 0.
    GlowRow("Modulo", {"Input"}, {{"Divisor", 1}, {"SignFollowDivisor", 0}}, R"(
       d = CastAs(#$Divisor, Input)
       m = Mod<fmod=1>(Input, d)
       zero = CastAs(#0, Input)
       below = Less(m, zero)
       up = Add(m, d)
       Result = Where(below, up, m) if $SignFollowDivisor
       Result = Identity(m) if !$SignFollowDivisor)"),
    BinaryFunction("Max", "Result = Max(LHS, RHS)"),
    BinaryFunction("Min", "Result = Min(LHS, RHS)"),
    BinaryFunction("CmpEQ", "Result = Equal(LHS, RHS)"),
    BinaryFunction("CmpNEQ", R"(
       e = Equal(LHS, RHS)
       Result = Not(e))"),
    BinaryFunction("CmpLT", "Result = Less(LHS, RHS)"),
    BinaryFunction("CmpLTE", "Result = LessOrEqual(LHS, RHS)"),
    BinaryFunction("Pow", "Result = Pow(LHS, RHS)"),
    BinaryFunction("And", "Result = And(LHS, RHS)"),
    BinaryFunction("Or", "Result = Or(LHS, RHS)"),
    BinaryFunction("Xor", "Result = Xor(LHS, RHS)"),
    BinaryFunction("BitwiseAnd", R"(
       Result = And(LHS, RHS) if type(LHS)=bool
       Result = BitwiseAnd(LHS, RHS) if !type(LHS)=bool)"),
    BinaryFunction("BitwiseOr", R"(
       Result = Or(LHS, RHS) if type(LHS)=bool
       Result = BitwiseOr(LHS, RHS) if !type(LHS)=bool)"),
    BinaryFunction("BitwiseXor", R"(
       Result = Xor(LHS, RHS) if type(LHS)=bool
       Result = BitwiseXor(LHS, RHS) if !type(LHS)=bool)"),
    UnaryFunction("BitwiseNot", R"(
       Result = Not(Input) if type(Input)=bool
       Result = BitwiseNot(Input) if !type(Input)=bool)"),
    UnaryFunction("Not", "Result = Not(Input)"),
    UnaryFunction("Neg", "Result = Neg(Input)"),
    UnaryFunction("Abs", "Result = Abs(Input)"),
    UnaryFunction("Floor", "Result = Floor(Input)"),
    UnaryFunction("Sign", "Result = Sign(Input)"),
    UnaryFunction("Ceil", "Result = Ceil(Input)"),
    UnaryFunction("Round", "Result = Round(Input)"),
    UnaryFunction("Truncate", "Result = nodewise.Truncated(Input)"),
    UnaryFunction("Sqrt", "Result = Sqrt(Input)"),
    UnaryFunction("Rsqrt", R"(
       s = Sqrt(Input)
       Result = Reciprocal(s))"),
    UnaryFunction("Reciprocal", "Result = Reciprocal(Input)"),
    UnaryFunction("Sin", "Result = Sin(Input)"),
    UnaryFunction("Cos", "Result = Cos(Input)"),
    UnaryFunction("Log", "Result = Log(Input)"),
    UnaryFunction("Acos", "Result = Acos(Input)"),
    UnaryFunction("Asin", "Result = Asin(Input)"),
    UnaryFunction("Atan", "Result = Atan(Input)"),
    UnaryFunction("Erf", "Result = Erf(Input)"),
    UnaryFunction("Exp", "Result = Exp(Input)"),
    UnaryFunction("Relu", "Result = Relu(Input)"),
    UnaryFunction("HardSwish", "Result = HardSwish(Input)"),
    UnaryFunction("Gelu", "Result = Gelu<approximate=tanh>(Input)"),
    UnaryFunction("Sigmoid", "Result = Sigmoid(Input)"),
    UnaryFunction("Swish", R"(
       s = Sigmoid(Input)
       Result = Mul(s, Input))"),
    UnaryFunction("Tanh", "Result = Tanh(Input)"),
    UnaryFunction("SoftPlus", "Result = Softplus(Input)"),
    UnaryFunction("IsNaN", "Result = IsNaN(Input)"),
    // The loss is not part of a network that is only run.
    GlowRow("Regression", {"Input", "Expected"}, {},
            "Result = Identity(Input)"),
    // Floor alone would move negative numbers away from 0.
    kHelperRow("Truncated", kGlowOpset, {"x"}, {"y"}, {}, R"(
       a = Abs(x)
       f = Floor(a)
       s = Sign(x)
       y = Mul(f, s))"),
    // The logits of 0 and 1 are infinite, so epsilon keeps x away from both.
    GlowRow("Logit", {"Input"}, {{"Epsilon", 0.0F}}, R"(
       top = Sub(1, $Epsilon)
       x = Clip(Input, $Epsilon, top)
       d = Sub(1, x)
       q = Div(x, d)
       Result = Log(q))"),
    GlowRow("ReplaceNaN", {"Input"}, {{"Value", 0.0F}}, R"(
       n = IsNaN(Input)
       Result = Where(n, $Value, Input))"),
    GlowRow("Clip", {"Input"}, {{"Min", 0.0F}, {"Max", 0.0F}},
            "Result = Clip(Input, $Min, $Max)"),
    GlowRow("PRelu", {"Input", "Slope"}, {}, "Result = PRelu(Input, Slope)"),
    GlowRow("LeakyRelu", {"Input"}, {{"Alpha", 0.0F}},
            "Result = LeakyRelu<alpha=$Alpha>(Input)"),
    // The one operator of a gradient that is told here; the others are refused,
    // since they are for training (glow_importer.cc).
    GlowRow("ThresholdGrad", {"Grad", "Input"}, {{"Threshold", 0.0F}}, R"(
       above = Greater(Input, $Threshold)
       Result = Where(above, Grad, 0))"),
    // Truth values are not numbers, so that the second input and the third are
    // those that have a scale.
    GlowStepsRow("Select", {"Cond", "LHS", "RHS"}, {}, R"(
       Result = Where(Cond, LHS, RHS) if !$steps
       l = nodewise.GlowReal<scale=$i1_qScale, offset=$i1_qOffset>(LHS)
       r = nodewise.GlowReal<scale=$i2_qScale, offset=$i2_qOffset>(RHS)
       x = Where(Cond, l, r)
       x = Div(x, $o0_qScale)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(x, o) if $steps)"),
    GlowRow("Bucketize", {"Input"}, {{"Boundaries", NoFloats()}}, R"(
       x = Unsqueeze(Input, [-1])
       less = Less($Boundaries, x)
       n = Cast<to=6>(less)
       n = ReduceSum<keepdims=0>(n, [-1])
       Result = Cast<to=$o0_type>(n))"),
    UnaryFunction("Quantize", "Result = Cast<to=1>(Input)"),
    UnaryFunction("RescaleQuantized", "Result = Identity(Input)"),
    // The lines around the body have made real numbers of the input by now, so
    // that only their type is left to change.
    GlowRow("Dequantize", {"Input"}, {}, "Result = Cast<to=$o0_type>(Input)"),
    // Rows of bytes become rows of bytes with other scales.
    GlowRow("ConvertTo", {"Input"}, {}, "Result = Cast<to=$o0_type>(Input)"),
    // The table has a row for each integer of the type, the lowest first; those
    // with a sign begin below 0.
    GlowStoredRow("IntLookupTable", {"Input", "Mapping"}, {}, R"(
       i = Cast<to=7>(Input)
       i = Add(i, #128) if type(Input)=int8
       i = Add(i, #32768) if type(Input)=int16
       Result = Gather(Mapping, i))"),
    // The first result is the new state of the output, as Glow calculates it,
    // although it is called newC.
    GlowRow("LSTMUnit", {"Input", "C"}, {}, R"(
       i, f, g, o = Split<axis=1, num_outputs=4>(Input)
       i = Sigmoid(i)
       f = Sigmoid(f)
       g = Tanh(g)
       o = Sigmoid(o)
       kept = Mul(f, C)
       new = Mul(i, g)
       newH = Add(kept, new)
       t = Tanh(newH)
       newC = Mul(o, t))",
            {"newC", "newH"}),
};

}  // namespace

absl::Span<const ContribFunction> GlowElementFunctions() {
  return kGlowElementFunctions;
}

}  // namespace nodewise
