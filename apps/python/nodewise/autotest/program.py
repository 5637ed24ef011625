"""Writes what a case has done as a program for each side."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from nodewise.autotest.sides import Side

# Modules that texts of values name.
_MODULES = ("numpy", "ml_dtypes", "operator")


class Program:
    """Statements, each in the words of both sides."""

    def __init__(self) -> None:
        self._statements: list[tuple[str, str]] = []
        self._sides: list[tuple[Side, Side]] = []
        self._variables = 0

    def uses(self, sides: tuple[Side, Side]) -> None:
        """Has it begin with what makes these libraries known."""
        if not any(sides is each for each in self._sides):
            self._sides.append(sides)

    def variable(self) -> str:
        """A new name."""
        self._variables += 1
        return f"v{self._variables}"

    def add(self, code: tuple[str, str]) -> None:
        """Adds a statement."""
        self._statements.append(code)

    def assign(self, code: tuple[str, str]) -> tuple[str, str]:
        """Adds an assignment to a new name, which is what it returns."""
        name = self.variable()
        self.add((f"{name} = {code[0]}", f"{name} = {code[1]}"))
        return name, name

    def ends_with(self, code: tuple[str, str]) -> None:
        """Has it print what it was about."""
        self.add((f"print({code[0]})", f"print({code[1]})"))

    def text(self, side: int) -> str:
        """The program of one side."""
        lines = [line for sides in self._sides for line in sides[side].setup]
        body = [code[side] for code in self._statements if code[side]]
        used = "\n".join(body)
        names = [name for name in _MODULES
                 if re.search(rf"\b{name}\.", used)
                 or name == "ml_dtypes" and re.search(r"'(bfloat|float[468]_)",
                                                      used)]
        imports = [f"import {name}" for name in names]
        return "\n".join(list(dict.fromkeys([*imports, *lines])) + body)


def pair_of(text: Callable[[int], str]) -> tuple[str, str]:
    """A text in the words of both sides."""
    return text(0), text(1)


# pylint: disable-next=too-many-return-statements
def text_of(value: Any, side: int) -> str:
    """A value of a call as Python; those of dual objects know themselves."""
    code = getattr(type(value), "code_of_dual_object", None)
    if code is not None:
        return code(value)[side]
    if isinstance(value, slice):
        ends = (value.start, value.stop, value.step)
        return f"slice({', '.join(text_of(each, side) for each in ends)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {text_of(each, side)}"
                               for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(text_of(each, side) for each in value) + "]"
    if type(value) is tuple:  # pylint: disable=unidiomatic-typecheck
        inner = "".join(text_of(each, side) + ", " for each in value)
        return f"({inner.strip()})" if len(value) == 1 else (
            f"({inner[:-2]})")
    if isinstance(value, float) and value - value != 0:
        return f"float('{value}')"
    if value is Ellipsis:
        return "..."
    if isinstance(value, type):
        owner = "" if value.__module__ == "builtins" else value.__module__ + "."
        return owner + value.__qualname__
    return repr(value)
