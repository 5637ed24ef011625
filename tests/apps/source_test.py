"""Where the operations of a verdict are from in the program of the model."""

import sys
import textwrap
import unittest

import foreign_test
from support import ROOT, Scratch, document, nodewise

sys.path.insert(0, str(ROOT / "tests/support"))

# pylint: disable=wrong-import-position
from howto_test import image_network  # noqa: E402
from mutations import parse_message, write_message  # noqa: E402
from onnx_bytes import message  # noqa: E402

GRAPH, NODE, NAME, METADATA = 7, 1, 3, 9
TORCH = "/venv/lib/python3.11/site-packages/torch/nn/modules"


def notes_of(module, line, code):
    """What torch.onnx notes of a node."""
    scopes = ["", *(".".join(module.split("/")[:n + 1])
                    for n in range(module.count("/") + 1)), "node"]
    return {"pkg.torch.onnx.name_scopes": repr(scopes),
            "pkg.torch.onnx.stack_trace":
                f'File "/src/net.py", line {line}, in forward\n    {code}\n'
                f'  File "{TORCH}/module.py", line 210, in forward\n    f()'}


NOTES = {"conv1": notes_of("stem/conv", 11, "x = self.conv(image)"),
         "pool1": notes_of("stem/pool", 12, "x = self.pool(x.relu())"),
         "conv2": notes_of("body/0", 21, "x = self.conv(x)"),
         "soft": {"pkg.jax2onnx.callsite": "head:31"}}
POOL = {"operation": "pool1", "module": "stem/pool", "file": "/src/net.py",
        "line": 12, "function": "forward", "code": "x = self.pool(x.relu())"}


def noted(model, notes=None):
    """The model with notes on the nodes of these names."""
    fields = parse_message(model)
    for field in fields:
        if field[0] != GRAPH:
            continue
        graph = parse_message(field[2])
        for node in graph:
            if node[0] != NODE:
                continue
            name = dict((key, value) for key, _, value in
                        parse_message(node[2])).get(NAME, b"").decode()
            node[2] += b"".join(
                message((METADATA, message((1, key), (2, value))))
                for key, value in (notes or NOTES).get(name, {}).items())
        field[2] = write_message(graph)
    return write_message(fields)


class Source(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("model.onnx", noted(image_network()))

    def text(self, *arguments, code=0):
        shown = nodewise(*arguments)
        self.assertEqual(shown.code, code, shown)
        return shown.out

    def test_a_layer_between_two_models_is_shown_with_its_line(self):
        bad = self.write("bad.onnx", image_network("AveragePool"))
        command = ["locate", bad, "--reference", self.model, "--random-inputs",
                   "1"]
        self.assertRegex(self.text(*command, code=1),
                         r"(?m)^  pool1  from  stem/pool, net.py:12 in forward:"
                         r" x = self.pool\(x.relu\(\)\)$")
        [culprit] = document(nodewise(*command, "--json"))["culprits"]
        self.assertEqual(culprit["source"], [POOL])

    def test_a_node_of_another_program_is_shown_with_its_line(self):
        model = self.write("sum.onnx", noted(foreign_test.model(), {
            "plus": notes_of("sum", 7, "y = m + self.d")}))
        code = textwrap.dedent(foreign_test.RUNTIME).replace("a + b", "a - b")
        runtime = self.write("runtime.py", code.encode())
        command = ["locate", f"exec:'{sys.executable}' -I {runtime}", "--model",
                   model, "--random-inputs", "1"]
        self.assertRegex(self.text(*command, code=1),
                         r"(?m)^  operations +plus\n  from +sum, net.py:7 in "
                         r"forward: y = m \+ self.d$")
        [culprit] = document(nodewise(*command, "--json"))["culprits"]
        self.assertEqual(culprit["source"][0]["line"], 7)

    def test_a_compiled_culprit_has_the_line_of_the_model_beside_it(self):
        folder = self.folder / "demo"
        self.text("demo", "-o", folder)
        model = folder / "noted.onnx"
        model.write_bytes(noted((folder / "model.onnx").read_bytes(), {
            "pool": NOTES["pool1"], "block1_a_relu": NOTES["conv2"]}))
        command = [folder / "net", model, "--random-inputs", "1"]
        locate = ["locate", command[0], "--reference", *command[1:]]
        self.assertRegex(self.text(*locate, code=1),
                         r"(?m)^  from +stem/pool, net.py:12 in forward")
        found = document(nodewise(*locate, "--json"))["culprits"]
        self.assertEqual(found[0]["source"], [{**POOL, "operation": "pool"}])
        self.assertRegex(self.text("align", *command),
                         r"(?m) From$[^$]* body/0, net.py:21 in forward: x")
        entries = document(nodewise("align", *command, "--json"))["entries"]
        self.assertIn(21, [one.get("line") for each in entries
                           for one in each.get("source", ())])

    def test_what_is_not_noted_is_not_shown(self):
        model = self.write("plain.onnx", image_network())
        bad = self.write("bad.onnx", image_network("AveragePool"))
        shown = nodewise("locate", bad, "--reference", model, "--random-inputs",
                         "1", "--json")
        self.assertNotIn("source", document(shown)["culprits"][0])
        self.assertNotIn(" from ", shown.out.split('"report"')[0])
        self.assertNotIn("source", self.text("inspect", model))

    def test_time_is_by_the_modules_that_the_exporter_has_noted(self):
        found = document(nodewise("profile", self.model, "--random-inputs", "1",
                                  "--runs", "2", "--json", "--no-fuse",
                                  "--by", "module", "--depth", "1"))
        self.assertEqual({each["name"]: each["nodes"]
                          for each in found["by_module"]},
                         {"stem": 2, "body": 1, "": 6})

    def test_a_lower_precision_has_the_modules_of_the_model(self):
        for precision in ("fp16", "int8"):
            with self.subTest(precision=precision):
                found = document(nodewise(
                    "profile", self.model, "--random-inputs", "1", "--runs",
                    "2", "--precision", precision, "--calibrate", "random:1",
                    "--json", "--depth", "1"))
                names = [each["name"] for each in found["by_module"]]
                self.assertLessEqual({"stem", "body"}, set(names))

    def test_inspecting_a_node_shows_where_it_is_from(self):
        self.assertIn("4 of 9 operations say where they are from",
                      self.text("inspect", self.model))
        shown = self.text("inspect", self.model, "--node", "conv1")
        for line in ("module     stem/conv", "operator   Conv",
                     "from       net.py:11 in forward: x = self.conv(image)",
                     "file       /src/net.py",
                     "    image  float32[1, 3, 16, 16]"):
            self.assertIn(line + "\n", shown)
        self.assertIn("line 31 in head",
                      self.text("inspect", self.model, "--node", "soft"))

    def test_a_node_that_is_none_is_refused(self):
        shown = nodewise("inspect", self.model, "--node", "conv3")
        self.assertEqual(shown.code, 2)
        self.assertIn("model.onnx: operation conv3: ", shown.err)
        self.assertIn("conv", shown.err)
        params = self.write("x.npy", b"\x93NUMPY")
        self.assertIn("--node: found no .onnx file",
                      nodewise("inspect", params, "--node", "conv1").err)

    def test_a_part_of_the_model_keeps_it(self):
        part = self.folder / "part.onnx"
        self.text("extract", self.model, "--to", "pool1", "-o", part)
        self.assertIn("net.py:12 in forward",
                      self.text("inspect", part, "--node", "pool1"))

    def test_notes_with_control_characters_are_shown_safely(self):
        model = self.write("odd.onnx", noted(image_network(), {"conv1": {
            "pkg.torch.onnx.name_scopes": "['', 'a\x1b[31m\nb', 'c']",
            "pkg.torch.onnx.stack_trace":
                'File "\x1b[2J.py", line 3, in \u202e\n  \x07'}}))
        shown = self.text("inspect", model, "--node", "conv1")
        for odd in ("\x1b", "\x07", "\u202e", "\nb"):
            self.assertNotIn(odd, shown)


if __name__ == "__main__":
    unittest.main()
