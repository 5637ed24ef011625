"""What nodewise has found and shows although a file cannot be written."""

import unittest

from debug_support import DebugLibrary, chain
from support import DATA, Scratch, document, nodewise, params_bytes

LIBRARY = DebugLibrary()


class FullDisk(Scratch):
    """One write to `self.full` fails, as on a disk without space."""

    def setUp(self):
        super().setUp()
        self.inputs = self.write("in.params", params_bytes({"data": DATA}))
        self.full = self.folder / "full.npz"
        self.full.symlink_to("/dev/full")
        self.error = f"{self.full}: cannot write: No space left on device"

    def shown(self, verb, function, *given):
        """Text and document of a command whose one error is the file's."""
        net = LIBRARY.artefact(self.folder / "net", chain(function), {})
        given = [verb, net, "--inputs", self.inputs, *given]
        shown, asked = nodewise(*given), nodewise(*given, "--json")
        self.assertEqual((shown.code, asked.code, asked.err), (2, 2, ""))
        self.assertEqual(shown.err, f"nodewise: {self.error}\n")
        found = document(asked)
        self.assertEqual([error["where"] for error in found["errors"]],
                         [str(self.full)])
        return shown.out, found

    def test_leaves_the_faults_of_memory(self):
        text, found = self.shown("run", "overrun", "--sanitize", "-o",
                                 self.full)
        message = "node 1 (overrun_0) wrote 4 bytes past its output 0"
        self.assertIn(f"\n{message}", text)
        self.assertIn(message, found["memory_faults"][0]["text"])
        self.assertIn("same_bits", found["plain_run"])
        self.assertNotIn("written", found)

    def test_leaves_what_was_shown_of_any_other_run(self):
        for given in ([], ["--isolate"], ["--stop-on", "nan"]):
            with self.subTest(given=given):
                text, found = self.shown("run", "copy", "-o", self.full,
                                         *given)
                self.assertIn("\noutput  copy_0", text)
                self.assertEqual(found["outputs"][0]["first"],
                                 list(DATA.values))

    def test_leaves_the_table_of_a_profile(self):
        text, found = self.shown("profile", "copy", "--trace", self.full)
        self.assertIn("\nNode Name ", text)
        self.assertIn("\noutputs: bit for bit those of a plain run ", text)
        self.assertEqual(len(found["profile"]["nodes"]), 1)
        self.assertNotIn("trace", found)

    def test_leaves_the_csv_of_a_profile(self):
        net = LIBRARY.artefact(self.folder / "net", chain("copy"), {})
        result = nodewise("profile", net, "--inputs", self.inputs, "--csv",
                          "--trace", self.full)
        self.assertEqual(result.code, 2)
        self.assertRegex(result.out, r"\Anode,name,op,.*\n1,copy_0,copy,.*\n\Z")
        self.assertIn(f"nodewise: {self.error}\n", result.err)


if __name__ == "__main__":
    unittest.main()
