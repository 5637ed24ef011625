"""The dump of one run, written while it runs."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable

from nodewise._dlpack import Tensor
from nodewise._dump_files import TENSORS, TensorFile, make_folder
from nodewise._record_file import RecordFile
from nodewise._traced_graph import Entry, TracedGraph
from nodewise._xxh3 import xxh3_64


class RunDump:
    """Writes what a run makes. Its folder is made with the first tensor."""

    def __init__(self, root: pathlib.Path, tensors: bool, stats: bool):
        self._root = root
        self._wants = (tensors, stats)
        self._tensors: TensorFile | None = None
        self._records: RecordFile | None = None
        self._recorded: set[int] = set()
        self._times: dict[int, int] = {}
        self.folder: pathlib.Path | None = None
        self.graph = TracedGraph()

    def record(self, entry: Entry, tensor: Tensor,
               held: memoryview | None = None) -> None:
        """Records what an entry holds, once: what its tensor does now, or
        `held`."""
        if entry.number in self._recorded:
            return
        self._open(tensor)
        self._recorded.add(entry.number)
        data = tensor.contents() if held is None else held
        if self._tensors:
            self._tensors.add(self.graph.key_of(entry), tensor, data)
        if self._records:
            self._records.add_output(entry, tensor, data)

    def plan(self, entries: Iterable[Entry]) -> None:
        """Says what is recorded next, in case that the kernel crashes."""
        if self._tensors:
            self._tensors.plan(map(self.graph.key_of, entries))

    def hashes_of(self, tensors: Iterable[Tensor]) -> list[int]:
        """Hashes what a node is about to read, if that is wanted."""
        if not self._wants[1]:
            return []
        return [xxh3_64(tensor.contents()) for tensor in tensors]

    def record_call(self, node: int, hashes: Iterable[int],
                    start: int, end: int) -> None:
        """Records what a node read, and when it ran, in ns."""
        self._times[node] = end - start
        if not self._records:
            return
        inputs = self.graph.nodes[node].inputs
        for slot, (entry, hashed) in enumerate(zip(inputs, hashes)):
            self._records.add_input(node, slot, entry, hashed)
        self._records.add_time(node, start, end)

    def abandon(self) -> None:
        """Leaves the files as those of a run that was killed."""
        if self._tensors:
            self._tensors.abandon()
        if self._records:
            self._records.close()

    def close(self, heads: Iterable[Entry]) -> None:
        """Completes the files of a dump in which something was recorded."""
        assert self.folder is not None
        heads = list(heads)
        if self._tensors:
            self._tensors.close(self.graph.keys())
            self._tensors = None
        if self._records:
            self._records.close()
            self._records = None
        for name, text in (
                ("_tvmdbg_graph_dump.json", self.graph.dumped_text(heads)),
                ("_nodewise_graph.json", self.graph.text(heads)),
                # The last one: it says that the run came to its end.
                ("_tvmdbg_execution_trace.json", self._trace())):
            (self.folder / name).write_text(text, encoding="utf-8")

    def _open(self, tensor: Tensor) -> None:
        if self.folder is not None:
            return
        self.folder = make_folder(self._root, str(tensor.owner.device))
        if self._wants[0]:
            self._tensors = TensorFile(self.folder / TENSORS)
        if self._wants[1]:
            self._records = RecordFile(self.folder / "_nodewise_nodes.bin")

    def _trace(self) -> str:
        """The nodes one after the other, as TVM writes a Chrome trace."""
        now = 0
        events = []
        for number, node in enumerate(self.graph.nodes):
            for phase in "BE":
                if phase == "E":
                    now += self._times.get(number, 0)
                events.append({"ts": now / 1000, "tid": 1, "pid": 1,
                               "name": node.name, "ph": phase})
        return json.dumps({"displayTimeUnit": "ns", "traceEvents": events})
