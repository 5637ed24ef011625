#include "contrib/onnx/contrib_functions.h"
#include "nodewise/op/op_row.h"

// Attention in its several forms, and the rotation of places. B sequences have
// S queries and T keys in N heads of H elements. The forms differ in how their
// inputs lie, what hides keys and how the past comes in; each brings q, k and v
// into (B, N, S, H) and then calls the same function. What onnxruntime's
// kernels do where its documentation is silent is noted in
// tests/onnx/ort_deviations.md.

namespace nodewise {
namespace {

// All forms of attention call one function, which takes these inputs.
constexpr RowList<Param, 20> kAttendInputs = {"q",
                                              "k",
                                              "v",
                                              Optional("visible"),
                                              Optional("mask"),
                                              Optional("bias"),
                                              Optional("sink")};
constexpr RowList<FunctionAttribute, 20> kAttendAttributes = {
    {"scale", 0.0F},
    {"softcap", 0.0F},
    {"num_heads", 0},
    {"kv_num_heads", 0},
    {"smooth", 0}};

constexpr ContribFunction kAttentionFunctions[] = {
    // Softmax(scale q k^T) v of q (B, N, S, H), k and v, side by side again:
    // (B, S, N H). A score may be hidden where `visible` is false, and be
    // increased by the mask and the bias. The sink is one more score for each
    // head, of a value that is 0. Without a scale it is 1 / sqrt(H).
    kHelperRow("AttendAsIs", 11, kAttendInputs, {"y", Optional("s")},
               kAttendAttributes,
               R"(
       h = Shape(q)
       h = Slice(h, [3], [4])
       t = Shape(k)
       t = Slice(t, [2], [3])
       g = Concat<axis=0>([0, $kv_num_heads, -1], h) if $kv_num_heads
       q = Reshape(q, g) if $kv_num_heads
       k = Transpose<perm=[0, 1, 3, 2]>(k)
       s = MatMul(q, k)
       g = Concat<axis=0>([0, $num_heads, -1], t) if $kv_num_heads
       s = Reshape(s, g) if $kv_num_heads
       h = CastAs(h, q)
       h = Sqrt(h)
       s = Div(s, h) if !$scale
       s = Mul(s, $scale) if $scale
       s = Div(s, $softcap) if $softcap
       s = Tanh(s) if $softcap
       s = Mul(s, $softcap) if $softcap
       s = Add(s, mask) if mask
       s = Add(s, bias) if bias
       s = Where(visible, s, -3.4028234e38) if visible
       p = Softmax<axis=-1>(s) if !sink and !$smooth
       sink = Reshape(sink, [1, -1, 1, 1]) if sink
       sink = CastAs(#0, q) if !sink and $smooth
       m = ReduceMax(s, [3])
       m = Max(m, sink)
       e = Sub(s, m)
       e = Exp(e)
       z = Sub(sink, m)
       z = Exp(z)
       n = ReduceSum(e, [3])
       n = Add(n, z)
       p = Div(e, n) if sink
       p = Div(e, n) if !sink and $smooth
       g = Concat<axis=0>([0, $kv_num_heads, -1], t) if $kv_num_heads
       p = Reshape(p, g) if $kv_num_heads
       y = MatMul(p, v)
       h = Shape(v)
       h = Slice(h, [3], [4])
       g = Concat<axis=0>([0, $num_heads, -1], h) if $kv_num_heads
       y = Reshape(y, g) if $kv_num_heads
       y = Transpose<perm=[0, 2, 1, 3]>(y)
       y = Reshape(y, [0, 0, -1]))"),
    // Attends in float32 where the numbers have 16 bits, as kernels keep scores
    // and sums; otherwise as the function above.
    kHelperRow("Attend", 11, kAttendInputs, {"y", Optional("s")},
               kAttendAttributes,
               R"(
       wq = nodewise.Widen(q)
       wk = nodewise.Widen(k)
       wv = nodewise.Widen(v)
       wm = nodewise.Widen(mask) if mask
       wb = nodewise.Widen(bias) if bias
       ws = nodewise.Widen(sink) if sink
       y, s = nodewise.AttendAsIs<scale=$scale, softcap=$softcap,
           num_heads=$num_heads, kv_num_heads=$kv_num_heads, smooth=$smooth>(
           wq, wk, wv, visible, wm, wb, ws)
       y = CastAs(y, q) if !type(q)=float32 and !type(q)=float64
       s = CastAs(s, q) if !type(q)=float32 and !type(q)=float64)"),
    // Numbers of fewer bits become float32 and others stay as they are. No
    // condition can say "one of these types" but by a line for each.
    kHelperRow("Widen", 7, {"x"}, {"y"}, {}, R"(
       y = Cast<to=1>(x) if !type(x)=float32 and !type(x)=float64
       y = Identity(x) if type(x)=float32
       y = Identity(x) if type(x)=float64)"),
    // What is added to the scores of q and k: a number that hides what the
    // index says, which has lengths of sequences (B), then perhaps their
    // beginnings (2 B), or 1 and 0 by key (B, T) or query and key (B, S, T),
    // and the lowest number for keys behind their query.
    kHelperRow("AttentionMask", 11, {"q", "k", Optional("index")}, {"m"},
               {{"mask_filter_value", -10000.0F}, {"unidirectional", 0}}, R"(
       s = Shape(q)
       s = Gather(s, #2)
       t = Shape(k)
       t = Gather(t, #2)
       j = Range(#0, t, #1)
       n = Cast<to=7>(index) if index
       valid = Greater(n, #0) if index
       valid = Unsqueeze(valid, [1, 2]) if rank(index)=2
       valid = Unsqueeze(valid, [1]) if rank(index)=3
       b = Shape(k)
       b = Slice(b, [0], [1])
       g = Concat<axis=0>([-1], b)
       n = Reshape(n, g) if rank(index)=1
       z = ConstantOfShape(b)
       z = Cast<to=7>(z)
       z = Unsqueeze(z, [0])
       n = Concat<axis=0>(n, z)
       end = Gather(n, #0)
       end = Unsqueeze(end, [1])
       start = Gather(n, #1)
       start = Unsqueeze(start, [1])
       early = Less(j, start)
       early = Not(early)
       late = Less(j, end)
       valid = And(early, late) if rank(index)=1
       valid = Unsqueeze(valid, [1, 2]) if rank(index)=1
       m = Where(valid, 0.0, $mask_filter_value) if index
       i = Sub(t, s)
       i = Range(i, t, #1)
       i = Unsqueeze(i, [1])
       future = Less(i, j)
       m = Where(future, -3.4028234e38, m) if $unidirectional and index
       m = Where(future, -3.4028234e38, 0.0) if $unidirectional and !index)"),
    // Turns the first elements of each head of x (B, N, S, H), in pairs, by the
    // angles of cos and sin (B, S, half as many).
    kHelperRow("Rotate", 11, {"x", "cos", "sin"}, {"y"}, {{"interleaved", 0}},
               R"(
       h = Shape(cos)
       h = Slice(h, [2], [3])
       r = Add(h, h)
       cos = Unsqueeze(cos, [1])
       sin = Unsqueeze(sin, [1])
       rest = Slice(x, r, [2147483647], [3])
       a = Slice(x, [0], h, [3]) if !$interleaved
       b = Slice(x, h, r, [3]) if !$interleaved
       pairs = Slice(x, [0], r, [3])
       pairs = Reshape(pairs, [0, 0, 0, -1, 2])
       a = Gather<axis=4>(pairs, #0) if $interleaved
       b = Gather<axis=4>(pairs, #1) if $interleaved
       ac = Mul(a, cos)
       bs = Mul(b, sin)
       one = Sub(ac, bs)
       as = Mul(a, sin)
       bc = Mul(b, cos)
       two = Add(as, bc)
       y = Concat<axis=3>(one, two) if !$interleaved
       one = Unsqueeze(one, [4]) if $interleaved
       two = Unsqueeze(two, [4]) if $interleaved
       y = Concat<axis=4>(one, two) if $interleaved
       g = Concat<axis=0>([0, 0, 0], r)
       y = Reshape(y, g) if $interleaved
       y = Concat<axis=3>(y, rest))"),
    // Heads are side by side in the last side of three, or a side of their own
    // of four. How many there are follows from the size of the rotated part
    // where the node does not say it, which is twice that of a row of the
    // cache. One place for all means that of the first element; then they count
    // on.
    kContribRow("RotaryEmbedding", 11,
                {"input", "position_ids", "cos_cache", "sin_cache"}, {"output"},
                {{"interleaved", 0},
                 {"is_packed_batching", 0},
                 {"num_heads", 0},
                 {"rotary_embedding_dim", 0},
                 {"scale", 1.0F}},
                R"(
       Y = Refuse() if $scale!=1
       Y = Refuse() if $is_packed_batching
       h = Shape(cos_cache)
       h = Slice(h, [1], [2])
       h = Add(h, h)
       g = Concat<axis=0>([0, 0, -1], h)
       x = Reshape(input, g) if rank(input)=3 and !$num_heads
       x = Reshape(input, [0, 0, $num_heads, -1]) if rank(input)=3 and
           $num_heads
       x = Transpose<perm=[0, 2, 1, 3]>(x) if rank(input)=3
       x = Identity(input) if rank(input)=4
       s = Shape(x)
       s = Gather(s, #2)
       i = Range(#0, s, #1)
       i = Unsqueeze(i, [0])
       i = Add(i, position_ids) if rank(position_ids)=1
       i = Identity(position_ids) if rank(position_ids)=2
       cos = Gather(cos_cache, i)
       sin = Gather(sin_cache, i)
       output = nodewise.Rotate<interleaved=$interleaved>(x, cos, sin)
       output = Transpose<perm=[0, 2, 1, 3]>(output) if rank(input)=3
       output = Reshape(output, [0, 0, -1]) if rank(input)=3)"),
    // One product makes queries, keys and values. They have equal sizes, which
    // lets them be taken apart by a side of 3, unless the node states their
    // sizes. The past is one tensor of keys and values, and so is what is kept
    // for the next call.
    kContribRow("Attention", 11,
                {"input", "weights", Optional("bias"), Optional("mask_index"),
                 Optional("past"), Optional("attention_bias"),
                 Optional("past_sequence_length")},
                {"output", Optional("present")},
                {{"num_heads", 0, true},
                 {"unidirectional", 0},
                 {"scale", 0.0F},
                 {"mask_filter_value", -10000.0F},
                 {"qkv_hidden_sizes", NoInts()},
                 {"do_rotary", 0},
                 {"rotary_embedding_dim", 0},
                 {"past_present_share_buffer", 0}},
                R"(
       Y = Refuse() if past_sequence_length
       Y = Refuse() if $do_rotary
       Y = Refuse() if $past_present_share_buffer
       x = MatMul(input, weights)
       x = Add(x, bias) if bias
       q, k, v = Split<axis=2>(x, $qkv_hidden_sizes) if $qkv_hidden_sizes
       q = Reshape(q, [0, 0, $num_heads, -1])
       q = Transpose<perm=[0, 2, 1, 3]>(q)
       k = Reshape(k, [0, 0, $num_heads, -1])
       k = Transpose<perm=[0, 2, 1, 3]>(k)
       v = Reshape(v, [0, 0, $num_heads, -1])
       v = Transpose<perm=[0, 2, 1, 3]>(v)
       x = Reshape(x, [0, 0, 3, $num_heads, -1]) if !$qkv_hidden_sizes
       x = Transpose<perm=[2, 0, 3, 1, 4]>(x) if !$qkv_hidden_sizes
       q = Gather(x, #0) if !$qkv_hidden_sizes
       k = Gather(x, #1) if !$qkv_hidden_sizes
       v = Gather(x, #2) if !$qkv_hidden_sizes
       old = Gather(past, #0)
       k = Concat<axis=2>(old, k) if past
       old = Gather(past, #1)
       v = Concat<axis=2>(old, v) if past
       keys = Unsqueeze(k, [0])
       values = Unsqueeze(v, [0])
       present = Concat<axis=0>(keys, values)
       m = nodewise.AttentionMask<mask_filter_value=$mask_filter_value,
           unidirectional=$unidirectional>(q, k, mask_index) if mask_index
       m = nodewise.AttentionMask<unidirectional=1>(q, k) if !mask_index and
           $unidirectional
       output = nodewise.Attend<scale=$scale>(q, k, v, , m, attention_bias))"),
    // Quantized inputs and weights are made real first; the rest is the
    // operator above.
    kContribRow("QAttention", 11,
                {"input", "weight", "bias", "input_scale", "weight_scale",
                 Optional("mask_index"), Optional("input_zero_point"),
                 Optional("weight_zero_point"), Optional("past")},
                {"output", Optional("present")},
                {{"num_heads", 0, true},
                 {"unidirectional", 0},
                 {"scale", 0.0F},
                 {"mask_filter_value", -10000.0F},
                 {"do_rotary", 0},
                 {"past_present_share_buffer", 0}},
                R"(
       Y = Refuse() if $do_rotary
       Y = Refuse() if $past_present_share_buffer
       x = DequantizeLinear(input, input_scale, input_zero_point)
       w = DequantizeLinear<axis=1>(weight, weight_scale, weight_zero_point)
       output, present = com.microsoft.Attention<num_heads=$num_heads,
           unidirectional=$unidirectional, scale=$scale,
           mask_filter_value=$mask_filter_value>(x, w, bias, mask_index,
           past))"),
    // Queries, keys and values may be three tensors (rank 3), keys and values
    // with their heads apart (4), or keys and values or all three packed into
    // one (5). The bias is one for all three, side by side, and is cut as they
    // are. Each line asks for the rank that it is for, so that one of the forms
    // is left.
    kContribRow(
        "MultiHeadAttention", 11,
        {"query", Optional("key"), Optional("value"), Optional("bias"),
         Optional("key_padding_mask"), Optional("attention_bias"),
         Optional("past_key"), Optional("past_value"),
         Optional("past_sequence_length"), Optional("cache_indirection")},
        {"output", Optional("present_key"), Optional("present_value"),
         Optional("qk")},
        {{"num_heads", 0, true},
         {"unidirectional", 0},
         {"scale", 0.0F},
         {"mask_filter_value", -10000.0F}},
        R"(
       Y = Refuse() if past_sequence_length
       Y = Refuse() if cache_indirection
       d = Shape(query)
       d = Slice(d, [2], [3])
       e = Add(d, d)
       x = Transpose<perm=[3, 0, 2, 1, 4]>(query) if rank(query)=5
       b = Reshape(bias, [3, 1, $num_heads, 1, -1])
       x = Add(x, b) if rank(query)=5 and bias
       q = Gather(x, #0) if rank(query)=5
       k = Gather(x, #1) if rank(query)=5
       v = Gather(x, #2) if rank(query)=5
       b = Slice(bias, [0], d, [0])
       query = Add(query, b) if rank(query)=3 and bias
       q = Reshape(query, [0, 0, $num_heads, -1]) if rank(query)=3
       q = Transpose<perm=[0, 2, 1, 3]>(q) if rank(query)=3
       b = Slice(bias, d, e, [0])
       key = Add(key, b) if rank(key)=3 and bias
       k = Reshape(key, [0, 0, $num_heads, -1]) if rank(key)=3
       k = Transpose<perm=[0, 2, 1, 3]>(k) if rank(key)=3
       b = Slice(bias, e, [2147483647], [0])
       value = Add(value, b) if rank(value)=3 and bias
       v = Reshape(value, [0, 0, $num_heads, -1]) if rank(value)=3
       v = Transpose<perm=[0, 2, 1, 3]>(v) if rank(value)=3
       k = Identity(key) if rank(key)=4
       v = Identity(value) if rank(value)=4
       x = Transpose<perm=[3, 0, 2, 1, 4]>(key) if rank(key)=5
       b = Slice(bias, d, [2147483647], [0])
       b = Reshape(b, [2, 1, $num_heads, 1, -1])
       x = Add(x, b) if rank(key)=5 and bias
       k = Gather(x, #0) if rank(key)=5
       v = Gather(x, #1) if rank(key)=5
       k = Concat<axis=2>(past_key, k) if past_key
       v = Concat<axis=2>(past_value, v) if past_value
       present_key = Identity(k)
       present_value = Identity(v)
       n = Shape(q)
       n = Slice(n, [0], [1])
       key_padding_mask = Slice(key_padding_mask, [0], n) if
           rank(key_padding_mask)=1
       m = nodewise.AttentionMask<mask_filter_value=$mask_filter_value,
           unidirectional=$unidirectional>(q, k,
           key_padding_mask) if key_padding_mask
       m = nodewise.AttentionMask<unidirectional=1>(q, k) if
           !key_padding_mask and $unidirectional
       output, qk = nodewise.Attend<scale=$scale>(q, k, v, , m,
           attention_bias))"),
    // A sequence's keys before its queries are the first of the past; the
    // number of all of them, less 1, is in seqlens_k.
    // Several heads of queries share one of keys and values, which Attend does
    // with num_heads and kv_num_heads. The past may be a buffer that is longer
    // than what is in it. So the present is put together place by place: a key
    // is either one of the past, or a new one by its distance from the first
    // new one, or behind the end, where it becomes 0. Only the keys up to
    // `total_sequence_length` are then read. A query sees the keys up to its
    // own place, and with a window no more than so many of them.
    // `smooth_softmax` adds a score of 0; its default, -1, would count as set
    // if it were handed on, hence the two calls.
    kContribRow(
        "GroupQueryAttention", 11,
        {"query", Optional("key"), Optional("value"), Optional("past_key"),
         Optional("past_value"), "seqlens_k", "total_sequence_length",
         Optional("cos_cache"), Optional("sin_cache"), Optional("position_ids"),
         Optional("attention_bias"), Optional("head_sink"), Optional("k_scale"),
         Optional("v_scale"), Optional("q_norm_weight"),
         Optional("k_norm_weight"), Optional("query_seqlens")},
        {"output", Optional("present_key"), Optional("present_value")},
        {{"num_heads", 0, true},
         {"kv_num_heads", 0, true},
         {"scale", 0.0F},
         {"softcap", 0.0F},
         {"do_rotary", 0},
         {"rotary_interleaved", 0},
         {"local_window_size", -1},
         {"smooth_softmax", -1},
         {"causal", 1},
         {"qk_output", 0},
         {"kv_cache_bit_width", 0},
         {"sliding_window_cache", 0},
         {"k_quant_type", "NONE"},
         {"v_quant_type", "NONE"},
         {"q_norm_epsilon", 0.0F},
         {"k_norm_epsilon", 0.0F},
         {"qk_norm_epsilon", 1e-6F}},
        R"(
       Y = Refuse() if k_scale
       Y = Refuse() if v_scale
       Y = Refuse() if q_norm_weight
       Y = Refuse() if k_norm_weight
       Y = Refuse() if query_seqlens
       Y = Refuse() if $qk_output
       Y = Refuse() if $sliding_window_cache
       Y = Refuse() if $causal!=1
       n = Add([$num_heads], [$kv_num_heads])
       all = Add(n, [$kv_num_heads])
       g = Concat<axis=0>([0, 0], all, [-1])
       x = Reshape(query, g) if !key
       x = Transpose<perm=[0, 2, 1, 3]>(x) if !key
       q = Slice(x, [0], [$num_heads], [1]) if !key
       k = Slice(x, [$num_heads], n, [1]) if !key
       v = Slice(x, n, all, [1]) if !key
       q = Reshape(query, [0, 0, $num_heads, -1]) if key
       q = Transpose<perm=[0, 2, 1, 3]>(q) if key
       k = Reshape(key, [0, 0, $kv_num_heads, -1]) if key
       k = Transpose<perm=[0, 2, 1, 3]>(k) if key
       v = Reshape(value, [0, 0, $kv_num_heads, -1]) if key
       v = Transpose<perm=[0, 2, 1, 3]>(v) if key
       s = Shape(q)
       s = Gather(s, #2)
       first = Cast<to=7>(seqlens_k)
       first = Reshape(first, [-1, 1])
       first = Add(first, #1)
       first = Sub(first, s)
       early = Less(first, #0)
       first = Where(early, #0, first)
       i = Range(#0, s, #1)
       i = Add(first, i)
       place = Identity(i) if !position_ids
       place = Identity(position_ids) if position_ids
       cos = Gather(cos_cache, place)
       sin = Gather(sin_cache, place)
       q = nodewise.Rotate<interleaved=$rotary_interleaved>(q, cos,
           sin) if $do_rotary
       k = nodewise.Rotate<interleaved=$rotary_interleaved>(k, cos,
           sin) if $do_rotary
       keys = Cast<to=7>(total_sequence_length)
       keys = ReduceMax<keepdims=0>(keys)
       old = Shape(past_key)
       old = Gather(old, #2)
       longer = Less(keys, old)
       room = Identity(keys) if !past_key
       room = Where(longer, old, keys) if past_key
       j = Range(#0, room, #1)
       from = Sub(j, first)
       is_old = Less(from, #0)
       is_there = Less(from, s)
       from = Where(is_there, from, #0)
       from = Add(from, old) if past_key
       from = Where(is_old, j, from)
       from = Unsqueeze(from, [1, 3])
       g = Shape(k)
       one = Slice(g, [0], [2])
       two = Slice(g, [3], [4])
       room = Unsqueeze(room, [0])
       g = Concat<axis=0>(one, room, two)
       from = Expand(from, g)
       is_there = Unsqueeze(is_there, [1, 3])
       k = Concat<axis=2>(past_key, k) if past_key
       k = GatherElements<axis=2>(k, from)
       present_key = Where(is_there, k, 0.0)
       v = Concat<axis=2>(past_value, v) if past_value
       v = GatherElements<axis=2>(v, from)
       present_value = Where(is_there, v, 0.0)
       i = Unsqueeze(i, [2])
       j = Range(#0, keys, #1)
       distance = Sub(i, j)
       future = Less(distance, #0)
       visible = Not(future)
       near = Less(distance, #$local_window_size)
       visible = And(visible, near) if !$local_window_size<0
       visible = Unsqueeze(visible, [1])
       keys = Unsqueeze(keys, [0])
       k = Slice(present_key, [0], keys, [2])
       v = Slice(present_value, [0], keys, [2])
       output = nodewise.Attend<scale=$scale, softcap=$softcap,
           num_heads=$num_heads, kv_num_heads=$kv_num_heads,
           smooth=0>(q, k, v, visible, , attention_bias,
           head_sink) if $smooth_softmax<1
       output = nodewise.Attend<scale=$scale, softcap=$softcap,
           num_heads=$num_heads, kv_num_heads=$kv_num_heads,
           smooth=1>(q, k, v, visible, , attention_bias,
           head_sink) if !$smooth_softmax<1)"),
};

}  // namespace

absl::Span<const ContribFunction> AttentionFunctions() {
  return kAttentionFunctions;
}

}  // namespace nodewise
