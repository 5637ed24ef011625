"""nodewise run --patch where several entries are one memory."""

import unittest

from debug_support import DebugLibrary, chain
from support import (DATA, Scratch, document, nodewise, npy_bytes,
                     params_bytes)

LIBRARY = DebugLibrary()
NINES = DATA._replace(values=[9, 8, 7, 6, 5, 4])
TENS = DATA._replace(values=[10, 20, 30, 40, 50, 60])


def nop_graph():
    """data copied, aliased and copied: nodes data, made, alias, last. The
    outputs are made and last."""
    tree = chain("copy", "__nop", "copy").tree()
    for node, name in zip(tree["nodes"][1:], ("made", "alias", "last")):
        node["name"] = name
    tree["attrs"]["storage_id"] = ["list_int", [0, 1, 1, 2]]
    tree["heads"] = [[1, 0, 0], [3, 0, 0]]
    return tree


class SharedMemory(Scratch):
    def setUp(self):
        super().setUp()
        self.net = LIBRARY.artefact(self.folder / "net", nop_graph(), {})
        self.inputs = self.write("in.params", params_bytes({"data": DATA}))
        self.nines = self.write("nines.npy", npy_bytes(NINES))
        self.tens = self.write("tens.npy", npy_bytes(TENS))

    def found(self, *arguments):
        result = nodewise("run", self.net, "--inputs", self.inputs, "--json",
                          *arguments)
        self.assertEqual(result.code, 0, result)
        return document(result)

    def test_is_given_one_tensor_only(self):
        for first, second in (("made", "alias"), ("alias", "made")):
            with self.subTest(first=first):
                error = self.refused(
                    "run", self.net, "--inputs", self.inputs,
                    "--patch", f"{first}={self.nines}",
                    "--patch", f"{second}={self.tens}")
                self.assertIn(f"tens.npy: entry {second}: shares its memory "
                              f"with {first}, which {self.nines} is for, "
                              "expected one of the two", error)

    def test_patch_of_an_alias_notes_what_changes_with_it(self):
        found = self.found("--patch", f"alias={self.nines}")
        self.assertEqual([output["first"] for output in found["outputs"]],
                         [NINES.values, NINES.values])
        self.assertEqual(found["notes"],
                         ["--patch: entry alias shares its memory with made "
                          "(patched with it)"])

    def test_patch_of_what_an_alias_reads_has_no_note(self):
        self.assertEqual(self.found("--patch", f"made={self.nines}")["notes"],
                         [])

    def test_other_entries_may_be_patched_beside(self):
        found = self.found("--patch", f"made={self.nines}",
                           "--patch", f"last={self.tens}")
        self.assertEqual([output["first"] for output in found["outputs"]],
                         [NINES.values, TENS.values])


if __name__ == "__main__":
    unittest.main()
