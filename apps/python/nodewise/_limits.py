"""How far two outputs are apart, and how far they may be."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from nodewise import _close, _mismatch
from nodewise._arrays import array_of, dtype_name, is_tensor
from nodewise._errors import Error

_FORMS = ("a number or an array, a dict of rtol and atol, a function of "
          "(candidate, reference), or a pair (function, MOST)")


@dataclasses.dataclass(frozen=True)
class Distance:
    """How far an output of one sample is from the reference's.

    `of_tolerance` is the largest error as a multiple of what was allowed
    there; beyond 1 it is wrong.
    """

    largest: float
    total: float
    elements: int
    of_tolerance: float


class Limits:
    """What each output may be off by, as compare_samples() is told."""

    def __init__(self, tolerance: Any, rtol: float | None, atol: float | None):
        self._options = _close.Options(rtol=rtol, atol=atol)
        self._options.check(None)
        if tolerance is not None and rtol is not None:
            raise Error(["tolerance: is given beside rtol and atol, expected "
                         "one of both ways to say what is allowed"])
        self._is_by_name = isinstance(tolerance, Mapping) and not (
            _is_pair_of_tolerances(tolerance))
        self._given = tolerance

    def check_names(self, outputs: list[str]) -> None:
        """Raises an Error for a tolerance of what is not an output."""
        if not self._is_by_name:
            return
        unknown = [name for name in self._given if name not in outputs]
        if unknown:
            raise Error([f"tolerance: names {', '.join(map(str, unknown))}, "
                         f"expected names of outputs ({', '.join(outputs)})"])

    def distance(self, output: str, candidate: Any,
                 reference: Any) -> Distance:
        """How far the candidate's output is from the reference's."""
        found, wanted = array_of(candidate), array_of(reference)
        given = self._given.get(output) if self._is_by_name else self._given
        place = f"tolerance[{output!r}]" if self._is_by_name else "tolerance"
        if found.shape != wanted.shape:
            # Only a function can say how far these are apart.
            apart = Distance(math.inf, math.inf, 1, math.inf)
        else:
            apart = self._by_element(place, candidate, reference,
                                     None if _judge_of(given) else given)
        judge = _judge_of(given)
        if judge is None:
            return apart
        return dataclasses.replace(
            apart, of_tolerance=_judged(place, *judge, found, wanted))

    def _by_element(self, place: str, candidate: Any, reference: Any,
                    given: Any) -> Distance:
        found, wanted = array_of(candidate), array_of(reference)
        if found.size == 0:
            return Distance(0., 0., 0, 0.)
        with numpy.errstate(all="ignore"):
            a, e = _mismatch.exactly(found), _mismatch.exactly(wanted)
            off = numpy.asarray(_mismatch.off_by(a, e), numpy.float64)
            # An infinity that both have, and NaN where NaN is expected, are
            # not a difference; what only one side has is as far off as can be.
            off = numpy.where((a == e) | (numpy.isnan(a) & numpy.isnan(e)), 0.,
                              numpy.where(numpy.isnan(off), math.inf, off))
            allowed = self._allowed(place, given, candidate, reference, e)
            share = numpy.where(off == 0, 0., off / allowed)
            # An infinite error, and infinity allowed.
            share = numpy.where(numpy.isnan(share), math.inf, share)
        return Distance(float(off.max()), float(off.sum()), off.size,
                        float(share.max()))

    def _allowed(self, place: str, given: Any, candidate: Any, reference: Any,
                 expected: Any) -> Any:
        """What each element may be off by."""
        if given is None or _is_pair_of_tolerances(given):
            rtol, atol = self._options.rtol, self._options.atol
            if given is not None:
                rtol, atol = given.get("rtol", 0.), given.get("atol", 0.)
            elif rtol is None or atol is None:
                rtol, atol = _close.tolerance_of(dtype_name(candidate),
                                                 dtype_name(reference))
            return atol + rtol * _mismatch.size_of(expected)
        try:
            bound = numpy.asarray(array_of(given) if is_tensor(given)
                                  else given, numpy.float64)
            allowed = numpy.broadcast_to(bound, expected.shape)
        except (TypeError, ValueError) as error:
            raise Error([f"{place}: is {given!r}, expected {_FORMS} "
                         f"({error})"]) from error
        if not (allowed >= 0).all():
            raise Error([f"{place}: has elements that are negative or NaN, "
                         "expected numbers from 0 on"])
        return allowed


def _is_pair_of_tolerances(value: Any) -> bool:
    return (isinstance(value, Mapping) and len(value) > 0 and
            set(value) <= {"rtol", "atol"} and
            all(isinstance(each, (int, float)) for each in value.values()))


def _judge_of(given: Any) -> tuple[Callable[..., Any], float | None] | None:
    """The function that judges, and the most that it may return."""
    if callable(given) and not is_tensor(given):
        return given, None
    if isinstance(given, tuple) and len(given) == 2 and callable(given[0]):
        return given
    return None


def _judged(place: str, function: Callable[..., Any], most: float | None,
            found: Any, wanted: Any) -> float:
    """What a function of the user's says, as a multiple of what it may."""
    said = function(found, wanted)
    value = array_of(said) if is_tensor(said) else numpy.asarray(said)
    name = getattr(function, "__name__", "the function")
    if value.size != 1 or value.dtype.kind not in "biuf":
        raise Error([f"{place}: {name} returned {said!r}, expected whether the "
                     "candidate is close enough, or its error"])
    if value.dtype.kind == "b":
        if most is not None:
            raise Error([f"{place}: {name} returned {said!r}, expected a "
                         f"number that may be {most} at most"])
        return 0. if value.item() else math.inf
    if most is None:
        raise Error([f"{place}: {name} returned {said!r}, expected True or "
                     f"False, or the most that it may be: ({name}, MOST)"])
    error = float(value.item())
    if math.isnan(error) or most <= 0:
        return 0. if error <= most else math.inf
    return error / most
