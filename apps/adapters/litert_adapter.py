"""Runs a model in LiteRT for nodewise: a .tflite file, or what onnx2tf makes of
the ONNX model.

usage: python3 -I litert_adapter.py [--file FILE.tflite] [--kernels NAME]
       [--layout NAME] [--precision NAME] [--threads N] [--convert TEXT] REQUEST
       python3 -I litert_adapter.py --file FILE.tflite --inputs IN.npz
       --dump OUT.npz
"""

import importlib.metadata
import importlib.util
import os
import pathlib
import shlex
import sys

# -I leaves the folder of the script out.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from adapter_models import (files_of, folder_kept, run_tool,  # noqa: E402
                            with_sizes)
from adapter_protocol import need, numpy, serve  # noqa: E402
from tflite_file import TensorFile, fits, matched_inputs  # noqa: E402

ACTIVATIONS = ("Relu", "Clip", "Tanh")
KERNELS = {
    "default": ("XNNPACK", "AUTO"),
    "builtin": ("without XNNPACK", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"),
    "reference": ("reference kernels", "BUILTIN_REF"),
}


def add_options(parser):
    parser.add_argument("--file", default="",
                        help="the .tflite file, which was made of the ONNX "
                        "model (what onnx2tf makes of that)")
    parser.add_argument("--kernels", choices=KERNELS, default="default",
                        help="default: as LiteRT chooses, XNNPACK; builtin: "
                        "without it; reference: the slow and plain ones")
    parser.add_argument("--layout", choices=["", "nchw", "nhwc"], default="",
                        help="of the inputs of FILE (as their sizes say)")
    parser.add_argument("--precision", choices=["f32", "f16"], default="f32",
                        help="of the weights in what onnx2tf makes (f32)")
    parser.add_argument("--convert", default="",
                        help="more arguments of onnx2tf")
    parser.add_argument("--threads", type=int, default=0)


class Model:
    def __init__(self, path, shapes, options):
        if path is None and not options.file:
            sys.exit("file: was not given, expected file=FILE.tflite")
        what, options.resolver = KERNELS[options.kernels]
        version = importlib.metadata.version("ai-edge-litert")
        self.name = f"LiteRT {version}, {what}"
        self._options = options
        self.output_names = []
        self._is_whole = False
        self._outputs = []
        self._integers = set()
        if path is not None:
            self._read(path)
        self._file = pathlib.Path(options.file) if options.file else converted(
            path, shapes, options)

    def _read(self, path):
        onnx = need("onnx", "onnx")
        graph = onnx.load(path, load_external_data=False).graph
        self._outputs = [each.name for each in graph.output]
        self._sizes = {each.name: sizes_of(each) for each in graph.output}
        self._integers = {
            each.name for each in graph.output
            if each.type.tensor_type.elem_type in (onnx.TensorProto.INT8,
                                                   onnx.TensorProto.UINT8)}
        self._active = {name for node in graph.node for name in node.output
                        if node.op_type in ACTIVATIONS}
        # nodewise writes models that end earlier, too, which a file does not.
        self._is_whole = not pathlib.Path(path).parent.name.startswith(
            "nodewise_foreign_")

    def run(self, inputs, names):
        file = TensorFile(self._file)
        called = self._called(file)
        # A value of the model that nodewise gives in the place of the file's.
        replaced = {name: value for name, value in inputs.items()
                    if name in file.names}
        own = {name: value for name, value in inputs.items()
               if name not in replaced}
        given = matched_inputs(file.input_names, own)
        file.replace(list(replaced))
        # Where the model counts in integers, too, it has the same ones.
        made = file.run([*given, *replaced.values()], self._options,
                        {called.get(name, name) for name in names},
                        {called.get(name, name) for name in self._integers})
        return {name: self._value(file, name, called.get(name, name), made)
                for name in names}

    def _value(self, file, name, called, made):
        if called not in made:
            return f"no tensor of {self._file.name} has this name"
        if isinstance(made[called], str):
            return made[called]
        # The converter gives one name to an operator and its activation.
        if name == called and name in file.activated - self._active:
            return f"{self._file.name} computes an activation with it"
        return self._laid_out(name, made[called])

    def _laid_out(self, name, value):
        """With channels where the ONNX model has them. onnx2tf is told to leave
        outputs as they are."""
        sizes = self._sizes.get(name)
        if not self._options.file or value.ndim < 3 or sizes is None:
            return value
        first = numpy.moveaxis(value, -1, 1)
        as_it_is, moved = (fits(each.shape, sizes) for each in (value, first))
        if as_it_is and moved and self._options.layout != "nchw" and \
                len(set(value.shape[1:])) == 1 and max(value.shape[1:]) > 1:
            return "its sizes do not say which side the channels are"
        return first if moved and not as_it_is else value

    def _called(self, file):
        """The names of the file's outputs by those of the model, where the
        converter has changed them and their order tells."""
        own = self._outputs[:len(file.output_names)]
        if all(name in file.names for name in own):
            return {}
        is_model = self._is_whole or len(self._outputs) > len(own)
        if not is_model or len(own) < len(file.output_names):
            return {}
        return dict(zip(own, file.output_names))

    def dump(self, inputs):
        """All that operators of the file make."""
        file = TensorFile(self._file)
        self.output_names = file.output_names
        return file.run(matched_inputs(file.input_names, inputs),
                        self._options, file.names)


def sizes_of(value):
    """-1 for a size that is not known; None if nothing is."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [each.dim_value if each.HasField("dim_value") else -1
            for each in value.type.tensor_type.shape.dim]


def converted(path, shapes, options):
    if importlib.util.find_spec("onnx2tf") is None:
        sys.exit(f"this Python has no package onnx2tf ({sys.executable}; "
                 "install it there, or give the file that was made with "
                 "file=FILE.tflite)")
    made = folder_kept(
        "litert", [importlib.metadata.version("onnx2tf"),
                   repr(sorted(shapes.items())), options.convert,
                   *files_of(path)],
        lambda folder: convert_into(folder, path, shapes, options))
    ending = "float16" if options.precision == "f16" else "float32"
    return made / f"model_{ending}.tflite"


def convert_into(folder, path, shapes, options):
    onnx = need("onnx", "onnx")
    # onnx2tf writes over the file that it reads.
    source = folder / "model.onnx"
    onnx.save(with_sizes(path, shapes), source)
    # It finds onnxsim, which it calls, beside the Python that has both.
    os.environ["PATH"] = os.pathsep.join([
        os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    run_tool([sys.executable, "-I", "-m", "onnx2tf", "-i", source, "-o", folder,
              "-coion", "-k", *shapes, *shlex.split(options.convert)],
             "onnx2tf")
    for each in folder.iterdir():
        if each.suffix != ".tflite":
            each.unlink()


if __name__ == "__main__":
    serve(Model, add_options)
