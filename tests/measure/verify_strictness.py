"""Is `nodewise verify` as strict as ONNX's own checker, and no stricter than
what it and onnxruntime take?

  build/venv/bin/python tests/measure/verify_strictness.py --models 5000 --seed 1
  ... --seed 1 --only 4711      repeats one and keeps it in build/strictness

Spoils small models in one or two places, and asks onnx.checker (with
full_check), `nodewise verify --strict` and, where these differ, onnxruntime.
The list says for each class of change what we took that the checker refuses,
with the checker's reason, and what we refused that both of the others take.
"""

import argparse
import collections
import os
import pathlib
import pickle
import random
import re
import signal
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
# pylint: disable=wrong-import-position
from small_models import base_models
from spoiled_models import KINDS, spoil

BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD", ROOT / "build"))
NODEWISE = os.environ.get("NODEWISE", BUILD / "bin/nodewise")
KEPT = BUILD / "strictness"
SECONDS = 60

NUMPY = {"float": np.float32, "double": np.float64, "float16": np.float16,
         "bool": np.bool_, **{name: np.dtype(name) for name in (
             "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
             "uint64")}}

# What is left of a reason when names and numbers are taken out.
NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\b[\w/.:-]*\d[\w/.:-]*\b")

# One spoiled model. `checker` and `ours` are reasons, "" if it was taken.
Row = collections.namedtuple("Row", "number base kinds checker ours ort")


def reason_of(function):
    """Why a call fails, "" if it does not; it may end its process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(SECONDS)
        try:
            function()
            reason = ""
        except Exception as error:  # pylint: disable=broad-except
            reason = str(error) or type(error).__name__
        os.write(write, pickle.dumps(reason[:4000]))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(answer) if answer else "ended its process"


def checker_reason(data):
    model = onnx.ModelProto()

    def check():
        model.ParseFromString(data)
        onnx.checker.check_model(model, full_check=True)

    return reason_of(check)


def ort_reason(data):
    """Whether onnxruntime loads a model and runs it, with some size for what
    is open."""
    def run():
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        session = onnxruntime.InferenceSession(
            data, options, providers=["CPUExecutionProvider"])
        inputs = {}
        for value in session.get_inputs():
            kind = re.fullmatch(r"tensor\((\w+)\)", value.type)
            if kind is None or kind[1] not in NUMPY:
                return
            inputs[value.name] = (value.shape, NUMPY[kind[1]])
        for size in (2, 1, 3, 4, 8):
            try:
                return session.run(None, {
                    name: np.ones([n if isinstance(n, int) else size
                                   for n in sides], element)
                    for name, (sides, element) in inputs.items()})
            except Exception as error:  # pylint: disable=broad-except
                last = error
        raise last

    return reason_of(run)


def our_reason(path, *options):
    done = subprocess.run([NODEWISE, "verify", path, *options],
                          capture_output=True, text=True, timeout=SECONDS,
                          errors="replace", check=False)
    if done.returncode == 0:
        return ""
    if done.returncode not in (1, 2):
        return f"ended with {done.returncode}"
    errors = [line.strip() for line in (done.stdout + done.stderr).splitlines()
              if line.strip().startswith(("error:", "nodewise:"))]
    return " | ".join(errors)[:2000] or "no reason"


def class_of(reason):
    """The checker's last word, without the names."""
    lines = [line for line in reason.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("==> Context")]
    text = " ".join(lines[:2]) if lines else ""
    return NAMES.sub("_", text)[:150]


class Strictness:
    def __init__(self, args):
        self.args = args
        self.bases = [base for base in base_models(args.seed)
                      if self.is_sound(*base)]
        print(f"{len(self.bases)} models to spoil, seed {args.seed}, onnx "
              f"{onnx.__version__}, onnxruntime {onnxruntime.__version__}")

    def is_sound(self, name, model):
        data = model.SerializeToString()
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(data)
            file.flush()
            ours = our_reason(file.name, *self.args.options)
        theirs = checker_reason(data)
        if not theirs and ours and not ort_reason(data):
            print(f"  unspoiled {name}: {ours}")
        return not theirs and not ours

    def row(self, number):
        rng = random.Random(f"{self.args.seed}:{number}")
        name, model = rng.choice(self.bases)
        spoiled = onnx.ModelProto()
        spoiled.CopyFrom(model)
        kinds = spoil(spoiled, rng)
        data = spoiled.SerializeToString()
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(data)
            file.flush()
            ours = our_reason(file.name, *self.args.options)
        theirs = checker_reason(data)
        ort = None
        if self.args.only is not None or (ours and not theirs):
            ort = ort_reason(data)
        if self.args.only is not None:
            KEPT.mkdir(parents=True, exist_ok=True)
            (KEPT / f"{number}.onnx").write_bytes(data)
            (KEPT / f"{number}.txt").write_text(str(spoiled))
        return Row(number, name, kinds, theirs, ours, ort)

    def run(self):
        only = self.args.only
        numbers = range(self.args.models) if only is None else [only]
        rows = [self.row(number) for number in numbers]
        if only is not None:
            for title, text in zip(Row._fields, rows[0]):
                print(f"{title}: {text}")
            return True
        return self.report(rows)

    def report(self, rows):
        refused = [row for row in rows if row.checker]
        missed = [row for row in refused if not row.ours]
        too_strict = [row for row in rows
                      if row.ours and not row.checker and not row.ort]
        taken = [row for row in rows if not row.checker]
        ours_and_ort = [row for row in rows
                        if row.ours and not row.checker and row.ort]
        self.show("the checker refuses, verify takes", missed,
                  lambda row: class_of(row.checker), lambda row: row.checker)
        self.show("the checker and onnxruntime take, verify refuses",
                  too_strict, lambda row: class_of(row.ours),
                  lambda row: row.ours)
        if self.args.all:
            self.show("the checker takes, onnxruntime and verify refuse",
                      ours_and_ort, lambda row: class_of(row.ours),
                      lambda row: f"{row.ours} || {row.ort}")
        share = 1 - len(missed) / max(1, len(refused))
        print(f"{len(rows)} models: the checker refuses {len(refused)}, verify "
              f"{len(refused) - len(missed)} of them ({share:.2%}); of the "
              f"{len(taken)} that it takes verify calls {len(too_strict)} "
              f"wrong that onnxruntime takes, {len(ours_and_ort)} that it does "
              "not take")
        return share >= 0.99 and not too_strict

    def show(self, title, rows, key, text):
        print(f"--- {title}: {len(rows)}")
        classes = collections.defaultdict(list)
        for row in rows:
            classes[key(row)].append(row)
        for name, each in sorted(classes.items(), key=lambda c: -len(c[1])):
            print(f"{len(each):5} {name}")
            for row in each[:self.args.examples]:
                print(f"        {row.number} {row.base} {'+'.join(row.kinds)}: "
                      + " ".join(text(row).split())[:400])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--examples", type=int, default=2)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--options", nargs="*", default=["--strict"])
    args = parser.parse_args()
    print("kinds of changes:", ", ".join(KINDS))
    sys.exit(0 if Strictness(args).run() else 1)


if __name__ == "__main__":
    main()
