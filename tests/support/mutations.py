"""Bytes that are almost a file: of any kind, and of the kinds whose insides a
blind change would hardly reach. All by the random numbers of the caller."""

import io
import json
import re
import struct
import warnings
import zipfile

from onnx_bytes import (attribute, message, onnx_node, proto_tensor,
                        value_info, varint)

ODD_NUMBERS = (0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF,
               0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40,
               0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF)
ODD_TEXTS = ("", "x", "\0", "\x1b[31m", "a\nb", "\u202e", "\x85", "../x", "/",
             "%s%n", "NaN", "-1", "1e999", "\ud7ff", "y" * 5000, "([", "=1+1")


def mutate(rng, name, data):
    """The bytes of the file `name` with a few changes."""
    kinds = [mutate_bytes]
    if name.endswith(".json"):
        kinds += [mutate_json] * 3 + [mutate_digits]
    elif name.endswith(".onnx"):
        kinds += [lambda r, d: mutate_message(r, d, MODEL)] * 2
        kinds += [change_model] * 6
    elif name.endswith(".pb"):
        kinds += [lambda r, d: mutate_message(r, d, TENSOR)] * 2
        kinds += [change_tensor] * 3
    elif name.endswith(".npz"):
        kinds += [mutate_members] * 3
    elif name.endswith(".npy"):
        kinds += [mutate_digits] + [change_array] * 3
    elif name.endswith(".params"):
        kinds += [change_params] * 4
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(kinds)(rng, data)
    return data


# --- any bytes --------------------------------------------------------------


def mutate_bytes(rng, data):
    if not data:
        return bytes([rng.randrange(256)])
    out = bytearray(data)
    # Formats have their counts in front.
    at = rng.randrange(len(out) if rng.random() < 0.5 else min(len(out), 256))
    kind = rng.randrange(8)
    if kind == 0:
        out[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
    elif kind == 2:
        del out[at:]
    elif kind == 3:
        del out[at:at + rng.choice((1, 4, 8, 100))]
    elif kind == 4:
        out[at:at] = rng.randbytes(rng.choice((1, 4, 8, 100)))
    elif kind == 5:
        size = rng.choice((1, 8, 100, 1000))
        out[at:at] = out[at:at + size] * rng.choice((1, 2, 50))
    else:
        size = rng.choice((2, 4, 8))
        number = rng.choice(ODD_NUMBERS) % (1 << 8 * size)
        out[at:at + size] = number.to_bytes(size, rng.choice(("little", "big")))
    return bytes(out)


def mutate_digits(rng, data):
    """Another number in the place of one that is written in digits."""
    found = list(re.finditer(rb"\d+", data[:4096]))
    if not found:
        return mutate_bytes(rng, data)
    place = rng.choice(found)
    number = rng.choice(ODD_NUMBERS)
    text = rng.choice((str(number), f"-{number}", "1e400", "0x10", "", "01"))
    return data[:place.start()] + text.encode() + data[place.end():]


# --- JSON -------------------------------------------------------------------


def places_in(tree):
    """Every container of a tree with each of its keys."""
    places, todo = [], [tree]
    while todo:
        here = todo.pop()
        keys = (here.keys() if isinstance(here, dict) else
                range(len(here)) if isinstance(here, list) else ())
        for key in keys:
            places.append((here, key))
            todo.append(here[key])
    return places


def odd_value(rng, value):
    if isinstance(value, int) and rng.random() < 0.7:
        return rng.choice((value + 1, value - 1, -value, 10**6, 2**40, 2**62,
                           2**63, 2**64, -1, 0))
    if isinstance(value, str) and rng.random() < 0.5:
        return rng.choice(ODD_TEXTS)
    return rng.choice((None, True, 1.5, [], {}, "x", -1, 2**63, 1e308, [[0]],
                       [value], value))


def mutate_json(rng, data):
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(rng, data)
    places = places_in(tree)
    if not places:
        return mutate_bytes(rng, data)
    here, key = rng.choice(places)
    kind = rng.randrange(6)
    if kind == 0:
        del here[key]
    elif kind == 1 and isinstance(here, list):
        here.insert(rng.randrange(len(here) + 1), here[key])
    elif kind == 2:
        there, other = rng.choice(places)
        value = there[other] if other in there or isinstance(
            there, list) and other < len(there) else None
        here[key] = json.loads(json.dumps(value))
    elif kind == 3 and isinstance(here, dict):
        here[rng.choice(ODD_TEXTS)] = here.pop(key)
    else:
        here[key] = odd_value(rng, here[key])
    return json.dumps(tree).encode()


# --- protobuf ---------------------------------------------------------------

# Which fields are messages, by number; of ONNX's.
TENSOR = {}
TYPE = {1: {2: {1: {}}}}
VALUE = {2: TYPE}
ATTRIBUTE = {5: TENSOR}
NOTE = {}
NODE = {5: ATTRIBUTE, 9: NOTE}
GRAPH = {1: NODE, 5: TENSOR, 11: VALUE, 12: VALUE, 13: VALUE}
ATTRIBUTE[6] = GRAPH
MODEL = {7: GRAPH, 8: {}}

OPERATORS = """Abs Add And ArgMax AveragePool BatchNormalization Cast Ceil Clip
Compress Concat ConstantOfShape Conv ConvInteger ConvTranspose CumSum
DepthToSpace DequantizeLinear Div Dropout Einsum Equal Erf Expand EyeLike
Flatten Gather GatherElements GatherND Gemm GlobalAveragePool Hardmax Identity
If InstanceNormalization LRN LSTM LayerNormalization Loop LpPool MatMul
MatMulInteger MaxPool MaxRoiPool MaxUnpool Mean Mod Mul NonMaxSuppression
NonZero OneHot PRelu Pad Pow QLinearConv QuantizeLinear RNN RandomNormal Range
ReduceSum Relu Reshape Resize ReverseSequence RoiAlign STFT Scan ScatterND
Shape Size Slice Softmax SpaceToDepth Split Sqrt Squeeze StringNormalizer Tile
TopK Transpose Trilu Unique Unsqueeze Where""".split()


def parse_message(data):
    """The message's fields: [number, wire type, value]; None for other data."""
    fields, at = [], 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    try:
        while at < len(data):
            key = number()
            wire = key & 7
            if wire == 0:
                value = number()
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
                value, at = data[at:at + size], at + size
            elif wire == 2:
                size = number()
                value, at = data[at:at + size], at + size
            else:
                return None
            fields.append([key >> 3, wire, value])
    except IndexError:
        return None
    return fields


def write_message(fields):
    out = b""
    for key, wire, value in fields:
        out += varint(key << 3 | wire)
        if wire == 0:
            out += varint(value)
        elif wire == 2:
            out += varint(len(value)) + value
        else:
            out += value
    return out


def mutate_message(rng, data, schema):
    fields = parse_message(data)
    if not fields:
        return mutate_bytes(rng, data)
    inner = [f for f in fields if f[1] == 2 and f[0] in schema]
    if inner and rng.random() < 0.85:
        chosen = rng.choice(inner)
        chosen[2] = mutate_message(rng, chosen[2], schema[chosen[0]])
        return write_message(fields)
    chosen = rng.choice(fields)
    kind = rng.randrange(6)
    if kind == 0:
        fields.remove(chosen)
    elif kind == 1:
        fields.insert(rng.randrange(len(fields) + 1), list(chosen))
    elif kind == 2:
        chosen[0] = rng.randrange(1, 26)
    elif chosen[1] == 0:
        chosen[2] = rng.choice((*ODD_NUMBERS, chosen[2] + 1,
                                (chosen[2] - 1) % 2**64))
    elif chosen[1] == 2:
        chosen[2] = odd_bytes(rng, schema, chosen)
    else:
        chosen[2] = struct.pack("<d", rng.choice(
            (0.0, -1.0, 1e308, float("nan"), float("inf"))))[:len(chosen[2])]
    return write_message(fields)


def odd_bytes(rng, schema, field):
    if schema is NODE and field[0] == 4:
        return rng.choice(OPERATORS).encode()
    kind = rng.randrange(3)
    if kind == 0:
        return rng.choice(ODD_TEXTS).encode("utf-8", "surrogatepass")
    if kind == 1:  # A list of numbers, as in a packed field.
        return b"".join(varint(rng.choice(ODD_NUMBERS)) for _ in range(3))
    return mutate_bytes(rng, field[2])


# --- sound files that say something else ------------------------------------

ATTRIBUTES = """alpha axes axis auto_pad batch_dims beta blocksize ceil_mode
count_include_pad dilations direction epsilon equation exclusive group
hidden_size interpolation keepdims kernel_shape largest layout mode num_outputs
output_padding output_shape p pads perm reverse size strides to
transA transB value values""".split()
SIDES = (0, 1, 1, 2, 3, 4, 8, 12, 144, 1 << 20, 1 << 31, 1 << 40, -1)


def odd_attribute(rng):
    """As onnx_bytes makes them, of any name and type."""
    value = rng.choice((
        rng.choice((0, 1, -1, 2, 3, 1 << 31, 1 << 40, (1 << 63) - 1)),
        rng.choice((0.0, 1.0, -1.0, 1e38, float("nan"))),
        rng.choice(("SAME_UPPER", "VALID", "linear", "reflect", "ij,jk->ik")),
        [rng.choice((0, 1, 2, 3, -1, 100, 1 << 40))
         for _ in range(rng.randrange(5))]))
    return attribute(rng.choice(ATTRIBUTES), value)


def change_model(rng, data):
    """Another operator, input, attribute, shape or version in a model; or one
    more node."""
    model = parse_message(data) or []
    graphs = [f for f in model if f[0] == 7 and f[1] == 2]
    graph = parse_message(graphs[0][2]) if graphs else None
    nodes = [f for f in graph or () if f[0] == 1 and f[1] == 2]
    if not nodes:
        return mutate_bytes(rng, data)
    kind = rng.randrange(8)
    if kind == 0:
        for one in model:
            if one[0] == 8 and one[1] == 2:
                one[2] = message((2, rng.choice((6, 7, 11, 13, 17, 22, 28))))
        return write_message(model)
    if kind == 1:
        shapes = [f for f in graph if f[0] in (11, 12) and f[1] == 2]
        chosen = rng.choice(shapes or nodes)
        name = (parse_message(chosen[2]) or [[1, 2, b"x"]])[0][2]
        dims = [rng.choice(SIDES) for _ in range(rng.randrange(6))]
        chosen[2] = value_info(str(name, "utf-8", "replace")
                               if isinstance(name, bytes) else "x",
                               rng.choice((1, 1, 1, 6, 7, 9, 10, 11)), dims)
    elif kind == 2:
        tensors = [f for f in graph if f[0] == 5 and f[1] == 2]
        chosen = rng.choice(tensors or nodes)
        chosen[2] = change_tensor(rng, chosen[2])
    else:
        change_node(rng, graph, rng.choice(nodes), kind)
    graphs[0][2] = write_message(graph)
    return write_message(model)


def change_node(rng, graph, chosen, kind):
    names = [value for f in graph if f[0] == 1 and f[1] == 2
             for number, wire, value in parse_message(f[2]) or ()
             if number in (1, 2) and wire == 2]
    node = parse_message(chosen[2]) or []
    if kind == 3:
        for field in node:
            if field[0] == 4:
                field[2] = rng.choice(OPERATORS).encode()
    elif kind == 4:
        reads = [f for f in node if f[0] == 1]
        if reads and names:
            rng.choice(reads)[2] = rng.choice(names)
    elif kind == 5:
        node.append([1, 2, rng.choice(names) if names else b"x"])
    elif kind == 6:
        more = onnx_node(
            rng.choice(OPERATORS),
            [str(rng.choice(names), "utf-8", "replace")
             for _ in range(rng.randrange(4)) if names],
            ["more"], *(odd_attribute(rng) for _ in range(rng.randrange(3))))
        graph.append([1, 2, more])
        if rng.random() < 0.7:
            graph.append([12, 2, value_info("more")])
        return
    else:
        node.append([5, 2, odd_attribute(rng)])
    chosen[2] = write_message(node)


def odd_values(rng, count):
    """The bytes of so many floats, not all of them numbers."""
    usual = [rng.randrange(-8, 9) / 8 for _ in range(64)]
    if rng.random() < 0.5:
        usual[rng.randrange(64)] = rng.choice(
            (float("nan"), float("inf"), 3e38, 1e-40, -0.0))
    return struct.pack("<64f", *usual) * (count // 64 + 1)


def odd_shape(rng):
    return [rng.choice((0, 1, 1, 2, 3, 4, 8, 10, 12, 100))
            for _ in range(rng.randrange(6))]


def size_of(shape, bytes_of_one):
    count = 1
    for side in shape:
        count *= side
    return min(count * bytes_of_one, 1 << 20)


def change_tensor(rng, data):
    """A TensorProto of that name with another shape, type or other values."""
    fields = parse_message(data) or []
    raw = [f for f in fields if f[0] == 9 and f[1] == 2]
    if raw and rng.random() < 0.4:
        raw[0][2] = odd_values(rng, len(raw[0][2]))[:len(raw[0][2])]
        return write_message(fields)
    name = next((f[2] for f in fields if f[0] == 8 and f[1] == 2), b"x")
    shape = odd_shape(rng)
    kind, size = rng.choice(((1, 4), (1, 4), (7, 8), (6, 4), (11, 8), (10, 2),
                             (3, 1), (9, 1), (16, 2)))
    count = size_of(shape, size)
    return proto_tensor(str(name, "utf-8", "replace"), shape, kind,
                        (9, odd_values(rng, count)[:count]))


def change_array(rng, data):
    """A .npy file of another shape or type, or with other values."""
    if data.startswith(b"\x93NUMPY") and rng.random() < 0.4:
        return data[:128] + odd_values(rng, len(data))[:max(len(data) - 128, 0)]
    shape = tuple(odd_shape(rng))
    descr, size = rng.choice((("<f4", 4), ("<f4", 4), ("<f8", 8), ("<i8", 8),
                              ("|b1", 1), ("<f2", 2), ("<U1", 4), ("|O", 8)))
    header = str({"descr": descr, "fortran_order": rng.random() < 0.2,
                  "shape": shape}).ljust(117) + "\n"
    count = size_of(shape, size)
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
            + header.encode() + odd_values(rng, count)[:count])


def params_names(data):
    """The names of a .params file that is sound as far as these."""
    count = struct.unpack_from("<Q", data, 16)[0]
    names, at = [], 24
    for _ in range(min(count, 100)):
        size = struct.unpack_from("<Q", data, at)[0]
        names.append(data[at + 8:at + 8 + size])
        at += 8 + size
    return names


def change_params(rng, data):
    """Parameters of these names, some with other shapes, types and values."""
    try:
        names = params_names(data)
    except (struct.error, OverflowError):
        return mutate_bytes(rng, data)
    kind = rng.randrange(6)
    if kind > 3 and b"\0" * 8 not in data[-64:]:
        # The last tensor's values alone.
        return data[:-40] + odd_values(rng, 40)[:40]
    if kind == 0 and names:
        names.pop(rng.randrange(len(names)))
    elif kind == 1:
        names.append(rng.choice(ODD_TEXTS).encode("utf-8", "surrogatepass"))
    elif kind == 2 and names:
        names[rng.randrange(len(names))] = rng.choice(names)
    out = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(names))
    for name in names:
        out += struct.pack("<Q", len(name)) + name
    out += struct.pack("<Q", len(names))
    for _ in names:
        shape = odd_shape(rng)
        code, bits = rng.choice(((2, 32), (2, 32), (0, 64), (2, 64), (4, 16)))
        count = size_of(shape, bits // 8)
        out += struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0,
                           len(shape), code, bits, 1)
        out += struct.pack(f"<{len(shape)}q", *shape)
        out += struct.pack("<Q", count) + odd_values(rng, count)[:count]
    return out


# --- zip --------------------------------------------------------------------


def mutate_members(rng, data):
    """Changes what is packed, with the sum that belongs to it."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(m.filename, m.compress_type, archive.read(m))
                       for m in archive.infolist()]
    except (OSError, ValueError, NotImplementedError, RuntimeError,
            zipfile.BadZipFile, EOFError, struct.error):
        return mutate_bytes(rng, data)
    except Exception:  # zlib.error, and what zipfile lets through.
        return mutate_bytes(rng, data)
    if not members:
        return mutate_bytes(rng, data)
    at = rng.randrange(len(members))
    name, kind, content = members[at]
    if rng.random() < 0.2:
        name = rng.choice(ODD_TEXTS).replace("\0", "") + ".npy"
    members[at] = (name, kind, mutate(rng, "x.npy", content))
    if rng.random() < 0.1:
        members.append(members[at])
    out = io.BytesIO()
    try:
        with (warnings.catch_warnings(),
              zipfile.ZipFile(out, "w") as archive):
            warnings.simplefilter("ignore")  # About names that come twice.
            for name, kind, content in members:
                archive.writestr(zipfile.ZipInfo(name), content, kind)
    except (ValueError, OSError, UnicodeError, struct.error):
        return mutate_bytes(rng, data)
    return out.getvalue()
