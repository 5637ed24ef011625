"""Reports about runtimes and shorter types, made again in small.

Each function writes into a folder what the reporter had, and has the number of
the report in docs/real_problems.md.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import sys

import networks
import numpy
import onnx
import onnxruntime
from making import HERE, drawn, photos
from network_builder import (node_of, save, set_attribute, set_values,
                             values_of)
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType
from quantising import quantise, quantise_weights
from wrong_runtime import write_adapter


def row_14(folder: pathlib.Path) -> None:
    """Calibrated with random numbers between 0 and 1, as the tool's option for
    tests does, where images have other numbers."""
    save(networks.resnet(seed=14), folder / "model.onnx")
    rng = numpy.random.default_rng(14)
    quantise(folder / "model.onnx", folder / "model_quantization.onnx",
             [{"image": rng.random((1, 3, 32, 32), "float32")}])
    quantise(folder / "model.onnx", folder / "calibrated_again.onnx",
             photos(4, scale=2))
    numpy.savez(folder / "photo.npz", **photos(1, scale=2)[0])


def row_15(folder: pathlib.Path) -> None:
    """A delegate that takes its ranges from one quiet sample."""
    save(networks.resnet(seed=15), folder / "model.onnx")
    model = onnx.load(folder / "model.onnx")
    for node in list(model.graph.node)[:-1]:
        model.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    sample = photos(1, scale=.1)[0]
    numpy.savez(folder / "quiet.npz", **sample)
    numpy.savez(folder / "values.npz", **sample, **dict(zip(
        (each.name for each in session.get_outputs()),
        session.run(None, sample))))
    for name, given in zip(("usual", "word"), photos(2)):
        numpy.savez(folder / f"{name}.npz", **given)
    shutil.copy(HERE / "delegate_of_row_15.py", folder / "delegate.py")


def row_16(folder: pathlib.Path) -> None:
    """The device takes a power of two for a scale of the model. Its trace has
    one tensor for each layer, with names of its own."""
    save(networks.mobilenet(seed=16), folder / "float.onnx")
    quantise(folder / "float.onnx", folder / "model.onnx", photos(4))
    model = onnx.load(folder / "model.onnx")
    scale = values_of(model, "block1.depthwise.weight_scale")
    set_values(model, "block1.depthwise.weight_scale",
               numpy.array(2 ** numpy.ceil(numpy.log2(scale))))
    layers = [node.output[0] for node in model.graph.node
              if node.op_type == "DequantizeLinear" and not
              re.search("weight|bias", node.name)]
    for name in layers:
        if name not in [each.name for each in model.graph.output]:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    given = photos(1)[0]
    numpy.savez(folder / "trace.npz", **given, **{
        f"tidl_trace_subgraph_0_{i:04d}_float": made for i, made in enumerate(
            session.run(layers, given))})


def row_17(folder: pathlib.Path) -> None:
    """Attention is computed as one, wrongly, unless a value in it is wanted."""
    save(networks.encoder(seed=17), folder / "model.onnx")
    numpy.savez(folder / "inputs.npz", embeddings=drawn(17, 1, 12, 32))
    write_adapter(folder / "cpu_plugin.py", "fused_attention")


def row_18(folder: pathlib.Path) -> None:
    """Nothing is wrong with OpenVINO: it chooses a shorter type."""
    save(networks.attentive(), folder / "model.onnx")
    numpy.savez(folder / "inputs.npz", features=drawn(18, 1, 32, 32, 32))


def row_19(folder: pathlib.Path) -> None:
    save(networks.encoder(seed=19, sharp=130), folder / "model.onnx")
    numpy.savez(folder / "inputs.npz", embeddings=drawn(19, 1, 12, 32))


def row_20(folder: pathlib.Path) -> None:
    """onnxruntime itself, on a processor with AVX2 and without VNNI."""
    save(networks.encoder(seed=6), folder / "model.onnx")
    quantise_weights(folder / "model.onnx", folder / "quantized.onnx")
    numpy.savez(folder / "inputs.npz", embeddings=drawn(5, 1, 12, 32))
    older = folder / "python_on_avx2"
    older.write_text("#!/bin/sh\nexec qemu-x86_64 -cpu Haswell "
                     f"{sys.executable} \"$@\"\n", "utf-8")
    older.chmod(0o755)


def row_21(folder: pathlib.Path) -> None:
    """Nothing is wrong: the time of each operation is wanted. The neck has most
    of the products."""
    save(networks.detector(seed=21, side=80), folder / "model.onnx")


def row_22(folder: pathlib.Path) -> None:
    """One channel of the residual stream is large, as in such transformers."""
    save(networks.encoder(seed=22, outlier=60), folder / "model.onnx")
    samples = [{"embeddings": drawn(i, 1, 12, 32)} for i in range(4)]
    quantise(folder / "model.onnx", folder / "quantized.onnx", samples,
             activation_type=QuantType.QInt8, op_types_to_quantize=[
                 "MatMul", "Add", "Mul", "Sub", "Div", "Pow", "ReduceMean",
                 "Softmax", "Transpose", "Sqrt", "Erf"])
    numpy.savez(folder / "inputs.npz", **samples[0])


def row_23(folder: pathlib.Path) -> None:
    """A kernel of a strided convolution begins one element further."""
    save(networks.resnet(seed=23), folder / "model.onnx")
    numpy.savez(folder / "inputs.npz", **photos(1)[0])
    write_adapter(folder / "cuda_backend.py", "cuda")


def row_24(folder: pathlib.Path) -> None:
    save(networks.restorer(), folder / "model.onnx")
    numpy.savez(folder / "photo.npz", photo=numpy.random.default_rng(
        3).random((1, 3, 24, 24), "float32"))


def row_25(folder: pathlib.Path) -> None:
    """The converter pads in front of a pool with the least number there is,
    and the quantiser takes that for a number that must be represented."""
    model = networks.resnet(seed=21)
    save(model, folder / "model.onnx")
    pool = node_of(model, "stem.pool")
    at = list(model.graph.node).index(pool)
    model.graph.initializer.extend([
        numpy_helper.from_array(numpy.array([0, 0, 1, 1, 0, 0, 1, 1]), "pads"),
        numpy_helper.from_array(numpy.array(numpy.finfo("f4").min), "least")])
    model.graph.node.insert(at, helper.make_node(
        "Pad", [pool.input[0], "pads", "least"], ["padded"], name="padded"))
    pool = node_of(model, "stem.pool")
    pool.input[0] = "padded"
    set_attribute(pool, "pads", [0, 0, 0, 0])
    save(model, folder / "converted.onnx")
    quantise(folder / "converted.onnx", folder / "integer_quant.onnx",
             photos(4))
    numpy.savez(folder / "person.npz", **photos(1)[0])
