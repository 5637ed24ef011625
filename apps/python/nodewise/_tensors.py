"""Tensors whose memory Python and the runtime share."""

import functools
import os
from collections.abc import Mapping

from nodewise import _native
from nodewise._errors import Error

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

    The memory lives as long as what was made of it does. Types that numpy lacks
    (bfloat16, float8, int4) come as those of the package ml_dtypes, or as bytes
    where that is not installed.
    """

    __slots__ = ("_held",)

    def __init__(self, held):
        self._held = held

    @property
    def shape(self):
        return self._held.shape

    @property
    def dtype(self):
        """The type's name: "float32"."""
        name = self._held.dtype
        return _NUMPY_NAMES.get(name, name)

    @property
    def nbytes(self):
        return self._held.nbytes

    @property
    def is_read_only(self):
        return self._held.is_read_only

    def numpy(self):
        """The tensor as a numpy array over the same memory."""
        import numpy  # pylint: disable=import-outside-toplevel
        name = self.dtype
        if name in _OF_NUMPY:
            return numpy.asarray(self._held.lend(False))
        raw = numpy.asarray(self._held.lend(True))
        kind = _ml_type(name)
        return raw if kind is None else raw.view(kind)

    def copy(self):
        """A tensor with the same contents in memory of its own."""
        return Tensor(self._held.copy())

    def __array__(self, dtype=None, copy=None):
        import numpy  # pylint: disable=import-outside-toplevel
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"tensor: has {array.dtype}, so that {dtype} "
                                 "needs a copy")
            return array.astype(dtype)
        return numpy.array(array) if copy else array

    def __dlpack__(self, **options):
        return self._held.lend(False).__dlpack__(**options)

    def __dlpack_device__(self):
        return self._held.lend(False).__dlpack_device__()

    def __repr__(self):
        return f"Tensor({self.dtype}{list(self.shape)})"


@functools.cache
def _ml_type(name):
    import numpy  # pylint: disable=import-outside-toplevel
    try:
        import ml_dtypes  # pylint: disable=import-outside-toplevel
        return numpy.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        return None


def held_by(place, value):
    """The runtime's own view of a tensor of any library; no copy is made.

    `place` is what a message calls it.
    """
    if isinstance(value, Tensor):
        return value._held  # pylint: disable=protected-access
    kind = getattr(value, "dtype", None)
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


def _of_numpy(value):
    try:
        return _native.Tensor.of(value)
    except TypeError:
        # A single number of numpy's has no memory that could be shared.
        if hasattr(value, "flags") and value.ndim == 0:
            return _native.Tensor.of(value[...])
        raise


def _ungraded(value):
    # torch lends nothing that it counts gradients of.
    return value.detach() if hasattr(value, "detach") else value


def _is_short(name):
    return name == "bfloat16" or name.startswith(
        ("float8_", "float4_", "int4", "uint4", "int2", "uint2"))


class TensorFile(Mapping):
    """The tensors of a dump or a file by their names, each read when it is
    asked for."""

    def __init__(self, native):
        self._native = native
        self._names = dict.fromkeys(native.names())

    def __getitem__(self, name):
        if name not in self._names:
            raise KeyError(name)
        return Tensor(self._native.find(name))

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)

    def __repr__(self):
        return f"<nodewise.TensorFile {self._native.name}, {len(self)} tensors>"


def tensors(path, /):
    """Opens what has tensors, as a mapping of their names to Tensors.

    path: the folder of a dump, a .npz, .npy, .params or .pb file, or the folder
        of an ONNX test set
    """
    return TensorFile(_native.open_tensors(os.fspath(path)))
