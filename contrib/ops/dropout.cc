#include "nodewise/ops/dropout.h"

#include <algorithm>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/random_numbers.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

absl::Status PassThrough(EvalArgs& args, DLDataType mask_type) {
  args.SetOutput(0, args.in(0));
  if (!args.wants(1)) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const NDArray mask,
                            args.MakeOutput(1, args.shape(0), mask_type));
  return WithType(mask_type, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(mask.As<T>(), CountOf(mask), FromDouble<T>(1));
  });
}

// Drops elements with a probability of `ratio` and scales up the others. No
// bounds are known, since other kernels drop others.
absl::Status DropAtRandom(EvalArgs& args, double ratio,
                          std::optional<int64_t> seed) {
  // Without a seed the numbers are others than with a seed of 0.
  RandomNumbers numbers(static_cast<uint64_t>(seed.value_or(0)),
                        seed.has_value() ? "Dropout" : "Dropout without seed");
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  std::vector<double> values = ToDoubles(args.in(0));
  std::vector<double> keeps(values.size());
  // Scaled up, so that the sum stays what it was on average.
  const double scale = 1 / (1 - ratio);
  for (size_t i = 0; i < values.size(); ++i) {
    // One number for each element, in their order, so that a seed gives one
    // mask.
    keeps[i] = numbers.Uniform() >= ratio ? 1 : 0;
    values[i] = keeps[i] != 0 ? values[i] * scale : 0;
  }
  StoreDoubles(values.data(), 0, CountOf(y), y);
  SetAllBounds(CountOf(y), kUnknownError, args.bounds(0));
  if (!args.wants(1)) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const NDArray mask, args.MakeOutput(1));
  StoreDoubles(keeps.data(), 0, CountOf(mask), mask);
  SetAllBounds(CountOf(mask), kUnknownError, args.bounds(1));
  return absl::OkStatus();
}

// Until opset 10 the mask was of the data's type.
struct OldDropout {
  absl::Status Check(const Inputs& in) const { return RequireFloat(in, 0); }
  OutputInfos Infer(const Inputs& in, size_t count) const {
    return OutputInfos(count, in.type(0));
  }
};

// Until opset 7 an attribute said what the network is used for.
struct Dropout6 : ops::Dropout6, OldDropout {
  static constexpr auto Fields() {
    return FieldList(Field<&Dropout6::is_test>("is_test"),
                     Field<&Dropout6::ratio>("ratio"));
  }

  absl::Status Evaluate(EvalArgs& args) const {
    if (!is_test && ratio != 0) {
      return Unimplemented(
          "is in training mode, which is random (export the network for "
          "inference)");
    }
    return PassThrough(args, args.dtype(0));
  }
};

// In opsets 7 to 9 nothing says that a network is trained, so that no element
// is dropped.
struct Dropout7 : ops::Dropout7, OldDropout {
  static constexpr auto Fields() {
    return FieldList(Field<&Dropout7::ratio>("ratio"));
  }

  absl::Status Evaluate(EvalArgs& args) const {
    return PassThrough(args, args.dtype(0));
  }
};

// Until opset 12 the ratio was an attribute.
struct Dropout : ops::Dropout {
  static constexpr auto Fields() {
    return FieldList(Field<&Dropout::seed>("seed"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireFloat(in, 0), RequireFloat(in, 1), RequireBool(in, 2),
               RequireRank(in, 1, 0), RequireRank(in, 2, 0));
  }
  OutputInfos Infer(const Inputs& in, size_t count) const {
    OutputInfos infos(count, in.type(0));
    if (count > 1) infos[1].type.dtype = kBool;
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const auto number = [&](size_t i, double otherwise) {
      if (!args.has(i)) return otherwise;
      const std::vector<double> value = ToDoubles(args.in(i));
      return value.empty() ? otherwise : value[0];
    };
    // The defaults are ONNX's: half of the elements, in training only.
    const double ratio = number(1, 0.5);
    if (number(2, 0) == 0 || ratio == 0) return PassThrough(args, kBool);
    if (!(ratio > 0 && ratio < 1)) {
      return WrongInput(1, "is {}, expected a number from 0 up to 1", ratio);
    }
    return DropAtRandom(args, ratio, seed);
  }
};

constexpr OperatorDef kDropoutRows[] = {
    Row<ops::Dropout6, Dropout6>("Dropout", 6, {"data"},
                                 {"output", Optional("mask")}),
    Row<ops::Dropout7, Dropout7>("Dropout", 7, {"data"},
                                 {"output", Optional("mask")}),
    Row<ops::Dropout, Dropout>(
        {.name = "Dropout",
         .since = 10,
         .inputs = {"data", Optional("ratio"), Optional("training_mode")},
         .outputs = {"output", Optional("mask")},
         .moved = {{"ratio", 1, 12}}}),
};

}  // namespace

absl::Span<const OperatorDef> DropoutOperators() { return kDropoutRows; }

}  // namespace nodewise
