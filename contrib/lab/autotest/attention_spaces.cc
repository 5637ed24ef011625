#include <string>
#include <vector>

#include "contrib/lab/autotest/space_families.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

// The sides of Attention.
struct Heads {
  int64_t batch = 1;
  int64_t kv = 1;     // Heads of keys and values.
  int64_t group = 1;  // Heads of queries for each of these.
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t past = 0;
  int64_t size = 1;
  int64_t value_size = 1;
  bool is_flat = false;

  Ints Shape(int64_t heads, int64_t places, int64_t vector) const {
    return is_flat ? Ints{batch, places, heads * vector}
                   : Ints{batch, heads, places, vector};
  }
};

Heads DrawHeads(ConfigurationDraw& draw) {
  Heads heads;
  heads.is_flat = draw.Often();
  heads.batch = draw.Between(1, 2);
  heads.kv = draw.Between(1, 3);
  heads.group = draw.Often(30) ? draw.Between(1, 3) : 1;
  heads.queries = draw.Side(9);
  heads.keys = draw.Side(17);
  heads.size = draw.Side(17);
  heads.value_size = draw.Often(30) ? draw.Side(17) : heads.size;
  if (draw.Often(30)) heads.past = draw.Between(1, 4);
  return heads;
}

void DrawAttentionAttributes(ConfigurationDraw& draw, const Heads& heads,
                             bool wants_scores) {
  if (heads.is_flat || draw.Often(20)) {
    draw.Attr("q_num_heads", heads.kv * heads.group);
    draw.Attr("kv_num_heads", heads.kv);
  }
  draw.Flag("is_causal");
  draw.MaybeAttr<float>("scale", {0.5F, 1, 0.25F});
  draw.MaybeAttr<float>("softcap", {0, 2, 5});
  if (wants_scores || draw.Often(20)) {
    draw.MaybeAttr<int64_t>("qk_matmul_output_mode", {0, 1, 2, 3});
  }
  if (draw.Often(20)) {
    draw.TypeAttr("softmax_precision", draw.One({kFloat32, kFloat64}));
  }
  if (draw.def().since < 25) return;
  draw.MaybeAttr<int64_t>("left_window_size", {-1, 0, 2, 4});
  draw.MaybeAttr<int64_t>("right_window_size", {-1, 0, 2, 4});
}

void DrawAttention(ConfigurationDraw& draw) {
  const Heads heads = DrawHeads(draw);
  const DLDataType dtype = draw.Float();
  const bool wants_scores = draw.Often(20);
  DrawAttentionAttributes(draw, heads, wants_scores);
  const InputDomain values = InputDomain::Within(-2, 2);
  draw.Input(dtype,
             heads.Shape(heads.kv * heads.group, heads.queries, heads.size),
             values);
  draw.Input(dtype, heads.Shape(heads.kv, heads.keys, heads.size), values);
  draw.Input(dtype, heads.Shape(heads.kv, heads.keys, heads.value_size),
             values);
  if (draw.Often(40)) {
    const Ints mask = {heads.batch, heads.kv * heads.group, heads.queries,
                       heads.past + heads.keys};
    Ints part(mask.begin() + draw.Between(0, 2), mask.end());
    for (size_t i = 0; i + 1 < part.size(); ++i) {
      if (draw.Often(25)) part[i] = 1;
    }
    draw.Input(draw.Often() ? kBool : dtype, part, values);
  } else {
    draw.NoInput();
  }
  if (heads.past > 0) {
    draw.Input(dtype, {heads.batch, heads.kv, heads.past, heads.size}, values);
    draw.Input(dtype, {heads.batch, heads.kv, heads.past, heads.value_size},
               values);
  } else {
    draw.NoInput();
    draw.NoInput();
  }
  // The lengths of caches that the caller fills go without a past.
  if (draw.opset() >= 24 && heads.past == 0 && draw.Often(20)) {
    draw.Input(kInt64, {heads.batch}, InputDomain::Whole(1, heads.keys));
  }
  const bool wants_present = heads.past > 0 || draw.Often(20);
  draw.WantOutputs({true, wants_present, wants_present, wants_scores});
}

// States grow from step to step: vectors are small, and forgotten a little.
void DrawLinearAttention(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const int64_t batch = draw.Between(1, 2);
  const int64_t steps = draw.Between(1, 6);
  const int64_t kv = draw.Between(1, 3);
  const int64_t heads = kv * (draw.Often(30) ? draw.Between(1, 2) : 1);
  const int64_t size = draw.Side(9);
  const int64_t value_size = draw.Side(9);
  const auto rule =
      draw.One<std::string>({"gated_delta", "linear", "gated", "delta"});
  if (rule != "gated_delta" || draw.Often()) draw.Attr("update_rule", rule);
  draw.Attr("q_num_heads", heads);
  draw.Attr("kv_num_heads", kv);
  draw.MaybeAttr<int64_t>("chunk_size", {64, 1, 2});
  draw.MaybeAttr<float>("scale", {0, 0.5F, 1});
  const InputDomain small = InputDomain::Within(-1, 1);
  draw.Input(dtype, {batch, steps, heads * size}, small);
  draw.Input(dtype, {batch, steps, kv * size}, small);
  draw.Input(dtype, {batch, steps, kv * value_size}, small);
  if (draw.Often()) {
    draw.Input(dtype, {batch, kv, size, value_size}, small);
  } else {
    draw.NoInput();
  }
  if (rule == "gated" || rule == "gated_delta") {
    draw.Input(dtype, {batch, steps, draw.Often() ? kv * size : kv},
               InputDomain::Within(-2, 0));
  } else {
    draw.NoInput();
  }
  if (rule == "delta" || rule == "gated_delta") {
    draw.Input(dtype, {batch, steps, draw.Often() ? kv : 1},
               InputDomain::Within(0, 1));
  }
  draw.Outputs(2);
}

void DrawRotary(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const int64_t batch = draw.Between(1, 2);
  const int64_t places = draw.Side(9);
  const int64_t heads = draw.Between(1, 3);
  const int64_t half = draw.Side(9);
  const bool is_part = draw.Often(30);
  const int64_t size = 2 * half + (is_part ? draw.Between(0, 4) : 0);
  const bool is_flat = draw.Often();
  draw.Flag("interleaved");
  if (is_flat || draw.Often(20)) draw.Attr("num_heads", heads);
  if (is_part) {
    draw.Attr("rotary_embedding_dim", 2 * half);
  } else if (draw.Often(20)) {
    draw.Attr("rotary_embedding_dim", 0);
  }
  draw.Input(dtype, is_flat ? Ints{batch, places, heads * size}
                            : Ints{batch, heads, places, size});
  const bool has_places = draw.Often();
  const int64_t rows = places + draw.Between(0, 3);
  const Ints cache = has_places ? Ints{rows, half} : Ints{batch, places, half};
  draw.Weight(dtype, cache, InputDomain::Within(-1, 1));
  draw.Weight(dtype, cache, InputDomain::Within(-1, 1));
  if (has_places) {
    draw.Input(kInt64, {batch, places}, InputDomain::Whole(0, rows - 1));
  }
}

constexpr OperatorSpace kAttentionSpaces[] = {
    {"Attention", &DrawAttention},
    {"LinearAttention", &DrawLinearAttention},
    {"RotaryEmbedding", &DrawRotary},
};

}  // namespace

absl::Span<const OperatorSpace> AttentionSpaces() { return kAttentionSpaces; }

}  // namespace nodewise
