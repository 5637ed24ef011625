"""Generators: values of a test that are drawn anew for each case.

They are put together before anything is drawn, and have one value in a case,
wherever they are used. Tensors are drawn with Python that makes them again.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

import numpy

from nodewise._arrays import numpy_type
from nodewise.autotest import case
from nodewise.autotest.choices import Choices

# A tensor of more elements is written as what draws it.
_MOST_WRITTEN = 64
_NAMES = {float: "float32", int: "int64", bool: "bool"}
# How libraries are told to keep gradients: an attribute, or one to set.
_WANT_GRADIENTS = (("requires_grad_", None), ("stop_gradient", False),
                   ("requires_grad", True))
_SPECIAL = (float("nan"), float("inf"), float("-inf"), -0., 1e-40, 1e38)


@dataclasses.dataclass(frozen=True, eq=False)
class DrawnTensor:
    """An array, and Python that makes it with numpy."""

    array: Any
    code: str
    requires_grad: bool


def is_float(dtype: Any) -> bool:
    """Whether its numbers may have gradients, short floats among them."""
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float"))


# pylint: disable-next=too-many-arguments
def drawn_tensor(choices: Choices, shape: tuple, *, low: Any = None,
                 high: Any = None, dtype: Any = float,
                 requires_grad: bool = True,
                 special: bool = False) -> DrawnTensor:
    """Draws one whose numbers are from `low` up to `high`."""
    array: Any
    kind = numpy_type(_NAMES.get(dtype, dtype))
    # One in four has few binary digits, which reads well and adds up exactly.
    is_short = choices.draw(4) == 0
    seed = choices.draw(1 << 32)
    rng = f"numpy.random.default_rng({seed})"
    if kind.kind in "iub":
        low, high = _ends_of_integers(kind, low, high)
        array = numpy.random.default_rng(seed).integers(low, high, shape)
        code = f"{rng}.integers({low}, {high}, {shape})"
    else:
        low, high = (-1. if low is None else float(low),
                     1. if high is None else float(high))
        array = numpy.random.default_rng(seed).uniform(low, high, shape)
        code = f"{rng}.uniform({low}, {high}, {shape})"
        if is_short:
            array = numpy.clip(numpy.round(array * 4) / 4, low, high)
            code = f"numpy.clip(numpy.round({code} * 4) / 4, {low}, {high})"
    # Clipping a number makes it none of an array.
    array = numpy.asarray(array).astype(kind)
    code = f"numpy.asarray({code}).astype({kind.name!r})"
    changed = special and _with_special(choices, array)
    # The code that draws a tensor does not have an element that was changed.
    if changed or array.size <= _MOST_WRITTEN:
        code = literal(array)
    return DrawnTensor(array, code, requires_grad and is_float(kind))


def _ends_of_integers(kind, low, high):
    if kind.kind == "b":
        return 0, 2
    info = numpy.iinfo(kind)
    return (max(-10000, int(info.min)) if low is None else int(low),
            min(10001, int(info.max)) if high is None else int(high))


def _with_special(choices, array):
    """Makes one float special in a third of the cases, and says so."""
    if not is_float(array.dtype) or not array.size or choices.draw(3):
        return False
    place, which = choices.draw(array.size), choices.draw(len(_SPECIAL))
    with numpy.errstate(over="ignore"):
        array.flat[place] = _SPECIAL[which]
    return True


def literal(array: Any) -> str:
    """An array as Python that makes it, bit for bit."""
    if array.dtype.kind == "b":
        text = repr(array.tolist())
    else:
        # Floats with as many digits as they need, and no more.
        shown = array if array.dtype.kind in "iufc" else array.astype("float32")
        with numpy.printoptions(threshold=2 ** 62, floatmode="unique"):
            text = numpy.array2string(shown, separator=", ")
        text = text.replace("nan", "numpy.nan").replace("inf", "numpy.inf")
        text = re.sub(r"\s+(?=[,\]])|(?<=\[)\s+", "", " ".join(text.split()))
    if array.size == 0:
        return f"numpy.zeros({array.shape}, {array.dtype.name!r})"
    return f"numpy.array({text}, {array.dtype.name!r})"


def ask_for_gradient(tensor: Any, name: str) -> str:
    """Has a library keep the gradient of its tensor. Returns Python that does
    so with the tensor of that name; empty if the library has none."""
    for attribute, value in _WANT_GRADIENTS:
        if hasattr(tensor, attribute):
            if value is None:
                getattr(tensor, attribute)()
                return f"{name}.{attribute}()"
            setattr(tensor, attribute, value)
            return f"{name}.{attribute} = {value}"
    return ""


# Steps of a random float within its range.
_STEPS = 1 << 24
_ODDS = 1 << 16
# Optional[int], and int | None.
_UNIONS = (Union, getattr(types, "UnionType", Union))


class Nothing:  # pylint: disable=too-few-public-methods
    """The value of an argument that is not given at all."""


_Operation = Callable[[Any, Any], "Generator"]


def _arithmetic(function: Callable) -> tuple[_Operation, _Operation]:
    """Methods for an operator with the generator before and behind it."""
    return (lambda self, other: _Combined(function, self, other),
            lambda self, other: _Combined(function, other, self))


class Generator:
    """What every generator derives from; one of your own overrides calc(), and
    to() if it can make values of several types.

    >>> class Even(Generator):
    ...     def calc(self, choices):
    ...         return 2 * choices.draw(10)
    >>> both = dual(float, float)
    >>> @nodewise.autotest(n=5, seed=1)
    ... def test_even():
    ...     number = Even()
    ...     assert number.value() % 2 == 0
    ...     both(number + 1)
    >>> test_even()
    """

    def __init__(self, *children: Any):
        self.children = [pack(child) for child in children]

    def calc(self, choices: Choices) -> Any:
        """Draws a value."""
        raise NotImplementedError

    def value(self) -> Any:
        """Its value in the case that runs."""
        return case.current().value_of(self)

    def to(self, kind: Any) -> Generator:
        """Decides the type: int, float, bool, or a tuple of them. The first
        one to say so is right."""
        for child in self.children:
            child.to(kind)
        return self

    def wanted_as(self, kind: Any) -> None:
        """What the caller wants of it, as the signature of a function."""
        self.to(kind)

    def size(self) -> int:
        """How many alternatives it has, for the odds of `|`."""
        return 1

    def __or__(self, other: Any) -> Generator:
        other = pack(other)
        return oneof(self, other,
                     possibility=self.size() / (self.size() + other.size()))

    def __ror__(self, other: Any) -> Generator:
        return pack(other) | self

    __add__, __radd__ = _arithmetic(operator.add)
    __sub__, __rsub__ = _arithmetic(operator.sub)
    __mul__, __rmul__ = _arithmetic(operator.mul)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv)
    __floordiv__, __rfloordiv__ = _arithmetic(operator.floordiv)
    __mod__, __rmod__ = _arithmetic(operator.mod)

    def __neg__(self) -> Generator:
        return 0 - self


class _Combined(Generator):
    """Arithmetic of two generators."""

    def __init__(self, function: Any, a: Any, b: Any):
        super().__init__(a, b)
        self._function = function

    def calc(self, choices: Choices) -> Any:
        return self._function(*(child.value() for child in self.children))


class _Constant(Generator):
    def __init__(self, held: Any):
        super().__init__()
        self._held = held

    def calc(self, choices: Choices) -> Any:
        return self._held


class _Random(Generator):
    def __init__(self, low: Any, high: Any):
        super().__init__(low, high)
        self._kind: Any = None

    def to(self, kind: Any) -> Generator:
        if self._kind is None:
            self._kind = kind
        return super().to(kind)

    def calc(self, choices: Choices) -> Any:
        low, high = (child.value() for child in self.children)
        kind = self._kind
        if not _is_kind(kind):
            is_whole = isinstance(low, int) and isinstance(high, int)
            kind = int if is_whole else float
        return _number(choices, kind, low, high)


def _is_kind(kind: Any) -> bool:
    """Whether numbers of that type can be drawn."""
    if kind in (int, float, bool):
        return True
    if typing.get_origin(kind) in (*_UNIONS, tuple):
        return any(_is_kind(each) for each in typing.get_args(kind))
    return False


def _number(choices: Choices, kind: Any, low: Any, high: Any) -> Any:
    kinds = [each for each in typing.get_args(kind) if _is_kind(each)]
    if typing.get_origin(kind) in _UNIONS:
        chosen = kinds[choices.draw(len(kinds))]
        return _number(choices, chosen, low, high)
    if typing.get_origin(kind) is tuple:
        return tuple(_number(choices, each, low, high) for each in kinds)
    if kind is bool:
        return bool(choices.draw(2))
    if not low < high:
        raise ValueError(f"random({low}, {high}): is empty, expected a low "
                         "end that is below the high one")
    if kind is float:
        step = choices.draw(_STEPS)
        simplest = 0. if low <= 0 < high else float(low)
        return low + (high - low) * step / _STEPS if step else simplest
    first, end = math.ceil(low), math.ceil(high)
    if first >= end:
        raise ValueError(f"random({low}, {high}): holds no whole number, "
                         "expected .to(float), or other ends")
    return _nearest(choices.draw(end - first), first, end - 1)


def _nearest(i: int, first: int, last: int) -> int:
    """The i-th of the numbers from `first` to `last`, those near 0 first."""
    if first >= 0:
        return first + i
    if last <= 0:
        return last - i
    both = 2 * min(-first, last)  # On both sides of 0.
    if i <= both:
        return (i + 1) // 2 if i % 2 else -(i // 2)
    return i - both // 2 if last > -first else both // 2 - i


class _OneOf(Generator):
    def __init__(self, options: Sequence[Any], possibility: Any):
        super().__init__(*options)
        if not options:
            raise ValueError("oneof: has no options, expected one or more")
        if isinstance(possibility, (int, float)):
            possibility = [possibility, 1 - possibility]
        odds = possibility or [1 / len(options)] * len(options)
        if (len(odds) != len(options) or abs(sum(odds) - 1) > 1e-6 or
                min(odds) < 0):
            raise ValueError(f"oneof: has the possibilities {odds}, expected "
                             f"{len(options)} from 0 on that add up to 1")
        self._odds = odds

    def calc(self, choices: Choices) -> Any:
        drawn = choices.draw(_ODDS) / _ODDS
        for child, odds in zip(self.children, self._odds):
            if drawn < odds:
                return child.value()
            drawn -= odds
        return self.children[-1].value()

    def size(self) -> int:
        return sum(child.size() for child in self.children)


class _Tuple(Generator):
    def calc(self, choices: Choices) -> Any:
        return tuple(child.value() for child in self.children)


class RandomTensor(Generator):
    """What random_tensor() returns."""

    def __init__(self, ndim: Any, sides: dict[int, Any], kind: dict[str, Any]):
        super().__init__(ndim, *sides.values())
        self._sides = list(sides)
        self._kind = {name: pack(value) for name, value in kind.items()}

    def to(self, kind: Any) -> Generator:
        raise TypeError(f"random_tensor: has no .to({kind}), expected dtype=, "
                        "or DUAL.random_tensor(...).to(...)")

    def wanted_as(self, kind: Any) -> None:
        """What a function calls a tensor says nothing of its elements."""

    def calc(self, choices: Choices) -> DrawnTensor:
        ndim, *sides = (child.value() for child in self.children)
        given = dict(zip(self._sides, sides))
        shape = tuple(1 + choices.draw(7) if given.get(i) is None else
                      int(given[i]) for i in range(int(ndim)))
        if any(side < 0 for side in shape):
            raise ValueError(f"random_tensor: has the shape {shape}, expected "
                             "sides from 0 on")
        return drawn_tensor(choices, shape, **{
            name: value.value() for name, value in self._kind.items()})

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"random_tensor: has no {name} before it is drawn, expected it as "
            f"an argument, or DUAL.random_tensor(...).{name}")


def pack(value: Any) -> Generator:
    """The value itself if it is a generator, else one of it."""
    return value if isinstance(value, Generator) else _Constant(value)


def constant(value: Any) -> Generator:
    """One value in every case.

    >>> @nodewise.autotest(n=9, seed=1)
    ... def test_round():
    ...     both.round(constant(2.5))
    >>> test_round()
    """
    return _Constant(value)


def nothing() -> Generator:
    """Leaves the argument out.

    >>> @nodewise.autotest(n=9, seed=1)
    ... def test_round():
    ...     both.round(random_tensor(2), nothing())
    >>> test_round()
    """
    return _Constant(Nothing())


def random(low: Any = 1, high: Any = 6) -> Generator:
    """A number from `low` up to, but not including, `high`: of the type that
    .to() or the function's signature says, else whole unless an end is not.

    >>> @nodewise.autotest(n=9, seed=1)
    ... def test_ones():
    ...     rows = random(1, 4)
    ...     assert rows.value() in (1, 2, 3)
    ...     both.ones(rows)
    >>> test_ones()
    """
    return _Random(low, high)


def random_bool() -> Generator:
    """True or False.

    >>> @nodewise.autotest(n=9, seed=1)
    ... def test_sum():
    ...     both.sum(random_tensor(2), keepdims=random_bool())
    >>> test_sum()
    """
    return _Random(0, 2).to(bool)


def random_or_nothing(low: Any, high: Any) -> Generator:
    """A number in two of three cases, else nothing.

    >>> @nodewise.autotest(n=9, seed=1)
    ... def test_sum():
    ...     both.sum(random_tensor(2), axis=random_or_nothing(0, 2))
    >>> test_sum()
    """
    return oneof(nothing(), random(low, high), possibility=1 / 3)


def random_device(*devices: Any) -> Generator:
    """One of the devices that are named; "cpu" if none is.

    >>> @nodewise.autotest(n=9, seed=1)
    ... def test_asarray():
    ...     device = random_device("cpu")
    ...     both.asarray(random_tensor(2), device=device)
    >>> test_asarray()
    """
    return oneof(*(devices or ("cpu",)))


def oneof(*options: Any, possibility: Union[None, float, Sequence[float]] = None
          ) -> Generator:
    """One of several, each as likely as `possibility` says: that of the first
    of two, or one for each. The first counts as the simplest.

    >>> @nodewise.autotest(n=9, seed=1)
    ... def test_norm():
    ...     both.linalg.norm(random_tensor(2), oneof("fro", "nuc"))
    >>> test_norm()
    """
    return _OneOf(options, possibility)


def tuple_of(*elements: Any) -> Generator:
    """A tuple, each element drawn by itself.

    >>> @nodewise.autotest(n=9, seed=1)
    ... def test_zeros():
    ...     both.zeros(tuple_of(random(1, 4), 3))
    >>> test_zeros()
    """
    return _Tuple(*elements)


# pylint: disable-next=too-many-arguments,keyword-arg-before-vararg
def random_tensor(ndim: Any = None, *dims: Any, low: Any = None,
                  high: Any = None, dtype: Any = float,
                  requires_grad: Any = True, special: Any = False,
                  **sides: Any) -> RandomTensor:
    """A tensor of `ndim` sides (1 to 5).

    >>> @nodewise.autotest(n=9, seed=1)
    ... def test_sqrt():
    ...     x = random_tensor(ndim=2, dim1=4, low=0, high=1)
    ...     assert x.value().array.shape == (1, 4)
    ...     both.sqrt(x)
    >>> test_sqrt()

    dim0, dim1, ...: its sides; dim0 is 1 unless it is given, others are 1 to 7
    low, high: its numbers, from -1 to 1 unless given, integers from -10000
    dtype: float (float32), int (int64), bool, or the name of a type
    requires_grad: whether gradients are asked for, if it has floats
    special: in some cases some floats are NaN, infinite, -0, tiny or huge
    """
    numbered: dict[int, Any] = {0: 1, **dict(enumerate(dims))}
    for name, side in sides.items():
        if not (name.startswith("dim") and name[3:].isdigit()):
            raise TypeError(f"random_tensor: has the argument {name}=, "
                            "expected dim0=, dim1=, ...")
        numbered[int(name[3:])] = side
    rank: Optional[Any] = random(1, 6) if ndim is None else ndim
    return RandomTensor(rank, {i: pack(side).to(int)
                               for i, side in numbered.items()},
                        {"low": low, "high": high, "dtype": dtype,
                         "requires_grad": requires_grad, "special": special})
