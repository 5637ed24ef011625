"""What a network's functions do to the process that they are guests of."""

import unittest

from debug_support import DebugLibrary, chain
from support import DATA, Scratch, document, nodewise, npy_bytes

LIBRARY = None


def setUpModule():
    global LIBRARY
    LIBRARY = DebugLibrary()


def tearDownModule():
    LIBRARY.close()


class GuestTest(Scratch):
    def run_chain(self, verb, *functions, options=()):
        net = LIBRARY.artefact(self.folder / "chain", chain(*functions), {})
        data = self.folder / "data.npy"
        data.write_bytes(npy_bytes(DATA))
        return nodewise(verb, net, "--input", f"data={data}", *options)

    def test_what_a_function_prints_is_not_in_the_document(self):
        for verb, options in [("run", []), ("run", ["--isolate"]),
                              ("run", ["--sweep"]), ("profile", []),
                              ("dump", ["--dump-root", self.folder / "d"])]:
            with self.subTest(verb=verb, options=options):
                result = self.run_chain(verb, "speak",
                                        options=["--json", *options])
                self.assertEqual(result.code, 0, result)
                self.assertEqual(document(result)["verb"], verb)
                self.assertIn("spoken by a kernel", result.err)

    def test_function_that_exits_is_no_success(self):
        for verb in "run", "profile":
            result = self.run_chain(verb, "copy", "quit")
            self.assertEqual((result.code, result.out), (2, ""))
            self.assertIn("called exit() (nodewise run --isolate", result.err)

    def test_isolation_says_which_function_exits(self):
        result = self.run_chain("run", "copy", "quit", options=["--isolate"])
        self.assertEqual(result.code, 1)
        self.assertIn("node 2 (quit_1): ended the process with exit status 0",
                      result.out)


if __name__ == "__main__":
    unittest.main()
