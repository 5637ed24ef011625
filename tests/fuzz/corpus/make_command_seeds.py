#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets of whole commands, NAME_command_fuzz,
into NAME_command/, and of archive_fuzz into archive/, beside this file. Those
of models are onnx/'s, of which these take the ones that commands can run, and
one of their own."""

import json
import pathlib
import shutil
import struct
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "support"))

from onnx_bytes import (FLOAT, attribute, floats, ints, onnx_graph,  # noqa: E402
                        onnx_model, onnx_node, proto_tensor, value_info)

MODELS = ("conv", "if", "loop", "constant", "function", "labels", "random")
NPZ, NPY, PARAMS, PB = range(4)


def small_model():
    """What the other side of `align` is, and a case's input fits."""
    weight = proto_tensor("w", [2, 2, 1, 1], FLOAT,
                          (9, struct.pack("<4f", 0.5, -1, 2, 0.25)))
    nodes = [
        onnx_node("Conv", ["x", "w", "b"], ["c"], name="conv"),
        onnx_node("Relu", ["c"], ["r"], name="relu"),
        onnx_node("Add", ["r", "x"], ["a"], name="add"),
        onnx_node("Softmax", ["a"], ["y"], attribute("axis", 1), name="soft"),
    ]
    return onnx_model(onnx_graph(
        nodes, [value_info("x", dims=[1, 2, 4, 4])],
        [value_info("y", dims=[1, 2, 4, 4])], [weight, floats("b", 1, -1)]))


def pool_model():
    nodes = [
        onnx_node("MaxPool", ["x"], ["p"], attribute("kernel_shape", [2, 2])),
        onnx_node("Transpose", ["p"], ["t"], attribute("perm", [0, 2, 3, 1])),
        onnx_node("Reshape", ["t", "s"], ["f"]),
        onnx_node("ReduceSum", ["f", "a"], ["y"]),
    ]
    return onnx_model(onnx_graph(
        nodes, [value_info("x", dims=[1, 2, 4, 4])], [value_info("y")],
        [ints("s", 3, 6), ints("a", 0)]))


def npy(shape, values):
    header = str({"descr": "<f4", "fortran_order": False,
                  "shape": shape}).ljust(117) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
            + header.encode() + struct.pack(f"<{len(values)}f", *values))


def params(name, values):
    return (struct.pack("<QQQQ", 0xF7E58D4F05049CB7, 0, 1, len(name))
            + name.encode() + struct.pack("<Q", 1)
            + struct.pack("<QQiiiBBHq", 0xDD5E40F096B4A13F, 0, 1, 0, 1, 2, 32,
                          1, len(values))
            + struct.pack("<Q", 4 * len(values))
            + struct.pack(f"<{len(values)}f", *values))


def pair(kinds, first, second, flags=0):
    """As compare_command_fuzz takes two files apart."""
    return (bytes([kinds[0] | kinds[1] << 2 | flags])
            + len(first).to_bytes(2, "big") + first + second)


def compare_seeds():
    one, two = [1.0, 2.0, 3.0], [1.0, 2.5, float("nan")]
    tensor = proto_tensor("a", [3], FLOAT, (9, struct.pack("<3f", *one)))
    return {
        "arrays": pair((NPY, NPY), npy((3,), one), npy((3,), two)),
        "params": pair((PARAMS, PARAMS), params("a", one), params("a", two)),
        "spelling": pair((PARAMS, PARAMS), params("conv/a:0", one),
                         params("conv_a", two), 0x10),
        "mixed": pair((PB, PARAMS), tensor, params("a", two), 0x20),
    }


def replay_seeds():
    """The first byte names the file that the rest is put in the place of."""
    return {"graph": b"\0{}", "records": b"\1" + bytes(8),
            "tensors": b"\3" + params("x____topo-index:0____output-num:0",
                                      [0.0] * 32)}


def archive_seeds():
    """A search that names a culprit; an error; a member of another type."""
    graph = {"nodes": [
        {"node": "x", "function": "", "reads": []},
        {"node": "conv", "function": "f", "reads": [0]},
        {"node": "pool", "function": "g", "reads": [1]},
        {"node": "add", "function": "h", "reads": [2, 1]}]}
    located = {
        "schema": "nodewise/1", "version": "0.1.0", "verb": "locate",
        "command": ["nodewise", "locate", "net"], "status": "differs",
        "report": ["culprit: pool, broken\n",
                   {"indent": 2, "most_rows": 1,
                    "rows": [["reads", "conv:0"], ["evidence", "all of it"]]}],
        "notes": ["a note"], "graph": graph,
        "verdicts": [{"node": "add", "node_index": 3, "kind": "inherits",
                      "reason": "what it read was off"}],
        "culprits": [{"node": "pool", "node_index": 2, "kind": "broken",
                      "explanations": [{"what": "AveragePool"}],
                      "source_nodes": ["pool1"]}]}
    error = {"schema": "nodewise/1", "status": "error",
             "errors": [{"text": "x.npz: has no tensor"}]}
    return {name: json.dumps(document).encode() for name, document in {
        "located": located, "error": error,
        "newer": {"schema": "nodewise/2"},
        "type": {**located, "graph": [graph]}}.items()}


def main():
    seeds = {"archive": archive_seeds(), "compare_command": compare_seeds(),
             "replay_command": replay_seeds()}
    models = {"small": small_model(), "pool": pool_model()}
    for target in ("align_command", "case_command", "convert_command"):
        seeds[target] = dict(models)
    for target, files in seeds.items():
        folder = FOLDER / target
        folder.mkdir(exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    for name in MODELS:
        shutil.copy(FOLDER / "onnx" / name, FOLDER / "convert_command" / name)


if __name__ == "__main__":
    main()
