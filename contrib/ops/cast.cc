#include "nodewise/ops/cast.h"

#include <algorithm>
#include <cstring>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/tensor_moves.h"

namespace nodewise {

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
  // The lowest 11 of 64 bits. An integer of more than 53 bits that has one of
  // them set gets the lowest bit that a double of that size surely keeps.
  constexpr uint64_t kLost = 0x7FF;
  if (size >> 53 != 0 && (size & kLost) != 0) {
    size = (size & ~kLost) | (kLost + 1);
  }
  const auto value = static_cast<double>(size);
  return is_negative ? -value : value;
}

void LoadOddDoubles(const NDArray& x, int64_t begin, int64_t end, double* to) {
  if (x.dtype().bits < 64) return LoadDoubles(x, begin, end, to);
  (void)WithWide(x.dtype(), [&](auto zero) {
    const auto* const from = x.As<decltype(zero)>() + begin;
    for (int64_t i = 0; i < end - begin; ++i) to[i] = OddDouble(from[i]);
  });
}

// Casts from floats to integers truncate. For numbers out of range the standard
// leaves the result open: the nearest integer in range is taken, except that
// integers of 2 and 4 bits keep their lower bits, as in ONNX's own cases. Casts
// of integers drop upper bits.
void CastRange(const NDArray& x, const NDArray& y, int64_t begin, int64_t end,
               ShortRounding rounding) {
  const bool is_short = IsShortFloat(y.dtype());
  const bool from_integer = IsInteger(x.dtype()) || IsShortInteger(x.dtype());
  if (from_integer && !is_short && !IsFloat(y.dtype())) {
    int64_t integers[kWideBlock];
    LoadIntegers(x, begin, end, integers);
    StoreIntegers(integers, begin, end, y);
    return;
  }
  // A result of type double is rounded once. For a shorter float, a long
  // integer that becomes a plain double first would be rounded twice.
  double doubles[kWideBlock];
  if (from_integer && y.dtype().bits < 64) {
    LoadOddDoubles(x, begin, end, doubles);
  } else {
    LoadDoubles(x, begin, end, doubles);
  }
  if (is_short) {
    StoreShortFloats(doubles, begin, end, y, rounding);
  } else if (IsShortInteger(y.dtype())) {
    int64_t integers[kWideBlock];
    std::transform(doubles, doubles + (end - begin), integers,
                   &FromDouble<int64_t>);
    StoreIntegers(integers, begin, end, y);
  } else {
    StoreDoubles(doubles, begin, end, y);
  }
}

// The result for numbers below 0, and for -0, is not specified if the type has
// no sign.
void AllowAnyForSigned(EvalArgs& args) {
  if (args.bounds(0) == nullptr) return;
  const std::vector<double> x = ToDoubles(args.in(0));
  AllowAny(args, 0, [&x](int64_t i) {
    return std::signbit(x[static_cast<size_t>(i)]) &&
           !std::isnan(x[static_cast<size_t>(i)]);
  });
}

absl::Status CastTo(EvalArgs& args, DLDataType to, ShortRounding rounding) {
  if (args.dtype(0) == to) {
    args.SetOutput(0, args.in(0));
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  // CastRange() cannot fail, so types without a wide type are refused here.
  for (const DLDataType type : {args.dtype(0), to}) {
    if (IsConverted(type)) continue;
    NODEWISE_RETURN_IF_ERROR(WithWide(type, [](auto) {}));
  }
  ParallelFor(CountOf(y), 2, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kWideBlock) {
      CastRange(args.in(0), y, at, std::min(at + kWideBlock, end), rounding);
    }
  });
  if (to.code == kDTypeE8M0) AllowAnyForSigned(args);
  return absl::OkStatus();
}

// Known elements stay known between int32 and int64; MapElements() refuses all
// other types of the input. A name stays too, since a side fits into both.
OutputInfos CastInfos(const Inputs& in, DLDataType to) {
  OutputInfos out = LikeInput(in, 0, to);
  if (to == kInt64) {
    out[0].elements = MapElements(in, [](const Dim& x) { return x; });
  } else if (to == kInt32) {
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
  absl::Status Evaluate(EvalArgs& args) const {
    return CastTo(args, to, {saturate, round_mode});
  }
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
    return CastTo(args, args.dtype(1), {saturate, round_mode});
  }
};

// Returns how many bits ONNX stores an element in: in memory here, short ones
// take a byte each.
int OnnxBitsOf(DLDataType dtype) {
  return IsConverted(dtype) ? dtype.bits
                            : static_cast<int>(8 * ElementBytes(dtype));
}

// Bits are counted as ONNX stores them, so that an int4 and a uint4 are as wide
// as each other, and no wider type is.
struct BitCast : ops::BitCast {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&BitCast::to>("to"));
  }
  absl::Status Check(const Inputs& in) const {
    const DLDataType from = in.type(0).dtype;
    if (!in.type(0).has_dtype() || OnnxBitsOf(from) == OnnxBitsOf(to)) {
      return absl::OkStatus();
    }
    return AtInput(0, RefuseType(from, "a type as wide as `to`"));
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in, 0, to); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    if (y.bytes() != 0) std::memcpy(y.data(), args.in(0).data(), y.bytes());
    if (!IsShortInteger(to)) return absl::OkStatus();
    // In memory the bits above the element's are those of its sign, or 0.
    for (int64_t i = 0; i < CountOf(y); ++i) {
      const int64_t bits = y.As<uint8_t>()[i];
      StoreIntegers(&bits, i, i + 1, y);
    }
    return absl::OkStatus();
  }
};

constexpr OperatorDef kCastOperators[] = {
    Row<ops::Cast, Cast>("Cast", 6, {"input"}, {"output"}, kExact,
                         kElementwise),
    Row<ops::CastLike, CastLike>("CastLike", 15, {"input", "target_type"},
                                 {"output"}),
    Row<ops::BitCast, BitCast>("BitCast", 26, {"input"}, {"output"}),
};

}  // namespace

absl::Span<const OperatorDef> CastOperators() { return kCastOperators; }

}  // namespace nodewise
