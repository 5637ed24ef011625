"""Options that mean nothing for the files they are given with are refused."""

import pathlib
import sys
import unittest

import support
from support import (BIAS, BUILD, DATA, Scratch, add_bias_graph, nodewise,
                     npy_bytes)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (onnx_graph, onnx_model, onnx_node,  # noqa: E402
                        value_info)

LIBRARY = support.Library()
VM_LIBRARY = BUILD / "tests/libraries/vm_ffi.so"


class UnusedOptions(Scratch):
    def setUp(self):
        super().setUp()
        self.net = LIBRARY.artefact(self.folder / "net", add_bias_graph(),
                                    {"bias": BIAS})
        self.model = self.write("net.onnx", onnx_model(onnx_graph(
            [onnx_node("Neg", ["x"], ["y"])],
            [value_info("x", dims=(2, "n"))], [value_info("y")])))

    def test_verify_has_a_function_for_vm_libraries_only(self):
        factory = BUILD / "tests/libraries/factory.so"
        for target in ([self.net], [factory],
                       [self.net / "graph.json", "--lib", VM_LIBRARY]):
            with self.subTest(target=target):
                error = self.refused("verify", *target, "--function", "main")
                self.assertIn(f"{target[0]}: is not a VM library, so it has no "
                              "function main to choose (leave out "
                              "--function)", error)
        shown = nodewise("verify", VM_LIBRARY, "--function", "main")
        self.assertEqual(shown.code, 0, shown)

    def test_verify_of_a_damaged_vm_library_says_what_is_wrong_with_it(self):
        shown = nodewise("verify", BUILD / "tests/libraries/vm_damaged.so",
                         "--function", "main")
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("bytecode magic", shown.out)

    def test_model_has_no_use_for_an_artefacts_options(self):
        table = [
            (["verify"], ["--function", "x"]),
            (["verify"], ["--lib", LIBRARY.path]),
            (["run", "--reference"], ["--function", "x"]),
            (["run", "--reference"], ["--params", LIBRARY.path]),
            (["run", "--reference"], ["--device", "cpu"]),
        ]
        for (verb, *options), given in table:
            with self.subTest(verb=verb, given=given):
                error = self.refused(verb, self.model, *options, *given)
                self.assertIn("net.onnx: is an ONNX model, expected no "
                              f"{given[0]}\n", error)

    def test_inspect_has_options_of_models_for_models_only(self):
        tensor = self.write("x.npy", npy_bytes(DATA))
        graph = self.net / "graph.json"
        for files in ([graph], [self.net], [tensor, VM_LIBRARY]):
            for option in (["--dim", "x=1"], ["--freeze", f"x={tensor}"]):
                with self.subTest(files=files, option=option):
                    error = self.refused("inspect", *files, *option)
                    self.assertIn(f"{option[0]}: found no .onnx file, "
                                  "expected one with it\n", error)

    def test_inspect_has_a_function_for_vm_libraries_only(self):
        for files in ([self.net / "graph.json"], [self.net], [self.model],
                      [LIBRARY.path]):
            with self.subTest(files=files):
                error = self.refused("inspect", *files, "--function", "main")
                self.assertIn("--function: found no VM library, expected one "
                              "with it\n", error)

    def test_inspect_wants_one_file_with_a_use_for_an_option(self):
        shown = nodewise("inspect", self.net, self.model, VM_LIBRARY,
                         "--dim", "n=5", "--function", "main")
        self.assertEqual(shown.code, 0, shown)
        self.assertIn("float32[2, 5]", shown.out)
        self.assertIn("the graph of main:", shown.out)

    def test_inspect_says_first_that_a_file_is_not_there(self):
        error = self.refused("inspect", self.folder / "no", "--dim", "n=5",
                             "--function", "main")
        self.assertIn("no: cannot open: No such file", error)


if __name__ == "__main__":
    unittest.main()
