"""One command or more of every verb, each on files that are made here: for
tests that disturb a command in every place."""

import collections
import io
import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import zipfile

from support import BUILD, HAS_LAB, NODEWISE, ROOT, Tensor, npy_bytes, params_bytes

sys.path.insert(0, str(ROOT / "tests/support"))
# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, attribute, floats, ints, message, onnx_graph,
                        onnx_model, onnx_node, proto_tensor, value_info)

# `arguments` are those of a program in build/bin; "OUT" begins the name of what
# it writes.
Case = collections.namedtuple("Case", "name program arguments")

SHAPE = (1, 4, 12, 12)


def numbers(seed, count):
    rng = random.Random(seed)
    # Eighths are floats, so that they come back from every file.
    return [rng.randrange(-8, 9) / 8 for _ in range(count)]


def weight(name, dims, seed):
    count = 1
    for side in dims:
        count *= side
    return proto_tensor(name, dims, FLOAT,
                        (9, struct.pack(f"<{count}f", *numbers(seed, count))))


def model_bytes():
    """A convolution, a branch that is added, a pool, a dense layer."""
    nodes = [
        onnx_node("Conv", ["x", "w", "b"], ["c"],
                  attribute("pads", [1, 1, 1, 1]), name="conv"),
        onnx_node("Relu", ["c"], ["r"], name="relu"),
        onnx_node("Conv", ["r", "w2"], ["c2"], name="conv2"),
        onnx_node("Add", ["c2", "r"], ["a"], name="add"),
        onnx_node("MaxPool", ["a"], ["p"], attribute("kernel_shape", [2, 2]),
                  attribute("strides", [2, 2]), name="pool"),
        onnx_node("Reshape", ["p", "flat"], ["f"], name="flatten"),
        onnx_node("Gemm", ["f", "g", "gb"], ["d"], attribute("alpha", 0.0625),
                  name="dense"),
        onnx_node("Softmax", ["d"], ["y"], attribute("axis", 1),
                  name="softmax"),
    ]
    constants = [
        weight("w", [8, 4, 3, 3], 1), weight("b", [8], 2),
        weight("w2", [8, 8, 1, 1], 3), ints("flat", 1, 288),
        weight("g", [288, 10], 4), floats("gb", *numbers(5, 10)),
    ]
    return onnx_model(onnx_graph(
        nodes, [value_info("x", dims=list(SHAPE))],
        [value_info("y", dims=[1, 10])], constants))


def npz_bytes(tensors, packed):
    out = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, tensor in tensors.items():
            # A time of its own would make other bytes on each day.
            archive.writestr(zipfile.ZipInfo(name + ".npy"), npy_bytes(tensor),
                             kind)
    return out.getvalue()


def proto_bytes(name, tensor):
    data = struct.pack(f"<{len(tensor.values)}f", *tensor.values)
    return proto_tensor(name, list(tensor.shape), FLOAT, (9, data))


def run(program, *arguments, cwd=None):
    done = subprocess.run([BUILD / "bin" / program, *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=120, check=False, cwd=cwd)
    if done.returncode != 0:
        raise RuntimeError(f"{program} {arguments}: {done.stderr}")


def write_tensors(folder):
    count = 1
    for side in SHAPE:
        count *= side
    x = Tensor("float32", SHAPE, numbers(6, count))
    other = x._replace(values=x.values[:-1] + [0.5])
    files = {
        "x.npy": npy_bytes(x), "x.pb": proto_bytes("x", x),
        "x.params": params_bytes({"x": x}),
        "x.npz": npz_bytes({"x": x}, packed=True),
        "two.npz": npz_bytes({"x": other}, packed=False),
        "pair.npz": npz_bytes({"x": x, "z": other}, packed=True),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)


def forget_operations(path):
    """Makes a graph one of another compiler, whose nodes do not say what they
    compute."""
    graph = json.loads(path.read_text())
    for node in graph["nodes"]:
        for name in [n for n in node.get("attrs", {}) if "nodewise" in n]:
            del node["attrs"][name]
    for name in [n for n in graph["attrs"] if "nodewise" in n]:
        del graph["attrs"][name]
    path.write_text(json.dumps(graph))


def make_files(folder):
    """Fills the folder with what the commands below read."""
    folder = pathlib.Path(folder)
    (folder / "model.onnx").write_bytes(model_bytes())
    write_tensors(folder)
    nodewise = NODEWISE.name
    run(nodewise, "convert", "model.onnx", "-o", "net", cwd=folder)
    run(nodewise, "convert", "model.onnx", "--no-layouts", "-o", "plain",
        cwd=folder)
    run(nodewise, "convert", "model.onnx", "--emit", "c", "-o", "built",
        cwd=folder)
    if shutil.which("cc") is None:
        raise RuntimeError("no C compiler (cc)")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "lib.c", "-o", "lib.so",
                    "-lm"], cwd=folder / "built", check=True, timeout=60)
    shutil.copytree(folder / "built", folder / "theirs")
    forget_operations(folder / "theirs/graph.json")
    for dump, inputs in (("dump", "x.npz"), ("dump2", "two.npz")):
        run(nodewise, "dump", "net", "--inputs", inputs, "--dump-root", dump,
            "--no-table", cwd=folder)
    run(nodewise, "dump", "built", "--inputs", "x.npz", "--dump-root", "dump3",
        "--no-table", cwd=folder)
    test_set = folder / "set"
    (test_set / "test_data_set_0").mkdir(parents=True)
    shutil.copy(folder / "model.onnx", test_set)
    shutil.copy(folder / "x.pb", test_set / "test_data_set_0/input_0.pb")
    run(nodewise, "run", "model.onnx", "--inputs", "x.npz", "-o",
        "set/test_data_set_0/output_0.pb", cwd=folder)
    (folder / "map.txt").write_text("x x\n")


def case(name, line, program="nodewise"):
    return Case(name, program, line.split())


CASES = [
    case("demo", "demo -o OUT"),
    case("run", "run net --inputs x.npz -o OUT.npz"),
    case("run_model", "run model.onnx --input x=x.pb -o OUT.params"),
    case("run_built", "run built --input x=x.npy -o OUT.npy"),
    case("run_reference", "run model.onnx --reference --inputs x.params "
         "--until pool -o OUT.npz"),
    case("run_stop", "run net --inputs x.npz --stop-on nan -o OUT.pb"),
    case("run_isolated", "run built --inputs x.npz --isolate -o OUT.npz"),
    case("run_sanitized", "run built --inputs x.npz --sanitize -o OUT.npz"),
    case("run_swept", "run built --inputs x.npz --sweep"),
    case("profile", "profile net --inputs x.npz --runs 2 --trace OUT.json"),
    case("dump", "dump net --inputs x.npz --dump-root OUT --no-table"),
    case("dump_model", "dump model.onnx --inputs x.npz --dump-root OUT"),
    case("compare", "compare x.npz two.npz"),
    case("compare_pairs", "compare pair.npz x.params --map map.txt"),
    case("compare_dumps", "compare dump dump2"),
    case("compare_model", "compare dump3 model.onnx"),
    case("locate", "locate built --inputs x.npz --reference plain"),
    case("locate_repro", "locate model.onnx --inputs x.npz --repro OUT"),
    case("locate_replay", "locate dump --method replay"),
    case("locate_recursive", "locate model.onnx --inputs x.npz "
         "--method recursive"),
    case("locate_values", "locate theirs --inputs x.npz --reference model.onnx"),
    case("align", "align theirs model.onnx --inputs x.npz"),
    case("repro", "repro net --inputs x.npz --node conv2 -o OUT"),
    case("repro_all", "repro net --inputs x.npz --all-nodes -o OUT"),
    case("verify", "verify built"),
    case("verify_model", "verify model.onnx"),
    case("inspect", "inspect net built built/lib.so model.onnx x.npz x.npy "
         "x.pb x.params dump"),
    case("inspect_recover", "inspect x.params --recover OUT.npz"),
    case("convert", "convert model.onnx -o OUT"),
    case("convert_c", "convert model.onnx --emit c -o OUT"),
    case("convert_int8", "convert model.onnx --precision int8 --calibrate "
         "x.npz -o OUT"),
    case("extract", "extract model.onnx --from relu --to pool -o OUT.onnx"),
    case("autotest", "autotest --op Relu --runs 8 --seed 1 -o OUT"),
    case("autotest_c", "autotest --op Relu --candidate c --runs 2 --seed 1"),
    case("autotest_case", "autotest --case set"),
    case("debugger", "-model=model.onnx -inputs=x.pb -backend=OneDNN "
         "-dump_tensors -dump_dir=OUT", program="network-debugger"),
    case("debugger_recursive", "-model=model.onnx -inputs=x.npz "
         "-backend=OneDNN -comparator=Recursive", program="network-debugger"),
]
if not HAS_LAB:
    CASES = [made for made in CASES if not made.name.startswith("autotest")]
