"""Every operator has a public class of its name, nodewise::ops::NAME: the
tables in contrib/ops/*.cc say so. A version whose attributes are not those of
the newest has the first opset in which it holds as a suffix: ops::Add1."""

import collections
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "contrib/ops"
HEADERS = ROOT / "contrib/include/nodewise/ops"

TABLE = re.compile(r"^constexpr OperatorDef \w+\[\] = \{\n(.*?)^\};",
                   re.M | re.S)
# A function that makes similar rows.
MAKER = re.compile(r"^constexpr OperatorDef (\w+)\((.*?)\) \{\n(.*?)^\}",
                   re.M | re.S)
# Row<ops::Relu, Relu>(ARGUMENTS), or such a function in place of Row.
ENTRY = re.compile(r"(\w+)<ops::(\w+)\b[^()]*>\((.*)\)", re.S)
# Row<ops::Relu, Relu>("Relu", 1, ...): the name and the opset come first.
IN_ORDER = re.compile(r"\bRow<[^()]*>\((?!\{)(.*)\)", re.S)

Row = collections.namedtuple("Row", "operator since public_class")


def split(text):
    """The parts between the commas that stand in no brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "([{<") - (char in ")]}>")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def row_of(entry, makers):
    """The row that an entry of a table makes."""
    found = ENTRY.fullmatch(entry)
    if found is None:
        raise ValueError(f"names no class ops::NAME: {entry}")
    function, public_class, arguments = found.groups()
    parameters, body = makers.get(function, ("", ""))
    given = dict(zip((part.split()[-1] for part in split(parameters)),
                     split(arguments)))

    in_order = IN_ORDER.match(entry) or IN_ORDER.search(body)
    set_to = dict(zip(("name", "since"), split(in_order[1]))) if in_order else {}
    set_to.update(re.findall(r"\.(name|since) = ([^,}]+)",
                             f"{body}\n{arguments}"))
    name, since = (given.get(set_to.get(key), set_to.get(key))
                   for key in ("name", "since"))
    if name is None:
        raise ValueError(f"names no operator: {entry}")
    return Row(name.strip('"'), int(since or 1), public_class)


def rows_of(source):
    shared = (SOURCES / "util/classic_rules.h").read_text(encoding="utf-8")
    makers = {name: (parameters, body)
              for name, parameters, body in MAKER.findall(shared + source)}
    return [row_of(entry, makers) for table in TABLE.findall(source)
            for entry in split(table)]


def wrong_classes(rows):
    """The rows whose class does not have the name that it should have."""
    first, newest = {}, {}
    for row in sorted(rows, key=lambda row: row.since):
        first.setdefault(row.public_class, row.since)
        newest[row.operator] = row

    def right_class(row):
        suffix = "" if row.public_class == newest[row.operator].public_class \
            else first[row.public_class]
        return f"{row.operator}{suffix}"
    return [row for row in rows if row.public_class != right_class(row)]


def sources():
    return {path.name: path.read_text(encoding="utf-8")
            for path in sorted(SOURCES.glob("*.cc"))}


def all_rows():
    return [row for source in sources().values() for row in rows_of(source)]


class OperatorClassesTest(unittest.TestCase):
    def test_every_row_has_a_public_class_of_its_name(self):
        # OV-36
        rows = all_rows()
        self.assertGreater(len(rows), 200)
        self.assertEqual(wrong_classes(rows), [])

    def test_every_family_has_rows(self):
        families = {name for name, source in sources().items()
                    if re.search(r"^absl::Span<const OperatorDef> \w+\(\)",
                                 source, re.M)}
        self.assertGreater(len(families), 30)
        for name in families:
            self.assertTrue(rows_of(sources()[name]), name)

    def test_every_class_of_a_row_is_in_the_header_of_its_family(self):
        # OV-36
        for name, source in sources().items():
            used = {row.public_class for row in rows_of(source)}
            if not used:
                continue
            header = (HEADERS / name).with_suffix(".h").read_text("utf-8")
            declared = set(re.findall(r"^struct (\w+)", header, re.M))
            self.assertEqual(used - declared, set(), name)

    def test_no_public_header_knows_rows(self):
        for path in HEADERS.glob("*.h"):
            self.assertNotIn("op_row.h", path.read_text(encoding="utf-8"), path)


TABLE_OF_ADD = '''
template <typename Class>
constexpr OperatorDef OldRow(const char* name, int since) {
  return Row<Class, Old<Class>>({.name = name,
                                 .since = since,
                                 .inputs = {"A", "B"}});
}
template <typename Class>
constexpr OperatorDef PairRow(int since, const char* name) {
  return Row<Class, Pair<Class>>(name, since, {"A", "B"}, {"C"});
}
constexpr OperatorDef kRows[] = {
    OldRow<ops::Add1>("Add", 1),
    RowOf<ops::Add, Adding>({.name = "Add", .since = 7, .inputs = {"A"}}),
    Row<ops::Not, Not>({.name = "Not", .traits = {.form = "flag"}}),
    Row<ops::Mul, Pair<ops::Mul>>("Mul", 7, {"A", "B"}, {"C"}, kExact,
                                  kElementwise),
    PairRow<ops::Sub>(8, "Sub"),
};
'''


class RowsOfTest(unittest.TestCase):
    def test_rows_are_read_with_what_a_function_adds(self):
        rows = rows_of(TABLE_OF_ADD)
        self.assertEqual(rows, [Row("Add", 1, "Add1"), Row("Add", 7, "Add"),
                                Row("Not", 1, "Not"), Row("Mul", 7, "Mul"),
                                Row("Sub", 8, "Sub")])
        self.assertEqual(wrong_classes(rows), [])

    def test_a_row_without_a_public_class_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "Row<Not>"):
            rows_of(TABLE_OF_ADD.replace("Row<ops::Not, Not>", "Row<Not>"))

    def test_classes_of_other_names_are_found(self):
        for wrong in (Row("Add", 1, "Add6"), Row("Add", 1, "Sub"),
                      Row("Add", 9, "Add9"), Row("Sub", 9, "Sub9")):
            rows = [Row("Add", 7, "Add"), wrong]
            self.assertIn(wrong, wrong_classes(rows))


if __name__ == "__main__":
    unittest.main()
