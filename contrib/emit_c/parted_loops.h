#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "contrib/emit_c/operation_code.h"

namespace nodewise::emit_c {

// Loops over a tensor in two parts: the sides that stay, and for each of their
// places those that are taken together. Each part joins its neighbouring sides
// by itself, so that a reduction of all sides but one is two or three loops in
// any rank. Indices are the sum of both parts' indices.
class PartedLoops {
 public:
  // Each view is one over all sides of `sizes`.
  PartedLoops(const Sizes& sizes, const std::vector<bool>& is_taken,
              const std::vector<View>& views)
      : kept_(PartOf(sizes, is_taken, false, views)),
        taken_(PartOf(sizes, is_taken, true, views)) {}

  void OpenKept(CodeWriter* code) const { kept_.Open(code); }
  void CloseKept(CodeWriter* code) const { kept_.Close(code); }
  // Writes loops over what is taken together, with these lines in them.
  void WriteTaken(CodeWriter* code,
                  std::initializer_list<std::string> lines) const {
    // Loops that do nothing would leave variables that nothing reads.
    if (taken_.is_empty()) return;
    taken_.Open(code);
    for (const std::string& line : lines) code->Line(line);
    taken_.Close(code);
  }
  // Returns the index of a place, inside both loops.
  std::string At(size_t view) const {
    const std::string outer = kept_.At(view);
    const std::string inner = taken_.At(view);
    if (inner == "0") return outer;
    return outer == "0" ? inner : outer + " + " + inner;
  }

 private:
  static LoopNest PartOf(const Sizes& sizes, const std::vector<bool>& is_taken,
                         bool takes, const std::vector<View>& views) {
    Sizes part;
    std::vector<View> parts;
    // The offset counts once, in the index of what stays.
    for (const View& view : views)
      parts.push_back({{}, takes ? 0 : view.offset});
    for (size_t side = 0; side < sizes.size(); ++side) {
      if (is_taken[side] != takes) continue;
      part.push_back(sizes[side]);
      for (size_t v = 0; v < views.size(); ++v) {
        parts[v].strides.push_back(views[v].strides[side]);
      }
    }
    return LoopNest(part, std::move(parts), takes ? "j" : "i");
  }

  LoopNest kept_;
  LoopNest taken_;
};

// Returns how many elements are taken together.
inline int64_t CountTaken(const Sizes& sizes,
                          const std::vector<bool>& is_taken) {
  Sizes taken;
  for (size_t side = 0; side < sizes.size(); ++side) {
    if (is_taken[side]) taken.push_back(sizes[side]);
  }
  return CountIn(taken);
}

// Returns a count as a divisor of doubles.
inline std::string CountText(int64_t count) {
  return DoubleText(static_cast<double>(count));
}

}  // namespace nodewise::emit_c
