"""TVM's side of `./dev bench modern`: runs libraries in TVM's VM, a line of
stdin at a time, and answers each with a line.

    chain N          -> a folder with vm.so and inputs.params
    run FOLDER N     -> nanoseconds of a run, the mean of N
    copy FOLDER N    -> the same while a callback copies every output
"""

import functools
import os
import pathlib
import sys
import time

import numpy as np
import tvm
from tvm import relax
from tvm.script import relax as R

KEPT = pathlib.Path(__file__).resolve().parents[2] / "build/tvm_bench"
FLOATS = 16


def chain(operators):
    """x * p + p, over and over: two kernels, and none is fused."""
    folder = KEPT / f"chain_{operators}_{tvm.__version__}"
    if (folder / "inputs.params").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    x = relax.Var("x", R.Tensor((FLOATS,), "float32"))
    ones = np.ones(FLOATS, "float32")
    parameter = relax.const(ones)
    block = relax.BlockBuilder()
    with block.function("main", [x]):
        with block.dataflow():
            value = x
            for i in range(operators):
                operator = relax.op.add if i % 2 else relax.op.multiply
                value = block.emit(operator(value, parameter))
            output = block.emit_output(value)
        block.emit_func_output(output)
    compiled = tvm.compile(block.get(), target="llvm")
    compiled.export_library(str(folder / "vm.so"))
    (folder / "inputs.params").write_bytes(
        tvm.runtime.save_param_dict({"x": tvm.runtime.tensor(ones)}))
    return folder


@functools.cache
def machine(folder, copies):
    """A VM of its own for each way of running, its input, and a list that
    collects what is copied."""
    folder = pathlib.Path(folder)
    vm = relax.VirtualMachine(tvm.runtime.load_module(str(folder / "vm.so")),
                              tvm.cpu())
    inputs = tvm.runtime.load_param_dict(
        (folder / "inputs.params").read_bytes())
    taken = []

    # Inputs and constants are left out, and nothing is written to a file.
    def copy(_, name, before_run, __, *args):
        if not before_run and not name.startswith("vm.builtin."):
            taken.append((name, args[-1].numpy().copy()))

    if copies:
        vm.set_instrument(copy)
    (value,) = inputs.values()
    return vm, value, taken


def run(folder, runs):
    vm, value, _ = machine(folder, False)
    timer = vm.time_evaluator("main", tvm.cpu(), number=runs, repeat=1)
    return timer(value).mean * 1e9


def run_with_copies(folder, runs):
    vm, value, taken = machine(folder, True)
    taken.clear()
    main = vm["main"]
    start = time.perf_counter_ns()
    for _ in range(runs):
        main(value)
    passed = time.perf_counter_ns() - start
    assert taken
    return passed / runs


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # TVM prints what it likes.
    for line in sys.stdin:
        verb, *rest = line.rstrip("\n").split("\t")
        if verb == "chain":
            answer = chain(int(rest[0]))
        elif verb == "run":
            answer = run(rest[0], int(rest[1]))
        else:
            answer = run_with_copies(rest[0], int(rest[1]))
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    main()
