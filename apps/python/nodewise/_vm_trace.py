"""Traces TVM's VM: finds the runs in the calls that it tells of, and follows
each.

Which arguments a kernel writes is not said. They are the last ones that
nothing has written yet; without such, those that have changed. What a kernel
reads is what was last written to the place where the tensor lies.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

from nodewise._dlpack import Tensor
from nodewise._errors import Error
from nodewise._dump_files import NOP, Entry, RunDump

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


_CHECKS = "vm.builtin.check_"
_TUPLE_INFO = "vm.builtin.check_tuple_info"
_TENSOR_INFO = "vm.builtin.check_tensor_info"
_TUPLE_ITEM = "vm.builtin.tuple_getitem"
_SHAPE_HEAP = "vm.builtin.alloc_shape_heap"
_CLOSURE = "vm.builtin.invoke_closure"
# What a function checks first, parameter by parameter.
_PARAMETER = re.compile(r"ErrorContext\(fn=(.*?), loc=param\[\d+\], "
                        r"param=(.*?), annotation=")


# pylint: disable-next=too-many-arguments
def trace_vm(vm: Any, dump_root: str | os.PathLike[str], *,
             select: str | None = None, function: str | None = None,
             run: int | None = None, what: str = "tensor") -> VmTrace:
    """Records each kernel that TVM's VM calls, on any device, as dumps.

    >>> with nodewise.trace_vm(vm, "dump") as trace:
    ...     vm["main"](x)
    >>> nodewise.compare(trace.folders[0], "model.onnx")

    vm: a tvm.relax.VirtualMachine of bytecode (TVM 0.22 and later)
    dump_root: where the dumps go, one for each run
    select: only kernels in whose name this regular expression is found, and
        what they read
    function: only runs of this function
    run: only this run of those, counted from 1
    what: tensor, stats (hashes and statistics), or tensor,stats
    """
    if not hasattr(vm, "set_instrument"):
        raise TypeError(f"vm: is a {type(vm).__name__}, expected a "
                        "tvm.relax.VirtualMachine of TVM 0.22 or later")
    parts = set(what.split(","))
    if not parts <= {"tensor", "stats"}:
        raise Error([f'what=: found "{what}", expected tensor, stats or '
                     "tensor,stats"])
    return VmTrace(vm, pathlib.Path(dump_root), parts,
                   re.compile(select) if select else None, (function, run))


class VmTrace:  # pylint: disable=too-many-instance-attributes
    """What trace_vm() returns. It records as long as its `with` lasts;
    `folders` are the dumps of the runs that have ended."""

    def __init__(self, vm: Any, root: pathlib.Path, parts: set[str],
                 select: re.Pattern[str] | None,
                 chosen: tuple[str | None, int | None]):
        self.folders: list[str] = []
        self._vm = vm
        self._root = root
        self._parts = parts
        self._select = select
        self._function, self._number = chosen
        self._module: Any = None  # The VM's, while this stands before it.
        self._error: Exception | None = None
        self._is_watched = False  # A wrapper of ours sees how it ends.
        # One for each function that runs, the called ones last: whether it is
        # still at its parameters.
        self._frames: list[bool] = []
        self._run: VmRun | None = None
        self._dump: RunDump | None = None
        self._is_named = False
        self._runs = 0  # How many `function` has chosen.
        self._tuples: dict[int, str] = {}

    def __enter__(self) -> VmTrace:
        self._module = self._vm.module
        # No instrument is told what a function returns, so that the result is
        # looked at where the user takes it from.
        self._vm.module = _Watched(self._module, self._watched)
        self._vm.set_instrument(self._called)
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._vm.set_instrument(None)
        self._vm.module, self._module = self._module, None
        self._guarded(self._end)
        if error is None:
            self._raise_what_is_wrong()

    def _raise_what_is_wrong(self) -> None:
        if self._error is not None:
            raise Error([
                f"{self._root}: could not record the run to its end, which "
                f"went on: {self._error} (nodewise inspect --recover reads "
                "what is complete)"]) from self._error
        if self.folders:
            return
        if self._runs and (self._select or self._number):
            raise Error(["select=, run=: chose no kernel, expected one of "
                         f"those of {self._counted_runs()}"])
        raise Error([
            f"vm: told of no kernel in {self._counted_runs()}, expected one "
            "within the `with` (what was compiled with "
            'exec_mode="compiled" tells nothing: compile it with "bytecode")'])

    def _counted_runs(self) -> str:
        of_what = f" of {self._function}" if self._function else ""
        return f"{self._runs} run{'s' * (self._runs != 1)}{of_what}"

    # --- Runs ---

    def _watched(self, name: str,
                 function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if self._module is None or self._is_watched:
                return function(*arguments)
            self._guarded(self._begin, name)
            self._is_watched = True
            try:
                result = function(*arguments)
            except BaseException:
                self._guarded(self._end, None, True)
                raise
            finally:
                self._is_watched = False
            self._guarded(self._end, result)
            return result
        return call

    def _begin(self, name: str | None) -> None:
        self._end()
        self._frames = [True]
        self._tuples = {}
        self._is_named = False
        self._dump = RunDump(self._root, "tensor" in self._parts,
                             "stats" in self._parts)
        self._run = VmRun(self._dump, self._is_wanted)
        if name is not None:
            self._name(name)

    def _name(self, name: str) -> None:
        """Says which function runs, and so whether it is to be recorded."""
        self._is_named = True
        if self._function not in (None, name):
            self._run = None
            return
        self._runs += 1
        if self._number not in (None, self._runs):
            self._run = None

    def _end(self, result: Any = None, has_failed: bool = False) -> None:
        run, self._run = self._run, None
        self._frames = []
        if run is None:
            return
        run.close(result, has_failed=has_failed or run.is_amid_call)
        if self._dump is not None and self._dump.folder is not None:
            self.folders.append(str(self._dump.folder))

    def _is_wanted(self, function: str, node: str) -> bool:
        return self._select is None or any(
            self._select.search(name) for name in (function, node))

    # --- What the VM tells ---

    def _guarded(self, follow: Callable[..., Any], *arguments: Any) -> None:
        """A failure here must not end the user's run."""
        if self._error is not None:
            return
        try:
            follow(*arguments)
        except Exception as error:  # pylint: disable=broad-except
            self._error = error
            self._run = None
            if self._dump is not None:
                self._dump.abandon()

    def _called(self, function: Any, name: str, is_before: bool, result: Any,
                *arguments: Any) -> None:
        self._guarded(self._follow, function, name, is_before, result,
                      arguments)

    def _follow(self, function: Any, name: str, is_before: bool, result: Any,
                arguments: tuple[Any, ...]) -> None:
        if name in BOOKKEEPING:
            if is_before:
                self._before_bookkeeping(name, arguments)
            elif self._run is not None:
                self._after_bookkeeping(name, arguments, result)
            return
        # A function of the VM is an object that only the VM calls.
        is_nested = name == _CLOSURE or not callable(function)
        if is_before:
            self._before_call(name, is_nested, arguments)
            return
        if is_nested and len(self._frames) > 1:
            self._frames.pop()
        if self._run is not None:
            self._run.after(result)

    def _before_call(self, name: str, is_nested: bool,
                     arguments: tuple[Any, ...]) -> None:
        if not self._frames:
            self._begin(None)
        if not self._is_named:
            self._name("")
        self._frames[-1] = False
        if is_nested:
            self._frames.append(True)
        if self._run is None:
            return
        if is_nested:
            self._run.enter()
        else:
            self._run.before(name, arguments)

    def _before_bookkeeping(self, name: str,
                            arguments: tuple[Any, ...]) -> None:
        if name.startswith(_CHECKS):
            self._check(name, arguments)
        elif name == _SHAPE_HEAP and not self._is_at_parameters():
            self._begin(None)

    def _after_bookkeeping(self, name: str, arguments: tuple[Any, ...],
                           result: Any) -> None:
        assert self._run is not None
        if name == _TUPLE_ITEM:
            self._name_item(arguments, result)
        elif name.endswith("alloc_tensor"):
            self._frames[-1] = False
        self._run.did_bookkeeping(name, arguments, result)

    def _is_at_parameters(self) -> bool:
        return self._is_watched or bool(self._frames and self._frames[-1])

    def _check(self, name: str, arguments: tuple[Any, ...]) -> None:
        found = _PARAMETER.match(str(arguments[-1]))
        if found is None:
            return
        function, parameter = found.groups()
        if not self._is_at_parameters():
            self._begin(function)
        elif not self._is_named:
            self._name(function)
        if self._run is None or len(self._frames) > 1:
            return
        handle = arguments[0].__chandle__() if hasattr(
            arguments[0], "__chandle__") else 0
        if name == _TUPLE_INFO:
            self._tuples.setdefault(handle, parameter)
        elif name == _TENSOR_INFO:
            item = self._tuples.get(handle)
            self._run.add_input(item or parameter, arguments[0],
                                self._select is None or item is None)

    def _name_item(self, arguments: tuple[Any, ...], result: Any) -> None:
        of_tuple = self._tuples.get(arguments[0].__chandle__())
        if of_tuple is not None and hasattr(result, "__chandle__"):
            self._tuples.setdefault(result.__chandle__(),
                                    f"{of_tuple}[{int(arguments[1])}]")


class _Watched:
    """The module of a VM, whose functions tell when they run."""

    def __init__(self, module: Any,
                 watched: Callable[[str, Callable[..., Any]],
                                   Callable[..., Any]]):
        self._module = module
        self._watched = watched

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._watched(name, self._module[name])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
