"""Operators in functions of torch, for torch_gradients.py. Each gets a case, and
refuses what torch has no word for."""

import torch
import torch.nn.functional as F


def window(case, spatial, kernel):
    """Strides, dilations, pads; refuses what torch has no word for."""
    if case.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise NotImplementedError("auto_pad")
    pads = case.get("pads") or [0] * (2 * spatial)
    if case.get("auto_pad") == "VALID":
        pads = [0] * (2 * spatial)
    return (case.get("strides") or [1] * spatial,
            case.get("dilations") or [1] * spatial, pads)


def compress(case):
    x, axis = case.x[0], case.get("axis")
    if axis is None:
        x, axis = x.flatten(), 0
    return torch.index_select(x, axis, case.x[1].nonzero().flatten())


def one_hot(case):
    depth, index = case.ints(1)[0], case.x[0].long()
    index = torch.where(index < 0, index + depth, index)
    is_on = index.unsqueeze(-1) == torch.arange(depth)
    return case.x[2][is_on.movedim(-1, case.get("axis", -1)).long()]


def dequantize(case):
    x, scale = case.x[0], case.x[1]
    zero = case.x[2] if case.has(2) else torch.zeros_like(scale)
    if scale.numel() > 1:
        if scale.dim() > 1:
            raise NotImplementedError("blocks")
        axis = case.get("axis", 1) % x.dim() if x.dim() > 1 else 0
        line = [1] * x.dim()
        line[axis] = -1
        scale, zero = scale.reshape(line), zero.reshape(line)
    else:
        scale, zero = scale.reshape([]), zero.reshape([])
    return (x - zero) * scale


def grid_sample(case):
    x = case.x[0]
    mode = case.get("mode", "bilinear")
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    if x.dim() not in (4, 5):
        raise NotImplementedError("rank")
    return F.grid_sample(x, case.x[1], mode, case.get("padding_mode", "zeros"),
                         bool(case.get("align_corners", 0)))


def fourier(case):
    x, onesided = case.x[0], bool(case.get("onesided", 0))
    axis = case.get("axis", 1) if case.opset < 20 else -2
    if case.has(2):
        axis = case.ints(2)[0]
    axis %= x.dim()
    length = case.ints(1)[0] if case.has(1) else None
    is_real = x.shape[-1] == 1
    x = x[..., 0] if is_real else torch.view_as_complex(x)
    if case.get("inverse", 0):
        if onesided:
            return torch.fft.irfft(x, length, axis).unsqueeze(-1)
        return torch.view_as_real(torch.fft.ifft(x, length, axis))
    function = torch.fft.rfft if onesided else torch.fft.fft
    return torch.view_as_real(function(x, length, axis))


def frames_transformed(case):
    x = case.x[0]
    length = x.shape[1]
    if case.has(3):
        length = case.ints(3)[0]
    if case.has(2):
        length = case.x[2].numel()
    frames = x.unfold(1, length, case.ints(1)[0])
    if case.has(2):
        frames = frames * case.x[2]
    if x.shape[2] == 2:
        frames = torch.complex(frames[:, :, 0], frames[:, :, 1])
    else:
        frames = frames[:, :, 0]
    onesided = bool(case.get("onesided", 1))
    function = torch.fft.rfft if onesided else torch.fft.fft
    return torch.view_as_real(function(frames, dim=-1))


def fold(case):
    kernel = case.ints(2)
    strides, dilations, pads = window(case, len(kernel), kernel)
    if len(kernel) != 2 or pads[:2] != pads[2:]:
        raise NotImplementedError("sides, or pads on one side")
    return F.fold(case.x[0], case.ints(1), kernel, dilations, pads[:2], strides)


def max_unpool(case):
    x, kernel = case.x[0], case.get("kernel_shape")
    if case.has(2):
        raise NotImplementedError("output_shape")
    strides, _, pads = window(case, len(kernel), kernel)
    sides = list(x.shape[:2])
    for s, size in enumerate(kernel):
        sides.append((x.shape[s + 2] - 1) * strides[s] + size - pads[s] -
                     pads[s + len(kernel)])
    flat = x.new_zeros(sides).flatten()
    return flat.scatter(0, case.x[1].flatten(), x.flatten()).reshape(sides)
