#include "contrib/lab/gradient/writer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise::gradient {
namespace {

// Elements of constants that are calculated beforehand. The limit bounds the
// work and what the network holds; indices and conditions of larger tensors are
// calculated whenever the network runs.
constexpr int64_t kMostFolded = 1 << 14;

}  // namespace

DLDataType Term::dtype() const {
  if (!is_given()) return kFloat32;
  return writer_->network().value(id_).type.dtype;
}

Sizes Term::sizes() const {
  if (!is_given()) return {};
  const NetworkValue& value = writer_->network().value(id_);
  auto sizes = value.type.sizes();
  if (!sizes.has_value()) {
    writer_->Fail(FailedPrecondition(
        "value {}: is {}, expected known sizes (bind them first)",
        Shortened(value.name), ToString(value.type)));
    return {};
  }
  return *std::move(sizes);
}

bool Term::has_known_sizes() const {
  return is_given() && writer_->network().value(id_).type.sizes().has_value();
}

std::vector<ValueId> Writer::IdsOf(const Terms& terms) {
  std::vector<ValueId> ids(terms.size());
  std::ranges::transform(terms, ids.begin(), &Term::id);
  return ids;
}

// A network of an older opset gets the row that holds in it, as long as that
// row has the same attributes.
const OperatorDef* Writer::RowOf(const OperatorDef* newest) const {
  const OperatorDef* const held = AllOperators().Find(
      newest->domain, newest->name, network_.opset(newest->domain));
  return held != nullptr && held->type == newest->type ? held : newest;
}

Terms Writer::AddLike(const OpAttrs& attrs, const Terms& inputs, size_t count) {
  Terms outputs(count, Term(this, kNoValue));
  if (!status_.ok()) return outputs;
  const Term known = count == 1 ? Folded(attrs, inputs) : Term();
  if (known.is_given()) return {known};
  NewOperation operation{attrs, IdsOf(inputs)};
  // The number of values so far makes most names free at once, so that FreeName
  // does not count up from 2 for each of many operations of one kind.
  const std::string stem =
      fmt::format("{}_{}", attrs.def().name, network_.data().values.size());
  for (size_t i = 0; i < count; ++i) {
    operation.outputs.push_back(
        FreeName(network_, fmt::format("{}_of_gradient_{}", stem, i)));
  }
  const auto id = network_.AddOperation(std::move(operation));
  Fail(id.status());
  if (!id.ok()) return outputs;
  for (size_t i = 0; i < count; ++i) {
    outputs[i] = TermOf(network_.operation(*id).outputs[i]);
  }
  return outputs;
}

// Integers and truth values are exact in every runtime. A float would be
// rounded here as the reference rounds, which a runtime that the gradient tests
// need not do.
Term Writer::Folded(const OpAttrs& attrs, const Terms& inputs) {
  Tensors tensors;
  bool is_known = attrs.defined() && !inputs.empty();
  for (const Term& term : inputs) {
    tensors.emplace_back();
    if (!term.is_given()) continue;
    const NDArray& data = network_.value(term.id()).data;
    is_known = is_known && data.defined() && CountOf(data) <= kMostFolded;
    tensors.back() = data;
  }
  if (!is_known) return {};
  const bool wanted[] = {true};
  const auto made = Evaluate(attrs, std::move(tensors), wanted);
  if (!made.ok()) return {};
  const NDArray& data = made->outputs[0];
  if (IsFloat(data.dtype()) || CountOf(data) > kMostFolded) return {};
  return Constant(data);
}

Term Writer::Constant(absl::StatusOr<NDArray> data) {
  Fail(data.status());
  if (!status_.ok()) return {this, kNoValue};
  return TermOf(network_.AddConstant("", *std::move(data)));
}

Term Writer::Numbers(const std::vector<double>& numbers, DLDataType dtype,
                     const Sizes& sizes) {
  auto data = NDArray::Empty(sizes, dtype, kCpu);
  if (data.ok()) StoreDoubles(numbers.data(), 0, std::ssize(numbers), *data);
  return Constant(std::move(data));
}

Term Writer::Number(double number, DLDataType dtype) {
  return Numbers({number}, dtype, {});
}

Term Writer::Filled(double number, DLDataType dtype, const Sizes& sizes) {
  const auto count = static_cast<size_t>(Product(sizes));
  return Numbers(std::vector<double>(count, number), dtype, sizes);
}

// Not by way of doubles, which do not hold every int64.
Term Writer::Ints(const Sizes& numbers) {
  auto data = NDArray::Empty({std::ssize(numbers)}, kInt64, kCpu);
  if (data.ok()) std::ranges::copy(numbers, data->As<int64_t>());
  return Constant(std::move(data));
}

Term ReshapeTo(Term x, const Sizes& sizes) {
  if (x.sizes() == sizes) return x;
  // A size of 0 means an empty side: without the switch it would stand for the
  // old side at that place.
  const ops::Reshape reshape{std::ranges::count(sizes, 0) > 0};
  return Apply(reshape, x, x.writer().Ints(sizes));
}

Term Flattened(Term x) {
  if (x.has_known_sizes()) return ReshapeTo(x, {x.count()});
  return Apply(ops::Reshape{}, x, x.writer().Ints({-1}));
}

Term ExpandTo(Term x, const Sizes& sizes) {
  if (x.sizes() == sizes) return x;
  return Apply(ops::Expand{}, x, x.writer().Ints(sizes));
}

// An order that is sorted leaves all sides where they are.
Term Transposed(Term x, const Sizes& order) {
  if (std::ranges::is_sorted(order)) return x;
  return Apply(ops::Transpose{order}, x);
}

Term SwapLast(Term x) {
  Sizes order = Counting(0, x.rank());
  if (order.size() > 1) std::swap(order.back(), order[order.size() - 2]);
  return Transposed(x, order);
}

// A part that is the whole needs no operation.
Term Part(Term x, int64_t axis, int64_t begin, int64_t end) {
  const Sizes sizes = x.sizes();
  if (sizes.empty()) return x;
  if (begin == 0 && end == sizes[static_cast<size_t>(axis)]) return x;
  Writer& writer = x.writer();
  return writer.Add(ops::Slice{}, {x, writer.Ints({begin}), writer.Ints({end}),
                                   writer.Ints({axis})});
}

Term ItemAt(Term x, int64_t axis, int64_t index) {
  const Term part = Part(x, axis, index, index + 1);
  Sizes sizes = part.sizes();
  if (sizes.empty()) return part;
  sizes.erase(sizes.begin() + axis);
  return ReshapeTo(part, sizes);
}

// One part is the whole, for which a Split would be an operation too many.
Terms EqualParts(Term x, int64_t axis, int64_t count) {
  const Sizes sizes = x.sizes();
  if (count == 1 || sizes.empty()) {
    return Terms(static_cast<size_t>(count), x);
  }
  Writer& writer = x.writer();
  const Sizes lengths(static_cast<size_t>(count),
                      sizes[static_cast<size_t>(axis)] / count);
  return writer.AddAll(ops::Split{axis, {}}, {x, writer.Ints(lengths)},
                       lengths.size());
}

// Sides are compared from the last one on, as broadcasting does: the first
// `more` of x have no side to go to, and the others are summed where the wanted
// side is 1. A side of 1 that stays is in no sum, for which there would be an
// operation too many.
Term SumTo(Term x, const Sizes& sizes) {
  const Sizes from = x.sizes();
  if (from == sizes) return x;
  if (from.size() < sizes.size()) return ExpandTo(x, sizes);
  const size_t more = from.size() - sizes.size();
  Sizes axes;
  Sizes left = from;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i >= more && (sizes[i - more] != 1 || from[i] == 1)) continue;
    axes.push_back(static_cast<int64_t>(i));
    left[i] = 1;
  }
  left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(more));
  return ExpandTo(ReshapeTo(SumOver(x, axes), left), sizes);
}

Term ScatterAdded(Term indices, Term updates, const Sizes& sizes) {
  Writer& writer = updates.writer();
  const ops::ScatterElements scatter{0, ops::ScatterReduction::kAdd};
  const Term added =
      writer.Add(scatter, {writer.Filled(0, updates.dtype(), {Product(sizes)}),
                           Flattened(indices), Flattened(updates)});
  return ReshapeTo(added, sizes);
}

// A scatter that replaces: no two updates may name one element.
Term PutInto(const Sizes& sizes, int64_t axis, Term indices, Term updates) {
  Writer& writer = updates.writer();
  return writer.Add(
      ops::ScatterElements{axis},
      {writer.Filled(0, updates.dtype(), sizes), indices, updates});
}

// Gradients are networks of which gradients are made again, so a name of this
// kind may be taken already.
std::string FreeName(const Network& network, const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; network.HasValue(name); ++i) {
    name = fmt::format("{}_{}", wanted, i);
  }
  return name;
}

Sizes Counting(int64_t begin, int64_t end) {
  Sizes numbers(static_cast<size_t>(std::max<int64_t>(end - begin, 0)));
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

Sizes AxesBesideChannels(int64_t rank) {
  Sizes axes = Counting(0, rank);
  if (axes.size() > 1) axes.erase(axes.begin() + 1);
  return axes;
}

Sizes LineAlong(size_t count, int64_t axis, int64_t size) {
  Sizes line(count, 1);
  line[static_cast<size_t>(axis)] = size;
  return line;
}

}  // namespace nodewise::gradient
