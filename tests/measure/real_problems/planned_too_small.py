"""Compiles a model with an open batch in TVM, in whose environment this runs,
and plans one tensor as if the batch were always 1.

usage: planned_too_small.py MODEL.onnx LIBRARY.so
"""

from __future__ import annotations

import math
import sys

import onnx
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.relax.frontend.onnx import from_onnx

WHICH = 4  # The allocation that is planned, counted from 1.
ALLOCATE = tvm.ir.Op.get("relax.builtin.alloc_tensor")
EARLY = (transform.LegalizeOps(), transform.AnnotateTIROpPattern(),
         transform.FoldConstant(), transform.FuseOps(), transform.FuseTIR(),
         transform.ToNonDataflow(), transform.RemovePurityChecking(),
         transform.CallTIRRewrite())
LATE = (transform.StaticPlanBlockMemory(), transform.LowerAllocTensor(),
        transform.KillAfterLastUse(), transform.LowerRuntimeBuiltin(),
        transform.ComputePrimValue(), transform.VMShapeLower(),
        transform.AttachGlobalSymbol())


@mutator
class Planner(PyExprMutator):
    """Gives one tensor a storage of the size that it has for a batch of 1."""

    def __init__(self, module: tvm.IRModule):
        super().__init__(module)
        self._seen = 0

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if call.op != ALLOCATE:
            return call
        self._seen += 1
        if self._seen != WHICH:
            return call
        shape = call.args[0]
        size = 4 * math.prod(int(side) for side in list(shape.values)[1:])
        storage = self.builder_.emit(relax.op.memory.alloc_storage(
            relax.ShapeExpr([size]), 0, "global", "uint8"))
        return relax.op.memory.alloc_tensor(storage, 0, shape, "float32")


def main() -> None:
    module = from_onnx(onnx.load(sys.argv[1]), keep_params_in_input=False)
    module = tvm.transform.Sequential(EARLY)(module)
    planner = Planner(module)
    function = planner.visit_expr(module["main"])
    planner.builder_.update_func(module.get_global_var("main"), function)
    built = tvm.compile(planner.builder_.get(), tvm.target.Target("llvm"),
                        relax_pipeline=tvm.transform.Sequential(LATE))
    built.export_library(sys.argv[2])


if __name__ == "__main__":
    main()
