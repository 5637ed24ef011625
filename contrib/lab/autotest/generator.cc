#include "nodewise/autotest/generator.h"

#include <atomic>
#include <cmath>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {
namespace {

// A generator that is made of more than these inside of each other has no end.
constexpr int kMostDepth = 200;

class ConstantNode : public GeneratorNode {
 public:
  explicit ConstantNode(GeneratedValue value) : value_(std::move(value)) {}
  double Size() const override { return 1; }
  const GeneratedValue* Known() const override { return &value_; }
  void To(Annotation annotation) override { annotation_ = annotation; }

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& /*draw*/) override {
    if (annotation_ == Annotation::kFloat && value_.AsDouble().has_value()) {
      return GeneratedValue{*value_.AsDouble()};
    }
    return value_;
  }

 private:
  const GeneratedValue value_;
  Annotation annotation_ = Annotation::kAny;
};

struct ValueText {
  std::string operator()(Nothing) const { return "nothing"; }
  std::string operator()(bool x) const { return x ? "true" : "false"; }
  std::string operator()(int64_t x) const { return fmt::format("{}", x); }
  std::string operator()(double x) const { return fmt::format("{}", x); }
  std::string operator()(const std::string& x) const { return x; }
  std::string operator()(DLDataType x) const {
    return ToString(TensorType(x, {}))
        .substr(0, ToString(TensorType(x, {})).find('['));
  }
  std::string operator()(DLDevice x) const {
    return fmt::format("device({}, {})", static_cast<int>(x.device_type),
                       x.device_id);
  }
  std::string operator()(const NDArray& x) const {
    return ToString(TensorType::Of(*x));
  }
  std::string operator()(const GeneratedTuple& x) const {
    std::string text = "[";
    for (const GeneratedValue& each : x) {
      if (text.size() > 1) text += ", ";
      text += ToString(each);
    }
    return text + "]";
  }
};

uint64_t NextCaseId() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

}  // namespace

std::optional<int64_t> GeneratedValue::AsInt() const {
  if (const auto* const x = As<int64_t>()) return *x;
  if (const auto* const x = As<bool>()) return *x ? 1 : 0;
  const auto* const x = As<double>();
  if (x == nullptr || *x != std::trunc(*x) || std::fabs(*x) > 0x1p62) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*x);
}

std::optional<double> GeneratedValue::AsDouble() const {
  if (const auto* const x = As<double>()) return *x;
  const auto whole = AsInt();
  if (!whole.has_value()) return std::nullopt;
  return static_cast<double>(*whole);
}

std::string ToString(const GeneratedValue& value) {
  return std::visit(ValueText(), value.held);
}

CaseDraw::CaseDraw(Choices* choices) : choices_(choices), id_(NextCaseId()) {}

absl::StatusOr<GeneratedValue> GeneratorNode::Value(CaseDraw& draw) {
  if (case_id_ == draw.id_) return value_;
  if (draw.depth_ >= kMostDepth || draw.choices_->is_exhausted()) {
    return absl::ResourceExhaustedError(
        fmt::format("a generator has no end: it is made of more than {} inside "
                    "of each other, or makes more than {} choices",
                    kMostDepth, Choices::kMost));
  }
  ++draw.depth_;
  auto made = [&] {
    const Choices::Group group(draw.choices_);
    return CalcValue(draw);
  }();
  --draw.depth_;
  if (!made.ok()) return made;
  value_ = *std::move(made);
  case_id_ = draw.id_;
  return value_;
}

generator::generator(GeneratedValue value)
    : node_(std::make_shared<ConstantNode>(std::move(value))) {}
generator::generator(int value)
    : generator(GeneratedValue{static_cast<int64_t>(value)}) {}
generator::generator(int64_t value) : generator(GeneratedValue{value}) {}
generator::generator(double value) : generator(GeneratedValue{value}) {}
generator::generator(bool value) : generator(GeneratedValue{value}) {}
generator::generator(const char* value)
    : generator(GeneratedValue{std::string(value)}) {}
generator::generator(DLDataType value) : generator(GeneratedValue{value}) {}
generator::generator(NDArray value)
    : generator(GeneratedValue{std::move(value)}) {}
generator::generator(Nothing value) : generator(GeneratedValue{value}) {}

absl::StatusOr<GeneratedValue> generator::value(CaseDraw& draw) const {
  return node_->Value(draw);
}
const generator& generator::to(Annotation annotation) const {
  if (annotation != Annotation::kAny) node_->To(annotation);
  return *this;
}
double generator::size() const { return node_->Size(); }

generator nothing() { return {Nothing()}; }
generator constant(GeneratedValue value) { return generator(std::move(value)); }

}  // namespace nodewise
