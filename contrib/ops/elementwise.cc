#include "contrib/ops/util/elementwise.h"

#include <limits>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"

namespace nodewise {
namespace {

bool IsIndex(DLDataType dtype) { return dtype == kInt32 || dtype == kInt64; }

// A value that does not fit the type becomes unknown.
Dim Fitting(Dim element, DLDataType dtype) {
  if (!element.is_known() || dtype == kInt64) return element;
  const bool fits = element.size() >= std::numeric_limits<int32_t>::min() &&
                    element.size() <= std::numeric_limits<int32_t>::max();
  return fits ? element : Dim();
}

}  // namespace

double CountOf(const OutputInfo& output) {
  const auto sizes = output.type.sizes();
  if (!sizes.has_value()) return 0;
  double count = 1;
  for (const int64_t size : *sizes) count *= static_cast<double>(size);
  return count;
}

absl::StatusOr<OutputInfos> Countable(absl::StatusOr<OutputInfos> outputs) {
  if (!outputs.ok()) return outputs;
  for (const OutputInfo& output : *outputs) {
    const auto sizes = output.type.sizes();
    if (!sizes.has_value()) continue;
    NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
  }
  return outputs;
}

std::optional<Shape> PairElements(const Inputs& in,
                                  Dim (*f)(const Dim&, const Dim&)) {
  const DLDataType dtype = SharedType(in);
  if (f == nullptr || in[0].elements == nullptr || in[1].elements == nullptr ||
      !IsIndex(dtype)) {
    return std::nullopt;
  }
  const Shape& a = *in[0].elements;
  const Shape& b = *in[1].elements;
  if (a.size() != b.size() && a.size() != 1 && b.size() != 1) {
    return std::nullopt;
  }
  const size_t count = a.size() == 1 ? b.size() : a.size();
  Shape result;
  for (size_t i = 0; i < count; ++i) {
    result.push_back(
        Fitting(f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]), dtype));
  }
  return result;
}

std::optional<Shape> MapElements(const Inputs& in, Dim (*f)(const Dim&)) {
  if (in[0].elements == nullptr || !IsIndex(in.type(0).dtype)) {
    return std::nullopt;
  }
  Shape result;
  for (const Dim& element : *in[0].elements) {
    result.push_back(Fitting(f(element), in.type(0).dtype));
  }
  return result;
}

void FillScaledBounds(const NDArray& x, const NDArray& y, Bounds* bounds,
                      absl::FunctionRef<double(double x, double y)> scale) {
  const std::vector<double> in = ToDoubles(x);
  const std::vector<double> out = ToDoubles(y);
  bounds->proved.resize(out.size());
  const HalfUlps half_ulp(y.dtype());
  for (size_t i = 0; i < out.size(); ++i) {
    const double size = scale(in[i], out[i]);
    bounds->proved[i] =
        std::isinf(size) && std::isfinite(out[i])
            ? size
            : kScaledUlps * 2 * half_ulp(std::max(std::fabs(out[i]), size));
  }
  bounds->expected = bounds->proved;
}

absl::StatusOr<Broadcast> BroadcastPair(const EvalArgs& args) {
  const absl::Span<const int64_t> shapes[] = {args.shape(0), args.shape(1)};
  return MakeBroadcast(shapes);
}

absl::StatusOr<std::vector<int64_t>> AlignTo(absl::Span<const int64_t> x,
                                             absl::Span<const int64_t> y,
                                             const ops::AxisBroadcast& rule) {
  const auto misfit = [&](const char* expected) {
    return InputError(
        1,
        fmt::format("has shape [{}] beside one of [{}], expected {}",
                    absl::StrJoin(y, ", "), absl::StrJoin(x, ", "), expected));
  };
  if (!rule.broadcast) {
    if (x == y) return std::vector<int64_t>(y.begin(), y.end());
    return misfit("the same (attribute broadcast is not set)");
  }
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(y));
  if (count == 1) return std::vector<int64_t>(x.size(), 1);
  if (y.size() > x.size()) return misfit("no more sides");
  size_t first = x.size() - y.size();
  if (rule.axis.has_value()) {
    const int rank = static_cast<int>(x.size());
    NODEWISE_ASSIGN_OR_RETURN(const int axis, Axis(*rule.axis, rank));
    first = static_cast<size_t>(axis);
  }
  if (first + y.size() > x.size()) return misfit("fewer sides from axis on");
  std::vector<int64_t> aligned(x.size(), 1);
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] != x[first + i] && y[i] != 1) return misfit("sides that agree");
    aligned[first + i] = y[i];
  }
  return aligned;
}

absl::Status CheckAligned(const Inputs& in, const ops::AxisBroadcast& rule) {
  const auto x = in.type(0).sizes();
  const auto y = in.type(1).sizes();
  if (!x.has_value() || !y.has_value()) return absl::OkStatus();
  return AlignTo(*x, *y, rule).status();
}

absl::StatusOr<Broadcast> AlignedPair(const EvalArgs& args,
                                      const ops::AxisBroadcast& rule) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int64_t> y,
                            AlignTo(args.shape(0), args.shape(1), rule));
  const absl::Span<const int64_t> shapes[] = {args.shape(0), y};
  return MakeBroadcast(shapes);
}

DLDataType SharedType(const Inputs& in) {
  return in.type(0).has_dtype() ? in.type(0).dtype : in.type(1).dtype;
}

}  // namespace nodewise
