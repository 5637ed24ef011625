"""The assertions of nodewise.testing."""

import functools
import importlib.util
import os
import subprocess
import sys
import unittest

import numpy
from package_support import (INPUTS, PACKAGE, PackageTest, nodewise,
                             onnxruntime_of)

from nodewise.testing import assert_close, assert_matches


def has(package):
    return importlib.util.find_spec(package) is not None


def close(*arrays, **options):
    try:
        assert_close(*arrays, **options)
    except AssertionError:
        return False
    return True


class OnlyDlpack:
    """A tensor of a library that numpy does not know."""

    def __init__(self, *values):
        self._array = numpy.array(values, numpy.float32)

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class AssertCloseTest(unittest.TestCase):
    def said(self, *arrays, error=AssertionError, **options):
        with self.assertRaises(error) as caught:
            assert_close(*arrays, **options)
        return str(caught.exception)

    def test_tolerances_are_those_of_the_table_of_torch(self):
        for name, rtol, atol in (("float16", 1e-3, 1e-5),
                                 ("float32", 1.3e-6, 1e-5),
                                 ("float64", 1e-7, 1e-7),
                                 ("complex64", 1.3e-6, 1e-5),
                                 ("complex128", 1e-7, 1e-7)):
            expected = numpy.array([1000], name)
            step = numpy.array(rtol * 1000 + atol, name)
            self.assertTrue(close(expected + step * .7, expected), name)
            self.assertFalse(close(expected + step * 1.5, expected), name)
        for name in ("int32", "uint8", "bool"):
            self.assertFalse(close(numpy.array([1], name),
                                   numpy.array([0], name)), name)

    def test_verdicts_are_those_of_numpy(self):
        rng = numpy.random.default_rng(1)
        special = numpy.array([0, numpy.nan, numpy.inf, -numpy.inf, 1e30])
        verdicts = set()
        for _ in range(500):
            expected = rng.choice([*rng.normal(size=3), *special], 3)
            actual = expected * (1 + rng.choice([0, 1e-3, 1e-5], 3))
            options = {"rtol": 1e-4, "atol": 1e-6,
                       "equal_nan": bool(rng.integers(2))}
            verdict = bool(numpy.isclose(actual, expected, **options).all())
            self.assertEqual(close(actual, expected, **options), verdict,
                             (actual, expected, options))
            verdicts.add(verdict)
        self.assertEqual(verdicts, {True, False})

    @unittest.skipUnless(has("torch"), "torch is not installed")
    def test_verdicts_are_those_of_torch(self):
        import torch  # pylint: disable=import-outside-toplevel,import-error
        rng = numpy.random.default_rng(1)
        for i in range(400):
            name = ("float32", "float16", "float64", "int64", "bool")[i % 5]
            expected = (rng.normal(size=2) * 10).astype(name)
            actual = (expected * (1 + rng.choice([0, 0, 1e-2, 1e-6], 2))
                      ).astype(name)
            pair = [torch.from_numpy(each) for each in (actual, expected)]
            try:
                torch.testing.assert_close(*pair)
                verdict = True
            except AssertionError:
                verdict = False
            self.assertEqual(close(*pair), verdict, pair)
            self.assertEqual(close(actual, pair[1]), verdict, pair)

    @unittest.skipUnless(has("torch"), "torch is not installed")
    def test_tensors_of_torch_are_taken_in_every_type(self):
        import torch  # pylint: disable=import-outside-toplevel,import-error
        for kind in (torch.bfloat16, torch.float8_e4m3fn, torch.float16):
            tensor = torch.tensor([1., 2.]).to(kind)
            assert_close(tensor, tensor.clone())
            self.assertIn("at index (1,): 3, expected 2", self.said(
                torch.tensor([1., 3.]).to(kind), tensor))
        assert_close(torch.ones(2, requires_grad=True), torch.ones(2))

    def test_the_message_names_the_worst_element(self):
        expected = numpy.array([[1, 2], [100, 4]], numpy.float32)
        actual = numpy.array([[1.5, 2], [103, 4]], numpy.float32)
        self.assertEqual(self.said(actual, expected, rtol=1e-2, atol=0), """\
Tensor-likes are not close!

Mismatched elements: 2 / 4 (50.0%)
Worst element at index (0, 0): 1.5, expected 1, off by 0.5 (0.01 allowed)
Greatest absolute difference: 3 at index (1, 0) (up to 0 allowed)
Greatest relative difference: 0.5 at index (0, 0) (up to 0.01 allowed)""")

    def test_values_have_the_digits_that_tell_them_apart(self):
        self.assertIn("1.00000000001, expected 1,",
                      self.said(1.00000000001, 1., rtol=0, atol=0))
        self.assertIn("3.14159, expected 2.5,",
                      self.said(3.14159265358979, 2.5))

    def test_integers_of_any_size_are_exact(self):
        large = numpy.array([2 ** 63 - 1, -2 ** 63])
        said = self.said(large[::-1], large)
        self.assertIn("expected 9223372036854775807, off by "
                      "18446744073709551615\n", said)
        self.assertFalse(close(large - numpy.array([1, 0]), large))

    def test_nan_and_infinities_are_named(self):
        said = self.said(numpy.array([numpy.nan, 1, numpy.nan, 2]),
                         numpy.array([5, numpy.inf, numpy.nan, 2]))
        self.assertIn("NaN found: 2 elements, first at index (0,), where 5 is "
                      "expected", said)
        self.assertIn("infinity expected: 1 element, first at index (1,), "
                      "where 1 is found", said)
        self.assertNotIn("Greatest", said)

    def test_elements_that_are_close_do_not_count(self):
        # 0 / 0, and a difference that is larger and allowed.
        said = self.said(numpy.array([0, 1001., 1]),
                         numpy.array([0, 1000., 1.1]), rtol=1e-2, atol=0)
        self.assertNotIn("nan", said)
        self.assertIn("Greatest absolute difference: 0.1 at index (2,)", said)

    def test_a_message_is_short_however_many_elements_differ(self):
        self.assertLess(len(self.said(numpy.ones(100000), numpy.zeros(100000))),
                        500)

    def test_the_key_of_what_differs_is_named(self):
        said = self.said({"a": 1., "b": [1., {"c": 2., "d": 3.}]},
                         {"a": 1., "b": [1., {"c": 2.5, "d": 4.}]})
        self.assertIn("The failure occurred for item ['b'][1]['c']", said)
        self.assertIn("Not close either: ['b'][1]['d']", said)

    def test_structures_must_be_the_same(self):
        self.assertIn("lengths of the sequences do not match: 1, expected 2",
                      self.said([1], [1, 2]))
        self.assertIn("missing ['b'], not expected ['c']",
                      self.said({"a": 1, "c": 2}, {"a": 1, "b": 2}))
        self.assertIn("missing ['b'], not expected []",
                      self.said({"a": 1}, {"a": 1, "b": 2}))
        self.assertIn("missing [], not expected ['b']",
                      self.said({"a": 1, "b": 2}, {"a": 1}))
        self.assertIn("None, expected a float", self.said({"a": None},
                                                          {"a": 1.}))
        self.assertIn("['a']: is a str, expected a float",
                      self.said({"a": "1"}, {"a": 1.}, error=TypeError))

    def test_shape_and_type_must_be_the_same(self):
        one = numpy.ones(3, numpy.float32)
        self.assertIn("'shape' do not match: (3, 1), expected (3,)",
                      self.said(one[:, None], one))
        self.assertIn("'dtype' do not match: float64, expected float32",
                      self.said(one.astype(float), one))
        self.assertIn("'dtype' do not match: int64, expected float64",
                      self.said(1, 1.))
        assert_close(one.astype(float), one, check_dtype=False)
        self.assertIn("'stride' do not match: (1, 3), expected (2, 1)",
                      self.said(numpy.ones((2, 3)).T, numpy.ones((3, 2)),
                                check_stride=True))

    def test_of_two_types_the_larger_tolerance_counts(self):
        half = numpy.array([1.], numpy.float16)
        self.assertTrue(close(half, numpy.array([1.0005]), check_dtype=False))
        self.assertFalse(close(numpy.array([1.]), numpy.array([1.0005])))

    def test_a_bound_is_for_each_element(self):
        expected = numpy.array([1., 2, 3])
        assert_close(expected + .1, expected, bound=[.2, .2, .2])
        said = self.said(expected + .1, expected, bound=[.2, .05, .2])
        self.assertIn("at index (1,): 2.1, expected 2, off by 0.1 "
                      "(0.05 allowed)", said)
        assert_close({"y": [1.1]}, {"y": [1.]}, bound={"y": .2})
        self.assertFalse(close({"y": [1.1]}, {"y": [1.]}, bound={"y": [.05]}))
        self.assertFalse(close(numpy.nan, 1., bound=numpy.inf))

    def test_a_bound_must_fit(self):
        for bound, said in ((numpy.ones(2), "has the shape (2,), expected one "
                             "that fits (3,)"),
                            (-1, "negative or NaN"), (numpy.nan, "or NaN")):
            self.assertIn(said, self.said(
                numpy.ones(3), numpy.ones(3), bound=bound, error=ValueError))
        self.assertIn("bound: has no 'y'", self.said(
            {"y": 1.}, {"y": 1.}, bound={}, error=ValueError))

    def test_tolerances_are_given_together_or_not_at_all(self):
        for options in ({"rtol": 1}, {"atol": 1}, {"rtol": -1, "atol": 0},
                        {"rtol": 1, "atol": 1, "bound": 1}):
            self.assertIn("expected", self.said(1., 1., error=ValueError,
                                                **options))

    @unittest.skipUnless(has("ml_dtypes"), "ml_dtypes is not installed")
    def test_short_floats_of_ml_dtypes_are_numbers(self):
        import ml_dtypes  # pylint: disable=import-outside-toplevel
        expected = numpy.array([1, 100], ml_dtypes.bfloat16)
        assert_close(numpy.array([1, 101], ml_dtypes.bfloat16), expected)
        self.assertIn("at index (1,): 104, expected 100", self.said(
            numpy.array([1, 104], ml_dtypes.bfloat16), expected))
        self.assertFalse(close(numpy.array([1], ml_dtypes.float8_e4m3fn),
                               numpy.array([1.125], ml_dtypes.float8_e4m3fn)))

    def test_what_only_has_dlpack_is_taken(self):
        assert_close(OnlyDlpack(1, 2), numpy.array([1, 2], numpy.float32))
        self.assertIn("at index (1,)", self.said(OnlyDlpack(1, 2),
                                                 OnlyDlpack(1, 3)))

    def test_a_message_may_be_given(self):
        self.assertEqual(self.said(1., 2., msg="no"), "no")
        self.assertTrue(self.said(1., 2., msg="mine: {}".format)
                        .startswith("mine: Scalars are not close!"))

    def test_it_is_there_without_an_import_of_its_own(self):
        code = "import nodewise; nodewise.testing.assert_close(1., 1.)"
        subprocess.run([sys.executable, "-c", code], check=True,
                       env={**os.environ, "PYTHONPATH": str(PACKAGE)})


class AssertMatchesTest(PackageTest):
    def test_a_wrong_build_fails_with_the_first_sentence(self):
        net, reference = self.demo()
        with self.assertRaises(nodewise.WrongResult) as caught:
            assert_matches(net, reference, random_inputs=1)
        self.assertIsInstance(caught.exception, AssertionError)
        self.assertEqual(str(caught.exception), caught.exception.answer.said)
        self.assertIn(" is wrong", caught.exception.answer.said)
        self.assertEqual(len(caught.exception.answer.culprits), 1)

    def test_what_is_right_returns_its_answer(self):
        answer = assert_matches(self.model, inputs=INPUTS)
        self.assertEqual(answer.status, "ok")

    def test_a_function_runs_the_model_that_it_is_compared_with(self):
        def wrong(factor, path, inputs, outputs):
            made = onnxruntime_of(path, inputs, outputs)
            if "y" in made:
                made["y"] = made["y"] * numpy.float32(factor)
            return made

        assert_matches(onnxruntime_of, self.model, inputs=INPUTS)
        for function in (functools.partial(wrong, 2),
                         nodewise.runtime(functools.partial(wrong, 2))):
            with self.assertRaisesRegex(nodewise.WrongResult, "last .Relu."):
                assert_matches(function, self.model, inputs=INPUTS)

    def test_a_function_may_be_right(self):
        assert_matches(self.model, onnxruntime_of, inputs=INPUTS)

    def test_what_cannot_be_judged_is_not_a_wrong_result(self):
        with self.assertRaises(nodewise.Error) as caught:
            assert_matches(self.model)
        self.assertNotIsInstance(caught.exception, AssertionError)
        self.assertIn("input x: was not given", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
