#!/usr/bin/python3
"""How often does `nodewise locate LIBRARY --reference MODEL.onnx` name the
broken operator of a network that TVM compiled?

    tests/tvm/judge_faulty_models.py [--seed N] [--faults N] [--folder DIR]
                                     [--model MODEL.onnx] [-v]

Makes models, faults and libraries with faulty_models.py, drawn from the seed
(a new one each time, unless it is given), in DIR or in a folder of its own;
with --model of that one, whose inputs.npz lies beside it.
Prints a line for each network and way of compiling it, and every case that was
not named first. Exit status: 1 if a sound build has a culprit, or a broken one
none with the broken operator among four at most.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import tvm_package

WAYS = ("fused", "plain")
MOST_NAMED = 4
ALL_NETWORKS = 1000  # No more than there are.


def locate(folder, library):
    ran = subprocess.run(
        [tvm_package.NODEWISE, "locate", folder / library, "--reference",
         folder / "model.onnx", "--inputs", folder / "inputs.npz", "--json"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
        check=False)
    try:
        return json.loads(ran.stdout)
    except json.JSONDecodeError:
        return {"errors": [ran.stderr.strip()]}


class Judged:
    """What became of one library."""

    def __init__(self, folder, way, fault, number):
        name = "good" if fault is None else str(number)
        self.title = f"{folder.name} {way} {name}"
        self.tensor = fault and fault["tensor"]
        self.what = fault and f"{fault['tensor']}: {fault['what']}"
        found = locate(folder, f"{name}-{way}.so")
        self.errors = found.get("errors") or []
        self.named = [c["source_tensors"] for c in found.get("culprits", [])]

    def is_right(self):
        if self.errors:
            return False
        if self.tensor is None:
            return not self.named
        return any(self.tensor in n and len(n) <= MOST_NAMED
                   for n in self.named)

    def is_alone(self):
        return len(self.named) == 1

    def is_first(self):
        return bool(self.named and self.named[0]) and (
            self.named[0][0] == self.tensor)

    def __str__(self):
        return (f"{self.title} ({self.what or 'no fault'}): "
                f"{self.errors or self.named}")


def make(folder, seed, faults, networks=ALL_NETWORKS):
    made = tvm_package.run(tvm_package.HERE / "faulty_models.py", folder, seed,
                           faults, networks, *WAYS)
    if made.returncode != 0:
        raise RuntimeError(made.stderr)


def judge(root, ways=WAYS):
    """The Judged of every library below the folder."""
    judged = []
    for folder in sorted(pathlib.Path(root).iterdir()):
        faults = json.loads((folder / "faults.json").read_text())
        for way in ways:
            judged.append(Judged(folder, way, None, None))
            judged += [Judged(folder, way, fault, i)
                       for i, fault in enumerate(faults)]
    return judged


def report(judged, verbose):
    """Prints what came out; returns whether all is as it must be."""
    kinds = {}
    for one in judged:
        kinds.setdefault(one.title.rsplit(" ", 1)[0], []).append(one)
    for kind, ones in kinds.items():
        broken = [one for one in ones if one.tensor is not None]
        print(f"{kind}: sound {'ok' if ones[0].is_right() else 'ACCUSED'}, "
              f"{len(broken)} broken: "
              f"{sum(one.is_right() for one in broken)} right, "
              f"{sum(one.is_alone() for one in broken)} with one node, "
              f"{sum(one.is_first() for one in broken)} first")
    for one in judged:
        if verbose or not one.is_right():
            print("  " if one.is_right() else "WRONG", one)
    return all(one.is_right() for one in judged)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(10 ** 6))
    parser.add_argument("--faults", type=int, default=10)
    parser.add_argument("--folder")
    parser.add_argument("--model", default=ALL_NETWORKS)
    parser.add_argument("-v", action="store_true", dest="verbose")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.folder or pathlib.Path(scratch) / "made")
        if not folder.exists():
            make(folder, options.seed, options.faults, options.model)
        return 0 if report(judge(folder), options.verbose) else 1


if __name__ == "__main__":
    sys.exit(main())
