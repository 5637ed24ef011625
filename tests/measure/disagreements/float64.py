"""A float64 run of a model, operator by operator.

It shares nothing with nodewise: operators are those of ONNX's reference
evaluator, with convolutions written anew here, since the evaluator's take
minutes. Where it has none, or fails, onnxruntime computes the one operator in
float32 from what the float64 run has made.
"""

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(4)


def attributes_of(node):
    return {each.name: helper.get_attribute_value(each)
            for each in node.attribute}


def pads_of(attributes, sizes, window, strides):
    rank = len(window)
    how = attributes.get("auto_pad", b"NOTSET").decode()
    if how == "VALID":
        return [(0, 0)] * rank
    if how.startswith("SAME"):
        pads = []
        for size, reach, stride in zip(sizes, window, strides):
            all_of = max((-(-size // stride) - 1) * stride + reach - size, 0)
            less = all_of // 2
            pads.append((less, all_of - less) if how == "SAME_UPPER"
                        else (all_of - less, less))
        return pads
    flat = attributes.get("pads", [0] * (2 * rank))
    return list(zip(flat[:rank], flat[rank:]))


def convolve(node, x, w, bias=None):
    """Conv in the type of what it is given, of any rank."""
    attributes = attributes_of(node)
    rank = x.ndim - 2
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    groups = attributes.get("group", 1)
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations)]
    pads = pads_of(attributes, x.shape[2:], reach, strides)
    x = numpy.pad(x, [(0, 0), (0, 0), *pads])
    windows = numpy.lib.stride_tricks.sliding_window_view(
        x, reach, axis=tuple(range(2, 2 + rank)))
    windows = windows[(slice(None), slice(None)) + tuple(
        slice(None, None, s) for s in strides) + tuple(
            slice(None, None, d) for d in dilations)]
    out = w.shape[0] // groups
    space = windows.shape[2:2 + rank]
    # Batch, group, channel, place, tap; a product of matrices a group.
    windows = windows.reshape(x.shape[0], groups, w.shape[1], *space,
                              int(numpy.prod(w.shape[2:])))
    windows = numpy.moveaxis(windows, 2, -2).reshape(
        x.shape[0], groups, int(numpy.prod(space)), -1)
    weights = w.reshape(groups, out, -1)
    made = numpy.einsum("gok,bgpk->bgop", weights, windows, optimize=True)
    made = made.reshape(x.shape[0], w.shape[0], *space)
    if bias is not None:
        made = made + bias.reshape(1, -1, *[1] * rank)
    return made


def normalise(node, x, scale, offset, mean, variance):
    """BatchNormalization. The evaluator takes the mean of what it is given, as
    in training, where the attribute momentum is there in old opsets."""
    wide = [-1, *[1] * (x.ndim - 2)]
    epsilon = attributes_of(node).get("epsilon", 1e-5)
    factor = scale / numpy.sqrt(variance + epsilon)
    scaled = (x - mean.reshape(wide)) * factor.reshape(wide)
    return scaled + offset.reshape(wide)


def convolve_integers(node, x, w, x_zero=0, w_zero=0):
    """ConvInteger. All sums are whole numbers that float64 has exactly."""
    x = x.astype(numpy.float64) - numpy.asarray(x_zero, numpy.float64)
    w_zero = numpy.asarray(w_zero, numpy.float64).reshape(
        -1, *[1] * (w.ndim - 1))
    return convolve(node, x, w.astype(numpy.float64) - w_zero).astype(
        numpy.int32)


def largest_of_all(_, x):
    """GlobalMaxPool, of which the evaluator drops sides."""
    return x.max(axis=tuple(range(2, x.ndim)), keepdims=True)


OWN = {
    "BatchNormalization": normalise,
    "Conv": convolve,
    "ConvInteger": convolve_integers,
    "GlobalMaxPool": largest_of_all,
}


def as_double(array):
    array = numpy.asarray(array)
    return array.astype(numpy.float64) if array.dtype in (
        numpy.float16, numpy.float32) else array


def as_single(array):
    array = numpy.asarray(array)
    is_double = array.dtype == numpy.float64
    return array.astype(numpy.float32) if is_double else array


def one_node_model(node, values, model, initialisers=()):
    """The node as a model of its own. `values` has what it reads; those of
    `initialisers` stay constants, as runtimes may need them to be."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    names = list(dict.fromkeys(name for name in node.input if name))
    graph = helper.make_graph(
        [made], "one",
        [helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(values[name].dtype),
            values[name].shape)
         for name in names if name not in initialisers],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
        [numpy_helper.from_array(numpy.ascontiguousarray(values[name]), name)
         for name in names if name in initialisers])
    return helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=8)


def in_double(node):
    """The node with float64 in the place of each float32 or float16 that it
    names."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    shorter = (TensorProto.FLOAT, TensorProto.FLOAT16)
    for each in made.attribute:
        if each.type == onnx.AttributeProto.TENSOR and \
                each.t.data_type in shorter:
            each.t.CopyFrom(numpy_helper.from_array(
                as_double(numpy_helper.to_array(each.t)), each.t.name))
        if each.name in ("to", "dtype") and each.i in shorter:
            each.i = TensorProto.DOUBLE
    return made


def in_onnxruntime(model, node, values):
    singles = {name: as_single(values[name]) for name in node.input if name}
    session = onnxruntime.InferenceSession(
        one_node_model(node, singles, model).SerializeToString(),
        providers=["CPUExecutionProvider"])
    return [as_double(each) for each in session.run(None, singles)]


# The evaluator lacks directions of these, or fails on what lies outside.
NOT_EVALUATED = ("LSTM", "GRU", "RNN", "Loop", "If", "Scan")


def compute(model, node, values):
    """What a node makes of what it reads, by the names of its outputs."""
    reads = {name: as_double(values[name]) for name in node.input if name}
    names = [name for name in node.output if name]
    if node.op_type in OWN and len(names) == 1:
        made = [OWN[node.op_type](
            node, *(reads[name] for name in node.input if name))]
    else:
        try:
            if node.op_type in NOT_EVALUATED or node.domain not in (
                    "", "ai.onnx"):
                raise NotImplementedError
            made = ReferenceEvaluator(one_node_model(
                in_double(node), reads, model)).run(None, reads)
        except Exception:  # pylint: disable=broad-except
            made = in_onnxruntime(model, node, values)
    return dict(zip(names, (numpy.asarray(each) for each in made)))


def run(model, feeds):
    """All values of a model in float64, by their names."""
    values = {each.name: as_double(numpy_helper.to_array(each))
              for each in model.graph.initializer}
    values.update({name: as_double(x) for name, x in feeds.items()})
    for node in model.graph.node:
        values.update(compute(model, node, values))
    return values


def error(found, expected):
    """The norm of the difference for the norm of what is right."""
    found = numpy.asarray(found, numpy.float64).ravel()
    expected = numpy.asarray(expected, numpy.float64).ravel()
    if found.shape != expected.shape:
        return numpy.inf
    same = (found == expected) | (numpy.isnan(found) & numpy.isnan(expected))
    off = numpy.linalg.norm(numpy.where(same, 0, found - expected))
    if off == 0:
        return 0.0
    size = numpy.linalg.norm(expected)
    return float(off / size) if size > 0 and numpy.isfinite(off) else numpy.inf


def error_of_outputs(found, expected):
    return max((error(found[name], expected[name]) for name in expected),
               default=0.0)
