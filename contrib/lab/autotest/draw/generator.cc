#include "nodewise/autotest/generator.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {
namespace {

// A generator that nests deeper than this has no end: its value calls a
// function that makes another generator of its kind.
constexpr int kMostDepth = 200;
// Tensors of programs are small. More than these would rather be a mistake in a
// side than a test that is wanted.
constexpr int64_t kMostGeneratedElements = int64_t{1} << 24;
constexpr double kEndless = std::numeric_limits<double>::infinity();

absl::Status NoNumber(const char* what, const GeneratedValue& found) {
  return InvalidArgument("{}: found {}, expected a number", what,
                         ToString(found));
}

template <typename T>
absl::Status EmptyRange(T low, T high) {
  return InvalidArgument(
      "random({0}, {1}): is empty, expected an upper end above {0}", low, high);
}

void AnnotateAll(const std::vector<generator>& all, Annotation annotation) {
  for (const generator& one : all) one.to(annotation);
}

template <typename Node, typename... Args>
generator MakeGenerator(Args&&... args) {
  return generator(std::make_shared<Node>(std::forward<Args>(args)...));
}

// A whole number becomes a float where one is wanted, and nothing else changes:
// a constant is what the program says.
class ConstantNode : public GeneratorNode {
 public:
  explicit ConstantNode(GeneratedValue value) : value_(std::move(value)) {}
  double Size() const override { return 1; }
  const GeneratedValue* Known() const override { return &value_; }
  void To(Annotation annotation) override { annotation_ = annotation; }
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

// A tensor may have many numbers, so its type and shape stand for it.
struct ValueText {
  std::string operator()(Nothing) const { return "nothing"; }
  std::string operator()(bool x) const { return x ? "true" : "false"; }
  std::string operator()(int64_t x) const { return fmt::format("{}", x); }
  std::string operator()(double x) const { return fmt::format("{}", x); }
  std::string operator()(const std::string& x) const { return x; }
  std::string operator()(DLDataType x) const {
    const std::string type = ToString(TensorType(x, {}));
    return type.substr(0, type.find('['));
  }
  std::string operator()(DLDevice x) const {
    return fmt::format("device({}, {})", static_cast<int>(x.device_type),
                       x.device_id);
  }
  std::string operator()(const NDArray& x) const {
    return ToString(TensorType::From(*x));
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

// 0 stands for no case, so numbers begin with 1.
// Cases of several threads have different numbers, too.
uint64_t NextCaseId() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

// A number between two ends, which are generators, too. An annotation decides
// on its type, or else the types of the ends, to which the annotation is
// therefore not passed on.
class RandomNode : public GeneratorNode {
 public:
  using GeneratorNode::GeneratorNode;
  double Size() const override {
    if (annotation_ == Annotation::kBool) return 2;
    const GeneratedValue* const low = children()[0].node()->Known();
    const GeneratedValue* const high = children()[1].node()->Known();
    if (low == nullptr || high == nullptr || !IsWhole(*low, *high)) {
      return kEndless;
    }
    return std::max(0.0, *high->AsDouble() - *low->AsDouble());
  }
  void To(Annotation annotation) override { annotation_ = annotation; }

  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    if (annotation_ == Annotation::kBool) {
      return GeneratedValue{draw.choices()->UpTo(1) == 1};
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto low, children()[0].value(draw));
    NODEWISE_ASSIGN_OR_RETURN(const auto high, children()[1].value(draw));
    if (!IsWhole(low, high)) return Float(low, high, draw);
    const auto least = low.AsInt();
    const auto end = high.AsInt();
    if (!least.has_value()) return NoNumber("random: the lower end", low);
    if (!end.has_value()) return NoNumber("random: the upper end", high);
    if (*least >= *end) return EmptyRange(*least, *end);
    // The range may be longer than the largest signed number.
    const uint64_t range =
        static_cast<uint64_t>(*end) - static_cast<uint64_t>(*least) - 1;
    return GeneratedValue{*least +
                          static_cast<int64_t>(draw.choices()->UpTo(range))};
  }

 private:
  bool IsWhole(const GeneratedValue& low, const GeneratedValue& high) const {
    if (annotation_ != Annotation::kAny) return annotation_ == Annotation::kInt;
    return low.As<int64_t>() != nullptr && high.As<int64_t>() != nullptr;
  }

  static absl::StatusOr<GeneratedValue> Float(const GeneratedValue& low,
                                              const GeneratedValue& high,
                                              CaseDraw& draw) {
    const auto least = low.AsDouble();
    const auto end = high.AsDouble();
    if (!least.has_value()) return NoNumber("random: the lower end", low);
    if (!end.has_value()) return NoNumber("random: the upper end", high);
    // Neither is below the other if one is NaN.
    if (!(*least < *end)) return EmptyRange(*least, *end);
    // 24 bits, which every float type but the shortest holds.
    constexpr uint64_t kMostSteps = (1 << 24) - 1;
    const auto step = static_cast<double>(draw.choices()->UpTo(kMostSteps));
    return GeneratedValue{*least + (*end - *least) * step * 0x1p-24};
  }

  Annotation annotation_ = Annotation::kAny;
};

// Without a To() of its own, so that a bool stays one for any annotation.
class BoolNode : public GeneratorNode {
 public:
  double Size() const override { return 2; }
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    return GeneratedValue{draw.choices()->UpTo(1) == 1};
  }
};

// How many values there are is not how many different ones: options may
// overlap.
class OneOfNode : public GeneratorNode {
 public:
  OneOfNode(std::vector<generator> options, std::vector<double> odds)
      : GeneratorNode(std::move(options)), odds_(std::move(odds)) {}

  double Size() const override {
    double all = 0;
    for (const generator& option : children()) all += option.size();
    return all;
  }
  void To(Annotation annotation) override {
    AnnotateAll(children(), annotation);
  }

  // With odds, the options are stretches of a line, one behind the other, and
  // the choice is a place on it: 0 is still the first option.
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    if (children().empty()) {
      return InvalidArgument("oneof: is empty, expected at least one option");
    }
    if (odds_.empty()) return draw.choices()->One(children()).value(draw);
    const double all = std::accumulate(odds_.begin(), odds_.end(), 0.0);
    if (odds_.size() != children().size() || !(all > 0)) {
      return InvalidArgument(
          "oneof: has {} odds for {} options, expected one above 0 for each",
          odds_.size(), children().size());
    }
    constexpr uint64_t kMostSteps = (1 << 20) - 1;
    const double place =
        all * static_cast<double>(draw.choices()->UpTo(kMostSteps)) * 0x1p-20;
    size_t chosen = 0;
    for (double end = odds_[0]; chosen + 1 < odds_.size() && place >= end;) {
      end += odds_[++chosen];
    }
    return children()[chosen].value(draw);
  }

 private:
  const std::vector<double> odds_;
};

// Its size is an upper limit: elements may share generators.
class TupleNode : public GeneratorNode {
 public:
  using GeneratorNode::GeneratorNode;
  double Size() const override {
    double all = 1;
    for (const generator& element : children()) all *= element.size();
    return all;
  }
  void To(Annotation annotation) override {
    AnnotateAll(children(), annotation);
  }
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    GeneratedTuple elements;
    for (const generator& element : children()) {
      NODEWISE_ASSIGN_OR_RETURN(elements.emplace_back(), element.value(draw));
    }
    return GeneratedValue{std::move(elements)};
  }
};

// Makes an element of its own for each place: a new generator, since one has
// the same value wherever it is used in a case. The ends are shared by all.
class RepeatedNode : public GeneratorNode {
 public:
  using GeneratorNode::GeneratorNode;
  double Size() const override { return kEndless; }
  void To(Annotation annotation) override { annotation_ = annotation; }
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    NODEWISE_ASSIGN_OR_RETURN(const auto count, children()[0].value(draw));
    const auto wanted = count.AsInt();
    // More elements than there may be choices would never be drawn.
    if (!wanted.has_value() || *wanted < 0 ||
        *wanted > static_cast<int64_t>(Choices::kMost)) {
      return NoNumber("tuple_of: the number of elements", count);
    }
    GeneratedTuple elements;
    for (int64_t i = 0; i < *wanted; ++i) {
      const generator one = random(children()[1], children()[2]);
      NODEWISE_ASSIGN_OR_RETURN(elements.emplace_back(),
                                one.to(annotation_).value(draw));
    }
    return GeneratedValue{std::move(elements)};
  }

 private:
  Annotation annotation_ = Annotation::kAny;
};

// A device stays one for any annotation: there is no number that it could
// become.
class DeviceNode : public GeneratorNode {
 public:
  explicit DeviceNode(std::vector<DLDevice> devices)
      : devices_(std::move(devices)) {}
  double Size() const override { return static_cast<double>(devices_.size()); }
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    if (devices_.empty()) {
      return InvalidArgument(
          "random_device: is empty, expected at least one device");
    }
    return GeneratedValue{devices_[draw.choices()->UpTo(devices_.size() - 1)]};
  }

 private:
  const std::vector<DLDevice> devices_;
};

// The size is an upper limit: different operands may come to the same.
class ArithmeticNode : public GeneratorNode {
 public:
  ArithmeticNode(char sign, generator a, generator b)
      : GeneratorNode({std::move(a), std::move(b)}), sign_(sign) {}
  double Size() const override {
    return children()[0].size() * children()[1].size();
  }
  void To(Annotation annotation) override {
    AnnotateAll(children(), annotation);
  }
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    NODEWISE_ASSIGN_OR_RETURN(const auto a, children()[0].value(draw));
    NODEWISE_ASSIGN_OR_RETURN(const auto b, children()[1].value(draw));
    if (a.As<int64_t>() != nullptr && b.As<int64_t>() != nullptr) {
      return Whole(*a.As<int64_t>(), *b.As<int64_t>());
    }
    if (!a.AsDouble().has_value()) return NoNumber("left operand", a);
    if (!b.AsDouble().has_value()) return NoNumber("right operand", b);
    return GeneratedValue{Float(*a.AsDouble(), *b.AsDouble())};
  }

 private:
  absl::StatusOr<GeneratedValue> Whole(int64_t a, int64_t b) const {
    int64_t result = 0;
    bool is_too_large = false;
    switch (sign_) {
      case '+':
        is_too_large = __builtin_add_overflow(a, b, &result);
        break;
      case '-':
        is_too_large = __builtin_sub_overflow(a, b, &result);
        break;
      case '*':
        is_too_large = __builtin_mul_overflow(a, b, &result);
        break;
      default:
        // The least number divided by -1 is one more than the largest.
        is_too_large = b == 0 || (b == -1 && a == INT64_MIN);
        if (!is_too_large) result = sign_ == '/' ? a / b : a % b;
    }
    if (!is_too_large) return GeneratedValue{result};
    return InvalidArgument("{} {} {}: has no result", a, sign_, b);
  }

  // Floats have a result for any operands: infinity or NaN where numbers end.
  double Float(double a, double b) const {
    return sign_ == '+'   ? a + b
           : sign_ == '-' ? a - b
           : sign_ == '*' ? a * b
           : sign_ == '/' ? a / b
                          : std::fmod(a, b);
  }

  const char sign_;
};

class TensorNode : public GeneratorNode {
 public:
  // Without a rank all sides are given.
  TensorNode(std::optional<generator> rank,
             std::vector<std::optional<generator>> sides, TensorOptions options)
      : rank_(std::move(rank)),
        sides_(std::move(sides)),
        options_(std::move(options)) {}
  double Size() const override { return kEndless; }
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    NODEWISE_ASSIGN_OR_RETURN(const auto type, options_.dtype.value(draw));
    const auto* const dtype = type.As<DLDataType>();
    if (dtype == nullptr) {
      return InvalidArgument(
          "random_tensor: found {}, expected an element type", ToString(type));
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto shape, Sides(draw));
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
  // Sides beyond a drawn rank are not drawn at all: a generator may be used
  // elsewhere, and has its value from there then.
  absl::StatusOr<std::vector<int64_t>> Sides(CaseDraw& draw) const {
    auto rank = static_cast<int64_t>(sides_.size());
    if (rank_.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(rank, Side(*rank_, draw));
      if (rank > kMostDims) {
        return InvalidArgument(
            "random_tensor: found {} sides, expected {} at most", rank,
            kMostDims);
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

  // Sides are multiplied one by one, and each is compared with what is left,
  // since their product may be beyond any integer.
  static absl::Status CheckCount(absl::Span<const int64_t> shape) {
    int64_t count = 1;
    for (const int64_t side : shape) {
      if (side > kMostGeneratedElements / std::max<int64_t>(count, 1)) {
        return ResourceExhausted("random_tensor: has more than {} elements",
                                 kMostGeneratedElements);
      }
      count *= side;
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<int64_t> Side(const generator& from, CaseDraw& draw) {
    NODEWISE_ASSIGN_OR_RETURN(const auto value,
                              from.to(Annotation::kInt).value(draw));
    const auto side = value.AsInt();
    if (side.has_value() && *side >= 0) return *side;
    return InvalidArgument(
        "random_tensor: found {} as a side, expected a whole number of 0 or "
        "more",
        ToString(value));
  }

  const std::optional<generator> rank_;
  const std::vector<std::optional<generator>> sides_;
  const TensorOptions options_;
};

// A generator that cannot be made, and why: a program is written down before
// anything is drawn, so that its errors are told when it runs.
class FailingNode : public GeneratorNode {
 public:
  explicit FailingNode(absl::Status why) : why_(std::move(why)) {}
  double Size() const override { return 1; }
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw&) override { return why_; }

 private:
  const absl::Status why_;
};

absl::StatusOr<std::vector<int64_t>> SidesIn(std::string_view text) {
  const absl::Status wrong = InvalidArgument(
      "Tensor: found the sides \"{}\", expected such as [2, 3]", text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return wrong;
  }
  std::vector<int64_t> sides;
  text = text.substr(1, text.size() - 2);
  if (text.empty()) return sides;
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ',');
  for (const std::string& part : parts) {
    int64_t& side = sides.emplace_back();
    if (!absl::SimpleAtoi(part, &side) || side < 0) return wrong;
  }
  return sides;
}

absl::StatusOr<NDArray> CheckedTensor(DLDataType dtype,
                                      const std::vector<int64_t>& shape,
                                      const std::vector<double>& numbers) {
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(shape));
  if (static_cast<uint64_t>(count) != numbers.size()) {
    return InvalidArgument("Tensor: found {} numbers, expected {}",
                           numbers.size(), count);
  }
  return TensorOfDoubles(dtype, shape, numbers);
}

}  // namespace

std::optional<int64_t> GeneratedValue::AsInt() const {
  if (const auto* const x = As<int64_t>()) return *x;
  if (const auto* const x = As<bool>()) return *x ? 1 : 0;
  const auto* const x = As<double>();
  // Well inside of what an int64 holds.
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

// For messages; a program is shown with CppText(), which quotes words.
std::string ToString(const GeneratedValue& value) {
  return std::visit(ValueText(), value.held);
}

CaseDraw::CaseDraw(Choices* choices) : choices_(choices), id_(NextCaseId()) {}

// A value is kept for its case, so that a generator that is used twice is drawn
// once. The number of the case tells whether it is of this one: nothing has to
// be forgotten when a case ends.
absl::StatusOr<GeneratedValue> GeneratorNode::Value(CaseDraw& draw) {
  if (case_id_ == draw.id_) return value_;
  if (draw.depth_ >= kMostDepth || draw.choices_->is_exhausted()) {
    return ResourceExhausted(
        "a generator has no end: it is made of more than {} inside of each "
        "other, or makes more than {} choices",
        kMostDepth, Choices::kMost);
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

// Constants of all types go one way, so that each becomes a node that knows its
// value.
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
// kAny does not take back what was asked for before.
const generator& generator::to(Annotation annotation) const {
  if (annotation != Annotation::kAny) node_->To(annotation);
  return *this;
}
double generator::size() const { return node_->Size(); }

generator nothing() { return {Nothing()}; }
generator constant(GeneratedValue value) { return generator(std::move(value)); }

generator random(generator low, generator high) {
  return MakeGenerator<RandomNode>(
      std::vector<generator>{std::move(low), std::move(high)});
}
generator random_bool() { return MakeGenerator<BoolNode>(); }
generator oneof(std::vector<generator> options, std::vector<double> odds) {
  return MakeGenerator<OneOfNode>(std::move(options), std::move(odds));
}
// The first option is the simplest, so that a case shrinks to nothing().
generator random_or_nothing(generator low, generator high) {
  return oneof({nothing(), random(std::move(low), std::move(high))}, {1, 2});
}
generator tuple(std::vector<generator> elements) {
  return MakeGenerator<TupleNode>(std::move(elements));
}
generator tuple_of(generator count, generator low, generator high) {
  return MakeGenerator<RepeatedNode>(std::vector<generator>{
      std::move(count), std::move(low), std::move(high)});
}
generator random_dtype(std::vector<DLDataType> types) {
  return oneof({types.begin(), types.end()});
}
generator random_device(std::vector<DLDevice> devices) {
  return MakeGenerator<DeviceNode>(std::move(devices));
}

// Each has two children, and is evaluated with them: nothing is folded ahead.
generator operator+(generator a, generator b) {
  return MakeGenerator<ArithmeticNode>('+', std::move(a), std::move(b));
}
generator operator-(generator a, generator b) {
  return MakeGenerator<ArithmeticNode>('-', std::move(a), std::move(b));
}
generator operator*(generator a, generator b) {
  return MakeGenerator<ArithmeticNode>('*', std::move(a), std::move(b));
}
generator operator/(generator a, generator b) {
  return MakeGenerator<ArithmeticNode>('/', std::move(a), std::move(b));
}
generator operator%(generator a, generator b) {
  return MakeGenerator<ArithmeticNode>('%', std::move(a), std::move(b));
}
generator operator|(generator a, generator b) {
  return oneof({std::move(a), std::move(b)});
}

// All sides are given here, while a TensorSides has a rank of its own.
generator random_tensor(std::vector<generator> sides, TensorOptions options) {
  return MakeGenerator<TensorNode>(
      std::nullopt,
      std::vector<std::optional<generator>>(sides.begin(), sides.end()),
      std::move(options));
}
generator MakeRandomTensor(TensorSides sides, TensorOptions options) {
  return MakeGenerator<TensorNode>(
      std::move(sides.ndim),
      std::vector<std::optional<generator>>{
          std::move(sides.dim0), std::move(sides.dim1), std::move(sides.dim2),
          std::move(sides.dim3), std::move(sides.dim4)},
      std::move(options));
}
generator random_tensor_of_rank(generator rank, TensorOptions options) {
  return MakeRandomTensor({.ndim = std::move(rank)}, std::move(options));
}

// A text that is wrong makes a generator that says so when it is drawn.
generator Tensor(std::string_view type, std::vector<double> numbers) {
  const size_t bracket = std::min(type.find('['), type.size());
  const auto dtype = ParseDType(type.substr(0, bracket));
  auto shape = SidesIn(type.substr(bracket));
  if (!dtype.ok()) return MakeGenerator<FailingNode>(dtype.status());
  if (!shape.ok()) return MakeGenerator<FailingNode>(shape.status());
  if (numbers.empty()) {
    return random_tensor({shape->begin(), shape->end()}, {.dtype = *dtype});
  }
  auto tensor = CheckedTensor(*dtype, *shape, numbers);
  if (!tensor.ok()) return MakeGenerator<FailingNode>(tensor.status());
  return constant(GeneratedValue{*std::move(tensor)});
}

}  // namespace nodewise
