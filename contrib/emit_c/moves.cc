// Operators that put elements elsewhere.

#include <algorithm>
#include <numeric>

#include "absl/strings/str_join.h"
#include "contrib/emit_c/operation_code.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/ops/dropout.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/pad.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {
namespace {

// Writes the output, all of it, from the places of input 0 that a view of the
// output's sides has. Most moves are that: they differ in the view alone.
absl::Status WriteFrom(OperationCode& code, const Sizes& sizes,
                       const View& from) {
  CopyCode(&code.code(), sizes, code.in(0).name, from, code.out().name,
           CompactView(sizes));
  return absl::OkStatus();
}

// Elements in the same order, with other sides around them: one memcpy.
absl::Status WriteReshape(OperationCode& code) {
  const Sizes& y = code.out().sizes;
  return WriteFrom(code, y, CompactView(y));
}

// Training is refused; the mask is all ones.
absl::Status WritePassed(OperationCode& code) {
  NODEWISE_RETURN_IF_ERROR(WriteReshape(code));
  if (code.wants(1)) {
    code.code().Each("i", code.out(1).count(), "{}[i] = 1;", code.out(1).name);
  }
  return absl::OkStatus();
}
// Whether a Dropout trains may be known only when it runs: input 2 says so, and
// a ratio of 0 (input 1) drops nothing even then.
absl::Status WriteDropout(OperationCode& code) {
  if (code.has(2)) {
    code.code().Line(
        "if ({}[0]{}) return nw_fail(\"Dropout: training is not supported\");",
        code.in(2).name,
        code.has(1) ? fmt::format(" && {}[0] != 0", code.in(1).name) : "");
  }
  return WritePassed(code);
}
// Below opset 7 a Dropout trains unless it is told not to, but a ratio of 0
// drops nothing.
absl::Status WriteDropout6(OperationCode& code) {
  const auto& op = *code.As<ops::Dropout6>();
  if (!op.is_test && op.ratio != 0) return Refuse("attribute is_test: is 0");
  return WritePassed(code);
}

absl::Status WriteExpand(OperationCode& code) {
  const Sizes& y = code.out().sizes;
  return WriteFrom(code, y, RepeatedView(code.in(0).sizes, y));
}

// Each side becomes two: how often it is repeated, and itself.
absl::Status WriteTile(OperationCode& code) {
  const Sizes& x = code.in(0).sizes;
  const Sizes& y = code.out().sizes;
  const View compact = CompactView(x);
  Sizes sizes;
  View from;
  for (size_t s = 0; s < x.size(); ++s) {
    sizes.insert(sizes.end(), {x[s] == 0 ? 0 : y[s] / x[s], x[s]});
    from.strides.insert(from.strides.end(), {0, compact.strides[s]});
  }
  return WriteFrom(code, sizes, from);
}

// Side s of the output is side perm[s] of the input, so its stride is that of
// the latter. Without a perm the sides are turned round.
absl::Status WriteTranspose(OperationCode& code) {
  const Sizes& x = code.in(0).sizes;
  std::vector<int64_t> perm = code.As<ops::Transpose>()->perm;
  if (perm.empty()) {
    for (size_t s = x.size(); s-- > 0;) {
      perm.push_back(static_cast<int64_t>(s));
    }
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> sides,
                            Axes(perm, static_cast<int>(x.size())));
  const View compact = CompactView(x);
  View from;
  for (const int side : sides) {
    from.strides.push_back(compact.strides[static_cast<size_t>(side)]);
  }
  return WriteFrom(code, code.out().sizes, from);
}

absl::Status WriteConcat(OperationCode& code) {
  const CTensor& y = code.out();
  NODEWISE_ASSIGN_OR_RETURN(const size_t at,
                            SideAt(code.As<ops::Concat>()->axis, y.sizes));
  View to = CompactView(y.sizes);
  for (size_t i = 0; i < code.num_inputs(); ++i) {
    const CTensor& x = code.in(i);
    CopyCode(&code.code(), x.sizes, x.name, CompactView(x.sizes), y.name, to);
    to.offset += x.sizes[at] * to.strides[at];
  }
  return absl::OkStatus();
}

// This is a Concat with inputs and outputs exchanged; the sizes of the parts
// are those of the outputs, which an attribute or an input may say.
absl::Status WriteSplit(OperationCode& code) {
  const CTensor& x = code.in(0);
  NODEWISE_ASSIGN_OR_RETURN(const size_t at,
                            SideAt(code.As<ops::Split>()->axis, x.sizes));
  View from = CompactView(x.sizes);
  for (size_t i = 0; i < code.num_outputs(); ++i) {
    if (!code.wants(i)) return Refuse("an output is not wanted");
    const CTensor& y = code.out(i);
    CopyCode(&code.code(), y.sizes, x.name, from, y.name, CompactView(y.sizes));
    from.offset += y.sizes[at] * from.strides[at];
  }
  return absl::OkStatus();
}

// Where a slice of a side begins; a step never leads from it out of the side.
int64_t StartOf(int64_t start, int64_t step, int64_t size) {
  const int64_t most = step < 0 ? size - 1 : size;
  return std::clamp<int64_t>(start < 0 ? start + size : start, 0,
                             std::max<int64_t>(0, most));
}

// A slice is a view: it begins at some offset, and a step along a side
// multiplies its stride, which may be negative. Sizes of the output are
// inferred, so ends are not looked at.
absl::Status WriteSlice(OperationCode& code) {
  const CTensor& x = code.in(0);
  const std::optional<Sizes> starts = code.Ints(1);
  if (!starts.has_value()) return Refuse("its starts are not constant");
  Sizes axes(starts->size());
  std::iota(axes.begin(), axes.end(), 0);
  Sizes steps(starts->size(), 1);
  if (code.has(3)) axes = code.Ints(3).value_or(Sizes());
  if (code.has(4)) steps = code.Ints(4).value_or(Sizes());
  if (axes.size() != starts->size() || steps.size() != starts->size()) {
    return Refuse("its axes or steps are not constant");
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> sides,
                            Axes(axes, static_cast<int>(x.sizes.size())));
  View from = CompactView(x.sizes);
  for (size_t i = 0; i < sides.size(); ++i) {
    const auto s = static_cast<size_t>(sides[i]);
    const int64_t size = x.sizes[s];
    from.offset += StartOf((*starts)[i], steps[i], size) * from.strides[s];
    // A longer step leads out of the side as well, and does not overflow.
    from.strides[s] *= std::clamp<int64_t>(steps[i], -size - 1, size + 1);
  }
  return WriteFrom(code, code.out().sizes, from);
}

// Returns the element of the input that lies at place `o` of a padded side, as
// an expression, which is below 0 for one that is outside. It is computed where
// it is needed: a table would have as many entries as the side. Negative pads
// cut off first.
std::string PaddedFrom(ops::PadMode mode, const std::string& o, int64_t size,
                       int64_t before, int64_t after) {
  const int64_t first = std::max<int64_t>(0, -before);
  const int64_t n = size - first - std::max<int64_t>(0, -after);
  const int64_t padded = std::max<int64_t>(0, before);
  if (n <= 0) return "-1";
  std::string place = o;
  if (padded > 0) place += fmt::format(" - {}", padded);
  const std::string then = first > 0 ? fmt::format(" + {}", first) : "";
  if (padded == 0 && after <= 0) return place + then;
  if (mode == ops::PadMode::kConstant) {
    // Places outside must stay below 0.
    return first == 0 ? fmt::format("nw_pad_constant({}, {})", place, n)
                      : fmt::format("{0} < {1} ? {0}{2} : -1", place, n, then);
  }
  const char* const function = mode == ops::PadMode::kEdge   ? "nw_pad_edge"
                               : mode == ops::PadMode::kWrap ? "nw_pad_wrap"
                                                             : "nw_pad_reflect";
  return fmt::format("{}({}, {}){}", function, place, n, then);
}

// The pads are a list of beginnings and then one of ends, for all sides or for
// those of input 3. Ends follow from the sizes of the output.
absl::StatusOr<Sizes> PadsBefore(const OperationCode& code) {
  const size_t rank = code.in(0).sizes.size();
  const std::optional<Sizes> pads = code.Ints(1);
  Sizes axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (code.has(3)) axes = code.Ints(3).value_or(Sizes());
  if (!pads.has_value() || pads->size() != 2 * axes.size()) {
    return Refuse("its pads are not constant");
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> sides,
                            Axes(axes, static_cast<int>(rank)));
  Sizes before(rank);
  for (size_t i = 0; i < sides.size(); ++i) {
    before[static_cast<size_t>(sides[i])] = (*pads)[i];
  }
  return before;
}

// Each loop first finds the place of the input along its side ("f0", ...).
// Modes that repeat elements find one for every place, unless the side has
// none.
absl::Status WritePad(OperationCode& operation) {
  const ops::PadMode mode = operation.As<ops::Pad>()->mode;
  const CTensor& x = operation.in(0);
  const CTensor& y = operation.out();
  NODEWISE_ASSIGN_OR_RETURN(const Sizes before, PadsBefore(operation));
  if (x.sizes.empty()) return WriteReshape(operation);
  CodeWriter& code = operation.code();
  const bool has_value = operation.has(2) && operation.in(2).count() > 0;
  const std::string value =
      has_value ? fmt::format("({}){}[0]", y.type(), operation.in(2).name)
                : "0";
  std::vector<std::string> is_outside;
  for (size_t s = 0; s < x.sizes.size(); ++s) {
    const std::string place = fmt::format("i{}", s);
    code.For(place, y.sizes[s]);
    code.Line("const int64_t f{} = {};", s,
              PaddedFrom(mode, place, x.sizes[s], before[s],
                         y.sizes[s] - x.sizes[s] - before[s]));
    is_outside.push_back(fmt::format("f{} < 0", s));
  }
  code.Line("{}[{}] = {} ? {} : {}[{}];", y.name,
            IndexText("i", CompactView(y.sizes).strides),
            absl::StrJoin(is_outside, " || "), value, x.name,
            IndexText("f", CompactView(x.sizes).strides));
  code.Close(static_cast<int>(x.sizes.size()));
  return absl::OkStatus();
}

// The depth is [blocks, blocks, rest] or [rest, blocks, blocks].
absl::Status WriteDepthToSpace(OperationCode& code) {
  const auto& op = *code.As<ops::DepthToSpace>();
  const Sizes& x = code.in(0).sizes;
  const int64_t b = op.blocksize;
  const int64_t depth = x[1] / (b * b);
  const int64_t plane = x[2] * x[3];
  const bool depth_first = op.mode == ops::DepthOrder::kColumnRowDepth;
  const int64_t of_depth = depth_first ? b * b * plane : plane;
  const int64_t of_column = depth_first ? plane : depth * plane;
  return WriteFrom(
      code, {x[0], depth, x[2], b, x[3], b},
      {{x[1] * plane, of_depth, x[3], of_column * b, 1, of_column}, 0});
}

// Blocks of the plane become channels: block by block (the old rule, and DCR),
// or channel by channel (CRD).
template <typename Class>
absl::Status WriteSpaceToDepth(OperationCode& code) {
  const auto& op = *code.As<Class>();
  bool depth_first = false;
  if constexpr (requires { op.mode; }) {
    depth_first = op.mode == ops::DepthOrder::kColumnRowDepth;
  }
  const int64_t b = op.blocksize;
  const Sizes& x = code.in(0).sizes;
  const int64_t plane = x[2] * x[3];
  if (depth_first) {
    return WriteFrom(code, {x[0], x[1], b, b, x[2] / b, x[3] / b},
                     {{x[1] * plane, plane, x[3], 1, x[3] * b, b}, 0});
  }
  return WriteFrom(code, {x[0], b, b, x[1], x[2] / b, x[3] / b},
                   {{x[1] * plane, x[3], 1, plane, x[3] * b, b}, 0});
}

constexpr Row kMoveRows[] = {
    MoveRow<ops::Identity>(&WriteReshape),
    MoveRow<ops::Reshape, ops::Flatten, ops::Squeeze, ops::Unsqueeze>(
        &WriteReshape),
    MoveRow<ops::Dropout>(&WriteDropout),
    MoveRow<ops::Dropout7>(&WritePassed),
    MoveRow<ops::Dropout6>(&WriteDropout6),
    MoveRow<ops::Expand>(&WriteExpand),
    MoveRow<ops::Tile>(&WriteTile),
    MoveRow<ops::Transpose>(&WriteTranspose),
    MoveRow<ops::Concat>(&WriteConcat),
    MoveRow<ops::Split>(&WriteSplit),
    MoveRow<ops::Slice>(&WriteSlice),
    MoveRow<ops::Pad>(&WritePad),
    MoveRow<ops::DepthToSpace>(&WriteDepthToSpace),
    MoveRow<ops::SpaceToDepth>(&WriteSpaceToDepth<ops::SpaceToDepth>),
    MoveRow<ops::SpaceToDepth1>(&WriteSpaceToDepth<ops::SpaceToDepth1>),
};

}  // namespace

absl::Span<const Row> MoveRows() { return kMoveRows; }

}  // namespace nodewise::emit_c
