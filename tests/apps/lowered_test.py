"""Verbs on ONNX models that become graphs, and the folders of `convert`."""

import json
import pathlib
import struct
import sys
import unittest

from support import Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, floats, ints, onnx_graph,  # noqa: E402
                        onnx_model, onnx_node, proto_tensor, value_info)


TURN = onnx_node("Reshape", ["x", "row"], ["z"], name="turn")


def residual(dims=(2, 3), last=TURN):
    """y = softmax(relu(x * w + x)), z = x turned into one row: four operations
    of which two fuse."""
    return onnx_model(onnx_graph(
        [onnx_node("Mul", ["x", "w"], ["m"], name="scale"),
         onnx_node("Add", ["m", "x"], ["a"], name="sum"),
         onnx_node("Softmax", ["a"], ["y"], name="soft"),
         last],
        [value_info("x", dims=dims)], [value_info("y"), value_info("z")],
        [floats("w", 0.1, 0.7, -3.0), ints("row", 1, -1)]))


class Lowered(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", residual())

    def converted(self, *options):
        folder = self.folder / "net"
        result = nodewise("convert", self.model, "-o", folder, *options)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return folder

    def ran(self, target, *options):
        result = nodewise("run", target, "--random-inputs", "1", "--json",
                          *options)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return document(result)


class Convert(Lowered):
    def test_a_folder_runs_as_its_model_does(self):
        folder = self.converted()
        outputs = []
        for number, target in enumerate((self.model, folder)):
            out = self.folder / f"out{number}.npz"
            self.ran(target, "-o", out)
            outputs.append(out.read_bytes())
        self.model.unlink()
        out = self.folder / "out2.npz"
        self.ran(folder, "-o", out)
        outputs.append(out.read_bytes())
        self.assertEqual(outputs[0], outputs[1])
        self.assertEqual(outputs[0], outputs[2])

    def test_the_folder_is_without_faults(self):
        result = nodewise("verify", self.converted())
        self.assertEqual(result.code, 0, result)
        self.assertIn(": 0 errors, 0 warnings\n", result.out)

    def test_nodes_are_fused_unless_they_shall_not_be(self):
        def functions(*options):
            graph = json.loads((self.converted(*options) /
                                "graph.json").read_text())
            return [node["attrs"]["func_name"] for node in graph["nodes"]
                    if node["op"] == "tvm_op"]
        self.assertEqual(functions(), ["nodewise_mul_add", "nodewise_softmax",
                                       "nodewise_reshape"])
        self.assertEqual(functions("--no-fuse"),
                         ["nodewise_mul", "nodewise_add", "nodewise_softmax",
                          "nodewise_reshape"])

    def test_memory_is_shared_unless_it_shall_not_be(self):
        def ids(*options):
            graph = json.loads((self.converted("--no-fuse", *options) /
                                "graph.json").read_text())
            return graph["attrs"]["storage_id"][1]
        shared, own = ids(), ids("--no-reuse")
        self.assertEqual(len(set(own)), len(own))
        self.assertLess(len(set(shared)), len(own))

    def test_damage_of_a_node_is_found_by_verify(self):
        folder = self.converted()
        graph = json.loads((folder / "graph.json").read_text())
        node = next(n for n in graph["nodes"] if n["name"] == "soft")
        node["attrs"]["nodewise.network"] = "version 2; nonsense"
        (folder / "graph.json").write_text(json.dumps(graph))
        result = nodewise("verify", folder)
        self.assertEqual(result.code, 1, result)
        self.assertIn("node soft: attribute nodewise.network:1:12", result.out)

    def test_inspect_shows_the_folder(self):
        shown = nodewise("inspect", self.converted())
        self.assertEqual(shown.code, 0, shown)
        self.assertIn("nodewise_softmax", shown.out)

    def test_a_folder_with_something_else_is_left_alone(self):
        folder = self.folder / "net"
        folder.mkdir()
        (folder / "lib.so").write_text("")
        error = self.refused("convert", self.model, "-o", folder)
        self.assertIn("holds lib.so, expected an empty folder", error)
        self.refused("convert", self.model)

    def test_open_sizes_must_be_given(self):
        self.model.write_bytes(residual(dims=(2, "n")))
        error = self.refused("convert", self.model, "-o", self.folder / "net")
        self.assertIn("input x: is float32[2, n]", error)
        self.assertIn("--dim n=N or --freeze x=FILE", error)
        self.assertFalse((self.folder / "net").exists())
        self.converted("--dim", "n=3")


class Verbs(Lowered):
    def test_run_counts_what_computed_the_nodes(self):
        found = self.ran(self.model, "--backend", "reference")
        self.assertEqual(found["kernels"], {"reference": 3})
        self.assertEqual(found["operations"], {"reference": 4})
        self.assertEqual(found["refusals"], [])
        self.assertEqual(found["remarks"], [])
        self.assertEqual([output["name"] for output in found["outputs"]],
                         ["y", "z"])
        self.assertEqual(self.ran(self.model, "--reference")["kernels"],
                         {"reference": 4})

    def test_onednn_computes_what_it_has_and_the_rest_is_listed(self):
        last = onnx_node("Erf", ["x"], ["z"], name="turn")
        self.model.write_bytes(residual(last=last))
        found = self.ran(self.model)
        if "oneDNN" not in found["kernels"]:
            self.skipTest("this build has no oneDNN")
        self.assertEqual(found["kernels"], {"oneDNN": 2, "reference": 1})
        self.assertEqual(sum(found["operations"].values()), 4)
        self.assertEqual(len(found["refusals"]), 1)
        self.assertRegex(found["refusals"][0], "^node .*: oneDNN: ")
        shown = nodewise("run", self.model, "--random-inputs", "1")
        self.assertIn("computed 2 nodes by oneDNN, 1 node by the reference; "
                      "operations: ", shown.out)

    def test_a_folder_takes_the_backend_that_is_named(self):
        folder = self.converted()
        self.assertEqual(self.ran(folder, "--backend", "reference")["kernels"],
                         {"reference": 3})
        for verb in ("profile", "dump"):
            self.assertEqual(
                document(nodewise(verb, folder, "--random-inputs", "1",
                                  "--backend", "reference", "--json",
                                  *(("--dump-root", self.folder / "d")
                                    if verb == "dump" else ())))["kernels"],
                {"reference": 3})

    def test_what_names_no_backend_is_refused(self):
        error = self.refused("run", self.model, "--backend", "fast")
        self.assertIn('--backend: found "fast", expected onednn or reference',
                      error)
        error = self.refused("run", self.model, "--backend", "onednn",
                             "--reference")
        self.assertIn("contradicts --reference", error)

    def test_fused_or_not_the_bits_of_the_reference_are_the_same(self):
        outputs = set()
        for options in ((), ("--no-fuse",), ("--no-reuse",), ("--reference",)):
            out = self.folder / "out.npz"
            self.ran(self.model, "-o", out, "--backend", "reference", *options)
            outputs.add(out.read_bytes())
        self.assertEqual(len(outputs), 1)

    def test_profile_times_the_nodes(self):
        trace = self.folder / "trace.json"
        result = nodewise("profile", self.model, "--random-inputs", "1",
                          "--runs", "2", "--trace", trace)
        self.assertEqual(result.code, 0, result)
        self.assertIn("nodewise_mul_add", result.out)
        self.assertIn("bit for bit those of a plain run", result.out)
        self.assertTrue(trace.exists())

    def test_dump_writes_every_node(self):
        root = self.folder / "dump"
        result = nodewise("dump", self.model, "--random-inputs", "1",
                          "--no-fuse", "--dump-root", root)
        self.assertEqual(result.code, 0, result)
        shown = nodewise("inspect", root)
        self.assertEqual(shown.code, 0, shown)

    def test_a_run_stops_after_a_node(self):
        found = self.ran(self.model, "--reference", "--until", "scale")
        self.assertEqual([o["name"] for o in found["outputs"]], ["scale:0"])

    def test_an_operation_inside_a_node_is_pointed_out(self):
        error = self.refused("run", self.model, "--random-inputs", "1",
                             "--until", "scale")
        self.assertIn("node scale: is one of the operations in node sum",
                      error)
        self.assertIn("--no-fuse", error)

    def test_a_tensor_is_patched(self):
        patch = self.write("m.params", b"")
        self.ran(self.model, "--reference", "--until", "scale", "-o", patch)
        whole = self.ran(self.model, "--reference")
        patched = self.ran(self.model, "--reference", "--patch",
                           f"scale:0={patch}")
        self.assertEqual(whole["outputs"], patched["outputs"])

    def test_values_are_searched_for(self):
        result = nodewise("run", self.model, "--random-inputs", "1",
                          "--stop-on", "abs>1e30")
        self.assertEqual(result.code, 0, result)
        self.assertIn("no node made such a value", result.out)

    def test_no_check_finds_anything(self):
        for check in ("--sanitize", "--isolate", "--sweep"):
            with self.subTest(check=check):
                result = nodewise("run", self.model, "--random-inputs", "1",
                                  check)
                self.assertEqual(result.code, 0, result)

    def test_sizes_may_come_from_the_inputs(self):
        self.model.write_bytes(residual(dims=(2, "n")))
        x = self.write("x.pb", proto_tensor(
            "x", [2, 3], FLOAT, (9, struct.pack("<6f", 1, 2, 3, 4, 5, 6))))
        result = nodewise("profile", self.model, "--runs", "1", "--input",
                          f"x={x}")
        self.assertEqual(result.code, 0, result)

    def test_what_looks_into_a_run_needs_all_sizes(self):
        self.model.write_bytes(residual(dims=(2, "n")))
        for verb in (["profile"], ["dump"], ["run", "--sanitize"]):
            with self.subTest(verb=verb):
                error = self.refused(*verb, self.model, "--random-inputs", "1")
                self.assertIn("--dim n=N", error)

    def test_options_of_models_are_for_models_only(self):
        folder = self.converted()
        for option in ("--reference", "--no-fuse", "--no-reuse"):
            error = self.refused("run", folder, option)
            self.assertIn(f"is not an .onnx file, expected one with {option}",
                          error)


if __name__ == "__main__":
    unittest.main()
