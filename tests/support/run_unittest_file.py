"""Runs one file of unittest tests for run_tests.py, in a process of its own.

usage: run_unittest_file.py FILE EVENTS [FILTER]

Writes one JSON line to EVENTS as each test starts and as each ends, so that
run_tests.py knows which test was running if this process dies.
"""

import importlib.util
import json
import pathlib
import sys
import unittest


class EventResult(unittest.TestResult):
    def __init__(self, events):
        super().__init__()
        self._events = events
        self._problems = []

    def _write(self, test, state, text=""):
        event = {"name": name_of(test), "state": state, "text": text}
        self._events.write(json.dumps(event) + "\n")
        self._events.flush()

    def startTest(self, test):
        super().startTest(test)
        self._problems = []
        self._write(test, "started")

    def stopTest(self, test):
        super().stopTest(test)
        # A test may fail more than once: in subtests, and when tearing down.
        if self._problems:
            self._write(test, "failed", "\n".join(self._problems))

    def _problem(self, test, text):
        if isinstance(test, unittest.TestCase):
            self._problems.append(text)
        else:  # setUpClass and the like, which are never started.
            self._write(test, "failed", text)

    def addSuccess(self, test):
        super().addSuccess(test)
        # Called though a subtest failed by some versions of unittest.
        if not self._problems:
            self._write(test, "passed")

    def addFailure(self, test, err):
        self._problem(test, self._exc_info_to_string(err, test))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            text = self._exc_info_to_string(err, test)
            self._problem(test, f"{subtest._subDescription()}\n{text}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._write(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        self._write(test, "passed")

    def addUnexpectedSuccess(self, test):
        self._problem(test, "was marked as an expected failure, but passed")


def name_of(test):
    """Class.method, without the module, which is the file."""
    test = getattr(test, "test_case", test)  # The test of a subtest.
    if isinstance(test, unittest.TestCase):
        return f"{type(test).__name__}.{getattr(test, '_testMethodName', '')}"
    return str(test)


def load(path):
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def tests_of(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        else:
            yield item


def main(path, events_path, text=""):
    with open(events_path, "w", encoding="utf-8") as events:
        try:
            module = load(pathlib.Path(path))
        except unittest.SkipTest as skip:
            event = {"name": "(file)", "state": "skipped", "text": str(skip)}
            events.write(json.dumps(event) + "\n")
            return
        tests = tests_of(unittest.TestLoader().loadTestsFromModule(module))
        chosen = [t for t in tests if text in f"{path}:{name_of(t)}"]
        unittest.TestSuite(chosen).run(EventResult(events))


if __name__ == "__main__":
    main(*sys.argv[1:])
