#include "contrib/onnx/contrib_functions.h"
#include "nodewise/op/op_row.h"

// Operators of onnxruntime's own domain: layers, activations and what its
// optimisers fuse out of ONNX's operators. What each means is taken from
// onnxruntime's documentation and, where that is silent, from its kernels,
// against which tests/onnx/ort_contrib.py compares.

namespace nodewise {
namespace {

constexpr RowList<Param, 4> kSkipOutputs = {"output", Optional("mean"),
                                            Optional("inv_std_var"),
                                            Optional("input_skip_bias_sum")};

constexpr ContribFunction kLayerFunctions[] = {
    // x / 2 (1 + erf(x / sqrt(2))). Where an operator has two rows, ONNX has
    // got an operator for it in the opset of the first; the second one writes
    // it out for models of older opsets.
    kContribRow("Gelu", 20, {"X"}, {"Y"}, {}, "Y = Gelu(X)"),
    kContribRow("Gelu", 9, {"X"}, {"Y"}, {}, R"(
       s = Div(X, 1.4142135623730951)
       e = Erf(s)
       e = Add(e, 1.0)
       m = Mul(X, e)
       Y = Mul(m, 0.5))"),
    kContribRow("BiasGelu", 20, {"A", "B"}, {"C"}, {}, R"(
       x = Add(A, B)
       C = Gelu(x))"),
    kContribRow("BiasGelu", 9, {"A", "B"}, {"C"}, {}, R"(
       x = Add(A, B)
       s = Div(x, 1.4142135623730951)
       e = Erf(s)
       e = Add(e, 1.0)
       m = Mul(x, e)
       C = Mul(m, 0.5))"),
    // The approximation by tanh: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715
    // x^3))). The name X is given anew where there is a bias, so that the lines
    // behind it need no condition.
    kContribRow("FastGelu", 20, {"X", Optional("bias")}, {"Y"}, {}, R"(
       x = Add(X, bias) if bias
       Y = Gelu<approximate=tanh>(x) if bias
       Y = Gelu<approximate=tanh>(X) if !bias)"),
    kContribRow("FastGelu", 7, {"X", Optional("bias")}, {"Y"}, {}, R"(
       X = Add(X, bias) if bias
       c = Mul(X, X)
       c = Mul(c, X)
       c = Mul(c, 0.044715)
       c = Add(X, c)
       c = Mul(c, 0.7978845608028654)
       t = Tanh(c)
       t = Add(t, 1.0)
       m = Mul(X, t)
       Y = Mul(m, 0.5))"),
    // x sigmoid(alpha x), for which ONNX has Swish from opset 24 on.
    kContribRow("QuickGelu", 24, {"X"}, {"Y"}, {{"alpha", 1.702F}},
                "Y = Swish<alpha=$alpha>(X)"),
    kContribRow("QuickGelu", 7, {"X"}, {"Y"}, {{"alpha", 1.702F}}, R"(
       s = Mul(X, $alpha)
       s = Sigmoid(s)
       Y = Mul(X, s))"),
    // This is a residual connection and the normalisation behind it. The sum is
    // an output of its own since the next layer's residual begins with it. The
    // inverse of the deviation is an output too, which is why the older form
    // multiplies with it and does not divide.
    kContribRow("SkipLayerNormalization", 17,
                {"input", "skip", "gamma", Optional("beta"), Optional("bias")},
                kSkipOutputs, {{"epsilon", 1e-12F}}, R"(
       input_skip_bias_sum = Add(input, skip)
       input_skip_bias_sum = Add(input_skip_bias_sum, bias) if bias
       output, mean, inv_std_var = LayerNormalization<epsilon=$epsilon>(
           input_skip_bias_sum, gamma, beta))"),
    kContribRow("SkipLayerNormalization", 7,
                {"input", "skip", "gamma", Optional("beta"), Optional("bias")},
                kSkipOutputs, {{"epsilon", 1e-12F}}, R"(
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
       output = Add(output, beta) if beta)"),
    // Here no mean is taken off: the numbers are divided by the root of their
    // mean square. The outputs `mean` and `inv_std_var` are made by no line, so
    // that a model which reads them is refused.
    kContribRow("SkipSimplifiedLayerNormalization", 23,
                {"input", "skip", "gamma", Optional("bias")}, kSkipOutputs,
                {{"epsilon", 1e-12F}}, R"(
       input_skip_bias_sum = Add(input, skip)
       input_skip_bias_sum = Add(input_skip_bias_sum, bias) if bias
       output = RMSNormalization<epsilon=$epsilon>(
           input_skip_bias_sum, gamma))"),
    kContribRow("SkipSimplifiedLayerNormalization", 7,
                {"input", "skip", "gamma", Optional("bias")}, kSkipOutputs,
                {{"epsilon", 1e-12F}}, R"(
       input_skip_bias_sum = Add(input, skip)
       input_skip_bias_sum = Add(input_skip_bias_sum, bias) if bias
       v = Mul(input_skip_bias_sum, input_skip_bias_sum)
       v = ReduceMean(v, [-1])
       v = Add(v, $epsilon)
       v = Sqrt(v)
       n = Div(input_skip_bias_sum, v)
       output = Mul(n, gamma))"),
    // The result is the sum of the embeddings of words, places and perhaps
    // segments, normalised. Without places, they count from 0 on: the first
    // rows of their table are taken. `mask_index` is how many words of each
    // sequence count; without a mask it is 0 for each, in int32.
    kContribRow("EmbedLayerNormalization", 17,
                {"input_ids", Optional("segment_ids"), "word_embedding",
                 "position_embedding", Optional("segment_embedding"), "gamma",
                 "beta", Optional("mask"), Optional("position_ids")},
                {"output", Optional("mask_index"), Optional("embedding_sum")},
                {{"epsilon", 1e-12F}, {"mask_index_type", 0}}, R"(
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
       mask_index = Cast<to=6>(b) if !mask)"),
    kContribRow("EmbedLayerNormalization", 11,
                {"input_ids", Optional("segment_ids"), "word_embedding",
                 "position_embedding", Optional("segment_embedding"), "gamma",
                 "beta", Optional("mask"), Optional("position_ids")},
                {"output", Optional("mask_index"), Optional("embedding_sum")},
                {{"epsilon", 1e-12F}, {"mask_index_type", 0}}, R"(
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
       mask_index = Cast<to=6>(b) if !mask)"),
    // The side of batches is moved first; a transposition then exchanges it
    // with the last one.
    kContribRow("FusedMatMul", 7, {"A", "B"}, {"Y"},
                {{"alpha", 1.0F},
                 {"transA", 0},
                 {"transB", 0},
                 {"transBatchA", 0},
                 {"transBatchB", 0}},
                R"(
       A = BatchToSecondLast(A) if $transBatchA
       B = BatchToSecondLast(B) if $transBatchB
       A = SwapLast(A) if $transA
       B = SwapLast(B) if $transB
       Y = MatMul(A, B)
       Y = Mul(Y, $alpha) if $alpha!=1)"),
    // A word for the activation that no line asks for is refused by its name
    // (FunctionWriter::CheckWords), here and in the rows below.
    kContribRow("FusedGemm", 11, {"A", "B", Optional("C")}, {"Y"},
                {{"alpha", 1.0F},
                 {"beta", 1.0F},
                 {"transA", 0},
                 {"transB", 0},
                 {"activation", ""},
                 {"activation_alpha", 0.0F},
                 {"activation_beta", 0.0F},
                 {"activation_gamma", 0.0F}},
                R"(
       Y = Gemm<alpha=$alpha, beta=$beta, transA=$transA, transB=$transB>(
           A, B, C)
       Y = Relu(Y) if $activation=Relu
       Y = Tanh(Y) if $activation=Tanh
       Y = Sigmoid(Y) if $activation=Sigmoid
       Y = LeakyRelu<alpha=$activation_alpha>(Y) if $activation=LeakyRelu
       Y = HardSigmoid<alpha=$activation_alpha, beta=$activation_beta>(
           Y) if $activation=HardSigmoid)"),
    // Z is added before the activation, as a residual connection is. Parameters
    // of the activation are a list whose meaning depends on its name; those
    // that are not given are 0.
    {"FusedConv",
     11,
     {"X", "W", Optional("B"), Optional("Z")},
     {"Y"},
     {{"activation", ""}, {"activation_params", NoFloats()}},
     R"(
       Y = Conv<*>(X, W, B)
       Y = Add(Y, Z) if Z
       Y = Relu(Y) if $activation=Relu
       Y = Tanh(Y) if $activation=Tanh
       Y = Sigmoid(Y) if $activation=Sigmoid
       Y = LeakyRelu<alpha=$activation_params[0]>(Y) if $activation=LeakyRelu
       Y = HardSigmoid<alpha=$activation_params[0], beta=$activation_params[1]>(
           Y) if $activation=HardSigmoid
       Y = Clip(Y, $activation_params[0],
           $activation_params[1]) if $activation=Clip)",
     kContribDomain,
     "Conv"},
    // It differs from ONNX's Pad in its domain alone.
    kContribRow("Pad", 11, {"data", "pads", Optional("value")}, {"output"},
                {{"mode", "constant"}},
                "output = Pad<mode=$mode>(data, pads, value)"),
    // ONNX's Unique has four outputs, of which this one leaves out the place of
    // each value in the input's order of first ones; without sorting, values
    // come in that order.
    kContribRow("Unique", 11, {"x"}, {"y", "idx", "counts"}, {},
                "y, first, idx, counts = Unique<sorted=0>(x)"),
};

}  // namespace

absl::Span<const ContribFunction> LayerFunctions() { return kLayerFunctions; }

}  // namespace nodewise
