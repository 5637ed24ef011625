"""Runs a model in IREE for nodewise.

usage: python3 -I iree_adapter.py [--backend NAME] [--device NAME]
       [--cpu NAME] [--opset N] [--flags TEXT] REQUEST
"""

import os
import shlex
import sys

# -I leaves the folder of the script out.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from adapter_models import (files_of, first_error, folder_kept,  # noqa: E402
                            inputs_and_outputs_of, run_tool, with_sizes)
from adapter_protocol import need, numpy, serve  # noqa: E402

onnx = need("onnx", "onnx")
tools = need("iree.compiler.tools", "iree-base-compiler")
runtime = need("iree.runtime", "iree-base-runtime")
VERSION = need("iree.runtime.version", "iree-base-runtime").VERSION

# The device that runs what each back end compiles.
DEVICES = {"llvm-cpu": "local-task", "vmvx": "local-task", "cuda": "cuda",
           "vulkan-spirv": "vulkan", "rocm": "hip"}


def add_options(parser):
    parser.add_argument("--backend", default="llvm-cpu",
                        help="what IREE compiles for (llvm-cpu)")
    parser.add_argument("--device", default="",
                        help="what runs it (that of the back end)")
    parser.add_argument("--cpu", default="host",
                        help="of llvm-cpu: the processor (host)")
    parser.add_argument("--opset", type=int, default=0,
                        help="raises the model to this opset first (as it is)")
    parser.add_argument("--flags", default="",
                        help="more arguments of iree-compile")


def flags_of(options):
    flags = shlex.split(options.flags)
    if options.backend == "llvm-cpu":
        flags.append(f"--iree-llvmcpu-target-cpu={options.cpu}")
    return flags


def compile_into(folder, path, shapes, options):
    source, imported = folder / "model.onnx", folder / "model.mlir"
    onnx.save(with_sizes(path, shapes), source)
    words = ["--opset-version", options.opset] if options.opset else []
    run_tool([sys.executable, "-I", "-m", "iree.compiler.tools.import_onnx",
              source, "-o", imported, *words], "iree-import-onnx")
    try:
        tools.compile_file(
            str(imported), output_file=str(folder / "model.vmfb"),
            target_backends=[options.backend], extra_args=flags_of(options))
    except tools.CompilerToolError as error:
        raise RuntimeError(
            f"iree-compile refused the model: {first_error(str(error))}"
        ) from None
    source.unlink()
    imported.unlink()


class Model:
    def __init__(self, path, shapes, options):
        made = folder_kept("iree", [
            VERSION, repr(sorted(shapes.items())), options.backend,
            str(options.opset), *flags_of(options), *files_of(path)],
            lambda folder: compile_into(folder, path, shapes, options))
        device = options.device or DEVICES.get(options.backend)
        if device is None:
            sys.exit(f"back end {options.backend}: which device runs it is not "
                     f"known, expected one of {', '.join(DEVICES)}, or "
                     "device=NAME with it")
        self._inputs, self._outputs = inputs_and_outputs_of(path)
        self._function = function_of(made / "model.vmfb", device)
        self.name = f"IREE {VERSION}, {options.backend}, {device}"

    def run(self, inputs, names):
        made = self._function(*(numpy.ascontiguousarray(inputs[name])
                                for name in self._inputs))
        if not isinstance(made, (tuple, list)):
            made = [made]
        return {name: held_as(dtype, numpy.asarray(value.to_host()))
                for (name, dtype), value in zip(self._outputs, made)
                if name in names}


def function_of(path, device):
    """The function of the graph, the only one that is not IREE's own."""
    config = runtime.Config(device)
    module = runtime.VmModule.mmap(config.vm_instance, str(path))
    context = runtime.SystemContext(config=config)
    context.add_vm_module(module)
    names = [name for name in module.function_names
             if not name.startswith("__") and not name.endswith("$async")]
    if len(names) != 1:
        raise RuntimeError(f"{path}: has the functions {', '.join(names)}, "
                           "expected one of the graph")
    return context.modules[module.name][names[0]]


def held_as(dtype, value):
    """IREE's integers have no sign, and its bools are bytes."""
    if dtype is None or value.dtype == dtype:
        return value
    if dtype == bool:
        return value != 0
    if dtype.itemsize == value.dtype.itemsize:
        return value.view(dtype)
    return value


if __name__ == "__main__":
    serve(Model, add_options)
