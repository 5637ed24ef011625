"""Tensors of any library as arrays of numpy."""

from __future__ import annotations

import contextlib
import sys
from typing import Any


def is_tensor(value: Any) -> bool:
    """Whether it is an array of some library, or what can become one."""
    return not isinstance(value, type) and (hasattr(value, "__array__") or
                                            hasattr(value, "__dlpack__"))


def dtype_name(value: Any) -> str:
    """What the element type of a tensor is called: "float32", "bfloat16"."""
    dtype = value.dtype if hasattr(value, "dtype") else array_of(value).dtype
    name = getattr(dtype, "name", None)
    return name if isinstance(name, str) else str(dtype).rpartition(".")[2]


def numpy_type(kind: Any) -> Any:
    """numpy's type of this name; bfloat16 and its like are of ml_dtypes."""
    import numpy  # pylint: disable=import-outside-toplevel
    try:
        return numpy.dtype(kind)
    except TypeError:
        import ml_dtypes  # pylint: disable=import-outside-toplevel
        return numpy.dtype(getattr(ml_dtypes, str(kind)))


def array_of(tensor: Any) -> Any:
    """A tensor of any library as a numpy array."""
    import numpy  # pylint: disable=import-outside-toplevel
    # Those of torch want to be taken out of the graph of gradients first.
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
    if not hasattr(tensor, "__array__") and hasattr(tensor, "__dlpack__"):
        return numpy.from_dlpack(tensor)
    try:
        return numpy.asarray(tensor)
    except TypeError:
        # numpy has no type for it, or it lies in another device's memory.
        made = _short_floats(tensor)
        if made is None and hasattr(tensor, "__dlpack__"):
            made = numpy.from_dlpack(tensor, device="cpu")
        if made is None:
            raise
        return made


def _short_floats(tensor: Any) -> Any:
    """A tensor of torch whose type is none of numpy's, bit for bit if
    ml_dtypes is there, else in a type that holds its values; else None."""
    import numpy  # pylint: disable=import-outside-toplevel
    library = sys.modules.get(type(tensor).__module__.partition(".")[0])
    if library is None or not hasattr(tensor, "view"):
        return None
    with contextlib.suppress(ImportError, AttributeError):
        import ml_dtypes  # pylint: disable=import-outside-toplevel
        dtype = numpy.dtype(getattr(ml_dtypes, dtype_name(tensor)))
        bits = getattr(library, f"int{8 * dtype.itemsize}")
        return tensor.contiguous().view(bits).numpy().view(dtype)
    # A complex number has no float that holds it.
    is_real = not dtype_name(tensor).startswith("complex")
    can = is_real and hasattr(tensor, "float")
    return tensor.float().numpy() if can else None
