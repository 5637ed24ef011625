#include "nodewise/ops/rotary.h"

#include <cmath>

#include "contrib/ops/util/attention_parts.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

struct RotaryEmbedding : ops::RotaryEmbedding {
  static constexpr auto Fields() {
    return FieldList(
        Field<&RotaryEmbedding::interleaved>("interleaved"),
        Field<&RotaryEmbedding::num_heads>("num_heads"),
        Field<&RotaryEmbedding::rotary_embedding_dim>("rotary_embedding_dim"));
  }
  absl::Status Check(const Inputs& in) const;
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const;

 private:
  struct Sides {
    int64_t batch;
    int64_t places;
    int64_t heads;
    int64_t head_size;
    int64_t turned;  // Elements of a head.
    bool heads_first;

    int64_t RowOf(int64_t b, int64_t place, int64_t head) const {
      return heads_first ? (b * heads + head) * places + place
                         : (b * places + place) * heads + head;
    }
  };
  absl::StatusOr<Sides> SidesOf(absl::Span<const int64_t> x) const;
  absl::StatusOr<std::vector<int64_t>> RowsOf(const EvalArgs& args,
                                              const Sides& sides) const;
};

absl::Status RotaryEmbedding::Check(const Inputs& in) const {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireFloat(in, 0), RequireFloat(in, 1), RequireFloat(in, 2),
          RequireRank(in, 0, 3, 4), RequireRank(in, 1, 2, 3),
          RequireRank(in, 2, 2, 3), RequireType(in, 3, kInt64),
          RequireRank(in, 3, 2)));
  const auto x = in.type(0).sizes();
  if (!x) return absl::OkStatus();
  return SidesOf(*x).status();
}

absl::StatusOr<RotaryEmbedding::Sides> RotaryEmbedding::SidesOf(
    absl::Span<const int64_t> x) const {
  Sides sides{x[0], x[1], num_heads, 0, 0, x.size() == 4};
  if (sides.heads_first) {
    sides.heads = x[1];
    sides.places = x[2];
    sides.head_size = x[3];
  } else {
    if (num_heads < 1 || x[2] % num_heads != 0) {
      return AttributeError(
          "num_heads",
          fmt::format("is {}, expected a divisor of {}", num_heads, x[2]));
    }
    sides.head_size = x[2] / num_heads;
  }
  sides.turned =
      rotary_embedding_dim == 0 ? sides.head_size : rotary_embedding_dim;
  if (sides.turned < 0 || sides.turned > sides.head_size ||
      sides.turned % 2 != 0) {
    return AttributeError(
        "rotary_embedding_dim",
        fmt::format("makes {} of {} elements turn, expected an even number",
                    sides.turned, sides.head_size));
  }
  return sides;
}

// The row of the caches for each place of each batch.
absl::StatusOr<std::vector<int64_t>> RotaryEmbedding::RowsOf(
    const EvalArgs& args, const Sides& sides) const {
  const auto cache = args.shape(1);
  const int64_t rows = sides.batch * sides.places;
  if (args.shape(2) != cache || cache.back() != sides.turned / 2 ||
      cache.size() != (args.has(3) ? 2u : 3u)) {
    return InputError(1, fmt::format("is {}, expected sides that end with "
                                     "{}, as input 2",
                                     ShapeToString(cache), sides.turned / 2));
  }
  std::vector<int64_t> result(static_cast<size_t>(rows));
  if (!args.has(3)) {
    if (cache[0] != sides.batch || cache[1] != sides.places) {
      return InputError(
          1, fmt::format("is {}, expected {} by {} first", ShapeToString(cache),
                         sides.batch, sides.places));
    }
    for (int64_t i = 0; i < rows; ++i) result[static_cast<size_t>(i)] = i;
    return result;
  }
  if (CountOf(args.in(3)) != rows) {
    return InputError(3, fmt::format("has {} elements, expected {}",
                                     CountOf(args.in(3)), rows));
  }
  NODEWISE_ASSIGN_OR_RETURN(result, args.Ints(3));
  for (int64_t& row : result) {
    if (row < 0) row += cache[0];  // NumPy's way of indexing.
    if (row >= 0 && row < cache[0]) continue;
    return InputError(
        3, fmt::format("has {}, expected 0 to {}", row, cache[0] - 1));
  }
  return result;
}

absl::Status RotaryEmbedding::Evaluate(EvalArgs& args) const {
  NODEWISE_ASSIGN_OR_RETURN(const Sides sides, SidesOf(args.shape(0)));
  NODEWISE_ASSIGN_OR_RETURN(const auto cache_rows, RowsOf(args, sides));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                            args.MakeOutput(0, args.shape(0), args.dtype(0)));
  const std::vector<double> x = ToDoubles(args.in(0));
  const std::vector<double> cos = ToDoubles(args.in(1));
  const std::vector<double> sin = ToDoubles(args.in(2));
  std::vector<double> y = x;
  Bounds* const bounds = args.bounds(0);
  if (bounds != nullptr) {
    bounds->proved.assign(x.size(), 0);  // Other elements are copied.
    bounds->expected = bounds->proved;
  }
  const int64_t half = sides.turned / 2;
  const auto set = [&](int64_t i, double a, double b) {
    const auto at = static_cast<size_t>(i);
    y[at] = a + b;
    if (bounds == nullptr) return;
    const SumBound bound = BoundSum(
        out.dtype(), {2, std::fabs(a) + std::fabs(b), a * a + b * b, a + b});
    bounds->proved[at] = bound.proved;
    bounds->expected[at] = bound.expected;
  };
  for (int64_t b = 0; b < sides.batch; ++b) {
    for (int64_t place = 0; place < sides.places; ++place) {
      const int64_t cache =
          cache_rows[static_cast<size_t>(b * sides.places + place)] * half;
      for (int64_t head = 0; head < sides.heads; ++head) {
        const int64_t row = sides.RowOf(b, place, head) * sides.head_size;
        for (int64_t i = 0; i < half; ++i) {
          const int64_t one = row + (interleaved ? 2 * i : i);
          const int64_t two = interleaved ? one + 1 : one + half;
          const double c = cos[static_cast<size_t>(cache + i)];
          const double s = sin[static_cast<size_t>(cache + i)];
          const double x1 = x[static_cast<size_t>(one)];
          const double x2 = x[static_cast<size_t>(two)];
          set(one, c * x1, -s * x2);
          set(two, s * x1, c * x2);
        }
      }
    }
  }
  StoreDoubles(y.data(), 0, CountOf(out), out);
  return absl::OkStatus();
}

constexpr OperatorDef kRotary[] = {
    Row<ops::RotaryEmbedding, RotaryEmbedding>(
        {.name = "RotaryEmbedding",
         .since = 23,
         .inputs = {"X", "cos_cache", "sin_cache", Optional("position_ids")},
         .outputs = {"Y"},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> RotaryOperators() { return kRotary; }

}  // namespace nodewise
