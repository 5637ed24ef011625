"""Functions of Python as what is judged: runtimes that the command can run,
and the sides of a comparison."""

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from nodewise._arrays import is_tensor, numpy_type
from nodewise._errors import Error

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
    return numpy.fromfile(each["file"], numpy_type(each["dtype"])).reshape(
        each["shape"])


@dataclasses.dataclass(frozen=True)
class Runner:
    """What runner() returns: a function of a dict of arrays by the names of
    inputs, which returns a dict of arrays by the names of outputs.

    `inputs` and `outputs` are None where they were not said.

    >>> half = nodewise.runner(lambda sample: sample["x"] / 2, outputs="y")
    >>> half({"x": 3.0})
    {'y': 1.5}
    """

    run: Callable[..., Any]
    name: str
    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None

    def __call__(self, sample: Mapping[str, Any], /) -> dict[str, Any]:
        if self.inputs is None:
            given = dict(sample)
        else:
            lacks = [name for name in self.inputs if name not in sample]
            if lacks:
                raise Error([f"{self.name}: is given {_listed(sample)}, "
                             f"expected {_listed(self.inputs)}"])
            given = {name: sample[name] for name in self.inputs}
        return self._named(self.run(given))

    def _named(self, made: Any) -> dict[str, Any]:
        """What the function has returned, by the names of outputs."""
        if isinstance(made, Mapping):
            # An output that a framework leaves out is None there.
            found = {name: made[name] for name in made
                     if made[name] is not None}
            if self.outputs is None:
                return found
            lacks = [name for name in self.outputs if name not in found]
            if lacks:
                raise Error([f"{self.name}: returned {_listed(found)}, "
                             f"expected {_listed(self.outputs)}"])
            return {name: found[name] for name in self.outputs}
        if self.outputs is None:
            raise Error([
                f"{self.name}: returned a {type(made).__name__}, expected a "
                "dict of arrays by the names of outputs (or say the names: "
                "nodewise.runner(function, outputs=NAMES))"])
        if len(self.outputs) == 1 and not isinstance(made, (tuple, list)):
            made = (made,)
        if not isinstance(made, Sequence) or is_tensor(made):
            raise Error([
                f"{self.name}: returned a {type(made).__name__}, expected "
                f"{_counted(self.outputs)}"])
        if len(made) != len(self.outputs):
            raise Error([f"{self.name}: returned {len(made)} values, expected "
                         f"{_counted(self.outputs)}"])
        return dict(zip(self.outputs, made))


def runner(function: Callable[..., Any], *,
           inputs: str | Iterable[str] | None = None,
           outputs: str | Iterable[str] | None = None,
           name: str | None = None) -> Runner:
    """Makes a candidate or a reference of a function that computes certain
    outputs, and of which no more is known.

    compare_samples() takes it on both sides. locate() takes it where it takes
    a runtime() for a model, and then judges by the outputs alone.

    >>> def run(sample):
    ...     return sample["image"].mean(), sample["image"].max()
    >>> mean = nodewise.runner(run, inputs="image", outputs=("mean", "most"))
    >>> image = numpy.array([1.0, 2.0, 6.0])
    >>> mean({"image": image, "label": 7})["mean"].item()
    3.0

    function: is called with a dict of arrays by the names of inputs; returns a
        dict of arrays by the names of outputs, or without their names
    inputs: the names of what it is given of each sample; all unless said
    outputs: the names of what it returns, in order, or which of the dict count
    name: what it is called in sentences; that of the function unless said
    """
    if not callable(function):
        raise TypeError(f"runner: is a {type(function).__name__}, expected a "
                        "function of a dict of arrays")
    known = name or str(getattr(function, "__name__",
                                type(function).__name__))
    return Runner(function, known, _names("inputs", inputs),
                  _names("outputs", outputs))


def _names(place: str,
           names: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    listed = (names,) if isinstance(names, str) else tuple(names)
    if not listed or len(set(listed)) != len(listed) or not all(
            isinstance(name, str) for name in listed):
        raise Error([f"{place}: is {names!r}, expected names that are all "
                     "different"])
    return listed


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def _counted(names: Sequence[str]) -> str:
    values = "1 value" if len(names) == 1 else f"{len(names)} values"
    return f"{values}: {_listed(names)}"


def opened(place: str, value: Any, stack: contextlib.ExitStack) -> Runner:
    """A side of a comparison as a Runner; what is loaded for it is given up
    with `stack`."""
    if isinstance(value, Runner):
        return value
    if isinstance(value, Runtime):
        raise Error([
            f"{place}: is a nodewise.runtime, which runs models, expected what "
            "runs samples (nodewise.runner(lambda sample: "
            f"{value.name}(MODEL, sample, OUTPUTS)))"])
    session = _session_of(value)
    if session is None and callable(value):
        return runner(value)
    if session is None:
        # The native module is only needed for what must be loaded.
        from nodewise import _session  # pylint: disable=import-outside-toplevel
        session = stack.enter_context(_session.load(value))
    return Runner(session.run, session.name, tuple(session.inputs),
                  session.outputs)


def _session_of(value: Any) -> Any:
    """The value if it is a Session; a program without one never imports it."""
    module = sys.modules.get("nodewise._session")
    return value if module and isinstance(value, module.Session) else None


def as_runtime(what: Runner, lacked: list[str]) -> Runtime:
    """The runner as a runtime for the model that it is an implementation of:
    it hands out its outputs, and nothing from inside. What it is asked for and
    has not is added to `lacked`."""
    def run(model: str, inputs: dict[str, Any],
            outputs: list[str]) -> dict[str, Any]:
        del model
        if what.inputs is not None and set(what.inputs) != set(inputs):
            raise Error([
                f"{what.name}: is asked to run a part of the model, which "
                f"takes {_listed(inputs)}, expected its own inputs, "
                f"{_listed(what.inputs)} (only a nodewise.runtime runs parts)"])
        made = what(inputs)
        lacked.extend(name for name in outputs if name not in made)
        return {name: made[name] for name in outputs if name in made}
    return Runtime(run, what.name)
