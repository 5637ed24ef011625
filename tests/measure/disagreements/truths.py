"""Finds what is wrong in a case by means that share nothing with `locate`.

Each function returns what a truth file has: `names` of the operations that may
be named, the `kinds` of operators of which all or most are wrong, `words`,
lists of which the sentence must have one word each, `not_words` that it must
not have, `how` that was found, and the `numbers` behind it.
"""

import copy
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnx.utils
from onnx import TensorProto, helper, numpy_helper

import float64
import runtimes

# Two layers are told apart where their errors differ by more.
APART = 1.5
# A result in float32 is nearer than that to float64, but for a handful of
# operators that cancel; one in a shorter type, or a wrong one, is not: float16
# rounds to 3e-4.
WRONG = 2e-5


def load(folder, name="model"):
    return onnx.load(folder / f"{name}.onnx")


def feeds_of(folder):
    return dict(numpy.load(folder / "inputs.npz"))


# A processor with AVX2 and without VNNI.
HASWELL = ["qemu-x86_64", "-cpu", "Haswell"]


def many(runtime, jobs):
    """Runs (model, feeds, names) in a runtime, in a process of its own. Returns
    the outputs of each by their names, or None for what failed. The runtime
    haswell_NAME is ort_NAME on an emulated processor."""
    emulated = runtime.startswith("haswell_")
    command = [*(HASWELL if emulated else []), sys.executable,
               str(pathlib.Path(runtimes.__file__)),
               runtime.replace("haswell_", "ort_"), "--jobs"]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for i, (model, feeds, names) in enumerate(jobs):
            onnx.save(model, folder / f"{i:05}.onnx")
            numpy.savez(folder / f"{i:05}.in.npz", **feeds)
            (folder / f"{i:05}.json").write_text(json.dumps(list(names)))
        while len(list(folder.glob("*.began"))) < len(jobs):
            subprocess.run([*command, folder], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
        results = []
        for i, (_, _, names) in enumerate(jobs):
            path = folder / f"{i:05}.out.npz"
            made = dict(numpy.load(path)) if path.exists() else {}
            results.append({name: made.get(str(k)) for k, name in
                            enumerate(names)} if path.exists() else None)
        return results


def in_runtime(runtime, model, feeds, names=None):
    """Runs a model in this process."""
    names = names or [each.name for each in model.graph.output]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        onnx.save(model, path)
        return runtimes.RUNTIMES[runtime](str(path), feeds, names)


def truth(names, words, how, kinds=(), numbers=None, not_words=()):
    return {"names": list(names), "kinds": sorted(kinds), "words": words,
            "not_words": list(not_words), "how": how, "numbers": numbers or {}}


def worst_of(errors):
    """The names whose errors cannot be told from the largest."""
    most = max(errors.values())
    return [name for name, error in sorted(
        errors.items(), key=lambda item: -item[1]) if error * APART >= most]


# --- one layer lowered at a time ---------------------------------------------


def changed(model, node_name, lower_input, lower_output):
    """A copy of the model in which one node reads and makes lowered values.
    The two functions add nodes and return the name of what they made, or None
    to leave a value alone."""
    model = copy.deepcopy(model)
    index, node = next((i, each) for i, each in enumerate(model.graph.node)
                       if each.name == node_name)
    before, after = [], []
    reads = [lower_input(node, k, name, before, model) or name
             if name else name for k, name in enumerate(node.input)]
    makes = []
    for name in node.output:
        raw = f"{name}__raw"
        lowered = name and lower_output(node, name, raw, after, model)
        makes.append(raw if lowered else name)
    del node.input[:], node.output[:]
    node.input.extend(reads)
    node.output.extend(makes)
    nodes = list(model.graph.node)
    nodes[index:index + 1] = [*before, copy.deepcopy(node), *after]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def errors_one_by_one(folder, change):
    """The error of the outputs with one node changed, by its name.
    `change(model, node)` returns the changed model, or None."""
    model = load(folder)
    feeds = feeds_of(folder)
    expected = in_runtime("ort_disabled", model, feeds)
    errors = {}
    for node in model.graph.node:
        made = change(model, node)
        if made is not None:
            errors[node.name] = float64.error_of_outputs(
                in_runtime("ort_disabled", made, feeds), expected)
    return errors


class Scales:
    """How the quantised model rounds what each node reads and makes."""

    def __init__(self, model):
        self.constants = {each.name: numpy_helper.to_array(each)
                          for each in model.graph.initializer}
        self.makers = {name: node for node in model.graph.node
                       for name in node.output}
        self.nodes = {node.name: node for node in model.graph.node}
        self.quantised = {node.input[0]: node for node in model.graph.node
                          if node.op_type == "QuantizeLinear"}
        # An output of the model keeps its name, and what makes it gets another.
        makers = [self.makers.get(each.name) for each in model.graph.output]
        for last in makers:
            if last is not None and last.op_type == "DequantizeLinear":
                maker = self.makers.get(last.input[0])
                if maker is not None and maker.op_type == "QuantizeLinear":
                    self.quantised[last.output[0]] = maker

    def input(self, node, k, name, nodes, model):
        twin = self.nodes.get(node.name)
        maker = self.makers.get(twin.input[k]) if twin is not None and \
            k < len(twin.input) else None
        if maker is None or maker.op_type != "DequantizeLinear":
            return None
        made = f"{name}__read_{k}"
        if maker.input[0] in self.constants:
            model.graph.initializer.append(numpy_helper.from_array(
                self.dequantised(maker), made))
            return made
        self.round(name, made, maker, nodes, model)
        return made

    def output(self, _, name, raw, nodes, model):
        if name not in self.quantised:
            return False
        self.round(raw, name, self.quantised[name], nodes, model)
        return True

    def dequantised(self, node):
        values = self.constants[node.input[0]].astype(numpy.float64)
        scale = self.constants[node.input[1]].astype(numpy.float64)
        zero = self.constants[node.input[2]].astype(numpy.float64) \
            if len(node.input) > 2 else numpy.zeros_like(scale)
        if scale.size == 1:
            scale, zero = scale.reshape(()), zero.reshape(())
        else:
            axis = float64.attributes_of(node).get("axis", 1)
            wide = [1] * values.ndim
            wide[axis] = -1
            scale, zero = scale.reshape(wide), zero.reshape(wide)
        return ((values - zero) * scale).astype(numpy.float32)

    def round(self, name, made, like, nodes, model):
        constants = []
        for each in like.input[1:3]:
            constants.append(f"{made}__{each}")
            model.graph.initializer.append(numpy_helper.from_array(
                self.constants[each], constants[-1]))
        nodes.append(helper.make_node(
            "QuantizeLinear", [name, *constants], [f"{made}__q"]))
        nodes.append(helper.make_node(
            "DequantizeLinear", [f"{made}__q", *constants], [made]))


def static(words=(("8-bit integers",),)):
    def find(folder):
        scales = Scales(load(folder, "scales"))

        def change(model, node):
            made = changed(model, node.name, scales.input, scales.output)
            return made if len(made.graph.node) + len(
                made.graph.initializer) > len(model.graph.node) + len(
                    model.graph.initializer) else None
        errors = errors_one_by_one(folder, change)
        return truth(worst_of(errors), words,
                     "onnxruntime runs the model with one operation quantised, "
                     "by the scales that the quantiser chose", numbers=errors)
    return find


def by_the_tool(quantise, kinds, words=(("8-bit integers",),)):
    """The tool itself is asked to lower one operation. `quantise(path, made,
    name)` writes the model."""
    def find(folder):
        def change(_, node):
            if node.op_type not in kinds:
                return None
            with tempfile.TemporaryDirectory() as other:
                made = pathlib.Path(other) / "one.onnx"
                quantise(folder / "model.onnx", made, node.name)
                return onnx.load(made)
        errors = errors_one_by_one(folder, change)
        return truth(worst_of(errors), words,
                     "the quantiser lowers one operation, and onnxruntime runs "
                     "the model", numbers=errors)
    return find


def quantise_one_dynamically(path, made, name):
    from onnxruntime.quantization import (  # pylint: disable=import-outside-toplevel
        QuantType, quantize_dynamic)
    quantize_dynamic(str(path), str(made), weight_type=QuantType.QInt8,
                     # What it makes of a Gemm, before it looks at names.
                     nodes_to_quantize=[name, f"{name}_MatMul"])


def quantise_one_to_4_bits(path, made, name):
    from onnxruntime.quantization import QuantFormat  # pylint: disable=import-outside-toplevel
    from onnxruntime.quantization.matmul_nbits_quantizer import (  # pylint: disable=import-outside-toplevel
        MatMulNBitsQuantizer)
    model = onnx.load(path)
    others = [node.name for node in model.graph.node if node.name != name]
    quantiser = MatMulNBitsQuantizer(
        model, block_size=32, is_symmetric=True,
        quant_format=QuantFormat.QOperator, nodes_to_exclude=others)
    quantiser.process()
    onnx.save(quantiser.model.model, made)


dynamic = by_the_tool(quantise_one_dynamically,
                      ("MatMul", "Gemm", "Conv", "Gather", "LSTM"))


def half(words=(("float16",),)):
    """One operation reads and makes float16, the others float32."""
    def is_float(model, name, kinds):
        if name not in kinds:
            for each in model.graph.initializer:
                if each.name == name:
                    return each.data_type == TensorProto.FLOAT
        return kinds.get(name) == TensorProto.FLOAT

    def find(folder):
        model = onnx.shape_inference.infer_shapes(load(folder))
        kinds = {each.name: each.type.tensor_type.elem_type for each in
                 [*model.graph.value_info, *model.graph.input,
                  *model.graph.output]}

        def rounded(name, made, nodes):
            nodes.append(helper.make_node(
                "Cast", [name], [f"{made}__half"], to=TensorProto.FLOAT16))
            nodes.append(helper.make_node(
                "Cast", [f"{made}__half"], [made], to=TensorProto.FLOAT))

        def lower_input(_, k, name, nodes, given):
            if not is_float(given, name, kinds):
                return None
            rounded(name, f"{name}__read_{k}", nodes)
            return f"{name}__read_{k}"

        def lower_output(_, name, raw, nodes, given):
            if not is_float(given, name, kinds):
                return False
            rounded(raw, name, nodes)
            return True

        def change(given, node):
            if node.op_type in ("Constant", "Resize", "Shape", "Loop", "If"):
                return None
            return changed(given, node.name, lower_input, lower_output)
        errors = errors_one_by_one(folder, change)
        return truth(worst_of(errors), words,
                     "onnxruntime runs the model with one operation that reads "
                     "and makes float16", numbers=errors)
    return find


def too_large_for_half(folder):
    """Operations that make more than float16 has of what is within."""
    model = load(folder)
    values = float64.run(model, feeds_of(folder))

    def largest(names):
        return max((float(numpy.abs(values[name]).max()) for name in names
                    if name and values[name].dtype == numpy.float64
                    and values[name].size), default=0)
    found = {node.name: largest(node.output) for node in model.graph.node
             if largest(node.output) > 65504 >= largest(node.input)}
    return truth(found, [["float16"]], "a float64 run makes numbers beyond "
                 "65504 there, of numbers within", numbers=found)


# --- one operator alone in the runtime ---------------------------------------


def in_the_type_of(hint):
    """The words of a truth: the type in which OpenVINO computes, and the other
    that must not be said of it."""
    names = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
    word = names[runtimes.type_on_this_processor(hint)]
    return [[word]], [other for other in ("bfloat16", "float16")
                      if other != word]


def alone(runtime, words, file="model", instead=None, not_words=()):
    """Each operation runs alone in the runtime, on what the float64 run of the
    model has made for it. `instead` are attributes that the runtime may compute
    the operation called middle with; the one that fits is a cause word, unless
    `words` has others; a function returns them and `not_words`."""
    def find(folder):
        errors, operators = errors_alone(runtime, folder, file)
        causes, others = words() if callable(words) else (
            list(words), not_words)
        if instead is not None:
            fits = what_fits(runtime, folder, instead)
            causes = causes or [[str(value)] for value in fits.values()]
        wrong = {name: error for name, error in errors.items() if error > WRONG}
        return truth(wrong, causes, f"each of {len(errors)} operations ran "
                     f"alone in {runtime}, on what a float64 run made for it",
                     {operators[name] for name in wrong}, wrong, others)
    return find


def what_fits(runtime, folder, candidates):
    """With which of these attributes of the operation called middle a float64
    run makes what the runtime makes. Raises ValueError if none fits."""
    feeds = feeds_of(folder)
    name = load(folder).graph.output[0].name
    made = many(runtime, [(load(folder), feeds, [name])])[0][name]
    for candidate in candidates:
        model = load(folder)
        middle = next(each for each in model.graph.node
                      if each.name == "middle")
        for each in [each for each in middle.attribute
                     if each.name in candidate]:
            middle.attribute.remove(each)
        middle.attribute.extend(helper.make_attribute(key, value)
                                for key, value in candidate.items())
        if float64.error(made, float64.run(model, feeds)[name]) <= WRONG:
            return candidate
    raise ValueError("none of the attributes makes what the runtime makes")


def constants_of(model):
    """Names of all that does not depend on an input."""
    known = {each.name for each in model.graph.initializer}
    for node in model.graph.node:
        if all(name in known for name in node.input if name):
            known.update(node.output)
    return known


def errors_alone(runtime, folder, file):
    model = load(folder, file)
    constants = constants_of(model)
    values = float64.run(model, feeds_of(folder))
    singles = {name: float64.as_single(x) for name, x in values.items()}
    nodes, jobs = [], []
    for node in model.graph.node:
        names = [name for name in node.output
                 if name and singles[name].dtype.kind in "fiu"]
        if not names or constants.issuperset(name for name in names):
            continue
        one = float64.one_node_model(node, singles, model, constants)
        for out in one.graph.output:
            out.CopyFrom(helper.make_tensor_value_info(
                out.name, helper.np_dtype_to_tensor_dtype(
                    singles[out.name].dtype), singles[out.name].shape))
        nodes.append((node, names))
        jobs.append((one, {name: singles[name] for name in node.input
                           if name and name not in constants}, names))
    errors = {}
    operators = {}
    for (node, names), made in zip(nodes, many(runtime, jobs)):
        if made is None or any(x is None for x in made.values()):
            continue  # It cannot run alone, and nothing is said of it.
        expected = float64.compute(model, node, singles)
        errors[node.name] = float64.error_of_outputs(
            made, {name: expected[name] for name in names})
        operators[node.name] = node.op_type
    return errors, operators


def cut(runtime, words):
    """The runtime runs the model up to each value, which is its only output
    then. Operations whose result is wrong, though all that they read is right,
    are named: an operation that is right alone may be wrong beside others."""
    def find(folder):
        model = load(folder)
        feeds = feeds_of(folder)
        constants = constants_of(model)
        values = float64.run(model, feeds)
        names = [name for node in model.graph.node for name in node.output
                 if name and name not in constants and
                 values[name].dtype == numpy.float64]
        jobs = []
        for name in names:
            part = onnx.utils.Extractor(model).extract_model(
                list(feeds), [name])
            jobs.append((part, feeds, [name]))
        errors = {name: float64.error(made[name], values[name])
                  for name, made in zip(names, many(runtime, jobs))
                  if made is not None and made[name] is not None}
        # What adds up on the way is less.
        off = {name for name, error in errors.items() if error > 1e-3}
        wrong = {node.name: max(errors.get(name, 0) for name in node.output)
                 for node in model.graph.node
                 if off & {*node.output} and not off & {*node.input}}
        return truth(wrong, words, f"{runtime} ran the model up to each of "
                     f"{len(errors)} values, beside a float64 run",
                     numbers=wrong)
    return find


# --- rewriters ---------------------------------------------------------------


def all_values(model, feeds, names):
    made = copy.deepcopy(model)
    del made.graph.output[:]
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return in_runtime("ort_disabled", made, feeds, names)


def first_that_differs(words):
    """Values of one name in both models are compared in onnxruntime, without
    its optimisations. What is wrong lies between the last that are equal and
    the first that differs."""
    def find(folder):
        model, other = load(folder), load(folder, "target")
        feeds = feeds_of(folder)
        common = {name for node in other.graph.node for name in node.output}
        names = [name for node in model.graph.node for name in node.output
                 if name in common]
        ours = all_values(model, feeds, names)
        theirs = all_values(other, feeds, names)
        off = {name: float64.error(theirs[name], ours[name]) for name in names}
        first = next(name for name in names if off[name] > WRONG)
        makers = {name: node for node in model.graph.node
                  for name in node.output}
        wrong, left = [], [first]
        while left:
            node = makers.get(left.pop())
            if node is None or node.name in wrong:
                continue
            wrong.append(node.name)
            left += [name for name in node.input
                     if name not in names and name in makers]
        return truth(wrong, words, f"{first} is the first value of one name "
                     "that is not equal in both models, which onnxruntime ran",
                     numbers={first: off[first]})
    return find


def rewritten_alone(rewrite, words):
    """Each operation is rewritten alone, and runs in onnxruntime as it was and
    as it is then, on what a float64 run of the model made for it."""
    def find(folder):
        model = load(folder)
        constants = constants_of(model)
        singles = {name: float64.as_single(x) for name, x in float64.run(
            model, feeds_of(folder)).items()}
        errors = {}
        for node in model.graph.node:
            one = onnx.shape_inference.infer_shapes(float64.one_node_model(
                node, singles, model, constants))
            reads = {name: singles[name] for name in node.input
                     if name and name not in constants}
            try:
                errors[node.name] = float64.error_of_outputs(
                    in_runtime("ort_disabled", rewrite(one), reads),
                    in_runtime("ort_disabled", one, reads))
            except Exception:  # pylint: disable=broad-except
                continue  # It cannot be rewritten alone.
        return truth([name for name, error in errors.items() if error > WRONG],
                     words, f"each of {len(errors)} operations was rewritten "
                     "alone, and onnxruntime ran it", numbers=errors)
    return find


# --- observing ---------------------------------------------------------------


def observed_one_by_one(runtime, words, share=0.5, kinds=()):
    """Values whose observation alone takes away more than that share of what
    observing all of them takes away name the operations around them. With
    `kinds`, results of these operators alone are looked at."""
    def find(folder):
        is_rewritten = (folder / "target.onnx").exists()
        model = load(folder, "target" if is_rewritten else "model")
        feeds = feeds_of(folder)
        outputs = [each.name for each in model.graph.output]
        constants = constants_of(model)
        inner = [name for node in model.graph.node for name in node.output
                 if name and name not in constants and name not in outputs
                 and (not kinds or node.op_type in kinds)]

        def job(seen):
            made = copy.deepcopy(model)
            made.graph.output.extend(
                onnx.ValueInfoProto(name=name) for name in seen)
            return made, feeds, outputs
        results = many(runtime, [job([]), job(inner),
                                 *(job([name]) for name in inner)])
        values = float64.run(model, feeds)
        expected = {name: values[name] for name in outputs}
        plain, every, *single = [
            numpy.inf if made is None else float64.error_of_outputs(
                made, expected) for made in results]
        if every > plain / 2:
            raise ValueError(f"observing leaves {every:.2g} of {plain:.2g}")
        errors = dict(zip(inner, single))
        gone = {name for name, error in errors.items()
                if error < plain - share * (plain - every)}
        names = [node.name for node in model.graph.node
                 if gone & {*node.input, *node.output}]
        # What is left when all is observed is that of operations which are
        # wrong alone, too.
        wrong, operators = {}, {}
        if every > plain / 10:
            alone_errors, operators = errors_alone(
                runtime, folder, "target" if is_rewritten else "model")
            wrong = {name for name, error in alone_errors.items()
                     if error > WRONG}
            names += sorted(wrong)
        causes, others = words() if callable(words) else (words, ())
        return truth(names, causes, f"{runtime} ran the model with no value, "
                     "with every value and with one value observed, beside a "
                     "float64 run", {operators[name] for name in wrong},
                     {"plain": plain, "all": every, **errors}, others)
    return find


# --- hosts -------------------------------------------------------------------


def of_the_input(name, *words):
    """What the host did is known, since the case does it."""
    def find(_):
        return truth([name], [["input"], list(words)] if words else [["input"]],
                     "the case itself changed the input before one of the runs")
    return find
