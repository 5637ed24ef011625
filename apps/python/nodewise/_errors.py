"""The errors that are raised: the command's located messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


class Error(Exception):
    """A question that could not be answered.

    >>> try:
    ...     nodewise.verify("missing.onnx")
    ... except nodewise.Error as error:
    ...     print(error.findings)
    ('missing.onnx: cannot open: No such file or directory',)

    `findings` are the messages one by one, each with its place, what was found
    and what was expected; `document` is the whole document where there is one.
    """

    def __init__(self, findings: Iterable[str],
                 document: dict[str, Any] | None = None):
        self.findings = tuple(findings)
        self.document = document
        super().__init__("\n".join(self.findings))

    def say(self, findings: Iterable[str]) -> None:
        """Gives it other findings, which say more. A second error, raised from
        this one, would be reported as well."""
        self.findings = tuple(findings)
        self.args = ("\n".join(self.findings),)


class WrongResult(Error, AssertionError):
    """Something is wrong with what was judged; raised if that is asked for.

    >>> answer = nodewise.locate("net", reference="model.onnx",
    ...                          random_inputs=1)
    >>> try:
    ...     answer.raise_if_wrong()
    ... except nodewise.WrongResult as error:
    ...     print(error.answer.culprits[0].operations)
    ('pool1',)

    `answer` is what the verb found out, where one was asked.
    """

    def __init__(self, findings: Iterable[str],
                 document: dict[str, Any] | None = None, answer: Any = None):
        super().__init__(findings, document)
        self.answer = answer


# Words of Python that are options, too.
KEYWORDS = {"from", "with", "pass"}


def parameter_of(option: str) -> str:
    """The parameter that stands for an option: "--random-inputs"."""
    name = option.lstrip("-").replace("-", "_")
    return name + "_" if name in KEYWORDS else name


def option_of(parameter: str) -> str:
    """The option that a parameter stands for, the reverse of parameter_of()."""
    return "--" + parameter.rstrip("_").replace("_", "-")


def in_python(message: str) -> str:
    """A message of the command with its options as parameters."""
    message = re.sub(r"(?<![\w-])--(input|freeze|patch) ([^\s=]+)=FILE",
                     r'\1={"\2": ARRAY}', message)
    message = re.sub(r"(?<![\w-])--inputs FILE", "inputs={NAME: ARRAY}", message)
    # The word behind an option is its value, if it is not a word of the
    # sentence.
    return re.sub(r"(?<![\w-])--([a-z][a-z-]*[a-z])(?: (?=[A-Z]{2,}\b))?",
                  lambda found: parameter_of(found.group(1)) + "=", message)
