"""nodewise dump, on artefacts made here and on TVM's own dumps."""

import collections
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import unittest
import unittest.mock

import support
from debug_support import (DebugLibrary, chain, read_params, split_graph,
                           sum_graph)
from support import (BIAS, DATA, ROOT, Scratch, Tensor, document, nodewise,
                     params_bytes)

LIBRARY = DebugLibrary()
FIXTURES = ROOT.parent / "shared/fixtures/tvm-0.14"
DEVICE = "_tvmdbg_device_CPU_0"
FILES = ["_nodewise_graph.json", "_nodewise_nodes.bin",
         "_tvmdbg_execution_trace.json", "_tvmdbg_graph_dump.json",
         "output_tensors.params"]
TENSORS = FILES[-1]
SUM = (1.5, 1, 13, 4.5, 4, 16)

# docs/formats/dump.md; a record without statistics ends with `elements`.
RECORD = "<HHIIIQQ"
STATISTICS = "QQQdddd"
Record = collections.namedtuple(
    "Record", "kind flags node slot entry hash elements nans infinities zeros "
    "min max mean l2", defaults=[None] * 7)
TIME, INPUT, OUTPUT = 1, 2, 3


def key(name, node, output=0):
    return f"{name}____topo-index:{node}____output-num:{output}"


KEYS = [key("data", 0), key("bias", 1), key("sum", 2), key("copied", 3),
        key("last", 4)]


def read_records(folder):
    data = (folder / "_nodewise_nodes.bin").read_bytes()
    magic, version, size = struct.unpack_from("<8sII", data)
    assert (magic, version, data[16:24]) == (b"NODEWISE", 2, b"XXH3-64\0")
    form = RECORD if size == 32 else RECORD + STATISTICS
    assert struct.calcsize(form) == size
    return [Record(*fields) for fields in struct.iter_unpack(form, data[24:])]


class WithNetwork(Scratch):
    """data + bias, copied twice."""

    def setUp(self):
        super().setUp()
        self.make_network(LIBRARY, sum_graph())
        self.root = self.folder / "dumps"

    def dump(self, *arguments, net=None, code=0):
        """The document of a run with --json."""
        result = nodewise("dump", net or self.net, "--inputs", self.inputs,
                          "--dump-root", self.root, *arguments, "--json")
        self.assertEqual(result.code, code, result)
        return document(result)

    def tensors(self, run="."):
        return read_params(self.root / run / DEVICE / "output_tensors.params")


class Folder(WithNetwork):
    def test_is_laid_out_as_tvm_does(self):
        # TV-33
        self.dump()
        self.assertEqual([p.name for p in self.root.iterdir()], [DEVICE])
        folder = self.root / DEVICE
        self.assertEqual(sorted(p.name for p in folder.iterdir()), FILES)
        graph = json.loads((folder / "_tvmdbg_graph_dump.json").read_text())
        self.assertEqual([node["op"] for node in graph["nodes"]],
                         ["param", "param", "add_bias", "copy", "copy"])
        trace = json.loads(
            (folder / "_tvmdbg_execution_trace.json").read_text())
        names = ["data", "bias", "sum", "copied", "last"]
        for phase in "BE":
            self.assertEqual([event["name"] for event in trace["traceEvents"]
                              if event["ph"] == phase], names)

    def test_holds_the_graph_json_byte_for_byte_and_verify_reads_it(self):
        # TV-01
        source = self.net / "graph.json"
        source.write_text(source.read_text() + "\n  \n")
        self.dump()
        copy = self.root / DEVICE / "_nodewise_graph.json"
        self.assertEqual(copy.read_bytes(), source.read_bytes())
        shown = nodewise("verify", copy, "--lib", self.net / "lib.so",
                         "--params", self.net / "params.params")
        self.assertEqual((shown.code, shown.out),
                         (0, f"{copy}: 0 errors, 0 warnings\n"))

    def test_verify_reads_the_folder_and_tvms_form_of_the_graph(self):
        # TV-01
        self.dump()
        folder = self.root / DEVICE
        tvms = folder / "_tvmdbg_graph_dump.json"
        for target in (folder, tvms):
            shown = nodewise("verify", target)
            self.assertEqual((shown.code, shown.out),
                             (0, f"{target}: 0 errors, 0 warnings\n"))
        graph = json.loads(tvms.read_text())
        graph["nodes"][2]["inputs"][0] = "dta"
        tvms.write_text(json.dumps(graph, indent=4))
        shown = nodewise("verify", tvms)
        self.assertEqual(shown.code, 1, shown)
        self.assertRegex(shown.out, r"json:\d\d+:17: /nodes/2/inputs/0: node "
                                    "dta, which no node before has as its "
                                    "name, expected ")

    def test_is_parameters_that_a_run_and_verify_take(self):
        # TV-20
        expected = nodewise("run", self.net, "--inputs", self.inputs)
        self.dump()
        given = [self.net / "graph.json", "--lib", self.net / "lib.so",
                 "--params", self.root / DEVICE / TENSORS]
        shown = nodewise("verify", *given)
        self.assertEqual(shown.code, 0, shown)
        self.assertIn(": 0 errors, 0 warnings\n", shown.out)
        shown = nodewise("run", *given, "--json")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertEqual(document(shown)["notes"], [])
        self.assertEqual(
            nodewise("run", *given).out.split("\noutput", 1)[1].split("ran")[0],
            expected.out.split("\noutput", 1)[1].split("ran")[0])

    def test_is_for_its_owner_only(self):
        self.dump()
        self.assertEqual((self.root / DEVICE).stat().st_mode & 0o777, 0o700)

    def test_holds_every_tensor_as_it_was(self):
        # TV-19
        found = self.dump()
        tensors = self.tensors()
        self.assertEqual(list(tensors), KEYS)
        self.assertEqual(tensors[KEYS[0]], DATA)
        self.assertEqual(tensors[KEYS[1]], BIAS)
        for name in KEYS[2:]:
            self.assertEqual(tensors[name], Tensor("float32", (2, 3), SUM))
        self.assertEqual((found["entries"], found["tensor_bytes"]), (5, 108))
        self.assertEqual(found["dumps"], [str(self.root / DEVICE)])

    def test_text_names_the_folder_and_what_it_holds(self):
        result = nodewise("dump", self.net, "--inputs", self.inputs,
                          "--dump-root", self.root)
        self.assertEqual((result.code, result.err), (0, ""))
        self.assertIn(f"dump    {self.root / DEVICE}: 5 tensors, 108 bytes\n",
                      result.out)

    def test_two_runs_leave_two_whole_dumps(self):
        found = self.dump("--runs", 2)
        self.assertEqual(found["dumps"], [str(self.root / DEVICE),
                                          str(self.root / "run_2" / DEVICE)])
        self.assertEqual(self.tensors(), self.tensors("run_2"))
        self.assertEqual(len(read_records(self.root / "run_2" / DEVICE)),
                         len(read_records(self.root / DEVICE)))

    def test_second_process_leaves_the_first_dump_alone(self):
        def state():
            return {p.name: (p.read_bytes(), p.stat().st_mtime_ns)
                    for p in (self.root / DEVICE).iterdir()}

        self.dump()
        before = state()
        self.inputs.write_bytes(
            params_bytes({"data": DATA._replace(values=[9] * 6)}))
        found = self.dump()
        self.assertEqual(state(), before)
        self.assertEqual(found["dumps"], [str(self.root / "run_2" / DEVICE)])
        self.assertEqual(self.tensors("run_2")[KEYS[0]].values, (9,) * 6)

    def test_without_a_root_is_a_fresh_temporary_one(self):
        # TV-34
        with unittest.mock.patch.dict(os.environ, TMPDIR=str(self.folder)):
            found = [document(nodewise("dump", self.net, "--inputs",
                                       self.inputs, "--json"))["dumps"][0]
                     for _ in range(2)]
        self.assertNotEqual(*found)
        for folder in map(pathlib.Path, found):
            self.assertEqual(folder.name, DEVICE)
            self.assertRegex(folder.parent.name, r"\Atvmdbg_\w+\Z")
            self.assertEqual(folder.parent.parent, self.folder)
            self.assertEqual(sorted(p.name for p in folder.iterdir()), FILES)

    def test_every_output_of_a_node_is_recorded(self):
        # TV-19
        net = LIBRARY.artefact(self.folder / "halves", split_graph(), {})
        self.dump(net=net)
        negative = tuple(-x for x in DATA.values)
        tensors = self.tensors()
        self.assertEqual(tensors[key("halves", 1, 0)].values, DATA.values)
        self.assertEqual(tensors[key("halves", 1, 1)].values, negative)
        self.assertEqual(tensors[key("last", 2)].values, negative)

    def test_nodes_of_one_name_are_told_apart(self):
        tree = chain("copy", "copy").tree()
        for node in tree["nodes"]:
            node["name"] = "data"
        net = LIBRARY.artefact(self.folder / "same", tree, {})
        self.dump(net=net)
        self.assertEqual(list(self.tensors()),
                         [key("data", node) for node in range(3)])

    def test_run_that_fails_leaves_what_it_had_made(self):
        net = LIBRARY.artefact(self.folder / "fails",
                               chain("copy", "fail", "copy"), {})
        found = self.dump(net=net, code=2)
        self.assertIn("this kernel always fails", str(found["errors"]))
        self.assertEqual(list(self.tensors()),
                         [key("data", 0), key("copy_0", 1)])


    def test_run_that_fails_says_where_its_dump_is(self):
        net = LIBRARY.artefact(self.folder / "fails",
                               chain("copy", "fail", "copy"), {})
        given = ["dump", net, "--inputs", self.inputs, "--runs", 2]
        with unittest.mock.patch.dict(os.environ, TMPDIR=str(self.folder)):
            found = document(nodewise(*given, "--json"))
            shown = nodewise(*given)
        self.assertEqual(len(found["dumps"]), 1)
        self.assertIn(FILES[-1], os.listdir(found["dumps"][0]))
        self.assertNotIn("plain_run", found)
        self.assertEqual(shown.code, 2)
        self.assertIn("this kernel always fails", shown.err)
        self.assertRegex(shown.out, rf"\ndump    {self.folder}/tvmdbg_\w+/"
                                    rf"{DEVICE}: what was made before the run "
                                    rf"failed\n\Z")


class Records(WithNetwork):
    def test_come_in_the_order_of_the_run(self):
        self.dump()
        records = read_records(self.root / DEVICE)
        self.assertEqual(
            [(r.kind, r.node, r.slot) for r in records],
            [(OUTPUT, 0, 0), (OUTPUT, 1, 0),
             (INPUT, 2, 0), (INPUT, 2, 1), (TIME, 2, 0), (OUTPUT, 2, 0),
             (INPUT, 3, 0), (TIME, 3, 0), (OUTPUT, 3, 0),
             (INPUT, 4, 0), (TIME, 4, 0), (OUTPUT, 4, 0)])

    def test_inputs_have_the_hash_of_what_was_made(self):
        self.dump()
        made = {}
        for record in read_records(self.root / DEVICE):
            if record.kind == OUTPUT:
                made[record.entry] = record.hash
            elif record.kind == INPUT:
                self.assertEqual(record.hash, made[record.entry], record)

    def test_input_that_was_written_over_has_another_hash(self):
        net = LIBRARY.artefact(self.folder / "bad",
                               chain("copy", "write_input"), {})
        tree = json.loads((net / "graph.json").read_text())
        tree["nodes"].append({**tree["nodes"][1], "name": "reader",
                              "inputs": [[1, 0, 0]]})
        tree["heads"] = [[3, 0, 0]]
        tree["node_row_ptr"].append(4)
        tree["attrs"]["dltype"][1].append("float32")
        tree["attrs"]["shape"][1].append([2, 3])
        tree["attrs"]["storage_id"][1].append(3)
        (net / "graph.json").write_text(json.dumps(tree))
        self.dump(net=net)
        hashes = {(r.kind, r.node): r.hash
                  for r in read_records(self.root / DEVICE)}
        self.assertEqual(hashes[INPUT, 2], hashes[OUTPUT, 1])
        self.assertNotEqual(hashes[INPUT, 3], hashes[OUTPUT, 1])

    def test_times_rise_and_do_not_overlap(self):
        self.dump()
        last_end = 0
        for record in read_records(self.root / DEVICE):
            if record.kind == TIME:
                start, end = record.hash, record.elements
                self.assertLessEqual(last_end, start)
                self.assertLessEqual(start, end)
                last_end = end
        self.assertGreater(last_end, 0)

    def test_numpy_reads_them_with_the_documented_program(self):
        if subprocess.run([sys.executable, "-c", "import numpy"],
                          capture_output=True, check=False).returncode:
            self.skipTest("numpy is not installed")
        page = (ROOT / "docs/formats/dump.md").read_text()
        program = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)
        program += ("\nassert (nanoseconds < 10**12).all(), nanoseconds"
                    "\nprint(*records['kind'], *records['elements'][:2])")
        self.dump("--what", "tensor,stats")
        child = subprocess.run([sys.executable, "-c", program], text=True,
                               cwd=self.root / DEVICE, capture_output=True,
                               timeout=60, check=False)
        self.assertEqual(child.stderr, "")
        self.assertEqual(child.stdout, "3 3 2 2 1 3 2 1 3 2 1 3 6 3\n")


class What(WithNetwork):
    def test_stats_writes_no_tensors(self):
        found = self.dump("--what", "stats")
        self.assertFalse((self.root / DEVICE / TENSORS).exists())
        self.assertEqual((found["entries"], found["tensor_bytes"]), (5, 0))

    def test_stats_say_what_the_tensors_are_like(self):
        values = (float("nan"), float("inf"), 0, 3, -4, 0)
        self.inputs.write_bytes(
            params_bytes({"data": DATA._replace(values=values)}))
        net = LIBRARY.artefact(self.folder / "copy", chain("copy"), {})
        self.dump("--what", "stats", net=net)
        found = read_records(self.root / DEVICE)[-1]
        self.assertEqual((found.kind, found.flags, found.elements),
                         (OUTPUT, 3, 6))
        self.assertEqual((found.nans, found.infinities, found.zeros),
                         (1, 1, 2))
        self.assertEqual((found.min, found.max, found.mean, found.l2),
                         (-4, float("inf"), -0.25, 5))

    def test_both_write_both(self):
        self.dump("--what", "tensor,stats")
        self.assertEqual(len(self.tensors()), 5)
        found = read_records(self.root / DEVICE)[-1]
        self.assertEqual((found.min, found.max), (1, 16))

    def test_tensors_alone_have_no_stats(self):
        self.dump("--what", "tensor")
        self.assertEqual(len(self.tensors()), 5)
        self.assertIsNone(read_records(self.root / DEVICE)[-1].max)


class Selection(WithNetwork):
    def test_takes_nodes_by_name_function_and_number(self):
        table = [
            (["--select", "^(sum|last)$"], [2, 4]),
            (["--select", "copy"], [3, 4]),
            (["--nodes", "1:2"], [1, 2]),
            (["--nodes", "3:"], [3, 4]),
            (["--nodes", ":0"], [0]),
            (["--select", "cop", "--nodes", "4:9"], [4]),
        ]
        for number, (given, nodes) in enumerate(table):
            with self.subTest(given=given):
                self.root = self.folder / str(number)
                found = self.dump(*given)
                self.assertEqual(list(self.tensors()),
                                 [KEYS[node] for node in nodes])
                self.assertEqual(found["entries"], len(nodes))
                self.assertTrue(found["plain_run"]["same_bits"])

    def test_name_that_several_nodes_have_chooses_them_all(self):
        tree = chain("copy", "copy", "copy").tree()
        for node in tree["nodes"][1:3]:
            node["name"] = "s"
        net = LIBRARY.artefact(self.folder / "same", tree, {})
        for select, nodes in (("^s$", [1, 2]), ("^s#2$", [2])):
            with self.subTest(select=select):
                self.root = self.folder / select
                self.dump("--select", select, net=net)
                self.assertEqual(list(self.tensors()),
                                 [key("s", node) for node in nodes])

    def test_size_limit_leaves_out_whole_tensors_and_names_them(self):
        found = self.dump("--max-bytes", 60)
        self.assertEqual(list(self.tensors()), KEYS[:3])
        self.assertEqual(found["left_out"], KEYS[3:])
        self.assertEqual(found["tensor_bytes"], 60)
        shown = nodewise("dump", self.net, "--inputs", self.inputs,
                         "--dump-root", self.root, "--max-bytes", 60)
        self.assertIn("left out by --max-bytes: 2 tensors\n", shown.out)
        self.assertRegex(shown.out, KEYS[4] + " +24 bytes\n")


class PlainRun(WithNetwork):
    def test_has_the_same_outputs_bit_for_bit(self):
        found = self.dump()["plain_run"]
        self.assertTrue(found["same_bits"])
        self.assertEqual(found["text"], "outputs: bit for bit those of a "
                                        "plain run (1 tensor, 24 bytes)")

    def test_with_other_outputs_is_told_and_exits_with_1(self):
        net = LIBRARY.artefact(self.folder / "bad", chain("unsteady"), {})
        found = self.dump(net=net, code=1)
        self.assertEqual(found["status"], "differs")
        self.assertFalse(found["plain_run"]["same_bits"])
        self.assertIn("NOT those of a plain run: output 0 (unsteady_0)",
                      found["plain_run"]["text"])

    def test_that_fails_leaves_the_dump_as_it_is(self):
        net = LIBRARY.artefact(self.folder / "bad", chain("fail_once"), {})
        with unittest.mock.patch.dict(os.environ, NODEWISE_TEST_FAILS="2"):
            found = self.dump(net=net, code=1)
        self.assertEqual(found["plain_run"], {
            "same_bits": False,
            "text": "outputs: not compared, plain run: node 1 (fail_once_0): "
                    "fail_once: this call fails"})
        self.assertEqual(found["dumps"], [str(self.root / DEVICE)])
        self.assertEqual(list(self.tensors()),
                         [key("data", 0), key("fail_once_0", 1)])


class BadInput(WithNetwork):
    def test_root_that_cannot_be_written_costs_only_the_dump(self):
        root = self.inputs / "below"
        shown = nodewise("dump", self.net, "--inputs", self.inputs,
                         "--dump-root", root)
        self.assertEqual(shown.code, 2)
        self.assertIn(f"nodewise: {root}: ", shown.err)
        self.assertIn("outputs: bit for bit those of a plain run (1 tensor, "
                      "24 bytes)\n", shown.out)
        self.assertNotIn("dump ", shown.out)

    def test_root_that_cannot_be_written_is_an_error_in_json_too(self):
        self.root = self.inputs / "below"
        found = self.dump(code=2)
        self.assertEqual(found["status"], "error")
        self.assertEqual(found["errors"][0]["where"], str(self.root))
        self.assertEqual(found["dumps"], [])
        self.assertTrue(found["plain_run"]["same_bits"])

    def test_is_refused_before_anything_is_written(self):
        table = [
            (["--what", "tensr"], 'found "tensr", expected tensor, stats'),
            (["--what", "stats,"], 'found "", expected tensor, stats'),
            (["--nodes", "3"], 'found "3", expected A:B'),
            (["--nodes", "a:b"], 'found "a:b", expected A:B'),
            (["--nodes", "-1:2"], 'found "-1:2", expected A:B'),
            (["--what", "stat"], "did you mean stats?"),
            (["--nodes", "9:"], "--nodes: no node is chosen by nodes 9 and "
                                "later, expected at least one of nodes 0 to 4"),
            (["--nodes", "3:2"], "--nodes: no node is chosen by nodes 3 to 2"),
            (["--select", "nothing"],
             '--select: no node is chosen by the expression "nothing", '),
            (["--select", "nothing"],
             "(a dump of all nodes, or nodewise profile --csv, has their "
             "names)\n"),
            (["--select", "sum", "--nodes", "3:4"],
             '--select, --nodes: no node is chosen by the expression "sum" in '
             "nodes 3 to 4, "),
            (["--select", "("],
             "--select: the expression ( is not a regular expression"),
            (["--max-bytes", "0"], "--max-bytes"),
            (["--runs", "0"], "--runs"),
        ]
        for given, message in table:
            with self.subTest(given=given):
                error = self.refused("dump", self.net, "--inputs",
                                     self.inputs, "--dump-root", self.root,
                                     *given)
                self.assertIn(message, error)


class Fixtures(Scratch):
    def test_tvms_form_of_a_graph_has_no_faults(self):
        dumped = sorted(FIXTURES.glob("*/tvm_debug/*/_tvmdbg_graph_dump.json"))
        if not dumped:
            self.skipTest("no fixtures: tvm-0.14")
        for path in dumped:
            shown = nodewise("verify", path)
            self.assertEqual((shown.code, shown.out),
                             (0, f"{path}: 0 errors, 0 warnings\n"))

    def test_dumps_are_tvms_tensor_for_tensor(self):
        folders = sorted(FIXTURES.glob("*/tvm_debug"))
        if not folders:
            self.skipTest("no fixtures: tvm-0.14")
        for theirs in folders:
            net = theirs.parent
            with self.subTest(net=net.name):
                root = self.folder / net.name
                result = nodewise("dump", net / "graph.json", "--lib",
                                  net / "lib.so", "--params",
                                  net / "params.params", "--inputs",
                                  net / "inputs.params", "--dump-root", root)
                self.assertEqual(result.code, 0, result)
                ours = read_params(root / DEVICE / TENSORS)
                expected = read_params(theirs / DEVICE / TENSORS)
                self.assertEqual(sorted(ours), sorted(expected))
                # One by one: a difference of all would fill the screen.
                self.assertEqual([name for name in sorted(ours) if
                                  repr(ours[name]) != repr(expected[name])],
                                 [])


if __name__ == "__main__":
    unittest.main()
