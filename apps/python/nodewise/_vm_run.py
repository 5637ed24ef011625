"""One run of a function of TVM's VM, from the calls that it makes.

Which arguments a kernel writes is not said. They are the last ones that
nothing has written yet; without such, those that have changed. What a kernel
reads is what was last written to the place where the tensor lies.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from nodewise._dlpack import Tensor
from nodewise._run_dump import RunDump
from nodewise._traced_graph import NOP, Entry

_BUILTIN = "vm.builtin."
# They make tensors, or hand them on; other calls are kernels, or opaque.
_MAKERS = {"alloc_tensor", "alloc_shape_heap"}
_HANDING = {"make_tuple", "tuple_getitem", "reshape", "copy"}
_PLAIN = {"null_value", "alloc_storage", "shape_of", "tensor_to_shape",
          "read_if_cond", "make_shape", "make_prim_value", "match_shape",
          "match_prim_value", "make_closure", "tuple_reset_item",
          "check_tensor_info", "check_shape_info", "check_tuple_info",
          "check_func_info", "check_prim_value_info", "check_string_info",
          "check_object_info"}
BOOKKEEPING = {_BUILTIN + name for name in _MAKERS | _HANDING | _PLAIN}
_MAKERS_AND_HANDING = {_BUILTIN + name for name in _MAKERS | _HANDING}

# What lies in a place where nothing was written: a tensor that was allocated,
# and the numbers with which the VM computes sizes.
_FRESH, _SIZES = object(), object()


@dataclasses.dataclass
class _Call:
    """A call of a kernel that has not returned."""

    function: str
    is_wanted: bool
    inputs: list[Entry]
    tensors: list[Tensor]
    numbers: str
    outputs: list[Entry]
    made: list[Tensor]
    before: list[bytes]  # What the tensors held, if none of them is made.
    hashes: list[int] = dataclasses.field(default_factory=list)
    start: int = 0


class VmRun:
    """Follows one run, and writes its dump."""

    def __init__(self, dump: RunDump, is_wanted: Callable[[str, str], bool]):
        self._dump = dump
        self._is_wanted = is_wanted
        self._state: dict[tuple[Any, Any], Any] = {}
        self._views: dict[tuple[Any, ...], Entry] = {}
        self._calls: list[_Call | None] = []
        # The value that the last call gave: what the function returns, as far
        # as that can be seen here.
        self._last: Any = None

    def add_input(self, name: str, value: Any, is_recorded: bool) -> None:
        """Says what an input of the function is called."""
        tensor = Tensor(value)
        entry = self._dump.graph.add_input(name, tensor)
        self._state[tensor.key] = entry
        if is_recorded:
            self._dump.record(entry, tensor)

    @property
    def is_amid_call(self) -> bool:
        """Whether something has been called that has not returned."""
        return bool(self._calls)

    def enter(self) -> None:
        """A function of the VM is called by another one."""
        self._calls.append(None)

    def before(self, name: str, arguments: Iterable[Any]) -> None:
        """A kernel, or what is not known, is about to run."""
        call = self._begun(name, list(arguments))
        self._calls.append(call)
        if call.is_wanted:
            call.hashes = self._dump.hashes_of(call.tensors)
            self._dump.plan(call.outputs)
        call.start = time.monotonic_ns()

    def after(self, result: Any) -> None:
        """The function that was called last has returned."""
        end = time.monotonic_ns()
        call = self._calls.pop() if self._calls else None
        is_node = call is not None and self._is_ended(call, result, end)
        if not is_node and any(True for _ in tensors_in(result)):
            self._last = result

    def did_bookkeeping(self, name: str, arguments: Sequence[Any],
                        result: Any) -> None:
        """A built-in function has returned that computes nothing."""
        if name not in _MAKERS_AND_HANDING:
            return
        if name.endswith("alloc_tensor"):
            self._state[Tensor(result).key] = _FRESH
        elif name.endswith("alloc_shape_heap"):
            self._state[Tensor(result).key] = _SIZES
        else:
            self._last = result
        if name.endswith("reshape"):
            self._reshaped(Tensor(arguments[0]), Tensor(result))

    def close(self, results: Any = None, *, has_failed: bool = False) -> None:
        """Completes the dump. `results` is what the function has returned, if
        that was seen."""
        if self._dump.folder is None:
            return
        if results is None:
            results = self._last
        heads = [] if has_failed else [
            self._entry_of(Tensor(value), self._is_wanted("", ""))
            for value in tensors_in(results)]
        self._dump.close(heads)

    # --- Calls ---

    def _begun(self, name: str, arguments: list[Any]) -> _Call:
        # Its first argument is the kernel, whose name is not told.
        if name == _BUILTIN + "call_tir_dyn":
            arguments = arguments[1:]
        tensors = [tensor for tensor in map(Tensor, tensors_in(arguments))
                   if self._state.get(tensor.key) is not _SIZES]
        count = len(tensors)
        while count and self._state.get(tensors[count - 1].key) is _FRESH:
            count -= 1
        made = tensors[count:]
        node = self._dump.graph.name_of_next(name)
        call = _Call(name, self._is_wanted(name, node), [], tensors[:count],
                     _numbers_in(arguments), [], made, [])
        if made:
            call.inputs = [self._entry_of(tensor, call.is_wanted)
                           for tensor in call.tensors]
            call.outputs = self._dump.graph.add_call(
                name, call.inputs, made, call.numbers)
        else:
            call.before = [bytes(each.contents()) for each in call.tensors]
        return call

    def _is_ended(self, call: _Call, result: Any, end: int) -> bool:
        """Records what a call has made; returns whether that is anything."""
        if not call.made:
            given = {tensor.key for tensor in call.tensors}
            returned = [Tensor(value) for value in tensors_in(result)]
            call.made = [each for each in returned if each.key not in given]
        if not call.made:
            call.made = [tensor for tensor, held
                         in zip(call.tensors, call.before)
                         if tensor.contents() != held]
        if not call.made:
            return False
        if not call.outputs:
            call.inputs = [
                self._entry_of(tensor, call.is_wanted, memoryview(held))
                for tensor, held in zip(call.tensors, call.before)]
            call.outputs = self._dump.graph.add_call(
                call.function, call.inputs, call.made, call.numbers)
        self._last = [tensor.owner for tensor in call.made]
        for entry, tensor in zip(call.outputs, call.made):
            self._state[tensor.key] = entry
        if call.is_wanted:
            self._dump.record_call(call.outputs[0].node, call.hashes,
                                   call.start, end)
            for entry, tensor in zip(call.outputs, call.made):
                self._dump.record(entry, tensor)
        return True

    # --- Values ---

    def _entry_of(self, tensor: Tensor, is_wanted: bool,
                  held: memoryview | None = None) -> Entry:
        """The entry that was last written where a tensor lies, in its shape.
        `held` has its contents, if they may have changed since."""
        entry = self._state.get(tensor.key)
        if not isinstance(entry, Entry) or entry.nbytes < tensor.nbytes:
            # It was there before the run: a constant, or a weight.
            entry = self._dump.graph.add_constant(tensor)
            self._state[tensor.key] = entry
        elif (entry.shape, entry.dtype) != (tensor.shape, tensor.dtype.name):
            entry = self._view_of(entry, tensor)
        if is_wanted:
            self._dump.record(entry, tensor, held)
        return entry

    def _reshaped(self, source: Tensor, tensor: Tensor) -> None:
        # Otherwise it is the place where a kernel is going to write.
        if self._state.get(source.key) is not _FRESH:
            is_wanted = self._is_wanted(NOP, NOP)
            self._entry_of(source, is_wanted)
            self._entry_of(tensor, is_wanted)

    def _view_of(self, entry: Entry, tensor: Tensor) -> Entry:
        key = (entry.number, tensor.shape, tensor.dtype)
        if key in self._views:
            return self._views[key]
        function = (NOP if entry.nbytes == tensor.nbytes
                    else _BUILTIN + "reshape")
        view = self._dump.graph.add_call(function, [entry], [tensor])[0]
        self._views[key] = view
        if self._is_wanted(function, function):
            now = time.monotonic_ns()
            self._dump.record_call(view.node, self._dump.hashes_of([tensor]),
                                   now, now)
            self._dump.record(view, tensor)
        return view


def is_tensor(value: Any) -> bool:
    """Whether a value of the VM is a tensor."""
    return hasattr(value, "__dlpack__")


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors of a value, those of tuples in tuples too."""
    if is_tensor(value):
        yield value
    # Shapes are tuples as well; they hold numbers alone.
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for item in value:
            yield from tensors_in(item)


def _numbers_in(arguments: list[Any]) -> str:
    """Which arguments are whole numbers, as a graph says it; nothing if there
    are others that are not tensors either."""
    if arguments and not is_tensor(arguments[-1]) and isinstance(
            arguments[-1], tuple):
        arguments = [*arguments[:-1], *arguments[-1]]
    numbers = []
    for place, value in enumerate(arguments):
        if isinstance(value, int):
            numbers.append(f"{place}={int(value)}")
        elif not is_tensor(value):
            return ""
    return " ".join(numbers)
