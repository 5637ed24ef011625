"""Makes the files of a case: what other people's tools make of a model."""

import copy
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

import models

OPSET = 17
IR = 8


def save(folder, model, feeds):
    """A model with its inputs, as model.onnx and inputs.npz."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    numpy.savez(folder / "inputs.npz", **feeds)


def packaged(folder, name, seed=1):
    model = models.load(name)
    feeds = models.inputs_of(name, seed)
    save(folder, model, feeds)
    return model, feeds


# --- quantisers --------------------------------------------------------------


class Samples:
    """What a quantiser takes its ranges from: the inputs of the case, and those
    of other seeds, all changed by `spoil`."""

    def __init__(self, name, spoil=None, count=4):
        sets = [models.inputs_of(name, 1 + i) for i in range(count)]
        if spoil is not None:
            sets = [{key: spoil(value) for key, value in each.items()}
                    for each in sets]
        self.left = iter(sets)

    def get_next(self):
        return next(self.left, None)

    def __iter__(self):
        return self.left


def static(folder, name, form="QDQ", activations="QUInt8", weights="QInt8",
           spoil=None, **options):
    """Calls onnxruntime's quantize_static. Beside the form QOperator it makes
    the QDQ form of the same settings, too, whose scales the truth reads."""
    from onnxruntime.quantization import (  # pylint: disable=import-outside-toplevel
        QuantFormat, QuantType, quantize_static)
    packaged(folder, name)
    forms = {"scales": "QDQ", "target": form}
    if form == "QDQ":
        del forms["scales"]
    for made, shape in forms.items():
        quantize_static(
            str(folder / "model.onnx"), str(folder / f"{made}.onnx"),
            Samples(name, spoil), quant_format=QuantFormat[shape],
            activation_type=QuantType[activations],
            weight_type=QuantType[weights], **options)
    if form == "QDQ":
        shutil.copy(folder / "target.onnx", folder / "scales.onnx")


def dynamic(folder, name, **options):
    from onnxruntime.quantization import (  # pylint: disable=import-outside-toplevel
        QuantType, quantize_dynamic)
    packaged(folder, name)
    quantize_dynamic(str(folder / "model.onnx"), str(folder / "target.onnx"),
                     weight_type=QuantType.QInt8, **options)


def blocks_of_4_bits(folder, name):
    """Weights of matrix products in 4 bits, as language models have them."""
    from onnxruntime.quantization.matmul_nbits_quantizer import (  # pylint: disable=import-outside-toplevel
        MatMulNBitsQuantizer)
    from onnxruntime.quantization import QuantFormat  # pylint: disable=import-outside-toplevel
    model, _ = packaged(folder, name)
    quantiser = MatMulNBitsQuantizer(
        copy.deepcopy(model), block_size=32, is_symmetric=True,
        quant_format=QuantFormat.QOperator)
    quantiser.process()
    onnx.save(quantiser.model.model, folder / "target.onnx")


# --- float16 -----------------------------------------------------------------


def half(folder, name, feeds=None, **options):
    from onnxconverter_common import float16  # pylint: disable=import-outside-toplevel
    model, given = packaged(folder, name)
    if feeds is not None:
        save(folder, model, feeds(given))
    onnx.save(float16.convert_float_to_float16(
        copy.deepcopy(model), keep_io_types=True, **options),
              folder / "target.onnx")


# --- rewriters ---------------------------------------------------------------


def slimmed(model):
    import onnxslim  # pylint: disable=import-outside-toplevel
    return onnxslim.slim(copy.deepcopy(model))


def simplified(model):
    import onnxsim  # pylint: disable=import-outside-toplevel
    return onnxsim.simplify(copy.deepcopy(model))[0]


def optimised(*passes):
    def rewrite(model):
        import onnxoptimizer  # pylint: disable=import-outside-toplevel
        return onnxoptimizer.optimize(copy.deepcopy(model), list(passes))
    return rewrite


def converted(opset):
    return lambda model: version_converter.convert_version(
        copy.deepcopy(model), opset)


def rewritten(folder, network, rewrite):
    model, feeds = network()
    save(folder, model, feeds)
    onnx.save(rewrite(model), folder / "target.onnx")


# --- hosts -------------------------------------------------------------------


def record(folder, inputs, dump):
    """Records a run of the model on the inputs of that name, as a host that
    loads nodewise's runtime does."""
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(
            [os.environ["NODEWISE"], "dump", folder / "model.onnx", "--inputs",
             folder / f"{inputs}.npz", "--dump-root", root],
            stdout=subprocess.DEVNULL, check=True)
        made = next(pathlib.Path(root).glob("_tvmdbg_device_*"))
        shutil.rmtree(folder / dump, ignore_errors=True)
        shutil.copytree(made, folder / dump)


# --- networks around one operator --------------------------------------------


class Net:
    """A small network that grows node by node."""

    def __init__(self, shape, opset=OPSET, seed=1):
        self.rng = numpy.random.default_rng(seed)
        self.shape = shape
        self.opset = opset
        self.nodes = []
        self.weights = []
        self.last = "x"

    def weight(self, name, values):
        self.weights.append(numpy_helper.from_array(
            numpy.asarray(values), name))
        return name

    def random(self, name, *shape):
        scale = 1 / numpy.sqrt(numpy.prod(shape[1:]))
        return self.weight(name, (scale * self.rng.standard_normal(
            shape)).astype(numpy.float32))

    def add(self, kind, name, *more, reads=None, outputs=1, **attributes):
        """A node that reads the one before it, and `more`."""
        reads = [self.last, *more] if reads is None else reads
        names = [name] + [f"{name}_{i}" for i in range(1, outputs)]
        self.nodes.append(helper.make_node(
            kind, reads, names, name=name, **attributes))
        self.last = name
        return name

    def conv(self, name, channels, made, size=3, **attributes):
        attributes.setdefault("pads", [size // 2] * 4)
        return self.add(
            "Conv", name, self.random(f"{name}_w", made, channels, size, size),
            self.random(f"{name}_b", made), **attributes)

    def head(self, channels, classes=8):
        self.add("GlobalAveragePool", "pooled")
        self.add("Flatten", "flat")
        self.add("Gemm", "classify",
                 self.random("classify_w", channels, classes),
                 self.random("classify_b", classes))

    def build(self):
        graph = helper.make_graph(
            self.nodes, "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)],
            self.weights)
        model = onnx.shape_inference.infer_shapes(helper.make_model(
            graph, ir_version=IR,
            opset_imports=[helper.make_opsetid("", self.opset)]))
        return model, {"x": self.rng.standard_normal(self.shape).astype(
            numpy.float32)}


def between(kind, opset=OPSET, constants=(), is_bare=False, **attributes):
    """A network of convolutions with one operator of `kind`, called middle,
    between them; with nothing else if it is bare, for converters that refuse
    much."""
    def network():
        channels = 8
        net = Net([1, 3, 20, 20], opset)
        net.conv("first", 3, channels)
        if not is_bare:
            net.add("Relu", "rectified")
        names = [net.weight(f"middle_{i}", each) if each is not None else ""
                 for i, each in enumerate(constants)]
        net.add(kind, "middle", *names, **attributes)
        net.conv("second", channels, 6)
        if not is_bare:
            net.head(6)
        return net.build()
    return network


def in_runtime(folder, network):
    """A model that a runtime runs as it is. `network` is a function, or the
    name of a model in a package."""
    if isinstance(network, str):
        packaged(folder, network)
    else:
        save(folder, *network())
