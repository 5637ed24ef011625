#include "nodewise/ops/logic.h"

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/converted_elements.h"
#include "contrib/ops/util/elementwise.h"

namespace nodewise {

using ops::ShiftDirection;
template <>
struct Words<ShiftDirection> {
  static constexpr std::pair<ShiftDirection, std::string_view> kAll[] = {
      {ShiftDirection::kLeft, "LEFT"}, {ShiftDirection::kRight, "RIGHT"}};
};

namespace {

// And, Or, Xor of two Bools.
template <typename Operation>
struct Logical {
  static absl::Status Check(const Inputs& in) {
    return All(RequireBool(in, 0), RequireBool(in, 1));
  }
  static DLDataType ResultType(const Inputs&) { return kBool; }
  static constexpr Dim (*kElement)(const Dim&, const Dim&) = nullptr;
  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    return MapPairs<Bool, Bool>(args, plan, kBool, [](Bool a, Bool b) {
      return Bool{Operation::Of(a.bits != 0, b.bits != 0)};
    });
  }
};
struct Both {
  static bool Of(bool a, bool b) { return a && b; }
};
struct Either {
  static bool Of(bool a, bool b) { return a || b; }
};
struct Differing {
  static bool Of(bool a, bool b) { return a != b; }
};

struct Not : ops::Not {
  absl::Status Check(const Inputs& in) const { return RequireBool(in, 0); }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, args.shape(0), kBool));
    const auto* const from = args.in(0).As<uint8_t>();
    auto* const to = y.As<uint8_t>();
    for (int64_t i = 0; i < CountOf(y); ++i) to[i] = from[i] == 0;
    return absl::OkStatus();
  }
};

// Compares two numbers, or Bools, of one type.
template <typename Operation>
struct Comparison {
  static absl::Status Check(const Inputs& in) { return RequireSameType(in); }
  static DLDataType ResultType(const Inputs&) { return kBool; }
  static constexpr Dim (*kElement)(const Dim&, const Dim&) = nullptr;
  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    return MapTruth(args, plan,
                    [](auto a, auto b) { return Operation::Of(a, b); });
  }
};
struct Equals {
  template <typename T>
  static bool Of(T a, T b) {
    return a == b;
  }
};
struct IsGreater {
  template <typename T>
  static bool Of(T a, T b) {
    return a > b;
  }
};
struct IsLess {
  template <typename T>
  static bool Of(T a, T b) {
    return a < b;
  }
};
struct IsAtLeast {
  template <typename T>
  static bool Of(T a, T b) {
    return a >= b;
  }
};
struct IsAtMost {
  template <typename T>
  static bool Of(T a, T b) {
    return a <= b;
  }
};

// Tests each float; short ones with a sign too.
template <typename Class>
struct FloatTest {
  absl::Status Check(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const bool is_short = IsShortFloat(dtype) && dtype.code != kDTypeE8M0;
    return is_short ? absl::OkStatus() : RequireFloat(in, 0);
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in, 0, kBool); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, args.shape(0), kBool));
    const Class op = static_cast<const Class&>(*this);
    auto* const to = y.As<uint8_t>();
    double block[kWideBlock];
    for (int64_t at = 0; at < CountOf(y); at += kWideBlock) {
      const int64_t n = std::min(kWideBlock, CountOf(y) - at);
      LoadDoubles(args.in(0), at, at + n, block);
      for (int64_t i = 0; i < n; ++i) to[at + i] = op.Of(block[i]);
    }
    return absl::OkStatus();
  }
};
struct IsNaN : ops::IsNaN, FloatTest<IsNaN> {
  static bool Of(double x) { return std::isnan(x); }
};
struct IsInf : ops::IsInf, FloatTest<IsInf> {
  static constexpr auto Fields() {
    return FieldList(Field<&IsInf::detect_negative>("detect_negative"),
                     Field<&IsInf::detect_positive>("detect_positive"));
  }
  bool Of(double x) const {
    return std::isinf(x) && (x < 0 ? detect_negative : detect_positive);
  }
};

// Combines the bits of two integers of one type.
template <typename Operation>
struct Bitwise {
  static absl::Status Check(const Inputs& in) {
    return All(RequireInteger(in, 0), RequireInteger(in, 1),
               RequireSameType(in));
  }
  static DLDataType ResultType(const Inputs& in) { return SharedType(in); }
  static constexpr Dim (*kElement)(const Dim&, const Dim&) = nullptr;
  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    return MapPairBlocks<uint64_t>(
        args, plan, args.dtype(0), 4,
        [](uint64_t* a, const uint64_t* b, int64_t n) {
          for (int64_t i = 0; i < n; ++i) a[i] = Operation::Of(a[i], b[i]);
        });
  }
};
struct BitAnd {
  static uint64_t Of(uint64_t a, uint64_t b) { return a & b; }
};
struct BitOr {
  static uint64_t Of(uint64_t a, uint64_t b) { return a | b; }
};
struct BitXor {
  static uint64_t Of(uint64_t a, uint64_t b) { return a ^ b; }
};

struct BitwiseNot : ops::BitwiseNot {
  absl::Status Check(const Inputs& in) const { return RequireInteger(in, 0); }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, args.shape(0), args.dtype(0)));
    const auto* const from = args.in(0).As<uint8_t>();
    auto* const to = y.As<uint8_t>();
    for (size_t i = 0; i < y.bytes(); ++i) {
      to[i] = static_cast<uint8_t>(~from[i]);
    }
    return absl::OkStatus();
  }
};

struct BitShift : ops::BitShift {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&BitShift::direction>("direction"));
  }
  absl::Status Check(const Inputs& in) const {
    return All(RequireInteger(in, 0), RequireInteger(in, 1),
               RequireSameType(in));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return Countable(BroadcastInputs(in));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, BroadcastPair(args));
    if (IsUnsigned(args.dtype(0))) return Shift<uint64_t>(args, plan);
    return Shift<int64_t>(args, plan);
  }

 private:
  template <typename T>
  absl::Status Shift(EvalArgs& args, const Broadcast& plan) const {
    const bool to_left = direction == ShiftDirection::kLeft;
    const uint64_t width = args.dtype(0).bits;
    return MapPairBlocks<T>(
        args, plan, args.dtype(0), 4, [=](T* x, const T* by, int64_t n) {
          for (int64_t i = 0; i < n; ++i) {
            // A shift by all bits or more would be undefined in C++, and so
            // would one by less than none.
            const auto places = static_cast<uint64_t>(by[i]);
            if (places >= width) {
              x[i] = to_left || x[i] >= 0 ? T{0} : static_cast<T>(-1);
            } else if (to_left) {
              x[i] = static_cast<T>(static_cast<uint64_t>(x[i]) << places);
            } else {
              x[i] = static_cast<T>(x[i] >> places);
            }
          }
        });
  }
};
// Below opset 28.
struct BitShiftOfUnsigned : BitShift {
  absl::Status Check(const Inputs& in) const {
    for (const size_t i : {0, 1}) {
      if (in.type(i).has_dtype() && !IsUnsigned(in.type(i).dtype)) {
        return InputError(
            i, std::string(MessageOf(RefuseType(
                   in.type(i).dtype,
                   "an unsigned integer (signed ones came with opset 28)"))));
      }
    }
    return RequireSameType(in);
  }
};

struct Where : ops::Where {
  absl::Status Check(const Inputs& in) const {
    return All(RequireBool(in, 0), RequireSameType(in, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype =
        in.type(1).has_dtype() ? in.type(1).dtype : in.type(2).dtype;
    NODEWISE_ASSIGN_OR_RETURN(OutputInfos out,
                              Countable(BroadcastInputs(in, dtype)));
    // A known condition may have more sides than what it chooses from.
    const TensorType& type = out[0].type;
    if (type.has_rank() && type.rank() <= 1) out[0].elements = Elements(in);
    return out;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const absl::Span<const int64_t> shapes[] = {args.shape(0), args.shape(1),
                                                args.shape(2)};
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, MakeBroadcast(shapes));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray z,
                              args.MakeOutput(0, plan.shape, args.dtype(1)));
    return WithSize(args.dtype(1), [&](auto zero) {
      using T = decltype(zero);
      const auto* const condition = args.in(0).As<uint8_t>();
      const T* const x = args.in(1).As<T>();
      const T* const y = args.in(2).As<T>();
      ForEachRun(
          plan, 2,
          [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
            T* const to = z.As<T>() + out;
            for (int64_t i = 0; i < n; ++i) {
              to[i] = condition[at[0] + i * steps[0]] != 0
                          ? x[at[1] + i * steps[1]]
                          : y[at[2] + i * steps[2]];
            }
          });
      return absl::OkStatus();
    });
  }

 private:
  // Returns the elements of a shape that is chosen by a known condition.
  static std::optional<Shape> Elements(const Inputs& in) {
    const NDArray* const condition = in[0].constant;
    if (condition == nullptr || in[1].elements == nullptr ||
        in[2].elements == nullptr) {
      return std::nullopt;
    }
    const auto truths = static_cast<size_t>(CountOf(*condition));
    const Shape* const choices[] = {in[2].elements, in[1].elements};
    const size_t sizes[] = {truths, choices[0]->size(), choices[1]->size()};
    const bool has_none = truths == 0 || sizes[1] == 0 || sizes[2] == 0;
    const size_t count =
        has_none ? 0 : std::max({sizes[0], sizes[1], sizes[2]});
    if (count > kMostElements) return std::nullopt;
    Shape result;
    for (size_t i = 0; i < count; ++i) {
      for (const size_t size : sizes) {
        if (size != 1 && size != count) return std::nullopt;
      }
      const bool holds = condition->As<uint8_t>()[truths == 1 ? 0 : i] != 0;
      const Shape& chosen = *choices[holds ? 1 : 0];
      result.push_back(chosen[chosen.size() == 1 ? 0 : i]);
    }
    return result;
  }
};

template <typename Class, typename F>
constexpr OperatorDef RowOf(const OperatorDef& row) {
  return Row<Class, Binary<Class, F>>(row);
}
template <typename Class, typename F>
constexpr OperatorDef RowAtAxisOf(const OperatorDef& row) {
  return Row<Class, BinaryAtAxis<Class, F>>(row);
}

constexpr OperatorDef kLogicOperators[] = {
    RowAtAxisOf<ops::And1, Logical<Both>>(
        {.name = "And", .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowOf<ops::And, Logical<Both>>(
        {.name = "And", .since = 7, .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowAtAxisOf<ops::Or1, Logical<Either>>(
        {.name = "Or", .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowOf<ops::Or, Logical<Either>>(
        {.name = "Or", .since = 7, .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowAtAxisOf<ops::Xor1, Logical<Differing>>(
        {.name = "Xor", .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowOf<ops::Xor, Logical<Differing>>(
        {.name = "Xor", .since = 7, .inputs = {"A", "B"}, .outputs = {"C"}}),
    Row<ops::Not, Not>({.name = "Not", .inputs = {"X"}, .outputs = {"Y"}}),
    RowAtAxisOf<ops::Equal1, Comparison<Equals>>(
        {.name = "Equal", .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowOf<ops::Equal, Comparison<Equals>>(
        {.name = "Equal", .since = 7, .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowAtAxisOf<ops::Greater1, Comparison<IsGreater>>(
        {.name = "Greater", .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowOf<ops::Greater, Comparison<IsGreater>>({.name = "Greater",
                                                .since = 7,
                                                .inputs = {"A", "B"},
                                                .outputs = {"C"}}),
    RowAtAxisOf<ops::Less1, Comparison<IsLess>>(
        {.name = "Less", .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowOf<ops::Less, Comparison<IsLess>>(
        {.name = "Less", .since = 7, .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowOf<ops::GreaterOrEqual, Comparison<IsAtLeast>>({.name = "GreaterOrEqual",
                                                       .since = 12,
                                                       .inputs = {"A", "B"},
                                                       .outputs = {"C"}}),
    RowOf<ops::LessOrEqual, Comparison<IsAtMost>>({.name = "LessOrEqual",
                                                   .since = 12,
                                                   .inputs = {"A", "B"},
                                                   .outputs = {"C"}}),
    Row<ops::IsNaN, IsNaN>(
        {.name = "IsNaN", .since = 9, .inputs = {"X"}, .outputs = {"Y"}}),
    Row<ops::IsInf, IsInf>(
        {.name = "IsInf", .since = 10, .inputs = {"X"}, .outputs = {"Y"}}),
    RowOf<ops::BitwiseAnd, Bitwise<BitAnd>>({.name = "BitwiseAnd",
                                             .since = 18,
                                             .inputs = {"A", "B"},
                                             .outputs = {"C"}}),
    RowOf<ops::BitwiseOr, Bitwise<BitOr>>({.name = "BitwiseOr",
                                           .since = 18,
                                           .inputs = {"A", "B"},
                                           .outputs = {"C"}}),
    RowOf<ops::BitwiseXor, Bitwise<BitXor>>({.name = "BitwiseXor",
                                             .since = 18,
                                             .inputs = {"A", "B"},
                                             .outputs = {"C"}}),
    Row<ops::BitwiseNot, BitwiseNot>(
        {.name = "BitwiseNot", .since = 18, .inputs = {"X"}, .outputs = {"Y"}}),
    Row<ops::BitShift, BitShiftOfUnsigned>({.name = "BitShift",
                                            .since = 11,
                                            .inputs = {"X", "Y"},
                                            .outputs = {"Z"}}),
    Row<ops::BitShift, BitShift>({.name = "BitShift",
                                  .since = 28,
                                  .inputs = {"X", "Y"},
                                  .outputs = {"Z"}}),
    Row<ops::Where, Where>({.name = "Where",
                            .since = 9,
                            .inputs = {"condition", "X", "Y"},
                            .outputs = {"output"}}),
};

}  // namespace

absl::Span<const OperatorDef> LogicOperators() { return kLogicOperators; }

}  // namespace nodewise
