"""nodewise locate beside a model, where the values alone say little: the small
models of doubtful_models.py, fused and plain."""

import json
import pathlib
import tempfile
import unittest

import judge_faulty_models
import tvm_package

MOST_NAMED = 4


class DoubtfulModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tvm_package.need()
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name) / "made"
        made = tvm_package.run(tvm_package.HERE / "doubtful_models.py",
                               cls.folder)
        if made.returncode != 0:
            raise RuntimeError(made.stderr)

    def test_each_fault_is_one_culprit_and_sound_models_have_none(self):
        models = sorted(self.folder.iterdir())
        self.assertEqual(len(models), 8)
        for model in models:
            truth = json.loads((model / "truth.json").read_text())
            for way in judge_faulty_models.WAYS:
                for name, tensor in [("good", None), *truth.items()]:
                    with self.subTest(f"{model.name} {way} {name}"):
                        self.check(model, f"{name}-{way}.so", tensor)

    def check(self, model, library, tensor):
        found = judge_faulty_models.locate(model, library)
        self.assertFalse(found.get("errors"))
        named = [c["source_tensors"] for c in found["culprits"]]
        if tensor is None:
            self.assertEqual(named, [])
            return
        self.assertEqual(len(named), 1, named)
        self.assertIn(tensor, named[0])
        self.assertLessEqual(len(found["culprits"][0]["source_nodes"]),
                             MOST_NAMED)


if __name__ == "__main__":
    unittest.main()
