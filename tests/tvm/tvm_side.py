"""What runs inside of TVM: compiles a module and asks TVM's own VM."""

import numpy as np
import tvm
from tvm import relax

TARGET = tvm.target.Target("llvm")


def flat(value):
    """The tensors of an output, tuples in tuples too, in order."""
    if isinstance(value, tvm.runtime.Tensor):
        return [value]
    return [tensor for item in value for tensor in flat(item)]


def save(path, tensors):
    path.write_bytes(tvm.runtime.save_param_dict(tensors))


def tensor_of(array):
    return tvm.runtime.tensor(np.require(array, requirements="C"))


def build(module, fused=False):
    """Compiles as the users of TVM do, with or without fusion."""
    pipeline = relax.get_default_pipeline(TARGET) if fused else "default"
    return tvm.compile(module, target=TARGET, relax_pipeline=pipeline)


def compile_to(folder, module, fused=False):
    """Writes vm.so."""
    build(module, fused).export_library(str(folder / "vm.so"))


def arguments(inputs):
    """The arguments of the VM's function: `params[0]` and `params[1]` are the
    items of one that is a tuple."""
    found = {}
    for name, array in inputs.items():
        parameter, mark, _ = name.partition("[")
        if mark:
            found.setdefault(parameter, []).append(tensor_of(array))
        else:
            found[parameter] = tensor_of(array)
    return [tuple(value) if isinstance(value, list) else value
            for value in found.values()]


def ask_vm(folder, inputs, function="main"):
    """Writes what goes in and what TVM's VM makes of it. `inputs` are arrays
    by name, in the order of the parameters."""
    save(folder / "inputs.params",
         {name: tensor_of(array) for name, array in inputs.items()})
    library = tvm.runtime.load_module(str(folder / "vm.so"))
    machine = relax.VirtualMachine(library, tvm.cpu())
    outputs = flat(machine[function](*arguments(inputs)))
    save(folder / "expected.params",
         {f"output_{i}": output for i, output in enumerate(outputs)})
