#include "contrib/onnx/contrib_functions.h"
#include "nodewise/op/op_row.h"

// Operators of classical models that work on numbers. Their results are of
// float32 where their inputs may be of other types too.

namespace nodewise {
namespace {

constexpr ContribFunction kClassicFunctions[] = {
    {.name = "ArrayFeatureExtractor",
     .domain = kClassicDomain,
     .opset = 11,
     .inputs = {"X", "Y"},
     .outputs = {"Z"},
     .body = R"(
       i = Reshape(Y, [-1])
       X = Unsqueeze(X, [0]) if rank(X)=1
       Z = Gather<axis=-1>(X, i))"},
    {.name = "Binarizer",
     .domain = kClassicDomain,
     .inputs = {"X"},
     .outputs = {"Y"},
     .attributes = {{"threshold", 0.0F}},
     .body = R"(
       y = Greater(X, $threshold)
       Y = CastAs(y, X))"},
    {.name = "Imputer",
     .domain = kClassicDomain,
     .opset = 9,
     .inputs = {"X"},
     .outputs = {"Y"},
     .attributes = {{"imputed_value_floats", NoFloats()},
                    {"imputed_value_int64s", NoInts()},
                    {"replaced_value_float", 0.0F},
                    {"replaced_value_int64", int64_t{0}}},
     .body = R"(
       hole = Equal(X, $replaced_value_float) if $imputed_value_floats
       nan = IsNaN(X) if $imputed_value_floats
       real = IsNaN($replaced_value_float)
       nan = And(nan, real)
       hole = Or(hole, nan) if $imputed_value_floats
       hole = Equal(X, #$replaced_value_int64) if $imputed_value_int64s
       Y = Where(hole, $imputed_value_floats, X) if $imputed_value_floats
       Y = Where(hole, $imputed_value_int64s, X) if $imputed_value_int64s)"},
    {.name = "LinearRegressor",
     .domain = kClassicDomain,
     .opset = 11,
     .inputs = {"X"},
     .outputs = {"Y"},
     .attributes = {{"coefficients", NoFloats()},
                    {"intercepts", NoFloats()},
                    {"post_transform", std::string_view("NONE")},
                    {"targets", int64_t{1}}},
     .body = R"(
       x = Cast<to=1>(X)
       x = Unsqueeze(x, [0]) if rank(X)=1
       w = Reshape($coefficients, [$targets, -1])
       w = Transpose<perm=[1, 0]>(w)
       Y = MatMul(x, w)
       Y = Add(Y, $intercepts) if $intercepts
       Y = Softmax<axis=-1>(Y) if $post_transform=SOFTMAX and $targets!=1
       Y = Sigmoid(Y) if $post_transform=LOGISTIC and $targets!=1)"},
    {.name = "Normalizer",
     .domain = kClassicDomain,
     .opset = 11,
     .inputs = {"X"},
     .outputs = {"Y"},
     .attributes = {{"norm", std::string_view("MAX")}},
     .body = R"(
       x = Cast<to=1>(X)
       n = ReduceMax(x, [-1]) if $norm=MAX
       n = ReduceL1(x, [-1]) if $norm=L1
       n = ReduceL2(x, [-1]) if $norm=L2
       zero = Cast<to=1>(#0)
       one = Cast<to=1>(#1)
       is_zero = Equal(n, zero)
       n = Where(is_zero, one, n)
       Y = Div(x, n))"},
    {.name = "Scaler",
     .domain = kClassicDomain,
     .opset = 7,
     .inputs = {"X"},
     .outputs = {"Y"},
     .attributes = {{"offset", NoFloats()}, {"scale", NoFloats()}},
     .body = R"(
       x = Cast<to=1>(X)
       x = Sub(x, $offset) if $offset
       Y = Mul(x, $scale) if $scale
       Y = Identity(x) if !$scale)"},
};

}  // namespace

absl::Span<const ContribFunction> ClassicFunctions() {
  return kClassicFunctions;
}

}  // namespace nodewise
