"""nodewise locate with two files of one network, whose graphs differ."""

import random
import struct
import sys
import unittest
import zipfile

from support import BUILD, ROOT, Scratch, document, nodewise

sys.path.insert(0, str(ROOT / "tests/support"))

# pylint: disable=wrong-import-position
from howto_test import image_network, npy  # noqa: E402


class TwoModels(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("model.onnx", image_network())

    def lowered(self, precision, *options):
        path = self.folder / f"{precision}.txt"
        made = nodewise("convert", self.model, "--precision", precision,
                        "--calibrate", "random:1", "--text", path, *options)
        self.assertEqual(made.code, 0, made)
        return path

    def located(self, target, reference, *options):
        return nodewise("locate", target, "--reference", reference,
                        "--random-inputs", "1", *options)

    def report(self, target, reference, *options):
        shown = self.located(target, reference, "--json", *options)
        return document(shown)

    def test_the_first_sentence_says_what_lower_precision_costs(self):
        shown = self.located(self.lowered("int8"), self.model)
        self.assertEqual(shown.code, 1, shown)
        self.assertTrue(shown.out.startswith("Computing in 8-bit integers "
                                             "puts the outputs off by "), shown)
        self.assertIn("nodes_to_exclude=[", shown.out)

    def test_a_model_that_is_made_with_the_keep_list_is_as_near_as_stated(self):
        found = self.report(self.lowered("int8"), self.model)["models"]
        self.assertGreater(len(found["nodes_to_exclude"]), 0)
        kept = self.report(
            self.lowered("int8", "--keep", found["suggested_keep"]), self.model)
        self.assertLessEqual(kept["models"]["error"], found["suggested_error"])
        self.assertLess(kept["models"]["error"], found["error"])

    def test_several_sets_of_inputs_share_in_what_a_layer_costs(self):
        small = self.lowered("int8")
        one = self.report(small, self.model)["models"]
        four = self.report(small, self.model, "--sets", "4")["models"]
        self.assertNotEqual(one["error"], four["error"])
        self.assertNotEqual(one["layers"][0]["alone"],
                            four["layers"][0]["alone"])

    def test_sets_are_refused_for_a_model_beside_itself(self):
        shown = self.located(self.model, self.model, "--sets", "2")
        self.assertEqual(shown.code, 2, shown)
        self.assertIn("--sets: means nothing for a target beside its own model",
                      shown.err)

    def test_two_precisions_are_told_apart(self):
        found = self.report(self.lowered("fp16"), self.model)["models"]
        self.assertEqual(found["lowered_to"], "float16")

    def test_another_pool_in_another_graph_is_named(self):
        bad = self.write("bad.onnx", image_network("AveragePool"))
        shown = self.report(bad, self.model)
        self.assertEqual(shown["models"]["layers"][0]["name"], "pool1")
        self.assertEqual(shown["culprits"][0]["source_nodes"], ["pool1"])
        self.assertTrue(shown["said"].startswith("pool1 (MaxPool) makes "
                                                 "something else"), shown)

    def test_the_layers_cost_what_the_curve_begins_with(self):
        found = self.report(self.lowered("int8"), self.model)["models"]
        self.assertEqual(found["curve"][0]["error"], found["error"])
        self.assertEqual(found["curve"][-1]["error"], 0)
        costs = [layer["alone"] for layer in found["layers"]]
        self.assertEqual(costs, sorted(costs, reverse=True))

    def test_a_model_beside_itself_at_another_opset_agrees(self):
        versions = (b"\x42\x02\x10\x0d", b"\x42\x02\x10\x0e")
        changed = image_network().replace(*versions)
        self.assertNotEqual(changed, image_network())
        shown = self.located(self.write("other.onnx", changed), self.model)
        self.assertEqual(shown.code, 0, shown)
        self.assertTrue(shown.out.startswith("Both models agree"), shown)

    def test_a_model_beside_itself_is_judged_node_by_node(self):
        model = self.write("open.onnx", image_network(images="n"))
        image = self.write("one.npy", npy((1, 3, 16, 16), [.5] * 768))
        shown = nodewise("locate", model, "--reference", model, "--input",
                         f"image={image}", "--json")
        self.assertEqual(document(shown)["search"], "nodes")

    def tensors(self, change):
        """The input and the output, which is called otherwise."""
        rng = random.Random(1)
        image = npy((1, 3, 16, 16), [rng.random() for _ in range(768)])
        made = self.folder / "made.npz"
        ran = nodewise("run", self.model, "--input",
                       f"image={self.write('image.npy', image)}", "-o", made)
        self.assertEqual(ran.code, 0, ran)
        with zipfile.ZipFile(made) as archive:
            output = archive.read("probabilities.npy")
        path = self.folder / "tensors.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("image.npy", image)
            archive.writestr("out_7.npy", output[:-40] + change(output[-40:]))
        return path

    def test_a_file_of_tensors_is_judged_by_the_model(self):
        shown = nodewise("compare", self.model, self.tensors(lambda data: data))
        self.assertEqual(shown.code, 0, shown)
        self.assertTrue(shown.out.startswith("The tensors are those of the "
                                             "model"), shown)
        changed = self.tensors(lambda data: struct.pack(
            "<10f", *[1.01 * x for x in struct.unpack("<10f", data)]))
        shown = nodewise("compare", self.model, changed)
        self.assertEqual(shown.code, 1, shown)
        self.assertTrue(shown.out.startswith(
            "something in the 9 operations that make probabilities makes "
            "something else"), shown)

    def test_a_program_is_measured_beside_its_own_model(self):
        python = BUILD / "venv/bin/python"
        if not python.exists():
            self.skipTest("no build/venv")
        shown = nodewise("locate", f"ort:{self.model}", "--reference",
                         self.lowered("fp16"), "--random-inputs", "1",
                         env={"NODEWISE_PYTHON": str(python)})
        if shown.code == 2 and "onnxruntime" in shown.err:
            self.skipTest("no onnxruntime")
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("differs from the definitions of its own model",
                      shown.err)


if __name__ == "__main__":
    unittest.main()
