"""nodewise run, on artefacts made here."""

import math
import os
import re
import subprocess
import unittest
import zipfile

import support
from support import (BIAS, DATA, Graph, Scratch, Tensor, add_bias_graph,
                     copy_graph, document, nodewise, npy_bytes, params_bytes)

LIBRARY = support.Library()
SUM = [1.5, 1, 13, 4.5, 4, 16]


class WithNetwork(Scratch):
    """data + bias, with its input in three kinds of file."""

    def setUp(self):
        super().setUp()
        self.make_network(LIBRARY, add_bias_graph())
        self.npy = self.write("x.npy", npy_bytes(DATA))

    def output_of(self, *arguments):
        result = nodewise("run", self.net, *arguments, "--json")
        self.assertEqual(result.code, 0, result)
        return document(result)["outputs"][0]["first"]


class Run(WithNetwork):
    def test_inputs_come_from_every_kind_of_file(self):
        npz = self.folder / "x.npz"
        with zipfile.ZipFile(npz, "w") as archive:
            archive.writestr("data.npy", npy_bytes(DATA))
        for given in (["--input", f"data={self.npy}"],
                      ["--input", f"data={npz}"],
                      ["--input", f"data={self.inputs}"],
                      ["--inputs", self.inputs], ["--inputs", npz]):
            with self.subTest(given=given):
                self.assertEqual(self.output_of(*given), SUM)

    def test_graph_with_library_and_params_named_runs_too(self):
        result = nodewise("run", self.net / "graph.json", "--lib",
                          self.net / "lib.so", "--params",
                          self.net / "params.params", "--inputs", self.inputs)
        self.assertEqual(result.code, 0, result)
        self.assertIn("values 1.5 1 13 4.5 4 16\n", result.out)

    def test_output_that_a_later_node_is_written_over_is_noted(self):
        graph = Graph()
        data = graph.input("data", "float32", (2, 3))
        first = graph.call("copy", [data], "float32", (2, 3), "first")
        graph.output(graph.call("copy", [first], "float32", (2, 3), "last"))
        tree = graph.tree()
        tree["heads"] = [[1, 0, 0], [2, 0, 0]]
        tree["attrs"]["storage_id"] = ["list_int", [0, 1, 1]]
        net = LIBRARY.artefact(self.folder / "lost", tree, {})
        for verb in ("run", "profile"):
            result = nodewise(verb, net, "--random-inputs", 1)
            self.assertEqual(result.code, 0, result)
            self.assertIn("output 0 of the graph (output 0 of node 1 (first))"
                          " is lost: output 0 of node 2 (last) is written "
                          "over it, in storage 1", result.out + result.err)

    def test_text_names_inputs_outputs_and_what_they_hold(self):
        result = nodewise("run", self.net, "--inputs", self.inputs)
        self.assertEqual((result.code, result.err), (0, ""))
        self.assertIn("input  data  float32 (2, 3)  from ", result.out)
        self.assertIn("output  add_bias  float32 (2, 3)\n", result.out)
        self.assertIn("  min 1  max 16  mean 6.66667  NaN 0  Inf 0\n",
                      result.out)

    def test_json_is_the_same_but_for_the_time(self):
        first, second = (
            document(nodewise("run", self.net, "--random-inputs", 7, "--json"))
            for _ in range(2))
        self.assertGreater(first.pop("time")["median_ms"], 0)
        second.pop("time")
        # The text has the time too.
        self.assertNotEqual(first.pop("report"), [])
        second.pop("report")
        self.assertEqual(first, second)
        self.assertEqual(first["seed"], 7)
        self.assertEqual(first["status"], "ok")

    def test_random_inputs_leave_given_ones_alone_and_name_the_seed(self):
        given = ["--inputs", self.inputs, "--random-inputs", 7]
        self.assertEqual(self.output_of(*given), SUM)
        drawn = nodewise("run", self.net, "--random-inputs", 7)
        self.assertIn("from random, seed 7", drawn.out)

    def test_repeat_counts_its_runs(self):
        result = nodewise("run", self.net, "--inputs", self.inputs,
                          "--repeat", 3, "--threads", 1, "--json")
        self.assertEqual(document(result)["time"]["runs"], 3)

    def test_unknown_parameters_are_noted_and_do_no_harm(self):
        LIBRARY.artefact(self.net, add_bias_graph(),
                         {"bias": BIAS, "extra": BIAS})
        result = nodewise("run", self.net, "--inputs", self.inputs)
        self.assertEqual(result.code, 0)
        self.assertRegex(result.err,
                         r"\Anodewise: note: .*params.params: 1 parameter "
                         r"that the graph does not have: extra\n\Z")

    def test_names_from_files_cannot_command_the_terminal(self):
        graph = Graph()
        data = graph.input("data", "float32", (2,))
        graph.output(graph.call("copy", [data], "float32", (2,), "\x1b[2J"))
        net = LIBRARY.artefact(self.folder / "net", graph, {})
        result = nodewise("run", net, "--random-inputs", 1)
        self.assertEqual(result.code, 0)
        self.assertNotIn("\x1b", result.out)
        self.assertIn("\\x1b[2J", result.out)

    def test_names_from_files_cannot_begin_a_line(self):
        graph = Graph()
        data = graph.input("in\nside", "float32", (2,))
        graph.output(graph.call("copy", [data], "float32", (2,), "out\nput"))
        net = LIBRARY.artefact(self.folder / "net", graph, {})
        for given in (["run", net, "--random-inputs", 1], ["inspect", net]):
            with self.subTest(given=given):
                text = nodewise(*given).out
                self.assertIn("  in\\x0aside  float32 (2,)", text)
                self.assertIn("  out\\x0aput  float32 (2,)", text)


class Types(Scratch):
    def first_of(self, tensor):
        net = LIBRARY.artefact(self.folder / "net",
                               copy_graph(tensor.dtype, tensor.shape), {})
        inputs = self.folder / "in.params"
        inputs.write_bytes(params_bytes({"data": tensor}))
        result = nodewise("run", net, "--inputs", inputs, "--json")
        self.assertEqual(result.code, 0, result)
        return document(result)["outputs"][0]

    def test_every_type_shows_its_values(self):
        table = [
            ("int8", [-128, 127], [-128, 127]),
            ("int64", [-2**63, 2**63 - 1], [-2**63, 2**63 - 1]),
            ("uint64", [0, 2**64 - 1], [0, 2**64 - 1]),
            ("uint8", [0, 255], [0, 255]),
            ("bool", [False, True], [False, True]),
            ("bool8", [False, True], [False, True]),
            ("float16", [0.5, -2], [0.5, -2]),
            ("float32", [0.1, 1e30], [0.1, 1e30]),
            ("float64", [0.1, 1e300], [0.1, 1e300]),
            ("bfloat16", [0x3F80, 0xC000], [1, -2]),
            ("e4m3_float8", [0x38, 0x40], [1, 2]),
        ]
        for dtype, values, shown in table:
            with self.subTest(dtype=dtype):
                output = self.first_of(Tensor(dtype, (2,), values))
                self.assertEqual(output["dtype"], dtype)
                self.assertEqual(output["first"], shown)
                self.assertEqual([output["min"], output["max"]],
                                 sorted(shown))

    def test_not_a_number_and_infinity_are_counted(self):
        output = self.first_of(
            Tensor("float32", (4,), (math.nan, 1, math.inf, 2)))
        self.assertEqual((output["nans"], output["infinities"]), (1, 1))
        self.assertEqual((output["min"], output["max"]), (1, "inf"))
        self.assertEqual(output["mean"], 1.5)
        self.assertEqual(output["first"], ["nan", 1, "inf", 2])

    def test_tensor_without_numbers_has_no_range(self):
        output = self.first_of(Tensor("float32", (1,), (math.nan,)))
        self.assertEqual((output["min"], output["mean"]), (None, None))


class Output(WithNetwork):
    def test_params_and_npz_hold_the_outputs_by_name(self):
        for name in ("y.params", "y.npz"):
            with self.subTest(name=name):
                path = self.folder / name
                result = nodewise("run", self.net, "--inputs", self.inputs,
                                  "--output", path)
                self.assertEqual(result.code, 0, result)
                self.assertIn(f"wrote {path}\n", result.out)
                found = document(nodewise("inspect", path, "--json"))
                tensor = found["files"][0]["tensors"][0]
                self.assertEqual(tensor["name"], "add_bias")
                self.assertEqual(tensor["max"], 16)

    def test_numpy_reads_a_single_output(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        path = self.folder / "y.npy"
        nodewise("run", self.net, "--inputs", self.inputs, "--output", path)
        self.assertEqual(numpy.load(path).ravel().tolist(), SUM)

    def test_outputs_of_one_name_are_told_apart(self):
        graph = add_bias_graph().output(2).output(2)
        net = LIBRARY.artefact(self.folder / "net", graph, {"bias": BIAS})
        path = self.folder / "y.npz"
        result = nodewise("run", net, "--inputs", self.inputs, "--output",
                          path)
        self.assertEqual(result.code, 0, result)
        with zipfile.ZipFile(path) as archive:
            self.assertEqual(len(set(archive.namelist())), 3)


class BadInput(WithNetwork):
    """Each exits with 2, says where, and leaves no file behind."""

    def refused_run(self, *arguments):
        return self.refused("run", *arguments, "--output",
                            self.folder / "y.npz")

    def test_input_that_does_not_fit_is_named_with_both_types(self):
        table = [
            (Tensor("float32", (3, 2), DATA.values), "float32 (3, 2)"),
            (Tensor("float64", (2, 3), DATA.values), "float64 (2, 3)"),
            (Tensor("bool", (2, 3), [True] * 6), "bool (2, 3)"),
            (Tensor("bfloat16", (2, 3), [0] * 6), "bfloat16 (2, 3)"),
        ]
        for tensor, found in table:
            with self.subTest(found=found):
                path = self.write("bad.npy", npy_bytes(tensor))
                error = self.refused_run(self.net, "--input", f"data={path}")
                self.assertIn(f"bad.npy: input data: is {found}, "
                              "expected float32 (2, 3)\n", error)

    def test_inputs_are_checked_by_name(self):
        table = [
            (["--input", f"dta={self.npy}"], "did you mean data?"),
            (["--input", "data"], 'found "data", expected NAME=FILE'),
            (["--input", f"data={self.npy}", "--inputs", self.inputs],
             "input data: is given twice"),
            (["--inputs", self.npy], "input x: the graph has no such input"),
            (["--input", f"data={self.folder}/no.npy"], "no.npy: "),
            (["--input", f"data={self.folder}"], "is a directory"),
            (["--input", f"data={self.net}/graph.json"],
             'extension is ".json", expected .npy'),
        ]
        for given, message in table:
            with self.subTest(message=message):
                self.assertIn(message, self.refused_run(self.net, *given))

    def test_every_input_that_is_missing_is_named(self):
        net = LIBRARY.artefact(self.folder / "net", add_bias_graph())
        (net / "params.params").unlink(missing_ok=True)
        error = self.refused_run(net)
        self.assertIn("input data: was not given, expected float32 (2, 3)",
                      error)
        self.assertIn("input bias: was not given, expected float32 (3,)",
                      error)

    def test_input_that_shares_its_name_is_named_by_its_key(self):
        graph = Graph()
        nodes = [graph.input("x", "float32", shape) for shape in ((2, 3), (3,))]
        graph.output(graph.call("add_bias", nodes, "float32", (2, 3)))
        net = LIBRARY.artefact(self.folder / "twins", graph, {})
        x = f"={self.npy}"
        self.assertIn("input x: 2 inputs have that name, expected one of x#0, "
                      "x#1\n", self.refused_run(net, "--input", "x" + x))
        self.assertIn("input x#1: was not given, expected float32 (3,) "
                      "(--input x#1=FILE, ",
                      self.refused_run(net, "--input", "x#0" + x))

    def test_damaged_tensor_file_is_refused(self):
        for name, data in (("x.npy", npy_bytes(DATA)[:-1]),
                           ("x.params", params_bytes({"data": DATA})[:-1]),
                           ("x.npz", b"PK\x03\x04")):
            with self.subTest(name=name):
                path = self.write(name, data)
                self.assertIn(name, self.refused_run(
                    self.net, "--input", f"data={path}"))

    def test_target_that_is_none_is_refused(self):
        empty = self.folder / "empty"
        empty.mkdir()
        table = [
            (self.folder / "no", "no such file or folder"),
            (empty, "holds no artefact"),
            (self.net / "lib.so", "holds no graph"),
            (self.net / "graph.json", "--lib"),
        ]
        for target, message in table:
            with self.subTest(target=target):
                self.assertIn(message, self.refused_run(
                    target, "--inputs", self.inputs))

    def test_library_that_cannot_be_used_is_refused(self):
        elf = bytearray(LIBRARY.path.read_bytes())
        elf[18:20] = (243).to_bytes(2, "little")  # e_machine: RISC-V
        table = [
            ("other.so", bytes(elf), "riscv"),
            ("text.so", b"not a library", "ELF"),
            ("short.so", LIBRARY.path.read_bytes()[:100], "short.so"),
            ("empty.so", b"", "empty.so"),
        ]
        for name, data, message in table:
            with self.subTest(name=name):
                path = self.write(name, data)
                error = self.refused_run(self.net, "--lib", path, "--inputs",
                                         self.inputs)
                self.assertIn(message, error)

    def test_function_that_the_library_lacks_is_named(self):
        graph = Graph()
        data = graph.input("data", "float32", (2, 3))
        graph.output(graph.call("cpy", [data], "float32", (2, 3)))
        net = LIBRARY.artefact(self.folder / "net", graph, {})
        error = self.refused_run(net, "--inputs", self.inputs)
        self.assertIn("cpy", error)
        self.assertIn("did you mean copy?", error)

    def test_function_that_fails_is_named_with_its_node(self):
        graph = Graph()
        data = graph.input("data", "float32", (2, 3))
        graph.output(graph.call("fail", [data], "float32", (2, 3), "node_a"))
        net = LIBRARY.artefact(self.folder / "net", graph, {})
        error = self.refused_run(net, "--inputs", self.inputs)
        self.assertIn("node 1 (node_a): fail: this kernel always fails",
                      error)

    def test_parameter_of_the_wrong_type_names_its_file(self):
        LIBRARY.artefact(self.net, add_bias_graph(), {"bias": DATA})
        error = self.refused_run(self.net, "--inputs", self.inputs)
        self.assertRegex(error, r"params\.params: .*bias is float32 \(2, 3\), "
                                r"expected float32 \(3,\)")

    def test_device_that_is_not_there_is_named(self):
        for device in ("nodevice", "cpu:x", "metal"):
            with self.subTest(device=device):
                self.assertIn("--device", self.refused_run(
                    self.net, "--device", device, "--inputs", self.inputs))

    def test_output_is_refused_before_the_run(self):
        graph = add_bias_graph().output(0)
        net = LIBRARY.artefact(self.folder / "net", graph, {"bias": BIAS})
        table = [
            ("y.txt", 'extension is ".txt", expected .npz'),
            ("y", 'extension is ""'),
            ("y.npy", "2 outputs do not go into a .npy file"),
            ("no/y.npz", "there is no folder"),
        ]
        for name, message in table:
            with self.subTest(name=name):
                error = self.refused("run", net, "--inputs", self.inputs,
                                     "--output", self.folder / name)
                self.assertIn(message, error)


class Waiting(unittest.TestCase):
    def test_libgomp_is_initialised_when_it_has_been_told_not_to_spin(self):
        child = subprocess.run(
            [support.NODEWISE, "--version"], capture_output=True, text=True,
            env={**os.environ, "LD_DEBUG": "files"}, check=True)
        order = re.findall(r"calling init: \S*/(\w+)\.so", child.stderr)
        if "libgomp" not in order:
            self.skipTest("built without oneDNN")
        self.assertLess(order.index("libnodewise_runtime"),
                        order.index("libgomp"))


if __name__ == "__main__":
    unittest.main()
