"""nodewise repro and locate --anonymous: folders that strangers may have.

Every name in these networks has a word in it, and every number is an odd one,
so that a folder is searched for both: they may only be where it says so.
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest
import zipfile

import failing_repro_test as failing
import needy_repro_test as needy
import repro_test as wrong
from support import NODEWISE, Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, INT64, attribute, floats, ints,  # noqa: E402
                        message, onnx_graph, onnx_model, onnx_node, proto_tensor,
                        value_info)

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANTS = ROOT.parent / "shared/fixtures/tvm-0.14-mutants"
HAS_AVX2 = "avx2" in pathlib.Path("/proc/cpuinfo").read_text()
WORD = b"hushed"
WEIGHTS = [0.1 + i * 0.0137 for i in range(108)]
BIAS = [0.3712, -0.2194, 0.1178, 0.4421]


def packed(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


# What exporters note of a node, and what is said of a whole model.
NOTES = {"namespace": "hushed.Net/hushed.conv",
         "pkg.torch.onnx.stack_trace":
             'File "/srv/hushed/net.py", line 41, in forward\n'
             "    x = self.hushed_conv(x)\n"}
ABOUT_MODEL = message(
    (2, "hushed producer"), (3, "hushed version"), (4, "hushed.domain"),
    (6, "hushed words"),
    (14, [message((1, "hushed key"), (2, "hushed value"))]))


def convolutional_network():
    return onnx_model(onnx_graph(
        [onnx_node("Tanh", ["hushed_x"], ["hushed_t"], name="hushed/bend",
                   notes=NOTES),
         onnx_node("Conv", ["hushed_t", "hushed_w", "hushed_b"], ["hushed_c"],
                   attribute("pads", [1, 1, 1, 1]), name="hushed/conv",
                   notes=NOTES) + message((6, "hushed words")),
         onnx_node("Softmax", ["hushed_c"], ["hushed_y"], name="hushed/last")],
        [value_info("hushed_x", dims=(1, 3, 6, 6))], [value_info("hushed_y")],
        [proto_tensor("hushed_w", [4, 3, 3, 3], FLOAT, (9, packed(WEIGHTS))),
         floats("hushed_b", *BIAS)])) + ABOUT_MODEL


def contents(folder):
    """All bytes of a folder by path, those in archives unpacked."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        name = path.relative_to(folder).as_posix()
        found[name] = path.read_bytes()
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                for member in archive.namelist():
                    found[f"{name}/{member}"] = archive.read(member)
    return found


class Anonymous(Scratch):
    """Networks are built as the tests of other folders build them."""
    compile = wrong.Folders.compile
    emitted = wrong.Folders.emitted
    compiled = failing.FailingRepro.compiled
    converted = needy.NeedyRepro.converted
    armed = needy.NeedyRepro.armed
    changing = needy.NeedyRepro.changing

    def wrong_convolution(self):
        return self.emitted(convolutional_network(), "w2 * from[o + 2]",
                            "1.01f * w2 * from[o + 2]")

    def written(self, net, *options, status=1):
        """The one folder's entry in the document, and the folder, moved."""
        shown = nodewise("locate", net, "--random-inputs", "1", "--repro",
                         self.folder / "repros", "--anonymous", "--json",
                         *options)
        self.assertEqual(shown.code, status, shown)
        found = document(shown)
        self.assertEqual(len(found["repros"]), 1, found)
        moved = self.folder / "moved it"
        shutil.move(found["repros"][0]["folder"], moved)
        return found["repros"][0], moved

    def run_command(self, folder, status=1):
        about = json.loads((folder / "repro.json").read_text())
        child = subprocess.run(
            [NODEWISE, *about["command"].split()[1:]], cwd=folder, text=True,
            check=False, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=100)
        self.assertEqual(child.returncode, status, child)
        return about, child

    def leaks(self, folder, numbers=()):
        """Files but the library in which a name, a path or a number of the
        network is."""
        words = [WORD, str(self.folder).encode(),
                 *(struct.pack("<f", number) for number in numbers)]
        return sorted({name for name, data in contents(folder).items()
                       for word in words
                       if word in data and name != "lib.so"})

    def kept(self, repro, kind):
        return [part["name"] for part in repro["kept"] if part["kind"] == kind]


class Wrong(Anonymous):
    def test_no_name_and_no_weight_is_left(self):
        net = self.wrong_convolution()
        given = nodewise("locate", net, "--random-inputs", "1", "--repro",
                         self.folder / "named")
        self.assertEqual(given.code, 1, given)
        (named,) = (self.folder / "named").iterdir()
        # What is looked for is there otherwise.
        self.assertIn("graph.json", self.leaks(named))
        self.assertIn("params.params", self.leaks(named, WEIGHTS[:1]))
        repro, folder = self.written(net)
        self.assertEqual(pathlib.Path(repro["folder"]).name, "001_conv")
        self.assertEqual(self.leaks(folder, WEIGHTS + BIAS), [])
        about, child = self.run_command(folder)
        self.assertIn("culprit: conv, broken\n", child.stdout)
        self.assertEqual([i["drawn"] for i in about["inputs"]], [True] * 3)
        self.assertEqual([part["kind"] for part in repro["kept"]],
                         ["description", "library", "function"])
        self.assertEqual(about["kept"], repro["kept"])
        readme = (folder / "README.md").read_text()
        for part in repro["kept"]:
            self.assertIn(part["name"], readme)
            self.assertIn(part["why"], readme)

    def test_once_it_is_mended_the_command_accuses_no_node(self):
        net = self.wrong_convolution()
        _, folder = self.written(net)
        source = (net / "lib.c").read_text()
        (net / "lib.c").write_text(source.replace("1.01f * w2", "w2"))
        self.compile(net)
        shutil.copy(net / "lib.so", folder / "lib.so")
        self.run_command(folder, status=0)

    def test_drawn_weights_are_like_the_given_ones(self):
        _, folder = self.written(self.wrong_convolution())
        data = (folder / "params.params").read_bytes()
        at = data.index(struct.pack("<q", 108 * 4)) + 8
        drawn = struct.unpack("<108f", data[at:at + 108 * 4])
        self.assertGreater(min(drawn), 0.9 * min(WEIGHTS))
        self.assertLess(max(drawn), 1.1 * max(WEIGHTS))
        self.assertAlmostEqual(sum(drawn) / 108, sum(WEIGHTS) / 108, delta=0.2)
        self.assertGreater(len(set(drawn)), 100)

    def test_only_what_the_failure_needs_stays(self):
        # The fault is in a number of the bias: without it there is none.
        net = self.emitted(
            convolutional_network(), "w2 * from[o + 2]",
            f"(in2[3] == {BIAS[3]:.9g}f ? 1.01f : 1.f) * w2 * from[o + 2]")
        repro, folder = self.written(net)
        self.run_command(folder)
        self.assertEqual(self.kept(repro, "tensor"), ["input_B_conv"])
        self.assertEqual(self.leaks(folder, WEIGHTS), [])
        self.assertIn("params.params", self.leaks(folder, BIAS))
        (why,) = [p["why"] for p in repro["kept"] if p["kind"] == "tensor"]
        self.assertEqual(why, "its numbers are the network's: with drawn "
                              "numbers it does not show the same")
        shown = (folder / "README.md").read_text()
        self.assertIn(f"- tensor `input_B_conv`: {why}\n", shown)

    def test_what_is_listed_is_said(self):
        shown = nodewise("locate", self.wrong_convolution(), "--random-inputs",
                         "1", "--repro", self.folder / "out", "--anonymous")
        self.assertIn("001_conv of the network:\n", shown.out)
        self.assertIn("\n  library lib.so: compiled code cannot be replaced",
                      shown.out)


class Failing(Anonymous):
    def test_a_crash_stays_the_same_crash(self):
        repro, folder = self.written(self.compiled(failing.when_tanh_reads(
            "x > 0.25f", "raise(SIGFPE)")))
        self.assertEqual(self.kept(repro, "tensor"), [])
        about, child = self.run_command(folder)
        self.assertIn("culprit: tanh, crashes\n", child.stdout)
        self.assertEqual(about["failure_reason"], "crashed with SIGFPE")

    def test_what_needs_an_earlier_node_still_has_it(self):
        repro, folder = self.written(self.armed("raise(SIGFPE)"))
        about, child = self.run_command(folder)
        self.assertEqual(about["earlier_nodes"], ["tanh"])
        self.assertIn("makes softmax fail", child.stdout)
        self.assertEqual(self.kept(repro, "tensor"), [])
        self.assertNotIn(b"\"weights\"", contents(folder)["repro.json"])
        self.assertNotIn(b"bend", contents(folder)["README.md"])

    def test_what_a_function_leaves_changed_is_still_shown(self):
        for does, verdict in [("chdir(\"/\")", "side effect"),
                              ("fesetround(FE_UPWARD)", "changes floats")]:
            with self.subTest(does=does):
                repro, folder = self.written(self.changing(does))
                self.assertEqual(self.kept(repro, "tensor"), [])
                _, child = self.run_command(folder)
                self.assertIn(f"culprit: tanh, {verdict}\n", child.stdout)
                self.assertNotIn(b"/\"", contents(folder)["README.md"])
                shutil.rmtree(folder)
                shutil.rmtree(self.folder / "repros")
                shutil.rmtree(self.folder / "net")

    def with_tanh(self, statement):
        """A network whose tanh also does something for each element."""
        def spoil(code):
            self.assertIn("out0[i0] = x1;", code)
            includes = "#include <stdlib.h>\n#include <time.h>\n"
            at = code.index("nodewise_tanh_loops")
            return includes + code[:at] + code[at:].replace(
                "out0[i0] = x1;", f"out0[i0] = x1; {statement}", 1)
        return self.compiled(spoil)

    def test_what_runs_of_the_node_do_not_show_is_searched(self):
        for statement, verdict in [
                ("if (x0 > 0.25f) out0[6] = 1;", "overrun"),
                ("struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); "
                 "out0[i0] += (float)(t.tv_nsec % 1000);", "not deterministic")
        ]:
            with self.subTest(verdict=verdict):
                repro, folder = self.written(self.with_tanh(statement))
                _, child = self.run_command(folder)
                self.assertIn(f"culprit: tanh, {verdict}\n", child.stdout)
                self.assertEqual(self.kept(repro, "tensor"), [])
                for name in "README.md", "repro.json", "graph.json":
                    self.assertNotIn(b"bend", contents(folder)[name])
                for made in "moved it", "repros", "net":
                    shutil.rmtree(self.folder / made)

    def test_what_a_function_says_when_it_fails_is_left_out(self):
        repro, folder = self.written(self.with_tanh(
            'if (x0 > 0.25f) { __TVMAPISetLastError("hushed words"); '
            'return -1; }'))
        self.assertEqual(repro["failure"], "error")
        about, child = self.run_command(folder)
        self.assertIn("culprit: tanh, crashes\n", child.stdout)
        self.assertEqual(about["failure_reason"], "error")
        self.assertEqual(self.leaks(folder), [])

    def test_a_plan_fault_is_shown_by_the_same_nodes(self):
        repro, folder = self.written(self.converted(share=("bend", "weights")))
        self.assertEqual(self.kept(repro, "tensor"), [])
        about, child = self.run_command(folder)
        self.assertIn("culprit: softmax, plan fault\n", child.stdout)
        self.assertEqual((about["victim"], about["reader"]), ("tanh:0", "add"))
        self.assertEqual(pathlib.Path(repro["folder"]).name, "001_softmax")
        for word in b"bend", b"weights:", b"weights`", b"weights\"", b"last":
            self.assertNotIn(word, contents(folder)["README.md"])
            self.assertNotIn(word, contents(folder)["graph.json"])


def float_windows(source, data, size=64):
    """The parts of a file that are once in another: weights, most of them."""
    parts = [source[at:at + size] for at in range(0, len(source) - size, 4)]
    return [part for part in parts if data.count(part) == 1]


@unittest.skipUnless(MUTANTS.is_dir(), "no fixtures beside the project")
@unittest.skipUnless(HAS_AVX2, "the fixtures need AVX2")
class BesideAModel(Anonymous):
    def located(self, build):
        out = self.folder / build
        shown = nodewise("locate", MUTANTS / build / "factory.so",
                         "--reference", MUTANTS / "source.onnx", "--inputs",
                         MUTANTS / "inputs.npz", "--repro", out,
                         "--anonymous", "--json")
        self.assertEqual(shown.code, 1, shown)
        repro = document(shown)["repros"][0]
        return repro, pathlib.Path(repro["folder"])

    def test_what_tvm_compiled_is_still_the_culprit(self):
        for build, operator in [("mutant-pool-avg", "MaxPool"),
                                ("mutant-dw-transposed", "Conv"),
                                ("mutant-merge-swapped", "Concat")]:
            with self.subTest(build=build):
                repro, folder = self.located(build)
                self.assertTrue(repro["wrong"])
                _, child = self.run_command(folder)
                self.assertIn(f"({operator}) is wrong", child.stdout)

    def test_bytecode_has_no_weights_any_more(self):
        folder = MUTANTS.parent / "tvm-0.27-dynamic" / "dyn_batch"
        given = (folder / "vm.so").read_bytes()
        weights = float_windows((folder / "model.onnx").read_bytes(), given)
        self.assertGreater(len(weights), 10)
        given_x = self.write("x.pb", proto_tensor(
            "x", [2, 3, 16, 16], FLOAT, (9, packed([0.1] * 1536))))
        shown = nodewise("repro", folder / "vm.so", "--input", f"x={given_x}",
                         "--all-nodes", "-o", self.folder / "out",
                         "--anonymous")
        self.assertEqual(shown.code, 0, shown)
        self.assertIn("its bytecode says what the whole network computes",
                      shown.out)
        for name, data in contents(self.folder / "out").items():
            self.assertFalse([w for w in weights if w in data], name)

    def test_weights_that_both_sides_hold_are_drawn_for_both(self):
        repro, folder = self.located("mutant-ln-beta-missing")
        # The product's weights, which the library reads in blocks.
        self.assertEqual(self.kept(repro, "tensor"), [])
        _, child = self.run_command(folder)
        self.assertIn("(Add) is wrong: its numbers fit one change",
                      child.stdout)

    def test_the_network_that_the_library_is_a_factory_of_is_not_in_it(self):
        build = "mutant-dw-transposed"
        given = (MUTANTS / build / "factory.so").read_bytes()
        graph = given[given.index(b'{\n  "nodes"'):][:200]
        weights = float_windows((MUTANTS / "source.onnx").read_bytes(), given)
        self.assertGreater(len(weights), 10)
        repro, folder = self.located(build)
        files = contents(folder)
        self.assertNotIn(graph, files["lib.so"])
        for name, data in files.items():
            self.assertFalse([w for w in weights if w in data], name)
        (why,) = [p["why"] for p in repro["kept"] if p["kind"] == "library"]
        self.assertIn("of the factory in it the number, types and shapes", why)

    def test_weights_that_cannot_be_replaced_alike_stay(self):
        # They are the network's times 1.003.
        repro, _ = self.located("mutant-mlp2-scaled-0.3pct")
        whys = [part["why"] for part in repro["kept"]
                if part["kind"] == "tensor"]
        self.assertEqual(len(whys), 1)
        self.assertIn("both cannot be replaced alike", whys[0])


class Models(Anonymous):
    def anonymous(self, model, node):
        out = self.folder / "out"
        shown = nodewise("repro", self.write("hushed.onnx", model), "--node",
                         node, "--random-inputs", "1", "-o", out,
                         "--anonymous", "--json")
        self.assertEqual(shown.code, 0, shown)
        return document(shown)["repros"][0], out

    def test_a_sound_node_stays_sound(self):
        repro, folder = self.anonymous(convolutional_network(), "hushed/conv")
        self.assertEqual(repro["node"], "hushed/conv")
        self.assertEqual(self.leaks(folder, WEIGHTS + BIAS), [])
        self.assertEqual([part["kind"] for part in repro["kept"]],
                         ["description"])
        self.run_command(folder, status=0)

    def test_indices_stay_in_range_and_shapes_stay(self):
        model = onnx_model(onnx_graph(
            [onnx_node("Gather", ["hushed_x", "hushed_i"], ["hushed_g"],
                       name="hushed/pick"),
             onnx_node("Reshape", ["hushed_g", "hushed_s"], ["hushed_y"],
                       name="hushed/form")],
            [value_info("hushed_x", dims=(40, 6))], [value_info("hushed_y")],
            [ints("hushed_i", *(i * 11 % 40 for i in range(10))),
             ints("hushed_s", 6, 10)]))
        repro, folder = self.anonymous(model, "hushed/pick")
        self.assertEqual(self.kept(repro, "tensor"), [])
        self.assertEqual(self.leaks(folder), [])
        self.run_command(folder, status=0)

    def test_bodies_get_other_names_and_their_constants_are_listed(self):
        body = onnx_graph(
            [onnx_node("Add", ["hushed_in", "hushed_step"], ["hushed_out"],
                       name="hushed/step"),
             onnx_node("Identity", ["hushed_on"], ["hushed_go"],
                       name="hushed/go")],
            [value_info("hushed_n", INT64, dims=()),
             value_info("hushed_on", 9, dims=()),
             value_info("hushed_in", dims=(3,))],
            [value_info("hushed_go", 9, dims=()),
             value_info("hushed_out", dims=(3,))],
            [floats("hushed_step", 0.1234, 0.2345, 0.3456)])
        model = onnx_model(onnx_graph(
            [onnx_node("Loop", ["hushed_trips", "", "hushed_x"], ["hushed_y"],
                       attribute("body", body), name="hushed/loop")],
            [value_info("hushed_x", dims=(3,))],
            [value_info("hushed_y", dims=(3,))],
            [proto_tensor("hushed_trips", [], INT64,
                          (9, struct.pack("<q", 4)))]))
        repro, folder = self.anonymous(model, "hushed/loop")
        self.assertEqual(self.leaks(folder), [])
        self.assertEqual(len(self.kept(repro, "constant")), 1)

    def test_all_nodes_are_called_by_what_they_compute(self):
        out = self.folder / "all"
        shown = nodewise("repro", self.write("net.onnx",
                                             convolutional_network()),
                         "--all-nodes", "--random-inputs", "1", "-o", out,
                         "--anonymous")
        self.assertEqual(shown.code, 0, shown)
        self.assertEqual(sorted(p.name for p in out.iterdir()),
                         ["001_tanh", "002_conv", "003_softmax"])
        for folder in out.iterdir():
            self.assertEqual(self.leaks(folder, WEIGHTS + BIAS), [])

    def test_it_means_nothing_without_folders(self):
        error = self.refused("locate", self.write("net.onnx",
                                                  convolutional_network()),
                             "--random-inputs", "1", "--anonymous")
        self.assertIn("--anonymous: means nothing without --repro", error)


if __name__ == "__main__":
    unittest.main()
