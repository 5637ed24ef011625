"""The runtimes of the bench, as functions and as adapters for nodewise.

usage: runtimes.py RUNTIME REQUEST
       runtimes.py RUNTIME --jobs FOLDER

RUNTIME is a name of RUNTIMES. The request and the answer are those of
docs/formats/foreign_runner.md. What finds the truth has many models run in one
start, each of which is FOLDER/N.onnx with FOLDER/N.in.npz and the names of its
outputs in FOLDER/N.json; the results are FOLDER/N.out.npz, numbered like the
names.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy


def openvino(hint):
    def run(path, feeds, names):
        import openvino as vino  # pylint: disable=import-outside-toplevel
        core = vino.Core()
        model = core.read_model(path)
        model.reshape({each: list(feeds[each.any_name].shape)
                       for each in model.inputs if each.any_name in feeds})
        settings = {"INFERENCE_PRECISION_HINT": hint} if hint else {}
        compiled = core.compile_model(model, "CPU", settings)
        request = compiled.create_infer_request()
        for each in compiled.inputs:
            for name in each.names:
                if name in feeds:
                    request.set_tensor(each, vino.Tensor(
                        numpy.ascontiguousarray(feeds[name])))
        request.infer()
        made = {}
        for each in compiled.outputs:
            for name in each.names:
                made[name] = request.get_tensor(each).data.copy()
        return {name: made.get(name) for name in names}
    return run


def type_on_this_processor(hint):
    """The type that OpenVINO computes in when it is asked for another, as it
    says: a processor may not have the one that is asked for."""
    # pylint: disable=import-outside-toplevel
    import openvino as vino
    from openvino import opset13
    settings = {"INFERENCE_PRECISION_HINT": hint} if hint else {}
    x = opset13.parameter([1], numpy.float32)
    model = vino.Model([opset13.relu(x)], [x])
    compiled = vino.Core().compile_model(model, "CPU", settings)
    return compiled.get_property("INFERENCE_PRECISION_HINT").to_string()


def opencv(path, feeds, names):
    import cv2  # pylint: disable=import-outside-toplevel
    net = cv2.dnn.readNetFromONNX(path)
    for name, value in feeds.items():
        net.setInput(value, name)
    return {name: numpy.array(value) for name, value in zip(
        names, net.forward(list(names)))}


def mnn(precision):
    def run(path, feeds, names):
        # pylint: disable=import-outside-toplevel
        from MNN import expr, nn
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "model.mnn")
            # The command mnnconvert installs packages and reports what it
            # converts to its makers; the function behind it does not.
            arguments = ["mnnconvert", "-f", "ONNX", "--modelFile", str(path),
                         "--MNNModel", made, "--bizCode", "bench",
                         "--keepInputFormat", "1"]
            done = subprocess.run(
                [sys.executable, "-c", "import MNN, _tools; "
                 f"_tools.mnnconvert({arguments!r})"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            if not os.path.exists(made):
                raise RuntimeError(done.stdout.decode()[-300:])
            settings = {"precision": precision, "backend": "CPU",
                        "numThread": 2}
            manager = nn.create_runtime_manager((settings,))
            net = nn.load_module_from_file(
                made, list(feeds), list(names), runtime_manager=manager)
            # MNN reads past tensors that are not laid out as it wants them.
            layouts = [each.data_format for each in net.get_info()["inputs"]]
            given = []
            for value, layout in zip(feeds.values(), layouts):
                # MNN has no longer integers.
                kind = expr.float if value.dtype.kind == "f" else expr.int
                held = numpy.float32 if kind == expr.float else numpy.int32
                tensor = expr.const(value.astype(held), list(value.shape),
                                    expr.NCHW, kind)
                given.append(expr.convert(tensor, layout))
            results = net.forward(given)
            if not isinstance(results, (list, tuple)):
                results = [results]
            answers = {}
            for name, value in zip(names, results):
                if value.data_format != expr.NCHW:
                    value = expr.convert(value, expr.NCHW)
                answers[name] = numpy.array(value.read())
            return answers
    return run


def onnxruntime(level):
    def run(path, feeds, names):
        import onnxruntime as ort  # pylint: disable=import-outside-toplevel
        ort.set_default_logger_severity(4)
        settings = ort.SessionOptions()
        settings.graph_optimization_level = getattr(
            ort.GraphOptimizationLevel, level)
        settings.add_session_config_entry(
            "session.intra_op.allow_spinning", "0")
        session = ort.InferenceSession(
            path, settings, providers=["CPUExecutionProvider"])
        known = {each.name for each in session.get_inputs()}
        return dict(zip(names, session.run(list(names), {
            name: value for name, value in feeds.items() if name in known})))
    return run


def litert(_, feeds, names):
    """Runs the .tflite file that the environment names in the place of the
    model. It has the outputs alone, in the order that the environment says."""
    # pylint: disable=import-outside-toplevel
    from ai_edge_litert.interpreter import Interpreter
    file = pathlib.Path(os.environ["DISAGREEMENTS_TFLITE"])
    order = os.environ["DISAGREEMENTS_OUTPUTS"].split(",")
    interpreter = Interpreter(model_path=str(file))
    for each, value in zip(interpreter.get_input_details(), feeds.values()):
        interpreter.resize_tensor_input(each["index"], value.shape)
    interpreter.allocate_tensors()
    for each, value in zip(interpreter.get_input_details(), feeds.values()):
        interpreter.set_tensor(each["index"], value)
    interpreter.invoke()
    made = dict(zip(order, (interpreter.get_tensor(each["index"]) for each in
                            interpreter.get_output_details())))
    return {name: made.get(name) for name in names}


RUNTIMES = {
    "openvino": openvino(""),
    "openvino_f32": openvino("f32"),
    "openvino_f16": openvino("f16"),
    "openvino_bf16": openvino("bf16"),
    "opencv": opencv,
    "mnn": mnn("normal"),
    "mnn_low": mnn("low"),
    "litert": litert,
    "ort_disabled": onnxruntime("ORT_DISABLE_ALL"),
    "ort_basic": onnxruntime("ORT_ENABLE_BASIC"),
    "ort_extended": onnxruntime("ORT_ENABLE_EXTENDED"),
    "ort_all": onnxruntime("ORT_ENABLE_ALL"),
}


def answer(name, request):
    feeds = {each["name"]: numpy.fromfile(
        each["file"], each["dtype"]).reshape(each["shape"])
             for each in request["inputs"]}
    made = RUNTIMES[name](request["model"], feeds, request["outputs"])
    outputs = []
    for i, (tensor, value) in enumerate(made.items()):
        if value is None or value.dtype == object:
            outputs.append({"name": tensor,
                            "absent": "the runtime does not hand it out"})
            continue
        value = numpy.ascontiguousarray(value)
        value.tofile(pathlib.Path(request["output_folder"]) / f"{i}.bin")
        outputs.append({"name": tensor, "dtype": value.dtype.name,
                        "shape": value.shape, "file": f"{i}.bin"})
    return {"version": 1, "runtime": name, "outputs": outputs}


def do_jobs(name, folder):
    """Runs what has no result yet. A job that has begun and not ended is one
    that crashed: it is not begun again."""
    for path in sorted(folder.glob("*.json")):
        began = path.with_suffix(".began")
        if began.exists():
            continue
        began.touch()
        names = json.loads(path.read_text("utf-8"))
        feeds = dict(numpy.load(path.with_suffix(".in.npz")))
        try:
            made = RUNTIMES[name](
                str(path.with_suffix(".onnx")), feeds, names)
        except Exception as error:  # pylint: disable=broad-except
            path.with_suffix(".why").write_text(str(error), "utf-8")
            continue
        numpy.savez(path.with_suffix(".out.npz"), **{
            str(i): made[tensor] for i, tensor in enumerate(names)
            if made.get(tensor) is not None})


def main():
    if sys.argv[2] == "--jobs":
        do_jobs(sys.argv[1], pathlib.Path(sys.argv[3]))
        return
    request = json.loads(pathlib.Path(sys.argv[2]).read_text("utf-8"))
    pathlib.Path(request["answer"]).write_text(
        json.dumps(answer(sys.argv[1], request)), "utf-8")


if __name__ == "__main__":
    main()
