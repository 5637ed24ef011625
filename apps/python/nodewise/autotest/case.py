"""One case: what it has drawn, done on both sides, and compared."""

from __future__ import annotations

import collections.abc
import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Optional, Union

from nodewise._arrays import is_tensor
from nodewise._close import Options, difference as difference_of_tensors
from nodewise.autotest.choices import Choices
from nodewise.autotest.program import Program

_PLAIN = (bool, int, float, complex)


def is_data(value: Any) -> bool:
    """Whether it is something to compare, or holds something."""
    if isinstance(value, collections.abc.Mapping):
        return any(is_data(each) for each in value.values())
    if is_sequence(value):
        return any(is_data(each) for each in value)
    return is_tensor(value) or isinstance(value, (*_PLAIN, str))


def is_sequence(value: Any) -> bool:
    """Whether it is a sequence of values and not one value."""
    return isinstance(value, (tuple, list)) and not is_tensor(value)


def is_module(value: Any) -> bool:
    """Whether it has parameters that are a part of what it computes."""
    return (hasattr(value, "state_dict") and not isinstance(value, type) and
            hasattr(value, "load_state_dict"))


def difference(candidate: Any, reference: Any, options: Options) -> str:
    """Describes the first difference; empty if both are the same. An object
    that is not data, as a function or a type, is not compared."""
    return _difference(candidate, reference, options, "")


def _difference(candidate, reference, options, place):
    pair = (candidate, reference)
    if all(isinstance(each, collections.abc.Mapping) for each in pair):
        keys: Union[list, range] = list(reference)
        if set(candidate) != set(reference):
            return (f"{place or 'it'} has the keys {list(candidate)}, expected "
                    f"{keys}")
    elif all(is_sequence(each) for each in pair):
        keys = range(len(reference))
        if len(candidate) != len(reference):
            return (f"{place or 'it'} has {len(candidate)} elements, expected "
                    f"{len(reference)}")
    else:
        return _of_values(candidate, reference, options, place)
    for key in keys:
        said = _difference(candidate[key], reference[key], options,
                           f"{place}[{key!r}]")
        if said:
            return said
    return ""


def _of_values(candidate, reference, options, place):
    head = f"{place}: " if place else ""
    if not is_data(candidate) and not is_data(reference):
        return ""
    if all(is_tensor(each) or isinstance(each, _PLAIN)
           for each in (candidate, reference)):
        said = difference_of_tensors(candidate, reference, None, options)
        return head + said if said else ""
    if type(candidate) is type(reference) and candidate == reference:
        return ""
    return f"{head}is {_shown(candidate)}, expected {_shown(reference)}"


def _shown(value):
    return repr(value) if isinstance(value, (str, type(None))) else (
        f"a {type(value).__name__}")


CANDIDATE, REFERENCE = 0, 1

_CURRENT: contextvars.ContextVar[Optional[Case]] = contextvars.ContextVar(
    "nodewise_case", default=None)


class Difference(BaseException):
    """The sides differ. Nothing that a test catches, so that its case ends."""

    def __init__(self, where: str, kind: str, said: str):
        super().__init__(said)
        self.where = where  # The operation, the same in simpler cases.
        self.kind = kind
        self.said = said


class Case:  # pylint: disable=too-many-instance-attributes
    """What one run of a test's body leaves."""

    def __init__(self, choices: Choices, options: Options,
                 wants_gradients: bool = False):
        self.choices = choices
        self.options = options
        self.wants_gradients = wants_gradients
        self.program = Program()
        self.compared = 0
        # What both sides have raised last, as the reference has.
        self.both_raised: Optional[Exception] = None
        self.is_refused = False  # It has ended by that.
        self.difference: Optional[Difference] = None
        # Dual tensors that were drawn, and dual modules, for what is compared
        # at the end; and the last dual tensor that came out.
        self.tensors: dict[Any, Any] = {}
        self.modules: dict[int, Any] = {}
        self.last: Any = None
        self._values: dict[int, tuple] = {}
        self._is_comparing = True
        # Numbers that libraries draw themselves, as parameters of a new module,
        # are drawn again with the case.
        self._library_seed = choices.draw(1 << 31)
        self._libraries: list[Any] = []

    def uses(self, sides: tuple) -> None:
        """Has the case begin with these libraries."""
        self.program.uses(sides)
        for side in sides:
            if not any(side.library is each for each in self._libraries):
                self._libraries.append(side.library)
                if callable(getattr(side.library, "manual_seed", None)):
                    side.library.manual_seed(self._library_seed)

    def value_of(self, generator: Any) -> Any:
        """The generator's value, which is drawn once."""
        known = self._values.get(id(generator))
        if known is None:
            # Held together, as another object may get the number of this one.
            known = (generator, generator.calc(self.choices))
            self._values[id(generator)] = known
        return known[1]

    def both(self, where: str, code: tuple[str, str],
             does: Callable[[int], Any],
             order: tuple[int, int] = (REFERENCE, CANDIDATE)
             ) -> tuple[Any, Any]:
        """Does the same on both sides. What both raise is raised, and what one
        raises is a difference."""
        results: dict[int, Any] = {}
        raised: dict[int, Exception] = {}
        for side in order:
            try:
                results[side] = does(side)
            except Exception as error:  # pylint: disable=broad-except
                raised[side] = error
        if not raised:
            return results[CANDIDATE], results[REFERENCE]
        if not results:
            self.both_raised = raised[REFERENCE]
            raise raised[REFERENCE]
        self.program.ends_with(code)
        wrong, what = next(iter(raised.items()))
        names = ("the candidate", "the reference")
        self.fail(where, f"{names[wrong]} raises",
                  f"{names[wrong]} raises {_named(what)}, and "
                  f"{names[1 - wrong]} returns {_kind(results[1 - wrong])}")

    def compare(self, where: str, code: tuple[str, str], pair: tuple) -> None:
        """Ends the case if the two values are data that is not the same."""
        if not self._is_comparing:
            return
        if any(is_data(value) for value in pair):
            self.compared += 1
        candidate, reference = pair
        said = difference(candidate, reference, self.options)
        if said:
            self.program.ends_with(code)
            self.fail(where, "differs", f"the candidate differs: {said}")

    @contextlib.contextmanager
    def without_comparing(self) -> Iterator[None]:
        """For what is only a way to something that is compared."""
        self._is_comparing = False
        try:
            yield
        finally:
            self._is_comparing = True

    def fail(self, where: str, kind: str, said: str) -> NoReturn:
        """Ends the case."""
        self.difference = Difference(where, kind, said)
        raise self.difference


def _named(error):
    text = str(error).strip().partition("\n")[0]
    return type(error).__name__ + (f" ({text})" if text else "")


def _kind(value):
    return "None" if value is None else f"a {type(value).__name__}"


def running() -> Optional[Case]:
    """The case that runs; None outside of a test."""
    return _CURRENT.get()


def current() -> Case:
    """The case that runs."""
    found = _CURRENT.get()
    if found is None:
        raise RuntimeError("autotest: something is drawn or called on both "
                           "sides outside of a test, expected that in a "
                           "function with @autotest()")
    return found


@contextlib.contextmanager
def entered(what: Case) -> Iterator[Case]:
    """Makes it the case that runs."""
    token = _CURRENT.set(what)
    try:
        yield what
    finally:
        _CURRENT.reset(token)
