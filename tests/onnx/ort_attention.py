"""Attention of domain com.microsoft, and its parts: see ort_contrib.py."""

import numpy as np
import onnx

import ort_case
from ort_contrib import near, operator, quantised_weights



def mask_of(d, batch, queries, keys, kinds, attrs):
    """A mask that leaves each query a key, of one of these kinds or none: what
    a row that is hidden in all gives is decided by how scores beside -10000
    are rounded."""
    kind = d.one([*kinds, None])
    lengths = d.tensor((batch,), "int32", 1, keys)
    if kind == "lengths":
        return lengths
    if kind == "ranges":
        last = keys - queries if "unidirectional" in attrs else keys - 1
        starts = np.minimum(d.tensor((batch,), "int32", 0, last), lengths - 1)
        return np.concatenate([lengths, starts]).astype(np.int32)
    if kind is None:
        return None
    shape = (batch, keys) if kind == "keys" else (batch, queries, keys)
    mask = d.tensor(shape, "int32", 0, 1)
    mask[..., 0] = 1
    return mask


def attention(d, make):
    """What Attention and QAttention share: `make` puts the case together."""
    batch, length, heads = d.upto(1, 3), d.upto(1, 5), d.upto(1, 3)
    size, width = d.upto(1, 4), d.upto(1, 6)
    past = d.upto(0, 3) if d.often(0.3) else None
    keys = length + (past or 0)
    attrs = {"num_heads": heads}
    if d.often(0.4):
        attrs["unidirectional"] = 1
    if d.often(0.3):
        attrs["scale"] = float(d.rng.uniform(0.1, 1))
    if d.often(0.3):
        attrs["mask_filter_value"] = -float(d.rng.uniform(5, 100))
    mask = mask_of(d, batch, length, keys,
                   ["lengths", "ranges", "keys", "pairs"], attrs)
    before = None if past is None else d.tensor(
        (2, batch, heads, past, size))
    # onnxruntime wants what comes with a past.
    outputs = 2 if past is not None or d.often(0.3) else 1
    return make((batch, length, width), heads * size, mask, before, outputs,
                attrs)


@operator
def Attention(d):
    def make(shape, hidden, mask, before, outputs, attrs):
        sizes = [hidden] * 3
        if before is None and outputs == 1 and d.often(0.3):
            sizes[2] = attrs["num_heads"] * d.upto(1, 4)
            attrs["qkv_hidden_sizes"] = sizes
        bias = d.tensor((sum(sizes),))
        keys = shape[1] + (0 if before is None else before.shape[3])
        added = None
        if before is None and d.often(0.3):
            added = d.tensor((d.one([1, shape[0]]),
                              d.one([1, attrs["num_heads"]]), shape[1], keys))
        return d.put([d.tensor(shape), d.tensor((shape[2], sum(sizes))), bias,
                      mask, before, added], ort_case.steady, outputs, **attrs)
    return attention(d, make)


@operator
def QAttention(d):
    def make(shape, hidden, mask, before, outputs, attrs):
        weight, scale, zero = quantised_weights(d, shape[2], 3 * hidden)
        # onnxruntime has no kernel for int8 by uint8.
        dtype = "uint8" if weight.dtype == np.uint8 else d.one(
            ["uint8", "int8"])
        low = 0 if dtype == "uint8" else -60
        zero_in = d.maybe(lambda: d.tensor((), dtype, low, 60))
        return d.put([d.tensor(shape, dtype, low, 60), weight,
                      d.tensor((3 * hidden,)), d.scale(), scale, mask, zero_in,
                      zero, before], ort_case.steady, outputs, **attrs)
    return attention(d, make)


@operator
def MultiHeadAttention(d):
    batch, heads = d.upto(1, 3), d.upto(1, 3)
    length, others = d.upto(1, 4), d.upto(1, 5)
    size, value_size = d.upto(1, 4), d.upto(1, 4)
    attrs = {"num_heads": heads}
    if d.often(0.3):
        attrs["scale"] = float(d.rng.uniform(0.1, 1))
    if d.often(0.3):
        attrs["mask_filter_value"] = -float(d.rng.uniform(5, 100))
    kind = d.one(["apart", "apart", "past", "heads", "key and value", "all"])
    if kind != "apart":
        value_size = size  # As onnxruntime wants it.
    if kind != "heads" and d.often(0.3):
        attrs["unidirectional"] = 1
        others = length
    if kind == "all":
        others = length
    query = d.tensor((batch, length, heads * size))
    key = d.tensor((batch, others, heads * size))
    value = d.tensor((batch, others, heads * value_size))
    bias = past_key = past_value = None
    keys = others
    if kind == "heads":
        key = d.tensor((batch, heads, others, size))
        value = d.tensor((batch, heads, others, value_size))
    elif d.often():
        bias = d.tensor((heads * (2 * size + value_size),))
    if kind == "past":
        past = d.upto(0, 3)
        keys += past
        past_key = d.tensor((batch, heads, past, size))
        past_value = d.tensor((batch, heads, past, value_size))
    mask = mask_of(d, batch, length, keys, ["lengths", "keys", "pairs"],
                   attrs)
    added = None
    if d.often(0.3):
        added = d.tensor((d.one([1, batch]), d.one([1, heads]), length, keys))
    outputs = 1 if kind == "heads" else 3 if kind == "past" else d.one(
        [1, 3, 4])
    inputs = [query, key, value, bias, mask, added, past_key, past_value]
    case = d.put(inputs, ort_case.steady, outputs, **attrs)
    type_scores(case)
    if kind in ("all", "key and value"):
        return packed(d, inputs, outputs, case, kind == "all")
    return case


def type_scores(case):
    """Nothing but the model says what type these have."""
    for info in case.model.graph.output[3:]:
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT


def packed(d, inputs, outputs, apart, is_whole):
    """The case `apart` with query, key and value in one tensor, or key and
    value. onnxruntime has kernels for that on GPUs only; it judges `apart`."""
    parts = inputs[0 if is_whole else 1:3]
    attrs = {a.name: onnx.helper.get_attribute_value(a)
             for a in apart.model.graph.node[0].attribute}
    heads = attrs["num_heads"]
    together = np.stack([x.reshape(*x.shape[:2], heads, -1) for x in parts],
                        axis=3)
    mixed = [together, None, None] if is_whole else [inputs[0], together, None]
    case = d.put([*mixed, *inputs[3:]], ort_case.steady, outputs, **attrs)
    type_scores(case)
    name = "in0" if is_whole else "in1"

    def instead(fed):
        whole = fed[name]
        taken = [whole[:, :, :, i].reshape(*whole.shape[:2], -1)
                 for i in range(len(parts))]
        if not is_whole:
            taken.insert(0, fed["in0"])
        rest = {n: x for n, x in fed.items() if n not in ("in0", "in1")}
        return ort_case.run(apart.model, {
            **{f"in{i}": x for i, x in enumerate(taken)}, **rest})
    case.instead = instead
    return case


def angles(d, places, half):
    turns = d.rng.uniform(-3, 3, (places, half))
    return np.float32(np.cos(turns)), np.float32(np.sin(turns))


@operator
def RotaryEmbedding(d):
    batch, length, heads = d.upto(1, 3), d.upto(1, 5), d.upto(1, 3)
    half = d.upto(1, 4)
    attrs = {"interleaved": d.upto(0, 1)}
    size = 2 * half
    flat = d.often()
    if d.often(0.3):
        # A part of each head.
        size += 2 * d.upto(1, 3)
        attrs.update(num_heads=heads, rotary_embedding_dim=2 * half)
    elif flat and d.often(0.3):
        attrs["num_heads"] = heads
    shape = (batch, length, heads * size) if flat else (
        batch, heads, length, size)
    cos, sin = angles(d, 12, half)
    if "rotary_embedding_dim" not in attrs and d.often(0.3):
        dtype = np.float16
    else:
        dtype = np.float32
    places = (d.tensor((1,), "int64", 0, 12 - length) if d.often() else
              d.tensor((batch, length), "int64", 0, 11))
    return d.put([d.tensor(shape).astype(dtype), places, cos.astype(dtype),
                  sin.astype(dtype)], near(8), **attrs)


@operator
def GroupQueryAttention(d):
    batch, kv_heads, groups = d.upto(1, 3), d.upto(1, 2), d.upto(1, 3)
    heads = kv_heads * groups
    size = 16 * d.upto(1, 2)
    is_prompt = d.often()
    length = d.upto(2, 5) if is_prompt else 1
    past = 0 if is_prompt else d.upto(1, 4)
    total = length + past
    attrs = {"num_heads": heads, "kv_num_heads": kv_heads}
    if d.often(0.3):
        attrs["scale"] = float(d.rng.uniform(0.1, 1))
    if d.often(0.3):
        attrs["softcap"] = float(d.rng.uniform(1, 5))
    if d.often(0.3):
        attrs["local_window_size"] = d.upto(1, 4)
    if d.often(0.3):
        attrs["smooth_softmax"] = 1
    dtype = d.one([np.float32, np.float32, np.float16])

    def tensor(*shape):
        # Scores below 16, which float16 holds well.
        most = 1 if dtype == np.float16 else 4
        return d.tensor(shape, low=-most, high=most).astype(dtype)
    if d.often(0.3):
        inputs = [tensor(batch, length, (heads + 2 * kv_heads) * size), None,
                  None]
    else:
        inputs = [tensor(batch, length, heads * size),
                  *(tensor(batch, length, kv_heads * size) for _ in "kv")]
    if not is_prompt or d.often(0.3):
        # The past may have room for the new ones, and more, behind it.
        room = d.one([past, total + d.upto(0, 3)])
        inputs += [tensor(batch, kv_heads, room, size) for _ in "kv"]
    else:
        inputs += [None, None]
    # In a prompt the rows behind a sequence's end are not defined.
    lengths = np.full((batch,), total - 1, np.int32) if is_prompt else (
        d.tensor((batch,), "int32", 1, total - 1))
    inputs += [lengths, np.int32(total)]
    if d.often():
        attrs.update(do_rotary=1, rotary_interleaved=d.upto(0, 1))
        inputs += [x.astype(dtype) for x in angles(d, 12, size // 2)]
    else:
        inputs += [None, None]
    inputs.append(None)  # Positions.
    inputs.append(tensor(d.one([1, batch]), d.one([1, heads]), length, total)
                  if d.often(0.3) else None)
    if d.often(0.2):
        inputs.append(tensor(heads))
        attrs.pop("smooth_softmax", None)
    return d.put(inputs, near(2) if dtype == np.float16 else ort_case.steady,
                 3, **attrs)
