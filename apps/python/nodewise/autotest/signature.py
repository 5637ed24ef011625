"""The types that a function's signature wants."""

from __future__ import annotations

import inspect
import typing
from typing import Any, Union


def kinds_of(function: Any) -> dict[Union[int, str], Any]:
    """The type that each parameter of a function wants, by name and place, as
    far as its signature says."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # Many functions written in C have none.
        return {}
    try:
        hints = typing.get_type_hints(
            getattr(function, "__init__") if isinstance(function, type)
            else function)
    except Exception:  # pylint: disable=broad-except
        hints = {}
    kinds: dict[Union[int, str], Any] = {}
    for i, each in enumerate(parameters):
        kind = hints.get(each.name)
        if kind is None and isinstance(each.default, (bool, float)):
            kind = type(each.default)
        kinds[i] = kinds[each.name] = kind
    return kinds
