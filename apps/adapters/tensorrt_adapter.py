"""Runs a model in TensorRT for nodewise.

Written to the API that NVIDIA documents (10 and 11), and not yet tried on a
device.

usage: python3 -I tensorrt_adapter.py [--precision NAME] [--workspace MIB]
       REQUEST
"""

import os
import sys

# -I leaves the folder of the script out.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from adapter_models import files_of, folder_kept  # noqa: E402
from adapter_protocol import need, numpy, serve  # noqa: E402

trt = need("tensorrt", "tensorrt")
cudart = need("cuda.bindings.runtime", "cuda-python")

# The flag that lets TensorRT compute in a type; TensorRT 11 has none for these,
# and takes types from the model.
FLAGS = {"f16": "FP16", "bf16": "BF16"}


def add_options(parser):
    parser.add_argument("--precision", default="",
                        choices=["", "f32", "tf32", "f16", "bf16"],
                        help="f32 forbids TF32; f16 and bf16 allow these (as "
                        "TensorRT chooses: TF32 where it is faster)")
    parser.add_argument("--workspace", type=int, default=0,
                        help="MiB that kernels may take (as TensorRT chooses)")


class Model:
    def __init__(self, path, shapes, options):
        made = folder_kept("tensorrt", [
            trt.__version__, repr(sorted(shapes.items())), options.precision,
            str(options.workspace), *files_of(path)],
            lambda folder: build_into(folder, path, shapes, options))
        engine = (made / "model.engine").read_bytes()
        self._runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        self._engine = self._runtime.deserialize_cuda_engine(engine)
        if self._engine is None:
            raise RuntimeError("TensorRT cannot load the engine that it built")
        self._context = self._engine.create_execution_context()
        self.name = f"TensorRT {trt.__version__}, {options.precision or 'tf32'}"

    def run(self, inputs, names):
        tensors = [self._engine.get_tensor_name(i)
                   for i in range(self._engine.num_io_tensors)]
        read = [name for name in tensors if self._engine.get_tensor_mode(name)
                == trt.TensorIOMode.INPUT]
        made = {}
        with Memory() as memory:
            for name in read:
                value = self._held(name, inputs[name])
                self._context.set_input_shape(name, value.shape)
                self._context.set_tensor_address(name, memory.holding(value))
            bound = {name: self._bind(name, made, memory)
                     for name in tensors if name not in read}
            if not self._context.execute_async_v3(memory.stream):
                raise RuntimeError("TensorRT could not run the engine")
            memory.wait()
            for name, address in bound.items():
                if address is not None:
                    memory.read_back(made[name], address)
        return {name: made.get(name) for name in names}

    def _held(self, name, value):
        want = trt.nptype(self._engine.get_tensor_dtype(name))
        return numpy.ascontiguousarray(value.astype(want, copy=False))

    def _bind(self, name, made, memory):
        """Puts what an output becomes, or why it does not, into `made`."""
        shape = tuple(self._context.get_tensor_shape(name))
        if any(side < 0 for side in shape):
            made[name] = "only a run tells its size, and this adapter has no " \
                         "memory for that"
            return None
        try:
            dtype = trt.nptype(self._engine.get_tensor_dtype(name))
        except TypeError:
            made[name] = "is of a type that numpy does not have"
            return None
        made[name] = numpy.zeros(shape, dtype)
        address = memory.holding(made[name])
        self._context.set_tensor_address(name, address)
        return address


def build_into(folder, path, shapes, options):
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    # By its path, so that weights beside the model are found.
    if not parser.parse_from_file(str(path)):
        raise RuntimeError("TensorRT does not take the model: " + "; ".join(
            str(parser.get_error(i)) for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    set_precision(config, options.precision)
    if options.workspace:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE,
                                     options.workspace << 20)
    profile = builder.create_optimization_profile()
    for i in range(network.num_inputs):
        given = network.get_input(i)
        if any(side < 0 for side in given.shape):
            sides = shapes[given.name]
            profile.set_shape(given.name, sides, sides, sides)
    config.add_optimization_profile(profile)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise RuntimeError("TensorRT could not build an engine of the model")
    (folder / "model.engine").write_bytes(bytes(engine))


def set_precision(config, precision):
    if precision == "f32":
        config.clear_flag(trt.BuilderFlag.TF32)
    if precision not in FLAGS:
        return
    flag = getattr(trt.BuilderFlag, FLAGS[precision], None)
    if flag is None:
        sys.exit(f"precision: TensorRT {trt.__version__} takes types from the "
                 f"model, expected a model in {precision}, and no such option")
    config.set_flag(flag)


class Memory:
    """What lies on the device, for one run."""

    def __init__(self):
        self.stream = checked(cudart.cudaStreamCreate())
        self._held = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for address in self._held:
            cudart.cudaFree(address)
        cudart.cudaStreamDestroy(self.stream)

    def holding(self, value):
        # The address of nothing is not taken.
        address = checked(cudart.cudaMalloc(max(value.nbytes, 1)))
        self._held.append(address)
        checked(cudart.cudaMemcpy(
            address, value.ctypes.data, value.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyHostToDevice))
        return address

    @staticmethod
    def read_back(value, address):
        checked(cudart.cudaMemcpy(
            value.ctypes.data, address, value.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost))

    def wait(self):
        checked(cudart.cudaStreamSynchronize(self.stream))


def checked(answer):
    """What a function of CUDA returns beside its status."""
    status, *made = answer
    if status != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA: {status.name}")
    return made[0] if made else None


if __name__ == "__main__":
    serve(Model, add_options)
