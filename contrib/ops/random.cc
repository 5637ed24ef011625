#include "nodewise/ops/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/random_numbers.h"
#include "contrib/ops/util/tensor_moves.h"
#include "contrib/ops/util/wide_elements.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

RandomNumbers NumbersOf(const std::optional<float>& seed,
                        std::string_view stream) {
  // A seed that is not given is another one than any that is.
  constexpr uint64_t kNone = uint64_t{1} << 32;
  return RandomNumbers(
      seed.has_value() ? std::bit_cast<uint32_t>(*seed) : kNone, stream);
}

absl::Status RequireFloatType(DLDataType dtype) {
  if (dtype.bits == 0 || IsFloat(dtype)) return absl::OkStatus();
  return AttributeError(
      "dtype",
      std::string(MessageOf(RefuseType(dtype, "a float of 16 to 64 bits"))));
}

// Sets elements [begin, end) to what `draw` returns, in their order.
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

OutputInfos OfShape(const std::vector<int64_t>& sizes, DLDataType dtype) {
  return OneOutput(dtype, Shape(sizes.begin(), sizes.end()));
}

absl::Status CheckSizes(const std::vector<int64_t>& sizes, DLDataType dtype) {
  const auto bytes = TensorBytes(sizes, dtype);
  if (bytes.ok()) return absl::OkStatus();
  return AttributeError("shape", std::string(MessageOf(bytes.status())));
}

template <typename Op>
absl::Status DrawNormal(const Op& op, std::string_view stream, EvalArgs& args) {
  RandomNumbers numbers = NumbersOf(op.seed, stream);
  return Draw(args, [&] {
    return double{op.mean} + double{op.scale} * numbers.Normal();
  });
}
template <typename Op>
absl::Status DrawUniform(const Op& op, std::string_view stream,
                         EvalArgs& args) {
  RandomNumbers numbers = NumbersOf(op.seed, stream);
  const double width = double{op.high} - double{op.low};
  return Draw(args, [&] { return double{op.low} + width * numbers.Uniform(); });
}

struct RandomNormal : ops::RandomNormal {
  static constexpr auto Fields() {
    return FieldList(Field<&RandomNormal::dtype>("dtype"),
                     Field<&RandomNormal::mean>("mean"),
                     Field<&RandomNormal::scale>("scale"),
                     Field<&RandomNormal::seed>("seed"),
                     RequiredField<&RandomNormal::shape>("shape"));
  }
  absl::Status Check(const Inputs&) const {
    return All(RequireFloatType(dtype), CheckSizes(shape, dtype));
  }
  OutputInfos Infer(const Inputs&) const { return OfShape(shape, dtype); }
  absl::Status Evaluate(EvalArgs& args) const {
    return DrawNormal(*this, "RandomNormal", args);
  }
};

struct RandomNormalLike : ops::RandomNormalLike {
  static constexpr auto Fields() {
    return FieldList(Field<&RandomNormalLike::dtype>("dtype"),
                     Field<&RandomNormalLike::mean>("mean"),
                     Field<&RandomNormalLike::scale>("scale"),
                     Field<&RandomNormalLike::seed>("seed"));
  }
  absl::Status Check(const Inputs& in) const {
    return RequireFloatType(dtype.value_or(in.type(0).dtype));
  }
  OutputInfos Infer(const Inputs& in) const {
    return LikeInput(in, 0, dtype.value_or(in.type(0).dtype));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return DrawNormal(*this, "RandomNormal", args);
  }
};

struct RandomUniform : ops::RandomUniform {
  static constexpr auto Fields() {
    return FieldList(Field<&RandomUniform::dtype>("dtype"),
                     Field<&RandomUniform::high>("high"),
                     Field<&RandomUniform::low>("low"),
                     Field<&RandomUniform::seed>("seed"),
                     RequiredField<&RandomUniform::shape>("shape"));
  }
  absl::Status Check(const Inputs&) const {
    return All(RequireFloatType(dtype), CheckSizes(shape, dtype));
  }
  OutputInfos Infer(const Inputs&) const { return OfShape(shape, dtype); }
  absl::Status Evaluate(EvalArgs& args) const {
    return DrawUniform(*this, "RandomUniform", args);
  }
};

struct RandomUniformLike : ops::RandomUniformLike {
  static constexpr auto Fields() {
    return FieldList(Field<&RandomUniformLike::dtype>("dtype"),
                     Field<&RandomUniformLike::high>("high"),
                     Field<&RandomUniformLike::low>("low"),
                     Field<&RandomUniformLike::seed>("seed"));
  }
  absl::Status Check(const Inputs& in) const {
    return RequireFloatType(dtype.value_or(in.type(0).dtype));
  }
  OutputInfos Infer(const Inputs& in) const {
    return LikeInput(in, 0, dtype.value_or(in.type(0).dtype));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return DrawUniform(*this, "RandomUniform", args);
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
    size_t i = 0;
    return Draw(args,
                [&] { return numbers.Uniform() < chances[i++] ? 1.0 : 0.0; });
  }
};

// Draws indices of one row of logarithms of probabilities.
class RowSampler {
 public:
  explicit RowSampler(absl::Span<const double> logarithms) {
    const double largest =
        *std::max_element(logarithms.begin(), logarithms.end());
    double sum = 0;
    for (const double x : logarithms) {
      // A row of nothing but minus infinity is as if all were the same.
      sum += std::isinf(largest) && x == largest ? 1
                                                 : ReproducibleExp(x - largest);
      sums_.push_back(sum);
    }
  }

  double Draw(double uniform) const {
    const double at = uniform * sums_.back();
    const auto above = std::upper_bound(sums_.begin(), sums_.end(), at);
    const auto last = static_cast<double>(sums_.size() - 1);
    return std::min(static_cast<double>(above - sums_.begin()), last);
  }

 private:
  std::vector<double> sums_;
};

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
    NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
    return OneOutput(dtype, std::move(shape));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    RandomNumbers numbers = NumbersOf(seed, "Multinomial");
    const std::vector<double> x = ToDoubles(args.in(0));
    const auto classes = static_cast<size_t>(args.shape(0)[1]);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    if (CountOf(y) == 0) return absl::OkStatus();
    if (classes == 0) return InputError(0, "has no classes");
    for (int64_t row = 0; row < y.shape()[0]; ++row) {
      const RowSampler sampler(
          absl::MakeConstSpan(x).subspan(row * classes, classes));
      const auto draw = [&] { return sampler.Draw(numbers.Uniform()); };
      DrawRange(y, row * sample_size, (row + 1) * sample_size, draw);
    }
    return absl::OkStatus();
  }
};

constexpr OperatorDef kRandomRows[] = {
    Row<ops::RandomNormal, RandomNormal>({.name = "RandomNormal",
                                          .since = 1,
                                          .outputs = {"output"},
                                          .bound = kSum}),
    Row<ops::RandomNormalLike, RandomNormalLike>({.name = "RandomNormalLike",
                                                  .since = 1,
                                                  .inputs = {"input"},
                                                  .outputs = {"output"},
                                                  .bound = kSum}),
    Row<ops::RandomUniform, RandomUniform>({.name = "RandomUniform",
                                            .since = 1,
                                            .outputs = {"output"},
                                            .bound = kSum}),
    Row<ops::RandomUniformLike, RandomUniformLike>({.name = "RandomUniformLike",
                                                    .since = 1,
                                                    .inputs = {"input"},
                                                    .outputs = {"output"},
                                                    .bound = kSum}),
    Row<ops::Bernoulli, Bernoulli>({.name = "Bernoulli",
                                    .since = 15,
                                    .inputs = {"input"},
                                    .outputs = {"output"},
                                    .bound = kSum}),
    Row<ops::Multinomial, Multinomial>({.name = "Multinomial",
                                        .since = 7,
                                        .inputs = {"input"},
                                        .outputs = {"output"},
                                        .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> RandomOperators() { return kRandomRows; }

}  // namespace nodewise
