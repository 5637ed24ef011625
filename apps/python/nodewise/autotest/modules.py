"""Modules: what both sides have with parameters of its own."""

from __future__ import annotations

from typing import Any

from nodewise.autotest import compare
from nodewise.autotest.case import Case
from nodewise.autotest.program import pair_of
from nodewise.autotest.tensors import literal


def make_alike(case: Case, sides: tuple, pair: tuple, made: Any) -> None:
    """Gives a new module of the candidate the reference's parameters."""
    if id(pair[1]) in case.modules:
        return
    case.modules[id(pair[1])] = made
    states = [{key: compare.array_of(value)
               for key, value in module.state_dict().items()}
              for module in pair]
    both = {key: value for key, value in states[1].items()
            if key in states[0] and states[0][key].shape == value.shape}
    if not both:
        return
    pair[0].load_state_dict({**pair[0].state_dict(), **{
        key: sides[0].tensor(value) for key, value in both.items()}})
    # The reference's are written down, too: they were drawn by its library.
    name, _ = made.code_of_dual_object()
    case.program.add(pair_of(
        lambda side: f"{name}.load_state_dict({{**{name}.state_dict(), "
        + ", ".join(f"{key!r}: {sides[side].tensor_code(literal(value))}"
                    for key, value in both.items()) + "})"))
