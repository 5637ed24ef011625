#include "nodewise/ops/gather.h"

#include <algorithm>
#include <cstring>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/tensor_moves.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

struct Gather : ops::Gather {
  static constexpr auto Fields() {
    return FieldList(Field<&Gather::axis>("axis"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(RequireIndex(in, 1));
    const auto rank = RankOf(in);
    return rank.has_value() ? Axis(axis, *rank).status() : absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const auto rank = RankOf(in);
    if (!rank.has_value() || !RankOf(in, 1).has_value()) {
      return OneOutput(dtype, std::nullopt);
    }
    NODEWISE_ASSIGN_OR_RETURN(const int at, Axis(axis, *rank));
    const Shape& data = *in.type(0).shape;
    const Shape& indices = *in.type(1).shape;
    Shape sides(data.begin(), data.begin() + at);
    sides.insert(sides.end(), indices.begin(), indices.end());
    sides.insert(sides.end(), data.begin() + at + 1, data.end());
    NODEWISE_RETURN_IF_ERROR(CheckShape(sides));
    NODEWISE_ASSIGN_OR_RETURN(std::optional<Shape> elements, Elements(in));
    return OneOutput(dtype, std::move(sides), std::move(elements));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const int at, Axis(axis, static_cast<int>(args.shape(0).size())));
    const AxisSplit split = SplitAt(args.shape(0), at);
    NODEWISE_ASSIGN_OR_RETURN(const auto indices,
                              IndicesInside(args, 1, split.size));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const auto count = static_cast<int64_t>(indices.size());
    return WithSize(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* const from = args.in(0).As<T>();
      T* const to = y.As<T>();
      const int64_t inner = split.inner;
      ParallelFor(split.outer * count, 2 + static_cast<double>(inner),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t index =
                          indices[static_cast<size_t>(i % count)];
                      const int64_t row = i / count * split.size + index;
                      std::copy_n(from + row * inner, inner, to + i * inner);
                    }
                  });
      return absl::OkStatus();
    });
  }

 private:
  static absl::StatusOr<std::optional<Shape>> Elements(const Inputs& in) {
    const auto known = KnownElements(in);
    const auto indices = in.Ints(1);
    if (!known.has_value() || !indices.has_value() || RankOf(in) != 1) {
      return std::nullopt;
    }
    Shape picked;
    for (const int64_t index : *indices) {
      const auto at = IndexInside(index, static_cast<int64_t>(known->size()));
      if (!at.ok()) return InputError(1, std::string(MessageOf(at.status())));
      picked.push_back((*known)[static_cast<size_t>(*at)]);
    }
    return std::optional<Shape>(std::move(picked));
  }
};

struct GatherElements : ops::GatherElements {
  static constexpr auto Fields() {
    return FieldList(Field<&GatherElements::axis>("axis"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireIndex(in, 1), RequireRank(in, 0, 1, INT32_MAX)));
    const auto rank = RankOf(in);
    if (!rank.has_value()) return absl::OkStatus();
    return All(RequireRank(in, 1, *rank), Axis(axis, *rank).status());
  }
  OutputInfos Infer(const Inputs& in) const {
    std::optional<Shape> sides = in.type(1).shape;
    if (!sides.has_value() && RankOf(in).has_value()) {
      sides = UnknownShape(*RankOf(in));
    }
    return OneOutput(in.type(0).dtype, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const absl::Span<const int64_t> shape = args.shape(1);
    const absl::Span<const int64_t> data = args.shape(0);
    NODEWISE_ASSIGN_OR_RETURN(const int front,
                              Axis(axis, static_cast<int>(data.size())));
    const auto at = static_cast<size_t>(front);
    NODEWISE_ASSIGN_OR_RETURN(const auto indices,
                              IndicesInside(args, 1, data[at]));
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i == at || shape[i] <= data[i]) continue;
      return InputError(1, fmt::format("side {} is {}, expected {} at most", i,
                                       shape[i], data[i]));
    }
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const std::vector<int64_t> strides = StridesOf(data);
    return WithSize(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* const from = args.in(0).As<T>();
      T* const to = y.As<T>();
      ParallelFor(CountOf(y), 8, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          int64_t rest = i;
          int64_t offset = indices[static_cast<size_t>(i)] * strides[at];
          for (size_t side = shape.size(); side-- > 0;) {
            if (side != at) offset += rest % shape[side] * strides[side];
            rest /= shape[side];
          }
          to[i] = from[offset];
        }
      });
      return absl::OkStatus();
    });
  }
};

struct GatherND : ops::GatherND {
  static constexpr auto Fields() {
    return FieldList(Field<&GatherND::batch_dims>("batch_dims"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireType(in, 1, kInt64),
                                 RequireRank(in, 0, 1, INT32_MAX),
                                 RequireRank(in, 1, 1, INT32_MAX)));
    const int least = std::min(RankOf(in).value_or(INT32_MAX),
                               RankOf(in, 1).value_or(INT32_MAX));
    if (batch_dims < 0 || batch_dims >= least) {
      return AttributeError("batch_dims", fmt::format("is {}, expected 0 to {}",
                                                      batch_dims, least - 1));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const auto rank = RankOf(in);
    if (!rank.has_value() || !RankOf(in, 1).has_value()) {
      return OneOutput(dtype, std::nullopt);
    }
    const Shape& data = *in.type(0).shape;
    const Shape& indices = *in.type(1).shape;
    const Dim& depth = indices.back();
    if (!depth.is_known()) return OneOutput(dtype, std::nullopt);
    if (depth.size() < 1 || depth.size() > *rank - batch_dims) {
      return InputError(1, fmt::format("has tuples of {}, expected 1 to {}",
                                       depth.size(), *rank - batch_dims));
    }
    Shape sides(indices.begin(), indices.end() - 1);
    for (size_t i = 0; i < static_cast<size_t>(batch_dims); ++i) {
      const auto both = UniteDims(sides[i], data[i]);
      if (!both.ok())
        return InputError(1, std::string(MessageOf(both.status())));
      sides[i] = *both;
    }
    sides.insert(sides.end(), data.begin() + batch_dims + depth.size(),
                 data.end());
    NODEWISE_RETURN_IF_ERROR(CheckShape(sides));
    return OneOutput(dtype, std::move(sides));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const auto batch = static_cast<size_t>(batch_dims);
    const absl::Span<const int64_t> shape = args.shape(1);
    const auto depth = static_cast<size_t>(shape.back());
    const int64_t tuples =
        Product(shape.subspan(batch, shape.size() - 1 - batch));
    const int64_t batches = Product(shape.first(batch));
    const int64_t step = Product(args.shape(0).subspan(batch));
    const int64_t inner = Product(args.shape(0).subspan(batch + depth));
    const std::vector<int64_t> strides = StridesOf(args.shape(0));
    const auto* index = args.in(1).As<int64_t>();
    const size_t width = ElementBytes(y.dtype());
    const size_t run = static_cast<size_t>(inner) * width;
    char* to = y.As<char>();
    for (int64_t i = 0; i < batches * tuples; ++i) {
      int64_t from = i / tuples * step;
      for (size_t k = 0; k < depth; ++k) {
        const auto at = IndexInside(*index++, args.shape(0)[batch + k]);
        if (!at.ok()) return InputError(1, std::string(MessageOf(at.status())));
        from += *at * strides[batch + k];
      }
      if (run == 0) continue;
      std::memcpy(to, args.in(0).As<char>() + static_cast<size_t>(from) * width,
                  run);
      to += run;
    }
    return absl::OkStatus();
  }
};

struct ReverseSequence : ops::ReverseSequence {
  static constexpr auto Fields() {
    return FieldList(Field<&ReverseSequence::batch_axis>("batch_axis"),
                     Field<&ReverseSequence::time_axis>("time_axis"));
  }

  absl::Status Check(const Inputs& in) const {
    if (batch_axis < 0 || batch_axis > 1 || time_axis != 1 - batch_axis) {
      return AttributeError("time_axis",
                            fmt::format("is {} and batch_axis {}, expected "
                                        "0 and 1 or 1 and 0",
                                        time_axis, batch_axis));
    }
    NODEWISE_RETURN_IF_ERROR(All(RequireRank(in, 0, 2, INT32_MAX),
                                 RequireType(in, 1, kInt64),
                                 RequireRank(in, 1, 1)));
    const auto batch = static_cast<size_t>(batch_axis);
    const auto both = UniteDims(SideOf(in, 1, 0), SideOf(in, 0, batch));
    if (both.ok()) return absl::OkStatus();
    return InputError(1, std::string(MessageOf(both.status())));
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const auto lengths, args.Ints(1));
    const absl::Span<const int64_t> shape = args.shape(0);
    const int64_t times = shape[static_cast<size_t>(time_axis)];
    for (const int64_t length : lengths) {
      if (length >= 0 && length <= times) continue;
      return InputError(1,
                        fmt::format("has {}, expected 0 to {}", length, times));
    }
    const int64_t second = shape[1];
    const int64_t inner = Product(shape.subspan(2));
    const size_t run = static_cast<size_t>(inner) * ElementBytes(y.dtype());
    if (run == 0) return absl::OkStatus();
    for (int64_t i = 0; i < shape[0]; ++i) {
      for (int64_t j = 0; j < second; ++j) {
        const int64_t batch = batch_axis == 0 ? i : j;
        const int64_t time = batch_axis == 0 ? j : i;
        const int64_t length = lengths[static_cast<size_t>(batch)];
        const int64_t source = time < length ? length - 1 - time : time;
        const int64_t row =
            batch_axis == 0 ? i * second + source : source * second + j;
        std::memcpy(y.As<char>() + static_cast<size_t>(i * second + j) * run,
                    args.in(0).As<char>() + static_cast<size_t>(row) * run,
                    run);
      }
    }
    return absl::OkStatus();
  }
};

constexpr OperatorDef kGatherRows[] = {
    Row<ops::Gather, Gather>({.name = "Gather",
                              .since = 1,
                              .inputs = {"data", "indices"},
                              .outputs = {"output"}}),
    Row<ops::GatherElements, GatherElements>({.name = "GatherElements",
                                              .since = 11,
                                              .inputs = {"data", "indices"},
                                              .outputs = {"output"}}),
    Row<ops::GatherND, GatherND>({.name = "GatherND",
                                  .since = 11,
                                  .inputs = {"data", "indices"},
                                  .outputs = {"output"}}),
    Row<ops::ReverseSequence, ReverseSequence>(
        {.name = "ReverseSequence",
         .since = 10,
         .inputs = {"input", "sequence_lens"},
         .outputs = {"Y"}}),
};

}  // namespace

absl::Span<const OperatorDef> GatherOperators() { return kGatherRows; }

}  // namespace nodewise
