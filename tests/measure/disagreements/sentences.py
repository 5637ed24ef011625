"""Compares a first sentence with a truth file."""

import re

import onnx


def names_of(folder):
    """The operations that a sentence may be about, with what they are."""
    names = {}
    for path in sorted(folder.glob("*.onnx")):
        if path.stem in ("model", "target"):
            for node in onnx.load(path, load_external_data=False).graph.node:
                names[node.name] = node.op_type
    # What a tool has added may have no name.
    names.pop("", None)
    return names


def named_in(sentence, names):
    """The operations that it names, in its order. A name may be a part of
    another one, so the longest are looked for first, and taken out."""
    found = []
    for name in sorted(names, key=len, reverse=True):
        pattern = re.compile(
            rf"(?<![\w/.]){re.escape(name)}(?![\w/]|\.\w)")
        for match in pattern.finditer(sentence):
            found.append((match.start(), name))
        sentence = pattern.sub(lambda match: "\0" * len(match[0]), sentence)
    return [name for _, name in sorted(found)], sentence


def kinds_in(sentence):
    """Kinds of which it speaks without names: "all 38 Conv", "2 of 3 Add"."""
    many = r"(?:\b[Aa]ll \d+|\b[Bb]oth|\b[Tt]he|\b\d+ of \d+)"
    return [match[1] for match in re.finditer(
        rf"{many} ([A-Z][A-Za-z0-9+]*)\b(?! \()", sentence)]


def why_wrong(sentence, truth, names):
    """What is wrong with a sentence; "" if it is right.

    Where it ranks ("costs the most"), the first name counts, else all. It may
    also speak of all operations of a kind, if some of this kind are wrong.
    """
    if not sentence:
        return "says nothing"
    found, rest = named_in(sentence, {**names, **dict.fromkeys(
        truth["names"], "")})
    kinds = [] if found and not truth["kinds"] else kinds_in(rest)
    if not truth["names"] and not truth["kinds"]:
        if found or kinds:
            return f"accuses {', '.join(found + kinds)}, expected no operation"
    elif not found and not kinds:
        return "names no operation"
    ranks = "costs the most" in sentence or "so do" in sentence
    for name in found[:1] if ranks else found:
        if name not in truth["names"]:
            return f"names {name}"
    for kind in kinds:
        if not set(kind.split("+")) & set(truth["kinds"]):
            return f"speaks of {kind}"
    for group in truth["words"]:
        if not any(says(sentence, word) for word in group):
            return f"does not say {' or '.join(group)}"
    for word in truth.get("not_words", ()):
        if says(sentence, word):
            return f"says {word}"
    return ""


def says(sentence, word):
    """Whether it has the word, or one that begins like it. float16 is not said
    by bfloat16."""
    return re.search(rf"(?<![a-z0-9]){re.escape(word)}", sentence,
                     re.IGNORECASE) is not None
