"""Runs a verb on values of Python."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable
from typing import Any

from nodewise import _arguments, _command
from nodewise._answer import Answer, answer_of
from nodewise._errors import Error


def call(verb: str, targets: Iterable[tuple[str, Any]],
         options: Iterable[tuple[str, Any]]) -> Answer:
    """Runs the verb, and returns its Answer."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="nodewise_"))
        arguments = _arguments.Arguments(folder, stack)
        for place, target in targets:
            arguments.add_target(place, target)
        for option, value in options:
            arguments.add_option(option, value)
        try:
            document = _command.document_of([verb, *arguments.list],
                                            arguments.names)
        except Error as error:
            arguments.explain(error)
            raise
        return answer_of(document)
