"""What functions take, for type checkers."""

from __future__ import annotations

import os  # pylint: disable=unused-import
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, Union

from nodewise._runner import Runner, Runtime


class SupportsArray(Protocol):  # pylint: disable=too-few-public-methods
    """What becomes an array of numpy: also tensors of frameworks."""

    def __array__(self) -> Any: ...


class SupportsDlpack(Protocol):  # pylint: disable=too-few-public-methods
    """What lends its memory by DLPack."""

    def __dlpack__(self) -> Any: ...


class SupportsSerialize(Protocol):
    """An onnx.ModelProto."""

    @property
    def graph(self) -> Any:
        """The model's graph."""

    # pylint: disable-next=invalid-name
    def SerializeToString(self) -> bytes:
        """The model as the bytes of a file."""


class SupportsExport(Protocol):  # pylint: disable=too-few-public-methods
    """A module of TVM."""

    @property
    def export_library(self) -> Any:
        """Writes it to a file."""


TensorLike: TypeAlias = Union[SupportsArray, SupportsDlpack]
Path: TypeAlias = Union[str, "os.PathLike[str]"]
Target: TypeAlias = Union[str, "os.PathLike[str]", bytes, bytearray,
                          memoryview, SupportsSerialize, SupportsExport,
                          Runtime, Runner]
# The values of options, by what the command's help says of them.
Inputs: TypeAlias = Union[Path, Mapping[str, TensorLike],
                          Sequence[Union[Path, Mapping[str, TensorLike]]]]
Tensors: TypeAlias = Union[Mapping[str, Union[TensorLike, Path]], str,
                           Sequence[str]]
Names: TypeAlias = Union[Mapping[str, Union[str, int, float]], str,
                           Sequence[str]]
Number: TypeAlias = Union[int, float, str]
Value: TypeAlias = Union[Target, int, float,
                         Sequence[Union[Target, int, float]]]
