"""ONNX's backend cases that TVM imports: nodewise runs the library that TVM
makes of one, and every output has the bits of TVM's own VM. Those that do not
are in onnx_cases.tsv, by class."""

import functools
import unittest

import onnx_cases
import tvm_package

STEP = 1 if tvm_package.IS_FULL else 45


@functools.cache
def wanted():
    tvm_package.need()
    tvm_package.need("onnx")
    return onnx_cases.names()[::STEP]


@functools.cache
def found():
    return onnx_cases.classify(wanted())


class OnnxTest(unittest.TestCase):
    def test_every_case_is_as_listed(self):
        listed = onnx_cases.listed()
        for name in wanted():
            state = found()[name]
            with self.subTest(name):
                self.assertEqual(onnx_cases.class_of(state),
                                 listed.get(name, ""), state)

    def test_95_of_100_that_tvm_runs_have_its_bits(self):
        classes = [onnx_cases.class_of(state) for state in found().values()]
        same = classes.count("")
        ran = same + classes.count("refused") + classes.count("differs")
        print(f"{same} of {ran} have TVM's bits, of {len(classes)} cases")
        self.assertGreaterEqual(same, 0.95 * ran)
        self.assertGreater(ran, 0.4 * len(classes))

    def test_the_list_and_its_counts_are_what_the_cases_say(self):
        if not tvm_package.IS_FULL:
            self.skipTest("needs every case: --full")
        self.assertEqual(onnx_cases.LIST.read_text(),
                         onnx_cases.text_of(found()))


if __name__ == "__main__":
    unittest.main()
