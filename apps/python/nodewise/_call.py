"""Runs a verb on values of Python."""

import contextlib
import tempfile

from nodewise import _arguments, _command
from nodewise._answer import answer_of


def call(verb, targets, options):
    """Runs the verb, and returns its Answer."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="nodewise_"))
        arguments = _arguments.Arguments(folder, stack)
        for place, target in targets:
            arguments.add_target(place, target)
        for option, value in options:
            arguments.add_option(option, value)
        return answer_of(_command.document_of([verb, *arguments.list],
                                              arguments.names))
