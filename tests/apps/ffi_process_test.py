"""Libraries of TVM-FFI in processes that do not make it easy: the runtime is
loaded privately, or TVM's own runtime is there as well.

Environment: NODEWISE_BUILD is the build folder.
"""

import ctypes
import pathlib
import subprocess
import sys
import unittest

from c_api import BUILD, INT, LIBRARIES, Runtime

ADD = "tvmgen_default_fused_add"
ERROR = "TypeError: Expected 3 arguments when calling: add"


def load_rival():
    return ctypes.CDLL(str(LIBRARIES / "ffi_rival.so"),
                       mode=ctypes.RTLD_GLOBAL)


def error_of(runtime, library):
    """The message of a kernel that is called with one argument."""
    module = runtime.load(LIBRARIES / f"{library}.so")
    try:
        runtime.call(module, ADD, ("v_int64", 1, INT))
    except RuntimeError as error:
        return str(error)
    return "no error"


def private():
    runtime = Runtime()
    for library in ("ffi_add", "ffi_add_now", "ffi_add_22", "ffi_add_21"):
        print(error_of(runtime, library))


def rival_first():
    rival = load_rival()
    print(error_of(Runtime(), "ffi_add"))
    print("alive:", rival.rival_errors_alive())


def rival_later():
    runtime = Runtime()
    print(error_of(runtime, "ffi_add"))
    rival = load_rival()
    print(error_of(runtime, "ffi_add"))
    print("alive:", rival.rival_errors_alive())


def rival_asks():
    """Code that the rival has loaded raises its errors here."""
    runtime = Runtime()
    print(error_of(runtime, "ffi_add"))
    rival = load_rival()
    ours = ctypes.CDLL(str(BUILD / "lib" / "libnodewise_runtime.so"))
    ours.TVMFFIErrorSetRaisedFromCStr(b"ValueError", b"for the rival")
    print("has:", rival.rival_has_error())


class FfiProcessTest(unittest.TestCase):
    """One process each: what is loaded first decides who gets the errors."""

    def expect(self, scenario, lines):
        done = subprocess.run(
            [sys.executable, str(pathlib.Path(__file__).resolve()),
             scenario.__name__],
            text=True, capture_output=True, check=False)
        self.assertEqual((done.stdout.splitlines(), done.stderr), (lines, ""))
        self.assertEqual(done.returncode, 0)

    def test_error_function_is_found_though_we_are_loaded_privately(self):
        self.expect(private, 4 * [ERROR])

    def test_error_that_another_runtime_took_is_fetched(self):
        self.expect(rival_first, [ERROR, "alive: 0"])

    def test_error_stays_ours_when_another_runtime_comes_later(self):
        self.expect(rival_later, [ERROR, ERROR, "alive: 0"])

    def test_another_runtime_finds_what_was_raised_for_it(self):
        self.expect(rival_asks, [ERROR, "has: 1"])


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] in globals():
        globals()[sys.argv[1]]()
    else:
        unittest.main()
