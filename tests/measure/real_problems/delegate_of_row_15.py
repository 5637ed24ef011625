"""A delegate: quantises what it is given, with the ranges of one sample, and
runs that in onnxruntime.

usage: delegate.py REQUEST (in a folder with values.npz, the values of the model
for that sample)
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

for each in ("NODEWISE_ADAPTERS", "NODEWISE_REAL_PROBLEMS"):
    sys.path.insert(0, os.environ[each])

# pylint: disable=wrong-import-position
import numpy  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from adapter_protocol import serve  # noqa: E402
from onnxruntime.quantization import QuantType  # noqa: E402
from quantising import quantise  # noqa: E402


class Model:
    name = "the delegate"

    def __init__(self, path: str, _shapes: object, _options: object):
        names = [each.name for each in onnx.load(path).graph.input]
        values = numpy.load("values.npz")
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / "quantised.onnx"
            quantise(pathlib.Path(path), made,
                     [{name: values[name] for name in names}],
                     activation_type=QuantType.QInt8,
                     extra_options={"ActivationSymmetric": True})
            self._session = onnxruntime.InferenceSession(made.read_bytes())

    def run(self, inputs: dict[str, numpy.ndarray],
            names: list[str]) -> dict[str, numpy.ndarray]:
        return dict(zip(names, self._session.run(names, inputs)))


if __name__ == "__main__":
    serve(Model)
