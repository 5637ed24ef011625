#!/usr/bin/env python3
"""Writes cases of the operators that Glow writes, in the layout of ONNX's own.

    build/venv/bin/python tests/onnx/glow_cases.py FOLDER

What is expected is calculated by glow_reference.py, or is what Glow's own tests
of the operator expect; results of quantized operators must be equal."""

import sys

import numpy as np

import glow_layer_cases
import glow_lookup_cases
import glow_reference as glow
from glow_case import Cases, Value, int8

SEED = 20261127
F = np.float32


def pair(random, scale=0.5, offset=3):
    """Two tensors of 8 bits with scales that make halves."""
    return [int8(random.integers(-128, 128, (4, 5)), scale, offset),
            int8(random.integers(-128, 128, (4, 5)), 0.25, -7)]


def arithmetic(cases, random):
    a, b = random.standard_normal((2, 3, 4)).astype(F)
    for op, result in (("Add", a + b), ("Sub", a - b), ("Mul", a * b),
                       ("Div", a / b), ("Max", np.maximum(a, b)),
                       ("Min", np.minimum(a, b)),
                       ("Fmod", np.fmod(a, b)),
                       ("CmpEQ", a == b), ("CmpNEQ", a != b),
                       ("CmpLT", a < b), ("CmpLTE", a <= b)):
        cases.put(op, [a, b], [result], rtol=1e-6)
    cases.put("Pow", [np.abs(a), b], [np.abs(a) ** b], rtol=1e-5)
    cases.put("FloorDiv", [a, b], [np.floor(a / b)],
              attributes={"Truncate": 0})
    i, j = (random.integers(1, 50, (2, 6)) * [[-1], [1]]).astype(np.int32)
    cases.put("FloorDiv", [i, j], [np.trunc(i / j).astype(np.int32)],
              attributes={"Truncate": 1}, name="FloorDiv_int32")
    cases.put("Fmod", [i, j], [np.fmod(i, j)], name="Fmod_int32")
    cases.put("Modulo", [i], [np.fmod(i, 7)],
              attributes={"Divisor": 7, "SignFollowDivisor": 0})
    cases.put("Modulo", [i], [np.mod(i, 7)], name="Modulo_sign",
              attributes={"Divisor": 7, "SignFollowDivisor": 1})
    cases.put("MulConst", [a], [F(1.5) * a], attributes={"LHS": 1.5})
    cases.put("RsubConst", [a], [F(1.5) - a], attributes={"LHS": 1.5})
    p, q = random.integers(0, 2, (2, 9)).astype(bool)
    m, n = random.integers(-99, 99, (2, 9)).astype(np.int64)
    for op, by in (("And", np.logical_and), ("Or", np.logical_or),
                   ("Xor", np.logical_xor)):
        cases.put(op, [p, q], [by(p, q)])
        cases.put("Bitwise" + op, [p, q], [by(p, q)], name=f"Bitwise{op}_bool")
    for op, by in (("And", np.bitwise_and), ("Or", np.bitwise_or),
                   ("Xor", np.bitwise_xor)):
        cases.put("Bitwise" + op, [m, n], [by(m, n)])
    cases.put("Not", [p], [~p])
    cases.put("BitwiseNot", [m], [~m])
    cases.put("Select", [a < b, a, b], [np.where(a < b, a, b)])


def quantized_arithmetic(cases, random):
    for op, by in (("Add", glow.add_int8), ("Sub", glow.sub_int8),
                   ("Mul", glow.mul_int8)):
        a, b = pair(random)
        cases.put(op, [a, b], [int8(by(a, b, 1.0, 1), 1.0, 1)],
                  name=f"{op}_int8")
    a, b = pair(random)
    b.array[b.array == b.offset] += 1
    cases.put("Div", [a, b], [int8(glow.div_int8(a, b, 0.5, 1), 0.5, 1)],
              name="Div_int8")
    for op, by in (("Max", np.maximum), ("Min", np.minimum)):
        a, b = pair(random)
        parts = [glow.quantized(v.real(), 0.75, 5) for v in (a, b)]
        cases.put(op, [a, b], [int8(by(*parts), 0.75, 5)], name=f"{op}_int8")
    a, b = pair(random)
    is_left = random.integers(0, 2, (4, 5)).astype(bool)
    taken = np.where(is_left, a.real(), b.real())
    cases.put("Select", [is_left, a, b],
              [int8(glow.stepped(taken / F(1) + F(1)), 1.0, 1)],
              name="Select_int8")
    for op, by in (("CmpLTE", np.less_equal), ("CmpEQ", np.equal)):
        a, b = pair(random)
        cases.put(op, [a, b], [by(a.real(), b.real())], name=f"{op}_int8")
    batch = int8(random.integers(-128, 128, (3, 4, 5)), 0.5, 3)
    _, row = pair(random)
    cases.put("BatchedAdd", [batch, row],
              [int8(glow.add_int8(batch, row, 1.0, 1), 1.0, 1)],
              name="BatchedAdd_int8")
    cases.put("BatchedMul", [batch, row],
              [int8(glow.mul_int8(batch, row, 8.0, 1), 8.0, 1)],
              name="BatchedMul_int8")
    sums = batch.centred().sum(1).astype(F) * batch.scale / F(4)
    cases.put("BatchedReduceAdd", [batch],
              [int8(glow.clipped(glow.away(sums) + 1), 4.0, 1)],
              attributes={"Axis": 1}, name="BatchedReduceAdd_int8")


def conversions(cases, random):
    # Halves: an odd offset tells whether it is added before rounding.
    x = (np.arange(-20, 20) * 0.25).astype(F)
    cases.put("Quantize", [x], [int8(glow.quantized(x, 0.5, 3), 0.5, 3)])
    cases.put("Quantize", [x.astype(np.float16)],
              [int8(glow.quantized(x, 0.5, 3), 0.5, 3)],
              name="Quantize_float16")
    wide = Value(glow.quantized(x * 1e4, 0.5, 0, np.int32), "i32", 0.5, 0)
    cases.put("Quantize", [(x * 1e4).astype(F)], [wide], name="Quantize_int32")
    cases.put("Dequantize", [wide], [wide.real()], name="Dequantize_int32")
    a = int8(random.integers(-128, 128, (3, 7)), 0.3, -11)
    cases.put("Dequantize", [a], [a.real()])
    cases.put("Dequantize", [a], [a.real().astype(np.float16)],
              name="Dequantize_float16")
    cases.put("RescaleQuantized", [a],
              [int8(glow.quantized(a.real(), 0.15, 1), 0.15, 1)])
    # What the producer of a value or a note says counts where a node does not.
    cases.put("RescaleQuantized", [a], name="RescaleQuantized_noted",
              outputs=[int8(glow.quantized(a.real(), 0.15, 1), 0.15, 1)],
              states_inputs=False)
    mapping = int8(random.integers(-128, 128, 256), 0.1, 2)
    cases.put("IntLookupTable", [a, mapping], constants=[1], outputs=[
        int8(mapping.array[a.array.astype(int) + 128], 0.1, 2)])
    y = (x * 3.7).astype(F)
    for kind in (np.float16, np.int32, np.int64, np.bool_):
        cases.put("ConvertTo", [y], [y.astype(kind)],
                  name=f"ConvertTo_{kind.__name__}")


def of_one(cases, random):
    x = (random.standard_normal((3, 5)) * 2).astype(F)
    positive = np.abs(x) + F(0.1)
    unit = np.clip(x / 3, -0.95, 0.95).astype(F)
    wide = x.astype(np.float64)
    gelu = wide / 2 * (1 + np.tanh(np.sqrt(2 / np.pi)
                                   * (wide + 0.044715 * wide ** 3)))
    sigmoid = glow.expit(wide)
    for op, given, result in (
            ("Abs", x, np.abs(x)), ("Neg", x, -x), ("Floor", x, np.floor(x)),
            ("Ceil", x, np.ceil(x)), ("Sign", x, np.sign(x)),
            ("Truncate", x, np.trunc(x)),
            ("Round", np.round(x * 2) / 2, np.rint(np.round(x * 2) / 2)),
            ("Sqrt", positive, np.sqrt(positive)),
            ("Rsqrt", positive, 1 / np.sqrt(positive.astype(np.float64))),
            ("Reciprocal", positive, 1 / positive),
            ("Sin", x, np.sin(wide)), ("Cos", x, np.cos(wide)),
            ("Log", positive, np.log(positive.astype(np.float64))),
            ("Exp", x, np.exp(wide)), ("Erf", x, glow.erf(wide)),
            ("Asin", unit, np.arcsin(unit)), ("Acos", unit, np.arccos(unit)),
            ("Atan", x, np.arctan(wide)), ("Tanh", x, np.tanh(wide)),
            ("Sigmoid", x, sigmoid), ("Swish", x, wide * sigmoid),
            ("Relu", x, np.maximum(x, 0)), ("Gelu", x, gelu),
            ("HardSwish", x, wide * np.clip(wide + 3, 0, 6) / 6),
            ("SoftPlus", x, np.log1p(np.exp(wide)))):
        cases.put(op, [given], [result.astype(F)], rtol=2e-6, atol=1e-6)
    hollow = x.copy()
    hollow[0, :2] = np.nan
    cases.put("IsNaN", [hollow], [np.isnan(hollow)])
    cases.put("ReplaceNaN", [hollow],
              [np.where(np.isnan(hollow), F(4.5), hollow)],
              attributes={"Value": 4.5})
    cases.put("Clip", [x], [np.clip(x, F(-0.5), F(0.75))],
              attributes={"Min": -0.5, "Max": 0.75})
    cases.put("LeakyRelu", [x], [np.where(x < 0, x * F(0.25), x)],
              attributes={"Alpha": 0.25})
    slope = random.standard_normal((3, 5)).astype(F)
    cases.put("PRelu", [x, slope], [np.where(x < 0, x * slope, x)])
    share = np.clip(glow.expit(wide * 9), 0.1, 0.9)
    cases.put("Logit", [glow.expit(wide * 9).astype(F)],
              [np.log(share / (1 - share)).astype(F)],
              attributes={"Epsilon": 0.1}, rtol=1e-5, atol=1e-6)
    cases.put("ThresholdGrad", [slope, x],
              [np.where(x > F(0.5), slope, F(0))],
              attributes={"Threshold": 0.5})
    cases.put("Regression", [x, slope], [x])
    bounds = [-1.0, 0.0, 0.5, 2.0]
    given = np.concatenate([x.ravel(), np.array(bounds, F)])
    cases.put("Bucketize", [given],
              [np.searchsorted(bounds, given, "left").astype(np.int32)],
              attributes={"Boundaries": bounds})
    a = int8(random.integers(-128, 128, (3, 7)), 0.05, -11)
    for op, by in (("Tanh", np.tanh), ("Exp", np.exp),
                   ("Relu", lambda v: np.maximum(v, 0)), ("Abs", np.abs)):
        cases.put(op, [a], [int8(glow.quantized(by(a.real()), 0.02, 5),
                                 0.02, 5)], name=f"{op}_int8")
    gates = random.standard_normal((2, 12)).astype(F)
    cell = random.standard_normal((2, 3)).astype(F)
    i, f, g, o = np.split(gates.astype(np.float64), 4, 1)
    new = glow.expit(f) * cell + glow.expit(i) * np.tanh(g)
    cases.put("LSTMUnit", [gates, cell],
              [(glow.expit(o) * np.tanh(new)).astype(F), new.astype(F)],
              rtol=1e-5, atol=1e-6)


def main(folder):
    cases = Cases(folder)
    for write in (arithmetic, quantized_arithmetic, conversions, of_one,
                  glow_layer_cases.write, glow_lookup_cases.write):
        write(cases, np.random.default_rng(SEED))
    print(f"{len(cases.names)} cases of {len(cases.operators)} operators")
    print(" ".join(sorted(cases.operators)))


if __name__ == "__main__":
    main(sys.argv[1])
