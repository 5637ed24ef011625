#include "contrib/align/layout_operations.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ops/gather.h"
#include "nodewise/ops/reshape.h"
#include "nodewise/ops/slice.h"
#include "nodewise/support/status_macros.h"

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

// Fails for what no order of elements is.
absl::Status CheckIsOrder(const Layout& layout) {
  if (!layout.quantisation.has_value() && !layout.cut.has_value() &&
      layout.other_shape.empty()) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      fmt::format("a tensor of the model is there {}", layout.text));
}

// Adds the operations one by one.
class LayoutWriter {
 public:
  LayoutWriter(const Layout& layout, ValueId at, const OpSet& operators,
               Network* network)
      : layout_(layout), at_(at), operators_(operators), network_(*network) {}

  absl::StatusOr<ValueId> Undo(absl::Span<const int64_t> source_shape) {
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<SourceSide> sides,
                              SourceSides());
    NODEWISE_RETURN_IF_ERROR(ReshapeTo(LoopCounts()));
    // A repeated side is there only once.
    Ints order;
    Ints repeated;
    for (size_t i = 0; i < layout_.loops.size(); ++i) {
      if (layout_.loops[i].step != 0) continue;
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
    return at_;
  }

  absl::StatusOr<ValueId> Apply(absl::Span<const int64_t> compiled_shape) {
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<SourceSide> sides,
                              SourceSides());
    Ints counts;
    Ints split;
    Ints order(layout_.loops.size(), 0);
    for (const SourceSide& side : sides) {
      counts.push_back(side.count);
      for (const size_t loop : side.loops) {
        order[loop] = static_cast<int64_t>(split.size());
        split.push_back(layout_.loops[loop].count);
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
    for (size_t i = 0; i < layout_.loops.size(); ++i) {
      if (layout_.loops[i].step != 0) continue;
      order[i] = static_cast<int64_t>(split.size());
      split.push_back(1);
    }
    NODEWISE_RETURN_IF_ERROR(ReshapeTo(split));
    NODEWISE_RETURN_IF_ERROR(TransposeTo(order));
    for (size_t i = 0; i < layout_.loops.size(); ++i) {
      if (layout_.loops[i].step != 0) continue;
      NODEWISE_RETURN_IF_ERROR(
          GatherAlong(i, Ints(static_cast<size_t>(layout_.loops[i].count), 0)));
    }
    NODEWISE_RETURN_IF_ERROR(
        ReshapeTo({compiled_shape.begin(), compiled_shape.end()}));
    return at_;
  }

 private:
  Ints LoopCounts() const {
    Ints counts;
    for (const Layout::Loop& loop : layout_.loops) counts.push_back(loop.count);
    return counts;
  }

  // The sides in the network's order: that of their steps. Each step must be
  // what the sides inside of it go through.
  absl::StatusOr<std::vector<SourceSide>> SourceSides() const {
    std::vector<std::pair<int64_t, SourceSide>> found;
    std::vector<bool> is_used(layout_.loops.size(), false);
    for (const Layout::Padding& padding : layout_.paddings) {
      is_used[padding.outer] = is_used[padding.inner] = true;
      const int64_t padded = layout_.loops[padding.outer].count *
                             layout_.loops[padding.inner].count;
      found.push_back({layout_.loops[padding.inner].step,
                       {{padding.outer, padding.inner}, padding.size, padded}});
    }
    for (size_t i = 0; i < layout_.loops.size(); ++i) {
      const Layout::Loop& loop = layout_.loops[i];
      if (is_used[i] || loop.step == 0) continue;
      found.push_back({loop.step, {{i}, loop.count, loop.count}});
    }
    std::stable_sort(
        found.begin(), found.end(),
        [](const auto& a, const auto& b) { return a.first > b.first; });
    int64_t step = 1;
    std::vector<SourceSide> sides;
    for (size_t i = found.size(); i-- > 0;) {
      // A side of length 1 has any step.
      if (found[i].second.count > 1 && found[i].first != step) {
        return absl::UnimplementedError(
            "its layout cannot be written as operations");
      }
      step *= found[i].second.count;
    }
    for (auto& [unused, side] : found) sides.push_back(std::move(side));
    return sides;
  }

  absl::Status ReshapeTo(const Ints& sizes) {
    const auto now = network_.value(at_).type.sizes();
    if (now.has_value() && Ints(now->begin(), now->end()) == sizes) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const ValueId shape, AddInts(sizes));
    NODEWISE_ASSIGN_OR_RETURN(
        at_, network_.Add(operators_, ops::Reshape{}, {at_, shape}));
    return absl::OkStatus();
  }

  absl::Status TransposeTo(const Ints& order) {
    if (std::is_sorted(order.begin(), order.end())) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(
        at_, network_.Add(operators_, ops::Transpose{order}, {at_}));
    return absl::OkStatus();
  }

  absl::Status GatherAlong(size_t axis, const Ints& places) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId indices, AddInts(places));
    NODEWISE_ASSIGN_OR_RETURN(
        at_, network_.Add(operators_, ops::Gather{static_cast<int64_t>(axis)},
                          {at_, indices}));
    return absl::OkStatus();
  }

  absl::Status AddZeros(size_t axis, const Ints& shape) {
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray zeros,
        NDArray::Empty(shape, network_.value(at_).type.dtype, kCpu));
    std::memset(zeros.data(), 0, zeros.bytes());
    NODEWISE_ASSIGN_OR_RETURN(const ValueId padding,
                              network_.AddConstant("", std::move(zeros)));
    NODEWISE_ASSIGN_OR_RETURN(
        at_, network_.Add(operators_, ops::Concat{static_cast<int64_t>(axis)},
                          {at_, padding}));
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> AddInts(const Ints& numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                              NDArray::Empty({count}, {kDLInt, 64, 1}, kCpu));
    std::copy(numbers.begin(), numbers.end(), tensor.As<int64_t>());
    return network_.AddConstant("", std::move(tensor));
  }

  const Layout& layout_;
  ValueId at_;
  const OpSet& operators_;
  Network& network_;
};

}  // namespace

absl::StatusOr<ValueId> AddLayoutUndone(const Layout& layout, ValueId compiled,
                                        absl::Span<const int64_t> source_shape,
                                        const OpSet& operators,
                                        Network* network) {
  NODEWISE_RETURN_IF_ERROR(CheckIsOrder(layout));
  return LayoutWriter(layout, compiled, operators, network).Undo(source_shape);
}

absl::StatusOr<ValueId> AddLayout(const Layout& layout, ValueId source,
                                  absl::Span<const int64_t> compiled_shape,
                                  const OpSet& operators, Network* network) {
  NODEWISE_RETURN_IF_ERROR(CheckIsOrder(layout));
  return LayoutWriter(layout, source, operators, network).Apply(compiled_shape);
}

}  // namespace nodewise
