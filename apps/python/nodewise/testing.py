"""Assertions for tests: tensors that are close, networks that are right.

>>> from nodewise.testing import assert_close
>>> assert_close({"y": 2.0}, {"y": 2.0 + 1e-9})
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Optional, Union

from nodewise import _close, verbs
from nodewise._answer import Answer
from nodewise._runner import runtime

__all__ = ["assert_close", "assert_matches"]


# pylint: disable-next=too-many-arguments
def assert_close(actual: Any, expected: Any, *, rtol: Optional[float] = None,
                 atol: Optional[float] = None, equal_nan: bool = False,
                 bound: Any = None, check_device: bool = True,
                 check_dtype: bool = True, check_stride: bool = False,
                 msg: Union[None, str, Callable[[str], str]] = None) -> None:
    """Raises AssertionError unless all tensors are close to the expected ones.

    As torch.testing.assert_close, for tensors of every library, also of two:
    what has __array__ or __dlpack__, numbers, None, and mappings and sequences
    of these.

    >>> assert_close(numpy.float32([1, 2]), numpy.float32([1, 2.5]),
    ...              bound=[0, 0.25])
    Traceback (most recent call last):
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 1 / 2 (50.0%)
    Worst element at index (1,): 2, expected 2.5, off by 0.5 (0.25 allowed)
    Greatest absolute difference: 0.5 at index (1,)
    Greatest relative difference: 0.2 at index (1,)

    rtol, atol: an element may differ by atol + rtol * |expected|; both or
        neither, which takes those of the element type: (1.3e-6, 1e-5) for
        float32, (1e-7, 1e-7) for float64, (1e-3, 1e-5) for float16,
        (1.6e-2, 1e-5) for bfloat16, none for others
    equal_nan: whether NaN is equal to NaN
    bound: in the place of both, by how much each element may differ: a
        number, an array, or a mapping or sequence of them as `expected` is
    check_device: whether tensors must lie on the same device
    check_dtype: whether element types must be the same
    check_stride: whether strides must be the same
    msg: the message of the error, or a function that makes it of ours
    """
    __tracebackhide__ = True  # pylint: disable=unused-variable
    options = _close.Options(rtol, atol, equal_nan, check_device, check_dtype,
                             check_stride)
    options.check(bound)
    said = _close.difference(actual, expected, bound, options)
    if said:
        raise AssertionError(msg(said) if callable(msg) else msg or said)


def assert_matches(candidate: Any, reference: Any = None, *, inputs: Any = None,
                   **options: Any) -> Answer:
    """Raises WrongResult unless nodewise.locate() finds the candidate right.

    >>> assert_matches("model.onnx", "model.onnx", random_inputs=1).status
    'ok'
    >>> assert_matches("net", "model.onnx", random_inputs=1)
    Traceback (most recent call last):
    nodewise._errors.WrongResult: pool1 (MaxPool) is wrong: its numbers fit \
one change: AveragePool instead of MaxPool.

    candidate, reference: what nodewise.locate() takes, or functions as
        nodewise.runtime() does; if they are a function and a model, the model
        is what the function runs; without a reference the definitions of the
        operators are right
    inputs: a dict of arrays, or a path; or give random_inputs=SEED
    options: those of nodewise.locate()

    The error's message is the answer's first sentence, and its `answer` has
    the rest. Returns the answer if nothing is wrong.
    """
    __tracebackhide__ = True  # pylint: disable=unused-variable
    is_run = _is_function(candidate)
    if is_run and options.get("model") is None and not _is_function(reference):
        # A model that only says what the function runs is judged by its
        # operators' definitions.
        options["model"], reference = reference, None
    elif _is_function(reference) and not is_run:
        options.setdefault("model", candidate)
    return verbs.locate(_target(candidate), reference=_target(reference),
                        inputs=inputs, **options).raise_if_wrong()


def _is_function(value: Any) -> bool:
    return (inspect.isroutine(value) or isinstance(value, functools.partial) or
            type(value).__name__ == "Runtime")


def _target(value: Any) -> Any:
    is_plain = inspect.isroutine(value) or isinstance(value, functools.partial)
    return runtime(value) if is_plain else value
