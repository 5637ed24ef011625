"""Runs the tests that mutants must make fail, with each and without any."""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import mutant_build
import mutants

# `./dev test --full` tries those whose number leaves no remainder.
SAMPLE = 8
BINARIES = ("nodewise_tests", "nodewise_ops_tests", "nodewise_onednn_tests")
# A mutant that makes a test go on for ever is noticed, too.
SHORTEST_LIMIT_S = 60
TIMES_AS_LONG = 10

# How a test went: `state` is passed, failed, skipped or not run.
Outcome = collections.namedtuple("Outcome", "state text seconds")

GTEST_STATE = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+?),?(?: .*)?$",
                         re.M)


def chosen_mutants(found, text, is_sample):
    return [mutant for mutant in found
            if (text in mutant.name or text in mutant.test
                or text in mutant.source)
            and not (is_sample and mutants.number_of(mutant.name) % SAMPLE)]


class TestRunner:
    """Runs single tests of a build folder. `env` is the environment."""

    def __init__(self, build, env):
        self.build = build
        self.env = {**env, "NODEWISE_BUILD": str(build)}
        self.env.pop("NODEWISE_MUTANT", None)
        self.binaries = {}  # By suite and test.
        for name in BINARIES:
            self.note_tests(build / "bin" / name)

    def note_tests(self, binary):
        listed = subprocess.run([binary, "--gtest_list_tests"], check=True,
                                env=self.env, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True)
        parts = []
        for line in listed.stdout.splitlines():
            word = line.split()[0]
            if line.startswith("  "):
                for part in parts:
                    self.binaries[part, word.split("/")[0]] = binary
            else:
                # Prefix/Suite. of parameters, Suite/0. of types.
                parts = word.rstrip(".").split("/")

    def run(self, test, mutant="", limit_s=600.0):
        path, name = test.split("::")
        run = self.run_gtest if path.endswith(".cc") else self.run_python
        env = {**self.env, "NODEWISE_MUTANT": mutant} if mutant else self.env
        with tempfile.TemporaryDirectory() as folder:
            env = {**env, "TMPDIR": folder, "TEST_TMPDIR": folder}
            started = time.monotonic()
            state, text = run(path, name, env, limit_s, pathlib.Path(folder))
        return Outcome(state, text, time.monotonic() - started)

    def run_gtest(self, path, name, env, limit_s, folder):
        suite, test = name.split(".")
        if (suite, test) not in self.binaries:
            return "not run", f"{path} is in no binary, or not built"
        forms = (name, f"*/{name}/*", f"{name}/*", f"{suite}/*.{test}",
                 f"*/{name}")
        code, output = ended(
            [self.binaries[suite, test], "--gtest_color=no",
             f"--gtest_filter={':'.join(forms)}"], env, limit_s, folder)
        states = collections.Counter(
            state for state, _ in GTEST_STATE.findall(output))
        if code != 0 and "[ RUN      ]" in output:
            return "failed", output
        if states["SKIPPED"] or not states["OK"]:
            return "skipped" if states["SKIPPED"] else "not run", output
        return "passed", output

    def run_python(self, path, name, env, limit_s, folder):
        events = folder / "events.jsonl"
        code, output = ended(
            [sys.executable,
             mutants.ROOT / "tests/support/run_unittest_file.py", path, events,
             f"{path}:{name}"], env, limit_s, folder)
        lines = events.read_text().splitlines() if events.exists() else []
        own = [event for event in map(json.loads, lines)
               if event["name"] == name]
        if not own:
            return "not run", output
        state = own[-1]["state"]
        # One that was started and never ended has ended its process.
        return ("failed" if state == "started" else state,
                own[-1]["text"] or f"ended with {code}\n{output}")


def ended(command, env, limit_s, folder):
    """(how it ended, what it printed) of a command, and ends what it left."""
    with open(folder / "output.txt", "wb") as log:
        child = subprocess.Popen(
            [str(part) for part in command], cwd=mutants.ROOT, env=env,
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True)
        try:
            code = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = f"its end after {limit_s:.0f} s"
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
    return code, (folder / "output.txt").read_text(errors="replace")


def last_lines(text):
    return "\n".join(text.strip().splitlines()[-12:])


def verdict_of(mutant, plain, mutated):
    """(state, text) of a mutant, by how its test went without and with it."""
    if plain.state != "passed":
        return "failed", (f"{mutant.test} should pass without it: "
                          f"{plain.state}\n{last_lines(plain.text)}")
    if mutated.state == "failed":
        return "passed", ""
    return "failed", (
        f"SURVIVES: {mutant.change} ({mutant.breaks})\n"
        f"{mutant.function} of {mutant.source}\n"
        f"{mutant.test} {mutated.state} all the same: write a test that fails")


def try_mutants(found, build, env, text="", is_sample=False):
    """[(name, state, text)] of each mutant that is chosen."""
    chosen = chosen_mutants(found, text, is_sample)
    changes, errors = mutants.changes_by_source(found)
    names = {mutant.name for mutant in chosen}
    results = {mutant.name: ("failed", why)
               for mutant, why in errors if mutant.name in names}
    left = [mutant for mutant in chosen if mutant.name not in results]
    if left:
        made = mutant_build.MutantBuild(build, changes)
        broken = made.make(sorted({mutant.source for mutant in left}))
        results.update((name, ("failed", f"does not compile: {why}"))
                       for name, why in broken.items() if name in names)
        left = [mutant for mutant in left if mutant.name not in results]
        results.update(run_all(left, TestRunner(made.folder, env)))
    return [(mutant.name, *results[mutant.name]) for mutant in chosen]


def run_all(chosen, runner):
    """{name: (state, text)}; each test runs once without any mutant."""
    tests = sorted({mutant.test for mutant in chosen})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        plain = dict(zip(tests, pool.map(runner.run, tests)))

        def try_one(mutant):
            without = plain[mutant.test]
            if without.state != "passed":
                return verdict_of(mutant, without, without)
            limit_s = max(SHORTEST_LIMIT_S, TIMES_AS_LONG * without.seconds)
            return verdict_of(mutant, without, runner.run(
                mutant.test, mutant.name, limit_s))
        return dict(zip([mutant.name for mutant in chosen],
                        pool.map(try_one, chosen)))
