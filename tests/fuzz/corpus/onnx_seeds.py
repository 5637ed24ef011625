"""Models and tensors of ONNX as seeds, for make_seeds.py, which says where
onnx_bytes is."""

import struct

from onnx_bytes import (BOOL, FLOAT, INT32, INT64, attribute, floats, ints,
                        message, onnx_graph, onnx_model, onnx_node,
                        proto_tensor, tensor_attribute, value_info, varint)

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
        "origins": onnx_model(onnx_graph(
            [onnx_node("Neg", ["x"], ["a"], name="a", notes={
                "namespace": ": Net/stem: torch.nn.Conv2d/neg: aten.neg",
                "pkg.torch.onnx.class_hierarchy": "['Net', 'aten.neg']",
                "pkg.torch.onnx.name_scopes": "['', 'stem@1', \"it's\"]",
                "pkg.torch.onnx.stack_trace":
                    'File "net.py", line 3, in forward\n    y = -x\n  File '
                    '"/v/site-packages/torch/nn/f.py", line 1, in f\n    x'}),
             onnx_node("Abs", ["a"], ["b"], notes={
                 "pkg.jax2onnx.jax_traceback": "net.py:7:4 (call)",
                 "pkg.jax2onnx.callsite": "call:7"}),
             onnx_node("Neg", ["b"], ["y"]) + message(
                 (6, "net.py(25): forward\n/v/net.py(3): f"))], [x], [y])),
        "unsorted": onnx_model(onnx_graph(
            [onnx_node("Neg", ["a"], ["y"]), onnx_node("Neg", ["x"], ["a"])],
            [x], [y])),
    }


def tensors():
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


def models():
    return {**onnx_seeds(), **classic_seeds(), **short_seeds()}
