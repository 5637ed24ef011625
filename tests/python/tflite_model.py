"""Writes a .tflite file of y = relu(x * c + d), with the names of
package_support.model(), for a Python that has LiteRT.

usage: tflite_model.py FILE [--wrong] [--fused]
"""

import sys

import flatbuffers
import numpy
from ai_edge_litert import schema_py_generated as schema


def tensor(name, buffer=0):
    made = schema.TensorT()
    made.name = name.encode()
    made.shape = [3]
    made.type = schema.TensorType.FLOAT32
    made.buffer = buffer
    return made


def buffer_of(*numbers):
    made = schema.BufferT()
    made.data = numpy.frombuffer(
        numpy.array(numbers, numpy.float32).tobytes(), numpy.uint8)
    return made


def operator(code, inputs, output, kind=None, options=None):
    made = schema.OperatorT()
    made.opcodeIndex = code
    made.inputs, made.outputs = inputs, [output]
    made.builtinOptionsType = kind or schema.BuiltinOptions.NONE
    made.builtinOptions = options
    return made


def code_of(operator_code):
    made = schema.OperatorCodeT()
    made.builtinCode = made.deprecatedBuiltinCode = operator_code
    made.version = 1
    return made


def model(is_wrong, is_fused):
    graph = schema.SubGraphT()
    graph.tensors = [tensor("x"), tensor("c", 1), tensor("d", 2), tensor("m"),
                     tensor("a"), tensor("y")]
    graph.inputs, graph.outputs = [0], [5]
    add = schema.AddOptionsT()
    if is_fused:
        add.fusedActivationFunction = schema.ActivationFunctionType.RELU
    graph.operators = [
        operator(0, [0, 1], 3, schema.BuiltinOptions.MulOptions,
                 schema.MulOptionsT()),
        operator(1, [3, 2], 4, schema.BuiltinOptions.AddOptions, add),
        operator(2, [4], 5)]
    made = schema.ModelT()
    made.version = 3
    made.operatorCodes = [code_of(each) for each in (
        schema.BuiltinOperator.MUL, schema.BuiltinOperator.ADD,
        schema.BuiltinOperator.RELU)]
    made.subgraphs = [graph]
    made.buffers = [schema.BufferT(), buffer_of(1, 2, 3),
                    buffer_of(10, 13 if is_wrong else 10, -10)]
    return made


def main():
    builder = flatbuffers.Builder(1024)
    builder.Finish(model("--wrong" in sys.argv, "--fused" in sys.argv).Pack(
        builder), b"TFL3")
    with open(sys.argv[1], "wb") as file:
        file.write(builder.Output())


if __name__ == "__main__":
    main()
