#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "nodewise/autotest/generator.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr int64_t kMostGeneratedElements = int64_t{1} << 24;

class TensorNode : public GeneratorNode {
 public:
  // Without a rank all sides are given.
  TensorNode(std::optional<generator> rank,
             std::vector<std::optional<generator>> sides, TensorOptions options)
      : rank_(std::move(rank)),
        sides_(std::move(sides)),
        options_(std::move(options)) {}
  double Size() const override {
    return std::numeric_limits<double>::infinity();
  }

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    NODEWISE_ASSIGN_OR_RETURN(const GeneratedValue type,
                              options_.dtype.value(draw));
    const auto* const dtype = type.As<DLDataType>();
    if (dtype == nullptr) {
      return absl::InvalidArgumentError(fmt::format(
          "random_tensor: found {}, expected an element type", ToString(type)));
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Sides(draw));
    const SpecialKind special =
        options_.may_be_special
            ? static_cast<SpecialKind>(draw.choices()->UpTo(kSpecialKinds - 1))
            : SpecialKind::kNone;
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray tensor,
        DrawTensor(*dtype, shape, options_.domain, draw.choices(), special));
    return GeneratedValue{std::move(tensor)};
  }

 private:
  absl::StatusOr<std::vector<int64_t>> Sides(CaseDraw& draw) const {
    auto rank = static_cast<int64_t>(sides_.size());
    if (rank_.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(rank, Side(*rank_, draw));
      if (rank > kMostDims) {
        return absl::InvalidArgumentError(
            fmt::format("random_tensor: found {} sides, expected {} at most",
                        rank, kMostDims));
      }
    }
    std::vector<int64_t> shape;
    for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
      if (i < sides_.size() && sides_[i].has_value()) {
        NODEWISE_ASSIGN_OR_RETURN(shape.emplace_back(), Side(*sides_[i], draw));
      } else {
        shape.push_back(1 + static_cast<int64_t>(draw.choices()->UpTo(4)));
      }
    }
    NODEWISE_RETURN_IF_ERROR(CheckCount(shape));
    return shape;
  }

  static absl::Status CheckCount(absl::Span<const int64_t> shape) {
    int64_t count = 1;
    for (const int64_t side : shape) {
      if (side > kMostGeneratedElements / std::max<int64_t>(count, 1)) {
        return absl::ResourceExhaustedError(
            fmt::format("random_tensor: has more than {} elements",
                        kMostGeneratedElements));
      }
      count *= side;
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<int64_t> Side(const generator& from, CaseDraw& draw) {
    NODEWISE_ASSIGN_OR_RETURN(const GeneratedValue value,
                              from.to(Annotation::kInt).value(draw));
    const auto side = value.AsInt();
    if (side.has_value() && *side >= 0) return *side;
    return absl::InvalidArgumentError(fmt::format(
        "random_tensor: found {} as a side, expected a whole number of 0 or "
        "more",
        ToString(value)));
  }

  const std::optional<generator> rank_;
  const std::vector<std::optional<generator>> sides_;
  const TensorOptions options_;
};

// What cannot be made, and why.
class FailingNode : public GeneratorNode {
 public:
  explicit FailingNode(absl::Status why) : why_(std::move(why)) {}
  double Size() const override { return 1; }

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw&) override { return why_; }

 private:
  const absl::Status why_;
};

// Reads "[2, 3]".
absl::StatusOr<std::vector<int64_t>> SidesIn(std::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(fmt::format(
      "Tensor: found the sides \"{}\", expected such as [2, 3]", text));
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return wrong;
  }
  std::vector<int64_t> sides;
  text = text.substr(1, text.size() - 2);
  if (text.empty()) return sides;
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ',');
  for (const std::string& part : parts) {
    int64_t side = 0;
    if (!absl::SimpleAtoi(part, &side) || side < 0) return wrong;
    sides.push_back(side);
  }
  return sides;
}

absl::StatusOr<NDArray> TensorOfNumbers(DLDataType dtype,
                                        const std::vector<int64_t>& shape,
                                        const std::vector<double>& numbers) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(shape));
  if (static_cast<uint64_t>(count) != numbers.size()) {
    return absl::InvalidArgumentError(fmt::format(
        "Tensor: found {} numbers, expected {}", numbers.size(), count));
  }
  NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, NDArray::Empty(shape, dtype, kCpu));
  StoreDoubles(numbers.data(), 0, count, tensor);
  return tensor;
}

}  // namespace

generator random_tensor(std::vector<generator> sides, TensorOptions options) {
  return generator(std::make_shared<TensorNode>(
      std::nullopt,
      std::vector<std::optional<generator>>(sides.begin(), sides.end()),
      std::move(options)));
}
generator MakeRandomTensor(TensorSides sides, TensorOptions options) {
  return generator(std::make_shared<TensorNode>(
      std::move(sides.ndim),
      std::vector<std::optional<generator>>{
          std::move(sides.dim0), std::move(sides.dim1), std::move(sides.dim2),
          std::move(sides.dim3), std::move(sides.dim4)},
      std::move(options)));
}
generator random_tensor_of_rank(generator rank, TensorOptions options) {
  return MakeRandomTensor({.ndim = std::move(rank)}, std::move(options));
}

generator Tensor(std::string_view type, std::vector<double> numbers) {
  const size_t bracket = std::min(type.find('['), type.size());
  const auto dtype = ParseDType(type.substr(0, bracket));
  auto shape = SidesIn(type.substr(bracket));
  if (!dtype.ok())
    return generator(std::make_shared<FailingNode>(dtype.status()));
  if (!shape.ok())
    return generator(std::make_shared<FailingNode>(shape.status()));
  if (numbers.empty()) {
    return random_tensor({shape->begin(), shape->end()}, {.dtype = *dtype});
  }
  auto tensor = TensorOfNumbers(*dtype, *shape, numbers);
  if (!tensor.ok()) {
    return generator(std::make_shared<FailingNode>(tensor.status()));
  }
  return constant(GeneratedValue{*std::move(tensor)});
}

}  // namespace nodewise
