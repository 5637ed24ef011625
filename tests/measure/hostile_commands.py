"""Runs commands of every verb with spoiled files and options, and lists those
that end with a signal, run for ever, need too much memory, leave something
behind or say nothing of where the fault is.

  python3 tests/measure/hostile_commands.py --commands 10000 --seed 1
  python3 tests/measure/hostile_commands.py --seed 1 --only 4711   repeats one

What is spoiled is never run as code: of folders with a compiled library, the
graph and the library stay as they are where the verb loads them. Each failing
command's folder is kept in build/hostile/NUMBER.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/apps"))
# pylint: disable=wrong-import-position
import verb_cases
from mutations import ODD_TEXTS, mutate
from support import BUILD

MOST_BYTES = 3 << 30
# So that a command that asks for all memory harms no other process.
ADDRESS_SPACE = 12 << 30
SECONDS = 60

# The verbs that never load a library, so that it may be spoiled, too.
LOADS_NOTHING = ("inspect", "verify")
COMPILED = ("built", "theirs")

# What TVM itself has compiled, if it lies beside the project.
FIXTURES = ROOT.parent / "shared/fixtures"
THEIRS = {"tvm_08": "tvm-0.8/mlp-c", "tvm_14": "tvm-0.14/convnet-c",
          "tvm_14_int8": "tvm-0.14/convnet-int8-llvm",
          "tvm_27": "tvm-0.27/convnet"}

# Options whose value is how long something takes: no test of it may.
LONG = ("--runs", "--repeat", "--number", "--time", "--min-repeat-ms",
        "--cooldown-ms", "--warm-up", "--sets", "--shrink-runs", "--limit",
        "--time-limit-ms", "--foreign-limit", "--limit-zero-time", "--at-once",
        "--repeats-to-cooldown", "--threads", "--node-limit-ms", "--worst")
# What would run another program, or all of its operators.
NEVER = ("--python", "--opaque", "--referee", "--candidate", "--help",
         "--networks", "--mutate", "--op", "--with")

VALUES = ("", "0", "1", "-1", "2", "x", "x=", "=x", "x=1", "x=x.npy",
          "x=model.onnx", "x:0=1", "#1", "#99", "99999999999999999999", "nan",
          "1e308", "(", ".*", "a b", "net", "built", "dump", "dump2", "x.npz",
          "two.npz", "x.params", "x.pb", "x.npy", "model.onnx", "set", "map.txt",
          ".", "nothere", "nothere/x", "/dev/null", "/dev/full", "new.npz",
          "new", "cpu", "cpu:1", "cuda", "fp16", "bf16", "int8", "tensor,stats",
          "bounds", "bisect", "replay", "recursive", "interpreter", "random:1",
          "conv", "relu", "pool=x.npy", "conv=x.npz", "inf", "abs>1", "exact")

Trial = collections.namedtuple("Trial", "number case arguments changed")

# How one command ended. `usage` is what the kernel says that it took.
Ended = collections.namedtuple("Ended", "code out err usage seconds")


def options_of(verb):
    """The options of a verb, and whether each takes a value."""
    done = subprocess.run([BUILD / "bin/nodewise", verb, "--help"],
                          capture_output=True, check=True, text=True)
    found = re.findall(r"^  (?:-\w,)?(--[\w-]+)( [A-Z\[=])?", done.stdout,
                       re.MULTILINE)
    return [(name, bool(value)) for name, value in found if name not in NEVER]


def cases_of_fixture(given, name):
    files = " ".join(sorted(f"{name}/{p.name}" for p in (given / name).iterdir()
                            if p.is_file()))
    yield verb_cases.case(f"inspect_{name}", f"inspect {files}")
    yield verb_cases.case(f"verify_{name}", f"verify {name}")
    if (given / name / "inputs.params").is_file():
        inputs = f"--inputs {name}/inputs.params"
        yield verb_cases.case(f"run_{name}", f"run {name} {inputs} -o OUT.npz")
        yield verb_cases.case(f"dump_{name}", f"dump {name} {inputs} "
                              "--dump-root OUT --no-table")
        yield verb_cases.case(f"compare_{name}", f"compare "
                              f"{name}/inputs.params {name}/outputs.params")


class Maker:
    """Draws commands on the files in `given`, each by its number alone."""

    def __init__(self, given, seed):
        self.given = given
        self.seed = seed
        self.theirs = [c for name in THEIRS if (given / name).is_dir()
                       for c in cases_of_fixture(given, name)]
        self.options = {verb: options_of(verb) for verb in sorted(
            {c.arguments[0] for c in verb_cases.CASES
             if c.program == "nodewise"})}

    def make(self, number):
        rng = random.Random(f"{self.seed}:{number}")
        # Those that take seconds are drawn less often.
        cases = [c for c in verb_cases.CASES + self.theirs
                 if c.name not in ("demo", "autotest_c") or rng.random() < 0.05]
        case = rng.choice(cases)
        arguments, changed = list(case.arguments), {}
        kind = rng.random()
        if kind < 0.9:
            files = self.files_of(case)
            for path in rng.sample(files, min(len(files),
                                              rng.choice((1, 1, 1, 1, 2)))):
                data = (self.given / path).read_bytes()
                changed[path] = mutate(rng, path, data)
        if kind > 0.8:
            self.spoil(rng, case, arguments)
        if rng.random() < 0.2 and case.program == "nodewise":
            arguments.append("--json")
        return Trial(number, case, arguments, changed)

    def files_of(self, case):
        """What the command reads and does not run."""
        verb = case.arguments[0]
        files = []
        for word in " ".join(case.arguments).replace("=", " ").split():
            path = self.given / word
            found = ([path] if path.is_file() else
                     sorted(p for p in path.rglob("*") if p.is_file())
                     if path.is_dir() else [])
            for one in found:
                runs = (one.suffix in (".so", ".c") or one.suffix == ".json"
                        and word in (*COMPILED, *THEIRS))
                if not runs or verb in LOADS_NOTHING:
                    files.append(str(one.relative_to(self.given)))
        return files

    def spoil(self, rng, case, arguments):
        for _ in range(rng.choice((1, 1, 2, 3))):
            at = rng.randrange(len(arguments) + 1)
            kind = rng.randrange(5)
            if kind == 0 and len(arguments) > 1:
                del arguments[rng.randrange(1, len(arguments))]
            elif kind == 1:
                arguments.insert(at, self.value(rng, ""))
            elif kind == 2 and len(arguments) > 1:
                place = rng.randrange(1, len(arguments))
                arguments[place] = self.value(rng, arguments[place - 1])
            elif case.program == "nodewise":
                verb = case.arguments[0]
                name, takes = rng.choice(self.options[verb])
                arguments += [name, self.value(rng, name)][:1 + takes]

    @staticmethod
    def value(rng, option):
        if option in LONG:
            return rng.choice(("", "0", "1", "-1", "x", "1.5", "2", "1e3"))
        value = (rng.choice(VALUES) if rng.random() < 0.8
                 else rng.choice(ODD_TEXTS))
        return value.replace("\0", "") or rng.choice(VALUES)


def set_limits():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))


def run(trial, folder, given):
    """Runs it in a copy of the files; those that change are its own."""
    work, temporary = folder / "work", folder / "tmp"
    shutil.copytree(given, work, copy_function=os.link)
    temporary.mkdir()
    for path, data in trial.changed.items():
        (work / path).unlink()
        (work / path).write_bytes(data)
    environment = dict(os.environ, TMPDIR=str(temporary), OMP_NUM_THREADS="1",
                       TVM_NUM_THREADS="2", LC_ALL="C.UTF-8")
    arguments = [a.encode("utf-8", "surrogatepass") for a in trial.arguments]
    started = time.monotonic()
    with (open(folder / "out", "wb") as out, open(folder / "err", "wb") as err):
        child = subprocess.Popen(
            [BUILD / "bin" / trial.case.program, *arguments], cwd=work,
            env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            preexec_fn=set_limits, start_new_session=True)
        code, usage = wait(child)
    text = [(folder / name).read_bytes().decode(errors="replace")
            for name in ("out", "err")]
    return Ended(code, *text, usage, time.monotonic() - started)


def wait(child):
    """Its status, or None if it had to be stopped, and what it took."""
    end = time.monotonic() + SECONDS
    pause = 0.002
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid != 0:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, usage
        if time.monotonic() > end:
            os.killpg(child.pid, signal.SIGKILL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = -signal.SIGKILL
            return None, usage
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


# What no message may show: our own checks, and what C++ calls things.
INSIDES = re.compile(r"check failed|terminate called|std::|basic_string|"
                     r"vector::|AddressSanitizer|runtime error")
PLACE = re.compile(r"^(nodewise|network-debugger): (?!note: |warning: )"
                   r"(?:[^\n]|\n    )*?[^\s:]: .", re.MULTILINE)


def faults_of(trial, ended, folder):
    faults = []
    if ended.code is None:
        faults.append(f"had not ended after {SECONDS} s")
    elif ended.code not in (0, 1, 2):
        faults.append(f"ended with {ended.code}")
    if ended.usage.ru_maxrss * 1024 > MOST_BYTES:
        faults.append(f"took {ended.usage.ru_maxrss >> 10} MiB")
    shown = INSIDES.search(ended.out + ended.err)
    if shown:
        faults.append(f"shows {shown.group(0)!r}")
    # A dump without --dump-root is meant to be there.
    if any(not p.name.startswith("tvmdbg_")
           for p in (folder / "tmp").iterdir()):
        faults.append("left something in TMPDIR")
    if any(p.name.endswith(".part") for p in (folder / "work").rglob("*")):
        faults.append("left a part of a file")
    if ended.code == 2:
        faults += faults_of_message(trial, ended)
    return faults


def faults_of_message(trial, ended):
    """What an error must say."""
    if "--json" in trial.arguments and ended.out.startswith("{"):
        try:
            errors = json.loads(ended.out)["errors"]
        except (ValueError, KeyError) as error:
            return [f"writes no document: {error}"]
        if errors and all(e.get("where") for e in errors):
            return []
        return ["has an error without a place"]
    if PLACE.search(ended.err):
        return []
    return ["says no place"]


def show(trial, ended, faults):
    line = " ".join(ascii(a)[1:-1] or "''" for a in trial.arguments)
    return (f"{trial.number}: {'; '.join(faults)}\n"
            f"  {trial.case.program} {line[:600]}\n"
            f"  spoiled: {', '.join(trial.changed) or 'nothing'}\n"
            f"  status {ended.code}, stderr: {ended.err.strip()[-500:]}")


def keep(folder, number):
    place = BUILD / "hostile" / str(number)
    if place.exists():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder, place, symlinks=True)


class Measurement:
    def __init__(self, folder, seed):
        self.folder = pathlib.Path(folder)
        self.given = self.folder / "given"
        self.given.mkdir()
        verb_cases.make_files(self.given)
        self.skipped = []
        for name, place in THEIRS.items():
            if (FIXTURES / place).is_dir():
                shutil.copytree(FIXTURES / place, self.given / name)
            else:
                self.skipped.append(f"../shared/fixtures/{place}")
        self.maker = Maker(self.given, seed)
        self.statuses = collections.Counter()
        self.verbs = collections.Counter()
        self.most_bytes = 0

    def try_one(self, number, keeps=True):
        """The text of what is wrong, or None."""
        trial = self.maker.make(number)
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = pathlib.Path(name)
            ended = run(trial, folder, self.given)
            faults = faults_of(trial, ended, folder)
            if faults and keeps:
                keep(folder, number)
        self.statuses[ended.code] += 1
        self.verbs[trial.case.arguments[0] if trial.case.program == "nodewise"
                   else trial.case.program] += 1
        self.most_bytes = max(self.most_bytes, ended.usage.ru_maxrss * 1024)
        return show(trial, ended, faults) if faults else None

    def try_all(self, numbers, jobs):
        """Hands out the texts of what is wrong, in the order of the numbers."""
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for text in pool.map(self.try_one, numbers):
                if text:
                    yield text


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", type=int, default=10000)
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", type=int, metavar="NUMBER")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(1 << 30)
    return given


def main():
    given = parse_arguments()
    started = time.monotonic()
    numbers = ([given.only] if given.only is not None else
               range(given.first, given.first + given.commands))
    print(f"{len(numbers)} commands, seed {given.seed} (to repeat one: python3 "
          f"tests/measure/hostile_commands.py --seed {given.seed} --only "
          "NUMBER)", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        measurement = Measurement(folder, given.seed)
        failures = 0
        for text in measurement.try_all(numbers, given.jobs):
            print(text, flush=True)
            failures += 1
    for name in measurement.skipped:
        print(f"skipped: {name} is not there")
    ends = ", ".join(f"{n} with {code}" for code, n in
                     sorted(measurement.statuses.items(), key=str))
    verbs = ", ".join(f"{verb} {n}" for verb, n in
                      sorted(measurement.verbs.items()))
    print(f"ended: {ends}\nverbs: {verbs}\nmost memory: "
          f"{measurement.most_bytes / 2**20:.0f} MiB\n"
          f"{failures} of {len(numbers)} commands failed, "
          f"{time.monotonic() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
