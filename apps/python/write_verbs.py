#!/usr/bin/env python3
"""Writes nodewise/verbs.py from what the command says of its verbs.

  write_verbs.py NODEWISE > nodewise/verbs.py

So functions have the options of the command, and their help; a test compares
the file with what this makes.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).parent / "nodewise"))

# pylint: disable=wrong-import-position
from _errors import in_python, parameter_of  # noqa: E402

# The verb, and what its function is called.
VERBS = {"locate": "locate", "align": "align", "compare": "compare",
         "verify": "verify", "profile": "profile", "dump": "dump",
         "run": "run", "inspect": "inspect", "convert": "convert",
         "extract": "extract", "repro": "repro", "autotest": "run_autotest"}
# What the function of a verb shows, with what it prints. There are a model, an
# artefact `net` of another compiler that has an AveragePool in the place of the
# model's MaxPool, and the modules nodewise and numpy; a test runs them.
EXAMPLES = {
    "locate": """
>>> answer = nodewise.locate("net", reference="model.onnx", random_inputs=1)
>>> [(each.node, each.operations) for each in answer.culprits]
[('fused_1', ('pool1',))]
""",
    "align": """
>>> answer = nodewise.align("net", "model.onnx", random_inputs=1)
>>> answer.text.splitlines()[-1]
'1 of 7 nodes that depend on inputs hold a tensor of the model'
""",
    "compare": """
>>> numpy.savez("old.npz", logits=numpy.array([1.0, 2.0]))
>>> numpy.savez("new.npz", logits=numpy.array([1.0, 2.5]))
>>> nodewise.compare("old.npz", "new.npz", rule="absolute").status
'differs'
>>> nodewise.compare("old.npz", "new.npz", rule="absolute",
...                  threshold=0.5).status
'ok'
""",
    "verify": """
>>> print(nodewise.verify("net").text, end="")
net: 0 errors, 0 warnings
""",
    "profile": """
>>> answer = nodewise.profile("net", random_inputs=1, runs=3)
>>> [node["name"] for node in answer.document["profile"]["nodes"]][:3]
['fused_0', 'fused_1', 'fused_2']
""",
    "dump": """
>>> answer = nodewise.dump("model.onnx", random_inputs=1, dump_root="dumps")
>>> nodewise.tensors("dumps/_tvmdbg_device_CPU_0")["pool1"]
Tensor(float32[1, 8, 8, 8])
""",
    "run": """
>>> answer = nodewise.run("model.onnx", random_inputs=1, output="made.npz")
>>> nodewise.tensors("made.npz")["probabilities"]
Tensor(float32[1, 10])
""",
    "inspect": """
>>> print(nodewise.inspect("model.onnx").text.splitlines()[0])
model.onnx: ONNX model, opset 13, 12,094 bytes
""",
    "convert": """
>>> print(nodewise.convert("model.onnx", output="converted").text, end="")
model.onnx: 9 operations in 7 function nodes, 6 parameters
wrote converted
""",
    "extract": """
>>> print(nodewise.extract("model.onnx", from_="p1", to="r2",
...                        output="part.onnx").text, end="")
model.onnx: 2 operations, 1 input, 1 output
wrote part.onnx
""",
    "repro": """
>>> answer = nodewise.repro("model.onnx", node="pool1", random_inputs=1,
...                         output="repro")
>>> answer.status, pathlib.Path("repro").is_dir()
('ok', True)
""",
    "autotest": """
>>> answer = nodewise.run_autotest(op="Relu", runs=20, seed=1)
>>> print(answer.text.splitlines()[-1])
nothing found
"""}
# What the file begins with, before the types.
HEAD = '''"""The verbs of the command as functions. Made by write_verbs.py."""

# pylint: disable=too-many-arguments,unused-argument,redefined-builtin

from __future__ import annotations

from typing import TYPE_CHECKING

from nodewise._call import call as _call

if TYPE_CHECKING:
    from nodewise._answer import Answer
'''
# Each answer has what these print.
LEFT_OUT = ("--json", "--archive", "--csv")
WIDTH = 79
# The types that positionals and options take, by what the help calls their
# values; the names are those of nodewise/_types.py. A value that is not here is
# text, or a path.
TYPES = {"N": "Number", "K": "Number", "SEED": "Number",
         "S": "Number", "SECONDS": "Number", "MS": "Number",
         "X": "Number", "NAME=FILE": "Tensors", "ENTRY=FILE": "Tensors",
         "NAME=N": "Names", "NAME=VALUE": "Names"}
# Options that have a type of their own.
OPTION_TYPES = {"--inputs": "Inputs"}


def items_of(text):
    """The positionals and options of a help text, each with what its value is
    called, empty for a flag, and what it is for."""
    items = []
    for line in text.splitlines():
        if line.startswith("examples:"):
            break
        if re.match(r"  (-\w,)?(--[a-z]|[A-Z])", line):
            # Its purpose stands two blanks behind, or on the next lines.
            head, _, what = line.strip().partition("  ")
            name, _, argument = head.partition(" ")
            name = name.split(",")[-1]
            items.append([name, argument, what.strip()])
        elif items and line.startswith("       "):
            items[-1][2] += " " + line.strip()
    return [(name, value, what.strip()) for name, value, what in items]


def parameter_with_type(option, value):
    """An option as a parameter of the function."""
    parameter = parameter_of(option)
    if not value:
        return f"{parameter}: bool = False"
    kind = OPTION_TYPES.get(option) or TYPES.get(value, "Value")
    return f"{parameter}: {kind} | None = None"


def packed(items, indent):
    """Lines with as many items each as have room."""
    lines = [indent]
    for item in items:
        if len(lines[-1]) + len(item) + 1 > WIDTH:
            lines.append(indent)
        lines[-1] += item if lines[-1] == indent else " " + item
    return lines


def head_of(name, parameters):
    """The first lines of a function; no line is cut within a type."""
    head = f"def {name}("
    texts = [f"{each}," for each in parameters[:-1]]
    lines = packed([*texts, parameters[-1] + ") -> Answer:"], " " * len(head))
    return "\n".join([head + lines[0].lstrip(), *lines[1:]])


def name_of(place, items):
    """What a positional is called; an option may have its name."""
    name = place.lower()
    return "network" if "--" + name in items else name


def docstring(does, example, documented):
    """The lines of a function's docstring."""
    doc = [f'    """{does}.', ""]
    doc += ["    " + line for line in example.strip().splitlines()]
    doc.append("")
    for parameter, what in documented:
        doc += textwrap.wrap(f"{parameter}: {in_python(what)}", WIDTH - 4,
                             initial_indent="    ",
                             subsequent_indent="        ",
                             break_long_words=False, break_on_hyphens=False)
    doc.append('    """')
    return doc


def function_of(command, verb, name):
    text = subprocess.run([command, verb, "--help"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    does = text.splitlines()[0].split(": ", 1)[1]
    does = does[0].upper() + does[1:]
    usage = re.search(r"^usage: nodewise \w+(.*)\[options\]", text, re.M)
    places = re.findall(r"([A-Z]+)(\.\.\.)?", usage.group(1))
    items = {item: (value, what) for item, value, what in items_of(text)}
    names = {place: name_of(place, items) for place, _ in places}
    parameters = [f"{'*' if many else ''}{names[place]}: Target"
                  for place, many in places]
    if not any(many for _, many in places):
        parameters += ["/", "*"] if places else ["*"]
    documented = [(names[place], items[place][1]) for place, _ in places]
    for option, (value, what) in items.items():
        if not option.startswith("--") or option in LEFT_OUT:
            continue
        parameter = parameter_of(option)
        parameters.append(parameter_with_type(option, value))
        documented.append((parameter, what))
    if parameters[-1] == "*":
        parameters.pop()
    doc = docstring(does, EXAMPLES[verb], documented)
    targets = ", ".join(
        f"*((\"{names[place]}\", each) for each in {names[place]})" if many
        else f"(\"{names[place]}\", {names[place]})" for place, many in places)
    comma = "," if len(places) == 1 else ""
    call = f'    return _call("{verb}", ({targets}{comma}), locals())'
    return "\n".join([head_of(name, parameters), *doc, call])


def main():
    command = sys.argv[1]
    kinds = sorted({*TYPES.values(), *OPTION_TYPES.values(), "Value",
                    "Target"})
    head = HEAD + textwrap.fill(
        f"from nodewise._types import ({', '.join(kinds)})", WIDTH,
        initial_indent="    ", subsequent_indent=" " * 33)
    functions = [function_of(command, *each) for each in VERBS.items()]
    print("\n\n\n".join([head, *functions, "diagnose = locate"]))


if __name__ == "__main__":
    main()
