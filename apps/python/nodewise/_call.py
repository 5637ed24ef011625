"""Runs a verb on values of Python."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from nodewise import _command, _runner
from nodewise._answer import Answer, answer_of
from nodewise._arrays import array_of
from nodewise._errors import Error, option_of, parameter_of

# Whose values are tensors, by name.
_TENSORS_BY_NAME = ("--input", "--freeze", "--patch")


class Arguments:
    """Collects the arguments of one call; what they name lies in `folder` or
    is served as long as the call runs."""

    def __init__(self, folder: str, stack: contextlib.ExitStack):
        self._folder = pathlib.Path(folder)
        self._stack = stack
        self._files = 0
        self.list: list[str] = []
        # What the command is given for values, and what they are known by.
        self.names: list[tuple[str, str]] = []
        # Runners by their names, each with the values that it was asked for
        # and has not.
        self._lacked: list[tuple[str, list[str]]] = []

    def add_target(self, place: str, value: Any) -> None:
        """The side that is judged, or the one that is right: a path, a model, a
        runtime."""
        self.list.append(self._target(place, value))

    def add_option(self, option: str, value: Any) -> None:
        """An option: None and False leave it away, True is a flag, and what is
        a list is given several times."""
        if value is None or value is False:
            return
        if value is True:
            self.list.append(option)
            return
        if option in _TENSORS_BY_NAME and isinstance(value, dict):
            for name, tensor in value.items():
                self._add(option, f"{name}={self._tensor(option, tensor)}")
        elif option == "--inputs" and isinstance(value, dict):
            self._add(option, self._tensors(option, value))
        elif isinstance(value, dict):
            for name, item in value.items():
                self._add(option, f"{name}={item}")
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.add_option(option, item)
        else:
            self._add(option, self._target(parameter_of(option), value))

    def explain(self, error: Error) -> None:
        """Adds to an error of the call what its runners could not tell."""
        said = [f"{name}: is a nodewise.runner, of which only outputs are "
                f"known, and was asked for {lacked[0]} (nodewise.runtime() "
                "makes one that runs models, so that values inside can be "
                "asked for)" for name, lacked in self._lacked if lacked]
        error.say([*error.findings, *said])

    def _add(self, option: str, text: str) -> None:
        # In one word, as a value may begin with a dash.
        self.list.append(f"{option}={text}")

    def _target(self, place: str, value: Any) -> str:
        if isinstance(value, (str, int, float)):
            return str(value)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, _runner.Runner):
            self._lacked.append((value.name, []))
            value = _runner.as_runtime(value, self._lacked[-1][1])
        if isinstance(value, _runner.Runtime):
            target: str = self._stack.enter_context(_runner.served(value))
            self.names.append((target, value.name))
            return target
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(place, bytes(value))
        if hasattr(value, "SerializeToString") and hasattr(value, "graph"):
            return self._bytes(place, value.SerializeToString())
        if hasattr(value, "export_library"):
            path = self._file(place, "lib.so")
            value.export_library(path)
            return path
        raise Error([f"{place}: is a {type(value).__name__}, expected a path, "
                     "the bytes of a file, an onnx.ModelProto, a module of TVM "
                     "or a nodewise.runtime or nodewise.runner"])

    def _bytes(self, place: str, data: bytes) -> str:
        # Bytes that are neither of these are read as a model, and refused
        # there.
        if data.startswith(b"\x7fELF"):
            name = "lib.so"
        elif data.lstrip()[:1] == b"{":
            name = "graph.json"
        else:
            name = "model.onnx"
        path = self._file(place, name)
        pathlib.Path(path).write_bytes(data)
        return path

    def _file(self, place: str, name: str) -> str:
        """The path of a new file, in a folder of its own."""
        self._files += 1
        folder = self._folder / str(self._files)
        folder.mkdir()
        self.names.append((str(folder / name), place))
        return str(folder / name)

    def _tensor(self, option: str, tensor: Any) -> str:
        if isinstance(tensor, (str, os.PathLike)):
            return os.fspath(tensor)
        import numpy  # pylint: disable=import-outside-toplevel
        path = self._file(parameter_of(option), "tensor.npy")
        numpy.save(path, array_of(tensor), allow_pickle=False)
        return path

    def _tensors(self, place: str, tensors: Mapping[str, Any]) -> str:
        import numpy  # pylint: disable=import-outside-toplevel
        path = self._file(parameter_of(place), "tensors.npz")
        numpy.savez(path, **{name: array_of(tensor)
                             for name, tensor in tensors.items()})
        return path


def call(verb: str, targets: Iterable[tuple[str, Any]],
         parameters: Mapping[str, Any]) -> Answer:
    """Runs the verb, and returns its Answer. `parameters` are all that its
    function was called with: those that are not targets are options."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="nodewise_"))
        arguments = Arguments(folder, stack)
        places = set()
        for place, target in targets:
            places.add(place)
            arguments.add_target(place, target)
        for parameter, value in parameters.items():
            if parameter not in places:
                arguments.add_option(option_of(parameter), value)
        try:
            document = _command.document_of([verb, *arguments.list],
                                            arguments.names)
        except Error as error:
            arguments.explain(error)
            raise
        return answer_of(document)
