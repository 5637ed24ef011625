"""docs/real_problems.md: what it says to type for each report, and what that
prints. There "..." stands for any lines, and N for any number, as in the pages
of docs/howto."""

from __future__ import annotations

import dataclasses
import pathlib
import re

from making import ROOT

PATH = ROOT / "docs/real_problems.md"
_SECTION = re.compile(r"^## (\d+)\. .*\n", re.M)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_STATES = ("answered", "in part", "not answered")


@dataclasses.dataclass(frozen=True)
class Step:
    """Something to type, and what it prints."""

    text: str
    is_python: bool
    expected: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Section:
    state: str  # One of _STATES.
    steps: tuple[Step, ...]


def read() -> dict[int, Section]:
    """The sections by the numbers of their reports."""
    text = PATH.read_text("utf-8")
    marks = [*_SECTION.finditer(text)]
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return {int(mark[1]): _section_of(mark[0], text[mark.end():end])
            for mark, end in zip(marks, ends)}


def _section_of(heading: str, text: str) -> Section:
    state = heading.rsplit(": ", 1)[-1].strip()
    if state not in _STATES:
        raise ValueError(f"{PATH}: the heading {heading.strip()!r} ends with "
                         f"{state!r}, expected one of {', '.join(_STATES)}")
    steps: list[Step] = []
    for kind, content in _BLOCK.findall(text):
        if kind == "console":
            steps += _commands_in(content)
        elif kind == "python":
            steps.append(Step(content, True, ()))
        elif kind == "" and steps and steps[-1].is_python:
            steps[-1] = dataclasses.replace(
                steps[-1], expected=tuple(content.splitlines()))
    return Section(state, tuple(steps))


def _commands_in(content: str) -> list[Step]:
    found: list[Step] = []
    for block in re.split(r"^\$ ", content, flags=re.M)[1:]:
        command, *lines = block.splitlines()
        while command.endswith("\\"):
            command = command[:-1] + lines.pop(0).strip()
        found.append(Step(command, False, tuple(lines)))
    return found


def paragraph(printed: str, number: int) -> str:
    return [*printed.strip().split("\n\n"), ""][number]


def states_in_table() -> dict[int, str]:
    """What the table at the top of the page says of each report."""
    text = PATH.read_text("utf-8")
    return {int(number): state for number, state in re.findall(
        r"^\| (\d+) \|.*\| (answered|in part|not answered) \|$", text, re.M)}


def folder_of(row: int, root: pathlib.Path) -> pathlib.Path:
    return root / f"{row:02d}"
