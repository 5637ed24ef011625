"""With USE_ONNX OFF the command is built without protobuf and operators, and
when it is given a model it says which option to set.

Environment: NODEWISE_BUILD is the build folder; what is tested is in its
folder minimal.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["NODEWISE_BUILD"]) / "minimal"


class NoOnnxTest(unittest.TestCase):
    def test_a_model_is_refused_and_names_the_option(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model.onnx"
            model.write_bytes(b"")
            for words in (["verify", model], ["inspect", model],
                          ["run", model, "--reference"]):
                shown = subprocess.run(
                    [BUILD / "bin/nodewise", *words], text=True,
                    capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
                    check=False)
                self.assertEqual(shown.returncode, 2, shown)
                self.assertIn("-DUSE_ONNX=ON", shown.stderr + shown.stdout)

    def test_a_dump_is_not_compared_with_a_model_and_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model.onnx"
            model.write_bytes(b"")
            shown = subprocess.run(
                [BUILD / "bin/nodewise", "compare", folder, model], text=True,
                capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
                check=False)
            self.assertEqual(shown.returncode, 2, shown)
            self.assertIn("compare of a dump with a model: needs",
                          shown.stderr)

    def test_without_the_lab_its_verbs_name_the_option(self):
        for verb in ("autotest", "adapter"):
            shown = subprocess.run(
                [BUILD / "bin/nodewise", verb], text=True,
                capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
                check=False)
            self.assertEqual(shown.returncode, 2, shown)
            self.assertIn(f"{verb}: needs the lab", shown.stderr)
            self.assertIn("-DUSE_LAB=ON", shown.stderr)

    def test_the_command_needs_no_protobuf(self):
        needed = subprocess.run(
            ["readelf", "-d", BUILD / "bin/nodewise"], text=True,
            capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
            check=True).stdout
        self.assertIn("NEEDED", needed)
        self.assertNotIn("protobuf", needed)

    def test_no_operator_is_compiled(self):
        objects = [path.name for path in BUILD.rglob("*.o")
                   if "nodewise_ops.dir" in str(path)]
        self.assertEqual(objects, [])


if __name__ == "__main__":
    unittest.main()
