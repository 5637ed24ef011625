"""Random calls of networks that Python keeps loaded. The suite `asan` runs this
file once more, with a native module that watches its memory."""

import os
import random
import unittest

import numpy
from package_support import (HAS_NATIVE, INPUTS, PackageTest,
                             data_dependent_model, nodewise, open_model)

# They fill the disk, take hours, and leave nothing to be called.
LEFT_OUT = ("record", "time_runs", "close")
# So many tensors are used after the calls that made them.
MOST_HELD = 50


@unittest.skipUnless(HAS_NATIVE, "the native module was not built")
class RandomCallsTest(PackageTest):
    def setUp(self):
        self.rng = random.Random()
        self.held = []
        # With shapes of what they take. numpy does not free what has less than
        # 1,024 bytes.
        self.models = [(self.model, [3]), (open_model(300), [300, 2]),
                       (open_model(), [200, 2]), (open_model(), [5, 2]),
                       (data_dependent_model(), [4])]
        self.shape = [3]
        self.values = [
            None, 3, -1, 2**70, 1.5, "x", "y", "times", "last", "#1", "", "\0",
            "\udcff", b"x", [], {}, object(), numpy.zeros(3),
            numpy.zeros(3, "float32"), numpy.zeros((2, 3), "float32"),
            numpy.zeros(0, "float32"), numpy.float32(1), numpy.array(["a"]),
            INPUTS, {"x": None}, {3: 4}, True, float("nan"), self.folder,
            {"x": numpy.zeros(4, "float32")}]

    def test_ten_thousand_random_calls_raise_errors_or_work(self):
        seed = int(os.environ.get("NODEWISE_TEST_SEED") or
                   random.SystemRandom().randrange(2**32))
        print(f"seed {seed}; again: NODEWISE_TEST_SEED={seed} python "
              "tests/python/random_calls_test.py")
        self.rng.seed(seed)
        names = [name for name in dir(nodewise.Session)
                 if not name.startswith("_") and name not in LEFT_OUT]
        methods = [name for name in names
                   if callable(getattr(nodewise.Session, name))]
        works = dict.fromkeys(names, 0)
        net = nodewise.load(self.model)
        for number in range(10000):
            change = self.rng.random()
            if change < .005:
                net.close()
            elif change < .04:
                model, self.shape = self.rng.choice(self.models)
                net = nodewise.load(model, no_fuse=True)
            name = self.rng.choice(names + methods * 2)
            words = self.words(name)
            try:
                self.call(net, name, words)
                works[name] += 1
                if self.held:
                    self.use(self.rng.choice(self.held))
            except (nodewise.Error, TypeError, UnicodeError):
                continue
            except Exception as error:
                raise AssertionError(f"seed {seed}, call {number}: "
                                     f"{name}{tuple(words)}") from error
        self.assertFalse([name for name in names if not works[name]],
                         "some calls never work")

    def words(self, name):
        """Half of the calls may work: of any words hardly one would."""
        if self.rng.random() < .5:
            return [self.value()
                    for _ in range(self.rng.choice([0, 1, 1, 2]))]
        given = {"x": self.tensor()}
        return {"run": self.rng.choice([[], [given]]), "set": [given],
                "bind": ["x", self.tensor()], "input": ["x"],
                "patch": [self.node(), self.tensor()],
                "tensor": [self.node()], "run_until": [self.node()],
                }.get(name, [])

    def value(self):
        if self.held and self.rng.random() < .2:
            return self.rng.choice(self.held)
        return self.rng.choice(self.values)

    def tensor(self):
        """One that only what is called keeps alive, or that a call made."""
        if self.held and self.rng.random() < .2:
            return self.rng.choice(self.held)
        shape = self.shape if self.rng.random() < .8 else [7, 2]
        return numpy.ones(shape, "float32")

    def node(self):
        return self.rng.choice(["times", "plus", "last", "find", "minus"])

    def call(self, net, name, words):
        called = getattr(net, name)
        made = called(*words) if callable(called) else called
        found = made.values() if isinstance(made, dict) else [made]
        self.held += [each for each in found
                      if isinstance(each, nodewise.Tensor)]
        if len(self.held) > MOST_HELD:
            self.rng.shuffle(self.held)
            del self.held[MOST_HELD // 2:]

    def use(self, tensor):
        """Reads a tensor and writes to it, no matter what has become of the
        network that it came from."""
        array = tensor.numpy()
        array.sum()
        if not tensor.is_read_only and self.rng.random() < .5:
            array[...] = self.rng.choice([0, 1])


if __name__ == "__main__":
    unittest.main()
