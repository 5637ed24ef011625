#!/usr/bin/env python3
"""Writes the seeds of library_bin_fuzz into library_bin/, beside this file.

Each is a library's data as TVM 0.22 to 0.27 write it (`classic`: the bytecode
alone, as 0.18 to 0.20 do) around a short program that shows one thing bytecode
can say. Needs nothing but Python, so the seeds are the same on every machine.
"""

import struct

from make_seeds import FOLDER, string, strings, tensor

VOID, MACHINE = 1 << 54, (1 << 54) + 1
F32, U8, BOOL = (2, 32, 1), (1, 8, 1), (6, 8, 1)


def numbers(values):
    return struct.pack(f"<Q{len(values)}q", len(values), *values)


def immediate(value):
    return 1 << 56 | value & (1 << 56) - 1


class Bytecode:
    """Writes instructions; constants and functions are added as they are named.

    `classic` is the form of TVM 0.18 to 0.20.
    """

    def __init__(self, classic=False):
        self.classic = classic
        self.functions, self.constants, self.code = [], [], []

    def constant(self, tag, classic_tag, payload):
        data = struct.pack("<i", classic_tag if self.classic else tag) + payload
        if data not in self.constants:
            self.constants.append(data)
        return 2 << 56 | self.constants.index(data)

    def shape(self, *dims):
        return self.constant(69, 2, numbers(dims))

    def text(self, value):
        return self.constant(65, 3, string(value))

    def dtype(self, kind):
        return self.constant(5, 1, struct.pack("<BBH", *kind))

    def weight(self, *shape):
        return self.constant(70, 0, tensor(shape, 2, 32))

    def number(self, value):
        return self.constant(1, 4, struct.pack("<q", value))

    def index(self, name):
        for i, function in enumerate(self.functions):
            if function["name"] == name:
                return i
        self.functions.append({"name": name, "kind": 0, "first": 0,
                               "end": 0, "params": []})
        return len(self.functions) - 1

    def function(self, name, *params, kind=1):
        self.now = self.functions[self.index(name)]
        self.now.update(kind=kind, first=len(self.code), end=len(self.code),
                        params=list(params))
        return self

    def words(self, *words):
        self.code.append(list(words))
        self.now["end"] = len(self.code)
        return self

    def call(self, name, *args, to=VOID):
        return self.words(1, to, self.index(name), len(args), *args)

    def builtin(self, name, *args, to=VOID):
        return self.call("vm.builtin." + name, *args, to=to)

    def input(self, register, *shape, kind=F32):
        dims = [word for dim in shape
                for word in (immediate(0), immediate(dim))]
        where = self.text("param")
        self.builtin("check_tensor_info", register, immediate(len(shape)),
                     self.dtype(kind), where)
        return self.builtin("match_shape", register, VOID,
                            immediate(len(shape)), *dims, where)

    def storage(self, register, size):
        return self.builtin("alloc_storage", MACHINE, self.shape(size),
                            immediate(0), self.dtype(U8), self.text("global"),
                            to=register)

    def tensor(self, storage, register, *shape, offset=0, kind=F32):
        return self.builtin("alloc_tensor", storage, immediate(offset),
                            self.shape(*shape), self.dtype(kind), to=register)

    def ret(self, register):
        return self.words(2, register)

    def executable(self, scopes=()):
        table = b""
        for one in self.functions:
            is_code = one["kind"] == 1
            table += (struct.pack("<i", one["kind"]) + string(one["name"])
                      + struct.pack("<4q", one["first"], one["end"],
                                    len(one["params"]) if one["kind"] else -2,
                                    16 if is_code else 0)
                      + strings(one["params"]))
        scope_section = struct.pack("<Q", len(scopes)) + b"".join(
            struct.pack("<q", constant) + string(name)
            for constant, name in scopes)
        offsets = [sum(map(len, self.code[:i])) for i in range(len(self.code))]
        return (struct.pack("<Q", 0xD225DE2F4214151D + (not self.classic))
                + string("0.14") + struct.pack("<Q", len(self.functions))
                + table + (b"" if self.classic else scope_section)
                + struct.pack("<Q", len(self.constants))
                + b"".join(self.constants) + numbers(offsets)
                + numbers([word for one in self.code for word in one]))


def dense_code(**how):
    code = Bytecode(**how).function("main", "x").input(0, 2, 4)
    code.storage(1, 32).tensor(1, 2, 2, 4).call("add", 0, code.weight(4), 2)
    code.storage(3, 32).tensor(3, 4, 2, 4).call("relu", 2, 4)
    code.builtin("null_value", to=2).tensor(1, 5, 2, 4).call("relu", 4, 5)
    return code.builtin("reshape", 5, code.shape(8), to=6).ret(6)


def tuple_code():
    code = Bytecode().function("main", "x", "w").input(0, 4, kind=BOOL)
    code.builtin("check_tuple_info", 1, immediate(1), code.text(""))
    code.builtin("tuple_getitem", 1, immediate(0), to=2).input(2, 4)
    code.storage(3, 64).tensor(3, 4, 4).tensor(3, 5, 2, offset=32)
    code.call("split", 0, 2, 4, 5)
    code.builtin("make_tuple", 4, 5, 0, to=6)
    code.builtin("tuple_reset_item", 6, code.number(2))
    code.builtin("tuple_getitem", 6, code.number(1), to=7)
    code.builtin("copy", code.weight(2), to=8)
    return code.builtin("make_tuple", 7, 8, 7, to=9).ret(9)


def open_code():
    """x of (n, 2), with n from the heap."""
    code = Bytecode().function("main", "x")
    one, zero, two = immediate(1), immediate(0), immediate(2)
    code.builtin("alloc_shape_heap", MACHINE, one, to=1)
    code.builtin("check_tensor_info", 0, two, code.dtype(F32), code.text(""))
    code.builtin("match_shape", 0, 1, two, one, zero, zero, two,
                 code.text(""))
    code.builtin("make_shape", 1, two, one, zero, zero, two, to=2)
    code.builtin("make_prim_value", 1, one, zero, to=3)
    code.builtin("match_prim_value", 3, 1, immediate(3), zero, code.text(""))
    code.builtin("shape_of", 0, to=4)
    code.builtin("check_shape_info", 4, two, code.text(""))
    code.storage(5, 4096)
    code.builtin("alloc_tensor", 5, zero, 2, code.dtype(F32), to=6)
    return code.call("relu", 0, 6).ret(6)


def refused_code():
    code = Bytecode().function("main", "x").input(0, 4)
    code.call("relax.run.unique", 0, to=1)
    code.builtin("call_tir_dyn", 3 << 56, 0, to=2)
    code.builtin("read_if_cond", 0, to=3)
    code.words(4, 3, 2).words(3, 1).call("helper", 0, to=4).ret(4)
    code.function("helper", "x").ret(0)
    return code.function("other", "y", kind=2)


def library_bin_seeds():
    def library(code, *more):
        body = (numbers([0, 1, *[1] * (1 + len(more) // 2)]) + numbers([1])
                + string("relax.VMExecutable") + struct.pack("<Q", len(code))
                + code + string("_lib") + b"".join(more))
        return struct.pack("<Q", len(body)) + body

    usual = library(dense_code().executable())
    return {
        "usual": usual,
        "behind": usual + b"other data of the library",
        "cut": usual[:-9],
        "classic": dense_code(classic=True).executable(),
        "tuples": library(tuple_code().executable()),
        "open": library(open_code().executable()),
        "refused": library(refused_code().executable()),
        "scopes": library(dense_code().executable([(0, "global.texture")])),
        "cuda": library(dense_code().executable(), string("cuda"),
                        string("code")),
        "empty": library(Bytecode().executable()),
    }


def main():
    folder = FOLDER / "library_bin"
    folder.mkdir(exist_ok=True)
    for seed, data in library_bin_seeds().items():
        (folder / seed).write_bytes(data)


if __name__ == "__main__":
    main()
