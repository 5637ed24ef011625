#include "contrib/emit_c/loop_nest.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_join.h"

namespace nodewise::emit_c {

int64_t CountIn(absl::Span<const int64_t> sizes) {
  // Planes with their padding may be larger than any tensor; they are refused
  // where memory is asked for them.
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size == 0) return 0;
    if (__builtin_mul_overflow(count, size, &count)) count = INT64_MAX;
  }
  return count;
}

View CompactView(absl::Span<const int64_t> sizes) {
  View view;
  view.strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    view.strides[i] = stride;
    stride = CountIn({{stride, sizes[i]}});
  }
  return view;
}

View RepeatedView(absl::Span<const int64_t> from,
                  absl::Span<const int64_t> to) {
  const View compact = CompactView(from);
  View view;
  view.strides.resize(to.size());
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
    const size_t side = from.size() - 1 - i;
    view.strides[to.size() - 1 - i] =
        from[side] == 1 ? 0 : compact.strides[side];
  }
  return view;
}

Lines LinesAlong(const Sizes& sizes, size_t side) {
  const auto all = absl::MakeConstSpan(sizes);
  return {CountIn(all.first(side)), all[side], CountIn(all.subspan(side + 1))};
}

std::string SumOf(const std::vector<std::string>& terms) {
  return terms.empty() ? "0" : absl::StrJoin(terms, " + ");
}

std::string IndexText(std::string_view letter,
                      absl::Span<const int64_t> strides) {
  std::vector<std::string> terms;
  for (const int64_t stride : strides) {
    terms.push_back(fmt::format("{}{} * {}", letter, terms.size(), stride));
  }
  return SumOf(terms);
}

// Two neighbouring sides are one loop where, in each view, a step of the outer
// one leads as far as all steps of the inner one: then stride[outer] =
// stride[inner] * size[inner]. Sides of 1 have no place to go to, so they are
// left out first; they would keep their neighbours apart otherwise. What is
// left in `views_` are the strides of the joined loops, the innermost side's.
LoopNest::LoopNest(const Sizes& sizes, std::vector<View> views,
                   std::string letter)
    : letter_(std::move(letter)) {
  for (const View& view : views) views_.push_back({{}, view.offset});
  for (size_t side = 0; side < sizes.size(); ++side) {
    is_empty_ = is_empty_ || sizes[side] == 0;
    if (sizes[side] == 1) continue;
    bool joins = !sizes_.empty();
    for (size_t v = 0; joins && v < views.size(); ++v) {
      joins = views_[v].strides.back() == views[v].strides[side] * sizes[side];
    }
    if (!joins) sizes_.push_back(1);
    sizes_.back() *= sizes[side];
    for (size_t v = 0; v < views.size(); ++v) {
      if (!joins) views_[v].strides.push_back(0);
      views_[v].strides.back() = views[v].strides[side];
    }
  }
}

bool LoopNest::is_one_row() const {
  return sizes_.size() <= 1 &&
         std::ranges::all_of(views_, [](const View& view) {
           return view.strides.empty() || view.strides[0] == 1;
         });
}

void LoopNest::Open(CodeWriter* code) const {
  for (size_t side = 0; side < sizes_.size(); ++side) {
    code->For(fmt::format("{}{}", letter_, side), sizes_[side]);
  }
}

std::string LoopNest::At(size_t view) const {
  const View& at = views_[view];
  std::vector<std::string> terms;
  if (at.offset != 0) terms.push_back(IntegerText(at.offset));
  for (size_t side = 0; side < sizes_.size(); ++side) {
    const int64_t stride = at.strides[side];
    if (stride == 0) continue;
    const std::string index = fmt::format("{}{}", letter_, side);
    terms.push_back(stride == 1 ? index : index + " * " + IntegerText(stride));
  }
  return SumOf(terms);
}

}  // namespace nodewise::emit_c
