"""Words from files cannot control a terminal, look like a line of ours, or
turn what stands beside them around."""

import json
import re
import sys
import pathlib
import unittest

from support import (DATA, Graph, Library, Scratch, nodewise, params_bytes)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (floats, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, value_info)

# What a line of ours might look like follows the line end.
BAD = "\x1b]0;t\x07\x9b\u0085\u202e\u2066\u200f\u061c\u2028\nFORGED line\r\tx"

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f"
                    "\u2028-\u202e\u2060-\u206f\ufeff]")


def model():
    """y = relu(x * c), where everything has such a name."""
    def bad(name):
        return name + BAD

    return onnx_model(onnx_graph(
        [onnx_node("Mul", [bad("x"), bad("c")], [bad("m")], name=bad("times")),
         onnx_node("Relu", [bad("m")], [bad("y")], name=bad("last"))],
        [value_info(bad("x"), dims=(3,))], [value_info(bad("y"), dims=(3,))],
        [floats(bad("c"), 1, 2, 3)]))


class ForeignWords(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", model())

    def check(self, text, where):
        found = UNSAFE.search(text)
        self.assertIsNone(found, f"{where}: {text!r}")
        for line in text.split("\n"):
            self.assertFalse(line.startswith("FORGED"), f"{where}: {text!r}")

    def shown(self, *arguments):
        for more in ((), ("--json",)):
            result = nodewise(*arguments, *more)
            self.assertIn(result.code, (0, 1, 2), result)
            self.check(result.out, [*arguments, *more])
            self.check(result.err, [*arguments, *more])
            if more:
                json.loads(result.out)
        return result

    def test_no_verb_shows_them_as_they_are(self):
        out = self.folder / "out"
        dump = self.folder / "dump"
        with_inputs = [self.model, "--random-inputs", "1"]
        self.shown("inspect", self.model)
        self.shown("verify", self.model)
        self.shown("run", *with_inputs)
        self.shown("run", self.model)
        self.shown("profile", *with_inputs)
        self.shown("convert", self.model, "-o", out)
        self.shown("dump", *with_inputs, "--dump-root", dump)
        self.shown("inspect", dump)
        self.shown("compare", dump, dump)
        self.shown("compare", dump, dump, "--all")
        self.shown("locate", *with_inputs)
        self.shown("locate", dump, "--method", "replay")
        self.shown("run", out, "--random-inputs", "1")
        self.shown("inspect", out / "graph.json")
        self.shown("inspect", out / "params.params")
        self.shown("run", self.model, "--input", f"{BAD}={self.model}")
        self.shown("extract", self.model, "--from", BAD, "--to", BAD, "-o",
                   self.folder / "part.onnx")
        self.shown("inspect", self.folder / BAD.replace("/", "_"))

    def test_csv_has_no_formula_and_numbers_stay_numbers(self):
        graph = Graph()
        data = graph.input("data", "float32", (2, 3))
        graph.output(graph.call("copy", [data], "float32", (2, 3),
                                "=HYPERLINK(\"x\")"))
        net = Library().artefact(self.folder / "net", graph, {})
        inputs = self.write("in.params", params_bytes({"data": DATA}))
        out = nodewise("profile", net, "--inputs", inputs, "--csv").out
        lines = out.splitlines()
        self.assertIn("'=HYPERLINK", lines[1])
        cells = lines[1].split(",")
        self.assertEqual(cells[0], str(int(cells[0])))


if __name__ == "__main__":
    unittest.main()
