"""What nodewise run --stop-on says of where it stopped and what it saw."""

import unittest

from debug_support import DebugLibrary, chain
from support import (DATA, Scratch, Tensor, copy_graph, document, nodewise,
                     npy_bytes, params_bytes)

LIBRARY = DebugLibrary()


class Types(Scratch):
    def run_on(self, tensor):
        net = LIBRARY.artefact(self.folder / "net",
                               copy_graph(tensor.dtype, tensor.shape), {})
        inputs = self.write("in.params", params_bytes({"data": tensor}))
        given = ["run", net, "--inputs", inputs, "--stop-on", "nan"]
        shown, asked = nodewise(*given), nodewise(*given, "--json")
        self.assertEqual((shown.code, asked.code, asked.err), (0, 0, ""))
        return shown, document(asked)

    def test_says_which_outputs_it_did_not_look_at(self):
        shown, found = self.run_on(Tensor("int1", (3,), (0, 1, 1)))
        note = ("did not look at 1 output, whose types it cannot "
                "read: copy:0 (int1)")
        self.assertIn("\nno node that was looked at made such a value\n",
                      shown.out)
        self.assertIn(note, shown.err)
        self.assertEqual(found["notes"], [note])
        self.assertEqual(found["not_looked_at"], ["copy:0"])

    def test_looks_at_every_type_with_numbers(self):
        for dtype in ("float16", "float64", "int8", "bool", "bfloat16",
                      "e4m3_float8"):
            with self.subTest(dtype=dtype):
                shown, found = self.run_on(Tensor(dtype, (2,), (1, 0)))
                self.assertEqual(shown.err, "")
                self.assertIn("\nno node made such a value\n", shown.out)
                self.assertEqual(found["not_looked_at"], [])
                self.assertEqual(found["stopped_at"], "")
                self.assertFalse(found["made_the_value"])


class Members(Scratch):
    """Members of the document that depend on the options given."""

    def test_are_those_of_the_option(self):
        net = LIBRARY.artefact(self.folder / "net", chain("copy"), {})
        data = self.write("data.npy", npy_bytes(DATA))
        stops = {"stopped_at", "made_the_value", "not_looked_at"}
        table = [
            (["--patch", f"copy_0={data}"], set()),
            (["--until", "copy_0"], {"stopped_at"}),
            (["--stop-on", "nan"], stops),
            (["--stop-on", "nan", "--until", "copy_0"], stops),
        ]
        for given, members in table:
            with self.subTest(given=given):
                found = document(nodewise("run", net, "--input",
                                          f"data={data}", "--json", *given))
                self.assertEqual(set(found) & stops, members)


if __name__ == "__main__":
    unittest.main()
