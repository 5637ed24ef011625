"""One side of the comparator's benchmark, numpy:

    build/venv/bin/python compare_child.py EXPECTED ACTUAL

maps two files of float32 and answers every line that it is sent with the
nanoseconds that the usual metrics take; see peer.h.
"""

import sys
import time

import numpy as np


def metrics(x, y):
    error = np.abs(y - x)
    size = np.abs(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = error / size
    xx, yy = np.dot(x, x), np.dot(y, y)
    squares = np.sum(error * error, dtype=np.float64)
    return (int(np.argmax(error)), float(error.max()),
            float(np.nanmax(relative)),
            *(float((relative > limit).mean())
              for limit in (0.01, 0.001, 0.0001)),
            float((error > 1e-5 + 1e-4 * size).mean()),
            1 - float(np.dot(x, y) / np.sqrt(xx * yy)),
            float(np.sqrt(squares / x.size)),
            float(10 * np.log10(xx / squares)),
            int((np.isnan(x) != np.isnan(y)).sum()),
            int((np.isinf(x) != np.isinf(y)).sum()))


def main():
    x, y = (np.memmap(path, np.float32, "r") for path in sys.argv[1:])
    # Both files are touched before they are timed.
    x.sum(), y.sum()
    for _ in sys.stdin:
        start = time.perf_counter_ns()
        metrics(x, y)
        print(time.perf_counter_ns() - start, flush=True)


if __name__ == "__main__":
    main()
