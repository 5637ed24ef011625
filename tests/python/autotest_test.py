"""Tests of operators in two libraries: nodewise.autotest."""

import contextlib
import os
import re
import subprocess
import sys
import types
import unittest

import numpy
from package_support import PACKAGE, PackageTest, nodewise, onnxruntime_of

from nodewise import autotest as package
from nodewise.autotest import (autotest, constant, dual, nothing, oneof, random,
                               random_bool, random_device, random_or_nothing,
                               random_tensor)
from nodewise.autotest.choices import Choices, simpler


class NumpyBut:
    """numpy with other functions in the place of some."""

    def __init__(self, **changed):
        self._changed = changed

    def __getattr__(self, name):
        return self._changed.get(name) or getattr(numpy, name)


def wrong_maximum(a, b):
    made = numpy.maximum(a, b)
    if made.ndim == 2 and made.shape[1] > 2:
        made[0, 2] += 1
    return made


def picky_matmul(a, b):
    if a.shape[0] > 3:
        raise ValueError("no kernel for so many rows")
    return numpy.matmul(a, b)


# Here, as programs that are printed import them.
WRONG = NumpyBut(maximum=wrong_maximum, matmul=picky_matmul)
BOTH = dual(WRONG, numpy, names=("WRONG", "numpy"))
SAME = dual(numpy, numpy)


def drawn(*generators, n=50):
    """The values of the generators in n cases."""
    values = []

    @autotest(n=n, seed=1)
    def body():
        values.append(tuple(each.value() for each in generators))
        SAME.abs(1.)
    body()
    return values


def said(body, error=nodewise.WrongResult, **options):
    """What a test says that fails."""
    try:
        autotest(**{"seed": 1, **options})(body)()
    except error as caught:
        return str(caught)
    raise AssertionError("the test passes")


class GeneratorsTest(unittest.TestCase):
    def test_random_numbers_have_the_ends_and_the_type_that_are_said(self):
        values = drawn(random(2, 5), random(0, 1).to(float), random(0.5, 2),
                       random(-2, 2), random_bool(), n=200)
        whole, floats, halves, signed, truths = (set(each)
                                                 for each in zip(*values))
        self.assertEqual(whole, {2, 3, 4})
        self.assertEqual(signed, {-2, -1, 0, 1})
        self.assertEqual(truths, {True, False})
        self.assertTrue(all(0 <= each < 1 for each in floats))
        self.assertTrue(all(.5 <= each < 2 for each in halves))
        self.assertGreater(len(floats), 100)

    def test_a_generator_has_one_value_in_a_case(self):
        k = random(1, 1000)
        values = drawn(k, k + 1, k * 2 - k, 2 * k // 2)
        self.assertTrue(all(b == a + 1 and c == a and d == a
                            for a, b, c, d in values))
        self.assertGreater(len(set(values)), 30)

    def test_one_of_several_has_the_odds_that_are_said(self):
        values = drawn(oneof("a", "b", possibility=.9), oneof(1, 2, 3),
                       random(5, 6) | constant(7), random_device("cpu", "npu"),
                       random_device(), n=300)
        first, second, third, fourth, fifth = zip(*values)
        self.assertTrue(.8 < first.count("a") / 300 < .97)
        self.assertTrue(60 < second.count(2) < 140)
        self.assertEqual(set(third), {5, 7})
        self.assertEqual(set(fourth), {"cpu", "npu"})
        self.assertEqual(set(fifth), {"cpu"})

    def test_nothing_leaves_an_argument_out(self):
        seen = set()

        def function(a, b="none", *, c="none"):
            seen.add((b, c))
            return a

        both = dual(function, function)

        @autotest(n=40, seed=1)
        def body():
            both(1., random_or_nothing(1, 2), c=random(3, 4) | nothing())
        body()
        self.assertEqual(seen, {(1, 3), (1, "none"), ("none", 3),
                                ("none", "none")})

    def test_the_type_is_that_of_the_parameter(self):
        seen = []

        # pylint: disable-next=too-many-arguments
        def function(a: float, b: bool, c: "int | None" = None, d=0.5, *,
                     e: tuple[int, int] = (1, 1)):
            seen.append((a, b, c, d, e))
            return a

        both = dual(function, function)

        @autotest(n=5, seed=1)
        def body():
            both(random(0, 2), random(), random(), d=random(0, 1), e=random())
        body()
        for a, b, c, d, e in seen:
            self.assertEqual([type(each) for each in (a, b, c, d, e, e[0])],
                             [float, bool, int, float, tuple, int])

    def test_tensors_have_the_sides_and_numbers_that_are_said(self):
        m = random(2, 4)
        for x, y, z, w in drawn(
                random_tensor(ndim=3, dim1=m, dim2=5),
                random_tensor(2, m, m, low=3, high=4, dtype="float64"),
                random_tensor(dtype=int, low=0, high=3),
                random_tensor(ndim=0, dtype=oneof("float16", bool))):
            self.assertEqual(x.array.shape[0], 1)
            self.assertEqual(x.array.shape[1:], (len(y.array), 5))
            self.assertEqual(x.array.dtype, numpy.float32)
            self.assertTrue((abs(x.array) <= 1).all())
            self.assertEqual(y.array.dtype, numpy.float64)
            self.assertTrue(((y.array >= 3) & (y.array <= 4)).all())
            self.assertIn(z.array.ndim, (1, 2, 3, 4, 5))
            self.assertTrue(set(z.array.ravel()) <= {0, 1, 2})
            self.assertEqual(w.array.shape, ())

    def test_what_is_written_for_a_tensor_makes_it(self):
        for tensor, in drawn(random_tensor(
                ndim=random(0, 4), dim0=random(0, 9), dim1=9, dtype=oneof(
                    "float32", "float16", "float64", int, bool, "bfloat16"),
                special=True), n=200):
            import ml_dtypes  # pylint: disable=import-outside-toplevel,unused-import
            again = eval(  # pylint: disable=eval-used
                tensor.code, {"numpy": numpy})
            self.assertEqual(again.dtype, tensor.array.dtype)
            self.assertEqual(again.shape, tensor.array.shape)
            self.assertEqual(again.tobytes(), tensor.array.tobytes(),
                             tensor.code)

    def test_special_numbers_are_drawn_if_asked_for(self):
        plain, special = zip(*drawn(random_tensor(), random_tensor(
            special=True), n=100))
        self.assertTrue(all(numpy.isfinite(each.array).all()
                            for each in plain))
        self.assertFalse(all(numpy.isfinite(each.array).all()
                             for each in special))

    def test_generators_that_contradict_themselves_are_errors(self):
        for make, error in ((lambda: random(3, 3).value(), "is empty"),
                            (lambda: random(.2, .4).to(int).value(),
                             "no whole number"),
                            (lambda: oneof(1, 2, possibility=[.5, .1]),
                             "add up to 1"),
                            (lambda: random_tensor(ndim=1, dim0=-1).value(),
                             "sides from 0 on")):
            self.assertIn(error, said(make, ValueError))
        self.assertIn("side=", said(lambda: random_tensor(side=1), TypeError))

    def test_outside_of_a_test_they_have_no_value(self):
        with self.assertRaisesRegex(RuntimeError, "outside of a test"):
            random().value()
        with self.assertRaisesRegex(RuntimeError, "outside of a test"):
            SAME.abs(1.)


class DualTest(PackageTest):
    def test_libraries_that_agree_pass(self):
        ran = []

        @autotest(n=7)
        def body():
            x = SAME.random_tensor(3, dim2=random(1, 5))
            y = (2 * x + SAME.exp(x.T).T - x) / 3
            ran.append(y[..., None].shape[-1] + len(y))
            y[0] = random_tensor(ndim=0)
            y += 1
            self.assertTrue((y == y[...]).all())
            return SAME.concatenate([y, y], axis=random(0, 3))
        body()
        self.assertEqual(len(ran), 7)

    def test_a_wrong_element_is_found_and_made_small(self):
        text = said(lambda: BOTH.exp(BOTH.maximum(random_tensor(
            random(1, 4), random(1, 9), random(1, 9)), 0.)))
        self.assertIn("numpy.maximum: the candidate differs: ", text)
        self.assertIn("Mismatched elements: 1 / 3 ", text)
        self.assertIn("at index (0, 2): 1, expected 0, off by 1", text)

    def test_what_one_side_alone_raises_is_found(self):
        def body():
            k = random(1, 6)
            BOTH.matmul(random_tensor(2, random(1, 9), k),
                        random_tensor(2, k, random(1, 6)))
        text = said(body)
        self.assertIn("numpy.matmul: the candidate raises ValueError (no "
                      "kernel for so many rows), and the reference returns a "
                      "ndarray", text)
        # Four rows and one column, and nothing is larger.
        self.assertEqual(text.count("numpy.array([[0.25], [-0.5], [-1.], [-1.]]"
                                    ", 'float32')"), 2, text)
        text = said(lambda: dual(numpy.matmul, picky_matmul)(
            random_tensor(2, 4, 1), random_tensor(2, 1, 1)))
        self.assertIn("the reference raises ValueError", text)

    def test_what_both_sides_raise_is_the_same(self):
        ran = []

        @autotest(n=10, seed=1)
        def body():
            ran.append(1)
            SAME.matmul(random_tensor(2, 1, random(1, 3)),
                        random_tensor(2, random(1, 3), 1))
        body()
        self.assertGreater(len(ran), 10)  # Others were drawn in their places.

        @autotest(n=2)
        def catches():
            with self.assertRaises(ValueError):
                SAME.ones(2).reshape(3)
        catches()

    def test_a_test_that_compares_nothing_is_an_error(self):
        self.assertIn("no case compares anything, since in all 20 both sides "
                      "raise, the last ValueError: ", said(
                          lambda: SAME.ones(2).reshape(3), nodewise.Error))
        self.assertIn("does nothing with a dual object",
                      said(lambda: None, nodewise.Error))

    def test_blocks_and_loops_are_of_both_sides(self):
        entered, left = [], []

        @contextlib.contextmanager
        def entering():
            entered.append(len(entered))
            yield 1
            # The last one in is the first one out.
            entered.pop()
            left.append(len(entered))

        def library(*values):
            return types.SimpleNamespace(
                entering=entering, values=lambda: iter(values),
                table=lambda: {"a": values[0]})

        def body():
            with both.entering() as one:
                self.assertEqual(one, 1)
                made = [int(each) for each in both.values()]
            self.assertEqual(made, [1, 2])
            self.assertEqual(list(both.table()), ["a"])
        both = dual(library(1, 2), library(1, 2))
        autotest(n=1)(body)()
        self.assertEqual((entered, left), ([], [1, 0]))
        both = dual(library(1, 3), library(1, 2))
        self.assertIn("list: the candidate differs: [1]", said(body))

    def test_types_and_shapes_are_compared(self):
        for change, text in (
                (lambda x: numpy.exp(x).astype(float), "'dtype' do not match"),
                (lambda x: numpy.exp(x)[None], "'shape' do not match"),
                (lambda x: (numpy.exp(x),), "is a tuple, expected a ndarray"),
                (lambda x: None, "is None, expected a ndarray")):
            both = dual(NumpyBut(exp=change), numpy)
            self.assertIn(text, said(lambda: both.exp(random_tensor())))

        @autotest(check_dtype=False)
        def body():
            dual(NumpyBut(exp=lambda x: numpy.exp(x).astype(float)), numpy).exp(
                random_tensor())
        body()

    def test_parts_of_results_are_named(self):
        def pair(x):
            return {"a": x, "b": [x, x + 1]}

        def wrong(x):
            return {"a": x, "b": [x, x]}
        self.assertIn("['b'][1]: Tensor-likes are not close", said(
            lambda: dual(wrong, pair)(random_tensor())))

    def test_tolerances_are_those_that_are_given(self):
        both = dual(lambda x: x * numpy.float32(1.01), lambda x: x)

        def body():
            both(random_tensor(1, 8, low=1, high=2))
        said(body)
        autotest(rtol=.02)(body)()
        autotest(rtol=0, atol=.03)(body)()
        # An integer that is off by little is as wrong.
        both = dual(lambda x: x + 1, lambda x: x)
        said(lambda: both(random_tensor(dtype=int, low=10 ** 9,
                                        high=2 * 10 ** 9)))

    def test_a_side_that_writes_to_its_inputs_is_found(self):
        def wrong(x):
            x[...] = 0
            return 1.
        self.assertIn("an input afterwards", said(
            lambda: dual(wrong, lambda x: 1.)(random_tensor(low=1, high=2))))

    def test_an_attribute_that_one_side_lacks_is_found(self):
        both = dual(types.SimpleNamespace(exp=numpy.exp), numpy)
        self.assertIn("log: the candidate raises AttributeError",
                      said(lambda: both.log(random_tensor())))
        self.assertIn("has no logg on either side",
                      said(lambda: both.logg(1), AttributeError))

    def test_functions_that_run_a_model_are_libraries(self):
        calls = []

        def model_of(x):
            calls.append(x)
            return onnxruntime_of(str(self.model), {"x": x}, ["y"])["y"]

        def right(x):
            return numpy.maximum(x * numpy.array([1, 2, 3], x.dtype)
                                 + numpy.array([10, 10, -10], x.dtype), 0)

        def body():
            x = random_tensor(1, 3, low=-20, high=20)
            both(x)
        both = dual(model_of, right)
        autotest(n=5)(body)()
        self.assertEqual(len(calls), 5)
        both = dual({"net": model_of}, {"net": lambda x: right(x) + (x > 9)})
        self.assertIn("net: the candidate differs",
                      said(lambda: both.net(random_tensor(
                          1, 3, low=8, high=20))))

    def test_tensors_are_made_as_a_side_says(self):
        both = dual(lambda x: [each * 2 for each in x],
                    lambda x: (x * 2).tolist(),
                    tensor=(numpy.ndarray.tolist, None))
        autotest(n=3)(lambda: both(random_tensor(1, 3, dtype=int)))()

    def test_an_error_of_the_test_itself_is_raised_with_the_seed(self):
        def body():
            SAME.exp(1.)
            raise KeyError("mine")
        with self.assertRaises(KeyError) as caught:
            autotest(seed=9)(body)()
        self.assertIn("NODEWISE_SEED=9", "".join(caught.exception.__notes__))

    def test_a_difference_that_a_test_catches_is_still_one(self):
        def wrong(x):
            x += 1
            return x
        both = dual({"add": wrong}, {"add": lambda x: x})
        for caught in (Exception, BaseException):
            def body(caught=caught):
                try:
                    both.add(random_tensor())
                except caught:  # pylint: disable=broad-except
                    pass
            self.assertTrue(said(body).startswith("reference.add: "))


class ChoicesTest(unittest.TestCase):
    def test_choices_become_fewer_and_smaller(self):
        def still_fails(given):
            return given if any(30 <= each for each in given) else None
        made, tries = simpler([7, 900, 3, 40, 2 ** 31], still_fails, 500, 60)
        self.assertEqual(made, [30])
        self.assertLess(tries, 100)

    def test_a_choice_that_is_left_out_is_the_simplest(self):
        choices = Choices([5, 9])
        self.assertEqual([choices.draw(7) for _ in range(4)], [5, 6, 0, 0])
        self.assertEqual(choices.made, [5, 6, 0, 0])

    def test_generators_that_never_end_are_an_error(self):
        def body():
            while True:
                oneof(1, 2).value()
        self.assertIn("expected generators that come to an end",
                      said(body, RuntimeError))


class RunTest(unittest.TestCase):
    def test_a_seed_draws_the_same_cases(self):
        def drawn_with(seed):
            values = []

            @autotest(n=5, seed=seed)
            def body():
                values.append(random_tensor().value().array.tolist())
                SAME.abs(1.)
            body()
            return values
        self.assertEqual(drawn_with(1), drawn_with(1))
        self.assertNotEqual(drawn_with(1), drawn_with(2))

    def test_the_seed_that_is_printed_repeats_the_failure(self):
        def body():
            BOTH.maximum(random_tensor(2, random(1, 4), random(1, 9)), 0.)
        first = said(body, seed=None)
        seed = re.search(r"NODEWISE_SEED=(\d+)", first).group(1)
        os.environ["NODEWISE_SEED"] = seed
        self.addCleanup(os.environ.pop, "NODEWISE_SEED")
        self.assertEqual(said(body, seed=None), first)
        os.environ["NODEWISE_SEED"] = "many"
        self.assertIn("expected a whole number", said(body, ValueError,
                                                      seed=None))

    def test_the_programs_that_are_printed_run_and_show_it(self):
        def body():
            x = BOTH.random_tensor(2, random(1, 4), random(1, 9))
            y = BOTH.concatenate((x, x[:, ::-1] + random_tensor(ndim=0)),
                                 axis=random(0, 2))
            y[0, 0] = 5.
            BOTH.maximum(BOTH.minimum(-y, float("inf")),
                         random(-9, -8).to(float))
        text = said(body)
        wrong, right = (eval(each, {  # pylint: disable=eval-used
            "array": numpy.array, "float32": "float32", "inf": numpy.inf})
                        for each in run_programs(self, text))
        self.assertEqual(wrong.shape, right.shape)
        off = wrong - right
        self.assertEqual((off[0, 2], numpy.count_nonzero(off)), (1, 1), text)
        self.assertEqual(right[0, 0], -5)  # What was set is set there, too.

    def test_programs_of_functions_run(self):
        text = said(lambda: dual(wrong_maximum, numpy.maximum)(
            random_tensor(2, 1, 3), 0.))
        self.assertEqual(len(run_programs(self, text)), 2)

    def test_a_program_says_how_a_library_is_made(self):
        local = NumpyBut(maximum=wrong_maximum)
        both = dual(local, numpy, names=("mine", None), setup=(
            [f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})",
             "from autotest_test import WRONG as mine"], None))
        text = said(lambda: both.maximum(random_tensor(2, 1, 3), 0.))
        self.assertIn("print(mine.maximum(", text)
        run_programs(self, text)
        text = said(lambda: dual(local, numpy).maximum(
            random_tensor(2, 1, 3), 0.))
        self.assertIn("candidate = ...  # Not importable: dual(setup=)", text)

    def test_a_failure_that_is_not_there_each_time_is_said_to_be_so(self):
        left = [1]
        text = said(lambda: dual(lambda x: left.pop() if left else 0,
                                 lambda x: 0)(random_tensor()))
        self.assertIn("it does not fail each time", text)

    def test_a_case_is_made_simpler_in_so_many_tries(self):
        text = said(lambda: BOTH.maximum(random_tensor(
            2, random(1, 9), random(3, 9)), 0.), most_tries=3)
        self.assertIn("made simpler in 3 tries", text)

    def test_the_module_is_the_decorator(self):
        ran = []

        @nodewise.autotest
        def plain():
            ran.append(SAME.abs(-1.))

        @nodewise.autotest(n=3)
        def counted():
            ran.append(SAME.abs(-1.))
        plain()
        counted()
        self.assertEqual(len(ran), 23)
        self.assertIs(nodewise.autotest, package)
        self.assertEqual(counted.__name__, "counted")

    def test_options_that_mean_nothing_are_refused(self):
        with self.assertRaisesRegex(TypeError, "check_graph=True, expected it "
                                    "left out"):
            autotest(check_graph=True)
        with self.assertRaisesRegex(ValueError, "n is 0"):
            autotest(n=0)

    def test_the_example_of_the_package_runs(self):
        import doctest  # pylint: disable=import-outside-toplevel
        failed, tried = doctest.testmod(package)
        self.assertEqual(failed, 0)
        self.assertGreater(tried, 4)


def run_programs(test, text):
    """What the programs of a message print, that of the candidate first."""
    programs = re.findall(r"as a program:\n\n((?:    .*\n)+)", text)
    test.assertEqual(len(programs), 2, text)
    printed = []
    for program in programs:
        code = re.sub("^    ", "", program, flags=re.M)
        # In full, so that it can be read again.
        code = re.sub(r"^print\((.*)\)$", r"print(repr(\1))", code, flags=re.M)
        done = subprocess.run(
            [sys.executable, "-c", code], text=True, capture_output=True,
            check=False, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        test.assertEqual(done.returncode, 0, done.stderr + code)
        printed.append(done.stdout)
    return printed


if __name__ == "__main__":
    unittest.main()
