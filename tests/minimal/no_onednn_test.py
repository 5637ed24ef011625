"""With USE_ONEDNN OFF the reference computes models, and says so; with USE_LAB
OFF, as there too, all but the verbs of the lab is there.

Environment: NODEWISE_BUILD is the build folder; what is tested is in its
folder without_onednn, which `./dev test --full` makes.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["NODEWISE_BUILD"]) / "without_onednn"
COMMAND = BUILD / "bin/nodewise"


@unittest.skipUnless(COMMAND.exists(), "it is built with --full only")
class NoOneDnnTest(unittest.TestCase):
    def run_command(self, *words):
        shown = subprocess.run(
            [COMMAND, *words], text=True, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=100, check=False)
        self.assertEqual(shown.returncode, 0, shown)
        return shown.stdout

    def test_the_main_job_runs_and_the_option_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            shown = self.run_command("demo", "-o", folder)
            self.assertIn("That is what was named.", shown)
            shown = self.run_command("run",
                                     pathlib.Path(folder) / "model.onnx",
                                     "--random-inputs", "1")
            self.assertIn("this build has no oneDNN (USE_ONEDNN", shown)

    def test_without_the_lab_no_case_is_drawn(self):
        shown = subprocess.run(
            [COMMAND, "autotest", "--op", "Relu"], text=True,
            capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
            check=False)
        self.assertEqual(shown.returncode, 2, shown)
        self.assertIn("autotest: needs the lab", shown.stderr)

    def test_the_command_needs_no_onednn(self):
        needed = subprocess.run(
            ["readelf", "-d", COMMAND], text=True, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=60, check=True).stdout
        self.assertIn("NEEDED", needed)
        self.assertNotIn("dnnl", needed)


if __name__ == "__main__":
    unittest.main()
