"""What is left in the file system when a run is ended, or cannot use it."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
import unittest

from support import HAS_LAB, NODEWISE, Scratch, needs_lab, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (floats, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, value_info)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def model():
    return onnx_model(onnx_graph(
        [onnx_node("Mul", ["x", "c"], ["m"], name="times"),
         onnx_node("Relu", ["m"], ["y"], name="last")],
        [value_info("x", dims=(3,))], [value_info("y", dims=(3,))],
        [floats("c", 1, 2, 3)]))


class WithTemporary(Scratch):
    """A test with a model, and a folder for temporary files."""

    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", model())
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()

    def left(self):
        return sorted(str(path.relative_to(self.temporary))
                      for path in self.temporary.rglob("*"))


class LeftBehind(WithTemporary):
    def end(self, number, arguments, is_there, whole_group=False, **env):
        """Sends a signal once `is_there()`; how the command ended."""
        with subprocess.Popen(
                [NODEWISE, *map(str, arguments)], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,
                # Some are ignored below nohup.
                preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
                env={**os.environ, "TMPDIR": str(self.temporary), **env}
        ) as child:
            try:
                limit = time.monotonic() + 50
                while not is_there() and child.poll() is None:
                    self.assertLess(time.monotonic(), limit)
                    time.sleep(0.01)
                self.assertIsNone(child.poll(), "it ended before the signal")
                if whole_group:
                    os.killpg(child.pid, number)
                else:
                    child.send_signal(number)
                return child.wait(timeout=30)
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)

    def sleeper(self):
        """A TARGET that writes into its folder, and never ends."""
        started = self.folder / "started"
        script = self.write("sleeper.py", textwrap.dedent(f"""
            import json, pathlib, sys, time
            request = json.load(open(sys.argv[-1]))
            folder = pathlib.Path(request["output_folder"])
            (folder / "deep").mkdir()
            (folder / "deep/file").write_text("x")
            pathlib.Path({str(started)!r}).write_text("x")
            number = 0
            while True:
                number += 1
                (folder / "deep" / str(number % 1000)).write_text("x")
            """).encode())
        return f"exec:'{sys.executable}' -I {script}", started

    def test_folders_of_other_programs_are_removed_on_signals(self):
        for number in SIGNALS:
            for whole_group in (False, True):
                with self.subTest(number=number, whole_group=whole_group):
                    target, started = self.sleeper()
                    started.unlink(missing_ok=True)
                    code = self.end(number,
                                    ["run", target, "--model", self.model,
                                     "--random-inputs", "1"],
                                    started.exists, whole_group)
                    self.assertNotEqual(code, 0)
                    self.assertEqual(self.left(), [])

    @needs_lab
    def test_folders_of_random_tests_are_removed_on_signals(self):
        code = self.end(signal.SIGTERM,
                        ["autotest", "--op", "Relu", "--candidate", "c",
                         "--runs", "1000000", "--seed", "1"], self.left)
        self.assertNotEqual(code, 0)
        # The files of a compiler that was killed are its own.
        self.assertEqual([path for path in self.left() if "nodewise" in path],
                         [])

    def test_dump_in_a_temporary_folder_is_removed_and_a_named_one_stays(self):
        arguments = ["dump", self.model, "--random-inputs", "1", "--runs",
                     "1000000", "--no-table"]
        code = self.end(signal.SIGTERM, arguments, self.left)
        self.assertNotEqual(code, 0)
        whole = [path for path in self.left() if path.endswith("trace.json")]
        self.assertEqual({path.split("/")[0] for path in self.left()},
                         {path.split("/")[0] for path in whole})
        root = self.folder / "root"
        self.end(signal.SIGTERM, [*arguments, "--dump-root", root],
                 root.exists)
        self.assertTrue(root.exists())


class OddTemporaryFolders(WithTemporary):
    def run_with(self, tmpdir, *arguments):
        env = dict(os.environ)
        env.pop("TMPDIR", None)
        if tmpdir is not None:
            env["TMPDIR"] = tmpdir
        done = subprocess.run([NODEWISE, *map(str, arguments)], env=env,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=60, check=False)
        return done.returncode, done.stderr.decode(errors="replace")

    def test_no_verb_is_stopped_otherwise_than_by_an_error(self):
        odd = self.temporary / "a 'b' $(c) \"d\"\n\u202e"
        odd.mkdir()
        good = [None, "", str(odd)]
        bad = ["/no/such/folder", str(self.model), "/dev/null", "n" * 5000,
               "/" + "n/" * 3000]
        target = f"exec:'{sys.executable}' -I {self.folder}/absent.py"
        for arguments in (
                *([["autotest", "--op", "Relu", "--candidate", "c", "--runs",
                    "16", "--seed", "1"]] if HAS_LAB else []),
                ["dump", self.model, "--random-inputs", "1", "--no-table"],
                ["run", target, "--model", self.model, "--random-inputs",
                 "1"]):
            fails_anyway = arguments[0] == "run"
            for tmpdir in good:
                with self.subTest(verb=arguments[0], tmpdir=tmpdir):
                    code, err = self.run_with(tmpdir, *arguments)
                    self.assertEqual(code, 2 if fails_anyway else 0, err)
                    self.assertNotIn("TMPDIR", err)
            for tmpdir in bad:
                with self.subTest(verb=arguments[0], tmpdir=tmpdir[:40]):
                    code, err = self.run_with(tmpdir, *arguments)
                    self.assertEqual(code, 2, err)
                    self.assertIn("TMPDIR", err)


@needs_lab
class CompilerOfTheMachine(Scratch):
    ARGUMENTS = ["autotest", "--op", "Relu", "--op", "Neg", "--candidate", "c",
                 "--runs", "64", "--seed", "1"]

    def with_compiler(self, command):
        env = {**os.environ, "CC": str(command)}
        done = subprocess.run([NODEWISE, *self.ARGUMENTS], env=env, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              check=False)
        return done.returncode, done.stderr.decode(errors="replace")

    def test_compiler_that_is_not_one_is_not_a_finding(self):
        for command in ("/no/such/cc", "false", "true", "cc -no-such-option",
                        "cc 'quote", "/dev/null"):
            with self.subTest(command=command):
                code, err = self.with_compiler(command)
                self.assertEqual(code, 2, err)

    def test_compiler_that_breaks_in_the_middle_is_not_a_finding(self):
        script = self.write("cc.sh", (
            "#!/bin/sh\n"
            f"[ -e {self.folder}/used ] && exit 1\n"
            "case \"$*\" in *-O2*) : > " f"{self.folder}/used; exit 1;; esac\n"
            "exec cc \"$@\"\n").encode())
        script.chmod(0o755)
        code, err = self.with_compiler(script)
        self.assertEqual(code, 2, err)
        self.assertIn("the C compiler does not work here", err)

    def test_compiler_may_have_arguments(self):
        code, err = self.with_compiler("cc  -O1 '-DTWO WORDS'")
        self.assertEqual(code, 0, err)


class Converted(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", model())
        self.out = self.folder / "out"

    def test_link_in_the_folder_is_not_written_through(self):
        victim = self.write("victim", b"keep me")
        for name in ("graph.json", "params.params"):
            with self.subTest(name=name):
                self.out.mkdir(exist_ok=True)
                link = self.out / name
                link.unlink(missing_ok=True)
                link.symlink_to(victim)
                result = nodewise("convert", self.model, "-o", self.out)
                self.assertEqual(result.code, 2)
                self.assertIn("is a link", result.err)
                self.assertEqual(victim.read_bytes(), b"keep me")
                link.unlink()

    def test_pipe_in_the_folder_is_not_waited_for(self):
        self.out.mkdir()
        os.mkfifo(self.out / "graph.json")
        self.assertEqual(
            nodewise("convert", self.model, "-o", self.out).code, 2)

    def test_what_another_process_left_stops_nothing(self):
        self.out.mkdir()
        left = self.out / "graph.json.123_0.part"
        left.write_text("half")
        result = nodewise("convert", self.model, "-o", self.out)
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(left.read_text(), "half")
        self.assertEqual(
            nodewise("run", self.out, "--random-inputs", "1").code, 0)

    def test_files_of_others_still_stop_it(self):
        self.out.mkdir()
        (self.out / "notes.part").write_text("mine")
        result = nodewise("convert", self.model, "-o", self.out)
        self.assertEqual(result.code, 2)
        self.assertIn("notes.part", result.err)


if __name__ == "__main__":
    unittest.main()
