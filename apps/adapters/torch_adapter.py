"""Runs a PyTorch module for nodewise in the place of the ONNX model that was
exported from it, and hands out what is computed inside by the names that the
exporter has given it.

usage: python3 -I torch_adapter.py --module FILE.pt2 | --module-from
       FILE.py:FUNCTION [--backend NAME] [--device NAME] REQUEST
       python3 -I torch_adapter.py --module ... --inputs IN.npz --dump OUT.npz
"""

import importlib.util
import logging
import operator
import os
import pathlib
import re
import sys

# -I leaves the folder of the script out.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# pylint: disable=wrong-import-position
from adapter_models import folder_kept  # noqa: E402
from adapter_protocol import need, numpy, serve  # noqa: E402

torch = need("torch", "torch")
onnx = need("onnx", "onnx")

FX_NODE = "pkg.torch.onnx.fx_node"
# What nodewise adds to the name of a value that an input replaces.
BEFORE = "_before"


def add_options(parser):
    parser.add_argument("--module", default="",
                        help="a program of torch.export, FILE.pt2")
    parser.add_argument("--module-from", default="",
                        help="FILE.py:FUNCTION that returns a torch.nn.Module")
    parser.add_argument("--backend", default="eager",
                        help="eager, or what torch.compile is to compile with, "
                        "such as inductor (eager)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)


class Model:
    """The graph of a module, of which each run has the values that it is asked
    for as outputs."""

    def __init__(self, path, shapes, options):
        del shapes  # A module may take more than those it was exported with.
        if bool(options.module) == bool(options.module_from):
            sys.exit("module: expected either module=FILE.pt2, what "
                     "torch.export has saved, or module-from=FILE.py:FUNCTION")
        if options.threads:
            torch.set_num_threads(options.threads)
        self._options = options
        self._onnx = path and onnx.load(path, load_external_data=False).graph
        self._program = None
        self.output_names = []
        self.name = (f"PyTorch {torch.__version__}, {options.device}, "
                     f"{options.backend}")

    def run(self, inputs, names):
        if not any(nodes_with_words(self._onnx)):
            raise ValueError(
                "the ONNX model does not say which values of PyTorch its own "
                "are, expected one of torch.onnx.export with dynamo=True (take "
                "--dump and nodewise compare, which need no names)")
        # Values of the model that nodewise gives in the place of PyTorch's.
        inner = replaced_in(self._onnx)
        given = {name: value for name, value in inputs.items()
                 if name in inner}
        own = {name: value for name, value in inputs.items()
               if name not in inner}
        program = self._opened(own)
        pairs = pairs_of(self._onnx, program.graph)
        asked = {name: pairs[name] for name in names if name in pairs}
        made = dict.fromkeys(names, "PyTorch's graph has no such value")
        made.update(self._computed(
            program, asked, own,
            {pairs[name]: value for name, value in given.items()}))
        return made

    def dump(self, inputs):
        """All values of the graph, by the names that PyTorch gives them."""
        program = self._opened(inputs)
        self.output_names = results_of(program.graph)
        asked = {node.name: node.name for node in program.graph.nodes
                 if node.op == "call_function" and is_tensor(node)}
        return self._computed(program, asked, inputs, {})

    def _opened(self, inputs):
        """The program with the operators that the exporter to ONNX takes, which
        has named the ONNX model's values after those of that graph."""
        if self._program is None:
            tensors = tuple(tensor_of(value) for value in inputs.values())
            if self._options.module:
                # The exporter takes seconds to say what it would.
                made = folder_kept(
                    "torch", [torch.__version__, *(
                        f"{each.dtype}{tuple(each.shape)}" for each in tensors),
                              pathlib.Path(self._options.module)],
                    lambda folder: torch.export.save(
                        prepared(torch.export.load(self._options.module),
                                 tensors), folder / "program.pt2"))
                self._program = torch.export.load(made / "program.pt2")
            else:
                self._program = prepared(built(self._options), tensors)
        return self._program

    def _computed(self, program, asked, inputs, replaced):
        """The values `asked` of the graph, by names of the caller, with these
        inputs, and with others in the place of values that it makes."""
        if self._options.device != "cpu":
            program = torch.export.passes.move_to_device_pass(
                program, self._options.device)
        module = program.module()
        # It lacks what nothing reads.
        there = {node.name for node in module.graph.nodes}
        asked = {name: node for name, node in asked.items() if node in there}
        arguments = arguments_of(module.graph, inputs)
        arguments.update(replace_values(module.graph, replaced))
        show_values(module.graph, list(asked.values()))
        # A program's own module has hooks that refuse other arguments.
        module = torch.fx.GraphModule(module, module.graph)
        if self._options.backend != "eager":
            module = torch.compile(module, backend=self._options.backend)
        given = [(tensor_of(arguments[node.name]) if node.name in arguments
                  else unread(node)).to(self._options.device)
                 for node in module.graph.nodes if node.op == "placeholder"]
        with torch.no_grad():
            made = module(*given)
        return {name: array_of(value) for name, value in zip(asked, made)}


def prepared(source, tensors):
    # It warns of operators that are not used.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        return exported(source, tensors)
    except Exception:  # pylint: disable=broad-exception-caught
        # Some operators, such as those of fake quantisation, PyTorch takes
        # apart in a module and not in a program that was saved.
        if not isinstance(source, torch.export.ExportedProgram):
            raise
        return exported(source.module(), tensors)


def exported(source, tensors):
    return torch.onnx.export(source, tensors, dynamo=True, optimize=False,
                             verbose=False).exported_program


def built(options):
    """The module that a function of the user returns."""
    path, _, name = options.module_from.rpartition(":")
    if not path:
        sys.exit(f"module-from: found {options.module_from}, expected "
                 "FILE.py:FUNCTION")
    file = pathlib.Path(path).resolve()
    # What the file imports from beside it.
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    made = getattr(module, name)()
    if not isinstance(made, torch.nn.Module):
        sys.exit(f"module-from: {name} returns a {type(made).__name__}, "
                 "expected a torch.nn.Module")
    return made.eval()


def is_tensor(node):
    return isinstance(node.meta.get("val"), torch.Tensor)


def replaced_in(graph):
    """The inputs of an ONNX model of nodewise that stand for values inside:
    what computes such a value goes by another name there."""
    made = {name for node in graph.node for name in node.output}
    return {each.name for each in graph.input if each.name + BEFORE in made}


def pairs_of(graph, nodes):
    """Which value of the ONNX graph is which node of PyTorch's. The exporter
    names a value after the node that it is the result of, and writes beside
    what computes it which node that was; both must agree."""
    known = {node.name: node for node in nodes.nodes
             if node.op == "call_function" and is_tensor(node)}
    replaced = replaced_in(graph)
    results = results_of(nodes)
    shown = {each.name for each in graph.output}
    # A value that is read to compute the same node is not its result.
    inner = {(name, name_in(said)) for node, said in nodes_with_words(graph)
             for name in node.input}
    pairs = {}
    others = {}
    for node, said in nodes_with_words(graph):
        node_name = name_in(said)
        for name in node.output:
            if name.removesuffix(BEFORE) in replaced:
                name = name.removesuffix(BEFORE)
            if name in known and target_of(known[name]) in said:
                pairs[name] = name
            elif (name in shown and node_name in results & known.keys() and
                  (name, node_name) not in inner):
                # Only outputs of the module can be called otherwise.
                pairs[name] = node_name
            elif node_name in known and is_read_as(graph, name, node_name):
                others.setdefault(node_name, []).append(name)
    # A node that the exporter made simpler keeps the name of a value inside.
    for node_name, names in others.items():
        if len(names) == 1 and node_name not in pairs.values():
            pairs[names[0]] = node_name
    return pairs


def is_read_as(graph, name, node_name):
    """Whether all that reads a value says that it reads this node of PyTorch's
    there."""
    read = re.compile(rf"%{node_name}\b[^:]*$")
    reads = [said for node, said in nodes_with_words(graph)
             if name in node.input and read.search(said)]
    return 0 < len(reads) == sum(name in node.input for node in graph.node)


def results_of(graph):
    return {node.name for each in graph.nodes if each.op == "output"
            for node in each.all_input_nodes}


def nodes_with_words(graph):
    """The ONNX nodes with what the exporter wrote of PyTorch's node."""
    for node in graph.node:
        for each in node.metadata_props:
            if each.key == FX_NODE:
                yield node, each.value


def target_of(node):
    """The function of a node as the exporter writes it; for a part of a tuple,
    that of the tuple."""
    if node.target is operator.getitem:
        return target_of(node.args[0])
    return f"target=torch.ops.{node.target}]"


def name_in(said):
    found = re.match(r"%(\w+) :", said)
    return found[1] if found else ""


def arguments_of(graph, inputs):
    """The inputs by the names of the graph's placeholders: by name if all have
    theirs, else in their order."""
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    if inputs.keys() <= set(names):
        return dict(inputs)
    if len(names) != len(inputs):
        raise ValueError(f"the module reads {', '.join(names) or 'nothing'}, "
                         f"expected {', '.join(inputs)}, as the ONNX model")
    return dict(zip(names, inputs.values()))


def replace_values(graph, replaced):
    """Makes inputs of these values. Returns the inputs' tensors."""
    by_name = {node.name: node for node in graph.nodes}
    first = next(iter(graph.nodes))
    given = {}
    for name, value in replaced.items():
        with graph.inserting_before(first):
            node = graph.placeholder(f"given_{name}")
        node.meta = dict(by_name[name].meta)
        by_name[name].replace_all_uses_with(node)
        given[node.name] = value
    return given


def show_values(graph, names):
    """Makes these values the outputs, and arguments and results flat,
    regardless of the module's own."""
    by_name = {node.name: node for node in graph.nodes}
    output = next(node for node in graph.nodes if node.op == "output")
    output.args = (tuple(by_name[name] for name in names),)
    graph.set_codegen(torch.fx.graph.CodeGen())
    graph.eliminate_dead_code()


def unread(node):
    """For an input that nothing that is asked for reads."""
    shape = [int(side) for side in node.meta["val"].shape]
    return torch.zeros(shape, dtype=node.meta["val"].dtype)


def tensor_of(value):
    value = numpy.ascontiguousarray(value)
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view(numpy.int16)).view(torch.bfloat16)
    return torch.from_numpy(value.copy())


def array_of(value):
    if not isinstance(value, torch.Tensor):
        return f"is a {type(value).__name__} in PyTorch"
    value = value.detach().cpu().contiguous()
    if value.dtype == torch.bfloat16:
        import ml_dtypes  # pylint: disable=import-outside-toplevel
        return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy()


if __name__ == "__main__":
    serve(Model, add_options)
