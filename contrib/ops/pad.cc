#include "nodewise/ops/pad.h"

#include <algorithm>
#include <cstring>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/support/status.h"

namespace nodewise {

using ops::PadMode;
template <>
struct Words<PadMode> {
  static constexpr std::pair<PadMode, std::string_view> kAll[] = {
      {PadMode::kConstant, "constant"},
      {PadMode::kReflect, "reflect"},
      {PadMode::kEdge, "edge"},
      {PadMode::kWrap, "wrap"}};
};

using ops::DepthOrder;
template <>
struct Words<DepthOrder> {
  static constexpr std::pair<DepthOrder, std::string_view> kAll[] = {
      {DepthOrder::kDepthColumnRow, "DCR"},
      {DepthOrder::kColumnRowDepth, "CRD"}};
};

namespace {

constexpr int64_t kOutside = -1;

// Which element of the input each element of one side of the output is.
// Negative pads cut off first, then what is left is padded.
struct SideMap {
  std::vector<int64_t> from;  // kOutside where the constant goes.
  // Elements [begin, end) are the input's, one after the other.
  int64_t begin = 0;
  int64_t end = 0;
};

// `i` counts from the first of the `n` elements kept. The ends are not
// repeated, so that all comes again after 2 (n - 1) elements.
int64_t Reflected(int64_t i, int64_t n) {
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1);
  const int64_t at = ((i % period) + period) % period;
  return at < n ? at : period - at;
}

absl::StatusOr<SideMap> MapSide(PadMode mode, int64_t size, int64_t before,
                                int64_t after) {
  const int64_t out = size + before + after;
  // `first` of the elements are cut off in front, and `n` are left.
  const int64_t first = std::max<int64_t>(0, -before);
  const int64_t n =
      std::max<int64_t>(0, size - first - std::max<int64_t>(0, -after));
  if (n == 0 && out > 0 && mode != PadMode::kConstant) {
    return InvalidArgument("nothing is left of a side to be padded with");
  }
  SideMap map;
  map.from.resize(static_cast<size_t>(out));
  const int64_t shift = std::max<int64_t>(0, before);
  map.begin = std::min(shift, out);
  map.end = std::min(shift + n, out);
  for (int64_t o = 0; o < out; ++o) {
    // Padding repeats what is left after the cut, so `i` counts from the first
    // element that is kept.
    int64_t i = o - shift;
    if (i < 0 || i >= n) {
      if (mode == PadMode::kConstant) i = kOutside - first;
      if (mode == PadMode::kReflect) i = Reflected(i, n);
      if (mode == PadMode::kEdge) i = std::clamp<int64_t>(i, 0, n - 1);
      if (mode == PadMode::kWrap) i = ((i % n) + n) % n;
    }
    map.from[static_cast<size_t>(o)] = first + i;
  }
  return map;
}

// Fills rows [begin, end) of the output; a row is what lies along its last
// side.
template <typename T>
void PadRows(const std::vector<SideMap>& maps, absl::Span<const int64_t> shape,
             const T* from, T value, T* to, int64_t begin, int64_t end) {
  const std::vector<int64_t> strides = StridesOf(shape);
  const SideMap& inner = maps.back();
  const auto n = static_cast<int64_t>(inner.from.size());
  for (int64_t row = begin; row < end; ++row) {
    // The place along each side but the last, from the last but one on.
    int64_t rest = row;
    int64_t base = 0;
    bool is_outside = false;
    for (size_t side = maps.size() - 1; side-- > 0;) {
      const auto size = static_cast<int64_t>(maps[side].from.size());
      const int64_t at = maps[side].from[static_cast<size_t>(rest % size)];
      rest /= size;
      is_outside |= at == kOutside;
      base += at * strides[side];
    }
    T* const out = to + row * n;
    if (is_outside) {
      std::fill(out, out + n, value);
      continue;
    }
    const auto pad = [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t at = inner.from[static_cast<size_t>(i)];
        out[i] = at == kOutside ? value : from[base + at];
      }
    };
    pad(0, inner.begin);
    if (inner.begin < inner.end) {
      const int64_t at = inner.from[static_cast<size_t>(inner.begin)];
      std::copy_n(from + base + at, inner.end - inner.begin, out + inner.begin);
    }
    pad(inner.end, n);
  }
}

// The element to pad with: input `i`, or 0 if not given. Until opset 11 it was
// a float for all types.
std::vector<char> PadValue(const EvalArgs& args, size_t i) {
  const DLDataType dtype = args.dtype(0);
  std::vector<char> value(ElementBytes(dtype), 0);
  if (!args.has(i) || CountOf(args.in(i)) < 1) return value;
  if (args.dtype(i) == dtype) {
    std::memcpy(value.data(), args.in(i).data(), value.size());
    return value;
  }
  double number = 0;
  LoadDoubles(args.in(i), 0, 1, &number);
  (void)WithType(dtype, [&](auto zero) {
    const auto element = FromDouble<decltype(zero)>(number);
    std::memcpy(value.data(), &element, sizeof(element));
  });
  return value;
}

// Pads by one map for each side: a row of the output whose place along another
// side is outside is all constant, and of a row inside only the ends are looked
// up, while the middle is copied at once.
absl::Status PadInto(PadMode mode, absl::Span<const int64_t> before,
                     const std::vector<char>& value, const NDArray& x,
                     const NDArray& y) {
  std::vector<SideMap> maps;
  if (CountOf(y) == 0) return absl::OkStatus();
  for (size_t i = 0; i < before.size(); ++i) {
    const int64_t after = y.shape()[i] - x.shape()[i] - before[i];
    NODEWISE_ASSIGN_OR_RETURN(maps.emplace_back(),
                              MapSide(mode, x.shape()[i], before[i], after));
  }
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  // A single number is copied as a side of 1.
  if (maps.empty()) {
    maps.push_back({{0}, 0, 1});
    shape.push_back(1);
  }
  const auto n = static_cast<int64_t>(maps.back().from.size());
  return WithSize(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T element{};
    std::memcpy(&element, value.data(), sizeof(element));
    ParallelFor(CountOf(y) / n, static_cast<double>(n),
                [&](int64_t begin, int64_t end) {
                  PadRows<T>(maps, shape, x.As<T>(), element, y.As<T>(), begin,
                             end);
                });
  });
}

// Pads and the value were attributes until opset 11; axes came with 18, "wrap"
// with 19.
struct Pad : ops::Pad {
  static constexpr auto Fields() {
    return FieldList(Field<&Pad::mode>("mode"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireType(in, 1, kInt64), RequireRank(in, 1, 1),
               RequireRank(in, 2, 0, 1), RequireIndex(in, 3),
               RequireRank(in, 3, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value()) return OfInputType(in);
    const auto pads = ShapeFromInput(in, 1);
    // Without axes the pads are for all sides.
    const auto axes = in.Ints(3);
    if (in.has(3) && !axes.has_value()) {
      return OfInputType(in, UnknownShape(*rank));
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto all, AxesOrAll(axes, *rank));
    if (!pads.has_value()) return OfInputType(in, UnknownShape(*rank));
    if (pads->size() != 2 * all.size()) {
      return WrongInput(1, "has {} pads for {} axes", pads->size(), all.size());
    }
    Shape sides = *in.type(0).shape;
    // Plus() gives an unknown side for a sum that does not fit, which must not
    // pass as one that is not known yet.
    for (size_t i = 0; i < all.size(); ++i) {
      Dim& side = sides[static_cast<size_t>(all[i])];
      const Dim& before = (*pads)[i];
      const Dim& after = (*pads)[i + all.size()];
      const bool is_known =
          side.is_known() && before.is_known() && after.is_known();
      side = Plus(side, Plus(before, after));
      if (is_known && !side.is_known()) {
        return WrongInput(
            1, "has pads of {} and {} for side {}, which are too many",
            before.size(), after.size(), all[i]);
      }
      if (side.is_known() && side.size() < 0) {
        return WrongInput(1, "leaves {} elements of side {}", side.size(),
                          all[i]);
      }
    }
    return CheckedOutput(in.type(0).dtype, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const auto pads, args.Ints(1));
    const int rank = static_cast<int>(args.shape(0).size());
    std::optional<std::vector<int64_t>> axes;
    if (args.has(3)) {
      NODEWISE_ASSIGN_OR_RETURN(axes, args.Ints(3));
    }
    std::vector<int64_t> before(static_cast<size_t>(rank), 0);
    NODEWISE_ASSIGN_OR_RETURN(const auto all, AxesOrAll(axes, rank));
    for (size_t i = 0; i < all.size(); ++i) {
      // No pad is longer than both sides together: their sum fitted. The limit
      // only keeps the calculations with them from overflowing.
      constexpr int64_t kMost = int64_t{1} << 60;
      if (pads[i] == INT64_MIN || std::abs(pads[i]) > kMost) {
        return WrongInput(1, "has a pad of {}", pads[i]);
      }
      before[static_cast<size_t>(all[i])] = pads[i];
    }
    return PadInto(mode, before, PadValue(args, 2), args.in(0), y);
  }
};

// A number of repeats of 0 makes an empty tensor, even of a side that is not
// known.
struct Tile : ops::Tile {
  absl::Status Check(const Inputs& in) const {
    return All(RequireType(in, 1, kInt64), RequireRank(in, 1, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value()) return OfInputType(in);
    const auto repeats = ShapeFromInput(in, 1);
    if (!repeats.has_value()) return OfInputType(in, UnknownShape(*rank));
    Shape sides = *in.type(0).shape;
    if (repeats->size() != sides.size()) {
      return WrongInput(1, "has {} elements, expected {} as the data has sides",
                        repeats->size(), sides.size());
    }
    for (size_t i = 0; i < sides.size(); ++i) {
      const Dim& count = (*repeats)[i];
      if (count.is_known() && count.size() < 0) {
        return WrongInput(1, "has {}, expected 0 or more", count.size());
      }
      const bool is_empty = count == Dim(0) || sides[i] == Dim(0);
      const bool is_known = count.is_known() && sides[i].is_known();
      sides[i] = is_empty ? Dim(0) : Times(sides[i], count);
      if (is_known && !sides[i].is_known()) {
        return WrongInput(1, "has {}, which is too many", count.size());
      }
    }
    return CheckedOutput(in.type(0).dtype, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const absl::Span<const int64_t> shape = args.shape(0);
    const std::vector<int64_t> from = StridesOf(shape);
    const std::vector<int64_t> to = StridesOf(y.shape());
    // Each side becomes two, the repeats and the side itself; a stride of 0
    // reads it again for each repeat.
    StridedCopy plan;
    for (size_t i = 0; i < shape.size(); ++i) {
      const int64_t count = shape[i] == 0 ? 0 : y.shape()[i] / shape[i];
      plan.sides.insert(plan.sides.end(), {count, shape[i]});
      plan.from_strides.insert(plan.from_strides.end(), {0, from[i]});
      plan.to_strides.insert(plan.to_strides.end(), {to[i] * shape[i], to[i]});
    }
    CopyStrided(plan, args.in(0), y);
    return absl::OkStatus();
  }
};

// The limit keeps the square of the size inside an integer of 64 bits.
absl::Status CheckBlock(const Inputs& in, int64_t blocksize) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (blocksize < 1 || blocksize > kMost) {
    return WrongAttribute("blocksize", "is {}, expected 1 to 2^30", blocksize);
  }
  return RequireRank(in, 0, 4);
}

// A side that is not known stays unknown, unless nothing is divided.
absl::StatusOr<Dim> DividedBy(const Dim& side, int64_t by, const char* what) {
  if (!side.is_known()) return by == 1 ? side : Dim();
  if (side.size() % by == 0) return side.size() / by;
  return WrongInput(0, "has a {} of {}, which does not divide by {}", what,
                    side.size(), by);
}

// The channels of a block are taken apart into three sides, the row and the
// column within the block and the depth that is left, and the first two are put
// behind the image's own. The order decides which of the three comes first. The
// mode came with opset 11.
struct DepthToSpace : ops::DepthToSpace {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&DepthToSpace::blocksize>("blocksize"),
                     Field<&DepthToSpace::mode>("mode"));
  }

  absl::Status Check(const Inputs& in) const {
    return CheckBlock(in, blocksize);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const int64_t b = blocksize;
    NODEWISE_ASSIGN_OR_RETURN(const Dim depth,
                              DividedBy(SideOf(in, 0, 1), b * b, "depth"));
    Shape sides{SideOf(in, 0, 0), depth, Times(SideOf(in, 0, 2), b),
                Times(SideOf(in, 0, 3), b)};
    return OfInputType(in, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const std::vector<int64_t> from = StridesOf(args.shape(0));
    const std::vector<int64_t> to = StridesOf(y.shape());
    const int64_t b = blocksize;
    const int64_t depth = y.shape()[1];
    const bool is_dcr = mode == DepthOrder::kDepthColumnRow;
    // How far apart two places within a block are in the input, and two
    // channels of the output.
    const int64_t block = is_dcr ? from[1] * depth : from[1];
    const int64_t channel = is_dcr ? from[1] : from[1] * b * b;
    StridedCopy plan;
    plan.sides = {y.shape()[0],     depth, args.shape(0)[2], b,
                  args.shape(0)[3], b};
    plan.from_strides = {from[0], channel, from[2], block * b, from[3], block};
    plan.to_strides = {to[0], to[1], to[2] * b, to[2], to[3] * b, to[3]};
    CopyStrided(plan, args.in(0), y);
    return absl::OkStatus();
  }
};

// The rules of all versions; `Class` is the public class of one.
template <typename Class>
struct SpaceToDepth : Class {
  static constexpr bool kHasMode = std::is_same_v<Class, ops::SpaceToDepth>;

  static constexpr auto Fields() {
    constexpr AttrField kSize = RequiredField<&Class::blocksize>("blocksize");
    if constexpr (kHasMode) {
      return FieldList(kSize, Field<&Class::mode>("mode"));
    } else {
      return FieldList(kSize);
    }
  }
  absl::Status Check(const Inputs& in) const {
    return CheckBlock(in, this->blocksize);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const int64_t b = this->blocksize;
    NODEWISE_ASSIGN_OR_RETURN(const Dim height,
                              DividedBy(SideOf(in, 0, 2), b, "height"));
    NODEWISE_ASSIGN_OR_RETURN(const Dim width,
                              DividedBy(SideOf(in, 0, 3), b, "width"));
    Shape sides{SideOf(in, 0, 0), Times(SideOf(in, 0, 1), b * b), height,
                width};
    return OfInputType(in, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const std::vector<int64_t> from = StridesOf(args.shape(0));
    const std::vector<int64_t> to = StridesOf(y.shape());
    const int64_t b = this->blocksize;
    const int64_t depth = args.shape(0)[1];
    bool is_dcr = true;
    if constexpr (kHasMode) is_dcr = this->mode == DepthOrder::kDepthColumnRow;
    // The reverse of DepthToSpace: the strides are those of the output.
    const int64_t block = is_dcr ? to[1] * depth : to[1];
    const int64_t channel = is_dcr ? to[1] : to[1] * b * b;
    StridedCopy plan;
    plan.sides = {y.shape()[0], b, b, depth, y.shape()[2], y.shape()[3]};
    plan.from_strides = {from[0], from[2],     from[3],
                         from[1], from[2] * b, from[3] * b};
    plan.to_strides = {to[0], block * b, block, channel, to[2], to[3]};
    CopyStrided(plan, args.in(0), y);
    return absl::OkStatus();
  }
};

// Each side is cropped or padded by itself, which is a Pad by constants with
// pads of both signs.
struct CenterCropPad : ops::CenterCropPad {
  static constexpr auto Fields() {
    return FieldList(Field<&CenterCropPad::axes>("axes"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireIndex(in, 1), RequireRank(in, 1, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto rank = RankOf(in);
    if (!rank.has_value()) return OfInputType(in);
    NODEWISE_ASSIGN_OR_RETURN(const auto all, AxesOrAll(axes, *rank));
    Shape sides = *in.type(0).shape;
    const Shape target = ShapeFromInput(in, 1).value_or(Shape(all.size()));
    if (target.size() != all.size()) {
      return WrongInput(1, "has {} sizes for {} axes", target.size(),
                        all.size());
    }
    for (size_t i = 0; i < all.size(); ++i) {
      sides[static_cast<size_t>(all[i])] = target[i];
    }
    return CheckedOutput(in.type(0).dtype, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const std::vector<char> zero(ElementBytes(y.dtype()), 0);
    // Elements in front; the rest of the difference goes to the end.
    std::vector<int64_t> before;
    for (size_t i = 0; i < y.shape().size(); ++i) {
      // The odd element is cut off at the end, and put there too.
      const int64_t more = y.shape()[i] - args.shape(0)[i];
      before.push_back(more >= 0 ? more / 2 : -((-more) / 2));
    }
    return PadInto(PadMode::kConstant, before, zero, args.in(0), y);
  }
};

constexpr OperatorDef kPadRows[] = {
    Row<ops::Pad, Pad>({.name = "Pad",
                        .since = 2,
                        .inputs = {"data", "pads", Optional("constant_value"),
                                   Optional("axes")},
                        .outputs = {"output"},
                        .moved = {{"pads", 1, 11}, {"value", 2, 11}}}),
    Row<ops::Tile, Tile>("Tile", 6, {"input", "repeats"}, {"output"}),
    Row<ops::DepthToSpace, DepthToSpace>("DepthToSpace", 1, {"input"},
                                         {"output"}),
    Row<ops::SpaceToDepth1, SpaceToDepth<ops::SpaceToDepth1>>(
        "SpaceToDepth", 1, {"input"}, {"output"}),
    Row<ops::SpaceToDepth, SpaceToDepth<ops::SpaceToDepth>>(
        "SpaceToDepth", 28, {"input"}, {"output"}),
    Row<ops::CenterCropPad, CenterCropPad>(
        "CenterCropPad", 18, {"input_data", "shape"}, {"output_data"}),
};

}  // namespace

absl::Span<const OperatorDef> PadOperators() { return kPadRows; }

}  // namespace nodewise
