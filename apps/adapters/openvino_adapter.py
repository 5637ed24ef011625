"""Runs a model in OpenVINO for nodewise.

usage: python3 -I openvino_adapter.py [--precision NAME] [--device NAME]
       [--threads N] REQUEST
"""

import os
import sys

# -I leaves the folder of the script out.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from adapter_protocol import need, numpy, serve  # noqa: E402

openvino = need("openvino", "openvino")


def add_options(parser):
    parser.add_argument("--precision", default="",
                        help="the hint: f32, f16 or bf16 (as OpenVINO chooses)")
    parser.add_argument("--device", default="CPU")
    parser.add_argument("--threads", type=int, default=0)


class Model:
    def __init__(self, path, shapes, options):
        core = openvino.Core()
        model = core.read_model(path)
        # Sides that the file leaves open are those of the inputs.
        model.reshape({each: list(shapes[name])
                       for each in model.inputs for name in each.names
                       if name in shapes})
        settings = {}
        if options.precision:
            settings["INFERENCE_PRECISION_HINT"] = options.precision
        if options.threads:
            settings["INFERENCE_NUM_THREADS"] = options.threads
        compiled = core.compile_model(model, options.device, settings)
        computes = compiled.get_property(
            "INFERENCE_PRECISION_HINT").to_string()
        version = openvino.__version__.split("-")[0]
        self.name = f"OpenVINO {version}, {options.device}, {computes}"
        self._compiled = compiled
        self._request = compiled.create_infer_request()

    def run(self, inputs, names):
        for each in self._compiled.inputs:
            for name in each.names & inputs.keys():
                self._request.set_tensor(each, openvino.Tensor(
                    numpy.ascontiguousarray(inputs[name])))
        self._request.infer()
        made = {}
        for each in self._compiled.outputs:
            for name in each.names & set(names):
                made[name] = self._request.get_tensor(each).data.copy()
        return made


if __name__ == "__main__":
    serve(Model, add_options)
