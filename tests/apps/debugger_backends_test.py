"""network-debugger: backends that are programs or compiled C, what is written
of broken layers, and Glow's flags that change what is calculated."""

import pathlib
import shutil
import struct
import subprocess
import sys
import textwrap
import unittest

import debug_support
import support
from support import Result, Scratch, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, INT32, INT64, attribute, floats,  # noqa: E402
                        ints, onnx_graph, onnx_model, onnx_node, proto_tensor,
                        value_info)

UINT8 = 2
COMMAND = support.BUILD / "bin/nodewise"
DEBUGGER = support.BUILD / "bin/network-debugger"

# Any model, computed by the reference in a process of its own; LIE may change
# `values`, the outputs by name, for the model's bytes in `model`.
PROGRAM = """
    import io, json, struct, subprocess, sys, zipfile

    request = json.load(open(sys.argv[-1]))
    folder = request["output_folder"]
    names = {"float32": "<f4", "int64": "<i8", "int32": "<i4",
             "float16": "<f2", "uint8": "|u1", "int8": "|i1", "bool": "|b1"}
    given = []
    for i, item in enumerate(request["inputs"]):
        shape = "".join(f"{side}, " for side in item["shape"])
        head = (f"{{'descr': '{names[item['dtype']]}', 'fortran_order': False, "
                f"'shape': ({shape}), }}").ljust(117) + "\\n"
        with open(f"{folder}/in{i}.npy", "wb") as out:
            out.write(b"\\x93NUMPY\\x01\\x00" + struct.pack("<H", len(head))
                      + head.encode() + open(item["file"], "rb").read())
        given += ["--input", f"{item['name']}={folder}/in{i}.npy"]
    ran = subprocess.run(
        [COMMAND, "run", request["model"], "--reference", *given, "--output",
         f"{folder}/made.npz"], capture_output=True)
    assert ran.returncode == 0, ran.stderr
    values, types = {}, {}
    with zipfile.ZipFile(f"{folder}/made.npz") as archive:
        for member in archive.namelist():
            data = archive.read(member)
            size, = struct.unpack_from("<H", data, 8)
            head = eval(data[10:10 + size])
            name = member[:-4]
            types[name] = ({v: k for k, v in names.items()}[head["descr"]],
                           list(head["shape"]))
            values[name] = bytearray(data[10 + size:])
    model = open(request["model"], "rb").read()
    # LIE
    answer = {"version": 1, "runtime": "test 1.0", "outputs": [],
              "durations_ns": [1]}
    for i, name in enumerate(request["outputs"]):
        with open(f"{folder}/{i}.bin", "wb") as out:
            out.write(values[name])
        answer["outputs"].append(
            {"name": name, "dtype": types[name][0], "shape": types[name][1],
             "file": f"{i}.bin"})
    json.dump(answer, open(request["answer"], "w"))
"""


def off_by_one(name, condition="True"):
    return (f"if {name!r} in values and ({condition}):\n"
            f"    number, = struct.unpack_from('<f', values[{name!r}])\n"
            f"    struct.pack_into('<f', values[{name!r}], 0, number + 1)\n")


def typed(which, kind, shape):
    return [attribute(f"{which}_elemKind", kind),
            attribute(f"{which}_shape", list(shape))]


class Backends(Scratch):
    def setUp(self):
        super().setUp()
        # Two halves of different numbers, bent and joined; s is read twice.
        self.write("net.onnx", onnx_model(onnx_graph(
            [onnx_node("Split", ["x"], ["l", "r"], attribute("axis", 0),
                       name="halves"),
             onnx_node("Tanh", ["l"], ["t"], name="bend"),
             onnx_node("Sub", ["t", "r"], ["s"], name="less"),
             onnx_node("Mul", ["s", "s"], ["q"], name="square"),
             onnx_node("Add", ["q", "b"], ["y"], name="shift")],
            [value_info("x", dims=(4,))], [value_info("y", dims=(2,))],
            [floats("b", 0.25, 3.0)])))
        self.write("x.pb", floats("x", 0.5, -1.5, 2.0, 4.0))

    def program(self, lie=""):
        code = textwrap.dedent(PROGRAM).replace("COMMAND", repr(str(COMMAND)))
        script = self.write("program.py", code.replace("# LIE", lie).encode())
        return f"-backend=exec:'{sys.executable}' {script}"

    def run_here(self, *arguments):
        child = subprocess.run([DEBUGGER, *map(str, arguments)],
                               stdin=subprocess.DEVNULL, capture_output=True,
                               timeout=120, check=False, cwd=self.folder)
        return Result(child.returncode, child.stdout.decode(),
                      child.stderr.decode())

    def debugged(self, *flags):
        return self.run_here("--model", "net.onnx", "--inputs", "x.pb",
                             "-fuse=false", *flags)

    def params(self, name):
        (tensor,) = debug_support.read_params(self.folder / name).values()
        return tuple(tensor.values)

    def test_a_program_is_a_backend_whose_outputs_go_by_their_names(self):
        # GL-42
        for comparator in ("Intermediate", "Recursive"):
            with self.subTest(comparator=comparator):
                shown = self.debugged(self.program(), "-threshold=0",
                                      f"-comparator={comparator}")
                self.assertEqual((shown.code, shown.err), (0, ""), shown)
                self.assertIn("All layers match with no errors\n", shown.out)

    def test_the_layer_that_a_program_computes_wrong_is_named(self):
        for comparator in ("Intermediate", "Recursive"):
            with self.subTest(comparator=comparator):
                shown = self.debugged(self.program(off_by_one("t")),
                                      f"-comparator={comparator}")
                self.assertEqual((shown.code, shown.err), (1, ""), shown)
                self.assertIn("1 broken: bend, ", shown.out)

    def test_the_emitted_c_is_a_backend(self):
        if shutil.which("cc") is None:
            self.skipTest("there is no C compiler")
        shown = self.debugged("-backend=c")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn("Comparing the c backend against", shown.out)
        self.assertIn("All layers match with no errors\n", shown.out)
        shown = self.debugged("-backend=c", "-compiler=false")
        self.assertEqual(shown.code, 2, shown)
        self.assertIn("-compiler: false failed", shown.err)

    def test_the_reference_is_a_backend_by_both_of_its_names(self):
        for name in ("reference", "interpreter"):
            shown = self.debugged(f"-backend={name}", "-threshold=0")
            self.assertEqual((shown.code, shown.err), (0, ""), shown)

    def test_every_layer_can_be_tried_alone(self):
        # It lies only where the model has one operation.
        lie = off_by_one("t", "b'less' not in model")
        shown = self.debugged(self.program(lie), "-threshold=1e-3")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        shown = self.debugged(self.program(lie), "-threshold=1e-3", "-alone")
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn("1 broken: bend, ", shown.out)

    def test_broken_layers_are_written_without_being_asked_for(self):
        shown = self.debugged(self.program(off_by_one("t")))
        self.assertIn("dumping tensors.\n", shown.out)
        self.assertEqual(
            sorted(p.name for p in self.folder.iterdir() if "bend" in p.name),
            ["input_input_bend", "layer_bend.onnx", "ref_output_bend"])
        self.assertEqual(self.params("input_input_bend"), (0.5, -1.5))

    def test_the_files_of_a_layer_go_with_its_model_as_they_are(self):
        # GL-23, GL-44
        self.debugged(self.program(off_by_one("s")))
        inputs = ["--inputs", "input_A_less", "--inputs", "input_B_less"]
        made = subprocess.run(
            [COMMAND, "run", "layer_less.onnx", "--reference", *inputs,
             "--output", "made.params"], cwd=self.folder, check=False,
            capture_output=True)
        self.assertEqual(made.returncode, 0, made)
        compared = nodewise("compare", self.folder / "ref_C_less",
                            self.folder / "made.params", "--rtol",
                            "1e-6")
        self.assertEqual(compared.code, 0, compared)
        shown = self.run_here("--model", "layer_less.onnx", *inputs,
                              "-threshold=0")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)

    def test_a_tensor_that_a_layer_reads_twice_is_one_input(self):
        self.debugged(self.program(off_by_one("q")))
        self.assertEqual(
            sorted(p.name for p in self.folder.iterdir()
                   if p.name.endswith("_square")),
            ["input_A_square", "ref_C_square"])
        made = nodewise("run", self.folder / "layer_square.onnx",
                        "--reference", "--inputs",
                        self.folder / "input_A_square")
        self.assertEqual(made.code, 0, made)

    def clipped(self, *flags):
        self.write("large.onnx", onnx_model(onnx_graph(
            [onnx_node("Mul", ["x", "x"], ["m"], name="times"),
             onnx_node("Neg", ["m"], ["y"], name="minus")],
            [value_info("x", dims=(2,))], [value_info("y", dims=(2,))])))
        self.write("l.pb", floats("x", 3.0, 300.0))
        shown = self.run_here(
            "--model=large.onnx", "--inputs=l.pb", "-fuse=false",
            "-glow_global_fp16", self.program(off_by_one("y")), *flags)
        self.assertEqual(shown.code, 1, shown)
        (made,) = self.folder.glob("ref_*")
        return self.params(made.name)

    def test_numbers_beyond_float16_are_clipped_if_that_is_asked_for(self):
        # GL-04
        self.assertEqual(self.clipped(), (-9.0, -float("inf")))

    def test_clipped_numbers_are_the_largest_of_float16(self):
        self.assertEqual(self.clipped("-glow_clip_fp16"), (-9.0, -65504.0))

    def test_there_is_nothing_to_clip_where_nothing_is_converted(self):
        shown = self.debugged("-glow_clip_fp16")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn("-glow_clip_fp16: nothing is converted to float16",
                      shown.out)

    def sums_of_rows(self, *flags):
        """What the reference makes of a row of bytes with a scale of 0.1."""
        row = bytes([1, 200]) + struct.pack("<2f", 0.1, 0.01)
        self.write("rows.onnx", onnx_model(onnx_graph(
            [onnx_node("Glow_FusedRowwiseQuantizedSparseLengthsSum",
                       ["table", "which", "lengths"], ["sums"],
                       *typed("i0", "ui8fused", [1, 10]),
                       *typed("i1", "index64", [1]),
                       *typed("i2", "index32", [1]),
                       *typed("o0", "float", [1, 2]),
                       attribute("UseFP16Accumulation", 0)),
             onnx_node("Identity", ["sums"], ["y"])],
            [value_info("which", INT64, [1]),
             value_info("lengths", INT32, [1])],
            [value_info("y", FLOAT, [1, 2])],
            [proto_tensor("table", [1, 10], UINT8, (9, row))]), opset=9))
        self.write("which.pb", ints("which", 0))
        self.write("lengths.pb", proto_tensor("lengths", [1], INT32,
                                              (9, struct.pack("<i", 1))))
        shown = self.run_here(
            "--model=rows.onnx", "--inputs=which.pb", "--inputs=lengths.pb",
            self.program(off_by_one("y")), *flags)
        self.assertEqual(shown.code, 1, shown)
        (made,) = self.folder.glob("ref_*")
        return self.params(made.name)

    def test_layers_and_roles_of_glows_operators_are_called_as_glows(self):
        # GL-21
        self.write("sums.onnx", onnx_model(onnx_graph(
            [onnx_node("Glow_SparseLengthsSum", ["d", "i", "l"], ["s"],
                       *typed("i0", "float", [3, 2]),
                       *typed("i1", "index64", [2]),
                       *typed("i2", "index32", [1]),
                       *typed("o0", "float", [1, 2]), name="layer_1"),
             onnx_node("Identity", ["s"], ["y"])],
            [value_info("d", FLOAT, [3, 2]), value_info("i", INT64, [2]),
             value_info("l", INT32, [1])],
            [value_info("y", FLOAT, [1, 2])]), opset=9))
        self.write("in.onnx", onnx_graph([], [], [], [
            proto_tensor("d", [3, 2], FLOAT,
                         (9, struct.pack("<6f", 1, 2, 3, 4, 5, 6))),
            ints("i", 2, 0), proto_tensor("l", [1], INT32,
                                          (9, struct.pack("<i", 2)))]))
        shown = self.run_here("--model=sums.onnx", "--inputs=in.onnx",
                              self.program(off_by_one("s")))
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn("Verifying layer: layer_1\tType: SparseLengthsSum\n",
                      shown.out)
        # Constants that the definition needs are among the inputs, too.
        inputs = sorted(p.name for p in self.folder.glob("input_*_layer_1"))
        self.assertLessEqual({"input_Data_layer_1", "input_Indices_layer_1",
                              "input_Lengths_layer_1"}, set(inputs))
        self.assertEqual(self.params("ref_Result_layer_1"), (6.0, 8.0))
        again = self.run_here("--model=layer_layer_1.onnx",
                              *(f"--inputs={name}" for name in inputs))
        self.assertEqual((again.code, again.err), (0, ""), again)

    def test_scales_of_rows_are_rounded_to_float16_if_asked_for(self):
        for number, expected in zip(self.sums_of_rows(), (0.11, 20.01)):
            self.assertAlmostEqual(number, expected, 5)

    def test_rounded_scales_of_rows_are_those_of_float16(self):
        half = [struct.unpack("<e", struct.pack("<e", v))[0]
                for v in (0.1, 0.01)]
        made = self.sums_of_rows("-glow_global_fused_scale_offset_fp16")
        for number, q in zip(made, (1, 200)):
            self.assertAlmostEqual(number, half[0] * q + half[1], 5)

    def test_flags_of_glows_runtime_are_refused_with_the_reason(self):
        for flag in ("glow_clip_fp16_skip_inputs",
                     "glow_clip_quant_range_to_fp16",
                     "glow_global_fp16_constants",
                     "glow_skip_bias_fp32tofp16_convert"):
            shown = self.debugged(f"-{flag}")
            self.assertEqual(shown.code, 2, shown)
            self.assertIn(f"-{flag}: is a flag of Glow's runtime, not of its "
                          "network debugger: ", shown.err)


if __name__ == "__main__":
    unittest.main()
