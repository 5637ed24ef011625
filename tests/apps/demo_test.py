"""nodewise demo: a model and a wrong artefact of it, and what locate says."""

import os
import pathlib
import tempfile
import unittest

from support import document, nodewise


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name) / "demo"

    def demo(self, *arguments, **options):
        return nodewise("demo", "-o", self.root, *arguments, **options)

    def without_compiler(self):
        return dict(os.environ, CC="/bin/false")

    def test_the_exchanged_operation_is_named_whichever_it_is(self):
        changed = set()
        for seed in range(1, 9):
            with self.subTest(seed=seed):
                result = self.demo("--seed", seed, "--json")
                self.assertEqual(result.code, 0, result.err)
                shown = document(result)
                self.assertTrue(shown["found"])
                [culprit] = shown["culprits"]
                self.assertEqual(culprit["explanations"][0]["source_node"],
                                 shown["changed"])
                changed.add(shown["changed"])
        self.assertGreater(len(changed), 3)

    def test_the_text_names_the_culprit_and_what_to_type_next(self):
        result = self.demo()
        self.assertEqual(result.code, 0, result.err)
        for text in ("one of its 60 operations", "compiled by the C",
                     f"nodewise locate {self.root}/net --reference "
                     f"{self.root}/model.onnx --random-inputs 1 --repro DIR",
                     "That is what was named.",
                     f"nodewise profile {self.root}/net --random-inputs 1"):
            self.assertIn(text, result.out)

    def test_the_command_that_is_shown_gives_the_same_answer(self):
        shown = document(self.demo("--json"))
        located = nodewise("locate", self.root / "net", "--reference",
                           self.root / "model.onnx", "--random-inputs", 1,
                           "--json")
        self.assertEqual(located.code, 1, located.err)
        self.assertEqual([c["node"] for c in document(located)["culprits"]],
                         [c["node"] for c in shown["culprits"]])

    def test_no_name_of_an_operator_is_left_in_the_artefact(self):
        self.assertEqual(self.demo().code, 0)
        graph = (self.root / "net" / "graph.json").read_text()
        library = (self.root / "net" / "lib.so").read_bytes()
        for name in ("MaxPool", "AveragePool", "Conv", "Relu", "conv1",
                     "pool"):
            self.assertNotIn(name, graph)
            self.assertNotIn(name.encode(), library)

    def test_the_repro_folder_shows_the_failure(self):
        self.assertEqual(self.demo().code, 0)
        [folder] = (self.root / "culprits").iterdir()
        replayed = nodewise("locate", folder, "--reference",
                            folder / "model.onnx", "--inputs",
                            folder / "data/inputs.params")
        self.assertEqual(replayed.code, 1, replayed.err)

    def test_without_a_c_compiler_it_stays_in_memory_and_says_so(self):
        result = self.demo("--json", env=self.without_compiler())
        self.assertEqual(result.code, 0, result.err)
        self.assertTrue(document(result)["found"])
        text = self.demo(env=self.without_compiler())
        self.assertIn("No C compiler was found here", text.out)
        self.assertNotIn("nodewise locate", text.out)

    def test_it_can_be_repeated_in_one_folder(self):
        first, second = (document(self.demo("--json")) for _ in range(2))
        self.assertEqual(first["culprits"], second["culprits"])
        self.assertEqual(len(list(self.root.glob("culprits*"))), 2)

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
