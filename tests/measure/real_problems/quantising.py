"""Models as onnxruntime's quantiser makes them."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Iterable

import numpy
from onnxruntime.quantization import (CalibrationDataReader, QuantFormat,
                                      QuantType, quantize_dynamic,
                                      quantize_static)


class _Samples(CalibrationDataReader):
    def __init__(self, samples: Iterable[dict[str, numpy.ndarray]]):
        self._samples = iter(samples)

    def get_next(self) -> dict[str, numpy.ndarray] | None:
        return next(self._samples, None)


def quantise(source: pathlib.Path, made: pathlib.Path,
             samples: Iterable[dict[str, numpy.ndarray]],
             **options: object) -> None:
    """Writes a model with pairs of QuantizeLinear and DequantizeLinear."""
    settings = {"quant_format": QuantFormat.QDQ,
                "activation_type": QuantType.QUInt8,
                "weight_type": QuantType.QInt8, **options}
    # It tells of every model that was not prepared with its own tool.
    logging.disable(logging.WARNING)
    quantize_static(source, made, _Samples(samples), **settings)
    logging.disable(logging.NOTSET)


def quantise_weights(source: pathlib.Path, made: pathlib.Path) -> None:
    """Writes a model with signed weights whose products are of integers."""
    logging.disable(logging.WARNING)
    quantize_dynamic(source, made, weight_type=QuantType.QInt8)
    logging.disable(logging.NOTSET)
