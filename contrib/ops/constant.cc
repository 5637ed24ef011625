#include "nodewise/ops/constant.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

template <typename T>
absl::StatusOr<NDArray> TensorOf(absl::Span<const T> values, int rank = 1) {
  std::vector<int64_t> shape(static_cast<size_t>(rank),
                             static_cast<int64_t>(values.size()));
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray tensor,
      NDArray::Empty(shape, std::is_same_v<T, float> ? kFloat32 : kInt64,
                     kCpu));
  std::copy(values.begin(), values.end(), tensor.As<T>());
  return tensor;
}

struct Constant : ops::Constant {
  static constexpr auto Fields() {
    return FieldList(Field<&Constant::value>("value"),
                     Field<&Constant::value_float>("value_float"),
                     Field<&Constant::value_floats>("value_floats"),
                     Field<&Constant::value_int>("value_int"),
                     Field<&Constant::value_ints>("value_ints"));
  }

  absl::Status Check(const Inputs&) const {
    const int given = value.has_value() + value_float.has_value() +
                      value_floats.has_value() + value_int.has_value() +
                      value_ints.has_value();
    if (given == 1) return absl::OkStatus();
    return InvalidArgument("has {} values, expected exactly one", given);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs&) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor, Tensor());
    const TensorType type = TensorType::From(*tensor);
    return OneOutput(type.dtype, type.shape, ElementsOf(tensor));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, Tensor());
    args.SetOutput(0, std::move(tensor));
    return absl::OkStatus();
  }

 private:
  // Check() has seen that exactly one form is given. The tensor itself is
  // shared; a number, or a list of numbers, becomes a tensor of rank 0 or 1.
  absl::StatusOr<NDArray> Tensor() const {
    if (value.has_value() && value->defined()) return *value;
    if (value_float.has_value()) return TensorOf<float>({&*value_float, 1}, 0);
    if (value_floats.has_value()) return TensorOf<float>(*value_floats);
    if (value_int.has_value()) return TensorOf<int64_t>({&*value_int, 1}, 0);
    if (value_ints.has_value()) return TensorOf<int64_t>(*value_ints);
    return InvalidArgument("has no value");
  }
};

// The value may be of a type that no operator calculates with, since it is only
// copied.
struct ConstantOfShape : ops::ConstantOfShape {
  static constexpr auto Fields() {
    return FieldList(Field<&ConstantOfShape::value>("value"));
  }

  absl::Status Check(const Inputs& in) const {
    // Any type that numbers can be read from, short ones too.
    const auto is_number = [](DLDataType dtype) {
      return IsConverted(dtype) || WithType(dtype, [](auto) {}).ok();
    };
    if (value.has_value() && (!value->defined() || CountOf(*value) != 1 ||
                              !is_number(value->dtype()))) {
      return AttributeError("value", "is not one number");
    }
    return All(RequireType(in, 0, kInt64), RequireRank(in, 0, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = value.has_value() ? value->dtype() : kFloat32;
    auto shape = ShapeFromInput(in, 0);
    if (!shape.has_value()) return OneOutput(dtype, std::nullopt);
    NODEWISE_RETURN_IF_ERROR(AtInput(0, CheckShape(*shape)));
    std::optional<Shape> elements = Elements(*shape);
    return OneOutput(dtype, std::move(shape), std::move(elements));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    // A zero of any type has no bit set.
    const uint64_t zero = 0;
    FillWith(y, value.has_value() ? value->data() : &zero);
    return absl::OkStatus();
  }

 private:
  // A constant list is often the target shape of an Expand.
  std::optional<Shape> Elements(const Shape& shape) const {
    if (!value.has_value() || shape.size() > 1) return std::nullopt;
    auto one = ElementsOf(*value);
    if (!one.has_value() || one->size() != 1) return std::nullopt;
    if (shape.empty()) return one;
    if (!shape[0].is_known() ||
        shape[0].size() > static_cast<int64_t>(kMostElements)) {
      return std::nullopt;
    }
    return Shape(static_cast<size_t>(shape[0].size()), (*one)[0]);
  }
};

// How many elements there are can be told where all three inputs are constant,
// and for integers even where they are sides of shapes.
struct Range : ops::Range {
  static constexpr auto Fields() {
    return FieldList(Field<&Range::stash_type>("stash_type"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireNumber(in, 0), RequireSameType(in),
               RequireRank(in, 0, 0, 1), RequireRank(in, 1, 0, 1),
               RequireRank(in, 2, 0, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    // The first input whose type is known tells that of all.
    DLDataType dtype{};
    for (size_t i = 0; i < 3 && dtype.bits == 0; ++i) dtype = in.type(i).dtype;
    // Integers that are known need not be constants: they may be sides.
    const auto start = in.Ints(0);
    const auto limit = in.Ints(1);
    const auto delta = in.Ints(2);
    if (IsFloat(dtype) || !start || !limit || !delta) {
      const auto a = OneNumber(in, 0);
      const auto b = OneNumber(in, 1);
      const auto c = OneNumber(in, 2);
      if (!a || !b || !c) return OneOutput(dtype, UnknownShape(1));
      NODEWISE_ASSIGN_OR_RETURN(const int64_t count, CountFloats(*a, *b, *c));
      return OneOutput(dtype, Shape{count});
    }
    if (start->size() != 1 || limit->size() != 1 || delta->size() != 1) {
      return InvalidArgument("start, limit, delta: are not scalars");
    }
    NODEWISE_ASSIGN_OR_RETURN(const int64_t count,
                              CountInts((*start)[0], (*limit)[0], (*delta)[0]));
    // Models make masks and positions of such ranges, so elements are passed
    // on.
    std::optional<Shape> elements;
    if (count <= static_cast<int64_t>(kMostElements)) {
      elements.emplace();
      for (int64_t i = 0; i < count; ++i) {
        elements->emplace_back(NumberAt(i, (*start)[0], (*delta)[0]));
      }
    }
    return OneOutput(dtype, Shape{count}, std::move(elements));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    return WithWide(y.dtype(), [&](auto start) {
      auto delta = start;
      // The limit has done its part in the number of elements.
      LoadWide(args.in(0), 0, 1, &start);
      LoadWide(args.in(2), 0, 1, &delta);
      Fill(start, delta, y);
      if (Bounds* const bounds = args.bounds(0)) {
        FillBounds(static_cast<double>(start), static_cast<double>(delta), y,
                   bounds);
      }
    });
  }

 private:
  static absl::StatusOr<int64_t> CountFloats(double start, double limit,
                                             double delta) {
    // NaN is not below the limit either. The limit fits into an int64_t.
    const double count = std::ceil((limit - start) / delta);
    constexpr double kMost = 0x1p62;
    if (delta == 0 || !(count < kMost)) {
      return InvalidArgument("{:g} to {:g} in steps of {:g} has no end", start,
                             limit, delta);
    }
    return count > 0 ? static_cast<int64_t>(count) : 0;
  }
  static absl::StatusOr<int64_t> CountInts(int64_t start, int64_t limit,
                                           int64_t delta) {
    if (delta == 0) {
      return InvalidArgument("{} to {} in steps of 0 has no end", start, limit);
    }
    // The way between two integers of 64 bits, and the sum with a step, need
    // more bits. The quotient is rounded up.
    const __int128 way = static_cast<__int128>(limit) - start;
    const __int128 step = delta;
    if (way == 0 || (way < 0) != (step < 0)) return 0;
    const __int128 count = (way + step + (step < 0 ? 1 : -1)) / step;
    if (count > INT64_MAX) {
      return InvalidArgument("has more elements than can be");
    }
    return static_cast<int64_t>(count);
  }

  // Each element is calculated from the start: adding step by step would add up
  // roundings.
  static double NumberAt(int64_t i, double start, double delta) {
    return start + static_cast<double>(i) * delta;
  }
  // Modulo 2^64, since the product alone may be too large.
  template <typename W>
  static W NumberAt(int64_t i, W start, W delta) {
    return static_cast<W>(static_cast<uint64_t>(start) +
                          static_cast<uint64_t>(i) *
                              static_cast<uint64_t>(delta));
  }

  template <typename W>
  static void Fill(W start, W delta, const NDArray& y) {
    ParallelFor(CountOf(y), 2, [&](int64_t begin, int64_t end) {
      W block[kWideBlock];
      for (int64_t at = begin; at < end; at += kWideBlock) {
        const int64_t next = std::min(at + kWideBlock, end);
        for (int64_t i = at; i < next; ++i) {
          block[i - at] = NumberAt(i, start, delta);
        }
        StoreWide(block, at, next, y);
      }
    });
  }

  // Kernels that add step by step are off by one rounding for each, and all
  // roundings of a step may go the same way.
  static void FillBounds(double start, double delta, const NDArray& y,
                         Bounds* bounds) {
    const double u = UnitRoundoff(y.dtype());
    bounds->proved.resize(static_cast<size_t>(CountOf(y)));
    for (size_t i = 0; i < bounds->proved.size(); ++i) {
      const auto n = static_cast<double>(i);
      bounds->proved[i] =
          (n + 1) * u * (std::fabs(start) + n * std::fabs(delta));
    }
    bounds->expected = bounds->proved;
  }
};

// Input 2 holds the value elsewhere and the value at the index, in this order,
// of any type: both are copied as bytes. An index outside leaves its line off.
struct OneHot : WithAxis<ops::OneHot> {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireNumber(in, 0), RequireNumber(in, 1),
                                 RequireRank(in, 1, 0, 1),
                                 RequireRank(in, 2, 1)));
    const Dim values = SideOf(in, 2, 0);
    if (values.is_known() && values != Dim(2)) {
      return WrongInput(2, "has {} elements, expected 2", values.size());
    }
    return RequireAxis(in, axis, 1);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(2).dtype;
    const auto rank = RankOf(in);
    if (!rank.has_value()) return OneOutput(dtype, std::nullopt);
    NODEWISE_ASSIGN_OR_RETURN(const int at, Axis(axis, *rank + 1));
    // The depth may be of any number type, one number of rank 0 or 1.
    Dim depth;
    if (const auto known = OneInt(in, 1)) depth = *known;
    if (depth.is_known() && depth.size() < 0) {
      return WrongInput(1, "is {}, expected 0 or more", depth.size());
    }
    Shape sides = *in.type(0).shape;
    sides.insert(sides.begin() + at, depth);
    return CheckedOutput(dtype, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const auto split, SplitAlong(y.shape(), axis));
    FillWith(y, args.in(2).data());
    const size_t width = ElementBytes(y.dtype());
    const char* const on = args.in(2).As<char>() + width;
    return WithWide(args.dtype(0), [&](auto zero) {
      std::vector<decltype(zero)> copy;
      const auto* const indices = WideElements(args.in(0), &copy);
      for (int64_t i = 0; i < CountOf(args.in(0)); ++i) {
        const int64_t index = IndexOf(indices[i]);
        if (index < -split.size || index >= split.size) continue;
        const int64_t inside = index < 0 ? index + split.size : index;
        const int64_t to =
            (i / split.inner * split.size + inside) * split.inner +
            i % split.inner;
        std::memcpy(y.As<char>() + static_cast<size_t>(to) * width, on, width);
      }
    });
  }

 private:
  // An index that does not fit becomes one that is outside.
  template <typename T>
  static int64_t IndexOf(T value) {
    if constexpr (std::is_same_v<T, uint64_t>) {
      return value > INT64_MAX ? INT64_MAX : static_cast<int64_t>(value);
    } else if constexpr (std::is_integral_v<T>) {
      return value;
    } else {
      return FromDouble<int64_t>(ToDouble(value));
    }
  }
};

// Ones are stored one by one, with a look at the type for each: there are few
// of them.
struct EyeLike : ops::EyeLike {
  static constexpr auto Fields() {
    return FieldList(Field<&EyeLike::dtype>("dtype"), Field<&EyeLike::k>("k"));
  }

  absl::Status Check(const Inputs& in) const { return RequireRank(in, 0, 2); }
  OutputInfos Infer(const Inputs& in) const {
    return OneOutput(dtype.value_or(in.type(0).dtype),
                     Shape{SideOf(in, 0, 0), SideOf(in, 0, 1)});
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const int64_t columns = y.shape()[1];
    const int64_t rows = y.shape()[0];
    const uint64_t zeros = 0;
    FillWith(y, &zeros);
    if (k <= -rows || k >= columns) return absl::OkStatus();
    const double one = 1;
    const int64_t first = std::max<int64_t>(0, -k);
    for (int64_t i = first; i < rows && i + k < columns; ++i) {
      const int64_t at = i * columns + i + k;
      StoreDoubles(&one, at, at + 1, y);
    }
    return absl::OkStatus();
  }
};

// Each row keeps a part that begins, or ends, at the diagonal. Elements are
// only moved, so their type does not matter but for its size.
struct Trilu : ops::Trilu, KeepsType {
  static constexpr auto Fields() {
    return FieldList(Field<&Trilu::upper>("upper"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireRank(in, 0, 2, INT32_MAX), RequireType(in, 1, kInt64),
               RequireRank(in, 1, 0, 1));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const size_t rank = y.shape().size();
    const int64_t rows = y.shape()[rank - 2];
    const int64_t columns = y.shape()[rank - 1];
    int64_t k = 0;
    if (args.has(1)) {
      NODEWISE_ASSIGN_OR_RETURN(const auto given, args.Ints(1));
      if (given.size() != 1) return InputError(1, "is not one number");
      // A diagonal further away changes nothing more, and sums with it would
      // overflow.
      k = std::clamp(given[0], -rows, columns);
    }
    // Without columns the division below would be one by 0.
    if (columns <= 0) return absl::OkStatus();
    return MoveElements(args.in(0), y, [&](const auto* from, auto* to) {
      const int64_t lines = CountOf(y) / columns;
      for (int64_t line = 0; line < lines; ++line) {
        // Elements [begin, end) of this row stay.
        const int64_t diagonal = line % rows + k;
        const int64_t begin =
            upper ? std::clamp<int64_t>(diagonal, 0, columns) : 0;
        const int64_t end =
            upper ? columns : std::clamp<int64_t>(diagonal + 1, 0, columns);
        std::fill_n(to, columns, 0);
        std::copy(from + begin, from + end, to + begin);
        from += columns;
        to += columns;
      }
    });
  }
};

constexpr OperatorDef kConstantRows[] = {
    Row<ops::Constant, Constant>("Constant", 1, {}, {"output"}),
    Row<ops::ConstantOfShape, ConstantOfShape>("ConstantOfShape", 9, {"input"},
                                               {"output"}),
    Row<ops::Range, Range>("Range", 11, {"start", "limit", "delta"}, {"output"},
                           kSum),
    Row<ops::OneHot, OneHot>("OneHot", 9, {"indices", "depth", "values"},
                             {"output"}),
    Row<ops::EyeLike, EyeLike>("EyeLike", 9, {"input"}, {"output"}),
    Row<ops::Trilu, Trilu>("Trilu", 14, {"input", Optional("k")}, {"output"}),
};

}  // namespace

absl::Span<const OperatorDef> ConstantOperators() { return kConstantRows; }

}  // namespace nodewise
