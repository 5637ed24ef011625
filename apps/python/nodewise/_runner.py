"""Functions of arrays as what is compared: the sides of a comparison."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nodewise._arrays import is_tensor
from nodewise._errors import Error
from nodewise._runtime import Runtime


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
