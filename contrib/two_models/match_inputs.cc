#include <algorithm>
#include <numeric>
#include <utility>

#include "contrib/two_models/model_side.h"
#include "fmt/format.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// The shape of a model's input, with the sizes of a tensor where the model
// leaves them open; none if they do not go together.
std::optional<std::vector<int64_t>> ShapeFor(const TensorType& type,
                                             const NDArray& given) {
  if (const auto sizes = type.sizes(); sizes.has_value()) {
    if (Product(*sizes) != CountOf(given)) return std::nullopt;
    return *sizes;
  }
  return std::vector<int64_t>(given.shape().begin(), given.shape().end());
}

// How many pairs of sides are in another order than in the reference.
size_t Inversions(const Layout& layout) {
  size_t count = 0;
  for (size_t i = 0; i < layout.loops.size(); ++i) {
    for (size_t k = i + 1; k < layout.loops.size(); ++k) {
      const Layout::Loop& outer = layout.loops[i];
      const Layout::Loop& inner = layout.loops[k];
      if (outer.count > 1 && inner.count > 1 && outer.step < inner.step) {
        ++count;
      }
    }
  }
  return count;
}

// How a tensor of the one shape lies in the other, if both have these sides. A
// height and a width that are alike stay in their order.
std::optional<Layout> LayoutOfInput(absl::Span<const int64_t> reference,
                                    absl::Span<const int64_t> target) {
  if (SidesBeyondOne(reference) == SidesBeyondOne(target)) {
    return Layout::SameOrder(reference, target);
  }
  std::optional<Layout> found;
  VisitLayouts(reference, target, [&](const Layout& layout) {
    std::vector<int64_t> sides;
    for (const Layout::Loop& loop : layout.loops) sides.push_back(loop.count);
    const bool is_nearer =
        !found.has_value() || Inversions(layout) < Inversions(*found);
    if (layout.paddings.empty() && is_nearer &&
        SidesBeyondOne(sides) == SidesBeyondOne(target)) {
      found = layout;
    }
    return true;
  });
  return found;
}

std::string NoteOf(const std::string& target, const std::string& reference,
                   const Layout& layout, bool is_other_shape) {
  if (target == reference && layout.is_same_order() && !is_other_shape) {
    return "";
  }
  std::string how = layout.is_same_order() ? "" : ", with its " + layout.text;
  if (layout.is_same_order() && is_other_shape) how = ", in another shape";
  return fmt::format("input {} is taken for {} of the reference{}",
                     Printable(target), Printable(reference), how);
}

}  // namespace

absl::StatusOr<MatchedInputs> MatchModelInputs(
    const Network& reference, const Network& target,
    absl::Span<const NDArray> given) {
  MatchedInputs matched;
  std::vector<bool> used(given.size());
  const ModelSide from(target);
  const ModelSide to(reference);
  for (size_t i = 0; i < reference.inputs().size(); ++i) {
    const NetworkValue& wanted = reference.value(reference.inputs()[i]);
    std::vector<size_t> order(given.size());
    std::iota(order.begin(), order.end(), size_t{0});
    // The input of the same name comes first, then the one in the same place,
    // then the others.
    std::ranges::stable_sort(order, {}, [&](size_t place) {
      const std::string& name = target.value(target.inputs()[place]).name;
      return name == wanted.name ? 0 : place == i ? 1 : 2;
    });
    std::optional<size_t> found;
    for (const size_t place : order) {
      if (used[place] || found.has_value()) continue;
      const bool are_floats =
          IsFloat(wanted.type.dtype) == IsFloat(given[place].dtype());
      const auto shape = ShapeFor(wanted.type, given[place]);
      if (!are_floats || !shape.has_value()) continue;
      const auto layout = LayoutOfInput(*shape, given[place].shape());
      if (!layout.has_value()) continue;
      NODEWISE_ASSIGN_OR_RETURN(
          const NDArray like,
          NDArray::Empty(*shape, wanted.type.dtype, given[place].device()));
      const ValueId id = target.inputs()[place];
      const ValuePair pair{{wanted.id, wanted.id}, {id, id}, *layout};
      NODEWISE_ASSIGN_OR_RETURN(auto tensors,
                                InFormOf(WhichModel::kReference, pair, to, from,
                                         given.subspan(place, 1), {&like, 1}));
      const std::string note =
          NoteOf(target.value(id).name, wanted.name, *layout,
                 like.shape() != given[place].shape());
      if (!note.empty()) matched.notes.push_back(note);
      matched.tensors.push_back(std::move(tensors[0]));
      matched.layouts.push_back(*layout);
      matched.places.push_back(place);
      found = place;
    }
    if (!found.has_value()) {
      return InvalidArgument(
          "input {} of the reference: the target has no input of this name or "
          "with as many elements, expected one",
          Printable(wanted.name));
    }
    used[*found] = true;
  }
  return matched;
}

}  // namespace nodewise
