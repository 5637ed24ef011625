"""Writes the demo's graph, parameters and input into a folder."""

import json
import pathlib
import struct
import sys


def tensor(values, shape):
    """One tensor as it stands in a .params file."""
    data = struct.pack(f"<{len(values)}f", *values)
    return (struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, len(shape),
                        2, 32, 1) +
            struct.pack(f"<{len(shape)}q", *shape) +
            struct.pack("<Q", len(data)) + data)


def params(tensors):
    names = b"".join(
        struct.pack("<Q", len(name)) + name.encode() for name in tensors)
    return (struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(tensors)) + names +
            struct.pack("<Q", len(tensors)) +
            b"".join(tensor(*value) for value in tensors.values()))


def function(name, inputs):
    return {
        "op": "tvm_op",
        "name": name,
        "attrs": {
            "num_outputs": "1",
            "num_inputs": str(len(inputs)),
            "flatten_data": "0",
            "func_name": name
        },
        "inputs": [[node, 0, 0] for node in inputs],
    }


def graph():
    dense = "tvmgen_default_fused_nn_dense_add_nn_relu"
    softmax = "tvmgen_default_fused_nn_softmax"
    nodes = [{"op": "null", "name": name, "inputs": []}
             for name in ("data", "p0", "p1")]
    nodes += [function(dense, [0, 1, 2]), function(softmax, [3])]
    return {
        "nodes": nodes,
        "arg_nodes": [0, 1, 2],
        "heads": [[4, 0, 0]],
        "attrs": {
            "dltype": ["list_str", ["float32"] * 5],
            "shape": ["list_shape", [[1, 4], [3, 4], [3], [1, 3], [1, 3]]],
            "storage_id": ["list_int", [0, 1, 2, 3, 4]],
        },
        "node_row_ptr": [0, 1, 2, 3, 4, 5],
    }


def main(folder):
    weights = [0.5, -1, 0.25, 2, 1, 1, 1, 1, -0.5, 0, 3, -2]
    (folder / "graph.json").write_text(json.dumps(graph(), indent=2))
    (folder / "params.params").write_bytes(
        params({"p0": (weights, [3, 4]), "p1": ([0.5, 0, -0.5], [3])}))
    # Beside the artefact, not in it: a folder has one file of parameters.
    (folder.parent / "input.params").write_bytes(
        params({"data": ([1, 2, 3, 4], [1, 4])}))


main(pathlib.Path(sys.argv[1]))
