"""What tests share that need TVM in their process. They run in
build/tvm_venv, which has no onnxruntime."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD", ROOT / "build"))
os.environ.setdefault("NODEWISE_COMMAND", str(BUILD / "bin/nodewise"))
sys.path[:0] = [str(ROOT / "apps/python"), str(ROOT / "tests/tvm"),
                str(ROOT / "tests/support")]

# pylint: disable=wrong-import-position
import networks  # noqa: E402
import numpy  # noqa: E402
import tvm  # noqa: E402
import tvm_side  # noqa: E402
from tvm import relax  # noqa: E402
from tvm.relax import op  # noqa: E402

TENSORS = "output_tensors.params"


def short_floats():
    """Types that numpy does not have."""
    b = networks.Builder()
    x = b.input("x", (3, 5))

    def body(emit):
        short = emit(op.astype(x, "float8_e4m3fn"))
        half = emit(op.astype(short, "bfloat16"))
        other = emit(op.astype(half, "float8_e5m2"))
        return emit(relax.Tuple([short, half, other]))
    return b.finish(body)


def network_of(name):
    """One of these, or of tests/tvm/networks.py."""
    return short_floats() if name == "short_floats" else getattr(
        networks, name)()


def network(name, fused=False):
    """A VM for a network, its function and arguments."""
    made = network_of(name)
    built = tvm_side.build(made.module, fused)
    return (relax.VirtualMachine(built, tvm.cpu()), made.function,
            tvm_side.arguments(made.inputs))


def vm_of(script_module):
    """A VM for a module of TVMScript."""
    return relax.VirtualMachine(
        tvm.compile(script_module, target=tvm_side.TARGET), tvm.cpu())


def tensor(*numbers, dtype="float32"):
    return tvm.runtime.tensor(numpy.array(numbers, dtype))


def number(value):
    return tvm.runtime.tensor(numpy.array(value, "float32"))


def tensors_of(folder):
    """The tensors of a dump by the names of their nodes, as TVM reads it."""
    data = (pathlib.Path(folder) / TENSORS).read_bytes()
    return {name.partition("____")[0]: value for name, value
            in tvm.runtime.load_param_dict(data).items()}


def records_of(folder):
    """The statistics in a dump's records by what else they say, but for the
    times (docs/formats/dump.md)."""
    data = (pathlib.Path(folder) / "_nodewise_nodes.bin").read_bytes()
    found = {}
    for at in range(24, len(data), 88):
        kind, *rest = struct.unpack_from("<HHIIIQQ", data, at)
        key = (kind, *(rest[:4] if kind == 1 else rest))
        if key in found:
            raise AssertionError(f"{folder} has the record {key} twice")
        found[key] = struct.unpack_from("<QQQdddd", data, at + 32)
    return found


def graph_of(folder):
    path = pathlib.Path(folder) / "_nodewise_graph.json"
    return json.loads(path.read_text(encoding="utf-8"))


def names_in(graph):
    return [node["name"] for node in graph["nodes"]]


class WithFolder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def nodewise(self, *words, code=0):
        done = subprocess.run(
            [os.environ["NODEWISE_COMMAND"], *map(str, words)], check=False,
            capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done)
        return done.stdout
