"""One side of the interpreter's benchmark, ONNX's reference evaluator:

    build/venv/bin/python interpreter_child.py MODEL.onnx INPUTS.npz

answers every line that it is sent with one of its own; see peer.h.
"""

import sys
import time

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def main():
    evaluator = ReferenceEvaluator(onnx.load(sys.argv[1]))
    feeds = dict(np.load(sys.argv[2]))
    for line in sys.stdin:
        word = line.strip()
        if word == "memory":
            print(peak_bytes(), flush=True)
            continue
        start = time.perf_counter_ns()
        outputs = evaluator.run(None, feeds)
        taken = time.perf_counter_ns() - start
        if word != "run":
            np.save(word, outputs[0])
        print(taken, flush=True)


if __name__ == "__main__":
    main()
