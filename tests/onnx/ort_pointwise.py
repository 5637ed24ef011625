"""Operators that go element by element, that reduce, and the softmax family:
rows for ort_table.py."""

import numpy as np
from onnx import helper

from ort_case import exact, sums, ulps
from ort_table import ints, row

# Where a function is defined, if not everywhere.
DOMAINS = {
    "Acos": (-1, 1), "Acosh": (1, 4), "Asin": (-1, 1), "Atanh": (-0.9, 0.9),
    "Log": (0.1, 5), "Sqrt": (0, 5), "Reciprocal": (0.5, 4), "Tan": (-1, 1),
    "Erf": (-3, 3),
}
EXACT = {"Abs", "Ceil", "Floor", "Identity", "Neg", "Not", "Relu", "Round",
         "Sign", "BitwiseNot", "IsNaN", "IsInf"}


def with_corners(x):
    """The numbers that are rounded or told apart in special ways."""
    if x.dtype.kind == "f":
        corners = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf,
                   np.nan]
        x.reshape(-1)[:len(corners)] = corners
    return x


def parameter_of(m):
    if m.op == "Identity":
        return "V" if m.version >= 14 else "T"
    return "T1" if m.op in ("IsNaN", "IsInf") else "T"


@row("Abs", "Ceil", "Floor", "Identity", "Neg", "Not", "Round", "Sign",
     "Relu", "BitwiseNot", "IsNaN", "IsInf",
     "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf",
     "Exp", "HardSwish", "Log", "Mish", "Reciprocal", "Sigmoid", "Sin", "Sinh",
     "Softplus", "Softsign", "Sqrt", "Tan", "Tanh")
def unary(m):
    low, high = DOMAINS.get(m.op, (-4, 4))
    for dtype in m.types(parameter_of(m)):
        x = m.any(dtype, 3, 17, low=low, high=high)
        if m.op == "Sign":  # Unspecified for NaN.
            m.add([x])
        elif m.op in EXACT:
            m.add([with_corners(x)])
        else:
            # Kernels take polynomials of their own for these.
            m.add([x], ulps(8, floor=1))
    if m.op == "IsInf":
        x = with_corners(m.any("float32", 3, 17))
        m.add([x], detect_positive=0)
        m.add([x], detect_negative=0)


@row("Celu", "Elu", "LeakyRelu", "Selu", "ThresholdedRelu", "HardSigmoid",
     "Gelu", "Shrink")
def unary_with_attributes(m):
    choices = {
        "Celu": [{}, {"alpha": 0.5}], "Elu": [{}, {"alpha": 0.5}],
        "LeakyRelu": [{}, {"alpha": 0.3}],
        "Selu": [{}, {"alpha": 1.2, "gamma": 2.0}],
        "ThresholdedRelu": [{}, {"alpha": 0.3}],
        "HardSigmoid": [{}, {"alpha": 0.4, "beta": 0.3}],
        "Gelu": [{}, {"approximate": "tanh"}],
        "Shrink": [{}, {"lambd": 1.0, "bias": 0.25}],
    }
    for attrs in choices[m.op]:
        for dtype in m.floats():
            # onnxruntime takes float32 for the attributes of Shrink and the
            # constants of Gelu's approximation.
            single = dtype.name == "float64" and m.op in ("Shrink", "Gelu")
            m.add([m.any(dtype, 3, 17)],
                  ulps(2.0**29 if single else 8, floor=1), **attrs)


@row("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mean", "Sum", "Equal",
     "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor",
     "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "Mod", "PRelu")
def binary(m):
    pairs = [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((1, 3, 1), (2, 1, 4)),
             ((), (2, 3))]
    if m.op in ("Max", "Min", "Mean", "Sum") and m.version < 8:
        pairs = pairs[:1]
    if m.op == "PRelu":
        pairs = [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 1)), ((2, 3), ())]
    tolerance = {"Pow": ulps(8), "Mean": ulps(1)}.get(m.op, exact)
    for i, dtype in enumerate(m.types()):
        attrs = [{}]
        if m.op == "BitShift":
            attrs = [{"direction": "LEFT"}, {"direction": "RIGHT"}]
        if m.op == "Mod":
            attrs = [{"fmod": 1}] + [{}] * (dtype.kind != "f")
        for left, right in pairs[:4 if i == 0 else 1]:
            for each in attrs:
                m.add(operands(m, dtype, left, right), tolerance, **each)
    if m.op in ("Max", "Min", "Mean", "Sum") and m.version >= 8:
        x, y, z = (m.any("float32", *s) for s in ((2, 1), (3,), (2, 3)))
        m.add([x], tolerance)
        m.add([x, y, z], ulps(2, floor=4) if m.op in ("Mean", "Sum")
              else exact)
    if m.op == "Pow" and m.version >= 12:
        m.add([m.any("float32", 3, 4, low=0.1), m.any("int64", 4, high=3)],
              ulps(8))


def operands(m, dtype, left, right):
    x, y = m.any(dtype, *left), m.any(dtype, *right)
    if m.op in ("Div", "Mod"):
        y = np.where(y == 0, np.ones_like(y), y)
    if m.op == "Pow":
        x, y = np.abs(x) + np.ones_like(x), np.abs(y)
    if m.op == "BitShift":
        y = np.abs(y)
    return [x, y]


@row("Clip")
def clip(m):
    if m.version < 11:
        for dtype in m.floats():
            x = m.any(dtype, 3, 5)
            for attrs in ({}, {"min": -1.0}, {"max": 1.5},
                          {"min": -1.0, "max": 1.5}):
                m.add([x], **attrs)
        return
    for dtype in m.types():
        x = m.any(dtype, 3, 5, low=0)
        low, high = np.array(1, dtype), np.array(3, dtype)
        for inputs in ([x], [x, low], [x, None, high], [x, low, high]):
            m.add(inputs)
    # The larger limit comes last.
    x = m.any("float32", 3, 5)
    m.add([x, np.float32(2.0).reshape(()), np.float32(-2.0).reshape(())])


@row("Where")
def where(m):
    for dtype in m.types():
        m.add([m.any(bool, 2, 1, 4), m.any(dtype, 3, 1), m.any(dtype, 4)])


@row("Cast")
def cast(m):
    from_types, to_types = m.types("T1"), m.types("T2")
    for source in from_types:
        for target in to_types:
            low = 0 if target.kind == "u" else -4
            x = m.any(source, 3, 5, low=low, high=100)
            m.add([x], to=helper.np_dtype_to_tensor_dtype(target))


@row("CastLike")
def cast_like(m):
    for source, target in (("float32", "int32"), ("int32", "float16"),
                           ("float64", "float32"), ("uint8", "bool")):
        m.add([m.any(source, 3, 5, low=0), m.any(target, 2)])


# --- reductions -------------------------------------------------------------

AXES_AS_INPUT = {"ReduceSum": 13}


@row("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
     "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")
def reduce(m):
    low = 0.2 if m.op == "ReduceLogSum" else -2
    for i, dtype in enumerate(m.types()):
        # For integers, onnxruntime is off by one: see ort_deviations.md.
        if "Log" in m.op and dtype.kind != "f":
            continue
        x = m.any(dtype, 2, 3, 4, 5, low=low, high=3)
        if m.op == "ReduceProd":
            x = m.any(dtype, 2, 3, 4, 5, low=1, high=1.5)
        choices = [(None, 1), ([1], 0), ([0, 2], 1), ([3], 1), ([2, 3], 0)]
        if m.version >= 11:
            choices += [([-1], 0), ([-2, 0], 1)]
        for axes, keep in choices if i == 0 else choices[:3]:
            reduce_one(m, x, axes, keep)


def reduce_one(m, x, axes, keep):
    # Logarithms of rounded sums: relative errors of them become absolute.
    tolerance = sums(120, powers=2) if x.dtype.kind == "f" else exact
    if m.op in ("ReduceMax", "ReduceMin"):
        tolerance = exact
    if m.version < AXES_AS_INPUT.get(m.op, 18):
        attrs = {} if axes is None else {"axes": axes}
        m.add([x], tolerance, keepdims=keep, **attrs)
        return
    given = None if axes is None else ints(*axes)
    constant = () if axes is None else (1,)
    m.add([x, given], tolerance, constant=constant, keepdims=keep)
    if axes is None:
        m.add([x, ints()], tolerance, constant=(1,), noop_with_empty_axes=1)


@row("ArgMax", "ArgMin")
def arg(m):
    for i, dtype in enumerate(m.types()):
        x = m.any(dtype, 3, 4, 5)
        for axis in (0, 1, 2) + ((-1,) if m.version >= 11 else ()):
            for keep in (0, 1):
                last = [{}]
                if m.version >= 12:
                    last = [{}, {"select_last_index": 1}]
                for attrs in last[:2 if i == 0 else 1]:
                    m.add([np.round(x).astype(dtype)], axis=axis,
                          keepdims=keep, **attrs)


@row("CumSum")
def cum_sum(m):
    for dtype in m.types():
        for axis in (0, 1, -1):
            for attrs in ({}, {"exclusive": 1}, {"reverse": 1},
                          {"exclusive": 1, "reverse": 1}):
                m.add([m.any(dtype, 3, 4), np.array(axis, np.int32)],
                      sums(4), constant=(1,), **attrs)


@row("Softmax", "LogSoftmax", "Hardmax")
def softmax(m):
    first = -1 if m.version >= 13 else 1
    for dtype in m.floats():
        for shape in ((2, 3, 4, 2), (3, 5), (4,)):
            x = m.any(dtype, *shape)
            if m.op == "Hardmax":
                x = np.round(x)
            rank = len(shape)
            axes = list(range(rank))
            if m.version >= 11:
                axes += [-1, -rank]
            tolerance = exact if m.op == "Hardmax" else ulps(32, floor=1)
            if -rank <= first < rank:
                m.add([x], tolerance)
            for axis in axes:
                m.add([x], tolerance, axis=axis)
