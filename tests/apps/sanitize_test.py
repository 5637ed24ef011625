"""How complete nodewise run --sanitize says that its list of faults is."""

import os
import unittest
import unittest.mock

from debug_support import DebugLibrary, chain
from support import (DATA, Graph, Scratch, Tensor, document, nodewise,
                     params_bytes)

LIBRARY = DebugLibrary()


class Sanitized(Scratch):
    def sanitized(self, *functions):
        return self.sanitized_graph(chain(*functions), DATA)

    def sanitized_graph(self, graph, data):
        net = LIBRARY.artefact(self.folder / "net", graph, {})
        inputs = self.write("in.params", params_bytes({"data": data}))
        given = ["run", net, "--inputs", inputs, "--sanitize"]
        shown, asked = nodewise(*given), nodewise(*given, "--json")
        self.assertEqual(shown.code, asked.code)
        return shown, document(asked)


class MoreFaults(Sanitized):
    def test_than_are_listed_are_told_in_text_and_document(self):
        for pages, more in ((3, False), (100, True)):
            with self.subTest(pages=pages):
                shape = (pages * 1024,)
                graph = Graph()
                data = graph.input("data", "float32", shape)
                graph.output(graph.call("write_input_pages", [data],
                                        "float32", shape))
                shown, found = self.sanitized_graph(
                    graph, Tensor("float32", shape, [1] * shape[0]))
                self.assertEqual(shown.code, 1)
                self.assertEqual("more that are not listed" in shown.out, more)
                self.assertEqual(found["more_faults"], more)


class RunThatFailsLater(Sanitized):
    ERROR = "node 2 (fail_once_1): fail_once: this call fails"
    NOTE = f"not compared over other unused bytes: {ERROR}"

    def sanitized(self, *functions):
        """With an error in the second of three runs."""
        with unittest.mock.patch.dict(os.environ, NODEWISE_TEST_FAILS="2"):
            return super().sanitized(*functions)

    def test_leaves_the_faults_of_the_first(self):
        shown, found = self.sanitized("overrun", "fail_once")
        message = "node 1 (overrun_0) wrote 4 bytes past its output 0"
        self.assertEqual((shown.code, found["status"]), (1, "differs"))
        self.assertIn(f"\n{message}", shown.out)
        self.assertIn(f"nodewise: note: {self.NOTE}", shown.err)
        self.assertIn(message, found["memory_faults"][0]["text"])
        self.assertIn(self.NOTE, found["notes"][0])

    def test_keeps_it_from_judging_if_there_were_none(self):
        shown, found = self.sanitized("copy", "fail_once")
        self.assertEqual((shown.code, found["status"]), (2, "error"))
        self.assertIn("sanitized 2 nodes: 0 memory faults\n", shown.out)
        self.assertEqual(shown.err, f"nodewise: {self.NOTE}\n")
        self.assertEqual(found["memory_faults"], [])


if __name__ == "__main__":
    unittest.main()
