"""Compiles an ONNX model with TVM, in whose environment this runs.

usage: tvm_build.py MODEL.onnx LIBRARY.so [--fused]
"""

import sys

import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx


def machine(model: onnx.ModelProto, fused: bool) -> "relax.VMExecutable":
    """What tvm.compile makes of it, with or without fusing operators."""
    target = tvm.target.Target("llvm")
    pipeline = relax.get_default_pipeline(target) if fused else "default"
    return tvm.compile(from_onnx(model, keep_params_in_input=False),
                       target=target, relax_pipeline=pipeline)


if __name__ == "__main__":
    machine(onnx.load(sys.argv[1]), "--fused" in sys.argv).export_library(
        sys.argv[2])
