"""The commands on ONNX models, put together here without ONNX."""

import pathlib
import struct
import sys
import unittest
import zipfile

from support import Scratch, Tensor, document, nodewise, npy_bytes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (BOOL, FLOAT, INT64, attribute,  # noqa: E402
                        floats, ints, onnx_graph, onnx_model, onnx_node,
                        proto_tensor, value_info)

UINT8, INT8 = 2, 3


def chain(*nodes, dims=(2, "n"), constants=(), stated=None):
    """A model from x to y."""
    return onnx_model(onnx_graph(nodes, [value_info("x", dims=dims)],
                                 [value_info("y", dims=stated)], constants))


def sound(*nodes, constants=()):
    """One that states all that the specification asks for."""
    return chain(*nodes, constants=constants, stated=(2, "n"))


NEG_ABS = sound(onnx_node("Neg", ["x"], ["m"], name="first"),
                onnx_node("Abs", ["m"], ["y"], name="second"))


class Models(Scratch):
    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def floats_file(self, name, *values):
        return self.write(name, floats("", *values))


class Verify(Models):
    def test_a_model_without_faults_exits_with_0(self):
        model = self.write("net.onnx", NEG_ABS)
        result = nodewise("verify", model)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.out, (
            "Structure (links, order, what depends on what): no faults\n"
            "Information (names, types, attributes): no faults\n"
            "Run time (what the targets can do): not checked: no target was "
            "named (--target onednn, c or reference)\n"
            f"{model}: 0 errors, 0 warnings\n"))

    def test_every_fault_is_listed(self):
        model = self.write("net.onnx", sound(
            onnx_node("SequenceAt", ["x"], ["a"], name="one"),
            onnx_node("Fused", ["a"], ["b"], domain="com.nowhere"),
            onnx_node("Neg", ["c"], ["y"])))
        result = nodewise("verify", model, "--json")
        self.assertEqual(result.code, 1, result)
        found = [error["where"] for error in document(result)["errors"]]
        self.assertEqual(found, [f"{model}: node Neg_2 (Neg, opset 13)",
                                 f"{model}: node one (SequenceAt, opset 13)",
                                 f"{model}: node Fused_1 (com.nowhere.Fused)"])

    # OV-01.
    def test_each_heading_says_what_was_found_or_why_nothing_was(self):
        network = self.write("net.txt", (
            b'version 2; network "net" { opset "" 13;\n'
            b'input %0 "x": float32[2];\n'
            b'#0 "first" = Relu@6(%0) -> %1 "y" barrier %2;\n'
            b'#1 "dead" = Neg@6(%0) -> %3 "z" barrier %4;\n'
            b'output %1; }\n'))
        found = document(nodewise("verify", network, "--target", "reference",
                                  "--json"))
        self.assertEqual(
            [(part["part"], part["checked"], part["errors"], part["warnings"])
             for part in found["parts"]],
            [("network-structure", True, 0, 1),
             ("network-information", True, 0, 0),
             ("network-run-time", True, 0, 0)])
        shown = nodewise("verify", network).out
        self.assertIn("depends on what):\n  warning: ", shown)
        self.assertIn("operation dead: no output of the network depends on it",
                      shown)

    # OV-01.
    def test_faults_of_a_model_stand_under_the_headings(self):
        model = self.write("bad.onnx", sound(
            onnx_node("SequenceAt", ["x"], ["s"], name="sequence"),
            onnx_node("Concat", ["x", "x"], ["t"], name="axisless"),
            onnx_node("Neg", ["nothing"], ["y"], name="loose")))
        shown = nodewise("verify", model)
        self.assertEqual(shown.code, 1, shown)
        self.assertNotIn("File:", shown.out)
        headings = [line for line in shown.out.splitlines()
                    if not line.startswith(" ")]
        self.assertEqual(headings[:3], [
            "Structure (links, order, what depends on what):",
            "Information (names, types, attributes), as far as it could be "
            "checked:",
            "Run time (what the targets can do): not checked: there are "
            "errors"])
        found = document(nodewise("verify", model, "--json"))
        self.assertEqual(
            [(error["part"], error["where"].split(" ")[-4])
             for error in found["errors"]],
            [("network-structure", "loose"), ("network-information",
             "axisless"), ("network-run-time", "sequence")])
        self.assertEqual(
            [(part["checked"], part["errors"], part.get("partly"))
             for part in found["parts"]],
            [(True, 1, None), (True, 1, True), (False, 1, None)])
        self.assertIn("attribute axis: is missing", shown.out)

    # OV-04.
    def test_a_cycle_of_a_model_is_a_path(self):
        model = self.write("cycle.onnx", sound(
            onnx_node("Add", ["x", "r"], ["p"], name="a"),
            onnx_node("Neg", ["p"], ["q"], name="b"),
            onnx_node("Abs", ["q"], ["r"], name="c"),
            onnx_node("Neg", ["r"], ["y"], name="d")))
        shown = nodewise("verify", model)
        self.assertEqual(shown.code, 1, shown)
        self.assertIn(f"  error: {model}: node a (Add, opset 13): depends on "
                      "itself: a -> b -> c -> a, expected no cycle\n",
                      shown.out)
        self.assertIn("1 error, 0 warnings", shown.out)

    # OV-05.
    def test_dead_operations_of_a_model_are_named(self):
        model = self.write("dead.onnx", sound(
            onnx_node("Neg", ["x"], ["y"], name="alive"),
            onnx_node("Abs", ["y"], ["z"], name="dead"),
            constants=[floats("spare", 1.0)]))
        shown = nodewise("verify", model)
        self.assertEqual(shown.code, 0, shown)
        self.assertIn("what depends on what):\n  warning: ", shown.out)
        self.assertIn("node dead (Abs, opset 13): no output depends on it",
                      shown.out)
        self.assertIn("initializer spare: no output depends on it", shown.out)
        self.assertIn("0 errors, 2 warnings", shown.out)

    # OV-16.
    def test_what_is_slow_on_the_target_is_a_warning_with_its_reason(self):
        model = self.write("net.onnx", NEG_ABS)
        shown = nodewise("verify", model, "--target", "reference")
        self.assertEqual(shown.code, 0, shown)
        self.assertIn("warning: ", shown.out)
        self.assertIn("reference is not at its best with Neg", shown.out)
        known = nodewise("verify", model, "--target", "reference",
                         "--dim", "n=3")
        self.assertNotIn("warning: ", known.out)

    def test_an_unknown_target_is_refused_with_those_that_there_are(self):
        model = self.write("net.onnx", NEG_ABS)
        error = self.refused("verify", model, "--target", "gpu")
        self.assertIn("--target gpu", str(error))
        self.assertIn("reference", str(error))

    def test_the_text_of_a_network_is_verified_under_any_name(self):
        text = self.write("copy.after.txt", (
            b'version 2; network "net" { opset "" 13;\n'
            b'input %0 "x": float32[2];\n'
            b'#0 "relu" = Relu@6(%0) -> %1 "y" barrier %2;\n'
            b'output %1; }\n'))
        shown = nodewise("verify", text)
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn(f"{text}: 0 errors, 0 warnings", shown.out)
        cut = self.write("copy.txt", b'version 2; network "net" { opset')
        self.assertIn("copy.txt", str(self.refused("verify", cut)))

    def test_what_is_not_a_model_cannot_be_judged(self):
        self.refused("verify", self.write("net.onnx", b"no model"))
        self.refused("verify", self.folder / "none.onnx")

    def test_dimensions_belong_to_models(self):
        self.write("graph.json", b"{}")
        error = self.refused("verify", self.folder / "graph.json",
                             "--dim", "n=1")
        self.assertIn(".onnx", str(error))


class Inspect(Models):
    def inspected(self, *arguments):
        result = nodewise("inspect", *arguments, "--json")
        self.assertEqual((result.code, result.err), (0, ""), result)
        return document(result)["files"][0]

    def test_a_model_shows_operators_types_and_constants(self):
        model = self.write("net.onnx", chain(
            onnx_node("Add", ["x", "w"], ["a"]),
            onnx_node("Add", ["a", "w"], ["b"]),
            onnx_node("Neg", ["b"], ["y"]), dims=(2,),
            constants=[floats("w", 1.0, 2.0)]))
        found = self.inspected(model)
        self.assertEqual(found["kind"], "model")
        self.assertEqual(found["opset"], 13)
        self.assertEqual(found["operators"],
                         [{"name": "Add", "uses": 2},
                          {"name": "Neg", "uses": 1}])
        self.assertEqual(found["outputs"], [{"name": "y",
                                             "type": "float32[2]"}])
        self.assertEqual(found["constants"],
                         {"tensors": 1, "elements": 2, "bytes": 8})

    def test_dimensions_can_be_given(self):
        model = self.write("net.onnx", NEG_ABS)
        self.assertEqual(self.inspected(model)["inputs"][0]["type"],
                         "float32[2, n]")
        found = self.inspected(model, "--dim", "n=5")
        self.assertEqual(found["outputs"][0]["type"], "float32[2, 5]")

    def test_a_pb_file_is_a_tensor(self):
        found = self.inspected(self.floats_file("x.pb", 1.0, 2.0))
        self.assertEqual((found["kind"], found["format"]), ("tensors", ".pb"))
        self.assertEqual(found["tensors"][0]["shape"], [2])


class Run(Models):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", chain(
            onnx_node("Neg", ["x"], ["y"]), dims=("n",)))

    def test_the_reference_runs_a_model(self):
        out = self.folder / "y.pb"
        result = nodewise("run", self.model, "--reference", "--input",
                          f"x={self.floats_file('x.pb', 1.0, -2.0)}",
                          "-o", out, "--json")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(document(result)["outputs"][0]["first"], [-1, 2])
        self.assertTrue(out.read_bytes().endswith(
            struct.pack("<2f", -1.0, 2.0)))

    def test_random_inputs_need_all_sizes(self):
        error = self.refused("run", self.model, "--reference",
                             "--random-inputs", "1")
        self.assertIn("--dim n=N", str(error))
        result = nodewise("run", self.model, "--reference",
                          "--random-inputs", "1", "--dim", "n=3")
        self.assertEqual(result.code, 0, result)

    def test_a_frozen_input_is_not_asked_for(self):
        result = nodewise("run", self.model, "--reference", "--freeze",
                          f"x={self.floats_file('x.pb', 3.0)}", "--json")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(document(result)["outputs"][0]["first"], [-3])

    def test_a_file_of_inputs_may_hold_what_is_frozen(self):
        inputs = self.folder / "inputs.npz"
        with zipfile.ZipFile(inputs, "w") as archive:
            for name in ("x", "w"):
                archive.writestr(f"{name}.npy", npy_bytes(
                    Tensor("float32", (2,), [1.0, 0.0])))
        x = self.floats_file("x.pb", 3.0, 0.0)
        # A graph runs the first, the interpreter the second.
        for op, first in (("Neg", [-4, 0]), ("NonZero", [0])):
            model = self.write("net.onnx", onnx_model(onnx_graph(
                [onnx_node("Add", ["x", "w"], ["s"]),
                 onnx_node(op, ["s"], ["y"])],
                [value_info(name, dims=(2,)) for name in ("x", "w")],
                [value_info("y")])))
            result = nodewise("run", model, "--freeze", f"x={x}", "--inputs",
                              inputs, "--json")
            self.assertEqual(result.code, 0, result)
            self.assertEqual(document(result)["outputs"][0]["first"], first)

    def test_inputs_are_checked(self):
        self.refused("run", self.model, "--reference")
        error = self.refused("run", self.model, "--reference", "--input",
                             f"z={self.floats_file('x.pb', 3.0)}")
        self.assertIn("input z: the model has none of that name, expected "
                      "one of x", str(error))

    def test_open_sizes_do_not_matter_for_a_run(self):
        result = nodewise("run", self.model, "--input",
                          f"x={self.floats_file('x.pb', 1.0, -2.0)}")
        self.assertEqual(result.code, 0, result)

    def test_sizes_that_only_data_decides_need_the_interpreter(self):
        model = self.write("places.onnx", chain(
            onnx_node("NonZero", ["x"], ["y"]), dims=(3,)))
        x = self.floats_file("x.pb", 1.0, 0.0, 2.0)
        result = nodewise("run", model, "--input", f"x={x}", "--json")
        self.assertEqual(result.code, 0, result)
        found = document(result)
        self.assertEqual(found["outputs"][0]["first"], [0, 2])
        self.assertIn("so the interpreter runs it", found["notes"][-1])

    def test_only_inputs_are_named_for_sizes_that_only_a_run_tells(self):
        body = onnx_graph(
            [onnx_node("Identity", ["go"], ["on"]),
             onnx_node("Relu", ["x"], ["each"])],
            [value_info("i", INT64, ()), value_info("go", BOOL, ())],
            [value_info("on", BOOL, ()), value_info("each", dims=(3,))])
        model = self.write("net.onnx", chain(
            onnx_node("Loop", ["n", "c"], ["y"], attribute("body", body),
                      name="loop"), dims=(3,), constants=(
                          ints("n", 4), proto_tensor("c", [1], BOOL,
                                                     (9, b"\1")))))
        error = self.refused("convert", model, "-o", self.folder / "net")
        self.assertIn("expected all its sizes known before the run (--inputs "
                      "FILE: nothing but its run can tell them)", error)

    def test_a_node_is_computed_by_what_computes_its_operations(self):
        # No library computes products with such a zero point of the weights.
        scale = ("s", [], FLOAT, (9, struct.pack("<f", 0.5)))
        zero = [("zx", UINT8, b"\0"), ("zw", INT8, b"\xa5"),
                ("zy", UINT8, b"\0")]
        model = self.write("net.onnx", onnx_model(onnx_graph(
            [onnx_node("QLinearMatMul",
                       ["x", "s", "zx", "w", "s", "zw", "s", "zy"], ["y"])],
            [value_info("x", UINT8, (1, 2))], [value_info("y", UINT8)],
            [proto_tensor(*scale),
             *(proto_tensor(name, [], kind, (9, data))
               for name, kind, data in zero),
             proto_tensor("w", [2, 2], INT8, (9, b"\1\2\3\4"))])))
        result = nodewise("run", model, "--random-inputs", "1", "--json")
        self.assertEqual(result.code, 0, result)
        found = document(result)
        self.assertEqual(found["kernels"], {"reference": 1})
        for refusal in found["refusals"]:
            self.assertEqual(refusal.count("QLinearMatMul: "), 1, refusal)

    def test_a_model_that_is_not_there_is_called_so(self):
        error = self.refused("run", "nowhere.onnx")
        self.assertIn("nowhere.onnx: cannot open: No such file", str(error))


class Extract(Models):
    def test_a_part_is_a_model_of_its_own(self):
        model = self.write("net.onnx", NEG_ABS)
        part = self.folder / "part.onnx"
        result = nodewise("extract", model, "--from", "m", "--to", "y",
                          "-o", part)
        self.assertEqual(result.code, 0, result)
        found = document(nodewise("inspect", part, "--json"))["files"][0]
        self.assertEqual(found["operators"], [{"name": "Abs", "uses": 1}])
        self.assertEqual(found["inputs"][0]["name"], "m")

    def test_an_operation_stands_for_what_it_reads_and_makes(self):
        model = self.write("net.onnx", NEG_ABS)
        part = self.folder / "part.onnx"
        result = nodewise("extract", model, "--from", "second", "--to",
                          "second", "-o", part, "--json")
        self.assertEqual(result.code, 0, result)
        found = document(result)
        self.assertEqual((found["inputs"], found["outputs"]),
                         (["m"], ["y"]))

    def test_unknown_names_are_refused(self):
        model = self.write("net.onnx", NEG_ABS)
        error = self.refused("extract", model, "--to", "nothing", "-o",
                             self.folder / "part.onnx")
        self.assertIn("what nothing uses", str(error))
        self.refused("extract", model, "-o", self.folder / "part.onnx")


if __name__ == "__main__":
    unittest.main()
