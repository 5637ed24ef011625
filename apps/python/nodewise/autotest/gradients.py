"""Compares what is left when a test's body has ended: gradients, what has
become of inputs, and the parameters of modules."""

from __future__ import annotations

from typing import Any

import numpy

from nodewise._arrays import array_of, is_tensor
from nodewise.autotest import case as cases
from nodewise.autotest.dual import DualObject, of_side
from nodewise.autotest.generators import constant
from nodewise.autotest.tensors import DrawnTensor, drawn_tensor, is_float


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
