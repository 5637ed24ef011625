"""AutoTest: tests of operators that are written once, and run in two libraries.

>>> import numpy
>>> import nodewise
>>> from nodewise.autotest import dual, random, random_tensor
>>> both = dual(numpy, numpy)
>>> @nodewise.autotest(n=5, seed=1)
... def test_matmul():
...     k = random(1, 6)
...     both.matmul(random_tensor(2, random(1, 6), k),
...                 random_tensor(2, k, random(1, 6)))
>>> test_matmul()
"""

import sys
import types
import typing

from nodewise.autotest.dual import DualObject, dual
from nodewise.autotest.generators import (Generator, constant, nothing, oneof,
                                          random, random_bool, random_device,
                                          random_or_nothing, random_tensor,
                                          tuple_of)
from nodewise.autotest.run import autotest

__all__ = ["DualObject", "Generator", "autotest", "constant", "dual",
           "nothing", "oneof", "random", "random_bool", "random_device",
           "random_or_nothing", "random_tensor", "tuple_of"]


class _Module(types.ModuleType):  # pylint: disable=too-few-public-methods
    """This module, which is its decorator, too: @nodewise.autotest(n=5)."""

    def __call__(self, *args: typing.Any,
                 **options: typing.Any) -> typing.Any:
        return autotest(*args, **options)


sys.modules[__name__].__class__ = _Module
