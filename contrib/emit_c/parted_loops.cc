#include "contrib/emit_c/parted_loops.h"

#include <utility>

namespace nodewise::emit_c {
namespace {

std::vector<View> PartOf(const std::vector<View>& views,
                         const std::vector<size_t>& sides, bool has_offset) {
  std::vector<View> parts;
  for (const View& view : views) {
    parts.push_back(ViewOf(view, sides));
    if (!has_offset) parts.back().offset = 0;
  }
  return parts;
}

Sizes SizesOf(const Sizes& sizes, const std::vector<size_t>& sides) {
  Sizes part;
  for (const size_t side : sides) part.push_back(sizes[side]);
  return part;
}

}  // namespace

PartedSides::PartedSides(size_t rank, const std::vector<bool>& is_taken) {
  for (size_t side = 0; side < rank; ++side) {
    (is_taken[side] ? taken : kept).push_back(side);
  }
}

Sizes PartedSides::KeptOf(const Sizes& sizes) const {
  return SizesOf(sizes, kept);
}

Sizes PartedSides::TakenOf(const Sizes& sizes) const {
  return SizesOf(sizes, taken);
}

PartedLoops::PartedLoops(const Sizes& sizes, const PartedSides& sides,
                         std::vector<View> views)
    : kept_(sides.KeptOf(sizes), PartOf(views, sides.kept, true), "i"),
      taken_(sides.TakenOf(sizes), PartOf(views, sides.taken, false), "j") {}

std::string PartedLoops::At(size_t view) const {
  const std::string outer = kept_.At(view);
  const std::string inner = taken_.At(view);
  if (inner == "0") return outer;
  return outer == "0" ? inner : outer + " + " + inner;
}

}  // namespace nodewise::emit_c
