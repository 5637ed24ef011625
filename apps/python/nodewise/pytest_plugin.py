"""A plug-in of pytest: a fixture with nodewise's assertions, and the archives
of what fails.

Installed with the package; else `pytest -p nodewise.pytest_plugin`.
"""

from __future__ import annotations

import hashlib
import pathlib
import re
from collections.abc import Generator, Iterator
from typing import Any

import pytest

import nodewise as package
from nodewise._answer import answer_of

# In a report it names a file that was written for it; it reaches the process
# that shows the summary, where tests run in several.
_PROPERTY = "nodewise_report"
_MOST_LETTERS = 120


class Nodewise:  # pylint: disable=too-few-public-methods
    """What the fixture is: the package, with the assertions beside it, so that
    a test whose module imports nodewise, too, has all of it."""

    def __getattr__(self, name: str) -> Any:
        # What needs numpy is imported when it is asked for, not with pytest.
        is_assertion = name in ("assert_close", "assert_matches")
        return getattr(package.testing if is_assertion else package, name)


@pytest.fixture(name="nodewise", scope="session")
def _nodewise() -> Nodewise:
    """nodewise, with assert_close() and assert_matches()."""
    return Nodewise()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --nodewise-report."""
    parser.getgroup("nodewise").addoption(
        "--nodewise-report", metavar="DIR", default=None,
        help="keep what nodewise found out in failed tests in this folder, an "
             "archive each, for `nodewise report FILE`")


def _folder(config: pytest.Config) -> pathlib.Path | None:
    given = config.getoption("nodewise_report")
    return config.invocation_params.dir / given if given else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Removes what an earlier run has kept of this test."""
    folder = _folder(item.config)
    if folder is not None and folder.is_dir():
        name = re.escape(_file_name(item.nodeid))
        for path in folder.iterdir():
            if re.fullmatch(rf"{name}(\.\d+)?\.(json|txt)", path.name):
                path.unlink()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item,
                              call: pytest.CallInfo[Any]
                              ) -> Generator[None, Any, None]:
    """Keeps what a failed test has found out."""
    outcome = yield
    folder = _folder(item.config)
    if folder is None or call.excinfo is None:
        return
    report = outcome.get_result()
    if not report.failed:
        return
    for error in _errors_of(call.excinfo.value, set()):
        path = _keep(error, folder, item.nodeid)
        report.user_properties.append((_PROPERTY, str(path)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says what was kept."""
    reports = [report for key in ("failed", "error")
               for report in terminalreporter.stats.get(key, ())]
    kept = list(dict.fromkeys(
        path for report in reports
        for name, path in getattr(report, "user_properties", ())
        if name == _PROPERTY))
    if kept:
        terminalreporter.section("nodewise")
        for path in kept:
            verb = "nodewise report " if path.endswith(".json") else ""
            terminalreporter.write_line(f"kept: {verb}{path}")


def _errors_of(error: BaseException | None,
               seen: set[int]) -> Iterator[package.Error]:
    """Those of nodewise in an error: it, what it was raised from, and the
    members of a group."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    if isinstance(error, package.Error):
        yield error
    yield from _errors_of(error.__cause__ or error.__context__, seen)
    for member in getattr(error, "exceptions", ()):
        yield from _errors_of(member, seen)


def _file_name(test: str) -> str:
    """The test's name as that of a file, which no other test's is."""
    name = re.sub(r"::|/", ".", test)
    plain = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[:_MOST_LETTERS]
    if plain != name:
        plain += "-" + hashlib.sha256(test.encode()).hexdigest()[:8]
    return plain


def _keep(error: package.Error, folder: pathlib.Path,
          test: str) -> pathlib.Path:
    """Writes the archive, or what is said where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    stem, number = _file_name(test), 1
    ending = ".txt" if error.document is None else ".json"
    path = folder / (stem + ending)
    while path.exists():  # A test may fail more than once: in subtests, say.
        number += 1
        path = folder / f"{stem}.{number}{ending}"
    if error.document is None:
        path.write_text(f"{test}\n\n{error}\n", encoding="utf-8")
    else:
        answer_of(error.document).save(path)
    return path
