"""Operators of domain ai.onnx.ml on numbers: see ort_contrib.py."""

import numpy as np

import ort_case
from ort_contrib import near, operator

DOMAIN = "ai.onnx.ml"


def rows(d, dtypes=("float32",)):
    dtype = d.one(dtypes)
    return d.tensor(d.one([(d.upto(1, 4),), (d.upto(1, 3), d.upto(1, 4))]),
                    dtype, -3, 3)


def numbers(d, count, low=-2.0, high=2.0):
    return [float(np.float32(d.rng.uniform(low, high))) for _ in range(count)]


@operator
def ArrayFeatureExtractor(d):
    x = d.tensor(d.shape(1, 3), d.one(["float32", "float64", "int32",
                                       "int64"]))
    places = d.tensor((d.upto(1, 4),), "int64", 0, x.shape[-1] - 1)
    return d.put([x, places], ort_case.exact, domain=DOMAIN)


@operator
def Binarizer(d):
    attrs = {"threshold": d.one([0.5, -1.0, 1.25])} if d.often() else {}
    x = d.tensor(d.shape(1, 3))
    x.flat[0] = attrs.get("threshold", 0)  # Not above it.
    return d.put([x], ort_case.exact, domain=DOMAIN, **attrs)


@operator
def Imputer(d):
    x = rows(d, ("float32", "int64"))
    count = d.one([1, x.shape[-1]])
    if x.dtype == np.int64:
        attrs = {"imputed_value_int64s": [d.upto(5, 9) for _ in range(count)],
                 "replaced_value_int64": d.upto(-3, 3)}
    else:
        hole = d.one([0.0, 1.5, float("nan"), float("inf")])
        x[d.rng.random(x.shape) < 0.4] = hole
        attrs = {"imputed_value_floats": numbers(d, count),
                 "replaced_value_float": hole}
    return d.put([x], ort_case.exact, domain=DOMAIN, **attrs)


@operator
def LinearRegressor(d):
    x = rows(d)
    targets = d.upto(1, 3)
    attrs = {"coefficients": numbers(d, targets * x.shape[-1])}
    if targets > 1 or d.often():
        attrs["targets"] = targets
    if d.often():
        attrs["intercepts"] = numbers(d, targets)
    return d.put([x], ort_case.sums(x.shape[-1], powers=32.0), domain=DOMAIN,
                 **attrs)


@operator
def Normalizer(d):
    x = rows(d, ("float32", "float64", "int32", "int64"))
    if d.often(0.2):
        x[...] = 0
    norm = d.one(["MAX", "L1", "L2"])
    return d.put([x], near(8), domain=DOMAIN, norm=norm)


@operator
def Scaler(d):
    x = rows(d, ("float32", "float64", "int32", "int64"))
    count = d.one([1, x.shape[-1]])
    return d.put([x], near(8), domain=DOMAIN, offset=numbers(d, count),
                 scale=numbers(d, count))
