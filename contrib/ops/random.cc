#include "nodewise/ops/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/random_numbers.h"
#include "contrib/ops/util/tensor_moves.h"

// This file must be compiled with -ffp-contract=off: fused multiply-adds would
// make other numbers on machines that have them.

namespace nodewise {

namespace {

RandomNumbers NumbersOf(const std::optional<float>& seed,
                        std::string_view stream) {
  // Without a seed the numbers are others than with any seed that can be given.
  constexpr uint64_t kNone = uint64_t{1} << 32;
  return RandomNumbers(
      seed.has_value() ? std::bit_cast<uint32_t>(*seed) : kNone, stream);
}

// The type may still be unknown, if it is that of the input.
absl::Status RequireFloatType(DLDataType dtype) {
  if (dtype.bits == 0 || IsFloat(dtype)) return absl::OkStatus();
  return At("attribute dtype", RefuseType(dtype, "a float of 16 to 64 bits"));
}

// Sets elements [begin, end) to the numbers that `draw` returns, in their
// order, which decides what each of them gets: so there are no threads here.
template <typename F>
void DrawRange(const NDArray& y, int64_t begin, int64_t end, F& draw) {
  double block[kWideBlock];
  for (int64_t at = begin; at < end; at += kWideBlock) {
    const int64_t next = std::min(at + kWideBlock, end);
    std::generate(block, block + (next - at), std::ref(draw));
    StoreDoubles(block, at, next, y);
  }
}
template <typename F>
absl::Status Draw(EvalArgs& args, F draw) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  DrawRange(y, 0, CountOf(y), draw);
  return absl::OkStatus();
}

absl::Status CheckSizes(const std::vector<int64_t>& sizes, DLDataType dtype) {
  const auto bytes = TensorBytes(sizes, dtype);
  if (bytes.ok()) return absl::OkStatus();
  return WrongAttribute("shape", "{}", MessageOf(bytes.status()));
}

// Distributions. Their parameters are attributes of the class `Op`, whose
// fields are in alphabetical order: NamedAttrsOf() gives them as they are
// listed.
struct Normally {
  static constexpr std::string_view kStream = "RandomNormal";
  template <typename Op>
  static constexpr auto Fields() {
    return FieldList(Field<&Op::dtype>("dtype"), Field<&Op::mean>("mean"),
                     Field<&Op::scale>("scale"), Field<&Op::seed>("seed"));
  }
  template <typename Op>
  static auto DrawerOf(const Op& op, RandomNumbers& numbers) {
    return [&op, &numbers] {
      return double{op.mean} + double{op.scale} * numbers.Normal();
    };
  }
};
struct Evenly {
  static constexpr std::string_view kStream = "RandomUniform";
  template <typename Op>
  static constexpr auto Fields() {
    return FieldList(Field<&Op::dtype>("dtype"), Field<&Op::high>("high"),
                     Field<&Op::low>("low"), Field<&Op::seed>("seed"));
  }
  template <typename Op>
  static auto DrawerOf(const Op& op, RandomNumbers& numbers) {
    const double width = double{op.high} - double{op.low};
    return [&op, &numbers, width] {
      return double{op.low} + width * numbers.Uniform();
    };
  }
};

template <typename Class, typename Distribution>
absl::Status DrawFrom(const Class& op, EvalArgs& args) {
  RandomNumbers numbers = NumbersOf(op.seed, Distribution::kStream);
  return Draw(args, Distribution::DrawerOf(op, numbers));
}

// The shape is an attribute, the last one.
template <typename Class, typename Distribution>
struct DrawnOfShape : Class {
  static constexpr auto Fields() {
    return JoinedFields(Distribution::template Fields<Class>(),
                        FieldList(RequiredField<&Class::shape>("shape")));
  }
  absl::Status Check(const Inputs&) const {
    return All(RequireFloatType(this->dtype),
               CheckSizes(this->shape, this->dtype));
  }
  OutputInfos Infer(const Inputs&) const {
    return OneOutput(this->dtype,
                     Shape(this->shape.begin(), this->shape.end()));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return DrawFrom<Class, Distribution>(*this, args);
  }
};

// The shape is that of the input, and so is the type if none is given. A seed
// draws the numbers that it draws for a shape given by an attribute.
template <typename Class, typename Distribution>
struct DrawnLikeInput : Class {
  static constexpr auto Fields() {
    return Distribution::template Fields<Class>();
  }
  absl::Status Check(const Inputs& in) const {
    return RequireFloatType(this->dtype.value_or(in.type(0).dtype));
  }
  OutputInfos Infer(const Inputs& in) const {
    return LikeInput(in, 0, this->dtype.value_or(in.type(0).dtype));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return DrawFrom<Class, Distribution>(*this, args);
  }
};

struct Bernoulli : ops::Bernoulli {
  static constexpr auto Fields() {
    return FieldList(Field<&Bernoulli::dtype>("dtype"),
                     Field<&Bernoulli::seed>("seed"));
  }
  absl::Status Check(const Inputs& in) const {
    if (dtype.has_value() && !IsFloat(*dtype) && !IsInteger(*dtype) &&
        !IsBool(*dtype)) {
      return AttributeError("dtype", "is neither a number nor bool");
    }
    return RequireFloat(in, 0);
  }
  OutputInfos Infer(const Inputs& in) const {
    return LikeInput(in, 0, dtype.value_or(in.type(0).dtype));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    RandomNumbers numbers = NumbersOf(seed, "Bernoulli");
    const std::vector<double> chances = ToDoubles(args.in(0));
    // One number for each element, in their order.
    size_t i = 0;
    return Draw(args,
                [&] { return numbers.Uniform() < chances[i++] ? 1.0 : 0.0; });
  }
};

// An index of one row of logarithms of probabilities is drawn by where a number
// up to the sum of all probabilities lies among their running sums. The largest
// logarithm is taken away from all, so that none overflows.
std::vector<double> RunningSums(absl::Span<const double> logarithms) {
  const double largest = *std::ranges::max_element(logarithms);
  std::vector<double> sums;
  double sum = 0;
  for (const double x : logarithms) {
    // A row of nothing but minus infinity is as if all were the same.
    sum +=
        std::isinf(largest) && x == largest ? 1 : ReproducibleExp(x - largest);
    sums.push_back(sum);
  }
  return sums;
}
double IndexAt(const std::vector<double>& sums, double uniform) {
  const double at = uniform * sums.back();
  const auto above = std::ranges::upper_bound(sums, at);
  const auto last = static_cast<double>(sums.size() - 1);
  return std::min(static_cast<double>(above - sums.begin()), last);
}

// A row of the input makes a row of the output. An index takes one number, so
// that each row's numbers follow those of the row before.
struct Multinomial : ops::Multinomial {
  static constexpr auto Fields() {
    return FieldList(Field<&Multinomial::dtype>("dtype"),
                     Field<&Multinomial::sample_size>("sample_size"),
                     Field<&Multinomial::seed>("seed"));
  }
  absl::Status Check(const Inputs& in) const {
    if (!(dtype == kInt32) && !(dtype == kInt64)) {
      return AttributeError("dtype", "is neither int32 nor int64");
    }
    if (sample_size < 0) return AttributeError("sample_size", "is negative");
    return All(RequireFloat(in, 0), RequireRank(in, 0, 2));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    Shape shape{SideOf(in, 0, 0), Dim(sample_size)};
    return CheckedOutput(dtype, std::move(shape));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    RandomNumbers numbers = NumbersOf(seed, "Multinomial");
    const std::vector<double> x = ToDoubles(args.in(0));
    const auto classes = static_cast<size_t>(args.shape(0)[1]);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    if (CountOf(y) == 0) return absl::OkStatus();
    if (classes == 0) return InputError(0, "has no classes");
    for (int64_t row = 0; row < y.shape()[0]; ++row) {
      const std::vector<double> sums =
          RunningSums(absl::MakeConstSpan(x).subspan(row * classes, classes));
      const auto draw = [&] { return IndexAt(sums, numbers.Uniform()); };
      DrawRange(y, row * sample_size, (row + 1) * sample_size, draw);
    }
    return absl::OkStatus();
  }
};

template <typename Class, typename Distribution>
constexpr OperatorDef OfShapeRow(const char* name) {
  return Row<Class, DrawnOfShape<Class, Distribution>>(name, 1, {}, {"output"},
                                                       kSum);
}
template <typename Class, typename Rules>
constexpr OperatorDef OfInputRow(const char* name, int since) {
  return Row<Class, Rules>(name, since, {"input"}, {"output"}, kSum);
}

constexpr OperatorDef kRandomRows[] = {
    OfShapeRow<ops::RandomNormal, Normally>("RandomNormal"),
    OfInputRow<ops::RandomNormalLike,
               DrawnLikeInput<ops::RandomNormalLike, Normally>>(
        "RandomNormalLike", 1),
    OfShapeRow<ops::RandomUniform, Evenly>("RandomUniform"),
    OfInputRow<ops::RandomUniformLike,
               DrawnLikeInput<ops::RandomUniformLike, Evenly>>(
        "RandomUniformLike", 1),
    OfInputRow<ops::Bernoulli, Bernoulli>("Bernoulli", 15),
    OfInputRow<ops::Multinomial, Multinomial>("Multinomial", 7),
};

}  // namespace

absl::Span<const OperatorDef> RandomOperators() { return kRandomRows; }

}  // namespace nodewise
