"""The numbers of a drawn tensor, and how to write them down."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy

from nodewise.autotest.choices import Choices

# A tensor of more elements is written as what draws it.
_MOST_WRITTEN = 64
_NAMES = {float: "float32", int: "int64", bool: "bool"}
# How libraries are told to keep gradients: an attribute, or one to set.
_WANT_GRADIENTS = (("requires_grad_", None), ("stop_gradient", False),
                   ("requires_grad", True))
_SPECIAL = (float("nan"), float("inf"), float("-inf"), -0., 1e-40, 1e38)


@dataclasses.dataclass(frozen=True, eq=False)
class DrawnTensor:
    """An array, and Python that makes it with numpy."""

    array: Any
    code: str
    requires_grad: bool


def dtype_of(kind: Any) -> Any:
    """The type of elements that is meant; short floats are of ml_dtypes."""
    name = _NAMES.get(kind, kind)
    try:
        return numpy.dtype(name)
    except TypeError:
        import ml_dtypes  # pylint: disable=import-outside-toplevel
        return numpy.dtype(getattr(ml_dtypes, str(name)))


def is_float(dtype: Any) -> bool:
    """Whether its numbers may have gradients, short floats among them."""
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float"))


# pylint: disable-next=too-many-arguments
def drawn_tensor(choices: Choices, shape: tuple, *, low: Any = None,
                 high: Any = None, dtype: Any = float,
                 requires_grad: bool = True,
                 special: bool = False) -> DrawnTensor:
    """Draws one whose numbers are from `low` up to `high`."""
    array: Any
    kind = dtype_of(dtype)
    # One in four has few binary digits, which reads well and adds up exactly.
    is_short = choices.draw(4) == 0
    seed = choices.draw(1 << 32)
    rng = f"numpy.random.default_rng({seed})"
    if kind.kind in "iub":
        low, high = _ends_of_integers(kind, low, high)
        array = numpy.random.default_rng(seed).integers(low, high, shape)
        code = f"{rng}.integers({low}, {high}, {shape})"
    else:
        low, high = (-1. if low is None else float(low),
                     1. if high is None else float(high))
        array = numpy.random.default_rng(seed).uniform(low, high, shape)
        code = f"{rng}.uniform({low}, {high}, {shape})"
        if is_short:
            array = numpy.clip(numpy.round(array * 4) / 4, low, high)
            code = f"numpy.clip(numpy.round({code} * 4) / 4, {low}, {high})"
    # Clipping a number makes it none of an array.
    array = numpy.asarray(array).astype(kind)
    code = f"numpy.asarray({code}).astype({kind.name!r})"
    changed = special and _with_special(choices, array)
    # The code that draws a tensor does not have an element that was changed.
    if changed or array.size <= _MOST_WRITTEN:
        code = literal(array)
    return DrawnTensor(array, code, requires_grad and is_float(kind))


def _ends_of_integers(kind, low, high):
    if kind.kind == "b":
        return 0, 2
    info = numpy.iinfo(kind)
    return (max(-10000, int(info.min)) if low is None else int(low),
            min(10001, int(info.max)) if high is None else int(high))


def _with_special(choices, array):
    """Makes one float special in a third of the cases, and says so."""
    if not is_float(array.dtype) or not array.size or choices.draw(3):
        return False
    place, which = choices.draw(array.size), choices.draw(len(_SPECIAL))
    with numpy.errstate(over="ignore"):
        array.flat[place] = _SPECIAL[which]
    return True


def literal(array: Any) -> str:
    """An array as Python that makes it, bit for bit."""
    if array.dtype.kind == "b":
        text = repr(array.tolist())
    else:
        # Floats with as many digits as they need, and no more.
        shown = array if array.dtype.kind in "iufc" else array.astype("float32")
        with numpy.printoptions(threshold=2 ** 62, floatmode="unique"):
            text = numpy.array2string(shown, separator=", ")
        text = text.replace("nan", "numpy.nan").replace("inf", "numpy.inf")
        text = re.sub(r"\s+(?=[,\]])|(?<=\[)\s+", "", " ".join(text.split()))
    if array.size == 0:
        return f"numpy.zeros({array.shape}, {array.dtype.name!r})"
    return f"numpy.array({text}, {array.dtype.name!r})"


def ask_for_gradient(tensor: Any, name: str) -> str:
    """Has a library keep the gradient of its tensor. Returns Python that does
    so with the tensor of that name; empty if the library has none."""
    for attribute, value in _WANT_GRADIENTS:
        if hasattr(tensor, attribute):
            if value is None:
                getattr(tensor, attribute)()
                return f"{name}.{attribute}()"
            setattr(tensor, attribute, value)
            return f"{name}.{attribute} = {value}"
    return ""
