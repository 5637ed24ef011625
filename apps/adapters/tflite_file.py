"""A .tflite file whose inner tensors can be had, for litert_adapter.py.

A delegate such as XNNPACK computes what lies between outputs together, and
leaves the tensors there as they were. So a file is run whose outputs are the
tensors that are wanted.
"""

import copy
import os

from adapter_protocol import need, numpy

interpreter = need("ai_edge_litert.interpreter", "ai-edge-litert")
schema = need("ai_edge_litert.schema_py_generated", "ai-edge-litert")

FILE_IDENTIFIER = b"TFL3"


class TensorFile:
    def __init__(self, path):
        with open(path, "rb") as file:
            content = bytearray(file.read())
        if content[4:8] != FILE_IDENTIFIER:
            raise ValueError(f"{path}: is not a .tflite file, expected TFL3 at "
                             "byte 4")
        self._path = path
        self._model = schema.ModelT.InitFromPackedBuf(content, 0)
        graph = self._model.subgraphs[0]
        self._graph = graph
        self._own = list(graph.outputs)
        self._made = {}  # What operators make, by name; the first counts.
        # Tensors that were changed by an activation in the same operator.
        self.activated = set()
        for operator in graph.operators:
            for tensor in operator.outputs:
                if tensor < 0:  # An output that is left out.
                    continue
                self._made.setdefault(self._name(tensor), tensor)
                if getattr(operator.builtinOptions, "fusedActivationFunction",
                           schema.ActivationFunctionType.NONE):
                    self.activated.add(self._name(tensor))
        self.names = set(self._made)
        self.input_names = [self._name(each) for each in graph.inputs]
        self.output_names = [self._name(each) for each in graph.outputs]

    def shape_of(self, name):
        tensor = self._graph.tensors[self._made[name]]
        signature = tensor.shapeSignature
        return [int(side) for side in
                (tensor.shape if signature is None else signature)]

    def _name(self, tensor):
        return self._graph.tensors[tensor].name.decode(errors="replace")

    def replace(self, names):
        """Has these tensors read as further inputs, in this order."""
        for name in names:
            tensor = self._made[name]
            spare = copy.copy(self._graph.tensors[tensor])
            spare.name = b"replaced:" + spare.name
            self._graph.tensors.append(spare)
            for operator in self._graph.operators:
                operator.outputs = [
                    len(self._graph.tensors) - 1 if each == tensor else each
                    for each in operator.outputs]
            self._graph.inputs = [*self._graph.inputs, tensor]
            self._own = [len(self._graph.tensors) - 1 if each == tensor
                         else each for each in self._own]

    def run(self, given, options, names, whole=()):
        """The tensors with these names, for the values of the inputs in their
        order: integers that stand for floats as these, but for those that are
        to stay `whole`, and a text where there is none."""
        shown = [self._made[name] for name in names if name in self._made]
        self._graph.outputs = self._own + [
            each for each in shown
            if each not in self._own and each not in self._graph.inputs]
        runner = interpreter.Interpreter(
            model_content=self._packed(), num_threads=options.threads or None,
            experimental_op_resolver_type=getattr(
                interpreter.OpResolverType, options.resolver))
        self._feed(runner, given, options.layout)
        runner.invoke()
        made = {}
        for tensor, each in zip(self._graph.outputs,
                                runner.get_output_details()):
            try:
                value = runner.get_tensor(each["index"])
                if self._name(tensor) not in whole:
                    value = as_float(each, value)
            except ValueError as why:
                value = f"LiteRT: {why}"
            made[self._name(tensor)] = value
        return made

    def _packed(self):
        import flatbuffers  # pylint: disable=import-outside-toplevel
        builder = flatbuffers.Builder(os.path.getsize(self._path))
        builder.Finish(self._model.Pack(builder), FILE_IDENTIFIER)
        return bytes(builder.Output())

    @staticmethod
    def _feed(runner, given, layout):
        laid = [laid_out(value, each["shape_signature"], layout)
                for each, value in zip(runner.get_input_details(), given)]
        for each, value in zip(runner.get_input_details(), laid):
            if tuple(each["shape"]) != value.shape:
                runner.resize_tensor_input(each["index"], value.shape)
        runner.allocate_tensors()
        for each, value in zip(runner.get_input_details(), laid):
            runner.set_tensor(each["index"], as_held(each, value))


def matched_inputs(names, inputs):
    """The values in the order of the file's inputs: by name if all have theirs,
    else in the order in which they were given."""
    if len(names) != len(inputs):
        raise ValueError(f"the file has the inputs {', '.join(names)}, "
                         f"expected {', '.join(inputs)}, as the ONNX model")
    if set(names) == set(inputs):
        return [inputs[name] for name in names]
    return list(inputs.values())


def fits(shape, signature):
    return len(shape) == len(signature) and all(
        want in (-1, side) for side, want in zip(shape, signature))


def laid_out(value, signature, layout):
    """Converters put the channels of an input last."""
    last = tuple(numpy.moveaxis(value, 1, -1).shape) if value.ndim > 2 else None
    is_last = layout == "nhwc" or (
        not layout and not fits(value.shape, signature) and
        last is not None and fits(last, signature))
    if is_last and last is not None:
        value = numpy.moveaxis(value, 1, -1)
    return numpy.ascontiguousarray(value)


def scales_of(detail):
    how = detail["quantization_parameters"]
    return how["scales"], how["zero_points"], how["quantized_dimension"]


def as_held(detail, value):
    """A float is quantised where the file reads integers."""
    scales, zeros, _ = scales_of(detail)
    want = numpy.dtype(detail["dtype"])
    if value.dtype.kind == "f" and want.kind in "iu" and len(scales) == 1:
        steps = numpy.rint(value / scales[0]) + zeros[0]
        limits = numpy.iinfo(want)
        return numpy.clip(steps, limits.min, limits.max).astype(want)
    # Files often count in 32 bits where the ONNX model does in 64.
    is_same_kind = value.dtype.kind == want.kind or \
        {value.dtype.kind, want.kind} <= set("iu")
    return value.astype(want) if is_same_kind else value


def as_float(detail, value):
    scales, zeros, axis = scales_of(detail)
    if value.dtype.kind not in "iu" or scales.size == 0:
        return value
    shape = [1] * value.ndim
    if len(scales) > 1:
        shape[axis] = len(scales)
    return ((value.astype(numpy.float32) - zeros.reshape(shape))
            * scales.reshape(shape)).astype(numpy.float32)
