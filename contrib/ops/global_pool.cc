#include "nodewise/ops/global_pool.h"

#include <cmath>

#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/pool.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::Status CheckPlanes(const Inputs& in) {
  return All(RequireFloat(in, 0), RequireRank(in, 0, 2, INT_MAX));
}

OutputInfos InferPlanes(const Inputs& in) {
  TensorType type = in.type(0);
  if (!type.has_rank()) return {type};
  for (size_t s = 2; s < type.shape->size(); ++s) (*type.shape)[s] = 1;
  return {std::move(type)};
}

// Calls f(x, size) for every plane, in threads; it returns the result and what
// its bounds follow from.
template <typename F>
absl::Status ReducePlanes(EvalArgs& args, F f) {
  std::vector<int64_t> shape(args.shape(0).size(), 1);
  std::copy_n(args.shape(0).begin(), 2, shape.begin());
  NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                            args.MakeOutput(0, shape, args.dtype(0)));
  const int64_t planes = CountOf(out);
  const int64_t size = Product(args.shape(0).subspan(2));
  Bounds* const bounds = args.bounds(0);
  if (bounds != nullptr) {
    bounds->proved.resize(static_cast<size_t>(planes));
    bounds->expected.resize(static_cast<size_t>(planes));
  }
  std::vector<double> results(static_cast<size_t>(planes));
  const auto run = [&](const auto* x) {
    ParallelFor(planes, static_cast<double>(size) + 10,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    const SumOfTerms sum = f(x + i * size, size);
                    results[static_cast<size_t>(i)] = sum.result;
                    if (bounds == nullptr) continue;
                    const SumBound bound = BoundSum(out.dtype(), sum);
                    bounds->proved[static_cast<size_t>(i)] = bound.proved;
                    bounds->expected[static_cast<size_t>(i)] = bound.expected;
                  }
                });
  };
  std::vector<double> copy;
  if (args.dtype(0) == kFloat32) {
    run(args.in(0).As<float>());
  } else {
    run(WideElements(args.in(0), &copy));
  }
  StoreDoubles(results.data(), 0, planes, out);
  return absl::OkStatus();
}

struct GlobalAveragePool : ops::GlobalAveragePool {
  absl::Status Check(const Inputs& in) const { return CheckPlanes(in); }
  OutputInfos Infer(const Inputs& in) const { return InferPlanes(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    return ReducePlanes(args, [](const auto* x, int64_t size) {
      SumOfTerms sum{static_cast<double>(size) + 1};
      for (int64_t i = 0; i < size; ++i) {
        const double value = ToDouble(x[i]);
        sum.result += value;
        sum.absolute += std::fabs(value);
        sum.squares += value * value;
      }
      const auto count = static_cast<double>(size);
      sum.on_the_way = sum.absolute;
      sum.result /= count;
      sum.absolute /= count;
      sum.squares /= count * count;
      return sum;
    });
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    const auto sizes = in.type(0).sizes();
    return sizes ? static_cast<double>(Product(*sizes)) : 0;
  }
};

struct GlobalMaxPool : ops::GlobalMaxPool {
  absl::Status Check(const Inputs& in) const { return CheckPlanes(in); }
  OutputInfos Infer(const Inputs& in) const { return InferPlanes(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_RETURN_IF_ERROR(
        ReducePlanes(args, [](const auto* x, int64_t size) {
          SumOfTerms best{.result = -std::numeric_limits<double>::infinity()};
          for (int64_t i = 0; i < size; ++i) {
            const double value = ToDouble(x[i]);
            if (value > best.result || std::isnan(value)) best.result = value;
          }
          return best;
        }));
    // Nothing is rounded.
    if (Bounds* const bounds = args.bounds(0)) {
      std::fill(bounds->proved.begin(), bounds->proved.end(), 0);
      bounds->expected = bounds->proved;
    }
    AllowAnyForNan(args);
    return absl::OkStatus();
  }
};

absl::Status EvaluateGlobalLp(double p, EvalArgs& args) {
  return ReducePlanes(args, [p, dtype = args.dtype(0)](const auto* x,
                                                       int64_t size) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) {
      const double value = std::fabs(ToDouble(x[i]));
      sum += p == 2 ? value * value : p == 1 ? value : std::pow(value, p);
    }
    const double norm = p == 2   ? std::sqrt(sum)
                        : p == 1 ? sum
                                 : std::pow(sum, 1 / p);
    // The relative error of a sum of terms of one sign, and of the powers.
    const double terms = static_cast<double>(size) + 8 + 8 * p;
    const double lost = LostInPowers(dtype, static_cast<double>(size), p, sum);
    return SumOfTerms{terms, norm, norm * norm / terms, norm, sum, lost};
  });
}

struct GlobalLpPool : ops::GlobalLpPool {
  static constexpr auto Fields() {
    return FieldList(Field<&GlobalLpPool::p>("p"));
  }
  absl::Status Check(const Inputs& in) const {
    if (p >= 1) return CheckPlanes(in);
    return AttributeError("p", fmt::format("is {}, expected 1 or more", p));
  }
  OutputInfos Infer(const Inputs& in) const { return InferPlanes(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateGlobalLp(static_cast<double>(p), args);
  }
};

struct GlobalLpPool1 : ops::GlobalLpPool1 {
  static constexpr auto Fields() {
    return FieldList(Field<&GlobalLpPool1::p>("p"));
  }
  absl::Status Check(const Inputs& in) const {
    if (p > 0) return CheckPlanes(in);
    return AttributeError("p", fmt::format("is {:g}, expected more than 0", p));
  }
  OutputInfos Infer(const Inputs& in) const { return InferPlanes(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateGlobalLp(p, args);
  }
};

constexpr OperatorDef kGlobalPools[] = {
    Row<ops::GlobalAveragePool, GlobalAveragePool>({.name = "GlobalAveragePool",
                                                    .since = 1,
                                                    .inputs = {"X"},
                                                    .outputs = {"Y"},
                                                    .bound = kSum}),
    Row<ops::GlobalMaxPool, GlobalMaxPool>({.name = "GlobalMaxPool",
                                            .since = 1,
                                            .inputs = {"X"},
                                            .outputs = {"Y"},
                                            .bound = kExact}),
    Row<ops::GlobalLpPool1, GlobalLpPool1>({.name = "GlobalLpPool",
                                            .since = 1,
                                            .inputs = {"X"},
                                            .outputs = {"Y"},
                                            .bound = kSum}),
    Row<ops::GlobalLpPool, GlobalLpPool>({.name = "GlobalLpPool",
                                          .since = 2,
                                          .inputs = {"X"},
                                          .outputs = {"Y"},
                                          .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> GlobalPoolOperators() { return kGlobalPools; }

}  // namespace nodewise
