"""An adapter: runs ONNX models in a runtime for nodewise.

Here that is the evaluator of the package onnx, so that the adapter works as it
is. Put yours where it says so, then try it:

    nodewise adapter check exec:'python3 THIS_FILE'
    nodewise locate exec:'python3 THIS_FILE' --model FILE \\
        --random-inputs 1

adapter_protocol.py must lie beside this file; it reads what nodewise asks and
writes the answer.
"""

import os
import sys

# With python3 -I the folder of the script is not looked into.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from adapter_protocol import need, serve  # noqa: E402

# YOURS: the package of the runtime, and how it is installed.
onnx = need("onnx.reference", "onnx")


def add_options(parser):
    """YOURS: what can be chosen, as in --runtime-option threads=1."""
    parser.add_argument("--verbose", type=int, default=0)


class Model:
    def __init__(self, path, shapes, options):
        """Opens the ONNX file `path`. `shapes` has the sizes of the inputs, for
        runtimes that want to know them before."""
        del shapes
        # YOURS: load or convert the file. An exception says why it cannot be.
        self._session = onnx.ReferenceEvaluator(path, verbose=options.verbose)
        # Messages and known deviations go by it: name and version.
        self.name = "onnx evaluator " + need("onnx", "onnx").__version__

    def run(self, inputs, names):
        """Runs once. `inputs` has numpy arrays by their names; returns those
        called `names`, which are all outputs of the file: to look inside,
        nodewise makes outputs of the values between the operations.

        A text in the place of an array says why the runtime cannot hand out
        that value.
        """
        # YOURS: run it.
        known = set(self._session.input_names)
        made = self._session.run(names, {name: value for name, value in
                                         inputs.items() if name in known})
        return dict(zip(names, made))


if __name__ == "__main__":
    serve(Model, add_options)
