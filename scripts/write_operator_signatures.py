"""Writes what operators of ONNX take, as onnx.defs has it, for all versions.

  build/venv/bin/python scripts/write_operator_signatures.py \
      > contrib/onnx/operator_signatures.txt

A line [DOMAIN], then one for each operator and version:

  Conv 11 2-3 1-1|T T T?|T|auto_pad:3 pads:7|T=10c02

Its name, the version since which it is so (with a '-' behind where that ends
it), the least and most numbers of inputs and of outputs ('*': any), the types
of the inputs and outputs ('?': optional, '*': any number of one type, '+': of
any), the attributes with their types as ONNX numbers them ('!': required; '*' for any others), and
for each type the set of element types: bit N for ONNX's number N, and bit 0 if
it may be no tensor.
"""

from onnx import TensorProto, checker, defs, helper

MANY = 2147483647
NUMBERS = {f"tensor({name.lower()})": number
           for name, number in TensorProto.DataType.items()}


def set_of(types):
    bits = 0
    for name in types:
        bits |= 1 << NUMBERS.get(name, 0)
    return f"{bits:x}"


def range_of(least, most):
    return f"{least}-{'*' if most == MANY else most}"


def parameter(formal):
    name = formal.type_str.replace("tensor(", "").replace(")", "")
    options = defs.OpSchema.FormalParameterOption
    if formal.option == options.Optional:
        return name + "?"
    if formal.option == options.Variadic:
        return name + ("*" if formal.is_homogeneous else "+")
    return name


def takes_more_attributes(schema):
    """onnx.defs does not say; its checker does."""
    if schema.deprecated:
        return False
    names = iter(f"v{i}" for i in range(100))
    node = helper.make_node(schema.name,
                            [next(names) for _ in range(schema.min_input)],
                            [next(names) for _ in range(schema.min_output)],
                            domain=schema.domain, unknown=1)
    context = checker.C.CheckerContext()
    context.ir_version = 8
    context.opset_imports = {schema.domain: schema.since_version}
    try:
        checker.check_node(node, context)
    except checker.ValidationError as error:
        return "unknown" not in str(error)
    return True


def line_of(schema):
    formals = [*schema.inputs, *schema.outputs]
    sets = {}
    for formal in formals:
        name = parameter(formal).rstrip("?*+")
        sets[name] = set_of(formal.types)
    attributes = [f"{name}:{one.type.value}{'!' if one.required else ''}"
                  for name, one in sorted(schema.attributes.items())]
    if takes_more_attributes(schema):
        attributes.append("*")
    parts = [
        " ".join([schema.name, str(schema.since_version)
                  + ("-" if schema.deprecated else ""),
                  range_of(schema.min_input, schema.max_input),
                  range_of(schema.min_output, schema.max_output)]),
        " ".join(parameter(each) for each in schema.inputs),
        " ".join(parameter(each) for each in schema.outputs),
        " ".join(attributes),
        " ".join(f"{name}={bits}" for name, bits in sorted(sets.items()))]
    return "|".join(parts)


def main():
    schemas = sorted(defs.get_all_schemas_with_history(),
                     key=lambda s: (s.domain, s.name, s.since_version))
    domain = None
    for schema in schemas:
        if schema.domain != domain:
            domain = schema.domain
            print(f"[{domain}]")
        print(line_of(schema))


if __name__ == "__main__":
    main()
