"""Models that are known in part: operators that nodewise does not have.

The program that runs them is a small Python script without packages.
"""

import json
import pathlib
import subprocess
import sys
import textwrap
import unittest

from support import Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (attribute, field, floats, message,  # noqa: E402
                        onnx_graph, onnx_model, onnx_node, value_info)

# Magic(v) = 2 v, for any names of the values.
RUNTIME = """
    import json, math, struct, sys

    request = json.load(open(sys.argv[-1]))
    model = open(request["model"], "rb").read()
    if b"Magic" not in model or b"Relu" in model or b"Neg" in model:
        sys.exit("this is not a model of one Magic")
    data = open(request["inputs"][0]["file"], "rb").read()
    values = struct.unpack(f"<{len(data) // 4}f", data)
    with open(f"{request['output_folder']}/0.bin", "wb") as out:
        out.write(struct.pack(f"<{len(values)}f", *[2 * v for v in values]))
    answer = {"version": 1, "runtime": "fake 1.0", "outputs": [
        {"name": request["outputs"][0], "dtype": "float32",
         "shape": [len(values)], "file": "0.bin"}]}
    json.dump(answer, open(request["answer"], "w"))
"""


def vendor_model(nodes, inputs, outputs, constants=(), infos=()):
    graph = onnx_graph(nodes, inputs, outputs, constants)
    graph += b"".join(field(13, info) for info in infos)
    return message((1, 8), (7, graph), (8, message((2, 13))),
                   (8, message((1, "vendor"), (2, 1))))


def magic(source, target, name):
    return onnx_node("Magic", [source], [target], attribute("strength", 2.5),
                     name=name, domain="vendor")


def model(states_types=True):
    """x -> Mul -> a -> Magic -> b -> Neg -> y; a -> Relu -> z."""
    return vendor_model(
        [onnx_node("Mul", ["x", "c"], ["a"], name="times"),
         magic("a", "b", "magic"),
         onnx_node("Neg", ["b"], ["y"], name="minus"),
         onnx_node("Relu", ["a"], ["z"], name="relu")],
        [value_info("x", dims=(3,))],
        [value_info("y", dims=(3,)), value_info("z", dims=(3,))],
        [floats("c", 1, 2, 3)],
        [value_info("b", dims=(3,))] if states_types else [])


class Opaque(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", model())

    def program(self, magic_of="2 * v"):
        script = self.write("runtime.py", textwrap.dedent(RUNTIME).replace(
            "2 * v", magic_of).encode())
        return f"exec:'{sys.executable}' -I {script}"

    def outputs(self, run):
        return {one["name"]: [float(text) for text in one["first"]]
                for one in run["outputs"]}


class KnownPartTest(Opaque):
    def test_inspect_counts_them(self):
        done = nodewise("inspect", self.model)
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("vendor.Magic: 1 operation", done.out)
        self.assertIn("vendor.Magic (opaque)", done.out)
        shown = document(nodewise("inspect", self.model, "--json"))
        self.assertEqual(
            shown["files"][0]["opaque"]["operators"],
            [{"name": "vendor.Magic", "operations": ["magic"]}])

    def test_verify_finds_no_fault_and_says_so(self):
        done = nodewise("verify", self.model)
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("node magic (vendor.Magic, opset 1): is of domain vendor "
                      "and becomes opaque", done.out)
        done = nodewise("verify", self.model, "--target", "reference")
        self.assertEqual(done.code, 1, done.err)
        self.assertIn("is opaque, since vendor.Magic is not known here",
                      done.out + done.err)

    def test_run_computes_the_rest_and_says_what_is_missing(self):
        done = nodewise("run", self.model, "--random-inputs", "1")
        self.assertEqual(done.code, 2)
        self.assertIn("opaque  vendor.Magic: 1 operation (not run; --opaque "
                      "ort has a program run them)", done.out)
        self.assertIn("without output y, which depends on magic", done.out)
        self.assertIn("outputs that these operations read: a", done.out)
        self.assertIn("output y: was not computed, since it depends on what "
                      "is opaque (magic)", done.err)
        run = document(nodewise("run", self.model, "--random-inputs", "1",
                                "--json"))
        self.assertEqual(set(self.outputs(run)), {"z", "a"})
        self.assertEqual(run["opaque"]["missing_outputs"],
                         [{"name": "y", "because": ["magic"]}])
        self.assertEqual(run["status"], "error")

    def test_an_output_that_needs_none_of_them_is_not_an_error(self):
        self.write("net.onnx", vendor_model(
            [onnx_node("Relu", ["x"], ["z"], name="relu"),
             magic("z", "unused", "magic")],
            [value_info("x", dims=(3,))], [value_info("z", dims=(3,))]))
        done = nodewise("run", self.model, "--random-inputs", "1")
        self.assertEqual(done.code, 0, done.err)

    def test_where_everything_depends_on_them_nothing_runs(self):
        self.write("net.onnx", vendor_model(
            [magic("x", "y", "magic")],
            [value_info("x", dims=(3,))], [value_info("y", dims=(3,))]))
        done = nodewise("run", self.model, "--random-inputs", "1")
        self.assertEqual(done.code, 2)
        self.assertIn("everything depends on opaque operations (magic)",
                      done.err)

    def test_locate_and_dump_cover_the_rest(self):
        done = nodewise("locate", self.model, "--random-inputs", "1")
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("opaque  vendor.Magic: 1 operation", done.out)
        done = nodewise("dump", self.model, "--random-inputs", "1",
                        "--dump-root", self.folder / "dump")
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("opaque  vendor.Magic: 1 operation", done.out)

    def test_convert_refuses_them(self):
        done = nodewise("convert", self.model, "-o", self.folder / "net")
        self.assertEqual(done.code, 2)
        self.assertIn("has opaque operations, which no artefact can hold "
                      "(vendor.Magic: 1 operation), expected a part without "
                      "them (nodewise extract)", done.err)

    def test_nodes_that_a_program_runs_wait_for_each_other(self):
        pair = self.write("pair.onnx", vendor_model(
            [magic("x", "a", "first"),
             onnx_node("Neg", ["x"], ["n"], name="minus"),
             magic("n", "b", "second")],
            [value_info("x", dims=(3,))],
            [value_info("a", dims=(3,)), value_info("b", dims=(3,))]))
        folder = self.folder / "dump"
        done = nodewise("dump", pair, "--random-inputs", "1", "--opaque",
                        self.program(), "--dump-root", folder)
        self.assertEqual(done.code, 0, done.err)
        graph = json.loads(next(folder.rglob("_nodewise_graph.json"))
                           .read_text())
        names = [node["name"] for node in graph["nodes"]]
        waits = {node["name"]: [names[i] for i in node["control_deps"]]
                 for node in graph["nodes"] if "control_deps" in node}
        self.assertEqual(waits, {"second": ["first"]})

    def test_extract_keeps_the_node(self):
        part = self.folder / "part.onnx"
        done = nodewise("extract", self.model, "--from", "magic", "--to", "y",
                        "-o", part)
        self.assertEqual(done.code, 0, done.err)
        self.assertIn(attribute("strength", 2.5), part.read_bytes())
        self.assertEqual(nodewise("verify", part).code, 0)
        run = document(nodewise("run", part, "--random-inputs", "1",
                                "--opaque", self.program(), "--json"))
        self.assertEqual(set(self.outputs(run)), {"y"})


class CompiledTest(Opaque):
    """An artefact of a compiler that knows the operator: Magic is Sigmoid."""

    def setUp(self):
        super().setUp()
        known = self.write("known.onnx", onnx_model(onnx_graph(
            [onnx_node("Mul", ["x", "c"], ["a"], name="times"),
             onnx_node("Sigmoid", ["a"], ["b"], name="magic"),
             onnx_node("Exp", ["b"], ["y"], name="minus"),
             onnx_node("Abs", ["a"], ["d"], name="abs"),
             onnx_node("Sqrt", ["d"], ["z"], name="root")],
            [value_info("x", dims=(3,))],
            [value_info("y", dims=(3,)), value_info("z", dims=(3,))],
            [floats("c", 1, 2, 3)])))
        self.write("net.onnx", vendor_model(
            [onnx_node("Mul", ["x", "c"], ["a"], name="times"),
             magic("a", "b", "magic"),
             onnx_node("Exp", ["b"], ["y"], name="minus"),
             onnx_node("Abs", ["a"], ["d"], name="abs"),
             onnx_node("Sqrt", ["d"], ["z"], name="root")],
            [value_info("x", dims=(3,))],
            [value_info("y", dims=(3,)), value_info("z", dims=(3,))],
            [floats("c", 1, 2, 3)]))
        self.net = self.folder / "net"
        done = nodewise("convert", known, "--emit", "c", "--no-fuse", "-o",
                        self.net)
        self.assertEqual(done.code, 0, done.err)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", self.net / "lib.c",
                        "-o", self.net / "lib.so", "-lm"], check=True)
        # Nodes of other compilers do not say what they compute.
        graph = json.loads((self.net / "graph.json").read_bytes())
        for node in graph["nodes"]:
            attrs = node.get("attrs", {})
            for name in [one for one in attrs if one.startswith("nodewise")]:
                del attrs[name]
        (self.net / "graph.json").write_text(json.dumps(graph))

    def test_align_works_around_them(self):
        found = document(nodewise("align", self.net, self.model,
                                  "--random-inputs", "1", "--json"))
        tensors = {one["entry"]: one["tensors"] for one in found["entries"]}
        self.assertEqual(tensors["times:0"], ["a"])
        self.assertEqual(tensors["root:0"], ["z"])
        self.assertEqual(tensors["magic:0"], [])
        self.assertEqual(tensors["minus:0"], [])
        self.assertEqual(found["opaque"]["operators"][0]["name"],
                         "vendor.Magic")

    def test_locate_accuses_no_node_for_what_is_not_known(self):
        done = nodewise("locate", self.net, "--reference", self.model,
                        "--random-inputs", "1")
        self.assertEqual(done.code, 0, done)
        self.assertIn("opaque  vendor.Magic: 1 operation", done.out)

    def test_with_a_program_the_rest_is_known(self):
        program = self.program("1 / (1 + math.exp(-v))")
        found = document(nodewise("align", self.net, self.model,
                                  "--random-inputs", "1", "--opaque", program,
                                  "--json"))
        tensors = {one["entry"]: one["tensors"] for one in found["entries"]}
        self.assertEqual(tensors["magic:0"], ["b"])
        self.assertEqual(tensors["minus:0"], ["y"])


class ByAProgramTest(Opaque):
    def run_whole(self, *options):
        done = nodewise("run", self.model, "--random-inputs", "1", "--opaque",
                        self.program(), "--json", *options)
        self.assertEqual(done.code, 0, done.err)
        return document(done)

    def check_outputs(self, run):
        outputs = self.outputs(run)
        self.assertEqual(set(outputs), {"y", "z"})
        for y, z in zip(outputs["y"], outputs["z"]):
            if z > 0:
                self.assertAlmostEqual(y, -2 * z, places=4)

    def test_a_program_runs_them(self):
        run = self.run_whole()
        self.check_outputs(run)
        self.assertEqual(run["opaque"]["program"], self.program())
        self.assertEqual(run["opaque"]["missing_outputs"], [])
        self.check_outputs(self.run_whole("--reference"))

    def test_types_that_the_model_does_not_state_are_found_by_running(self):
        self.write("net.onnx", model(states_types=False))
        self.check_outputs(self.run_whole())
        for verb in (["dump", "--dump-root", self.folder / "dump"],
                     ["locate"]):
            done = nodewise(verb[0], self.model, "--random-inputs", "1",
                            "--opaque", self.program(), *verb[1:])
            self.assertEqual(done.code, 0, done.err)
            self.assertIn("(run by exec:", done.out)

    def test_what_the_program_says_is_quoted(self):
        script = self.write("bad.py", b"import sys; sys.exit('no such thing')")
        done = nodewise("run", self.model, "--random-inputs", "1", "--opaque",
                        f"exec:'{sys.executable}' -I {script}")
        self.assertEqual(done.code, 2)
        self.assertIn("vendor.Magic by exec:", done.err)
        self.assertIn("no such thing", done.err)

    def test_another_word_is_refused(self):
        done = nodewise("run", self.model, "--random-inputs", "1", "--opaque",
                        "tvm")
        self.assertEqual(done.code, 2)
        self.assertIn('--opaque: found "tvm", expected ort, openvino, ',
                      done.err)
        self.assertIn(", onnx or exec:COMMAND", done.err)

    def test_lower_precision_is_refused(self):
        done = nodewise("run", self.model, "--random-inputs", "1", "--opaque",
                        self.program(), "--precision", "fp16")
        self.assertEqual(done.code, 2)
        self.assertIn("cannot be lowered to fp16 where exec:", done.err)

    def test_it_means_nothing_for_an_artefact(self):
        done = nodewise("run", self.folder, "--opaque", self.program())
        self.assertEqual(done.code, 2)
        self.assertIn("is not an .onnx file, expected one with --opaque",
                      done.err)


if __name__ == "__main__":
    unittest.main()
