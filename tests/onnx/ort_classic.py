"""Operators of domain ai.onnx.ml on numbers: see ort_contrib.py."""

import numpy as np
from onnx import numpy_helper

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
    if d.often(0.3):
        attrs["post_transform"] = d.one(["NONE", "SOFTMAX", "LOGISTIC"])
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


class Trees:
    """Random ones, as the attributes of TreeEnsemble."""

    def __init__(self, d, features, targets):
        self.d, self.features, self.targets = d, features, targets
        self.nodes, self.leaves, self.members = [], [], []

    def branch(self, depth):
        """(1, a leaf) or (0, a node)."""
        if depth == 0 or self.d.often(0.3):
            self.leaves.append((self.d.upto(0, self.targets - 1),
                                self.d.rng.uniform(-9, 9)))
            return 1, len(self.leaves) - 1
        return 0, self.node(depth)

    def node(self, depth):
        place = len(self.nodes)
        mode = self.d.upto(0, 6)
        if mode == 6:
            count = self.d.upto(1, 3)
            self.members += [self.d.upto(-3, 3) for _ in range(count)]
            self.members.append(float("nan"))
        self.nodes.append(None)
        yes, no = self.branch(depth - 1), self.branch(depth - 1)
        self.nodes[place] = (self.d.upto(0, self.features - 1), mode,
                             self.d.upto(-3, 3), *yes, *no, self.d.upto(0, 1))
        return place

    def attributes(self, dtype):
        roots = [self.node(self.d.upto(1, 3))
                 for _ in range(self.d.upto(1, 4))]
        columns = list(zip(*self.nodes))

        def tensor(values, kind=dtype):
            return numpy_helper.from_array(np.asarray(values, kind))
        attrs = {"n_targets": self.targets, "tree_roots": roots,
                 "nodes_featureids": columns[0],
                 "nodes_modes": tensor(columns[1], np.uint8),
                 "nodes_splits": tensor(columns[2]),
                 "nodes_trueleafs": columns[3],
                 "nodes_truenodeids": columns[4],
                 "nodes_falseleafs": columns[5],
                 "nodes_falsenodeids": columns[6],
                 "leaf_targetids": [leaf[0] for leaf in self.leaves],
                 "leaf_weights": tensor([leaf[1] for leaf in self.leaves])}
        if self.members:
            attrs["membership_values"] = tensor(self.members)
        if self.d.often():
            attrs["nodes_missing_value_tracks_true"] = columns[7]
        if self.d.often():
            attrs["aggregate_function"] = self.d.upto(0, 3)
        return attrs


@operator
def TreeEnsemble(d):
    dtype = d.one(["float32", "float64"])
    # Whole numbers, which often are where a node parts them.
    x = d.tensor((d.upto(1, 5), d.upto(1, 3)), "int64", -3, 3).astype(dtype)
    if d.often(0.3):
        x[d.rng.random(x.shape) < 0.3] = np.nan
    trees = Trees(d, x.shape[1], d.upto(1, 3))
    return d.put([x], near(32), domain=DOMAIN, version=5,
                 **trees.attributes(dtype))
