"""What the tests of the command share: running it, and small artefacts.

The artefacts are made here, to TVM's formats: graph JSON and .params by
Python, the library by the C compiler.
"""

import atexit
import collections
import fcntl
import functools
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD", ROOT / "build"))
NODEWISE = BUILD / "bin/nodewise"


def has_lab():
    """Whether the build draws cases of its own (USE_LAB)."""
    shown = subprocess.run([NODEWISE, "help"], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, check=False).stdout
    return re.search(r"\n  autotest (?!.*not in this build)", shown) is not None


HAS_LAB = has_lab()
needs_lab = unittest.skipUnless(HAS_LAB, "this build has no lab (USE_LAB)")

Result = collections.namedtuple("Result", "code out err")

# TVM's numbers for types, and how struct packs one element.
DTYPES = {
    "int1": (0, 1, "b"), "int8": (0, 8, "b"), "int16": (0, 16, "h"), "int32": (0, 32, "i"),
    "int64": (0, 64, "q"), "bool": (1, 1, "?"), "uint8": (1, 8, "B"),
    "uint16": (1, 16, "H"), "uint32": (1, 32, "I"), "uint64": (1, 64, "Q"),
    "float16": (2, 16, "e"), "float32": (2, 32, "f"),
    "float64": (2, 64, "d"), "bfloat16": (4, 16, "H"),
    "e4m3_float8": (10, 8, "B"), "bool8": (6, 8, "?"),
}
NPY_DTYPES = {"float32": "<f4", "float64": "<f8", "float16": "<f2",
              "int32": "<i4", "int64": "<i8", "uint8": "|u1", "bool": "|b1",
              "bfloat16": "<V2"}

# `shape` is a tuple; `values` are Python numbers (for bfloat16 and the 8-bit
# floats, the bits), row by row.
Tensor = collections.namedtuple("Tensor", "dtype shape values")

KERNELS = r"""
#include <string.h>
#include "nodewise/func/packed_abi.h"

/* Filled in by the runtime, as in a library of TVM's LLVM target. */
__attribute__((weak)) void (*__TVMAPISetLastError)(const char*);

static DLTensor* tensor(TVMValue* args, int i) {
  return (DLTensor*)args[i].v_handle;
}

static size_t count(const DLTensor* t) {
  size_t n = 1;
  for (int i = 0; i < t->ndim; ++i) n *= (size_t)t->shape[i];
  return n;
}

#define KERNEL(name)                                                  \
  int name(TVMValue* args, int* codes, int num_args, TVMValue* ret,   \
           int* ret_code, void* resource)

/* out = data + bias, the bias along the last dimension. */
KERNEL(add_bias) {
  const float* data = tensor(args, 0)->data;
  const float* bias = tensor(args, 1)->data;
  float* out = tensor(args, 2)->data;
  const size_t n = count(tensor(args, 2));
  const size_t columns = count(tensor(args, 1));
  for (size_t i = 0; i < n; ++i) out[i] = data[i] + bias[i % columns];
  return 0;
}

/* out = data, of any type. */
KERNEL(copy) {
  const DLTensor* out = tensor(args, 1);
  const size_t bytes = (out->dtype.bits + 7) / 8 * count(out);
  memcpy(out->data, tensor(args, 0)->data, bytes);
  return 0;
}

KERNEL(fail) {
  __TVMAPISetLastError("this kernel always fails");
  return -1;
}
"""


def nodewise(*arguments, env=None):
    child = subprocess.run([NODEWISE, *map(str, arguments)],
                           stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=60, check=False, env=env)
    return Result(child.returncode, child.stdout.decode(errors="replace"),
                  child.stderr.decode(errors="replace"))


def nodewise_on_terminal(columns, *arguments):
    """What the command shows on a terminal with this many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ,
                struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([NODEWISE, *map(str, arguments)], stdout=theirs,
                          stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as child:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # What a terminal's end looks like on Linux.
            pass
        child.wait(timeout=60)
    os.close(ours)
    return shown.decode(errors="replace").replace("\r\n", "\n")


@functools.cache
def schema():
    """Checks documents, or None where Python's jsonschema is missing."""
    try:
        import jsonschema
    except ImportError:
        return None
    with open(ROOT / "contrib/report/nodewise-1.schema.json") as file:
        return jsonschema.Draft202012Validator(json.load(file))


def check_schema(text):
    """Fails unless the document is as the schema file says."""
    shown = json.loads(text)
    if schema() is not None:
        fault = next(schema().iter_errors(shown), None)
        if fault is not None:
            raise AssertionError(f"{fault.json_path}: {fault.message[:500]}")
    return shown


def document(result):
    """The one JSON document of a run with --json, which is as the schema says."""
    return check_schema(result.out)


class Scratch(unittest.TestCase):
    """A test with an empty folder of its own, `self.folder`."""

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def make_network(self, library, graph):
        """`self.net`, an artefact of a graph that has the parameter bias, and
        `self.inputs`, a file with its input."""
        self.net = library.artefact(self.folder / "net", graph, {"bias": BIAS})
        self.inputs = self.write("in.params", params_bytes({"data": DATA}))

    def refused(self, *arguments):
        """Runs what must exit with 2; its one error, as text and as JSON."""
        before = sorted(self.folder.rglob("*"))
        shown = nodewise(*arguments)
        asked = nodewise(*arguments, "--json")
        self.assertEqual(shown.code, 2, shown)
        self.assertEqual(shown.out, "")
        self.assertEqual(asked.code, 2, asked)
        self.assertEqual(asked.err, "")
        found = document(asked)
        self.assertEqual(found["status"], "error")
        self.assertTrue(found["errors"])
        self.assertTrue(found["errors"][0]["where"], found)
        self.assertRegex(shown.err, r"\Anodewise: ")
        self.assertEqual(sorted(self.folder.rglob("*")), before)
        return shown.err


# --- files ------------------------------------------------------------------


def raw(tensor):
    code = DTYPES[tensor.dtype][2]
    return struct.pack(f"<{len(tensor.values)}{code}", *tensor.values)


def params_bytes(tensors):
    """`tensors`: name -> Tensor, as TVM's save_param_dict writes them."""
    data = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(tensors))
    for name in tensors:
        data += struct.pack("<Q", len(name)) + name.encode()
    data += struct.pack("<Q", len(tensors))
    for tensor in tensors.values():
        code, bits, _ = DTYPES[tensor.dtype]
        content = raw(tensor)
        data += struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0,
                            len(tensor.shape), code, bits, 1)
        data += struct.pack(f"<{len(tensor.shape)}q", *tensor.shape)
        data += struct.pack("<Q", len(content)) + content
    return data


def with_one(data, old, new):
    """The bytes with `new` in the one place of `old`, of the same length."""
    assert data.count(old) == 1 and len(old) == len(new), old
    return data.replace(old, new)


def npy_bytes(tensor):
    header = str({"descr": NPY_DTYPES[tensor.dtype], "fortran_order": False,
                  "shape": tensor.shape})
    header = header.ljust(118 - 1) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
            + header.encode() + raw(tensor))


# --- graphs -----------------------------------------------------------------


class Graph:
    """Builds a graph JSON in which every tensor has storage of its own."""

    def __init__(self):
        self._nodes, self._rows = [], [0]
        self._shapes, self._dtypes, self._heads = [], [], []

    def _add(self, node, outputs):
        self._nodes.append(node)
        for dtype, shape in outputs:
            self._dtypes.append(dtype)
            self._shapes.append(list(shape))
        self._rows.append(len(self._dtypes))
        return len(self._nodes) - 1

    def input(self, name, dtype, shape):
        return self._add({"op": "null", "name": name, "inputs": []},
                         [(dtype, shape)])

    def call(self, function, inputs, dtype, shape, name=None):
        attrs = {"func_name": function, "flatten_data": "0",
                 "num_inputs": str(len(inputs)), "num_outputs": "1"}
        return self._add({"op": "tvm_op", "name": name or function,
                          "attrs": attrs,
                          "inputs": [[i, 0, 0] for i in inputs]},
                         [(dtype, shape)])

    def output(self, node):
        self._heads.append([node, 0, 0])
        return self

    def tree(self):
        return {
            "nodes": self._nodes,
            "arg_nodes": [i for i, node in enumerate(self._nodes)
                          if node["op"] == "null"],
            "heads": self._heads,
            "attrs": {
                "dltype": ["list_str", self._dtypes],
                "shape": ["list_shape", self._shapes],
                "storage_id": ["list_int", list(range(len(self._dtypes)))],
            },
            "node_row_ptr": self._rows,
        }


def add_bias_graph():
    """data float32 (2, 3) + bias float32 (3,)"""
    graph = Graph()
    data = graph.input("data", "float32", (2, 3))
    bias = graph.input("bias", "float32", (3,))
    return graph.output(graph.call("add_bias", [data, bias], "float32",
                                   (2, 3)))


def copy_graph(dtype, shape):
    graph = Graph()
    data = graph.input("data", dtype, shape)
    return graph.output(graph.call("copy", [data], dtype, shape))


DATA = Tensor("float32", (2, 3), (1, 2, 3, 4, 5, 6))
BIAS = Tensor("float32", (3,), (0.5, -1, 10))


# --- artefacts --------------------------------------------------------------


def compile_library(source, path):
    """Compiles C to a shared library; skips the test without a compiler."""
    if shutil.which("cc") is None:
        raise unittest.SkipTest("no C compiler (cc)")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o",
                    path, "-I", ROOT / "runtime/include"],
                   input=source.encode(), check=True, timeout=60)


class Library:
    """The kernels, compiled when a test of the file first asks for them."""

    SOURCE = KERNELS

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        atexit.register(self._folder.cleanup)

    @functools.cached_property
    def path(self):
        path = pathlib.Path(self._folder.name) / "lib.so"
        compile_library(self.SOURCE, path)
        return path

    def artefact(self, folder, graph, params=None):
        """Writes an artefact folder and returns it."""
        folder.mkdir(exist_ok=True)
        tree = graph.tree() if isinstance(graph, Graph) else graph
        (folder / "graph.json").write_text(json.dumps(tree, indent=1))
        shutil.copy(self.path, folder / "lib.so")
        if params is not None:
            (folder / "params.params").write_bytes(params_bytes(params))
        return folder
