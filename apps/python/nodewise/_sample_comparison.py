"""What compare_samples() found out, as plain values."""

from __future__ import annotations

import dataclasses
import html
from array import array
from typing import TYPE_CHECKING, Any

from nodewise._errors import WrongResult

if TYPE_CHECKING:
    import pandas

    from nodewise._limits import Distance
    from nodewise._metrics import Metric


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
