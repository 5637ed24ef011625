"""Dumps whose graph says other shapes than their tensors have, and models with
sides that no memory holds."""

import json
import pathlib
import struct
import sys
import unittest

from support import Scratch, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, attribute, floats, ints,  # noqa: E402
                        onnx_graph, onnx_model, onnx_node, proto_tensor,
                        value_info)

DUMPED = "_tvmdbg_device_CPU_0/_nodewise_graph.json"


def model():
    return onnx_model(onnx_graph(
        [onnx_node("Mul", ["x", "c"], ["m"], name="times"),
         onnx_node("Tanh", ["m"], ["t"], name="middle"),
         onnx_node("Relu", ["t"], ["y"], name="last")],
        [value_info("x", dims=(2, 3))], [value_info("y", dims=(2, 3))],
        [floats("c", 1, 2, 3)]))


class OtherShapes(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", model())
        self.dump = self.folder / "dump"
        result = nodewise("dump", self.model, "--random-inputs", "1",
                          "--no-fuse", "--dump-root", self.dump)
        self.assertEqual(result.code, 0, result.err)
        self.sound = json.loads((self.dump / DUMPED).read_text())

    def changed(self, change):
        """The number of changes; each is made to one tensor of the graph."""
        count = len(self.sound["attrs"]["shape"][1])
        for entry in range(count):
            graph = json.loads(json.dumps(self.sound))
            change(graph["attrs"], entry)
            (self.dump / DUMPED).write_text(json.dumps(graph))
            yield entry

    def test_they_are_an_error_wherever_the_graph_is_used(self):
        def larger(attrs, entry):
            attrs["shape"][1][entry][-1] += 1

        def turned(attrs, entry):
            attrs["shape"][1][entry].reverse()
            attrs["shape"][1][entry].append(1)

        def integer(attrs, entry):
            attrs["dltype"][1][entry] = "int32"

        for change in (larger, turned, integer):
            for entry in self.changed(change):
                for arguments in (["locate", self.dump, "--method", "replay"],
                                  ["compare", self.dump, self.model],
                                  ["compare", self.model, self.dump]):
                    with self.subTest(change=change.__name__, entry=entry,
                                      verb=arguments[0]):
                        result = nodewise(*arguments)
                        self.assertEqual(result.code, 2, result)
                        self.assertIn("nodewise: ", result.err)
                        self.assertNotIn("check failed", result.err)


class HugeSides(Scratch):
    HUGE = 1 << 40

    def convert(self, node, x, more=(), emit=False):
        path = self.write("huge.onnx", onnx_model(onnx_graph(
            [node], [value_info("x", dims=x)], [value_info("y")], more)))
        return nodewise("convert", path, "-o", self.folder / "out",
                        *(["--emit", "c"] if emit else []))

    def test_they_are_lowered_or_refused(self):
        conv = onnx_node("Conv", ["x", "w"], ["y"])
        pool = onnx_node("AveragePool", ["x"], ["y"],
                         attribute("kernel_shape", [3]),
                         attribute("pads", [1, 1]))
        pad = onnx_node("Pad", ["x", "p"], ["y"])
        weights = proto_tensor("w", [1, 1, 1], FLOAT,
                               (9, struct.pack("<f", 1)))
        for node, more in ((conv, [weights]), (pool, ()),
                           (pad, [ints("p", 0, 0, 1, 0, 0, 1)])):
            for emit in (False, True):
                with self.subTest(emit=emit):
                    result = self.convert(node, (1, 1, self.HUGE), more, emit)
                    self.assertIn(result.code, (0, 2), result)
                    out = self.folder / "out"
                    for path in out.iterdir() if out.exists() else ():
                        self.assertLess(path.stat().st_size, 1 << 20)
                        path.unlink()


if __name__ == "__main__":
    unittest.main()
