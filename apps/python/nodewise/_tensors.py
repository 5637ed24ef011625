"""Tensors whose memory Python and the runtime share."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nodewise import _native
from nodewise._errors import Error

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from nodewise._types import Path

# How the runtime spells types that numpy's packages call otherwise.
_NUMPY_NAMES = {"e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2",
                "bool8": "bool"}
# Those of numpy itself; others are in the package ml_dtypes.
_OF_NUMPY = {"bool", "float16", "float32", "float64",
             *(f"{sign}int{bits}" for sign in ("", "u")
               for bits in (8, 16, 32, 64))}
# The letters that numpy has for these.
_LETTERS = frozenset("?bBhHiIlLqQefd")


class Tensor:
    """Memory with a type and a shape, without a copy: numpy.asarray(tensor),
    torch.from_dlpack(tensor), or anything else that speaks DLPack.

    >>> net = nodewise.load("model.onnx")
    >>> made = net.run({"image": numpy.ones((1, 3, 16, 16), "float32")})
    >>> tensor = made["probabilities"]
    >>> tensor.dtype, tensor.shape
    ('float32', (1, 10))
    >>> numpy.shares_memory(tensor.numpy(), numpy.asarray(tensor))
    True

    The memory lives as long as what was made of it does. Types that numpy lacks
    (bfloat16, float8, int4) come as those of the package ml_dtypes, or as bytes
    where that is not installed.
    """

    __slots__ = ("_held",)

    def __init__(self, held: _native.Tensor):
        self._held = held

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each side."""
        return self._held.shape

    @property
    def dtype(self) -> str:
        """The type's name: "float32"."""
        name = self._held.dtype
        return _NUMPY_NAMES.get(name, name)

    @property
    def nbytes(self) -> int:
        """How many bytes its elements have."""
        return self._held.nbytes

    @property
    def is_read_only(self) -> bool:
        """Whether the memory must not be written to."""
        return self._held.is_read_only

    def numpy(self) -> NDArray[Any]:
        """The tensor as a numpy array over the same memory."""
        import numpy  # pylint: disable=import-outside-toplevel
        name = self.dtype
        if name in _OF_NUMPY:
            return numpy.asarray(self._held.lend(False))
        raw = numpy.asarray(self._held.lend(True))
        kind = _ml_type(name)
        return raw if kind is None else raw.view(kind)

    def copy(self) -> Tensor:
        """A tensor with the same contents in memory of its own."""
        return Tensor(self._held.copy())

    def __array__(self, dtype: Any = None,
                  copy: bool | None = None) -> NDArray[Any]:
        import numpy  # pylint: disable=import-outside-toplevel
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"tensor: has {array.dtype}, so that {dtype} "
                                 "needs a copy")
            return array.astype(dtype)
        return numpy.array(array) if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        return self._held.lend(False).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self._held.lend(False).__dlpack_device__()
        return kind, number

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{list(self.shape)})"


@functools.cache
def _ml_type(name: str) -> numpy.dtype[Any] | None:
    import numpy  # pylint: disable=import-outside-toplevel
    try:
        import ml_dtypes  # pylint: disable=import-outside-toplevel
        kind: numpy.dtype[Any] = numpy.dtype(getattr(ml_dtypes, name))
        return kind
    except (ImportError, AttributeError):
        return None


def held_by(place: str, value: Any) -> _native.Tensor:
    """The runtime's own view of a tensor of any library; no copy is made.

    `place` is what a message calls it.
    """
    if isinstance(value, Tensor):
        return value._held  # pylint: disable=protected-access
    kind: Any = getattr(value, "dtype", None)
    # Only numpy's types have a letter. They come first, as every run may have
    # some.
    letter = getattr(kind, "char", None)
    try:
        if letter is None and kind is not None:
            return _native.Tensor.of(_ungraded(value))
        if letter in _LETTERS:
            return _of_numpy(value)
        if letter is not None and _is_short(kind.name):
            return _native.Tensor.of(value[...].view(f"u{kind.itemsize}"),
                                     kind.name)
        why = "its elements are not numbers that the runtime has"
    except (TypeError, BufferError, ValueError) as error:
        why = str(error).splitlines()[0]
    if kind is None:
        raise Error([f"{place}: is a {type(value).__name__}, expected an array "
                     "or tensor (numpy.asarray makes one)"])
    raise Error([f"{place}: is a {type(value).__name__} of {kind}, expected "
                 "numbers or booleans in host memory, in the machine's byte "
                 f"order ({why})"])


def _of_numpy(value: Any) -> _native.Tensor:
    try:
        return _native.Tensor.of(value)
    except TypeError:
        # A single number of numpy's has no memory that could be shared.
        if hasattr(value, "flags") and value.ndim == 0:
            return _native.Tensor.of(value[...])
        raise


def _ungraded(value: Any) -> Any:
    # torch lends nothing that it counts gradients of.
    return value.detach() if hasattr(value, "detach") else value


def _is_short(name: str) -> bool:
    return name == "bfloat16" or name.startswith(
        ("float8_", "float4_", "int4", "uint4", "int2", "uint2"))


class TensorFile(Mapping[str, Tensor]):
    """The tensors of a dump or a file by their names, each read when it is
    asked for.

    >>> list(nodewise.tensors("net/params.params"))
    ['w1', 'b1', 'w2', 'b2', 'w3', 'b3']
    """

    def __init__(self, native: _native.TensorFile):
        self._native = native
        self._names = dict.fromkeys(native.names())

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        return Tensor(self._native.find(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<nodewise.TensorFile {self._native.name}, {len(self)} tensors>"


def tensors(path: Path, /) -> TensorFile:
    """Opens what has tensors, as a mapping of their names to Tensors.

    >>> nodewise.tensors("net/params.params")["w3"]
    Tensor(float32[10, 32])

    path: the folder of a dump, a .npz, .npy, .params or .pb file, or the folder
        of an ONNX test set
    """
    return TensorFile(_native.open_tensors(os.fspath(path)))
