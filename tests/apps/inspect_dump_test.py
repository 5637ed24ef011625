"""nodewise inspect, on dumps that are damaged."""

import unittest

from debug_support import DebugLibrary, read_params, sum_graph
from support import Scratch, document, nodewise

LIBRARY = DebugLibrary()


class DamagedRecords(Scratch):
    """Those of the nodes; the tensors are whole."""

    def setUp(self):
        super().setUp()
        self.make_network(LIBRARY, sum_graph())
        self.root = self.folder / "dumps"
        nodewise("dump", self.net, "--inputs", self.inputs, "--dump-root",
                 self.root)
        self.dump = self.root / "_tvmdbg_device_CPU_0"
        records = self.dump / "_nodewise_nodes.bin"
        records.write_bytes(b"nodewise" + records.read_bytes()[8:])
        self.error = (f"{records}: byte 0: is not a node record file, expected "
                      "it to begin with NODEWISE")

    def test_are_an_error_and_the_tensors_are_shown(self):
        shown = nodewise("inspect", self.root)
        self.assertEqual(shown.code, 2, shown)
        self.assertIn(self.error, shown.err)
        self.assertIn("\n  tensors    5\n", shown.out)
        found = document(nodewise("inspect", self.root, "--json"))
        self.assertEqual(found["status"], "error")
        self.assertEqual(len(found["errors"]), 1)
        self.assertEqual(len(found["files"][0]["tensors"]), 5)
        self.assertNotIn("records", found["files"][0])

    def test_do_not_keep_the_tensors_from_being_recovered(self):
        out = self.folder / "out.params"
        shown = nodewise("inspect", self.root, "--recover", out)
        self.assertEqual(shown.code, 2, shown)
        self.assertIn(self.error, shown.err)
        self.assertIn(f"  recovered  {out}\n", shown.out)
        self.assertEqual(read_params(out),
                         read_params(self.dump / "output_tensors.params"))


class WithoutTensors(Scratch):
    """A dump of statistics."""

    def setUp(self):
        super().setUp()
        self.make_network(LIBRARY, sum_graph())
        self.root = self.folder / "dumps"
        nodewise("dump", self.net, "--inputs", self.inputs, "--what", "stats",
                 "--dump-root", self.root)

    def test_is_cut_short_until_its_last_file_is_there(self):
        self.assertNotIn("cut short", nodewise("inspect", self.root).out)
        trace, = self.root.glob("*/_tvmdbg_execution_trace.json")
        trace.unlink()
        result = nodewise("inspect", self.root)
        self.assertEqual(result.code, 0, result)
        self.assertIn("cut short: the run had not come to its end", result.out)
        found, = document(nodewise("inspect", self.root, "--json"))["files"]
        self.assertTrue(found["cut"])

    def test_has_nothing_to_recover(self):
        result = nodewise("inspect", self.root, "--recover",
                          self.folder / "r.params")
        self.assertEqual(result.code, 2, result)
        self.assertIn("output_tensors.params: is not there, so that there is "
                      "nothing to recover", result.err)


if __name__ == "__main__":
    unittest.main()
