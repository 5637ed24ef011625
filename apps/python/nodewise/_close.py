"""Says where two structures of tensors are not close."""

from __future__ import annotations

import collections.abc
import dataclasses
from typing import Any, Optional, Union

import numpy

from nodewise._arrays import array_of, dtype_name, is_tensor

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


# By element type, as the table of torch.testing.assert_close.
_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5), "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7)}
# What numbers of Python are as elements.
_NUMBERS = {bool: "bool", int: "int64", float: "float64",
            complex: "complex128"}
_MOST_PLACES = 10


@dataclasses.dataclass(frozen=True)
class Options:
    """How to compare; assert_close() says what each is for."""

    rtol: Optional[float] = None
    atol: Optional[float] = None
    equal_nan: bool = False
    check_device: bool = True
    check_dtype: bool = True
    check_stride: bool = False
    # Whether rtol and atol are for floats alone, and integers must be equal.
    are_integers_exact: bool = False

    def check(self, bound: Any) -> None:
        """Raises ValueError for options that contradict each other."""
        if (self.rtol is None) != (self.atol is None):
            given = "atol" if self.rtol is None else "rtol"
            lacks = "rtol" if self.rtol is None else "atol"
            raise ValueError(f"{lacks}: is missing, expected both {lacks}= and "
                             f"{given}=, or neither")
        if bound is not None and self.rtol is not None:
            raise ValueError("bound: is given beside rtol and atol, expected "
                             "one of both ways to say what is allowed")
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is not None and not value >= 0:
                raise ValueError(f"{name}: is {value}, expected a number from "
                                 "0 on")


def difference(actual: Any, expected: Any, bound: Any,
               options: Options) -> str:
    """What the first place that differs says, with the names of the others;
    empty if all is close."""
    found = list(_differences(actual, expected, bound, options, ()))
    if not found:
        return ""
    said, place = found[0]
    if place:
        said += f"\n\nThe failure occurred for item {_name(place)}"
    others = [_name(place) for _, place in found[1:]]
    if others:
        shown = ", ".join(others[:_MOST_PLACES])
        more = len(others) - _MOST_PLACES
        said += f"\nNot close either: {shown}" + (
            f" and {more} more" if more > 0 else "")
    return said


def _name(place):
    return "".join(f"[{key!r}]" for key in place)


def _differences(actual, expected, bound, options, place):
    """Yields (what is said, place) of each place that differs."""
    if all(isinstance(each, collections.abc.Mapping)
           for each in (actual, expected)):
        yield from _of_mappings(actual, expected, bound, options, place)
    elif _is_sequence(actual) and _is_sequence(expected):
        yield from _of_sequences(actual, expected, bound, options, place)
    elif actual is None or expected is None:
        if actual is not expected:
            yield (f"None mismatch: {_kind(actual)}, expected "
                   f"{_kind(expected)}", place)
    else:
        said = _of_values(actual, expected, bound, options, place)
        if said:
            yield said, place


def _is_sequence(value):
    return (isinstance(value, collections.abc.Sequence) and
            not isinstance(value, (str, bytes)) and not is_tensor(value))


def _of_mappings(actual, expected, bound, options, place):
    lacks = [key for key in expected if key not in actual]
    added = [key for key in actual if key not in expected]
    if lacks or added:
        yield ("The keys of the mappings do not match: "
               f"missing {lacks}, not expected {added}", place)
    for key in expected:
        if key in actual:
            yield from _differences(
                actual[key], expected[key], _bound_at(bound, key, place),
                options, (*place, key))


def _of_sequences(actual, expected, bound, options, place):
    if len(actual) != len(expected):
        yield ("The lengths of the sequences do not match: "
               f"{len(actual)}, expected {len(expected)}", place)
        return
    if _is_sequence(bound) and len(bound) != len(expected):
        raise ValueError(f"bound{_name(place)}: has {len(bound)} elements, "
                         f"expected {len(expected)}")
    for i, pair in enumerate(zip(actual, expected)):
        here = bound[i] if _is_sequence(bound) else bound
        yield from _differences(*pair, here, options, (*place, i))


def _bound_at(bound, key, place):
    if not isinstance(bound, collections.abc.Mapping):
        return bound
    if key not in bound:
        raise ValueError(f"bound{_name(place)}: has no {key!r}, expected the "
                         "keys of what is expected")
    return bound[key]


def _kind(value):
    return repr(value) if value is None else f"a {type(value).__name__}"


def _is_number(value):
    return isinstance(value, tuple(_NUMBERS))


def _of_values(actual, expected, bound, options, place):
    """Says how two tensors or numbers differ; empty if they are close."""
    for value in (actual, expected):
        if not is_tensor(value) and not _is_number(value):
            raise TypeError(
                f"{_name(place) or 'assert_close'}: is a "
                f"{type(actual).__name__}, expected a "
                f"{type(expected).__name__}; what can be compared are tensors "
                "(__array__ or __dlpack__), numbers, None, and mappings and "
                "sequences of these")
    said = _of_attributes(actual, expected, options)
    if said:
        return said
    dtypes = [_dtype(value) for value in (actual, expected)]
    allowed = _allowed(expected, bound, dtypes, options, place)
    what = ("Scalars" if _is_number(actual) and _is_number(expected)
            else "Tensor-likes")
    return described(what, _array(actual), _array(expected), allowed,
                               options.equal_nan)


def _of_attributes(actual, expected, options):
    """What shape, element type, device and strides say."""
    pairs = [("shape", lambda value: _array(value).shape)]
    if options.check_dtype:
        pairs.append(("dtype", _dtype))
    if options.check_device:
        pairs.append(("device", _device))
    if options.check_stride:
        pairs.append(("stride", _stride))
    for name, of in pairs:
        found, wanted = of(actual), of(expected)
        if found != wanted and None not in (found, wanted):
            return (f"The values for attribute {name!r} do not match: {found}, "
                    f"expected {wanted}")
    return ""


def _array(value):
    return array_of(value) if is_tensor(value) else numpy.asarray(
        value, _NUMBERS[type(value)] if type(value) in _NUMBERS else None)


def _dtype(value):
    if is_tensor(value):
        return dtype_name(value)
    return next(name for kind, name in _NUMBERS.items()
                if isinstance(value, kind))


def _device(value):
    """(device type, number) as DLPack numbers them; None if it is not said."""
    try:
        kind, number = value.__dlpack_device__()
    except (AttributeError, TypeError, ValueError, RuntimeError,
            BufferError, NotImplementedError):
        return None
    return int(kind), int(number)


def _stride(value):
    """In elements; None for what has none."""
    if callable(getattr(value, "stride", None)):
        return tuple(value.stride())
    if isinstance(value, numpy.ndarray):
        return tuple(step // value.itemsize for step in value.strides)
    return None


def tolerance_of(*dtypes: str) -> tuple[float, float]:
    """rtol and atol of what has these element types: the wider ones."""
    pairs = [_TOLERANCES.get(dtype, (0., 0.)) for dtype in dtypes]
    return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


def _allowed(expected, bound, dtypes, options, place):
    """What each element may be off by."""
    if bound is None:
        rtol, atol = options.rtol, options.atol
        if rtol is None:
            rtol, atol = tolerance_of(*dtypes)
        elif options.are_integers_exact and all(
                dtype.startswith(("int", "uint", "bool")) for dtype in dtypes):
            rtol, atol = 0., 0.
        return Tolerance(rtol, atol)
    where = f"bound{_name(place)}"
    array = numpy.asarray(_array(bound) if is_tensor(bound) else bound,
                          numpy.float64)
    if not (array >= 0).all():
        raise ValueError(f"{where}: has elements that are negative or NaN, "
                         "expected numbers from 0 on")
    shape = _array(expected).shape
    try:
        return numpy.broadcast_to(array, shape)
    except ValueError as error:
        raise ValueError(f"{where}: has the shape {array.shape}, expected one "
                         f"that fits {shape}") from error
