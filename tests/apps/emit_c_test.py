"""`convert --emit c`: the functions of a model as C, compiled and run."""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

from support import Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, INT64, attribute, floats,  # noqa: E402
                        ints, onnx_graph, onnx_model, onnx_node, proto_tensor,
                        value_info)

STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
ODD = "*/ \"'$(touch here)`\n??/ \\ int \u00e9"


def network(name="scale", last="Softmax", rows=2):
    return onnx_model(onnx_graph(
        [onnx_node("MatMul", ["x", "w"], ["m"], name=name),
         onnx_node("Add", ["m", "b"], ["a"], name="sum"),
         onnx_node(last, ["a"], ["y"], name="last")],
        [value_info("x", dims=(rows, 2))], [value_info("y")],
        [proto_tensor("w", [2, 2], FLOAT,
                      (9, struct.pack("<4f", 0.1, 0.7, -3.0, 2.0))),
         floats("b", 1.0, -1.0)]))


class EmitC(Scratch):
    def emitted(self, model):
        path = self.write("net.onnx", model)
        folder = self.folder / "net"
        result = nodewise("convert", path, "--emit", "c", "-o", folder)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return folder, result.out

    def compiled(self, folder, compiler, *options):
        if shutil.which(compiler) is None:
            self.skipTest(f"there is no {compiler}")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", *options, "lib.c",
                        "-o", "lib.so", "-lm"], cwd=folder, check=True,
                       timeout=100)

    def ran(self, target):
        result = nodewise("run", target, "--random-inputs", "1", "--json")
        self.assertEqual((result.code, result.err), (0, ""), result)
        return document(result)

    def test_the_compiled_folder_gives_the_models_results(self):
        folder, out = self.emitted(network())
        self.assertIn("cc -O2 -shared -fPIC lib.c -o lib.so -lm", out)
        self.compiled(folder, "cc")
        ours, theirs = self.ran(folder), self.ran(self.folder / "net.onnx")
        self.assertEqual(ours.get("kernels", {}), {})
        for a, b in zip(ours["outputs"], theirs["outputs"]):
            self.assertEqual((a["name"], a["shape"]), (b["name"], b["shape"]))
            for field in ("min", "max", "mean"):
                self.assertAlmostEqual(a[field], b[field], places=5)

    def test_no_compiler_finds_fault_for_any_names(self):
        folder, _ = self.emitted(network(ODD))
        for compiler in ("gcc", "clang"):
            with self.subTest(compiler=compiler):
                self.compiled(folder, compiler, *STRICT)
                self.ran(folder)
        self.assertFalse((folder / "here").exists())

    def test_no_compiler_finds_fault_where_there_is_little_to_compute(self):
        weights = proto_tensor("w", [0, 2], FLOAT)
        product = onnx_node("MatMul", ["x", "w"], ["m"])
        add = onnx_node("Add", ["m", "b"], ["y"])
        table = {
            "no rows": network(rows=0),
            "no terms": onnx_model(onnx_graph(
                [product, add], [value_info("x", dims=(2, 0))],
                [value_info("y")], [weights, floats("b", 1.0, -1.0)])),
            "constants alone": onnx_model(onnx_graph(
                [onnx_node("Add", ["a", "b"], ["y"])], [], [value_info("y")],
                [floats("a", 1.0), floats("b", 2.0)])),
            "one element written": onnx_model(onnx_graph(
                [onnx_node("ScatterElements", ["x", "i", "u"], ["s"]),
                 onnx_node("ScatterND", ["s", "i2", "u"], ["n"]),
                 onnx_node("CumSum", ["n", "i"], ["y"])],
                [value_info("x", dims=(1,))], [value_info("y")],
                [ints("i", 0),
                 proto_tensor("i2", [1, 1], INT64, (9, struct.pack("<q", 0))),
                 floats("u", 1.5)]), opset=16),
        }
        for name, model in table.items():
            folder, _ = self.emitted(model)
            for compiler in ("gcc", "clang"):
                with self.subTest(model=name, compiler=compiler):
                    self.compiled(folder, compiler, *STRICT)
                    for field in ("min", "max", "mean"):
                        self.assertEqual(
                            self.ran(folder)["outputs"][0].get(field),
                            self.ran(self.folder / "net.onnx")["outputs"][0]
                            .get(field))
            shutil.rmtree(folder)

    def test_a_reduction_may_leave_one_number(self):
        for kind, keep in (("ReduceMax", 0), ("ReduceSum", 0),
                           ("ReduceMean", 1), ("ReduceProd", 0)):
            with self.subTest(kind=kind):
                folder, _ = self.emitted(onnx_model(onnx_graph(
                    [onnx_node(kind, ["x"], ["y"],
                               attribute("axes", [1, 0]),
                               attribute("keepdims", keep))],
                    [value_info("x", dims=(3, 4))], [value_info("y")]),
                    opset=11))
                self.compiled(folder, "cc")
                ours, theirs = (self.ran(target)["outputs"][0]["mean"]
                                for target in (folder,
                                               self.folder / "net.onnx"))
                self.assertAlmostEqual(ours, theirs, places=5)
                shutil.rmtree(folder)

    def test_the_folder_is_without_faults(self):
        folder, _ = self.emitted(network())
        self.compiled(folder, "cc")
        result = nodewise("verify", folder)
        self.assertEqual(result.code, 0, result)
        self.assertIn(": 0 errors, 0 warnings\n", result.out)

    def test_the_graph_claims_no_built_in_function(self):
        folder, _ = self.emitted(network())
        graph = json.loads((folder / "graph.json").read_text())
        self.assertNotIn("nodewise.built_in", graph["attrs"])
        source = (folder / "lib.c").read_text()
        for node in graph["nodes"]:
            if node["op"] == "tvm_op":
                self.assertIn(f"int {node['attrs']['func_name']}(TVMValue",
                              source)

    def test_what_there_is_no_c_for_is_named_and_nothing_written(self):
        model = self.write("net.onnx", network(last="Hardmax"))
        folder = self.folder / "net"
        error = self.refused("convert", model, "--emit", "c", "-o", folder)
        self.assertIn("there is no C for 1 operation: last (Hardmax)", error)
        self.assertFalse(folder.exists())

    def test_a_library_of_other_functions_is_not_kept(self):
        folder, _ = self.emitted(network())
        (folder / "lib.so").write_text("")
        error = self.refused("convert", self.folder / "net.onnx", "--emit",
                             "c", "-o", folder)
        self.assertIn("holds lib.so", error)

    def test_there_is_one_language(self):
        model = self.write("net.onnx", network())
        error = self.refused("convert", model, "--emit", "rust", "-o",
                             self.folder / "net")
        self.assertIn("--emit: is rust, expected c", error)


if __name__ == "__main__":
    unittest.main()
