#!/usr/bin/env python3
"""Writes the seeds of graph_json_fuzz, params_fuzz, dump_fuzz,
module_blob_fuzz, onnx_fuzz and tensor_proto_fuzz into graph_json/, params/,
dump/, module_blob/, onnx/ and tensor_proto/, beside this file.

Each is small and shows one thing that a writer of these formats does, from
TVM 0.6 to 0.19. Needs nothing but Python, so the seeds are the same on every
machine.
"""

import json
import pathlib
import struct
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1] / "support"))

import onnx_seeds  # noqa: E402

CPU, CUDA = 1, 2

# --- graphs -----------------------------------------------------------------


def node(name, inputs=(), function=None, **attrs):
    """An input, or a function with its inputs as [node, output, version]."""
    result = {"op": "tvm_op" if function else "null", "name": name,
              "inputs": [list(entry) for entry in inputs]}
    if function:
        result["attrs"] = {"num_outputs": str(attrs.pop("outputs", 1)),
                           "num_inputs": str(len(inputs)),
                           "flatten_data": attrs.pop("flatten", "0"),
                           "func_name": function, **attrs}
    return result


def outputs_of(one):
    return int(one.get("attrs", {}).get("num_outputs", 1))


def graph(nodes, heads, shapes, storage_ids, types=None, **more):
    """The top level object, in the order of Relay's writer."""
    rows = [0]
    for one in nodes:
        rows.append(rows[-1] + outputs_of(one))
    attrs = {"dltype": ["list_str", types or ["float32"] * rows[-1]],
             "storage_id": ["list_int", storage_ids],
             "shape": ["list_shape", shapes], **more}
    return {"nodes": nodes,
            "arg_nodes": [i for i, one in enumerate(nodes)
                          if one["op"] == "null"],
            "heads": heads, "attrs": attrs, "node_row_ptr": rows}


def add_relu():
    return graph(
        [node("x"), node("p0"),
         node("tvmgen_default_fused_add", [(0, 0, 0), (1, 0, 0)],
              "tvmgen_default_fused_add", hash="0123456789abcdef"),
         node("tvmgen_default_fused_nn_relu", [(2, 0, 0)],
              "tvmgen_default_fused_nn_relu", hash="fedcba9876543210")],
        [[3, 0, 0]], [[1, 4], [4], [1, 4], [1, 4]], [0, 1, 2, 3])


def reshape_nop():
    return graph(
        [node("x"), node("reshape_nop", [(0, 0, 0)], "__nop"),
         node("relu", [(1, 0, 0)], "fused_relu"),
         node("reshape_nop", [(2, 0, 0)], "__nop")],
        [[3, 0, 0], [1, 0, 0]], [[2, 3], [6], [6], [3, 2]], [0, 0, 1, 1])


def copy_between_devices():
    return graph(
        [node("x"), node("__copy", [(0, 0, 0)], "__copy"),
         node("add", [(1, 0, 0), (1, 0, 0)], "fused_add")],
        [[2, 0, 0]], [[4]] * 3, [3, 0, 2],
        device_index=["list_int", [CPU, CUDA, CUDA]])


def split():
    return graph(
        [node("x"), node("split", [(0, 0, 0)], "fused_split", outputs=3,
                         flatten="1", data_layout="NCHW"),
         node("concat", [(1, 2, 0), (1, 0, 0)], "fused_concatenate")],
        [[2, 0, 0], [1, 1, 0], [0, 0, 0]],
        [[6, 2], [2, 2], [2, 2], [2, 2], [4, 2]], [0, 1, 2, 3, 4])


def texture():
    return graph(
        [node("x"), node("conv", [(0, 0, 0)], "fused_nn_conv2d")],
        [[1, 0, 0]], [[1, 8, 8, 4], [1, 8, 8, 4]], [0, 1],
        storage_scope=["list_str", ["global", "global.texture-nhwc"]],
        device_index=["list_int", [4, 4]])


def many_types():
    types = ["float32", "float16", "bfloat16", "float64", "bool", "int8",
             "uint8", "int4", "int64", "float32x4", "e4m3_float8",
             "e5m2_float8", "handle", "custom[posit]16"]
    count = len(types)
    return graph([node(f"x{i}") for i in range(count)],
                 [[i, 0, 0] for i in range(count)],
                 [[]] * count, list(range(count)), types)


def nnvm():
    """NNVM's order of keys, its extra attributes and control_deps."""
    made = graph([node("x", ), node("add", [[0, 0]], "fuse_add")],
                 [[1, 0]], [[3], [3]], [0, 1], dtype=["list_int", [0, 0]],
                 storage_num_not_allocated=["size_t", 0])
    made["nodes"][1]["control_deps"] = [0]
    made["nodes"][1]["attr"] = made["nodes"][1].pop("attrs")
    return {key: made[key] for key in ("nodes", "arg_nodes", "node_row_ptr",
                                       "heads", "attrs")}


def names():
    made = add_relu()
    made["nodes"][0]["name"] = "a \"quoted\" \\ name\n\t\x01 /é"
    made["nodes"][1]["name"] = made["nodes"][0]["name"]
    return made


def unknown_keys():
    made = add_relu()
    made["nodes"][0]["subgraphs"] = [{"a": [None, True, 1.5e3, {"b": []}]}]
    made["attrs"]["lib_linked_params"] = ["list_int", [[1, {"a": "]"}]]]
    made["metadata"] = {"any": ["thing", {"at": "all"}]}
    return made


def damaged():
    """Wrong in many ways at once, each with a fault of its own."""
    made = add_relu()
    made["nodes"][2]["inputs"] = [[7, 0, 0], [3, 0], [0, 5, 0, 9], "x"]
    made["nodes"][3]["op"] = "call"
    made["nodes"][3]["attrs"] = {"num_outputs": 1, "func_name": ""}
    made["arg_nodes"] = [0, 0, -1, 2]
    made["heads"] = [[3], [9, 0]]
    made["attrs"]["shape"] = ["list_int", [[-1], [2 ** 40, 2 ** 40], 4]]
    made["attrs"]["dltype"][1][0] = "float7"
    del made["attrs"]["storage_id"]
    return made


def bad_plan():
    made = add_relu()
    made["attrs"]["storage_id"][1] = [0, 0, 0, 7]
    made["heads"] = [[0, 0, 0], [3, 0, 0]]
    return made


def type_clash():
    made = copy_between_devices()
    made["attrs"]["storage_id"][1] = [0, 0, 2147483648]
    return made


def relay_text(made):
    """As dmlc's writer lays it out: an item of a list of lists a line."""
    text = json.dumps(made, indent=2)
    return text.replace('",\n          ', '", \n          ')


def graph_seeds():
    made = {f.__name__: f() for f in (
        reshape_nop, copy_between_devices, split, texture, many_types, nnvm,
        unknown_keys, damaged, bad_plan, type_clash)}
    seeds = {name: json.dumps(one) for name, one in made.items()}
    seeds["relay"] = relay_text(add_relu())
    seeds["dense"] = json.dumps(add_relu(), separators=(",", ":"))
    seeds["names"] = json.dumps(names(), ensure_ascii=False)
    seeds["escapes"] = json.dumps(names())
    seeds["empty"] = json.dumps(graph([], [], [], []))
    seeds["cut"] = seeds["dense"][:-40]
    seeds["doubled"] = seeds["dense"].replace(
        '"heads":', '"heads":[],"heads":')
    seeds["nested"] = '{"nodes":' + '[{"a":' * 50 + "0" + "}]" * 50 + "}"
    return {f"{name}.json": text.encode() for name, text in seeds.items()}


# --- tensors ----------------------------------------------------------------


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def strings(texts):
    return struct.pack("<Q", len(texts)) + b"".join(map(string, texts))


def tensor(shape, code, bits, lanes=1, reserved=0, device_id=0):
    """A record whose data counts up. The writer's size leaves out lanes."""
    elements = 1
    for dim in shape:
        elements *= dim
    data = bytes(i % 251 for i in range(elements * ((bits + 7) // 8)))
    return (struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, reserved, CPU,
                        device_id, len(shape), code, bits, lanes)
            + struct.pack(f"<{len(shape)}q", *shape)
            + struct.pack("<Q", len(data)) + data)


def tensor_list(tensors, reserved=0):
    """`tensors` are pairs, since a name may come twice."""
    return (struct.pack("<QQ", 0xF7E58D4F05049CB7, reserved)
            + strings([name for name, _ in tensors])
            + struct.pack("<Q", len(tensors))
            + b"".join(record for _, record in tensors))


def all_types():
    types = {"f32": (2, 32), "f16": (2, 16), "f64": (2, 64), "bf16": (4, 16),
             "i8": (0, 8), "i4": (0, 4), "i64": (0, 64), "u8": (1, 8),
             "bool": (1, 1), "bool8": (6, 8), "e5m2": (12, 8),
             "handle": (3, 64), "custom": (129, 16)}
    return [(name, tensor([2, 3], *kind)) for name, kind in types.items()]


def params_seeds():
    weights = [("p0", tensor([4, 4], 2, 32)), ("p1", tensor([4], 2, 32))]
    usual = tensor_list(weights)
    return {
        "empty": tensor_list([]),
        "usual": usual,
        "types": tensor_list(all_types()),
        "shapes": tensor_list([("scalar", tensor([], 2, 32)),
                               ("none", tensor([3, 0, 2], 0, 8)),
                               ("deep", tensor([1] * 20, 0, 8))]),
        "doubled": tensor_list([weights[0], weights[0]]),
        "odd_names": tensor_list([("", weights[1][1]),
                                  ("é\0\n", weights[1][1])]),
        "reserved": tensor_list(
            [("p0", tensor([2], 2, 32, reserved=7, device_id=3))],
            reserved=2 ** 64 - 1),
        "lanes": tensor_list([("vector", tensor([2], 2, 32, lanes=4))]),
        "trailing": usual + b"more",
        "cut_data": usual[:-3],
        "cut_name": usual[:30],
        "many_names": usual[:16] + struct.pack("<Q", 2 ** 60) + usual[24:],
        "negative": tensor_list([("p0", tensor([1], 0, 8).replace(
            struct.pack("<qQ", 1, 1), struct.pack("<qQ", -1, 1)))]),
    }


# --- dumps ------------------------------------------------------------------


def records(rows, stats=False, version=2):
    """_nodewise_nodes.bin: (kind, flags, node, slot, entry, first, second)."""
    tail = struct.pack("<3Q4d", 1, 0, 2, -1.5, 2.0, 0.25, 2.5)
    body = b"".join(struct.pack("<HHIIIQQ", *row) + (tail if stats else b"")
                    for row in rows)
    name = b"XXH3-64\0" if version > 1 else b""
    return (b"NODEWISE" + struct.pack("<II", version, 88 if stats else 32)
            + name + body)


def dump_seeds():
    keys = [f"n{i}____topo-index:{i}____output-num:0" for i in range(3)]
    whole = tensor_list(list(zip(keys, (
        tensor([2], 2, 32), tensor([], 0, 8), tensor([0], 2, 64)))))
    run = [(3, 0, 0, 0, 0, 0x1234, 2), (2, 0, 1, 0, 0, 0x1234, 2),
           (1, 0, 1, 0, 0, 1000, 2500), (3, 0, 1, 0, 1, 0x5678, 1)]
    stats = [(3, 3, 0, 0, 0, 0x1234, 2), (3, 1, 1, 0, 1, 0x5678, 1)]
    return {
        "whole": whole,
        "cut_in_data": whole[:-60],
        "cut_in_shape": whole[:-12],
        "cut_in_header": whole[:90],
        "cut_in_magic": whole[:5],
        "nothing": b"",
        "records": records(run),
        "records_stats": records(stats, stats=True),
        "records_old": records(run, version=1),
        "records_hash": records(run).replace(b"XXH3", b"XXH4"),
        "records_cut": records(run)[:-9],
        "records_header": records([])[:11],
        "records_kind": records([(4, 0, 0, 0, 0, 0, 0)]),
    }


# --- module blobs -----------------------------------------------------------


def item(key, payload=b""):
    return string(key) + payload


def import_tree(rows, children):
    return item("_import_tree",
                struct.pack(f"<Q{len(rows)}Q", len(rows), *rows)
                + struct.pack(f"<Q{len(children)}Q", len(children), *children))


def factory(key="GraphExecutorFactory"):
    params = {"p0": tensor([4], 2, 32), "p1": tensor([], 0, 8)}
    return item(key, string(json.dumps(add_relu()))
                + struct.pack("<Q", len(params)) + strings(list(params))
                + b"".join(params.values()) + string("default"))


def constants(key="const_loader"):
    values = {"const_0": tensor([2], 2, 32), "const_1": tensor([1], 0, 64)}
    return item(key, strings(list(values)) + struct.pack("<Q", len(values))
                + b"".join(values.values()) + strings(["dnnl_0", "dnnl_1"])
                + struct.pack("<Q", 2) + strings(list(values)) + strings([]))


def device_code(key, code_format="ptx"):
    tags = ["blockIdx.x", "threadIdx.x", "tir.use_dyn_shared_memory"]
    types = [(3, 64, 1), (0, 32, 1), (2, 32, 1)]
    function = (string("fused_add_kernel") * 2
                + struct.pack("<Q", len(types))
                + b"".join(struct.pack("<BBH", *kind) for kind in types)
                + strings(tags))
    return item(key, string(code_format) + struct.pack("<Q", 1) + function
                + string("// Function: fused_add_kernel\n"))


def blob(*items):
    stream = struct.pack("<Q", len(items)) + b"".join(items)
    return struct.pack("<Q", len(stream)) + stream


def module_blob_seeds():
    usual = blob(factory(), item("_lib"), import_tree([0, 1, 1], [1]))
    return {
        "empty": blob(),
        "usual": usual,
        "behind": usual + b"other data of the library",
        "cut": usual[:-9],
        "cuda": blob(factory(), item("_lib"), device_code("cuda"),
                     import_tree([0, 1, 2, 2], [1, 2])),
        "opencl": blob(item("_lib"), device_code("opencl", "cl"),
                       import_tree([0, 1, 1], [1])),
        "tvm_0_6": blob(device_code("cuda")),
        "tvm_0_7": blob(factory("GraphRuntimeFactory"), item("_lib"),
                        item("_lib"), constants("metadata"),
                        import_tree([0, 1, 2, 2, 2], [3, 1])),
        "constants": blob(constants(), item("_lib"),
                          import_tree([0, 1, 1], [1])),
        "unknown": blob(item("_lib"), item("dnnl_json", string("{}"))),
        "circle": blob(item("_lib"), item("_lib"),
                       import_tree([0, 1, 2], [1, 0])),
        "no_such_child": blob(item("_lib"), import_tree([0, 1], [9])),
        "two_trees": blob(item("_lib"), import_tree([0, 0], []), item("_lib"),
                          import_tree([0, 1, 1], [1])),
    }


def main():
    for name, seeds in (("graph_json", graph_seeds()),
                        ("params", params_seeds()),
                        ("dump", dump_seeds()),
                        ("module_blob", module_blob_seeds()),
                        ("onnx", onnx_seeds.models()),
                        ("tensor_proto", onnx_seeds.tensors())):
        folder = FOLDER / name
        folder.mkdir(exist_ok=True)
        for seed, data in seeds.items():
            (folder / seed).write_bytes(data)


if __name__ == "__main__":
    main()
