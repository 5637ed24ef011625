"""The light models of ONNX's package with weights in the place of the nodes
that fill them with one number, which makes all outputs equal and hides faults.

For the Python that has the package; see tests/onnx/onnx_package.py.
"""

import pathlib

import numpy as np
import onnx
from onnx import numpy_helper

LIGHT = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"


def float_tensor(name, values):
    return numpy_helper.from_array(values.astype(np.float32), name)


def consumer(graph, name):
    """The node that calculates with a tensor, past those that only change its
    shape, and which of its inputs it is."""
    for node in graph.node:
        if name in node.input:
            if node.op_type in ("Reshape", "Unsqueeze"):
                return consumer(graph, node.output[0])
            return node, list(node.input).index(name)
    return None, 0


def weights(kind, place, shape, rng):
    """What keeps the numbers near 1 from layer to layer."""
    if kind in ("Conv", "Gemm") and place == 1:
        # The shape is [outputs, inputs, ...]; a matrix may have sides of 1 in
        # front.
        sides = shape[1:] if shape[0] > 1 else shape[-1:]
        scale = np.sqrt(2 / np.prod(sides))
        return scale * rng.standard_normal(shape, np.float32)
    is_variance_or_scale = kind == "BatchNormalization" and place in (1, 4)
    if kind == "Mul" or is_variance_or_scale:
        return rng.uniform(0.5, 1.0, shape)
    return 0.1 * rng.standard_normal(shape)


def seeded(model, rng):
    """Draws all of the model's floats anew, and leaves only one input."""
    graph = model.graph
    given = {t.name: t for t in graph.initializer}
    shapes = {name: tuple(t.dims) for name, t in given.items()
              if t.data_type == onnx.TensorProto.FLOAT}
    for node in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
        graph.node.remove(node)
        shape = numpy_helper.to_array(given[node.input[0]])
        shapes[node.output[0]] = tuple(int(side) for side in shape)
    # What is summed up layer by layer grows. One class alone in the end would
    # hide all errors behind its Softmax.
    last = [n for n in graph.node if n.op_type in ("Conv", "Gemm")][-1]
    sums = any(n.op_type == "Sum" for n in graph.node)
    for name, shape in shapes.items():
        node, place = consumer(graph, name)
        if node is None:
            continue
        values = weights(node.op_type, place, shape, rng)
        if sums and node is last:
            values = 0.02 * values
        given[name] = float_tensor(name, values)
    read = {name for node in graph.node for name in node.input}
    del graph.initializer[:]
    graph.initializer.extend(t for t in given.values() if t.name in read)
    inputs = [i for i in graph.input if i.name in read - set(given)]
    del graph.input[:]
    graph.input.extend(inputs)
    model.ir_version = 8  # In which constants are not inputs.
    return model
