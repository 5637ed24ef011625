"""Archives that hold far more than their size says."""

import functools
import io
import os
import struct
import subprocess
import sys
import unittest
import zipfile

from support import NODEWISE, Scratch, Tensor, npy_bytes

MEMBERS = 24
MEMBER_MIB = 24
# What is kept of an archive, and room for one member twice and the program.
MOST_KEPT_MIB = 256
MOST_OTHER_MIB = 160

# Runs a command and prints its exit status and the most memory that it had.
MEASURED = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss, file=sys.stderr)
"""


def zeros_bytes(mib):
    """A .npy file of float32 zeros."""
    count = mib * (1 << 20) // 4
    whole = npy_bytes(Tensor("float32", (1,), (0,)))
    head = whole[:-4].replace(b"'shape': (1,)",
                              f"'shape': ({count},)".encode())
    size = struct.unpack("<H", head[8:10])[0]
    text = head[10:].rstrip(b" \n")
    return head[:10] + text.ljust(size - 1) + b"\n" + bytes(4 * count)


@functools.cache
def archive_bytes():
    file = io.BytesIO()
    data = zeros_bytes(MEMBER_MIB)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED,
                         compresslevel=1) as archive:
        for i in range(MEMBERS):
            archive.writestr(f"t{i}.npy", data)
    return file.getvalue()


class Packed(Scratch):
    def setUp(self):
        super().setUp()
        self.archive = self.write("packed.npz", archive_bytes())
        self.assertLess(self.archive.stat().st_size, 8 << 20)

    def memory_of(self, *arguments):
        """Exit status, and MiB at most."""
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, NODEWISE, *map(str, arguments)],
            capture_output=True, text=True, timeout=120, check=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        code, kib = done.stderr.split()[-2:]
        return int(code), int(kib) / 1024

    def test_members_are_not_all_in_memory_while_they_are_compared(self):
        code, mib = self.memory_of("compare", self.archive, self.archive)
        self.assertEqual(code, 0)
        self.assertLess(mib, MOST_KEPT_MIB + MOST_OTHER_MIB)

    def test_members_are_looked_at_one_after_the_other(self):
        code, mib = self.memory_of("inspect", self.archive)
        self.assertEqual(code, 0)
        self.assertLess(mib, MOST_OTHER_MIB)


if __name__ == "__main__":
    unittest.main()
