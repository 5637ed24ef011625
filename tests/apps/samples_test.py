"""nodewise locate --samples: many inputs, of which some show the fault."""

import pathlib
import re
import shutil
import struct
import subprocess
import sys

from support import (Scratch, Tensor, document, nodewise, npy_bytes,
                     params_bytes)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, floats, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, proto_tensor, value_info)

SMALL = (0.1, -0.2, 0.3, -0.4)
LARGE = (0.1, -0.2, 3.0, -0.4)
LARGER = (3.0, -0.2, -0.4, 3.0)


def network(dims=(2, 2)):
    """y = softmax(tanh(x + b)); tanh is a node of its own without fusion."""
    return onnx_model(onnx_graph(
        [onnx_node("Add", ["x", "b"], ["a"], name="sum"),
         onnx_node("Tanh", ["a"], ["t"], name="bend"),
         onnx_node("Softmax", ["t"], ["y"], name="last")],
        [value_info("x", dims=dims)], [value_info("y")],
        [floats("b", 0.0, 0.0)]))


def tensor_of(values):
    return Tensor("float32", (2, 2), values)


def wrong_for_large_ones(code):
    """Emitted C whose tanh is another function beyond 1.5."""
    helper = ("#include <math.h>\n"
              "static float wrong(float x) {"
              " return x > 1.5f ? sinf(x) : (tanhf)(x); }\n"
              "#define tanhf(x) wrong(x)\n#define tanh(x) wrong((float)(x))\n")
    return helper + re.sub(r"\btanh\b", "tanhf", code)


class Samples(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", network())
        self.data = self.folder / "data"
        self.data.mkdir()

    def spoiled(self):
        if shutil.which("cc") is None:
            self.skipTest("no C compiler (cc)")
        folder = self.folder / "net"
        made = nodewise("convert", self.model, "--no-fuse", "--emit", "c",
                        "-o", folder)
        self.assertEqual(made.code, 0, made)
        source = folder / "lib.c"
        source.write_text(wrong_for_large_ones(source.read_text()))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "lib.c", "-o",
                        "lib.so", "-lm"], cwd=folder, check=True, timeout=100)
        return folder

    def add_params(self, name, values):
        self.write(f"data/{name}", params_bytes({"x": tensor_of(values)}))

    def add_test_set(self, name, values):
        (self.data / name).mkdir()
        self.write(f"data/{name}/input_0.pb", proto_tensor(
            "", [2, 2], FLOAT, (9, struct.pack("<4f", *values))))

    def add_all(self):
        self.add_params("s1.params", SMALL)
        self.add_test_set("s2", LARGE)
        self.write("data/s3.npy", npy_bytes(tensor_of(LARGER)))
        (self.data / "s10").mkdir()
        self.write("data/s10/x.npy", npy_bytes(tensor_of(SMALL)))
        self.write("data/notes.txt", b"not a sample")

    def located(self, target, *options):
        return nodewise("locate", target, "--samples", self.data, *options)

    def test_a_fault_of_some_inputs_is_found_on_the_worst(self):
        self.add_all()
        shown = self.located(self.spoiled(), "--worst", "3")
        self.assertEqual(shown.code, 1, shown)
        self.assertRegex(shown.out, r"4 samples, the worst first:\n"
                         r"  \S*/s3.npy +off by \S+ +bend, broken\n"
                         r"  \S*/s2 +off by \S+ +bend, broken\n"
                         r"  \S*/s1.params +\S.* +no culprit\n"
                         r"  \S*/s10 +\S.* +not examined\n")
        self.assertIn("recurs among those that were examined:\n"
                      "  bend, broken  in 2 of 3 samples\n", shown.out)
        self.assertRegex(shown.out, r"\non \S*/s3.npy:\nculprit: bend, broken")
        self.assertIn("passed over what is not a sample: notes.txt", shown.err)

    def test_the_document_has_the_ranking_and_what_recurs(self):
        self.add_all()
        shown = self.located(self.spoiled(), "--worst", "2", "--json")
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        found = document(shown)
        names = [pathlib.Path(s["sample"]).name for s in found["samples"]]
        self.assertEqual(names[:2], ["s3.npy", "s2"])
        self.assertEqual(len(names), 4)
        self.assertEqual([s["located"] for s in found["samples"]],
                         [True, True, False, False])
        self.assertEqual([s["wrong"] for s in found["samples"]],
                         [True, True, False, False])
        self.assertEqual(found["samples"][0]["found"],
                         [{"node": "bend", "kind": "broken"}])
        self.assertEqual([(r["node"], r["kind"], len(r["samples"]))
                          for r in found["recurring"]], [("bend", "broken", 2)])
        self.assertEqual([c["node"] for c in found["culprits"]], ["bend"])
        self.assertEqual(found["failed_samples"], [])

    def test_a_sound_network_passes(self):
        self.add_all()
        shown = self.located(self.model)
        self.assertEqual(shown.code, 0, shown)
        self.assertNotIn("recurs", shown.out)

    def test_samples_that_cannot_be_read_are_counted(self):
        self.add_all()
        self.write("data/cut.params", b"cut")
        self.write("data/s4.params", params_bytes({"z": tensor_of(SMALL)}))
        for target, status in ((self.model, 2), (self.spoiled(), 1)):
            with self.subTest(target=target):
                shown = self.located(target)
                self.assertEqual(shown.code, status, shown)
                self.assertIn("4 samples, the worst first", shown.out)
                self.assertIn("\n2 samples not judged:\n", shown.out)
                self.assertRegex(shown.out, r"\n  \S*/cut.params")
                self.assertRegex(shown.out, r"\n  \S*/s4.params.*\bz\b")
        shown = self.located(self.model)
        self.assertIn("cut.params", shown.err)
        self.assertIn("s4.params", shown.err)

    def test_nothing_to_read_is_an_error(self):
        error = self.refused("locate", self.model, "--samples", self.data)
        self.assertIn("has no samples, expected files", error)
        self.write("data/cut.params", b"cut")
        shown = self.located(self.model)
        self.assertEqual(shown.code, 2, shown)
        self.assertIn("cut.params", shown.err)

    def test_the_first_sample_gives_sizes_that_the_model_leaves_open(self):
        self.model = self.write("open.onnx", network(dims=("n", 2)))
        self.add_params("s1.params", SMALL)
        shown = self.located(self.model)
        self.assertEqual((shown.code, shown.err), (0, ""), shown)

    def test_bad_use_names_the_option(self):
        self.add_all()
        for options, expected in (
                (["--inputs", "x.npz"], "--inputs: means nothing with --samp"),
                (["--repro", "d"], "--repro: means nothing with --samples"),
                (["--method", "bisect"], "--samples: means nothing with --method")):
            with self.subTest(options=options):
                self.assertIn(expected, self.refused(
                    "locate", self.model, "--samples", self.data, *options))
        self.assertIn("--worst: means nothing without --samples", self.refused(
            "locate", self.model, "--random-inputs", "1", "--worst", "2"))
