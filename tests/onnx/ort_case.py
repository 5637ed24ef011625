"""A case for both onnxruntime and nodewise: a model, its inputs, and how far
the outputs may be apart. Needs the packages of build/venv."""

import dataclasses
import json
import math
import typing

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import helper, numpy_helper

# The distance from 1 to the next number.
EPSILON = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


@dataclasses.dataclass
class Case:
    name: str
    model: onnx.ModelProto
    inputs: dict  # By name, in the model's order.
    # Called with the case and its outputs; gives a pair (relative, absolute)
    # for each output.
    tolerance: typing.Callable
    # Called with the inputs; gives the outputs. For what onnxruntime has no
    # kernel for; otherwise it runs the model.
    instead: typing.Callable = None

    def outputs(self, inputs):
        return (self.instead or (lambda fed: run(self.model, fed)))(inputs)


class CannotRun(Exception):
    """onnxruntime has no kernel for it, or does not know it."""


# --- models -----------------------------------------------------------------


def element_type(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def make_model(graph, opset, domain="", version=1):
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, version))
    return helper.make_model(graph, ir_version=8 if opset < 18 else 10,
                             opset_imports=imports)


def single(name, op, opset, inputs, attrs, outputs, tolerance, constant=(),
           domain="", version=1):
    """A model of one node, of the version of its domain if that is not "". `inputs` holds arrays, None for one that is left
    out; those whose number is in `constant` become initializers; `outputs` is
    how many there are, or their names, "" for one that is left out."""
    inputs = [x if x is None else np.asarray(x) for x in inputs]
    names = [f"in{i}" if x is not None else "" for i, x in enumerate(inputs)]
    while names and not names[-1]:
        names.pop()
    if isinstance(outputs, int):
        outputs = [f"out{i}" for i in range(outputs)]
    fed = {n: x for i, (n, x) in enumerate(zip(names, inputs))
           if n and i not in constant}
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, domain=domain, **attrs)], name,
        [helper.make_tensor_value_info(n, element_type(x), x.shape)
         for n, x in fed.items()],
        [onnx.ValueInfoProto(name=n) for n in outputs if n],
        [numpy_helper.from_array(inputs[i], names[i]) for i in constant])
    model = make_model(graph, opset, domain, version)
    return Case(name, model, fed, tolerance)


def parsed(name, text, opset, inputs, tolerance):
    """A model of a graph in ONNX's text form, whose inputs are arrays in
    order. Subgraphs, and outputs without a type, are allowed."""
    head = f'<ir_version: {8 if opset < 18 else 10}, opset_import: ["":'
    model = onnx.parser.parse_model(f"{head} {opset}]>\n{text}")
    fed = {info.name: np.asarray(x)
           for info, x in zip(model.graph.input, inputs, strict=True)}
    return Case(name, model, fed, tolerance)


# --- tolerances -------------------------------------------------------------


def epsilon(array):
    """0 for integers and truth values: they are exact."""
    return EPSILON.get(array.dtype.name, 0.0)


def size_of(array):
    """The largest finite magnitude."""
    values = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(values.max()) if values.size else 0.0


def exact(_case, outputs):
    return [(0.0, 0.0)] * len(outputs)


def steps(count):
    """Integers may be off by `count`, as the order of rounding is not said;
    other numbers by one unit in the last place."""
    return lambda _case, outputs: [
        (0.0, count) if epsilon(y) == 0 else (epsilon(y), 0.0)
        for y in outputs]


def ulps(count, floor=0.0):
    """`count` units in the last place of each number, and of `floor` for
    functions that are only so exact near 0."""
    return lambda _case, outputs: [
        (count * epsilon(y), count * epsilon(y) * floor) for y in outputs]


def sums(length, factor=4.0, powers=None):
    """Sums of `length` products: the errors of a random order grow with the
    square root, each of the size of the largest sum of magnitudes, which a run
    on the magnitudes of the inputs says. `powers` stands for that size where
    the operator is not linear."""
    def of(case, outputs):
        if powers is None:
            sizes = [size_of(y) for y in run(case.model, {
                n: np.asarray(np.abs(x)) if epsilon(x) else x
                for n, x in case.inputs.items()})]
        else:
            sizes = [powers * max(1.0, size_of(y)) for y in outputs]
        return [(2 * epsilon(y),
                 factor * epsilon(y) * math.sqrt(length) * max(s, size_of(y)))
                for y, s in zip(outputs, sizes)]
    return of


def steady(case, outputs):
    """For what makes small differences large or rounds on its way: a few units
    in the last place, and as far as the outputs move where one of the inputs is
    a little larger or smaller."""
    moved = [0.0] * len(outputs)
    for name, x in case.inputs.items():
        for change in (-8, -3, 3, 8):
            if not epsilon(x):
                continue
            changed = x * x.dtype.type(1 + change * epsilon(x))
            ran = case.outputs({**case.inputs, name: np.asarray(changed)})
            moved = [max(m, size_of(y.astype(np.float64) - other))
                     for m, y, other in zip(moved, outputs, ran)]
    return [(8 * epsilon(y), 16 * epsilon(y) * max(1.0, size_of(y)) + 4 * m)
            for y, m in zip(outputs, moved)]


def network(length, factor=2.0, step=0):
    """A whole network whose longest way sums `length` products in all:
    relative to the largest output. Integers may be off by `step`."""
    return lambda _case, outputs: [
        (2 * epsilon(y), factor * epsilon(y) * math.sqrt(length) * size_of(y)
         if epsilon(y) else float(step)) for y in outputs]


# --- running and writing ----------------------------------------------------

# What onnxruntime says of operators, types and opsets that it lacks.
LACKING = ("NOT_IMPLEMENTED", "Could not find an implementation",
           "No Op registered", "is under development", "Unsupported model",
           "is not a registered function/op")


def session_of(model):
    options = onnxruntime.SessionOptions()
    # Each node as it stands: fused ones round differently.
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model, inputs):
    try:
        return session_of(model).run(None, inputs)
    except Exception as error:
        text = " ".join(str(error).split())
        if any(phrase in text for phrase in LACKING):
            raise CannotRun(text) from error
        raise


def type_outputs(graph, outputs):
    """Writes down the types that the outputs turned out to have; without
    shapes where an input has sides that are named."""
    is_static = not any(side.dim_param for info in graph.input
                        for side in info.type.tensor_type.shape.dim)
    for info, array in zip(graph.output, outputs):
        info.CopyFrom(helper.make_tensor_value_info(
            info.name, element_type(array),
            array.shape if is_static else None))


def write(folder, case):
    """Writes the case as a folder of ONNX's layout, with a file
    tolerance.json."""
    outputs = case.outputs(case.inputs)
    type_outputs(case.model.graph, outputs)
    tolerances = case.tolerance(case, outputs)
    data = folder / case.name / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(case.model, data.parent / "model.onnx")
    for kind, arrays in (("input", case.inputs.values()),
                         ("output", outputs)):
        for i, array in enumerate(arrays):
            (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(
                np.asarray(array)).SerializeToString())
    (data.parent / "tolerance.json").write_text(json.dumps(
        [{"rtol": r, "atol": a} for r, a in tolerances]) + "\n")
