"""What host code for TVM 0.8 to 0.19 imports, over nodewise's runtime.

>>> from nodewise import tvm
>>> from nodewise.tvm.contrib import graph_executor
>>> lib = tvm.runtime.load_module("deploy_lib.so")
>>> module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))

Names and meanings are TVM's; TVM itself is not needed. What compiles networks
is not here.
"""

from nodewise._errors import Error as TVMError
from nodewise.tvm import contrib, nd, relay, runtime
from nodewise.tvm.runtime import (Device, Module, context, cpu, cuda, device,
                                  get_global_func, gpu, metal, opencl, rocm,
                                  vulkan)
from nodewise.tvm.nd import NDArray

__all__ = ["Device", "Module", "NDArray", "TVMError", "context", "contrib",
           "cpu", "cuda", "device", "get_global_func", "gpu", "metal", "nd",
           "opencl", "relay", "rocm", "runtime", "vulkan"]
