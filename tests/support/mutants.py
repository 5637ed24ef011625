"""Mutants: small changes of the sources, each of which breaks a promise and
must make a test fail. docs/mutants.md says what is in their files.

All mutants of a source are compiled into one copy of it, in which a function
that has mutants begins by asking which of its bodies to run:

    { if (nodewise_mutants::IsOn<0x1b7e90d3>("a-mutant")) { ... }
      else { ... } }

So they are built once, and NODEWISE_MUTANT in the environment chooses.
"""

import collections
import pathlib
import re
import tomllib
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/mutants"
FIELDS = ("breaks", "change", "source", "function", "text", "replacement",
          "test")

# `breaks` is the number of a promise or a page that makes one, `change` a
# sentence, `text` what stands in `function` of `source`.
Mutant = collections.namedtuple("Mutant", ("name",) + FIELDS)

HEADER = """\
#pragma once

#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace nodewise_mutants {

// Asked for once, since a mutant may lie in an inner loop.
template <unsigned kNumber>
bool IsChosen(const char* name) {
  static const bool is_chosen = [name] {
    const char* const chosen = std::getenv("NODEWISE_MUTANT");
    return chosen != nullptr && std::strcmp(chosen, name) == 0;
  }();
  return is_chosen;
}

// What a compiler computes is as it should be.
template <unsigned kNumber>
constexpr bool IsOn(const char* name) {
  if (std::is_constant_evaluated()) return false;
  return IsChosen<kNumber>(name);
}

}  // namespace nodewise_mutants
"""


class MutantError(Exception):
    """What is wrong with a mutant, with its name in front."""


def read_mutant(path):
    name = path.stem
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise MutantError(f"{name}: {error}") from error
    if sorted(fields) != sorted(FIELDS):
        raise MutantError(f"{name}: has the fields {', '.join(fields)}, "
                          f"expected {', '.join(FIELDS)}")
    for field in FIELDS:
        if not isinstance(fields[field], str):
            raise MutantError(f"{name}: {field} is not a text")
    return Mutant(name, **fields)


def read_mutants():
    return [read_mutant(path) for path in sorted(FOLDER.glob("*.toml"))]


# --- Finding a function -----------------------------------------------------

COMMENT_OR_TEXT = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"' r"|(?<!\w)'(?:\\.|[^'\\\n])+'", re.DOTALL)
PAIRS = {"(": ")", "{": "}", "[": "]"}
# What may stand between the parameters of a function and its body.
SPECIFIERS = re.compile(
    r"(?:\s|const\b|noexcept\b|override\b|final\b|&|->[\w\s:<>,*&]+)*")
MEMBER = re.compile(r"\s*[\w:]+(?:<[\w:<>, ]*>)?\s*(?=[({])")


def masked(text):
    """The text with blanks for what is in comments and quotes."""
    return COMMENT_OR_TEXT.sub(
        lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def end_of_pair(code, start):
    """Just behind the bracket that closes the one at `start`."""
    depth = 0
    opens, closes = code[start], PAIRS[code[start]]
    for at in range(start, len(code)):
        depth += (code[at] == opens) - (code[at] == closes)
        if depth == 0:
            return at + 1
    return len(code)


def start_of_body(code, at):
    """Where the body of a function begins whose parameters end at `at`; None
    if it has none there."""
    at = SPECIFIERS.match(code, at).end()
    if code[at:at + 1] == ":" and code[at + 1:at + 2] != ":":
        at += 1
        while member := MEMBER.match(code, at):
            at = end_of_pair(code, member.end())
            at = re.compile(r"\s*,?").match(code, at).end()
        at = re.compile(r"\s*").match(code, at).end()
    return at if code[at:at + 1] == "{" else None


def bodies_at(code, name, start, end):
    """(start, end) of the bodies of functions that are called so."""
    bodies = []
    for found in re.compile(rf"(?<![\w:~.>]){re.escape(name)}\s*\(").finditer(
            code, start, end):
        body = start_of_body(code, end_of_pair(code, found.end() - 1))
        if body is not None:
            bodies.append((body, end_of_pair(code, body)))
    return bodies


def bodies_of(code, function):
    """As bodies_at(), also of what is defined inside of its class."""
    bodies = bodies_at(code, function, 0, len(code))
    owner, _, name = function.rpartition("::")
    if bodies or not owner:
        return bodies
    for found in re.finditer(rf"\b(?:class|struct) {owner}\b[^;{{()]*{{", code):
        start = found.end() - 1
        bodies += bodies_at(code, name, start, end_of_pair(code, start))
    return bodies


def pattern_of(text):
    """Finds the text however its lines are broken."""
    return re.compile(r"\s+".join(map(re.escape, text.split())))


# A mutant's body in place of the one from `start` to `end` of its source.
Change = collections.namedtuple("Change", "mutant start end body")


def change_of(mutant, source):
    code = masked(source)
    bodies = bodies_of(code, mutant.function)
    if not bodies:
        raise MutantError(f"{mutant.name}: {mutant.source} has no function "
                          f"{mutant.function}")
    found = [(start, end, place) for start, end in bodies
             for place in pattern_of(mutant.text).finditer(source, start, end)]
    if len(found) != 1:
        raise MutantError(f"{mutant.name}: {mutant.function} of "
                          f"{mutant.source} holds its text {len(found)} "
                          "times, expected once")
    start, end, place = found[0]
    body = (source[start:place.start()] + mutant.replacement
            + source[place.end():end])
    if body == source[start:end]:
        raise MutantError(f"{mutant.name}: changes nothing")
    return Change(mutant, start, end, body)


# --- One source with all its mutants ----------------------------------------


def number_of(name):
    return zlib.crc32(name.encode())


def line_mark(source, at, path):
    """Lines that a program prints stay those of its source."""
    return f'\n#line {source.count(chr(10), 0, at) + 1} "{path}"\n'


def with_mutants(source, path, changes, names_errors=False):
    """The source's text with all changes, each behind its question. With
    `names_errors` a compiler reports those in a mutant as in its file."""
    by_body = collections.defaultdict(list)
    for change in changes:
        by_body[change.start, change.end].append(change)
    text = f'#include "{{header}}"{line_mark(source, 0, path)}'
    text = text.replace("{header}", "nodewise_mutants.h")
    done = 0
    for (start, end), of_body in sorted(by_body.items()):
        mark = line_mark(source, start, path)
        text += source[done:start] + "{"
        for change in of_body:
            name = change.mutant.name
            own = (line_mark(source, start, FOLDER / f"{name}.toml")
                   if names_errors else mark)
            text += (f'\nif (::nodewise_mutants::IsOn<{number_of(name)}u>'
                     f'("{name}")){own}{change.body}\nelse')
        text += f"{mark}{source[start:end]}\n}}{line_mark(source, end, path)}"
        done = end
    return text + source[done:]


def changes_by_source(mutants, root=ROOT):
    """({source: its changes}, [errors of those that do not apply])"""
    changes, errors, texts = collections.defaultdict(list), [], {}
    for mutant in mutants:
        path = root / mutant.source
        try:
            if mutant.source not in texts:
                if path.suffix != ".cc" or not path.is_file():
                    raise MutantError(f"{mutant.name}: {mutant.source} is not "
                                      "a .cc file")
                texts[mutant.source] = path.read_text(encoding="utf-8")
            changes[mutant.source].append(
                change_of(mutant, texts[mutant.source]))
        except MutantError as error:
            errors.append((mutant, str(error)))
    return changes, errors
