"""The table of reports that were made again."""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import shutil
from collections.abc import Callable

import compiled_rows
import runtime_rows
from making import BUILD, TVM_PYTHON

OTHERS_PYTHON = BUILD / "disagreements_venv/bin/python"


@dataclasses.dataclass(frozen=True)
class Case:
    """A report. It is answered if the first paragraph that its last command
    prints (or the one with another number) has `words`, and in part if it has
    `less`: regular expressions."""

    row: int
    make: Callable[[pathlib.Path], None]
    words: str  # The operator or the cause that the report ended with.
    less: str = "$^"
    needs: tuple[str, ...] = ()
    paragraph: int = 0  # A table stands behind what was given.


CASES = (
    Case(1, compiled_rows.row_1, r"\bv4\b", needs=("tvm",)),
    Case(2, compiled_rows.row_2, r"\bact1\b", needs=("tvm",)),
    Case(3, compiled_rows.row_3, r"rounding.*\bo2\b|\bo2\b.*rounding",
         "rounding", ("tvm",)),
    Case(5, compiled_rows.row_5, r"layer3\.gated", needs=("tvm",)),
    Case(6, compiled_rows.row_6, r"block3\.conv3", needs=("tvm",)),
    Case(7, compiled_rows.row_7, r"^input, an input .*not the same"),
    Case(8, compiled_rows.row_8, r"no such input, expected one of input\.1",
         needs=("cc",)),
    Case(9, compiled_rows.row_9, r"block1\.relu2 .*other bits", needs=("cc",)),
    Case(10, compiled_rows.row_10, r"-\s*\nneck\.relu ", needs=("cc",),
         paragraph=1),
    Case(11, compiled_rows.row_11, r"block0\.pool", needs=("tvm",)),
    Case(12, compiled_rows.row_12, r"4096 bytes at byte 0 of a storage, "
         "expected at most the 2048 bytes", needs=("tvm",)),
    Case(14, runtime_rows.row_14, "range|scale|calibrat", "8-bit.*off by"),
    Case(15, runtime_rows.row_15, "range|scale|calibrat", "8-bit.*off by"),
    Case(16, runtime_rows.row_16, r"block1\.depthwise"),
    Case(17, runtime_rows.row_17, r"layer1\.attention\."),
    Case(18, runtime_rows.row_18, "compute in bfloat16",
         needs=("openvino", "avx512_bf16")),
    Case(19, runtime_rows.row_19, r"layer0\.attention\.scores"),
    Case(20, runtime_rows.row_20, r"MatMulInteger.*8-bit products saturate",
         needs=("qemu-x86_64",)),
    Case(21, runtime_rows.row_21, r"^operation .*\nneck +Conv ",
         paragraph=1),
    Case(22, runtime_rows.row_22,
         r"layer\d\.(attended|out) \(Add\) costs the most"),
    Case(23, runtime_rows.row_23, r"block2\.conv2"),
    Case(24, runtime_rows.row_24, r"block\d\.square"),
    Case(25, runtime_rows.row_25, r"(padded|stem\.pool) \(\w+\) costs the most",
         r"stem\.pool \(MaxPool\)"),
)


def processor_has(flag: str) -> bool:
    file = pathlib.Path("/proc/cpuinfo")
    return file.exists() and flag in file.read_text("utf-8").split()


def why_not(case: Case) -> str | None:
    """What is missing here for a case, or None."""
    for need in case.needs:
        there = {
            "tvm": TVM_PYTHON.exists,
            "openvino": OTHERS_PYTHON.exists,
            "avx512_bf16": lambda: processor_has("avx512_bf16"),
        }.get(need, lambda need=need: shutil.which(need) is not None)
        if not there():
            return need
    if importlib.util.find_spec("onnxruntime") is None:
        return "onnxruntime"
    return None
