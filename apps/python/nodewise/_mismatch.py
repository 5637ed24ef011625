"""What the elements of two arrays that are not close say."""

from __future__ import annotations

import dataclasses
from typing import Any, Union

import numpy


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """An element may be off by atol + rtol * |expected|."""

    rtol: float
    atol: float


def described(what: str, actual: Any, expected: Any,
              allowed: Union[Tolerance, Any], equal_nan: bool) -> str:
    """The message; empty if all elements are close.

    `allowed` is a Tolerance, or an array of what each element may be off by.
    """
    if actual.size == 0:
        return ""
    with numpy.errstate(all="ignore"):
        a, e = exactly(actual), exactly(expected)
        limit: Any = allowed
        if isinstance(allowed, Tolerance):
            limit = allowed.atol + allowed.rtol * size_of(e)
        off = off_by(a, e)
        both_finite = numpy.isfinite(a) & numpy.isfinite(e)
        is_close = (a == e) | (both_finite & (off <= limit))
        if equal_nan:
            is_close |= numpy.isnan(a) & numpy.isnan(e)
        if is_close.all():
            return ""
        wrong = numpy.flatnonzero(~is_close)
        return "\n".join(_lines(what, _Pair(
            a.ravel()[wrong], e.ravel()[wrong],
            numpy.broadcast_to(limit, a.shape).ravel()[wrong],
            wrong, actual.shape, allowed)))


@dataclasses.dataclass(frozen=True)
class _Pair:
    """The elements that are not close, their numbers in the whole, and what
    they may be off by."""

    actual: Any
    expected: Any
    limit: Any
    numbers: Any
    shape: tuple
    allowed: Any

    def place(self, i):
        index = numpy.unravel_index(self.numbers[i], self.shape)
        return tuple(int(side) for side in index)


def exactly(array: Any) -> Any:
    """The array in a type that holds its values and can compute with them."""
    if array.dtype.kind == "b":
        return array.astype(numpy.uint8)
    if array.dtype.kind in "iuc":
        return array
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array
    try:
        return array.astype(numpy.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"elements: are {array.dtype}, expected numbers"
                        ) from error


def off_by(a: Any, e: Any) -> Any:
    """How far apart the elements are."""
    if a.dtype.kind in "iu" and a.dtype == e.dtype:
        # The difference of two integers can be larger than their type.
        return (numpy.maximum(a, e).astype(numpy.uint64) -
                numpy.minimum(a, e).astype(numpy.uint64))
    return numpy.abs(a - e)


def size_of(e: Any) -> Any:
    """How large the elements are."""
    return numpy.abs(e.astype(numpy.float64) if e.dtype.kind in "iu" else e)


def _lines(what, pair):
    total = int(numpy.prod(pair.shape))
    count = len(pair.numbers)
    must_equal = (isinstance(pair.allowed, Tolerance) and
                  pair.allowed == Tolerance(0, 0))
    yield f"{what} are not {'equal' if must_equal else 'close'}!"
    yield ""
    if pair.shape:
        yield f"Mismatched elements: {count} / {total} ({count / total:.1%})"
    finite = numpy.flatnonzero(numpy.isfinite(pair.actual) &
                               numpy.isfinite(pair.expected))
    if finite.size:
        yield from _finite_lines(pair, finite, must_equal)
    yield from _special_lines(pair)


# pylint: disable-next=too-many-locals
def _finite_lines(pair, finite, must_equal):
    """The worst elements of those that are numbers."""
    a, e = pair.actual[finite], pair.expected[finite]
    off = off_by(a, e)
    # The limit may differ from element to element: the worst is the one that
    # exceeds it most, then the one that is off most, then the first.
    excess = off / numpy.maximum(pair.limit[finite], numpy.finfo(float).tiny)
    worst = numpy.lexsort((-finite, off, excess))[-1]
    found, wanted = telling_apart(a[worst], e[worst])
    i = finite[worst]
    said = "" if must_equal else f" ({pair.limit[i]:.6g} allowed)"
    yield (f"Worst element{_at(pair, i)}: {found}, expected {wanted}, off by "
           f"{_number(off[worst])}{said}")
    size = size_of(e)
    relative = numpy.where(size == 0, numpy.inf, off / size)
    for name, values, key in (("absolute", off, "atol"),
                              ("relative", relative, "rtol")):
        most = numpy.argmax(values)
        said = ""
        if isinstance(pair.allowed, Tolerance) and not must_equal:
            said = f" (up to {getattr(pair.allowed, key):.6g} allowed)"
        yield (f"Greatest {name} difference: {_number(values[most])}"
               f"{_at(pair, finite[most])}{said}")


def _special_lines(pair):
    """NaN and infinities that are not where they are expected."""
    kinds = (("NaN", numpy.isnan), ("infinity", numpy.isinf))
    for name, test in kinds:
        found = numpy.flatnonzero(test(pair.actual))
        if found.size:
            yield (f"{name} found: {_times(found)}, first"
                   f"{_at(pair, found[0])}, where "
                   f"{_number(pair.expected[found[0]])} is expected")
    for name, test in kinds:
        lacks = numpy.flatnonzero(test(pair.expected) &
                                  numpy.isfinite(pair.actual))
        if lacks.size:
            yield (f"{name} expected: {_times(lacks)}, first"
                   f"{_at(pair, lacks[0])}, where "
                   f"{_number(pair.actual[lacks[0]])} is found")


def _at(pair, i):
    return f" at index {pair.place(i)}" if pair.shape else ""


def _times(found):
    return "1 element" if found.size == 1 else f"{found.size} elements"


def telling_apart(found: Any, expected: Any) -> tuple[str, str]:
    """Both values with as many digits as tell them apart, and six at least."""
    if found.dtype.kind in "iu":
        return str(found), str(expected)
    for digits in range(6, 22):
        texts = f"{found:.{digits}g}", f"{expected:.{digits}g}"
        if texts[0] != texts[1]:
            return texts
    return str(found), str(expected)


def _number(value):
    if value.dtype.kind in "iu":
        return str(value)
    return f"{value:.6g}"
