"""Says where two structures of tensors are not close."""

from __future__ import annotations

import collections.abc
import dataclasses
from typing import Any, Optional

import numpy

from nodewise import _mismatch
from nodewise._arrays import array_of, dtype_name, is_tensor

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
    if _is(collections.abc.Mapping, actual, expected):
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


def _is(kind, *values):
    return all(isinstance(value, kind) for value in values)


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
    return _mismatch.described(what, _array(actual), _array(expected), allowed,
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
        return _mismatch.Tolerance(rtol, atol)
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
