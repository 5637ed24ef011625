"""nodewise compare, on files made here."""

import unittest

import support
from support import (DATA, Scratch, Tensor, add_bias_graph, document, nodewise,
                     npy_bytes, params_bytes)

LIBRARY = support.Library()


def floats(*values):
    return Tensor("float32", (len(values),), list(values))


class Compare(Scratch):
    def params(self, name, **tensors):
        return self.write(name, params_bytes(tensors))

    def test_equal_sets_agree(self):
        a = self.params("a.params", x=floats(1, 2), y=floats(3))
        b = self.params("b.params", y=floats(3), x=floats(1, 2))
        result = nodewise("compare", a, b)
        self.assertEqual((result.code, result.err), (0, ""), result)
        self.assertEqual(result.out, "2 tensors compared: 2 equal\n")

    def test_what_differs_is_named_with_the_element_and_the_tolerance(self):
        a = self.params("a.params", x=floats(1, 2), y=floats(3))
        b = self.params("b.params", x=floats(1, 2.5), y=floats(3))
        result = nodewise("compare", a, b)
        self.assertEqual(result.code, 1, result)
        for text in ("first error: x float32 (2,)",
                     "1 of 2 elements beyond atol 1e-05, rtol 0.0001",
                     "at element 1 found 2.5, expected 2",
                     "would pass with atol 0.5, rtol 0.0001",
                     "2 tensors compared: 1 equal, 1 error"):
            self.assertIn(text, result.out)

    def test_the_document_has_every_tensor(self):
        a = self.params("a.params", x=floats(3, 4), y=floats(3))
        b = self.params("b.params", x=floats(3, 5), y=floats(3))
        result = nodewise("compare", a, b, "--json")
        self.assertEqual(result.code, 1)
        shown = document(result)
        self.assertEqual(shown["status"], "differs")
        self.assertEqual([t["tensor"] for t in shown["tensors"]], ["x", "y"])
        x = shown["tensors"][0]
        self.assertEqual(x["verdict"], "error")
        self.assertEqual(x["worst"], {"element": 1, "expected": 4.0,
                                      "actual": 5.0, "error": 1.0})
        self.assertAlmostEqual(x["rmse"], 0.5 ** 0.5)
        self.assertAlmostEqual(x["relative_error"], 0.25)
        self.assertEqual(x["above_hundredth"], 1)
        self.assertIsNone(shown["tensors"][1]["snr_db"])

    def test_two_files_of_one_tensor_are_compared_under_any_names(self):
        a = self.write("from_cpp.npy", npy_bytes(floats(1, 2)))
        b = self.write("from_python.npy", npy_bytes(floats(1, 3)))
        result = nodewise("compare", a, b)
        self.assertEqual(result.code, 1, result)
        self.assertIn("first error: from_cpp -> from_python float32 (2,)",
                      result.out)

    def test_inputs_of_other_shapes_are_told_apart_by_what_is_in_them(self):
        values = [float(i * i % 101) for i in range(24)]
        turned = [values[c * 8 + p] for p in range(8) for c in range(3)]
        a = self.params("a.params", x=Tensor("float32", (3, 8), values))
        b = self.params("b.params", x=Tensor("float32", (8, 3), turned))
        result = nodewise("compare", a, b)
        self.assertEqual(result.code, 1, result)
        self.assertIn("it is what is expected, with the axes in the order 1, 0",
                      result.out)

    def test_the_shape_of_the_failure_is_told(self):
        values = [float(i * i % 101) for i in range(400)]
        wrong = [x + 7 if i % 8 == 3 else x for i, x in enumerate(values)]
        a = self.params("a.params", x=floats(*values))
        b = self.params("b.params", x=floats(*wrong))
        result = nodewise("compare", a, b)
        self.assertIn("every-nth: only at every 8th element, from 3 on",
                      result.out)
        shown = document(nodewise("compare", a, b, "--json"))["tensors"][0]
        self.assertEqual([p["shape"] for p in shown["patterns"]],
                         ["every-nth"])
        self.assertEqual(shown["ulp_histogram"][0], 350)

    def test_a_tolerance_lets_pass(self):
        a = self.write("a.npy", npy_bytes(floats(1, 100)))
        b = self.params("b.params", a=floats(1.25, 101))
        for options, code in ((["--atol", "1"], 0), (["--atol", "0.5"], 1),
                              (["--rtol", "0.25"], 0),
                              (["--atol", "0.25", "--rtol", "0.01"], 0),
                              (["--threshold", "0.5"], 1),
                              (["--threshold", "1"], 0)):
            with self.subTest(options=options):
                self.assertEqual(nodewise("compare", a, b, *options).code, code)

    def test_ascends_rule_warns(self):
        expected = [2.0] * 1000
        a = self.params("a.params", x=floats(*expected))
        b = self.params("b.params", x=floats(2.01, *expected[1:]))
        result = nodewise("compare", a, b, "--rule", "ascend", "--json")
        self.assertEqual(document(result)["tensors"][0]["verdict"], "error")
        b = self.params("b.params", x=floats(2.0015, *expected[1:]))
        result = nodewise("compare", a, b, "--rule", "ascend", "--json")
        self.assertEqual(document(result)["tensors"][0]["verdict"], "warning")
        self.assertEqual(result.code, 0)
        self.assertEqual(nodewise("compare", a, b, "--rule", "ascend",
                                  "--strict").code, 1)

    def test_the_worst_is_shown_first_unless_the_order_is_asked_for(self):
        a = self.params("a.params", x=floats(1), y=floats(1), z=floats(1))
        b = self.params("b.params", x=floats(1 + 1e-6), y=floats(2),
                        z=floats(9))
        def shown(*options):
            lines = nodewise("compare", a, b, *options).out.split("\n")
            return "".join(line.split()[0] for line in lines[1:4])
        self.assertEqual(shown(), "zyx")
        self.assertEqual(shown("--sort", "error"), "zyx")
        self.assertEqual(shown("--sort", "order"), "xyz")
        self.assertIn("--sort: found \"size\", expected error or order",
                      self.refused("compare", a, b, "--sort", "size"))

    def test_what_only_one_side_has_is_listed(self):
        a = self.params("a.params", x=floats(1), y=floats(3))
        b = self.params("b.params", x=floats(1), z=floats(3))
        result = nodewise("compare", a, b)
        self.assertEqual(result.code, 0)
        self.assertIn("1 tensor compared: 1 equal; 2 skipped", result.out)
        self.assertRegex(result.out, "y +the candidate does not have it")
        self.assertRegex(result.out, "z +the reference does not have it")
        self.assertEqual(nodewise("compare", a, b, "--strict").code, 1)

    def test_another_type_is_a_difference(self):
        a = self.params("a.params", x=floats(1, 2), y=floats(3))
        b = self.params("b.params", y=floats(3),
                        x=Tensor("float64", (2,), [1, 2]))
        result = nodewise("compare", a, b)
        self.assertEqual(result.code, 1)
        self.assertIn("2 tensors compared: 1 equal, 1 differs in type, shape "
                      "or hash\n", result.out)
        self.assertRegex(result.out, r"differs +x +.*is float64 \(2,\), "
                         r"expected float32 \(2,\)")
        self.assertEqual(nodewise("compare", a, b, "--convert").code, 0)

    def test_nothing_to_compare_is_an_error(self):
        a = self.params("a.params", x=floats(1))
        b = self.params("b.params", z=floats(1))
        self.assertIn("there is nothing to compare",
                      self.refused("compare", a, b))

    def test_a_map_pairs_other_names(self):
        a = self.params("a.params", x=floats(1))
        b = self.params("b.params", z=floats(1))
        names = self.write("names.txt", b"# ours theirs\nx z\n")
        result = nodewise("compare", a, b, "--map", names)
        self.assertEqual(result.code, 0, result)
        names = self.write("names.txt", b"x\n")
        self.assertIn("names.txt:1", self.refused("compare", a, b, "--map",
                                                  names))

    def test_names_are_paired_fuzzily_if_asked(self):
        a = self.params("a.params", **{"/Conv_1/output_0": floats(1)})
        b = self.params("b.params", **{"conv_1": floats(2)})
        result = nodewise("compare", a, b, "--fuzzy")
        self.assertEqual(result.code, 1, result)
        self.assertIn("/Conv_1/output_0 -> conv_1", result.out)

    def test_dumps_are_compared(self):
        self.make_network(LIBRARY, add_bias_graph())
        for run in ("a", "b"):
            result = nodewise("dump", self.net, "--inputs", self.inputs,
                              "--dump-root", self.folder / run)
            self.assertEqual(result.code, 0, result)
        result = nodewise("compare", self.folder / "a", self.folder / "b")
        self.assertEqual((result.code, result.err), (0, ""), result)
        self.assertIn("3 tensors compared: 3 equal", result.out)

    def test_a_dump_that_is_cut_short_is_an_error_that_shows_the_rest(self):
        self.make_network(LIBRARY, add_bias_graph())
        for run in ("a", "b"):
            nodewise("dump", self.net, "--inputs", self.inputs,
                     "--dump-root", self.folder / run)
        tensors, = (self.folder / "b").glob("*/output_tensors.params")
        tensors.write_bytes(tensors.read_bytes()[:-3])
        result = nodewise("compare", self.folder / "a", self.folder / "b")
        self.assertEqual(result.code, 2, result)
        self.assertIn("is cut short, 1 tensor missing", result.err)
        self.assertIn("2 equal, 1 with equal hashes", result.out)

    def test_statistics_are_compared_by_their_hashes(self):
        self.make_network(LIBRARY, add_bias_graph())
        for run in ("a", "b"):
            nodewise("dump", self.net, "--inputs", self.inputs, "--what",
                     "stats", "--dump-root", self.folder / run)
        result = nodewise("compare", self.folder / "a", self.folder / "b")
        self.assertEqual(result.code, 0, result)
        self.assertIn("tensors compared: 3 with equal hashes", result.out)

    def test_bad_use_is_refused(self):
        a = self.write("a.npy", npy_bytes(DATA))
        table = [
            (["--rule", "exact"], 'found "exact", expected one of bounds'),
            (["--rule", "tolerance"], "expected --atol or --rtol"),
            (["--atol", "-1"], 'found "-1", expected a number from 0 on'),
            (["--rtol", "x"], 'found "x"'),
            (["--rule", "ascend", "--rtol", "1"], "--rule tolerance with it"),
            (["--rule", "ascend", "--threshold", "1"], "--rule absolute"),
            (["--map", self.folder / "none"], "none: cannot open"),
        ]
        for options, message in table:
            with self.subTest(options=options):
                self.assertIn(message, self.refused("compare", a, a, *options))
        self.assertIn("23 are left", self.refused(
            "compare", a, self.write("b.npy", npy_bytes(DATA)[:-1])))


if __name__ == "__main__":
    unittest.main()
