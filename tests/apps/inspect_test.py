"""nodewise inspect, on files made here."""

import json
import random
import unittest

import support
from support import (BIAS, DATA, Graph, Scratch, add_bias_graph,
                     compile_library, document, nodewise, npy_bytes,
                     params_bytes)

LIBRARY = support.Library()

# Leaves a trace if it is ever loaded.
TRAP = r"""
#include <stdio.h>
__attribute__((constructor)) static void spring(void) {
  FILE* file = fopen("%s", "w");
  if (file) fclose(file);
}
int kernel(void* a, int* b, int c, void* d, int* e, void* f) { return 0; }
"""


class Inspect(Scratch):
    def file_of(self, *arguments):
        result = nodewise("inspect", *arguments, "--json")
        self.assertEqual((result.code, result.err), (0, ""), result)
        return document(result)["files"][0]

    def test_folder_is_the_artefact_in_it(self):
        net = LIBRARY.artefact(self.folder / "net", add_bias_graph(),
                               {"bias": BIAS})
        found = document(nodewise("inspect", net, "--json"))["files"]
        self.assertEqual([f["kind"] for f in found],
                         ["graph", "library", "tensors"])
        self.assertEqual([(i["name"], i["is_param"])
                          for i in found[0]["inputs"]],
                         [("data", False), ("bias", True)])
        self.assertEqual(found[0]["param_bytes"], 12)

    def test_graph_shows_functions_types_and_storage(self):
        net = LIBRARY.artefact(self.folder / "net", add_bias_graph())
        graph = self.file_of(net / "graph.json")
        self.assertEqual(graph["functions"], [{"name": "add_bias",
                                               "uses": 1}])
        self.assertEqual(graph["outputs"], [{
            "name": "add_bias", "dtype": "float32", "shape": [2, 3],
            "bytes": 24}])
        self.assertEqual(graph["storage_bytes"], 24 + 12 + 24)
        self.assertIsNone(graph["inputs"][0]["is_param"])

    def test_example_of_tvms_documentation_is_shown(self):
        # TV-18
        graph = Graph()
        shape = (1, 3, 20, 20)
        x = graph.input("x", "float32", shape)
        tree = graph.output(graph.call("fuse_l2_normalize_relu", [x],
                                       "float32", shape, "relu0")).tree()
        tree["attrs"].update({"dtype": ["list_int", [0, 0]],
                              "device_index": ["list_int", [1, 1]],
                              "storage_id": ["list_int", [1, 0]]})
        path = self.write("graph.json", json.dumps(tree).encode())
        shown = nodewise("inspect", path)
        self.assertEqual((shown.code, shown.err), (0, ""))
        for line in ("1 function node, 1 input", "fuse_l2_normalize_relu  x1",
                     "x  float32 (1, 3, 20, 20)",
                     "relu0  float32 (1, 3, 20, 20)"):
            self.assertIn(line, shown.out)

    def test_library_shows_its_functions(self):
        library = self.file_of(LIBRARY.path)
        self.assertEqual(library["kind"], "library")
        for function in ("add_bias", "copy", "fail"):
            self.assertIn(function, library["functions"])
        self.assertEqual(library["bits"], 64)

    def test_tensors_show_their_types_and_range(self):
        for path in (self.write("x.npy", npy_bytes(DATA)),
                     self.write("x.params", params_bytes({"x": DATA}))):
            with self.subTest(path=path.name):
                tensor = self.file_of(path)["tensors"][0]
                self.assertEqual((tensor["name"], tensor["dtype"],
                                  tensor["shape"]), ("x", "float32", [2, 3]))
                self.assertEqual((tensor["min"], tensor["max"],
                                  tensor["mean"]), (1, 6, 3.5))

    def test_content_decides_not_the_name(self):
        path = self.write("weights.bin", params_bytes({"x": DATA}))
        self.assertEqual(self.file_of(path)["format"], ".params")

    def test_bytes_behind_the_last_tensor_are_said(self):
        path = self.write("x.params", params_bytes({"x": DATA}) + b"more")
        self.assertEqual(self.file_of(path)["trailing_bytes"], 4)

    def test_long_lists_are_cut_but_not_with_all(self):
        names = {f"p{i}": BIAS for i in range(25)}
        path = self.write("x.params", params_bytes(names))
        cut = nodewise("inspect", path).out
        self.assertIn("... 5 more (--all)\n", cut)
        self.assertNotIn("p24", cut)
        self.assertIn("p24", nodewise("inspect", path, "--all").out)
        self.assertEqual(len(self.file_of(path)["tensors"]), 25)

    def test_library_is_never_loaded(self):
        trace = self.folder / "sprung"
        compile_library(TRAP % trace, self.folder / "lib.so")
        (self.folder / "graph.json").write_text(
            json.dumps(add_bias_graph().tree()))
        nodewise("inspect", self.folder)
        nodewise("inspect", self.folder / "lib.so", "--json")
        self.assertFalse(trace.exists())


class BadFiles(Scratch):
    def test_files_of_unknown_kind_are_refused(self):
        table = [
            ("x.bin", b"hello", "begins with the bytes 68 65 6c 6c"),
            ("empty", b"", "is empty"),
            ("x.json", b"[1, 2]", "x.json"),
            ("x.json", b'{"nodes": [', "x.json:1:"),
            ("x.so", b"\x7fELF", "x.so"),
            ("x.npz", b"PK\x03\x04 and no more", "x.npz"),
            ("x.params", params_bytes({"x": DATA})[:20], "x.params"),
            ("x.npy", npy_bytes(DATA)[:20], "x.npy"),
        ]
        for name, data, message in table:
            with self.subTest(name=name, data=data[:8]):
                path = self.folder / name
                path.write_bytes(data)
                self.assertIn(message, self.refused("inspect", path))

    def test_params_file_that_is_cut_says_what_is_missing(self):
        path = self.folder / "x.params"
        path.write_bytes(params_bytes({"x": DATA})[:50])
        shown = nodewise("inspect", path)
        self.assertEqual(shown.code, 2, shown)
        self.assertIn("cut short: 1 tensor missing", shown.out)
        self.assertIn("x.params", shown.err)

    def test_missing_file_does_not_hide_the_others(self):
        path = self.folder / "x.npy"
        path.write_bytes(npy_bytes(DATA))
        result = nodewise("inspect", self.folder / "no", path)
        self.assertEqual(result.code, 2)
        self.assertIn("tensors (.npy)", result.out)
        self.assertIn("/no: ", result.err)

    def test_damaged_files_give_an_error_and_never_a_crash(self):
        seed = 20
        source = random.Random(seed)
        graph = json.dumps(add_bias_graph().tree()).encode()
        for name, data in (("x.json", graph),
                           ("x.params", params_bytes({"x": DATA})),
                           ("x.npy", npy_bytes(DATA)),
                           ("x.so", LIBRARY.path.read_bytes())):
            for i in range(12):
                damaged = bytearray(data)
                for _ in range(1 + i % 4):
                    at = source.randrange(min(len(damaged), 2048))
                    damaged[at] = source.randrange(256)
                path = self.folder / name
                path.write_bytes(damaged)
                result = nodewise("inspect", path, "--json")
                with self.subTest(name=name, i=i, seed=seed):
                    self.assertIn(result.code, (0, 2), result)
                    self.assertEqual(result.code == 2,
                                     bool(document(result)["errors"]))

    def test_text_that_is_not_utf_8_keeps_the_json_whole(self):
        data = params_bytes({"xyz": DATA}).replace(b"xyz", b"x\xff\x1b")
        path = self.folder / "x.params"
        path.write_bytes(data)
        found = document(nodewise("inspect", path, "--json"))
        name = found["files"][0]["tensors"][0]["name"]
        self.assertEqual(name, "x\ufffd\x1b")
        self.assertNotIn("\x1b", nodewise("inspect", path).out)


if __name__ == "__main__":
    unittest.main()
