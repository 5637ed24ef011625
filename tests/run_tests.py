#!/usr/bin/python3
"""Runs every test that has been built; `./dev test` builds first.

The last line is `N passed, N failed`, followed by `, N skipped` if any were.
Exits with 1 if a test failed or none ran. A test that runs in two suites (as
it is and under a sanitizer) counts twice; one that is skipped counts once for
each reason.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
# pylint: disable=wrong-import-position
import mutant_build  # noqa: E402
import mutant_runs  # noqa: E402
import mutants  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SHOWN_LINES = 80

# It asks which node is slow: other suites at the same time would change that.
HOWTO = ROOT / "tests/apps/howto_test.py"

# Suites that run when no other does. Mutants are built where the others run.
ALONE = ("howto", "mutants")

# One test: `state` is passed, failed or skipped; `text` is the output of one
# that failed and the reason of one that was skipped.
Result = collections.namedtuple("Result", "name state text")

# The tests of a GoogleTest binary whose number, divided by `count`, leaves
# `index`.
Shard = collections.namedtuple("Shard", "binary index count")

# How a child process ended: `code` is None if it ran past its time.
Ended = collections.namedtuple("Ended", "code output")

SANITIZERS = {
    # Allocations may fail, as they may without the sanitizer. clang 14's search
    # for leaks reads what libraries that are closed had in thread-local memory.
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:"
                    "allocator_may_return_null=1:intercept_tls_get_addr=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    # Ends at the first report, so that it has the name of a test.
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def suite_table(full):
    """Rows of suite, how a part of it is run, and its parts; one that turns
    out to have no part fails."""
    asan = (["nodewise_tests", "nodewise_onednn_tests"]
            + ["nodewise_ops_tests"] * full)
    return [
        ("unit", run_gtest, shards("bin", ["nodewise_tests",
                                           "nodewise_ops_tests",
                                           "nodewise_onednn_tests"])),
        ("asan", run_sanitized, shards("sanitize/bin", asan)
         + files("tests/python/random_calls_test.py")),
        ("tsan", run_gtest, shards("tsan/bin", ["nodewise_thread_tests"])),
        ("onednn3", run_peer_gtest,
         shards("bin", ["nodewise_onednn3_tests"])),
        ("apps", run_python, [path for path in files("tests/apps/*_test.py")
                              if path != HOWTO]),
        ("onnx", run_python, files("tests/onnx/*_test.py")),
        ("python", run_in_venv, files("tests/python/*_test.py")),
        ("style", run_python, files("tests/style/*_test.py")),
        ("install", run_python, files("tests/install/*_test.py")),
        ("minimal", run_python, files("tests/minimal/*_test.py")),
        ("fuzz", run_fuzz, files("build/sanitize/bin/*_fuzz")),
        ("tvm", run_python, files("tests/tvm/*_test.py")),
        ("hosts", run_python, files("tests/hosts/*_test.py")),
        ("howto", run_python, [HOWTO]),
        ("mutants", run_mutants, [BUILD]),
    ]


def files(pattern):
    return sorted(ROOT.glob(pattern))


def shards(folder, names):
    """Each binary as several parts with some of its tests each."""
    count = min(os.cpu_count(), 8)
    return [Shard(BUILD / folder / name, index, count)
            for name in names for index in range(count)]


# --- child processes --------------------------------------------------------


def environment(options):
    env = {k: v for k, v in os.environ.items() if not k.startswith("GTEST_")}
    env.update(SANITIZERS)
    env["NODEWISE_BUILD"] = str(BUILD)
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env.pop("NODEWISE_TEST_FULL", None)
    if options.full:
        env["NODEWISE_TEST_FULL"] = "1"
    return env


def run_child(command, options, scratch, extra=None):
    """Runs `command` with no stdin, ending it and all it started in time."""
    log_path = scratch / "output.txt"
    with open(log_path, "wb") as log:
        child = subprocess.Popen(
            [str(part) for part in command], cwd=ROOT, stdout=log,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env={**environment(options), **(extra or {})},
            start_new_session=True)
        try:
            code = child.wait(options.limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(child)
    return Ended(code, log_path.read_text(errors="replace"))


def end_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def fixed_addresses():
    """The sanitizers of older compilers fail on kernels that spread addresses
    widely; containers may forbid asking for less."""
    prefix = ["setarch", "-R"]
    if shutil.which("setarch") and not subprocess.run(
            prefix + ["true"], stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, check=False).returncode:
        return prefix
    return []


def how_it_ended(ended, options):
    if ended.code is None:
        return f"was ended after {options.limit} s"
    if ended.code < 0:
        return f"died of {signal.Signals(-ended.code).name}"
    return f"exited with {ended.code}"


def shorten(text):
    """The beginning and the end of an output, where the cause may stand."""
    lines = text.strip().splitlines()
    if len(lines) > 2 * SHOWN_LINES:
        left_out = len(lines) - 2 * SHOWN_LINES
        lines[SHOWN_LINES:-SHOWN_LINES] = [f"... {left_out} lines ..."]
    return "\n".join(lines)


# --- GoogleTest -------------------------------------------------------------

# The marks may follow what a test printed without a newline.
GTEST_MARK = re.compile(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] (\S+?),?(?: .*)?$")
GTEST_SKIP = re.compile(r"^\S+:\d+: Skipped\n(.*)", re.MULTILINE | re.DOTALL)
GTEST_STATES = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}


def run_gtest(shard, options):
    binary = shard.binary
    if not binary.exists():
        return [not_built(binary)]
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [*fixed_addresses(), binary, "--gtest_color=no",
                   f"--gtest_output=json:{report}"]
        if options.filter:
            command.append(f"--gtest_filter=*{options.filter}*")
        # Several run at once, and a test's files are named after the test.
        files = pathlib.Path(folder) / "files"
        files.mkdir()
        ended = run_child(command, options, pathlib.Path(folder),
                          {"GTEST_TOTAL_SHARDS": str(shard.count),
                           "GTEST_SHARD_INDEX": str(shard.index),
                           "TEST_TMPDIR": str(files), "TMPDIR": str(files)})
        printed, running = read_gtest_output(ended.output)
        if report.exists():
            results = read_gtest_report(report, printed)
        else:
            results = [r for r in printed.values() if r.name != running]
    return results + gtest_end(binary, results, running, ended, options)


def run_peer_gtest(shard, options):
    """A binary that is built where a package from PyPI could be had."""
    if shard.binary.exists():
        return run_gtest(shard, options)
    return [Result(shard.binary.name, "skipped",
                   "its package could not be installed")]


def gtest_end(binary, results, running, ended, options):
    """A failure for a binary that did not end as its tests say."""
    all_passed = not any(r.state == "failed" for r in results)
    if ended.code == 0 and not running:
        if results or options.filter:
            return []
        return [Result(binary.name, "failed", "has no tests")]
    how = f"{binary.relative_to(ROOT)} {how_it_ended(ended, options)}"
    if running:
        output = ended.output.rpartition(f" ] {running}\n")[2]
        return [Result(running, "failed", f"{how}; the tests after this one "
                       f"did not run\n{shorten(output)}")]
    if ended.code is None or all_passed:
        return [Result(f"{binary.name} (outside of its tests)", "failed",
                       f"{how}\n{shorten(ended.output)}")]
    return []


def read_gtest_output(output):
    """What each test printed, and the name of one that never ended."""
    results, running, lines = {}, None, []
    for line in output.splitlines():
        mark = GTEST_MARK.search(line)
        if running is None:
            if mark and mark.group(1) == "RUN":
                running, lines = mark.group(2), []
        elif (mark and mark.group(2) == running
              and mark.group(1) in GTEST_STATES):
            lines.append(line[:mark.start()])
            state = GTEST_STATES[mark.group(1)]
            text = "\n".join(lines).strip()
            results[running] = gtest_result(running, state, text)
            running = None
        else:
            lines.append(line)
    return results, running


def gtest_result(name, state, text):
    if state == "skipped":
        reason = GTEST_SKIP.search(text)
        text = " ".join((reason.group(1) if reason else text).split())
    return Result(name, state, text)


def read_gtest_report(report, printed):
    """The report says what passed; only the output says why one was skipped
    (as of GoogleTest 1.14)."""
    results = []
    for suite in json.loads(report.read_text(errors="replace"))["testsuites"]:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            text = printed[name].text if name in printed else ""
            results.append(read_gtest_test(name, test, text))
    return results


def read_gtest_test(name, test, text):
    if test.get("failures"):
        failures = "\n".join(f["failure"] for f in test["failures"])
        return Result(name, "failed", text or failures)
    if test["result"] == "SKIPPED":
        return Result(name, "skipped", text)
    if test["status"] == "NOTRUN":
        return Result(name, "skipped", "disabled in its source")
    return Result(name, "passed", "")


def not_built(path):
    return Result(path.name, "failed",
                  f"{path.relative_to(ROOT)} is missing: run ./dev test")


# --- Python tests -----------------------------------------------------------


def run_in_venv(path, options):
    """Tests of the Python package, which need what its users have: numpy and
    onnxruntime, or for tvm_*_test.py TVM."""
    if path.name.startswith("tvm_"):
        return run_in_tvm_venv(path, options)
    python = BUILD / "venv/bin/python"
    if not (BUILD / "venv/is_complete").exists():
        return [Result(str(path.relative_to(ROOT)), "skipped",
                       "numpy and onnxruntime could not be installed")]
    return run_python(path, options, [python])


def run_in_tvm_venv(path, options):
    python = ROOT / "build/tvm_venv/bin/python"
    if python.exists():
        return run_python(path, options, [python])
    return [Result(str(path.relative_to(ROOT)), "skipped",
                   "apache-tvm is not installed in build/tvm_venv (./dev test "
                   "--suite tvm installs it)")]


def run_sanitized(part, options):
    if isinstance(part, Shard):
        return run_gtest(part, options)
    return run_under_sanitizer(part, options)


def run_under_sanitizer(path, options):
    """A test of the native module that was built with the sanitizer. Python
    was not, so the sanitizer's library has to be loaded before it."""
    python = BUILD / "venv/bin/python"
    library = sanitizer_library()
    missing = [what for what, is_there in (
        ("numpy and onnxruntime", (BUILD / "venv/is_complete").exists()),
        ("the sanitized native module",
         (BUILD / "sanitize/lib/python/_native.abi3.so").exists()),
        ("the sanitizer's library of clang", library)) if not is_there]
    if missing:
        return [Result(str(path.relative_to(ROOT)), "skipped",
                       f"{missing[0]} could not be had")]
    # Python never frees some of its memory, and takes most from blocks of its
    # own, within which the sanitizer sees no bounds.
    leaks = SANITIZERS["ASAN_OPTIONS"].replace("detect_leaks=1",
                                               "detect_leaks=0")
    return run_python(path, options, [*fixed_addresses(), python], {
        "NODEWISE_BUILD": str(BUILD / "sanitize"), "ASAN_OPTIONS": leaks,
        "LD_PRELOAD": library, "PYTHONMALLOC": "malloc"})


def sanitizer_library():
    """The path of clang's address sanitizer, or nothing."""
    if not shutil.which("clang"):
        return ""
    # The second name is that of builds with a folder for each target.
    for name in (f"libclang_rt.asan-{platform.machine()}.so",
                 "libclang_rt.asan.so"):
        found = subprocess.run(["clang", f"-print-file-name={name}"],
                               capture_output=True, text=True, check=False,
                               stdin=subprocess.DEVNULL).stdout.strip()
        if os.path.isabs(found) and os.path.exists(found):
            return found
    return ""


def run_python(path, options, python=(sys.executable,), extra=None):
    name = path.relative_to(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        events = pathlib.Path(folder) / "events.jsonl"
        command = [*python, ROOT / "tests/support/run_unittest_file.py",
                   name, events, options.filter]
        ended = run_child(command, options, pathlib.Path(folder), extra)
        results, running = read_events(events, name)
    if ended.code == 0:
        if results or options.filter:
            return results
        return [Result(str(name), "failed", "has no tests")]
    text = f"{name} {how_it_ended(ended, options)}\n{shorten(ended.output)}"
    return results + [Result(running or str(name), "failed", text)]


def read_events(path, file_name):
    results, running = [], None
    lines = path.read_text().splitlines() if path.exists() else []
    for line in lines:
        event = json.loads(line)
        name = f"{file_name}:{event['name']}"
        if event["state"] == "started":
            running = name
        else:
            running = None
            results.append(Result(name, event["state"], event["text"]))
    return results, running


# --- fuzz targets -----------------------------------------------------------


def fuzz_runs(name, full):
    """A whole command takes as long as hundreds of runs of a parser."""
    runs = 400 if name.endswith("_command") else 20000
    return runs * 50 if full else runs


def fuzz_schedule(name, full):
    """How often, and how it is chosen what to spoil next. Rare features of
    inputs are weighed in each run: nine tenths of the time where a model has
    150,000 of them, for which three times the runs find more."""
    if name == "onnx":
        return ["-entropic=0", f"-runs={3 * fuzz_runs(name, full)}"]
    return [f"-runs={fuzz_runs(name, full)}"]


def run_fuzz(binary, options):
    """A fixed number of runs from a fixed seed counts as one test."""
    if options.filter not in binary.name:
        return []
    name = binary.name.removesuffix("_fuzz")
    corpus = ROOT / "tests/fuzz/corpus" / name
    if not corpus.is_dir():
        return [Result(binary.name, "failed",
                       f"{corpus.relative_to(ROOT)} is missing: commit a few "
                       "inputs that the fuzzer may start from")]
    dictionary = [f"-dict={path}" for path in files(f"tests/fuzz/{name}.dict")]
    crashes = BUILD / "fuzz/crashes"
    crashes.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "corpus"
        shutil.copytree(corpus, copy)
        command = [*fixed_addresses(), binary, "-seed=1",
                   *fuzz_schedule(name, options.full),
                   "-timeout=10", "-rss_limit_mb=2048",
                   f"-artifact_prefix={crashes}/{binary.name}-",
                   *dictionary, copy]
        ended = run_child(command, options, pathlib.Path(folder))
    if ended.code == 0:
        return [Result(binary.name, "passed", "")]
    text = f"{how_it_ended(ended, options)}\n{shorten(ended.output)}"
    return [Result(binary.name, "failed", text)]


# --- mutants ----------------------------------------------------------------


def run_mutants(build, options):
    """All of them if the suite is asked for, and else a sample. One that its
    test does not notice has failed."""
    is_sample = not options.suite or "mutants" not in options.suite
    try:
        return [Result(*result) for result in mutant_runs.try_mutants(
            mutants.read_mutants(), build, environment(options),
            options.filter, is_sample)]
    except (mutants.MutantError, mutant_build.BuildError) as error:
        return [Result("mutants", "failed", str(error))]


# --- all of them ------------------------------------------------------------


def run_part(run, part, options):
    started = time.monotonic()
    return run(part, options), started, time.monotonic()


def run_together(rows, options):
    """Yields the suites' names and results, in order. As many parts run at a
    time as there are cores, and the next suite begins while the last parts of
    one still run: the longest of each would leave the other cores idle."""
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    try:
        begun = [(name, [pool.submit(run_part, run, part, options)
                         for part in parts]) for name, run, parts in rows]
        for name, parts in begun:
            ran = [part.result() for part in parts]
            yield name, suite_results(name, ran, options)
    finally:
        pool.shutdown(cancel_futures=True)


def run_suites(rows, options):
    """Yields the name and the results of each suite."""
    yield from run_together([row for row in rows if row[0] not in ALONE],
                            options)
    for row in rows:
        if row[0] in ALONE:
            yield from run_together([row], options)


def suite_results(name, ran, options):
    results = [result for part, _, _ in ran for result in part]
    if not ran:
        return [Result(name, "failed", "the suite has nothing to run")]
    counts = collections.Counter(r.state for r in results)
    if results or not options.filter:
        shown = ", ".join(f"{counts[state]} {state}"
                          for state in ("passed", "failed", "skipped")
                          if counts[state] or state != "skipped")
        seconds = max(end for _, _, end in ran) - min(
            start for _, start, _ in ran)
        print(f"{name:10} {seconds:6.1f} s  {shown}", flush=True)
    return results


def print_failures(results):
    for suite, result in results:
        if result.state == "failed":
            print(f"\nFAILED {suite}: {result.name}")
            for line in result.text.splitlines():
                print(f"  {line}")


def print_skips(skips):
    if skips:
        print("\nskipped:")
    for name, reason in skips:
        print(f"  {name}: {reason or '(no reason given)'}")


def print_summary(results):
    """Returns the exit status."""
    passed = sum(r.state == "passed" for _, r in results)
    failed = sum(r.state == "failed" for _, r in results)
    skips = sorted({(r.name, r.text) for _, r in results
                    if r.state == "skipped"})
    print_failures(results)
    print_skips(skips)
    if not passed and not failed:
        print("\nno test ran")
    print()
    print(f"{passed} passed, {failed} failed"
          + (f", {len(skips)} skipped" if skips else ""), flush=True)
    return 0 if passed and not failed else 1


def parse_arguments(suites):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true",
                        help="the long version of tests that have one")
    parser.add_argument("--filter", default="", metavar="TEXT",
                        help="only tests whose name holds TEXT")
    parser.add_argument("--suite", action="append", choices=suites,
                        help="only this suite; may be given again")
    parser.add_argument("--limit", type=float, metavar="SECONDS",
                        help="time for one binary or file (default: 600, "
                        "3600 with --full)")
    options = parser.parse_args()
    if options.limit is None:
        options.limit = 3600 if options.full else 600
    return options


def main():
    # In any locale a test may print text that is not ASCII.
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    options = parse_arguments([row[0] for row in suite_table(full=True)])
    table = suite_table(options.full)
    # Mutants are compiled for minutes.
    chosen = [row for row in table if row[0] in (options.suite or ()) or
              not options.suite and (options.full or row[0] != "mutants")]
    results = [(name, result) for name, found in run_suites(chosen, options)
               for result in found]
    return print_summary(results)


if __name__ == "__main__":
    sys.exit(main())
