"""Whole networks with random weights, as they come out of exporters. The
sums are short so that the tolerance is small."""

import numpy as np
from onnx import helper

from ort_network import Net

NETWORKS = []  # Pairs of a function and the opsets that it is made for.


def opsets(*numbers):
    def put(make):
        NETWORKS.append((make, numbers))
        return make
    return put


def cases(seed):
    """Pairs of a name and the one case in a list."""
    for make, numbers in NETWORKS:
        for opset in numbers:
            case = make(opset, seed)
            yield case.name, [case]


# --- convolution ------------------------------------------------------------


def residual(net, x, channels, dilation):
    y = net.conv(x, channels, channels, [3, 3], bias=False,
                 pads=[dilation] * 4, dilations=[dilation] * 2)
    y = net.op("Relu", net.batch_norm(y, channels))
    y = net.conv(y, channels, channels, [1, 3], pads=[0, 1, 0, 1])
    return net.op("Relu", net.op("Add", y, x))


def separable(net, x, cin, cout, stride):
    y = net.conv(x, cin, cin, [3, 3], bias=False, group=cin,
                 auto_pad="SAME_UPPER", strides=[stride, stride])
    y = net.clip(net.batch_norm(y, cin), 0.0, 6.0)
    return net.batch_norm(net.conv(y, cin, cout, [1, 1], bias=False), cout)


def classifier_of(net):
    x = net.image("image", 2, 3, 19, 23, sides=["batch", 3, 19, 23])
    y = net.conv(x, 3, 8, [5, 3], strides=[2, 1], pads=[2, 1, 1, 0])
    y = net.op("PRelu", net.batch_norm(y, 8), net.positive(8, 1, 1))
    ceiled = {"ceil_mode": 1} if net.opset >= 10 else {}
    y = net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2],
               pads=[1, 1, 1, 1], **ceiled)
    y = residual(net, y, 8, 1 + (net.opset > 10))
    y = separable(net, y, 8, 12, 2)
    y = net.op("LeakyRelu", y, alpha=0.2)
    y = net.op("AveragePool", y, kernel_shape=[2, 3], pads=[1, 0, 0, 1],
               count_include_pad=1, **ceiled)
    y = net.op("Dropout", y)
    pooled = net.op("GlobalAveragePool", y)
    net.length += 30
    flat = net.op("Flatten", pooled)
    net.length += 12
    y = net.op("Gemm", flat, net.weight(10, 12, fan=12), net.weight(10),
               transB=1, alpha=0.5)
    # Below opset 13 over the flattened matrix, later over the last axis.
    return net.case(net.op("Softmax", y), y)


@opsets(7, 8, 9, 10, 11, 12, 13, 17, 21)
def classifier(opset, seed):
    return classifier_of(Net("classifier", opset, seed))


@opsets(9, 13, 17)
def classifier_half(opset, seed):
    return classifier_of(Net("classifier_half", opset, seed, "float16"))


RESIZES = {
    11: [("nearest", {}), ("linear", {"coordinate_transformation_mode":
                                      "align_corners"}), ("cubic", {})],
    12: [("nearest", {"nearest_mode": "floor",
                      "coordinate_transformation_mode": "asymmetric"}),
         ("linear", {"coordinate_transformation_mode":
                     "pytorch_half_pixel"})],
    13: [("cubic", {"cubic_coeff_a": -0.5}), ("linear", {})],
}


@opsets(7, 8, 9, 10, 11, 12, 13, 17, 21)
def segmenter(opset, seed):
    """Down, up again, and joined with what was before."""
    net = Net("segmenter", opset, seed)
    x = net.image("image", 1, 3, 12, 16, sides=[1, 3, "height", "width"])
    early = net.op("Relu", net.conv(net.pad(x, [0, 0, 1, 1, 0, 0, 1, 1],
                                            "reflect"), 3, 6, [3, 3]))
    low = net.op("AveragePool", early, kernel_shape=[2, 2], strides=[2, 2])
    low = net.op("Sigmoid", net.conv(low, 6, 6, [3, 3], group=3,
                                     auto_pad="SAME_LOWER"))
    ups = RESIZES.get(min(opset, 13), [("nearest", {}), ("linear", {})])
    joined = [early] + [net.resize(low, [2.0, 2.0], mode, **attrs)
                        for mode, attrs in ups]
    y = net.op("Concat", *joined, axis=1)
    y = net.op("LRN", y, size=3, alpha=0.1)
    width = 6 * len(joined)
    net.length += width * 4
    y = net.op("ConvTranspose", y, net.weight(width, 5, 2, 2, fan=width),
               kernel_shape=[2, 2], strides=[2, 2])
    y = net.op("InstanceNormalization", y, net.positive(5), net.weight(5))
    y = net.slice(y, [1, 0], [-1, 2**31 - 1], [2, 3])
    # Softmax of each place over its channels, with axis 1 flattened below
    # opset 13.
    planes = net.op("Transpose", y, perm=[0, 2, 3, 1])
    return net.case(net.op("Softmax", planes, axis=3),
                    net.op("ArgMax", y, axis=1))


# --- sequences --------------------------------------------------------------


@opsets(9, 10, 11, 12, 13, 17, 21)
def text_reader(opset, seed):
    """Convolution, its columns as a sequence, two layers of LSTM."""
    net = Net("text_reader", opset, seed)
    x = net.image("x", 2, 3, 8, 20, sides=["n", 3, 8, "w"])
    y = x
    for cin, cout, stride in ((3, 6, [2, 1]), (6, 8, [2, 2]), (8, 8, [2, 1])):
        y = net.conv(y, cin, cout, [3, 3], pads=[1, 1, 1, 1], strides=stride)
        y = net.op("HardSigmoid", net.batch_norm(y, cout), alpha=0.3)
    y = net.squeeze(y, 2)
    y = net.op("Transpose", y, perm=[2, 0, 1])  # Time, batch, channels.
    size = 8
    for _ in range(2):
        net.length += 4 * 14
        lstm = net.op("LSTM", y, net.weight(2, 24, size, fan=size),
                      net.weight(2, 24, 6, fan=6), net.weight(2, 48),
                      hidden_size=6, direction="bidirectional")
        lstm = net.op("Transpose", lstm, perm=[0, 2, 1, 3])
        shape = net.op("Concat", net.shape_part(lstm, 0),
                       net.shape_part(lstm, 1), net.ints(-1), axis=0)
        y = net.op("Reshape", lstm, shape)
        size = 12
    y = net.linear(y, 12, 9)
    y = net.op("Transpose", y, perm=[1, 0, 2])
    return net.case(net.op("Softmax", y, axis=2), y)


def voice_branch(net, size, rate):
    """A subgraph that reads values from outside; its weights stand within."""
    inner = Net(f"rate{rate}", net.opset, rate)
    y = inner.pad("signal", [0, 4, 0, 4], "reflect")
    y = inner.unsqueeze(y, 1)
    y = inner.conv(y, 1, 2 * size, [8], strides=[4], bias=False)
    parts = [inner.slice(y, [i * size], [(i + 1) * size], [1])
             for i in range(2)]
    squares = [inner.op("Pow", part, inner.constant(2.0, np.float32))
               for part in parts]
    y = inner.op("Sqrt", inner.op("Add", *squares))
    y = inner.op("Relu", inner.conv(y, size, 6, [3], pads=[1, 1]))
    y = inner.op("Add", y, "offset")
    net.length += inner.length
    return helper.make_graph(
        inner.nodes, inner.name, [],
        [helper.make_tensor_value_info(y, 1, ["b", 6, f"t{rate}"])],
        inner.constants)


def renamed(graph, prefix):
    """Names of inner values must not be those of outer ones."""
    own = {c.name for c in graph.initializer} | {
        name for node in graph.node for name in node.output}
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [prefix + n if n in own else n for n in names]
    for each in [*graph.initializer, *graph.output]:
        each.name = prefix + each.name
    return graph


@opsets(11, 12, 13, 16, 17, 21)
def voice_detector(opset, seed):
    net = Net("voice_detector", opset, seed)
    net.image("signal", 2, 64, sides=["b", "samples"])
    rate = net.input("rate", np.int64(16000))
    state = net.image("state", 2, 2, 6, sides=[2, "b", 6])
    net.nodes.append(helper.make_node(
        "Identity", [net.weight(6, 1)], ["offset"]))
    is_fast = net.op("Equal", rate, net.constant(16000, np.int64))
    fast, slow = (renamed(voice_branch(net, size, number), f"r{number}_")
                  for size, number in ((5, 16), (4, 8)))
    y = net.op("If", is_fast, then_branch=fast, else_branch=slow)
    y = net.op("Transpose", y, perm=[2, 0, 1])
    h, c = net.split(state, [1, 1], 0)
    net.length += 4 * 12
    lstm, h, c = net.op(
        "LSTM", y, net.weight(1, 24, 6, fan=6), net.weight(1, 24, 6, fan=6),
        net.weight(1, 48), "", h, c, hidden_size=6, outputs=3)
    y = net.op("Transpose", net.squeeze(lstm, 1), perm=[1, 2, 0])
    y = net.op("Sigmoid", net.conv(net.op("Relu", y), 6, 1, [1]))
    return net.case(net.mean(y, 2, keepdims=0),
                    net.op("Concat", h, c, axis=0))


@opsets(9, 13, 17)
def recurrent_stack(opset, seed):
    """GRU and RNN, with lengths of their own for each of the batch."""
    net = Net("recurrent_stack", opset, seed)
    x = net.image("x", 7, 3, 5)
    lengths = net.input("lengths", np.array([7, 3, 5], np.int32))
    net.length += 4 * 11
    y, _ = net.op("GRU", x, net.weight(2, 18, 5, fan=5),
                  net.weight(2, 18, 6, fan=6), net.weight(2, 36), lengths,
                  hidden_size=6, direction="bidirectional", outputs=2,
                  linear_before_reset=1)
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]),
               net.ints(0, 0, 12))
    net.length += 4 * 16
    y, last = net.op("RNN", y, net.weight(1, 4, 12, fan=12),
                     net.weight(1, 4, 4, fan=4), net.weight(1, 8), lengths,
                     hidden_size=4, direction="reverse", outputs=2)
    return net.case(y, last)
