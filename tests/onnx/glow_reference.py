"""Glow's operators by their definitions, as its interpreter calculates them:
one loop after the other, in float32 where that does."""

import math

import numpy as np

F = np.float32
erf = np.vectorize(math.erf)


def expit(x):
    return 1 / (1 + np.exp(-x))


def away(x):
    """Rounded half away from zero."""
    x = np.asarray(x, F)
    whole = np.floor(np.abs(x))
    return np.sign(x) * (whole + (np.abs(x) - whole >= 0.5))


def clipped(x, kind=np.int8):
    limits = np.iinfo(kind)
    return np.clip(x, limits.min, limits.max).astype(kind)


def quantized(x, scale, offset, kind=np.int8):
    """Rounded half to even, behind the offset."""
    return clipped(np.rint(np.asarray(x, F) / F(scale) + F(offset)), kind)


def stepped(x, kind=np.int8):
    return clipped(away(x), kind)


def add_int8(a, b, scale, offset):
    large = F(1 / (1 << 15))
    wide = [away(v.centred().astype(F) * (v.scale / large)).astype(np.int64)
            for v in (a, b)]
    return stepped((wide[0] + wide[1]).astype(F) * (large / F(scale))
                   + F(offset))


def sub_int8(a, b, scale, offset):
    scale = F(scale)
    return stepped((a.scale / scale) * a.centred().astype(F)
                   - (b.scale / scale) * b.centred().astype(F) + F(offset))


def mul_int8(a, b, scale, offset):
    product = (a.centred() * b.centred()).astype(F)
    return clipped(away(product * (a.scale * b.scale / F(scale))) + offset)


def div_int8(a, b, scale, offset):
    left = a.scale * a.centred().astype(F)
    right = b.scale * F(scale) * b.centred().astype(F)
    return stepped(left / right + F(offset))


def matmul_int8(a, b, scale, offset):
    sums = a.centred() @ b.centred()
    return stepped(a.scale * b.scale / F(scale) * sums.astype(F) + F(offset))


def full_int8(x, w, bias, scale, offset):
    scale_of_sums = w.scale * x.scale
    sums = x.centred() @ w.centred()
    sums += away(bias.centred().astype(F)
                 * (bias.scale / scale_of_sums)).astype(np.int64)
    return clipped(away(sums.astype(F) * (scale_of_sums / F(scale))) + offset)


def rows_int8(x, w, scales, offsets, bias, scale, offset):
    out = np.zeros((x.array.shape[0], w.shape[0]), np.int8)
    for j, row in enumerate(w):
        scale_of_sums = F(scales[j]) * x.scale
        sums = x.centred() @ (row.astype(np.int64) - offsets[j])
        sums = sums + int(away(F(bias.centred()[j])
                               * (bias.scale / scale_of_sums)))
        out[:, j] = stepped(sums.astype(F) * (scale_of_sums / F(scale))
                            + F(offset))
    return out


def windows(x, kernel, strides, pads, dilation=None):
    """Yields for each place of the output, of channels-last tensors with two or
    three sides between: its index, and slices of input and filter. Pads are
    given in the order of Glow's tensors."""
    rank = len(kernel)
    dilation = dilation or [1] * rank
    if rank == 2:
        begins, ends = pads[:2], pads[2:]
    else:
        begins, ends = pads[0::2], pads[1::2]
    sizes = [(x.shape[1 + i] + begins[i] + ends[i]
              - dilation[i] * (kernel[i] - 1) - 1) // strides[i] + 1
             for i in range(rank)]
    for at in np.ndindex(*sizes):
        places = []
        for tap in np.ndindex(*kernel):
            place = [at[i] * strides[i] - begins[i] + tap[i] * dilation[i]
                     for i in range(rank)]
            if all(0 <= place[i] < x.shape[1 + i] for i in range(rank)):
                places.append((tuple(place), tap))
        yield at, places
    return


def sizes_of(x, kernel, strides, pads, dilation=None):
    last = None
    for at, _ in windows(x, kernel, strides, pads, dilation):
        last = at
    return [side + 1 for side in last]


def products(x, w, kernel, strides, pads, group, dilation=None):
    """Sums of products of a convolution, without its bias."""
    sizes = sizes_of(x, kernel, strides, pads, dilation)
    out = np.zeros([x.shape[0], *sizes, w.shape[0]],
                   np.int64 if x.dtype == np.int64 else np.float64)
    inner, outer = x.shape[-1] // group, w.shape[0] // group
    for at, places in windows(x, kernel, strides, pads, dilation):
        for channel in range(w.shape[0]):
            first = channel // outer * inner
            for place, tap in places:
                part = x[(slice(None), *place, slice(first, first + inner))]
                out[(slice(None), *at, channel)] += part @ w[(channel, *tap)]
    return out


def conv_int8(x, w, bias, scale, offset, **form):
    sums = products(x.centred(), w.centred(), **form)
    scale_of_sums = x.scale * w.scale
    sums += away(bias.centred().astype(F)
                 * (bias.scale / scale_of_sums)).astype(np.int64)
    return stepped(sums.astype(F) * (scale_of_sums / F(scale)) + F(offset))


def channelwise(x, w, bias, scales, offsets, bias_scales, bias_offsets, scale,
                offset, **form):
    shifted = w.astype(np.int64) - offsets.reshape([-1] + [1] * (w.ndim - 1))
    sums = products(x.centred(), shifted, **form)
    scale_of_sums = x.scale * scales.astype(F)
    sums += away((bias.astype(np.int64) - bias_offsets).astype(F)
                 * (bias_scales.astype(F) / scale_of_sums)).astype(np.int64)
    return stepped(sums.astype(F) * (scale_of_sums / F(scale)) + F(offset))


def pooled(x, kernel, strides, pads, how, counts_pads=True):
    out = np.zeros([x.shape[0], *sizes_of(x, kernel, strides, pads),
                    x.shape[-1]], np.float64)
    for at, places in windows(x, kernel, strides, pads):
        taken = np.stack([x[(slice(None), *place)] for place, _ in places])
        count = np.prod(kernel) if counts_pads else len(places)
        out[(slice(None), *at)] = (taken.max(0) if how == "max"
                                   else taken.astype(np.float64).sum(0) / count)
    return out


def transposed(x, w, bias, strides, pads, group, dilation):
    """A transposed convolution; the filter is (outputs of a group, h, w,
    inputs)."""
    size = [(x.shape[1 + i] - 1) * strides[i] - pads[i] - pads[2 + i]
            + dilation[i] * (w.shape[1 + i] - 1) + 1 for i in range(2)]
    outer = w.shape[0]
    inner = x.shape[-1] // group
    out = np.zeros([x.shape[0], *size, outer * group]) + bias
    for n, h, v, d in np.ndindex(*x.shape):
        for c, i, j in np.ndindex(*w.shape[:3]):
            at = (h * strides[0] - pads[0] + i * dilation[0],
                  v * strides[1] - pads[1] + j * dilation[1])
            if 0 <= at[0] < size[0] and 0 <= at[1] < size[1]:
                out[n, at[0], at[1], d // inner * outer + c] += (
                    w[c, i, j, d] * x[n, h, v, d])
    return out


def adaptive(x, height, width):
    out = np.zeros((x.shape[0], height, width, x.shape[3]))
    for i, j in np.ndindex(height, width):
        rows = slice(i * x.shape[1] // height,
                     -((-(i + 1) * x.shape[1]) // height))
        columns = slice(j * x.shape[2] // width,
                        -((-(j + 1) * x.shape[2]) // width))
        out[:, i, j] = x[:, rows, columns].mean((1, 2))
    return out


def sampled(image, y, x):
    """Between the four neighbours of a place; 0 far outside."""
    high, wide = image.shape[:2]
    if y < -1 or y > high or x < -1 or x > wide:
        return np.zeros(image.shape[2])
    y, x = min(max(y, 0), high - 1), min(max(x, 0), wide - 1)
    top, left = int(y), int(x)
    below, right = min(top + 1, high - 1), min(left + 1, wide - 1)
    v, h = y - top, x - left
    return ((1 - v) * ((1 - h) * image[top, left] + h * image[top, right])
            + v * ((1 - h) * image[below, left] + h * image[below, right]))


def aligned_box(image, box, high, wide, samples, scale, aligned):
    x0, y0, x1, y1 = box.astype(np.float64) * scale - 0.5 * aligned
    if not aligned:
        x1, y1 = max(x1, x0 + 1), max(y1, y0 + 1)
    out = np.zeros((high, wide, image.shape[2]))
    tall, broad = (y1 - y0) / high, (x1 - x0) / wide
    for i, j in np.ndindex(high, wide):
        for a, b in np.ndindex(samples, samples):
            out[i, j] += sampled(image.astype(np.float64),
                                 y0 + (i + (a + 0.5) / samples) * tall,
                                 x0 + (j + (b + 0.5) / samples) * broad)
    return out / samples ** 2


def dynamic(x, w, bias, scales, offsets):
    out = np.zeros((x.shape[0], w.shape[1]), np.float16)
    for i, row in enumerate(x.astype(F)):
        low, high = min(row.min(), F(0)), max(row.max(), F(0))
        scale = F(max(low / -128.0, high / 127.0)) or F(0.1)
        q = quantized(row, scale, 0).astype(np.int64)
        sums = q @ (w.astype(np.int64) - offsets)
        out[i] = sums.astype(F) * (scale * scales) + bias
    return out


def segments(rows, lengths):
    out = np.zeros((len(lengths), *rows.shape[1:]), np.float64)
    at = 0
    for i, length in enumerate(lengths):
        out[i] = rows[at:at + length].astype(np.float64).sum(0)
        at += length
    return out


def weighted(table, weights, indices, lengths):
    rows = table[indices].astype(np.float64)
    shape = [-1] + [1] * (rows.ndim - 1)
    return segments(rows * np.asarray(weights).reshape(shape), lengths)


def fused(numbers, scales, offsets, kind):
    """Rows of integers with their scale and offset behind them."""
    rows = numbers.astype(np.uint8)
    if kind.startswith("ui4"):
        rows = (rows[:, 0::2] | rows[:, 1::2] << 4).astype(np.uint8)
    half = np.float16 if kind.endswith("fp16") else np.float32
    ends = np.stack([scales, offsets], 1).astype(half)
    return np.concatenate([rows, ends.view(np.uint8)], 1)


def unfused(numbers, scales, offsets, kind):
    half = np.float16 if kind.endswith("fp16") else np.float32
    wide = [np.asarray(part).astype(half).astype(F)[:, None]
            for part in (scales, offsets)]
    return numbers.astype(F) * wide[0] + wide[1]
