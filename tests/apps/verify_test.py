"""nodewise verify, on artefacts made here and spoilt."""

import unittest

import support
from support import (BIAS, BUILD, DATA, Scratch, Tensor, add_bias_graph,
                     document, nodewise)

LIBRARIES = BUILD / "tests/libraries"
LIBRARY = support.Library()


class Verify(Scratch):
    def verify(self, tree=None, params=None):
        """The text and the document, which must agree."""
        net = LIBRARY.artefact(self.folder / "net", tree or add_bias_graph(),
                               {"bias": BIAS} if params is None else params)
        shown = nodewise("verify", net)
        asked = nodewise("verify", net, "--json")
        found = document(asked)
        self.assertEqual(shown.err + asked.err, "")
        self.assertEqual(shown.code, asked.code)
        errors, warnings = len(found["errors"]), len(found["warnings"])
        self.assertEqual(shown.code, 1 if errors else 0, shown)
        self.assertEqual(found["status"], "differs" if errors else "ok")
        lines = shown.out.splitlines()
        self.assertEqual(sum(x.startswith("error: ") for x in lines), errors)
        self.assertEqual(sum(x.startswith("warning: ") for x in lines),
                         warnings)
        return shown.out, found

    def test_sound_artefact_has_no_faults(self):
        text, found = self.verify()
        self.assertTrue(text.endswith(": 0 errors, 0 warnings\n"), text)
        self.assertEqual((found["errors"], found["warnings"]), ([], []))
        self.assertEqual(len(found["files"]), 3)

    def test_fault_in_the_graph_is_located(self):
        tree = add_bias_graph().tree()
        tree["nodes"][2]["inputs"][1] = [7, 0, 0]
        text, found = self.verify(tree)
        self.assertRegex(text, r"error: .*graph\.json:\d+:\d+: "
                               r"/nodes/2/inputs/1")
        self.assertEqual(found["status"], "differs")
        error, = found["errors"]
        place = error["place"]
        self.assertEqual(place["path"], "/nodes/2/inputs/1/0")
        self.assertEqual(error["where"],
                         "{file}:{line}:{column}: {path}".format(**place))

    def test_all_faults_come_in_one_pass(self):
        tree = add_bias_graph().tree()
        tree["nodes"][2]["inputs"][1] = [7, 0, 0]
        tree["heads"] = [[9, 0, 0]]
        self.assertGreaterEqual(len(self.verify(tree)[1]["errors"]), 2)

    def test_storage_that_is_shared_while_needed_is_a_fault(self):
        tree = add_bias_graph().tree()
        tree["attrs"]["storage_id"][1] = [0, 1, 1]
        text, found = self.verify(tree)
        self.assertTrue(found["errors"] or found["warnings"], text)

    def test_function_that_the_library_lacks_is_a_fault(self):
        # TV-07, OV-15
        tree = add_bias_graph().tree()
        tree["nodes"][2]["attrs"]["func_name"] = "add_bas"
        text, found = self.verify(tree)
        self.assertEqual(len(found["errors"]), 1, text)
        self.assertIn("add_bas", text)
        self.assertIn("did you mean add_bias?", text)

    def test_lie_about_a_count_keeps_nothing_else_from_being_checked(self):
        for count, wrong in (("num_inputs", "7"), ("num_outputs", "2")):
            with self.subTest(count):
                tree = add_bias_graph().tree()
                tree["nodes"][2]["attrs"][count] = wrong
                tree["nodes"][2]["attrs"]["func_name"] = "add_bas"
                text, found = self.verify(tree, {"bias": DATA})
                self.assertEqual(
                    [e["place"]["path"] for e in found["errors"]],
                    [f"/nodes/2/attrs/{count}", "/nodes/2/attrs/func_name",
                     "bias"], text)

    def test_count_that_cannot_be_read_is_one_error(self):
        for count in ("num_inputs", "num_outputs"):
            for wrong in ("many", None):
                with self.subTest(count=count, wrong=wrong):
                    tree = add_bias_graph().tree()
                    tree["nodes"][2]["attrs"][count] = wrong
                    if wrong is None:
                        del tree["nodes"][2]["attrs"][count]
                    text, found = self.verify(tree)
                    self.assertEqual(
                        [e["place"]["path"] for e in found["errors"]],
                        [f"/nodes/2/attrs/{count}"], text)

    def test_type_with_lanes_at_a_function_is_a_fault(self):
        tree = add_bias_graph().tree()
        tree["attrs"]["dltype"][1][-1] = "float32x4"
        error, = self.verify(tree)[1]["errors"]
        last = len(tree["attrs"]["dltype"][1]) - 1
        self.assertEqual(error["place"]["path"], f"/attrs/dltype/1/{last}")
        self.assertEqual(error["found"], "float32x4")

    def test_parameter_of_the_wrong_type_is_a_fault(self):
        for wrong in (DATA, Tensor("float64", (3,), (0, 0, 0))):
            with self.subTest(wrong=wrong):
                text, found = self.verify(params={"bias": wrong})
                self.assertEqual(len(found["errors"]), 1, text)
                self.assertIn("bias", text)

    def test_damage_in_the_params_is_taken_apart(self):
        params = self.folder / "bad.params"
        params.write_bytes(b"no tensors here")
        net = LIBRARY.artefact(self.folder / "net", add_bias_graph())
        found = document(nodewise("verify", net, "--params", params, "--json"))
        self.assertEqual(found["errors"], [{
            "where": f"{params}: byte 0",
            "found": "list magic is 6f736e6574206f6e",
            "expected": "f7e58d4f05049cb7",
            "hint": "is this a .params file?",
            "text": f"{params}: byte 0: list magic is 6f736e6574206f6e, "
                    "expected f7e58d4f05049cb7 (is this a .params file?)",
            "kind": "faulty-file", "severity": "error", "part": "file",
            "place": {"file": str(params), "path": "byte 0"},
            "numbers": {}}])

    def test_parameters_beside_a_factory_count_as_they_do_in_a_run(self):
        params = self.folder / "more.params"
        params.write_bytes(support.params_bytes({"p0": DATA}))
        target = [LIBRARIES / "factory.so", "--params", params]
        found = document(nodewise("verify", *target, "--json"))
        self.assertEqual(found["errors"][0]["where"], f"{params}: p0")
        shown = nodewise("run", *target, "--random-inputs", 1)
        self.assertEqual(shown.code, 2, shown)
        self.assertIn("more.params", shown.err)

    def test_unknown_parameter_is_said(self):
        text, found = self.verify(params={"bias": BIAS, "extra": BIAS})
        self.assertIn("extra", text)
        self.assertEqual(found["warnings"][0]["severity"], "warning")

    def test_graph_without_outputs_is_a_warning(self):
        tree = add_bias_graph().tree()
        tree["heads"] = []
        text, found = self.verify(tree)
        self.assertEqual(found["errors"], [])
        self.assertEqual([w["place"]["path"] for w in found["warnings"]],
                         ["/heads"], text)
        self.assertIn("no outputs", text)

    def test_node_that_nothing_reads_is_a_warning(self):
        tree = add_bias_graph().tree()
        tree["heads"] = [[0, 0, 0]]
        text, found = self.verify(tree)
        self.assertEqual(found["errors"], [])
        self.assertEqual(found["warnings"][0]["place"]["path"], "/nodes/2")
        self.assertIn("whose outputs nothing reads", text)

    # OV-14.
    def test_device_that_this_build_lacks_is_an_error_once(self):
        tree = add_bias_graph().tree()
        entries = len(tree["attrs"]["storage_id"][1])
        tree["attrs"]["device_index"] = ["list_int", [4] * entries]
        text, found = self.verify(tree)
        error, = found["errors"]
        self.assertEqual(error["place"]["path"], "/attrs/device_index/1/0")
        self.assertEqual(error["found"], f"{entries} entries on opencl")
        self.assertIn("--target opencl", error["hint"])
        net = self.folder / "net"
        self.assertEqual(nodewise("run", net, "--random-inputs", 1).code, 2)
        there = nodewise("verify", net, "--target", "opencl")
        self.assertEqual(there.code, 0, there)
        other = nodewise("verify", net, "--target", "cuda")
        self.assertEqual(other.code, 1, other)
        self.assertIn("one of the devices of the target", other.out)

    def test_entry_on_another_device_than_its_storage_has_one_place(self):
        tree = add_bias_graph().tree()
        entries = len(tree["attrs"]["storage_id"][1])
        tree["attrs"]["storage_id"] = ["list_int", [0] * entries]
        tree["attrs"]["device_index"] = ["list_int", [1] * (entries - 1) + [2]]
        _, found = self.verify(tree)
        error, = [e for e in found["errors"] if "storage 0 for" in e["found"]]
        place = error["place"]
        self.assertEqual(place["file"], str(self.folder / "net/graph.json"))
        self.assertEqual(place["path"], f"/attrs/storage_id/1/{entries - 1}")
        self.assertGreater(place["line"], 1)
        self.assertEqual(error["where"],
                         "{file}:{line}:{column}: {path}".format(**place))

    def test_target_that_is_not_a_device_is_refused(self):
        net = LIBRARY.artefact(self.folder / "net", add_bias_graph())
        for wrong in ("reference", "4"):
            error = str(self.refused("verify", net, "--target", wrong))
            self.assertIn("--target", error)
            self.assertRegex(error, "expected one of: cpu, cuda, .*opencl")

    def test_files_that_cannot_be_read_get_no_verdict(self):
        net = LIBRARY.artefact(self.folder / "net", add_bias_graph())
        empty = self.folder / "empty"
        empty.mkdir()
        for arguments in ([self.folder / "no"], [empty],
                          [net, "--params", self.folder / "no.params"],
                          [net, "--lib", self.folder]):
            with self.subTest(arguments=arguments):
                self.refused("verify", *arguments)


if __name__ == "__main__":
    unittest.main()
