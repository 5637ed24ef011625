#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "contrib/emit_c/operation_code.h"

namespace nodewise::emit_c {

// Loops over a tensor in two parts: the sides that stay, and for each of their
// places those that are taken together.
struct PartedSides {
  std::vector<size_t> kept;
  std::vector<size_t> taken;

  PartedSides(size_t rank, const std::vector<bool>& is_taken);
  Sizes KeptOf(const Sizes& sizes) const;
  Sizes TakenOf(const Sizes& sizes) const;
  int64_t CountTaken(const Sizes& sizes) const {
    return CountIn(TakenOf(sizes));
  }
};

class PartedLoops {
 public:
  // Each view is one over all sides of `sizes`.
  PartedLoops(const Sizes& sizes, const PartedSides& sides,
              std::vector<View> views);

  bool is_empty() const { return kept_.is_empty(); }
  void OpenKept(CodeWriter* code) const { kept_.Open(code); }
  void CloseKept(CodeWriter* code) const { kept_.Close(code); }
  void OpenTaken(CodeWriter* code) const { taken_.Open(code); }
  void CloseTaken(CodeWriter* code) const { taken_.Close(code); }
  // Nothing is taken together: the inner loops would do nothing.
  bool takes_nothing() const { return taken_.is_empty(); }
  // Returns the index of a place, inside both loops.
  std::string At(size_t view) const;

 private:
  LoopNest kept_;
  LoopNest taken_;
};

}  // namespace nodewise::emit_c
