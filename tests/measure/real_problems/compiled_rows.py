"""Reports about compiled networks, made again in small.

Each function writes into a folder what the reporter had, and has the number of
the report in docs/real_problems.md.
"""

from __future__ import annotations

import pathlib
import re
import shutil

import networks
import numpy
import onnx
import onnxruntime
from making import (HERE, NODEWISE, TVM_PYTHON, compile_c, compile_to_c,
                    compile_with_tvm, drawn, photos, run_quietly)
from network_builder import (node_of, save, set_attribute, set_values,
                             values_of)
from onnx import helper, numpy_helper
from quantising import quantise
from wrong_runtime import drop_tail


def row_1(folder: pathlib.Path) -> None:
    """As it is: TVM 0.27 makes -1 of it by itself."""
    model = networks.counters()
    save(model, folder / "model.onnx")
    numpy.savez(folder / "inputs.npz", image=drawn(1, 1, 3, 8, 8))
    compile_with_tvm(model, folder)


def row_2(folder: pathlib.Path) -> None:
    """The importer took slopes along the last axis for those of channels."""
    model = networks.parametric()
    save(model, folder / "model.onnx")
    numpy.savez(folder / "inputs.npz", image=drawn(2, 1, 3, 8, 8))
    set_values(model, "slopes1", values_of(model, "slopes1").reshape(8, 1, 1))
    compile_with_tvm(model, folder)


def row_3(folder: pathlib.Path) -> None:
    """Both sides are right, and one element is next to a pole."""
    model = networks.tangents()
    given = {"i0": drawn(2, 1, 3, 12, 12)}
    inner = onnx.ModelProto()
    inner.CopyFrom(model)
    inner.graph.output.append(onnx.ValueInfoProto(name="scaled"))
    angle = float(onnxruntime.InferenceSession(inner.SerializeToString()).run(
        ["scaled"], given)[0].ravel()[3])
    pole = (round(angle / numpy.pi - .5) + .5) * numpy.pi
    bias = values_of(model, "conv3.bias").copy()
    bias[3] += (pole - angle - 2e-5) / 100
    set_values(model, "conv3.bias", bias)
    save(model, folder / "model.onnx")
    numpy.savez(folder / "inputs.npz", **given)
    compile_with_tvm(model, folder)


def row_5(folder: pathlib.Path) -> None:
    """A kernel on the device reads what its buffer held one layer before."""
    model = networks.wavenet()
    save(model, folder / "model.onnx")
    numpy.save(folder / "mel.npy", drawn(5, 1, 8, 48))
    node_of(model, "layer3.gated").input[1] = "layer2.sigmoid"
    save(model, folder / "on_metal.onnx")
    (folder / "builds.py").write_text(
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\n"
        "import numpy, onnx, tvm\nfrom tvm import relax\n"
        "from tvm_build import machine\n"
        "mel = tvm.runtime.tensor(numpy.load('mel.npy'))\n"
        "def vm_on(device):\n"
        "    name = {'llvm': 'model', 'metal': 'on_metal'}[device]\n"
        "    built = machine(onnx.load(name + '.onnx'), True)\n"
        "    return relax.VirtualMachine(built, tvm.cpu())\n", "utf-8")


def row_6(folder: pathlib.Path) -> None:
    """The schedule for int8 leaves out the last channels of a product whose
    depth is not a multiple of its 16 lanes."""
    save(networks.resnet(seed=6, widths=(32, 32, 40)), folder / "float.onnx")
    quantise(folder / "float.onnx", folder / "model.onnx", photos(4))
    numpy.savez(folder / "inputs.npz", **photos(1)[0])
    model = onnx.load(folder / "model.onnx")
    drop_tail("block3.conv3", 16)(model)
    compile_with_tvm(model, folder)


def row_7(folder: pathlib.Path) -> None:
    """The program in C++ leaves channels in the order of OpenCV."""
    save(networks.mobilenet(seed=7, name="input"), folder / "model.onnx")
    run_quietly(NODEWISE, "convert", folder / "model.onnx", "-o",
                folder / "net")
    photo = numpy.random.default_rng(7).integers(0, 256, (32, 32, 3))
    mean = numpy.array([.485, .456, .406]).reshape(1, 3, 1, 1)
    spread = numpy.array([.229, .224, .225]).reshape(1, 3, 1, 1)
    for name, pixels in (("from_cpp", photo),
                         ("from_python", photo[:, :, ::-1])):
        planes = pixels.transpose(2, 0, 1)[None] / 255
        numpy.save(folder / f"{name}.npy",
                   ((planes - mean) / spread).astype("float32"))


def row_8(folder: pathlib.Path) -> None:
    """The host sets an input that the network does not have, which TVM passes
    over without a word."""
    save(networks.mobilenet(seed=8, name="input.1"), folder / "model.onnx")
    compile_to_c(folder / "model.onnx", folder / "net")
    compile_c(folder / "net")
    shutil.copy(HERE / "host_of_row_8.py", folder / "host.py")


def row_9(folder: pathlib.Path) -> None:
    """A kernel trusts that memory that it did not write is zero."""
    save(networks.resnet(seed=9), folder / "model.onnx")
    numpy.savez(folder / "inputs.npz", **photos(1)[0])
    compile_to_c(folder / "model.onnx", folder / "net")
    source = (folder / "net/lib.c").read_text("utf-8")
    begin = source.index("static int nodewise_conv_relu_2_loops")
    zeros = re.compile(r"\n *for \(int64_t i = 0; i < \d+; \+\+i\) \{"
                       r"\n *tmp1\[i\] = 0;\n *\}").search(source, begin)
    assert zeros is not None
    (folder / "net/lib.c").write_text(
        source[:zeros.start()] + source[zeros.end():], "utf-8")
    compile_c(folder / "net")


def row_10(folder: pathlib.Path) -> None:
    save(networks.detector(), folder / "model.onnx")
    compile_to_c(folder / "model.onnx", folder / "net")
    compile_c(folder / "net")


def row_11(folder: pathlib.Path) -> None:
    """A pool pads with zeros, which only matters to images that have less than
    that at a border."""
    model = networks.xception()
    save(model, folder / "model.onnx")
    numpy.savez(folder / "flipped.npz", image=drawn(112, 1, 3, 32, 32))
    pool = node_of(model, "block0.pool")
    at = list(model.graph.node).index(pool)
    model.graph.initializer.append(numpy_helper.from_array(
        numpy.array([0, 0, 1, 1, 0, 0, 1, 1]), "pads"))
    model.graph.node.insert(at, helper.make_node(
        "Pad", [pool.input[0], "pads"], ["padded"], name="padded"))
    pool = node_of(model, "block0.pool")
    pool.input[0] = "padded"
    set_attribute(pool, "pads", [0, 0, 0, 0])
    compile_with_tvm(model, folder, "--fused")


def row_12(folder: pathlib.Path) -> None:
    """A tensor with an open batch has the storage that a batch of 1 takes."""
    model = networks.resnet(seed=12)
    for each in (*model.graph.input, *model.graph.output):
        each.type.tensor_type.shape.dim[0].dim_param = "batch"
    save(model, folder / "model.onnx")
    numpy.savez(folder / "two.npz", image=drawn(12, 2, 3, 32, 32))
    run_quietly(TVM_PYTHON, HERE / "planned_too_small.py",
                folder / "model.onnx", folder / "vm.so")
