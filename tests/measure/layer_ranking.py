"""How well `locate QUANTISED --reference MODEL` ranks layers, and whether its
keep-lists reach what they state.

  build/venv/bin/python tests/measure/layer_ranking.py [--models NAME,...]
      [--format qdq|qop] [--most N]

Needs onnxruntime with its quantiser, and the models of
tests/bench/bench_models.py in build/bench_models. The truth shares nothing with
locate: onnxruntime quantises one operation of the model at a time, and runs it.
Two layers are told apart where their true errors differ by 1.5 times.
"""

import argparse
import json
import logging
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnxruntime.quantization import (CalibrationDataReader, QuantFormat,
                                      QuantType, quantize_static)

ROOT = pathlib.Path(__file__).resolve().parents[2]
NODEWISE = ROOT / "build/bin/nodewise"
MODELS = ROOT / "build/bench_models"
FORMATS = {"qdq": QuantFormat.QDQ, "qop": QuantFormat.QOperator}
KINDS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "Add", "Mul", "Relu",
         "Clip", "Sigmoid", "Softmax")
APART = 1.5


class Samples(CalibrationDataReader):
    """The model's own inputs, and three with their numbers in another order."""

    def __init__(self, inputs):
        random = numpy.random.default_rng(1)
        self.sets = [inputs]
        for _ in range(3):
            self.sets.append({
                name: random.permutation(x.ravel()).reshape(x.shape)
                if x.dtype.kind == "f" else x for name, x in inputs.items()})
        self.left = iter(self.sets)

    def get_next(self):
        return next(self.left, None)


class Subject:
    def __init__(self, name, form, folder):
        self.name = name
        self.form = FORMATS[form]
        self.folder = pathlib.Path(folder)
        self.model = self.folder / "model.onnx"
        self.model.write_bytes((MODELS / f"{name}.onnx").read_bytes())
        self.inputs = MODELS / f"{name}.npz"
        self.tensors = dict(numpy.load(self.inputs))
        self.expected = self.run(self.model)

    def run(self, path):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = \
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"])
        return session.run(None, self.tensors)

    def error(self, path):
        worst = 0
        for one, other in zip(self.expected, self.run(path)):
            expected = numpy.asarray(one, numpy.float64)
            difference = numpy.linalg.norm(expected - other)
            if difference > 0:
                worst = max(worst, difference / numpy.linalg.norm(expected))
        return worst

    def quantised(self, name, **options):
        path = self.folder / f"{name}.onnx"
        quantize_static(str(self.model), str(path), Samples(self.tensors),
                        quant_format=self.form,
                        activation_type=QuantType.QUInt8,
                        weight_type=QuantType.QInt8, **options)
        return path

    def located(self, path):
        done = subprocess.run(
            [NODEWISE, "locate", path, "--reference", self.model, "--inputs",
             self.inputs, "--json"], stdout=subprocess.PIPE, check=False)
        return json.loads(done.stdout)["models"]

    def operations(self, most):
        nodes = [node for node in onnx.load(self.model).graph.node
                 if node.op_type in KINDS and node.name]
        # Those with weights first: they are what people keep or lower.
        nodes.sort(key=lambda node: KINDS.index(node.op_type) > 3)
        return [node.name for node in nodes[:most]]


def pairs_in_order(truth, ours):
    """How many pairs whose true errors differ are in that order, of how many."""
    right = 0
    count = 0
    for one, error in truth.items():
        for other, less in truth.items():
            if error > 0 and error >= APART * less and one != other:
                count += 1
                right += ours.get(one, 0) > ours.get(other, 0)
    return right, count


def measure(name, form, most):
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(name, form, folder)
        made = subject.quantised("all")
        try:
            subject.run(made)
        except Exception as error:  # pylint: disable=broad-except
            print(f"{name} {form}: skipped, onnxruntime refuses what it made: "
                  f"{str(error)[:100]}", flush=True)
            return 0, 0
        found = subject.located(made)
        truth = {operation: subject.error(subject.quantised(
            "one", nodes_to_quantize=[operation]))
                 for operation in subject.operations(most)}
        ours = {}
        for layer in found["layers"]:
            for operation in layer["reference"]:
                ours.setdefault(operation, layer["alone"])
        right, count = pairs_in_order(truth, ours)
        first = max(truth, key=truth.get)
        stated = found["suggested_error"]
        kept = subject.error(subject.quantised(
            "kept", nodes_to_exclude=found["nodes_to_exclude"]))
        best = max(truth, key=lambda operation: ours.get(operation, 0))
        print(f"{name} {form}: {len(truth)} operations, {right} of {count} "
              f"pairs in order; the first is "
              f"{'the first' if best == first else f'{best}, not {first}'}; "
              f"error {found['error']:.3g}, with the keep-list {stated:.3g} "
              f"stated, {kept:.3g} made", flush=True)
        return right, count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models",
                        default="magika,nudenet,text_line,residual_net,"
                        "encoder")
    parser.add_argument("--format", choices=FORMATS, default="qdq")
    parser.add_argument("--most", type=int, default=60)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(3)
    right = 0
    count = 0
    for name in options.models.split(","):
        of_one = measure(name, options.format, options.most)
        right += of_one[0]
        count += of_one[1]
    print(f"{right} of {count} pairs in order")
    return 0 if right >= 0.95 * count else 1


if __name__ == "__main__":
    sys.exit(main())
