#include "contrib/onnx/contrib_functions.h"
#include "nodewise/op/op_row.h"

// Layers, activations and what exporters fuse.

namespace nodewise {
namespace {

constexpr ContribFunction kLayerFunctions[] = {
    {.name = "Gelu",
     .opset = 20,
     .inputs = {"X"},
     .outputs = {"Y"},
     .body = "Y = Gelu(X)"},
    {.name = "Gelu", .opset = 9, .inputs = {"X"}, .outputs = {"Y"}, .body = R"(
       s = Div(X, 1.4142135623730951)
       e = Erf(s)
       e = Add(e, 1.0)
       m = Mul(X, e)
       Y = Mul(m, 0.5))"},
    {.name = "BiasGelu",
     .opset = 20,
     .inputs = {"A", "B"},
     .outputs = {"C"},
     .body = R"(
       x = Add(A, B)
       C = Gelu(x))"},
    {.name = "BiasGelu",
     .opset = 9,
     .inputs = {"A", "B"},
     .outputs = {"C"},
     .body = R"(
       x = Add(A, B)
       s = Div(x, 1.4142135623730951)
       e = Erf(s)
       e = Add(e, 1.0)
       m = Mul(x, e)
       C = Mul(m, 0.5))"},
    {.name = "FastGelu",
     .opset = 20,
     .inputs = {"X", Optional("bias")},
     .outputs = {"Y"},
     .body = R"(
       x = Add(X, bias) if bias
       Y = Gelu<approximate=tanh>(x) if bias
       Y = Gelu<approximate=tanh>(X) if !bias)"},
    {.name = "FastGelu",
     .inputs = {"X", Optional("bias")},
     .outputs = {"Y"},
     .body = R"(
       X = Add(X, bias) if bias
       c = Mul(X, X)
       c = Mul(c, X)
       c = Mul(c, 0.044715)
       c = Add(X, c)
       c = Mul(c, 0.7978845608028654)
       t = Tanh(c)
       t = Add(t, 1.0)
       m = Mul(X, t)
       Y = Mul(m, 0.5))"},
    {.name = "QuickGelu",
     .opset = 24,
     .inputs = {"X"},
     .outputs = {"Y"},
     .attributes = {{"alpha", 1.702F}},
     .body = "Y = Swish<alpha=$alpha>(X)"},
    {.name = "QuickGelu",
     .inputs = {"X"},
     .outputs = {"Y"},
     .attributes = {{"alpha", 1.702F}},
     .body = R"(
       s = Mul(X, $alpha)
       s = Sigmoid(s)
       Y = Mul(X, s))"},
    {.name = "SkipLayerNormalization",
     .opset = 17,
     .inputs = {"input", "skip", "gamma", Optional("beta"), Optional("bias")},
     .outputs = {"output", Optional("mean"), Optional("inv_std_var"),
                 Optional("input_skip_bias_sum")},
     .attributes = {{"epsilon", 1e-12F}},
     .body = R"(
       input_skip_bias_sum = Add(input, skip)
       input_skip_bias_sum = Add(input_skip_bias_sum, bias) if bias
       output, mean, inv_std_var = LayerNormalization<epsilon=$epsilon>(
           input_skip_bias_sum, gamma, beta))"},
    {.name = "SkipLayerNormalization",
     .inputs = {"input", "skip", "gamma", Optional("beta"), Optional("bias")},
     .outputs = {"output", Optional("mean"), Optional("inv_std_var"),
                 Optional("input_skip_bias_sum")},
     .attributes = {{"epsilon", 1e-12F}},
     .body = R"(
       input_skip_bias_sum = Add(input, skip)
       input_skip_bias_sum = Add(input_skip_bias_sum, bias) if bias
       mean = ReduceMean(input_skip_bias_sum, [-1])
       d = Sub(input_skip_bias_sum, mean)
       v = Mul(d, d)
       v = ReduceMean(v, [-1])
       v = Add(v, $epsilon)
       v = Sqrt(v)
       inv_std_var = Reciprocal(v)
       n = Mul(d, inv_std_var)
       output = Mul(n, gamma)
       output = Add(output, beta) if beta)"},
    {.name = "SkipSimplifiedLayerNormalization",
     .opset = 23,
     .inputs = {"input", "skip", "gamma", Optional("bias")},
     .outputs = {"output", Optional("mean"), Optional("inv_std_var"),
                 Optional("input_skip_bias_sum")},
     .attributes = {{"epsilon", 1e-12F}},
     .body = R"(
       input_skip_bias_sum = Add(input, skip)
       input_skip_bias_sum = Add(input_skip_bias_sum, bias) if bias
       output = RMSNormalization<epsilon=$epsilon>(
           input_skip_bias_sum, gamma))"},
    {.name = "SkipSimplifiedLayerNormalization",
     .inputs = {"input", "skip", "gamma", Optional("bias")},
     .outputs = {"output", Optional("mean"), Optional("inv_std_var"),
                 Optional("input_skip_bias_sum")},
     .attributes = {{"epsilon", 1e-12F}},
     .body = R"(
       input_skip_bias_sum = Add(input, skip)
       input_skip_bias_sum = Add(input_skip_bias_sum, bias) if bias
       v = Mul(input_skip_bias_sum, input_skip_bias_sum)
       v = ReduceMean(v, [-1])
       v = Add(v, $epsilon)
       v = Sqrt(v)
       n = Div(input_skip_bias_sum, v)
       output = Mul(n, gamma))"},
    {.name = "EmbedLayerNormalization",
     .opset = 17,
     .inputs = {"input_ids", Optional("segment_ids"), "word_embedding",
                "position_embedding", Optional("segment_embedding"), "gamma",
                "beta", Optional("mask"), Optional("position_ids")},
     .outputs = {"output", Optional("mask_index"), Optional("embedding_sum")},
     .attributes = {{"epsilon", 1e-12F}, {"mask_index_type", int64_t{0}}},
     .body = R"(
       Y = Refuse() if $mask_index_type
       n = Shape(input_ids) if !position_ids
       n = Gather(n, [1]) if !position_ids
       p = Slice(position_embedding, [0], n) if !position_ids
       p = Gather(position_embedding, position_ids) if position_ids
       embedding_sum = Gather(word_embedding, input_ids)
       embedding_sum = Add(embedding_sum, p)
       s = Gather(segment_embedding, segment_ids) if segment_ids
       embedding_sum = Add(embedding_sum, s) if segment_ids
       output = LayerNormalization<epsilon=$epsilon>(embedding_sum, gamma, beta)
       mask_index = ReduceSum<keepdims=0>(mask, [1]) if mask
       b = Shape(input_ids) if !mask
       b = Gather(b, [0]) if !mask
       b = ConstantOfShape(b) if !mask
       mask_index = Cast<to=6>(b) if !mask)"},
    {.name = "EmbedLayerNormalization",
     .opset = 11,
     .inputs = {"input_ids", Optional("segment_ids"), "word_embedding",
                "position_embedding", Optional("segment_embedding"), "gamma",
                "beta", Optional("mask"), Optional("position_ids")},
     .outputs = {"output", Optional("mask_index"), Optional("embedding_sum")},
     .attributes = {{"epsilon", 1e-12F}, {"mask_index_type", int64_t{0}}},
     .body = R"(
       Y = Refuse() if $mask_index_type
       n = Shape(input_ids) if !position_ids
       n = Gather(n, [1]) if !position_ids
       p = Slice(position_embedding, [0], n) if !position_ids
       p = Gather(position_embedding, position_ids) if position_ids
       embedding_sum = Gather(word_embedding, input_ids)
       embedding_sum = Add(embedding_sum, p)
       s = Gather(segment_embedding, segment_ids) if segment_ids
       embedding_sum = Add(embedding_sum, s) if segment_ids
       m = ReduceMean(embedding_sum, [-1])
       d = Sub(embedding_sum, m)
       v = Mul(d, d)
       v = ReduceMean(v, [-1])
       v = Add(v, $epsilon)
       v = Sqrt(v)
       n = Div(d, v)
       n = Mul(n, gamma)
       output = Add(n, beta)
       mask_index = ReduceSum<keepdims=0>(mask, [1]) if mask
       b = Shape(input_ids) if !mask
       b = Gather(b, [0]) if !mask
       b = ConstantOfShape(b) if !mask
       mask_index = Cast<to=6>(b) if !mask)"},
    {.name = "FusedMatMul",
     .inputs = {"A", "B"},
     .outputs = {"Y"},
     .attributes = {{"alpha", 1.0F},
                    {"transA", int64_t{0}},
                    {"transB", int64_t{0}},
                    {"transBatchA", int64_t{0}},
                    {"transBatchB", int64_t{0}}},
     .body = R"(
       A = BatchToSecondLast(A) if $transBatchA
       B = BatchToSecondLast(B) if $transBatchB
       A = SwapLast(A) if $transA
       B = SwapLast(B) if $transB
       Y = MatMul(A, B)
       Y = Mul(Y, $alpha) if $alpha!=1)"},
    {.name = "FusedGemm",
     .opset = 11,
     .inputs = {"A", "B", Optional("C")},
     .outputs = {"Y"},
     .attributes = {{"alpha", 1.0F},
                    {"beta", 1.0F},
                    {"transA", int64_t{0}},
                    {"transB", int64_t{0}},
                    {"activation", std::string_view()},
                    {"activation_alpha", 0.0F},
                    {"activation_beta", 0.0F},
                    {"activation_gamma", 0.0F}},
     .body = R"(
       Y = Gemm<alpha=$alpha, beta=$beta, transA=$transA, transB=$transB>(
           A, B, C)
       Y = Relu(Y) if $activation=Relu
       Y = Tanh(Y) if $activation=Tanh
       Y = Sigmoid(Y) if $activation=Sigmoid
       Y = LeakyRelu<alpha=$activation_alpha>(Y) if $activation=LeakyRelu
       Y = HardSigmoid<alpha=$activation_alpha, beta=$activation_beta>(
           Y) if $activation=HardSigmoid)"},
    {.name = "FusedConv",
     .opset = 11,
     .inputs = {"X", "W", Optional("B"), Optional("Z")},
     .outputs = {"Y"},
     .attributes = {{"activation", std::string_view()},
                    {"activation_params", NoFloats()}},
     .passes = "Conv",
     .body = R"(
       Y = Conv<*>(X, W, B)
       Y = Add(Y, Z) if Z
       Y = Relu(Y) if $activation=Relu
       Y = Tanh(Y) if $activation=Tanh
       Y = Sigmoid(Y) if $activation=Sigmoid
       Y = LeakyRelu<alpha=$activation_params[0]>(Y) if $activation=LeakyRelu
       Y = HardSigmoid<alpha=$activation_params[0], beta=$activation_params[1]>(
           Y) if $activation=HardSigmoid
       Y = Clip(Y, $activation_params[0],
           $activation_params[1]) if $activation=Clip)"},
    {.name = "Pad",
     .opset = 11,
     .inputs = {"data", "pads", Optional("value")},
     .outputs = {"output"},
     .attributes = {{"mode", std::string_view("constant")}},
     .body = "output = Pad<mode=$mode>(data, pads, value)"},
    {.name = "Unique",
     .opset = 11,
     .inputs = {"x"},
     .outputs = {"y", "idx", "counts"},
     .body = "y, first, idx, counts = Unique<sorted=0>(x)"},
};

}  // namespace

absl::Span<const ContribFunction> LayerFunctions() { return kLayerFunctions; }

}  // namespace nodewise
