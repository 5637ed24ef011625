"""usage: compile_networks.py OUT [NETWORK...]

Compiles the networks of networks.py in the Python that has TVM, fused and
plain, and asks TVM's VM what they do, each in a folder below OUT. One that
TVM fails at has the file tvm_error.txt there.
"""

import pathlib
import sys
import traceback

import networks
import tvm_side


def make(out, network, fused):
    folder = out / f"{network.__name__}-{'fused' if fused else 'plain'}"
    folder.mkdir(parents=True)
    try:
        made = network()
        (folder / "function.txt").write_text(made.function)
        tvm_side.compile_to(folder, made.module, fused)
        tvm_side.ask_vm(folder, made.inputs, made.function)
    except Exception:
        (folder / "tvm_error.txt").write_text(traceback.format_exc())


def main(out, *wanted):
    for network in networks.NETWORKS:
        if not wanted or network.__name__ in wanted:
            for fused in (False, True):
                make(pathlib.Path(out), network, fused)


if __name__ == "__main__":
    main(*sys.argv[1:])
