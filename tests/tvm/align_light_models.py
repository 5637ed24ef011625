#!/usr/bin/python3
"""How much of a real model that TVM compiled does nodewise know again?

    tests/tvm/align_light_models.py [--seed N] [--model NAME]...

Has TVM compile the light models of ONNX's package with weights drawn from the
seed (a new one each time, unless it is given), all or those named, one after
the other, fused and plain, and runs `align` and `locate` beside the model.
Prints a line for each. Exit status: 1 if a node is accused, or if fewer nodes
than there must be hold a tensor of the model or are between such nodes.
"""

import argparse
import json
import pathlib
import random
import resource
import subprocess
import sys
import tempfile

import tvm_package

# Shares of the nodes that depend on inputs.
LEAST_MATCHED = 0.90
LEAST_MATCHED_OR_BETWEEN = 0.98
WAYS = ("fused", "plain")
MAKER = tvm_package.HERE / "compile_light_model.py"


def seconds_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def nodewise(*words):
    """The document that a command prints."""
    ran = subprocess.run([tvm_package.NODEWISE, *map(str, words), "--json"],
                         stdin=subprocess.DEVNULL, capture_output=True,
                         text=True, timeout=1200, check=False)
    try:
        return json.loads(ran.stdout)
    except json.JSONDecodeError:
        raise RuntimeError(f"{words}: {ran.stderr.strip()}") from None


class Aligned:
    """What is known of one model beside the library made of it."""

    def __init__(self, folder, way, seed):
        self.name = f"{folder.name} {way}"
        library, model = folder / f"{way}.so", folder / "model.onnx"
        inputs = ("--random-inputs", seed)
        start = seconds_of_children()
        align = nodewise("align", library, model, *inputs)
        self.seconds = seconds_of_children() - start
        locate = nodewise("locate", library, "--reference", model, *inputs)
        self.errors = (align.get("errors") or []) + (
            locate.get("errors") or [])
        self.nodes = align.get("nodes", 0)
        self.matched = align.get("matched", 0)
        self.between = align.get("between", 0)
        self.accused = [c["node"] for c in locate.get("culprits", [])]

    def is_right(self):
        return not self.accused and self.is_known()

    def is_known(self):
        return not self.errors and (
            self.matched >= LEAST_MATCHED * self.nodes
            and self.matched + self.between
            >= LEAST_MATCHED_OR_BETWEEN * self.nodes)

    def __str__(self):
        said = (f"{self.name}: {self.nodes} nodes, {self.matched} matched, "
                f"{self.between} between, {len(self.accused)} accused, "
                f"{self.seconds:.1f} s of processor time")
        what = self.errors or self.accused
        return f"{said}: {what}" if what else said


def models():
    listed = tvm_package.run(MAKER, "list")
    if listed.returncode != 0:
        raise RuntimeError(listed.stderr)
    return listed.stdout.split()


def align(seed, name):
    """What became of the model in both ways of compiling it."""
    # Some take a gigabyte, which is gone afterwards.
    with tempfile.TemporaryDirectory() as root:
        made = tvm_package.run(MAKER, root, seed, name)
        if made.returncode != 0:
            raise RuntimeError(f"{name}: {made.stderr}")
        return [Aligned(pathlib.Path(root) / name, way, seed)
                for way in WAYS]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(10 ** 6))
    parser.add_argument("--model", action="append")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    is_right = True
    for name in options.model or models():
        for one in align(options.seed, name):
            print("" if one.is_right() else "WRONG ", one, sep="", flush=True)
            is_right = is_right and one.is_right()
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
