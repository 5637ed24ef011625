"""The files of inputs that a library with bytecode takes dimensions from."""

import os
import struct
import unittest
import unittest.mock

from support import (BUILD, ROOT, Scratch, Tensor, compile_library, document,
                     nodewise, npy_bytes, params_bytes, with_one)

BLOBS = BUILD / "tests/libraries/blobs"
SOURCES = ROOT / "tests/data/libraries"
X = Tensor("float32", (4,), [1, 2, 3, 4])

# Writes 0 over the end of a file as soon as it is loaded.
SPOILER = r"""
#include <stdio.h>
#include <stdlib.h>
#include "%s/ffi_add.c"
#include "%s/vm_ffi.c"
__attribute__((constructor)) static void spoil(void) {
  const float zero = 0;
  FILE* file = fopen(getenv("NODEWISE_TEST_INPUTS"), "r+b");
  if (file == NULL) abort();
  fseek(file, -(long)sizeof(zero), SEEK_END);
  fwrite(&zero, sizeof(zero), 1, file);
  fclose(file);
}
"""


class OpenDimension(Scratch):
    """main(x), of any length as far as the bytecode says."""

    def setUp(self):
        super().setUp()
        self.target = self.folder / "open.so"
        compile_library(SPOILER % (SOURCES, BLOBS), self.target)
        # What match_shape requires of x: that it is 4, or nothing.
        number = [1 << 56 | value for value in range(5)]
        self.target.write_bytes(with_one(
            self.target.read_bytes(),
            struct.pack("<3Q", number[1], number[0], number[4]),
            struct.pack("<3Q", number[1], number[2], number[4])))

    def test_is_that_of_the_input_whose_file_is_read_once(self):
        for name, data, option in (
                ("x.npy", npy_bytes(X), "--input=x="),
                ("x.params", params_bytes({"x": X}), "--input=x="),
                ("all.params", params_bytes({"x": X}), "--inputs=")):
            path = self.folder / name
            path.write_bytes(data)
            with self.subTest(name=name), unittest.mock.patch.dict(
                    os.environ, NODEWISE_TEST_INPUTS=str(path)):
                result = nodewise("run", self.target, f"{option}{path}",
                                  "--json")
                self.assertEqual((result.code, result.err), (0, ""), result)
                self.assertEqual(document(result)["outputs"][0]["first"],
                                 [11, 22, 33, 44])
                self.assertNotEqual(path.read_bytes(), data)


if __name__ == "__main__":
    unittest.main()
