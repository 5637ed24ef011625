"""Python's side of `./dev bench contrib/python`: a line of stdin at a time, each
answered with a line.

    run FOLDER N   -> nanoseconds of a run of that artefact with its inputs
                      given, the mean of N
    open FOLDER    -> nanoseconds until a dump's tensors can be asked for
"""

import functools
import pathlib
import sys
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "apps/python"))
# pylint: disable=wrong-import-position
import nodewise  # noqa: E402
# Where the build leaves the native module.
nodewise.__path__.append(str(ROOT / "build/lib/python"))


@functools.cache
def loaded(folder):
    return nodewise.load(folder)


def run(folder, count):
    net = loaded(folder)
    inputs = {name: numpy.ones(16, numpy.float32) for name in net.inputs}
    start = time.perf_counter_ns()
    for _ in range(int(count)):
        net.run(inputs)
    return (time.perf_counter_ns() - start) / int(count)


def open_dump(folder):
    start = time.perf_counter_ns()
    tensors = nodewise.tensors(folder)
    taken = time.perf_counter_ns() - start
    assert len(tensors) >= 10_000, len(tensors)
    return taken


def main():
    answers = {"run": run, "open": open_dump}
    for line in sys.stdin:
        what, *words = line.split()
        print(answers[what](*words), flush=True)


if __name__ == "__main__":
    main()
