"""Adapters with their runtimes, each in a Python that has it.

These take a minute: ./dev test --full installs the runtimes and runs them.
"""

import functools
import os
import subprocess
import unittest

from package_support import (BUILD, INPUTS, ROOT, PackageTest, floats, model,
                             nodewise, numpy, onnx_graph, onnx_model,
                             onnx_node, value_info)
from onnx_bytes import FLOAT, UINT8, attribute, proto_tensor

IS_FULL = bool(os.environ.get("NODEWISE_TEST_FULL"))
PRODUCTS = {"x": numpy.random.default_rng(1).standard_normal(
    (1, 8), numpy.float32)}


def product():
    """y = relu(x w + b)"""
    weights = numpy.random.default_rng(2).standard_normal(64, numpy.float32)
    return onnx_model(onnx_graph(
        [onnx_node("Gemm", ["x", "w", "b"], ["p"], name="product"),
         onnx_node("Relu", ["p"], ["y"], name="last")],
        [value_info("x", dims=(1, 8))], [value_info("y", dims=(1, 8))],
        [proto_tensor("w", [8, 8], FLOAT, (9, weights.tobytes())),
         floats("b", *range(8))]))


@functools.cache
def has(python, package):
    return python.exists() and subprocess.run(
        [python, "-I", "-c", "import importlib.util, sys; "
         f"sys.exit(importlib.util.find_spec('{package}') is None)"],
        check=False).returncode == 0


class RuntimeTest(PackageTest):
    """A test of the adapter NAME, with a Python in build/VENV that has
    PACKAGES."""

    name = ""
    venv = "adapters_venv"
    packages = ()

    def setUp(self):
        if not IS_FULL:
            self.skipTest("takes a minute (./dev test --full)")
        self.python = BUILD / self.venv / "bin/python"
        for package in self.packages:
            if not has(self.python, package):
                self.skipTest(f"{package} is not in build/{self.venv} "
                              "(./dev test --full installs it)")

    def program(self, *options):
        return " ".join([f"exec:{self.python}", "-I",
                         f"{ROOT}/apps/adapters/{self.name}_adapter.py",
                         *(f"--{each}" for each in options)])

    def located(self, content, inputs, *options):
        path = self.folder / "tried.onnx"
        path.write_bytes(content)
        return nodewise.locate(self.program(*options), model=path,
                               inputs=inputs)

    def assert_sound(self, answer, runtime):
        self.assertEqual(answer.status, "ok", answer)
        self.assertNotEqual(answer.verdicts, [])
        self.assertRegex(answer.document["runtime"], runtime)


class IreeTest(RuntimeTest):
    name = "iree"
    packages = ("onnx", "iree.compiler", "iree.runtime")

    def test_a_sound_model_accuses_none(self):
        self.assert_sound(self.located(model(), INPUTS),
                          "^IREE 3.*, llvm-cpu, local-task")

    def test_what_it_refuses_is_quoted(self):
        content = onnx_model(onnx_graph(
            [onnx_node("LpPool", ["x"], ["y"],
                       attribute("kernel_shape", [2, 2]), name="pool")],
            [value_info("x", dims=(1, 1, 4, 4))],
            [value_info("y", dims=(1, 1, 3, 3))]))
        self.assertIn("iree-compile refused the model: failed to legalize",
                      self.refusal(self.located, content,
                                   {"x": numpy.ones((1, 1, 4, 4),
                                                    numpy.float32)}))

    def test_changed_operations_are_named(self):
        done = subprocess.run(
            [os.environ["NODEWISE_COMMAND"], "adapter", "check",
             self.program(), "--network", "convolutional", "--faults", "2"],
            check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("2 of 2 changed operations are named", done.stdout)


class NcnnTest(RuntimeTest):
    name = "ncnn"
    packages = ("onnx", "ncnn", "pnnx")

    def test_a_sound_model_accuses_none(self):
        self.assert_sound(
            self.located(product(), PRODUCTS, "precision=f32"),
            "^ncnn 1.*, cpu, f32")

    def test_its_usual_precision_is_told(self):
        answer = self.located(product(), PRODUCTS)
        self.assertRegex(answer.document["runtime"], "float16 weights")

    def test_a_layer_that_it_does_not_have_is_named(self):
        content = onnx_model(onnx_graph(
            [onnx_node("Det", ["x"], ["y"], name="det")],
            [value_info("x", dims=(1, 4, 4))], [value_info("y", dims=(1,))]))
        self.assertIn("ncnn has no layer Det", self.refusal(
            self.located, content,
            {"x": numpy.eye(4, dtype=numpy.float32)[None]}))


class TorchTest(RuntimeTest):
    name = "torch"
    venv = "torch_venv"
    packages = ("torch", "onnx", "onnxscript")

    MODULE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first = torch.nn.Linear(8, 8)
        self.last = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.last(torch.nn.functional.elu(self.first(x), ALPHA))

def net():
    return Net()
"""
    EXPORT = """
import net, sys, torch
x = torch.zeros(1, 8)
torch.onnx.export(net.net(), (x,), "net.onnx", dynamo=True, verbose=False)
torch.export.save(torch.export.export(net.net().eval(), (x,)), "net.pt2")
"""

    def setUp(self):
        super().setUp()
        path = self.folder / "net.onnx"
        if not path.exists():
            for name, alpha in (("other", 0.5), ("net", 1.0)):
                (self.folder / f"{name}.py").write_text(
                    self.MODULE.replace("ALPHA", str(alpha)))
            subprocess.run([self.python, "-c", self.EXPORT], check=True,
                           cwd=self.folder, capture_output=True)
        self.content = path.read_bytes()

    def test_a_program_and_its_export_agree(self):
        answer = self.located(self.content, PRODUCTS,
                              f"module={self.folder}/net.pt2")
        self.assert_sound(answer, "^PyTorch 2")
        self.assertEqual(answer.document["unobserved"], [])

    def test_what_the_export_computes_otherwise_is_named(self):
        answer = self.located(self.content, PRODUCTS,
                              f"module-from={self.folder}/other.py:net")
        self.assertEqual([each.operations for each in answer.culprits],
                         [("node_Elu_4",)], answer)
        self.assertIn("repairing it repairs the outputs", answer.said)

    def test_a_model_that_does_not_say_its_nodes_is_refused(self):
        self.assertIn("expected one of torch.onnx.export", self.refusal(
            self.located, product(), PRODUCTS,
            f"module={self.folder}/net.pt2"))

    def test_what_is_spoiled_in_it_is_named(self):
        numpy.savez(self.folder / "in.npz", **PRODUCTS)
        done = subprocess.run(
            [os.environ["NODEWISE_COMMAND"], "adapter", "check",
             f"torch:{self.folder}/net.onnx", "--spoil", "--python",
             self.python, "--runtime-option", f"module={self.folder}/net.pt2",
             "--inputs", self.folder / "in.npz", "--faults", "2"],
            check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("2 of 2 spoiled operations are named", done.stdout)

    # The exporter makes a product and a sum of it, of which only the sum has
    # a name of PyTorch's.
    def test_a_value_inside_of_an_operator_is_not_its_result(self):
        self.export("""
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.last = torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.last(x)
""", "torch.zeros(2, 3, 8)")
        inputs = {"x": numpy.ones((2, 3, 8), numpy.float32)}
        answer = self.located((self.folder / "inner.onnx").read_bytes(),
                              inputs, f"module={self.folder}/inner.pt2")
        self.assert_sound(answer, "^PyTorch 2")
        self.assertEqual(len(answer.document["unobserved"]), 1, answer)

    # PyTorch cannot take it apart in a program that was saved.
    def test_fake_quantisation_is_looked_into(self):
        self.export("""
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(torch.fake_quantize_per_tensor_affine(
            x, 0.03, 0, -128, 127))
""", "torch.zeros(1, 8)")
        answer = self.located((self.folder / "inner.onnx").read_bytes(),
                              PRODUCTS, f"module={self.folder}/inner.pt2")
        self.assert_sound(answer, "^PyTorch 2")

    def export(self, module, example):
        """Leaves inner.onnx and inner.pt2 of the class Net."""
        (self.folder / "inner.py").write_text(module)
        subprocess.run([self.python, "-c", f"""
import inner, torch
x = {example}
net = inner.Net().eval()
torch.onnx.export(net, (x,), "inner.onnx", dynamo=True, verbose=False)
torch.export.save(torch.export.export(net, (x,)), "inner.pt2")
"""], check=True, cwd=self.folder, capture_output=True)

    def test_all_values_are_dumped(self):
        numpy.savez(self.folder / "in.npz", **PRODUCTS)
        subprocess.run(
            [self.python, "-I", ROOT / "apps/adapters/torch_adapter.py",
             "--module", "net.pt2", "--inputs", "in.npz", "--dump",
             "out.npz"], cwd=self.folder, check=True, capture_output=True)
        answer = nodewise.compare(self.folder / "net.onnx",
                                  self.folder / "out.npz")
        self.assertEqual(answer.status, "ok", answer)
        self.assertIn("all 3 that have a partner", answer.said)


class LiteRtTest(RuntimeTest):
    name = "litert"
    packages = ("onnx", "ai_edge_litert")

    def file(self, *options):
        """A .tflite file of relu(x * c + d), or with something else in it."""
        script = ROOT / "tests/python/tflite_model.py"
        subprocess.run([self.python, "-I", script, "file.tflite", *options],
                       cwd=self.folder, check=True)
        return f"file={self.folder}/file.tflite"

    def test_a_file_with_the_names_of_the_model_is_looked_into(self):
        answer = self.located(model(), INPUTS, self.file())
        self.assert_sound(answer, "^LiteRT 2.*, XNNPACK")
        self.assertEqual(answer.document["unobserved"], [])

    def test_a_fault_of_the_file_is_named(self):
        answer = self.located(model(), INPUTS, self.file("--wrong"))
        self.assertEqual([each.operations for each in answer.culprits],
                         [("plus",)], answer)

    def test_a_value_that_an_activation_has_changed_is_not_handed_out(self):
        answer = self.located(model(), INPUTS, self.file("--fused"))
        self.assertEqual(answer.status, "ok", answer)
        self.assertEqual(answer.document["unobserved"], ["a"])

    def test_other_kernels_can_be_asked_for(self):
        self.assert_sound(
            self.located(model(), INPUTS, self.file(), "kernels=reference"),
            "reference kernels")

    def test_a_file_of_another_kind_is_refused(self):
        self.assertIn("is not a .tflite file", self.refusal(
            self.located, model(), INPUTS, f"file={self.model}"))

    def test_without_a_file_the_converter_is_wanted(self):
        self.assertIn("has no package onnx2tf", self.refusal(
            self.located, model(), INPUTS))


class Onnx2TfTest(RuntimeTest):
    name = "litert"
    venv = "onnx2tf_venv"
    packages = ("onnx", "ai_edge_litert", "onnx2tf")

    def test_a_model_is_converted_and_looked_into(self):
        content = product()
        answer = self.located(content, PRODUCTS)
        self.assert_sound(answer, "^LiteRT 2.*, XNNPACK")
        self.assertEqual(answer.document["unobserved"], [])
        # onnx2tf writes over the file that it is given.
        self.assertEqual((self.folder / "tried.onnx").read_bytes(), content)

    def test_integers_of_the_model_are_handed_out_as_they_are(self):
        content = onnx_model(onnx_graph(
            [onnx_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="to"),
             onnx_node("DequantizeLinear", ["q", "s", "z"], ["d"],
                       name="back"),
             onnx_node("Tanh", ["d"], ["y"], name="last")],
            [value_info("x", dims=(1, 8))], [value_info("y", dims=(1, 8))],
            [proto_tensor("s", [], FLOAT, (9, b"\x0a\xd7\xa3\x3c")),
             proto_tensor("z", [], UINT8, (9, b"\x78"))]))
        answer = self.located(content, PRODUCTS)
        self.assert_sound(answer, "^LiteRT 2")
        self.assertEqual(answer.document["unobserved"], [], answer)


if __name__ == "__main__":
    unittest.main()
