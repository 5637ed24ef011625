"""nodewise align, and locate by the values of a model, on what TVM compiled."""

import json
import pathlib
import unittest

from support import Scratch, document, nodewise

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANTS = ROOT.parent / "shared/fixtures/tvm-0.14-mutants"
HAS_AVX2 = "avx2" in pathlib.Path("/proc/cpuinfo").read_text()


@unittest.skipUnless(MUTANTS.is_dir(), "no fixtures beside the project")
@unittest.skipUnless(HAS_AVX2, "the fixtures need AVX2")
class Compiled(Scratch):
    model = str(MUTANTS / "source.onnx")
    inputs = ["--inputs", str(MUTANTS / "inputs.npz")]

    def locate(self, build, *options):
        return document(nodewise(
            "locate", str(MUTANTS / build / "factory.so"), "--reference",
            self.model, *self.inputs, "--json", *options))

    def test_nodes_of_a_sound_build_are_found_in_the_model(self):
        found = document(nodewise(
            "align", str(MUTANTS / "good-opt3/factory.so"), self.model,
            *self.inputs, "--json"))
        self.assertEqual(found["status"], "ok")
        # One holds a scale that the compiler moved into the weights.
        self.assertEqual((found["matched"], found["nodes"]), (24, 25))
        self.assertEqual(found["between"], 1)
        inside = [e["inside_of"] for e in found["entries"] if not e["tensors"]]
        self.assertEqual(len(inside), 1)
        self.assertTrue(0 < len(inside[0]) <= 6)
        blocks = [e for e in found["entries"] if e["tensors"] == ["merge"]]
        self.assertEqual(blocks[0]["layout"], "side 1 in blocks of 8")

    def test_sound_builds_accuse_no_node(self):
        for build in ("good-opt3", "good-opt0"):
            with self.subTest(build=build):
                found = self.locate(build)
                self.assertEqual(found["status"], "ok")
                self.assertEqual(found["culprits"], [])

    def test_each_fault_is_named(self):
        truth = json.loads((MUTANTS / "truth.json").read_text())
        first = 0
        for build, tensor in sorted(truth.items()):
            with self.subTest(build=build):
                found = self.locate(build)
                self.assertEqual(found["status"], "differs")
                self.assertEqual(len(found["culprits"]), 1)
                named = found["culprits"][0]["source_tensors"]
                self.assertIn(tensor, named)
                self.assertLessEqual(len(named), 5)
                self.assertIn(0, found["culprits"][0]["input_sets"])
                first += named[0] == tensor
        self.assertGreaterEqual(first, 17)

    def dumped(self, build):
        folder = str(self.folder / build)
        result = nodewise("dump", str(MUTANTS / build / "factory.so"),
                          *self.inputs, "--dump-root", folder)
        self.assertEqual(result.code, 0, result.err)
        return str(next(pathlib.Path(folder).iterdir()))

    def test_a_dump_is_judged_by_the_model_alone(self):
        for build, tensor in (("good-opt3", None), ("mutant-pool-avg", "pool"),
                              ("mutant-merge-swapped", "merge")):
            with self.subTest(build=build):
                dump = self.dumped(build)
                found = document(nodewise("compare", dump, self.model,
                                          "--json"))
                named = [c["source_tensors"] for c in found["culprits"]]
                self.assertEqual(named, [[tensor]] if tensor else [])
                self.assertEqual(found["status"],
                                 "differs" if tensor else "ok")
                replayed = document(nodewise(
                    "locate", dump, "--reference", self.model, "--method",
                    "replay", "--json"))
                self.assertEqual(replayed["culprits"], found["culprits"])
                self.assertEqual(replayed["verdicts"], found["verdicts"])

    def test_replaying_a_dump_without_its_model_asks_for_it(self):
        result = nodewise("locate", self.dumped("good-opt3"), "--method",
                          "replay")
        self.assertEqual(result.code, 2)
        self.assertIn("--reference MODEL.onnx", result.err)

    def test_a_dump_of_another_network_is_refused(self):
        dump = self.dumped("good-opt3")
        graph = pathlib.Path(dump) / "_nodewise_graph.json"
        graph.unlink()
        result = nodewise("compare", dump, self.model)
        self.assertEqual(result.code, 2)
        self.assertIn("_nodewise_graph.json", result.err)
        self.assertIn("libraries of today's TVM have none", result.err)
        result = nodewise("compare", self.model, self.model)
        self.assertEqual(result.code, 2)
        self.assertIn("expected a dump", result.err)

    def between(self, target, reference, *options):
        return document(nodewise(
            "locate", str(MUTANTS / target / "factory.so"), "--reference",
            str(MUTANTS / reference / "factory.so"), *self.inputs, "--json",
            *options))

    def test_builds_at_two_levels_of_optimisation_are_aligned(self):
        found = document(nodewise(
            "align", str(MUTANTS / "good-opt3/factory.so"),
            str(MUTANTS / "good-opt0/factory.so"), *self.inputs, "--json"))
        self.assertGreaterEqual(found["matched"], 24)
        for target, reference in (("good-opt3", "good-opt0"),
                                  ("good-opt0", "good-opt3")):
            self.assertEqual(self.between(target, reference)["culprits"], [])

    def test_the_pair_in_which_two_builds_differ_is_named(self):
        pair = ["tvmgen_default_fused_nn_avg_pool2d",
                "tvmgen_default_fused_nn_max_pool2d"]
        mutant = "mutant-pool-avg"
        for options, builds, kind, side, node in (
                ([], (mutant, "good-opt3"), "differs", "target", 0),
                ([], ("good-opt3", mutant), "differs", "target", 1),
                (["--trust", "reference"], (mutant, "good-opt3"), "broken",
                 "target", 0),
                (["--trust", "target"], ("good-opt3", mutant), "broken",
                 "reference", 0)):
            with self.subTest(options=options, builds=builds):
                found = self.between(*builds, *options)
                self.assertEqual(found["status"], "differs")
                self.assertEqual(found["side"], side)
                [culprit] = found["culprits"]
                self.assertEqual(culprit["kind"], kind)
                self.assertEqual([culprit["node"], *culprit["source_nodes"]],
                                 [pair[node], pair[1 - node]])

    def test_a_third_build_says_which_of_two_is_wrong(self):
        third = ["--third", str(MUTANTS / "good-opt0/factory.so")]
        for mutant in ("mutant-pool-avg", "mutant-se-mul-add"):
            [culprit] = self.between(mutant, "good-opt3", *third)["culprits"]
            self.assertEqual(culprit["kind"], "broken")
            [culprit] = self.between("good-opt3", mutant, *third)["culprits"]
            self.assertEqual(culprit["kind"], "right, and the reference broken")

    def test_words_about_two_builds_mean_nothing_without_them(self):
        good = str(MUTANTS / "good-opt3/factory.so")
        for options in (["--trust", "target"], ["--third", good],
                        ["--reference", self.model, "--trust", "target"],
                        ["--reference", good, "--trust", "me"],
                        ["--reference", good, "--trust", "target",
                         "--third", good]):
            with self.subTest(options=options):
                result = nodewise("locate", good, *self.inputs, *options)
                self.assertEqual(result.code, 2)
                self.assertRegex(result.err, "--trust|--third")

    def test_special_inputs_are_one_more_set(self):
        found = self.locate("mutant-pool-avg", "--special-inputs")
        named = [c for c in found["culprits"] if "pool" in c["source_tensors"]]
        self.assertEqual([c["input_sets"] for c in named], [[0, 1, 2]])
        result = nodewise("locate", str(MUTANTS / "good-opt3/factory.so"),
                          "--reference",
                          str(MUTANTS / "good-opt0/factory.so"), *self.inputs,
                          "--special-inputs")
        self.assertEqual(result.code, 2)
        self.assertIn("--special-inputs: means nothing for", result.err)

    def test_number_of_sets_is_chosen(self):
        for options in (["--sets", "1"], ["--sets", "3"]):
            found = self.locate("mutant-pool-avg", *options)
            self.assertEqual([c["input_sets"] for c in found["culprits"]],
                             [list(range(int(options[1])))])
        result = nodewise("locate", self.model, "--random-inputs", "1",
                          "--sets", "3")
        self.assertEqual(result.code, 2)
        self.assertIn("--sets: means nothing for", result.err)

    def test_options_that_need_more_than_values_are_refused(self):
        result = nodewise("locate", str(MUTANTS / "good-opt3/factory.so"),
                          "--reference", self.model, *self.inputs,
                          "--method", "bisect")
        self.assertEqual(result.code, 2)
        self.assertIn("--method bisect: does not judge an artefact of another "
                      "compiler", result.err)

    def test_a_model_with_other_inputs_is_refused(self):
        other = str(MUTANTS.parent / "tvm-0.14" / "mlp-llvm" / "factory.so")
        if not pathlib.Path(other).is_file():
            self.skipTest("no such fixture")
        result = nodewise("align", other, self.model, "--random-inputs", "1")
        self.assertEqual(result.code, 2)
        self.assertIn("expected an input of the model", result.err)


if __name__ == "__main__":
    unittest.main()
