"""Archives: what a verb wrote with --archive, and nodewise report of it."""

import json
import re
import unittest
import xml.etree.ElementTree

from support import Scratch, check_schema, document, nodewise, schema

# The limit of docs/formats/archive.md: 5 MB for a thousand nodes.
MOST_BYTES_A_NODE = 5_000


class ReportTest(Scratch):
    """With the archive of a model that was compiled wrongly."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made = Scratch()
        cls.made.setUp()
        cls.addClassCleanup(cls.made.doCleanups)
        root = cls.made.folder / "demo"
        shown = nodewise("demo", "-o", root)
        assert shown.code == 0, shown.err
        cls.archive = cls.made.folder / "a.json"
        cls.words = ["locate", str(root / "net"), "--reference",
                     str(root / "model.onnx"), "--random-inputs", "1"]
        cls.told = nodewise(*cls.words, "--archive", cls.archive)
        cls.kept = check_schema(cls.archive.read_text())

    def changed(self, **members):
        return self.write("changed.json",
                          json.dumps(dict(self.kept, **members)).encode())

    def test_the_archive_shows_what_the_run_showed(self):
        self.assertEqual(self.told.code, 1, self.told.err)
        again = nodewise("report", self.archive)
        self.assertEqual(again.code, 0, again.err)
        self.assertEqual(again.out, self.told.out)

    def test_what_json_prints_is_an_archive_too(self):
        printed = nodewise(*self.words, "--json")
        file = self.write("printed.json", printed.out.encode())
        self.assertEqual(nodewise("report", file).out, self.told.out)

    def test_reporting_as_json_gives_the_archive_back(self):
        again = document(nodewise("report", self.archive, "--json"))
        self.assertEqual(again["archive"], self.kept)

    def test_it_says_what_was_run_by_which_version(self):
        self.assertEqual(self.kept["schema"], "nodewise/1")
        self.assertEqual(self.kept["command"][1:4], self.words[:3])
        self.assertEqual(self.kept["version"],
                         nodewise("--version").out.split()[1])

    def test_it_has_what_a_page_needs_without_a_second_run(self):
        graph = self.kept["graph"]["nodes"]
        digests = self.kept["digests"]
        self.assertEqual({node["node"] for node in graph},
                         {digest["tensor"] for digest in digests})
        last = digests[-1]
        self.assertEqual(sum(last["histogram"]), 10)
        self.assertEqual(len(last["slice"]), 10)
        self.assertLess(self.archive.stat().st_size,
                        MOST_BYTES_A_NODE * len(graph))

    def test_tensors_are_kept_only_for_an_archive(self):
        self.assertNotIn("digests",
                         document(nodewise(*self.words, "--json")))

    def test_the_counts_of_the_verdicts_add_up(self):
        [tally] = re.findall(r"(?m)^(\d+) function nodes: (.*)$",
                             self.told.out)
        counts = [int(count) for count in re.findall(r"\d+", tally[1])]
        self.assertEqual(sum(counts), int(tally[0]))
        self.assertEqual(len(self.kept["verdicts"]), int(tally[0]))

    def test_the_picture_shows_the_culprit(self):
        svg = self.folder / "culprit.svg"
        result = nodewise("report", self.archive, "--svg", svg)
        self.assertEqual(result.code, 0, result.err)
        root = xml.etree.ElementTree.fromstring(svg.read_text())
        text = "".join(root.itertext())
        self.assertIn(self.kept["culprits"][0]["node"], text)

    def test_an_archive_without_a_graph_has_no_picture(self):
        svg = self.folder / "x.svg"
        file = self.write("run.json", json.dumps(
            {"schema": "nodewise/1", "verb": "run", "report": ["told\n"]}
        ).encode())
        result = nodewise("report", file, "--svg", svg)
        self.assertEqual(result.code, 2)
        self.assertIn("told\n", result.out)
        self.assertIn("run.json: ", result.err)
        self.assertFalse(svg.exists())

    def test_documents_are_checked_against_the_schema(self):
        if schema() is None:
            self.skipTest("python3-jsonschema is not installed")
        check_schema(json.dumps(self.kept))
        for members in ({"from_tomorrow": 1}, {"culprits": 1}):
            with self.assertRaises(AssertionError):
                check_schema(json.dumps(dict(self.kept, **members)))

    def test_members_of_a_later_version_are_skipped(self):
        file = self.changed(from_tomorrow={"a": 1})
        self.assertEqual(nodewise("report", file).out, self.told.out)

    def test_a_newer_kind_is_refused_by_name(self):
        result = nodewise("report", self.changed(schema="nodewise/2"))
        self.assertEqual(result.code, 2)
        self.assertIn("nodewise/2", result.err)

    def test_a_file_that_is_not_an_archive_is_refused(self):
        for text in (b"", b"{}", b"[1]", b"{\"schema\": 1}"):
            with self.subTest(text=text):
                result = nodewise("report", self.write("bad.json", text))
                self.assertEqual(result.code, 2)
                self.assertIn("bad.json: ", result.err)

    def test_every_verb_writes_one(self):
        net = str(self.made.folder / "demo/net")
        for words in (["inspect", net], ["verify", net],
                      ["run", net, "--random-inputs", "1"],
                      ["profile", net, "--random-inputs", "1"]):
            with self.subTest(verb=words[0]):
                file = self.folder / f"{words[0]}.json"
                told = nodewise(*words, "--archive", file)
                self.assertEqual(told.code, 0, told.err)
                check_schema(file.read_text())
                self.assertEqual(nodewise("report", file).out, told.out)

    def two_dumps(self):
        """Dumps two runs of one network with different inputs, and returns the
        folders of the dumps."""
        net = str(self.made.folder / "demo/net")
        for name, seed in (("good", "1"), ("bad", "2")):
            told = nodewise("dump", net, "--random-inputs", seed,
                            "--dump-root", self.folder / name)
            self.assertEqual(told.code, 0, told.err)
        return self.folder / "good", self.folder / "bad"

    def test_of_two_dumps_it_has_the_graph_and_where_they_begin_to_differ(self):
        file, svg = self.folder / "d.json", self.folder / "d.svg"
        told = nodewise("compare", *self.two_dumps(), "--archive", file)
        self.assertEqual(told.code, 1, told.err)
        kept = check_schema(file.read_text())
        [culprit] = kept["culprits"]
        self.assertEqual(culprit["kind"], "differs")
        self.assertEqual(kept["graph"]["nodes"][culprit["node_index"]],
                         {"node": culprit["node"], "function": "", "reads": []})
        self.assertIn(f"begins at  {culprit['node']}: an input", told.out)
        self.assertEqual(len(kept["digests"]), len(kept["expected_digests"]))
        self.assertNotEqual(kept["digests"], kept["expected_digests"])
        self.assertEqual(nodewise("report", file, "--svg", svg).code, 0)
        self.assertIn("reads what differs", svg.read_text())

    def test_locate_asks_the_same_of_two_dumps(self):
        good, bad = self.two_dumps()
        found = document(nodewise("locate", bad, "--reference", good, "--json"))
        self.assertEqual(found["search"], "dumps")
        compared = document(nodewise("compare", good, bad, "--json"))
        self.assertEqual(found["culprits"], compared["culprits"])
        self.assertEqual(found["verdicts"], compared["verdicts"])

    def test_an_archive_that_cannot_be_written_is_an_error(self):
        result = nodewise(*self.words, "--archive", self.folder / "no/a.json")
        self.assertEqual(result.code, 2)
        self.assertIn("no/a.json", result.err)


if __name__ == "__main__":
    unittest.main()
