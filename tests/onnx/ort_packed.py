"""Operators of domain com.microsoft on numbers of a few bits in each byte: see
ort_contrib.py."""

import ml_dtypes
import numpy as np

import ort_case
from ort_contrib import near, operator


def unpacked(data, bits):
    """The numbers in bytes, the lowest bits first."""
    parts = [(data >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*data.shape[:-1], -1)


@operator
def MatMulNBits(d):
    k, n, bits = d.upto(1, 80), d.upto(1, 9), d.one([2, 4, 8])
    size = d.one([16, 32])
    blocks = -(-k // size)
    dtype = d.one([np.float32, np.float32, np.float16])
    inputs = [d.tensor((d.upto(1, 3), k)).astype(dtype),
              d.quantised((n, blocks, size * bits // 8), "uint8"),
              d.tensor((n, blocks), low=0.01, high=0.1).astype(dtype)]
    # onnxruntime has no kernel for real zero points of 8 bits.
    zeros = d.one(["packed", None] if bits == 8 else ["packed", "apart", None])
    inputs.append(
        None if zeros is None else
        d.quantised((n, -(-blocks * bits // 8)), "uint8")
        if zeros == "packed" else
        d.tensor((n, blocks), "uint8", 0, 2**bits - 1).astype(dtype))
    groups = d.tensor((k,), "int32", 0, blocks - 1) if d.often(0.2) else None
    inputs += [groups, d.maybe(lambda: d.tensor((n,)).astype(dtype))]
    attrs = {"K": k, "N": n, "block_size": size}
    if bits != 4 or d.often():
        attrs["bits"] = bits
    # Sums are of float32, even if they are rounded to float16.
    sums32 = 4 * ort_case.EPSILON["float32"] * k**0.5
    case = d.put(inputs, lambda case, outputs: [
        (2 * ort_case.epsilon(y), sums32 * max(8.0, ort_case.size_of(y)))
        for y in outputs], **attrs)

    def instead(_fed):
        """With groups onnxruntime forgets zero points and takes 2 bits for
        4."""
        a, b, scales, zero, _, bias = (
            x if x is None or x.dtype.kind != "f" else x.astype(np.float64)
            for x in inputs)
        if zeros == "packed":
            zero = unpacked(zero, bits)[:, :blocks].astype(np.float64)
        elif zeros is None:
            zero = np.full((n, blocks), 2.0 ** (bits - 1))
        w = unpacked(b, bits).reshape(n, -1)[:, :k]
        w = (w - zero[:, groups]) * scales[:, groups]
        y = a @ w.T + (0 if bias is None else bias)
        return [y.astype(dtype)]
    if groups is not None:
        case.instead = instead
    return case


@operator
def GatherBlockQuantized(d):
    kind = d.one(["bytes", "integers", "floats"])
    return {"bytes": gather_bytes, "integers": gather_integers,
            "floats": gather_floats}[kind](d)


def gather_bytes(d):
    bits, size = d.one([4, 8]), d.one([16, 32])
    rows, blocks = d.upto(1, 6), d.upto(1, 3)
    # The last block may be a shorter one.
    width = size * (blocks - 1) + 2 * d.upto(1, size // 2)
    dtype = d.one([np.float32, np.float16])
    inputs = [d.quantised((rows, width * bits // 8), "uint8"),
              d.tensor(d.shape(0, 2), d.one(["int32", "int64"]), -rows,
                       rows - 1),
              d.tensor((rows, blocks), low=0.01, high=0.1).astype(dtype)]
    if d.often():
        inputs.append(d.quantised((rows, -(-blocks * bits // 8)), "uint8"))
    return d.put(inputs, near(1), bits=bits, block_size=size)


def gather_places(d, shape):
    """Two axes, indices of the first, and sizes of blocks of the second."""
    gather, quantize = (d.upto(-len(shape), len(shape) - 1) for _ in "12")
    side = shape[gather]
    indices = d.tensor(d.shape(0, 2), d.one(["int32", "int64"]), -side,
                       side - 1)
    attrs = {"gather_axis": gather, "quantize_axis": quantize,
             "block_size": d.one([16, 32])}
    blocks = list(shape)
    blocks[quantize] = -(-shape[quantize] // attrs["block_size"])
    return indices, attrs, blocks


def gather_integers(d):
    # Casts of such came with opset 21.
    d.opset = 21
    shape = [d.upto(1, 40) for _ in range(d.upto(2, 3))]
    indices, attrs, blocks = gather_places(d, shape)
    low, high, dtype = d.one([(-8, 7, ml_dtypes.int4),
                              (0, 15, ml_dtypes.uint4)])
    inputs = [d.tensor(shape, "int32", low, high).astype(dtype), indices,
              d.tensor(blocks, low=0.01, high=0.1).astype(
                  d.one([np.float32, np.float16]))]
    if d.often():
        inputs.append(d.tensor(blocks, "int32", low, high).astype(dtype))
    # Python cannot hand over arrays of such types.
    return d.put(inputs, near(1), constant=[0, 3][:len(inputs) - 2], **attrs)


def gather_floats(d):
    """Scales of one element stand for a whole side, a block of 0 for all of
    an axis."""
    d.opset = 21
    shape = [d.upto(1, 40) for _ in range(d.upto(2, 3))]
    indices, attrs, blocks = gather_places(d, shape)
    if d.often():
        attrs["block_size"] = 0
        blocks[attrs["quantize_axis"]] = 1
    whole = attrs["quantize_axis"] % len(shape)
    for axis in range(len(shape)):
        if axis != whole and d.often(0.3):
            blocks[axis] = 1
    dtype = d.one([ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz,
                   ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
                   ml_dtypes.float4_e2m1fn])
    if dtype == ml_dtypes.float4_e2m1fn:
        d.opset = 23  # Casts of such came then.
    inputs = [d.tensor(shape).astype(dtype), indices,
              d.tensor(blocks, low=0.01, high=0.1).astype(
                  d.one([np.float32, np.float16]))]
    return d.put(inputs, near(1), constant=[0], **attrs)


@operator
def QLinearMatMul(d):
    """With floats of 8 bits. onnxruntime has no kernel for them, so numpy
    judges."""
    d.opset = 21
    floats = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz,
              ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz]
    m, k, n = (d.upto(1, 5) for _ in "mkn")
    batch = (d.upto(1, 3),) if d.often(0.3) else ()

    def numbers(shape):
        """Now and then integers: at least one of three has floats."""
        if d.often(0.2):
            return d.tensor(shape, "int8", -20, 20)
        return d.tensor(shape).astype(d.one(floats))

    def lines(shape, count, like):
        """One for all, or one for each line."""
        sides = d.one([(), shape if batch else (count,)])
        zero = d.tensor(sides, "int32", -2, 2).astype(like.dtype)
        return [d.tensor(sides, low=0.05, high=0.5), zero]
    a, b = numbers((*batch, m, k)), numbers((*batch, k, n))
    y = d.one(floats)
    inputs = [a, *lines((*batch, m, 1), m, a), b, *lines((*batch, 1, n), n, b),
              np.float32(d.rng.uniform(0.05, 0.5)),
              np.asarray(d.upto(-2, 2)).astype(y)]
    case = d.put(inputs, ort_case.exact, domain="")

    def instead(fed):
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (
            np.asarray(x).astype(np.float64) for x in fed.values())
        if a_scale.ndim == 1:
            a_scale, a_zero = a_scale[:, None], a_zero[:, None]
        sums = (a - a_zero) @ (b - b_zero)
        result = sums * (a_scale * b_scale) / y_scale + y_zero
        most = float(ml_dtypes.finfo(y).max)
        return [np.clip(result, -most, most).astype(y)]
    case.instead = instead
    return case
