"""tvm.contrib.debugger.debug_executor: every node timed and recorded."""

import os
import struct

from nodewise.tvm.runtime import get_global_func
from nodewise.tvm.contrib import graph_executor


def create(graph_json_str, libmod, device, dump_root=None):
    """A GraphModuleDebug, whose runs leave dumps below `dump_root`."""
    module = graph_executor.create_module("tvm.graph_executor_debug.create",
                                          graph_json_str, libmod, device)
    return GraphModuleDebug(module, device, graph_json_str, dump_root)


class GraphModuleDebug(graph_executor.GraphModule):
    """An executor whose runs can be looked into."""

    def __init__(self, module, device, graph_json_str, dump_root):
        super().__init__(module)
        del device, graph_json_str  # The module has both.
        self._dump_root = dump_root

    def run(self, number=10, repeat=1, min_repeat_ms=1,
            limit_zero_time_iterations=100, cooldown_interval_ms=0,
            repeats_to_cooldown=1, **input_dict):
        """Runs the graph, and records what each node makes."""
        del number, repeat, min_repeat_ms, limit_zero_time_iterations
        del cooldown_interval_ms, repeats_to_cooldown  # One run is recorded.
        if self._dump_root is not None:
            self.module["nodewise.set_dump_root"](os.fspath(self._dump_root))
        super().run(**input_dict)

    @property
    def dump_folder(self):
        """The folder of the last run's dump."""
        return self.module["nodewise.get_dump_folder"]()

    def debug_get_output(self, node, out=None):
        """What a node has made: its name or number, after a run up to it."""
        made = self.module["debug_get_output"](node)
        return graph_executor._given(made, out)  # pylint: disable=protected-access

    def execute_node(self, node):
        return self.module["execute_node"](node)

    def get_node_output(self, node, output=0):
        return self.module["get_node_output"](node, output)

    def get_output_by_layer(self, index, output=0):
        return self.module["get_output_by_layer"](index, output)

    def run_individual(self, number, repeat=1, min_repeat_ms=0,
                       limit_zero_time_iterations=100, cooldown_interval_ms=0,
                       repeats_to_cooldown=1):
        """How many seconds each node takes by itself: a list of the repeats
        for each node, inputs included, as in TVM 0.9 and later."""
        made = self.module["run_individual"](
            number, repeat, min_repeat_ms, limit_zero_time_iterations,
            cooldown_interval_ms, repeats_to_cooldown)
        # The number of nodes, then their numbers one after the other.
        (nodes,) = struct.unpack_from("@q", made)
        times = struct.unpack_from(f"@{nodes * repeat}d", made, 8)
        return [list(times[i * repeat:(i + 1) * repeat]) for i in range(nodes)]

    def profile(self, collectors=None, **input_dict):
        """A report of a run, which prints as a table."""
        if collectors:
            raise NotImplementedError("collectors: expected none")
        if input_dict:
            self.set_input(**input_dict)
        return Report(self.module["profile"]([]))

    def exit(self):
        """Ends recording."""
        self.module["nodewise.set_dump_root"]("")
        self._dump_root = None


class Report:
    """What profile() returns."""

    def __init__(self, module):
        self._module = module

    def _as(self, name, *arguments):
        return get_global_func(f"runtime.profiling.{name}")(self._module,
                                                           *arguments)

    def table(self, sort=True, aggregate=True, col_sums=True):
        return self._as("AsTable", sort, aggregate, col_sums)

    def csv(self):
        return self._as("AsCSV")

    def json(self):
        return self._as("AsJSON")

    def __str__(self):
        return self.table()
