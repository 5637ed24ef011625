#include "contrib/emit_c/window_plan.h"

#include <algorithm>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

std::string SumOfTerms(const std::vector<std::string>& terms) {
  std::string text;
  for (const std::string& term : terms) {
    text += (text.empty() ? "" : " + ") + term;
  }
  return text.empty() ? "0" : text;
}

}  // namespace

bool WindowPlan::needs_padding() const {
  for (size_t s = 0; s < sides(); ++s) {
    if (window.pads[s] != 0 || padded[s] != input[s]) return true;
  }
  return false;
}

std::string WindowPlan::TapCount(size_t side, bool with_padding,
                                 const std::string& place) const {
  const int64_t begin = window.pads[side];
  const int64_t least = with_padding ? -begin : 0;
  const int64_t end =
      input[side] + (with_padding ? window.pads[side + sides()] : 0);
  const int64_t last = (output[side] - 1) * window.strides[side] - begin +
                       (window.kernel[side] - 1) * window.dilations[side];
  if (-begin >= least && last < end) {
    return fmt::format("{}", window.kernel[side]);
  }
  return fmt::format("nw_taps({} * {} - {}, {}, {}, {}, {})", place,
                     window.strides[side], begin, window.kernel[side],
                     window.dilations[side], least, end);
}

absl::StatusOr<int64_t> ReachOf(int64_t places, int64_t stride, int64_t taps,
                                int64_t dilation) {
  int64_t steps = 0, spread = 0, reach = 0;
  const bool is_too_large =
      __builtin_mul_overflow(places - 1, stride, &steps) ||
      __builtin_mul_overflow(taps - 1, dilation, &spread) ||
      __builtin_add_overflow(steps, spread, &reach) || reach >= kMostElements;
  if (!is_too_large) return reach + 1;
  return Refuse(fmt::format(
      "{} windows reach over more than {} elements of a side, of which no "
      "memory holds a copy",
      places, kMostElements));
}

absl::StatusOr<WindowPlan> PlanWindows(const WindowAttributes& attributes,
                                       const CTensor& x, const CTensor& y) {
  WindowPlan plan;
  plan.input.assign(x.sizes.begin() + 2, x.sizes.end());
  plan.output.assign(y.sizes.begin() + 2, y.sizes.end());
  const int spatial = static_cast<int>(plan.input.size());
  NODEWISE_ASSIGN_OR_RETURN(plan.window, ResolveWindow(attributes, spatial));
  for (int side = 0; side < spatial; ++side) {
    const auto s = static_cast<size_t>(side);
    PadSame(attributes.auto_pad, side, plan.input[s], &plan.window);
    NODEWISE_ASSIGN_OR_RETURN(
        const int64_t needed,
        ReachOf(std::max<int64_t>(plan.output[s], 1), plan.window.strides[s],
                plan.window.kernel[s], plan.window.dilations[s]));
    // Where the windows leave out the end of a side, the plane can be used as
    // it is.
    plan.padded.push_back(
        plan.window.pads[s] == 0 ? std::max(needed, plan.input[s]) : needed);
  }
  return plan;
}

void PadPlanes(CodeWriter* code, const WindowPlan& plan, int64_t planes,
               const std::string& from, const std::string& to,
               const std::string& fill) {
  code->For("i", planes * plan.plane());
  code->Line(fmt::format("{}[i] = {};", to, fill));
  code->Close();
  Sizes input = plan.input;
  Sizes padded = plan.padded;
  input.insert(input.begin(), planes);
  padded.insert(padded.begin(), planes);
  const View from_view = CompactView(input);
  View to_view = CompactView(padded);
  Sizes copied = {planes};
  for (size_t s = 0; s < plan.sides(); ++s) {
    const int64_t begin = plan.window.pads[s];
    to_view.offset += begin * to_view.strides[s + 1];
    copied.push_back(
        std::max<int64_t>(0, std::min(plan.input[s], plan.padded[s] - begin)));
  }
  CopyCode(code, copied, from, from_view, to, to_view);
}

void OpenRows(CodeWriter* code, const WindowPlan& plan) {
  for (size_t s = 0; s + 1 < plan.sides(); ++s) {
    code->For(fmt::format("o{}", s), plan.output[s]);
  }
}

void OpenTaps(CodeWriter* code, const WindowPlan& plan) {
  for (size_t s = 0; s + 1 < plan.sides(); ++s) {
    code->For(fmt::format("k{}", s), plan.window.kernel[s]);
  }
}

std::string RowIndex(const WindowPlan& plan) {
  const View view = CompactView(plan.output);
  std::vector<std::string> terms;
  for (size_t s = 0; s + 1 < plan.sides(); ++s) {
    terms.push_back(fmt::format("o{} * {}", s, view.strides[s]));
  }
  return SumOfTerms(terms);
}

std::string SourceIndex(const WindowPlan& plan) {
  const View view = CompactView(plan.padded);
  std::vector<std::string> terms;
  for (size_t s = 0; s + 1 < plan.sides(); ++s) {
    terms.push_back(fmt::format("(o{0} * {1} + k{0} * {2}) * {3}", s,
                                plan.window.strides[s],
                                plan.window.dilations[s], view.strides[s]));
  }
  return SumOfTerms(terms);
}

std::string TapIndex(const WindowPlan& plan) {
  const View view = CompactView(plan.window.kernel);
  std::vector<std::string> terms;
  for (size_t s = 0; s + 1 < plan.sides(); ++s) {
    terms.push_back(fmt::format("k{} * {}", s, view.strides[s]));
  }
  return SumOfTerms(terms);
}

std::string UnderTap(const WindowPlan& plan, int64_t t) {
  const int64_t stride = plan.window.strides.back();
  const int64_t offset = t * plan.window.dilations.back();
  std::string index = stride == 1 ? "o" : fmt::format("o * {}", stride);
  if (offset != 0) index += fmt::format(" + {}", offset);
  return index;
}

}  // namespace nodewise::emit_c
