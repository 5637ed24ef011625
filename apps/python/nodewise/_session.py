"""Networks that stay loaded, to be run, stopped and changed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nodewise._call import Arguments
from nodewise._errors import Error

try:
    from nodewise import _native, _tensors
except ImportError as _why:
    raise ImportError(
        f"nodewise: the part that loads networks cannot be used ({_why}); "
        "expected the wheel, installed with its dependency nanobind-backend"
    ) from None

if TYPE_CHECKING:
    from nodewise._types import Path, Target, TensorLike


class Session:
    """A network that is loaded: a compiled artefact or a model.

    >>> import nodewise, numpy
    >>> with nodewise.load("model.onnx") as net:
    ...     made = net.run({"image": numpy.zeros((1, 3, 16, 16), "float32")})
    ...     hidden = net.tensor("pool1").numpy()
    >>> hidden.shape
    (1, 8, 8, 8)

    Any thread may use it, one call at a time.
    """

    def __init__(self, native: _native.Network, name: str):
        self._native = native
        self._name = name
        self._outputs = tuple(native.outputs())

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<nodewise.Session {self.name}>"

    def close(self) -> None:
        """Gives up the network. Tensors that are held stay valid."""
        self._native.close()

    # --- What it is ---

    @property
    def name(self) -> str:
        """The name of what was loaded."""
        return self._name

    @property
    def inputs(self) -> dict[str, str]:
        """The types of the inputs that must be given, by their names:
        {"image": "float32[batch, 3, 16, 16]"}."""
        return dict(self._native.inputs())

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return self._outputs

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes in the order of the run."""
        return tuple(self._native.nodes())

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks that are worth knowing about how it was read."""
        return tuple(self._native.notes())

    # --- Running it ---

    def run(self, inputs: Mapping[str, TensorLike] | None = None, /, *,
            timed: bool = False) -> dict[str, _tensors.Tensor]:
        """Runs all nodes, and returns the outputs by their names.

        `inputs` are set first; those that are not in it stay what they were.
        The outputs' memory is the runtime's own, which no later run writes to
        while they are held. `timed` keeps the time of each node for times().
        """
        if inputs is not None:
            self.set(inputs)
        return {name: _tensors.Tensor(held) for name, held in
                zip(self._outputs, self._native.run(timed))}

    __call__ = run

    def set(self, inputs: Mapping[str, TensorLike], /) -> None:
        """Copies the tensors of a dict into the inputs of these names."""
        if not isinstance(inputs, (dict, Mapping)):
            raise Error([f"inputs: is a {type(inputs).__name__}, expected a "
                         "dict of arrays by the names of inputs"])
        self._native.set(_held(inputs))

    def bind(self, name: str, value: TensorLike, /) -> None:
        """Has all runs read the array's own memory, and keeps it alive: what is
        written there is what the next run gets."""
        self._native.bind(_text("name", name),
                          _tensors.held_by(f"input {name}", value))

    def input(self, name: str, /) -> _tensors.Tensor:
        """The memory of an input or a parameter, which runs read: writing there
        sets it."""
        return _tensors.Tensor(self._native.input_memory(_text("name", name)))

    def time_runs(self, runs: int = 10, /) -> list[float]:
        """How many seconds each of so many runs takes, without what Python
        adds."""
        return [ns * 1e-9 for ns in
                self._native.time_runs(_size("runs", runs, 2**32))]

    def times(self) -> dict[str, float]:
        """How many seconds each node took, in the last timed run or the pass
        that is under way."""
        return {node: ns * 1e-9 for node, ns in self._native.times()}

    def record(self, folder: Path | None, /) -> None:
        """Has the next runs leave a dump each in this folder; None ends it."""
        self._native.record("" if folder is None else os.fspath(folder))

    @property
    def dump_folder(self) -> str:
        """The folder of the last run's dump; empty if there is none."""
        return self._native.dump_folder()

    # --- Looking into it ---

    def tensor(self, entry: str, /) -> _tensors.Tensor:
        """What a node has made: "conv1", or "conv1:1" for its second output.

        It is the node's memory, which the next nodes may write over. After a
        whole run what has been written over is made once more, and copied;
        where a pass has stopped, that is an error that says so.
        """
        return _tensors.Tensor(self._native.read(_text("entry", entry)))

    def patch(self, entry: str, value: TensorLike, /) -> None:
        """Gives a node's output these contents: now, and whenever it runs."""
        self._native.patch(_text("entry", entry),
                           _tensors.held_by(f"patch of {entry}", value))

    def clear_patches(self) -> None:
        """Has nodes make again what they make by themselves."""
        self._native.clear_patches()

    # --- Stopping between nodes ---

    @property
    def position(self) -> str | None:
        """The node that is next; None at the end of the pass."""
        return self._native.position() or None

    def restart(self) -> None:
        """Begins a new pass: nothing has run."""
        self._native.restart()

    def step(self) -> str | None:
        """Runs the next node, and returns which."""
        node = self.position
        self._native.step()
        return node

    def run_until(self, node: str, /) -> None:
        """Runs up to and including this node, from the start if it has already
        run."""
        self._native.run_until(_text("node", node))

    def resume(self) -> None:
        """Runs what is left of the pass."""
        self._native.resume()

    def recompute(self) -> tuple[str, ...]:
        """Runs again what depends on patches, and returns which nodes."""
        return tuple(self._native.recompute())


def _text(place: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise Error([f"{place}: is a {type(value).__name__}, expected a str"])


def _held(tensors: Mapping[str, Any]) -> list[tuple[str, _native.Tensor]]:
    return [(_text("name of an input", name),
             _tensors.held_by(f"input {name}", value))
            for name, value in tensors.items()]


def _open(target: Target, inputs: list[tuple[str, _native.Tensor]],
          frozen: list[tuple[str, _native.Tensor]],
          options: dict[str, Any]) -> Session:
    """A Session of what may be a path, or has to be written to a file first."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="nodewise_"))
        arguments = Arguments(folder, stack)
        arguments.add_target("target", target)
        path = arguments.list[0]
        try:
            return Session(_native.open(path, inputs, frozen, options),
                           dict(arguments.names).get(path, path))
        except Error as error:
            # A file that was only written for it means nothing to the caller.
            findings = list(error.findings)
            for given, known in arguments.names:
                findings = [each.replace(given, known) for each in findings]
            raise Error(findings) from None


# pylint: disable-next=too-many-arguments
def load(target: Target, /, *,
         inputs: Mapping[str, TensorLike] | None = None,
         lib: Path | None = None, params: Path | None = None,
         function: str | None = None, backend: str | None = None,
         dim: Mapping[str, int] | None = None,
         freeze: Mapping[str, TensorLike] | None = None,
         seed: int | None = None, no_fuse: bool = False,
         no_reuse: bool = False) -> Session:
    """Loads a network, and returns a Session to run it.

    >>> with nodewise.load("model.onnx") as net:
    ...     print(net.inputs, net.outputs)
    {'image': 'float32[1, 3, 16, 16]'} ('probabilities',)

    target: a path of an artefact folder, a factory or VM library, a graph JSON
        with lib= and params=, or an ONNX model; or the bytes of such a file, an
        onnx.ModelProto, a module of TVM
    inputs: a dict of arrays that are set at once; a library for virtual
        machines takes its open sizes from them
    backend: for ONNX models: what computes the nodes, onednn (with the
        reference for what that has not) or reference
    dim, freeze, seed, no_fuse, no_reuse, lib, params, function: as those of
        nodewise.run()
    """
    if backend not in (None, "onednn", "reference"):
        raise Error([f"backend: found {backend!r}, expected \"onednn\" or "
                     "\"reference\""])
    options: dict[str, Any] = {"no_fuse": bool(no_fuse),
                               "no_reuse": bool(no_reuse)}
    for name, path in (("lib", lib), ("params", params)):
        if path is not None:
            options[name] = os.fspath(path)
    for name, text in (("function", function), ("backend", backend)):
        if text is not None:
            options[name] = _text(name, text)
    if dim is not None:
        options["dim"] = [(_text("dim", name), _size(name, size))
                          for name, size in dict(dim).items()]
    if seed is not None:
        options["seed"] = _size("seed", seed)
    return _open(target, _held(inputs or {}), _held(freeze or {}), options)


def _size(place: str, value: Any, end: int = 2**63) -> int:
    try:
        number = int(value.__index__())
    except (AttributeError, TypeError):
        number = -1
    if not 0 <= number < end:
        raise Error([f"{place}: found {value!r}, expected a whole number from 0 "
                     f"to {end - 1}"])
    return number
