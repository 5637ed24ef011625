"""Tensors of another library, as DLPack describes them."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import struct
import sys
from typing import Any

CPU = 1
# The host reads what lies there as its own: CPU, and pinned memory of CUDA and
# ROCm.
_ON_HOST = (CPU, 3, 11)
_WHOLE_NAMES = {6: "bool8", 10: "e4m3_float8", 11: "float8_e4m3fnuz",
                12: "e5m2_float8", 13: "float8_e5m2fnuz",
                14: "float8_e8m0fnu", 17: "float4_e2m1fn"}
_NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_UINT = 1
# Two elements lie in a byte; in a dump each has its own.
_HALF_BYTES = ("int4", "uint4", "float4_e2m1fn")

_HEAD = struct.Struct("=QiiiBBHQQQ")  # DLTensor of dlpack.h.
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


@dataclasses.dataclass(frozen=True)
class Type:
    """The type of an element, as a dump has it."""

    code: int
    bits: int
    lanes: int

    @property
    def name(self) -> str:
        """The name in a graph."""
        name = _WHOLE_NAMES.get(self.code) or f"{_NAMES[self.code]}{self.bits}"
        return name if self.lanes == 1 else f"{name}x{self.lanes}"

    @property
    def is_known(self) -> bool:
        """Whether dumps have a name for it, and know how it lies."""
        return (self.code in _WHOLE_NAMES or self.code in _NAMES) and (
            self.bits * self.lanes % 8 == 0 or self.bits == 4)

    def bytes_of(self, elements: int) -> int:
        """What as many elements take in memory."""
        return (elements * self.bits * self.lanes + 7) // 8


class Tensor:
    """A tensor of TVM, whose memory is read as long as `owner` lives."""

    __slots__ = ("owner", "address", "device", "dtype", "shape", "nbytes")

    def __init__(self, owner: Any):
        self.owner = owner
        capsule = owner.__dlpack__()
        (address, device, index, rank, code, bits, lanes, shape, strides,
         offset) = _HEAD.unpack(ctypes.string_at(
             _pointer_of(capsule, b"dltensor"), _HEAD.size))
        self.address = address + offset
        self.device = (device, index)
        self.dtype = Type(code, bits, lanes)
        self.shape = _numbers(shape, rank)
        self.nbytes = self.dtype.bytes_of(math.prod(self.shape))
        if strides and not _is_compact(self.shape, _numbers(strides, rank)):
            raise ValueError(
                f"a tensor {self.shape} has strides {_numbers(strides, rank)}, "
                "expected one whose elements lie row by row (make a copy of "
                "it before the call)")
        if not self.dtype.is_known:
            self._take_for_bits()

    def _take_for_bits(self) -> None:
        bits = self.dtype.bits * self.dtype.lanes
        if bits % 8:
            self.dtype, self.shape = Type(_UINT, 8, 1), (self.nbytes,)
        else:
            self.dtype = Type(_UINT, bits, 1)

    @property
    def key(self) -> tuple[Any, Any]:
        """Tells apart the places where tensors lie."""
        # Tensors without elements may share an address.
        return (self.device, self.address) if self.nbytes else (
            "empty", self.owner.__chandle__())

    def contents(self) -> memoryview:
        """The elements as a file of parameters has them. They are those of the
        tensor itself, if it lies on the host: take them before it changes."""
        if self.nbytes == 0:
            return memoryview(b"")
        if self.device[0] not in _ON_HOST:
            # A tensor that came from TVM has imported it.
            host = self.owner.copyto(sys.modules["tvm"].cpu(0))
            return Tensor(host).contents()
        whole = (ctypes.c_ubyte * self.nbytes).from_address(self.address)
        # The memory is freed with the last reference, which this keeps.
        setattr(whole, "owner", self.owner)
        data = memoryview(whole).cast("B")
        if self.dtype.name not in _HALF_BYTES:
            return data
        return memoryview(_apart(data, self.dtype.name == "int4")[
            :math.prod(self.shape)])


def _numbers(address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"={count}q", ctypes.string_at(address, 8 * count))


def _is_compact(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size > 1 and stride != expected:
            return 0 in shape
        expected *= size
    return True


def _apart(data: memoryview, has_sign: bool) -> Any:
    """The halves of the bytes, the upper one first as TVM's numpy() has it."""
    import numpy  # pylint: disable=import-outside-toplevel
    packed = numpy.frombuffer(data, numpy.uint8)
    halves = numpy.stack([packed >> 4, packed & 15], 1).reshape(-1)
    # A byte with the same number: the upper bits are those of the sign.
    return halves | (halves & 8) * 30 if has_sign else halves
