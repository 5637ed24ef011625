#include "nodewise/ops/indexing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"

namespace nodewise {

using ops::ScatterReduction;
template <>
struct Words<ScatterReduction> {
  static constexpr std::pair<ScatterReduction, std::string_view> kAll[] = {
      {ScatterReduction::kNone, "none"},
      {ScatterReduction::kAdd, "add"},
      {ScatterReduction::kMul, "mul"},
      {ScatterReduction::kMax, "max"},
      {ScatterReduction::kMin, "min"}};
};

using ops::CacheMode;
template <>
struct Words<CacheMode> {
  static constexpr std::pair<CacheMode, std::string_view> kAll[] = {
      {CacheMode::kLinear, "linear"}, {CacheMode::kCircular, "circular"}};
};

namespace {

// Indices along one side of the data. An index stands for the element of the
// data at the index's own place, except that along this side the index says
// where.
struct IndicesAlong {
  absl::Span<const int64_t> shape;  // That of the indices.
  std::vector<int64_t> strides;     // Those of the data.
  size_t side;
  std::vector<int64_t> indices;

  // The indices are input 1. They may have less elements than the data along
  // the other sides, but not more.
  static absl::StatusOr<IndicesAlong> Of(const EvalArgs& args, int64_t axis) {
    const absl::Span<const int64_t> shape = args.shape(1);
    const absl::Span<const int64_t> data = args.shape(0);
    NODEWISE_ASSIGN_OR_RETURN(const size_t side, FrontAxis(data, axis));
    NODEWISE_ASSIGN_OR_RETURN(auto indices, IndicesInside(args, 1, data[side]));
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i == side || shape[i] <= data[i]) continue;
      return WrongInput(1, "side {} is {}, expected {} at most", i, shape[i],
                        data[i]);
    }
    return IndicesAlong{shape, StridesOf(data), side, std::move(indices)};
  }

  int64_t PlaceOf(int64_t i) const {
    int64_t place = indices[static_cast<size_t>(i)] * strides[side];
    for (size_t s = shape.size(); s-- > 0;) {
      if (s != side) place += i % shape[s] * strides[s];
      i /= shape[s];
    }
    return place;
  }
};

// Returns where the slice begins that a tuple of indices names; the tuple has
// an index for each of `sizes`.
absl::StatusOr<int64_t> OffsetOfTuple(const int64_t* tuple,
                                      absl::Span<const int64_t> sizes,
                                      const int64_t* strides) {
  int64_t offset = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    const auto at = IndexInside(tuple[k], sizes[k]);
    if (!at.ok()) return AtInput(1, at.status());
    offset += *at * strides[k];
  }
  return offset;
}

// Requires that two sides may be the same; the error is that of input `i`.
absl::Status RequireSameSide(const Inputs& in, size_t i, size_t side,
                             size_t other, size_t other_side) {
  const Dim expected = SideOf(in, other, other_side);
  return AtInput(i, UniteDims(SideOf(in, i, side), expected).status());
}

// The data is a list of slices along the axis, and the result a list of some of
// them, in the shape of the indices instead of the axis.
struct Gather : WithAxis<ops::Gather> {
  absl::Status Check(const Inputs& in) const {
    return All(RequireIndex(in, 1), RequireAxis(in, axis));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value() || !RankOf(in, 1).has_value()) return OfInputType(in);
    NODEWISE_ASSIGN_OR_RETURN(const int at, Axis(axis, *rank));
    const Shape& data = *in.type(0).shape;
    const Shape& indices = *in.type(1).shape;
    Shape sides(data.begin(), data.begin() + at);
    sides.insert(sides.end(), indices.begin(), indices.end());
    sides.insert(sides.end(), data.begin() + at + 1, data.end());
    NODEWISE_RETURN_IF_ERROR(CheckShape(sides));
    NODEWISE_ASSIGN_OR_RETURN(auto elements, Elements(in));
    return OfInputType(in, std::move(sides), std::move(elements));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const AxisSplit split,
                              SplitAlong(args.shape(0), axis));
    NODEWISE_ASSIGN_OR_RETURN(const auto indices,
                              IndicesInside(args, 1, split.size));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    // Slice `i` of the result is the one at an index, of slice i / count of the
    // outer sides.
    const auto count = static_cast<int64_t>(indices.size());
    const int64_t inner = split.inner;
    return MoveElements(args.in(0), y, [&](const auto* from, auto* to) {
      ParallelFor(split.outer * count, 2 + static_cast<double>(inner),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t index =
                          indices[static_cast<size_t>(i % count)];
                      const int64_t row = i / count * split.size + index;
                      std::copy_n(from + row * inner, inner, to + i * inner);
                    }
                  });
    });
  }

 private:
  // Models pick sides of a shape and calculate with them, so known elements are
  // passed on.
  static absl::StatusOr<std::optional<Shape>> Elements(const Inputs& in) {
    const auto known = KnownElements(in);
    const auto indices = in.Ints(1);
    if (!known.has_value() || !indices.has_value() || RankOf(in) != 1) {
      return std::nullopt;
    }
    Shape picked;
    for (const int64_t index : *indices) {
      const auto at = IndexInside(index, static_cast<int64_t>(known->size()));
      if (!at.ok()) return AtInput(1, at.status());
      picked.push_back((*known)[static_cast<size_t>(*at)]);
    }
    return std::optional<Shape>(std::move(picked));
  }
};

// The result has the shape of the indices: each element is read at its own
// place, but for the side of the axis, where its index says which.
struct GatherElements : WithAxis<ops::GatherElements> {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireIndex(in, 1), RequireRank(in, 0, 1, INT32_MAX)));
    const auto rank = RankOf(in);
    if (!rank.has_value()) return absl::OkStatus();
    return All(RequireRank(in, 1, *rank), RequireAxis(in, axis));
  }
  OutputInfos Infer(const Inputs& in) const {
    // If only the data is known, the rank is: both have the same.
    std::optional<Shape> sides = in.type(1).shape;
    if (!sides.has_value() && RankOf(in).has_value()) {
      sides = UnknownShape(*RankOf(in));
    }
    return OfInputType(in, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto along, IndicesAlong::Of(args, axis));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    return MoveElements(args.in(0), y, [&](const auto* from, auto* to) {
      ParallelFor(CountOf(y), 8, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = from[along.PlaceOf(i)];
      });
    });
  }
};

// Each tuple of indices names a slice of the data, and the first `batch_dims`
// sides of both are walked together. A tuple may be as long as there are sides
// left; what it does not name is copied.
struct GatherND : ops::GatherND {
  static constexpr auto Fields() {
    return FieldList(Field<&GatherND::batch_dims>("batch_dims"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireType(in, 1, kInt64),
                                 RequireRank(in, 0, 1, INT32_MAX),
                                 RequireRank(in, 1, 1, INT32_MAX)));
    // One side of each has to be left: for the tuples, and for what they name.
    const int least = std::min(RankOf(in).value_or(INT32_MAX),
                               RankOf(in, 1).value_or(INT32_MAX));
    if (batch_dims < 0 || batch_dims >= least) {
      return WrongAttribute("batch_dims", "is {}, expected 0 to {}", batch_dims,
                            least - 1);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value() || !RankOf(in, 1).has_value()) return OfInputType(in);
    const Shape& data = *in.type(0).shape;
    const Shape& indices = *in.type(1).shape;
    const Dim& depth = indices.back();
    if (!depth.is_known()) return OfInputType(in);
    if (depth.size() < 1 || depth.size() > *rank - batch_dims) {
      return WrongInput(1, "has tuples of {}, expected 1 to {}", depth.size(),
                        *rank - batch_dims);
    }
    Shape sides(indices.begin(), indices.end() - 1);
    for (size_t i = 0; i < static_cast<size_t>(batch_dims); ++i) {
      const auto both = UniteDims(sides[i], data[i]);
      if (!both.ok()) return AtInput(1, both.status());
      sides[i] = *both;
    }
    sides.insert(sides.end(), data.begin() + batch_dims + depth.size(),
                 data.end());
    return CheckedOutput(in.type(0).dtype, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const auto batch = static_cast<size_t>(batch_dims);
    const absl::Span<const int64_t> shape = args.shape(1);
    // Elements of a batch's data begin `step` after those of the batch before;
    // a slice has `inner` of them.
    const auto depth = static_cast<size_t>(shape.back());
    const int64_t tuples =
        Product(shape.subspan(batch, shape.size() - 1 - batch));
    const int64_t batches = Product(shape.first(batch));
    const int64_t step = Product(args.shape(0).subspan(batch));
    const int64_t inner = Product(args.shape(0).subspan(batch + depth));
    const std::vector<int64_t> strides = StridesOf(args.shape(0));
    const auto* tuple = args.in(1).As<int64_t>();
    const auto sizes = args.shape(0).subspan(batch, depth);
    const size_t width = ElementBytes(y.dtype());
    const size_t run = static_cast<size_t>(inner) * width;
    char* to = y.As<char>();
    // Tuples are checked even where there is nothing to copy.
    for (int64_t i = 0; i < batches * tuples; ++i, tuple += depth) {
      NODEWISE_ASSIGN_OR_RETURN(
          const int64_t offset,
          OffsetOfTuple(tuple, sizes, strides.data() + batch));
      const int64_t from = i / tuples * step + offset;
      if (run == 0) continue;
      std::memcpy(to, args.in(0).As<char>() + static_cast<size_t>(from) * width,
                  run);
      to += run;
    }
    return absl::OkStatus();
  }
};

// The first `length` steps of each sequence are turned round, what lies behind
// them stays where it is. What lies along the sides from 2 on is moved as a run
// of bytes.
struct ReverseSequence : ops::ReverseSequence, KeepsType {
  static constexpr auto Fields() {
    return FieldList(Field<&ReverseSequence::batch_axis>("batch_axis"),
                     Field<&ReverseSequence::time_axis>("time_axis"));
  }

  absl::Status Check(const Inputs& in) const {
    if (batch_axis < 0 || batch_axis > 1 || time_axis != 1 - batch_axis) {
      return WrongAttribute(
          "time_axis", "is {} and batch_axis {}, expected 0 and 1 or 1 and 0",
          time_axis, batch_axis);
    }
    return All(RequireRank(in, 0, 2, INT32_MAX), RequireType(in, 1, kInt64),
               RequireRank(in, 1, 1),
               RequireSameSide(in, 1, 0, 0, static_cast<size_t>(batch_axis)));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const auto lengths, args.Ints(1));
    const absl::Span<const int64_t> shape = args.shape(0);
    const int64_t times = shape[static_cast<size_t>(time_axis)];
    for (const int64_t length : lengths) {
      if (length >= 0 && length <= times) continue;
      return WrongInput(1, "has {}, expected 0 to {}", length, times);
    }
    const size_t run = static_cast<size_t>(Product(shape.subspan(2))) *
                       ElementBytes(y.dtype());
    if (run == 0) return absl::OkStatus();
    // Steps from one batch, and from one time, to the next, in runs.
    const int64_t batches = shape[static_cast<size_t>(batch_axis)];
    const int64_t batch_step = batch_axis == 0 ? times : 1;
    const int64_t time_step = batch_axis == 0 ? 1 : batches;
    for (int64_t i = 0; i < batches * times; ++i) {
      const int64_t length =
          lengths[static_cast<size_t>(i / batch_step % batches)];
      const int64_t time = i / time_step % times;
      const int64_t source = time < length ? length - 1 - time : time;
      const int64_t from = i + (source - time) * time_step;
      std::memcpy(y.As<char>() + static_cast<size_t>(i) * run,
                  args.in(0).As<char>() + static_cast<size_t>(from) * run, run);
    }
    return absl::OkStatus();
  }
};

// Update `i`, `run` elements long, goes to the elements from targets[i] on.
struct Targets {
  std::vector<int64_t> targets;
  int64_t run = 1;
};

template <typename T>
T Scattered(ScatterReduction reduction, T old, T update) {
  if constexpr (std::is_integral_v<T>) {
    // Without signs, so that it wraps around.
    using U = std::make_unsigned_t<T>;
    const auto a = static_cast<uint64_t>(static_cast<U>(old));
    const auto b = static_cast<uint64_t>(static_cast<U>(update));
    if (reduction == ScatterReduction::kAdd) return static_cast<T>(a + b);
    if (reduction == ScatterReduction::kMul) return static_cast<T>(a * b);
  } else {
    if (reduction == ScatterReduction::kAdd) return old + update;
    if (reduction == ScatterReduction::kMul) return old * update;
    if (std::isnan(old)) return old;
    if (std::isnan(update)) return update;
  }
  return reduction == ScatterReduction::kMax ? std::max(old, update)
                                             : std::min(old, update);
}

// Calls f(element, update) for every pair, one after the other: several may go
// to one element.
template <typename F>
void ForEachTarget(const Targets& where, F f) {
  for (size_t i = 0; i < where.targets.size(); ++i) {
    const int64_t from = static_cast<int64_t>(i) * where.run;
    for (int64_t k = 0; k < where.run; ++k) f(where.targets[i] + k, from + k);
  }
}

struct Reduced {
  std::vector<double> data;
  std::vector<double> updates;
  std::vector<double> result;
};

// Kernels round after each update. On the way to the result there may be
// numbers larger than it, or too small for the type.
void WriteBounds(ScatterReduction reduction, const Targets& where,
                 const Reduced& numbers, DLDataType dtype, Bounds* bounds) {
  const bool adds = reduction == ScatterReduction::kAdd;
  const auto size_of = [adds](double x) {
    return adds ? std::fabs(x) : std::max(std::fabs(x), 1.0);
  };
  const std::vector<double>& data = numbers.data;
  std::vector<double> count(data.size(), 0);
  std::vector<double> way(data.size());
  for (size_t i = 0; i < data.size(); ++i) way[i] = size_of(data[i]);
  ForEachTarget(where, [&](int64_t to, int64_t from) {
    const auto at = static_cast<size_t>(to);
    const double size = size_of(numbers.updates[static_cast<size_t>(from)]);
    count[at] += 1;
    way[at] = adds ? way[at] + size : way[at] * size;
  });
  // `way` is now the largest number that a kernel may meet at each element: the
  // sum of the sizes, or the product of those above 1, in any order of the
  // updates.
  const double u = UnitRoundoff(dtype);
  const double tiny = HalfUlp(dtype, 0);
  const double largest = LargestOf(dtype);
  const OverflowRule overflows(dtype);
  const bool rounds = adds || reduction == ScatterReduction::kMul;
  // Elements without an update, and those of kMax and kMin, are exact.
  bounds->proved.assign(data.size(), 0);
  for (size_t i = 0; rounds && i < data.size(); ++i) {
    if (count[i] == 0) continue;
    double& bound = bounds->proved[i];
    // The reference rounds once, too.
    bound = (count[i] + 1) * u * (adds ? way[i] : std::fabs(numbers.result[i]));
    // A product may pass through numbers that are too small for all digits, and
    // what is lost there is made larger by the factors that follow.
    if (!adds) bound += count[i] * tiny * way[i];
    if (!(way[i] <= largest)) {
      bound = overflows(way[i]) ? kAnyError : kUnknownError;
    }
  }
  bounds->expected = bounds->proved;
}

// Floats and bool: in double, rounded once. `or` and `and` are + and * of bool.
absl::Status ReduceFloats(ScatterReduction reduction, const Targets& where,
                          EvalArgs& args, const NDArray& y) {
  Reduced numbers{ToDoubles(args.in(0)), ToDoubles(args.in(2)), {}};
  numbers.result = numbers.data;
  ForEachTarget(where, [&](int64_t to, int64_t from) {
    double& element = numbers.result[static_cast<size_t>(to)];
    element = Scattered(reduction, element,
                        numbers.updates[static_cast<size_t>(from)]);
  });
  StoreDoubles(numbers.result.data(), 0, CountOf(y), y);
  if (Bounds* const bounds = args.bounds(0)) {
    WriteBounds(reduction, where, numbers, y.dtype(), bounds);
  }
  return absl::OkStatus();
}

// Makes output 0 of the data and the updates. Without a reduction elements are
// only moved, so their type does not matter but for its size; of several
// updates of one element the last one stays.
absl::Status ScatterInto(ScatterReduction reduction, const Targets& where,
                         EvalArgs& args) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  if (reduction != ScatterReduction::kNone && !IsInteger(y.dtype())) {
    return ReduceFloats(reduction, where, args, y);
  }
  CopyAll(args.in(0), y);
  if (Bounds* const bounds = args.bounds(0)) ResizeBounds(CountOf(y), bounds);
  // Updates are written one after the other, in their order, since several may
  // go to one element.
  const auto write = [&](auto zero, auto f) {
    using T = decltype(zero);
    T* const to = y.As<T>();
    const T* const updates = args.in(2).As<T>();
    ForEachTarget(where, [&](int64_t element, int64_t from) {
      to[element] = f(to[element], updates[from]);
    });
  };
  if (reduction == ScatterReduction::kNone) {
    return WithSize(y.dtype(), [&](auto zero) {
      write(zero, [](auto, auto update) { return update; });
    });
  }
  return WithInteger(y.dtype(), [&](auto zero) {
    write(zero, [reduction](auto old, auto update) {
      return Scattered(reduction, old, update);
    });
  });
}

// The updates are of the type of the data, which may not be known yet.
OutputInfos LikeData(const Inputs& in) {
  TensorType type = in.type(0);
  if (!type.has_dtype()) type.dtype = in.type(2).dtype;
  return {std::move(type)};
}

absl::Status CheckTypes(const Inputs& in, size_t updates) {
  if (!in.type(0).has_dtype()) return absl::OkStatus();
  return RequireType(in, updates, in.type(0).dtype);
}

// Scatter is the older name of ScatterElements.
template <typename Class>
struct ScatterAlongAxis : Class {
  using Class::axis;

  static constexpr auto Fields() {
    return FieldList(Field<&Class::axis>("axis"),
                     Field<&Class::reduction>("reduction"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireIndex(in, 1), CheckTypes(in, 2),
                                 RequireRank(in, 0, 1, INT32_MAX)));
    if (const auto rank = RankOf(in)) {
      NODEWISE_RETURN_IF_ERROR(All(RequireRank(in, 1, *rank),
                                   RequireRank(in, 2, *rank),
                                   RequireAxis(in, axis)));
    }
    if (!RankOf(in, 1).has_value() || RankOf(in, 1) != RankOf(in, 2)) {
      return absl::OkStatus();
    }
    for (size_t i = 0; i < in.type(1).shape->size(); ++i) {
      NODEWISE_RETURN_IF_ERROR(RequireSameSide(in, 2, i, 1, i));
    }
    return absl::OkStatus();
  }
  OutputInfos Infer(const Inputs& in) const { return LikeData(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(auto along, IndicesAlong::Of(args, axis));
    // The indices become the targets in their own memory.
    for (size_t i = 0; i < along.indices.size(); ++i) {
      along.indices[i] = along.PlaceOf(static_cast<int64_t>(i));
    }
    return ScatterInto(this->reduction, {std::move(along.indices)}, args);
  }
};

struct ScatterND : ops::ScatterND {
  static constexpr auto Fields() {
    return FieldList(Field<&ScatterND::reduction>("reduction"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireType(in, 1, kInt64), CheckTypes(in, 2),
                                 RequireRank(in, 0, 1, INT32_MAX),
                                 RequireRank(in, 1, 1, INT32_MAX)));
    const auto rank = RankOf(in);
    const auto indices = RankOf(in, 1);
    if (!rank.has_value() || !indices.has_value()) return absl::OkStatus();
    const Dim& depth = in.type(1).shape->back();
    if (!depth.is_known()) return absl::OkStatus();
    if (depth.size() < 1 || depth.size() > *rank) {
      return WrongInput(1, "has tuples of {}, expected 1 to {}", depth.size(),
                        *rank);
    }
    // The updates have the sides of the indices but for the tuples, then those
    // sides of the data that a tuple does not name.
    const int expected = *indices + *rank - static_cast<int>(depth.size()) - 1;
    NODEWISE_RETURN_IF_ERROR(RequireRank(in, 2, expected));
    for (int i = 0; RankOf(in, 2).has_value() && i < expected; ++i) {
      const bool is_tuple = i < *indices - 1;
      const int k =
          is_tuple ? i : i - (*indices - 1) + static_cast<int>(depth.size());
      NODEWISE_RETURN_IF_ERROR(RequireSameSide(in, 2, static_cast<size_t>(i),
                                               is_tuple ? 1 : 0,
                                               static_cast<size_t>(k)));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    // A shape may be built by writing sides into a list, so known elements are
    // passed on.
    OutputInfos infos = LikeData(in);
    std::optional<Shape> elements = KnownElements(in);
    const auto indices = in.Ints(1);
    const auto updates = KnownElements(in, 2);
    if (!elements.has_value() || !indices.has_value() || !updates.has_value() ||
        RankOf(in) != 1 || reduction != ScatterReduction::kNone ||
        updates->size() != indices->size()) {
      return infos;
    }
    for (size_t i = 0; i < indices->size(); ++i) {
      const auto at =
          IndexInside((*indices)[i], static_cast<int64_t>(elements->size()));
      if (!at.ok()) return AtInput(1, at.status());
      (*elements)[static_cast<size_t>(*at)] = (*updates)[i];
    }
    infos[0].elements = std::move(elements);
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const absl::Span<const int64_t> data = args.shape(0);
    const auto depth = static_cast<size_t>(args.shape(1).back());
    const std::vector<int64_t> strides = StridesOf(data);
    // An update is a whole slice of what a tuple does not name.
    Targets where{{}, Product(data.subspan(depth))};
    const absl::Span<const int64_t> shape = args.shape(1);
    where.targets.resize(
        static_cast<size_t>(Product(shape.first(shape.size() - 1))));
    const auto* tuple = args.in(1).As<int64_t>();
    for (int64_t& target : where.targets) {
      NODEWISE_ASSIGN_OR_RETURN(
          target, OffsetOfTuple(tuple, data.first(depth), strides.data()));
      tuple += depth;
    }
    return ScatterInto(reduction, where, args);
  }
};

// Writes what new tokens add to the keys or values of an attention, at the
// place where each item of the batch has got to; the cache is a ring if it is
// circular.
struct TensorScatter : ops::TensorScatter, KeepsType {
  static constexpr auto Fields() {
    return FieldList(Field<&TensorScatter::axis>("axis"),
                     Field<&TensorScatter::mode>("mode"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(CheckTypes(in, 1), RequireType(in, 2, kInt64),
                                 RequireRank(in, 2, 1),
                                 RequireRank(in, 0, 2, INT32_MAX)));
    const auto rank = RankOf(in);
    if (!rank.has_value()) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(RequireRank(in, 1, *rank));
    NODEWISE_ASSIGN_OR_RETURN(const int at, Axis(axis, *rank));
    // Each item of the batch has its own place in its own cache.
    if (at == 0) return AttributeError("axis", "is 0, which is the batch");
    if (!RankOf(in, 1).has_value()) return absl::OkStatus();
    for (int i = 0; i < *rank; ++i) {
      const Dim cache = SideOf(in, 0, static_cast<size_t>(i));
      const Dim update = SideOf(in, 1, static_cast<size_t>(i));
      if (!cache.is_known() || !update.is_known()) continue;
      const bool fits = i == at ? update.size() <= cache.size()
                                : update.size() == cache.size();
      if (!fits) {
        return WrongInput(1, "side {} is {} against the cache's {}", i,
                          update.size(), cache.size());
      }
    }
    return RequireSameSide(in, 2, 0, 0, 0);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const AxisSplit cache,
                              SplitAlong(args.shape(0), axis));
    const AxisSplit update =
        SplitAt(args.shape(1), static_cast<int>(cache.axis));
    std::vector<int64_t> first(static_cast<size_t>(args.shape(0)[0]), 0);
    if (args.has(2)) {
      NODEWISE_ASSIGN_OR_RETURN(first, args.Ints(2));
    }
    for (const int64_t index : first) {
      // A circular cache takes any place.
      const bool is_inside = index >= 0 && (mode == CacheMode::kCircular ||
                                            index <= cache.size - update.size);
      if (!is_inside) {
        return WrongInput(2, "has {}, expected 0 to {}", index,
                          cache.size - update.size);
      }
    }
    CopyAll(args.in(0), y);
    if (CountOf(args.in(1)) == 0) return absl::OkStatus();
    // The rows of an item of the batch begin at its own index. An empty update
    // may come with an empty batch, by which nothing can be divided.
    const int64_t rows = cache.outer / args.shape(0)[0];
    const size_t run =
        static_cast<size_t>(cache.inner) * ElementBytes(y.dtype());
    const char* from = args.in(1).As<char>();
    for (int64_t i = 0; i < cache.outer * update.size; ++i) {
      const int64_t row = i / update.size;
      const int64_t begin = first[static_cast<size_t>(row / rows)] % cache.size;
      const int64_t to = (begin + i % update.size) % cache.size;
      std::memcpy(
          y.As<char>() + static_cast<size_t>(row * cache.size + to) * run, from,
          run);
      from += run;
    }
    return absl::OkStatus();
  }
};

constexpr OperatorDef kIndexingRows[] = {
    Row<ops::Gather, Gather>("Gather", 1, {"data", "indices"}, {"output"}),
    Row<ops::GatherElements, GatherElements>("GatherElements", 11,
                                             {"data", "indices"}, {"output"}),
    Row<ops::GatherND, GatherND>("GatherND", 11, {"data", "indices"},
                                 {"output"}),
    Row<ops::ReverseSequence, ReverseSequence>(
        "ReverseSequence", 10, {"input", "sequence_lens"}, {"Y"}),
    Row<ops::Scatter, ScatterAlongAxis<ops::Scatter>>(
        "Scatter", 9, {"data", "indices", "updates"}, {"output"}, kSum),
    Row<ops::ScatterElements, ScatterAlongAxis<ops::ScatterElements>>(
        "ScatterElements", 11, {"data", "indices", "updates"}, {"output"},
        kSum),
    Row<ops::ScatterND, ScatterND>(
        "ScatterND", 11, {"data", "indices", "updates"}, {"output"}, kSum),
    Row<ops::TensorScatter, TensorScatter>(
        "TensorScatter", 24,
        {"past_cache", "update", Optional("write_indices")}, {"present_cache"}),
};

}  // namespace

absl::Span<const OperatorDef> IndexingOperators() { return kIndexingRows; }

}  // namespace nodewise
