"""Writes light models with drawn weights, and the encoder of the benchmarks.

usage: light_models.py FOLDER [NAME...]

Makes FOLDER/NAME.onnx and FOLDER/NAME.json: how many floating-point operations
each node takes, by the nodes' names; none if it depends on constants alone.
Without names it lists what there is.
"""

import json
import math
import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, shape_inference

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "bench"), str(TESTS / "support")]

# pylint: disable=wrong-import-position
import bench_models  # noqa: E402
import seeded_models  # noqa: E402


def make(name):
    rng = np.random.default_rng(1)
    if name == "encoder":
        return bench_models.encoder(rng)[0]
    model = onnx.load(seeded_models.LIGHT / f"{name}.onnx")
    return seeded_models.seeded(model, rng)


def shapes_of(model):
    inferred = shape_inference.infer_shapes(model, strict_mode=True).graph
    shapes = {t.name: list(t.dims) for t in inferred.initializer}
    for value in [*inferred.input, *inferred.value_info, *inferred.output]:
        sides = value.type.tensor_type.shape.dim
        shapes[value.name] = [side.dim_value for side in sides]
    return shapes


def work_of(node, shapes):
    """Two for each product that is added to a sum. Else one for each element:
    of the input where that is reduced, and of the first output."""
    read = [shapes.get(name) for name in node.input]
    kind = node.op_type
    made = math.prod(shapes[node.output[0]])
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if kind == "Conv":
        return 2 * made * math.prod(read[1][1:])
    if kind == "ConvTranspose":
        return 2 * math.prod(read[0]) * math.prod(read[1][1:])
    if kind == "MatMul":
        return 2 * made * read[0][-1]
    if kind == "Gemm":
        return 2 * made * read[0][0 if attributes.get("transA") else 1]
    if kind.startswith("Reduce") or kind.endswith("Pool"):
        return math.prod(read[0])
    return made


def name_and_count(model):
    """Names the nodes, and returns the work of each."""
    shapes = shapes_of(model)
    constants = {t.name for t in model.graph.initializer}
    work = {}
    for number, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{number}"
        work[node.name] = work_of(node, shapes)
        if constants.issuperset(node.input):
            constants.update(node.output)
            work[node.name] = 0
    return work


def main():
    folder, *names = sys.argv[1:]
    folder = pathlib.Path(folder)
    for name in names:
        model = make(name)
        work = name_and_count(model)
        (folder / f"{name}.json").write_text(json.dumps(work))
        onnx.save(model, folder / f"{name}.onnx")
    if not names:
        light = sorted(p.stem for p in seeded_models.LIGHT.glob("*.onnx"))
        print("\n".join([*light, "encoder"]))


if __name__ == "__main__":
    main()
