"""The table of disagreements.

Each is made by tools and runtimes of other people. No cause is there more than
4 times; check() says so.
"""

import collections
import dataclasses
import functools
import typing

import numpy

import making
import models
import truths

MOST_OF_A_CAUSE = 4
# What the bench must have at least, of each kind.
LEAST = {"quantised": 6, "float16": 4, "rewritten": 4, "precision": 4,
         "operator": 3, "observed": 3, "host": 3}


@dataclasses.dataclass
class Case:
    name: str
    kind: str  # One of LEAST.
    cause: str
    make: typing.Callable  # Given the case's folder, writes its files.
    truth: typing.Callable  # Given the folder, returns what a truth file has.
    # What `nodewise locate` is given. {dir} is the folder, {python} and {here}
    # those of this program, {adapters} the adapters of nodewise.
    command: list
    model: str = ""  # That of a package, without which the case is skipped.
    needs: tuple = ()  # Python packages and programs.


PAIR = ["{dir}/target.onnx", "--reference", "{dir}/model.onnx", "--inputs",
        "{dir}/inputs.npz"]


def program(runtime):
    return [f"exec:{{python}} {{here}}/runtimes.py {runtime}", "--model",
            "{dir}/model.onnx", "--inputs", "{dir}/inputs.npz"]


# A processor with AVX2 and without VNNI: sums of two products of 8 bits are
# held in 16.
HASWELL = "qemu-x86_64 -cpu Haswell"
ON_HASWELL = [
    f"exec:{HASWELL} {{python}} {{adapters}}/onnxruntime_adapter.py "
    "--level all", "--model", "{dir}/target.onnx", "--inputs",
    "{dir}/inputs.npz", "--repeats", "1"]


def quantised(name, cause, model, make, truth, **options):
    return Case(name, "quantised", cause,
                functools.partial(make, name=model, **options), truth, PAIR,
                model, ("onnxruntime",))


STATIC, OPERATORS = "static QDQ", "QOperator"
DYNAMIC = "dynamic, weights of 8 bits"


def brightness(x):
    """A picture from 0 to 255 in the place of one from -1 to 1."""
    return (127.5 * (x + 1)).astype(numpy.float32)


QUANTISED = [
    quantised("qdq_magika", STATIC, "magika", making.static, truths.static()),
    quantised("qdq_angle", STATIC, "text_angle", making.static,
              truths.static()),
    quantised("qdq_turned", STATIC, "page_turned", making.static,
              truths.static()),
    quantised("qop_nudenet", OPERATORS, "nudenet", making.static,
              truths.static(), form="QOperator"),
    quantised("qop_boxes", OPERATORS, "text_boxes_6", making.static,
              truths.static(), form="QOperator"),
    quantised("dynamic_line", DYNAMIC, "text_line_6", making.dynamic,
              truths.dynamic),
    quantised("dynamic_persian", DYNAMIC, "persian_names", making.dynamic,
              truths.dynamic),
    quantised("signed_boxes", "signed, a scale for each channel",
              "text_boxes_6", making.static, truths.static(),
              activations="QInt8", per_channel=True),
    quantised("wrong_ranges", "ranges taken from other inputs", "text_angle",
              making.static, truths.static(), spoil=brightness),
    quantised("four_bits", "weights of 4 bits", "arabic",
              making.blocks_of_4_bits, truths.by_the_tool(
                  truths.quantise_one_to_4_bits, ("MatMul",),
                  (("4-bit", "4 bit"),))),
]


def half(name, cause, model, truth, **options):
    return Case(name, "float16", cause,
                functools.partial(making.half, name=model, **options), truth,
                PAIR, model, ("onnxconverter_common",))


HALF = [
    half("half_loud", "beyond what float16 has", "speech",
         truths.too_large_for_half, feeds=lambda feeds: {
             **feeds, "input": numpy.float32(32767) * feeds["input"]}),
    half("half_boxes", "float16", "text_boxes_6", truths.half()),
    half("half_line", "float16", "text_line", truths.half()),
    half("half_angle", "float16", "text_angle", truths.half()),
    half("half_persian", "float16", "persian_names", truths.half()),
]


def rewritten(name, cause, network, rewrite, needs="onnx"):
    """Where operations are joined, no one of them can be rewritten alone."""
    words = [["something else"]]
    truth = truths.rewritten_alone(rewrite, words) if needs == "onnx" else \
        truths.first_that_differs(words)
    return Case(name, "rewritten", cause,
                functools.partial(making.rewritten, network=network,
                                  rewrite=rewrite), truth, PAIR,
                needs=(needs,))


def with_padding(kind, **attributes):
    """A Pad in front of a pool."""
    def network():
        net = making.Net([1, 3, 20, 20], 13)
        net.conv("first", 3, 8)
        net.add("Pad", "padded", net.weight("pads", numpy.array(
            [0, 0, 1, 1, 0, 0, 1, 1])))
        net.add(kind, "middle", kernel_shape=[3, 3], **attributes)
        net.conv("second", 8, 6)
        net.head(6)
        return net.build()
    return network


def scaled_columns():
    """A convolution whose result is multiplied column by column."""
    net = making.Net([1, 3, 20, 8], 13)
    net.conv("first", 3, 8)
    net.add("Mul", "middle", net.weight("columns", numpy.linspace(
        0.5, 2, 8).astype(numpy.float32)))
    net.add("Relu", "rectified")
    net.conv("second", 8, 6)
    net.head(6)
    return net.build()


LARGER = numpy.array([1, 1, 2.5, 1.5], numpy.float32)
REWRITTEN = [
    rewritten("pad_average", "onnxoptimizer puts padding into a pool",
              with_padding("AveragePool", count_include_pad=0,
                           pads=[1, 1, 1, 1]),
              making.optimised("fuse_pad_into_pool"), "onnxoptimizer"),
    rewritten("pad_largest", "onnxoptimizer puts padding into a pool",
              with_padding("MaxPool"),
              making.optimised("fuse_pad_into_pool"), "onnxoptimizer"),
    rewritten("slim_columns", "onnxslim takes columns for channels",
              scaled_columns, making.slimmed, "onnxslim"),
    rewritten("softmax_down", "axis of Softmax by another opset",
              making.between("Softmax", 13, axis=1, is_bare=True),
              making.converted(12)),
    rewritten("hardmax_up", "axis of Hardmax by another opset",
              making.between("Hardmax", 11, axis=1), making.converted(13)),
    rewritten("resize_up", "where Resize takes pixels from, by another opset",
              making.between("Resize", 10, constants=(LARGER,), mode="linear"),
              making.converted(13)),
    rewritten("upsample_up", "where Resize takes pixels from, by another opset",
              making.between("Upsample", 9, constants=(LARGER,),
                             mode="linear"), making.converted(13)),
]


def at_precision(name, cause, runtime, model):
    hint = {"openvino": "", "openvino_f16": "f16"}[runtime]
    return Case(name, "precision", cause,
                functools.partial(making.in_runtime, network=model),
                truths.alone(runtime, functools.partial(
                    truths.in_the_type_of, hint)),
                program(runtime), model, ("openvino",))


DEFAULT, HALVES = "OpenVINO's default: bfloat16", "OpenVINO asked for float16"
PRECISION = [
    at_precision("ov_angle", DEFAULT, "openvino", "text_angle"),
    at_precision("ov_turned", DEFAULT, "openvino", "page_turned"),
    at_precision("ov_boxes", DEFAULT, "openvino", "text_boxes_6"),
    at_precision("ov_persian", DEFAULT, "openvino", "persian_names"),
    at_precision("ov16_angle", HALVES, "openvino_f16", "text_angle"),
    at_precision("ov16_silero", HALVES, "openvino_f16", "silero_vad"),
]


def operator(name, cause, runtime, network, needs, words=(), instead=None):
    is_packaged = isinstance(network, str)
    return Case(name, "operator", cause,
                functools.partial(making.in_runtime, network=network),
                truths.alone(runtime, list(words), instead=instead),
                program(runtime), network if is_packaged else "", (needs,))


HALVED = numpy.array([1, 1, 0.6, 0.6], numpy.float32)
# 20 times that is not a whole number.
UNEVEN = numpy.array([1, 1, 0.63, 0.63], numpy.float32)
OPERATOR = [
    operator("cv_average", "OpenCV pads AveragePool at the wrong end",
             "opencv", making.between(
                 "AveragePool", kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
             "cv2", instead=[{"auto_pad": "SAME_UPPER"}]),
    operator("cv_largest", "OpenCV pads MaxPool at the wrong end", "opencv",
             making.between("MaxPool", kernel_shape=[2, 2],
                            auto_pad="SAME_LOWER"), "cv2",
             instead=[{"auto_pad": "SAME_UPPER"}]),
    operator("cv_gelu", "OpenCV has one Gelu for both", "opencv",
             making.between("Gelu", 20, approximate="tanh"), "cv2",
             [["tanh", "approximate"]], [{"approximate": "none"}]),
    operator("cv_antialias", "OpenCV resizes without antialiasing", "opencv",
             making.between("Resize", 18, constants=(None, HALVED),
                            mode="linear", antialias=1), "cv2",
             [["antialias"]], [{"antialias": 0}]),
    operator("cv_symmetric", "OpenCV takes pixels from elsewhere", "opencv",
             making.between(
                 "Resize", 19, constants=(None, HALVED), mode="linear",
                 coordinate_transformation_mode="half_pixel_symmetric"),
             "cv2", instead=[{"coordinate_transformation_mode": mode}
                             for mode in ("half_pixel", "pytorch_half_pixel",
                                          "align_corners", "asymmetric")]),
    operator("ort_cubic", "onnxruntime resizes by another rule", "ort_all",
             making.between(
                 "Resize", 17, constants=(None, UNEVEN), mode="cubic",
                 coordinate_transformation_mode="align_corners"),
             "onnxruntime"),
    Case("mnn_magika", "operator", "MNN",
         functools.partial(making.in_runtime, network="magika"),
         truths.cut("mnn", []), program("mnn"), "magika", ("MNN",)),
]


OBSERVED = [
    Case("seen_haswell", "observed", "8-bit sums held in 16 bits",
         functools.partial(making.static, name="speech"),
         truths.observed_one_by_one("haswell_all", [["saturate"]],
                                    share=0.05, kinds=("Conv", "MatMul")),
         ON_HASWELL, "speech", ("onnxruntime", "qemu-x86_64")),
    Case("seen_magika", "observed", "OpenVINO fuses in bfloat16",
         functools.partial(making.in_runtime, network="magika"),
         truths.observed_one_by_one("openvino", functools.partial(
             truths.in_the_type_of, "")),
         program("openvino"), "magika", ("openvino",)),
    Case("seen_channels", "observed", "8-bit sums held in 16 bits",
         functools.partial(making.static, name="speech", per_channel=True),
         truths.observed_one_by_one("haswell_all", [["saturate"]],
                                    share=0.05, kinds=("Conv", "MatMul")),
         ON_HASWELL, "speech", ("onnxruntime", "qemu-x86_64")),
    Case("seen_half", "observed", "OpenVINO fuses where float16 was asked for",
         functools.partial(making.in_runtime, network="text_line"),
         truths.observed_one_by_one("openvino_f16", functools.partial(
             truths.in_the_type_of, "f16")),
         program("openvino_f16"), "text_line", ("openvino",)),
    Case("haswell_speech", "operator", "8-bit sums held in 16 bits",
         functools.partial(making.static, name="speech", form="QOperator"),
         truths.alone("haswell_all", [["saturate"]], file="target"),
         ON_HASWELL, "speech", ("onnxruntime", "qemu-x86_64")),
]


def host(name, cause, change, *words, model="text_angle"):
    """Two hosts that ran one network and recorded it: one fed it otherwise."""
    def make(folder):
        _, feeds = making.packaged(folder, model)
        other = numpy.ascontiguousarray(change(feeds[key]))
        numpy.savez(folder / "other.npz", **{**feeds, key: other})
        making.record(folder, "inputs", "right")
        making.record(folder, "other", "wrong")
    key = next(iter(models.inputs_of(model)))
    return Case(name, "host", cause, make, truths.of_the_input(key, *words),
                ["{dir}/wrong", "--reference", "{dir}/right"], model)


def as_nhwc(x):
    return x.transpose(0, 2, 3, 1).reshape(x.shape)


HOST = [
    host("host_bgr", "blue for red", lambda x: x[:, ::-1],
         "channel", "order", "reverse", "flipped"),
    host("host_raw", "not normalised", brightness, "times", "factor", "scale"),
    host("host_half", "from 0 to 1 in the place of -1 to 1",
         lambda x: (0.5 * x + 0.5).astype(numpy.float32), "times", "factor",
         "scale"),
    host("host_nhwc", "channels last", as_nhwc, "order", "transpos", "layout",
         "channels last"),
    host("host_other", "another file", lambda x: models.inputs_of(
        "text_angle", 7)["x"]),
    host("host_turned", "a picture upside down", lambda x: x[:, :, ::-1],
         "reverse", "flipped", "order", model="page_turned"),
]

ALL = [*QUANTISED, *HALF, *REWRITTEN, *PRECISION, *OPERATOR, *OBSERVED, *HOST]


def check(cases):
    """What the table must have, and has not."""
    missing = [f"{cause}: {count} cases" for cause, count in
               collections.Counter(case.cause for case in cases).items()
               if count > MOST_OF_A_CAUSE]
    kinds = collections.Counter(case.kind for case in cases)
    missing += [f"{kind}: {kinds[kind]} cases, expected {least}"
                for kind, least in LEAST.items() if kinds[kind] < least]
    return missing
