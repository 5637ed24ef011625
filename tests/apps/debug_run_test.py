"""nodewise run with the options that stop it, patch it and watch it."""

import os
import unittest
import unittest.mock
import zipfile

from debug_support import DebugLibrary, chain, split_graph, sum_graph
from support import (BIAS, DATA, Scratch, document, nodewise, npy_bytes,
                     params_bytes)

LIBRARY = DebugLibrary()
SUM = [1.5, 1, 13, 4.5, 4, 16]
NINES = DATA._replace(values=[9, 8, 7, 6, 5, 4])
SAME_BITS = "outputs: bit for bit those of a plain run (1 tensor, 24 bytes)"


class WithNetwork(Scratch):
    """data + bias, copied twice: nodes data, bias, sum, copied, last."""

    def setUp(self):
        super().setUp()
        self.make_network(LIBRARY, sum_graph())

    def chain(self, *functions):
        return LIBRARY.artefact(self.folder / "chain", chain(*functions), {})

    def halves(self):
        return LIBRARY.artefact(self.folder / "halves", split_graph(), {})

    def text(self, *arguments, net=None, code=0):
        result = nodewise("run", net or self.net, "--inputs", self.inputs,
                          *arguments)
        self.assertEqual((result.code, result.err), (code, ""), result)
        return result.out

    def found(self, *arguments, net=None, code=0):
        """The document of a run with --json."""
        result = nodewise("run", net or self.net, "--inputs", self.inputs,
                          *arguments, "--json")
        self.assertEqual((result.code, result.err), (code, ""), result)
        found = document(result)
        self.assertEqual(found["status"], "differs" if code else "ok")
        return found

    def refused_run(self, *arguments, net=None):
        return self.refused("run", net or self.net, "--inputs", self.inputs,
                            "--output", self.folder / "y.npz", *arguments)


class Until(WithNetwork):
    def test_shows_what_the_node_made(self):
        for node in ("sum", "#2"):
            with self.subTest(node=node):
                found = self.found("--until", node)
                self.assertEqual(found["stopped_at"], "sum")
                output, = found["outputs"]
                self.assertEqual(output["name"], "sum:0")
                self.assertEqual(output["first"], SUM)

    def test_text_names_node_and_function(self):
        text = self.text("--until", "copied")
        self.assertIn("\nstopped after node 3 (copied), function copy\n",
                      text)
        self.assertIn("\noutput  copied:0  float32 (2, 3)\n", text)

    def test_runs_nothing_behind_the_node(self):
        found = self.found("--until", "copy_0",
                           net=self.chain("copy", "crash"))
        self.assertEqual(found["outputs"][0]["first"], list(DATA.values))

    def test_shows_every_output_of_the_node(self):
        outputs = self.found("--until", "halves", net=self.halves())["outputs"]
        self.assertEqual([output["name"] for output in outputs],
                         ["halves:0", "halves:1"])
        self.assertEqual(outputs[1]["first"], [-x for x in DATA.values])

    def test_output_file_holds_what_the_node_made(self):
        path = self.folder / "y.npz"
        self.text("--until", "halves", "--output", path, net=self.halves())
        with zipfile.ZipFile(path) as archive:
            self.assertEqual(archive.namelist(),
                             ["halves:0.npy", "halves:1.npy"])
            self.assertTrue(archive.read("halves:0.npy")
                            .endswith(npy_bytes(DATA)[-24:]))

    def test_input_of_the_graph_is_shown_too(self):
        found = self.found("--until", "data")
        self.assertEqual(found["outputs"][0]["first"], list(DATA.values))

    def test_unknown_node_is_refused_with_the_nearest(self):
        table = [
            ("sume", "--until: node sume: the graph has no such node (did you "
                     "mean sum?)\n"),
            ("#9", "--until: node #9: the graph has 5 nodes"),
            ("", "--until is empty"),
        ]
        for node, message in table:
            with self.subTest(node=node):
                self.assertIn(message, self.refused_run("--until", node))

    def test_two_outputs_do_not_go_into_an_npy_file(self):
        path = self.folder / "y.npy"
        result = nodewise("run", self.halves(), "--inputs", self.inputs,
                          "--until", "halves", "--output", path)
        self.assertEqual(result.code, 2)
        self.assertIn("y.npy: 2 tensors", result.err)
        self.assertIn("\noutput  halves:1  ", result.out)
        self.assertFalse(path.exists())


class Patch(WithNetwork):
    def setUp(self):
        super().setUp()
        self.nines = self.write("nines.npy", npy_bytes(NINES))

    def output_of(self, *arguments, net=None):
        return self.found(*arguments, net=net)["outputs"][0]["first"]

    def test_stands_for_what_the_node_makes(self):
        for entry in ("sum", "sum:0", "#2", "copied", "last"):
            with self.subTest(entry=entry):
                self.assertEqual(
                    self.output_of("--patch", f"{entry}={self.nines}"),
                    NINES.values)

    def test_stands_for_an_input_of_the_graph(self):
        self.assertEqual(
            self.output_of("--patch", f"bias={self.bias_file()}"),
            [x + y for x, y in zip(DATA.values, [1, 2, 3] * 2)])

    def bias_file(self):
        return self.write("b.npy",
                          npy_bytes(BIAS._replace(values=(1, 2, 3))))

    def test_node_that_is_patched_does_not_run(self):
        net = self.chain("copy", "crash", "copy")
        self.assertEqual(
            self.output_of("--patch", f"crash_1={self.nines}", net=net),
            NINES.values)

    def test_of_one_output_leaves_the_other(self):
        given = ["--until", "halves", "--patch", f"halves:1={self.nines}"]
        first, second = self.found(*given, net=self.halves())["outputs"]
        self.assertEqual(first["first"], list(DATA.values))
        self.assertEqual(second["first"], NINES.values)

    def test_may_be_given_again(self):
        self.assertEqual(
            self.output_of("--patch", f"bias={self.bias_file()}", "--patch",
                           f"data={self.nines}"),
            [10, 10, 10, 7, 7, 7])

    def test_takes_what_until_wrote(self):
        path = self.folder / "sum.npy"
        self.text("--until", "sum", "--output", path)
        self.write("in.params", params_bytes({"data": NINES}))
        self.assertEqual(self.output_of("--patch", f"sum={path}"), SUM)

    def test_file_of_several_gives_the_tensor_of_the_entrys_name(self):
        for name in ("sum", "sum:0", "sum____topo-index:2____output-num:0"):
            path = self.write("two.params",
                              params_bytes({"other": DATA, name: NINES}))
            with self.subTest(name=name):
                self.assertEqual(self.output_of("--patch", f"sum={path}"),
                                 NINES.values)

    def test_that_does_not_fit_is_refused(self):
        wide = self.write("wide.npy", npy_bytes(DATA._replace(shape=(3, 2))))
        double = self.write("double.npy",
                            npy_bytes(DATA._replace(dtype="float64")))
        two = self.write("two.params", params_bytes({"a": DATA, "b": DATA}))
        table = [
            (f"sum={wide}", "(sum): tensor is float32 (3, 2), expected "
                            "float32 (2, 3)\n"),
            (f"sum={double}", "(sum): tensor is float64 (2, 3), expected "
                              "float32 (2, 3)\n"),
            (f"sum={two}", "two.params: has 2 tensors and none is named sum, "
                           "expected it or a single one (it holds a, b)"),
            (f"sum={self.folder}/no.npy", "no.npy: "),
            (f"sum={self.net}/graph.json", "graph.json: "),
            (f"summ={self.nines}", "did you mean sum?"),
            (f"sum:1={self.nines}", "output 1 of node sum, which has 1"),
            ("sum", 'found "sum", expected ENTRY=FILE'),
            ("", "--patch is empty"),
        ]
        for patch, message in table:
            with self.subTest(patch=patch):
                self.assertIn(message, self.refused_run("--patch", patch))


    def test_of_one_entry_by_two_names_is_refused(self):
        for entry in ("sum", "sum:0", "#2", "#2:0"):
            with self.subTest(entry=entry):
                error = self.refused_run("--patch", f"sum={self.inputs}",
                                         "--patch", f"{entry}={self.nines}")
                self.assertIn(f"nines.npy: entry {entry}: is given twice, "
                              f"expected once ({self.inputs} has it too)\n",
                              error)


class StopOn(WithNetwork):
    def test_names_the_first_node_that_makes_the_value(self):
        self.write("in.params", params_bytes(
            {"data": DATA._replace(values=[1, 4, -1, 9, 16, 25])}))
        net = self.chain("copy", "square_root", "copy")
        text = self.text("--stop-on", "nan", net=net, code=1)
        self.assertIn("\nstopped after node 2 (square_root_1), function "
                      "square_root: the first to make such a value\n", text)
        found = self.found("--stop-on", "nan", net=net, code=1)
        self.assertEqual(found["stopped_at"], "square_root_1")
        self.assertEqual(found["outputs"][0]["first"],
                         [1, 2, "nan", 3, 4, 5])

    def test_every_kind_of_value_is_seen(self):
        self.write("in.params", params_bytes(
            {"data": DATA._replace(values=[1, 2, float("-inf"), -40, 5, 6])}))
        table = [("inf", 1), ("abs>50", 1), ("nan", 0)]
        for value, code in table:
            with self.subTest(value=value):
                self.found("--stop-on", value, code=code)

    def test_limit_is_one_of_magnitude_and_not_reached_by_itself(self):
        self.write("in.params", params_bytes(
            {"data": DATA._replace(values=[1, 2, 3, -40, 5, 6])}))
        net = self.chain("copy")
        self.found("--stop-on", "abs>39.5", net=net, code=1)
        self.found("--stop-on", "abs>40", net=net, code=0)

    def test_smallest_of_several_limits_counts(self):
        for limits in (["abs>3", "abs>100"], ["abs>100", "abs>3"]):
            with self.subTest(limits=limits):
                found = self.found("--stop-on", limits[0], "--stop-on",
                                   limits[1], net=self.chain("copy"), code=1)
                self.assertEqual(found["stopped_at"], "copy_0")

    def test_without_such_a_value_the_run_ends_as_ever(self):
        text = self.text("--stop-on", "nan", "--stop-on", "inf")
        self.assertIn("\nno node made such a value\n", text)
        found = self.found("--stop-on", "abs>1e9")
        self.assertEqual(found["stopped_at"], "")
        self.assertEqual(found["outputs"][0]["name"], "last")

    def test_node_of_until_is_not_a_finding_by_name_or_number(self):
        for node in ("copied", "#3"):
            with self.subTest(node=node):
                text = self.text("--stop-on", "abs>100", "--until", node)
                self.assertIn("stopped after node 3 (copied)", text)
                self.assertNotIn("the first to make such a value", text)

    def test_value_in_the_node_of_until_is_a_finding(self):
        for node in ("sum", "#2"):
            with self.subTest(node=node):
                text = self.text("--stop-on", "abs>15", "--until", node,
                                 code=1)
                self.assertIn("the first to make such a value", text)

    def test_value_that_is_none_is_refused(self):
        table = [
            ("nans", 'found "nans", expected nan, inf or abs>LIMIT'),
            ("abs>", 'found "abs>", expected a number behind abs>'),
            ("abs>x", 'found "abs>x", expected a number behind abs>'),
            ("abs>-1", 'found "abs>-1", expected a number behind abs>'),
            ("abs>nan", 'found "abs>nan", expected a number behind abs>'),
            ("", "--stop-on is empty"),
        ]
        for value, message in table:
            with self.subTest(value=value):
                self.assertIn(message, self.refused_run("--stop-on", value))


class Sanitize(WithNetwork):
    def test_sound_network_has_no_faults(self):
        text = self.text("--sanitize")
        self.assertIn("\nsanitized 3 nodes: 0 memory faults\n", text)
        self.assertIn(f"\n{SAME_BITS}\n", text)
        found = self.found("--sanitize")
        self.assertEqual(found["memory_faults"], [])
        self.assertEqual(found["outputs"][0]["first"], SUM)

    def test_fault_names_its_node_and_exits_with_1(self):
        table = [
            ("overrun", "node 2 (overrun_1) wrote 4 bytes past its output 0 "
                        "(first at byte 24)"),
            ("write_input", "node 2 (write_input_1) wrote 4 bytes to its "
                            "input 0, which it may only read (first at byte "
                            "4)"),
        ]
        for function, message in table:
            with self.subTest(function=function):
                net = self.chain("copy", function, "copy")
                found = self.found("--sanitize", net=net, code=1)
                fault, = found["memory_faults"]
                self.assertEqual((fault["node"], fault["text"]),
                                 (f"{function}_1", message))
                text = self.text("--sanitize", net=net, code=1)
                self.assertIn(f": 1 memory fault\n{message}\n", text)

    def test_fault_that_ends_a_plain_run_is_reported_too(self):
        found = self.found("--sanitize", net=self.chain("overrun_far", "copy"),
                           code=1)
        self.assertIn("node 1 (overrun_far_0) wrote 2048 bytes past its "
                      "output 0", found["memory_faults"][0]["text"])

    def test_plan_that_destroys_an_entry_is_a_fault(self):
        tree = chain("copy", "copy").tree()
        tree["nodes"][2]["inputs"] = [[0, 0, 0]]
        third = {**tree["nodes"][2], "name": "reader", "inputs": [[1, 0, 0]]}
        tree["nodes"].append(third)
        tree["heads"] = [[3, 0, 0]]
        tree["node_row_ptr"].append(4)
        tree["attrs"] = {"dltype": ["list_str", ["float32"] * 4],
                         "shape": ["list_shape", [[2, 3]] * 4],
                         "storage_id": ["list_int", [0, 1, 1, 2]]}
        net = LIBRARY.artefact(self.folder / "plan", tree, {})
        found = self.found("--sanitize", net=net, code=1)
        self.assertIn("node 3 (reader) reads entry copy_0:0 of node 1, which "
                      "node 2 overwrote", found["memory_faults"][0]["text"])

    def test_plain_run_that_fails_leaves_the_findings(self):
        with unittest.mock.patch.dict(os.environ, NODEWISE_TEST_FAILS="4"):
            found = self.found("--sanitize", code=1,
                               net=self.chain("fail_once"))
        self.assertEqual(found["memory_faults"], [])
        self.assertEqual(found["plain_run"]["text"],
                         "outputs: not compared, plain run: node 1 "
                         "(fail_once_0): fail_once: this call fails")

    def test_output_is_written_all_the_same(self):
        path = self.folder / "y.npz"
        self.text("--sanitize", "--output", path)
        self.assertTrue(path.exists())


class Isolate(WithNetwork):
    def test_sound_network_has_no_failures(self):
        text = self.text("--isolate")
        self.assertIn("\nisolated 3 nodes: 0 failures\n", text)
        self.assertIn(f"\n{SAME_BITS}\n", text)
        found = self.found("--isolate")
        self.assertEqual((found["failures"], found["tainted"]), ([], []))
        self.assertEqual(found["outputs"][0]["first"], SUM)

    def test_failure_names_its_node_and_the_rest_still_runs(self):
        table = [
            ("crash", [], "crashed with SIGSEGV at address 0x40"),
            ("hang", ["--time-limit-ms", 2000],
             "had not returned after 2000 ms and was stopped"),
            ("leave", [], "ended the process with exit status 3"),
            ("fail", [], "fail: this kernel always fails"),
        ]
        for function, given, how in table:
            with self.subTest(function=function):
                message = f"node 2 ({function}_1): {how}"
                net = self.chain("copy", function, "copy")
                found = self.found("--isolate", *given, net=net, code=1)
                failure, = found["failures"]
                self.assertEqual((failure["node"], failure["text"]),
                                 (f"{function}_1", message))
                self.assertEqual(found["tainted"], ["copy_2"])

    def test_outputs_of_a_failure_are_neither_shown_nor_written(self):
        path = self.folder / "y.npz"
        text = self.text("--isolate", "--output", path,
                         net=self.chain("crash", "copy"), code=1)
        self.assertIn("\nisolated 2 nodes: 1 failure\n", text)
        self.assertIn("\noutputs: not compared, since nodes failed\n", text)
        self.assertNotIn("output  ", text)
        self.assertFalse(path.exists())

    def test_every_failure_is_reported(self):
        found = self.found("--isolate", net=self.chain("crash", "leave"),
                           code=1)
        self.assertEqual([failure["node"] for failure in found["failures"]],
                         ["crash_0", "leave_1"])

    def test_nothing_the_code_does_ends_the_tool(self):
        for function in ("overrun", "overrun_far", "crash_on_first_thread"):
            with self.subTest(function=function):
                result = nodewise("run", self.chain(function, "copy"),
                                  "--inputs", self.inputs, "--isolate")
                self.assertIn(result.code, (0, 1), result)
                self.assertIn("\nisolated 2 nodes: ", result.out)

    def test_time_limit_is_one_of_each_node(self):
        # Together the nodes take longer than one may.
        found = self.found("--isolate", "--time-limit-ms", 2000,
                           net=self.chain(*["nap"] * 21))
        self.assertEqual(found["failures"], [])


class Sweep(WithNetwork):
    def test_steady_network_always_makes_the_same(self):
        text = self.text("--sweep")
        self.assertRegex(text, r"\nswept \d+ runs: always the same bits\n")
        found = self.found("--sweep")
        self.assertGreater(found["runs"], 1)
        self.assertEqual(found["unsteady"], [])

    def test_node_that_changes_is_named_and_its_readers_are_not(self):
        net = self.chain("copy", "unsteady", "copy")
        found = self.found("--sweep", net=net, code=1)
        finding, = found["unsteady"]
        self.assertEqual(finding["node"], "unsteady_1")
        self.assertRegex(finding["text"],
                         r"\Anode 2 \(unsteady_1\): output 0 differs between "
                         r"two runs of the same in 1 of 6 elements, by up to")
        self.assertEqual(found["inherited"], 1)
        text = self.text("--sweep", net=net, code=1)
        self.assertIn(": 1 finding, and 1 node that only passed them on\n",
                      text)


class Inputs(WithNetwork):
    def test_are_read_once_for_all_runs(self):
        net = self.chain("spoil_inputs")
        files = {"x.npy": npy_bytes(DATA),
                 "x.params": params_bytes({"data": DATA})}
        for verb in (["run", "--sanitize"], ["run", "--isolate"],
                     ["run", "--sweep"], ["dump", "--what", "stats"],
                     ["profile", "--runs", "1"]):
            for name, data in files.items():
                path = self.write(name, data)
                with self.subTest(verb=verb, name=name), \
                        unittest.mock.patch.dict(
                            os.environ, NODEWISE_TEST_INPUTS=str(path),
                            TMPDIR=str(self.folder)):
                    result = nodewise(verb[0], net, *verb[1:], "--input",
                                      f"data={path}")
                    self.assertEqual((result.code, result.err), (0, ""),
                                     result)
                    self.assertNotEqual(path.read_bytes(), data)


class OutputNames(WithNetwork):
    def test_are_different_in_every_way_to_run(self):
        net = LIBRARY.artefact(self.folder / "twice",
                               chain("copy").output(1), {})
        path = self.folder / "y.npz"
        for given in ([], ["--sanitize"], ["--isolate"]):
            with self.subTest(given=given):
                found = self.found(*given, "--output", path, net=net)
                names = [output["name"] for output in found["outputs"]]
                self.assertEqual(names, ["copy_0:0", "copy_0:0_2"])
                with zipfile.ZipFile(path) as archive:
                    self.assertEqual(archive.namelist(),
                                     [f"{name}.npy" for name in names])


class Refusals(WithNetwork):
    def test_options_that_do_not_go_together_are_refused(self):
        table = [
            (["--sanitize", "--isolate"], "found several ways to run"),
            (["--sanitize", "--sweep"], "found several ways to run"),
            (["--isolate", "--sweep"], "found several ways to run"),
            (["--isolate", "--until", "sum"], "found several ways to run"),
            (["--sweep", "--stop-on", "nan"], "found several ways to run"),
            (["--sanitize", "--patch", f"sum={self.inputs}"],
             "found several ways to run"),
            (["--time-limit-ms", "5"], "means nothing without --isolate"),
            (["--isolate", "--time-limit-ms", "0"], "--time-limit-ms"),
        ]
        for given, message in table:
            with self.subTest(given=given):
                self.assertIn(message, self.refused_run(*given))

    def test_options_that_would_do_nothing_are_refused(self):
        table = [
            (["--sanitize", "--repeat", "3"], "--repeat"),
            (["--until", "sum", "--repeat", "3"], "--repeat"),
            (["--sweep"], "--output"),  # refused_run() adds it.
        ]
        for given, message in table:
            with self.subTest(given=given):
                self.assertIn(message, self.refused_run(*given))

    def test_function_that_fails_is_named_with_its_node(self):
        net = self.chain("copy", "fail")
        for given in (["--until", "fail_1"], ["--stop-on", "nan"],
                      ["--sanitize"], ["--sweep"]):
            with self.subTest(given=given):
                result = nodewise("run", net, "--inputs", self.inputs, *given)
                self.assertEqual((result.code, result.out), (2, ""))
                self.assertIn("node 2 (fail_1): fail: this kernel always "
                              "fails", result.err)

    def test_inputs_are_needed_as_ever(self):
        for given in (["--until", "sum"], ["--sanitize"], ["--isolate"],
                      ["--sweep"]):
            with self.subTest(given=given):
                self.assertIn("input data: was not given",
                              self.refused("run", self.net, *given))


if __name__ == "__main__":
    unittest.main()
