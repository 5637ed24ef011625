"""nodewise align and locate beside a model, on what today's TVM makes of it in
types with fewer bits, quantised, or with tensors joined. With
NODEWISE_TEST_FULL plain builds are looked at, too."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import tvm_package

SEED = 1
# The networks, how they are compiled, and the models beside which that is
# looked at.
BUILDS = {"image": ["half", "steps"],
          "attention": ["mixed", "whole", "joined"]}
MODELS = {"half": ["model", "half"], "steps": ["model", "steps"]}


class ShortTypes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tvm_package.need()
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.root = pathlib.Path(scratch.name) / "made"
        cls.builds = []
        for network, ways in BUILDS.items():
            if tvm_package.IS_FULL:
                ways = ways + [f"{way}-plain" for way in ways]
            made = tvm_package.run(tvm_package.HERE / "short_types.py",
                                   cls.root, SEED, network, *ways)
            if made.returncode != 0:
                raise RuntimeError(made.stderr)
            cls.builds += [
                (network, way, model) for way in ways for model in MODELS.get(
                    way.partition("-")[0], ["model"])]

    def ask(self, verb, network, way, model):
        folder = self.root / network
        reference = [folder / f"{model}.onnx"]
        if verb == "locate":
            reference.insert(0, "--reference")
        inputs = "half.npz" if way.startswith("half") else "inputs.npz"
        ran = subprocess.run(
            [tvm_package.NODEWISE, verb, folder / f"{way}.so", *reference,
             "--inputs", folder / inputs, "--json"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=600, check=False)
        return json.loads(ran.stdout)

    def test_no_node_is_accused(self):
        for build in self.builds:
            with self.subTest(build):
                found = self.ask("locate", *build)
                self.assertEqual(found.get("culprits"), [],
                                 found.get("errors"))

    def test_nodes_are_found_in_the_model(self):
        for build in self.builds:
            with self.subTest(build):
                found = self.ask("align", *build)
                self.assertGreaterEqual(
                    found["matched"] + found["between"], found["nodes"])
                self.assertGreaterEqual(found["matched"],
                                        0.9 * found["nodes"])

    def test_integers_stand_for_floats_with_their_scale(self):
        found = self.ask("align", "attention", "whole", "model")
        layouts = [entry.get("layout", "") for entry in found["entries"]]
        self.assertTrue(any("quantised, scale" in text for text in layouts),
                        layouts)

    def test_joined_products_are_named(self):
        found = self.ask("align", "attention", "joined", "model")
        joined = [entry for entry in found["entries"]
                  if "joined along side" in entry.get("layout", "")]
        self.assertEqual([entry["tensors"] for entry in joined],
                         [["q_product", "k_product", "v_product"]])


if __name__ == "__main__":
    unittest.main()
