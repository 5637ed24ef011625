#include "contrib/onnx/contrib_functions.h"
#include "nodewise/op/op_row.h"

// Operators of ONNX's domain for classical models that work on numbers. Their
// results are of float32 where their inputs may be of other types too. A vector
// counts as one row. Where ONNX is silent, onnxruntime's kernels say what an
// operator means, against which tests/onnx/ort_classic.py compares.

namespace nodewise {
namespace {

constexpr ContribFunction kClassicFunctions[] = {
    kClassicRow("ArrayFeatureExtractor", 11, {"X", "Y"}, {"Z"}, {}, R"(
       i = Reshape(Y, [-1])
       X = Unsqueeze(X, [0]) if rank(X)=1
       Z = Gather<axis=-1>(X, i))"),
    kClassicRow("Binarizer", 7, {"X"}, {"Y"}, {{"threshold", 0.0F}}, R"(
       y = Greater(X, $threshold)
       Y = CastAs(y, X))"),
    // Either floats or integers are given, and a list of one number stands for
    // all columns. NaN equals nothing, so that holes that are NaN need a
    // question of their own, which must be asked only if NaN is what is
    // replaced.
    kClassicRow("Imputer", 9, {"X"}, {"Y"},
                {{"imputed_value_floats", NoFloats()},
                 {"imputed_value_int64s", NoInts()},
                 {"replaced_value_float", 0.0F},
                 {"replaced_value_int64", 0}},
                R"(
       hole = Equal(X, $replaced_value_float) if $imputed_value_floats
       nan = IsNaN(X) if $imputed_value_floats
       real = IsNaN($replaced_value_float)
       nan = And(nan, real)
       hole = Or(hole, nan) if $imputed_value_floats
       hole = Equal(X, #$replaced_value_int64) if $imputed_value_int64s
       Y = Where(hole, $imputed_value_floats, X) if $imputed_value_floats
       Y = Where(hole, $imputed_value_int64s, X) if $imputed_value_int64s)"),
    // Coefficients lie target by target. A transform of one score alone is
    // ignored, as onnxruntime has it (docs/formats/onnx_import.md).
    kClassicRow("LinearRegressor", 11, {"X"}, {"Y"},
                {{"coefficients", NoFloats()},
                 {"intercepts", NoFloats()},
                 {"post_transform", "NONE"},
                 {"targets", 1}},
                R"(
       x = Cast<to=1>(X)
       x = Unsqueeze(x, [0]) if rank(X)=1
       w = Reshape($coefficients, [$targets, -1])
       w = Transpose<perm=[1, 0]>(w)
       Y = MatMul(x, w)
       Y = Add(Y, $intercepts) if $intercepts
       Y = Softmax<axis=-1>(Y) if $post_transform=SOFTMAX and $targets!=1
       Y = Sigmoid(Y) if $post_transform=LOGISTIC and $targets!=1)"),
    // A row whose norm is 0 stays as it is.
    kClassicRow("Normalizer", 11, {"X"}, {"Y"}, {{"norm", "MAX"}}, R"(
       x = Cast<to=1>(X)
       n = ReduceMax(x, [-1]) if $norm=MAX
       n = ReduceL1(x, [-1]) if $norm=L1
       n = ReduceL2(x, [-1]) if $norm=L2
       zero = Cast<to=1>(#0)
       one = Cast<to=1>(#1)
       is_zero = Equal(n, zero)
       n = Where(is_zero, one, n)
       Y = Div(x, n))"),
    // A list of one number stands for all columns, which broadcasting does by
    // itself.
    kClassicRow("Scaler", 7, {"X"}, {"Y"},
                {{"offset", NoFloats()}, {"scale", NoFloats()}}, R"(
       x = Cast<to=1>(X)
       x = Sub(x, $offset) if $offset
       Y = Mul(x, $scale) if $scale
       Y = Identity(x) if !$scale)"),
};

}  // namespace

absl::Span<const ContribFunction> ClassicFunctions() {
  return kClassicFunctions;
}

}  // namespace nodewise
