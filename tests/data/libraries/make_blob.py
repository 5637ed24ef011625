"""Writes the blob that TVM puts into a library as `__tvm_dev_mblob`.

usage: make_blob.py CASE SYMBOL GRAPH OUTPUT.c OUTPUT.bin

The bytes go into a C array named SYMBOL and, as they are, into OUTPUT.bin.
docs/formats/module_blob.md says how a blob is built up.
"""

import pathlib
import struct
import sys

TENSOR_MAGIC = 0xDD5E40F096B4A13F


def u64(value):
    return struct.pack("<Q", value)


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return u64(len(data)) + data


def texts(values):
    return u64(len(values)) + b"".join(text(value) for value in values)


def numbers(values):
    return u64(len(values)) + b"".join(u64(value) for value in values)


def tensor(values):
    """A one-dimensional float32 tensor on the CPU."""
    data = struct.pack(f"<{len(values)}f", *values)
    head = struct.pack("<QQiiiBBHq", TENSOR_MAGIC, 0, 1, 0, 1, 2, 32, 1,
                       len(values))
    return head + u64(len(data)) + data


def own_code():
    return text("_lib")


def import_tree(row_ptr, children):
    return text("_import_tree") + numbers(row_ptr) + numbers(children)


def factory(graph, key="GraphExecutorFactory"):
    """The artefact of GRAPH with the parameter p0 = 10, 20, 30, 40."""
    return (text(key) + text(graph) + u64(1) + texts(["p0"]) +
            tensor([10, 20, 30, 40]) + text("default"))


def constants(key):
    """One constant, 2.5, for `scale`; `starved` wants one that is missing."""
    return (text(key) + texts(["const_0"]) + u64(1) + tensor([2.5]) +
            texts(["scale", "blocked", "starved"]) + u64(3) +
            texts(["const_0"]) + texts([]) + texts(["const_9"]))


def device_code(key):
    """One kernel that takes a handle and two launch sizes. TVM 0.14 repeats
    its name as an empty text."""
    handle = struct.pack("<BBH", 3, 64, 1)
    function = (text("the_kernel") + text("") + u64(1) + handle +
                texts(["blockIdx.x", "threadIdx.x"]))
    return text(key) + text("cl") + u64(1) + function + text("__kernel void k")


def items(*parts):
    """A whole blob; an import tree counts as an item."""
    stream = u64(len(parts)) + b"".join(parts)
    return u64(len(stream)) + stream


def constant(tag, payload):
    return struct.pack("<i", tag) + payload


def vm_executable(tags, magic):
    """main(x) = x + (10, 20, 30, 40) by the kernel of the library's code.

    `tags` are those of tensors, types, shapes and texts.
    """
    tensor_tag, type_tag, shape_tag, text_tag = tags

    def argument(kind, value):
        return kind << 56 | value

    def call(target, function, *args):
        return [1, target, function, len(args), *args]

    void, machine = 1 << 54, (1 << 54) + 1
    number = {i: argument(1, i) for i in (0, 1, 4)}
    const = [argument(2, i) for i in range(7)]
    code = [
        call(void, 1, 0, number[1], const[0], const[1]),
        call(void, 2, 0, void, number[1], number[0], number[4], const[1]),
        call(1, 3, machine, const[2], number[0], const[3], const[4]),
        call(2, 4, 1, number[0], const[5], const[0]),
        call(void, 5, 0, const[6], 2),
        [2, 2],
    ]
    names = ["main", "vm.builtin.check_tensor_info", "vm.builtin.match_shape",
             "vm.builtin.alloc_storage", "vm.builtin.alloc_tensor",
             "tvmgen_default_fused_add"]
    table = u64(len(names))
    for i, name in enumerate(names):
        fields = (0, len(code), 1, 3) if i == 0 else (0, 0, -2, 0)
        table += (struct.pack("<i", 1 if i == 0 else 0) + text(name) +
                  struct.pack("<4q", *fields) +
                  texts(["x"] if i == 0 else []))
    pool = u64(7) + b"".join([
        constant(type_tag, struct.pack("<BBH", 2, 32, 1)),
        constant(text_tag, text("param")),
        constant(shape_tag, numbers([16])),
        constant(type_tag, struct.pack("<BBH", 1, 8, 1)),
        constant(text_tag, text("global")),
        constant(shape_tag, numbers([4])),
        constant(tensor_tag, tensor([10, 20, 30, 40])),
    ])
    offsets = [sum(map(len, code[:i])) for i in range(len(code))]
    words = [word for instruction in code for word in instruction]
    scopes = u64(0) if magic & 1 == 0 else b""
    return (u64(magic) + text("0.14") + table + scopes + pool +
            numbers(offsets) + numbers(words))


def library_bin(executable):
    """What TVM-FFI reads: the tree, then kinds and what they hold."""
    body = (numbers([0, 1, 1]) + numbers([1]) + text("relax.VMExecutable") +
            text(executable) + own_code())
    return text(body)


def cut(blob, size):
    """The blob with a true length in front, but its end missing."""
    return u64(size) + blob[8:8 + size]


def cases(graph):
    one_child = import_tree([0, 1, 1], [1])
    whole = items(factory(graph), own_code(), one_child)
    return {
        "factory": whole,
        "factory_07": items(factory(graph, "GraphRuntimeFactory"), own_code(),
                            one_child),
        "imports_06": items(device_code("cuda")),
        "const_loader": items(constants("const_loader"), own_code(),
                              one_child),
        "metadata": items(constants("metadata"), own_code(), one_child),
        "opencl": items(own_code(), device_code("opencl"), one_child),
        "factory_cuda": items(factory(graph), own_code(), device_code("cuda"),
                              import_tree([0, 1, 2, 2], [1, 2])),
        # Both mean the same code; TVM 0.7 wrote one for each module of it.
        "two_libs": items(factory(graph), own_code(), own_code(),
                          import_tree([0, 2, 2, 2], [1, 2])),
        "unknown_kind": items(own_code(), text("dnnl_json") + text("{}"),
                              one_child),
        "child_out_of_range": items(factory(graph), own_code(),
                                    import_tree([0, 1, 1], [7])),
        "circle": items(factory(graph), own_code(),
                        import_tree([0, 1, 2], [1, 0])),
        "truncated": cut(whole, len(whole) // 2),
        # Says that it goes on for 4 GiB.
        "too_long": u64(1 << 32) + whole[8:],
        "no_modules": items(),
        "vm_classic": items(
            text("relax.Executable") +
            text(vm_executable((0, 1, 2, 3), 0xD225DE2F4214151D)),
            own_code(), one_child),
        "vm_ffi": library_bin(
            vm_executable((70, 5, 69, 65), 0xD225DE2F4214151E)),
        "vm_ffi_21": library_bin(
            vm_executable((72, 5, 71, 65), 0xD225DE2F4214151D)),
        "vm_damaged": library_bin(b"no bytecode"),
    }


def c_source(symbol, blob):
    lines = [", ".join(f"{byte:#04x}" for byte in blob[i:i + 12])
             for i in range(0, len(blob), 12)]
    body = ",\n    ".join(lines)
    return f"const unsigned char {symbol}[] = {{\n    {body}}};\n"


def main():
    case, symbol, graph, c_path, bin_path = sys.argv[1:]
    blob = cases(pathlib.Path(graph).read_text())[case]
    pathlib.Path(c_path).write_text(c_source(symbol, blob))
    pathlib.Path(bin_path).write_bytes(blob)


if __name__ == "__main__":
    main()
