"""Real models that today's TVM has compiled: most of their nodes are known
again, and none is accused. With NODEWISE_TEST_FULL there are more models;
align_light_models.py does all of them, with fresh weights."""

import unittest

import align_light_models
import tvm_package

SEED = 1
# Those that take the least time.
MODELS = ("squeezenet", "shufflenet") if tvm_package.IS_FULL else (
    "squeezenet",)


class LightModels(unittest.TestCase):
    def test_most_nodes_hold_a_tensor_of_the_model_and_none_is_accused(self):
        tvm_package.need()
        for name in MODELS:
            for one in align_light_models.align(SEED, name):
                with self.subTest(one.name):
                    self.assertGreater(one.nodes, 30)
                    self.assertTrue(one.is_right(), str(one))

    def test_every_model_that_is_named_is_there(self):
        tvm_package.need()
        self.assertLessEqual(set(MODELS), set(align_light_models.models()))


if __name__ == "__main__":
    unittest.main()
