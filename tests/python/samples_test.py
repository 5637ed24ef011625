"""nodewise.compare_samples() and nodewise.runner()."""

import functools
import gc
import importlib.util
import math
import os
import subprocess
import sys
import types
import unittest
import weakref

import numpy
from package_support import (HAS_NATIVE, INPUTS, PACKAGE, PackageTest,
                             nodewise, onnxruntime_of)

compare_samples, runner, top1 = (nodewise.compare_samples, nodewise.runner,
                                 nodewise.top1)


def rows(*values):
    """Samples whose output is themselves."""
    return [{"y": numpy.array(value, numpy.float32)} for value in values]


def same(sample):
    return {"y": sample["y"].copy()}


def off_by(*errors):
    """A candidate that is off by another number in each sample."""
    left = iter(errors)

    def candidate(sample):
        return {"y": sample["y"] + numpy.float32(next(left))}
    return candidate


def refused(*arguments, **options):
    try:
        compare_samples(*arguments, **options)
    except nodewise.Error as error:
        return str(error)
    raise AssertionError("nothing was refused")


class CompareSamplesTest(unittest.TestCase):
    def test_errors_are_counted_by_output(self):
        answer = compare_samples(off_by(0, .5, .25), same, rows(1, 2, 3),
                                 tolerance=.3)
        output, = answer.outputs
        self.assertEqual(
            (output.max_error, output.mean_error, output.wrong_samples,
             output.first_wrong, output.worst), (.5, .25, 1, 1, 1))
        self.assertEqual(
            answer.said, "candidate differs from same: y is beyond its "
            "tolerance in 1 of 3 samples, first in sample 1 and most in sample "
            "1 (off by 0.5 at most, 1.67 times what is allowed).")
        self.assertEqual(answer.status, "differs")

    def test_what_is_within_the_tolerance_is_said_to_match(self):
        answer = compare_samples(off_by(0, .25), same, rows(1, 2), tolerance=1)
        self.assertIs(answer.raise_if_wrong(), answer)
        self.assertEqual(answer.said, "candidate matches same on 2 samples: y "
                         "is off by 0.25 at most.")

    def test_the_default_tolerance_is_that_of_the_element_types(self):
        for dtype, error, is_wrong in (("float32", 1e-5, False),
                                       ("float32", 1e-3, True),
                                       ("float16", 1e-3, False)):
            answer = compare_samples(
                lambda sample: {"y": (sample["y"] + error).astype(dtype)},
                same, rows([1.]))
            self.assertEqual(answer.is_wrong, is_wrong, (dtype, error))

    def test_each_form_of_a_tolerance_judges(self):
        def within(most):
            return lambda actual, expected: abs(actual - expected).max() <= most

        def error(actual, expected):
            return float(abs(actual - expected).max())
        for loose, tight in ((.6, .4), (within(.6), within(.4)),
                             ((error, .6), (error, .4)),
                             (numpy.array([.6, 0]), numpy.array([.4, 0])),
                             ({"rtol": .3}, {"rtol": .2}),
                             ({"atol": .6}, {"atol": .4})):
            for tolerance, is_wrong in ((loose, False), (tight, True)):
                for given in (tolerance, {"y": tolerance}):
                    answer = compare_samples(
                        lambda sample: {"y": sample["y"] + [.5, 0]}, same,
                        rows([2, 0]), tolerance=given)
                    self.assertEqual(answer.is_wrong, is_wrong, given)

    def test_an_error_that_is_nan_is_beyond_any_tolerance(self):
        answer = compare_samples(same, same, rows(1), tolerance=(
            lambda actual, expected: math.nan, 9))
        self.assertTrue(answer.is_wrong)

    def test_an_output_without_a_tolerance_of_its_own_has_the_default(self):
        def both(sample):
            return {"y": sample["y"], "z": sample["y"]}

        def wrong(sample):
            return {"y": sample["y"] + 1, "z": sample["y"] + 1}
        answer = compare_samples(wrong, both, rows(1), tolerance={"y": 2})
        self.assertEqual([each.is_wrong for each in answer.outputs],
                         [False, True])

    def test_numbers_that_are_not_finite_must_be_where_they_are_expected(self):
        nan, inf = math.nan, math.inf
        for found, expected, is_wrong in (
                ([nan, 1], [nan, 1], False), ([inf, 1], [inf, 1], False),
                ([nan, 1], [1, 1], True), ([1, 1], [nan, 1], True),
                ([inf, 1], [-inf, 1], True), ([1, 1], [inf, 1], True)):
            answer = compare_samples(
                lambda sample: {"y": numpy.array(found)},
                lambda sample: {"y": numpy.array(expected)}, rows(0),
                tolerance=1e30)
            self.assertEqual(answer.is_wrong, is_wrong, (found, expected))

    def test_another_shape_is_wrong(self):
        answer = compare_samples(lambda sample: {"y": sample["y"][None]}, same,
                                 rows([1, 2]), tolerance=9)
        self.assertTrue(answer.is_wrong)

    def test_samples_are_taken_one_at_a_time_and_not_kept(self):
        alive = []

        def samples():
            for i in range(50):
                sample = {"y": numpy.full(100, i, numpy.float32)}
                alive.append(weakref.ref(sample["y"]))
                yield sample
                del sample
                gc.collect()
                self.assertLessEqual(sum(ref() is not None for ref in alive), 1)
        answer = compare_samples(same, same, samples())
        self.assertEqual(answer.samples, 50)

    def test_a_limit_takes_no_sample_more(self):
        left = iter(rows(1, 2, 3))
        self.assertEqual(compare_samples(same, same, left, limit=2).samples, 2)
        self.assertEqual(next(left)["y"], 3)

    def test_the_inputs_of_the_worst_sample_are_handed_on(self):
        buffer = numpy.zeros(1, numpy.float32)

        def samples():
            for i in range(3):
                buffer[:] = i  # As a loader does that has one buffer.
                yield {"y": buffer}
        answer = compare_samples(off_by(0, 2, 1), same, samples())
        self.assertEqual(answer.worst_sample, 1)
        self.assertEqual(answer.worst_inputs["y"].tolist(), [1])

    def test_where_a_metric_judges_the_worst_sample_is_one_that_it_calls_bad(
            self):
        answer = compare_samples(
            off_by([9, 9], [0, .5], [8, 8]), same,
            rows([1, .9], [1, .9], [1, .9]), metric=top1)
        self.assertEqual(answer.worst_sample, 1)

    def test_what_neither_side_takes_is_noted_and_not_handed_on(self):
        side = runner(same, inputs="y")
        answer = compare_samples(side, side,
                                 [{"y": numpy.zeros(1), "label": 3}])
        self.assertEqual(answer.notes, ("inputs: neither side takes label",))
        self.assertEqual(list(answer.worst_inputs), ["y"])

    def test_a_result_is_a_table_with_a_row_for_each_sample_and_output(self):
        def two(sample):
            return {"y": sample["y"], "z": sample["y"] * 2}
        answer = compare_samples(two, two, rows([1, 2], [3, 4]),
                                 metric=functools.partial(top1, output="z"))
        fake = types.SimpleNamespace(DataFrame=dict)
        sys.modules["pandas"] = fake
        try:
            table = answer.to_dataframe()
        finally:
            del sys.modules["pandas"]
        self.assertEqual(list(table["sample"]), [0, 0, 1, 1])
        self.assertEqual(list(table["output"]), ["y", "z", "y", "z"])
        self.assertEqual({len(column) for column in table.values()}, {4})
        self.assertIn("top1(output=z)", table)

    def test_a_wrong_result_is_raised_with_the_answer(self):
        answer = compare_samples(off_by(1), same, rows(1))
        with self.assertRaises(nodewise.WrongResult) as caught:
            answer.raise_if_wrong()
        self.assertIs(caught.exception.answer, answer)
        self.assertEqual(str(caught.exception), answer.said)

    def test_names_from_outside_are_text_in_html(self):
        def named(sample):
            return {"<b>": sample["y"]}
        shown = compare_samples(named, named, rows(1))._repr_html_()
        self.assertIn("&lt;b&gt;", shown)
        self.assertNotIn("<b>", shown)

    def test_no_framework_is_imported(self):
        code = ("import nodewise, sys\n"
                "nodewise.compare_samples(dict, dict, [{'y': 1.0}])\n"
                "print(*sys.modules)")
        loaded = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(PACKAGE)}, check=True,
            text=True, stdout=subprocess.PIPE).stdout.split()
        for name in ("onnx", "onnxruntime", "torch", "tvm", "pandas",
                     "nodewise._native"):
            self.assertNotIn(name, loaded)


class MetricTest(unittest.TestCase):
    def test_a_changed_top_class_is_counted(self):
        answer = compare_samples(
            off_by([0, 0], [0, .5], [0, .5]), same,
            rows([1, .9], [1, .9], [.1, .9]), metric=top1)
        metric, = answer.metrics
        self.assertEqual((metric.value, metric.true_count, metric.first),
                         (1 / 3, 1, 1))
        self.assertEqual(answer.said, "candidate differs from same: the top "
                         "class changes in 1 of 3 samples, first in sample 1.")

    def test_rows_of_a_batch_count_one_by_one(self):
        answer = compare_samples(
            lambda sample: {"y": sample["y"][:, ::-1]}, same,
            rows([[1, 2], [2, 2], [2, 1]]), metric=top1)
        self.assertEqual((answer.metrics[0].true_count,
                          answer.metrics[0].elements), (2, 3))
        self.assertIn("in 2 of 3 rows", answer.said)

    def test_a_class_is_lost_where_nan_is_beside_it(self):
        nan = math.nan
        for found, expected, is_changed in (
                ([nan, 1], [2, 1], True), ([2, nan], [2, 1], True),
                ([nan, 1], [nan, 1], False)):
            self.assertEqual(bool(top1({"y": numpy.array(found)},
                                       {"y": numpy.array(expected)})),
                             is_changed, (found, expected))

    def test_classes_may_lie_along_any_side(self):
        expected = {"y": numpy.array([[1, 5], [2, 4]])}
        found = {"y": numpy.array([[1, 3], [2, 4]])}
        self.assertEqual(top1(found, expected, axis=0).tolist(), [False, True])
        self.assertEqual(top1(found, expected).tolist(), [False, False])

    def test_a_share_may_be_allowed(self):
        for most, is_wrong in ((.5, False), (.4, True)):
            answer = compare_samples(
                off_by([0, 1], [0, 0]), same, rows([1, .9], [1, .9]),
                metric=(top1, most))
            self.assertEqual(answer.is_wrong, is_wrong, most)

    def test_a_number_is_judged_by_its_mean_where_that_is_bounded(self):
        def error(candidate, reference):
            return abs(candidate["y"] - reference["y"])
        for metric, is_wrong in ((error, False), ((error, 2.5), False),
                                 ((error, 1.5), True)):
            answer = compare_samples(off_by(1, 3), same, rows(0, 0),
                                     metric=metric)
            self.assertEqual(answer.is_wrong, is_wrong, metric)
        self.assertEqual(answer.said, "candidate differs from same: error is 2 "
                         "on average (1.5 allowed), 3 in sample 1.")

    def test_nan_is_not_within_a_bound(self):
        answer = compare_samples(same, same, rows(1, 2), metric=(
            lambda candidate, reference: math.nan, 1))
        self.assertTrue(answer.is_wrong)

    def test_a_metric_of_three_is_given_the_sample(self):
        def misses(candidate, _, sample):
            return candidate["y"].argmax() != sample["label"]
        samples = [{"y": numpy.array([1, 2]), "label": label}
                   for label in (0, 1)]
        answer = compare_samples(same, same, samples, metric=misses)
        self.assertEqual(answer.metrics[0].true_count, 1)

    def test_a_tolerance_beside_a_metric_judges_too(self):
        alone = compare_samples(off_by(1), same, rows([1, 5]), metric=top1)
        self.assertFalse(alone.is_wrong)
        both = compare_samples(off_by(1), same, rows([1, 5]), metric=top1,
                               tolerance=.5)
        self.assertTrue(both.is_wrong)


class RefusedSamplesTest(unittest.TestCase):
    def test_nothing_to_compare_is_an_error(self):
        self.assertIn("inputs: has no sample", refused(same, same, []))

    def test_what_is_wrong_with_a_sample_names_it(self):
        good = rows(1)[0]
        self.assertIn("sample 1: is a tuple, expected a dict", refused(
            same, same, [good, (1, 2)]))
        self.assertIn("sample 1: has y, z, expected what the first sample has: "
                      "y", refused(same, same, [good, {**good, "z": 1}]))
        self.assertIn("inputs: is a str", refused(same, same, "x.npz"))
        self.assertIn("inputs: is a int", refused(same, same, 3))

    def test_what_a_side_raises_is_located(self):
        def broken(sample):
            if sample["y"] > 1:
                raise ValueError("no memory")
            return same(sample)
        self.assertIn("sample 1: reference: raised ValueError: no memory",
                      refused(same, broken, rows(1, 2)))

    def test_inputs_that_a_side_changes_are_refused(self):
        def writes(sample):
            sample["y"] += 1
            return {"y": sample["y"]}
        self.assertIn("sample 0: candidate writes: changed its input y",
                      refused(writes, same, rows([1, 2])))

    def test_outputs_are_paired_by_name(self):
        def other(sample):
            return {"a": sample["y"], "b": sample["y"]}

        def swapped(sample):
            return {"b": sample["y"] + 1, "a": sample["y"]}
        answer = compare_samples(swapped, other, rows(1))
        self.assertEqual([(each.name, each.is_wrong)
                          for each in answer.outputs],
                         [("a", False), ("b", True)])
        self.assertIn("candidate same made y, expected the outputs of other: "
                      "a, b", refused(same, other, rows(1)))

    def test_an_output_that_is_missing_later_is_named(self):
        def forgets(sample):
            return {"z": sample["y"]} if sample["y"] > 1 else same(sample)
        self.assertIn("sample 1: forgets made z, expected y",
                      refused(forgets, same, rows(1, 2)))

    def test_what_is_not_numbers_is_refused(self):
        self.assertIn("output y is a str", refused(
            lambda sample: {"y": "text"}, same, rows(1)))

    def test_tolerances_that_cannot_be_meant_are_refused(self):
        def error(actual, expected):
            return abs(actual - expected)
        for tolerance, said in (
                ({"z": 1}, "names z, expected names of outputs (y)"),
                (error, "or the most that it may be: (error, MOST)"),
                ((lambda a, b: True, 1), "a number that may be 1 at most"),
                (-1, "negative or NaN"), ("loose", "tolerance: is 'loose'"),
                (numpy.ones(3), "tolerance: is array")):
            with self.subTest(said):
                self.assertIn(said, refused(same, same, rows([1, 2]),
                                            tolerance=tolerance)
                              if tolerance is not error else
                              refused(same, same, rows(1),
                                      tolerance=tolerance))
        with self.assertRaisesRegex(ValueError, "atol: is missing"):
            compare_samples(same, same, rows(1), rtol=1)
        self.assertIn("one of both ways", refused(
            same, same, rows(1), tolerance=1, rtol=1, atol=1))

    def test_metrics_that_cannot_be_meant_are_refused(self):
        for metric, said in (
                (3, "metric: is 3"), ([top1, top1], "all different"),
                (lambda a, b: "yes", "returned 'yes'"),
                (functools.partial(top1, output="z"), "expected one of y"),
                (functools.partial(top1, axis=3), "along the side 3")):
            with self.subTest(said):
                self.assertIn(said, refused(same, same, rows([1, 2]),
                                            metric=metric))

    def test_what_refuses_a_sample_names_it_too(self):
        self.assertIn("sample 0: top1: y is [], expected two classes",
                      refused(same, same, rows(1), metric=top1))


class RunnerTest(PackageTest):
    def test_a_runner_names_what_its_function_returns(self):
        y = numpy.array([1., 2.])
        for made, outputs in ((y, "y"), ((y,), ["y"]), ([y], ("y",)),
                              ({"y": y, "loss": None, "z": 1}, "y")):
            side = runner(lambda sample, made=made: made, outputs=outputs)
            self.assertEqual(list(side({})), ["y"])
            self.assertIs(side({})["y"], y)

    def test_outputs_that_are_none_are_left_out(self):
        side = runner(lambda sample: {"y": 1., "loss": None})
        self.assertEqual(side({}), {"y": 1.})

    def test_what_a_function_returns_otherwise_is_refused(self):
        y = numpy.zeros(2)
        for made, outputs, said in (
                (y, None, "returned a ndarray, expected a dict"),
                ((y, y), "y", "returned 2 values, expected 1 value: y"),
                (y, ("y", "z"), "returned a ndarray, expected 2 values: y, z"),
                ({"a": y}, "y", "returned a, expected y")):
            side = runner(lambda _, made=made: made, name="mine",
                          outputs=outputs)
            self.assertIn("mine: " + said, self.refusal(side, {}))
        self.assertIn("mine: is given x, expected y", self.refusal(
            runner(same, name="mine", inputs="y"), {"x": 1}))
        with self.assertRaisesRegex(TypeError, "is a int, expected a function"):
            runner(3)

    def test_a_runtime_is_refused_with_what_to_do(self):
        side = nodewise.runtime(onnxruntime_of)
        self.assertIn("nodewise.runner(lambda sample: onnxruntime_of(MODEL",
                      refused(side, same, rows(1)))

    @unittest.skipUnless(HAS_NATIVE, "the native module was not built")
    def test_models_and_sessions_are_sides(self):
        run = functools.partial(onnxruntime_of, str(self.model), outputs=["y"])
        reference = runner(lambda sample: run(inputs=sample), name="ort")
        samples = [INPUTS, {"x": -INPUTS["x"]}]
        with nodewise.load(self.model) as session:
            for side in (session, self.model, self.model.read_bytes()):
                answer = compare_samples(side, reference, samples)
                self.assertEqual(answer.status, "ok", answer)
                self.assertEqual(answer.samples, 2)
            session.run(INPUTS)  # It is still open.

    @unittest.skipUnless(HAS_NATIVE, "the native module was not built")
    def test_the_worst_inputs_lead_to_the_culprit(self):
        net, reference = self.demo()
        rng = numpy.random.default_rng(1)
        shape = (1, 3, 32, 32)
        answer = compare_samples(
            net, reference, ({"image": rng.random(shape, numpy.float32)}
                             for _ in range(3)))
        self.assertTrue(answer.is_wrong)
        found = nodewise.locate(net, reference=reference,
                                inputs=answer.worst_inputs)
        self.assertEqual(len(found.culprits), 1, found)

    @unittest.skipUnless(importlib.util.find_spec("torch"),
                         "torch is not installed")
    def test_tensors_of_torch_are_samples(self):
        import torch  # pylint: disable=import-outside-toplevel,import-error
        samples = [{"y": torch.ones(3, requires_grad=True)}]
        answer = compare_samples(lambda s: {"y": s["y"] * 2},
                                 lambda s: {"y": s["y"] + 1}, samples)
        self.assertEqual(answer.status, "ok", answer)

    def test_a_model_is_judged_by_the_outputs_of_a_runner(self):
        def run(sample, factor=1):
            made = onnxruntime_of(str(self.model), sample, ["y"])
            return made["y"] * numpy.float32(factor)
        sound = runner(run, inputs="x", outputs="y")
        for answer in (nodewise.locate(sound, model=self.model, inputs=INPUTS),
                       nodewise.locate(self.model, reference=sound,
                                       model=self.model, inputs=INPUTS)):
            self.assertEqual(answer.status, "ok", answer)

    def test_that_a_runner_cannot_be_looked_into_is_said(self):
        def run(sample):
            return onnxruntime_of(str(self.model), sample, ["y"])["y"] + 1
        said = self.refusal(nodewise.locate, runner(run, outputs="y"),
                            model=self.model, inputs=INPUTS)
        self.assertIn("run: is a nodewise.runner, of which only outputs are "
                      "known", said)


if __name__ == "__main__":
    unittest.main()
