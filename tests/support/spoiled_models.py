"""Changes that spoil an ONNX model, or perhaps do not."""

import onnx
from onnx import AttributeProto, TensorProto, helper

TYPES = (1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 0, 22, 23, 99)
OP_TYPES = ("Relu", "Add", "MatMul", "Conv", "Reshape", "Cast", "Concat",
            "Softmax", "Gemm", "Identity", "Squeeze", "Slice", "Where", "Sum",
            "Transpose", "Clip", "ReduceSum", "Gather", "Upsample", "Scatter",
            "Split", "Gelu", "Shape", "Not", "Less", "BatchNormalization",
            "relu", "Bogus", "", "LayerNormalization", "Dropout", "MaxPool")
ATTRIBUTES = ("axis", "axes", "perm", "alpha", "beta", "epsilon", "to", "pads",
              "strides", "kernel_shape", "keepdims", "mode", "bogus", "group",
              "auto_pad", "transA", "dilations", "broadcast", "consumed_inputs",
              "spatial", "momentum", "value", "allowzero", "", "saturate",
              "is_test", "seed", "min", "max", "ratio", "num_outputs", "shape",
              "noop_with_empty_axes", "ceil_mode", "storage_order", "start")
OPSETS = (1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22,
          23, 24, 0, -1, 100)
VALUES = (0, 1, -1, 2, 3, 7, -5, 1.0, 0.5, -0.5, [1], [0, 1], [1, 1], [0, 0, 0],
          [1.0, 2.0], "a", "SAME_UPPER", "VALID", "nearest", ["a", "b"], [])


def graphs_of(graph):
    found = [graph]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                found += graphs_of(attribute.g)
    return found


def some_graph(model, rng):
    return rng.choice(graphs_of(model.graph))


def some_node(model, rng):
    nodes = [node for graph in graphs_of(model.graph) for node in graph.node]
    for function in model.functions:
        nodes += function.node
    return rng.choice(nodes) if nodes else None


def some_attribute(model, rng):
    found = [attribute for graph in graphs_of(model.graph)
             for node in graph.node for attribute in node.attribute]
    return rng.choice(found) if found else None


def some_name(model, rng):
    graph = some_graph(model, rng)
    names = [name for node in graph.node
             for name in [*node.input, *node.output]]
    names += [value.name for value in [*graph.input, *graph.initializer]]
    return rng.choice(names + ["", "nothing"])


def fill(attribute, value):
    name = attribute.name
    attribute.CopyFrom(helper.make_attribute("x", value)
                       if value != [] else helper.make_attribute(
                           "x", [], attr_type=AttributeProto.INTS))
    attribute.name = name


def change_value(model, rng):
    attribute = some_attribute(model, rng)
    if attribute is None:
        return False
    if attribute.type == AttributeProto.INT:
        attribute.i = rng.choice((0, 1, -1, 2, 3, 5, -4, 9, 1000))
    elif attribute.type == AttributeProto.INTS:
        choice = rng.randrange(3)
        if choice == 0:
            attribute.ints.append(rng.choice((0, 1, 2, -1)))
        elif choice == 1 and attribute.ints:
            attribute.ints.pop()
        elif attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(
                (0, 1, -1, 2, 3, 9, -7))
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice((b"", b"bogus", b"SAME_LOWER", b"linear"))
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice((0.0, -1.0, 1e30, 0.5))
    else:
        return False
    return True


def change_type_of_attribute(model, rng):
    attribute = some_attribute(model, rng)
    if attribute is None:
        return False
    fill(attribute, rng.choice(VALUES))
    return True


def change_attribute_field(model, rng):
    attribute = some_attribute(model, rng)
    if attribute is None:
        return False
    choice = rng.randrange(5)
    if choice == 0:
        attribute.type = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11))
    elif choice == 1:
        attribute.f = 1.0
    elif choice == 2:
        attribute.ints.append(1)
    elif choice == 3:
        attribute.ref_attr_name = "alpha"
    else:
        attribute.ClearField("type")
    return True


def add_attribute(model, rng):
    node = some_node(model, rng)
    if node is None:
        return False
    fill(node.attribute.add(name=rng.choice(ATTRIBUTES)), rng.choice(VALUES))
    return True


def drop_attribute(model, rng):
    node = some_node(model, rng)
    if node is None or not node.attribute:
        return False
    del node.attribute[rng.randrange(len(node.attribute))]
    return True


def repeat_attribute(model, rng):
    node = some_node(model, rng)
    if node is None or not node.attribute:
        return False
    node.attribute.add().CopyFrom(rng.choice(node.attribute))
    return True


def rename_attribute(model, rng):
    attribute = some_attribute(model, rng)
    if attribute is None:
        return False
    attribute.name = rng.choice(ATTRIBUTES)
    return True


def change_opset(model, rng):
    if not model.opset_import:
        return False
    rng.choice(model.opset_import).version = rng.choice(OPSETS)
    return True


def change_imports(model, rng):
    choice = rng.randrange(4)
    if not model.opset_import:
        choice = 1
    if choice == 0:
        del model.opset_import[rng.randrange(len(model.opset_import))]
    elif choice == 1:
        model.opset_import.add(domain=rng.choice(("", "ai.onnx", "ai.onnx.ml",
                                                  "bogus", "com.microsoft")),
                               version=rng.choice(OPSETS))
    elif choice == 2:
        rng.choice(model.opset_import).domain = rng.choice(
            ("", "ai.onnx", "bogus"))
    else:
        rng.choice(model.opset_import).ClearField("version")
    return True


def change_ir_version(model, rng):
    if rng.random() < 0.2:
        model.ClearField("ir_version")
    else:
        # Between the checker's newest and ours they rightly differ.
        model.ir_version = rng.choice([0, 1, 2, 50, -1, *range(
            3, onnx.IR_VERSION + 1)])
    return True


def change_op_type(model, rng):
    node = some_node(model, rng)
    if node is None:
        return False
    node.op_type = rng.choice(OP_TYPES)
    return True


def change_domain(model, rng):
    node = some_node(model, rng)
    if node is None:
        return False
    node.domain = rng.choice(("ai.onnx", "ai.onnx.ml", "bogus", "com.microsoft",
                              "", "ai.onnx.preview.training"))
    return True


def rename_input(model, rng):
    node = some_node(model, rng)
    if node is None or not node.input:
        return False
    node.input[rng.randrange(len(node.input))] = some_name(model, rng)
    return True


def rename_output(model, rng):
    node = some_node(model, rng)
    if node is None or not node.output:
        return False
    node.output[rng.randrange(len(node.output))] = some_name(model, rng)
    return True


def add_input(model, rng):
    node = some_node(model, rng)
    if node is None:
        return False
    node.input.append(some_name(model, rng))
    return True


def drop_input(model, rng):
    node = some_node(model, rng)
    if node is None or not node.input:
        return False
    del node.input[rng.randrange(len(node.input))]
    return True


def add_output(model, rng):
    node = some_node(model, rng)
    if node is None:
        return False
    node.output.append(rng.choice(("new", some_name(model, rng))))
    return True


def drop_output(model, rng):
    node = some_node(model, rng)
    if node is None or not node.output:
        return False
    del node.output[rng.randrange(len(node.output))]
    return True


def drop_node(model, rng):
    graph = some_graph(model, rng)
    if not graph.node:
        return False
    del graph.node[rng.randrange(len(graph.node))]
    return True


def repeat_node(model, rng):
    graph = some_graph(model, rng)
    if not graph.node:
        return False
    graph.node.add().CopyFrom(rng.choice(graph.node))
    if rng.random() < 0.5:
        for i, name in enumerate(graph.node[-1].output):
            graph.node[-1].output[i] = name + "_2"
    return True


def move_node(model, rng):
    graph = some_graph(model, rng)
    if len(graph.node) < 2:
        return False
    nodes = list(graph.node)
    node = nodes.pop(rng.randrange(len(nodes)))
    nodes.insert(rng.randrange(len(nodes) + 1), node)
    copies = [onnx.NodeProto.FromString(each.SerializeToString())
              for each in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return True


def rename_node(model, rng):
    node = some_node(model, rng)
    if node is None:
        return False
    node.name = rng.choice(("", "same", "a b", "#1"))
    return True


def some_value(model, rng):
    graph = some_graph(model, rng)
    values = [*graph.input, *graph.output, *graph.value_info]
    return rng.choice(values) if values else None


def change_type_of_value(model, rng):
    value = some_value(model, rng)
    if value is None:
        return False
    value.type.tensor_type.elem_type = rng.choice(TYPES)
    return True


def change_shape_of_value(model, rng):
    value = some_value(model, rng)
    if value is None:
        return False
    shape = value.type.tensor_type.shape
    choice = rng.randrange(6)
    if choice == 0:
        shape.dim.add().dim_value = rng.choice((1, 2, 5))
    elif choice == 1 and shape.dim:
        del shape.dim[rng.randrange(len(shape.dim))]
    elif choice == 2 and shape.dim:
        rng.choice(shape.dim).dim_value = rng.choice((0, 1, 2, 7, -1, -3))
    elif choice == 3 and shape.dim:
        rng.choice(shape.dim).dim_param = rng.choice(("n", "", "3"))
    elif choice == 4:
        value.type.tensor_type.ClearField("shape")
    elif shape.dim:
        rng.choice(shape.dim).Clear()
    return True


def change_kind_of_value(model, rng):
    value = some_value(model, rng)
    if value is None:
        return False
    choice = rng.randrange(4)
    if choice == 0:
        value.ClearField("type")
    elif choice == 1:
        inner = onnx.TypeProto()
        inner.CopyFrom(value.type)
        value.type.Clear()
        value.type.sequence_type.elem_type.CopyFrom(inner)
    elif choice == 2:
        value.type.Clear()
    else:
        value.type.tensor_type.ClearField("elem_type")
    return True


def rename_value(model, rng):
    value = some_value(model, rng)
    if value is None:
        return False
    value.name = rng.choice((some_name(model, rng), "", "other"))
    return True


def drop_value(model, rng):
    graph = some_graph(model, rng)
    values = rng.choice((graph.input, graph.output, graph.value_info))
    if not values:
        return False
    del values[rng.randrange(len(values))]
    return True


def repeat_value(model, rng):
    graph = some_graph(model, rng)
    values = rng.choice((graph.input, graph.output, graph.value_info))
    if not values:
        return False
    values.add().CopyFrom(rng.choice(values))
    return True


def add_value(model, rng):
    graph = some_graph(model, rng)
    values = rng.choice((graph.input, graph.output, graph.value_info))
    values.add().CopyFrom(helper.make_tensor_value_info(
        some_name(model, rng), rng.choice(TYPES),
        rng.choice(([], [1], [2, 3], ["n", 4], None))))
    return True


def some_tensor(model, rng):
    found = [tensor for graph in graphs_of(model.graph)
             for tensor in graph.initializer]
    found += [attribute.t for graph in graphs_of(model.graph)
              for node in graph.node for attribute in node.attribute
              if attribute.type == AttributeProto.TENSOR]
    return rng.choice(found) if found else None


def change_dims(model, rng):
    tensor = some_tensor(model, rng)
    if tensor is None:
        return False
    choice = rng.randrange(5)
    if choice == 0:
        tensor.dims.append(rng.choice((1, 1, 2, 0, -1)))
    elif choice == 1 and tensor.dims:
        tensor.dims.pop()
    elif choice == 2 and tensor.dims:
        tensor.dims.insert(0, 1)
    elif choice == 3:
        dims = list(tensor.dims)[::-1]
        del tensor.dims[:]
        tensor.dims.extend(dims)
    elif tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice((0, 1, 3, -2))
    return True


def change_data_type(model, rng):
    tensor = some_tensor(model, rng)
    if tensor is None:
        return False
    tensor.data_type = rng.choice(TYPES)
    return True


def change_data(model, rng):
    tensor = some_tensor(model, rng)
    if tensor is None:
        return False
    choice = rng.randrange(8)
    if choice == 0:
        tensor.raw_data = tensor.raw_data[:-1]
    elif choice == 1:
        tensor.raw_data += bytes(rng.choice((1, 4, 8)))
    elif choice == 2:
        tensor.ClearField("raw_data")
    elif choice == 3:
        tensor.float_data.append(1.0)
    elif choice == 4:
        tensor.int64_data.append(1)
    elif choice == 5:
        tensor.data_location = rng.choice((TensorProto.EXTERNAL,
                                           TensorProto.DEFAULT))
    elif choice == 6:
        tensor.int32_data.append(3)
    else:
        tensor.string_data.append(b"a")
    return True


def change_initializers(model, rng):
    graph = some_graph(model, rng)
    if not graph.initializer:
        return False
    choice = rng.randrange(4)
    i = rng.randrange(len(graph.initializer))
    if choice == 0:
        del graph.initializer[i]
    elif choice == 1:
        graph.initializer.add().CopyFrom(graph.initializer[i])
    elif choice == 2:
        graph.initializer[i].name = some_name(model, rng)
    else:
        graph.initializer.add().CopyFrom(graph.initializer[i])
        graph.initializer[-1].name = "spare"
    return True


def change_bodies(model, rng):
    bodies = [attribute.g for graph in graphs_of(model.graph)
              for node in graph.node for attribute in node.attribute
              if attribute.type == AttributeProto.GRAPH]
    if not bodies:
        return False
    body = rng.choice(bodies)
    choice = rng.randrange(5)
    if choice == 0:
        body.name = ""
    elif choice == 1 and body.output:
        del body.output[rng.randrange(len(body.output))]
    elif choice == 2 and body.node:
        del body.node[rng.randrange(len(body.node))]
    elif choice == 3:
        body.input.add().CopyFrom(helper.make_tensor_value_info(
            rng.choice(("extra", some_name(model, rng))), 1, [2]))
    elif body.output:
        body.output[0].name = some_name(model, rng)
    return True


def change_functions(model, rng):
    if not model.functions:
        return False
    function = rng.choice(model.functions)
    choice = rng.randrange(8)
    if choice == 0:
        function.name = rng.choice(("", "other"))
    elif choice == 1:
        function.domain = rng.choice(("", "other"))
    elif choice == 2:
        function.input.append(rng.choice(("extra", *function.input)))
    elif choice == 3:
        function.output.append(rng.choice(("extra", *function.output)))
    elif choice == 4 and function.opset_import:
        function.opset_import[0].version = rng.choice(OPSETS)
    elif choice == 5:
        del function.opset_import[:]
    elif choice == 6:
        function.attribute.append(rng.choice(("alpha", "x")))
    else:
        model.functions.add().CopyFrom(function)
    return True


def change_graph(model, rng):
    choice = rng.randrange(4)
    if choice == 0:
        model.graph.name = ""
    elif choice == 1:
        model.graph.ClearField("name")
    elif choice == 2:
        del model.graph.output[:]
    else:
        del model.graph.node[:]
    return True


def rename_everywhere(model, rng):
    graph = some_graph(model, rng)
    old, new = some_name(model, rng), rng.choice((some_name(model, rng), "v 1"))
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new
    return True


KINDS = {function.__name__: function for function in (
    change_value, change_type_of_attribute, change_attribute_field,
    add_attribute, drop_attribute, repeat_attribute, rename_attribute,
    change_opset, change_imports, change_ir_version, change_op_type,
    change_domain, rename_input, rename_output, add_input, drop_input,
    add_output, drop_output, drop_node, repeat_node, move_node, rename_node,
    change_type_of_value, change_shape_of_value, change_kind_of_value,
    rename_value, drop_value, repeat_value, add_value, change_dims,
    change_data_type, change_data, change_initializers, change_bodies,
    change_functions, change_graph, rename_everywhere)}


def spoil(model, rng):
    """Changes a model in one place or two, and says how."""
    wanted = 1 if rng.random() < 0.7 else 2
    done = []
    while len(done) < wanted:
        name = rng.choice(list(KINDS))
        if KINDS[name](model, rng):
            done.append(name)
    return done
