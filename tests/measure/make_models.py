"""Writes the light models of ONNX's package with drawn weights.

usage: make_models.py FOLDER SEED...

Makes FOLDER/NAME_SEED.onnx for each model and seed, as far as it is not there,
in an opset that has quantised operations.
For the Python that has the package; see tests/onnx/onnx_package.py.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import version_converter

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

# pylint: disable=wrong-import-position
import seeded_models  # noqa: E402

OPSET = 13


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for seed in map(int, sys.argv[2:]):
        for path in sorted(seeded_models.LIGHT.glob("*.onnx")):
            target = folder / f"{path.stem}_{seed}.onnx"
            if target.exists():
                continue
            model = seeded_models.seeded(onnx.load(path),
                                         np.random.default_rng(seed))
            # The name appears when the file is complete.
            part = target.with_suffix(".part")
            onnx.save(version_converter.convert_version(model, OPSET), part)
            part.rename(target)


if __name__ == "__main__":
    main()
