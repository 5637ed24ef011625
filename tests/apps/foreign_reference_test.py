"""nodewise locate --reference with another program, which may be wrong."""

import pathlib
import re
import shutil
import subprocess
import sys

from support import document, nodewise

from foreign_test import Foreign

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV_PYTHON = ROOT / "build/venv/bin/python"


def with_lies(code):
    """The runtime with an Add that is wrong whether it is observed or not."""
    return code.replace("(10, 10, -10)", "(10, 11, -10)")


class ForeignReference(Foreign):
    def folder_of(self, change=lambda code: code):
        """The model as compiled C, whose source was changed."""
        if shutil.which("cc") is None:
            self.skipTest("no C compiler (cc)")
        folder = self.folder / "net"
        made = nodewise("convert", self.model, "--no-fuse", "--emit", "c",
                        "-o", folder)
        self.assertEqual(made.code, 0, made)
        source = folder / "lib.c"
        source.write_text(change(source.read_text()))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "lib.c", "-o",
                        "lib.so", "-lm"], cwd=folder, check=True, timeout=100)
        return folder

    def located(self, target, reference, *options):
        return nodewise("locate", target, "--reference", reference,
                        "--random-inputs", "1", *options)

    def by_exec(self, target, *options, **command):
        return self.located(target, self.command(**command), "--model",
                            self.model, *options)

    @staticmethod
    def with_a_fault(code):
        """The C in which the function with an addition multiplies."""
        begin = code.index("nodewise_add_loops(")
        end = code.index("\n}", begin)
        body = code[begin:end]
        changed = re.sub(r"(=[^;=]*) \+ ([^;]*;)", r"\1 - \2", body, count=1)
        assert changed != body, body
        return code[:begin] + changed + code[end:]

    def test_who_agrees_is_not_accused(self):
        for target in (self.model, self.folder_of()):
            with self.subTest(target=target):
                shown = self.by_exec(target)
                self.assertEqual((shown.code, shown.err), (0, ""), shown)
                self.assertIn("\nno culprit\n", shown.out)
                self.assertNotIn("referee", shown.out)

    def test_the_nodes_fault_stands_two_against_one(self):
        shown = self.by_exec(self.folder_of(self.with_a_fault))
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("culprit: plus, broken\n", shown.out)
        self.assertIn("explains    100.0 % of the error", shown.out)
        self.assertRegex(shown.out, r"referee: plus: interpreter agrees with "
                         r"the reference \(off by 0 of .*\): two against one\n")

    def test_the_references_fault_accuses_no_node(self):
        for target in (self.model, self.folder_of()):
            with self.subTest(target=target):
                shown = self.by_exec(target, "--no-fuse",
                                     change=with_lies) if (
                    target == self.model) else self.by_exec(
                        target, change=with_lies)
                self.assertEqual(shown.code, 2, shown)
                self.assertIn("\nno culprit\n", shown.out)
                self.assertRegex(
                    shown.out, r"referee: plus: interpreter agrees with the "
                    r"candidate .*: two against one, so the reference may be "
                    r"wrong\n")
                self.assertNotIn("referee: last", shown.out)

    def test_both_wrong_are_told_apart(self):
        found = document(self.by_exec(
            self.folder_of(self.with_a_fault), "--json",
            change=lambda code: code.replace("max(a, 0)", "max(a, 0) + 5")))
        self.assertEqual([c["node"] for c in found["culprits"]], ["plus"])
        self.assertEqual(
            [(r["node"], r["side"]) for r in found["referee"]],
            [("plus", "agrees with the reference"),
             ("last", "agrees with the candidate")])
        self.assertIn("exec:", found["reference"])

    def test_what_the_reference_keeps_to_itself_is_inconclusive(self):
        hidden = """
            answer["outputs"] = [
                {"name": "a", "absent": "fused"} if one["name"] == "a" else one
                for one in answer["outputs"]]
            """
        found = document(self.by_exec(
            self.folder_of(self.with_a_fault), "--json", more=hidden))
        kinds = {v["node"]: (v["kind"], v["reason"])
                 for v in found["verdicts"]}
        self.assertEqual(kinds["times"][0], "healthy")
        self.assertEqual(kinds["plus"], (
            "inconclusive",
            "not compared: the reference does not hand out what it makes"))
        self.assertEqual(kinds["last"][0], "inconclusive")
        self.assertIn("the reference does not hand out plus:0",
                      kinds["last"][1])

    def test_a_reference_that_changes_when_it_is_looked_into_is_noted(self):
        shown = self.by_exec(self.model, more="""
            if len(asked) == 1:
                values["y"] = [v + 3 for v in values["y"]]
                answer["outputs"] = [write(0, "y")]
            """)
        self.assertEqual(shown.code, 2, shown)
        self.assertIn("makes other outputs when it hands out its values",
                      shown.err)

    def test_bad_use_says_what_is_expected(self):
        command = self.command()
        for options, expected in (
                (["--model", self.model, "--method", "bisect"],
                 "--method bisect: does not judge"),
                (["--model", self.model, "--repeats", "2"],
                 "--repeats: means nothing for"),
                ([], "has no model, expected --model FILE")):
            with self.subTest(options=options):
                self.assertIn(expected, self.refused(
                    "locate", self.model, "--reference", command,
                    "--random-inputs", "1", *options))

    def test_onnxruntime_is_a_reference(self):
        if not VENV_PYTHON.exists() or subprocess.run(
                [VENV_PYTHON, "-c", "import onnxruntime"], check=False,
                capture_output=True, timeout=100).returncode != 0:
            self.skipTest("no onnxruntime in build/venv (./dev test --full)")
        reference = f"ort:{self.model}"
        for change, code, culprits in (
                (lambda source: source, 0, []),
                (self.with_a_fault, 1, ["plus"])):
            shutil.rmtree(self.folder / "net", ignore_errors=True)
            shown = self.located(self.folder_of(change), reference, "--json",
                                 "--python", VENV_PYTHON)
            self.assertEqual(shown.code, code, shown)
            found = document(shown)
            self.assertEqual([c["node"] for c in found["culprits"]], culprits)


del Foreign
