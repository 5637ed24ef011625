"""Runs a model in onnxruntime for nodewise, which speaks to it in files
(docs/formats/foreign_runner.md).

usage: python3 -I onnxruntime_adapter.py [--provider NAME] [--level LEVEL]
       [--provider-options NAME=VALUE,...] [--io-binding on]
       [--threads N] [--without OPTIMIZER]... REQUEST
"""

import argparse
import json
import os
import sys
import time

# Nothing here multiplies matrices with numpy, whose threads spin from its import
# on.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    import numpy
except ImportError:
    sys.exit("this Python has no package numpy, which the adapter needs "
             f"({sys.executable}; choose another one, or install it there)")
try:
    import onnxruntime
except ImportError as why:
    sys.exit("this Python has no package onnxruntime "
             f"({sys.executable}: {why}; choose another one, or install it "
             "there)")

LEVELS = {
    "disabled": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

# How numpy holds the types that it does not have, and ONNX's numbers for them.
BITS_OF = {"bfloat16": ("uint16", 16), "float8_e4m3fn": ("uint8", 17),
           "float8_e4m3fnuz": ("uint8", 18), "float8_e5m2": ("uint8", 19),
           "float8_e5m2fnuz": ("uint8", 20), "float8_e8m0fnu": ("uint8", 24),
           "float4_e2m1fn": ("uint8", 23), "int4": ("int8", 22),
           "uint4": ("uint8", 21), "int2": ("int8", 26),
           "uint2": ("uint8", 25)}
# Those that onnxruntime takes and returns only as bits.
ONLY_BITS = {"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
             "float8_e5m2fnuz", "float8_e8m0fnu"}
# onnxruntime's names of those that are called otherwise here.
NAMES = {"float": "float32", "double": "float64",
         "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
         "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz",
         "float8e8m0": "float8_e8m0fnu", "float4e2m1": "float4_e2m1fn"}
# Where providers that have memory of their own hold tensors.
DEVICES = {"CUDA": "cuda", "Tensorrt": "cuda", "NvTensorRTRTX": "cuda",
           "ROCM": "cuda", "MIGraphX": "cuda", "Dml": "dml", "CANN": "cann",
           "WebGPU": "webgpu"}


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--provider", default="")
    parser.add_argument("--level", choices=LEVELS, default="all")
    parser.add_argument("--provider-options", default="")
    parser.add_argument("--io-binding", choices=["on", "off"], default="off")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("request")
    return parser.parse_args()


def provider_of(name):
    """The provider of this name, or of this name without its end."""
    available = onnxruntime.get_available_providers()
    for provider in available:
        if name.lower() in (provider.lower(), provider.lower().removesuffix(
                "executionprovider")):
            return [provider]
    if name:
        sys.exit(f"provider {name}: this onnxruntime does not have it, "
                 f"expected one of {', '.join(available)}")
    return ["CPUExecutionProvider"]


def provider_options_of(text):
    pairs = [each.partition("=") for each in text.split(",") if each]
    if any(not equals for _, equals, _ in pairs):
        sys.exit(f"provider-options: found {text}, expected NAME=VALUE,...")
    return {name: value for name, _, value in pairs}


def session_of(model, options):
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = LEVELS[options.level]
    settings.log_severity_level = 3  # Errors.
    if options.threads > 0:
        settings.intra_op_num_threads = options.threads
    return onnxruntime.InferenceSession(
        model, settings, providers=provider_of(options.provider),
        provider_options=[provider_options_of(options.provider_options)],
        disabled_optimizers=options.without)


def run_bound(session, names, inputs):
    """Runs with tensors that are bound to the provider's own memory first, as
    programs do that keep them there from run to run."""
    provider = session.get_providers()[0].removesuffix("ExecutionProvider")
    device = DEVICES.get(provider, "cpu")
    kinds = {each.name: each.type for each in session.get_outputs()}
    binding = session.io_binding()
    for name, value in inputs.items():
        if device != "cpu":
            value = onnxruntime.OrtValue.ortvalue_from_numpy(
                value.numpy(), device, 0)
        binding.bind_ortvalue_input(name, value)
    for name in names:
        kind = kinds[name].removeprefix("tensor(").removesuffix(")")
        # Bits are read where the CPU can.
        is_bits = NAMES.get(kind, kind) in ONLY_BITS
        binding.bind_output(name, "cpu" if is_bits else device)
    session.run_with_iobinding(binding)
    return binding.get_outputs()


def read_input(item):
    dtype = item["dtype"]
    held = BITS_OF[dtype][0] if dtype in BITS_OF else dtype
    values = numpy.fromfile(item["file"], held).reshape(item["shape"])
    if dtype not in BITS_OF:
        return onnxruntime.OrtValue.ortvalue_from_numpy(values)
    if dtype not in ONLY_BITS:
        sys.exit(f"input {item['name']}: is {dtype}, which onnxruntime's "
                 "Python package cannot be given")
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
        values, BITS_OF[dtype][1])


def bits_of(value, held):
    """The bits of a value that numpy cannot hold, as unsigned integers."""
    bits = numpy.empty(value.shape(), held)
    if bits.size:
        import ctypes  # pylint: disable=import-outside-toplevel
        ctypes.memmove(bits.ctypes.data, value.data_ptr(), bits.nbytes)
    return bits


def write_output(name, value, file, folder):
    """Writes a tensor and returns what the answer says of it."""
    if value is None or not value.has_value() or not value.is_tensor():
        return {"name": name, "absent": "onnxruntime did not make a tensor"}
    dtype = value.data_type().removeprefix("tensor(").removesuffix(")")
    dtype = NAMES.get(dtype, dtype)
    if dtype == "string" or (dtype in BITS_OF and dtype not in ONLY_BITS):
        return {"name": name,
                "absent": f"onnxruntime's Python package has no {dtype}"}
    values = (bits_of(value, BITS_OF[dtype][0]) if dtype in ONLY_BITS
              else value.numpy())
    numpy.ascontiguousarray(values).tofile(os.path.join(folder, file))
    return {"name": name, "dtype": dtype, "shape": list(values.shape),
            "file": file}


def run(session, options, asked, repeats, folder, prefix=""):
    """Runs what is asked, and returns its outputs and durations as the answer
    has them."""
    # pylint: disable=too-many-arguments,too-many-positional-arguments
    inputs = {item["name"]: read_input(item) for item in asked["inputs"]}
    # onnxruntime refuses inputs that the model does not have.
    known = {node.name for node in session.get_inputs()}
    inputs = {name: value for name, value in inputs.items() if name in known}
    names = asked["outputs"]
    durations = []
    values = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        values = (run_bound(session, names, inputs)
                  if options.io_binding == "on"
                  else session.run_with_ort_values(names, inputs))
        durations.append(time.perf_counter_ns() - start)
    outputs = [write_output(name, value, f"{prefix}{i}.bin", folder)
               for i, (name, value) in enumerate(zip(names, values))]
    return {"outputs": outputs, "durations_ns": durations}


def run_cases(request, options):
    """Runs each case, or says why it is refused. Cases of one model follow each
    other."""
    answers = []
    model = None
    session = None
    for number, case in enumerate(request["cases"]):
        try:
            if case["model"] != model:
                session = None
                model = case["model"]
                session = session_of(model, options)
            if session is None:
                answers.append(answers[-1])
                continue
            answers.append({"outputs": run(
                session, options, case, 1, request["output_folder"],
                f"{number}_")["outputs"]})
        except (Exception, SystemExit) as error:  # pylint: disable=broad-except
            answers.append({"refused": text_of(error)})
    return answers


def text_of(error):
    if isinstance(error, SystemExit):
        return str(error)
    return f"{type(error).__name__}: {error}"


def main():
    options = parse_arguments()
    with open(options.request, encoding="utf-8") as file:
        request = json.load(file)
    answer = {"version": 1, "takes_cases": True}
    runtime = f"onnxruntime {onnxruntime.__version__}"
    if "cases" in request:
        answer["runtime"] = f"{runtime}, {provider_of(options.provider)[0]}"
        answer["cases"] = run_cases(request, options)
    else:
        session = session_of(request["model"], options)
        answer["runtime"] = f"{runtime}, {session.get_providers()[0]}"
        answer.update(run(session, options, request, request["repeats"],
                          request["output_folder"]))
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # pylint: disable=broad-except
        # The last line is what nodewise quotes.
        sys.exit(text_of(error))
