"""Writes the models of the benchmarks of models, with their inputs.

usage: bench_models.py FOLDER [NAME]

Makes FOLDER/NAME.onnx and FOLDER/NAME.npz for that name, or else for
residual_net, encoder and chain; those that are there already are left alone.
The real models are taken from what is installed in packaged_models beside
FOLDER.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
import seeded_models  # noqa: E402

OPSET = 17
IR = 8


def write(folder, name, model, feeds):
    onnx.checker.check_model(model)
    np.savez(folder / f"{name}.npz", **feeds)
    # Last: a model that is there has its inputs.
    onnx.save(model, folder / f"{name}.onnx")


# --- light models ------------------------------------------------------------


def light(name, rng):
    """One of ONNX's light models at OPSET, with weights."""
    model = onnx.load(seeded_models.LIGHT / f"light_{name}.onnx")
    model = seeded_models.seeded(model, rng)
    model = version_converter.convert_version(model, OPSET)
    model.ir_version = IR
    image = rng.standard_normal((1, 3, 224, 224))
    return model, {model.graph.input[0].name: image.astype(np.float32)}


def residual_net(rng):
    return light("resnet50", rng)


def alex_net(rng):
    """Has weights of 150 MB in one node, and small tensors beside them."""
    return light("bvlc_alexnet", rng)


# --- the encoder -------------------------------------------------------------


class Builder:
    """A graph that grows node by node; every method returns a name."""

    def __init__(self, rng):
        self.rng = rng
        self.nodes = []
        self.weights = []

    def add(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def constant(self, values):
        name = f"w_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def number(self, value):
        return self.constant(np.array(value, np.float32))

    def random(self, *shape, scale=1.0):
        values = scale * self.rng.standard_normal(shape)
        return self.constant(values.astype(np.float32))

    def linear(self, x, rows, columns):
        weights = self.random(rows, columns, scale=1 / np.sqrt(rows))
        return self.add("Add", self.add("MatMul", x, weights),
                        self.random(columns, scale=0.1))

    def model(self, name, x, y):
        graph = helper.make_graph(self.nodes, name, [x], [y], self.weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, ir_version=IR, opset_imports=opsets)


TOKENS, WIDTH, HEADS, INNER, LAYERS = 128, 384, 12, 1536, 6


def attention(net, x):
    parts = net.constant(np.array([1, TOKENS, HEADS, WIDTH // HEADS]))

    def heads(order):
        split = net.add("Reshape", net.linear(x, WIDTH, WIDTH), parts)
        return net.add("Transpose", split, perm=order)

    scores = net.add("MatMul", heads([0, 2, 1, 3]), heads([0, 2, 3, 1]))
    scale = net.number(np.sqrt(WIDTH / HEADS))
    shares = net.add("Softmax", net.add("Div", scores, scale), axis=-1)
    mixed = net.add("Transpose", net.add("MatMul", shares, heads([0, 2, 1, 3])),
                    perm=[0, 2, 1, 3])
    whole = net.constant(np.array([1, TOKENS, WIDTH]))
    return net.linear(net.add("Reshape", mixed, whole), WIDTH, WIDTH)


def gelu(net, x):
    erf = net.add("Erf", net.add("Div", x, net.number(np.sqrt(2))))
    both = net.add("Mul", x, net.add("Add", erf, net.number(1)))
    return net.add("Mul", both, net.number(0.5))


def encoder(rng):
    """A transformer's encoder, written as exporters write it."""
    net = Builder(rng)

    def added_and_normalised(x, y):
        return net.add("LayerNormalization", net.add("Add", x, y),
                       net.random(WIDTH, scale=0.5), net.random(WIDTH))

    x = "x"
    for _ in range(LAYERS):
        x = added_and_normalised(x, attention(net, x))
        inner = gelu(net, net.linear(x, WIDTH, INNER))
        x = added_and_normalised(x, net.linear(inner, INNER, WIDTH))
    shape = [1, TOKENS, WIDTH]
    model = net.model(
        "encoder", helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
        helper.make_tensor_value_info(x, TensorProto.FLOAT, shape))
    return model, {"x": rng.standard_normal(shape).astype(np.float32)}


# --- the chain ---------------------------------------------------------------


def chain(rng):
    """1,000 small operators, each reading the one before it."""
    net = Builder(rng)
    x = "x"
    for _ in range(250):
        x = net.add("Add", x, net.random(16))
        x = net.add("Relu", x)
        x = net.add("Mul", x, net.random(16, scale=0.5))
        x = net.add("Tanh", x)
    model = net.model(
        "chain", helper.make_tensor_value_info("x", TensorProto.FLOAT, [16]),
        helper.make_tensor_value_info(x, TensorProto.FLOAT, [16]))
    return model, {"x": rng.standard_normal(16).astype(np.float32)}


# --- real models -------------------------------------------------------------

# The files in packages from PyPI. What they hear, see or read: speech, a byte
# sequence, photos, music, a line of text.
PACKAGED = {
    "silero_vad": "silero_vad/data/silero_vad_16k_op15.onnx",
    "magika": "magika/models/standard_v3_3/model.onnx",
    "nudenet": "nudenet/320n.onnx",
    "basic_pitch": "basic_pitch/saved_models/icassp_2022/nmp.onnx",
    "text_line":
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
}


def inputs_of(name, rng):
    def waves(*shape):
        return rng.uniform(-1, 1, shape).astype(np.float32)

    return {
        "silero_vad": lambda: {
            "input": waves(1, 512), "sr": np.array(16000),
            "state": np.zeros((2, 1, 128), np.float32)},
        "magika": lambda: {
            "bytes": rng.integers(0, 256, (1, 2048)).astype(np.int32)},
        "nudenet": lambda: {"images": (1 + waves(1, 3, 320, 320)) / 2},
        "basic_pitch": lambda: {
            "serving_default_input_2:0": waves(1, 43844, 1)},
        "text_line": lambda: {"x": waves(1, 3, 48, 320)},
    }[name]()


def packaged(folder, name, rng):
    """A model as it is, but for the sizes of its inputs, which are known."""
    model = onnx.load(folder.parent / "packaged_models" / PACKAGED[name])
    feeds = inputs_of(name, rng)
    for value in model.graph.input:
        if value.name in feeds:
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for size in feeds[value.name].shape:
                shape.dim.add().dim_value = size
    return model, feeds


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if sys.argv[2:] and sys.argv[2] in PACKAGED:
        name = sys.argv[2]
        if not (folder / f"{name}.onnx").exists():
            write(folder, name,
                  *packaged(folder, name, np.random.default_rng(1)))
        return
    models = [residual_net, encoder, chain]
    if len(sys.argv) > 2:
        models = [make for make in (*models, alex_net)
                  if make.__name__ == sys.argv[2]]
    for make in models:
        if not (folder / f"{make.__name__}.onnx").exists():
            write(folder, make.__name__, *make(np.random.default_rng(1)))


if __name__ == "__main__":
    main()
