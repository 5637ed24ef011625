"""The table of times that nodewise dump prints."""

import unittest

from dump_test import DEVICE, TIME, WithNetwork, read_records
from support import nodewise


class Table(WithNetwork):
    def text(self, *arguments):
        return nodewise("dump", self.net, "--inputs", self.inputs,
                        "--dump-root", self.root, *arguments).out

    def test_is_printed_by_the_run_that_makes_the_dump(self):
        # TV-30
        text = self.text()
        self.assertRegex(text, r"\nNode Name +Ops +Time\(us\)")
        for name in ("sum", "copied", "last"):
            self.assertRegex(text, rf"\n{name} +\w+ +[\d.]+ ")
        self.assertIn("\n\ndump    ", text)

    def test_is_left_out_if_not_wanted(self):
        self.assertNotIn("Node Name", self.text("--no-table"))
        self.assertNotIn("profile", self.dump("--no-table"))

    def test_has_the_times_that_the_dump_holds(self):
        # TV-41 and TV-46, of a recorded run.
        nodes = self.dump()["profile"]["nodes"]
        times = [(r.hash, r.elements)
                 for r in read_records(self.root / DEVICE) if r.kind == TIME]
        self.assertEqual(
            [tuple(node["in_place"]["intervals_ns"][0]) for node in nodes],
            times)
        last_end = 0
        for node, (start, end) in zip(nodes, times):
            self.assertLessEqual(last_end, start)
            time_ns = round(node["in_place"]["mean_us"] * 1000)
            self.assertGreaterEqual(end - start, time_ns)
            last_end = end

    def test_of_several_runs_is_one_without_plain_runs(self):
        profile = self.dump("--runs", 2)["profile"]
        self.assertEqual(len(profile["debug_runs_ns"]), 2)
        self.assertEqual(profile["plain_runs_ns"], [])
        self.assertIsNone(profile["summary"]["plain_run_mean_us"])


if __name__ == "__main__":
    unittest.main()
