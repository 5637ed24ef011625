"""Dual objects: what is done with one is done with what both libraries have."""

from __future__ import annotations

import collections.abc
import inspect
import operator
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, Union

from nodewise._arrays import array_of
from nodewise.autotest import case as cases
from nodewise.autotest.generators import (DrawnTensor, Generator, Nothing,
                                          ask_for_gradient, literal,
                                          random_tensor)
from nodewise.autotest.program import Scope, Side, pair_of, side_of, text_of


def kinds_of(function: Any) -> dict[Union[int, str], Any]:
    """The type that each parameter of a function wants, by name and place, as
    far as its signature says."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # Many functions written in C have none.
        return {}
    try:
        hints = typing.get_type_hints(
            getattr(function, "__init__") if isinstance(function, type)
            else function)
    except Exception:  # pylint: disable=broad-except
        hints = {}
    kinds: dict[Union[int, str], Any] = {}
    for i, each in enumerate(parameters):
        kind = hints.get(each.name)
        if kind is None and isinstance(each.default, (bool, float)):
            kind = type(each.default)
        kinds[i] = kinds[each.name] = kind
    return kinds


def make_alike(case: cases.Case, sides: tuple, pair: tuple, made: Any) -> None:
    """Gives a new module of the candidate the reference's parameters."""
    if id(pair[1]) in case.modules:
        return
    case.modules[id(pair[1])] = made
    states = [{key: array_of(value)
               for key, value in module.state_dict().items()}
              for module in pair]
    both = {key: value for key, value in states[1].items()
            if key in states[0] and states[0][key].shape == value.shape}
    if not both:
        return
    pair[0].load_state_dict({**pair[0].state_dict(), **{
        key: sides[0].tensor(value) for key, value in both.items()}})
    # The reference's are written down, too: they were drawn by its library.
    name, _ = made.code_of_dual_object()
    case.program.add(pair_of(
        lambda side: f"{name}.load_state_dict({{**{name}.state_dict(), "
        + ", ".join(f"{key!r}: {sides[side].tensor_code(literal(value))}"
                    for key, value in both.items()) + "})"))


_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow",
              "matmul", "and_", "or_", "xor", "lshift", "rshift")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_UNARY = ("neg", "pos", "abs", "invert")


class DualObject:
    """Something that both sides have: a library, a function, a module, a
    tensor, or what is known of one.

    >>> both = dual(numpy, numpy)
    >>> isinstance(both, DualObject)
    True
    >>> both.linalg.norm.code_of_dual_object()
    ('numpy.linalg.norm', 'numpy.linalg.norm')
    """

    def __init__(self, sides: tuple[Side, Side], pair: tuple, code: tuple):
        self._sides = sides
        self._pair = pair
        self._code = code

    def code_of_dual_object(self) -> tuple[str, str]:
        """What the programs of both sides call it."""
        return self._code

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if name == "random_tensor" and all(
                value is side.library
                for value, side in zip(self._pair, self._sides)):
            return lambda *args, **options: _resolved(
                random_tensor(*args, **options), self._sides)
        code = pair_of(lambda side: f"{self._code[side]}.{name}")
        if not any(hasattr(each, name) for each in self._pair):
            raise AttributeError(f"{self._code[1]}: has no {name} on either "
                                 "side")
        if cases.running() is None:
            pair = tuple(getattr(each, name) for each in self._pair)
        else:
            pair = cases.current().both(
                name, code, lambda side: getattr(self._pair[side], name))
        return _wrapped(self._sides, pair, code, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kinds = kinds_of(self._pair[1])
        given_as: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        for key, value in given_as.items():
            if isinstance(value, Generator) and kinds.get(key) is not None:
                value.wanted_as(kinds[key])
        given = [_resolved(each, self._sides) for each in args]
        while given and isinstance(given[-1], Nothing):
            given.pop()
        named = {key: _resolved(each, self._sides)
                 for key, each in kwargs.items()}
        named = {key: each for key, each in named.items()
                 if not isinstance(each, Nothing)}
        where = self._operation()

        def code(side: int) -> str:
            texts = [text_of(each, side) for each in given]
            texts += [f"{key}={text_of(each, side)}"
                      for key, each in named.items()]
            return f"{self._code[side]}({', '.join(texts)})"

        return self._done(where, code, lambda side: self._pair[side](
            *of_side(given, side), **of_side(named, side)), True)

    def _done(self, where: str, code: Callable[[int], str],
              does: Callable[[int], Any], may_change: bool = False) -> Any:
        return _done(self._sides, where, pair_of(code), does, may_change)

    def _operation(self) -> str:
        """What it is called in every case, without the names of variables."""
        code = self._code[1]
        if not code.startswith("v") or not code.partition(".")[0][1:].isdigit():
            return code
        owner = code.rpartition(".")[2]
        return owner if "." in code else type(self._pair[1]).__name__

    def __getitem__(self, key: Any) -> Any:
        key = _resolved(key, self._sides)
        return self._done(
            "[]", lambda side: f"{self._code[side]}[{text_of(key, side)}]",
            lambda side: self._pair[side][of_side(key, side)])

    def __setitem__(self, key: Any, value: Any) -> None:
        key, value = (_resolved(each, self._sides) for each in (key, value))
        self._done("[]=", lambda side: f"{self._code[side]}.__setitem__("
                   f"{text_of(key, side)}, {text_of(value, side)})",
                   lambda side: operator.setitem(
                       self._pair[side], of_side(key, side),
                       of_side(value, side)), True)

    def __len__(self) -> int:
        return int(self._done("len", lambda side: f"len({self._code[side]})",
                              lambda side: len(self._pair[side])))

    def __iter__(self) -> Iterator[Any]:
        parts = self
        if not hasattr(self._pair[1], "__getitem__") or isinstance(
                self._pair[1], collections.abc.Mapping):
            parts = self._done("list", lambda side: f"list({self._code[side]})",
                               lambda side: list(self._pair[side]))
        return (parts[i] for i in range(len(parts)))

    def __enter__(self) -> Any:
        return self._done("with",
                          lambda side: f"{self._code[side]}.__enter__()",
                          lambda side: self._pair[side].__enter__(), True)

    def __exit__(self, *_: Any) -> None:
        # An error that has ended the block is raised as it is, on neither side.
        # Both may change one state, which is as it was if the last one in
        # leaves first.
        case = cases.current()
        code = pair_of(lambda side: f"{self._code[side]}"
                       ".__exit__(None, None, None)")
        case.program.add(code)
        case.both("with", code, lambda side: self._pair[side].__exit__(
            None, None, None), (cases.CANDIDATE, cases.REFERENCE))

    def __bool__(self) -> bool:
        return bool(self._pair[1])

    def __int__(self) -> int:
        return int(self._pair[1])

    def __index__(self) -> int:
        return operator.index(self._pair[1])

    def __float__(self) -> float:
        return float(self._pair[1])

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<dual {self._code[1]}>"


def _add_operators() -> None:
    def method(function: Any, is_reflected: bool = False) -> Any:
        def apply(self: Any, *others: Any) -> Any:
            operands = (*others, self) if is_reflected else (self, *others)
            # pylint: disable-next=protected-access
            return _operated(self._sides, function, operands)
        return apply

    for name in (*_OPERATORS, *_COMPARISONS, *_UNARY):
        function = getattr(operator, name)
        plain = name.rstrip("_")
        setattr(DualObject, f"__{plain}__", method(function))
        if name in _OPERATORS:
            in_place = getattr(operator, f"i{plain}")
            setattr(DualObject, f"__r{plain}__", method(function, True))
            setattr(DualObject, f"__i{plain}__", method(in_place))


_add_operators()


def _operated(sides, function, operands):
    operands = [_resolved(each, sides) for each in operands]
    code = pair_of(lambda side: f"operator.{function.__name__}(" + ", ".join(
        text_of(each, side) for each in operands) + ")")
    return _done(sides, function.__name__, code, lambda side: function(
        *(of_side(each, side) for each in operands)))


def _done(sides, where, code, does, may_change=False):
    """Does something on both sides, and compares what they return."""
    case = cases.current()
    case.uses(sides)
    # Compared while the program still ends with the operation itself.
    pair = case.both(where, code, does)
    case.compare(where, code, pair)
    if _is_plain(pair):
        if may_change:
            case.program.add(code)
        return pair[1]
    made = DualObject(sides, pair, case.program.assign(code))
    if cases.is_module(pair[1]) and cases.is_module(pair[0]):
        make_alike(case, sides, pair, made)
    if cases.is_data(pair[1]):
        case.last = made
    return made


def _wrapped(sides, pair, code, where):
    """An attribute of both sides."""
    case = cases.running()
    if case is not None:
        case.uses(sides)
        case.compare(where, code, pair)
        if _is_plain(pair):
            return pair[1]
    return DualObject(sides, pair, code)


def _is_plain(pair):
    """Whether it is the same on both sides, and decides what a test does."""
    return all(value is None or isinstance(value, (bool, int, str))
               for value in pair)


def _resolved(value: Any, sides: tuple[Side, Side]) -> Any:
    """A value with generators drawn, and arrays as dual tensors."""
    if isinstance(value, Generator):
        value = value.value()
    if isinstance(value, DrawnTensor):
        return _dual_tensor(value, sides)
    if type(value).__module__ == "numpy" and hasattr(value, "ndim") and (
            type(value).__name__ == "ndarray"):
        return _dual_tensor(DrawnTensor(value, literal(value), False), sides)
    return _within(value, lambda each: _resolved(each, sides))


def _within(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value of several with each of them changed; any other as it is."""
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(change(each) for each in value)
    if isinstance(value, dict):
        return {key: change(each) for key, each in value.items()}
    if isinstance(value, slice):
        return slice(*map(change, (value.start, value.stop, value.step)))
    return value


def _dual_tensor(drawn: DrawnTensor, sides: tuple[Side, Side]) -> DualObject:
    """The tensor on both sides, made once in a case."""
    case = cases.current()
    key = (id(drawn), id(sides))
    if key not in case.tensors:
        case.uses(sides)
        pair = tuple(side.tensor(drawn.array) for side in sides)
        names = case.program.assign(pair_of(
            lambda side: sides[side].tensor_code(drawn.code)))
        if drawn.requires_grad and case.wants_gradients:
            for side, value in enumerate(pair):
                said = ask_for_gradient(value, names[side])
                case.program.add((said, "") if side == 0 else ("", said))
        case.tensors[key] = (drawn, DualObject(sides, pair, names))
    return case.tensors[key][1]


def of_side(value: Any, side: int) -> Any:
    """What a value is on one side."""
    if isinstance(value, DualObject):
        return value._pair[side]  # pylint: disable=protected-access
    return _within(value, lambda each: of_side(each, side))


# pylint: disable-next=too-many-arguments
def dual(candidate: Any, reference: Any, *,
         names: Sequence[Optional[str]] = (None, None),
         tensor: Sequence[Optional[Callable[[Any], Any]]] = (None, None),
         setup: Sequence[Union[None, str, Sequence[str]]] = (None, None)
         ) -> Any:
    """Two libraries as one: what is called is called on both, with the same
    drawn arguments, and what they return is compared.

    >>> both = dual({"power": pow}, numpy)
    >>> @nodewise.autotest(n=5, seed=1)
    ... def test_power():
    ...     both.power(random(2, 9), random(0, 3))
    >>> test_power()

    candidate, reference: modules, namespaces, dicts of functions, or functions
    names: what messages and programs call them, where that is not clear
    tensor: for each side, what makes one of its tensors of a numpy array; not
        needed for libraries with from_numpy(), asarray() or the like, and for
        functions that take arrays
    setup: for each side, the statements that make it known to a program, where
        no import does
    """
    frame = sys._getframe(1)  # pylint: disable=protected-access
    scope = Scope(frame.f_globals, frame.f_globals.get("__name__", ""),
                  frame.f_globals.get("__file__", ""))
    sides = tuple(side_of(library, name, scope, lines, make, default)
                  for library, name, lines, make, default in zip(
                      (candidate, reference), names, setup, tensor,
                      ("candidate", "reference")))
    return DualObject(typing.cast(Any, sides),
                      tuple(side.library for side in sides),
                      tuple(side.name for side in sides))
