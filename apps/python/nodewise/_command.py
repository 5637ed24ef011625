"""Runs the nodewise command, which is part of the package."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from nodewise._errors import Error, in_python

# The exit status if something could not be judged; 1 is an answer.
COULD_NOT_JUDGE = 2


def command() -> str:
    """The path of the command: the package's own, or $NODEWISE_COMMAND."""
    chosen = os.environ.get("NODEWISE_COMMAND")
    if chosen:
        return chosen
    own = pathlib.Path(__file__).parent / "bin/nodewise"
    if own.exists():
        return str(own)
    found = shutil.which("nodewise")
    if found is None:
        raise Error(["nodewise: the command is neither in the package nor in "
                     "PATH, expected one of both, or $NODEWISE_COMMAND"])
    return found


def run(arguments: Sequence[str]) -> tuple[int, bytes, str]:
    """Runs the command. Returns its exit status, stdout and stderr.

    Ctrl-C ends it, and what it has started, before it is raised here.
    """
    # A session of its own keeps the terminal's Ctrl-C from it, so that it is
    # told once, and by us.
    with subprocess.Popen([command(), *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGTERM)
            raise
    return process.returncode, out, err.decode("utf-8", "replace")


def main() -> NoReturn:
    """The command itself, for the script of that name."""
    path = command()
    os.execv(path, [path, *sys.argv[1:]])


def lines_of(err: str) -> list[str]:
    """The command's messages, without its name before them."""
    return [in_python(line.removeprefix("nodewise: "))
            for line in err.splitlines() if line.strip()]


def document_of(arguments: Sequence[str],
                names: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
    """Runs a verb, and returns its document.

    `names` are pairs of what the command was given for something that is not
    a file of the caller's, and what the caller knows it by.
    """
    code, raw, err = run([*arguments, "--json"])
    out = raw.decode("utf-8")
    for given, known in names:
        out = out.replace(json.dumps(given)[1:-1], json.dumps(known)[1:-1])
        err = err.replace(given, known)
    document: dict[str, Any] | None
    try:
        document = json.loads(out)
    except ValueError:
        document = None
    if code < 0:
        name = signal.Signals(-code).name
        raise Error([f"{arguments[0]}: was ended by {name}", *lines_of(err)])
    if code == COULD_NOT_JUDGE or document is None:
        said = [in_python(each["text"])
                for each in (document or {}).get("errors", ())]
        raise Error(said or lines_of(err) or
                    [f"{arguments[0]}: ended with {code}"], document)
    return document

