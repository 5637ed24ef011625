"""Operators of domain com.microsoft on numbers of a few bits in each byte: see
ort_contrib.py."""

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
    # Sums are of float32, whatever they are rounded to.
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
