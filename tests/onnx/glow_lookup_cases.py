"""Cases of Glow's lookups, segments, reductions and fillers. Those named after
one of Glow's own tests have its numbers."""

import numpy as np

import glow_reference as glow
from glow_case import Value, int8

F = np.float32
VARIABLE = {"LengthsMode": "Variable", "AvgLength": 0.0}


def glows_own(cases):
    """The numbers of Glow's OperatorTest: SLS, SLWS, EmbeddingBag, LengthsSum,
    GatherRanges, BatchedUnaryEmbeddingsBags, PermutePooledEmbeddings."""
    data = np.array([[1.0, 1.2], [2.3, 3.4], [4.5, 5.7]], F)
    indices = np.array([2, 0, 1, 2, 0, 0, 0, 0], np.int64)
    lengths = np.array([2, 0, 2, 1, 3], np.int32)
    expected = np.array([[5.5, 6.9], [0.0, 0.0], [6.8, 9.1], [1.0, 1.2],
                         [3.0, 3.6]], F)
    cases.put("SparseLengthsSum", [data, indices, lengths], [expected],
              attributes=VARIABLE, rtol=1e-6, name="SparseLengthsSum_own")
    row = np.array([2.0, -0.5, 13.0], F)
    weights = np.array([3, 1, 0, 0, 0, 0, 2, -0.5], F)
    places = np.array([1, 0, 2, 0, 1, 2, 2, 0], np.int64)
    lengths = np.array([3, 0, 3, 2], np.int32)
    expected = np.array([0.5, 0.0, 0.0, 25.0], F)
    cases.put("SparseLengthsWeightedSum", [row, weights, places, lengths],
              [expected], attributes=VARIABLE,
              name="SparseLengthsWeightedSum_own")
    for has_end, offsets in ((0, [0, 3, 3, 6]), (1, [0, 3, 3, 6, 8])):
        cases.put("EmbeddingBag",
                  [row, weights, places, np.array(offsets, np.int64)],
                  [expected], attributes={**VARIABLE, "HasEndOffset": has_end},
                  name=f"EmbeddingBag_own_{has_end}")
    data = np.array([1, 2, 3, 4, 5, 6], np.int64)
    ranges = np.array([[[0, 1], [2, 2]], [[4, 1], [5, 1]]], np.int32)
    cases.put("GatherRanges", [data, ranges],
              [np.array([1, 3, 4, 5, 6]), np.array([3, 2], np.int32)],
              name="GatherRanges_own")
    w = np.array([
        0.4705, 0.0634, 0.8867, 0.3685, 0.0328, 0.1191, 0.1907, 0.9518,
        0.3688, 0.5838, 0.0315, 0.3067, 0.0160, 0.3304, 0.2706, 0.4694,
        0.0182, 0.9961, 0.5213, 0.4605, 0.6342, 0.5052, 0.9236, 0.2747,
        0.3745, 0.9434, 0.5810, 0.5646, 0.5182, 0.9379, 0.0866, 0.0854,
        0.1088, 0.4771, 0.0636, 0.5778, 0.5571, 0.3586], F)
    cases.put("BatchedUnaryEmbeddingsBags",
              [w.reshape(1, 38, 1), np.array([0, 4, 21, 38], np.int32),
               np.array([0, 3, 5, 9], np.int32),
               np.array([1, 1, 3, 13, 14, 4, 15, 11, 16], np.int32)],
              [np.array([[[0.4953, 1.5174, 1.9679]]], F)], atol=1e-4,
              name="BatchedUnaryEmbeddingsBags_own")
    bounds = np.array([0, 1, 3, 7, 15, 19])
    order = np.array([4, 0, 1, 3, 2])
    pooled = w.reshape(2, 19)
    parts = [pooled[:, bounds[i]:bounds[i + 1]] for i in order]
    one = np.array([1])
    cases.put("PermutePooledEmbeddings", [pooled, bounds, order, one, one],
              [np.concatenate(parts, 1)], constants=[1, 2, 3, 4])


def sparse(cases, random):
    table = random.standard_normal((6, 3, 2)).astype(F)
    indices = random.integers(0, 6, 12)
    lengths = np.array([3, 0, 4, 2], np.int32)
    weights = random.standard_normal(12).astype(F)
    # Indices behind the last segment are not looked up, and may be any.
    indices[9:] = 99
    cases.put("SparseLengthsSum", [table, indices, lengths],
              [glow.segments(table[indices % 6], lengths).astype(F)],
              attributes={**VARIABLE, "LengthsMode": "Variable"}, rtol=1e-5,
              atol=1e-6)
    cases.put("SparseLengthsWeightedSum", [table, weights, indices, lengths],
              [glow.weighted(table, weights, indices % 6,
                             lengths).astype(F)],
              attributes=VARIABLE, rtol=1e-5, atol=1e-6)
    cases.put("LengthsSum", [table, np.array([1, 0, 5], np.int32)],
              [glow.segments(table, [1, 0, 5]).astype(F)], rtol=1e-5,
              atol=1e-6)
    q = int8(random.integers(-128, 128, (6, 3)), 0.25, 3)
    sums = glow.segments(q.real()[indices % 6], lengths)
    cases.put("SparseLengthsSum", [q, indices, lengths],
              [int8(glow.quantized(sums, 0.5, 1), 0.5, 1)],
              attributes=VARIABLE, name="SparseLengthsSum_int8")
    ones = np.ones(5, np.int32)
    cases.put("SparseLengthsSum", [table, indices[:5], ones],
              [table[indices[:5]]], name="SparseLengthsSum_one",
              attributes={"LengthsMode": "AllOne", "AvgLength": 1.0})
    places = np.array([[0, 5], [2, 2]], np.int32)
    looked = table[:, :, 0][places].copy()
    looked[places == 2] = 0
    cases.put("Embedding", [table[:, :, 0].copy(), places], [looked],
              attributes={"PadIdx": 2, "Scale": 0, "Sparse": 0})
    source = random.standard_normal((6, 2, 2)).astype(F)
    at = np.array([2, 0])
    added = table[:, :, :2].copy()
    for i, j in enumerate(at):
        added[:, j] += F(0.5) * source[:, i]
    cases.put("IndexAdd", [table, at, source], [added],
              attributes={"Dim": 1, "Alpha": 0.5}, rtol=1e-6)


def rows(cases, random):
    numbers = random.integers(0, 256, (5, 4))
    scales = random.random(5).astype(F)
    offsets = random.standard_normal(5).astype(F)
    indices = random.integers(0, 5, 9)
    weights = random.standard_normal(9).astype(F)
    lengths = np.array([4, 0, 5], np.int32)
    real = glow.unfused(numbers, scales, offsets, "ui8fused")
    expected = glow.weighted(real, weights, indices, lengths).astype(F)
    half = {**VARIABLE, "UseFP16Accumulation": 0}
    cases.put("RowwiseQuantizedSparseLengthsWeightedSum",
              [Value(numbers, "ui8", 1, 0), scales, offsets, weights, indices,
               lengths], [expected], attributes=half, rtol=1e-5, atol=1e-4,
              states_inputs=False)
    for kind in ("ui8fused", "ui8fusedfp16", "ui4fused", "ui4fusedfp16"):
        whole = numbers % (16 if kind.startswith("ui4") else 256)
        table = Value(glow.fused(whole, scales, offsets, kind), kind)
        table.scale, table.offset = F(1), 0
        real = glow.unfused(whole, scales, offsets, kind)
        expected = glow.weighted(real, weights, indices, lengths).astype(F)
        cases.put("FusedRowwiseQuantizedSparseLengthsWeightedSum",
                  [table, weights, indices, lengths], [expected],
                  attributes=half, rtol=1e-5, atol=1e-4, constants=[0],
                  name=f"FusedRowwiseQuantizedSLWS_{kind}")
        bags = np.array([0, 4, 4, 9], np.int64)
        cases.put("EmbeddingBagByteRowwiseOffsets",
                  [table, weights, indices, bags], [expected],
                  attributes={**half, "HasEndOffset": 1}, rtol=1e-5,
                  atol=1e-4, name=f"EmbeddingBagByteRowwiseOffsets_{kind}")
    sums = glow.weighted(real, np.ones(9), indices, lengths)
    cases.put("FusedRowwiseQuantizedSparseLengthsSum",
              [table, indices, lengths], [sums.astype(np.float16)],
              attributes=half, rtol=2e-3)


def segments(cases, random):
    lengths = np.array([3, 0, 2, 1], np.int32)
    cases.put("LengthsToRanges", [lengths],
              [np.array([[0, 3], [3, 0], [3, 2], [5, 1]], np.int32)])
    cases.put("LengthsRangeFill", [lengths],
              [np.array([0, 1, 2, 0, 1, 0], np.int32)])
    values = random.standard_normal(6).astype(F)
    indices = np.array([0, 2, 4, 1, 3, 0])
    dense = np.full((4, 5), F(0.5))
    for at, (i, j) in enumerate(zip([0, 0, 0, 2, 2, 3], indices)):
        dense[i, j] = values[at]
    cases.put("BatchSparseToDense", [lengths, indices, values], [dense],
              attributes={"DefaultValue": 0.5, "DenseLastDim": 5})
    data = random.standard_normal((3, 2)).astype(F)
    filled = np.zeros((5, 2), F)
    filled[[1, 2, 4]] = data
    is_there = np.array([False, True, True, False, True])
    cases.put("FillExamplesWithIndicator", [data, is_there], [filled])
    cases.put("FillExamplesWithIndicator", [data, is_there.astype(np.int32)],
              [filled], name="FillExamplesWithIndicator_int32")
    mask = [7, 3, 1]
    ids = np.array([3, 8, 1, 7, 3, 2])
    rows_of = random.standard_normal((6, 2)).astype(F)
    usual = np.array([9.0, -9.0], F)
    out = np.broadcast_to(usual, (4, 3, 2)).copy()
    for at, batch in enumerate([0, 0, 0, 2, 2, 3]):
        if ids[at] in mask:
            out[batch, mask.index(ids[at])] = rows_of[at]
    cases.put("SparseToDenseMask", [ids, rows_of, usual, lengths], [out],
              attributes={"Mask": mask})
    hot = np.array([[5, 1, 2], [6, 0, 3]], np.int32)
    values = np.array([5, 6, 1, 2, 3, 4], np.int32)
    parts = np.array([2, 1, 3], np.int32)
    owner = np.repeat(np.arange(3), parts)
    cases.put("BatchOneHot", [hot, parts, values],
              [(hot[:, owner] == values).astype(np.int32)])
    labels = np.array([1, 0, 1, 0, 0, 1])
    numbers = random.standard_normal(6).astype(F)
    examples = np.repeat(np.arange(4), lengths)
    cases.put("SparseLabelSplit", [lengths, labels, numbers],
              [np.stack([numbers[labels == i] for i in range(2)]),
               np.stack([examples[labels == i]
                         for i in range(2)]).astype(np.int32),
               np.array([0, 0, 1, 1, 2, 2], np.int32)],
              attributes={"NumLabels": 2})


def gathers(cases, random):
    x = random.standard_normal((3, 4, 5)).astype(F)
    i = np.array([[1, 3], [0, 0]], np.int32)
    cases.put("Gather", [x, i], [x[:, i]], attributes={"BatchDims": 1})
    q = int8(random.integers(-128, 128, (6, 3)), 0.25, 3)
    cases.put("Gather", [q, i], [int8(q.array[i], 0.25, 3)],
              attributes={"BatchDims": 0}, name="Gather_int8")
    at = np.array([[0, 1], [2, 3]], np.int32)
    cases.put("GatherND", [x, at], [x[at[:, 0], at[:, 1]]],
              attributes={"BatchDims": 0})
    j = random.integers(0, 4, (3, 2, 5))
    cases.put("GatherElements", [x, j], [np.take_along_axis(x, j, 1)],
              attributes={"Dim": 1})
    slices = random.standard_normal((2, 5)).astype(F)
    for cumulative in (0, 1):
        y = x.copy()
        for row, (a, b) in zip(slices, [(1, 2), (0, 3)]):
            y[a, b] = y[a, b] * cumulative + row
        cases.put("ScatterData", [x, np.array([[1, 2], [0, 3]]), slices], [y],
                  attributes={"Cumulative": cumulative},
                  name=f"ScatterData_{cumulative}", rtol=1e-6)
    top = Value(np.array([[[3, 9, 9, 1, 4]], [[0, -5, 2, 2, 7]]]), "i8",
                1.2, 5)
    order = np.argsort(-top.array.astype(int), -1, kind="stable")[..., :3]
    kept = np.take_along_axis(top.array, order, -1)
    cases.put("TopK", [top], [int8(kept, 1.2, 5), order],
              attributes={"K": 3}, states_inputs=False)
    cond = np.array([True, False, True, True, False])
    cases.put("NonZero", [cond], [np.array([0, 2, 3, 0, 0], np.int32)])


def reductions(cases, random):
    x = random.standard_normal((3, 4, 5)).astype(F)
    wide = x.astype(np.float64)
    for op, y in (("Add", wide.sum(1)), ("SumSquare", (wide ** 2).sum(1)),
                  ("Prod", wide.prod(1))):
        cases.put(f"BatchedReduce{op}", [x], [y.astype(F)], rtol=1e-5,
                  attributes={"Axis": 1}, atol=1e-6)
    cases.put("BatchedReduceMean", [x], [wide.mean(2).astype(F)], rtol=1e-5,
              attributes={"Axes": [2]}, atol=1e-6)
    q = int8(random.integers(-128, 128, (3, 4, 5)), 0.25, 3)
    cases.put("BatchedReduceMin", [x], [x.min((0, 1))],
              attributes={"Axes": [0, 1]})
    cases.put("BatchedReduceMax", [q], [int8(q.array.max((0, 1)), 0.25, 3)],
              attributes={"Axes": [0, 1]})
    cases.put("BatchedAdd", [x, x[0]], [x + x[0]])
    cases.put("BatchedMul", [x, x[0]], [x * x[0]])
    cases.put("ArgMax", [q], [q.array.argmax(1)[:, None].astype(np.int64)],
              attributes={"Axis": 1, "KeepDims": 1})
    cases.put("ArgMin", [x], [x.argmin(2).astype(np.int32)],
              attributes={"Axis": 2, "KeepDims": 0})
    y = np.cumsum(wide[:, ::-1], 1)[:, ::-1] - wide
    cases.put("CumSum", [x], [y.astype(F)], rtol=1e-4, atol=1e-5,
              attributes={"Dim": 1, "Exclusive": 1, "Reverse": 1})
    cases.put("CumSum", [np.array([1, 2, 3, 4], np.int32)],
              [np.array([1, 3, 6, 10], np.int32)], name="CumSum_own",
              attributes={"Dim": -1, "Exclusive": 0, "Reverse": 0})
    cases.put("Splat", [], [np.full((2, 3), F(1.5))],
              attributes={"Value": 1.5})
    cases.put("Splat", [], [int8(np.full((2, 3), 9), 0.25, 3)],
              attributes={"Value": 1.5}, name="Splat_int8")


def write(cases, random):
    glows_own(cases)
    for part in (sparse, rows, segments, gathers, reductions):
        part(cases, random)
