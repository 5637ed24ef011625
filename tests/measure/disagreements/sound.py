"""Pairs that agree: no operation may be accused.

A pair counts where the outputs of the program, or of the rewritten model in
onnxruntime, are those of a float64 run; the others are listed with how far off
they are, and left out.
"""

import collections
import dataclasses
import json
import os
import pathlib
import sys
import time

import numpy
import onnx

import float64
import making
import models
import truths

FOLDER = models.FOLDER / "sound"
HERE = pathlib.Path(__file__).resolve().parent
# Largest errors of outputs that are right: of the norm, and of an element.
RELATIVE = 1e-3
ABSOLUTE = 1e-6
# A run takes longer with these, so that they are there once.
LARGE = ("nudenet", "text_line", "text_line_6", "basic_pitch", "arabic",
         "spindles")
# Too large for a float64 run or, with 900 operations, for a measure of minutes;
# one that this ONNX cannot run in parts; and captcha_old, of which the steps of
# its own quantisation make outputs chance.
LEFT_OUT = ("slider", "page_layout", "captcha_boxes", "captcha_line", "hebrew",
            "captcha_old")

REWRITERS = {
    "slim": making.slimmed,
    "simplified": making.simplified,
    "optimised": making.optimised("fuse_bn_into_conv",
                                  "eliminate_nop_transpose",
                                  "fuse_consecutive_transposes",
                                  "eliminate_identity",
                                  "eliminate_deadend"),
    "opset_18": making.converted(18),
    "opset_20": making.converted(20),
}
LEVELS = {"disabled": "ort_disabled", "basic": "ort_basic",
          "extended": "ort_extended", "all": "ort_all"}
PROGRAMS = ("openvino_f32", "opencv", "mnn", "litert")


@dataclasses.dataclass
class Pair:
    model: str
    seed: int
    how: str  # A level, a program or a rewriter.

    @property
    def name(self):
        return f"{self.model} {self.seed} {self.how}"


def pairs():
    """All pairs, in an order in which any number of them is a fair choice."""
    names = [name for name in models.MODELS if name not in LEFT_OUT]
    ways = [*reversed(LEVELS), *PROGRAMS, *REWRITERS]
    for seed in range(1, 50):
        for way in ways:
            for name in names:
                if name in LARGE and (seed > 1 or way not in
                                      ("all", "openvino_f32", "slim")):
                    continue
                # There is one file that LiteRT takes.
                if way == "litert" and name != "basic_pitch":
                    continue
                yield Pair(name, seed, way)


class Subject:
    """A model with inputs, and what a float64 run makes of them."""

    def __init__(self, name, seed):
        self.folder = FOLDER / f"{name}_{seed}"
        self.model, self.feeds = making.packaged(self.folder, name, seed)
        values = float64.run(self.model, self.feeds)
        self.expected = {each.name: values[each.name]
                         for each in self.model.graph.output}

    def is_right(self, made):
        return all(float64.error(made[name], x) <= RELATIVE or numpy.abs(
            made[name] - x).max() <= ABSOLUTE
                   for name, x in self.expected.items())


def set_up_litert(subject):
    """LiteRT takes another file, which the package has beside the model. Its
    outputs are known by their shapes and places."""
    file = models.file_of("basic_pitch").parent / "nmp.tflite"
    os.environ["DISAGREEMENTS_TFLITE"] = str(file)
    os.environ["DISAGREEMENTS_OUTPUTS"] = ",".join(
        sorted(subject.expected))


def command_of(pair, subject):
    """What nodewise is given, and what the pair makes; None in the place of
    both if the tool or runtime refuses the model."""
    inputs = ["--inputs", str(subject.folder / "inputs.npz")]
    path = subject.folder / "model.onnx"
    names = list(subject.expected)
    if pair.how in REWRITERS:
        made = REWRITERS[pair.how](subject.model)
        target = subject.folder / f"{pair.how}.onnx"
        onnx.save(made, target)
        ran = truths.many("ort_disabled", [(made, subject.feeds, names)])[0]
        return [str(target), "--reference", str(path), *inputs], ran
    if pair.how == "litert":
        set_up_litert(subject)
    runtime = LEVELS.get(pair.how, pair.how)
    ran = truths.many(runtime, [(subject.model, subject.feeds, names)])[0]
    if pair.how in LEVELS:
        return [f"ort:{path}", "--ort-level", pair.how, *inputs], ran
    return [f"exec:{sys.executable} {HERE}/runtimes.py {runtime}", "--model",
            str(path), *inputs], ran


def try_pair(pair, subject, located):
    """The row of a pair. `why_not` is there where it does not count."""
    row = {"pair": pair.name}
    try:
        command, ran = command_of(pair, subject)
    except BaseException as error:  # pylint: disable=broad-except
        if isinstance(error, KeyboardInterrupt):
            raise
        return {**row, "why_not": f"refused: {str(error)[:80]}"}
    if ran is None or any(x is None for x in ran.values()):
        return {**row, "why_not": "the program does not run it"}
    if not subject.is_right(ran):
        off = float64.error_of_outputs(ran, subject.expected)
        return {**row, "why_not": f"off by {off:.2g} of the float64 run"}
    start = time.monotonic()
    status, document = located([os.environ["NODEWISE"], "locate", *command])
    said = document.get("said") or "; ".join(
        each.get("text", "") for each in document.get("errors", []))
    return {**row, "status": status, "said": said, "command": command,
            "culprits": len(document.get("culprits", [])),
            "seconds": time.monotonic() - start}


def measure(runs, located):
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = FOLDER / "results.jsonl"
    rows = {}
    if results.exists():
        for line in results.read_text("utf-8").splitlines():
            row = json.loads(line)
            rows[row["pair"]] = row
    subjects = collections.OrderedDict()
    done = []
    for pair in pairs():
        if sum("why_not" not in row for row in done) >= runs:
            break
        if models.file_of(pair.model) is None:
            continue
        if pair.name not in rows:
            key = (pair.model, pair.seed)
            if key not in subjects:
                subjects[key] = Subject(*key)
            row = try_pair(pair, subjects[key], located)
            rows[pair.name] = row
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            tell(row)
        done.append(rows[pair.name])
    return summary(done)


def is_clean(row):
    return row["status"] == 0 and not row["culprits"]


def tell(row):
    if "why_not" in row:
        print(f"{row['pair']}: does not count: {row['why_not']}", flush=True)
    elif not is_clean(row):
        print(f"{row['pair']}: exit status {row['status']}: {row['said']}\n"
              f"  {' '.join(row['command'])}", flush=True)


def summary(done):
    counted = [row for row in done if "why_not" not in row]
    accused = [row for row in counted if row["culprits"] or row["status"] == 1]
    unanswered = [row for row in counted if row not in accused and
                  row["status"] != 0]
    for title, rows in (("accused", accused), ("not answered", unanswered)):
        for row in rows:
            print(f"{title}: {row['pair']}: {row['said']}")
    print(f"{len(counted)} sound runs: {len(accused)} accused, "
          f"{len(unanswered)} not answered; {len(done) - len(counted)} pairs "
          "did not count")
    return 0 if counted and not accused and not unanswered else 1
