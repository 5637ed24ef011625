"""tvm.contrib.graph_executor: runs compiled graphs."""

from nodewise._errors import Error
from nodewise.tvm import nd
from nodewise.tvm.runtime import get_global_func


def create(graph_json_str, libmod, device):
    """A GraphModule of a graph's JSON, its library and a device, or one device
    for each type that the graph names."""
    return GraphModule(create_module("tvm.graph_executor.create",
                                     graph_json_str, libmod, device))


def create_module(creator, graph_json_str, libmod, device):
    """The module that one of the runtime's functions makes of them."""
    if isinstance(graph_json_str, (bytes, bytearray)):
        graph_json_str = graph_json_str.decode("utf-8")
    devices = device if isinstance(device, (list, tuple)) else [device]
    if not isinstance(graph_json_str, str):
        raise ValueError("Type %s is not supported" % type(graph_json_str))
    numbers = [number for each in devices
               for number in (each.device_type, each.device_id)]
    return get_global_func(creator)(graph_json_str, libmod, *numbers)


class GraphModule:
    """An executor with its graph: set inputs, run, get outputs."""

    def __init__(self, module):
        self.module = module
        self._set_input = module["set_input"]
        self._run = module["run"]
        self._get_output = module["get_output"]
        self._get_input = module["get_input"]
        self._get_num_outputs = module["get_num_outputs"]
        self._get_input_index = module["get_input_index"]
        self._get_num_inputs = module["get_num_inputs"]
        self._load_params = module["load_params"]
        self._share_params = module["share_params"]

    def set_input(self, key=None, value=None, **params):
        """Sets an input by its name or number, and those that are keywords;
        keywords that the graph does not have are passed over."""
        if key is not None:
            if self._index_of(key) < 0:
                raise RuntimeError(f"Could not find '{key}' in graph's inputs")
            self._copy(key, value)
        for name, tensor in params.items():
            if self._index_of(name) >= 0:
                self._copy(name, tensor)

    def _index_of(self, key):
        return key if isinstance(key, int) else self._get_input_index(key)

    def _copy(self, key, value):
        try:
            memory = self._get_input(key)
        except Error:
            memory = None
        if memory is None:
            # One that the library keeps for itself says why.
            self._set_input(key, value)
            return
        memory.copyfrom(value)

    def set_input_zero_copy(self, key=None, value=None, **params):
        """Has runs read the arrays' own memory."""
        if key is not None:
            self.module["set_input_zero_copy"](key, value)
        for name, tensor in params.items():
            self.module["set_input_zero_copy"](name, tensor)

    def set_output_zero_copy(self, key, value):
        self.module["set_output_zero_copy"](key, value)

    def run(self, **input_dict):
        """Runs the graph, after setting the inputs that are given."""
        if input_dict:
            self.set_input(**input_dict)
        self._run()

    def get_num_outputs(self):
        return self._get_num_outputs()

    def get_num_inputs(self):
        return self._get_num_inputs()

    def get_input(self, index, out=None):
        return _given(self._get_input(index), out)

    def get_input_index(self, name):
        return self._get_input_index(name)

    def get_input_info(self):
        """The shapes and the types of the inputs, by their names."""
        info = self.module["get_input_info"]()
        return info["shape"], info["dtype"]

    def get_output(self, index, out=None):
        return _given(self._get_output(index), out)

    def debug_get_output(self, node, out):
        raise NotImplementedError(
            "Please use debugger.debug_executor as graph_executor instead.")

    def load_params(self, params_bytes):
        self._load_params(bytes(params_bytes))

    def share_params(self, other, params_bytes):
        self._share_params(other.module, bytes(params_bytes))

    def __getitem__(self, key):
        return self.module[key]

    def benchmark(self, device, func_name="run", repeat=5, number=5,
                  min_repeat_ms=None, limit_zero_time_iterations=100,
                  end_to_end=False, cooldown_interval_ms=0,
                  repeats_to_cooldown=1, **kwargs):
        """Times runs, and returns a BenchmarkResult."""
        if end_to_end:
            raise NotImplementedError(
                "end_to_end copies inputs between devices, expected False "
                "where everything lies in the host's memory")
        if kwargs:
            self.set_input(**kwargs)
        if min_repeat_ms is None:
            min_repeat_ms = 0
        return self.module.time_evaluator(
            func_name, device, repeat=repeat, number=number,
            min_repeat_ms=min_repeat_ms,
            limit_zero_time_iterations=limit_zero_time_iterations,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown)()


def _given(made, out):
    if out is None:
        return made
    if not isinstance(out, nd.NDArray):
        raise TypeError(f"out: is a {type(out).__name__}, expected an NDArray")
    return out.copyfrom(made)
