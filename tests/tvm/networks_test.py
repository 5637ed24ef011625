"""Networks compiled by today's TVM: nodewise runs the library as it stands,
and every output has the bits that TVM's own VM makes."""

import functools
import pathlib
import tempfile
import unittest

import tvm_package

SAMPLE = ("mlp", "outputs_and_tuples", "halves", "open_lengths")
OTHERS = ("convnet_with_pooling", "depthwise_and_grouped_convolutions",
          "attention", "transformer_block", "reductions", "integers_and_bools",
          "quantised", "indexing_and_shapes", "sorted_values", "open_batch",
          "numbers")
NETWORKS = SAMPLE + OTHERS if tvm_package.IS_FULL else SAMPLE


@functools.cache
def compiled():
    """A folder that has one for each network and way of compiling it."""
    tvm_package.need()
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    out = pathlib.Path(folder.name)
    # All of them, so that none is forgotten here.
    wanted = () if tvm_package.IS_FULL else NETWORKS
    ran = tvm_package.run(tvm_package.HERE / "compile_networks.py", out,
                          *wanted)
    if ran.returncode != 0:
        raise AssertionError(ran.stderr)
    return out


class NetworkTest(unittest.TestCase):
    def test_every_network_is_in_the_list(self):
        found = {path.name.rpartition("-")[0] for path in compiled().iterdir()}
        self.assertEqual(found, set(NETWORKS))


def add_test(network, way):
    def test(self):
        folder = compiled() / f"{network}-{way}"
        error = folder / "tvm_error.txt"
        self.assertFalse(error.exists(), error.exists() and error.read_text())
        function = (folder / "function.txt").read_text()
        self.assertEqual(
            tvm_package.compare(folder, "--function", function), "")
    setattr(NetworkTest, f"test_{network}_{way}", test)


for each in NETWORKS:
    add_test(each, "plain")
    add_test(each, "fused")

if __name__ == "__main__":
    unittest.main()
