"""The command on libraries with bytecode of the Relax VM."""

import struct
import unittest

from support import (BUILD, Scratch, Tensor, document, nodewise, npy_bytes,
                     with_one)

LIBRARIES = BUILD / "tests/libraries"
ONES = Tensor("float32", (4,), [1, 2, 3, 4])


class VmLibrary(Scratch):
    def setUp(self):
        super().setUp()
        # The name does not say what it is.
        self.target = self.folder / "network.so"
        self.target.write_bytes((LIBRARIES / "vm_ffi.so").read_bytes())
        self.input = self.folder / "x.npy"
        self.input.write_bytes(npy_bytes(ONES))

    def test_runs_as_it_stands(self):
        found = document(nodewise("run", self.target, "--input",
                                  f"x={self.input}", "--json"))
        self.assertEqual(found["status"], "ok")
        self.assertEqual(found["outputs"][0]["max"], 44)
        self.assertEqual(found["inputs"][0]["name"], "x")

    def test_function_can_be_named(self):
        found = document(nodewise("run", self.target, "--function", "main",
                                  "--random-inputs", 1, "--json"))
        self.assertEqual(found["target"]["function"], "main")
        refused = nodewise("run", self.target, "--function", "mian",
                           "--random-inputs", 1)
        self.assertEqual(refused.code, 2)
        self.assertIn("has no function mian, expected one of: main",
                      refused.err)

    def test_verify_judges_without_running(self):
        shown = nodewise("verify", self.target)
        self.assertEqual(shown.code, 0, shown)
        damaged = nodewise("verify", LIBRARIES / "vm_damaged.so")
        self.assertEqual(damaged.code, 1, damaged)
        self.assertIn("bytecode magic", damaged.out)

    def test_inspect_shows_functions_and_the_graph(self):
        shown = nodewise("inspect", self.target)
        self.assertEqual(shown.code, 0, shown)
        self.assertRegex(shown.out, r"main\(x\)  6 instructions, 3 nodes")
        self.assertIn("the graph of main:", shown.out)
        found = document(nodewise("inspect", self.target, "--json"))
        bytecode = found["files"][0]["bytecode"]
        self.assertEqual(bytecode["version"], "0.14")
        self.assertEqual(bytecode["functions"][0]["params"], ["x"])
        self.assertTrue(bytecode["functions"][0]["is_graph"])
        self.assertEqual(found["files"][0]["graph"]["function"], "main")

    def test_function_means_nothing_for_other_targets(self):
        shown = nodewise("run", LIBRARIES / "factory.so", "--function", "main",
                         "--random-inputs", 1)
        self.assertEqual(shown.code, 2)
        self.assertIn("leave out --function", shown.err)

    def test_compiled_function_has_no_instructions(self):
        # The numbers in it mean nothing.
        name = struct.pack("<Q4s", 4, b"main")
        least, most = -2 ** 63, 2 ** 63 - 1
        self.target.write_bytes(with_one(
            self.target.read_bytes(),
            struct.pack("<i", 1) + name + struct.pack("<4q", 0, 6, 1, 3),
            struct.pack("<i", 2) + name + struct.pack("<4q", most, least, 1,
                                                      least)))
        found = document(nodewise("inspect", self.target, "--json"))
        function, = found["files"][0]["bytecode"]["functions"]
        self.assertEqual((function["kind"], function["instructions"],
                          function["registers"]), ("compiled", 0, 0))


if __name__ == "__main__":
    unittest.main()
