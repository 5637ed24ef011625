"""Figures over a set of samples: how often the top class changes, and what a
function of the user's says."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from nodewise._arrays import array_of, is_tensor
from nodewise._errors import Error


def top1(candidate: Mapping[str, Any], reference: Mapping[str, Any], *,
         output: str | None = None, axis: int = -1) -> Any:
    """A metric for compare_samples(): whether the class with the largest
    number is another than the reference's, for each row of the output.

    The first of equal numbers counts, as numpy.argmax has it. With
    functools.partial(nodewise.top1, output="logits", axis=1) it is asked of
    that output, and along that side.

    >>> reference = {"logits": numpy.array([[0.5, 0.1], [0.2, 0.9]])}
    >>> candidate = {"logits": numpy.array([[0.3, 0.4], [0.1, 0.7]])}
    >>> nodewise.top1(candidate, reference).tolist()
    [True, False]
    """
    if output is None:
        if len(reference) != 1:
            raise Error([f"top1: the outputs are {', '.join(reference)}, "
                         "expected one, or which it is asked of "
                         "(functools.partial(nodewise.top1, output=NAME))"])
        output = next(iter(reference))
    if output not in reference or output not in candidate:
        raise Error([f"top1: asks for the output {output}, expected one of "
                     f"{', '.join(reference)}"])
    found, wanted = array_of(candidate[output]), array_of(reference[output])
    if found.shape != wanted.shape:
        raise Error([f"top1: {output} is {list(found.shape)}, expected "
                     f"{list(wanted.shape)} as the reference has it"])
    if not -found.ndim <= axis < found.ndim or found.shape[axis] < 2:
        raise Error([f"top1: {output} is {list(found.shape)}, expected two "
                     f"classes or more along the side {axis} (axis=)"])
    # argmax returns the place of a NaN, which is not a class.
    lost = (numpy.isnan(found).any(axis) & ~numpy.isnan(wanted).any(axis)
            if found.dtype.kind not in "biu" else False)
    return (found.argmax(axis) != wanted.argmax(axis)) | lost


@dataclasses.dataclass(frozen=True)
class Metric:  # pylint: disable=too-many-instance-attributes
    """What a metric has said over all samples.

    `value` is its mean, which for what is true or false is the share that is
    true; `most` is what that may be, None if it is not judged. `true_count`
    counts rows of batches, `elements` all of them. Samples are numbered from
    0; `first` is None where the metric was 0 or false in all of them.

    >>> def turned(sample):
    ...     return {"y": sample["y"][::-1]}
    >>> answer = nodewise.compare_samples(
    ...     turned, dict, [{"y": numpy.array([2.0, 2.0])},
    ...                    {"y": numpy.array([2.0, 3.0])}],
    ...     metric=nodewise.top1)
    >>> metric = answer.metrics[0]
    >>> metric.true_count, metric.first, metric.value
    (1, 1, 0.5)
    """

    name: str
    value: float
    most: float | None
    true_count: int | None
    elements: int
    first: int | None
    worst: int
    worst_value: float

    @property
    def is_wrong(self) -> bool:
        """Whether it is judged, and beyond what it may be."""
        return self.most is not None and not self.value <= self.most

    def said(self, samples: int) -> str:
        """It in words."""
        if self.true_count is None:
            # The figure of what may be infinite or NaN is as good as any.
            limit = "" if self.most is None else f" ({self.most:g} allowed)"
            return (f"{self.name} is {self.value:.3g} on average{limit}, "
                    f"{self.worst_value:.3g} in sample {self.worst}")
        verb = f"{self.name} is true"
        if self.name.startswith("top1"):
            verb = "the top class changes" + self.name.removeprefix("top1")
        whole = f"{samples} samples" if self.elements == samples else (
            f"{self.elements} rows")
        if self.first is None:
            return f"{verb} in none of {whole}"
        limit = f" ({100 * self.most:.3g} % allowed)" if self.most else ""
        return (f"{verb} in {self.true_count} of {whole}{limit}, first in "
                f"sample {self.first}")


class Tally:  # pylint: disable=too-many-instance-attributes
    """Adds up what one metric says of sample after sample."""

    def __init__(self, function: Callable[..., Any], most: float | None):
        self.name = _name_of(function)
        self._function = function
        self._most = most
        self._takes_sample = _takes_three(function)
        self._kind = ""
        self._total, self._elements = 0., 0
        self._first: int | None = None
        self._worst, self._worst_value = 0, -math.inf

    def add(self, number: int, candidate: Mapping[str, Any],
            reference: Mapping[str, Any], sample: Mapping[str, Any]) -> float:
        """Asks it of a sample, and returns the mean of what it says."""
        more = (sample,) if self._takes_sample else ()
        said = self._function(candidate, reference, *more)
        values = array_of(said) if is_tensor(said) else numpy.asarray(said)
        kind = "b" if values.dtype.kind == "b" else "number"
        if values.size == 0 or values.dtype.kind not in "biuf":
            raise Error([f"{self.name}: returned {said!r}, expected a number, "
                         "True or False, or an array of these"])
        if self._kind not in ("", kind):
            raise Error([f"{self.name}: returned {said!r}, expected the same "
                         "kind of value for each sample: numbers, or True and "
                         "False"])
        self._kind = kind
        values = values.astype(numpy.float64)
        mean = float(values.mean())
        self._total += float(values.sum())
        self._elements += values.size
        if mean != 0 and self._first is None:
            self._first = number
        # A mean that is NaN is worse than any number.
        weight = math.inf if math.isnan(mean) else abs(mean)
        if weight > self._worst_value:
            self._worst, self._worst_value = number, weight
        return mean

    def metric(self) -> Metric:
        """What it has said of all samples."""
        is_bool = self._kind == "b"
        most = 0. if is_bool and self._most is None else self._most
        return Metric(self.name, self._total / self._elements, most,
                      round(self._total) if is_bool else None, self._elements,
                      self._first, self._worst, self._worst_value)


def tallies_of(metric: Any) -> list[Tally]:
    """Those of what compare_samples() is given: a function, a pair of one and
    what its mean may be, or a list of both."""
    if metric is None:
        return []
    each = metric if isinstance(metric, list) else [metric]
    tallies = [_tally_of(one) for one in each]
    names = [tally.name for tally in tallies]
    if len(set(names)) != len(names):
        raise Error([f"metric: has the names {', '.join(names)}, expected "
                     "names that are all different"])
    return tallies


def _tally_of(metric: Any) -> Tally:
    if callable(metric):
        return Tally(metric, None)
    if (isinstance(metric, Sequence) and len(metric) == 2 and
            callable(metric[0]) and isinstance(metric[1], (int, float))):
        return Tally(metric[0], float(metric[1]))
    raise Error([f"metric: is {metric!r}, expected a function of (candidate, "
                 "reference), a pair (function, MOST), or a list of these"])


def _name_of(function: Callable[..., Any]) -> str:
    if isinstance(function, functools.partial):
        said = [f"{key}={value}" for key, value in function.keywords.items()]
        name = _name_of(function.func)
        return f"{name}({', '.join(said)})" if said else name
    return getattr(function, "__name__", type(function).__name__)


def _takes_three(function: Callable[..., Any]) -> bool:
    """Whether it wants the sample, too, as what knows labels does."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # It is not written in Python.
        return False
    needed = [each for each in parameters if each.default is each.empty and
              each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return len(needed) >= 3
