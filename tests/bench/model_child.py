"""The other side of the benchmarks of models:

    build/venv/bin/python model_child.py KIND MODEL.onnx INPUTS.npz [once]

answers every line that it is sent with one of its own; see peer.h. KIND says
what runs the model: `evaluator`, ONNX's reference evaluator, `onnxruntime`, or
`plain_onnxruntime`, which runs the model's operations as they are.
With `once` it runs the model once and ends.
"""

import os
import sys
import time

import numpy as np


def evaluator(model):
    # Imported here: a cold start of onnxruntime does not need it.
    import onnx
    from onnx.reference import ReferenceEvaluator
    return ReferenceEvaluator(onnx.load(model))


def onnxruntime(model, optimises=True):
    import onnxruntime as ort
    options = ort.SessionOptions()
    if not optimises:
        options.graph_optimization_level = (
            ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    options.intra_op_num_threads = int(os.environ["TVM_NUM_THREADS"])
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    # Its threads would go on spinning while the other side is timed.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(model, options,
                                providers=["CPUExecutionProvider"])


def plain_onnxruntime(model):
    return onnxruntime(model, optimises=False)


KINDS = {"evaluator": evaluator, "onnxruntime": onnxruntime,
         "plain_onnxruntime": plain_onnxruntime}


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def answer(runner, feeds):
    for line in sys.stdin:
        word = line.strip()
        if word == "memory":
            print(peak_bytes(), flush=True)
            continue
        start = time.perf_counter_ns()
        outputs = runner.run(None, feeds)
        taken = time.perf_counter_ns() - start
        if word != "run":
            np.save(word, outputs[0])
        print(taken, flush=True)


def main():
    runner = KINDS[sys.argv[1]](sys.argv[2])
    feeds = dict(np.load(sys.argv[3]))
    if sys.argv[4:] == ["once"]:
        runner.run(None, feeds)
    else:
        answer(runner, feeds)


if __name__ == "__main__":
    main()
