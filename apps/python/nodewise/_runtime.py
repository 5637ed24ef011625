"""A function of Python as a runtime that the command can run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import shlex
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

_BRIDGE = pathlib.Path(__file__).parent / "_bridge.py"


@dataclasses.dataclass(frozen=True)
class Runtime:
    """What runtime() returns: a target, together with `model=`, or a
    reference.

    >>> def run(model, inputs, outputs):
    ...     session = onnxruntime.InferenceSession(model)
    ...     return dict(zip(outputs, session.run(outputs, inputs)))
    >>> nodewise.locate(nodewise.Runtime(run, "mine"), model="model.onnx",
    ...                 random_inputs=1).document["runtime"]
    'mine'
    """

    run: Callable[[str, dict[str, Any], list[str]], Any]
    name: str


def runtime(run: Callable[[str, dict[str, Any], list[str]], Any], *,
            name: str | None = None) -> Runtime:
    """Makes a runtime of a function, to be judged, or to judge by.

    `run(model, inputs, outputs)` runs the ONNX file `model` on `inputs`, a dict
    of arrays, and returns a dict that has the tensors whose names are in
    `outputs`, as far as it can hand them out. nodewise hands over models that
    have further outputs, or inputs in the place of values: it looks inside so.

    >>> import nodewise, onnxruntime
    >>> def run(model, inputs, outputs):
    ...     session = onnxruntime.InferenceSession(model)
    ...     return dict(zip(outputs, session.run(outputs, inputs)))
    >>> nodewise.locate(nodewise.runtime(run), model="model.onnx",
    ...                 random_inputs=1).status
    'ok'
    """
    if not callable(run):
        raise TypeError(f"runtime: is a {type(run).__name__}, expected a "
                        "function of a model, inputs and outputs")
    return Runtime(run, name or str(getattr(run, "__name__", "runtime")))


@contextlib.contextmanager
def served(what: Runtime) -> Iterator[str]:
    """Serves a runtime to a program, which has the yielded target for it."""
    with tempfile.TemporaryDirectory(prefix="nodewise_") as folder:
        path = str(pathlib.Path(folder) / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            thread = threading.Thread(target=_serve, args=(listener, what),
                                      daemon=True)
            thread.start()
            words = [sys.executable, "-I", "-S", str(_BRIDGE), path]
            # A function that still runs after an interrupt is left alone: it
            # cannot be ended, and has no one to answer.
            try:
                yield "exec:" + " ".join(shlex.quote(word) for word in words)
            except BaseException:
                listener.shutdown(socket.SHUT_RDWR)
                raise
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listener: socket.socket, what: Runtime) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # Shut down.
            return
        with connection, connection.makefile("rw", encoding="utf-8") as stream:
            try:
                _answer(json.loads(stream.readline()), what)
                said = ""
            # Anything that the function raises is the runtime's failure.
            except BaseException as error:  # pylint: disable=broad-except
                said = "".join(traceback.format_exception(error))
            with contextlib.suppress(OSError):
                stream.write(json.dumps(said) + "\n")
                stream.flush()


def _answer(path: str, what: Runtime) -> None:
    """Reads a request, and writes its answer (docs/formats/foreign_runner.md).
    """
    import numpy  # pylint: disable=import-outside-toplevel
    request = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    inputs = {each["name"]: _read(each) for each in request["inputs"]}
    for _ in range(request["repeats"]):
        made = what.run(request["model"], inputs, list(request["outputs"]))
    outputs = []
    for i, name in enumerate(request["outputs"]):
        if made.get(name) is None:
            outputs.append({"name": name, "absent": "was not handed out"})
            continue
        value = numpy.ascontiguousarray(made[name])
        value.tofile(pathlib.Path(request["output_folder"]) / f"{i}.bin")
        outputs.append({"name": name, "dtype": value.dtype.name,
                        "shape": numpy.shape(made[name]), "file": f"{i}.bin"})
    pathlib.Path(request["answer"]).write_text(
        json.dumps({"version": 1, "runtime": what.name, "outputs": outputs}),
        encoding="utf-8")


def _read(each: dict[str, Any]) -> Any:
    import numpy  # pylint: disable=import-outside-toplevel
    try:
        dtype = numpy.dtype(each["dtype"])
    except TypeError:  # bfloat16 and its like are numpy's with this package.
        import ml_dtypes  # pylint: disable=import-outside-toplevel
        dtype = numpy.dtype(getattr(ml_dtypes, each["dtype"]))
    return numpy.fromfile(each["file"], dtype).reshape(each["shape"])
