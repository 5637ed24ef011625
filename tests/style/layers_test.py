"""Who may include whom: the layers of docs/architecture.md, on the tree.

The path of a header is its layer: runtime/include/nodewise/graph/params.h is a
public header of runtime/graph. To add a folder, name it in BUILDS_ON; a library
of others, in THIRD_PARTY.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What stands directly to the left of each folder; it may use that, and all
# that stands to the left of that in turn.
BUILDS_ON = {
    "runtime/support": "",
    "runtime/device": "runtime/support",
    "runtime/ndarray": "runtime/device",
    "runtime/func": "runtime/ndarray",
    "runtime/module": "runtime/func",
    "runtime/cpu": "runtime/module",
    "runtime/opencl": "runtime/module",
    "runtime/cuda": "runtime/module",
    "runtime/graph": "runtime/cpu runtime/opencl runtime/cuda",
    "runtime/vm": "runtime/graph",
    "runtime/artefact": "runtime/vm",
    "runtime/dump": "runtime/artefact",
    "runtime/debug": "runtime/dump",
    "runtime/profile": "runtime/debug",
    "runtime/process": "runtime/debug",
    "runtime/memcheck": "runtime/profile runtime/process",
    "runtime/sweep": "runtime/profile runtime/process",
    "runtime/builtin": "runtime/memcheck runtime/sweep",
    "contrib/tensors": "runtime/builtin",
    "contrib/random": "runtime/builtin",
    "contrib/op": "contrib/tensors contrib/random",
    "contrib/ir": "contrib/op",
    "contrib/kernels": "contrib/ir",
    "contrib/ops": "contrib/kernels",
    "contrib/passes": "contrib/ops",
    "contrib/onnx": "contrib/ops",
    "contrib/interp": "contrib/ops",
    "contrib/onednn": "contrib/ops",
    "contrib/lower": "contrib/ops",
    "contrib/precision": "contrib/interp",
    "contrib/emit_c": "contrib/lower",
    "contrib/runner": "contrib/passes contrib/onnx contrib/interp "
                      "contrib/onednn contrib/lower",
    "contrib/regions": "contrib/runner",
    "contrib/foreign": "contrib/runner",
    "contrib/guarded": "contrib/runner",
    "contrib/runners": "contrib/regions contrib/foreign contrib/guarded",
    "contrib/compare": "contrib/tensors",
    "contrib/align": "contrib/runners contrib/compare",
    "contrib/repro": "contrib/runners contrib/compare",
    "contrib/locate": "contrib/align contrib/repro",
    "contrib/session": "contrib/locate contrib/precision contrib/emit_c",
    "contrib/two_models": "contrib/align contrib/precision",
    "contrib/diagnose": "contrib/session contrib/two_models",
    "contrib/report": "contrib/diagnose",
    "contrib/demo": "contrib/passes contrib/precision contrib/emit_c",
    "contrib/lab/zoo": "contrib/demo",
    "contrib/lab/planter": "contrib/runner",
    "contrib/lab/gradient": "contrib/precision",
    "contrib/lab/autotest": "contrib/report contrib/lab/gradient",
    "apps/nodewise": "contrib/demo contrib/lab/autotest contrib/lab/planter "
                     "contrib/lab/zoo",
    "apps/network-debugger": "contrib/report",
    "apps/python": "contrib/report",
    # Source for programs with TVM's headers: it knows no header of ours.
    "apps/tvm_host": "",
}

# What USE_PROFILER OFF leaves out.
DEBUGGER = ("runtime/debug", "runtime/profile", "runtime/process",
            "runtime/memcheck", "runtime/sweep")

# Folders that are compiled where they are installed, away from this tree: their
# files include each other by name alone.
STANDS_ALONE = {"apps/tvm_host"}

# Rows of how an include begins, the folders it may stand in ("" for all,
# None for none of these) and what kinds of file: the first row that fits.
ANYWHERE, ONLY_CC = ("public", "private", "cc"), ("cc",)
THIRD_PARTY = [
    ("absl/status/status.h", "", ANYWHERE),
    ("absl/status/statusor.h", "", ANYWHERE),
    ("absl/types/span.h", "", ANYWHERE),
    ("absl/functional/function_ref.h", "", ANYWHERE),
    ("absl/container/inlined_vector.h", "", ANYWHERE),
    ("absl/", "", ONLY_CC),
    ("dlpack/", "", ANYWHERE),
    ("dmlc/", "", ONLY_CC),
    ("nlohmann/", "", ONLY_CC),
    # Templates that take a message's format are shared within a folder.
    ("fmt/format.h", "", ("private", "cc")),
    # What support/status.h makes messages with, the one public header.
    ("fmt/core.h", "runtime/support", ANYWHERE),
    ("fmt/", "", ONLY_CC),
    ("re2/", "runtime/dump contrib/precision contrib/runner", ONLY_CC),
    ("xxhash.h", "runtime/ndarray", ONLY_CC),
    ("xxh_x86dispatch.h", "runtime/ndarray", ONLY_CC),
    ("zlib.h", "contrib/tensors", ONLY_CC),
    ("CLI/", "apps/nodewise", ("private", "cc")),
    ("nanobind/", "apps/python", ("private", "cc")),
    ("google/protobuf/", "contrib/onnx", ("private", "cc")),
    ("dnnl", "contrib/onednn", ("private", "cc")),
    ("oneapi/", "contrib/onednn", ("private", "cc")),
    ("CL/", "runtime/opencl", ("private", "cc")),
    ("cuda", "runtime/cuda", ("private", "cc")),
    ("nvrtc", "runtime/cuda", ("private", "cc")),
    ("gtest/", None, ()),
    ("gmock/", None, ()),
    ("benchmark/", None, ()),
    ("linux/", "runtime/profile", ONLY_CC),
    ("tvm/", "apps/tvm_host", ("private", "cc")),
    ("sys/", "", ANYWHERE),
]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def folder_of_header(include):
    """The folder whose public header is included so, or None."""
    parts = include.split("/")
    for top in ("runtime", "contrib", "contrib/lab"):
        if len(parts) == 3 and f"{top}/{parts[1]}" in BUILDS_ON:
            return f"{top}/{parts[1]}"
    return None


def usable_from(folder):
    """The folder, and every folder to its left."""
    found, open_ends = set(), [folder]
    while open_ends:
        at = open_ends.pop()
        if at not in found:
            found.add(at)
            open_ends += BUILDS_ON[at].split()
    return found


def kind_of(path):
    if "/include/" in path:
        return "public"
    return "private" if path.endswith(".h") else "cc"


def folder_of(path):
    """The folder of BUILDS_ON that a file belongs to, or None."""
    if kind_of(path) == "public":
        top, include = path.split("/include/")
        folder = folder_of_header(include)
        return folder if folder and folder.startswith(top + "/") else None
    # contrib/lab holds folders, as contrib itself does.
    parts = path.split("/")
    folder = "/".join(parts[:3 if parts[:2] == ["contrib", "lab"] else 2])
    return folder if folder in BUILDS_ON else None


def own_include_problem(path, folder, include):
    """What is wrong with including a header of this project, or None."""
    if include.startswith("nodewise/"):
        target = folder_of_header(include)
        if target is None:
            return f"{include} is in no folder of BUILDS_ON"
        if target not in usable_from(folder):
            return f"{folder} may not use {target} ({include})"
        return None
    if kind_of(path) == "public":
        return f"a public header includes the private {include}"
    if not include.startswith(folder + "/"):
        return f"{include} is private to its folder"
    return None


def third_party_problem(path, folder, include):
    for start, homes, kinds in THIRD_PARTY:
        if include.startswith(start):
            if homes is None:
                return f"{include} belongs in tests"
            if homes and folder not in homes.split():
                return f"{include} belongs in {homes}"
            if kind_of(path) not in kinds:
                return f"{include} may not stand in a {kind_of(path)} header"
            return None
    if "/" in include:
        return f"{include} is in no row of THIRD_PARTY"
    return None


def is_own(include):
    return include.split("/")[0] in ("nodewise", "runtime", "contrib", "apps",
                                     "tests")


def is_relative(path, quote, include, tree):
    """Whether an include leans on the folder of the file it stands in."""
    if quote == "<":
        return False
    beside = path.rsplit("/", 1)[0] + "/" + include
    return include.startswith(".") or beside in tree


def problems_of(path, text, tree):
    folder = folder_of(path)
    if folder is None:
        return [f"{path}: is in no folder of BUILDS_ON"]
    found = []
    for match in INCLUDE.finditer(text):
        quote, include = match.groups()
        if is_own(include):
            problem = own_include_problem(path, folder, include)
        elif is_relative(path, quote, include, tree):
            problem = (None if folder in STANDS_ALONE and "/" not in include
                       else f"{include} should be written from the root")
        else:
            problem = third_party_problem(path, folder, include)
        if problem:
            line = text[:match.start(1)].count("\n") + 1
            found.append(f"{path}:{line}: {problem}")
    return found


def violations(tree):
    """`tree` is path -> text; all that is wrong with it, in path order."""
    return [problem for path in sorted(tree)
            for problem in problems_of(path, tree[path], tree)]


def read_tree():
    paths = [path for top in ("runtime", "contrib", "apps")
             for path in (ROOT / top).rglob("*")
             if path.suffix in (".cc", ".h", ".c", ".inc")]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


class LayersTest(unittest.TestCase):
    def test_every_include_goes_to_the_left(self):
        tree = read_tree()
        self.assertTrue(tree, "found no source file")
        found = violations(tree)
        if found:
            self.fail("\n" + "\n".join(found))


class LayersSelfTest(unittest.TestCase):
    """The check on made-up files: one that is right, then one wrong each."""

    def expect(self, path, include, problem):
        text = f"// Text.\n#include {include}\n"
        expected = [f"{path}:2: {problem}"] if problem else []
        tree = {path: text, "runtime/graph/node.h": ""}
        self.assertEqual(violations(tree), expected)

    def test_right_ones_pass(self):
        header = "runtime/include/nodewise/ndarray/ndarray.h"
        for path, include in [
                ("runtime/graph/params.cc", '"nodewise/module/module.h"'),
                ("runtime/graph/params.cc", '"nodewise/graph/params.h"'),
                ("runtime/graph/params.cc", '"runtime/graph/node.h"'),
                ("runtime/graph/params.cc", '"runtime/graph/deep/node.h"'),
                ("runtime/graph/params.cc", "<nlohmann/json.hpp>"),
                ("runtime/graph/params.cc", '"absl/strings/str_cat.h"'),
                ("runtime/graph/params.cc", "<dmlc/io.h>"),
                ("runtime/graph/params.cc", "<node.h>"),
                ("contrib/tensors/numpy.cc", "<zlib.h>"),
                ("contrib/compare/compare.cc", '"nodewise/ndarray/ndarray.h"'),
                ("apps/nodewise/main.cc", "<CLI/CLI.hpp>"),
                ("apps/nodewise/main.cc", '"nodewise/func/c_api.h"'),
                (header, "<vector>"),
                (header, "<sys/types.h>"),
                (header, '"absl/status/statusor.h"'),
                (header, "<dlpack/dlpack.h>")]:
            with self.subTest(path=path, include=include):
                self.expect(path, include, None)

    def test_a_layer_to_the_right_is_refused(self):
        self.expect("runtime/device/x.cc", '"nodewise/ndarray/ndarray.h"',
                    "runtime/device may not use runtime/ndarray "
                    "(nodewise/ndarray/ndarray.h)")

    def test_a_layer_beside_is_refused(self):
        self.expect("runtime/cpu/x.cc", "<nodewise/opencl/opencl.h>",
                    "runtime/cpu may not use runtime/opencl "
                    "(nodewise/opencl/opencl.h)")

    def test_the_runtime_has_not_heard_of_contrib(self):
        self.expect("runtime/builtin/x.cc",
                    '"nodewise/tensors/tensor_file.h"',
                    "runtime/builtin may not use contrib/tensors "
                    "(nodewise/tensors/tensor_file.h)")

    def test_a_public_header_has_the_layer_of_its_folder(self):
        self.expect("runtime/include/nodewise/ndarray/dtype.h",
                    '"nodewise/graph/graph_json.h"',
                    "runtime/ndarray may not use runtime/graph "
                    "(nodewise/graph/graph_json.h)")

    def test_a_private_header_stays_in_its_folder(self):
        self.expect("runtime/debug/x.cc", '"runtime/graph/node.h"',
                    "runtime/graph/node.h is private to its folder")

    def test_nothing_includes_apps(self):
        self.expect("contrib/report/x.cc", '"apps/nodewise/command.h"',
                    "apps/nodewise/command.h is private to its folder")

    def test_a_public_header_includes_no_private_one(self):
        self.expect("runtime/include/nodewise/graph/params.h",
                    '"runtime/graph/node.h"',
                    "a public header includes the private "
                    "runtime/graph/node.h")

    def test_a_relative_include_is_refused(self):
        for include in "node.h", "../graph/node.h":
            self.expect("runtime/graph/x.cc", f'"{include}"',
                        f"{include} should be written from the root")

    def test_what_is_compiled_elsewhere_includes_its_neighbours_by_name(self):
        path = "apps/tvm_host/x.cc"
        tree = {path: '#include "y.h"\n#include <tvm/runtime/module.h>\n',
                "apps/tvm_host/y.h": ""}
        self.assertEqual(violations(tree), [])
        self.expect(path, '"nodewise/module/module.h"',
                    "apps/tvm_host may not use runtime/module "
                    "(nodewise/module/module.h)")
        self.expect("apps/nodewise/x.cc", "<tvm/runtime/module.h>",
                    "tvm/runtime/module.h belongs in apps/tvm_host")

    def test_a_public_header_mirrors_a_folder(self):
        problem = "is in no folder of BUILDS_ON"
        for path in ("runtime/include/nodewise/novel/novel.h",
                     "runtime/include/nodewise/novel.h",
                     "runtime/include/nodewise/tensors/tensor_file.h"):
            self.assertEqual(violations({path: ""}), [f"{path}: {problem}"])
        for include in "nodewise/novel/novel.h", "nodewise/graph.h":
            self.expect("runtime/graph/x.cc", f'"{include}"',
                        f"{include} {problem}")

    def test_a_folder_that_is_in_no_table_is_named(self):
        self.assertEqual(violations({"runtime/novel/x.cc": ""}),
                         ["runtime/novel/x.cc: is in no folder of BUILDS_ON"])

    def test_third_party_headers_stay_at_home(self):
        for include, home in [("<CLI/CLI.hpp>", "apps/nodewise"),
                              ("<zlib.h>", "contrib/tensors"),
                              ("<CL/cl.h>", "runtime/opencl"),
                              ("<gtest/gtest.h>", "tests"),
                              ("<gmock/gmock.h>", "tests"),
                              ("<benchmark/benchmark.h>", "tests")]:
            with self.subTest(include=include):
                self.expect("runtime/graph/x.cc", include,
                            f"{include[1:-1]} belongs in {home}")

    def test_headers_that_may_stand_in_cc_files_only(self):
        header = "runtime/include/nodewise/ndarray/ndarray.h"
        for include in ("nlohmann/json.hpp", "dmlc/io.h", "fmt/ranges.h",
                        "absl/strings/string_view.h"):
            with self.subTest(include=include):
                self.expect(header, f"<{include}>",
                            f"{include} may not stand in a public header")
                self.expect("runtime/graph/x.h", f"<{include}>",
                            f"{include} may not stand in a private header")

    def test_an_unknown_library_is_named(self):
        self.expect("runtime/graph/x.cc", "<boost/any.hpp>",
                    "boost/any.hpp is in no row of THIRD_PARTY")


if __name__ == "__main__":
    unittest.main()
