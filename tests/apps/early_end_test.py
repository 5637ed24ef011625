"""What the command says when something ends it before its report, and that it
is otherwise the process that it seems to be."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import debug_support
import support
from debug_support import DebugLibrary, chain
from support import (DATA, NODEWISE, Graph, Scratch, document, nodewise,
                     npy_bytes)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (onnx_graph, onnx_model, onnx_node,  # noqa: E402
                        value_info)

KERNELS = r"""
#include <pthread.h>
#include <signal.h>

KERNEL(low_exit) { _exit(0); }
KERNEL(fast_exit) { quick_exit(0); }
KERNEL(raw_exit) { return (int)syscall(SYS_exit_group, 0); }
KERNEL(end_thread) { pthread_exit(NULL); }
KERNEL(become_true) {
  char* const arguments[] = {(char*)"true", NULL};
  return execv("/bin/true", arguments);
}
KERNEL(kill_self) { return kill(getpid(), SIGKILL); }
KERNEL(divide) {
  volatile int one = 1, zero = 0;
  return one / zero;
}
KERNEL(give_up) { abort(); }

KERNEL(twice) {
  copy_floats(args);
  fork();
  return 0;
}

static void* write_for_ever(void* data) {
  while (1) ++*(volatile float*)data;
  return NULL;
}
/* Leaves a thread behind that writes to memory which is given back. */
KERNEL(leave_thread) {
  pthread_t thread;
  copy_floats(args);
  pthread_create(&thread, NULL, &write_for_ever, tensor(args, 1)->data);
  pthread_detach(thread);
  return 0;
}
"""


class EndingLibrary(DebugLibrary):
    SOURCE = support.KERNELS + debug_support.KERNELS + KERNELS


LIBRARY = EndingLibrary()


class Chains(Scratch):
    def arguments(self, *functions):
        net = LIBRARY.artefact(self.folder / "chain", chain(*functions), {})
        data = self.folder / "data.npy"
        data.write_bytes(npy_bytes(DATA))
        return [net, "--input", f"data={data}"]


class EarlyEnd(Chains):
    def run_chain(self, verb, *functions, options=()):
        return nodewise(verb, *self.arguments(*functions), *options)

    def test_is_a_failure_and_names_the_node_in_every_verb(self):
        root = self.folder / "dump"
        for verb, options in (("run", []), ("run", ["--sanitize"]),
                              ("run", ["--sweep"]), ("run", ["--until", "#2"]),
                              ("profile", []), ("dump", ["--dump-root", root])):
            with self.subTest(verb=verb, options=options):
                result = self.run_chain(verb, "copy", "raw_exit",
                                        options=options)
                self.assertEqual((result.code, result.out), (2, ""))
                self.assertIn(
                    "nodewise: node 2 (raw_exit_1): ended the process with "
                    "exit status 0 (each node in a process of its own: "
                    "nodewise run --isolate ", result.err)

    def test_is_told_for_each_way_in_which_a_function_ends_it(self):
        for function, says in (
                ("low_exit", "ended the process with exit status 0"),
                ("fast_exit", "ended the process with exit status 0"),
                ("quit", "ended the process with exit status 0"),
                ("leave", "ended the process with exit status 3"),
                ("become_true", "ended the process with exit status 0"),
                ("crash", "crashed with SIGSEGV at address 0x40"),
                ("divide", "crashed with SIGFPE"),
                ("give_up", "crashed with SIGABRT"),
                ("kill_self", "crashed with SIGKILL"),
                ("end_thread", "")):
            with self.subTest(function=function):
                result = self.run_chain("run", "copy", function)
                self.assertEqual((result.code, result.out), (2, ""))
                self.assertIn(f"nodewise: node 2 ({function}_1): {says}",
                              result.err)

    def test_is_an_error_of_the_document(self):
        result = self.run_chain("run", "copy", "low_exit", options=["--json"])
        self.assertEqual((result.code, result.err), (2, ""))
        found = document(result)
        self.assertEqual(found["status"], "error")
        error, = found["errors"]
        self.assertEqual(error["where"], "node 2 (low_exit_1)")
        self.assertIn("nodewise run --isolate ", error["hint"])

    def test_the_command_has_no_option_that_means_something_else_there(self):
        # `locate --reference` takes a value, `run --reference` does not.
        model = self.write("model.onnx", onnx_model(onnx_graph(
            [onnx_node("Relu", ["data"], ["a"], name="a"),
             onnx_node("Neg", ["a"], ["b"], name="b")],
            [value_info("data", dims=(2, 3))], [value_info("b")])))
        result = self.run_chain("locate", "copy", "raw_exit",
                                options=["--reference", model])
        command = re.search(r"nodewise run --isolate [^)]*",
                            result.err).group(0)
        self.assertNotIn("--reference", command)
        self.assertNotIn("model.onnx", command)

    def test_comes_with_a_command_that_names_the_node(self):
        result = self.run_chain("profile", "copy", "low_exit",
                                options=["--csv", "--threads", "1"])
        command = re.search(r"nodewise run --isolate [^)]*",
                            result.err).group(0)
        self.assertNotIn("--csv", command)
        path = {**os.environ, "PATH": f"{NODEWISE.parent}:/usr/bin:/bin"}
        shown = subprocess.run(command, shell=True, env=path, check=False,
                               capture_output=True, timeout=60)
        self.assertEqual(shown.returncode, 1, shown)
        self.assertIn(b"node 2 (low_exit_1): ended the process",
                      shown.stdout)

    def test_of_a_library_that_is_loaded_names_the_library(self):
        net = LIBRARY.artefact(self.folder / "net", chain("copy"), {})
        source = self.folder / "bad.c"
        source.write_text("#include <unistd.h>\n"
                          "__attribute__((constructor)) void go(void)"
                          " { _exit(0); }\nint copy(void) { return 0; }\n")
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o",
                        net / "lib.so"], check=True, timeout=100)
        result = nodewise("run", net, "--random-inputs", "1")
        self.assertEqual((result.code, result.out), (2, ""))
        self.assertIn(f"nodewise: loading {net}/lib.so: ended the process",
                      result.err)

    def test_is_not_one_where_a_function_returns_twice(self):
        result = self.run_chain("run", "copy", "twice")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.out.count("ran in"), 1)

    def test_is_not_one_where_a_thread_was_left_behind(self):
        shape = (1 << 20,)
        for function in "leave_thread", "copy":
            graph = Graph()
            data = graph.input("data", "float32", shape)
            graph.output(graph.call(function, [data], "float32", shape))
            net = LIBRARY.artefact(self.folder / function, graph, {})
            for options in [], ["--sanitize"]:
                with self.subTest(function=function, options=options):
                    result = nodewise("run", net, "--random-inputs", "1",
                                      *options)
                    self.assertIn("output", result.out, result)
                    self.assertLess(result.code, 2, result)
        self.assertEqual(nodewise("run", self.folder / "copy",
                                  "--random-inputs", "1").err, "")


def state_of(process):
    """"R", "S", "T", "Z", or "" if it is gone."""
    try:
        text = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(") ")[2][0]


def child_of(process):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            found.append(int(path.parent.name))
    return found


def as_in_a_shell():
    """Below nohup some signals are ignored, and what belongs to no session
    with a shell cannot be stopped by SIGTSTP."""
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)


class FromOutside(Chains):
    def started(self, function="hang"):
        """A command that runs the function, and its two processes."""
        child = subprocess.Popen([NODEWISE, "run", *self.arguments(function)],
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE,
                                 preexec_fn=as_in_a_shell)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        maps = None
        for _ in range(3000):
            workers = child_of(child.pid)
            if workers:
                maps = pathlib.Path(f"/proc/{workers[0]}/maps").read_text()
                if "lib.so" in maps:
                    break
            time.sleep(0.01)
        self.assertIn("lib.so", maps)
        return child, workers[0]

    def wait_for(self, is_so):
        for _ in range(3000):
            if is_so():
                return
            time.sleep(0.01)
        self.fail("it never was so")

    def test_a_signal_ends_it_as_any_process(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            with self.subTest(number=number):
                child, worker = self.started()
                child.send_signal(number)
                _, said = child.communicate(timeout=60)
                self.assertEqual((child.returncode, said), (-number, b""))
                self.wait_for(lambda: state_of(worker) == "")

    def test_nothing_remains_of_what_is_killed(self):
        child, worker = self.started()
        child.kill()
        child.wait(timeout=60)
        self.wait_for(lambda: state_of(worker) == "")

    def test_it_stops_and_goes_on_as_one(self):
        child, worker = self.started()
        child.send_signal(signal.SIGTSTP)
        self.wait_for(lambda: state_of(worker) == "T" and
                      state_of(child.pid) == "T")
        child.send_signal(signal.SIGCONT)
        self.wait_for(lambda: state_of(worker) not in "T" and
                      state_of(child.pid) not in "T")

    def test_ignored_signals_stay_ignored(self):
        child = subprocess.run(
            ["sh", "-c", 'trap "" INT; "$@"; echo "status $?"', "sh", NODEWISE,
             "run", *self.arguments("copy")], check=True, timeout=60,
            capture_output=True)
        self.assertIn(b"status 0", child.stdout)


if __name__ == "__main__":
    unittest.main()
