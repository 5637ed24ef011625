"""nodewise locate --repro: failures that no node shows by itself.

A node that fails because of what functions before it have left in variables of
the library, and a node that writes over what another one still reads.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

from support import NODEWISE, Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (floats, onnx_graph, onnx_model, onnx_node,  # noqa: E402
                        value_info)


def network():
    """y = a + softmax(relu(a + b)), where a = tanh(x)."""
    return onnx_model(onnx_graph(
        [onnx_node("Tanh", ["x"], ["a"], name="bend"),
         onnx_node("Add", ["a", "b"], ["s"], name="sum"),
         onnx_node("Relu", ["s"], ["r"], name="cut"),
         onnx_node("Softmax", ["r"], ["w"], name="weights"),
         onnx_node("Add", ["a", "w"], ["y"], name="last")],
        [value_info("x", dims=(3, 2))], [value_info("y"), value_info("a")],
        [floats("b", 1.0, -1.0)]))


# The exponential function of the softmax fails once a tanh has run.
ARMED = """#include <math.h>
#include <signal.h>
static int armed;
static double arming_tanh(double x) { armed = 1; return (tanh)(x); }
static double armed_exp(double x) { if (armed) { FAILURE; } return (exp)(x); }
"""


class NeedyRepro(Scratch):
    def converted(self, spoil=lambda code: code, share=None):
        """A compiled network; two nodes may share memory that they must not."""
        if shutil.which("cc") is None:
            self.skipTest("no C compiler (cc)")
        model = self.write("net.onnx", network())
        folder = self.folder / "net"
        made = nodewise("convert", model, "--no-fuse", "--emit", "c", "-o",
                        folder)
        self.assertEqual(made.code, 0, made)
        source = folder / "lib.c"
        source.write_text(spoil(source.read_text()))
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "lib.c", "-o",
                        "lib.so", "-lm"], cwd=folder, check=True, timeout=100)
        if share is not None:
            path = folder / "graph.json"
            tree = json.loads(path.read_text())
            entries = {node["name"]: tree["node_row_ptr"][i]
                       for i, node in enumerate(tree["nodes"])}
            ids = tree["attrs"]["storage_id"][1]
            # No other two entries share memory.
            ids[:] = range(len(ids))
            ids[entries[share[1]]] = ids[entries[share[0]]]
            path.write_text(json.dumps(tree))
        return folder

    def armed(self, failure):
        def spoil(code):
            code = re.sub(r"\btanhf?\(", "arming_tanh(", code)
            code = re.sub(r"\bexpf?\(", "armed_exp(", code)
            self.assertIn("armed_exp(", code)
            return ARMED.replace("FAILURE", failure) + code
        return self.converted(spoil)

    def changing(self, does):
        """A network whose tanh leaves something changed."""
        def spoil(code):
            return ("#include <fenv.h>\n#include <math.h>\n"
                    "#include <unistd.h>\nstatic double changing_tanh(double "
                    f"x) {{ (void)!{does}; return (tanh)(x); }}\n" +
                    re.sub(r"\btanhf?\(", "changing_tanh(", code))
        return self.converted(spoil)

    def written(self, net, *options):
        """The one folder's entry in the document, and the folder, moved."""
        shown = nodewise("locate", net, "--random-inputs", "1", "--repro",
                         self.folder / "repros", "--json", *options)
        self.assertEqual(shown.code, 1, shown)
        found = document(shown)
        self.assertEqual(len(found["repros"]), 1, found)
        moved = self.folder / "moved it"
        shutil.move(found["repros"][0]["folder"], moved)
        shutil.rmtree(net)
        return found["repros"][0], moved

    def run_command(self, folder):
        about = json.loads((folder / "repro.json").read_text())
        words = about["command"].split()
        return about, subprocess.run(
            [NODEWISE, *words[1:]], cwd=folder, text=True, check=False,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=100)

    def names(self, folder):
        tree = json.loads((folder / "graph.json").read_text())
        return [node["name"] for node in tree["nodes"]
                if node["op"] != "null"]

    def test_what_makes_a_later_function_fail_is_shown_with_that(self):
        repro, folder = self.written(self.armed("raise(SIGFPE)"))
        self.assertEqual((repro["node"], repro["fails_alone"],
                          repro["earlier_nodes"]),
                         ("weights", True, ["bend"]))
        # Only what is needed is there: neither `sum` nor `cut`.
        self.assertEqual(self.names(folder), ["bend", "weights"])
        about, child = self.run_command(folder)
        self.assertEqual(child.returncode, 1, child)
        self.assertIn("culprit: bend, side effect\n", child.stdout)
        self.assertIn("makes weights fail", child.stdout)
        self.assertEqual(about["earlier_nodes"], ["bend"])
        text = (folder / "README.md").read_text()
        self.assertIn("bend makes weights fail", text)
        self.assertIn("Alone it does not fail", text)

    def test_what_makes_a_later_function_wrong_is_shown_with_that(self):
        repro, folder = self.written(self.armed("x = x / 2"))
        self.assertEqual((repro["node"], repro["wrong"],
                          repro["earlier_nodes"]),
                         ("weights", True, ["bend"]))
        _, child = self.run_command(folder)
        self.assertEqual(child.returncode, 1, child)
        self.assertIn("culprit: bend, side effect\n", child.stdout)
        self.assertIn("makes weights compute something else", child.stdout)

    def test_what_a_function_leaves_changed_is_shown_by_it_alone(self):
        for does, verdict in [("chdir(\"/\")", "side effect"),
                              ("fesetround(FE_UPWARD)", "changes floats")]:
            with self.subTest(does=does):
                repro, folder = self.written(self.changing(does))
                self.assertEqual(repro["node"], "bend")
                self.assertEqual(self.names(folder), ["bend"])
                _, child = self.run_command(folder)
                self.assertEqual(child.returncode, 1, child)
                self.assertIn(f"culprit: bend, {verdict}\n", child.stdout)
                self.assertNotIn("Alone it was right",
                                 (folder / "README.md").read_text())
                shutil.rmtree(folder)
                shutil.rmtree(self.folder / "repros")

    def test_where_no_nodes_bring_the_failure_back_the_folder_says_so(self):
        # Six elements a run: the fourth run fails, and each try is one.
        repro, folder = self.written(self.armed(
            "static int calls; if (++calls > 18) raise(SIGFPE)"))
        self.assertEqual((repro["node"], repro["fails_alone"]),
                         ("weights", False))
        self.assertNotIn("earlier_nodes", repro)
        self.assertEqual(self.names(folder), ["weights"])
        self.assertIn("Alone it came to its end when this was written",
                      (folder / "README.md").read_text())

    def test_a_plan_fault_is_shown_by_the_three_nodes_it_needs(self):
        repro, folder = self.written(self.converted(share=("bend", "weights")))
        self.assertEqual((repro["node"], repro["judged"]), ("weights", True))
        self.assertEqual(self.names(folder), ["bend", "weights", "last"])
        about, child = self.run_command(folder)
        self.assertEqual(child.returncode, 1, child)
        self.assertIn("culprit: weights, plan fault\n", child.stdout)
        self.assertIn("writes over bend", child.stdout)
        self.assertEqual((about["victim"], about["reader"]),
                         ("bend:0", "last"))
        self.assertTrue((folder / "main.cc").exists())
        # With places of their own the failure is gone.
        tree = json.loads((folder / "graph.json").read_text())
        ids = tree["attrs"]["storage_id"][1]
        self.assertEqual(len(set(ids)), len(ids) - 1)
        ids[:] = range(len(ids))
        (folder / "graph.json").write_text(json.dumps(tree))
        _, child = self.run_command(folder)
        self.assertEqual(child.returncode, 0, child)

    def test_an_output_that_is_written_over_is_the_callers(self):
        repro, folder = self.written(self.converted(share=("bend", "last")))
        self.assertEqual(repro["node"], "last")
        self.assertEqual(self.names(folder), ["bend", "last"])
        about, child = self.run_command(folder)
        self.assertEqual(about["reader"], "the caller")
        self.assertEqual(child.returncode, 1, child)
        self.assertIn("culprit: last, plan fault\n", child.stdout)
