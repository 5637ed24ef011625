"""Operators that move elements, make shapes or pick: rows for ort_table.py."""

import numpy as np
from onnx import TensorProto, numpy_helper

from ort_case import sums
from ort_table import TYPES, ints, row

DTYPES = sorted(TYPES.values(), key=str)


def some_types(m, parameter="T", count=4):
    """float32 and a few others."""
    types = m.types(parameter)
    return types[:1] + [t for t in types[1:] if t.name in (
        "float32", "int64", "int8", "bool", "float16")][:count - 1]


@row("Compress")
def compress(m):
    x = m.any("float32", 3, 4)
    m.add([x, np.array([True, False, True])], axis=0)
    m.add([x, np.array([False, True])], axis=1)
    m.add([x, np.array([True, False, True, False, True])])
    if m.version >= 11:
        m.add([x, np.array([False, True])], axis=-1)


@row("Concat")
def concat(m):
    for dtype in some_types(m):
        for axis in (0, 1, 2) + ((-1, -3) if m.version >= 11 else ()):
            shapes = [[2, 3, 4] for _ in range(3)]
            for i, shape in enumerate(shapes):
                shape[axis] = i + 1
            m.add([m.any(dtype, *s) for s in shapes], axis=axis)


@row("Constant")
def constant(m):
    for dtype in DTYPES:
        m.add([], value=numpy_helper.from_array(m.any(dtype, 2, 3)))
    if m.version >= 12:
        m.add([], value_float=1.5)
        m.add([], value_ints=[3, -4])


@row("ConstantOfShape")
def constant_of_shape(m):
    m.add([ints(2, 3)])
    m.add([ints()])
    for dtype in DTYPES:
        m.add([ints(2, 0, 3)], value=numpy_helper.from_array(m.any(dtype, 1)))
        m.add([ints(2, 3)], value=numpy_helper.from_array(m.any(dtype, 1)))


@row("DepthToSpace", "SpaceToDepth")
def depth(m):
    shape = (2, 8, 3, 2) if m.op == "DepthToSpace" else (2, 3, 4, 6)
    x = m.any("float32", *shape)
    m.add([x], blocksize=2)
    if m.op == "DepthToSpace" and m.version >= 11:
        m.add([x], blocksize=2, mode="CRD")


@row("Dropout")
def dropout(m):
    for dtype in m.floats():
        x = m.any(dtype, 3, 4)
        if m.version < 12:
            m.add([x], ratio=0.3)  # The mask is unspecified.
            m.add([x])
            continue
        m.add([x])
        m.add([x, np.array(0.3, np.float32)], outputs=2)
        m.add([x, None, np.array(False)], outputs=2)


@row("Expand", "Tile")
def expand(m):
    for dtype in some_types(m):
        m.add([m.any(dtype, 3, 1), ints(2, 3, 4) if m.op == "Expand"
               else ints(2, 3)])


@row("EyeLike")
def eye_like(m):
    for k in (0, 1, -2):
        m.add([m.any("float32", 3, 4)], k=k)
        m.add([m.any("int32", 4, 3)], k=k, dtype=TensorProto.DOUBLE)


@row("Flatten", "Squeeze", "Unsqueeze", "Transpose", "Reshape", "Shape",
     "Size", "Trilu")
def shapes(m):
    for dtype in some_types(m):
        globals()[f"{m.op.lower()}_cases"](m, dtype)


def flatten_cases(m, dtype):
    for axis in (0, 1, 2, 3) + ((-1, -3) if m.version >= 11 else ()):
        m.add([m.any(dtype, 2, 3, 4)], axis=axis)
    m.add([m.any(dtype, 2, 3, 4, 2)])


def squeeze_cases(m, dtype):
    x = m.any(dtype, 1, 3, 1, 4, 1)
    m.add([x])
    for axes in ([0], [2, 4]) + (([-1, 0],) if m.version >= 11 else ()):
        if m.version < 13:
            m.add([x], axes=axes)
        else:
            m.add([x, ints(*axes)], constant=(1,))


def unsqueeze_cases(m, dtype):
    x = m.any(dtype, 3, 4)
    for axes in ([0], [1, 3]) + (([-1], [3, 0]) if m.version >= 11 else ()):
        if m.version < 13:
            m.add([x], axes=axes)
        else:
            m.add([x, ints(*axes)], constant=(1,))


def transpose_cases(m, dtype):
    m.add([m.any(dtype, 2, 3, 4)])
    m.add([m.any(dtype, 2, 3, 4)], perm=[1, 2, 0])


def reshape_cases(m, dtype):
    x = m.any(dtype, 2, 3, 4)
    for shape in ([4, 6], [0, -1], [-1], [0, 0, 2, 2]):
        m.add([x, ints(*shape)], constant=(1,))
    if m.version >= 14:
        m.add([m.any(dtype, 0, 3), ints(3, 0)], allowzero=1)


def shape_cases(m, dtype):
    x = m.any(dtype, 2, 3, 4)
    m.add([x])
    if m.version >= 15:
        m.add([x], start=1)
        m.add([x], start=-2, end=-1)
        m.add([x], start=2, end=1)


def size_cases(m, dtype):
    m.add([m.any(dtype, 2, 3, 4)])
    m.add([m.any(dtype)])


def trilu_cases(m, dtype):
    for upper in (0, 1):
        m.add([m.any(dtype, 3, 4)], upper=upper)
        m.add([m.any(dtype, 2, 3, 4), np.array(-1, np.int64)], upper=upper)


# --- gathering and scattering -----------------------------------------------


@row("Gather", "GatherElements")
def gather(m):
    low = -3 if m.version >= 11 else 0
    for dtype in some_types(m):
        for index in ("int32", "int64"):
            x = m.any(dtype, 3, 4, 3)
            for axis in (0, 2) + ((-1,) if m.version >= 11 else ()):
                shape = (2, 2) if m.op == "Gather" else (3, 2, 3)
                m.add([x, m.any(index, *shape, low=low, high=2)], axis=axis)
            if m.op == "Gather":
                m.add([x, m.any(index, low=0, high=2)])


@row("GatherND")
def gather_nd(m):
    for dtype in some_types(m):
        x = m.any(dtype, 2, 3, 4)
        m.add([x, m.any("int64", 5, 2, low=-2, high=1)])
        m.add([x, m.any("int64", 2, 2, 3, low=0, high=1)])
        if m.version >= 12:
            m.add([x, m.any("int64", 2, 5, 1, low=-3, high=2)], batch_dims=1)


def distinct(m, count, among):
    return m.rng.permutation(among)[:count].astype(np.int64)


@row("Scatter", "ScatterElements")
def scatter(m):
    reductions = {16: ["add", "mul"], 18: ["add", "mul", "max", "min"]}
    for dtype in some_types(m):
        x = m.any(dtype, 4, 5)
        for axis in (0, 1) + ((-1,) if m.version >= 11 else ()):
            count = 4 if axis == 0 else 5
            index = np.stack([distinct(m, 3, count) for _ in range(3)],
                             axis=0 if axis else 1)
            m.add([x, index, m.any(dtype, 3, 3)], axis=axis)
            if axis and m.version >= 11:
                m.add([x, index - 5, m.any(dtype, 3, 3)], axis=axis)
        if dtype.name != "float32":
            continue
        for reduction in reductions.get(m.version, []):
            m.add([x, m.any("int64", 3, 3, low=0, high=2),
                   m.any(dtype, 3, 3)], sums(4), axis=1, reduction=reduction)


@row("ScatterND")
def scatter_nd(m):
    reductions = {16: ["add", "mul"], 18: ["add", "mul", "max", "min"]}
    for dtype in some_types(m):
        x = m.any(dtype, 4, 5, 2)
        rows = distinct(m, 3, 4).reshape(3, 1)
        m.add([x, rows, m.any(dtype, 3, 5, 2)])
        if m.version >= 11:
            m.add([x, rows - 4, m.any(dtype, 3, 5, 2)])
        if dtype.name != "float32":
            continue
        for reduction in reductions.get(m.version, []):
            m.add([x, ints(1, 3, 1).reshape(3, 1), m.any(dtype, 3, 5, 2)],
                  sums(4), reduction=reduction)


@row("OneHot")
def one_hot(m):
    low = -4 if m.version >= 11 else 0
    for axis in (-1, 0, 1):
        m.add([m.any("int64", 2, 3, low=low, high=3), ints(4),
               np.array([0.5, 2], np.float32)], axis=axis)
    if m.version >= 11:  # Out of range: all off.
        m.add([ints(-5, 4, 1), np.array(4, np.int64),
               ints(0, 3)])


@row("NonZero")
def non_zero(m):
    for dtype in some_types(m):
        m.add([np.round(m.any(dtype, 3, 4, low=-1, high=1)).astype(dtype)])


@row("TopK")
def top_k(m):
    for dtype in m.types():
        x = m.rng.permutation(60).reshape(3, 4, 5).astype(dtype)
        for axis in (0, 1, 2, -1)[:3 if m.version == 1 else 4]:
            if m.version == 1:
                m.add([x], outputs=2, k=2, axis=axis)
                continue
            m.add([x, ints(2)], outputs=2, axis=axis)
            if m.version >= 11:
                m.add([x, ints(3)], outputs=2, axis=axis, largest=0)
    # Equal elements keep their order.
    x = np.round(m.any("float32", 3, 8, low=-1, high=1))
    m.add(*([[x]] if m.version == 1 else [[x, ints(5)]]), outputs=2,
          **({"k": 5} if m.version == 1 else {}))


@row("Unique")
def unique(m):
    x = np.round(m.any("float32", 4, 3, low=-1, high=1))
    m.add([x], outputs=4)
    m.add([x], outputs=4, sorted=0)
    m.add([x], outputs=4, axis=0)
    m.add([x], outputs=4, axis=-1)


# --- slicing, splitting, padding --------------------------------------------


@row("Slice")
def slices(m):
    for dtype in some_types(m):
        x = m.any(dtype, 5, 6, 4)
        for starts, ends, axes, steps in (
                ([1], [3], [0], None), ([0, 1], [100, -1], None, None),
                ([-4, 1], [-1, 3], [1, 2], None), ([3], [3], [1], None),
                ([0, 5], [5, 0], [0, 1], [2, -2]),
                ([-1], [-(2**62)], [0], [-1])):
            if m.version == 1:
                if steps is None:
                    attrs = {} if axes is None else {"axes": axes}
                    m.add([x], starts=starts, ends=ends, **attrs)
                continue
            given = [ints(*v) if v is not None else None
                     for v in (starts, ends, axes, steps)]
            m.add([x, *given], constant=tuple(
                i + 1 for i, v in enumerate(given) if v is not None))
            if steps and m.version >= 11:
                m.add([x, *given])


@row("Split")
def split(m):
    for dtype in some_types(m):
        x = m.any(dtype, 2, 6, 3)
        for axis in (0, 1) + ((-2,) if m.version >= 11 else ()):
            equal = {"num_outputs": 2} if m.version >= 18 else {}
            m.add([x], outputs=2, axis=axis, **equal)
        if m.version < 13:
            m.add([x], outputs=3, axis=1, split=[1, 2, 3])
        else:
            m.add([x, ints(1, 2, 3)], outputs=3, axis=1, constant=(1,))
        if m.version >= 18:
            m.add([m.any(dtype, 7)], outputs=3, num_outputs=3)


@row("Pad")
def pad(m):
    modes = ["constant", "reflect", "edge"]
    if m.version >= 19:
        modes.append("wrap")
    for i, dtype in enumerate(m.types()):
        if i > 0 and dtype.name not in ("int32", "float16", "bool"):
            continue
        x = m.any(dtype, 3, 4, 5)
        for mode in modes:
            for pads in ([1, 2, 0, 2, 0, 1], [-1, 1, 0, 0, -2, 2]):
                pad_one(m, x, mode, pads)
        if m.version >= 18:
            m.add([x, ints(1, 2, 0, 1), None, ints(2, 0)],
                  constant=(1, 3))


def pad_one(m, x, mode, pads):
    if mode != "constant" and min(pads) < 0:
        return
    if m.version < 11:
        m.add([x], mode=mode, pads=pads, value=1.5)
        return
    value = np.array(3, x.dtype) if mode == "constant" else None
    m.add([x, ints(*pads), value], mode=mode, constant=(1,))
    m.add([x, ints(*pads)], mode=mode)


@row("Range")
def ranges(m):
    for dtype in m.types():
        m.add([np.array(v, dtype) for v in (1, 11, 3)])
        m.add([np.array(v, dtype) for v in (10, 1, -2)])


@row("ReverseSequence")
def reverse_sequence(m):
    x = m.any("float32", 4, 3, 2)
    m.add([x, ints(4, 1, 2)])
    m.add([x, ints(1, 3, 2, 2)], batch_axis=0, time_axis=1)


@row("Det")
def det(m):
    m.add([m.any("float32", 2, 3, 3)], sums(9, powers=32))
    m.add([m.any("float32", 4, 4)], sums(16, powers=64))


@row("NonMaxSuppression")
def non_max_suppression(m):
    corner = m.any("float32", 2, 12, 2, low=0, high=8)
    side = m.any("float32", 2, 12, 2, low=1, high=5)
    scores = m.any("float32", 2, 3, 12, low=0, high=1)
    for attrs, boxes in (
            ({}, np.concatenate([corner, corner + side], axis=2)),
            ({"center_point_box": 1}, np.concatenate([corner, side], axis=2))):
        for limits in ([ints(4), np.float32([0.3]), np.float32([0.2])],
                       [ints(2), np.float32([0.6])], []):
            m.add([boxes, scores, *limits], **attrs)


@row("Einsum")
def einsum(m):
    for dtype in m.floats():
        m.add([m.any(dtype, 2, 3, 4), m.any(dtype, 2, 4, 5)], sums(4),
              equation="bij,bjk->bik")
        m.add([m.any(dtype, 3, 3)], sums(3), equation="ii->i")
        m.add([m.any(dtype, 2, 3, 4), m.any(dtype, 4)], sums(4),
              equation="...j,j")


# --- resizing ---------------------------------------------------------------


@row("Upsample")
def upsample(m):
    x = m.any("float32", 1, 2, 3, 4)
    for mode in ("nearest", "linear"):
        for scales in ([1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 1.5, 2.5],
                       [1.0, 1.0, 1.0, 3.0]):
            if m.version < 9:
                m.add([x], sums(4), mode=mode, scales=scales)
            else:
                m.add([x, np.float32(scales)], sums(4), mode=mode,
                      constant=(1,))


@row("Resize")
def resize(m):
    x = m.any("float32", 2, 2, 5, 6)
    # Exact in binary: otherwise rounding decides which neighbour is nearest.
    scales = ([1, 1, 2, 2], [1, 1, 0.625, 0.5], [1, 1, 1.75, 0.75])
    if m.version == 10:
        for mode in ("nearest", "linear"):
            for each in scales:
                m.add([x, np.float32(each)], sums(4), mode=mode,
                      constant=(1,))
        return
    places = ["half_pixel", "pytorch_half_pixel", "align_corners",
              "asymmetric"]
    if m.version >= 19:
        places.append("half_pixel_symmetric")
    for place in places:
        for mode, extra in resize_modes(m):
            for each in scales:
                # onnxruntime takes the whole size where the specification
                # takes side times scale, which here is none.
                if place == "align_corners" and each != scales[0]:
                    continue
                resize_one(m, x, each, mode=mode,
                           coordinate_transformation_mode=place, **extra)
            resize_one(m, x, ints(2, 2, 8, 3), mode=mode,
                       coordinate_transformation_mode=place, **extra)
    # By sizes: onnxruntime leaves the box out of the size that scales give.
    roi = np.float32([0, 0, 0.25, 0.125, 1, 1, 1.25, 0.75])
    for mode in ("nearest", "linear", "cubic"):
        m.add([x, roi, np.float32([]) if m.version < 13 else None,
               ints(2, 2, 7, 9)], sums(16, 8), constant=(3,), mode=mode,
              coordinate_transformation_mode="tf_crop_and_resize",
              extrapolation_value=1.5)


def resize_modes(m):
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor",
                     "ceil"):
        yield "nearest", {"nearest_mode": rounding}
    yield "linear", {}
    yield "cubic", {}
    yield "cubic", {"cubic_coeff_a": -0.5, "exclude_outside": 1}
    if m.version >= 18:
        yield "linear", {"antialias": 1}
        yield "cubic", {"antialias": 1}


def resize_one(m, x, target, **attrs):
    """To a list of scales or an array of sizes."""
    nothing = np.float32([]) if m.version < 13 else None
    inputs = [x, nothing, np.float32(target)]
    if isinstance(target, np.ndarray):
        inputs = [x, nothing, nothing, target]
    m.add(inputs, sums(16, 8), constant=tuple(
        i for i in (1, 2, 3) if len(inputs) > i and inputs[i] is not None),
          **attrs)


@row("GridSample")
def grid_sample(m):
    x = m.any("float32", 2, 2, 4, 5)
    grid = m.any("float32", 2, 3, 6, 2, low=-1.3, high=1.3)
    modes = (("bilinear", "nearest", "bicubic") if m.version < 20
             else ("linear", "nearest", "cubic"))
    for mode in modes:
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                m.add([x, grid], sums(16, 16), mode=mode,
                      padding_mode=padding, align_corners=corners)
