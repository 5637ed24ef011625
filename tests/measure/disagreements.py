"""How often the first sentence of `locate` is right about real disagreements.

  build/disagreements_venv/bin/python tests/measure/disagreements.py
      [make|truth|judge|all] [--only REGEX] [--again]
  build/disagreements_venv/bin/python tests/measure/disagreements.py --sound
      [--runs N]

Each case of tests/measure/disagreements/cases.py is made by tools and runtimes
of other people, in three steps, of which the first two are done once: `make`
writes its files into build/measure/disagreements/NAME, `truth` writes
truth.json there, found by means that share nothing with `locate`, and `judge`
runs `locate` and compares names and cause words of its first sentence with that
file. --sound runs pairs that agree, in which no node may be accused; it goes on
where it was left.
"""

import argparse
import importlib.util
import json
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import traceback
import warnings

HERE = pathlib.Path(__file__).resolve().parent / "disagreements"
sys.path.insert(0, str(HERE))
ROOT = HERE.parents[2]
os.environ.setdefault("NODEWISE", str(ROOT / "build/bin/nodewise"))
os.environ.setdefault("NODEWISE_PYTHON", sys.executable)
# So that what runs beside it is not slowed down, and threads do not spin.
os.environ.setdefault("OMP_NUM_THREADS", "2")

# pylint: disable=wrong-import-position
import cases  # noqa: E402
import models  # noqa: E402
import sentences  # noqa: E402
import sound  # noqa: E402

RIGHT = 0.9
LIMIT = 900  # Seconds that one run of locate may take.


def why_not(case):
    """Why a case cannot be had here; None if it can."""
    if case.model and models.file_of(case.model) is None:
        return f"no package has {models.MODELS[case.model][0]}"
    for need in case.needs:
        if importlib.util.find_spec(need) is None and not shutil.which(need):
            return f"{need} is not installed"
    return None


def make(case, folder):
    if (folder / "is_made").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case.make(folder)
    (folder / "is_made").touch()


def find_truth(case, folder):
    if (folder / "truth.json").exists():
        return
    if (folder / "answer.json").exists():
        raise RuntimeError("the answer is there before the truth")
    found = case.truth(folder)
    (folder / "truth.json").write_text(json.dumps(found, indent=1), "utf-8")


def command_of(case, folder):
    known = {"dir": folder, "python": sys.executable, "here": HERE,
             "adapters": ROOT / "apps/adapters"}
    return [os.environ["NODEWISE"], "locate",
            *(part.format(**known) for part in case.command)]


def located(command):
    try:
        done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False,
                              timeout=LIMIT)
        document = json.loads(done.stdout)
        status = done.returncode
    except (subprocess.TimeoutExpired, ValueError) as error:
        document, status = {"errors": [{"text": str(error)}]}, 2
    return status, document


def judge(case, folder):
    """One row of the result."""
    if not (folder / "truth.json").exists():
        raise RuntimeError("there is no truth to compare with")
    start = time.monotonic()
    command = command_of(case, folder)
    status, document = located(command)
    truth = json.loads((folder / "truth.json").read_text("utf-8"))
    said = document.get("said") or "; ".join(
        each.get("text", "") for each in document.get("errors", []))
    names = sentences.names_of(folder)
    wrong = sentences.why_wrong(said, truth, names)
    row = {"case": case.name, "kind": case.kind, "status": status, "said": said,
           "wrong": wrong, "seconds": time.monotonic() - start,
           "command": command}
    (folder / "answer.json").write_text(json.dumps(row, indent=1), "utf-8")
    return row


def tell(row, truth):
    names = truth["names"]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more"
                                    if len(names) > 3 else "")
    print(f"{row['case']} ({row['kind']}): "
          f"{'wrong: ' + row['wrong'] if row['wrong'] else 'right'}\n"
          f"  truth  {shown or 'nothing'}; "
          f"{'; '.join('|'.join(group) for group in truth['words'])}\n"
          f"  said   {row['said']}\n  ({row['seconds']:.0f} s, exit status "
          f"{row['status']})", flush=True)


def step(name, case, folder):
    """Does a step of a case. Returns the row of `judge`, and why it failed."""
    try:
        if name == "make":
            make(case, folder)
        elif name == "truth":
            find_truth(case, folder)
        else:
            return judge(case, folder), None
    except Exception as error:  # pylint: disable=broad-except
        (folder.parent / f"{case.name}.{name}.log").write_text(
            traceback.format_exc(), "utf-8")
        return None, f"{name}: {type(error).__name__}: {str(error)[:150]}"
    return None, None


def run_case(case, steps, rows):
    folder = models.FOLDER / case.name
    why = why_not(case)
    for each in steps:
        if why is not None:
            break
        start = time.monotonic()
        row, why = step(each, case, folder)
        if row is not None:
            rows.append(row)
            tell(row, json.loads((folder / "truth.json").read_text("utf-8")))
        elif why is None and time.monotonic() - start > 1:
            print(f"{case.name}: {each} took "
                  f"{time.monotonic() - start:.0f} s", flush=True)
    if why is not None:
        print(f"{case.name}: skipped: {why}", flush=True)


def summary(rows):
    right = sum(not row["wrong"] for row in rows)
    for kind in dict.fromkeys(row["kind"] for row in rows):
        these = [row for row in rows if row["kind"] == kind]
        print(f"{kind}: {sum(not row['wrong'] for row in these)} of "
              f"{len(these)} right")
    print(f"{right} of {len(rows)} first sentences are right")
    return 0 if rows and right >= RIGHT * len(rows) else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("step", nargs="?", default="all",
                        choices=("make", "truth", "judge", "all"))
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true",
                        help="forgets what was made of these cases")
    parser.add_argument("--sound", action="store_true")
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    # Quantisers tell of every operation that they leave alone, and converters
    # of every number that they change.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    if options.sound:
        return sound.measure(options.runs, located)
    for missing in cases.check(cases.ALL):
        print(f"the table: {missing}")
    chosen = [case for case in cases.ALL if re.search(options.only, case.name)]
    steps = ("make", "truth", "judge") if options.step == "all" else (
        options.step,)
    rows = []
    for case in chosen:
        if options.again:
            shutil.rmtree(models.FOLDER / case.name, ignore_errors=True)
        run_case(case, steps, rows)
    return summary(rows) if "judge" in steps else 0


if __name__ == "__main__":
    sys.exit(main())
