"""ONNX models and tensors as bytes, put together without protobuf or ONNX."""

import struct

def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """One field of a protobuf message, or several: a number, a float, a text,
    bytes (a message, too), or a list of these."""
    if isinstance(value, list):
        return b"".join(field(number, one) for one in value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields):
    return b"".join(field(number, value) for number, value in fields)


FLOAT, UINT8, INT32, INT64, BOOL = 1, 2, 6, 7, 9


def proto_tensor(name, dims, kind, *data):
    return message((1, list(dims)), (2, kind), *data, (8, name))


def floats(name, *values):
    return proto_tensor(name, [len(values)], FLOAT,
                        (9, struct.pack(f"<{len(values)}f", *values)))


def ints(name, *values):
    return proto_tensor(name, [len(values)], INT64,
                        (7, b"".join(varint(v) for v in values)))


def value_info(name, kind=FLOAT, dims=None):
    shape = []
    if dims is not None:
        sides = [message((1, d) if isinstance(d, int) else (2, d))
                 for d in dims]
        shape = [(2, message((1, sides)))]
    return message((1, name), (2, message((1, message((1, kind), *shape)))))


def onnx_node(op, inputs, outputs, *attributes, name="", domain="", notes=None):
    """`notes` are the node's metadata, by key."""
    return message((1, list(inputs)), (2, list(outputs)), (3, name), (4, op),
                   (5, list(attributes)), (7, domain),
                   (9, [message((1, key), (2, value))
                        for key, value in (notes or {}).items()]))


def attribute(name, value):
    """A number, a text, a list of such, or a graph as bytes."""
    if isinstance(value, bytes):
        return message((1, name), (6, value), (20, 5))
    if isinstance(value, list):
        field_of_list, kind = {float: (7, 6), str: (9, 8)}.get(
            type(value[0]) if value else int, (8, 7))
        return message((1, name), (field_of_list, value), (20, kind))
    number, kind = {float: (2, 1), int: (3, 2), str: (4, 3)}[type(value)]
    return message((1, name), (number, value), (20, kind))


def tensor_attribute(name, tensor):
    return message((1, name), (5, tensor), (20, 4))


def onnx_graph(nodes, inputs, outputs, constants=()):
    return message((1, list(nodes)), (2, "g"), (5, list(constants)),
                   (11, list(inputs)), (12, list(outputs)))


def onnx_model(graph_bytes, opset=13, functions=(), ir_version=8):
    return message((1, ir_version), (7, graph_bytes),
                   (8, message((2, opset))), (25, list(functions)))
