#!/usr/bin/python3
"""Plants faults into compiled networks, has `nodewise locate` write each
culprit as a folder, moves it, and runs its one command: how often does it show
the same failure? Also says how much simpler the inputs have become.

    NODEWISE_BUILD=build tests/measure/repro_measure.py --cases 50 --seed 1

A fault that changes nothing on the inputs of its case (one of negative numbers
behind a Relu, say) is none, and another one is drawn. With --results FILE
cases that are in the file are not run again, and --time SECONDS ends it early.

Needs a C compiler. The last lines have the counts; the exit status is 1 if a
fault has no folder, or one that does not show its failure, and 3 if there was
not enough time. A line of a failure names case and seed.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, INT32, attribute, floats, ints,  # noqa: E402
                        onnx_graph, onnx_model, onnx_node, proto_tensor,
                        value_info)

BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD", ROOT / "build"))
NODEWISE = BUILD / "bin/nodewise"

# Where the library says that a fault has changed what a function made.
EFFECT = "NODEWISE_MEASURE_EFFECT"
MOST_DRAWN = 50

# Changes what a function has made. `size` is the number of elements.
SPOIL = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void nw_say_changed(void) {
  const char* const path = getenv("EFFECT_VARIABLE");
  FILE* const file = path == NULL ? NULL : fopen(path, "w");
  if (file != NULL) fclose(file);
}
static void nw_spoil(char* data, const nw_type* type) {
  int64_t size = 1, i;
  for (i = 0; i < type->ndim; ++i) size *= type->shape[i];
  for (i = 0; i < size; ++i) {
    char before[8];
    const int64_t bytes = type->bits / 8;
    if (!(PLACES)) continue;
    memcpy(before, data + i * bytes, (size_t)bytes);
    if (type->code == 2 && type->bits == 32) {
      float* const at = (float*)data + i;
      *at = (float)(CHANGE);
    } else if (type->bits == 32) {
      ((int32_t*)data)[i] += 1;
    } else if (type->bits == 64 && type->code == 0) {
      ((int64_t*)data)[i] += 1;
    } else if (type->bits == 8) {
      ((uint8_t*)data)[i] ^= 1;
    }
    if (memcmp(before, data + i * bytes, (size_t)bytes) != 0) nw_say_changed();
  }
}
""".replace("EFFECT_VARIABLE", EFFECT)

# Which elements a fault changes, and how.
FAULTS = {
    "scale": ("1", "*at * 1.02f"),
    "offset": ("1", "*at + 0.125f"),
    "one element": ("i == size / 2", "*at + 1"),
    "last lanes": ("i >= size - 2", "0.5f * *at + 1"),
    "every fourth": ("i % 4 == 3", "*at + 0.5f"),
    "not a number": ("i == 0", "NAN"),
    "infinity": ("i == size - 1", "INFINITY"),
    "lost precision": ("1", "*at + (float)ldexp(rint(ldexp(*at, 6)), -6) * "
                            "0.01f"),
    "large ones": ("type->code != 2 || ((float*)data)[i] > 0.25f",
                   "*at + 0.25f"),
    "negative ones": ("type->code != 2 || ((float*)data)[i] < 0",
                      "-*at"),
}


def weights(name, rng, *dims):
    count = 1
    for side in dims:
        count *= side
    values = [rng.uniform(-0.5, 0.5) for _ in range(count)]
    return proto_tensor(name, list(dims), FLOAT,
                        (9, struct.pack(f"<{count}f", *values)))


def image_network(rng):
    return onnx_model(onnx_graph(
        [onnx_node("Conv", ["x", "w1", "b1"], ["c1"],
                   attribute("pads", [1, 1, 1, 1]), name="conv1"),
         onnx_node("Relu", ["c1"], ["r1"], name="relu1"),
         onnx_node("MaxPool", ["r1"], ["p1"], attribute("kernel_shape", [2, 2]),
                   attribute("strides", [2, 2]), name="pool"),
         onnx_node("Conv", ["p1", "w2"], ["c2"], name="conv2"),
         onnx_node("Sigmoid", ["c2"], ["s2"], name="gate"),
         onnx_node("Mul", ["c2", "s2"], ["m2"], name="gated"),
         onnx_node("GlobalAveragePool", ["m2"], ["g"], name="mean"),
         onnx_node("Flatten", ["g"], ["f"], name="flat"),
         onnx_node("Gemm", ["f", "w3", "b3"], ["l"], name="classes"),
         onnx_node("Softmax", ["l"], ["y"], name="last")],
        [value_info("x", dims=(2, 3, 8, 8))], [value_info("y")],
        [weights("w1", rng, 4, 3, 3, 3), floats("b1", .1, -.2, .3, .4),
         weights("w2", rng, 5, 4, 1, 1), weights("w3", rng, 5, 7),
         weights("b3", rng, 7)]), opset=13)


def sequence_network(rng):
    return onnx_model(onnx_graph(
        [onnx_node("MatMul", ["x", "w"], ["q"], name="query"),
         onnx_node("Split", ["q"], ["l", "r"], attribute("axis", 2),
                   name="halves"),
         onnx_node("Transpose", ["r"], ["t"], attribute("perm", [0, 2, 1]),
                   name="turned"),
         onnx_node("MatMul", ["l", "t"], ["s"], name="scores"),
         onnx_node("Softmax", ["s"], ["p"], attribute("axis", -1),
                   name="shares"),
         onnx_node("MatMul", ["p", "r"], ["a"], name="mixed"),
         onnx_node("Concat", ["a", "l"], ["c"], attribute("axis", 2),
                   name="joined"),
         onnx_node("Add", ["c", "x"], ["z"], name="sum"),
         onnx_node("ReduceMean", ["z"], ["m"], attribute("axes", [2]),
                   name="mean"),
         onnx_node("Sub", ["z", "m"], ["d"], name="centred"),
         onnx_node("Tanh", ["d"], ["y"], name="bend")],
        [value_info("x", dims=(1, 5, 8))], [value_info("y")],
        [weights("w", rng, 8, 8)]), opset=13)


def integer_network(rng):
    del rng
    return onnx_model(onnx_graph(
        [onnx_node("Cast", ["x"], ["i"], attribute("to", INT32), name="whole"),
         onnx_node("Add", ["i", "three"], ["a"], name="sum"),
         onnx_node("Mul", ["a", "three"], ["m"], name="product"),
         onnx_node("Gather", ["m", "order"], ["g"], attribute("axis", 1),
                   name="sorted"),
         onnx_node("Cast", ["g"], ["f"], attribute("to", FLOAT),
                   name="numbers"),
         onnx_node("Clip", ["f", "low", "high"], ["c"], name="cut"),
         onnx_node("Reshape", ["c", "sizes"], ["y"], name="row")],
        [value_info("x", dims=(3, 4))], [value_info("y")],
        [proto_tensor("three", [1], INT32, (5, b"\x03")),
         ints("order", 3, 1, 0, 2), ints("sizes", 2, 6),
         proto_tensor("low", [], FLOAT, (9, struct.pack("<f", -20))),
         proto_tensor("high", [], FLOAT, (9, struct.pack("<f", 20)))]),
        opset=13)


NETWORKS = {"image": image_network, "sequence": sequence_network,
            "integer": integer_network}


def run(folder, *command):
    child = subprocess.run(
        [str(word) for word in command], cwd=folder, text=True, check=False,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    return child.returncode, child.stdout, child.stderr


def must(folder, *command):
    code, out, err = run(folder, *command)
    if code != 0:
        sys.exit(f"{command}: {code}\n{out}{err}")
    return out


def functions_of(source):
    return re.findall(r"(?m)^int (nodewise_\w+)\(", source)


def spoiled(source, function, output, fault):
    """The C with a fault in one output of a function."""
    places, change = FAULTS[fault]
    helper = SPOIL.replace("PLACES", places).replace("CHANGE", change)
    begin = source.index(f"\nint {function}(")
    end = source.index("\n}", begin)
    body = source[begin:end]
    outputs = len(set(re.findall(r"\brestrict (out\d+)", re.search(
        rf"static int {function}_loops\(([^)]*)\)", source).group(1))))
    count = int(re.search(r"char\* data\[(\d+)\]", body).group(1))
    at = count - outputs + output % outputs
    head, last = body.rsplit("return ", 1)
    body = (f"{head}{{ const int made = {last.rstrip()} "
            f"nw_spoil(data[{at}], &types[{at}]); return made; }}")
    first = source.rindex("\n/*", 0, source.index(f"{function}_loops("))
    return source[:first] + helper + source[first:begin] + body + source[end:]


def non_zero(path):
    """How many bytes of a .params file are not zero: how simple it is."""
    data = path.read_bytes()
    return len(data) - data.count(0)


class Measuring:
    def __init__(self, seed, folder):
        self.seed, self.folder = seed, folder
        self.sources = {}
        rng = random.Random(seed)
        for name, make in NETWORKS.items():
            net = folder / name
            (folder / f"{name}.onnx").write_bytes(make(rng))
            must(folder, NODEWISE, "convert", f"{name}.onnx", "--no-fuse",
                 "--emit", "c", "-o", net)
            self.sources[name] = (net / "lib.c").read_text()

    def plant(self, case):
        """A folder with one fault that changes something, and what it is in
        words; which node it is in, locate says."""
        rng = random.Random(f"{self.seed}/{case}")
        net = self.folder / f"case{case}"
        changed = self.folder / f"changed{case}"
        for _ in range(MOST_DRAWN):
            name = rng.choice(sorted(NETWORKS))
            source = self.sources[name]
            function = rng.choice(functions_of(source))
            fault = rng.choice(sorted(FAULTS))
            shutil.copytree(self.folder / name, net)
            (net / "lib.c").write_text(
                spoiled(source, function, rng.randrange(4), fault))
            must(net, "cc", "-O1", "-shared", "-fPIC", "lib.c", "-o",
                 "lib.so", "-lm")
            must(net, "env", f"{EFFECT}={changed}", NODEWISE, "run", ".",
                 "--random-inputs", case + 1)
            if changed.exists():
                return net, f"{name}, {function}, {fault}"
            shutil.rmtree(net)
        sys.exit(f"case {case}: no fault changes anything")

    def judge(self, case):
        """What became of one fault: what it is, how many folders were written
        and how many of these showed their failure after they were moved, the
        shares of the inputs' bytes that are left, and what is wrong."""
        net, words = self.plant(case)
        found = {"case": case, "seed": self.seed, "fault": words, "folders": 0,
                 "shown": 0, "left": [], "problem": ""}
        repros = self.folder / f"repros{case}"
        code, out, err = run(net, NODEWISE, "locate", ".", "--random-inputs",
                             case + 1, "--repro", repros)
        if code != 1:
            found["problem"] = f"locate: exit status {code}\n{out}{err}"
            shutil.rmtree(net)
            return found
        moved = self.folder / f"moved {case}"
        shutil.move(repros, moved)
        shutil.rmtree(net)
        for repro in sorted(moved.iterdir()):
            about = json.loads((repro / "repro.json").read_text())
            code, out, err = run(repro, NODEWISE,
                                 *about["command"].split()[1:])
            reasons = [o["reason"] for o in about["outputs"] if o["wrong"]]
            shows = (code == 1 and any(reason in out for reason in reasons)
                     and f"culprit: {about['node']}, broken\n" in out)
            if not shows:
                found["problem"] += f"{repro.name}: {code}\n{out}{err}"
            found["folders"] += 1
            found["shown"] += int(shows)
            if about["shrunk"]:
                found["left"].append(
                    non_zero(repro / "data/inputs.params") /
                    non_zero(repro / "data/original.params"))
        shutil.rmtree(moved)
        return found


def known_results(path, seed):
    """What earlier calls have found, by case."""
    if path is None or not path.exists():
        return {}
    known = {}
    for line in path.read_text().splitlines():
        try:
            found = json.loads(line)
        except ValueError:  # It was being written when the time was over.
            continue
        if found["seed"] == seed:
            known[found["case"]] = found
    return known


def show(results, wanted):
    """Prints the counts; returns whether all is as it must be."""
    written = [found for found in results if found["folders"]]
    folders = sum(found["folders"] for found in results)
    shown = sum(found["shown"] for found in results)
    left = [share for found in results for share in found["left"]]
    share = sum(left) / len(left) if left else 1
    print(f"repros: {len(results)} of {wanted} faults planted, each of which "
          "changes what a node makes\n"
          f"  {len(results) - len(written)} without a folder, since locate "
          "accused no node or failed\n"
          f"  {folders} folders written, moved elsewhere, and the one command "
          "of each run\n"
          f"  {shown} showed the same failure: the same node, broken, for the "
          "same reason\n"
          f"  {len(left)} have simpler inputs, with {share:.1%} of their "
          "bytes other than zero")
    return len(written) == len(results) and shown == folders


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--results", type=pathlib.Path,
                        help="keeps results, and goes on after them")
    parser.add_argument("--time", type=float, metavar="SECONDS",
                        help="begins no case later than this")
    options = parser.parse_args()
    start = time.monotonic()
    chosen = (range(options.cases) if options.case is None
              else [options.case])
    results = known_results(options.results, options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        measuring = Measuring(options.seed, pathlib.Path(scratch))
        for case in chosen:
            if case in results:
                continue
            if (options.time is not None and
                    time.monotonic() - start > options.time):
                break
            found = results[case] = measuring.judge(case)
            if options.results is not None:
                with options.results.open("a") as file:
                    file.write(json.dumps(found) + "\n")
    results = [results[case] for case in chosen if case in results]
    for found in results:
        if found["problem"]:
            print(f"--seed {options.seed} --case {found['case']}: "
                  f"{found['fault']}: {found['problem']}", flush=True)
    is_sound = show(results, len(chosen))
    if len(results) < len(chosen):
        return 3 if is_sound else 1
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
