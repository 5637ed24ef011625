#!/usr/bin/python3
"""What does each number that align was tuned with do?

    tests/tvm/measure_align_constants.py [--constant NAME]... [--folder DIR]

Halves and doubles each constant of contrib/align/align_limits.h, one at a time,
and looks for the faults of a fixed sample of builds with each, which TVM makes
of models that are drawn from one seed: sound, with faults, in types of fewer
bits, and such that the values alone say little.
Prints a row for each constant: which answers became worse or better, how many
nodes fewer or more hold a tensor of their model, and the processor time as a
ratio. The header says why a constant has its value; this says what would come
of another one.

The command that is measured is built in build/constants from a header that is
made of align_limits.h and takes one constant times a factor from the
environment. Takes less than an hour; goes on where it was stopped, if the
header is the same.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import judge_faulty_models
import tvm_package

HEADER = tvm_package.ROOT / "contrib/align/align_limits.h"
BUILD = tvm_package.ROOT / "build/constants"
NODEWISE = BUILD / "bin/nodewise"
SEED, FAULTS = 20_261_129, 12
WAYS = judge_faulty_models.WAYS
NETWORKS_IN_SHORT_TYPES = ("image", "attention")
SHORT_WAYS = ("half", "mixed", "steps", "whole", "joined")
FACTORS = (0.5, 2.0)
CONSTANT = re.compile(
    r"^inline constexpr (\w+) (k\w+)\s*=\s*([^;]+);", re.MULTILINE)
# The header's constants are read where the process starts, by one function.
READER = """
#include <cstdlib>
#include <cstring>

namespace nodewise {
template <typename Number>
Number Tuned(const char* name, Number value) {
  const char* const wanted = std::getenv("NODEWISE_CONSTANT");
  if (wanted == nullptr || std::strcmp(wanted, name) != 0) return value;
  return static_cast<Number>(static_cast<double>(value) *
                             std::atof(std::getenv("NODEWISE_TIMES")));
}
}  // namespace nodewise
"""


def constants():
    """The names and values of the header's constants, in its order."""
    return [(name, " ".join(value.split()))
            for _, name, value in CONSTANT.findall(HEADER.read_text())
            if name != "kInfinity"]


def tunable_header():
    text = CONSTANT.sub(r'inline const \1 \2 = Tuned<\1>("\2", \3);',
                        HEADER.read_text())
    return text.replace("\nnamespace nodewise {", READER
                        + "\nnamespace nodewise {", 1)


def build():
    """Builds the command with constants that the environment changes."""
    header = BUILD / "include" / HEADER.relative_to(tvm_package.ROOT)
    header.parent.mkdir(parents=True, exist_ok=True)
    if not header.exists() or header.read_text() != tunable_header():
        header.write_text(tunable_header())
    # What -iquote names is looked through before all other folders.
    subprocess.run(
        ["cmake", "-S", tvm_package.ROOT, "-B", BUILD, "-G", "Ninja",
         "-DCMAKE_BUILD_TYPE=Release", "-DUSE_LAB=OFF",
         f"-DCMAKE_CXX_FLAGS=-iquote {BUILD / 'include'}"],
        check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BUILD, "--target", "nodewise"],
                   check=True, stdout=subprocess.DEVNULL)


def run(change, *words):
    """The document that a command prints, and its processor time."""
    constant, factor = change
    with subprocess.Popen(
            [NODEWISE, *map(str, words), "--json"], text=True,
            env=dict(os.environ, NODEWISE_CONSTANT=constant,
                     NODEWISE_TIMES=str(factor)), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    try:
        return json.loads(printed), usage.ru_utime + usage.ru_stime
    except json.JSONDecodeError:
        return {"errors": ["no answer"]}, usage.ru_utime + usage.ru_stime


class Build(NamedTuple):
    """A library beside the model it was made of."""
    title: str
    library: pathlib.Path
    model: pathlib.Path
    inputs: pathlib.Path
    tensor: str | None  # What its fault makes wrong first, if it has one.


def drawn_builds(root):
    """Models of drawn_networks.py, sound and with faults."""
    if not root.exists():
        judge_faulty_models.make(root, SEED, FAULTS)
    for folder in sorted(root.iterdir()):
        faults = json.loads((folder / "faults.json").read_text())
        for way in WAYS:
            for name, tensor in [("good", None)] + [
                    (i, fault["tensor"]) for i, fault in enumerate(faults)]:
                yield folder, f"{name}-{way}.so", "model", "inputs", tensor


def doubtful_builds(root):
    """Models of which the values alone say little."""
    if not root.exists():
        make("doubtful_models.py", root)
    for folder in sorted(root.iterdir()):
        truth = json.loads((folder / "truth.json").read_text())
        for way in WAYS:
            for name, tensor in [("good", None), *truth.items()]:
                yield folder, f"{name}-{way}.so", "model", "inputs", tensor


def short_builds(root):
    """Sound models in types of fewer bits than the model's."""
    for network in NETWORKS_IN_SHORT_TYPES:
        if not (root / network).exists():
            make("short_types.py", root, SEED, network, *SHORT_WAYS)
        for way in SHORT_WAYS:
            inputs = "half" if way == "half" else "inputs"
            yield root / network, f"{way}.so", "model", inputs, None


def make(program, *arguments):
    made = tvm_package.run(tvm_package.HERE / program, *arguments)
    if made.returncode != 0:
        raise RuntimeError(made.stderr)


class Sample:
    """The builds, made in a folder unless they are there."""

    def __init__(self, root):
        root.mkdir(parents=True, exist_ok=True)
        self.builds = [
            Build(f"{folder.name}/{library}", folder / library,
                  folder / f"{model}.onnx", folder / f"{inputs}.npz", tensor)
            for folder, library, model, inputs, tensor in (
                *drawn_builds(root / "drawn"),
                *doubtful_builds(root / "doubtful"),
                *short_builds(root / "short"))]

    def digest(self):
        """Changes with the builds, and with the command."""
        files = [NODEWISE, *(build.library for build in self.builds)]
        digest = hashlib.sha256()
        for file in files:
            digest.update(file.read_bytes())
        return digest.hexdigest()[:16]

    def answers(self, change):
        """What comes out with a constant times a factor: for each build how
        good the answer is, how many nodes of sound builds hold a tensor of the
        model, and the seconds of processor time."""
        good, matched, seconds = {}, 0, 0.0
        for build in self.builds:
            beside = ("--inputs", build.inputs)
            found, took = run(change, "locate", build.library, "--reference",
                              build.model, *beside)
            good[build.title] = goodness(found, build.tensor)
            seconds += took
            if build.tensor is None:
                found, took = run(change, "align", build.library, build.model,
                                  *beside)
                matched += found.get("matched", 0)
                seconds += took
        return {"good": good, "matched": matched, "seconds": seconds}


def goodness(found, tensor):
    """0 for a wrong answer to 3 for one that names the fault alone."""
    if found.get("errors"):
        return 0
    named = [c["source_tensors"] for c in found.get("culprits", [])]
    if tensor is None:
        return 0 if named else 3
    if not any(tensor in n and len(n) <= judge_faulty_models.MOST_NAMED
               for n in named):
        return 0
    if named[0][0] != tensor:
        return 1
    return 3 if len(named) == 1 else 2


def row(usual, found):
    """What another value does, in words."""
    worse = [b for b, good in found["good"].items() if good < usual["good"][b]]
    better = [b for b, good in found["good"].items() if good > usual["good"][b]]
    wrong = [b for b in worse if found["good"][b] == 0]
    said = []
    if wrong:
        said.append(f"{len(wrong)} wrong")
    if len(worse) > len(wrong):
        said.append(f"{len(worse) - len(wrong)} vaguer")
    if better:
        said.append(f"{len(better)} better")
    if found["matched"] != usual["matched"]:
        said.append(f"{found['matched'] - usual['matched']:+} nodes matched")
    times = found["seconds"] / usual["seconds"]
    if not 0.75 < times < 1.25:
        said.append(f"{times:.2f}x the time")
    return ", ".join(said) or "-"


def measure(sample, names, kept):
    """The answers with each change, those in the file `kept` as they were."""
    known = {}
    if kept.exists():
        for line in kept.read_text().splitlines():
            one = json.loads(line)
            known[tuple(one.pop("change"))] = one
    changes = [("", 1.0)] + [(name, factor) for name in names
                             for factor in FACTORS]
    missing = [change for change in changes if change not in known]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for change, found in zip(missing, pool.map(sample.answers, missing)):
            known[change] = found
            with kept.open("a") as file:
                file.write(json.dumps({"change": change, **found}) + "\n")
            print(f"{change[0] or 'as it is'} x {change[1]}", file=sys.stderr,
                  flush=True)
    return known


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--constant", action="append")
    parser.add_argument("--folder", default=BUILD / "sample")
    options = parser.parse_args()
    build()
    sample = Sample(pathlib.Path(options.folder))
    listed = [(name, value) for name, value in constants()
              if not options.constant or name in options.constant]
    found = measure(sample, [name for name, _ in listed],
                    BUILD / f"answers_{sample.digest()}.jsonl")
    usual = found["", 1.0]
    best = sum(good == 3 for good in usual["good"].values())
    print(f"{len(sample.builds)} builds, {best} answered with the fault alone, "
          f"{sum(good == 0 for good in usual['good'].values())} wrongly; "
          f"{usual['matched']} nodes of sound builds matched; "
          f"{usual['seconds']:.1f} s of processor time\n")
    print("| constant | value | halved | doubled |\n|---|---|---|---|")
    for name, value in listed:
        print(f"| `{name}` | {value} | {row(usual, found[name, 0.5])} | "
              f"{row(usual, found[name, 2.0])} |", flush=True)


if __name__ == "__main__":
    main()
