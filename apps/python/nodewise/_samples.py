"""Compares two sides over many samples, one at a time."""

from __future__ import annotations

import contextlib
import itertools
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy

from nodewise import _runner
from nodewise._arrays import array_of, is_tensor
from nodewise._errors import Error
from nodewise._sample_comparison import (Limits, OutputErrors,
                                         SampleComparison, Tally, tallies_of)

if TYPE_CHECKING:
    from nodewise._session import Session
    from nodewise._types import Target

    Side = Target | Session | Callable[..., Any]


# pylint: disable-next=too-many-arguments
def compare_samples(candidate: Side, reference: Side,
                    inputs: Iterable[Mapping[str, Any]], *,
                    tolerance: Any = None, rtol: float | None = None,
                    atol: float | None = None, metric: Any = None,
                    limit: int | None = None) -> SampleComparison:
    """Runs both sides on each sample of a data set, and says how far apart
    they are: output by output, and by metrics.

    >>> def reference(sample):
    ...     return {"y": numpy.array([sample["x"], 2.0])}
    >>> def candidate(sample):
    ...     return {"y": numpy.array([sample["x"], 2.0]) * 1.25}
    >>> answer = nodewise.compare_samples(
    ...     candidate, reference, ({"x": i / 2} for i in range(3)),
    ...     tolerance=0.5, metric=nodewise.top1)
    >>> print(answer.said)
    candidate matches reference on 3 samples: y is off by 0.5 at most; \
the top class changes in none of 3 samples.

    candidate, reference: functions of a dict of arrays, sessions of
        nodewise.load(), nodewise.runner(), or what load() takes
    inputs: the samples: dicts of arrays by the names of inputs. They are taken
        one after the other, and none is kept but the inputs of the worst one
    tolerance: what the elements of an output may be off by: a number, an array,
        {"rtol": 1e-3, "atol": 1e-5}, a function of (candidate, reference) that
        says whether they are close, or (function, MOST) of one that returns an
        error; or a dict of these by the names of outputs. What is not said is
        as in nodewise.testing.assert_close(), but that element types may
        differ, and NaN is equal to NaN
    rtol, atol: in the place of `tolerance`, for all outputs
    metric: nodewise.top1, or a function of (candidate, reference) or of
        (candidate, reference, sample), all of them dicts, that returns a
        number, or True where something is wrong, or an array of these for a
        batch; or (function, MOST) with what the mean may be, or a list. If
        there is a metric and no tolerance, the metric alone judges
    limit: how many samples are taken at most
    """
    limits = Limits(tolerance, rtol, atol)
    judges_outputs = not (metric is not None and tolerance is None and
                          rtol is None)
    with contextlib.ExitStack() as stack:
        sides = (_runner.opened("candidate", candidate, stack),
                 _runner.opened("reference", reference, stack))
        run = _Comparing(sides, limits, tallies_of(metric), judges_outputs)
        for number, sample in enumerate(_samples_of(inputs, limit)):
            run.add(number, sample)
        return run.result()


def _samples_of(inputs: Any, limit: int | None) -> Iterator[Any]:
    if isinstance(inputs, Mapping):
        inputs = [inputs]
    if isinstance(inputs, (str, bytes)) or not isinstance(inputs, Iterable):
        raise Error([f"inputs: is a {type(inputs).__name__}, expected samples "
                     "that can be taken one after the other, each a dict of "
                     "arrays (nodewise.tensors(PATH) makes one of a file)"])
    return itertools.islice(inputs, limit)


class _Comparing:  # pylint: disable=too-many-instance-attributes
    """The findings after some of the samples."""

    def __init__(self, sides: tuple[_runner.Runner, _runner.Runner],
                 limits: Limits, tallies: list[Tally], judges_outputs: bool):
        self._candidate, self._reference = sides
        self._limits = limits
        self._tallies = tallies
        self._judges_outputs = judges_outputs
        self._names: list[str] = []  # What the first sample has.
        self._pairs: dict[str, str] = {}
        self._errors: dict[str, OutputErrors] = {}
        self._metrics = [array("d") for _ in tallies]
        self._notes: list[str] = []
        self._worst = (-1., 0., 0.), 0
        self._worst_inputs: dict[str, Any] = {}

    def add(self, number: int, sample: Any) -> None:
        """Runs a sample, and compares what comes out."""
        place = f"sample {number}"
        self._check_sample(place, sample)
        kept = _copies_of(sample)
        made = self._run(f"{place}: candidate", self._candidate, sample)
        _check_unchanged(f"{place}: candidate {self._candidate.name}", kept,
                         sample)
        wanted = self._run(f"{place}: reference", self._reference, sample)
        self._check_outputs(place, made, wanted)
        made = {name: made[theirs] for name, theirs in self._pairs.items()}
        wanted = {name: wanted[name] for name in self._pairs}
        with _located(place):
            rank = self._judge(number, made, wanted, sample)
        if rank > self._worst[0]:
            self._worst, self._worst_inputs = (rank, number), kept

    def _judge(self, number: int, made: dict[str, Any],
               wanted: dict[str, Any],
               sample: Mapping[str, Any]) -> tuple[float, float, float]:
        """How bad the sample is; tuples of worse ones are larger."""
        share, most = 0., 0.
        for name, errors in self._errors.items():
            apart = self._limits.distance(name, made[name], wanted[name])
            errors.add(apart)
            share = max(share, apart.of_tolerance)
            most = max(most, apart.largest)
        said = [tally.add(number, made, wanted, sample)
                for tally in self._tallies]
        for column, value in zip(self._metrics, said):
            column.append(value)
        # Where a metric judges, the worst sample is one that it calls bad.
        by_metric = sum(math.inf if math.isnan(value) else abs(value)
                        for value in said)
        if self._judges_outputs:
            return share, by_metric, most
        return by_metric, share, most

    def _check_sample(self, place: str, sample: Any) -> None:
        if not isinstance(sample, Mapping):
            raise Error([
                f"{place}: is a {type(sample).__name__}, expected a dict of "
                "arrays by the names of inputs (a generator makes one of it: "
                '({"x": x} for x, _ in samples))'])
        if not self._names:
            self._names = list(sample)
            self._note_what_is_not_taken()
        if set(sample) != set(self._names):
            raise Error([f"{place}: has {', '.join(map(str, sample))}, "
                         "expected what the first sample has: "
                         f"{', '.join(map(str, self._names))}"])

    def _note_what_is_not_taken(self) -> None:
        taken = self._taken()
        left = [name for name in self._names if name not in taken]
        if left:
            self._notes.append(f"inputs: neither side takes {', '.join(left)}")

    def _taken(self) -> list[str]:
        """The names that are inputs of a side; all, if no side says."""
        said = [side.inputs for side in (self._candidate, self._reference)
                if side.inputs is not None]
        return list(dict.fromkeys(itertools.chain(*said))) or self._names

    @staticmethod
    def _run(place: str, side: _runner.Runner,
             sample: Mapping[str, Any]) -> dict[str, Any]:
        with _located(place):
            made = side(sample)
        for name, value in made.items():
            made[name] = array_of(value) if is_tensor(value) else (
                numpy.asarray(value))
            if made[name].dtype.kind in "OSUMm":
                raise Error([f"{place} {side.name}: output {name} is a "
                             f"{type(value).__name__}, expected an array of "
                             "numbers (nodewise.runner(function, "
                             "outputs=NAMES) says which outputs count)"])
        return made

    def _check_outputs(self, place: str, made: dict[str, Any],
                       wanted: dict[str, Any]) -> None:
        """Pairs the outputs of the first sample; later ones must have them."""
        if not self._pairs:
            self._pair(place, list(made), list(wanted))
        for side, names, has in (
                (self._candidate, self._pairs.values(), made),
                (self._reference, self._pairs.keys(), wanted)):
            lacks = [name for name in names if name not in has]
            if lacks:
                raise Error([f"{place}: {side.name} made {', '.join(has)}, "
                             f"expected {', '.join(lacks)} among them"])

    def _pair(self, place: str, made: list[str], wanted: list[str]) -> None:
        if len(made) == len(wanted) == 1:
            # A compiler that renames the only output leaves no other choice.
            self._pairs = {wanted[0]: made[0]}
            if made != wanted:
                self._notes.append(f"outputs: {made[0]} of "
                                   f"{self._candidate.name} is compared with "
                                   f"{wanted[0]}")
        else:
            self._pairs = {name: name for name in wanted if name in made}
        lacks = [name for name in wanted if name not in self._pairs]
        if lacks or not self._pairs:
            raise Error([
                f"{place}: candidate {self._candidate.name} made "
                f"{', '.join(made) or 'nothing'}, expected the outputs of "
                f"{self._reference.name}: {', '.join(wanted) or 'any'} "
                "(nodewise.runner(function, outputs=NAMES) names them)"])
        more = [name for name in made if name not in self._pairs.values()]
        if more:
            self._notes.append(f"outputs: only {self._candidate.name} makes "
                               f"{', '.join(more)}")
        self._limits.check_names(list(self._pairs))
        self._errors = {name: OutputErrors(name) for name in self._pairs}

    def result(self) -> SampleComparison:
        """What came out in the end."""
        count = len(next(iter(self._errors.values()), ()))
        if count == 0:
            raise Error(["inputs: has no sample, expected one at least (a "
                         "generator that was read to its end has none left)"])
        taken = self._taken()
        return SampleComparison(
            candidate=self._candidate.name, reference=self._reference.name,
            samples=count,
            outputs=tuple(each.comparison(self._judges_outputs)
                          for each in self._errors.values()),
            metrics=tuple(tally.metric() for tally in self._tallies),
            worst_sample=self._worst[1],
            worst_inputs={name: value for name, value
                          in self._worst_inputs.items() if name in taken},
            notes=tuple(self._notes),
            columns=_columns(self._errors, self._tallies, self._metrics,
                             self._judges_outputs))


def _columns(errors: dict[str, OutputErrors], tallies: list[Tally],
             metrics: list[Any], judges: bool) -> dict[str, Any]:
    """The table of samples and outputs, column by column."""
    each = list(errors.values())
    shares = _interleaved([one.of_tolerance for one in each])
    columns: dict[str, Any] = {
        "sample": numpy.repeat(numpy.arange(len(each[0])), len(each)),
        "output": [one.name for one in each] * len(each[0]),
        "max_error": _interleaved([one.largest for one in each]),
        "mean_error": _interleaved([one.mean for one in each]),
        "of_tolerance": shares,
        "is_wrong": (shares > 1) & judges}
    for tally, values in zip(tallies, metrics):
        columns[tally.name] = numpy.repeat(numpy.asarray(values), len(each))
    return columns


def _interleaved(columns: list[Any]) -> Any:
    return numpy.stack([numpy.asarray(each) for each in columns], 1).ravel()


@contextlib.contextmanager
def _located(place: str) -> Iterator[None]:
    """Has what is raised within say where."""
    try:
        yield
    except Error as error:
        error.say(f"{place}: {each}" for each in error.findings)
        raise
    except Exception as error:
        raise Error([f"{place}: raised {type(error).__name__}: {error}, "
                     "expected outputs"]) from error


def _copies_of(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The sample's tensors in memory of their own, which neither side nor what
    loads the samples writes to."""
    return {name: numpy.array(array_of(value), order="C")
            for name, value in sample.items() if is_tensor(value)} | {
                name: numpy.asarray(value) for name, value in sample.items()
                if isinstance(value, (bool, int, float))}


def _check_unchanged(place: str, kept: dict[str, Any],
                     sample: Mapping[str, Any]) -> None:
    """Raises an Error if a side has written to its inputs: the other one would
    be given something else."""
    for name, before in kept.items():
        if not is_tensor(sample[name]):
            continue
        now = numpy.asarray(array_of(sample[name]), order="C")
        # Bytes are compared, since NaN is not equal to itself.
        if now.shape != before.shape or not numpy.array_equal(
                now.reshape(-1).view(numpy.uint8),
                before.reshape(-1).view(numpy.uint8)):
            raise Error([f"{place}: changed its input {name}, expected it left "
                         "as it was (copy it first)"])
