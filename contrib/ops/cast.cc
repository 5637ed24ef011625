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
  if constexpr (sizeof(T) < 8) {
    return static_cast<double>(x);
  } else {
    const bool is_negative = x < 0;
    uint64_t size = is_negative ? 0 - Bits(x) : Bits(x);
    constexpr uint64_t kLost = 0x7FF;
    if (size >> 53 != 0 && (size & kLost) != 0) {
      size = (size & ~kLost) | (kLost + 1);
    }
    const auto value = static_cast<double>(size);
    return is_negative ? -value : value;
  }
}

// Casts from floats to integers truncate; for numbers out of range the standard
// leaves the result open, and the nearest integer in range is taken. Integers
// drop upper bits.
template <typename To, typename From>
To Converted(From x) {
  constexpr bool kFromInteger = std::is_integral_v<From>;
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, Bool> && kFromInteger) {
    return {static_cast<uint8_t>(x != 0 ? 1 : 0)};
  } else if constexpr (kFromInteger && std::is_arithmetic_v<To>) {
    return static_cast<To>(x);
  } else if constexpr (kFromInteger) {
    return FromDouble<To>(OddDouble(x));
  } else {
    return FromDouble<To>(ToDouble(x));
  }
}

absl::Status CastTo(EvalArgs& args, DLDataType to) {
  if (args.dtype(0) == to) {
    args.SetOutput(0, args.in(0));
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                            args.MakeOutput(0, args.shape(0), to));
  return WithType(args.dtype(0), [&](auto from_zero) {
    return WithType(to, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      const From* const x = args.in(0).As<From>();
      To* const converted = y.As<To>();
      ParallelFor(CountOf(y), 2, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          converted[i] = Converted<To>(x[i]);
        }
      });
      return absl::OkStatus();
    });
  });
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
