"""tvm.runtime: what loads libraries and parameters."""

import os

from nodewise.tvm import nd
from nodewise.tvm._module import (BenchmarkResult, Device, Function, Module,
                                  cpu, device, get_global_func, load_module)
from nodewise.tvm.nd import NDArray

PackedFunc = Function
enabled_devices = ("cpu",)

__all__ = ["BenchmarkResult", "Device", "Module", "NDArray", "PackedFunc",
           "cpu", "device", "enabled", "load_module", "load_param_dict",
           "load_param_dict_from_file", "num_threads", "save_param_dict",
           "system_lib"]


def load_param_dict(param_bytes):
    """The arrays by their names in the bytes of a .params file."""
    if isinstance(param_bytes, str):
        param_bytes = param_bytes.encode("latin-1")
    return get_global_func("runtime.LoadParams")(bytes(param_bytes))


def load_param_dict_from_file(path):
    with open(path, "rb") as file:
        return load_param_dict(file.read())


def save_param_dict(params):
    """The bytes of a .params file of these arrays."""
    arrays = {name: value if isinstance(value, NDArray) else nd.array(value)
              for name, value in params.items()}
    return get_global_func("runtime.SaveParams")(arrays)


def system_lib(symbol_prefix=""):
    return get_global_func("runtime.SystemLib")(symbol_prefix)


def num_threads():
    return get_global_func("runtime.NumThreads")()


def enabled(target):
    """Whether code for a target can run here."""
    return bool(get_global_func("runtime.RuntimeEnabled")(os.fspath(target)))
