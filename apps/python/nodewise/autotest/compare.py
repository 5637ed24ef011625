"""Whether what the two sides return is the same."""

from __future__ import annotations

import collections.abc
from typing import Any, Union

from nodewise._arrays import array_of, is_tensor
from nodewise._close import Options, difference as difference_of_tensors

__all__ = ["Options", "array_of", "difference", "is_data", "is_module"]

_PLAIN = (bool, int, float, complex)


def is_data(value: Any) -> bool:
    """Whether it is something to compare, or holds something."""
    if isinstance(value, collections.abc.Mapping):
        return any(is_data(each) for each in value.values())
    if is_sequence(value):
        return any(is_data(each) for each in value)
    return is_tensor(value) or isinstance(value, (*_PLAIN, str))


def is_sequence(value: Any) -> bool:
    """Whether it is a sequence of values and not one value."""
    return isinstance(value, (tuple, list)) and not is_tensor(value)


def is_module(value: Any) -> bool:
    """Whether it has parameters that are a part of what it computes."""
    return (hasattr(value, "state_dict") and not isinstance(value, type) and
            hasattr(value, "load_state_dict"))


def difference(candidate: Any, reference: Any, options: Options) -> str:
    """Describes the first difference; empty if both are the same. An object
    that is not data, as a function or a type, is not compared."""
    return _difference(candidate, reference, options, "")


def _difference(candidate, reference, options, place):
    pair = (candidate, reference)
    if all(isinstance(each, collections.abc.Mapping) for each in pair):
        keys: Union[list, range] = list(reference)
        if set(candidate) != set(reference):
            return (f"{place or 'it'} has the keys {list(candidate)}, expected "
                    f"{keys}")
    elif all(is_sequence(each) for each in pair):
        keys = range(len(reference))
        if len(candidate) != len(reference):
            return (f"{place or 'it'} has {len(candidate)} elements, expected "
                    f"{len(reference)}")
    else:
        return _of_values(candidate, reference, options, place)
    for key in keys:
        said = _difference(candidate[key], reference[key], options,
                           f"{place}[{key!r}]")
        if said:
            return said
    return ""


def _of_values(candidate, reference, options, place):
    head = f"{place}: " if place else ""
    if not is_data(candidate) and not is_data(reference):
        return ""
    if all(is_tensor(each) or isinstance(each, _PLAIN)
           for each in (candidate, reference)):
        said = difference_of_tensors(candidate, reference, None, options)
        return head + said if said else ""
    if type(candidate) is type(reference) and candidate == reference:
        return ""
    return f"{head}is {_shown(candidate)}, expected {_shown(reference)}"


def _shown(value):
    return repr(value) if isinstance(value, (str, type(None))) else (
        f"a {type(value).__name__}")
