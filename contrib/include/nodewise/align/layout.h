#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/ndarray/tensor_stats.h"

namespace nodewise {

// How the elements of a tensor of a network lie in a tensor of a graph that was
// compiled from it: compilers transpose tensors, divide channels into blocks
// and repeat what they broadcast. A plain value.
//
// The compiled tensor is filled by loops, one inside the other. Each goes a
// number of steps, and each step moves so many elements further in the tensor
// of the network; the next element of the compiled tensor is always the one
// that the loops have come to.
struct Layout {
  struct Loop {
    int64_t count = 1;
    int64_t step = 0;  // 0: repeats the elements.
  };
  // A side of the network's tensor that was divided into blocks although its
  // size is not a multiple of the block size. What lies behind its end is
  // padding, whose contents mean nothing.
  struct Padding {
    size_t outer = 0;  // The loop over the blocks.
    size_t inner = 0;  // The loop inside of one.
    int64_t size = 0;  // The size of that side.
  };

  // The compiled tensor has integers for floats of the network's: the number
  // q stands for scale * (q - zero_point), or for what lies beyond it if q is
  // the first or last one that there is.
  struct Quantisation {
    double scale = 1;
    double zero_point = 0;
    // The ends of the range; infinite if no number is beyond them.
    double low = 0;
    double high = 0;

    double Number(double q) const { return scale * (q - zero_point); }
  };

  // One of the two tensors is a part of the other along a side. The loops go
  // over a tensor that is the network's but for the size of that side, and what
  // they come to lies `begin` steps nearer to the beginning of the network's
  // side, or outside of it.
  struct Cut {
    int64_t inner = 1;  // Elements from one step of the side to the next.
    int64_t from = 1;   // The size of the side that the loops go over.
    int64_t begin = 0;  // Negative if the compiled tensor is the part.
    int64_t to = 1;     // The size of the network's side.
  };

  std::vector<Loop> loops;  // The outermost first; empty for one element.
  std::vector<Padding> paddings;
  std::optional<Quantisation> quantisation;
  std::optional<Cut> cut;
  // The compiled tensor is of another size than it should be: the shape that
  // the network's would need to have. Empty otherwise.
  std::vector<int64_t> other_shape;
  // In words: "" for the same order of elements in the same shape, else
  // "reshaped", "sides in the order 0 2 1", "side 1 in blocks of 8", ...
  std::string text;

  // Returns the number of elements of the compiled tensor.
  int64_t count() const;
  bool is_same_order() const { return is_same_order_; }
  // Sides of the network's tensor may be divided into blocks, which come last;
  // otherwise they are in their order, as they are in most compiled tensors.
  bool is_usual() const { return is_usual_; }
  void MakeUsual() { is_usual_ = true; }
  // Sets it, and says so in the text.
  void Quantise(const Quantisation& how);
  // Sets it, and says how in front of the text.
  void CutTo(const Cut& how, const std::string& words);

  // Returns the layout that keeps the elements in their order. REQUIRES: both
  // shapes have as many elements.
  static Layout SameOrder(absl::Span<const int64_t> source,
                          absl::Span<const int64_t> compiled);

 private:
  bool is_same_order_ = false;
  bool is_usual_ = false;
};

// This stands for an element of the compiled tensor that is padding, or comes
// from another tensor that was joined to this one.
inline constexpr int64_t kPaddingPlace = -1;

// Returns where the element of this number lies in the network's tensor, or
// kPaddingPlace. REQUIRES: 0 <= element < layout.count().
int64_t PlaceOf(const Layout& layout, int64_t element);
// Returns the places of all elements of the compiled tensor.
std::vector<int64_t> PlacesOf(const Layout& layout);

// Returns the sides of a shape but those of 1, which say nothing about how a
// tensor lies.
std::vector<int64_t> SidesBeyondOne(absl::Span<const int64_t> shape);

// Calls `visit` with every layout in which a compiler may have put a tensor of
// the shape `source` into one of the shape `compiled`, the likeliest first,
// until it returns false. There are some dozens, or hundreds for tensors of
// five and six sides; none if the shapes do not go together.
void VisitLayouts(absl::Span<const int64_t> source,
                  absl::Span<const int64_t> compiled,
                  absl::FunctionRef<bool(const Layout& layout)> visit);

// Returns how a compiled tensor of the wrong size may lie, if it should be one
// of the shape `source` and another number of elements: as it is, or with one
// side in blocks. Layout::other_shape says what it is a layout of.
std::vector<Layout> LayoutsOfWrongSize(absl::Span<const int64_t> source,
                                       absl::Span<const int64_t> compiled);

// The facts about a tensor without its contents. Its shape and type are the
// same with each set of inputs.
struct TensorFacts {
  std::vector<int64_t> shape;
  DLDataType dtype{};
  std::vector<TensorStats> stats;  // By set of inputs.
};

}  // namespace nodewise
