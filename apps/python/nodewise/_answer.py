"""Answers: what a verb found out, as plain values."""

from __future__ import annotations

import dataclasses
import functools
import html
import json
import pathlib
import re
import tempfile
from typing import TYPE_CHECKING, Any

from nodewise import _command
from nodewise._errors import Error, WrongResult, in_python

if TYPE_CHECKING:
    import pandas

    from nodewise._types import Path


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that is wrong, and where.

    >>> with open("broken.json", "w") as file:
    ...     _ = file.write("{}")
    >>> answer = nodewise.verify("broken.json")
    >>> finding = answer.findings[0]
    >>> finding.severity, finding.found, finding.expected
    ('error', 'nothing', 'the key nodes')
    """

    kind: str
    severity: str
    where: str
    found: str
    expected: str
    hint: str
    text: str  # All of it in one line.
    node: str = ""

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Source:
    """Where an operation is from in the program that made the model.

    What the model's exporter has not noted is empty, and `line` None.

    >>> print(nodewise.Source("conv", "layers/0", "net.py", 41, "forward"))
    layers/0, net.py:41 in forward
    """

    operation: str
    module: str = ""  # "layers/0/conv"
    file: str = ""
    line: int | None = None
    function: str = ""
    code: str = ""

    def __str__(self) -> str:
        if self.line is None:
            return self.module
        name = re.split(r"[/\\]", self.file)[-1]
        where = f"{name}:{self.line}" if name else f"line {self.line}"
        where += f" in {self.function}" if self.function else ""
        where += f": {self.code}" if self.code else ""
        return f"{self.module}, {where}" if self.module else where


@dataclasses.dataclass(frozen=True)
class Culprit:
    """A node that is to blame, and why.

    >>> answer = nodewise.locate("net", reference="model.onnx",
    ...                          random_inputs=1)
    >>> print(answer.culprits[0])
    fused_1 (broken): should hold p1, but its numbers are far from that
    """

    node: str
    kind: str  # "broken", "differs", "costs accuracy", ...
    operations: tuple[str, ...]
    reason: str
    evidence: dict = dataclasses.field(repr=False)
    source: tuple[Source, ...] = ()  # For each operation whose origin is known.

    def __str__(self) -> str:
        return f"{self.node} ({self.kind}): {self.reason}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The findings about one node.

    >>> answer = nodewise.locate("net", reference="model.onnx",
    ...                          random_inputs=1)
    >>> [(each.node, each.kind) for each in answer.verdicts][:3]
    [('fused_0', 'healthy'), ('fused_1', 'broken'), ('fused_2', 'healthy')]
    """

    node: str
    kind: str  # "healthy", "broken", "inherits", ...
    details: dict[str, Any] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a verb found out.

    >>> answer = nodewise.locate("net", reference="model.onnx",
    ...                          random_inputs=1)
    >>> answer.status, answer.is_wrong
    ('differs', True)
    >>> answer.said
    'pool1 (MaxPool) is wrong: its numbers fit one change: AveragePool instead \
of MaxPool.'
    >>> answer.save("answer.json")  # `nodewise report` shows it again.

    `document` has all of it; docs/formats/archive.md says what is where.
    """

    verb: str
    status: str  # "ok", or "differs" if something is wrong.
    said: str  # In one sentence; empty for verbs that say none.
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    culprits: tuple[Culprit, ...]
    verdicts: tuple[Verdict, ...]
    document: dict[str, Any] = dataclasses.field(repr=False)

    @property
    def is_wrong(self) -> bool:
        """Whether something is wrong with what was judged."""
        return self.status != "ok"

    def raise_if_wrong(self) -> Answer:
        """Raises WrongResult if something is wrong; else returns the answer."""
        if self.is_wrong:
            raise WrongResult([self.said or self.text], self.document, self)
        return self

    @functools.cached_property
    def text(self) -> str:
        """What the command prints."""
        with tempfile.TemporaryDirectory(prefix="nodewise_") as folder:
            return self._report(folder)

    def __str__(self) -> str:
        return self.text

    def _report(self, folder: str, *options: str) -> str:
        archive = pathlib.Path(folder) / "answer.json"
        archive.write_text(json.dumps(self.document), encoding="utf-8")
        code, out, err = _command.run(["report", str(archive), *options])
        if code != 0:
            raise Error(_command.lines_of(err))
        return out.decode("utf-8")

    def save(self, path: Path) -> None:
        """Writes a file in the format that its ending names.

        .json is the archive, from which `nodewise report` shows the answer
        again; .txt is what the command prints; .svg is a picture of the graph
        around the culprits.
        """
        file = pathlib.Path(path)
        if file.suffix == ".json":
            file.write_text(json.dumps(self.document, indent=1) + "\n",
                            encoding="utf-8")
        elif file.suffix == ".txt":
            file.write_text(self.text, encoding="utf-8")
        elif file.suffix == ".svg":
            with tempfile.TemporaryDirectory(prefix="nodewise_") as folder:
                self._report(folder, "--svg", str(file))
        else:
            raise Error([f"{file}: has the ending \"{file.suffix}\", expected "
                         "one of .json, .txt, .svg"])

    def to_dataframe(self) -> pandas.DataFrame:
        """The main table as a pandas.DataFrame: one row for each node, layer,
        tensor or finding, whichever the verb judges."""
        import pandas  # pylint: disable=import-outside-toplevel
        return pandas.DataFrame(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        layers = self.document.get("models", {}).get("layers")
        for rows in (layers, self.document.get("tensors"),
                     self.document.get("verdicts"),
                     self.document.get("profile", {}).get("nodes")):
            if rows:
                return rows
        return [dataclasses.asdict(each) for each in self.findings]

    def _repr_html_(self) -> str:
        try:
            with tempfile.TemporaryDirectory(prefix="nodewise_") as folder:
                picture = pathlib.Path(folder) / "graph.svg"
                self._report(folder, "--svg", str(picture))
                svg = picture.read_text(encoding="utf-8")
                svg = svg[svg.find("<svg"):]
        except Error:  # There is no graph to draw.
            svg = ""
        color = "#b00020" if self.is_wrong else "#1b5e20"
        head = html.escape(self.said or f"{self.verb}: {self.status}")
        return (f'<div><p style="color:{color};font-weight:bold">{head}</p>'
                f"{svg}<pre>{html.escape(self.text)}</pre></div>")


def answer_of(document: dict[str, Any]) -> Answer:
    """The answer that a document holds."""
    errors = [*document.get("errors", ()), *document.get("findings", ())]
    return Answer(
        verb=document["verb"],
        status=document["status"],
        said=document.get("said", ""),
        notes=tuple(in_python(note) for note in document.get("notes", ())),
        findings=tuple(_finding_of(each) for each in errors),
        culprits=tuple(_culprit_of(each)
                       for each in document.get("culprits", ())),
        verdicts=tuple(_verdict_of(each)
                       for each in document.get("verdicts", ())),
        document=document)


def _finding_of(each: dict[str, Any]) -> Finding:
    names = [field.name for field in dataclasses.fields(Finding)]
    return Finding(**{name: each.get(name, "") for name in names})


def _culprit_of(each: dict[str, Any]) -> Culprit:
    evidence = each.get("evidence", {})
    return Culprit(node=each.get("node", ""), kind=each.get("kind", ""),
                   operations=tuple(each.get("source_nodes", ())),
                   reason=evidence.get("reason", ""), evidence=evidence,
                   source=tuple(_source_of(one)
                                for one in each.get("source", ())))


def _source_of(each: dict[str, Any]) -> Source:
    names = [field.name for field in dataclasses.fields(Source)]
    return Source(**{name: each[name] for name in names if name in each})


def _verdict_of(each: dict[str, Any]) -> Verdict:
    details = dict(each)
    return Verdict(node=str(details.pop("node", "")),
                   kind=str(details.pop("kind", "")), details=details)
