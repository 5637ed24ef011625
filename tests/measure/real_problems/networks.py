"""Networks of the shapes that the reports are about, made small."""

from __future__ import annotations

import onnx
from network_builder import Network

IMAGE = 32  # The side of an image.


def resnet(seed: int = 1, widths: tuple[int, ...] = (16, 20, 32),
           image: int = IMAGE) -> onnx.ModelProto:
    """A stem and a residual block of three convolutions for each width."""
    net = Network(seed)
    x = net.input("image", 1, 3, image, image)
    x = net.op("Relu", "stem.relu", net.conv("stem", x, 3, widths[0], 3, 3,
                                             strides=[2, 2]))
    x = net.op("MaxPool", "stem.pool", x, kernel_shape=[3, 3],
               strides=[2, 2], pads=[1, 1, 1, 1])
    before = widths[0]
    for i, width in enumerate(widths, 1):
        x = _bottleneck(net, f"block{i}", x, before, width, 1 if i == 1 else 2)
        before = width
    return _classified(net, x, before)


def _bottleneck(net: Network, name: str, x: str, before: int, width: int,
                stride: int) -> str:
    inner = width // 2
    y = net.op("Relu", name + ".relu1",
               net.conv(name + ".conv1", x, before, inner, 1, 1))
    y = net.op("Relu", name + ".relu2", net.conv(
        name + ".conv2", y, inner, inner, 3, 3, strides=[stride, stride]))
    y = net.conv(name + ".conv3", y, inner, width, 1, 1)
    if stride != 1 or before != width:
        x = net.conv(name + ".down", x, before, width, 1, 1,
                     strides=[stride, stride])
    return net.op("Relu", name + ".out", net.op("Add", name + ".add", x, y))


def mobilenet(seed: int = 2, blocks: int = 3, channels: int = 16,
              image: int = IMAGE, name: str = "image") -> onnx.ModelProto:
    """Inverted residuals: expand, depthwise, project."""
    net = Network(seed)
    zero, six = net.constant("zero", 0), net.constant("six", 6)
    x = net.input(name, 1, 3, image, image)
    x = net.op("Clip", "stem.relu6", net.conv("stem", x, 3, channels, 3, 3,
                                              strides=[2, 2]), zero, six)
    for i in range(blocks):
        block = f"block{i}"
        y = net.op("Clip", block + ".relu6_1", net.conv(
            block + ".expand", x, channels, 4 * channels, 1, 1), zero, six)
        y = net.op("Clip", block + ".relu6_2", net.conv(
            block + ".depthwise", y, 4 * channels, 4 * channels, 3, 3,
            group=4 * channels), zero, six)
        y = net.conv(block + ".project", y, 4 * channels, channels, 1, 1)
        x = net.op("Add", block + ".add", x, y)
    return _classified(net, x, channels)


def encoder(seed: int = 3, layers: int = 2, width: int = 32, length: int = 12,
            outlier: float = 1, sharp: float = 1) -> onnx.ModelProto:
    """A transformer as exporters write it, with layer norms in pieces. One
    channel of what it reads is `outlier` times as large as the others, and
    queries and keys are `sharp` times as large as usual."""
    net = Network(seed)
    x = net.input("embeddings", 1, length, width)
    scales = [1.0] * width
    scales[width // 3] = outlier
    x = net.op("Mul", "scaled", x, net.constant("channel_scales", scales))
    for i in range(layers):
        name = f"layer{i}"
        y = layer_norm(net, name + ".norm1", x, width)
        x = net.op("Add", name + ".attended", x,
                   _attention(net, name + ".attention", y, width,
                              sharp))
        y = layer_norm(net, name + ".norm2", x, width)
        y = _gelu(net, name + ".gelu", net.dense(name + ".mlp1", y, width,
                                                 2 * width, gain=1.5))
        x = net.op("Add", name + ".out", x,
                   net.dense(name + ".mlp2", y, 2 * width, width))
    x = layer_norm(net, "norm", x, width)
    return net.finish(net.dense("logits", x, width, 10))


def layer_norm(net: Network, name: str, x: str, width: int) -> str:
    mean = net.op("ReduceMean", name + ".mean", x, axes=[-1], keepdims=1)
    centred = net.op("Sub", name + ".sub", x, mean)
    two = net.constant(name + ".two", 2)
    variance = net.op("ReduceMean", name + ".variance", net.op(
        "Pow", name + ".pow", centred, two), axes=[-1], keepdims=1)
    root = net.op("Sqrt", name + ".sqrt", net.op(
        "Add", name + ".add_epsilon", variance,
        net.constant(name + ".epsilon", 1e-5)))
    x = net.op("Div", name + ".div", centred, root)
    x = net.op("Mul", name + ".scale", x, net.drawn(name + ".weight", width))
    return net.op("Add", name, x, net.drawn(name + ".bias", width, scale=.1))


def _attention(net: Network, name: str, x: str, width: int,
               sharp: float) -> str:
    query, key, value = (
        net.dense(f"{name}.{part}", x, width, width, gain=gain)
        for part, gain in (("query", sharp), ("key", sharp), ("value", 1)))
    scores = net.op("MatMul", name + ".scores", query, net.op(
        "Transpose", name + ".transpose", key, perm=[0, 2, 1]))
    scores = net.op("Mul", name + ".scaled", scores,
                    net.constant(name + ".scale", width ** -.5))
    weights = net.op("Softmax", name + ".softmax", scores, axis=-1)
    mixed = net.op("MatMul", name + ".mixed", weights, value)
    return net.dense(name + ".out", mixed, width, width)


def _gelu(net: Network, name: str, x: str) -> str:
    y = net.op("Erf", name + ".erf", net.op(
        "Div", name + ".div", x, net.constant(name + ".root2", 2 ** .5)))
    y = net.op("Add", name + ".add", y, net.constant(name + ".one", 1))
    return net.op("Mul", name, net.op("Mul", name + ".mul", x, y),
                  net.constant(name + ".half", .5))


def wavenet(seed: int = 4, layers: int = 5, channels: int = 16,
            length: int = 48) -> onnx.ModelProto:
    """Dilated convolutions with gates, and a sum of skips."""
    net = Network(seed)
    x = net.conv("start", net.input("mel", 1, 8, length), 8, channels, 1,
                 pads=[0, 0])
    skips = []
    for i in range(layers):
        name, reach = f"layer{i}", 2 ** (i % 3)
        y = net.conv(name + ".dilated", x, channels, 2 * channels, 3,
                     dilations=[reach], pads=[reach, reach])
        sizes = net.constant(name + ".halves", [channels, channels], "int64")
        net.op("Split", name + ".split", y, sizes, outputs=2, axis=1)
        gated = net.op("Mul", name + ".gated",
                       net.op("Tanh", name + ".tanh", name + ".split"),
                       net.op("Sigmoid", name + ".sigmoid", name + ".split_1"))
        x = net.op("Add", name + ".residual", x, net.conv(
            name + ".mix", gated, channels, channels, 1, pads=[0, 0]))
        skips.append(net.conv(name + ".skip", gated, channels, channels, 1,
                              pads=[0, 0]))
    total = net.op("Sum", "skips", *skips)
    return net.finish(net.op("Tanh", "wave", net.conv(
        "end", net.op("LeakyRelu", "end.relu", total, alpha=.1), channels, 1,
        7, gain=.5)))


def xception(seed: int = 11) -> onnx.ModelProto:
    """Depthwise and pointwise convolutions, a pool that pads, a short cut."""
    net = Network(seed)
    x = net.input("image", 1, 3, IMAGE, IMAGE)
    x = net.op("Relu", "stem.relu", net.conv("stem", x, 3, 16, 3, 3,
                                             strides=[2, 2]))
    before = 16
    for i, width in enumerate((24, 32)):
        name, y = f"block{i}", x
        for j, channels in enumerate((before, width)):
            y = net.conv(f"{name}.depthwise{j}", y, channels, channels, 3, 3,
                         group=channels, gain=1.2)
            y = net.conv(f"{name}.pointwise{j}", y, channels, width, 1, 1)
            if j == 0:
                y = net.op("Relu", name + ".relu", y)
        y = net.op("MaxPool", name + ".pool", y, kernel_shape=[3, 3],
                   strides=[2, 2], pads=[1, 1, 1, 1])
        x = net.op("Add", name + ".add", y, net.conv(
            name + ".short", x, before, width, 1, 1, strides=[2, 2]))
        before = width
    return _classified(net, net.op("Relu", "end.relu", x), before)


def _classified(net: Network, x: str, channels: int) -> onnx.ModelProto:
    x = net.op("Flatten", "flat", net.op("GlobalAveragePool", "pool", x))
    weight = net.drawn("classify.weight", 10, channels, scale=channels ** -.5)
    bias = net.drawn("classify.bias", 10, scale=.1)
    x = net.op("Gemm", "classify", x, weight, bias, transB=1)
    return net.finish(net.op("Softmax", "probabilities", x, axis=1))


def restorer(seed: int = 8) -> onnx.ModelProto:
    """An image to an image. Its norms are exported in pieces: neither what a
    norm reads nor what it makes is beyond float16, but its squares are."""
    net = Network(seed)
    x = net.input("photo", 1, 3, 24, 24)
    x = net.op("Relu", "stem.relu", net.conv("stem", x, 3, 16, 3, 3, gain=160,
                                             strides=[2, 2]))
    for i in range(3):
        name = f"block{i}"
        y = net.conv(name + ".conv1", x, 16, 16, 3, 3)
        mean = net.op("ReduceMean", name + ".mean", y, axes=[2, 3])
        centred = net.op("Sub", name + ".centred", y, mean)
        variance = net.op("ReduceMean", name + ".variance", net.op(
            "Mul", name + ".square", centred, centred), axes=[2, 3])
        root = net.op("Sqrt", name + ".sqrt", net.op(
            "Add", name + ".add_epsilon", variance,
            net.constant(name + ".epsilon", 1e-5)))
        y = net.op("Relu", name + ".relu", net.op("Div", name + ".norm",
                                                  centred, root))
        x = net.op("Add", name + ".add", x, net.conv(name + ".conv2", y, 16,
                                                     16, 3, 3, gain=100))
    return net.finish(net.conv("restored", x, 16, 3, 3, 3, gain=.01))


def attentive(seed: int = 18, channels: int = 32,
              side: int = 32) -> onnx.ModelProto:
    """Convolutions with norms, and channels weighed by what is in them."""
    net = Network(seed)
    x = net.input("features", 1, channels, side, side)
    for i in range(3):
        name = f"stage{i}"
        y = net.conv(name + ".conv", x, channels, channels, 3, 3)
        statistics = [net.constant(f"{name}.norm.{part}", net.rng.uniform(
            .5, 1.5, channels)) for part in ("scale", "bias", "mean", "var")]
        y = net.op("Relu", name + ".relu", net.op(
            "BatchNormalization", name + ".norm", y, *statistics))
        weights = net.op("Sigmoid", name + ".sigmoid", net.conv(
            name + ".weigh", net.op("GlobalAveragePool", name + ".pool", y),
            channels, channels, 1, 1))
        x = net.op("Add", name + ".add", x,
                   net.op("Mul", name + ".mul", y, weights))
    return net.finish(net.conv("heat", x, channels, 4, 1, 1))


def detector(seed: int = 10, side: int = 40) -> onnx.ModelProto:
    """A backbone in two sizes, a neck that works at the larger, and heads. By
    the count of its products the neck takes most of the time."""
    net = Network(seed)
    x = net.input("pillars", 1, 16, side, side)
    x = net.op("Relu", "fine.relu", net.conv("fine", x, 16, 16, 3, 3))
    y = net.op("Relu", "coarse.relu", net.conv("coarse", x, 16, 32, 3, 3,
                                               strides=[2, 2]))
    weight = net.drawn("up.weight", 32, 16, 2, 2, scale=.2)
    y = net.op("ConvTranspose", "up", y, weight, kernel_shape=[2, 2],
               strides=[2, 2])
    x = net.op("Concat", "both", x, net.op("Relu", "up.relu", y), axis=1)
    x = net.op("Relu", "neck.relu", net.conv("neck", x, 32, 64, 5, 5))
    heads = [net.conv(f"head.{name}", x, 64, width, 1, 1) for name, width in (
        ("heat", 3), ("offset", 2), ("size", 3), ("angle", 2))]
    return net.finish(*heads)


def parametric(seed: int = 12) -> onnx.ModelProto:
    """Convolutions and PRelu. The slopes of the second one lie along the last
    axis, which is as long as there are channels."""
    net = Network(seed)
    x = net.input("image", 1, 3, 8, 8)
    for i in range(3):
        x = net.conv(f"conv{i}", x, 3 if i == 0 else 8, 8, 3, 3)
        slopes = net.rng.uniform(.05, .4, (8,) if i == 1 else (8, 1, 1))
        x = net.op("PRelu", f"act{i}", x, net.constant(f"slopes{i}", slopes))
        x = net.op("Add", f"shift{i}", x,
                   net.drawn(f"shifts{i}", 8, 1, 1, scale=.2))
    x = net.op("Flatten", "flat", net.op("GlobalAveragePool", "pool", x))
    return net.finish(net.dense("logits", x, 8, 5))


def counters(seed: int = 8) -> onnx.ModelProto:
    """Numbers of several types, as tools that draw networks make them; the
    largest of all that are false is the first."""
    net = Network(seed)
    x = net.input("image", 1, 3, 8, 8)
    x = net.op("Relu", "v0", net.conv("conv0", x, 3, 8, 3, 3))
    x = net.conv("v1", x, 8, 6, 3, 3)
    less = net.op("Less", "v2", x, net.constant("low", -50))
    bits = net.op("Flatten", "v3", net.op("Cast", "v2_cast", less, to=2))
    largest = net.op("ArgMax", "v4", bits, axis=1, keepdims=0)
    total = net.op("Add", "v5", net.op("Cast", "v4_cast", largest, to=6),
                   net.constant("offset", 518, "int32"))
    mean = net.op("ReduceMean", "v7", x, axes=[2, 3], keepdims=0)
    return net.finish(largest, total, net.op("Greater", "v8", mean,
                                             net.constant("limit", -9)))


def tangents(seed: int = 8) -> onnx.ModelProto:
    """Tangents of large numbers, one of which nearly is a pole."""
    net = Network(seed)
    x = net.input("i0", 1, 3, 12, 12)
    for i, kind in enumerate(("Sigmoid", "Relu", "Sigmoid")):
        x = net.op(kind, f"act{i}", net.conv(
            f"conv{i}", x, 16 if i else 3, 16, 3, 3,
            strides=[2, 2] if i else [1, 1]))
    x = net.conv("conv3", x, 16, 8, 3, 3, pads=[0, 0, 0, 0])
    scaled = net.op("Mul", "scaled", x, net.constant("gain", 100))
    net.op("Tanh", "o1", x)
    net.op("Tan", "o2", scaled)
    return net.finish("o1", "o2")
