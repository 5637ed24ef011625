"""Every mode of the debugger on libraries with bytecode: those that TVM 0.25,
0.26 and 0.27 compiled, and one that is made here."""

import json
import pathlib
import re
import tempfile
import unittest

from debug_support import read_params
from support import BUILD, ROOT, Scratch, document, nodewise

FIXTURES = ROOT.parent / "shared/fixtures"
SAME = "outputs: bit for bit those of a plain run"


def targets():
    """(library, options that give its inputs), by name."""
    found = {"own": (BUILD / "tests/libraries/vm_ffi.so",
                     ["--random-inputs", "1"])}
    for library in sorted(FIXTURES.glob("tvm-0.2[567]/*/vm.so")):
        folder = library.parent
        found[f"{folder.parent.name}/{folder.name}"] = (
            library, ["--inputs", folder / "inputs.params"])
    return found


class VmModes(Scratch):
    def each(self, test):
        for name, (library, inputs) in targets().items():
            with self.subTest(name):
                test(library, [library, *inputs, "--threads", 2])

    def run_ok(self, verb, *arguments):
        found = document(nodewise(verb, *arguments, "--json"))
        self.assertEqual(found["status"], "ok", found)
        return found

    def nodes_of(self, target):
        """Key by number, of the nodes that call something."""
        found = self.run_ok("profile", *target, "--runs", 1, "--warm-up", 0)
        return {node["node"]: node["key"] for node in found["profile"]["nodes"]
                if node["op"] != "__nop"}

    def test_all_fixtures_are_there(self):
        if not FIXTURES.is_dir():
            self.skipTest("no ../shared/fixtures: libraries of real TVM not "
                          "tested")
        self.assertGreaterEqual(len(targets()), 10)

    def test_table_has_both_layouts_and_both_timings(self):
        def test(_, target):
            keys = self.nodes_of(target)
            for layout in ("clock", "measurements"):
                shown = nodewise("profile", *target, "--runs", 2, "--isolated",
                                 "--number", 2, "--layout", layout)
                self.assertEqual(shown.code, 0, shown)
                self.assertIn(SAME, shown.out)
                for key in keys.values():
                    self.assertIn("\n" + key.partition("#")[0], shown.out)
            found = self.run_ok("profile", *target, "--runs", 2, "--number", 2)
            for node in found["profile"]["nodes"]:
                self.assertEqual(len(node["in_place"]["runs_us"]), 2)
                if node["op"] != "__nop":
                    self.assertGreater(node["isolated"]["mean_us"], 0)
        self.each(test)

    def test_trace_has_every_node_of_every_run(self):
        def test(_, target):
            path = self.folder / "trace.json"
            keys = self.nodes_of(target)
            self.run_ok("profile", *target, "--runs", 2, "--trace", path)
            events = json.loads(path.read_text())["traceEvents"]
            for run in range(2):
                nodes = [event for event in events if event["ph"] == "X"
                         and "node" in event["args"]
                         and event["args"].get("run") == run]
                self.assertEqual(len(nodes), len(keys))
        self.each(test)

    def test_dump_steps_and_patches_agree(self):
        """What a dump holds of a node is what a run until there makes, and
        computing it or being given it is the same to what follows."""
        def test(_, target):
            dumped = self.dump(target)
            plain = self.run_ok("run", *target)["outputs"]
            nodes = list(self.nodes_of(target).items())
            for number, key in {nodes[0], nodes[len(nodes) // 2], nodes[-1]}:
                made = self.folder / "made.params"
                until = self.run_ok("run", *target, "--until", f"#{number}",
                                    "--output", made)
                self.assertIn(key.partition("#")[0], until["stopped_at"])
                tensors = read_params(made)
                for i, tensor in enumerate(tensors.values()):
                    self.assertEqual(tensor, dumped[number, i])
                if len(tensors) == 1:
                    patched = self.run_ok("run", *target, "--patch",
                                          f"#{number}={made}")
                    self.assertEqual(patched["outputs"], plain)
        self.each(test)

    def dump(self, target):
        """Tensors by node and output; the dump is as it should be."""
        with tempfile.TemporaryDirectory(dir=self.folder) as root:
            shown = nodewise("dump", *target, "--dump-root", root, "--what",
                             "tensor,stats")
            self.assertEqual(shown.code, 0, shown)
            self.assertIn(SAME, shown.out)
            folder = pathlib.Path(root) / "_tvmdbg_device_CPU_0"
            inspected = nodewise("inspect", folder)
            self.assertIn("all as they were made", inspected.out)
            trace = folder / "_tvmdbg_execution_trace.json"
            self.assertTrue(json.loads(trace.read_text())["traceEvents"])
            found = {}
            for name, tensor in read_params(
                    folder / "output_tensors.params").items():
                _, node, output = re.split("____[a-z-]+:", name)
                found[int(node), int(output)] = tensor
            return found

    def test_stop_on_stops_where_there_is_something(self):
        def test(_, target):
            first = next(iter(self.nodes_of(target)))
            clean = nodewise("run", *target, "--stop-on", "nan")
            self.assertEqual(clean.code, 0, clean)
            hit = nodewise("run", *target, "--stop-on", "abs>0")
            self.assertEqual(hit.code, 1, hit)
            self.assertIn(f"stopped after node {first} ", hit.out)
        self.each(test)

    def test_runs_of_a_way_of_their_own_find_nothing(self):
        def test(_, target):
            for mode in ("--sanitize", "--isolate", "--sweep"):
                shown = nodewise("run", *target[:-2], mode)
                self.assertEqual(shown.code, 0, shown)
        self.each(test)


if __name__ == "__main__":
    unittest.main()
