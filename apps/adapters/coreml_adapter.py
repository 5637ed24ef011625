"""Runs a Core ML package for nodewise in the place of the ONNX model that has
the same origin. Core ML runs on macOS alone.

Written to the API that Apple documents (coremltools 9), and not yet tried on a
device.

usage: python3 -I coreml_adapter.py --file FILE.mlpackage [--units NAME]
       REQUEST
       python3 -I coreml_adapter.py --file FILE.mlpackage --inputs IN.npz
       --dump OUT.npz
"""

import asyncio
import os
import sys

# -I leaves the folder of the script out.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from adapter_protocol import need, numpy, serve  # noqa: E402

coremltools = need("coremltools", "coremltools")

UNITS = {"all": "ALL", "cpu": "CPU_ONLY", "gpu": "CPU_AND_GPU",
         "ane": "CPU_AND_NE"}


def add_options(parser):
    parser.add_argument("--file", default="", help="the .mlpackage")
    parser.add_argument("--units", choices=UNITS, default="all",
                        help="where Core ML may compute (all)")


class Model:
    def __init__(self, path, shapes, options):
        del path, shapes  # The package is run as it is.
        if not options.file:
            sys.exit("file: was not given, expected file=FILE.mlpackage")
        units = getattr(coremltools.ComputeUnit, UNITS[options.units])
        self._model = coremltools.models.MLModel(
            options.file, compute_units=units)
        self.output_names = [
            each.name for each in self._model.get_spec().description.output]
        self._file = os.path.basename(options.file.rstrip("/"))
        self.name = f"Core ML by coremltools {coremltools.__version__}, " \
                    f"{options.units}"

    def run(self, inputs, names):
        if len(inputs) != len(self._model.get_spec().description.input):
            return dict.fromkeys(
                names, f"{self._file} reads nothing else than its own inputs")
        inspector = self._inspector()
        known = set(inspector.output_names) if inspector else set()
        asked = [name for name in names if name in known]
        made = dict.fromkeys(names,
                             f"no value of {self._file} has this name")
        made.update(self._model.predict(self._matched(inputs)))
        if asked:
            made.update(self._values(inspector, inputs, asked))
        return {name: made[name] for name in names}

    def dump(self, inputs):
        """All that operations of the package make."""
        inspector = self._inspector()
        if inspector is None:
            return self._model.predict(self._matched(inputs))
        return self._values(inspector, inputs, inspector.output_names)

    def _inspector(self):
        """None for a network of the older kind, which shows its outputs."""
        if self._model.get_spec().WhichOneof("Type") != "mlProgram":
            return None
        module = need(
            "coremltools.models.ml_program.experimental.debugging_utils",
            "coremltools 9 or newer")
        return module.MLModelInspector(self._model)

    def _values(self, inspector, inputs, names):
        made = asyncio.run(inspector.retrieve_outputs(
            inputs=self._matched(inputs), output_names=list(names)))
        return {name: None if value is None else numpy.asarray(value)
                for name, value in made.items()}

    def _matched(self, inputs):
        """The inputs under the package's names: by name if all have theirs,
        else in their order."""
        own = [each.name for each in self._model.get_spec().description.input]
        if len(own) != len(inputs):
            raise ValueError(f"{self._file} reads {', '.join(own)}, expected "
                             f"{', '.join(inputs)}, as the ONNX model")
        by_name = dict(inputs) if set(own) == set(inputs) else dict(
            zip(own, inputs.values()))
        # Core ML has no integers of 64 bits.
        return {name: value.astype(numpy.int32) if value.dtype == numpy.int64
                else value for name, value in by_name.items()}


if __name__ == "__main__":
    serve(Model, add_options)
