"""A host over TVM's C API that sets an input by a name that the network does
not have, as one in C++ may.

usage: host.py (in a folder with net/; NODEWISE_BUILD is the build folder)
"""

import ctypes
import os
import pathlib
import sys

sys.path.insert(0, os.environ["NODEWISE_C_API"])

# pylint: disable=wrong-import-position
from c_api import (BYTES, MODULE, TENSOR, ByteArray, Runtime,  # noqa: E402
                   floats, handle, number, text)

NET = pathlib.Path("net")


def main() -> None:
    runtime = Runtime()
    library = runtime.load(NET / "lib.so")
    made, _ = runtime.call_global(
        "tvm.graph_executor.create", text((NET / "graph.json").read_text()),
        handle(library, MODULE), number(1), number(0))
    executor = ctypes.c_void_p(made.v_handle)
    content = (NET / "params.params").read_bytes()
    kept = ctypes.create_string_buffer(content, len(content))
    params = ByteArray(ctypes.cast(kept, ctypes.POINTER(ctypes.c_char)),
                       len(content))
    runtime.call(executor, "load_params",
                 handle(ctypes.addressof(params), BYTES))
    image, _data = floats([.5] * (3 * 32 * 32))
    runtime.call(executor, "set_input", text("data"),
                 handle(ctypes.addressof(image), TENSOR))
    runtime.call(executor, "run")


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        print(error)
