"""`verify --target`: what a target does with a model, before it is lowered."""

import pathlib
import sys
import unittest

from support import Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (attribute, floats, onnx_graph,  # noqa: E402
                        onnx_model, onnx_node, value_info)


def mixed(dims=(2, 3)):
    """y = softmax(relu(x * w)), z = round(erf(x)): oneDNN has neither Erf nor
    Round."""
    return onnx_model(onnx_graph(
        [onnx_node("Mul", ["x", "w"], ["m"], name="scale"),
         onnx_node("Relu", ["m"], ["r"], name="relu"),
         onnx_node("Softmax", ["r"], ["y"], attribute("axis", 1),
                   name="soft"),
         onnx_node("Erf", ["x"], ["e"], name="erf"),
         onnx_node("Round", ["e"], ["z"], name="round")],
        [value_info("x", dims=dims)],
        [value_info("y", dims=dims), value_info("z", dims=dims)],
        [floats("w", 0.1, 0.7, -3.0)]))


class Target(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "net.onnx"
        self.model.write_bytes(mixed())

    def asked(self, *targets, model=None, options=()):
        words = [word for name in targets for word in ("--target", name)]
        return document(nodewise("verify", model or self.model, *words,
                                 *options, "--json"))

    # OV-16.
    def test_what_onednn_leaves_to_the_reference_is_said_before_the_run(self):
        found = self.asked("onednn")
        self.assertEqual(found["status"], "ok")
        ran = document(nodewise("run", self.model, "--random-inputs", "1",
                                "--json"))
        by = found["targets"][0]["by"]
        self.assertEqual(by, ran["operations"])
        self.assertEqual(sum(by.values()), 5)
        self.assertEqual(found["targets"][0]["nodes"],
                         sum(ran["kernels"].values()))
        if "oneDNN" not in by:
            raise unittest.SkipTest("no oneDNN in this build")
        places = [warning["place"]["operation"]
                  for warning in found["warnings"]]
        self.assertEqual(places, ["erf", "round"])
        shown = nodewise("verify", self.model, "--target", "onednn").out
        self.assertIn("operation erf: onednn falls back to the reference for "
                      "Erf: ", shown)
        self.assertIn("oneDNN has no such operator", shown)
        self.assertIn("\nonednn: 5 operations in ", shown)
        self.assertIn("3 by oneDNN", shown)
        self.assertIn("2 by the reference", shown)

    # OV-15.
    def test_what_there_is_no_c_for_is_an_error_and_refused_by_convert(self):
        model = self.folder / "nms.onnx"
        model.write_bytes(onnx_model(onnx_graph(
            [onnx_node("Relu", ["x"], ["y"], name="relu"),
             onnx_node("Det", ["m"], ["d"], name="det")],
            [value_info("x", dims=(2,)), value_info("m", dims=(3, 3))],
            [value_info("y", dims=(2,)), value_info("d", dims=())], [])))
        found = self.asked("c", model=model)
        self.assertEqual(found["status"], "differs")
        self.assertEqual([error["place"]["operation"]
                          for error in found["errors"]], ["det"])
        self.assertEqual(found["targets"][0]["by"], {"C": 1, "nothing": 1})
        refused = nodewise("convert", model, "--emit", "c", "-o",
                           self.folder / "net")
        self.assertEqual(refused.code, 2, refused)
        self.assertIn("there is no C for 1 operation: det (Det): ",
                      refused.err)
        why = found["errors"][0]["found"].split(": ", 1)[1]
        self.assertIn(why, refused.err)

    def test_several_targets_are_asked_at_once(self):
        found = self.asked("reference", "c", "onednn")
        self.assertEqual([one["target"] for one in found["targets"]],
                         ["c", "onednn"])
        self.assertEqual(found["targets"][0]["by"], {"C": 5})

    def test_open_sizes_are_said_to_keep_a_target_from_it(self):
        self.model.write_bytes(mixed(("n", 3)))
        found = self.asked("onednn")
        self.assertEqual(found["status"], "ok")
        self.assertIn("--dim n=N", found["targets"][0]["why_not"])
        self.assertEqual(len(found["warnings"]), 1)
        self.assertEqual(self.asked("c")["status"], "differs")
        self.assertEqual(self.asked("c", options=("--dim", "n=2"))["status"],
                         "ok")

    def test_a_network_as_text_has_targets_too(self):
        text = self.folder / "net.txt"
        made = nodewise("convert", self.model, "--text", text)
        self.assertEqual(made.code, 0, made)
        self.assertEqual(self.asked("onednn", model=text)["targets"],
                         self.asked("onednn")["targets"])


if __name__ == "__main__":
    unittest.main()
