"""nodewise demo: it finds what it plants, and leaves what it says."""

import pathlib
import tempfile
import unittest

from support import document, nodewise


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name) / "demo"

    def demo(self, *arguments):
        return nodewise("demo", "-o", self.root, *arguments)

    def test_the_planted_fault_is_found_and_nothing_else_is_wrong(self):
        for seed in range(1, 21):
            with self.subTest(seed=seed):
                result = self.demo("--seed", seed, "--json")
                self.assertEqual(result.code, 0, result.err)
                shown = document(result)
                self.assertTrue(shown["found"])
                self.assertEqual(shown["culprit"]["node"],
                                 shown["planted"]["node"])
                self.assertAlmostEqual(shown["culprit"]["scale"],
                                       shown["planted"]["factor"], places=3)
                checks = shown["checks"]
                self.assertEqual(checks["same"] + checks["within_bound"],
                                 shown["function_nodes"])
                self.assertEqual(checks["skipped"], 0)

    def test_faults_of_other_kinds_are_found_too(self):
        kinds = [row["kind"]
                 for row in document(self.demo("--fault", "list", "--json"))
                 ["faults"]]
        self.assertIn("wrong-order", kinds)
        self.assertNotIn("crash", kinds)
        for kind in ("lane-drop", "wrong-padding", "approximation"):
            with self.subTest(kind=kind):
                self.assertIn(kind, kinds)
                result = self.demo("--fault", kind, "--json")
                self.assertEqual(result.code, 0, result.err)
                shown = document(result)
                self.assertEqual(shown["planted"]["kind"], kind)
                self.assertEqual(shown["culprit"]["node"],
                                 shown["planted"]["node"])

    def test_a_fault_that_one_run_does_not_show_is_refused(self):
        for kind, text in (("crash", "do not show"), ("rust", "is no kind")):
            result = self.demo("--fault", kind)
            self.assertEqual(result.code, 2)
            self.assertIn(text, result.err)

    def test_the_text_names_the_culprit_and_what_to_type_next(self):
        result = self.demo()
        self.assertEqual(result.code, 0, result.err)
        for text in ("seed 1", "60 operations", "Time(%)",
                     "bit for bit those of a plain run", "1 WRONG", "Found.",
                     "nodewise run MODEL.onnx", "nodewise convert MODEL.onnx",
                     f"nodewise profile {self.root}/net --random-inputs 1"):
            self.assertIn(text, result.out)
        # The table has long lines only where its names are long.
        self.assertLess(max(map(len, result.out.splitlines())), 130)

    def test_the_artefact_and_the_dump_can_be_used(self):
        shown = document(self.demo("--json"))
        self.assertTrue(pathlib.Path(shown["trace"]).is_file())
        run = nodewise("run", shown["artefact"], "--random-inputs", 1)
        self.assertEqual(run.code, 0, run.err)
        self.assertIn("probabilities", run.out)
        dump = nodewise("inspect", shown["dump"])
        self.assertEqual(dump.code, 0, dump.err)
        verified = nodewise("verify", shown["artefact"])
        self.assertEqual(verified.code, 0, verified.out)

    def test_it_can_be_repeated_in_one_folder(self):
        first, second = (document(self.demo("--json")) for _ in range(2))
        self.assertNotEqual(first["dump"], second["dump"])
        self.assertEqual(first["culprit"], second["culprit"])

    def test_a_folder_that_holds_something_else_is_left_alone(self):
        net = self.root / "net"
        net.mkdir(parents=True)
        (net / "mine.txt").write_text("")
        result = self.demo()
        self.assertEqual(result.code, 2)
        self.assertIn("holds mine.txt", result.err)
        self.assertEqual([f.name for f in net.iterdir()], ["mine.txt"])


if __name__ == "__main__":
    unittest.main()
