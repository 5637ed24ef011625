"""Runs a model in ncnn for nodewise; pnnx converts it.

usage: python3 -I ncnn_adapter.py [--precision NAME] [--device NAME]
       [--threads N] [--optlevel N] [--pnnx PROGRAM] REQUEST
"""

import importlib.metadata
import importlib.util
import os
import pathlib
import re
import sys

# -I leaves the folder of the script out.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from adapter_models import (files_of, folder_kept,  # noqa: E402
                            inputs_and_outputs_of, run_tool, with_sizes)
from adapter_protocol import need, numpy, serve  # noqa: E402

onnx = need("onnx", "onnx")
ncnn = need("ncnn", "ncnn")

# How pnnx writes that a tensor has no side of a batch.
NO_BATCH = 233


def add_options(parser):
    parser.add_argument("--precision", choices=["", "f32", "bf16"], default="",
                        help="what weights and blobs are kept in (as pnnx and "
                        "ncnn choose: float16 where they can)")
    parser.add_argument("--device", choices=["cpu", "vulkan"], default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--optlevel", type=int, default=2,
                        help="how far pnnx rewrites the model, 0 to 2 (2)")
    parser.add_argument("--pnnx", default="",
                        help="the converter (that of the package pnnx)")


def pnnx_of(options):
    """The program in the package, which itself imports torch."""
    if options.pnnx:
        return options.pnnx, options.pnnx
    found = importlib.util.find_spec("pnnx")
    if found is None:
        sys.exit(f"this Python has no package pnnx ({sys.executable}; install "
                 "it there, or say with pnnx=PROGRAM where it is)")
    return (pathlib.Path(found.origin).parent / "pnnx",
            importlib.metadata.version("pnnx"))


def convert_into(folder, path, shapes, options):
    model = folder / "model.onnx"
    onnx.save(with_sizes(path, shapes), model)
    said = run_tool([pnnx_of(options)[0], model,
                     f"fp16={int(options.precision == '')}",
                     f"optlevel={options.optlevel}"], "pnnx")
    kept = ("model.ncnn.param", "model.ncnn.bin", "model_ncnn.py")
    missing = [name for name in kept if not (folder / name).exists()]
    if missing:
        raise RuntimeError(f"pnnx made no {missing[0]}: {said[-300:].strip()}")
    for each in folder.iterdir():
        if each.name not in kept:
            each.unlink()


class Model:
    def __init__(self, path, shapes, options):
        self._made = folder_kept("ncnn", [
            pnnx_of(options)[1], repr(sorted(shapes.items())),
            options.precision, str(options.optlevel), *files_of(path)],
            lambda folder: convert_into(folder, path, shapes, options))
        self._inputs, self._outputs = inputs_and_outputs_of(path)
        self._batches = batches_of(self._made / "model_ncnn.py")
        self._net = self._opened(options)
        kept = options.precision or "float16 weights"
        self.name = f"ncnn {ncnn.__version__}, {options.device}, {kept}"

    def _opened(self, options):
        param = self._made / "model.ncnn.param"
        refuse_unknown_layers(param)
        net = ncnn.Net()
        net.opt.use_vulkan_compute = options.device == "vulkan"
        if options.threads:
            net.opt.num_threads = options.threads
        if options.precision:
            net.opt.use_fp16_packed = False
            net.opt.use_fp16_storage = False
            net.opt.use_fp16_arithmetic = False
            net.opt.use_bf16_storage = options.precision == "bf16"
        if net.load_param(str(param)) or \
                net.load_model(str(self._made / "model.ncnn.bin")):
            raise RuntimeError("ncnn cannot load what pnnx made of the model")
        return net

    def run(self, inputs, names):
        extractor = self._net.create_extractor()
        given = [self._mat(i, inputs[name])
                 for i, name in enumerate(self._inputs)]
        for i, mat in enumerate(given):
            # pnnx leaves out what nothing reads.
            if f"in{i}" in self._net.input_names():
                extractor.input(f"in{i}", mat)
        return {name: self._extracted(extractor, i, dtype)
                for i, (name, dtype) in enumerate(self._outputs)
                if name in names}

    def _mat(self, i, value):
        """ncnn has numbers of 32 bits alone."""
        if value.dtype.kind == "f":
            value = value.astype(numpy.float32)
        elif value.dtype.kind in "iu":
            value = value.astype(numpy.int32)
        else:
            raise TypeError(f"input {self._inputs[i]}: is {value.dtype}, "
                            "expected floats or integers")
        return ncnn.Mat(numpy.ascontiguousarray(value),
                        batch_index=self._batches.get(f"in{i}", NO_BATCH)
                        ).clone()

    def _extracted(self, extractor, i, dtype):
        blob = f"out{i}"
        if blob not in self._net.output_names():
            return "pnnx has left it out"
        if dtype is None or dtype.kind != "f":
            return f"ncnn does not say how it holds {dtype or 'other types'}"
        status, mat = extractor.extract(blob)
        if status:
            return f"ncnn cannot compute it (status {status})"
        value = mat.numpy(batch_index=self._batches.get(blob, NO_BATCH))
        return numpy.array(value).astype(dtype)


def batches_of(path):
    """Which side of each input and output is the batch, which ncnn's own
    tensors do not have. Only the example that pnnx writes says it."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(
        r"\b((?:in|out)\d+)\.numpy\(\)?,? ?batch_index=(\d+)\)", text)
    if not found:
        raise RuntimeError("pnnx does not say which side is the batch, "
                           "expected batch_index in model_ncnn.py (a version "
                           "of 2026 writes it)")
    return {name: int(side) for name, side in found}


def refuse_unknown_layers(param):
    """pnnx passes on what ncnn does not have, and ncnn says so on stderr
    alone."""
    rows = [line.split() for line in
            param.read_text(encoding="utf-8").splitlines()[2:]]
    unknown = [f"{row[0]} ({row[1]})" for row in rows
               if len(row) > 1 and ncnn.layer_to_index(row[0]) < 0]
    if unknown:
        raise RuntimeError("ncnn has no layer " + ", ".join(unknown))


if __name__ == "__main__":
    serve(Model, add_options)
