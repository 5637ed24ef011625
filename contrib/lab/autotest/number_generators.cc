#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "nodewise/autotest/generator.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

absl::Status NoNumber(const char* what, const GeneratedValue& found) {
  return absl::InvalidArgumentError(
      fmt::format("{}: found {}, expected a number", what, ToString(found)));
}

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

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    if (annotation_ == Annotation::kBool) {
      return GeneratedValue{draw.choices()->UpTo(1) == 1};
    }
    NODEWISE_ASSIGN_OR_RETURN(const GeneratedValue low,
                              children()[0].value(draw));
    NODEWISE_ASSIGN_OR_RETURN(const GeneratedValue high,
                              children()[1].value(draw));
    if (!IsWhole(low, high)) return Float(low, high, draw);
    const auto least = low.AsInt();
    const auto end = high.AsInt();
    if (!least.has_value()) return NoNumber("random: the lower end", low);
    if (!end.has_value()) return NoNumber("random: the upper end", high);
    if (*least >= *end) {
      return absl::InvalidArgumentError(fmt::format(
          "random({0}, {1}): is empty, expected an upper end above {0}", *least,
          *end));
    }
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
    if (!(*least < *end)) {
      return absl::InvalidArgumentError(fmt::format(
          "random({0}, {1}): is empty, expected an upper end above {0}", *least,
          *end));
    }
    // 24 bits, which every float type but the shortest holds.
    constexpr uint64_t kMostSteps = (1 << 24) - 1;
    const auto step = static_cast<double>(draw.choices()->UpTo(kMostSteps));
    return GeneratedValue{*least + (*end - *least) * step * 0x1p-24};
  }

  Annotation annotation_ = Annotation::kAny;
};

class BoolNode : public GeneratorNode {
 public:
  double Size() const override { return 2; }

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    return GeneratedValue{draw.choices()->UpTo(1) == 1};
  }
};

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
    for (const generator& option : children()) option.to(annotation);
  }

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    if (children().empty()) {
      return absl::InvalidArgumentError(
          "oneof: is empty, expected at least one option");
    }
    if (odds_.empty()) {
      return children()[draw.choices()->UpTo(children().size() - 1)].value(
          draw);
    }
    const double all = std::accumulate(odds_.begin(), odds_.end(), 0.0);
    if (odds_.size() != children().size() || !(all > 0)) {
      return absl::InvalidArgumentError(fmt::format(
          "oneof: has {} odds for {} options, expected one above 0 for each",
          odds_.size(), children().size()));
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

class TupleNode : public GeneratorNode {
 public:
  using GeneratorNode::GeneratorNode;
  double Size() const override {
    double all = 1;
    for (const generator& element : children()) all *= element.size();
    return all;
  }
  void To(Annotation annotation) override {
    for (const generator& element : children()) element.to(annotation);
  }

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    GeneratedTuple elements;
    for (const generator& element : children()) {
      NODEWISE_ASSIGN_OR_RETURN(elements.emplace_back(), element.value(draw));
    }
    return GeneratedValue{std::move(elements)};
  }
};

// Makes an element of its own for each place.
class RepeatedNode : public GeneratorNode {
 public:
  using GeneratorNode::GeneratorNode;
  double Size() const override { return kEndless; }
  void To(Annotation annotation) override { annotation_ = annotation; }

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    NODEWISE_ASSIGN_OR_RETURN(const GeneratedValue count,
                              children()[0].value(draw));
    const auto wanted = count.AsInt();
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

class DeviceNode : public GeneratorNode {
 public:
  explicit DeviceNode(std::vector<DLDevice> devices)
      : devices_(std::move(devices)) {}
  double Size() const override { return static_cast<double>(devices_.size()); }

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    if (devices_.empty()) {
      return absl::InvalidArgumentError(
          "random_device: is empty, expected at least one device");
    }
    return GeneratedValue{devices_[draw.choices()->UpTo(devices_.size() - 1)]};
  }

 private:
  const std::vector<DLDevice> devices_;
};

class ArithmeticNode : public GeneratorNode {
 public:
  ArithmeticNode(char sign, generator a, generator b)
      : GeneratorNode({std::move(a), std::move(b)}), sign_(sign) {}
  double Size() const override {
    return children()[0].size() * children()[1].size();
  }
  void To(Annotation annotation) override {
    for (const generator& child : children()) child.to(annotation);
  }

 protected:
  absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) override {
    NODEWISE_ASSIGN_OR_RETURN(const GeneratedValue a,
                              children()[0].value(draw));
    NODEWISE_ASSIGN_OR_RETURN(const GeneratedValue b,
                              children()[1].value(draw));
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
        is_too_large = b == 0 || (b == -1 && a == INT64_MIN);
        if (!is_too_large) result = sign_ == '/' ? a / b : a % b;
    }
    if (!is_too_large) return GeneratedValue{result};
    return absl::InvalidArgumentError(
        fmt::format("{} {} {}: has no result", a, sign_, b));
  }

  double Float(double a, double b) const {
    switch (sign_) {
      case '+':
        return a + b;
      case '-':
        return a - b;
      case '*':
        return a * b;
      case '/':
        return a / b;
      default:
        return std::fmod(a, b);
    }
  }

  const char sign_;
};

generator Arithmetic(char sign, generator a, generator b) {
  return generator(
      std::make_shared<ArithmeticNode>(sign, std::move(a), std::move(b)));
}

}  // namespace

generator random(generator low, generator high) {
  return generator(std::make_shared<RandomNode>(
      std::vector<generator>{std::move(low), std::move(high)}));
}
generator random_bool() { return generator(std::make_shared<BoolNode>()); }
generator oneof(std::vector<generator> options, std::vector<double> odds) {
  return generator(
      std::make_shared<OneOfNode>(std::move(options), std::move(odds)));
}
generator random_or_nothing(generator low, generator high) {
  return oneof({nothing(), random(std::move(low), std::move(high))}, {1, 2});
}
generator tuple(std::vector<generator> elements) {
  return generator(std::make_shared<TupleNode>(std::move(elements)));
}
generator tuple_of(generator count, generator low, generator high) {
  return generator(std::make_shared<RepeatedNode>(std::vector<generator>{
      std::move(count), std::move(low), std::move(high)}));
}
generator random_dtype(std::vector<DLDataType> types) {
  return oneof({types.begin(), types.end()});
}
generator random_device(std::vector<DLDevice> devices) {
  return generator(std::make_shared<DeviceNode>(std::move(devices)));
}

generator operator+(generator a, generator b) {
  return Arithmetic('+', std::move(a), std::move(b));
}
generator operator-(generator a, generator b) {
  return Arithmetic('-', std::move(a), std::move(b));
}
generator operator*(generator a, generator b) {
  return Arithmetic('*', std::move(a), std::move(b));
}
generator operator/(generator a, generator b) {
  return Arithmetic('/', std::move(a), std::move(b));
}
generator operator%(generator a, generator b) {
  return Arithmetic('%', std::move(a), std::move(b));
}
generator operator|(generator a, generator b) {
  return oneof({std::move(a), std::move(b)});
}

}  // namespace nodewise
