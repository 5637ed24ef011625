"""A runtime with one of the faults of the reports, as an adapter for nodewise:
onnxruntime, given another model than the one that was asked for.

usage: a script of two lines that calls serve_fault(NAME)
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable

import numpy
import onnx
import onnxruntime

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "apps/adapters")]

# pylint: disable=wrong-import-position
from adapter_protocol import serve  # noqa: E402
from network_builder import (node_of, set_attribute,  # noqa: E402
                             set_values, values_of)

Fault = Callable[[onnx.ModelProto], None]


def has(model: onnx.ModelProto, name: str) -> bool:
    """Whether it has the operation: nodewise asks for parts of models, too."""
    return any(node.name == name for node in model.graph.node)


def drop_tail(name: str, lanes: int) -> Fault:
    """A product whose loop ends at the last whole vector of channels."""
    def fault(model: onnx.ModelProto) -> None:
        if has(model, name):
            weight = node_of(model, name).input[1]
            if not any(each.name == weight
                       for each in model.graph.initializer):
                # What a DequantizeLinear makes of the weights.
                weight = next(node.input[0] for node in model.graph.node
                              if node.output[0] == weight)
            values = values_of(model, weight).copy()
            values[:, values.shape[1] // lanes * lanes:] = 0
            set_values(model, weight, values)
    return fault


def attribute_of(name: str, attribute: str, value: object) -> Fault:
    """An operation that is computed with another value of an attribute."""
    def fault(model: onnx.ModelProto) -> None:
        if has(model, name):
            set_attribute(node_of(model, name), attribute, value)
    return fault


def unless_observed(inner: tuple[str, ...], fault: Fault) -> Fault:
    """A fusion of operations, which cannot be where a value between them is
    wanted."""
    def fused(model: onnx.ModelProto) -> None:
        if not {each.name for each in model.graph.output} & set(inner):
            fault(model)
    return fused


FAULTS: dict[str, Fault] = {
    "fused_attention": unless_observed(
        ("layer1.attention.scores", "layer1.attention.scaled",
         "layer1.attention.softmax"),
        attribute_of("layer1.attention.softmax", "axis", 1)),
    "cuda": attribute_of("block2.conv2", "pads", [0, 0, 2, 2]),
}


class Model:
    def __init__(self, path: str, fault: Fault, name: str):
        model = onnx.load(path)
        fault(model)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        # A fault is one of the runtime's own, so nothing else may change.
        settings.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        settings.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), settings,
            providers=["CPUExecutionProvider"])
        self.name = name

    def run(self, inputs: dict[str, numpy.ndarray],
            names: list[str]) -> dict[str, numpy.ndarray]:
        known = {each.name for each in self._session.get_inputs()}
        return dict(zip(names, self._session.run(names, {
            name: value for name, value in inputs.items() if name in known})))


def serve_fault(name: str) -> None:
    """Answers the request that the command line names, with this fault."""
    serve(lambda path, shapes, options: Model(path, FAULTS[name], name))


def write_adapter(path: pathlib.Path, fault: str) -> None:
    """Writes a script that is this runtime with a fault."""
    path.write_text(f"import sys\nsys.path.insert(0, {str(HERE)!r})\n"
                    "from wrong_runtime import serve_fault\n"
                    f"serve_fault({fault!r})\n", encoding="utf-8")
