"""nodewise locate --repro, and the ledger, of what TVM compiled."""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest

from support import NODEWISE, Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (floats, onnx_graph, onnx_model, onnx_node,  # noqa: E402
                        value_info)

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANTS = ROOT.parent / "shared/fixtures/tvm-0.14-mutants"
HAS_AVX2 = "avx2" in pathlib.Path("/proc/cpuinfo").read_text()


@unittest.skipUnless(MUTANTS.is_dir(), "no fixtures beside the project")
@unittest.skipUnless(HAS_AVX2, "the fixtures need AVX2")
class CompiledCulprits(Scratch):
    def locate(self, build, *options):
        return document(nodewise(
            "locate", str(MUTANTS / build / "factory.so"), "--reference",
            str(MUTANTS / "source.onnx"), "--inputs",
            str(MUTANTS / "inputs.npz"), "--json", *options))

    def command_in(self, folder):
        """Runs the one command of a folder, from there."""
        command = json.loads((folder / "repro.json").read_text())["command"]
        self.assertIn("    " + command + "\n",
                      (folder / "README.md").read_text())
        program, *arguments = command.split(" ")
        self.assertEqual(program, "nodewise")
        return subprocess.run([NODEWISE, *arguments, "--json"], cwd=folder,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120, check=False)

    # A pool; channels in blocks; a matrix product; and a normalization that
    # was taken apart.
    def test_the_folder_of_a_culprit_shows_it_wherever_it_lies(self):
        for build in ("mutant-pool-avg", "mutant-dw-transposed",
                      "mutant-mlp2-scaled-0.3pct", "mutant-ln-beta-missing",
                      "mutant-merge-swapped"):
            with self.subTest(build=build):
                found = self.locate(build, "--repro",
                                    str(self.folder / build))
                [culprit] = found["culprits"]
                [repro] = found["repros"]
                self.assertTrue(repro["wrong"])
                moved = self.folder / "elsewhere"
                shutil.move(repro["folder"], moved)
                ran = self.command_in(moved)
                self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
                again = json.loads(ran.stdout)
                self.assertEqual([c["node"] for c in again["culprits"]],
                                 [culprit["node"]])
                for name in ("model.onnx", "graph.json", "lib.so", "main.cc",
                             "data/reference.params", "data/limits.params",
                             "test_data_set_0/output_0.pb"):
                    self.assertTrue((moved / name).is_file(), name)
                shutil.rmtree(moved)

    def test_a_folder_with_a_mended_library_accuses_no_node(self):
        # The sound library has a function of that name, with other numbers.
        found = self.locate("mutant-mlp2-scaled-0.3pct", "--repro",
                            str(self.folder / "culprits"))
        folder = pathlib.Path(found["repros"][0]["folder"])
        sound = self.folder / "sound"
        result = nodewise("repro", str(MUTANTS / "good-opt3/factory.so"),
                          "--inputs", str(MUTANTS / "inputs.npz"), "--node",
                          found["culprits"][0]["node"], "-o", str(sound))
        self.assertEqual(result.code, 0, result.err)
        for name in ("lib.so", "graph.json", "params.params"):
            shutil.copy(sound / name, folder / name)
        ran = self.command_in(folder)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_a_sound_build_leaves_no_folder(self):
        folder = self.folder / "culprits"
        found = self.locate("good-opt3", "--repro", str(folder))
        self.assertEqual(found["status"], "ok")
        self.assertFalse(folder.exists())

    def test_verdicts_have_the_map_and_the_ledger(self):
        found = self.locate("mutant-pool-avg")
        [culprit] = found["culprits"]
        self.assertFalse(culprit["gave_up"])
        self.assertTrue(0 < culprit["edits_tried"] <= 300)
        self.assertEqual(culprit["layout"], "side 1 in blocks of 8")
        self.assertTrue(culprit["inputs"][0]["tensors"])
        verdicts = {v["node"]: v for v in found["verdicts"]}
        broken = verdicts[culprit["node"]]
        self.assertGreater(broken["distance"], 0.01)
        self.assertLess(broken["received"], 1e-4)
        self.assertEqual(broken["layout"], culprit["layout"])
        inheriting = [v for v in found["verdicts"] if v["kind"] == "healthy"
                      and v["passed_on"] > 1e-3]
        self.assertTrue(inheriting)
        for verdict in inheriting:
            self.assertLess(verdict["distance"], 1e-4)
            self.assertGreater(verdict["received"], 1e-3)
            self.assertGreater(verdict["gain"], 0)

    def test_the_report_says_what_the_culprit_reads_and_should_make(self):
        result = nodewise(
            "locate", str(MUTANTS / "mutant-pool-avg/factory.so"),
            "--reference", str(MUTANTS / "source.onnx"), "--inputs",
            str(MUTANTS / "inputs.npz"))
        self.assertEqual(result.code, 1)
        self.assertRegex(result.out, r"reads +\S+: .*side 1 in blocks of 8")
        self.assertRegex(result.out, r"should make +\S+: pool, ")


def network():
    """y = tanh(x) * c."""
    return onnx_model(onnx_graph(
        [onnx_node("Tanh", ["x"], ["t"], name="bend"),
         onnx_node("Mul", ["t", "c"], ["y"], name="scale")],
        [value_info("x", dims=(4, 16))], [value_info("y")],
        [floats("c", *(1 + i / 8 for i in range(16)))]))


def wrong_at_infinity(code):
    """Emitted C whose tanh of infinity is 0."""
    assert "= (float)tanh((double)x0)" in code
    return code.replace("= (float)tanh((double)x0)",
                        "= x0 > 1e30f ? 0 : (float)tanh((double)x0)")


def chain(*operators):
    """Each operator applied to what the one before has made."""
    names = ["x", *(f"t{i}" for i in range(1, len(operators))), "y"]
    return onnx_model(onnx_graph(
        [onnx_node(operator, [names[i]], [names[i + 1]], name=f"step{i}")
         for i, operator in enumerate(operators)],
        [value_info("x", dims=(4, 16))], [value_info("y")]))


@unittest.skipIf(shutil.which("cc") is None, "no C compiler (cc)")
class Emitted(Scratch):
    """Compiled C whose graph does not say what its nodes compute."""

    def compiled(self, model, change=lambda code: code):
        net = self.folder / "net"
        made = nodewise("convert", model, "--no-fuse", "--emit", "c", "-o",
                        net)
        self.assertEqual(made.code, 0, made)
        (net / "lib.c").write_text(change((net / "lib.c").read_text()))
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "lib.c", "-o",
                        "lib.so", "-lm"], cwd=net, check=True, timeout=100)
        graph = net / "graph.json"
        graph.write_text(graph.read_text().replace('"nodewise.', '"other.'))
        return net

    def test_inputs_are_kept_that_show_what_the_given_ones_do_not(self):
        model = self.write("net.onnx", network())
        locate = ["locate", self.compiled(model, wrong_at_infinity),
                  "--reference", model, "--json"]
        given = ["--random-inputs", "1"]
        self.assertEqual(document(nodewise(*locate, *given))["culprits"], [])
        kept = self.folder / "kept"
        found = document(nodewise(*locate, *given, "--special-inputs",
                                  "--repro", kept))
        self.assertEqual([c["input_sets"] for c in found["culprits"]], [[2]])
        self.assertEqual(found["kept_inputs"], [str(kept / "inputs_2.params")])
        again = document(nodewise(*locate, "--inputs",
                                  found["kept_inputs"][0]))
        self.assertEqual([c["node"] for c in again["culprits"]], ["bend"])
        self.assertIn(0, again["culprits"][0]["input_sets"])

    def test_a_model_that_is_another_one_is_asked_about(self):
        net = self.compiled(self.write("net.onnx", chain(*["Tanh", "Sin"] * 5)))
        other = self.write("other.onnx",
                           chain(*["Exp", "Sigmoid", "Neg", "Cos"] * 3))
        result = nodewise("locate", net, "--reference", other,
                          "--random-inputs", "1")
        self.assertEqual(result.code, 1, result)
        self.assertIn("the model of this network, with the weights",
                      result.err)


if __name__ == "__main__":
    unittest.main()
