"""nodewise repro and locate --repro: folders that show one node's failure."""

import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import unittest

import support
from support import (BIAS, NODEWISE, Result, Scratch, add_bias_graph, document,
                     nodewise)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, attribute, floats, ints, onnx_graph,  # noqa: E402
                        onnx_model, onnx_node, proto_tensor, value_info)

UINT8, INT8 = 2, 3
HOSTILE = "`$(touch pwned)`; */ \"'\n../../x\x01"
LIBRARY = support.Library()

# The functions of `quantised_network()`, of which the product leaves the last
# element of each sum out.
INT8_KERNELS = support.KERNELS + r"""
#include <math.h>
#include <stdint.h>

static uint8_t quantised(float x, uint8_t zero) {
  const float moved = nearbyintf(x) + (float)zero;
  return (uint8_t)(moved < 0 ? 0 : moved > 255 ? 255 : moved);
}

KERNEL(nodewise_quantizelinear) {
  const float* x = tensor(args, 0)->data;
  const float scale = *(const float*)tensor(args, 1)->data;
  const uint8_t zero = *(const uint8_t*)tensor(args, 2)->data;
  uint8_t* y = tensor(args, 3)->data;
  for (size_t i = 0; i < count(tensor(args, 3)); ++i) {
    y[i] = quantised(x[i] / scale, zero);
  }
  return 0;
}

KERNEL(nodewise_qlinearmatmul) {
  const uint8_t* a = tensor(args, 0)->data;
  const int8_t* b = tensor(args, 3)->data;
  const float scale = *(const float*)tensor(args, 1)->data *
                      *(const float*)tensor(args, 4)->data /
                      *(const float*)tensor(args, 6)->data;
  const int a_zero = *(const uint8_t*)tensor(args, 2)->data;
  const int b_zero = *(const int8_t*)tensor(args, 5)->data;
  const uint8_t y_zero = *(const uint8_t*)tensor(args, 7)->data;
  const DLTensor* out = tensor(args, 8);
  const int64_t rows = out->shape[0], columns = out->shape[1];
  const int64_t depth = tensor(args, 0)->shape[1];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      int sum = 0;
      for (int64_t k = 0; k < depth - DROPPED; ++k) {
        sum += (a[r * depth + k] - a_zero) * (b[k * columns + c] - b_zero);
      }
      ((uint8_t*)out->data)[r * columns + c] =
          quantised((float)sum * scale, y_zero);
    }
  }
  return 0;
}

KERNEL(nodewise_dequantizelinear) {
  const uint8_t* x = tensor(args, 0)->data;
  const float scale = *(const float*)tensor(args, 1)->data;
  const int zero = *(const uint8_t*)tensor(args, 2)->data;
  float* y = tensor(args, 3)->data;
  for (size_t i = 0; i < count(tensor(args, 3)); ++i) {
    y[i] = (float)(x[i] - zero) * scale;
  }
  return 0;
}
"""


def ramp(count, step):
    return struct.pack(f"<{count}f",
                       *[math.sin(step * (i + 1)) for i in range(count)])


def convolutional_network(name="conv"):
    return onnx_model(onnx_graph(
        [onnx_node("Tanh", ["x"], ["t"], name="bend"),
         onnx_node("Conv", ["t", "w", "b"], ["c"],
                   attribute("pads", [1, 1, 1, 1]), name=name),
         onnx_node("Softmax", ["c"], ["y"], name="last")],
        [value_info("x", dims=(1, 3, 6, 6))], [value_info("y")],
        [proto_tensor("w", [4, 3, 3, 3], FLOAT, (9, ramp(108, 0.7))),
         floats("b", 0.1, -0.2, 0.3, 0.4)]))


def branching_network():
    return onnx_model(onnx_graph(
        [onnx_node("Tanh", ["x"], ["t"], name="bend"),
         onnx_node("Split", ["t"], ["l", "r"], attribute("axis", 1),
                   name="halves"),
         onnx_node("Softmax", ["l"], ["a"], name="first"),
         onnx_node("Softmax", ["r"], ["b"], name="second")],
        [value_info("x", dims=(2, 6))], [value_info("a"), value_info("b")]))


def quantised_network():
    weights = struct.pack("<12b", *[i * 37 % 101 - 50 for i in range(12)])
    return onnx_model(onnx_graph(
        [onnx_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quant"),
         onnx_node("QLinearMatMul",
                   ["q", "s", "z", "w", "ws", "wz", "ys", "yz"], ["p"],
                   name="product"),
         onnx_node("DequantizeLinear", ["p", "ys", "yz"], ["y"],
                   name="dequant")],
        [value_info("x", dims=(2, 4))], [value_info("y")],
        [floats("s", 0.02), proto_tensor("z", [1], UINT8, (9, b"\x80")),
         proto_tensor("w", [4, 3], INT8, (9, weights)), floats("ws", 0.01),
         proto_tensor("wz", [1], INT8, (9, b"\0")), floats("ys", 0.05),
         proto_tensor("yz", [1], UINT8, (9, b"\x80"))]))


def run_in(folder, *command):
    """Runs the command in that folder, with nodewise on the PATH."""
    path = {**os.environ,
            "PATH": f"{NODEWISE.parent}:{os.environ.get('PATH', '')}"}
    child = subprocess.run(command, cwd=folder, env=path, timeout=100,
                           stdin=subprocess.DEVNULL, capture_output=True,
                           check=False)
    return Result(child.returncode, child.stdout.decode(errors="replace"),
                  child.stderr.decode(errors="replace"))


class Folders(Scratch):
    def compile(self, folder):
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "lib.c", "-o",
                        "lib.so", "-lm"], cwd=folder, check=True, timeout=100)

    def emitted(self, model, old="", new=""):
        """A folder whose functions are C, compiled with a change."""
        if shutil.which("cc") is None:
            self.skipTest("no C compiler (cc)")
        folder = self.folder / "net"
        made = nodewise("convert", self.write("net.onnx", model), "--emit",
                        "c", "-o", folder)
        self.assertEqual(made.code, 0, made)
        source = (folder / "lib.c").read_text()
        self.assertIn(old, source)
        (folder / "lib.c").write_text(source.replace(old, new))
        self.compile(folder)
        return folder

    def quantised(self, dropped):
        folder = self.folder / "net"
        made = nodewise("convert", self.write("net.onnx", quantised_network()),
                        "-o", folder)
        self.assertEqual(made.code, 0, made)
        support.compile_library(f"#define DROPPED {dropped}\n" + INT8_KERNELS,
                                folder / "lib.so")
        return folder

    def moved(self, net):
        """Moves the one repro that locate writes, and removes the network.
        Returns the repro's new folder."""
        shown = nodewise("locate", net, "--random-inputs", "1", "--repro",
                         self.folder / "repros")
        self.assertEqual(shown.code, 1, shown)
        (made,) = (self.folder / "repros").iterdir()
        there = self.folder / "some where" / "else"
        there.parent.mkdir()
        shutil.move(made, there)
        shutil.rmtree(net)
        shutil.rmtree(self.folder / "repros")
        return there

    def expect_failure(self, repro, node):
        """Runs its one command, and returns what the description says of the
        output that is wrong."""
        about = json.loads((repro / "repro.json").read_text())
        self.assertIn(f"    {about['command']}\n",
                      (repro / "README.md").read_text())
        shown = run_in(repro, *about["command"].split())
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn(f"culprit: {node}, broken\n", shown.out)
        (wrong,) = [out for out in about["outputs"] if out["wrong"]]
        self.assertIn(wrong["reason"], shown.out)
        return wrong


class Repro(Folders):
    def test_a_wrong_convolution_is_shown_wherever_the_folder_is(self):
        net = self.emitted(convolutional_network(), "w2 * from[o + 2]",
                           "1.01f * w2 * from[o + 2]")
        repro = self.moved(net)
        wrong = self.expect_failure(repro, "conv")
        self.assertEqual((wrong["role"], wrong["shape"]), ("Y", [1, 4, 6, 6]))
        names = [i["name"] for i in json.loads(
            (repro / "repro.json").read_text())["inputs"]]
        self.assertEqual(names, ["input_X_conv", "input_W_conv",
                                 "input_B_conv"])

    def test_a_wrong_product_of_integers_is_shown(self):
        repro = self.moved(self.quantised(dropped=1))
        wrong = self.expect_failure(repro, "product")
        self.assertEqual(wrong["dtype"], "uint8")

    def test_the_output_that_is_wrong_is_named(self):
        net = self.emitted(branching_network(), "in0[3 + i0 * 6 + i1]",
                           "in0[2 + i0 * 6 + i1]")
        wrong = self.expect_failure(self.moved(net), "halves")
        self.assertEqual(wrong["name"], "out_outputs_1_halves")

    def test_once_it_is_mended_the_command_accuses_no_node(self):
        repro = self.moved(self.quantised(dropped=1))
        support.compile_library("#define DROPPED 0\n" + INT8_KERNELS,
                                repro / "lib.so")
        shown = run_in(repro, *json.loads(
            (repro / "repro.json").read_text())["command"].split())
        self.assertEqual((shown.code, shown.err), (0, ""), shown)

    def test_inputs_are_simpler_and_the_given_ones_are_kept(self):
        net = self.emitted(convolutional_network(), "w2 * from[o + 2]",
                           "1.01f * w2 * from[o + 2]")
        repro = self.moved(net)
        simple = (repro / "data/inputs.params").read_bytes()
        given = (repro / "data/original.params").read_bytes()
        self.assertEqual(len(simple), len(given))
        self.assertGreater(simple.count(b"\0\0\0\0"), 100)
        self.assertEqual(simple.count(struct.pack("<f", 1)), 1)
        (repro / "data/original.params").rename(repro / "data/inputs.params")
        self.assertEqual(run_in(repro, "nodewise", "locate", ".", "--inputs",
                                "data/inputs.params").code, 1)

    def test_its_tensors_can_be_compared(self):
        net = self.emitted(convolutional_network(), "w2 * from[o + 2]",
                           "1.01f * w2 * from[o + 2]")
        readme = (self.moved(net) / "README.md").read_text()
        command = re.search("(?m)^    (nodewise compare .*)$", readme).group(1)
        shown = run_in(self.folder / "some where/else", *command.split())
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("ref_Y_conv -> out_Y_conv", shown.out)

    def test_names_reach_no_path_and_no_command(self):
        net = self.emitted(convolutional_network(HOSTILE))
        out = self.folder / "repros"
        made = nodewise("repro", net, "--random-inputs", "1", "--all-nodes",
                        "-o", out)
        self.assertEqual(made.code, 0, made)
        for path in out.rglob("*"):
            self.assertRegex(path.name, r"\A[\w.]+\Z")
        (repro,) = [p for p in out.iterdir() if "touch" in p.name]
        self.assertEqual(repro.name[:12], "002____touch")
        about = json.loads((repro / "repro.json").read_text())
        self.assertEqual(about["node"], HOSTILE)
        shown = run_in(repro, "sh", "-c", about["command"])
        self.assertEqual(shown.code, 0, shown)
        self.assertFalse(list(self.folder.rglob("pwned")))
        readme = (repro / "README.md").read_text()
        title = readme.splitlines()[0]
        self.assertEqual(title.count("`"), 2, title)
        self.assertIn("\\x0a../../x\\x01", title)
        for name in "main.cc", "CMakeLists.txt":
            self.assertNotIn("touch", (repro / name).read_text())

    def test_nothing_is_written_where_something_lies(self):
        net = self.emitted(convolutional_network())
        (self.folder / "full").mkdir()
        self.write("full/mine", b"")
        for verb in (["repro", net, "--all-nodes", "-o"],
                     ["locate", net, "--repro"]):
            error = self.refused(verb[0], *verb[1:], self.folder / "full",
                                 "--random-inputs", "1")
            self.assertIn("holds mine, expected an empty folder", error)

    def test_a_plan_fault_of_built_in_functions_becomes_a_folder(self):
        model = onnx_model(onnx_graph(
            [onnx_node("Softmax", ["x"], ["a"], name="a"),
             onnx_node("Softmax", ["a"], ["b"], name="b"),
             onnx_node("Softmax", ["b"], ["c"], name="c"),
             onnx_node("Add", ["a", "c"], ["y"], name="y")],
            [value_info("x", dims=(2, 3))], [value_info("y")]))
        folder = self.folder / "net"
        nodewise("convert", self.write("net.onnx", model), "--no-fuse",
                 "--no-reuse", "-o", folder)
        graph = json.loads((folder / "graph.json").read_text())
        names = [node["name"] for node in graph["nodes"]]
        ids = graph["attrs"]["storage_id"][1]
        ids[names.index("c")] = ids[names.index("a")]
        (folder / "graph.json").write_text(json.dumps(graph))
        shown = nodewise("locate", folder, "--random-inputs", "1", "--repro",
                         self.folder / "repros")
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("001_c  plan fault: writes over a:0, which y still "
                      "reads\n", shown.out)
        child = subprocess.run(
            [NODEWISE, "locate", ".", "--inputs", "data/inputs.params"],
            cwd=self.folder / "repros/001_c", text=True, check=False,
            capture_output=True, timeout=100)
        self.assertEqual(child.returncode, 1, child)
        self.assertIn("culprit: c, plan fault\n", child.stdout)


class AllNodes(Folders):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", onnx_model(onnx_graph(
            [onnx_node("Softmax", ["x"], ["a"], name="one"),
             onnx_node("Tanh", ["a"], ["b"], name="two"),
             onnx_node("Softmax", ["b"], ["c"], name="three"),
             onnx_node("Softmax", ["c"], ["y"], attribute("axis", 0),
                       name="four")],
            [value_info("x", dims=(2, 3))], [value_info("y")])))

    def cases(self, name, *options):
        made = nodewise("repro", self.model, "--random-inputs", "1",
                        "--all-nodes", "-o", self.folder / name, *options)
        self.assertEqual(made.code, 0, made)
        return sorted(p.name for p in (self.folder / name).iterdir())

    def test_nodes_that_compute_the_same_are_written_once(self):
        self.assertEqual(self.cases("all"), ["001_one", "002_two", "003_four"])

    def test_shards_are_all_of_them_and_keep_their_numbers(self):
        self.assertEqual(self.cases("a", "--shard", "1/2"),
                         ["001_one", "003_four"])
        self.assertEqual(self.cases("b", "--shard", "2/2"), ["002_two"])

    def test_two_runs_write_the_same_bytes(self):
        self.cases("a")
        self.cases("b")
        contents = [{str(p.relative_to(self.folder / name)): p.read_bytes()
                     for p in (self.folder / name).rglob("*") if p.is_file()}
                    for name in "ab"]
        self.assertEqual(contents[0], contents[1])

    def test_each_passes_as_a_test(self):
        for name in self.cases("all"):
            with self.subTest(case=name):
                shown = run_in(self.folder / "all" / name, "nodewise",
                               "locate", ".", "--inputs", "data/inputs.params")
                self.assertEqual((shown.code, shown.err), (0, ""), shown)

    def test_the_model_in_it_makes_what_its_test_data_say(self):
        case = self.folder / "all" / self.cases("all")[0]
        shown = run_in(case, "nodewise", "run", "model.onnx", "--input",
                       "x=test_data_set_0/input_0.pb", "--output", "y.npz")
        self.assertEqual(shown.code, 0, shown)
        shown = run_in(case, "nodewise", "compare", "test_data_set_0/output_0.pb",
                       "y.npz")
        self.assertEqual(shown.code, 0, shown)

    def test_an_operation_names_the_node_that_it_is_in(self):
        made = nodewise("repro", self.model, "--random-inputs", "1", "--node",
                        "three", "-o", self.folder / "three", "--json")
        self.assertEqual((made.code, made.err), (0, ""), made)
        (found,) = document(made)["repros"]
        self.assertEqual((found["node"], found["wrong"]), ("three", False))

    def test_a_node_that_does_not_say_what_it_computes_can_be_run(self):
        net = LIBRARY.artefact(self.folder / "tvm", add_bias_graph(),
                               {"bias": BIAS})
        made = nodewise("repro", net, "--random-inputs", "1", "--node",
                        "add_bias", "-o", self.folder / "alone")
        self.assertEqual(made.code, 0, made)
        self.assertIn("not judged", made.out)
        about = json.loads((self.folder / "alone/repro.json").read_text())
        self.assertEqual([i["name"] for i in about["inputs"]],
                         ["input_In_add_bias", "input_In_2_add_bias"])
        shown = run_in(self.folder / "alone", *about["command"].split())
        self.assertEqual((shown.code, shown.err), (0, ""), shown)

    def test_a_node_that_reads_parameters_alone_needs_no_inputs(self):
        self.model.write_bytes(onnx_model(onnx_graph(
            [onnx_node("ConstantOfShape", ["s"], ["z"], name="zeros"),
             onnx_node("Add", ["x", "z"], ["y"], name="sum")],
            [value_info("x", dims=(70, 70))], [value_info("y")],
            [ints("s", 70, 70)])))  # Smaller ones become constants.
        made = nodewise("repro", self.model, "--no-fuse", "--random-inputs",
                        "1", "--node", "zeros", "-o", self.folder / "zeros")
        self.assertEqual(made.code, 0, made)
        about = json.loads((self.folder / "zeros/repro.json").read_text())
        self.assertEqual(about["command"], "nodewise locate .")
        shown = run_in(self.folder / "zeros", *about["command"].split())
        self.assertEqual((shown.code, shown.err), (0, ""), shown)

    def test_bad_use_names_what_is_expected(self):
        for options, expected in (
                (["--node", "one"], "-o: is missing"),
                (["-o", "x"], "--node: expected a node, or --all-nodes"),
                (["--node", "ona", "-o", "x"], "--node: "),
                (["--node", "x", "-o", "y"], "is an input"),
                (["--node", "one", "--shard", "1/2", "-o", "x"],
                 "--shard: means nothing without --all-nodes"),
                (["--all-nodes", "--shard", "3/2", "-o", "x"],
                 "expected I/N, such as 1/4")):
            with self.subTest(options=options):
                self.assertIn(expected, self.refused(
                    "repro", self.model, "--random-inputs", "1", *options))


if __name__ == "__main__":
    unittest.main()
