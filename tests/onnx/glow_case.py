"""Writes models as Glow writes them by default, with what they must give, in
the layout of ONNX's own cases."""

import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOATS = onnx.AttributeProto.FLOATS
KINDS = {"float": (TensorProto.FLOAT, np.float32),
         "float16": (TensorProto.FLOAT16, np.float16),
         "i8": (TensorProto.INT8, np.int8),
         "ui8": (TensorProto.UINT8, np.uint8),
         "i16": (TensorProto.INT16, np.int16),
         "i32": (TensorProto.INT32, np.int32),
         "index32": (TensorProto.INT32, np.int32),
         "index64": (TensorProto.INT64, np.int64),
         "ui8fused": (TensorProto.UINT8, np.uint8),
         "ui8fusedfp16": (TensorProto.UINT8, np.uint8),
         "ui4fused": (TensorProto.UINT8, np.uint8),
         "ui4fusedfp16": (TensorProto.UINT8, np.uint8),
         "bool": (TensorProto.BOOL, np.bool_)}
OF_ARRAYS = {"float32": "float", "float16": "float16", "int32": "index32",
             "int64": "index64", "bool": "bool"}


class Value:
    """An array with the type that Glow gives it."""

    def __init__(self, array, kind=None, scale=None, offset=None):
        array = np.asarray(array)
        self.kind = kind or OF_ARRAYS[str(array.dtype)]
        self.array = array.astype(KINDS[self.kind][1])
        self.scale = None if scale is None else np.float32(scale)
        self.offset = offset

    def attributes(self, which):
        """What a node says of it."""
        made = [helper.make_attribute(f"{which}_elemKind", self.kind),
                sides(f"{which}_shape", self.array.shape)]
        if self.scale is not None:
            made += [helper.make_attribute(f"{which}_qScale",
                                           float(self.scale)),
                     helper.make_attribute(f"{which}_qOffset", self.offset)]
        return made

    def note(self):
        text = f"$offline:0$trainable:0$layout:*$elemKind:{self.kind}"
        if self.scale is not None:
            text += f"$qScale:{float(self.scale):.30f}$qOffset:{self.offset}"
        return text

    def real(self):
        return self.scale * (self.array.astype(np.int64)
                             - self.offset).astype(np.float32)

    def centred(self):
        return self.array.astype(np.int64) - self.offset


def int8(array, scale, offset):
    return Value(array, "i8", scale, offset)


def sides(name, numbers):
    made = helper.make_attribute(name, [0])
    made.ints[:] = [int(number) for number in numbers]
    return made


def attribute(name, value):
    """Lists may be empty, and have the type of their first number."""
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], float):
            return helper.make_attribute(name, list(value))
        if value and isinstance(value[0], str):
            return helper.make_attribute(name, list(value))
        return sides(name, value)
    return helper.make_attribute(name, value)


class Cases:
    def __init__(self, folder):
        self.data = pathlib.Path(folder)
        self.names = set()
        self.operators = set()

    # pylint: disable=too-many-arguments,too-many-locals
    def put(self, op, inputs, outputs, *, attributes=None, name=None, rtol=0.0,
            atol=0.0, constants=(), states_inputs=True, read=None):
        """A model of one operator. Inputs whose numbers are in `constants` are
        constants; outputs that are not in `read` have no reader."""
        self.operators.add(op)
        inputs = [value if isinstance(value, Value) else Value(value)
                  for value in inputs]
        outputs = [value if isinstance(value, Value) else Value(value)
                   for value in outputs]
        read = range(len(outputs)) if read is None else read
        node = helper.make_node(
            f"Glow_{op}", [f"in{i}" for i in range(len(inputs))],
            ["out" if i == 0 else f"out:{i}" for i in range(len(outputs))],
            name="out")
        for i, value in enumerate(inputs):
            if states_inputs:
                node.attribute.extend(value.attributes(f"i{i}"))
        for i, value in enumerate(outputs):
            node.attribute.extend(value.attributes(f"o{i}"))
        for key, value in (attributes or {}).items():
            node.attribute.append(
                attribute(key, value) if value != []
                else helper.make_attribute(key, [], attr_type=FLOATS))
        nodes = [node]
        for i in read:
            save = helper.make_node("Identity", [node.output[i]], [f"save{i}"],
                                    name=f"save{i}_save")
            save.attribute.extend(outputs[i].attributes("o0"))
            nodes.append(save)
        given = [i for i in range(len(inputs)) if i not in constants]
        graph = helper.make_graph(
            nodes, "glow",
            [self.info(f"in{i}", inputs[i]) for i in given],
            [self.info(f"save{i}", outputs[i]) for i in read],
            [self.tensor(f"in{i}", inputs[i]) for i in constants])
        model = helper.make_model(
            graph, producer_name="GlowONNXModelWriter", ir_version=7,
            opset_imports=[helper.make_opsetid("", 9)])
        self.write(name or op, model, [inputs[i] for i in given],
                   [outputs[i] for i in read], {"rtol": rtol, "atol": atol})

    @staticmethod
    def info(name, value):
        return helper.make_tensor_value_info(
            name, KINDS[value.kind][0], value.array.shape,
            doc_string=value.note())

    @staticmethod
    def tensor(name, value):
        made = numpy_helper.from_array(value.array, name)
        made.doc_string = value.note()
        return made

    def write(self, name, model, inputs, outputs, tolerance):
        assert name not in self.names, name
        self.names.add(name)
        case = self.data / "node" / f"test_glow_{name}"
        (case / "test_data_set_0").mkdir(parents=True)
        onnx.save(model, case / "model.onnx")
        (case / "tolerance.json").write_text(
            json.dumps([tolerance] * len(outputs)))
        for side, values in (("input", inputs), ("output", outputs)):
            for i, value in enumerate(values):
                tensor = numpy_helper.from_array(value.array)
                path = case / f"test_data_set_0/{side}_{i}.pb"
                path.write_bytes(tensor.SerializeToString())
