"""Runs a test's body in many cases, compares what each leaves, and says how one
fails."""

from __future__ import annotations

import functools
import os
import random
import unittest
from collections.abc import Callable
from typing import Any, Optional, ParamSpec, overload

import numpy

from nodewise._arrays import array_of, is_tensor
from nodewise._close import Options
from nodewise._errors import Error, WrongResult
from nodewise.autotest import case as cases
from nodewise.autotest.choices import Choices, simpler
from nodewise.autotest.dual import DualObject, of_side
from nodewise.autotest.generators import (DrawnTensor, constant, drawn_tensor,
                                          is_float)

def finish(case: cases.Case, result: Any) -> None:
    """Compares what a body leaves; `result` is what it has returned."""
    has_gradients = case.wants_gradients and _go_back(case, result)
    for drawn, tensor in case.tensors.values():
        dtype = drawn.array.dtype
        _compare(case, tensor, "an input afterwards",
                 lambda value, dtype=dtype: value if is_tensor(value)
                 else numpy.asarray(value, dtype), "")
        if has_gradients:
            _compare(case, tensor, "the gradient of an input",
                     lambda value: getattr(value, "grad", None), ".grad")
    for module in case.modules.values():
        _compare(case, module, "the state of a module afterwards",
                 lambda value: dict(value.state_dict()), ".state_dict()")
        if has_gradients:
            _compare(case, module, "the gradient of a parameter", _gradients,
                     ".named_parameters()")


def _compare(case, what, where, of, suffix):
    code = tuple(each + suffix for each in what.code_of_dual_object())
    case.compare(where, code, case.both(
        where, code, lambda side: of(of_side(what, side))))


def _gradients(module):
    if not hasattr(module, "named_parameters"):
        return {}
    return {name: each.grad for name, each in module.named_parameters()}


def _go_back(case, result):
    """Asks both sides for gradients of random sums of what has come out.
    Returns whether they have any."""
    made = _flat(case.last if result is None else result)
    outputs: list[Any] = [each for each in made if isinstance(each, DualObject)
                          and _is_differentiable(each)]
    if not outputs:
        return False
    # A plain sum would miss what cancels out, as the gradient of Softmax does.
    with case.without_comparing():
        total: Any = None
        for output in outputs:
            part = (output * constant(_cotangent(case, output))).sum()
            total = part if total is None else total + part
        total.backward()
    return True


def _flat(value):
    if isinstance(value, (tuple, list)):
        return [each for part in value for each in _flat(part)]
    if isinstance(value, dict):
        return _flat(list(value.values()))
    if isinstance(value, DualObject) and isinstance(of_side(value, 1),
                                                    (tuple, list)):
        return _flat(list(value))
    return [value]


def _is_differentiable(output):
    for side in (cases.CANDIDATE, cases.REFERENCE):
        value = of_side(output, side)
        keeps = getattr(value, "requires_grad",
                        not getattr(value, "stop_gradient", True))
        if not (is_tensor(value) and hasattr(value, "backward") and keeps):
            return False
    return True


def _cotangent(case, output):
    array = array_of(of_side(output, cases.REFERENCE))
    if not is_float(array.dtype):
        return DrawnTensor(numpy.ones(array.shape, array.dtype), "", False)
    return drawn_tensor(case.choices, array.shape, dtype=array.dtype.name,
                        requires_grad=False)


_MOST_SECONDS = 20.  # That a failing case is made simpler for.
_MOST_REFUSED = 20  # Draws of a case, until not both sides refuse it.
_P = ParamSpec("_P")


@overload
def autotest(n: Callable[_P, Any], /) -> Callable[_P, None]: ...


# pylint: disable-next=too-many-arguments
@overload
def autotest(n: int = 20, *, auto_backward: bool = True, rtol: float = 1e-4,
             atol: float = 1e-5, check_dtype: bool = True,
             seed: Optional[int] = None, most_tries: int = 500,
             check_graph: bool = False
             ) -> Callable[[Callable[_P, Any]], Callable[_P, None]]: ...


# pylint: disable-next=too-many-arguments
def autotest(n: Any = 20, *, auto_backward: bool = True, rtol: float = 1e-4,
             atol: float = 1e-5, check_dtype: bool = True,
             seed: Optional[int] = None, most_tries: int = 500,
             check_graph: bool = False) -> Any:
    """Makes a test of a function that uses dual objects: runs it in n cases,
    and raises nodewise.WrongResult if the sides differ in one.

    >>> def square(x):
    ...     return x + x
    >>> both = dual(square, numpy.square)
    >>> @autotest(n=5, seed=1)
    ... def test_square():
    ...     both(random(0, 9))
    >>> try:
    ...     test_square()
    ... except nodewise.WrongResult as error:
    ...     print(str(error).splitlines()[0])
    square: the candidate differs: Tensor-likes are not equal!

    n: how many cases
    auto_backward: whether gradients of what the function returns, or of the
        last tensor if it returns nothing, are compared, if both sides have any
    rtol, atol: floats may differ by atol + rtol * |the reference's|; integers
        must be equal
    check_dtype: whether element types must be the same
    seed: draws the same cases again; else $NODEWISE_SEED, or one drawn anew
    most_tries: how many simpler cases are tried when one fails
    check_graph: not here: graphs of a framework are not compared
    """
    if callable(n):  # @autotest without an argument.
        return autotest()(n)
    if check_graph:
        raise TypeError("autotest: has check_graph=True, expected it left out: "
                        "only what is called is compared, and no graph that a "
                        "framework makes of it")
    if n < 1:
        raise ValueError(f"autotest: n is {n}, expected 1 or more")
    options = Options(rtol, atol, True, False, check_dtype, False, True)

    def decorate(body: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(body)
        def test(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True  # pylint: disable=unused-variable
            _Cases(lambda: body(*args, **kwargs), options, auto_backward,
                   _seed(seed)).run(n, most_tries)
        return test

    return decorate


def _seed(seed: Optional[int]) -> int:
    if seed is not None:
        return seed
    text = os.environ.get("NODEWISE_SEED")
    if text is None:
        return random.SystemRandom().randrange(1 << 32)
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"NODEWISE_SEED: is {text!r}, expected a whole number"
                         ) from error


class _Cases:  # pylint: disable=too-few-public-methods
    """The cases of one test."""

    def __init__(self, body: Callable[..., Any], options: Options,
                 auto_backward: bool, seed: int):
        self._body = body
        self._options = options
        self._auto_backward = auto_backward
        self._seed = seed

    def run(self, n: int, most_tries: int) -> None:
        """Raises WrongResult for the first case that fails."""
        compared, refused = 0, None
        for i in range(n):
            try:
                case = self._drawn(i)
            except unittest.SkipTest:
                raise
            except Exception as error:
                if hasattr(error, "add_note"):
                    error.add_note(f"in case {i + 1} of {n}; {self._repeats()}")
                raise
            if case.difference is not None:
                raise WrongResult([self._said(case, i, n, most_tries)])
            compared += 0 if case.is_refused else case.compared
            refused = case.both_raised or refused
        if not compared:
            why = (f"in all {n} both sides raise, the last "
                   f"{type(refused).__name__}: {refused}" if refused is not None
                   else "the function does nothing with a dual object")
            raise Error([f"autotest: no case compares anything, since {why}"])

    def _drawn(self, i: int) -> cases.Case:
        """The i-th case; those that both sides refuse are drawn again."""
        for draw in range(_MOST_REFUSED):
            rng = random.Random(f"{self._seed}/{i}/{draw}")
            case = self._case(Choices((), rng))
            if case.difference is not None or not case.is_refused:
                break
        return case

    def _case(self, choices: Choices) -> cases.Case:
        """Runs the body once."""
        case = cases.Case(choices, self._options, self._auto_backward)
        with cases.entered(case):
            try:
                result = self._body()
                # A test may have caught what was to end it.
                if case.difference is None:
                    finish(case, result)
            except cases.Difference:
                pass
            except Exception as error:  # pylint: disable=broad-except
                # Where both sides refuse the same, they do not differ.
                if error is not case.both_raised:
                    raise
                case.is_refused = True
        return case

    def _said(self, case: cases.Case, i: int, n: int, most_tries: int) -> str:
        """The message of a failing case, made simpler first."""
        first = case.difference
        assert first is not None
        simplest: list[Any] = [case]

        def still_fails(given: list[int]) -> Optional[list[int]]:
            try:
                found = self._case(Choices(given))
            except Exception:  # pylint: disable=broad-except
                return None  # Not a case at all.
            difference = found.difference
            if difference is None or (difference.where, difference.kind) != (
                    first.where, first.kind):
                return None
            tried[:] = [found]
            return found.choices.made

        tried: list[Any] = []
        again = still_fails(case.choices.made)
        note = "" if again else "; it does not fail each time"
        made, tries = simpler(case.choices.made, still_fails,
                              most_tries if again else 0, _MOST_SECONDS)
        if still_fails(made) is not None:
            simplest = tried
        found = simplest[0]
        return "\n".join([
            f"{first.where}: {found.difference.said}", "",
            *_program("candidate", found, cases.CANDIDATE),
            *_program("reference", found, cases.REFERENCE),
            f"Case {i + 1} of {n}, made simpler in {tries} tries{note}. "
            + self._repeats()])

    def _repeats(self) -> str:
        return f"NODEWISE_SEED={self._seed} draws the same cases again."


def _program(name: str, case: cases.Case, side: int) -> list[str]:
    return [f"The {name} as a program:", "",
            *("    " + line for line in case.program.text(side).splitlines()),
            ""]
