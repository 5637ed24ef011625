"""ONNX's backend cases as libraries of TVM, kept in build/tvm_onnx.

    python3 tests/tvm/onnx_cases.py [--write] [NAME...]

runs all cases, or these, in TVM and in nodewise, and prints what is not the
same; --write writes onnx_cases.tsv anew. Look at what changed in it: its
counts are there so that it cannot grow unseen.
"""

import collections
import concurrent.futures
import hashlib
import queue
import select
import signal
import subprocess
import sys

import tvm_package

LIST = tvm_package.HERE / "onnx_cases.tsv"
WORKERS = 2
SECONDS = 120  # For one case in TVM.
HEAD = """\
# The cases of ONNX {onnx} that do not run and match, of {cases} in all: how
# many of each class, then each. TVM is {tvm}. Made by onnx_cases.py.
#
# no-tensors    takes or makes sequences, optionals, maps or strings
# not-imported  TVM's importer refuses it
# not-static    branches, calls what is not a kernel, or has shapes that are not
#               known, also with all inputs but the first as constants
# tvm-fails     TVM does not compile or run it, dies or hangs
# refused       TVM runs it and nodewise does not
# differs       both run it, and the bits are not the same
"""


def data_folder():
    return (tvm_package.package("onnx")[1]
            / "onnx/backend/test/data/node")


def names():
    return sorted(path.parent.name
                  for path in data_folder().glob("*/model.onnx"))


def cache_folder():
    """Another for each version and each way of making them."""
    sources = hashlib.sha256()
    for name in ("onnx_worker.py", "tvm_side.py"):
        sources.update((tvm_package.HERE / name).read_bytes())
    versions = [tvm_package.package(name)[0] for name in ("apache_tvm", "onnx")]
    return (tvm_package.ROOT / "build/tvm_onnx"
            / "-".join([*versions, sources.hexdigest()[:12]]))


class Worker:
    """A process with TVM in it, which may die or hang."""

    def __init__(self):
        self._process = None

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self):
        self._process = subprocess.Popen(
            [tvm_package.PYTHON, tvm_package.HERE / "onnx_worker.py"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)

    def make(self, name, out):
        if self._process is None:
            self._start()
        print(data_folder() / name, out, sep="\t", file=self._process.stdin,
              flush=True)
        ready = select.select([self._process.stdout], [], [], SECONDS)[0]
        if ready and self._process.stdout.readline():
            return
        why = f"had not ended after {SECONDS} s"
        if ready:
            code = self._process.wait()
            why = (f"died of {signal.Signals(-code).name}" if code < 0
                   else f"exited with {code}")
        self.close()
        (out / "state.txt").write_text(f"tvm-fails {why}\n")


def make_missing(wanted, cache):
    todo = queue.SimpleQueue()
    for name in wanted:
        if not (cache / name / "state.txt").exists():
            todo.put(name)

    def work():
        worker = Worker()
        try:
            while True:
                name = todo.get_nowait()
                (cache / name).mkdir(parents=True, exist_ok=True)
                worker.make(name, cache / name)
        except queue.Empty:
            worker.close()

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for future in [pool.submit(work) for _ in range(WORKERS)]:
            future.result()


def classify(wanted):
    """{name: "" if it matches, else its class and why}"""
    cache = cache_folder()
    make_missing(wanted, cache)

    def judge(name):
        state = (cache / name / "state.txt").read_text().strip()
        if state == "made":
            return tvm_package.compare(cache / name)
        return state

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return dict(zip(wanted, pool.map(judge, wanted)))


def class_of(state):
    return state.partition(" ")[0].rstrip(":")


def text_of(found):
    """What onnx_cases.tsv should hold."""
    classes = {name: class_of(state) for name, state in found.items() if state}
    counts = collections.Counter(classes.values())
    lines = [HEAD.format(cases=len(found),
                         onnx=tvm_package.package("onnx")[0],
                         tvm=tvm_package.package("apache_tvm")[0])]
    lines += [f"{name}\t{count}" for name, count in sorted(counts.items())]
    lines += [""] + [f"{name}\t{kind}" for name, kind in sorted(classes.items())]
    return "\n".join(lines) + "\n"


def listed():
    """{name: class} of those that the list has."""
    lines = LIST.read_text().splitlines()
    return dict(line.split() for line in lines if line.startswith("test_"))


def main(arguments):
    write = "--write" in arguments
    wanted = [name for name in arguments if name != "--write"] or names()
    found = classify(wanted)
    for name, state in sorted(found.items()):
        if state:
            print(f"{name}: {state}")
    counts = collections.Counter(class_of(s) or "same" for s in found.values())
    print(dict(counts))
    if write:
        LIST.write_text(text_of(found))


if __name__ == "__main__":
    main(sys.argv[1:])
