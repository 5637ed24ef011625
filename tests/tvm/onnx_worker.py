"""Compiles cases of ONNX's package with TVM, one for each line of stdin that
names its folder and where to leave the results. Answers with a line when one
is done; state.txt there says `made`, or a class and why.

Runs in the Python that has TVM and ONNX. TVM may die or never return: the
other side then starts anew at the next case.
"""

import os
import pathlib
import sys

import numpy as np
import onnx
import tvm
from onnx import numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import tvm_side

# Inputs as small as this decide shapes; real models have them as constants.
MOST_FROZEN = 16


class Case(Exception):
    """What becomes of a case that is not made: its class and why."""


def load_inputs(model, folder):
    """Arrays by name, of the inputs that the first data set gives."""
    arrays = {}
    initialised = {tensor.name for tensor in model.graph.initializer}
    names = [value for value in model.graph.input
             if value.name not in initialised]
    for i, value in enumerate(names):
        path = folder / f"test_data_set_0/input_{i}.pb"
        if value.type.WhichOneof("value") != "tensor_type":
            raise Case("no-tensors", value.type.WhichOneof("value"))
        tensor = onnx.TensorProto.FromString(path.read_bytes())
        if tensor.data_type == onnx.TensorProto.STRING:
            raise Case("no-tensors", "string")
        arrays[value.name] = numpy_helper.to_array(tensor)
    for value in model.graph.output:
        if value.type.WhichOneof("value") != "tensor_type":
            raise Case("no-tensors", value.type.WhichOneof("value"))
    return arrays


def small_integers(arrays):
    return [name for name, array in list(arrays.items())[1:]
            if array.dtype.kind in "iub" and array.size <= MOST_FROZEN]


def frozen(model, arrays, names):
    """The model with these inputs as constants."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    kept = [v for v in copy.graph.input if v.name not in names]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    copy.graph.initializer.extend(
        numpy_helper.from_array(arrays[name], name) for name in names)
    return copy


def types_of(kind):
    if isinstance(kind, relax.TupleType):
        return [t for field in kind.fields for t in types_of(field)]
    return [kind]


def why_not_static(module):
    """Why a module as TVM has it before it compiles is not a straight line of
    kernels over tensors of known shapes; "" if it is one."""
    with tvm_side.TARGET:
        lowered = tvm.transform.Sequential([
            relax.backend.DispatchSampling(),
            relax.backend.DispatchSortScan(),
            relax.transform.DecomposeOpsForInference(),
            relax.transform.FoldConstant(),
            relax.transform.LegalizeOps()])(module)
    main = lowered["main"]
    values = list(main.params)
    for block in main.body.blocks:
        for binding in block.bindings:
            values.append(binding.var)
            if isinstance(getattr(binding, "value", None), relax.If):
                return "a branch"
            name = getattr(getattr(getattr(binding, "value", None), "op", None),
                           "name", "")
            if "packed" in name:
                return f"{name} of {binding.value.args[0]}"
    for value in values + [main.body.body]:
        for kind in types_of(value.ty):
            if not isinstance(kind, relax.TensorType):
                return f"a value that is not a tensor: {kind}"
            if not isinstance(kind.shape, relax.ShapeExpr) or not all(
                    isinstance(d, tvm.tirx.IntImm) for d in kind.shape.values):
                return f"a shape that is not known: {kind}"
    return ""


def import_frozen(model, arrays):
    """The module and the arrays it still takes: as it is, else with the small
    integers frozen, else with all inputs but the first."""
    failure = None
    tried = []
    for names in ([], small_integers(arrays), list(arrays)[1:]):
        if names in tried:
            continue
        tried.append(names)
        try:
            module = from_onnx(frozen(model, arrays, names))
        except Exception as error:  # TVM's errors or Python's.
            failure = failure or Case("not-imported", str(error))
            continue
        reason = why_not_static(module)
        if not reason:
            left = [a for name, a in arrays.items() if name not in names]
            return module, left
        failure = Case("not-static", reason)
    raise failure


def make(folder, out):
    model = onnx.load(folder / "model.onnx")
    module, arrays = import_frozen(model, load_inputs(model, folder))
    names = [param.name for param in module["main"].params]
    if len(names) != len(arrays):
        raise Case("not-imported", f"{len(arrays)} inputs became {names}")
    try:
        tvm_side.compile_to(out, module)
        tvm_side.ask_vm(out, dict(zip(names, arrays)))
    except Exception as error:
        raise Case("tvm-fails", str(error)) from error


def state_of(folder, out):
    try:
        make(folder, out)
    except Case as case:
        state, why = case.args
        return f"{state} {' '.join(why.split())[-300:]}"
    except Exception as error:
        return f"tvm-fails {type(error).__name__} {' '.join(str(error).split())[-300:]}"
    return "made"


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # TVM prints what it likes.
    np.seterr(all="ignore")
    for line in sys.stdin:
        folder, out = map(pathlib.Path, line.rstrip("\n").split("\t"))
        out.mkdir(parents=True, exist_ok=True)
        state = state_of(folder, out)
        (out / "state.txt").write_text(state + "\n")
        print("done", file=answers, flush=True)


if __name__ == "__main__":
    main()
