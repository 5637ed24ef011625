#!/usr/bin/env python3
"""Writes the seeds of elf_fuzz into elf/, beside this file.

Each is a small shared library in one segment: header, program headers, symbols,
names, a hash table, a note and the dynamic section; some have section headers.
Needs nothing but Python, so the seeds are the same on every machine.
"""

import pathlib
import struct

BASE = 0x10000  # Address of the first byte: no address is also an offset.
NAMES = b"\0libseed.so\0libm.so.6\0wanted\0net_function\0net_data\0"
SYMBOLS = [  # name, info (binding << 4 | type), section
    (b"", 0, 0),
    (b"wanted", 0x12, 0),
    (b"net_function", 0x12, 1),
    (b"net_data", 0x21, 1),
]
FIRST_HASHED = 2


def name_offset(name):
    return NAMES.index(b"\0" + name + b"\0") + 1 if name else 0


def symbol_table(bits):
    table = b""
    for i, (name, info, section) in enumerate(SYMBOLS):
        value = BASE + 8 * i if section else 0
        if bits == 64:
            table += struct.pack("<IBBHQQ", name_offset(name), info, 0,
                                 section, value, 8)
        else:
            table += struct.pack("<IIIBBH", name_offset(name), value, 8, info,
                                 0, section)
    return table


def sysv_hash():
    count = len(SYMBOLS)
    chain = list(range(1, count)) + [0]
    return struct.pack(f"<II{1 + count}I", 1, count, 1, *chain)


def gnu_hash(bits):
    hashed = len(SYMBOLS) - FIRST_HASHED
    chain = [2 * i for i in range(hashed)]
    chain[-1] |= 1
    word = "Q" if bits == 64 else "I"
    return struct.pack(f"<IIII{word}I{hashed}I", 1, FIRST_HASHED, 1, 0,
                       0xFFFFFFFF, FIRST_HASHED, *chain)


def build(bits, hashes, sections=False, machine=62, elf_type=3):
    word = "Q" if bits == 64 else "I"
    header_size, segment_size = (64, 56) if bits == 64 else (52, 32)
    section_size, symbol_size = (64, 24) if bits == 64 else (40, 16)
    body = bytearray(header_size + 3 * segment_size)

    def add(data):
        body.extend(b"\0" * (-len(body) % 8))
        body.extend(data)
        return len(body) - len(data)

    symbols = add(symbol_table(bits))
    names = add(NAMES)
    note = add(struct.pack("<III", 4, 4, 3) + b"GNU\0\xde\xad\xbe\xef")
    tags = [(14, name_offset(b"libseed.so")), (1, name_offset(b"libm.so.6")),
            (6, BASE + symbols), (11, symbol_size), (5, BASE + names),
            (10, len(NAMES))]
    if "sysv" in hashes:
        tags.append((4, BASE + add(sysv_hash())))
    if "gnu" in hashes:
        tags.append((0x6FFFFEF5, BASE + add(gnu_hash(bits))))
    tags.append((0, 0))
    dynamic_data = b"".join(struct.pack("<" + 2 * word, *t) for t in tags)
    dynamic = add(dynamic_data)
    loaded = len(body)

    section_offset = 0
    if sections:
        record = f"<II4{word}II2{word}"
        section_offset = add(
            b"\0" * section_size +
            struct.pack(record, 0, 11, 2, BASE + symbols, symbols,
                        len(SYMBOLS) * symbol_size, 0, 1, 8, symbol_size))

    def segment(kind, offset, size, align=8):
        if bits == 64:
            return struct.pack("<IIQQQQQQ", kind, 6, offset, BASE + offset,
                               BASE + offset, size, size, align)
        return struct.pack("<IIIIIIII", kind, offset, BASE + offset,
                           BASE + offset, size, size, 6, align)

    segments = (segment(1, 0, loaded) + segment(2, dynamic, len(dynamic_data)) +
                segment(4, note, 20, align=4))
    header = struct.pack("<4s12BHHI3" + word + "I6H", b"\x7fELF", bits // 32, 1,
                         1, *([0] * 9), elf_type, machine, 1, 0, header_size,
                         section_offset, 0, header_size, segment_size, 3,
                         section_size, 2 if sections else 0, 0)
    body[:header_size + len(segments)] = header + segments
    return bytes(body)


def main():
    folder = pathlib.Path(__file__).parent / "elf"
    folder.mkdir(exist_ok=True)
    seeds = {
        "sysv64": build(64, {"sysv"}),
        "gnu64": build(64, {"gnu"}),
        "sections64": build(64, set(), sections=True),
        "both64": build(64, {"sysv", "gnu"}, sections=True),
        "sysv32": build(32, {"sysv"}, machine=40),
        "gnu32": build(32, {"gnu"}, machine=3),
        "sections32": build(32, set(), sections=True),
        "program64": build(64, {"gnu"}, machine=183, elf_type=2),
    }
    for name, data in seeds.items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
