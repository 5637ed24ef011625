"""Hashes, times and statistics of a run (docs/formats/dump.md)."""

from __future__ import annotations

import math
import pathlib
import struct
from typing import Any

from nodewise._dlpack import Tensor
from nodewise._traced_graph import Entry
from nodewise._xxh3 import xxh3_64

_TIME, _INPUT, _OUTPUT = 1, 2, 3
_HAS_STATS, _HAS_NUMBERS = 1, 2
_RECORD = struct.Struct("<HHIIIQQ")
_STATS = struct.Struct("<QQQdddd")
_NO_STATS = bytes(_STATS.size)
# Bits of the exponent and of the fraction, and the bias.
_SHORT_FLOATS = {"e4m3_float8": (4, 3, 7), "float8_e4m3fnuz": (4, 3, 8),
                 "e5m2_float8": (5, 2, 15), "float8_e5m2fnuz": (5, 2, 16),
                 "float8_e8m0fnu": (8, 0, 127), "float4_e2m1fn": (2, 1, 1)}
_HEADER = struct.pack("<8sII8s", b"NODEWISE", 2, _RECORD.size + _STATS.size,
                      b"XXH3-64")


class RecordFile:
    """Grows with a run, and can be read at any time."""

    def __init__(self, path: pathlib.Path):
        # It is closed by close(), behind the run.
        # pylint: disable-next=consider-using-with
        self._file = open(path, "xb", buffering=0)
        self._file.write(_HEADER)

    def add_time(self, node: int, start: int, end: int) -> None:
        """Adds when a node ran, in ns."""
        self._file.write(_RECORD.pack(_TIME, 0, node, 0, 0, start, end) +
                         _NO_STATS)

    def add_input(self, node: int, slot: int, entry: Entry,
                  hashed: int) -> None:
        """Adds what a node read."""
        elements = math.prod(entry.shape)
        self._file.write(_RECORD.pack(_INPUT, 0, node, slot, entry.number,
                                      hashed, elements) + _NO_STATS)

    def add_output(self, entry: Entry, tensor: Tensor,
                   data: memoryview) -> None:
        """Adds what a node made."""
        flags, stats = _stats_of(tensor, data)
        elements = math.prod(entry.shape) * tensor.dtype.lanes
        self._file.write(_RECORD.pack(
            _OUTPUT, flags, entry.node, entry.slot, entry.number,
            xxh3_64(data), elements) + stats)

    def close(self) -> None:
        """Ends the file."""
        self._file.close()


def _stats_of(tensor: Tensor, data: memoryview) -> tuple[int, bytes]:
    import numpy  # pylint: disable=import-outside-toplevel
    values = values_of(tensor.dtype.name, data)
    if values is None:
        return _HAS_STATS, _NO_STATS
    nans = numpy.isnan(values)
    finite = values[numpy.isfinite(values)].astype(numpy.float64)
    numbers = values[~nans]
    return _HAS_STATS | _HAS_NUMBERS, _STATS.pack(
        int(nans.sum()), int(numpy.isinf(values).sum()),
        int((values == 0).sum()),
        float(numbers.min()) if numbers.size else 0,
        float(numbers.max()) if numbers.size else 0,
        float(finite.mean()) if finite.size else 0,
        float(numpy.sqrt(numpy.square(finite).sum())))


def values_of(name: str, data: memoryview) -> Any:
    """The elements of a type as numbers; None if it has several in each."""
    import numpy  # pylint: disable=import-outside-toplevel
    if name == "bfloat16":
        # It is the upper half of a float32.
        halves = numpy.frombuffer(data, "<u2").astype("<u4")
        return (halves << numpy.uint32(16)).view("<f4")
    if name in _SHORT_FLOATS:
        numbers = [_short_float(name, bits) for bits in range(256)]
        return numpy.array(numbers)[numpy.frombuffer(data, numpy.uint8)]
    name = {"bool8": "uint8", "uint4": "uint8", "int4": "int8"}.get(name, name)
    if name.startswith("complex"):
        return None
    try:
        return numpy.frombuffer(data, numpy.dtype(name).newbyteorder("<"))
    except TypeError:
        return None


def _short_float(name: str, bits: int) -> float:
    """The number that a float of a byte stands for, or of half a byte."""
    exponents, fractions, bias = _SHORT_FLOATS[name]
    fraction = bits & (1 << fractions) - 1
    exponent = bits >> fractions & (1 << exponents) - 1
    sign = -1 if bits >> fractions + exponents & 1 else 1
    if name == "float8_e8m0fnu":
        return math.nan if bits == 255 else 2.0 ** (exponent - bias)
    if name == "e5m2_float8" and exponent == 31:
        return math.nan if fraction else sign * math.inf
    if bits in ({0x80} if name.endswith("fnuz") else
                {0x7F, 0xFF} if name == "e4m3_float8" else ()):
        return math.nan
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fractions)
    return sign * (1 + fraction / (1 << fractions)) * 2.0 ** (exponent - bias)
