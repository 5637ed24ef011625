"""Which of the problems that people reported does nodewise answer?

  build/venv/bin/python tests/measure/real_problems.py [--only REGEX]
      [--again] [--show]

Makes what each reporter had in small (tests/measure/real_problems/cases.py),
types what docs/real_problems.md says for it, compares what that prints with the
page, and looks in the first paragraph of the last answer for the operator or
the cause that the report ended with. --again makes the material anew; --show
prints what was printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE / "real_problems"), str(ROOT / "tests/apps")]

# pylint: disable=wrong-import-position
import page  # noqa: E402
from cases import CASES, OTHERS_PYTHON, Case, why_not  # noqa: E402
from howto_test import first_missing  # noqa: E402
from making import BUILD, ENVIRONMENT, TVM_PYTHON  # noqa: E402


@dataclasses.dataclass
class Outcome:
    state: str
    said: str
    # What the page has and was not printed, with the command.
    missing: list[str]


def environment_of(case: Case) -> dict[str, str]:
    venv = pathlib.Path(sys.executable).parent
    python = OTHERS_PYTHON if "openvino" in case.needs else sys.executable
    return {**ENVIRONMENT,
            "PATH": f"{BUILD / 'bin'}:{venv}:{os.environ['PATH']}",
            "NODEWISE_COMMAND": str(BUILD / "bin/nodewise"),
            "NODEWISE_PYTHON": str(python),
            "NODEWISE_BUILD": str(BUILD),
            "NODEWISE_C_API": str(ROOT / "tests/apps"),
            "NODEWISE_ADAPTERS": str(ROOT / "apps/adapters"),
            "NODEWISE_REAL_PROBLEMS": str(HERE / "real_problems"),
            "PYTHONPATH": str(ROOT / "apps/python")}


def typed(step: page.Step, case: Case, folder: pathlib.Path) -> str:
    """What a step prints on stdout."""
    if step.is_python:
        (folder / "typed.py").write_text(step.text, "utf-8")
        words = [str(TVM_PYTHON), "typed.py"]
    else:
        words = ["/bin/bash", "-c", step.text]
    return subprocess.run(
        words, cwd=folder, env=environment_of(case), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, timeout=600, check=False).stdout


def made(case: Case, root: pathlib.Path, again: bool) -> pathlib.Path:
    """The folder with the material of a case."""
    folder = page.folder_of(case.row, root)
    if again or not (folder / "is_made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        case.make(folder)
        (folder / "is_made").touch()
    return folder


def run(case: Case, section: page.Section, folder: pathlib.Path,
        show: bool = False) -> Outcome:
    missing, printed = [], ""
    for step in section.steps:
        printed = typed(step, case, folder)
        if show:
            print(f"$ {step.text}\n{printed}")
        line = first_missing(step.expected, printed)
        if line is not None:
            missing.append(f"$ {step.text}\n  the page has: {line}")
    said = page.paragraph(printed, case.paragraph)
    flat = said.replace("\n", " ")
    if re.search(case.words, said) or re.search(case.words, flat):
        state = "answered"
    elif re.search(case.less, flat):
        state = "in part"
    else:
        state = "not answered"
    return Outcome(state, said, missing)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="rows that match")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    sections = page.read()
    states, is_as_said = [], True
    for case in CASES:
        if not re.fullmatch(options.only or r"\d+", str(case.row)):
            continue
        why = why_not(case)
        if why is not None:
            print(f"{case.row:2}  skipped: {why} is not here")
            continue
        folder = made(case, BUILD / "measure/real_problems", options.again)
        outcome = run(case, sections[case.row], folder, options.show)
        states.append(outcome.state)
        print(f"{case.row:2}  {outcome.state}\n    "
              + outcome.said.replace("\n", "\n    "), flush=True)
        if outcome.state != sections[case.row].state:
            outcome.missing.append(f"the page says {sections[case.row].state}")
        for line in outcome.missing:
            is_as_said = False
            print("  differs from the page: " + line)
    for state in ("answered", "in part", "not answered"):
        print(f"{state}: {states.count(state)} of {len(states)}")
    return 0 if is_as_said else 1


if __name__ == "__main__":
    sys.exit(main())
