"""Builds mutants into build/mutants from what build/ holds.

Ninja is asked for the commands that made the binaries of the tests. Those that
compile a source with mutants, and those that archive or link what came of
them, are done again, into build/mutants, with the copies of the sources; all
else is taken from build/ as it is.
"""

import collections
import pathlib
import re
import subprocess

import mutants

TARGETS = ("nodewise", "network-debugger", "nodewise_tests",
           "nodewise_ops_tests", "nodewise_onednn_tests")
INCLUDE = re.compile(r'^#include "(/[^"]+)"$', re.M)
OUTPUT = re.compile(r" -o (\S+)| ar qc (\S+)|/ar qc (\S+)")
COMPILED = re.compile(r" -c (\S+)$")
OUTPUT_WORDS = re.compile(r" -MD -MT \S+ -MF \S+| -o \S+")
ERROR = re.compile(rf"^{re.escape(str(mutants.FOLDER))}/([\w-]+)\.toml:\d+"
                   r"(?::\d+)?: (?:fatal )?error: (.*)", re.M)

# A command of ninja's: what it makes, of what, and its text.
Step = collections.namedtuple("Step", "output inputs command is_compiled")


class BuildError(Exception):
    """A build that fails in another place than in a mutant."""


class MutantBuild:
    """build/mutants, with some or all mutants in it."""

    def __init__(self, build, changes):
        self.build = pathlib.Path(build)
        self.folder = self.build / "mutants"
        self.changes = changes  # By source.

    def write_sources(self):
        """Returns {absolute path of a source: that of its copy}."""
        self.write("source/nodewise_mutants.h", mutants.HEADER)
        copies = {}
        for source, changes in self.changes.items():
            path = mutants.ROOT / source
            text = mutants.with_mutants(path.read_text(encoding="utf-8"), path,
                                        changes)
            copies[str(path)] = self.write(f"source/{source}", text)
        return copies

    def write(self, name, text):
        """Leaves a file as it is that has this text: ninja looks at times."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        return str(path)

    def commands(self):
        """The commands that make what tests run, in their order."""
        made = subprocess.run(
            ["ninja", "-C", self.build, "-t", "commands", *TARGETS],
            check=True, stdin=subprocess.DEVNULL, capture_output=True,
            text=True)
        return made.stdout.splitlines()

    def steps(self, chosen):
        """What is to be done to have the sources `chosen` with mutants."""
        copies = self.write_sources()
        wanted = {mutants.ROOT / source for source in chosen}
        steps, instead = [], {}  # `instead`: {an output: ours}.
        for command in self.commands():
            output = output_of(command)
            if output is None:
                continue
            compiled = COMPILED.search(command)
            if compiled:
                step = self.compiling(command, compiled[1], output, copies,
                                      wanted)
            else:
                step = self.joining(command, output, instead)
            if step is not None:
                instead[output] = step.output
                steps.append(step)
        return steps

    def compiling(self, command, source, output, copies, wanted):
        """The source may be one file, or one that includes several."""
        if wanted.isdisjoint(sources_of(command)):
            return None
        copy = copies.get(source)
        if copy is None:
            text = pathlib.Path(source).read_text(encoding="utf-8")
            text = INCLUDE.sub(
                lambda found:
                f'#include "{copies.get(found[1], found[1])}"', text)
            copy = self.write(
                f"joined/{pathlib.Path(source).relative_to(self.build)}", text)
        ours = f"mutants/objects/{output}"
        command = command.replace(output, ours)
        # Bodies that are not run any more leave warnings behind. Nothing is
        # learnt from mutants that are fast.
        command = COMPILED.sub(
            f" -w -O1 -I{self.folder}/source -c {copy}", command)
        return Step(ours, [copy, output], command, True)

    def joining(self, command, output, instead):
        """Archives and links what was compiled."""
        words = command.split()
        if not any(word in instead for word in words):
            return None
        place = "" if output.startswith(("bin/", "lib/")) else "objects/"
        ours = f"mutants/{place}{output}"
        library = f"{self.build}/lib"
        words = [instead.get(word, ours if word == output else word)
                 .replace(library, f"{self.folder}/lib") for word in words]
        inputs = [word for word in words
                  if word != ours and (word in instead.values()
                                       or is_relative(self.build, word))]
        return Step(ours, inputs, " ".join(words), False)

    def make(self, chosen):
        """Builds. Returns {the name of a mutant that does not compile: why};
        without these it is built."""
        broken = {}
        while True:
            ended = self.run_ninja(chosen)
            if ended.returncode == 0:
                self.link_the_rest()
                return broken
            found = self.broken() if "FAILED: " in ended.stdout else {}
            if not found:
                raise BuildError(ended.stdout[-6000:])
            broken.update(found)
            self.changes = {
                source: left for source, changes in self.changes.items()
                if (left := [change for change in changes
                             if change.mutant.name not in found])}
            chosen = [source for source in chosen if source in self.changes]

    def run_ninja(self, chosen):
        steps = self.steps(chosen)
        lines = ["builddir = mutants", "rule do", "  command = $text",
                 "  description = $out", "rule compile", "  command = $text",
                 "  description = $out", "  depfile = $out.d", "  deps = gcc"]
        for step in steps:
            text = step.command.replace("$", "$$")
            lines += [f"build {step.output}: "
                      f"{'compile' if step.is_compiled else 'do'} "
                      f"{' '.join(step.inputs)}", f"  text = {text}"]
            folder = self.build / step.output
            folder.parent.mkdir(parents=True, exist_ok=True)
        self.write("build.ninja", "\n".join(lines) + "\n")
        self.drop_others({self.build / step.output for step in steps})
        return subprocess.run(
            ["ninja", "-C", self.build, "-k", "0", "-f",
             "mutants/build.ninja"], check=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace")

    def broken(self):
        """{name: its first error} of the mutants that do not compile."""
        found = {}
        commands = [command for command in self.commands()
                    if COMPILED.search(command)]
        for source, changes in self.changes.items():
            path = mutants.ROOT / source
            command = next(command for command in commands
                           if path in sources_of(command))
            copy = self.write(f"checked/{source}", mutants.with_mutants(
                path.read_text(encoding="utf-8"), path, changes, True))
            ended = subprocess.run(
                COMPILED.sub(f" -w -I{self.folder}/source -fsyntax-only {copy}",
                             OUTPUT_WORDS.sub("", command)),
                shell=True, check=False, cwd=self.build, text=True,
                stdin=subprocess.DEVNULL, capture_output=True,
                errors="replace")
            for name, error in ERROR.findall(ended.stderr):
                found.setdefault(name, error)
        return found

    def drop_others(self, wanted):
        """Removes programs of other mutants, and links to those of build/."""
        for name in ("bin", "lib"):
            # One that was linked whole is build/'s own.
            if (self.folder / name).is_symlink():
                (self.folder / name).unlink()
        for path in [*self.folder.glob("bin/*"), *self.folder.glob("lib/*")]:
            if path.is_symlink() or path not in wanted:
                path.unlink()

    def link_the_rest(self):
        """What tests look for in a build folder and was not built again."""
        for folder in ("", "bin", "lib"):
            place = self.folder / folder
            place.mkdir(exist_ok=True)
            for path in (self.build / folder).iterdir():
                own = place / path.name
                if path == self.folder or own.exists():
                    continue
                own.unlink(missing_ok=True)
                own.symlink_to(path)


def sources_of(command):
    """What a command compiles: one file, or those that it includes where
    several are compiled together."""
    source = pathlib.Path(COMPILED.search(command)[1])
    if source.parent.name != "Unity":
        return [source]
    return list(map(pathlib.Path, INCLUDE.findall(
        source.read_text(encoding="utf-8"))))


def output_of(command):
    found = OUTPUT.search(command)
    return found and next(filter(None, found.groups()))


def is_relative(build, word):
    return bool(re.fullmatch(r"[\w./+-]+\.(?:a|o|so)", word)) and (
        not word.startswith("/") and (build / word).is_file())
