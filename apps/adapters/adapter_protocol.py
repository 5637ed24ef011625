"""What adapters share: requests and answers of docs/formats/foreign_runner.md.

An adapter gives serve() its runtime: a class whose objects run one model.
"""

import argparse
import json
import os
import sys
import time
import zipfile

# Nothing here multiplies matrices with numpy, whose threads spin from its import
# on.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    import numpy
except ImportError:
    sys.exit("this Python has no package numpy, which the adapter needs "
             f"({sys.executable}; choose another one, or install it there)")


def need(package, install):
    """The package, or an end that names it."""
    try:
        __import__(package)
    except ImportError as why:
        sys.exit(f"this Python has no package {package} ({sys.executable}: "
                 f"{why}; choose another one, or install {install} there)")
    return sys.modules[package]


def serve(open_model, add_options=None):
    """Answers the request that the command line names.

    `open_model(path, shapes, options)` returns an object with `name`, what the
    runtime calls itself, and `run(inputs, names)`, which returns a dict of the
    tensors with these names, None for what it cannot hand out, or a text that
    says why. `shapes` are those of the inputs, by name.

    A class that has `dump(inputs)`, too, runs files of its own: that returns
    all tensors by the names that the runtime gives them, for --dump, and sets
    `output_names`. There the path is None.
    """
    parser = argparse.ArgumentParser()
    if add_options is not None:
        add_options(parser)
    can_dump = hasattr(open_model, "dump")
    if can_dump:
        parser.add_argument("--dump", default="", metavar="OUT.npz",
                            help="writes all tensors there, for nodewise "
                            "compare, which finds by their numbers what they "
                            "are in an ONNX model")
        parser.add_argument("--inputs", default="", metavar="IN.npz",
                            help="of --dump: what the model reads, under the "
                            "names of the ONNX model")
    parser.add_argument("request", nargs="?" if can_dump else None)
    options = parser.parse_args()
    is_dump = can_dump and options.dump
    if is_dump and not options.inputs:
        parser.error("--dump: has nothing to run with, expected --inputs "
                     "with it")
    if not is_dump and not options.request:
        parser.error("expected a request of nodewise, or --dump")
    try:
        (_dump if is_dump else _answer)(open_model, options)
    except Exception as error:  # pylint: disable=broad-except
        # The last line is what nodewise quotes.
        sys.exit(_text_of(error))


def _answer(open_model, options):
    with open(options.request, encoding="utf-8") as file:
        request = json.load(file)
    answer = {"version": 1, "takes_cases": True}
    folder = request["output_folder"]
    opened = _Opened(open_model, options)
    if "cases" in request:
        answer["cases"] = [_case(opened, case, folder, f"{i}_")
                           for i, case in enumerate(request["cases"])]
    else:
        answer.update(_run(opened, request, request["repeats"], folder, ""))
    if opened.model is not None:
        answer["runtime"] = opened.model.name
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump(answer, file)


def _dump(open_model, options):
    with numpy.load(options.inputs) as file:
        inputs = dict(file)
    shapes = {name: value.shape for name, value in inputs.items()}
    model = open_model(None, shapes, options)
    made = model.dump(inputs)
    absent = [name for name, value in made.items()
              if value is None or isinstance(value, str)]
    # Inner names are marked as the runtime's own: it may give a name of the
    # ONNX model to another value or layout, and nodewise would believe it.
    mark = model.name.split()[0] + ":"
    tensors = {**inputs, **{
        name if name in model.output_names else mark + name:
        numpy.asarray(value) for name, value in made.items()
        if name not in absent}}
    with zipfile.ZipFile(options.dump, "w") as archive:
        for name, value in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                numpy.lib.format.write_array(file, value, allow_pickle=False)
    print(f"{model.name}: wrote {len(tensors)} tensors into {options.dump}"
          + (f"; {len(absent)} could not be had" if absent else ""))


class _Opened:
    """The model that was opened last: cases of one follow each other."""

    def __init__(self, open_model, options):
        self._open = open_model
        self._options = options
        self._key = None
        self.model = None

    def of(self, path, inputs):
        shapes = {name: tuple(value.shape) for name, value in inputs.items()}
        if self._key != (path, shapes):
            self._key = None
            self.model = self._open(path, shapes, self._options)
            self._key = (path, shapes)
        return self.model


def _case(opened, case, folder, prefix):
    try:
        return {"outputs": _run(opened, case, 1, folder, prefix)["outputs"]}
    except (Exception, SystemExit) as error:  # pylint: disable=broad-except
        return {"refused": _text_of(error)}


def _run(opened, asked, repeats, folder, prefix):
    inputs = {item["name"]: _read(item) for item in asked["inputs"]}
    model = opened.of(asked["model"], inputs)
    names = asked["outputs"]
    durations = []
    made = {}
    for _ in range(repeats):
        start = time.perf_counter_ns()
        made = model.run(inputs, names)
        durations.append(time.perf_counter_ns() - start)
    outputs = [_write(name, made.get(name), f"{prefix}{i}.bin", folder)
               for i, name in enumerate(names)]
    return {"outputs": outputs, "durations_ns": durations}


def _dtype_of(name):
    try:
        return numpy.dtype(name)
    except TypeError:
        pass
    try:  # bfloat16 and its like are numpy's with this package.
        import ml_dtypes  # pylint: disable=import-outside-toplevel
        return numpy.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        raise TypeError(f"{name}: is not a type of this Python's numpy (the "
                        "package ml_dtypes has more)") from None


def _read(item):
    return numpy.fromfile(item["file"], _dtype_of(item["dtype"])).reshape(
        item["shape"])


def _write(name, value, file, folder):
    """Writes a tensor, and returns what the answer says of it."""
    if value is None or isinstance(value, str):
        return {"name": name,
                "absent": value or "the runtime does not hand it out"}
    value = numpy.asarray(value)
    if value.dtype.hasobject or value.dtype.kind in "SUV" and \
            value.dtype.name.startswith(("str", "bytes", "void")):
        return {"name": name, "absent": f"is a tensor of {value.dtype}"}
    numpy.ascontiguousarray(value).tofile(os.path.join(folder, file))
    return {"name": name, "dtype": value.dtype.name,
            "shape": list(value.shape), "file": file}


def _text_of(error):
    if isinstance(error, SystemExit):
        return str(error)
    return f"{type(error).__name__}: {error}"
