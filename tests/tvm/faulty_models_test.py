"""nodewise locate beside a model, on networks with one fault that today's TVM
has compiled. With NODEWISE_TEST_FULL there are more faults; fresh ones are
drawn by judge_faulty_models.py."""

import pathlib
import tempfile
import unittest

import judge_faulty_models
import tvm_package

SEED = 1
NETWORKS = 6 if tvm_package.IS_FULL else 3
FAULTS = 10 if tvm_package.IS_FULL else 2


class FaultyModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tvm_package.need()
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name) / "made"
        judge_faulty_models.make(folder, SEED, FAULTS, NETWORKS)
        judged = judge_faulty_models.judge(folder)
        cls.sound = [one for one in judged if one.tensor is None]
        cls.broken = [one for one in judged if one.tensor is not None]

    def test_sound_networks_accuse_no_node(self):
        self.assertEqual(len(self.sound), 2 * NETWORKS)
        for one in self.sound:
            with self.subTest(one.title):
                self.assertTrue(one.is_right(), str(one))

    def test_the_broken_operation_is_named_among_a_few(self):
        self.assertEqual(len(self.broken), 2 * NETWORKS * FAULTS)
        for one in self.broken:
            with self.subTest(one.title):
                self.assertTrue(one.is_right(), str(one))
        first = sum(one.is_first() for one in self.broken)
        self.assertGreaterEqual(first, 0.8 * len(self.broken))


if __name__ == "__main__":
    unittest.main()
