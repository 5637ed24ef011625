"""Control flow and signals: rows for ort_table.py."""

import numpy as np

from ort_case import sums, ulps
from ort_table import ints, row

BRANCHES = """
branches (bool take, float[2, 3] x, float[3] b) => (y, z) {
  s = Add(x, b)
  y, z = If(take) <
    then_branch = then_graph () => (float[2, 3] p, float[2, 3] q) {
      p = Mul(s, x)
      q = Identity(s)
    },
    else_branch = else_graph () => (float[2, 3] t, float[2, 3] u) {
      t = Neg(x)
      small = Less(x, b)
      all = Cast <to = 1> (small)
      u = Sub(all, s)
    }>
}
"""
# Branches whose outputs have other shapes, and a branch in a branch.
NESTED = """
nested (bool take, bool again, float[2, 3] x) => (y) {
  y = If(take) <
    then_branch = outer () => (o) {
      o = If(again) <
        then_branch = inner () => (i) { i = Transpose(x) },
        else_branch = other () => (j) { j = Exp(x) }>
    },
    else_branch = none () => (k) { k = Flatten <axis = 0> (x) }>
}
"""


@row("If")
def branches(m):
    x, b = m.any("float32", 2, 3), m.any("float32", 3)
    for take in (True, False):
        m.add_text(BRANCHES, [take, x, b])
        if m.version < 11:  # Shapes had to be equal.
            continue
        for again in (True, False):
            m.add_text(NESTED, [take, again, x], ulps(4))


# What is carried, what is collected, and an end of its own.
LOOP = """
looped (int64 limit, bool start, float[3] x, float[3] b) => (last, all, marks)
{
  last, all, marks = Loop(limit, start, x) <
    body = body (int64 i, bool go, float[3] old)
        => (bool on, float[3] new, float[3] seen, float mark) {
      new = Add(old, b)
      seen = Mul(old, old)
      mark = Cast <to = 1> (i)
      top = Constant <value = float {6.0}> ()
      largest = ReduceMax <keepdims = 0> (new)
      on = Less(largest, top)
    }>
}
"""
ENDLESS = LOOP.replace("Loop(limit,", "Loop(,").replace("int64 limit, ", "")
# A carried value that grows.
GROWING = """
growing (int64 limit, float[1] x) => (last) {
  start = Constant <value = bool {1}> ()
  last = Loop(limit, start, x) <
    body = body (int64 i, bool go, float[n] old) => (bool on, float[k] new) {
      new = Concat <axis = 0> (old, x)
      on = Identity(go)
    }>
}
"""


@row("Loop")
def loops(m):
    x = m.any("float32", 3)
    b = m.any("float32", 3, low=0.5, high=2)
    for limit in (0, 2, 30):
        for start in (True, False):
            m.add_text(LOOP, [np.int64(limit), start, x, b], ulps(2))
    m.add_text(ENDLESS, [True, x, b], ulps(2))
    m.add_text(GROWING, [np.int64(4), x[:1]])


# Two states, two scanned inputs, two outputs.
SCAN = """
scanned (SHAPES) => (last, most, sums, products) {
  last, most, sums, products = Scan(FIRSTstart, least, xs, ys) <
    num_scan_inputs = 2, ATTRIBUTES
    body = body (float[3] s, float[3] l, float[3] x, float[3] y)
        => (float[3] t, float[3] k, float[3] o, float[3] p) {
      xy = Mul(x, y)
      t = Add(s, xy)
      k = Max(l, x)
      o = Identity(t)
      p = Sub(x, s)
    }>
}
"""


@row("Scan")
def scans(m):
    x, y = m.any("float32", 2, 5, 3), m.any("float32", 2, 5, 3)
    s, k = m.any("float32", 2, 3), m.any("float32", 2, 3)
    if m.version == 8:  # Had a batch and lengths.
        shapes = ("float[2, 3] start, float[2, 3] least, "
                  "float[2, 5, 3] xs, float[2, 5, 3] ys")
        for attrs in ("", "directions = [0, 1],"):
            text = SCAN.replace("FIRST", ", ").replace("ATTRIBUTES", attrs)
            m.add_text(text.replace("SHAPES", shapes), [s, k, x, y], sums(8))
        text = SCAN.replace("FIRST", "lengths, ").replace("ATTRIBUTES", "")
        m.add_text(text.replace("SHAPES", "int64[2] lengths, " + shapes),
                   [ints(5, 3), s, k, x, y], sums(8))
        return
    turned = "float[3] start, float[3] least, float[5, 3] xs, float[3, 5] ys"
    straight = turned.replace("float[3, 5]", "float[5, 3]")
    for attrs, shapes, last in (
            ("", straight, y[0]),
            ("scan_input_directions = [1, 0], "
             "scan_output_directions = [0, 1],", straight, y[0]),
            ("scan_input_axes = [0, 1], scan_output_axes = [1, 0],",
             turned, y[0].T.copy())):
        text = SCAN.replace("FIRST", "").replace("ATTRIBUTES", attrs)
        m.add_text(text.replace("SHAPES", shapes), [s[0], k[0], x[0], last],
                   sums(8))


# --- signals ----------------------------------------------------------------


@row("BlackmanWindow", "HammingWindow", "HannWindow")
def windows(m):
    for size in (8, 11):
        for periodic in (0, 1):
            m.add([np.int64(size)], ulps(8, floor=1), periodic=periodic)


@row("DFT")
def fourier(m):
    for dtype in m.floats("T1")[:2]:
        for length in (8, 6, 1):
            fourier_of(m, m.any(dtype, 2, length, 3, 1))


def fourier_of(m, real):
    tolerance = sums(8, 16, powers=4)
    pair = np.concatenate([real, real[:, ::-1]], axis=3)
    last = 20 if m.version >= 20 else 17
    for x, attrs in ((real, {}), (real, {"onesided": 1}), (pair, {}),
                     (pair, {"inverse": 1})):
        if last == 17:
            m.add([x], tolerance, axis=1, **attrs)
            m.add([x, np.int64(5)], tolerance, axis=1, **attrs)
        else:
            m.add([x, None, np.int64(1)], tolerance, **attrs)
            m.add([x, np.int64(5), np.int64(-3)], tolerance, **attrs)


@row("STFT")
def short_fourier(m):
    for dtype in m.floats("T1")[:1]:
        signal = m.any(dtype, 2, 40, 1)
        window = m.any(dtype, 16, low=0, high=1)
        for sided in (0, 1):
            for inputs in ([signal, np.int64(8), window],
                           [signal, np.int64(6), None, np.int64(16)],
                           [signal, np.int64(8), window, np.int64(16)]):
                m.add(inputs, sums(16, 16, powers=4), onesided=sided)


@row("MelWeightMatrix")
def mel(m):
    m.add([np.int64(8), np.int64(64), np.int64(8192), np.float32(100),
           np.float32(3000)], ulps(4))
