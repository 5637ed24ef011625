#!/usr/bin/env python3
"""Compares gradients with those of PyTorch: reads what nodewise_gradient_cases
writes, computes each case with torch and its autograd in double, and says by
operator how many agree.

    build/bin/nodewise_gradient_cases 40 | /usr/bin/python3 \\
        tests/measure/torch_gradients.py

Operators that torch has no function for are counted by name. Skips by name where
there is no torch. Exit status: 0 if all agree, 1 if one does not, 77 if skipped.
"""

import collections
import json
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: there is no torch (Debian's python3-torch)")
    sys.exit(77)

from torch_functions import (compress, dequantize, fold, fourier,
                             frames_transformed, grid_sample, max_unpool,
                             one_hot, window)

TOLERANCE = 1e-9


class Case:
    """One use of an operator: x are its inputs, None where one is left out."""

    def __init__(self, line):
        self.attributes = line["attributes"]
        self.opset = line["opset"]
        self.line = line
        self.x = [tensor(item) for item in line["inputs"]]

    def get(self, name, default=None):
        return self.attributes.get(name, default)

    def ints(self, i):
        return [int(v) for v in self.line["inputs"][i]["data"]]

    def has(self, i):
        return i < len(self.x) and self.x[i] is not None


def tensor(item):
    if item is None:
        return None
    kind = torch.float64 if item["is_float"] else torch.int64
    return torch.tensor(item["data"], dtype=kind).reshape(item["shape"])


def axes_of(case, default_all=True):
    axes = case.get("axes")
    if axes is None and case.has(1):
        axes = case.ints(1)
    rank = case.x[0].dim()
    if not axes:
        if case.get("noop_with_empty_axes", 0):
            return None
        axes = range(rank) if default_all else []
    return [axis % rank for axis in axes]


def reduced(function):
    def run(case):
        axes = axes_of(case)
        x = case.x[0]
        if axes is None or x.dim() == 0:
            raise NotImplementedError("axes")
        return function(x, axes, bool(case.get("keepdims", 1)))
    return run


def padded(x, pads):
    spatial = len(pads) // 2
    flat = []
    for side in reversed(range(spatial)):
        flat += [pads[side], pads[side + spatial]]
    return F.pad(x, flat)


def conv(case):
    x, w = case.x[0], case.x[1]
    spatial = x.dim() - 2
    strides, dilations, pads = window(case, spatial, w.shape[2:])
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[spatial]
    return function(padded(x, pads), w, case.x[2] if case.has(2) else None,
                    stride=strides, dilation=dilations,
                    groups=case.get("group", 1))


def conv_transpose(case):
    x, w = case.x[0], case.x[1]
    spatial = x.dim() - 2
    strides, dilations, pads = window(case, spatial, w.shape[2:])
    if case.get("output_shape") or case.get("output_padding"):
        raise NotImplementedError("output_shape")
    function = {1: F.conv_transpose1d, 2: F.conv_transpose2d,
                3: F.conv_transpose3d}[spatial]
    y = function(x, w, case.x[2] if case.has(2) else None, stride=strides,
                 dilation=dilations, groups=case.get("group", 1))
    for side in range(spatial):
        size = y.shape[side + 2] - pads[side] - pads[side + spatial]
        y = y.narrow(side + 2, pads[side], size)
    return y


def pool(case, functions, **options):
    x = case.x[0]
    spatial = x.dim() - 2
    kernel = case.get("kernel_shape")
    strides, dilations, pads = window(case, spatial, kernel)
    if case.get("ceil_mode") or pads[:spatial] != pads[spatial:]:
        raise NotImplementedError("ceil_mode, or pads on one side")
    if any(2 * p > k for p, k in zip(pads, kernel)):
        raise NotImplementedError("pads beyond half of the window")
    if "dilation" in options:
        options["dilation"] = dilations
    elif any(d != 1 for d in dilations):
        raise NotImplementedError("dilations")
    return functions[spatial](x, kernel, stride=strides,
                              padding=pads[:spatial], **options)


def max_pool(case):
    return pool(case, {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d},
                dilation=None)


def average_pool(case):
    return pool(case, {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d},
                count_include_pad=bool(case.get("count_include_pad", 0)))


def gemm(case):
    a = case.x[0].t() if case.get("transA", 0) else case.x[0]
    b = case.x[1].t() if case.get("transB", 0) else case.x[1]
    y = case.get("alpha", 1.0) * (a @ b)
    return y + case.get("beta", 1.0) * case.x[2] if case.has(2) else y


def batch_norm(case):
    x, scale, shift, mean, var = case.x
    if case.line["outputs"] > 1:
        raise NotImplementedError("statistics as outputs")
    return F.batch_norm(x, mean.detach(), var.detach(), scale, shift,
                        training=bool(case.get("training_mode", 0)),
                        eps=single(case.get("epsilon", 1e-5)))


def single(value):
    """Attributes are floats of 32 bits."""
    return torch.tensor(value, dtype=torch.float32).item()


def layer_norm(case):
    x = case.x[0]
    axis = case.get("axis", -1) % x.dim()
    if case.line["outputs"] > 1:
        raise NotImplementedError("statistics as outputs")
    y = F.layer_norm(x, x.shape[axis:], eps=single(case.get("epsilon", 1e-5)))
    y = y * case.x[1]
    return y + case.x[2] if case.has(2) else y


def loss(function):
    def run(case):
        if case.line["outputs"] > 1:
            raise NotImplementedError("two outputs")
        return function(case.x[0], case.x[1],
                        weight=case.x[2] if case.has(2) else None,
                        ignore_index=case.get("ignore_index", -100),
                        reduction=case.get("reduction", "mean"))
    return run


def clip(case):
    y = case.x[0]
    for i, name, function in ((1, "min", torch.maximum),
                              (2, "max", torch.minimum)):
        limit = case.x[i] if case.has(i) else None
        if case.get(name) is not None:
            limit = torch.tensor(single(case.get(name)), dtype=torch.float64)
        if limit is not None:
            y = function(y, limit)
    return y


def gather_elements(case):
    axis = case.get("axis", 0) % case.x[0].dim()
    index = case.x[1] % case.x[0].shape[axis]
    return torch.gather(case.x[0], axis, index)


def scatter_elements(case):
    if case.get("reduction", "none") not in ("none", "add"):
        raise NotImplementedError("reduction")
    axis = case.get("axis", 0) % case.x[0].dim()
    index = case.x[1] % case.x[0].shape[axis]
    if case.get("reduction", "none") == "add":
        return case.x[0].scatter_add(axis, index, case.x[2])
    return case.x[0].scatter(axis, index, case.x[2])


def extreme(function):
    def run(case):
        y = case.x[0]
        for other in case.x[1:]:
            y = function(y, other)
        return y
    return run


def softmax(function):
    def run(case):
        if case.opset < 13:
            raise NotImplementedError("opset")
        return function(case.x[0], dim=case.get("axis", -1))
    return run


def unary(function):
    return lambda case: function(case.x[0])


def binary(function):
    def run(case):
        if case.opset < 7:
            raise NotImplementedError("opset")
        return function(case.x[0], case.x[1])
    return run


def attribute(function, **defaults):
    """A function of x and of attributes, of 32 bits if they are floats."""
    def run(case):
        values = {}
        for name, default in defaults.items():
            value = case.get(name, default)
            values[name] = single(value) if isinstance(value, float) else value
        return function(case.x[0], **values)
    return run


FUNCTIONS = {
    "Abs": unary(torch.abs), "Acos": unary(torch.acos),
    "Acosh": unary(torch.acosh), "Asin": unary(torch.asin),
    "Asinh": unary(torch.asinh), "Atan": unary(torch.atan),
    "Atanh": unary(torch.atanh), "Cos": unary(torch.cos),
    "Cosh": unary(torch.cosh), "Erf": unary(torch.erf),
    "Exp": unary(torch.exp), "Log": unary(torch.log), "Neg": unary(torch.neg),
    "Reciprocal": unary(torch.reciprocal), "Relu": unary(F.relu),
    "Sigmoid": unary(torch.sigmoid), "Sin": unary(torch.sin),
    "Sinh": unary(torch.sinh), "Softplus": unary(F.softplus),
    "Softsign": unary(F.softsign), "Sqrt": unary(torch.sqrt),
    "Tan": unary(torch.tan), "Tanh": unary(torch.tanh),
    "Mish": unary(F.mish), "Identity": unary(torch.clone),
    "HardSwish": unary(F.hardswish),
    "LeakyRelu": attribute(lambda x, alpha: F.leaky_relu(x, alpha),
                           alpha=0.01),
    "Elu": attribute(lambda x, alpha: F.elu(x, alpha), alpha=1.0),
    "Celu": attribute(lambda x, alpha: F.celu(x, alpha), alpha=1.0),
    "Gelu": attribute(lambda x, approximate: F.gelu(x,
                                                    approximate=approximate),
                      approximate="none"),
    "HardSigmoid": attribute(
        lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0, 1), alpha=0.2,
        beta=0.5),
    "Selu": attribute(
        lambda x, alpha, gamma: gamma * F.elu(x, alpha),
        alpha=1.67326319217681884765625, gamma=1.05070102214813232421875),
    "ThresholdedRelu": attribute(lambda x, alpha: F.threshold(x, alpha, 0),
                                 alpha=1.0),
    "Add": binary(torch.add), "Sub": binary(torch.sub),
    "Mul": binary(torch.mul), "Div": binary(torch.div),
    "Pow": binary(torch.pow), "PRelu": binary(
        lambda x, slope: torch.where(x < 0, slope * x, x)),
    "Max": extreme(torch.maximum), "Min": extreme(torch.minimum),
    "Sum": extreme(torch.add),
    "Mean": lambda case: sum(case.x) / len(case.x),
    "Flatten": lambda case: case.x[0].reshape(
        case.line["cotangents"][0]["shape"]),
    "Reshape": lambda case: case.x[0].reshape(
        case.line["cotangents"][0]["shape"]),
    "Where": lambda case: torch.where(case.x[0] != 0, case.x[1], case.x[2]),
    "Clip": clip,
    "MatMul": binary(torch.matmul), "Gemm": gemm,
    "Det": unary(torch.det), "Inverse": unary(torch.inverse),
    "Einsum": lambda case: torch.einsum(case.get("equation"), *case.x),
    "Conv": conv, "ConvTranspose": conv_transpose, "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": unary(
        lambda x: x.mean(dim=list(range(2, x.dim())), keepdim=True)),
    "GlobalMaxPool": unary(
        lambda x: x.flatten(2).max(dim=2)[0].reshape(
            x.shape[:2] + (1,) * (x.dim() - 2))),
    "BatchNormalization": batch_norm, "LayerNormalization": layer_norm,
    "InstanceNormalization": lambda case: F.instance_norm(
        case.x[0], weight=case.x[1], bias=case.x[2],
        eps=single(case.get("epsilon", 1e-5))),
    "GroupNormalization": lambda case: F.group_norm(
        case.x[0], case.get("num_groups"), case.x[1], case.x[2],
        eps=single(case.get("epsilon", 1e-5))),
    "Softmax": softmax(torch.softmax),
    "LogSoftmax": softmax(torch.log_softmax),
    "NegativeLogLikelihoodLoss": loss(F.nll_loss),
    "SoftmaxCrossEntropyLoss": loss(F.cross_entropy),
    "ReduceSum": reduced(lambda x, axes, keep: x.sum(axes, keep)),
    "ReduceMean": reduced(lambda x, axes, keep: x.mean(axes, keep)),
    "ReduceMax": reduced(lambda x, axes, keep: x.amax(axes, keep)),
    "ReduceMin": reduced(lambda x, axes, keep: x.amin(axes, keep)),
    "ReduceL1": reduced(lambda x, axes, keep: x.abs().sum(axes, keep)),
    "ReduceL2": reduced(lambda x, axes, keep: (x * x).sum(axes, keep).sqrt()),
    "ReduceSumSquare": reduced(lambda x, axes, keep: (x * x).sum(axes, keep)),
    "ReduceLogSum": reduced(lambda x, axes, keep: x.sum(axes, keep).log()),
    "ReduceLogSumExp": reduced(
        lambda x, axes, keep: torch.logsumexp(x, axes, keep)),
    "CumSum": lambda case: cumulative(torch.cumsum)(case),
    "CumProd": lambda case: cumulative(torch.cumprod)(case),
    "Transpose": lambda case: case.x[0].permute(
        *(case.get("perm") or reversed(range(case.x[0].dim())))),
    "Concat": lambda case: torch.cat(case.x, case.get("axis", 1)),
    "GatherElements": gather_elements, "ScatterElements": scatter_elements,
    "Gather": lambda case: gather(case),
    "Tile": lambda case: case.x[0].repeat(case.ints(1)),
    "Expand": lambda case: case.x[0] * torch.ones(case.ints(1),
                                                  dtype=torch.float64),
    "TopK": lambda case: torch.topk(
        case.x[0], case.ints(1)[0], case.get("axis", -1),
        bool(case.get("largest", 1)))[0],
    "Scatter": scatter_elements,
    "AffineGrid": lambda case: F.affine_grid(
        case.x[0], case.ints(1),
        align_corners=bool(case.get("align_corners", 0))),
    "Col2Im": fold, "Compress": compress,
    "DFT": fourier,
    "DequantizeLinear": dequantize,
    "GridSample": grid_sample,
    "MaxUnpool": max_unpool,
    "OneHot": one_hot,
    "STFT": frames_transformed,
}


def gather(case):
    x, index = case.x[0], case.x[1]
    axis = case.get("axis", 0) % x.dim()
    flat = torch.index_select(x, axis, index.flatten() % x.shape[axis])
    return flat.reshape(x.shape[:axis] + index.shape + x.shape[axis + 1:])


def cumulative(function):
    def run(case):
        x, axis = case.x[0], case.ints(1)[0]
        if case.get("exclusive", 0):
            raise NotImplementedError("exclusive")
        if case.get("reverse", 0):
            return function(x.flip(axis), axis).flip(axis)
        return function(x, axis)
    return run


def judge(case):
    """Returns the largest difference, relative to the largest element."""
    line = case.line
    wanted = [item["input"] for item in line["gradients"]]
    for i in wanted:
        case.x[i].requires_grad_(True)
    outputs = FUNCTIONS[line["operator"]](case)
    if torch.is_tensor(outputs):
        outputs = [outputs]
    if any(item["output"] >= len(outputs) for item in line["cotangents"]):
        raise NotImplementedError("an output that torch does not make")
    total = sum((tensor(item) * outputs[item["output"]]).sum()
                for item in line["cotangents"])
    made = torch.autograd.grad(total, [case.x[i] for i in wanted],
                               allow_unused=True)
    worst = 0.0
    for item, found in zip(line["gradients"], made):
        expected = tensor(item)
        if found is None:
            if "BatchNormalization" == line["operator"]:
                continue  # torch does not differentiate statistics.
            found = torch.zeros_like(expected)
        if expected.numel() == 0:
            continue
        size = max(1.0, expected.abs().max().item())
        worst = max(worst, (expected - found).abs().max().item() / size)
    return worst


def main():
    agrees = collections.Counter()
    differs = collections.defaultdict(list)
    without = collections.Counter()
    for text in sys.stdin:
        case = Case(json.loads(text))
        name = case.line["operator"]
        try:
            worst = judge(case)
        except (KeyError, NotImplementedError, RuntimeError, TypeError,
                ValueError, IndexError):
            without[name] += 1
            continue
        if worst <= TOLERANCE:
            agrees[name] += 1
        else:
            differs[name].append((worst, text.strip()[:300]))
    for name in sorted(agrees):
        print(f"{name}: {agrees[name]} agree, {len(differs[name])} differ, "
              f"{without[name]} that torch does not have")
    names = sorted(set(without) - set(agrees))
    print(f"torch has no function here for: {', '.join(names)}")
    for name, cases in differs.items():
        for worst, text in cases[:2]:
            print(f"{name}: off by {worst:.3g}: {text}")
    print(f"{sum(agrees.values())} cases of {len(agrees)} operators agree with "
          f"torch {torch.__version__}, "
          f"{sum(len(each) for each in differs.values())} differ")
    return 1 if any(differs.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
