"""The dump of a run as it grows: its graph, its tensors, and hashes, times and
statistics (docs/formats/dump.md)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from nodewise._dlpack import CPU, Tensor, Type
from nodewise._xxh3 import xxh3_64

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


TENSORS = "output_tensors.params"

_LIST_MAGIC = 0xF7E58D4F05049CB7
_RECORD_MAGIC = 0xDD5E40F096B4A13F
_COUNT_AT = 16
_FIRST_ROOM = 1 << 16
# What the bytes between the names and the first tensor are called.
_FILLER = "(room for names)"
_ITEM = struct.Struct("<QQiiiBBH")
_HOST = (1, 0)
_BYTE = Type(1, 8, 1)
_PIECE = 1 << 24


def make_folder(root: pathlib.Path, device: str) -> pathlib.Path:
    """Makes the folder of a run; an existing dump is never written to.

    `device` is what TVM calls it, as in "cuda:0".
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = "_tvmdbg_device_" + device.upper().replace(":", "_")
    found = (re.fullmatch(r"run_([1-9]\d*)", path.name)
             for path in root.iterdir())
    number = max((int(each.group(1)) for each in found if each), default=1)
    with contextlib.suppress(FileExistsError):
        (root / name).mkdir(mode=0o700)
        return root / name
    while True:
        number += 1
        # Another process may take the number in between.
        with contextlib.suppress(FileExistsError):
            (root / f"run_{number}").mkdir(mode=0o700)
            folder = root / f"run_{number}" / name
            folder.mkdir(mode=0o700)
            return folder


class TensorFile:
    """A file of parameters that can be read at any time, also if its process
    is killed.

    The names come first in such a file, and are not known before the run ends.
    So a tensor that stands for nothing lies between them and the others until
    close(), and the names grow into its bytes.
    """

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._file = _created(path)
        self._room = _FIRST_ROOM
        self._end = _COUNT_AT + 8  # Where the names of what is there end.
        self._count = 0
        self._planned: list[str] = []
        # Where each tensor begins, counted from the first, and its size.
        self._places: dict[str, tuple[int, int]] = {}
        self._size = 0
        os.pwrite(self._file, struct.pack("<QQ", _LIST_MAGIC, 0), 0)
        self._add_name(_FILLER)

    def plan(self, names: Iterable[str]) -> None:
        """Says what is added next, if nothing else is: the file of a run that
        is killed names it as missing."""
        self._planned = list(names)
        self._write_tail(b"")

    def add(self, name: str, tensor: Tensor, data: memoryview) -> None:
        """Adds a tensor, which holds `data`."""
        head = _head_of(tensor.shape, tensor.dtype, data.nbytes)
        # The name first: one whose tensor does not follow is missing.
        self._add_name(name)
        _write(self._file, [head, data], self._room + self._size)
        self._places[name] = (self._size, len(head) + data.nbytes)
        self._size += len(head) + data.nbytes

    def abandon(self) -> None:
        """Leaves the file as it is."""
        os.close(self._file)

    def close(self, order: Iterable[str]) -> None:
        """Leaves the tensors in this order, and nothing else."""
        names = [name for name in order if name in self._places]
        new = self._path.with_suffix(".new")
        file = _created(new)
        head = (struct.pack("<QQQ", _LIST_MAGIC, 0, len(names)) +
                b"".join(map(_text, names)) + struct.pack("<Q", len(names)))
        _write(file, [head], 0)
        position = len(head)
        for start, size in _joined(self._places[name] for name in names):
            _copy(self._file, self._room + start, file, position, size)
            position += size
        os.close(file)
        os.close(self._file)
        new.replace(self._path)

    def _add_name(self, name: str) -> None:
        text = _text(name)
        if self._planned[:1] == [name]:
            self._planned.pop(0)  # It stands there already.
        else:
            self._planned = []
            self._write_tail(text)
        self._end += len(text)
        self._count += 1

    def _write_tail(self, added: bytes) -> None:
        """Writes a name, what is planned, and what fills the room."""
        tail = added + b"".join(map(_text, self._planned))
        count = struct.pack("<Q", self._count + bool(added) +
                            len(self._planned))
        filler = len(_head_of((0,), _BYTE, 0))
        while self._end + len(tail) + len(count) + filler > self._room:
            self._grow()
        left = self._room - self._end - len(tail) - len(count) - filler
        _write(self._file, [tail, count, _head_of((left,), _BYTE, left)],
               self._end)
        _write(self._file, [count], _COUNT_AT)

    def _grow(self) -> None:
        new = self._path.with_suffix(".new")
        file = _created(new)
        _copy(self._file, 0, file, 0, self._end)
        _copy(self._file, self._room, file, 8 * self._room, self._size)
        os.close(self._file)
        new.replace(self._path)
        self._file = file
        self._room *= 8


def _created(path: pathlib.Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)


def _text(name: str) -> bytes:
    data = name.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def _head_of(shape: tuple[int, ...], dtype: Type, size: int) -> bytes:
    return (_ITEM.pack(_RECORD_MAGIC, 0, *_HOST, len(shape), dtype.code,
                         dtype.bits, dtype.lanes) +
            struct.pack(f"<{len(shape) + 1}q", *shape, size))


def _joined(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Places that follow each other as one."""
    start, size = 0, 0
    for next_start, next_size in places:
        if next_start != start + size:
            yield start, size
            start, size = next_start, 0
        size += next_size
    yield start, size


def _write(file: int, parts: list[Any], position: int) -> None:
    for part in parts:
        left = memoryview(part)
        while left.nbytes:
            # The system may write less than it is given.
            written = os.pwrite(file, left, position)
            position += written
            left = left[written:]


def _copy(source: int, start: int, target: int, position: int,
          size: int) -> None:
    while size:
        count = min(size, _PIECE)
        try:
            done = os.copy_file_range(source, target, count, start, position)
        except OSError:  # A file system that cannot.
            done = os.pwrite(target, os.pread(source, count, start), position)
        if done == 0:
            raise OSError(f"cannot copy {size} bytes of a dump: the file ends "
                          f"at {start}")
        start, position, size = start + done, position + done, size - done


_TIME, _INPUT, _OUTPUT = 1, 2, 3
_HAS_STATS, _HAS_NUMBERS = 1, 2
_RECORD = struct.Struct("<HHIIIQQ")
_STATS = struct.Struct("<QQQdddd")
_NO_STATS = bytes(_STATS.size)
# Bits of the exponent and of the fraction, and the bias.
_SHORT_FLOATS = {"e4m3_float8": (4, 3, 7), "float8_e4m3fnuz": (4, 3, 8),
                 "e5m2_float8": (5, 2, 15), "float8_e5m2fnuz": (5, 2, 16),
                 "float8_e8m0fnu": (8, 0, 127), "float4_e2m1fn": (2, 1, 1)}
_HEADER = struct.pack("<8sII8s", b"NODEWISE", 2, _RECORD.size + _STATS.size,
                      b"XXH3-64")


class RecordFile:
    """Grows with a run, and can be read at any time."""

    def __init__(self, path: pathlib.Path):
        # It is closed by close(), behind the run.
        # pylint: disable-next=consider-using-with
        self._file = open(path, "xb", buffering=0)
        self._file.write(_HEADER)

    def add_time(self, node: int, start: int, end: int) -> None:
        """Adds when a node ran, in ns."""
        self._file.write(_RECORD.pack(_TIME, 0, node, 0, 0, start, end) +
                         _NO_STATS)

    def add_input(self, node: int, slot: int, entry: Entry,
                  hashed: int) -> None:
        """Adds what a node read."""
        elements = math.prod(entry.shape)
        self._file.write(_RECORD.pack(_INPUT, 0, node, slot, entry.number,
                                      hashed, elements) + _NO_STATS)

    def add_output(self, entry: Entry, tensor: Tensor,
                   data: memoryview) -> None:
        """Adds what a node made."""
        flags, stats = _stats_of(tensor, data)
        elements = math.prod(entry.shape) * tensor.dtype.lanes
        self._file.write(_RECORD.pack(
            _OUTPUT, flags, entry.node, entry.slot, entry.number,
            xxh3_64(data), elements) + stats)

    def close(self) -> None:
        """Ends the file."""
        self._file.close()


def _stats_of(tensor: Tensor, data: memoryview) -> tuple[int, bytes]:
    import numpy  # pylint: disable=import-outside-toplevel
    values = values_of(tensor.dtype.name, data)
    if values is None:
        return _HAS_STATS, _NO_STATS
    nans = numpy.isnan(values)
    finite = values[numpy.isfinite(values)].astype(numpy.float64)
    numbers = values[~nans]
    return _HAS_STATS | _HAS_NUMBERS, _STATS.pack(
        int(nans.sum()), int(numpy.isinf(values).sum()),
        int((values == 0).sum()),
        float(numbers.min()) if numbers.size else 0,
        float(numbers.max()) if numbers.size else 0,
        float(finite.mean()) if finite.size else 0,
        float(numpy.sqrt(numpy.square(finite).sum())))


def values_of(name: str, data: memoryview) -> Any:
    """The elements of a type as numbers; None if it has several in each."""
    import numpy  # pylint: disable=import-outside-toplevel
    if name == "bfloat16":
        # It is the upper half of a float32.
        halves = numpy.frombuffer(data, "<u2").astype("<u4")
        return (halves << numpy.uint32(16)).view("<f4")
    if name in _SHORT_FLOATS:
        numbers = [_short_float(name, bits) for bits in range(256)]
        return numpy.array(numbers)[numpy.frombuffer(data, numpy.uint8)]
    name = {"bool8": "uint8", "uint4": "uint8", "int4": "int8"}.get(name, name)
    if name.startswith("complex"):
        return None
    try:
        return numpy.frombuffer(data, numpy.dtype(name).newbyteorder("<"))
    except TypeError:
        return None


def _short_float(name: str, bits: int) -> float:
    """The number that a float of a byte stands for, or of half a byte."""
    exponents, fractions, bias = _SHORT_FLOATS[name]
    fraction = bits & (1 << fractions) - 1
    exponent = bits >> fractions & (1 << exponents) - 1
    sign = -1 if bits >> fractions + exponents & 1 else 1
    if name == "float8_e8m0fnu":
        return math.nan if bits == 255 else 2.0 ** (exponent - bias)
    if name == "e5m2_float8" and exponent == 31:
        return math.nan if fraction else sign * math.inf
    if bits in ({0x80} if name.endswith("fnuz") else
                {0x7F, 0xFF} if name == "e4m3_float8" else ()):
        return math.nan
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fractions)
    return sign * (1 + fraction / (1 << fractions)) * 2.0 ** (exponent - bias)


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
