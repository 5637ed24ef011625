"""Runs a command with one call to the C library failing, and judges how it
ends; see tests/support/failing_calls.c.

  python3 tests/apps/failing_calls.py CASE file|memory NUMBER [LEAST]

repeats one such run, as a failing test says.
"""

import collections
import filecmp
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

import verb_cases
from support import BUILD, ROOT

SOURCE = ROOT / "tests/support/failing_calls.c"

# What a run leaves: how it ended, what it printed, what its log says.
Ended = collections.namedtuple("Ended", "code out err log")

# Files whose bytes are those of any other run.
STABLE = (".npz", ".npy", ".pb", ".params", ".onnx", ".c", ".json")
VOLATILE = ("trace", "OUT.json")


def compile_shim(path):
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", SOURCE, "-o", path,
                    "-ldl"], check=True, timeout=60)


def without_figures(text):
    """Times and what is lined up by their widths are another in every run."""
    return re.sub(r"[-\s]*[\d.]+[-\s]*", " ", text)


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


class Bench:
    """A folder with the files of the cases, in which they run."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.shim = self.folder / "failing_calls.so"
        self.work = self.folder / "work"
        self.temporary = self.folder / "tmp"
        for made in (self.work, self.temporary):
            made.mkdir()
        compile_shim(self.shim)
        verb_cases.make_files(self.work)
        self.given = set(self.work.iterdir())

    def environment(self, program, kind="file", number=0, least=1):
        """What a program runs in; what is preloaded takes memory, too."""
        return dict(
            os.environ, LD_PRELOAD=str(self.shim), NODEWISE_FAIL=kind,
            NODEWISE_FAIL_AT=str(number), NODEWISE_FAIL_LEAST=str(least),
            NODEWISE_FAIL_NAME=f"bin/{program}",
            NODEWISE_FAIL_LOG=str(self.folder / "log"),
            TMPDIR=str(self.temporary))

    def run(self, case, kind="file", number=0, least=1, limit=None):
        """Runs a case with a call that fails, or none for number 0."""
        log = self.folder / "log"
        for old in [*self.made(), *self.temporary.iterdir(), log]:
            if old.exists() or old.is_symlink():
                remove(old)
        environment = self.environment(case.program, kind, number, least)
        try:
            done = subprocess.run(
                [BUILD / "bin" / case.program, *case.arguments], cwd=self.work,
                env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=60, check=False, preexec_fn=limit)
        except subprocess.TimeoutExpired:
            return Ended("no end", "", "", [])
        lines = log.read_text().splitlines() if log.exists() else []
        return Ended(done.returncode, done.stdout.decode(errors="replace"),
                     done.stderr.decode(errors="replace"), lines)

    def made(self):
        """What the run has left in its folder."""
        return [p for p in self.work.iterdir() if p not in self.given]

    def files(self):
        return {path.relative_to(self.work): path for top in self.made()
                for path in ([top] if top.is_file() else top.rglob("*"))
                if path.is_file()}


def limited(mebibytes):
    """What gives a child so much address space, and leaves no file of a crash."""
    def set_limits():
        size = int(mebibytes * 2**20)
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return set_limits


def least_that_works(works, low, high, step=0.25):
    """The smallest number between the two, to one step, for which it works."""
    while high - low > step:
        middle = (low + high) / 2
        if works(middle):
            high = middle
        else:
            low = middle
    return high


class Sound:
    """A case's run in which nothing fails: what others are held against."""

    def __init__(self, bench, case, kind, least):
        self.case = case
        self.ended = bench.run(case, kind, 0, least)
        self.prints_alike = case.name not in TABLES
        # A forked child may tell its numbers, too.
        self.calls = max(numbers_of(self.ended, "calls"), default=0)
        self.open = max(numbers_of(self.ended, "open"), default=0)
        self.kept = bench.folder / "kept"
        if self.kept.exists():
            shutil.rmtree(self.kept)
        self.kept.mkdir()
        for name, path in bench.files().items():
            (self.kept / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.kept / name)

    def has(self, name, path):
        """Whether the file is as this run has made it."""
        mine = self.kept / name
        if not mine.is_file():
            return False
        if path.suffix in STABLE and not any(v in str(name) for v in VOLATILE):
            return filecmp.cmp(mine, path, shallow=False)
        return path.stat().st_size > 0

    def names(self):
        return {p.relative_to(self.kept) for p in self.kept.rglob("*")
                if p.is_file()}


def numbers_of(ended, word):
    return [int(line.split()[1]) for line in ended.log
            if line.startswith(word + " ")]


# A message that names its place: "nodewise: PLACE: TEXT".
MESSAGE = re.compile(r"^(nodewise|network-debugger): (?!note: |warning: )"
                     r"\S[^\n]*?: .", re.MULTILINE)

# They print tables that are sorted by times.
TABLES = ("demo", "profile", "dump_model")
# Folders that hold several results: each is whole or not there.
SEVERAL = ("demo", "locate_repro", "repro_all")
# What is there of a dump is of use, and readers see that it is cut short.
DUMPS = re.compile(r"OUT(/dump)?/_tvmdbg_device_CPU_0/")
# Kernels of oneDNN go on without memory, and crash: in a child, the node is
# blamed. A compiled network says that its own function has failed.
NOT_OURS = ("by libdnnl", "by lib.so")


def printed_otherwise(expected, found):
    expected, found = (without_figures(text).splitlines()
                       for text in (expected, found))
    if expected == found:
        return []
    lines = [line for line in found if line not in expected]
    return [f"prints something else: {lines[:2] or 'less'}"]


def parts_of(sound, files):
    """What there is of results that are not whole."""
    depth = 2 if sound.case.name in SEVERAL else 1

    def results(names):
        by_result = collections.defaultdict(set)
        for name in names:
            by_result[name.parts[:depth]].add(name)
        return by_result
    whole = results(sound.names())
    return [f"left a part of {'/'.join(result)}: {sorted(map(str, names))}"
            for result, names in sorted(results(files).items())
            if names != whole[result]]


# What removes a folder calls these with its path or those of its files.
REMOVES = re.compile(r"failed (?:openat|unlinkat|unlink|rmdir) (\S+)")


def was_refused(path, ended):
    """Whether the call that failed was to remove it, or a file in it."""
    failed = [pathlib.Path(call[1]) for line in ended.log
              if (call := REMOVES.match(line))]
    return any(path in (each, *each.parents) for each in failed)


def faults_of(bench, sound, ended):
    """What is wrong with how a disturbed run ended, as a list of texts."""
    if any(name in line for line in ended.log for name in NOT_OURS):
        return [] if ended.code != "no end" else ["had not ended"]
    if ended.code not in (0, 1, 2):
        return [f"ended with {ended.code}"]
    faults = []
    left = sorted(p.name for p in bench.temporary.iterdir()
                  if not was_refused(p, ended))
    if left:
        faults.append(f"left {left} in TMPDIR")
    # What ends in the middle leaves it to the system to close them.
    if (ended.code == sound.ended.code and
            max(numbers_of(ended, "open"), default=0) > sound.open):
        faults.append("left descriptors open")
    files = bench.files()
    if ended.code == 2:
        files = {name: path for name, path in files.items()
                 if not DUMPS.match(str(name))}
    faults += [f"{name} is not whole" for name, path in sorted(files.items())
               if not sound.has(name, path)]
    if ended.code == 2 and sound.ended.code != 2:
        if not MESSAGE.search(ended.err):
            faults.append("says no place")
        return faults + parts_of(sound, files)
    if ended.code != sound.ended.code:
        faults.append(f"status {ended.code}, expected {sound.ended.code} or 2")
    if sound.prints_alike:
        faults += printed_otherwise(sound.ended.out, ended.out)
    if set(files) != sound.names():
        faults.append("wrote other files")
    return faults


def explain(case, kind, number, least, ended, faults):
    failed = [line for line in ended.log if line.startswith("failed")]
    return (f"{case.name} {kind} {number} {least}: {'; '.join(faults)}\n"
            f"  {failed}\n  status {ended.code}, stderr: {ended.err[-400:]}")


def main():
    name, kind, number, *least = sys.argv[1:]
    least = least[0] if least else 1
    case = next(c for c in verb_cases.CASES if c.name == name)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder)
        sound = Sound(bench, case, kind, least)
        ended = bench.run(case, kind, int(number), least)
        print(explain(case, kind, number, least, ended,
                      faults_of(bench, sound, ended)))
        print(ended.out)


if __name__ == "__main__":
    main()
