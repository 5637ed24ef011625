"""What is common to the tables of operators: ort_pointwise.py, ort_shapes.py,
ort_layers.py. Each row is a function that makes the cases of some operators in
one version, given a Making."""

import zlib

import numpy as np
from onnx import defs

import ort_case

LAST_OPSET = 22
FIRST_OPSET = 7

TYPES = {f"tensor({kind})": np.dtype(name) for kind, name in (
    ("float", "float32"), ("double", "float64"), ("float16", "float16"),
    ("int8", "int8"), ("int16", "int16"), ("int32", "int32"),
    ("int64", "int64"), ("uint8", "uint8"), ("uint16", "uint16"),
    ("uint32", "uint32"), ("uint64", "uint64"), ("bool", "bool"))}

ROWS = {}  # The function, by operator.

# Operators without a row.
NOT_COMPARED = {
    "its numbers are random": (
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform "
        "RandomUniformLike"),
    "nodewise has no sequences": (
        "ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty "
        "SequenceErase SequenceInsert SequenceLength SequenceMap "
        "SplitToSequence"),
    "nodewise has no optional values": (
        "Optional OptionalGetElement OptionalHasElement"),
    "nodewise has no strings": (
        "RegexFullMatch StringConcat StringNormalizer StringSplit"),
    "onnxruntime does not have it, or has it as a function of ONNX's": (
        "AffineGrid CenterCropPad Col2Im ImageDecoder"),
    "ONNX's own cases are enough": "TfIdfVectorizer",
}


def row(*operators):
    def put(make):
        for op in operators:
            ROWS[op] = make
        return make
    return put


# Versions that onnxruntime's kernels leave out.
LACKING = {"GlobalLpPool_22", "MaxRoiPool_22", "RoiAlign_22"}


class Making:
    """One operator in one version, and the cases made so far."""

    def __init__(self, op, version, seed):
        self.op = op
        self.version = version
        self.opset = max(version, FIRST_OPSET)
        self.rng = np.random.default_rng(
            [seed, zlib.crc32(f"{op}-{version}".encode())])
        self.cases = []

    def add(self, inputs, tolerance=ort_case.exact, outputs=1, constant=(),
            **attrs):
        name = f"{self.op}_{self.version}_{len(self.cases)}"
        self.cases.append(ort_case.single(
            name, self.op, self.opset, inputs, attrs, outputs, tolerance,
            constant))

    def add_text(self, text, inputs, tolerance=ort_case.exact):
        """A graph in ONNX's text form."""
        name = f"{self.op}_{self.version}_{len(self.cases)}"
        self.cases.append(ort_case.parsed(name, text, self.opset, inputs,
                                          tolerance))

    def types(self, parameter="T"):
        """The numpy types that the version allows."""
        schema = defs.get_schema(self.op, self.opset, "")
        for constraint in schema.type_constraints:
            if constraint.type_param_str == parameter:
                return [TYPES[t] for t in constraint.allowed_type_strs
                        if t in TYPES]
        raise KeyError(f"{self.op}: has no type {parameter}")

    def floats(self, parameter="T"):
        return [t for t in self.types(parameter) if t.kind == "f"]

    def any(self, dtype, *shape, low=-4, high=4):
        """Random numbers of a type; integers from 0 if it has no others."""
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            return self.rng.uniform(low, high, shape).astype(dtype)
        if dtype.kind == "b":
            return self.rng.integers(0, 2, shape).astype(dtype)
        low = max(low, 0) if dtype.kind == "u" else low
        return self.rng.integers(int(low), int(high) + 1, shape).astype(dtype)

    def normal(self, *shape, dtype=np.float32):
        return self.rng.standard_normal(shape).astype(dtype)


def ints(*values):
    return np.array(values, np.int64)


def versions():
    """Pairs (operator, version) of ONNX's own domain that are in force
    somewhere from opset 7 to 22."""
    history = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            history.setdefault(schema.name, []).append(schema)
    for op, schemas in sorted(history.items()):
        schemas.sort(key=lambda schema: schema.since_version)
        for i, schema in enumerate(schemas):
            after = schemas[i + 1].since_version if i + 1 < len(
                schemas) else LAST_OPSET + 1
            if schema.deprecated or schema.since_version > LAST_OPSET:
                continue
            if after > FIRST_OPSET:
                yield op, schema.since_version


def make(op, version, seed):
    making = Making(op, version, seed)
    if op in ROWS:
        ROWS[op](making)
    return making.cases
