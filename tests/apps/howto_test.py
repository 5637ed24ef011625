"""README.md and the pages of docs/howto/: every command in them is run, and
prints what the page says.

A block ```console has commands after "$ " and what they print. There "..."
stands for any lines, N and other numbers with a point for any number. A word
after console names what must be there, or the block is skipped. A block with
the name of a file writes that file first.
"""

import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys

from support import BUILD, ROOT, Scratch, nodewise

sys.path.insert(0, str(ROOT / "tests/support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, attribute, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, proto_tensor, value_info)

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/howto").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+) ?([\w.]*)\n(.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"\d\d:\d\d:\d\d\.\d+|\d+\.\d+(e[+-]\d+)?|\d+e[+-]\d+|\bN\b")


def weights(name, dims, rng, most):
    count = 1
    for side in dims:
        count *= side
    values = [rng.uniform(-most, most) for _ in range(count)]
    return proto_tensor(name, dims, FLOAT,
                        (9, struct.pack(f"<{count}f", *values)))


def image_network(pool="MaxPool", images=1):
    """Two convolutions, a pool between them, a classifier."""
    rng = random.Random(1)
    constants = [weights("w1", [8, 3, 3, 3], rng, .4),
                 weights("b1", [8], rng, .1),
                 weights("w2", [32, 8, 3, 3], rng, .2),
                 weights("b2", [32], rng, .1),
                 weights("w3", [10, 32], rng, .5),
                 weights("b3", [10], rng, .1)]
    pads = attribute("pads", [1, 1, 1, 1])
    nodes = [
        onnx_node("Conv", ["image", "w1", "b1"], ["c1"], pads, name="conv1"),
        onnx_node("Relu", ["c1"], ["r1"], name="relu1"),
        onnx_node(pool, ["r1"], ["p1"], attribute("kernel_shape", [2, 2]),
                  attribute("strides", [2, 2]), name="pool1"),
        onnx_node("Conv", ["p1", "w2", "b2"], ["c2"], pads, name="conv2"),
        onnx_node("Relu", ["c2"], ["r2"], name="relu2"),
        onnx_node("GlobalAveragePool", ["r2"], ["g"], name="gap"),
        onnx_node("Flatten", ["g"], ["f"], name="flat"),
        onnx_node("Gemm", ["f", "w3", "b3"], ["l"], attribute("transB", 1),
                  name="classify"),
        onnx_node("Softmax", ["l"], ["probabilities"], name="soft")]
    return onnx_model(onnx_graph(
        nodes, [value_info("image", dims=(images, 3, 16, 16))],
        [value_info("probabilities")], constants))


def network_with_large_numbers():
    """What is normalized has been scaled beyond what fp16 holds."""
    rng = random.Random(1)
    constants = [weights("w1", [64, 64], rng, 1.), weights("b1", [64], rng, .1),
                 proto_tensor("factor", [1], FLOAT,
                              (9, struct.pack("<f", 20000.))),
                 weights("w2", [64, 10], rng, .2)]
    nodes = [onnx_node("MatMul", ["x", "w1"], ["h"], name="project"),
             onnx_node("Add", ["h", "b1"], ["a"], name="bias"),
             onnx_node("Mul", ["a", "factor"], ["s"], name="scale"),
             onnx_node("ReduceL2", ["s"], ["n"], attribute("axes", [1]),
                       attribute("keepdims", 1), name="length"),
             onnx_node("Div", ["s", "n"], ["u"], name="normalize"),
             onnx_node("MatMul", ["u", "w2"], ["l"], name="classify"),
             onnx_node("Softmax", ["l"], ["p"], name="soft")]
    return onnx_model(onnx_graph(nodes, [value_info("x", dims=(4, 64))],
                                 [value_info("p")], constants))


def npy(dims, values):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {dims}, }}"
    head += " " * (117 - len(head)) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) +
            head.encode() + struct.pack(f"<{len(values)}f", *values))


def blocks_of(page):
    return [(kind, word, text) for kind, word, text in
            BLOCK.findall(page.read_text())]


def commands_of(text):
    """Each command with the lines that it prints."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def loosely(line):
    return re.sub(r"\s+", " ", NUMBER.sub("N", line)).strip()


def first_missing(expected, printed):
    """The first line of `expected` that is not there in its place, or none."""
    lines = [loosely(line) for line in printed.splitlines()]
    at, is_anywhere = 0, False
    for line in expected:
        if line.strip() == "...":
            is_anywhere = True
            continue
        if is_anywhere:
            rest = lines[at:]
            if loosely(line) not in rest:
                return line
            at += rest.index(loosely(line)) + 1
        else:
            if at >= len(lines) or lines[at] != loosely(line):
                return line
            at += 1
        is_anywhere = False
    left = [line for line in lines[at:] if line]
    return None if is_anywhere or not left else f"(nothing before) {left[0]}"


class WithBuilds(Scratch):
    def compiled(self, name, model):
        """An artefact as another compiler makes it: its nodes have other names
        and do not say what they compute."""
        if shutil.which("cc") is None:
            self.skipTest("no C compiler (cc)")
        folder = self.folder / name
        made = nodewise("convert", self.write(name + ".onnx", model), "--emit",
                        "c", "-o", folder)
        self.assertEqual(made.code, 0, made)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "lib.c", "-o",
                        "lib.so", "-lm"], cwd=folder, check=True, timeout=100)
        (folder / "lib.c").unlink()
        graph = json.loads((folder / "graph.json").read_text())
        functions = [node for node in graph["nodes"] if node["op"] != "null"]
        for number, node in enumerate(functions):
            node["name"] = f"fused_{number}"
            node["attrs"] = {key: value for key, value in node["attrs"].items()
                             if not key.startswith("nodewise")}
        (folder / "graph.json").write_text(json.dumps(graph))


class HowTo(WithBuilds):
    def setUp(self):
        super().setUp()
        self.write("model.onnx", image_network())
        self.write("norm.onnx", network_with_large_numbers())
        self.compiled("net", image_network("AveragePool"))
        self.compiled("old", image_network())
        rng = random.Random(2)
        image = [rng.uniform(0, 1) for _ in range(3 * 16 * 16)]
        self.write("from_cpp.npy", npy((1, 3, 16, 16), image))
        self.write("from_python.npy",
                   npy((1, 3, 16, 16), [2 * x - 1 for x in image]))
        for page in PAGES:
            for _, name, text in blocks_of(page):
                if name.endswith(".py"):
                    self.write(name, text.encode())

    def environment(self):
        env = dict(os.environ)
        env["PATH"] = f"{BUILD / 'bin'}:{pathlib.Path(sys.executable).parent}:" \
                      + env["PATH"]
        env["NODEWISE_PYTHON"] = str(BUILD / "venv/bin/python")
        return env

    def has(self, what):
        if what != "onnxruntime":
            return not what
        return subprocess.run(
            [self.environment()["NODEWISE_PYTHON"], "-c", "import onnxruntime"],
            capture_output=True, check=False).returncode == 0 \
            if (BUILD / "venv/bin/python").exists() else False

    def test_every_command_prints_what_its_page_says(self):
        self.assertGreaterEqual(len(PAGES), 8)
        for page in PAGES:
            ran = 0
            for kind, word, text in blocks_of(page):
                if kind != "console" or not self.has(word):
                    continue
                for command, expected in commands_of(text):
                    done = subprocess.run(
                        command, shell=True, executable="/bin/bash",
                        cwd=self.folder, env=self.environment(), text=True,
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL, timeout=200, check=False)
                    ran += 1
                    with self.subTest(page=page.name, command=command):
                        self.assertIsNone(
                            first_missing(expected, done.stdout), done.stdout)
            self.assertGreater(ran, 0, page)

    def test_a_page_that_says_something_else_is_seen(self):
        printed = "a 1.5\nb\n\nc 7\n"
        self.assertIsNone(first_missing(["a N", "b", "", "c 7"], printed))
        self.assertIsNone(first_missing(["a 2.5", "...", "c 7"], printed))
        self.assertEqual(first_missing(["a N", "...", "c 8"], printed), "c 8")
        self.assertEqual(first_missing(["b", "..."], printed), "b")
        self.assertIn("c 7", first_missing(["a N", "b"], printed))


