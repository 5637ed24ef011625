"""Arrays of the runtime."""

from nodewise import _native, _tensors
from nodewise._arrays import numpy_type
from nodewise._errors import Error


class NDArray:
    """A tensor of the runtime, in host memory."""

    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def shape(self):
        return self.tensor.shape

    @property
    def dtype(self):
        return self.tensor.dtype

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def device(self):
        from nodewise.tvm import runtime  # pylint: disable=import-outside-toplevel,cyclic-import
        return runtime.cpu()

    ctx = device

    def numpy(self):
        """A copy as a numpy array, as TVM's is."""
        return self.tensor.numpy().copy()

    asnumpy = numpy

    def __array__(self, dtype=None, copy=None):
        return self.tensor.__array__(dtype, copy)

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def to_dlpack(self):
        return self.__dlpack__()

    def copyfrom(self, source):
        """Takes the contents of an array, whose numbers become this type's."""
        import numpy  # pylint: disable=import-outside-toplevel
        target = self.tensor.numpy()
        try:
            source = numpy.asarray(source, dtype=target.dtype)
        except (TypeError, ValueError) as why:
            raise TypeError(f"array must be an array_like data, type "
                            f"{type(source)} is not supported") from why
        if source.shape != target.shape:
            raise ValueError(f"array shape do not match the shape of NDArray "
                             f"{source.shape} vs {target.shape}")
        target[...] = source
        return self

    def copyto(self, target, mem_copy=True):
        """Copies into another array, or to a device."""
        del mem_copy
        if isinstance(target, NDArray):
            return target.copyfrom(self)
        return NDArray(self.tensor.copy())

    def __getitem__(self, index):
        if index not in (slice(None), Ellipsis):
            raise ValueError("only a[:] is an array of all (numpy() for parts)")
        return self

    def __setitem__(self, index, value):
        self[index].copyfrom(value)

    def __repr__(self):
        return (f"<nodewise.tvm.nd.NDArray shape={self.shape}, "
                f"{self.device}>\n{self.tensor.numpy()!r}")

    def __str__(self):
        return str(self.tensor.numpy())


def empty(shape, dtype="float32", device=None, mem_scope=None, ctx=None):
    """A new array, whose contents are anything; here they are 0."""
    import numpy  # pylint: disable=import-outside-toplevel
    del mem_scope
    _check_host(device or ctx)
    if isinstance(shape, int):
        shape = (shape,)
    return array(numpy.zeros(shape, numpy_type(str(dtype))))


def array(arr, device=None, mem_scope=None, ctx=None):
    """A copy of an array or of nested lists."""
    import numpy  # pylint: disable=import-outside-toplevel
    del mem_scope
    _check_host(device or ctx)
    if isinstance(arr, NDArray):
        return NDArray(arr.tensor.copy())
    arr = numpy.ascontiguousarray(arr).reshape(numpy.shape(arr))
    held = _tensors.held_by("array", arr)
    return NDArray(_tensors.Tensor(held.copy()))


def from_dlpack(value):
    """An array over the memory of another library's tensor."""
    return NDArray(_tensors.Tensor(_native.Tensor.of(value)))


def _check_host(device):
    if device is not None and not device.exist:
        raise Error([f"array: was to lie on {device!r}, expected the host's "
                     "memory (cpu(0))"])


def cpu(dev_id=0):
    from nodewise.tvm import runtime  # pylint: disable=import-outside-toplevel,cyclic-import
    return runtime.cpu(dev_id)


def device(dev_type, dev_id=0):
    from nodewise.tvm import runtime  # pylint: disable=import-outside-toplevel,cyclic-import
    return runtime.device(dev_type, dev_id)


context = device
