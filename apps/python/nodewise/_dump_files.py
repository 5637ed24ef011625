"""The files of a dump as they grow with a run (docs/formats/dump.md)."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from nodewise._dlpack import Tensor, Type

TENSORS = "output_tensors.params"

_LIST_MAGIC = 0xF7E58D4F05049CB7
_RECORD_MAGIC = 0xDD5E40F096B4A13F
_COUNT_AT = 16
_FIRST_ROOM = 1 << 16
# What the bytes between the names and the first tensor are called.
_FILLER = "(room for names)"
_RECORD = struct.Struct("<QQiiiBBH")
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
    return (_RECORD.pack(_RECORD_MAGIC, 0, *_HOST, len(shape), dtype.code,
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
