#!/usr/bin/env python3
"""Prints not_run.txt: the cases of ONNX's package that nodewise does not run,
each with its class, for reasons that stand in the case itself.

    build/venv/bin/python tests/onnx/classify_cases.py DATA

DATA is the folder of cases. Needs the onnx package whose cases they are. Run it
when the package changes, and look at what it changed: the counts are there so
that the list cannot grow unseen.
"""

import collections
import pathlib
import sys

import onnx

SUITES = ("node", "pytorch-converted", "pytorch-operator", "simple")

ELEMENT_CLASSES = {
    "STRING": "string", "COMPLEX64": "complex", "COMPLEX128": "complex",
    "FLOAT6E2M3": "fp6", "FLOAT6E3M2": "fp6",
}
DOMAIN_CLASSES = {
    "ai.onnx.ml": "ai.onnx.ml", "ai.onnx.preview": "preview",
    "ai.onnx.preview.training": "training",
}
# LabelEncoder is for strings in all cases, which is a class of its own.
KNOWN_OF_DOMAIN = {"ArrayFeatureExtractor", "Binarizer", "LabelEncoder",
                   "TreeEnsemble"}


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in [attribute.g, *attribute.graphs]:
                yield from nodes_of(body)


def classes_of_type(kind):
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        yield "sequence"
        yield from classes_of_type(kind.sequence_type.elem_type)
    elif which == "optional_type":
        yield "optional"
        yield from classes_of_type(kind.optional_type.elem_type)
    elif which == "map_type":
        yield "map"
    elif which == "tensor_type":
        yield from classes_of_element(kind.tensor_type.elem_type)


def classes_of_element(number):
    name = onnx.TensorProto.DataType.Name(number)
    if name in ELEMENT_CLASSES:
        yield ELEMENT_CLASSES[name]


def classes_of_node(node):
    if node.domain in DOMAIN_CLASSES and (
            node.op_type not in KNOWN_OF_DOMAIN):
        yield DOMAIN_CLASSES[node.domain]
    if node.op_type == "ImageDecoder":
        yield "image"
    if node.op_type.startswith("Sequence") or node.op_type in (
            "SplitToSequence", "ConcatFromSequence"):
        yield "sequence"
    if node.op_type.startswith("Optional"):
        yield "optional"
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            yield from classes_of_element(attribute.t.data_type)
        if attribute.type == onnx.AttributeProto.TYPE_PROTO:
            yield from classes_of_type(attribute.tp)
        # The type that a cast makes.
        if attribute.name in ("to", "dtype", "output_dtype"):
            yield from classes_of_element(attribute.i)


def class_of(folder):
    """The first reason that applies, or None."""
    model = onnx.load(folder / "model.onnx")
    found = set()
    graph = model.graph
    for info in [*graph.input, *graph.output, *graph.value_info]:
        found.update(classes_of_type(info.type))
    for tensor in graph.initializer:
        found.update(classes_of_element(tensor.data_type))
    for node in nodes_of(graph):
        found.update(classes_of_node(node))
    order = ["ai.onnx.ml", "training", "preview", "map", "optional",
             "sequence", "string", "complex", "fp6", "image"]
    return next((name for name in order if name in found), None)


def main():
    data = pathlib.Path(sys.argv[1])
    cases = {}
    for suite in SUITES:
        for model in sorted((data / suite).glob("*/model.onnx")):
            reason = class_of(model.parent)
            if reason:
                cases[f"{suite}/{model.parent.name}"] = reason
    counts = collections.Counter(cases.values())
    lines = [f"# The cases of ONNX {onnx.__version__} that are not run, and "
             "why: how many of each class,",
             "# then each. Made by classify_cases.py."]
    lines += [f"{name} {count}" for name, count in sorted(counts.items())]
    lines += [""] + [f"{name} {reason}"
                     for name, reason in sorted(cases.items())]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
