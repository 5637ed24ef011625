"""The reference against onnxruntime: every operator in every version, whole
networks, and random operators. onnxruntime's deviations from the
specification that the cases go around are listed in ort_deviations.md."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import onnx_package

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD",
                                    onnx_package.ROOT / "build"))
FULL = bool(os.environ.get("NODEWISE_TEST_FULL"))
SEEDS = (1, 2, 3, 4) if FULL else (1,)
TIMEOUT = 1500


def need_onnxruntime():
    onnx_package.need()
    if not list(onnx_package.VENV.glob(
            "lib/python3*/site-packages/onnxruntime")):
        raise unittest.SkipTest(
            "onnxruntime is not installed in build/venv (./dev setup)")


def execute(command):
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=TIMEOUT,
                          check=False)


class OnnxruntimeTest(unittest.TestCase):
    def compare(self, part, *options):
        need_onnxruntime()
        with tempfile.TemporaryDirectory() as folder:
            generate = [onnx_package.PYTHON, HERE / "ort_cases.py", folder,
                        part, *options]
            judge = [BUILD / "bin/nodewise_onnx_backend", folder]
            made = execute(generate)
            ran = execute(judge)
        repeat = "\n".join(" ".join(map(str, command)).replace(
            folder, "FOLDER") for command in (generate, judge))
        print(made.stdout + ran.stdout[-4000:])
        self.assertEqual(made.returncode, 0,
                         f"to repeat:\n{repeat}\n{made.stdout}{made.stderr}")
        self.assertEqual(ran.returncode, 0,
                         f"to repeat:\n{repeat}\n{ran.stdout}{ran.stderr}")

    def test_operators_of_every_version(self):
        for seed in SEEDS:
            self.compare("operators", "--seed", seed, "--step",
                         1 if FULL else 5)

    def test_whole_networks(self):
        for seed in SEEDS:
            self.compare("networks", "--seed", seed)

    def test_random_operators(self):
        for seed in SEEDS:
            self.compare("random", "--seed", seed, "--count",
                         2500 if FULL else 200)

    def test_onnxruntimes_own_operators(self):
        for seed in SEEDS:
            self.compare("contrib", "--seed", seed, "--count",
                         700 if FULL else 25)

    def test_what_they_mean_is_a_model_of_onnx(self):
        need_onnxruntime()
        with tempfile.TemporaryDirectory() as folder:
            made = execute([onnx_package.PYTHON, HERE / "ort_cases.py", folder,
                            "contrib", "--count", 40 if FULL else 5])
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
            ran = execute([onnx_package.PYTHON, HERE / "ort_exported.py",
                           BUILD / "bin/nodewise", folder])
            print(ran.stdout[-2000:])
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
