"""Reads .params files without TVM: docs/formats/params.md."""

import struct


def read(path):
    """[(name, (code, bits, lanes), shape, bytes)], in the file's order."""
    data = path.read_bytes()
    place = 16

    def take(layout):
        nonlocal place
        values = struct.unpack_from("<" + layout, data, place)
        place += struct.calcsize("<" + layout)
        return values

    names = []
    for _ in range(take("Q")[0]):
        size = take("Q")[0]
        names.append(take(f"{size}s")[0].decode())
    tensors = []
    for name in names[:take("Q")[0]]:
        rank = take("QQiii")[4]
        dtype = take("BBH")
        shape = take(f"{rank}q")
        size = take("Q")[0]
        tensors.append((name, dtype, shape, take(f"{size}s")[0]))
    return tensors
