// Resizing: a side after the other. The elements and weights that the reference
// takes are tables, since places are decided by roundings that another order of
// the calculation would make differ.

#include "nodewise/ops/resize.h"

#include <algorithm>
#include <numeric>

#include "contrib/emit_c/operation_code.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {
namespace {

using ops::SideTaps;

// Tables of longer sides would be most of the code.
constexpr int64_t kMostPlaces = int64_t{1} << 16;

// A side, or several neighbours that stay as they are.
struct ResizedPart {
  int64_t in = 1;
  int64_t out = 1;
  const SideTaps* taps = nullptr;  // Null: stays as it is.
};

// Returns the one tap of each element that counts; empty if some have several.
// Nearest elements have one tap of weight 1 each, and so do linear ones where a
// place meets an element; taps of weight 0 do not count.
Sizes SingleTaps(const SideTaps& taps) {
  Sizes one;
  for (size_t o = 0; o + 1 < taps.begin.size(); ++o) {
    std::vector<size_t> found;
    for (size_t t = taps.begin[o]; t < taps.begin[o + 1]; ++t) {
      if (taps.weight[t] != 0) found.push_back(t);
    }
    if (found.size() != 1 || taps.weight[found[0]] != 1) return {};
    one.push_back(taps.index[found[0]]);
  }
  return one;
}

bool IsIdentityResize(int64_t size, const SideTaps& taps) {
  Sizes places(static_cast<size_t>(size));
  std::iota(places.begin(), places.end(), 0);
  return taps.is_outside.empty() && SingleTaps(taps) == places;
}

// Neighbouring sides that stay are one part, so that an image of [N, C, H, W]
// has three parts and not four.
std::vector<ResizedPart> PartsOf(const Sizes& x, const Sizes& y,
                                 const std::vector<SideTaps>& taps) {
  std::vector<ResizedPart> parts;
  for (size_t s = 0; s < x.size(); ++s) {
    const bool stays = x[s] == y[s] && IsIdentityResize(x[s], taps[s]);
    if (stays && !parts.empty() && parts.back().taps == nullptr) {
      parts.back().in *= x[s];
      parts.back().out *= x[s];
      continue;
    }
    parts.push_back({x[s], y[s], stays ? nullptr : &taps[s]});
  }
  return parts;
}

// Returns the element of the input for place `o`, as an expression: that of
// whole scales needs no table.
std::string NearestText(OperationCode& code, const ResizedPart& part,
                        const std::string& o) {
  if (part.taps == nullptr) return o;
  const Sizes& index = part.taps->index;
  const int64_t up = std::max<int64_t>(1, part.out / part.in);
  const int64_t down = std::max<int64_t>(1, part.in / part.out);
  bool is_up = true, is_down = true;
  for (size_t i = 0; i < index.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    is_up = is_up && index[i] == place / up;
    is_down = is_down && index[i] == place * down;
  }
  if (is_up) return fmt::format("{} / {}", o, up);
  if (is_down) return fmt::format("{} * {}", o, down);
  return fmt::format("{}[{}]", code.store().Table(index), o);
}

// Elements are only moved, so nothing is rounded.
void WriteNearest(OperationCode& operation,
                  const std::vector<ResizedPart>& parts) {
  CodeWriter& code = operation.code();
  Sizes in, out;
  for (const ResizedPart& part : parts) {
    const std::string o = fmt::format("o{}", in.size());
    code.For(o, part.out);
    code.Line("const int64_t f{} = {};", in.size(),
              NearestText(operation, part, o));
    in.push_back(part.in);
    out.push_back(part.out);
  }
  code.Line("{}[{}] = {}[{}];", operation.out().name,
            IndexText("o", CompactView(out).strides), operation.in(0).name,
            IndexText("f", CompactView(in).strides));
  code.Close(static_cast<int>(parts.size()));
}

// Weighted sums along a side of [outer, in, inner]. The taps of place o are
// those from begin[o] to before begin[o + 1]. Those with a weight of 0 are left
// out: infinities there must not become NaN.
void SumAlong(OperationCode& operation, const ResizedPart& part, int64_t outer,
              int64_t inner, const CTensor& from, const CTensor& to) {
  const SideTaps& taps = *part.taps;
  Sizes begin = {0};
  Sizes index;
  std::vector<double> weight;
  for (size_t o = 0; o + 1 < taps.begin.size(); ++o) {
    for (size_t t = taps.begin[o]; t < taps.begin[o + 1]; ++t) {
      if (taps.weight[t] == 0) continue;
      index.push_back(taps.index[t]);
      weight.push_back(taps.weight[t]);
    }
    begin.push_back(static_cast<int64_t>(index.size()));
  }
  const std::string begins = operation.store().Table(begin);
  const std::string indices = operation.store().Table(index);
  const std::string weights = operation.store().Table(weight);
  CodeWriter& code = operation.code();
  code.For({{"n", outer}, {"o", part.out}, {"i", inner}});
  code.Line("double sum = 0;");
  code.Open("for (int64_t t = {0}[o]; t < {0}[o + 1]; ++t)", begins);
  code.Line("sum += {}[t] * (double){}[(n * {} + {}[t]) * {} + i];", weights,
            from.name, part.in, indices, inner);
  code.Close();
  code.Line("{}[(n * {} + o) * {} + i] = {};", to.name, part.out, inner,
            CastText("sum", kFloat64, to.dtype));
  code.Close(3);
}

// Fills in what lies outside of the input.
void FillOutside(OperationCode& operation,
                 const std::vector<ResizedPart>& parts, double value) {
  CodeWriter& code = operation.code();
  const CTensor& y = operation.out();
  int64_t outer = 1;
  int64_t inner = y.count();
  for (const ResizedPart& part : parts) {
    inner /= part.out;
    if (part.taps != nullptr && !part.taps->is_outside.empty()) {
      const auto& outside = part.taps->is_outside;
      const Sizes flags(outside.begin(), outside.end());
      code.For({{"n", outer}, {"o", part.out}});
      code.Line("if (!{}[o]) continue;", operation.store().Table(flags));
      code.Each("i", inner, "{}[(n * {} + o) * {} + i] = {};", y.name, part.out,
                inner, CastText(DoubleText(value), kFloat64, y.dtype));
      code.Close(2);
    }
    outer *= part.out;
  }
}

// One side after the other, each into memory of doubles, so that only the last
// sum is rounded to the type of the output.
void WriteSums(OperationCode& operation, const std::vector<ResizedPart>& parts,
               double outside) {
  const CTensor& y = operation.out();
  CTensor from = operation.in(0);
  int64_t left = std::ranges::count_if(
      parts, [](const auto& p) { return p.taps != nullptr; });
  if (left == 0) {
    const View view = CompactView(y.sizes);
    return CopyCode(&operation.code(), y.sizes, from.name, view, y.name, view);
  }
  int64_t outer = 1;
  int64_t inner = from.count();
  for (const ResizedPart& part : parts) {
    inner /= part.in;
    if (part.taps != nullptr) {
      CTensor to = y;
      if (--left > 0) {
        to =
            operation.store().ScratchTensor(kFloat64, {outer, part.out, inner});
      }
      SumAlong(operation, part, outer, inner, from, to);
      from = to;
    }
    outer *= part.out;
  }
  FillOutside(operation, parts, outside);
}

// Elements that are only moved keep their type. Only sums know a value for what
// lies outside of the input, so elements are summed up where anything does.
absl::Status WriteResized(OperationCode& code, bool is_nearest,
                          const std::vector<SideTaps>& taps, double outside) {
  const CTensor& x = code.in(0);
  const CTensor& y = code.out();
  if (x.count() == 0) return Refuse("its input is empty");
  const auto parts = PartsOf(x.sizes, y.sizes, taps);
  const bool has_outside = std::ranges::any_of(
      taps, [](const auto& side) { return !side.is_outside.empty(); });
  is_nearest && !has_outside ? WriteNearest(code, parts)
                             : WriteSums(code, parts, outside);
  return absl::OkStatus();
}

// Tables have an entry for each place of a side.
absl::Status RequireShortSides(const OperationCode& code) {
  for (const CTensor* tensor : {&code.in(0), &code.out()}) {
    for (const int64_t size : tensor->sizes) {
      if (size <= kMostPlaces) continue;
      return Refuse("has a side of {} elements, expected {} at most", size,
                    kMostPlaces);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> NumbersOf(const OperationCode& code,
                                              size_t i) {
  if (!code.has(i)) return std::vector<double>();
  const NDArray* const constant = code.Constant(i);
  if (constant != nullptr) return ToDoubles(*constant);
  return Refuse("input {}: is not constant", i);
}

// Only one rule reads the region of input 1, so for all others it need not be
// constant.
absl::Status WriteResize(OperationCode& code) {
  const auto& op = *code.As<ops::Resize>();
  NODEWISE_RETURN_IF_ERROR(RequireShortSides(code));
  ops::ResizeTargets targets;
  if (op.coordinate_transformation_mode ==
      ops::CoordinateRule::kTfCropAndResize) {
    NODEWISE_ASSIGN_OR_RETURN(targets.roi, NumbersOf(code, 1));
  }
  NODEWISE_ASSIGN_OR_RETURN(targets.scales, NumbersOf(code, 2));
  if (code.has(3)) {
    const auto sizes = code.Ints(3);
    if (!sizes.has_value()) return Refuse("its sizes are not constant");
    targets.sizes = *sizes;
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto taps,
                            ops::TapsOf(op, code.in(0).sizes, targets));
  return WriteResized(code, op.mode == ops::Interpolation::kNearest, taps,
                      static_cast<double>(op.extrapolation_value));
}

template <typename Class>
absl::Status WriteScaledSides(OperationCode& code) {
  const ops::Interpolation mode = code.As<Class>()->mode;
  NODEWISE_RETURN_IF_ERROR(RequireShortSides(code));
  NODEWISE_ASSIGN_OR_RETURN(const auto scales, NumbersOf(code, 1));
  NODEWISE_ASSIGN_OR_RETURN(const auto taps,
                            ops::TapsOfScales(mode, code.in(0).sizes, scales));
  return WriteResized(code, mode == ops::Interpolation::kNearest, taps, 0);
}

constexpr Row kResizeRows[] = {
    SizedRow<ops::Resize>(&WriteResize),
    SizedRow<ops::Resize10>(&WriteScaledSides<ops::Resize10>),
    SizedRow<ops::Upsample>(&WriteScaledSides<ops::Upsample>),
};

}  // namespace

absl::Span<const Row> ResizeRows() { return kResizeRows; }

}  // namespace nodewise::emit_c
