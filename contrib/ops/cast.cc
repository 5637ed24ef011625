#include "nodewise/ops/cast.h"

#include <cstring>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"

namespace nodewise {

using ops::RoundMode;
template <>
struct Words<RoundMode> {
  static constexpr std::pair<RoundMode, std::string_view> kAll[] = {
      {RoundMode::kUp, "up"},
      {RoundMode::kDown, "down"},
      {RoundMode::kNearest, "nearest"}};
};

namespace {

// Returns a double that rounds to any shorter float as the integer itself does:
// bits beyond its 53 are kept as a last bit that breaks ties.
template <typename T>
double OddDouble(T x) {
  const bool is_negative = x < 0;
  uint64_t size = is_negative ? 0 - Bits(x) : Bits(x);
  constexpr uint64_t kLost = 0x7FF;
  if (size >> 53 != 0 && (size & kLost) != 0) {
    size = (size & ~kLost) | (kLost + 1);
  }
  const auto value = static_cast<double>(size);
  return is_negative ? -value : value;
}

// Reads integers as doubles that any shorter float can be rounded from.
void LoadOddDoubles(const NDArray& x, int64_t begin, int64_t end, double* to) {
  if (x.dtype().bits < 64) return LoadDoubles(x, begin, end, to);
  (void)WithWide(x.dtype(), [&](auto zero) {
    const auto* const from = x.As<decltype(zero)>() + begin;
    for (int64_t i = 0; i < end - begin; ++i) to[i] = OddDouble(from[i]);
    return absl::OkStatus();
  });
}

// Casts from floats to integers truncate; for numbers out of range the standard
// leaves the result open, and the nearest integer in range is taken. Integers
// drop upper bits.
void CastRange(const NDArray& x, const NDArray& y, int64_t begin, int64_t end) {
  const bool from_integer = IsInteger(x.dtype());
  if (from_integer && !IsFloat(y.dtype())) {
    int64_t integers[kWideBlock];
    LoadWide(x, begin, end, integers);
    StoreWide(integers, begin, end, y);
    return;
  }
  double doubles[kWideBlock];
  if (from_integer && y.dtype().bits < 64) {
    LoadOddDoubles(x, begin, end, doubles);
  } else {
    LoadDoubles(x, begin, end, doubles);
  }
  StoreDoubles(doubles, begin, end, y);
}

absl::Status CastTo(EvalArgs& args, DLDataType to) {
  if (args.dtype(0) == to) {
    args.SetOutput(0, args.in(0));
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                            args.MakeOutput(0, args.shape(0), to));
  for (const DLDataType type : {args.dtype(0), to}) {
    NODEWISE_RETURN_IF_ERROR(
        WithWide(type, [](auto) { return absl::OkStatus(); }));
  }
  ParallelFor(CountOf(y), 2, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kWideBlock) {
      CastRange(args.in(0), y, at, std::min(at + kWideBlock, end));
    }
  });
  return absl::OkStatus();
}

// Known elements stay known between int32 and int64.
OutputInfos CastInfos(const Inputs& in, DLDataType to) {
  OutputInfos out = LikeInput(in, 0, to);
  const DLDataType from = in.type(0).dtype;
  if (to == kInt64 && (from == kInt32 || from == kInt64)) {
    out[0].elements = MapElements(in, [](const Dim& x) { return x; });
  } else if (to == kInt32 && (from == kInt32 || from == kInt64)) {
    out[0].elements = MapElements(in, [](const Dim& x) {
      const bool fits = x.is_known()
                            ? x.size() == static_cast<int32_t>(x.size())
                            : !x.name().empty();
      return fits ? x : Dim();
    });
  }
  return out;
}

struct Cast : ops::Cast {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&Cast::to>("to"),
                     Field<&Cast::saturate>("saturate"),
                     Field<&Cast::round_mode>("round_mode"));
  }
  OutputInfos Infer(const Inputs& in) const { return CastInfos(in, to); }
  absl::Status Evaluate(EvalArgs& args) const { return CastTo(args, to); }
};

struct CastLike : ops::CastLike {
  static constexpr auto Fields() {
    return FieldList(Field<&CastLike::saturate>("saturate"),
                     Field<&CastLike::round_mode>("round_mode"));
  }
  OutputInfos Infer(const Inputs& in) const {
    return CastInfos(in, in.type(1).dtype);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return CastTo(args, args.dtype(1));
  }
};

struct BitCast : ops::BitCast {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&BitCast::to>("to"));
  }
  absl::Status Check(const Inputs& in) const {
    const DLDataType from = in.type(0).dtype;
    if (!in.type(0).has_dtype() || ElementBytes(from) == ElementBytes(to)) {
      return absl::OkStatus();
    }
    return InputError(
        0, std::string(MessageOf(RefuseType(from, "a type as wide as `to`"))));
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in, 0, to); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, args.shape(0), to));
    if (y.bytes() != 0) std::memcpy(y.data(), args.in(0).data(), y.bytes());
    return absl::OkStatus();
  }
};

constexpr OperatorDef kCastOperators[] = {
    Row<ops::Cast, Cast>({.name = "Cast",
                          .since = 6,
                          .inputs = {"input"},
                          .outputs = {"output"}}),
    Row<ops::CastLike, CastLike>({.name = "CastLike",
                                  .since = 15,
                                  .inputs = {"input", "target_type"},
                                  .outputs = {"output"}}),
    Row<ops::BitCast, BitCast>({.name = "BitCast",
                                .since = 26,
                                .inputs = {"input"},
                                .outputs = {"output"}}),
};

}  // namespace

absl::Span<const OperatorDef> CastOperators() { return kCastOperators; }

}  // namespace nodewise
