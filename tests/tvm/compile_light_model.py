"""usage: compile_light_model.py LIST
       compile_light_model.py OUT SEED NAME...

Has TVM compile light models of ONNX's package with drawn weights: OUT/NAME has
model.onnx, fused.so and plain.so. LIST is the word "list": prints the names that there
are, the smallest file first. For the Python that has TVM.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import shape_inference
from tvm.relax.frontend.onnx import from_onnx

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

# pylint: disable=wrong-import-position
import seeded_models  # noqa: E402
import tvm_side  # noqa: E402


def names():
    models = seeded_models.LIGHT.glob("light_*.onnx")
    return [path.stem.removeprefix("light_")
            for path in sorted(models, key=lambda path: path.stat().st_size)]


def make(folder, seed, name):
    folder.mkdir(parents=True)
    model = seeded_models.seeded(
        onnx.load(seeded_models.LIGHT / f"light_{name}.onnx"),
        np.random.default_rng(seed))
    model = shape_inference.infer_shapes(model)
    onnx.save(model, folder / "model.onnx")
    module = from_onnx(model, keep_params_in_input=False)
    for way in ("fused", "plain"):
        tvm_side.build(module, way == "fused").export_library(
            str(folder / f"{way}.so"))


def main():
    if sys.argv[1:] == ["list"]:
        print("\n".join(names()))
        return
    for name in sys.argv[3:]:
        make(pathlib.Path(sys.argv[1]) / name, int(sys.argv[2]), name)


if __name__ == "__main__":
    main()
