"""The light models of ONNX's package, computed with oneDNN.

The models of the package have weights that are all the same; most tests here
draw others. A sample of them, with --full all.
"""

import array
import functools
import json
import mmap
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import onnx_package

BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD",
                                    onnx_package.ROOT / "build"))
MAKER = pathlib.Path(__file__).resolve().parent / "light_models.py"
SAMPLE = ["light_shufflenet", "light_squeezenet", "encoder"]
# These do all but a hundredth of the work of a usual network.
HEAVY = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
# How far outputs may be from the reference's, as a share of their range. Found
# are 3e-8 to 1e-5, the most where a Softmax tells large numbers apart.
TOLERANCE = 5e-5


def execute(verb, model, *options):
    """The document of a verb on a model with drawn inputs."""
    ran = subprocess.run(
        [BUILD / "bin/nodewise", verb, model, "--random-inputs", "1", "--json",
         *options], stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr
    return json.loads(ran.stdout)


def light_models():
    light = onnx_package.need() / "backend/test/data/light"
    return sorted(light.glob("*.onnx"))


def skip_without_onednn(document):
    if "oneDNN" not in document["kernels"]:
        raise unittest.SkipTest("this build has no oneDNN")


def outside_of_onednn(document):
    """The operations that the reference has computed, by the names of nodes
    and operations."""
    names = []
    for refusal in document["refusals"]:
        names.append(re.match(r"node (?:.*, operation )?(.*?): oneDNN: ",
                              refusal)[1])
    return names


class PackageTest(unittest.TestCase):
    def test_all_heavy_operations_run_in_onednn(self):
        models = light_models()
        self.assertGreater(len(models), 5)
        for model in models:
            with self.subTest(model=model.name):
                found = execute("run", model)
                skip_without_onednn(found)
                refused = {refusal.partition("oneDNN: ")[2].partition(":")[0]
                           for refusal in found["refusals"]}
                self.assertEqual(refused & HEAVY, set())


class DrawnWeightsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        onnx_package.need()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.names = SAMPLE
        if os.environ.get("NODEWISE_TEST_FULL"):
            cls.names = onnx_package.run(MAKER, cls.folder).stdout.split()
        made = onnx_package.run(MAKER, cls.folder, *cls.names)
        assert made.returncode == 0, made.stderr

    @classmethod
    @functools.cache
    def ran(cls, name, *options):
        """What `run` says, and the numbers of the only output."""
        path = cls.folder / "out.npy"
        found = execute("run", cls.folder / f"{name}.onnx", "-o", path,
                        *options)
        (output,) = found["outputs"]
        assert output["nans"] == 0, output
        return found, array.array("f", path.read_bytes()[-output["bytes"]:])

    def share_in_onednn(self, name):
        found, _ = self.ran(name)
        skip_without_onednn(found)
        work = json.loads((self.folder / f"{name}.json").read_text())
        outside = outside_of_onednn(found)
        # Both count the same operations. Those of constants take no work, and
        # have been replaced by their results or not.
        self.assertLessEqual(sum(map(bool, work.values())),
                             sum(found["operations"].values()))
        self.assertLessEqual(sum(found["operations"].values()), len(work))
        self.assertEqual(found["operations"].get("reference", 0), len(outside))
        self.assertLessEqual(set(outside), set(work))
        self.assertEqual([r for r in found["remarks"]
                          if "computed by the definitions" in r], [])
        return 1 - sum(work[node] for node in outside) / sum(work.values())

    def test_nine_tenths_of_the_work_are_done_in_onednn(self):
        shares = {name: self.share_in_onednn(name) for name in self.names}
        self.assertGreaterEqual(min(shares.values()), 0.9, shares)
        # Something is done elsewhere; otherwise nothing may have been counted.
        self.assertLess(min(shares.values()), 1, shares)

    def test_outputs_are_those_of_the_reference(self):
        for name in self.names:
            with self.subTest(model=name):
                _, found = self.ran(name)
                _, expected = self.ran(name, "--reference")
                # One that is the same everywhere would show nothing.
                spread = max(expected) - min(expected)
                self.assertGreater(spread, 0.5 * max(map(abs, expected)))
                error = max(abs(a - b) for a, b in zip(found, expected))
                self.assertLessEqual(error, TOLERANCE * spread)

    def test_profile_and_dump_run_the_model_as_run_does(self):
        for name in self.names:
            if name == "encoder":  # Takes long, and is not a light model.
                continue
            for options in ((), ("--reference",)):
                with self.subTest(model=name, options=options):
                    self.compare_verbs(name, options)

    def compare_verbs(self, name, options):
        model = self.folder / f"{name}.onnx"
        ran, output = self.ran(name, *options)
        profiled = execute("profile", model, "--runs", "1", "--warm-up", "0",
                           *options)
        with tempfile.TemporaryDirectory(dir=self.folder) as root:
            dumped = execute("dump", model, "--dump-root", root, *options)
            path = pathlib.Path(dumped["dumps"][0]) / "output_tensors.params"
            with open(path, "rb") as file, mmap.mmap(
                    file.fileno(), 0, access=mmap.ACCESS_READ) as tensors:
                self.assertGreaterEqual(tensors.find(output.tobytes()), 0)
        for found in (profiled, dumped):
            self.assertTrue(found["plain_run"]["same_bits"])
            self.assertEqual(found["operations"], ran["operations"])
            self.assertEqual(found["refusals"], ran["refusals"])
            self.assertEqual(len(found["profile"]["nodes"]),
                             sum(ran["kernels"].values()))


if __name__ == "__main__":
    unittest.main()
