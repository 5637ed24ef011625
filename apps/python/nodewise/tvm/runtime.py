"""tvm.runtime: devices, functions and modules, and what loads libraries and
parameters."""

import os

from nodewise import _native, _tensors
from nodewise._errors import Error
from nodewise.tvm import nd
from nodewise.tvm.nd import NDArray

# Names of devices and targets, with the numbers that DLPack has for them.
_DEVICES = {"cpu": 1, "llvm": 1, "c": 1, "stackvm": 1, "cuda": 2, "gpu": 2,
            "nvptx": 2, "opencl": 4, "cl": 4, "vulkan": 7, "metal": 8, "rocm": 10}


class Device:
    """Where something runs: cpu(0)."""

    def __init__(self, device_type, device_id=0):
        self.device_type = int(device_type)
        self.device_id = int(device_id)

    def __eq__(self, other):
        return isinstance(other, Device) and (
            (self.device_type, self.device_id) ==
            (other.device_type, other.device_id))

    def __hash__(self):
        return hash((self.device_type, self.device_id))

    def __repr__(self):
        names = {number: name for name, number in reversed(_DEVICES.items())}
        return f"{names.get(self.device_type, '?')}({self.device_id})"

    @property
    def exist(self):
        """Whether arrays can lie there: only in the host's memory."""
        return self.device_type == _DEVICES["cpu"]

    def sync(self, stream=None):
        """Nothing: what runs on the host is over when its call is."""


def device(dev_type, dev_id=0):
    """The device of a name, which may be that of a target with options."""
    if isinstance(dev_type, str):
        name = dev_type.split(maxsplit=1)[0] if dev_type.strip() else ""
        if name not in _DEVICES:
            raise ValueError(f"device: found {dev_type!r}, expected one of "
                             f"{', '.join(sorted(_DEVICES))}")
        dev_type = _DEVICES[name]
    return Device(dev_type, dev_id)


context = device  # As it was called up to 0.7.


def _maker(name):
    def make(dev_id=0):
        return Device(_DEVICES[name], dev_id)
    make.__name__ = make.__qualname__ = name
    return make


# Host code may ask of any of them whether it exists.
cpu, cuda, opencl = _maker("cpu"), _maker("cuda"), _maker("opencl")
vulkan, metal, rocm = _maker("vulkan"), _maker("metal"), _maker("rocm")
gpu = cuda  # As it was called up to 0.7.


def native_of(value):
    """An argument as the runtime takes it."""
    if isinstance(value, nd.NDArray):
        return value.tensor._held  # pylint: disable=protected-access
    if isinstance(value, Device):
        return _native.Device(value.device_type, value.device_id)
    if isinstance(value, (Module, Function)):
        return value.native
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, (list, tuple)):
        return [native_of(each) for each in value]
    if isinstance(value, dict):
        return {name: native_of(each) for name, each in value.items()}
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _tensors.held_by("argument", value)
    return value


def value_of(native):
    """What the runtime returns as what TVM's host code knows."""
    if isinstance(native, _native.Tensor):
        return nd.NDArray(_tensors.Tensor(native))
    if isinstance(native, _native.Function):
        return Function(native)
    if isinstance(native, _native.Object):
        return Module(native)
    if isinstance(native, _native.Device):
        return Device(native.type, native.id)
    if isinstance(native, list):
        return [value_of(each) for each in native]
    if isinstance(native, dict):
        return {name: value_of(each) for name, each in native.items()}
    return native


class Function:
    """A function of a library or of the runtime."""

    def __init__(self, native):
        self.native = native

    def __call__(self, *arguments):
        return value_of(self.native(*map(native_of, arguments)))


def get_global_func(name, allow_missing=False):
    """The runtime's function of that name."""
    found = _native.find_function(name)
    if found is not None:
        return Function(found)
    if allow_missing:
        return None
    raise Error([f"{name}: is not a function of the runtime, expected one "
                 "that is registered"])


class Module:
    """A library, a factory or an executor: functions by their names."""

    def __init__(self, native):
        self.native = native
        self.entry_name = "__tvm_main__"

    def get_function(self, name, query_imports=False):
        del query_imports  # Imports are asked in any case.
        found = self.native.function(name)
        if found is None:
            raise AttributeError(f"Module has no function '{name}'")
        return Function(found)

    def __getitem__(self, name):
        return self.get_function(name)

    def __call__(self, *arguments):
        return self.get_function(self.entry_name)(*arguments)

    def __repr__(self):
        return f"Module({self.native!r})"

    @property
    def type_key(self):
        return get_global_func("runtime.ModuleGetTypeKey")(self)

    @property
    def imported_modules(self):
        count = get_global_func("runtime.ModuleImportsSize")(self)
        get = get_global_func("runtime.ModuleGetImport")
        return [get(self, i) for i in range(count)]

    def get_graph_json(self):
        """The graph in a factory library."""
        return self["get_graph_json"]()

    def implements_function(self, name, query_imports=False):
        del query_imports
        return self.native.function(name) is not None

    def time_evaluator(self, func_name, dev, number=10, repeat=1,
                       min_repeat_ms=0, limit_zero_time_iterations=100,
                       cooldown_interval_ms=0, repeats_to_cooldown=1,
                       cache_flush_bytes=0, f_preproc=""):
        """A function that times this one, and returns a BenchmarkResult."""
        timed = get_global_func("runtime.RPCTimeEvaluator")(
            self, func_name, dev.device_type, dev.device_id, number, repeat,
            min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms,
            repeats_to_cooldown, cache_flush_bytes, f_preproc)

        def evaluate(*arguments):
            import numpy  # pylint: disable=import-outside-toplevel
            return BenchmarkResult(
                numpy.frombuffer(timed(*arguments)).tolist())

        return evaluate


class BenchmarkResult:
    """Seconds that something took, repeat by repeat."""

    def __init__(self, results):
        import numpy  # pylint: disable=import-outside-toplevel
        self.results = tuple(results)
        self.mean, self.median, self.min, self.max, self.std = (
            float(figure(self.results)) for figure in (
                numpy.mean, numpy.median, numpy.min, numpy.max, numpy.std))

    def __repr__(self):
        return (f"BenchmarkResult(min={self.min}, mean={self.mean}, "
                f"median={self.median}, max={self.max}, std={self.std}, "
                f"results={self.results})")

    def __str__(self):
        names = ("mean", "median", "max", "min", "std")
        head = "  ".join(f"{name + ' (ms)':^12}" for name in names)
        row = "  ".join(f"{getattr(self, name) * 1e3:^12.4f}" for name in names)
        return f"Execution time summary:\n {head}\n {row}"


def load_module(path, fmt=""):
    """Loads a library: .so, or .tar of objects, which is not here."""
    path = os.fspath(path)
    del fmt  # The contents of the file decide.
    return Module(_native.load_library(path))


PackedFunc = Function
enabled_devices = ("cpu",)

__all__ = ["BenchmarkResult", "Device", "Module", "NDArray", "PackedFunc",
           "cpu", "device", "enabled", "load_module", "load_param_dict",
           "load_param_dict_from_file", "num_threads", "save_param_dict",
           "system_lib"]


def load_param_dict(param_bytes):
    """The arrays by their names in the bytes of a .params file."""
    if isinstance(param_bytes, str):
        param_bytes = param_bytes.encode("latin-1")
    return get_global_func("runtime.LoadParams")(bytes(param_bytes))


def load_param_dict_from_file(path):
    with open(path, "rb") as file:
        return load_param_dict(file.read())


def save_param_dict(params):
    """The bytes of a .params file of these arrays."""
    arrays = {name: value if isinstance(value, NDArray) else nd.array(value)
              for name, value in params.items()}
    return get_global_func("runtime.SaveParams")(arrays)


def system_lib(symbol_prefix=""):
    return get_global_func("runtime.SystemLib")(symbol_prefix)


def num_threads():
    return get_global_func("runtime.NumThreads")()


def enabled(target):
    """Whether code for a target can run here."""
    return bool(get_global_func("runtime.RuntimeEnabled")(os.fspath(target)))
