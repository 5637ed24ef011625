"""What the documents of --json hold of a finding beside its text."""

import platform
import unittest

from debug_support import DebugLibrary, chain
from support import DATA, Scratch, document, nodewise, params_bytes

LIBRARY = DebugLibrary()

# How a kernel misbehaves in node 2 of 3, the option that finds it, where the
# document lists it, and what it says: kind, part, entry, numbers.
TABLE = [
    ("overrun", "--sanitize", "memory_faults", "overrun", "memory",
     "overrun_1:0", {"offset": 24, "bytes": 4, "output": 0}),
    ("write_input", "--sanitize", "memory_faults", "input-written", "memory",
     "copy_0:0", {"offset": 4, "bytes": 4, "input": 0}),
    ("crash", "--isolate", "failures", "crash", "isolation", None,
     {"signal": 11, "address": 0x40}),
    ("leave", "--isolate", "failures", "exit", "isolation", None,
     {"exit_status": 3}),
    ("fail", "--isolate", "failures", "node-error", "isolation", None, {}),
    ("unsteady", "--sweep", "unsteady", "made-differs", "sweep",
     "unsteady_1:0", {"output": 0, "threads": 1, "other_threads": 1,
                      "layout": 0, "other_layout": 0, "differing": 1,
                      "elements": 6}),
]


if platform.machine() == "x86_64":
    TABLE.append(
        ("flush_denormals", "--sanitize", "memory_faults",
         "floats-left-changed", "float-environment", None,
         {"before": 0x037f1f80, "after": 0x037f9fc0}))


class Finding(Scratch):
    def findings(self, graph, option, *given):
        net = LIBRARY.artefact(self.folder / "net", graph, {})
        inputs = self.write("in.params", params_bytes({"data": DATA}))
        return document(nodewise("run", net, "--inputs", inputs, option, *given,
                                 "--json"))

    def test_is_complete_in_the_document(self):
        for function, option, member, kind, part, entry, numbers in TABLE:
            with self.subTest(function=function):
                graph = chain("copy", function, "copy")
                finding, = self.findings(graph, option)[member]
                self.assertEqual((finding["kind"], finding["part"]),
                                 (kind, part))
                self.assertEqual(finding["severity"], "error")
                place = {"node": f"{function}_1", "node_index": 2}
                if entry is not None:
                    index = ["data", "copy_0:0", f"{function}_1:0"].index(entry)
                    place |= {"entry": entry, "entry_index": index}
                self.assertEqual(finding["place"], place)
                self.assertEqual(finding["numbers"] | numbers,
                                 finding["numbers"])
                self.assertEqual(finding["where"], f"node 2 ({function}_1)")

    def test_text_is_made_of_its_parts(self):
        for function, option, member, *_ in TABLE:
            with self.subTest(function=function):
                graph = chain("copy", function, "copy")
                finding, = self.findings(graph, option)[member]
                joint = " " if option == "--sanitize" else ": "
                self.assertEqual(finding["text"], finding["where"] + joint +
                                 finding["found"])

    def test_of_a_time_limit_has_the_limit(self):
        found = self.findings(chain("hang"), "--isolate", "--time-limit-ms",
                              2000)
        finding, = found["failures"]
        self.assertEqual((finding["kind"], finding["numbers"]),
                         ("timeout", {"time_limit_ms": 2000}))

    def test_of_the_plan_names_storage_and_culprit(self):
        tree = chain("copy", "copy").tree()
        tree["nodes"][2]["inputs"] = [[0, 0, 0]]
        third = {**tree["nodes"][2], "name": "reader", "inputs": [[1, 0, 0]]}
        tree["nodes"].append(third)
        tree["heads"] = [[3, 0, 0]]
        tree["node_row_ptr"].append(4)
        tree["attrs"] = {"dltype": ["list_str", ["float32"] * 4],
                         "shape": ["list_shape", [[2, 3]] * 4],
                         "storage_id": ["list_int", [0, 1, 1, 2]]}
        finding, = self.findings(tree, "--sanitize")["memory_faults"]
        self.assertEqual(finding["kind"], "overwritten")
        self.assertEqual(finding["place"]["entry"], "copy_0:0")
        self.assertEqual(finding["numbers"],
                         {"overwriting_node": 2, "storage": 1})


if __name__ == "__main__":
    unittest.main()
