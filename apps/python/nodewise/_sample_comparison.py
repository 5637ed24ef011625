"""What compare_samples() judges by, and what it found out: how far outputs may
be off, figures over all samples, and the answer as plain values."""

from __future__ import annotations

import dataclasses
import functools
import html
import inspect
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from nodewise import _close
from nodewise._arrays import array_of, dtype_name, is_tensor
from nodewise._errors import Error, WrongResult

if TYPE_CHECKING:
    import pandas

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
            a, e = _close.exactly(found), _close.exactly(wanted)
            off = numpy.asarray(_close.off_by(a, e), numpy.float64)
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
            return atol + rtol * _close.size_of(expected)
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


@dataclasses.dataclass(frozen=True)
class OutputComparison:  # pylint: disable=too-many-instance-attributes
    """How far one output is off over all samples, which are numbered from 0.

    `of_tolerance` is the largest error as a multiple of what was allowed
    there, in the sample `worst`. `is_judged` is false where only metrics
    judge.

    >>> answer = nodewise.compare_samples(
    ...     lambda sample: {"y": sample["y"] + 0.5}, dict,
    ...     [{"y": numpy.zeros(3)}], tolerance=0.25)
    >>> output = answer.outputs[0]
    >>> output.max_error, output.of_tolerance, output.wrong_samples
    (0.5, 2.0, 1)
    """

    name: str
    max_error: float
    mean_error: float
    of_tolerance: float
    worst: int
    wrong_samples: int
    first_wrong: int | None
    is_judged: bool

    @property
    def is_wrong(self) -> bool:
        """Whether it is judged, and beyond its tolerance in a sample."""
        return self.is_judged and self.wrong_samples > 0

    def said(self, samples: int) -> str:
        """It in words."""
        off = f"off by {self.max_error:.3g} at most"
        if not self.is_wrong:
            return f"{self.name} is {off}"
        times = ("" if self.of_tolerance == float("inf") else
                 f", {self.of_tolerance:.3g} times what is allowed")
        return (f"{self.name} is beyond its tolerance in {self.wrong_samples} "
                f"of {samples} samples, first in sample {self.first_wrong} and "
                f"most in sample {self.worst} ({off}{times})")


class OutputErrors:
    """Collects the errors of one output, sample after sample."""

    def __init__(self, name: str):
        self.name = name
        self.largest, self.mean = array("d"), array("d")
        self.of_tolerance = array("d")
        self._total, self._elements = 0., 0

    def __len__(self) -> int:
        return len(self.largest)

    def add(self, apart: Distance) -> None:
        """Adds those of the next sample."""
        self.largest.append(apart.largest)
        self.mean.append(apart.total / max(apart.elements, 1))
        self.of_tolerance.append(apart.of_tolerance)
        self._total += apart.total
        self._elements += apart.elements

    def comparison(self, is_judged: bool) -> OutputComparison:
        """What they come to."""
        wrong = [i for i, share in enumerate(self.of_tolerance) if share > 1]
        worst = max(range(len(self)), key=lambda i: (
            self.of_tolerance[i], self.largest[i], -i))
        return OutputComparison(
            self.name, max(self.largest), self._total / max(self._elements, 1),
            self.of_tolerance[worst], worst, len(wrong),
            wrong[0] if wrong else None, is_judged)


@dataclasses.dataclass(frozen=True)
class SampleComparison:  # pylint: disable=too-many-instance-attributes
    """What compare_samples() found out. Samples are numbered from 0.

    `worst_inputs` are the inputs of the worst sample, to be handed on:
    nodewise.locate(candidate, reference=model, inputs=answer.worst_inputs).

    >>> def reference(sample):
    ...     return {"y": sample["x"]}
    >>> def candidate(sample):
    ...     return {"y": sample["x"].astype("float16")}
    >>> answer = nodewise.compare_samples(
    ...     candidate, reference, [{"x": numpy.array([1.0, 2049.0])}],
    ...     rtol=1e-4, atol=0)
    >>> answer.is_wrong, answer.worst_inputs
    (True, {'x': array([1.000e+00, 2.049e+03])})
    >>> answer.outputs[0].max_error
    1.0
    """

    candidate: str
    reference: str
    samples: int
    outputs: tuple[OutputComparison, ...]
    metrics: tuple[Metric, ...]
    worst_sample: int
    worst_inputs: dict[str, Any] = dataclasses.field(repr=False, compare=False)
    notes: tuple[str, ...]
    # The table, column by column.
    columns: dict[str, Any] = dataclasses.field(repr=False, compare=False)

    @property
    def is_wrong(self) -> bool:
        """Whether an output or a metric is beyond what it may be."""
        return bool(self._wrong())

    def _wrong(self) -> list[Metric | OutputComparison]:
        return [*(each for each in self.metrics if each.is_wrong),
                *(each for each in self.outputs if each.is_wrong)]

    @property
    def status(self) -> str:
        """"ok", or "differs" if something is wrong."""
        return "differs" if self.is_wrong else "ok"

    @property
    def said(self) -> str:
        """The answer in one sentence: what is wrong, else how far both are
        apart."""
        chosen = self._wrong() or [*self.outputs, *self.metrics]
        clauses = "; ".join(one.said(self.samples) for one in chosen)
        if self.is_wrong:
            return f"{self.candidate} differs from {self.reference}: {clauses}."
        count = ("1 sample" if self.samples == 1 else
                 f"{self.samples} samples")
        return (f"{self.candidate} matches {self.reference} on {count}: "
                f"{clauses}.")

    def raise_if_wrong(self) -> SampleComparison:
        """Raises WrongResult if something is wrong; else returns itself."""
        if self.is_wrong:
            raise WrongResult([self.said], None, self)
        return self

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each sample and output, as a pandas.DataFrame."""
        import pandas  # pylint: disable=import-outside-toplevel
        return pandas.DataFrame(self.columns)

    def __str__(self) -> str:
        return "\n".join([self.said, *self.notes])

    def _repr_html_(self) -> str:
        color = "#b00020" if self.is_wrong else "#1b5e20"
        rows = [("output", "largest error", "mean error", "of its tolerance",
                 "wrong samples", "worst sample")]
        rows += [(each.name, f"{each.max_error:.3g}", f"{each.mean_error:.3g}",
                  f"{each.of_tolerance:.3g}",
                  f"{each.wrong_samples} of {self.samples}", str(each.worst))
                 for each in self.outputs]
        cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row)
                 for row in rows]
        head = cells[0].replace("td>", "th>")
        table = "".join(f"<tr>{row}</tr>" for row in [head, *cells[1:]])
        lines = [each.said(self.samples) for each in self.metrics]
        more = "".join(f"<p>{html.escape(line)}</p>"
                       for line in [*lines, *self.notes])
        return (f'<div><p style="color:{color};font-weight:bold">'
                f"{html.escape(self.said)}</p><table>{table}</table>{more}"
                "</div>")
