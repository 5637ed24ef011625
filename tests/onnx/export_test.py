"""What nodewise writes as ONNX models, judged by ONNX's own checker."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import onnx_package

BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD",
                                    onnx_package.ROOT / "build"))
# One case in so many; all of them with --full.
STEP = 1 if os.environ.get("NODEWISE_TEST_FULL") else 10

# Prints what is wrong with the models. The checker wants a shape of every
# output; where the rank is not known there is none to state.
CHECK = """
import sys, onnx
for path in sys.argv[1:]:
    model = onnx.load(path)
    try:
        if all(output.type.tensor_type.HasField("shape")
               for output in model.graph.output):
            onnx.checker.check_model(model)
        else:
            print("unknown rank", path)
    except Exception as error:
        print(path, str(error).splitlines()[0])
"""

OUTPUTS = """
import sys, onnx
for path in sys.argv[1:]:
    print(path, *[x.name for x in onnx.load(path).graph.output])
"""


def nodewise(*arguments):
    return subprocess.run([BUILD / "bin/nodewise", *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60, check=False)


class ExportTest(unittest.TestCase):
    def test_the_checker_accepts_what_is_written(self):
        data = onnx_package.need() / "backend/test/data"
        models = sorted(data.glob("node/*/model.onnx"))[::STEP]
        written = []
        with tempfile.TemporaryDirectory() as folder:
            for line in onnx_package.run("-c", OUTPUTS,
                                         *models).stdout.splitlines():
                path, *outputs = line.split(" ")
                target = f"{folder}/{pathlib.Path(path).parent.name}.onnx"
                wanted = [f"--to={name}" for name in outputs]
                if nodewise("extract", path, *wanted, "-o",
                            target).returncode == 0:
                    written.append(target)
            self.assertTrue(written)
            checked = onnx_package.run("-c", CHECK, *written)
            lines = (checked.stdout + checked.stderr).splitlines()
            unknown = [x for x in lines if x.startswith("unknown rank")]
            self.assertEqual([x for x in lines if x not in unknown], [])
            self.assertLess(len(unknown), len(written) / 20)


if __name__ == "__main__":
    unittest.main()
