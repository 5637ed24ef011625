"""The light models of ONNX's package, computed with oneDNN."""

import json
import os
import pathlib
import subprocess
import unittest

import onnx_package

BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD",
                                    onnx_package.ROOT / "build"))
# Of a usual network these do all but a hundredth of the work.
HEAVY = {"Conv", "ConvTranspose", "Gemm", "MatMul"}


class LightModelsTest(unittest.TestCase):
    def ran(self, model):
        ran = subprocess.run(
            [BUILD / "bin/nodewise", "run", model, "--random-inputs", "1",
             "--json"], stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=300, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout[-2000:] + ran.stderr)
        return json.loads(ran.stdout)

    def test_all_heavy_operations_run_in_onednn(self):
        light = onnx_package.need() / "backend/test/data/light"
        models = sorted(light.glob("*.onnx"))
        self.assertGreater(len(models), 5)
        for model in models:
            with self.subTest(model=model.name):
                found = self.ran(model)
                if "oneDNN" not in found["kernels"]:
                    self.skipTest("this build has no oneDNN")
                refused = {refusal.partition("oneDNN: ")[2].partition(":")[0]
                           for refusal in found["refusals"]}
                self.assertEqual(refused & HEAVY, set())


if __name__ == "__main__":
    unittest.main()
