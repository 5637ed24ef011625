"""Encoders, trees, linear models and support vector machines of ai.onnx.ml on
numbers: see ort_contrib.py."""

import numpy as np
from onnx import numpy_helper

import ort_case
from ort_classic import DOMAIN, numbers, rows
from ort_contrib import near, operator

FLOATS = ("float32", "float64")
NUMBERS = (*FLOATS, "int32", "int64")
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
ANYTHING = (0.0, 1e30)


def scored(transform, tolerance, labels=None):
    """The tolerance of scores, behind labels if there are any. PROBIT is steep
    near 0 and 1, and near 0.5 onnxruntime loses half of its digits."""
    def of(case, outputs):
        found = tolerance(case, outputs)
        if transform == "PROBIT":
            found = [(1e-3, 0.02)] * len(outputs)
        return [labels or (0.0, 0.0), found[1]] if len(outputs) == 2 else found
    return of


def transform_of(d, attrs):
    if d.often(0.7):
        attrs["post_transform"] = d.one(TRANSFORMS)
    return attrs.get("post_transform", "NONE")


def distinct(d, count, low=-9, high=9):
    return [int(n) for n in d.rng.permutation(np.arange(low, high + 1))[:count]]


@operator
def LabelEncoder(d):
    """Bits of keys in version 2, where onnxruntime takes -0 for 0 and never
    finds NaN; in version 4 the last of equal keys, where it takes the first."""
    version = d.one([2, 4])
    if version == 2:
        kinds = d.one([("int64", "float32"), ("float32", "int64"),
                       ("int64", "int64"), ("float32", "float32")])
    else:
        kinds = d.one([("int64", "int64"), ("int64", "float32"),
                       ("int64", "float64"), ("float32", "int64"),
                       ("float32", "float32"), ("float64", "int64"),
                       ("float64", "float64")])
    count = d.upto(1, 6)
    keys = np.asarray(distinct(d, count, -4, 6), kinds[0])
    values = d.tensor((count,), kinds[1], -9, 9)
    x = d.tensor(d.shape(0, 3), "int64", -4, 6).astype(kinds[0])
    if version == 4 and keys.dtype.kind == "f" and d.often():
        keys[d.upto(0, count - 1)] = np.nan
        x[np.asarray(d.rng.random(x.shape) < 0.3)] = np.nan
    attrs, names = {}, {"int64": "int64s", "float32": "floats"}
    for what, array in (("keys", keys), ("values", values)):
        if array.dtype.name not in names or version == 4 and d.often():
            attrs[f"{what}_tensor"] = numpy_helper.from_array(array)
        else:
            attrs[f"{what}_{names[array.dtype.name]}"] = array.tolist()
    if d.often() and values.dtype.name == "int64":
        attrs["default_int64"] = d.upto(-99, 99)
    elif d.often() and values.dtype.name == "float32":
        attrs["default_float"] = d.upto(-99, 99) / 2
    elif version == 4 and d.often():
        attrs["default_tensor"] = numpy_helper.from_array(
            d.tensor((1,), values.dtype.name))
    return d.put([x], ort_case.exact, domain=DOMAIN, version=version, **attrs)


@operator
def OneHotEncoder(d):
    x = d.tensor(d.shape(1, 2), d.one([*FLOATS, "int64"]), -3, 5)
    cats = distinct(d, d.upto(1, 6), -3, 5)
    attrs = {"zeros": 1} if d.often() else {}
    if d.often(0.3):
        cats, attrs = list(range(-3, 6)), {"zeros": 0}
    return d.put([x], ort_case.exact, domain=DOMAIN, cats_int64s=cats, **attrs)


@operator
def FeatureVectorizer(d):
    dtype = d.one(NUMBERS)
    count = d.upto(1, 4)
    if d.often(0.3):
        inputs = [d.tensor((d.upto(1, 4),), dtype) for _ in range(count)]
    else:
        lines = d.upto(1, 3)
        inputs = [d.tensor((lines, d.upto(1, 4)), dtype) for _ in range(count)]
    return d.put(inputs, ort_case.exact, domain=DOMAIN,
                 inputdimensions=[max(0, x.shape[-1] + d.one([0, 0, -1, 2]))
                                  for x in inputs])


@operator
def LinearClassifier(d):
    x = rows(d, NUMBERS)
    width = x.shape[-1]
    scores = d.upto(1, 4)
    attrs = {"coefficients": numbers(d, scores * width),
             "intercepts": numbers(d, scores),
             "multi_class": d.upto(0, 1)}
    transform = transform_of(d, attrs)
    if scores > 1:
        attrs["classlabels_ints"] = distinct(d, scores)
    elif d.often() and transform != "PROBIT":
        attrs["classlabels_ints"] = distinct(d, 2)
    return d.put([x], scored(transform, ort_case.sums(width, powers=64.0)), 2,
                 domain=DOMAIN, **attrs)


def kernel_of(d):
    kind = d.one(["LINEAR", "POLY", "RBF", "SIGMOID"])
    # Whole powers: a sum below 0 has no other.
    return {"kernel_type": kind,
            "kernel_params": [float(np.float32(d.rng.uniform(0.05, 0.3))),
                              float(np.float32(d.rng.uniform(-1, 1))),
                              float(d.one([1, 2, 3, 4]))]}


@operator
def SVMRegressor(d):
    x = rows(d)
    width = x.shape[-1]
    count = d.upto(0, 5)
    attrs = {**kernel_of(d), "n_supports": count, "rho": numbers(d, 1),
             "coefficients": numbers(d, count or width)}
    if count:
        attrs["support_vectors"] = numbers(d, count * width)
    if d.often(0.3):
        attrs["one_class"] = 1
    return d.put([x], ort_case.sums(width + count, powers=256.0),
                 domain=DOMAIN, **attrs)


@operator
def SVMClassifier(d):
    x = rows(d, NUMBERS)
    width = x.shape[-1]
    classes = d.upto(2, 4)
    pairs = classes * (classes - 1) // 2
    attrs = {**kernel_of(d), "classlabels_ints": distinct(d, classes),
             "rho": numbers(d, pairs)}
    transform = transform_of(d, attrs)
    if d.often(0.3):
        attrs["coefficients"] = numbers(d, classes * width,
                                        d.one([-2.0, 0.0]), 2.0)
    else:
        counts = [d.upto(1, 3) for _ in range(classes)]
        attrs["vectors_per_class"] = counts
        attrs["support_vectors"] = numbers(d, sum(counts) * width)
        attrs["coefficients"] = numbers(d, (classes - 1) * sum(counts))
        # PROBIT of what is next to 0 or 1 depends on the last bit.
        if d.often(0.4) and transform != "PROBIT":
            attrs["prob_a"] = numbers(d, pairs, -2, -0.5)
            attrs["prob_b"] = numbers(d, pairs, -0.5, 0.5)
        elif classes == 2 and transform == "PROBIT":
            # Half of the scores are what the memory held.
            attrs["post_transform"] = transform = "NONE"
    tolerance = ort_case.sums(width + 5, powers=256.0)
    if "prob_a" in attrs:
        # An iteration that may stop a step later.
        def tolerance(_case, outputs):
            return [(1e-3, 5e-3)] * len(outputs)
    return d.put([x], scored(transform, tolerance), 2, domain=DOMAIN, **attrs)


class ListedTrees:
    """Random ones, as attributes nodes_* and lists of votes."""

    MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ",
             "BRANCH_NEQ"]

    def __init__(self, d, features, vote):
        self.d, self.features, self.vote = d, features, vote
        self.nodes, self.votes = [], []
        self.tree, self.first = 0, 0
        # A forest of one mode takes another way in onnxruntime.
        self.modes = d.one([self.MODES, [d.one(self.MODES)]])
        for self.tree in range(d.upto(1, 4)):
            self.first = len(self.nodes)
            self.node(d.upto(0, 3))

    def node(self, depth):
        d, number = self.d, len(self.nodes) - self.first
        self.nodes.append(None)
        place = len(self.nodes) - 1
        if depth == 0 or depth < 3 and d.often(0.2):
            row = (0, "LEAF", 0.0, 0, 0, 0)
            self.votes += [(self.tree, number, target, weight)
                           for target, weight in self.vote()]
        else:
            row = (d.upto(0, self.features - 1), d.one(self.modes),
                   float(d.upto(-3, 3)), self.node(depth - 1),
                   self.node(depth - 1), d.upto(0, 1))
        self.nodes[place] = (self.tree, number, *row)
        return number

    def attributes(self, votes, as_tensors):
        """`votes` is "class" or "target"."""
        names = ["treeids", "nodeids", "featureids", "modes", "values",
                 "truenodeids", "falsenodeids", "missing_value_tracks_true"]
        attrs = {f"nodes_{name}": list(column)
                 for name, column in zip(names, zip(*self.nodes))}
        if self.d.often():
            del attrs["nodes_missing_value_tracks_true"]
        for name, column in zip([f"{votes}_treeids", f"{votes}_nodeids",
                                 f"{votes}_ids", f"{votes}_weights"],
                                zip(*self.votes)):
            attrs[name] = list(column)
        if as_tensors:
            for name in ("nodes_values", f"{votes}_weights"):
                attrs[f"{name}_as_tensor"] = numpy_helper.from_array(
                    np.asarray(attrs.pop(name), "float64"))
        return attrs


def whole_rows(d, dtypes):
    """Whole numbers, which often are where a node parts them."""
    dtype = d.one(dtypes)
    x = d.tensor((d.upto(1, 5), d.upto(1, 3)), "int64", -3, 3).astype(dtype)
    if x.dtype.kind == "f" and d.often(0.3):
        x[d.rng.random(x.shape) < 0.3] = np.nan
    return x


def sixteenths(d, low=-32, high=32):
    """Weights whose sums are exact."""
    return d.upto(low, high) / 16


def base_values(d, count, as_tensors, attrs):
    base = [sixteenths(d) for _ in range(count)]
    if as_tensors:
        attrs["base_values_as_tensor"] = numpy_helper.from_array(
            np.asarray(base, "float64"))
    else:
        attrs["base_values"] = base


@operator
def TreeEnsembleRegressor(d):
    version = d.one([1, 3])
    x = whole_rows(d, FLOATS)
    as_tensors = version == 3 and x.dtype == np.float64 and d.often()
    targets = d.upto(1, 3)

    has_base = d.often()

    def vote():
        # onnxruntime counts only one for a single target, and leaves the base
        # value out where a target has none.
        if targets == 1 or has_base:
            return [(target, sixteenths(d)) for target in range(targets)]
        return [(d.upto(0, targets - 1), sixteenths(d))
                for _ in range(d.upto(1, 3))]
    attrs = ListedTrees(d, x.shape[1], vote).attributes("target", as_tensors)
    attrs["n_targets"] = targets
    if has_base:
        base_values(d, targets, as_tensors, attrs)
    if d.often(0.7):
        attrs["aggregate_function"] = d.one(["SUM", "AVERAGE", "MIN", "MAX"])
    return d.put([x], scored(transform_of(d, attrs), near(32)), domain=DOMAIN,
                 version=version, **attrs)


@operator
def TreeEnsembleClassifier(d):
    version = d.one([1, 3])
    x = whole_rows(d, NUMBERS)
    as_tensors = version == 3 and x.dtype == np.float64 and d.often()
    classes = d.upto(2, 4)
    kind = d.one(["first", "second", "both"]) if classes == 2 else "many"
    least = d.one([0, -32])

    def vote():
        chosen = {"first": [0], "second": [1], "both": [0, 1]}.get(
            kind, [d.upto(0, classes - 1) for _ in range(d.upto(1, 3))])
        return [(target, sixteenths(d, least)) for target in chosen]
    attrs = ListedTrees(d, x.shape[1], vote).attributes("class", as_tensors)
    attrs["classlabels_int64s"] = distinct(d, classes)
    transform = transform_of(d, attrs)
    if kind == "first" and transform == "PROBIT":
        # Half of the scores are what the memory held.
        attrs["post_transform"] = transform = "NONE"
    if d.often():
        base_values(d, 1 if classes == 2 else classes, as_tensors, attrs)
    # With two classes and votes for both, onnxruntime says 1 or 0, no matter
    # what the labels are, and never asks which score is larger.
    labels = ANYTHING if kind == "both" else None
    return d.put([x], scored(transform, near(64), labels), 2, domain=DOMAIN,
                 version=version, **attrs)
