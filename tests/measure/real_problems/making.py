"""What makes the material of several reports."""

from __future__ import annotations

import os
import pathlib
import subprocess

import networks
import numpy
import onnx
from network_builder import save

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD", ROOT / "build"))
NODEWISE = BUILD / "bin/nodewise"
TVM_PYTHON = BUILD / "tvm_venv/bin/python"
# Compilers and runtimes share the machine with what is measured.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}


def drawn(seed: int, *shape: int, scale: float = 1) -> numpy.ndarray:
    return (numpy.random.default_rng(seed).standard_normal(shape)
            * scale).astype("float32")


def photos(count: int, side: int = networks.IMAGE,
           scale: float = 1) -> list[dict[str, numpy.ndarray]]:
    return [{"image": drawn(50 + i, 1, 3, side, side, scale=scale)}
            for i in range(count)]


def run_quietly(*words: object, folder: pathlib.Path | None = None) -> None:
    done = subprocess.run([str(word) for word in words], cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=ENVIRONMENT, check=False, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]}: ended with status {done.returncode}, "
                           f"expected 0: {done.stdout[-500:]}")


def compile_with_tvm(model: onnx.ModelProto, folder: pathlib.Path,
                     *options: str) -> None:
    """Writes vm.so."""
    save(model, folder / "given_to_tvm.onnx")
    run_quietly(TVM_PYTHON, HERE / "tvm_build.py", folder /
                "given_to_tvm.onnx", folder / "vm.so", *options)
    (folder / "given_to_tvm.onnx").unlink()


def compile_to_c(model: pathlib.Path, made: pathlib.Path) -> None:
    """Writes an artefact with lib.c, which compile_c makes lib.so of."""
    run_quietly(NODEWISE, "convert", model, "--emit", "c", "-o", made)


def compile_c(folder: pathlib.Path) -> None:
    run_quietly("cc", "-O2", "-shared", "-fPIC", "lib.c", "-o", "lib.so",
                "-lm", folder=folder)
