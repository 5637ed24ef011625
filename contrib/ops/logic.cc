#include "nodewise/ops/logic.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/tensor_moves.h"

namespace nodewise {

using ops::ShiftDirection;
template <>
struct Words<ShiftDirection> {
  static constexpr std::pair<ShiftDirection, std::string_view> kAll[] = {
      {ShiftDirection::kLeft, "LEFT"}, {ShiftDirection::kRight, "RIGHT"}};
};

namespace {

// And, Or, Xor of two Bools, given the function object of the standard library
// that combines them. Any byte but 0 counts as true, while 1 is written.
template <typename Operation>
struct Logical : NoElement {
  static absl::Status Check(const Inputs& in) {
    return All(RequireBool(in, 0), RequireBool(in, 1));
  }
  static DLDataType ResultType(const Inputs&) { return kBool; }
  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    return MapPairs<Bool, Bool>(args, plan, kBool, [](Bool a, Bool b) {
      return Bool{Operation()(a.bits != 0, b.bits != 0)};
    });
  }
};

// Compares two numbers, or Bools, of one type. No comparison holds for a NaN,
// as in C++.
template <typename Operation>
struct Comparison : NoElement {
  static absl::Status Check(const Inputs& in) { return RequireSameType(in); }
  static DLDataType ResultType(const Inputs&) { return kBool; }
  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    return MapTruth(args, plan, Operation());
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
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const Class op = static_cast<const Class&>(*this);
    auto* const to = y.As<uint8_t>();
    // Each type is read as double, which keeps NaN and infinities.
    double block[kWideBlock];
    for (int64_t at = 0; at < CountOf(y); at += kWideBlock) {
      const int64_t n = std::min(kWideBlock, CountOf(y) - at);
      LoadDoubles(args.in(0), at, at + n, block);
      for (int64_t i = 0; i < n; ++i) to[at + i] = op.Eval(block[i]);
    }
    return absl::OkStatus();
  }
};
struct IsNaN : ops::IsNaN, FloatTest<IsNaN> {
  static bool Eval(double x) { return std::isnan(x); }
};
struct IsInf : ops::IsInf, FloatTest<IsInf> {
  static constexpr auto Fields() {
    return FieldList(Field<&IsInf::detect_negative>("detect_negative"),
                     Field<&IsInf::detect_positive>("detect_positive"));
  }
  bool Eval(double x) const {
    return std::isinf(x) && (x < 0 ? detect_negative : detect_positive);
  }
};

absl::Status CheckIntegers(const Inputs& in) {
  return All(RequireInteger(in, 0), RequireInteger(in, 1), RequireSameType(in));
}

// Combines the bits of two integers of one type. Bits of different places do
// not meet, so all types can be read as the widest one, and what lies above the
// type's own bits is dropped.
template <typename Operation>
struct Bitwise : NoElement {
  static absl::Status Check(const Inputs& in) { return CheckIntegers(in); }
  static DLDataType ResultType(const Inputs& in) { return SharedType(in); }
  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    return MapPairBlocks<uint64_t>(
        args, plan, args.dtype(0), 4,
        [](uint64_t* a, const uint64_t* b, int64_t n) {
          for (int64_t i = 0; i < n; ++i) a[i] = Operation()(a[i], b[i]);
        });
  }
};

template <typename Class, absl::Status (*kRequire)(const Inputs&, size_t),
          uint8_t (*kOf)(uint8_t)>
struct ByteMap : Class, KeepsType {
  absl::Status Check(const Inputs& in) const { return kRequire(in, 0); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const auto* const from = args.in(0).As<uint8_t>();
    std::transform(from, from + y.bytes(), y.As<uint8_t>(), kOf);
    return absl::OkStatus();
  }
};
uint8_t IsFalse(uint8_t truth) { return truth == 0 ? 1 : 0; }
uint8_t WithBitsInverted(uint8_t bits) { return static_cast<uint8_t>(~bits); }
using Not = ByteMap<ops::Not, &RequireBool, &IsFalse>;
using BitwiseNot = ByteMap<ops::BitwiseNot, &RequireInteger, &WithBitsInverted>;

struct BitShift : ops::BitShift {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&BitShift::direction>("direction"));
  }
  absl::Status Check(const Inputs& in) const { return CheckIntegers(in); }
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
    // A right shift of the wide type brings in its sign, which is that of the
    // element; a left shift may move bits beyond the element's own, which
    // storing drops.
    const bool to_left = direction == ShiftDirection::kLeft;
    const uint64_t width = args.dtype(0).bits;
    return MapPairBlocks<T>(
        args, plan, args.dtype(0), 4, [=](T* x, const T* by, int64_t n) {
          for (int64_t i = 0; i < n; ++i) {
            // A shift by all bits or more is undefined in C++, and so is a
            // negative one, which becomes a huge one without its sign.
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

// The rules below opset 28, which brought signed integers.
struct BitShiftOfUnsigned : BitShift {
  absl::Status Check(const Inputs& in) const {
    for (const size_t i : {0, 1}) {
      const DLDataType dtype = in.type(i).dtype;
      if (!in.type(i).has_dtype() || IsUnsigned(dtype)) continue;
      return AtInput(
          i,
          RefuseType(dtype,
                     "an unsigned integer (signed ones came with opset 28)"));
    }
    return RequireSameType(in);
  }
};

// All three inputs are broadcast together. Elements are only moved, so their
// type does not matter but for its size.
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
    });
  }

 private:
  // Returns the elements of a shape that is chosen by a known condition. All
  // three are of rank 0 or 1, so that a size of 1 is the only one that is
  // repeated.
  static std::optional<Shape> Elements(const Inputs& in) {
    const NDArray* const condition = in[0].constant;
    if (condition == nullptr || in[1].elements == nullptr ||
        in[2].elements == nullptr) {
      return std::nullopt;
    }
    const auto truths = static_cast<size_t>(CountOf(*condition));
    const Shape* const choices[] = {in[2].elements, in[1].elements};
    // One list without elements makes the result empty. Otherwise it is as long
    // as the longest list.
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

// Rows of two inputs, whose class says which sides are repeated. No errors are
// carried through operators of bits.
template <typename Class, typename F>
constexpr OperatorDef LogicRow(const char* name, int since,
                               const OperatorTraits& traits = kElementwise) {
  return Row<Class, Binary<Class, F>>(name, since, {"A", "B"}, {"C"}, kExact,
                                      traits);
}

constexpr OperatorDef kLogicOperators[] = {
    LogicRow<ops::And1, Logical<std::logical_and<>>>("And", 1),
    LogicRow<ops::And, Logical<std::logical_and<>>>("And", 7),
    LogicRow<ops::Or1, Logical<std::logical_or<>>>("Or", 1),
    LogicRow<ops::Or, Logical<std::logical_or<>>>("Or", 7),
    LogicRow<ops::Xor1, Logical<std::not_equal_to<>>>("Xor", 1),
    LogicRow<ops::Xor, Logical<std::not_equal_to<>>>("Xor", 7),
    Row<ops::Not, Not>("Not", 1, {"X"}, {"Y"}, kExact, kElementwise),
    LogicRow<ops::Equal1, Comparison<std::equal_to<>>>("Equal", 1),
    LogicRow<ops::Equal, Comparison<std::equal_to<>>>("Equal", 7),
    LogicRow<ops::Greater1, Comparison<std::greater<>>>("Greater", 1),
    LogicRow<ops::Greater, Comparison<std::greater<>>>("Greater", 7),
    LogicRow<ops::Less1, Comparison<std::less<>>>("Less", 1),
    LogicRow<ops::Less, Comparison<std::less<>>>("Less", 7),
    LogicRow<ops::GreaterOrEqual, Comparison<std::greater_equal<>>>(
        "GreaterOrEqual", 12),
    LogicRow<ops::LessOrEqual, Comparison<std::less_equal<>>>("LessOrEqual",
                                                              12),
    Row<ops::IsNaN, IsNaN>("IsNaN", 9, {"X"}, {"Y"}),
    Row<ops::IsInf, IsInf>("IsInf", 10, {"X"}, {"Y"}),
    LogicRow<ops::BitwiseAnd, Bitwise<std::bit_and<>>>("BitwiseAnd", 18, {}),
    LogicRow<ops::BitwiseOr, Bitwise<std::bit_or<>>>("BitwiseOr", 18, {}),
    LogicRow<ops::BitwiseXor, Bitwise<std::bit_xor<>>>("BitwiseXor", 18, {}),
    Row<ops::BitwiseNot, BitwiseNot>("BitwiseNot", 18, {"X"}, {"Y"}),
    Row<ops::BitShift, BitShiftOfUnsigned>("BitShift", 11, {"X", "Y"}, {"Z"}),
    Row<ops::BitShift, BitShift>("BitShift", 28, {"X", "Y"}, {"Z"}),
    Row<ops::Where, Where>("Where", 9, {"condition", "X", "Y"}, {"output"},
                           kExact, kElementwise),
};

}  // namespace

absl::Span<const OperatorDef> LogicOperators() { return kLogicOperators; }

}  // namespace nodewise
