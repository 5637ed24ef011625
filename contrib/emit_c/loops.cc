#include "contrib/emit_c/loops.h"

#include <cstdint>
#include <utility>

#include "contrib/emit_c/c_text.h"
#include "fmt/format.h"

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

View ViewOf(const View& view, absl::Span<const size_t> sides) {
  View part;
  part.offset = view.offset;
  for (const size_t side : sides) part.strides.push_back(view.strides[side]);
  return part;
}

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
    if (joins) {
      sizes_.back() *= sizes[side];
    } else {
      sizes_.push_back(sizes[side]);
    }
    for (size_t v = 0; v < views.size(); ++v) {
      if (!joins) views_[v].strides.push_back(0);
      views_[v].strides.back() = views[v].strides[side];
    }
  }
}

bool LoopNest::is_one_row() const {
  if (sizes_.size() > 1) return false;
  for (const View& view : views_) {
    if (!view.strides.empty() && view.strides[0] != 1) return false;
  }
  return true;
}

void LoopNest::Open(CodeWriter* code) const {
  for (size_t side = 0; side < sizes_.size(); ++side) {
    code->For(fmt::format("{}{}", letter_, side), sizes_[side]);
  }
}

void LoopNest::Close(CodeWriter* code) const {
  code->Close(static_cast<int>(sizes_.size()));
}

std::string LoopNest::At(size_t view) const {
  const View& at = views_[view];
  std::string text;
  const auto add = [&](const std::string& term) {
    text += text.empty() ? term : " + " + term;
  };
  if (at.offset != 0) add(IntegerText(at.offset));
  for (size_t side = 0; side < sizes_.size(); ++side) {
    const int64_t stride = at.strides[side];
    if (stride == 0) continue;
    const std::string index = fmt::format("{}{}", letter_, side);
    add(stride == 1 ? index : index + " * " + IntegerText(stride));
  }
  return text.empty() ? "0" : text;
}

}  // namespace nodewise::emit_c
