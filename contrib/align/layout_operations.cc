// Written as operations, the loops of a layout become the sides of a tensor
// that is transposed, with a Reshape before and after it.

#include "contrib/align/layout_operations.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

// A side of the network's tensor, or a part of one, and the loops that go over
// it: two if it was divided into blocks that have padding at the end.
struct SourceSide {
  std::vector<size_t> loops;  // The outer one first.
  int64_t count = 1;          // Without padding.
  int64_t padded = 1;
};

// Fails for layouts that are more than an order of elements: those of
// quantised, cut or resized tensors.
absl::Status CheckIsOrder(const Layout& layout) {
  if (!layout.quantisation.has_value() && !layout.cut.has_value() &&
      layout.other_shape.empty()) {
    return absl::OkStatus();
  }
  return Unimplemented("a tensor of the model is there {}", layout.text);
}

struct LayoutWriter {
  const Layout& layout;
  ValueId at;
  const OpSet& operators;
  Network& network;

  absl::StatusOr<ValueId> Undo(absl::Span<const int64_t> source_shape) {
    NODEWISE_ASSIGN_OR_RETURN(const auto sides, SourceSides());
    Ints counts;
    for (const Layout::Loop& loop : layout.loops) counts.push_back(loop.count);
    NODEWISE_RETURN_IF_ERROR(ReshapeTo(counts));
    // A repeated side is there only once.
    Ints order;
    Ints repeated;
    for (size_t i = 0; i < layout.loops.size(); ++i) {
      if (layout.loops[i].step != 0) continue;
      NODEWISE_RETURN_IF_ERROR(GatherAlong(i, {0}));
      repeated.push_back(static_cast<int64_t>(i));
    }
    Ints padded;
    for (const SourceSide& side : sides) {
      for (const size_t loop : side.loops) {
        order.push_back(static_cast<int64_t>(loop));
      }
      padded.push_back(side.padded);
    }
    order.insert(order.end(), repeated.begin(), repeated.end());
    NODEWISE_RETURN_IF_ERROR(TransposeTo(order));
    NODEWISE_RETURN_IF_ERROR(ReshapeTo(padded));
    for (size_t i = 0; i < sides.size(); ++i) {
      if (sides[i].count == sides[i].padded) continue;
      Ints kept(static_cast<size_t>(sides[i].count));
      std::iota(kept.begin(), kept.end(), 0);
      NODEWISE_RETURN_IF_ERROR(GatherAlong(i, kept));
    }
    NODEWISE_RETURN_IF_ERROR(
        ReshapeTo({source_shape.begin(), source_shape.end()}));
    return at;
  }

  absl::StatusOr<ValueId> Apply(absl::Span<const int64_t> compiled_shape) {
    NODEWISE_ASSIGN_OR_RETURN(const auto sides, SourceSides());
    Ints counts;
    Ints split;
    Ints order(layout.loops.size(), 0);
    for (const SourceSide& side : sides) {
      counts.push_back(side.count);
      for (const size_t loop : side.loops) {
        order[loop] = static_cast<int64_t>(split.size());
        split.push_back(layout.loops[loop].count);
      }
    }
    NODEWISE_RETURN_IF_ERROR(ReshapeTo(counts));
    for (size_t i = 0; i < sides.size(); ++i) {
      if (sides[i].count == sides[i].padded) continue;
      Ints padding = counts;
      padding[i] = sides[i].padded - sides[i].count;
      counts[i] = sides[i].padded;
      NODEWISE_RETURN_IF_ERROR(AddZeros(i, padding));
    }
    for (size_t i = 0; i < layout.loops.size(); ++i) {
      if (layout.loops[i].step != 0) continue;
      order[i] = static_cast<int64_t>(split.size());
      split.push_back(1);
    }
    NODEWISE_RETURN_IF_ERROR(ReshapeTo(split));
    NODEWISE_RETURN_IF_ERROR(TransposeTo(order));
    for (size_t i = 0; i < layout.loops.size(); ++i) {
      if (layout.loops[i].step != 0) continue;
      NODEWISE_RETURN_IF_ERROR(
          GatherAlong(i, Ints(static_cast<size_t>(layout.loops[i].count), 0)));
    }
    NODEWISE_RETURN_IF_ERROR(
        ReshapeTo({compiled_shape.begin(), compiled_shape.end()}));
    return at;
  }

  // The sides in the network's order: that of their steps. Each step must be
  // what the sides inside of it go through.
  absl::StatusOr<std::vector<SourceSide>> SourceSides() const {
    std::vector<std::pair<int64_t, SourceSide>> found;
    std::vector<bool> is_used(layout.loops.size(), false);
    for (const Layout::Padding& padding : layout.paddings) {
      is_used[padding.outer] = is_used[padding.inner] = true;
      const int64_t padded =
          layout.loops[padding.outer].count * layout.loops[padding.inner].count;
      found.push_back({layout.loops[padding.inner].step,
                       {{padding.outer, padding.inner}, padding.size, padded}});
    }
    for (size_t i = 0; i < layout.loops.size(); ++i) {
      const Layout::Loop& loop = layout.loops[i];
      if (is_used[i] || loop.step == 0) continue;
      found.push_back({loop.step, {{i}, loop.count, loop.count}});
    }
    std::ranges::stable_sort(found, std::greater(),
                             &std::pair<int64_t, SourceSide>::first);
    int64_t step = 1;
    std::vector<SourceSide> sides;
    for (size_t i = found.size(); i-- > 0;) {
      // A side of length 1 has any step.
      if (found[i].second.count > 1 && found[i].first != step) {
        return Unimplemented("its layout cannot be written as operations");
      }
      step *= found[i].second.count;
    }
    for (auto& [unused, side] : found) sides.push_back(std::move(side));
    return sides;
  }

  // Adds an operation on what there is so far.
  template <typename Operator>
  absl::Status Then(const Operator& what, std::vector<ValueId> inputs = {}) {
    inputs.insert(inputs.begin(), at);
    NODEWISE_ASSIGN_OR_RETURN(at,
                              network.Add(operators, what, std::move(inputs)));
    return absl::OkStatus();
  }

  absl::Status ReshapeTo(const Ints& sizes) {
    const auto now = network.value(at).type.sizes();
    if (now.has_value() && Ints(now->begin(), now->end()) == sizes) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const ValueId shape, AddInts(sizes));
    return Then(ops::Reshape{}, {shape});
  }

  absl::Status TransposeTo(const Ints& order) {
    if (std::ranges::is_sorted(order)) return absl::OkStatus();
    return Then(ops::Transpose{order});
  }

  absl::Status GatherAlong(size_t axis, const Ints& places) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId indices, AddInts(places));
    return Then(ops::Gather{static_cast<int64_t>(axis)}, {indices});
  }

  absl::Status AddZeros(size_t axis, const Ints& shape) {
    NODEWISE_ASSIGN_OR_RETURN(
        auto zeros, NDArray::Empty(shape, network.value(at).type.dtype, kCpu));
    std::memset(zeros.data(), 0, zeros.bytes());
    NODEWISE_ASSIGN_OR_RETURN(const ValueId padding,
                              network.AddConstant("", std::move(zeros)));
    return Then(ops::Concat{static_cast<int64_t>(axis)}, {padding});
  }

  absl::StatusOr<ValueId> AddInts(const Ints& numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                              NDArray::Empty({count}, {kDLInt, 64, 1}, kCpu));
    std::copy(numbers.begin(), numbers.end(), tensor.As<int64_t>());
    return network.AddConstant("", std::move(tensor));
  }
};

}  // namespace

absl::StatusOr<ValueId> AddLayoutUndone(const Layout& layout, ValueId compiled,
                                        absl::Span<const int64_t> source_shape,
                                        const OpSet& operators,
                                        Network* network) {
  NODEWISE_RETURN_IF_ERROR(CheckIsOrder(layout));
  return LayoutWriter{layout, compiled, operators, *network}.Undo(source_shape);
}

absl::StatusOr<ValueId> AddLayout(const Layout& layout, ValueId source,
                                  absl::Span<const int64_t> compiled_shape,
                                  const OpSet& operators, Network* network) {
  NODEWISE_RETURN_IF_ERROR(CheckIsOrder(layout));
  return LayoutWriter{layout, source, operators, *network}.Apply(
      compiled_shape);
}

}  // namespace nodewise
