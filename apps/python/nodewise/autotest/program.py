"""The two libraries of a dual object, and what a case has done with them as a
program for each."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

# What libraries call the function that makes a tensor of a numpy array; the
# first that is there is taken.
_MAKERS = ("from_numpy", "to_tensor", "convert_to_tensor", "asarray", "array")


@dataclasses.dataclass(frozen=True, eq=False)
class Side:
    """One of the two libraries."""

    library: Any
    name: str  # As programs have it.
    setup: tuple[str, ...]  # Statements that make the name known.
    maker: str  # A function of the library; empty: arrays are its tensors.
    make: Optional[Callable[[Any], Any]] = None  # One of the user's, instead,
    make_name: str = ""  # and what programs call it.

    def tensor(self, array: Any) -> Any:
        """A tensor of the library with the array's numbers."""
        array = array.copy()  # Tensors of torch share its memory.
        if self.make is not None:
            return self.make(array)
        return getattr(self.library, self.maker)(array) if self.maker else array

    def tensor_code(self, code: str) -> str:
        """Python that makes it of Python that makes the array."""
        if self.make is not None:
            return f"{self.make_name}({code})"
        return f"{self.name}.{self.maker}({code})" if self.maker else code


@dataclasses.dataclass(frozen=True)
class Scope:
    """The module in which a dual object was made: where names of what no
    import gives are looked for."""

    names: dict
    module: str
    file: str

    def name_of(self, value: Any) -> Optional[str]:
        """What the module calls the value; None if it cannot be imported, as
        what a notebook or a prompt has."""
        if not self.file and not _can_import(self.module, self.names):
            return None
        for name, each in self.names.items():
            if each is value and not name.startswith("_"):
                return str(name)
        return None

    def imported(self, name: str) -> tuple[str, ...]:
        """Statements that import the name."""
        module, lines = self.module, []
        if self.file:
            file = pathlib.Path(self.file).resolve()
            # A script, or a test that a runner has loaded by its path.
            if module == "__main__" or not _can_import(module, self.names):
                module = file.stem
            if "." not in module:
                lines = ["import sys",
                         f"sys.path.insert(0, {str(file.parent)!r})"]
        return (*lines, f"from {module} import {name}")


def _can_import(module: str, names: dict) -> bool:
    found = sys.modules.get(module)
    return found is not None and vars(found) is names and (
        getattr(found, "__spec__", None) is not None)


# pylint: disable-next=too-many-arguments,too-many-positional-arguments
def side_of(library: Any, name: Optional[str], scope: Scope,
            setup: Union[None, str, Sequence[str]],
            make: Optional[Callable[[Any], Any]], default: str) -> Side:
    """The library as a side."""
    own = getattr(library, "__name__", "")
    is_named = callable(library) and own.isidentifier()
    default = name or (own if is_named else default)
    if isinstance(library, dict):
        setup = setup or _setup(library, default, scope)[1]
        name = name or scope.name_of(library) or default
        # Its keys are attributes as those of a module are.
        setup = [*_lines(setup), "import types",
                 f"{name} = types.SimpleNamespace(**{name})"]
        library = types.SimpleNamespace(**library)
    elif setup is None:
        name, setup = _setup(library, default, scope)
    lines = _lines(setup)
    make_name = getattr(make, "__name__", "make_tensor")
    if make is not None and getattr(make, "__module__", "") != "builtins":
        make_name, more = _setup(make, make_name, scope)
        lines += more
    maker = next((each for each in _MAKERS
                  if not callable(library) and
                  callable(getattr(library, each, None))), "")
    return Side(library, name or default, tuple(lines), maker, make, make_name)


def _lines(setup):
    return [setup] if isinstance(setup, str) else list(setup)


def _setup(value: Any, default: str, scope: Scope) -> tuple[str, list[str]]:
    """What a program calls something, and the statements for that."""
    if isinstance(value, types.ModuleType):
        name = value.__name__
        if sys.modules.get(name) is value and value.__spec__ is not None:
            return name, [f"import {name}"]
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", "")
    found = sys.modules.get(module) if isinstance(module, str) else None
    if (module != scope.module and name.isidentifier() and
            getattr(found, name, None) is value):
        return name, [f"from {module} import {name}"]
    known = scope.name_of(value)
    if known is not None:
        return known, list(scope.imported(known))
    return default, [f"{default} = ...  # Not importable: dual(setup=) says "
                     "how it is made."]


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

    def add(self, code: tuple[str, str]) -> None:
        """Adds a statement."""
        self._statements.append(code)

    def assign(self, code: tuple[str, str]) -> tuple[str, str]:
        """Adds an assignment to a new name, which is what it returns."""
        self._variables += 1
        name = f"v{self._variables}"
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
