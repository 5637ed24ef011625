#include "contrib/ops/util/open_results.h"

#include <cmath>
#include <limits>
#include <vector>

#include "nodewise/op/tensor_loops.h"

namespace nodewise {

void AllowAny(EvalArgs& args, size_t output,
              absl::FunctionRef<bool(int64_t element)> is_open) {
  Bounds* const bounds = args.bounds(output);
  if (bounds == nullptr || !args.wants(output)) return;
  const auto count = static_cast<size_t>(CountOf(args.outputs()[output]));
  bounds->proved.resize(count);
  bounds->expected.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (!is_open(static_cast<int64_t>(i))) continue;
    bounds->proved[i] = std::numeric_limits<double>::infinity();
    bounds->expected[i] = bounds->proved[i];
  }
}

void AllowAnyForNan(EvalArgs& args) {
  if (args.bounds(0) == nullptr || !IsFloat(args.outputs()[0].dtype())) return;
  const std::vector<double> values = ToDoubles(args.outputs()[0]);
  const auto is_nan = [&](int64_t element) {
    return std::isnan(values[static_cast<size_t>(element)]);
  };
  AllowAny(args, 0, is_nan);
  if (args.num_outputs() > 1) AllowAny(args, 1, is_nan);
}

}  // namespace nodewise
