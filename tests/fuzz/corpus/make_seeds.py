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

from onnx_bytes import (BOOL, FLOAT, INT32, INT64, attribute,  # noqa: E402
                        floats, ints, message, onnx_graph, onnx_model,
                        onnx_node, proto_tensor, tensor_attribute, value_info,
                        varint)

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


# --- ONNX -------------------------------------------------------------------


CLASSIC = "ai.onnx.ml"


def classic_model(nodes, outputs, constants=(), version=3):
    """A model of operators of ai.onnx.ml, with an input `x` of two rows."""
    return onnx_model(onnx_graph(
        nodes, [value_info("x", dims=[2, 2])],
        [value_info(*each) for each in outputs], constants)) + message(
            (8, message((1, CLASSIC), (2, version))))


def classic_node(op, inputs, outputs, **attrs):
    return onnx_node(op, inputs, outputs,
                     *(attribute(name, value) for name, value in attrs.items()),
                     domain=CLASSIC)


def tree_nodes(votes, targets):
    """x[0] <= 1 leads to one leaf, else to another; and a leaf alone."""
    return {"nodes_treeids": [0, 0, 0, 1], "nodes_nodeids": [0, 1, 2, 0],
            "nodes_featureids": [0, 0, 0, 0],
            "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
            "nodes_values": [1.0, 0.0, 0.0, 0.0],
            "nodes_truenodeids": [1, 0, 0, 0],
            "nodes_falsenodeids": [2, 0, 0, 0],
            "nodes_missing_value_tracks_true": [1, 0, 0, 0],
            f"{votes}_treeids": [0, 0, 1], f"{votes}_nodeids": [1, 2, 0],
            f"{votes}_ids": targets, f"{votes}_weights": [1.0, 2.0, -0.5]}


def trees_of_today():
    def numbers(name, kind, *data):
        return tensor_attribute(name, proto_tensor("", [1], kind, *data))
    one = (9, struct.pack("<f", 1))
    return onnx_node(
        "TreeEnsemble", ["x"], ["z"],
        *(attribute(name, value) for name, value in {
            "n_targets": 1, "tree_roots": [0], "nodes_featureids": [0],
            "nodes_trueleafs": [1], "nodes_truenodeids": [0],
            "nodes_falseleafs": [1], "nodes_falsenodeids": [0],
            "leaf_targetids": [0], "aggregate_function": 1}.items()),
        numbers("nodes_modes", 2, (9, b"\0")), numbers("nodes_splits", 1, one),
        numbers("leaf_weights", 1, one), domain=CLASSIC)


def classic_seeds():
    # Known before the model runs, so that they are evaluated where it is read.
    constant = proto_tensor("k", [2, 2], FLOAT,
                            (9, struct.pack("<4f", 1, 2, 3, -1)))
    labels = [("l", INT64), ("y",)]
    machine = {"coefficients": [1.0, -1.0], "support_vectors": [1.0, 2.0] * 2,
               "rho": [0.5], "kernel_type": "RBF",
               "kernel_params": [0.5, 0.0, 3.0]}
    return {
        "trees": classic_model(
            [classic_node("TreeEnsembleClassifier", ["k"], ["l", "y"],
                          classlabels_int64s=[3, 4], base_values=[0.25],
                          post_transform="LOGISTIC",
                          **tree_nodes("class", [0, 0, 0])),
             classic_node("TreeEnsembleRegressor", ["x"], ["z"], n_targets=2,
                          aggregate_function="AVERAGE",
                          **tree_nodes("target", [0, 1, 1]))],
            [*labels, ("z",)], [constant]),
        "trees_today": classic_model([trees_of_today()], [("z",)], version=5),
        "machines": classic_model(
            [classic_node("SVMClassifier", ["k"], ["l", "y"],
                          classlabels_ints=[3, 4], vectors_per_class=[1, 1],
                          prob_a=[-1.0], prob_b=[0.0],
                          post_transform="SOFTMAX_ZERO", **machine),
             classic_node("SVMRegressor", ["x"], ["z"], n_supports=2,
                          one_class=1, **machine)],
            [*labels, ("z",)], [constant]),
        "linear": classic_model(
            [classic_node("LinearClassifier", ["k"], ["l", "y"],
                          coefficients=[1.0, 0.5, -1.0, 2.0],
                          intercepts=[0.5, 0.0], classlabels_ints=[3, 4],
                          post_transform="PROBIT"),
             classic_node("FeatureVectorizer", ["y", "x"], ["z"],
                          inputdimensions=[1, 3])],
            [*labels, ("z",)], [constant], 1),
        "rows": classic_model(
            [classic_node("Normalizer", ["x"], ["a"], norm="L2"),
             classic_node("Imputer", ["a"], ["b"], imputed_value_floats=[1.0],
                          replaced_value_float=0.0),
             classic_node("Binarizer", ["b"], ["y"], threshold=0.5),
             classic_node("ArrayFeatureExtractor", ["k", "l"], ["t"]),
             classic_node("LinearRegressor", ["t"], ["z"], targets=2,
                          coefficients=[1.0, 2.0], intercepts=[0.5, 1.0],
                          post_transform="SOFTMAX")],
            [("y",), ("z",)], [constant, ints("l", 1)], 1),
        "labels": classic_model(
            [onnx_node("LabelEncoder", ["k"], ["l"],
                       attribute("keys_floats", [1.0, 2.0]),
                       tensor_attribute("values_tensor", ints("", 5, 6)),
                       tensor_attribute("default_tensor", ints("", -7)),
                       domain=CLASSIC),
             classic_node("OneHotEncoder", ["l"], ["y"],
                          cats_int64s=[5, -7, 6], zeros=0),
             classic_node("Scaler", ["x"], ["z"], offset=[1.0], scale=[2.0])],
            [*labels, ("z",)], [constant], 4),
    }


def short_seeds():
    """Products and rows of short integers and floats."""
    def byte_float(name, *values):
        return proto_tensor(name, [1, len(values)], 17, (5, list(values)))
    places = ints("i", 0, -1)
    gather = [onnx_node("GatherBlockQuantized", [data, "i", f"s{data}"], [y],
                        attribute("gather_axis", axis),
                        attribute("block_size", size), domain="com.microsoft")
              for data, y, axis, size in (("a", "y", 0, 16), ("b", "z", 1, 0),
                                          ("c", "t", 0, 16))]
    return {
        "blocks": onnx_model(onnx_graph(
            gather, [value_info("sa", dims=[1, 1])],
            [value_info("y"), value_info("z"), value_info("t")],
            [places, floats("s", 1.0), floats("one", 1.0),
             proto_tensor("a", [1, 2], 22, (5, [0xE1])),
             byte_float("b", 0x38, 0x40),
             proto_tensor("c", [1, 2], 23, (5, [0x25])),
             proto_tensor("sb", [1, 1], FLOAT, (9, struct.pack("<f", 2))),
             proto_tensor("sc", [1, 1], FLOAT, (9, struct.pack("<f", 2)))]),
            opset=23, ir_version=11) + message(
                (8, message((1, "com.microsoft"), (2, 1)))),
        "float8_product": onnx_model(onnx_graph(
            [onnx_node("QLinearMatMul",
                       ["a", "s", "z", "b", "s", "z", "s", "z"], ["y"]),
             onnx_node("QLinearMatMul",
                       ["x", "s", "z", "b", "s", "z", "s", "z"], ["t"])],
            [value_info("x", 17, [3, 1])],
            [value_info("y", 17), value_info("t", 17)],
            [proto_tensor("s", [], FLOAT, (9, struct.pack("<f", 2))),
             proto_tensor("z", [], 17, (5, [0x30])),
             proto_tensor("a", [1, 1], 17, (5, [0x38])),
             byte_float("b", 0x38, 0xC0)]), opset=21, ir_version=10),
    }


def onnx_seeds():
    x, y = value_info("x", dims=[2, "n"]), value_info("y")
    relu = onnx_node("Relu", ["x"], ["y"])
    function = message((1, "Twice"), (4, "a"), (5, "c"), (6, "by"),
                       (7, [onnx_node("Neg", ["a"], ["b"]),
                            onnx_node("Neg", ["b"], ["c"])]),
                       (9, message((2, 13))), (10, "local"))
    branch = onnx_graph([onnx_node("Add", ["x", "x"], ["t"])], [],
                        [value_info("t")])
    body = onnx_graph(
        [onnx_node("Identity", ["c"], ["d"]), onnx_node("Neg", ["s"], ["r"])],
        [value_info("i", INT64), value_info("c", BOOL), value_info("s")],
        [value_info("d", BOOL), value_info("r")])
    return {
        "relu": onnx_model(onnx_graph([relu], [x], [y])),
        "shapes": onnx_model(onnx_graph(
            [onnx_node("Shape", ["x"], ["s"]),
             onnx_node("Gather", ["s", "i"], ["d"], attribute("axis", 0)),
             onnx_node("Concat", ["d", "m"], ["t"], attribute("axis", 0)),
             onnx_node("Reshape", ["x", "t"], ["y"])],
            [value_info("x", dims=[2, 3, 4])], [y],
            [ints("i", 0), ints("m", -1)])),
        "conv": onnx_model(onnx_graph(
            [onnx_node("Conv", ["x", "w", "b"], ["c"],
                       attribute("pads", [0, 0, 0, 0]),
                       attribute("strides", [1, 1])),
             onnx_node("Clip", ["c", "", "six"], ["y"])],
            [value_info("x", dims=[1, 1, 3, 3])], [y],
            [proto_tensor("w", [1, 1, 1, 1], FLOAT, (4, struct.pack("<f", 2))),
             floats("b", 1.0), proto_tensor("six", [], FLOAT,
                                            (9, struct.pack("<f", 6)))])),
        "old": onnx_model(onnx_graph(
            [onnx_node("Squeeze", ["x"], ["s"], attribute("axes", [0])),
             onnx_node("Clip", ["s"], ["y"], attribute("min", 0.0),
                       attribute("max", 6.0))],
            [value_info("x", dims=[1, 4])], [y]), opset=6, ir_version=3),
        "function": onnx_model(onnx_graph(
            [onnx_node("Twice", ["x"], ["y"], attribute("by", 1.0),
                       domain="local")], [x], [y]), functions=[function]),
        "contrib": onnx_model(onnx_graph(
            [onnx_node("FusedGemm", ["x", "x"], ["g"], attribute("transA", 1),
                       attribute("activation", "LeakyRelu"),
                       domain="com.microsoft"),
             onnx_node("SkipLayerNormalization", ["g", "g", "x"],
                       ["y", "", "", "s"], domain="com.microsoft")],
            [value_info("x", dims=[1, 4])], [y], [])) + message(
                (8, message((1, "com.microsoft"), (2, 1)))),
        "if": onnx_model(onnx_graph(
            [onnx_node("If", ["k"], ["y"], attribute("then_branch", branch),
                       attribute("else_branch", branch))],
            [x, value_info("k", BOOL)], [y])),
        "loop": onnx_model(onnx_graph(
            [onnx_node("Loop", ["m", "", "x"], ["y"],
                       attribute("body", body))], [x], [y],
            [proto_tensor("m", [], INT64, (7, varint(3)))])),
        "constant": onnx_model(onnx_graph(
            [onnx_node("Constant", [], ["k"], message(
                (1, "value"), (5, floats("", 1.0, 2.0)), (20, 4))),
             onnx_node("Mul", ["x", "k"], ["y"])], [x], [y])),
        "external": onnx_model(onnx_graph(
            [onnx_node("Identity", ["w"], ["y"])], [], [y],
            [proto_tensor("w", [4], FLOAT, (13, [
                message((1, "location"), (2, "../w.bin")),
                message((1, "offset"), (2, "8"))]), (14, 1))])),
        "short": onnx_model(onnx_graph(
            [onnx_node("DequantizeLinear", ["w", "s"], ["d"],
                       attribute("block_size", 2), attribute("axis", 0),
                       attribute("output_dtype", FLOAT)),
             onnx_node("Cast", ["d"], ["e"], attribute("to", 17),
                       attribute("saturate", 0)),
             onnx_node("QuantizeLinear", ["d", "s"], ["y"],
                       attribute("block_size", 2), attribute("axis", 0),
                       attribute("output_dtype", 26))], [],
            [value_info("y", 26), value_info("e", 17)],
            [proto_tensor("w", [3, 1], 22, (5, [0xE1, 0x08])),
             proto_tensor("s", [2, 1], 24, (9, bytes([127, 129])))]),
            opset=28, ir_version=14),
        "random": onnx_model(onnx_graph(
            [onnx_node("RandomNormal", [], ["a"], attribute("shape", [2])),
             onnx_node("Multinomial", ["x"], ["b"],
                       attribute("sample_size", 3)),
             onnx_node("Dropout", ["a", "", "k"], ["y"])],
            [value_info("x", dims=[1, 4]), value_info("k", BOOL)],
            [y, value_info("b", INT32)])),
        "unsorted": onnx_model(onnx_graph(
            [onnx_node("Neg", ["a"], ["y"]), onnx_node("Neg", ["x"], ["a"])],
            [x], [y])),
    }


def tensor_proto_seeds():
    return {
        "raw": floats("w", 1.0, 2.0),
        "ints": ints("w", 1, -1),
        "bytes": proto_tensor("w", [2], 2, (5, [1, 255])),
        "doubles": proto_tensor("w", [1], 11, (10, struct.pack("<d", 0.5))),
        "words": proto_tensor("w", [2], 12, (11, varint(7) + varint(8))),
        "halves": proto_tensor("w", [1], 10, (5, varint(0x3C00))),
        "fours": proto_tensor("w", [3], 22, (9, bytes([0xE1, 0x08]))),
        "twos": proto_tensor("w", [5], 25, (5, [0x39, 0x01])),
        "empty": proto_tensor("w", [0, 3], BOOL),
        "scalar": proto_tensor("", [], INT32, (5, varint(-5))),
        "huge": proto_tensor("w", [1 << 40], FLOAT),
        "cut": floats("w", 1.0, 2.0)[:-3],
    }


def main():
    for name, seeds in (("graph_json", graph_seeds()),
                        ("params", params_seeds()),
                        ("dump", dump_seeds()),
                        ("module_blob", module_blob_seeds()),
                        ("onnx", {**onnx_seeds(), **classic_seeds(),
                                  **short_seeds()}),
                        ("tensor_proto", tensor_proto_seeds())):
        folder = FOLDER / name
        folder.mkdir(exist_ok=True)
        for seed, data in seeds.items():
            (folder / seed).write_bytes(data)


if __name__ == "__main__":
    main()
