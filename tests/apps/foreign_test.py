"""Models that another program runs: the protocol, and answers that are wrong.

The programs are small Python scripts without packages.
"""

import pathlib
import struct
import sys
import textwrap
import unittest

from support import Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (INT64, attribute, floats,  # noqa: E402
                        onnx_graph, onnx_model, onnx_node, value_info)

# y = relu(x * c + d), by the names of the values alone.
RUNTIME = """
    import json, struct, sys

    request = json.load(open(sys.argv[-1]))
    answer = {"version": 1, "runtime": "fake 1.0", "outputs": [],
              "durations_ns": [5] * request["repeats"]}

    def read(item):
        data = open(item["file"], "rb").read()
        return struct.unpack(f"<{len(data) // 4}f", data)

    given = {item["name"]: read(item) for item in request["inputs"]}
    asked = request["outputs"]
    values = dict(given)

    def make(name, source, items):
        if name not in values and source in values:
            values[name] = items(values[source])

    make("m", "x", lambda x: [a * b for a, b in zip(x, (1, 2, 3))])
    make("a", "m", lambda m: [a + b for a, b in zip(m, (10, 10, -10))])
    make("y", "a", lambda v: [max(a, 0) for a in v])

    def write(number, name):
        file = f"{number}.bin"
        with open(f"{request['output_folder']}/{file}", "wb") as out:
            out.write(struct.pack("<3f", *values[name]))
        return {"name": name, "dtype": "float32", "shape": [3], "file": file}

    answer["outputs"] = [write(i, name) for i, name in enumerate(asked)]
    # HERE
    json.dump(answer, open(request["answer"], "w"))
"""


def model():
    return onnx_model(onnx_graph(
        [onnx_node("Mul", ["x", "c"], ["m"], name="times"),
         onnx_node("Add", ["m", "d"], ["a"], name="plus"),
         onnx_node("Relu", ["a"], ["y"], name="last")],
        [value_info("x", dims=(3,))], [value_info("y", dims=(3,))],
        [floats("c", 1, 2, 3), floats("d", 10, 10, -10)]))


class Foreign(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", model())

    def command(self, more="", change=lambda code: code):
        """A TARGET: the runtime with more code before it answers."""
        code = textwrap.dedent(RUNTIME).replace(
            "# HERE", textwrap.dedent(more))
        script = self.write("runtime.py", change(code).encode())
        return f"exec:'{sys.executable}' -I {script}"

    def asked(self, verb, target, *options):
        return nodewise(verb, target, "--model", self.model, "--random-inputs",
                        "1", *options)

    def refusal(self, target, *options):
        """The one error of a run that must exit with 2."""
        shown = self.asked("run", target, *options)
        self.assertEqual((shown.code, shown.out), (2, ""), shown)
        return shown.err


class RunTest(Foreign):
    def test_a_run_shows_what_the_program_has_made(self):
        x = self.folder / "x.npy"
        header = str({"descr": "<f4", "fortran_order": False,
                      "shape": (3,)}).ljust(117) + "\n"
        x.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
                      + header.encode() + struct.pack("<3f", 1, -6, 4))
        target = self.command()
        shown = nodewise("run", target, "--model", self.model, "--input",
                         f"x={x}")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn(f"{target}: 3 operations, 1 output\n", shown.out)
        self.assertIn("  values 11 0 2\n", shown.out)
        self.assertIn("ran in 0.000 ms\n", shown.out)

    def test_the_model_is_handed_over_as_it_is(self):
        target = self.command(f"""
            assert request["model"] == {str(self.model)!r}, request["model"]
            assert asked == ["y"], asked
            """)
        self.assertEqual(self.asked("run", target).code, 0)

    def test_the_program_repeats_its_run(self):
        target = self.command("assert request['repeats'] == 7")
        found = document(self.asked("run", target, "--repeat", "7", "--json"))
        self.assertEqual(found["time"]["runs"], 7)

    def test_the_folder_is_private_and_gone_afterwards(self):
        target = self.command(f"""
            import os
            folder = os.path.dirname(sys.argv[-1])
            assert os.stat(folder).st_mode & 0o777 == 0o700
            open({str(self.folder / "where")!r}, "w").write(folder)
            """)
        self.assertEqual(self.asked("run", target).code, 0)
        folder = pathlib.Path((self.folder / "where").read_text())
        self.assertTrue(folder.is_absolute())
        self.assertFalse(folder.exists())

    def test_no_shell_sees_the_command(self):
        target = self.command("assert '$HOME;' in sys.argv") + " '$HOME;' `x`"
        self.assertEqual(self.asked("run", target).code, 0)

    def test_bad_use_names_what_is_expected(self):
        target = self.command()
        for options, expected in (
                (["--until", "last"], "--until: means nothing for exec:"),
                (["--backend", "onednn"], "--backend: means nothing for exec:"),
                (["--ort-level", "all"], "--ort-level: means nothing for exec"),
                (["--sweep"], "--sweep: means nothing for exec:"),
                (["--threads", "2"], "--threads: means nothing for exec:")):
            with self.subTest(options=options):
                self.assertIn(expected, self.refusal(target, *options))
        self.assertIn("has no model, expected --model FILE", self.refused(
            "run", target, "--random-inputs", "1"))
        self.assertIn("--model: means nothing for", self.refused(
            "run", self.model, "--model", self.model, "--random-inputs", "1"))
        self.assertIn("ends within quotes", self.refusal("exec:'x"))
        self.assertIn("is run by another program", self.refused(
            "repro", target, "--node", "x", "-o", self.folder / "r",
            "--random-inputs", "1"))
        self.assertIn("--at-once: means nothing for", self.refused(
            "dump", self.model, "--at-once", "1", "--random-inputs", "1"))
        self.assertIn("--ort-level: found \"most\", expected disabled, basic",
                      self.refused("run", f"ort:{self.model}", "--ort-level",
                                   "most", "--random-inputs", "1"))


class HostileTest(Foreign):
    def test_what_ends_badly_is_quoted(self):
        for code, expected in (
                ("sys.exit('no such thing')",
                 "ended with status 1, expected 0; the last that it printed: "
                 "no such thing"),
                ("import os; os.kill(os.getpid(), 11)", "ended by SIGSEGV"),
                ("sys.exit(0)", "answer.json: was not written"),
                ("while True: print('x' * 10000)", "printed more than "),
                ("out = open(request['output_folder'] + '/big', 'wb')\n"
                 "while True: out.write(bytes(1 << 20))", "wrote "),
                ("for i in range(10000): "
                 "open(f\"{request['output_folder']}/{i}x\", 'w')",
                 "wrote more than 65 files")):
            with self.subTest(code=code):
                self.assertIn(expected, self.refusal(self.command(code)))

    def test_a_program_that_hangs_is_stopped_with_all_it_started(self):
        target = self.command(f"""
            import os, subprocess, time
            child = subprocess.Popen(["sleep", "100"])
            open({str(self.folder / "pid")!r}, "w").write(str(child.pid))
            time.sleep(100)
            """)
        shown = self.asked("run", target, "--foreign-limit", "1")
        self.assertEqual(shown.code, 2, shown)
        self.assertIn("had not ended after 1000 ms and was stopped", shown.err)
        pid = (self.folder / "pid").read_text()
        status = pathlib.Path(f"/proc/{pid}/stat")
        state = status.read_text().split()[2] if status.exists() else "gone"
        self.assertIn(state, ("gone", "Z", "X"))

    def test_an_answer_that_does_not_fit_is_located(self):
        first = "answer['outputs'][0]"
        table = [
            ("answer = []", "answer.json: is not a JSON object"),
            ("answer['version'] = 2", "answer.json:/version: expected 1"),
            ("answer['outputs'] = []", "/outputs: has 0 tensors, expected 1"),
            ("answer['outputs'] *= 1000", "/outputs: has 1,000 tensors"),
            ("answer['outputs'] = 'x'", "/outputs: is not a list"),
            ("answer['outputs'] = [7]", "/outputs/0: is not an object"),
            (f"{first}['name'] = 'z'", "/outputs/0/name: found \"z\", "
             "expected \"y\""),
            (f"{first}['name'] = 3", "/outputs/0/name: is not a string"),
            (f"{first}['dtype'] = 'float99'", "/outputs/0/dtype: "),
            (f"{first}['dtype'] = 'int32'",
             "output y is int32[3], expected float32[3]"),
            (f"{first}['shape'] = [4]",
             "y is float32[4], expected float32[3]"),
            (f"{first}['shape'] = [-3]", "/shape: side 0 is not a size"),
            (f"{first}['shape'] = [2.5]", "/shape: side 0 is not a size"),
            (f"{first}['shape'] = [1 << 62] * 64", "/outputs/0/shape: "),
            (f"{first}['shape'] = [1] * 65",
             "is not a list of at most 64 sizes"),
            (f"{first}['shape'] = {{}}", "/outputs/0/shape: is not a list"),
            (f"{first}['file'] = '../request.json'", "/file: found \"../"),
            (f"{first}['file'] = '/etc/passwd'", "/file: found \"/etc"),
            (f"{first}['file'] = '.'", "/file: found \".\""),
            (f"{first}['file'] = ''", "/file: found \"\""),
            (f"{first}['file'] = 'none.bin'", "none.bin: cannot open: No such"),
            (f"del {first}['file']", "/outputs/0/file: found \"\""),
            (f"{first} = {{'name': 'y', 'absent': 'folded'}}",
             "has not handed out output y"),
            ("answer['durations_ns'] = [-1]",
             "/durations_ns: is not a list of 1 duration"),
            ("answer['durations_ns'] = 1",
             "/durations_ns: is not a list of 1 duration"),
            ("answer['runtime'] = []", "/runtime: is not a string"),
        ]
        for code, expected in table:
            with self.subTest(code=code):
                self.assertIn(expected, self.refusal(self.command(code)))

    def test_garbled_json_is_refused(self):
        for text, expected in (
                ("", "is not a JSON object"),
                ("{", "is not a JSON object"),
                ("\\x00\\xff", "is not a JSON object"),
                ("[" * 60000, "is nested too deeply"),
                ('{"version": 1, "outputs": ' + "[" * 50, "nested too deeply"),
                (" " * 200000, "answer.json: has 200000 bytes, expected")):
            with self.subTest(text=text[:30]):
                self.assertIn(expected, self.refusal(self.command(
                    f'open(request["answer"], "w").write("""{text}""")\n'
                    "sys.exit(0)")))

    def test_only_regular_files_of_the_right_size_are_read(self):
        path = "request['output_folder'] + '/0.bin'"
        for code, expected in (
                (f"open({path}, 'ab').write(b'x')",
                 "0.bin: has 13 bytes, expected 12 for float32 (3,)"),
                (f"open({path}, 'w')", "0.bin: has 0 bytes, expected 12"),
                (f"os.remove({path}); os.symlink('/etc/hostname', {path})",
                 "0.bin: is a link, expected a regular file"),
                (f"os.remove({path}); os.mkfifo({path})",
                 "0.bin: is not a regular file"),
                (f"os.remove({path}); os.mkdir({path})",
                 "0.bin: is not a regular file"),
                ("os.symlink('/etc/hostname', request['answer']); sys.exit(0)",
                 "answer.json: is a link, expected a regular file"),
                ("os.mkfifo(request['answer']); sys.exit(0)",
                 "answer.json: is not a regular file")):
            with self.subTest(code=code):
                self.assertIn(expected, self.refusal(
                    self.command("import os\n" + code)))

    def test_a_folder_cannot_be_put_in_the_place_of_the_outputs(self):
        other = self.folder / "other"
        other.mkdir()
        (other / "0.bin").write_bytes(bytes(12))
        target = self.command(f"""
            import os, shutil
            shutil.rmtree(request["output_folder"])
            os.symlink({str(other)!r}, request["output_folder"])
            """)
        self.assertIn("0.bin: cannot open: No such file", self.refusal(target))


class DumpTest(Foreign):
    def test_a_dump_holds_every_value_and_can_be_compared(self):
        dumped = self.asked("dump", self.command(), "--dump-root",
                            self.folder / "d")
        self.assertEqual((dumped.code, dumped.err), (0, ""), dumped)
        self.assertIn("6 tensors, 72 bytes\n", dumped.out)
        self.assertIn("outputs: equal to those of a run that was not looked "
                      "into\n", dumped.out)
        compared = nodewise("compare", self.folder / "d", self.folder / "d")
        self.assertEqual(compared.code, 0, compared)
        shown = nodewise("inspect", self.folder / "d")
        self.assertIn("plus____topo-index:4____output-num:0", shown.out)

    def test_values_can_be_asked_for_a_few_at_a_time(self):
        target = self.command("assert len(asked) <= 2, asked")
        shown = self.asked("dump", target, "--dump-root", self.folder / "d")
        self.assertIn("AssertionError", shown.err)
        shown = self.asked("dump", target, "--dump-root", self.folder / "d",
                           "--at-once", "1")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn("6 tensors, 72 bytes\n", shown.out)

    def test_what_is_not_handed_out_is_left_out(self):
        target = self.command("""
            for i, item in enumerate(answer["outputs"]):
                if item["name"] == "m":
                    answer["outputs"][i] = {"name": "m", "absent": "folded"}
            """)
        dumped = self.asked("dump", target, "--dump-root", self.folder / "d")
        self.assertEqual(dumped.code, 0, dumped)
        self.assertIn("does not hand out m", dumped.err)
        self.assertIn("5 tensors, 60 bytes\n", dumped.out)

    def test_outputs_that_change_when_looked_at_are_a_difference(self):
        target = self.command(change=lambda code: code.replace(
            'max(a, 0)', 'max(a, 0) + ("m" in asked)'))
        dumped = self.asked("dump", target, "--dump-root", self.folder / "d")
        self.assertEqual(dumped.code, 1, dumped)
        self.assertIn("outputs: 1 of 1 output differ from those of a run that "
                      "was not looked into\n  y: 3 of 3 elements beyond",
                      dumped.out)


class LocateTest(Foreign):
    def located(self, change, *options):
        return self.asked("locate", self.command(change=change), *options)

    def test_a_sound_runtime_accuses_no_node(self):
        shown = self.located(lambda code: code)
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn("no culprit\n", shown.out)
        self.assertIn("3 function nodes: 3 healthy\n", shown.out)

    def test_the_operation_that_is_wrong_is_named(self):
        shown = self.located(lambda code: code.replace("a + b", "a - b"))
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn("culprit: plus, broken\n  operations  plus\n", shown.out)
        self.assertIn("explains    100.0 % of the error", shown.out)

    def test_the_runs_of_the_program_are_counted(self):
        log = self.folder / "starts"

        def change(code):
            return code.replace("a + b", "a - b") + (
                f"open({str(log)!r}, 'a').write('started\\n')\n")
        runs = document(self.located(change, "--json"))["program_runs"]
        kinds = [runs[kind] for kind in ("as_read", "observed", "changed")]
        self.assertEqual(sum(kinds), log.read_text().count("started"), runs)
        self.assertGreater(min(kinds), 0, runs)
        self.assertGreater(runs["seconds"], 0)
        self.assertLess(runs["seconds"], runs["of_seconds"])

    def test_what_deviates_too_little_to_matter_is_a_remark(self):
        def change(code):
            return code.replace("a + b", "(a + b) * 1.00002")
        shown = self.located(change)
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn("no culprit\n", shown.out)
        self.assertRegex(shown.out, r"remark: 1 Add deviates by up to \S+ of "
                         r"its size, too little to matter \(--strict")
        strict = self.located(change, "--strict")
        self.assertEqual(strict.code, 1, strict)
        self.assertIn("culprit: plus, broken\n", strict.out)

    def test_a_runtime_that_fails_when_asked_for_a_value_is_asked_for_less(
            self):
        def change(code):
            return code.replace("a + b", "a - b").replace(
                "asked = request", "'m' in request['outputs'] and "
                "sys.exit('m cannot be had')\nasked = request")
        shown = self.located(change)
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("culprit: plus, broken\n  operations  times, plus\n",
                      shown.out)
        self.assertIn("the runtime fails when it is asked for all values "
                      "inside: ", shown.err)
        self.assertIn("m cannot be had", shown.err)

    def test_shorter_models_are_run_where_only_outputs_are_handed_out(
            self):
        hidden = ("if len(asked) > 1:\n"
                  "    for each in answer['outputs'][:-1]:\n"
                  "        each.clear()\n"
                  "    for name, each in zip(asked[:-1], answer['outputs']):\n"
                  "        each.update(name=name, absent='only outputs')\n")
        failing = ("if len(asked) > 1:\n"
                   "    sys.exit('only outputs can be had')\n")
        for name, more in (("hidden", hidden), ("failing", failing)):
            with self.subTest(name):
                shown = self.asked("locate", self.command(
                    more, lambda code: code.replace("a + b", "a - b")))
                self.assertEqual(shown.code, 1, shown)
                self.assertIn("culprit: plus, broken\n  operations  plus\n",
                              shown.out)
                self.assertIn("the runtime hands out nothing but outputs, so ",
                              shown.err)

    def test_sides_of_one_more_or_less_are_not_a_difference(self):
        for shape in ("[1, 3]", "[3, 1, 1]"):
            with self.subTest(shape=shape):
                shown = self.located(lambda code: code.replace(
                    "[3]", shape))  # pylint: disable=cell-var-from-loop
                self.assertEqual((shown.code, shown.err), (0, ""), shown)
                self.assertIn("3 function nodes: 3 healthy\n", shown.out)

    def test_whole_numbers_of_another_type_are_not_a_difference(self):
        self.write("net.onnx", onnx_model(onnx_graph(
            [onnx_node("Mul", ["x", "c"], ["m"], name="times"),
             onnx_node("Add", ["m", "d"], ["a"], name="plus"),
             onnx_node("Cast", ["a"], ["z"], attribute("to", INT64),
                       name="whole")],
            [value_info("x", dims=(3,))], [value_info("z", INT64, (3,))],
            [floats("c", 1, 2, 3), floats("d", 10, 10, -10)])))
        whole = ("values['z'] = tuple(int(a) for a in values['a'])\n"
                 "for i, name in enumerate(asked):\n"
                 "    if name == 'z':\n"
                 "        with open(f\"{request['output_folder']}/{i}.bin\", "
                 "'wb') as out:\n"
                 "            out.write(struct.pack('<3i', *values['z']))\n"
                 "        answer['outputs'].insert(i, dict(name='z', "
                 "dtype='int32', shape=[3], file=f'{i}.bin'))\n")
        shown = self.asked("locate", self.command(whole, lambda code: (
            code.replace("enumerate(asked)]",
                         "enumerate(asked) if name != 'z']"))))
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn("3 function nodes: 3 healthy\n", shown.out)

    def test_a_value_of_another_shape_is_absent_with_the_reason(self):
        shown = self.located(lambda code: code.replace(
            '"shape": [3]', '"shape": [4] if name == "m" else [3]'))
        self.assertEqual(shown.code, 0, shown)
        self.assertIn("1 value: the runtime does not hand out m (m is "
                      "float32[4], expected float32[3])", shown.err)

    def test_the_first_sentence_is_the_answer(self):
        shown = self.located(lambda code: code.replace("a + b", "a - b"))
        self.assertEqual(
            " ".join(shown.out.split("\n\n")[0].split()).split(" (found")[0],
            "plus (Add) is wrong: its numbers fit one change: Sub instead of "
            "Add")
        found = document(self.located(lambda code: code, "--json"))
        self.assertEqual(found["said"],
                         "No operation is to blame: all are right on what they "
                         "read, and the outputs are equal to the reference's.")

    def test_only_as_many_culprits_are_shown_as_are_asked_for(self):
        def change(code):
            return code.replace("a + b", "a - b").replace("a * b", "a - b")
        self.assertEqual(self.located(change).out.count("culprit:"), 2)
        shown = self.located(change, "--top", "1").out
        self.assertEqual(shown.count("culprit:"), 1)
        self.assertIn("and 1 more culprit (--top shows more)\n", shown)

    def test_a_fault_that_vanishes_when_observed_is_bracketed(self):
        shown = self.located(lambda code: code.replace(
            "a + b", 'a + b + ("m" not in asked and "m" not in given)'))
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("culprit: plus, broken\n  operations  times, plus\n",
                      shown.out)
        self.assertIn("vanishes when observed: most of the error of y is gone "
                      "when m is handed out", shown.err)

    def test_the_runtime_is_handed_the_file_with_more_outputs(self):
        shown = self.asked("locate", self.command(f"""
            model = open(request["model"], "rb").read()
            assert model.startswith(open({str(self.model)!r}, "rb").read())
        """))
        self.assertEqual(shown.code, 0, shown)
        self.assertIn("looking inside: the outputs are those of the file",
                      shown.out)

    def test_how_much_looking_inside_changes_the_outputs_is_said(self):
        def change(code):
            return code.replace("a + b", 'a + b + 1e-5 * ("m" in asked)')
        self.assertIn("looking inside changes output y by ",
                      self.located(change).out)
        found = document(self.located(change, "--json"))
        self.assertGreater(found["change_when_observed"], 0)

    def test_the_document_says_what_was_not_observed(self):
        shown = self.located(lambda code: code.replace(
            "a + b", 'a + b + ("m" not in asked and "m" not in given)'),
                             "--json")
        found = document(shown)
        self.assertEqual(found["unobserved"], ["m"])
        self.assertTrue(found["vanishes_when_observed"])
        self.assertEqual(found["culprits"][0]["source_nodes"],
                         ["times", "plus"])

    def test_a_referee_says_whom_it_agrees_with(self):
        code = textwrap.dedent(RUNTIME)
        sound = self.write("sound.py", code.encode())
        wrong = self.write("wrong.py", code.replace("a + b", "a - b").encode())
        for script, expected in ((sound, "agrees with the reference"),
                                 (wrong, "agrees with the candidate")):
            referee = f"exec:{sys.executable} -I {script}"
            with self.subTest(expected=expected):
                shown = self.located(lambda code: code.replace("a + b",
                                                               "a - b"),
                                     "--referee", referee)
                self.assertEqual(shown.code, 1, shown)
                self.assertIn(f"referee: plus: {referee} {expected} (",
                              shown.out)
        shown = self.located(lambda code: code.replace("a + b", "a - b"),
                             "--referee", "exec:false")
        self.assertIn("could not be asked: false: ended with status 1",
                      shown.out)

    def test_a_runtime_that_is_not_deterministic_is_said_to_be(self):
        shown = self.located(lambda code: code.replace(
            "a + b", "a + b + 1e-6 * (__import__('time').time_ns() % 999983)"))
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("culprit: plus, not deterministic\n", shown.out)


if __name__ == "__main__":
    unittest.main()
