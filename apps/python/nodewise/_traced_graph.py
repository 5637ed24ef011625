"""The graph of a run: what called what, found out while it runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from nodewise._dlpack import CPU, Tensor

NOP = "__nop"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One output of a node."""

    number: int
    node: int
    slot: int
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    storage: int
    device: int

    @property
    def ref(self) -> list[int]:
        """How the graph says it."""
        return [self.node, self.slot, 0]


@dataclasses.dataclass(frozen=True)
class Node:
    """An input, if it has no function, or a call."""

    name: str
    function: str
    inputs: tuple[Entry, ...]
    outputs: tuple[Entry, ...]
    numbers: str = ""


class TracedGraph:
    """Grows call by call, and is written as TVM's graphs are
    (docs/formats/graph_json.md)."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._entries = 0
        self._names: set[str] = set()
        self._uses: dict[str, int] = {}
        self._constants = 0
        self._storages: dict[tuple[Any, Any], int] = {}
        self._next_storage = 0

    def add_input(self, name: str, tensor: Tensor) -> Entry:
        """Adds an input of the function."""
        return self._add(self.name_of_next(name), "", (), [tensor])[0]

    def add_constant(self, tensor: Tensor) -> Entry:
        """Adds what was there before the run: p0, p1, ... as it is used."""
        while f"p{self._constants}" in self._names:
            self._constants += 1
        return self.add_input(f"p{self._constants}", tensor)

    def add_call(self, function: str, inputs: Iterable[Entry],
                 outputs: list[Tensor], numbers: str = "") -> list[Entry]:
        """Adds a call, and returns its outputs."""
        name = "reshape_nop" if function == NOP else function
        return self._add(self.name_of_next(name), function, tuple(inputs),
                         outputs, numbers)

    def key_of(self, entry: Entry) -> str:
        """The name of the tensor in a dump."""
        return (f"{self.nodes[entry.node].name}____topo-index:{entry.node}"
                f"____output-num:{entry.slot}")

    def keys(self) -> list[str]:
        """Those of all entries, in the order in which a dump has them."""
        nodes = sorted(self.nodes, key=lambda node: bool(node.function))
        return [self.key_of(entry) for node in nodes for entry in node.outputs]

    def _add(self, name: str, function: str, inputs: tuple[Entry, ...],
             tensors: list[Tensor], numbers: str = "") -> list[Entry]:
        outputs = [
            Entry(self._entries + slot, len(self.nodes), slot, tensor.shape,
                  tensor.dtype.name, tensor.nbytes,
                  self._storage_of(tensor, function), tensor.device[0])
            for slot, tensor in enumerate(tensors)]
        self._entries += len(outputs)
        self._names.add(name)
        self.nodes.append(Node(name, function, inputs, tuple(outputs), numbers))
        return outputs

    def _storage_of(self, tensor: Tensor, function: str) -> int:
        # Tensors in one place are one storage, so that the plan of the compiler
        # shows. Two inputs may be one tensor; each has its own.
        if not function:
            self._storages.pop(tensor.key, None)
        number = self._storages.setdefault(tensor.key, self._next_storage)
        self._next_storage = max(self._next_storage, number + 1)
        return number

    def name_of_next(self, wanted: str) -> str:
        """The name that the next call of a function gets: no other node has
        it, and nodewise calls nodes of a VM's library so, too."""
        name, uses = wanted, self._uses.get(wanted, 0)
        while name in self._names:
            uses += 1
            name = f"{wanted}_{uses}"
        # Where it goes on looking the next time.
        self._uses[wanted] = max(uses - 1, 0)
        return name

    # --- As text ---

    def text(self, heads: Iterable[Entry]) -> str:
        """The graph as one that runs."""
        return json.dumps(self._document(heads)) + "\n"

    def dumped_text(self, heads: Iterable[Entry]) -> str:
        """The graph as TVM's debugger writes it, which is for people."""
        document = self._document(heads)
        for node, written in zip(self.nodes, document["nodes"]):
            written["op"] = node.function or "param"
            written["inputs"] = [self.nodes[each.node].name
                                 for each in node.inputs]
            if node.outputs:
                first = node.outputs[0]
                written.setdefault("attrs", {})["T"] = f"type: {first.dtype}"
                written["shape"] = first.shape
        return json.dumps(document, indent=4)

    def _document(self, heads: Iterable[Entry]) -> dict[str, Any]:
        entries = [entry for node in self.nodes for entry in node.outputs]
        rows = [0]
        for node in self.nodes:
            rows.append(rows[-1] + len(node.outputs))
        return {
            "nodes": [_written(node) for node in self.nodes],
            "arg_nodes": [number for number, node in enumerate(self.nodes)
                          if not node.function],
            "heads": [entry.ref for entry in heads],
            "attrs": {
                "shape": ["list_shape", [each.shape for each in entries]],
                "dltype": ["list_str", [each.dtype for each in entries]],
                "storage_id": ["list_int", [each.storage for each in entries]],
                **_devices_of(entries),
            },
            "node_row_ptr": rows,
        }


def _devices_of(entries: list[Entry]) -> dict[str, Any]:
    devices = [entry.device for entry in entries]
    return {} if set(devices) <= {CPU} else {
        "device_index": ["list_int", devices]}


def _written(node: Node) -> dict[str, Any]:
    written: dict[str, Any] = {
        "op": "tvm_op" if node.function else "null", "name": node.name,
        "inputs": [entry.ref for entry in node.inputs]}
    if node.function:
        written["attrs"] = {"func_name": node.function,
                            "num_inputs": str(len(node.inputs)),
                            "num_outputs": str(len(node.outputs)),
                            "flatten_data": "0"}
        if node.numbers:
            written["attrs"]["call_numbers"] = node.numbers
    return written
