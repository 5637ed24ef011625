#include "contrib/regions/gelu_pattern.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <string_view>
#include <utility>

namespace nodewise {
namespace {

using Part = GeluPattern::Part;

// The whole is worked out as a polynomial of x and of f, which is the erf or
// tanh in it: then all orders of operations look alike, and it is compared with
// the polynomial of a Gelu. `of[k]` is the factor of x^k, and `of[kDegrees +
// k]` that of f x^k. No Gelu has a power of f, nor one of x above the third.
struct Polynomial {
  static constexpr size_t kDegrees = 4;
  std::array<double, 2 * kDegrees> of = {};

  static Polynomial Term(size_t power, double factor) {
    Polynomial made;
    made.of[power] = factor;
    return made;
  }
  bool IsZeroFrom(size_t begin) const {
    return std::all_of(of.begin() + begin, of.end(),
                       [](double factor) { return factor == 0; });
  }
  bool HasNoFunction() const { return IsZeroFrom(kDegrees); }
  bool IsNumber() const { return IsZeroFrom(1); }
};

Polynomial SumOf(const Polynomial& a, const Polynomial& b) {
  Polynomial sum = a;
  for (size_t i = 0; i < sum.of.size(); ++i) sum.of[i] += b.of[i];
  return sum;
}

// Returns none if the product has a power that no Gelu has.
std::optional<Polynomial> ProductOf(const Polynomial& a, const Polynomial& b) {
  constexpr size_t kDegrees = Polynomial::kDegrees;
  Polynomial product;
  for (size_t i = 0; i < a.of.size(); ++i) {
    for (size_t k = 0; k < b.of.size(); ++k) {
      if (a.of[i] == 0 || b.of[k] == 0) continue;
      const bool is_power_of_f = i >= kDegrees && k >= kDegrees;
      const bool is_high = i % kDegrees + k % kDegrees >= kDegrees;
      if (is_power_of_f || is_high) return std::nullopt;
      product.of[i + k] += a.of[i] * b.of[k];
    }
  }
  return product;
}

std::optional<Polynomial> PowerOf(const Polynomial& base,
                                  const Polynomial& exponent) {
  const double times = exponent.of[0];
  if (!exponent.IsNumber() || (times != 2 && times != 3)) return std::nullopt;
  auto power = ProductOf(base, base);
  if (times == 2 || !power.has_value()) return power;
  return ProductOf(*power, base);
}

// What the parts come to: the result, and what the erf or tanh in it is of.
struct Formula {
  Polynomial result;
  std::optional<Part::Kind> function;
  Polynomial argument;
};

// Computes the next part from those before it; none if it is not a polynomial
// of x and one function.
std::optional<Polynomial> Compute(const Part& part,
                                  absl::Span<const double> numbers,
                                  absl::Span<const Polynomial> made,
                                  Formula* formula) {
  using Kind = Part::Kind;
  // Numbers have their place among `numbers` where other parts have an operand.
  if (part.kind == Kind::kNumber)
    return Polynomial::Term(0, numbers[part.left]);
  if (part.kind == Kind::kInput) return Polynomial::Term(1, 1);
  const Polynomial& left = made[part.left];
  const Polynomial& right = made[part.right];
  switch (part.kind) {
    case Kind::kAdd:
      return SumOf(left, right);
    case Kind::kMul:
      return ProductOf(left, right);
    case Kind::kDiv:
      if (!right.IsNumber()) return std::nullopt;
      return ProductOf(left, Polynomial::Term(0, 1 / right.of[0]));
    case Kind::kPow:
      return PowerOf(left, right);
    default:
      if (formula->function.has_value() || !left.HasNoFunction())
        return std::nullopt;
      formula->function = part.kind;
      formula->argument = left;
      return Polynomial::Term(Polynomial::kDegrees, 1);
  }
}

std::optional<Formula> FormulaOf(absl::Span<const Part> parts,
                                 absl::Span<const double> numbers) {
  Formula formula;
  std::vector<Polynomial> made;  // By part.
  for (const Part& part : parts) {
    const auto next = Compute(part, numbers, made, &formula);
    if (!next.has_value()) return std::nullopt;
    made.push_back(*next);
  }
  formula.result = made.back();
  return formula;
}

// A Gelu worked out as the parts of a network are, to be compared with them.
Formula GeluOf(Part::Kind function) {
  Formula gelu;
  gelu.function = function;
  gelu.result.of[1] = gelu.result.of[Polynomial::kDegrees + 1] = 0.5;
  if (function == Part::Kind::kErf) {
    gelu.argument.of[1] = std::numbers::sqrt2 / 2;
    return gelu;
  }
  const double factor = std::sqrt(2 * std::numbers::inv_pi);
  gelu.argument.of[1] = factor;
  // The constant of the approximation as its authors have published it; ONNX
  // has the same one.
  gelu.argument.of[3] = factor * 0.044715;
  return gelu;
}

// With a tolerance of infinity, any number but 0 is as good as another.
bool AreAlike(const Polynomial& a, const Polynomial& b, double tolerance) {
  return std::ranges::equal(a.of, b.of, [&](double x, double y) {
    if (x == 0 || y == 0) return x == y;
    return std::fabs(x - y) <= tolerance * std::fabs(y);
  });
}

bool IsGelu(const std::optional<Formula>& formula, double tolerance) {
  if (!formula.has_value() || !formula->function.has_value()) return false;
  const Formula gelu = GeluOf(*formula->function);
  return AreAlike(formula->argument, gelu.argument, tolerance) &&
         AreAlike(formula->result, gelu.result, tolerance);
}

bool IsFunction(const Part& part) {
  return part.kind == Part::Kind::kErf || part.kind == Part::Kind::kTanh;
}
bool IsLeaf(const Part& part) {
  return part.kind == Part::Kind::kInput || part.kind == Part::Kind::kNumber;
}

// Counts how often numbers are read by what is computed around the function:
// a Gelu has a 1 and a half there. A further factor would only show in the
// numbers themselves.
size_t NumbersAround(absl::Span<const Part> parts) {
  std::vector<bool> is_inside(parts.size());
  size_t numbers = 0;
  for (size_t i = parts.size(); i-- > 0;) {
    const Part& part = parts[i];
    if (IsLeaf(part)) continue;
    std::vector<size_t> read = {part.left};
    if (!IsFunction(part)) read.push_back(part.right);
    for (const size_t k : read) {
      const bool is_inside_too = is_inside[i] || IsFunction(part);
      if (is_inside_too) is_inside[k] = true;
      if (!is_inside_too && parts[k].kind == Part::Kind::kNumber) ++numbers;
    }
  }
  return numbers;
}

template <typename Id, typename List>
bool IsAmong(Id id, const List& list) {
  return std::ranges::find(list, id) != list.end();
}

constexpr std::pair<std::string_view, Part::Kind> kKinds[] = {
    {"Add", Part::Kind::kAdd}, {"Mul", Part::Kind::kMul},
    {"Div", Part::Kind::kDiv}, {"Pow", Part::Kind::kPow},
    {"Erf", Part::Kind::kErf}, {"Tanh", Part::Kind::kTanh}};

std::optional<Part::Kind> KindOf(const Operation& operation) {
  if (!operation.def().domain.empty()) return std::nullopt;
  for (const auto& [name, kind] : kKinds) {
    if (operation.kind() == name) return kind;
  }
  return std::nullopt;
}

}  // namespace

// Walks along the operations that compute from x and numbers alone.
struct GeluFinder {
  const Network& network;
  const ValueId x;
  const absl::FunctionRef<bool(ValueId)> is_number;

  std::optional<GeluPattern> Find() {
    std::set<ValueId> known = {x};
    for (const OperationId id : network.order()) {
      const Operation& operation = network.operation(id);
      if (!KindOf(operation).has_value() || operation.outputs.size() != 1 ||
          !ComputesFrom(known, operation)) {
        continue;
      }
      // The first operation that completes a Gelu ends the search: a longer
      // pattern would contain it.
      known.insert(operation.outputs[0]);
      GeluPattern pattern = PatternOf(operation);
      if (HasForm(&pattern) && IsClosed(pattern)) return pattern;
    }
    return std::nullopt;
  }

 private:
  bool ComputesFrom(const std::set<ValueId>& known,
                    const Operation& operation) const {
    bool has_known = false;
    for (const ValueId value : operation.inputs) {
      if (known.contains(value)) {
        has_known = true;
      } else if (value == kNoValue || !is_number(value)) {
        return false;
      }
    }
    return has_known && operation.inputs.size() <= 2;
  }

  // The operation and all that it is computed by.
  GeluPattern PatternOf(const Operation& last) const {
    GeluPattern pattern;
    std::map<ValueId, size_t> places = {{x, 0}};
    pattern.parts_ = {{Part::Kind::kInput}};
    Append(last, &places, &pattern);
    return pattern;
  }
  void Append(const Operation& operation, std::map<ValueId, size_t>* places,
              GeluPattern* pattern) const {
    std::array<size_t, 2> read = {};
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      const ValueId value = operation.inputs[i];
      if (!places->contains(value) && is_number(value)) {
        (*places)[value] = pattern->parts_.size();
        pattern->parts_.push_back(
            {Part::Kind::kNumber, pattern->numbers_.size()});
        pattern->numbers_.push_back(value);
      } else if (!places->contains(value)) {
        Append(network.operation(network.value(value).producer), places,
               pattern);
      }
      read[i] = places->at(value);
    }
    (*places)[operation.outputs[0]] = pattern->parts_.size();
    pattern->parts_.push_back({*KindOf(operation), read[0], read[1]});
    pattern->operations_.push_back(operation.id);
  }

  // Whether it is a Gelu with the right numbers, which are not known here:
  // instead of those, numbers are taken that do not cancel each other out.
  static bool HasForm(GeluPattern* pattern) {
    std::vector<double> any;
    for (size_t i = 0; i < pattern->numbers_.size(); ++i) {
      // No sum or product of a few of these is 0 or 1 by chance, so that a
      // factor which ought to be there does not vanish.
      any.push_back(0.6180339887 + 0.2360679775 * static_cast<double>(i));
    }
    for (const Part& part : pattern->parts_) {
      if (part.kind != Part::Kind::kPow) continue;
      const Part& exponent = pattern->parts_[part.right];
      // A power is a polynomial for whole exponents alone, and a Gelu has none
      // but the cube.
      if (exponent.kind == Part::Kind::kNumber) any[exponent.left] = 3;
    }
    const auto formula = FormulaOf(pattern->parts_, any);
    if (!IsGelu(formula, HUGE_VAL) || NumbersAround(pattern->parts_) != 2) {
      return false;
    }
    pattern->formula_ = *formula->function == Part::Kind::kErf
                            ? ops::GeluFormula::kErf
                            : ops::GeluFormula::kTanh;
    return true;
  }

  // Whether nothing of the pattern but its result is needed elsewhere. The
  // operations inside are not computed any more, so nothing else may read what
  // they make.
  bool IsClosed(GeluPattern& pattern) const {
    const auto& inside = pattern.operations_;
    const auto outputs = network.outputs();
    for (size_t i = 0; i + 1 < inside.size(); ++i) {
      const ValueId made = network.operation(inside[i]).outputs[0];
      const auto is_inside = [&](const Use& use) {
        return IsAmong(use.user, inside);
      };
      if (IsAmong(made, outputs) ||
          !std::ranges::all_of(network.value(made).uses, is_inside)) {
        return false;
      }
    }
    std::vector<OperationId> sorted;
    for (const OperationId id : network.order()) {
      if (IsAmong(id, inside)) sorted.push_back(id);
    }
    pattern.operations_ = std::move(sorted);
    return true;
  }
};

std::optional<GeluPattern> GeluPattern::Find(
    const Network& network, ValueId x,
    absl::FunctionRef<bool(ValueId)> is_number) {
  return GeluFinder{network, x, is_number}.Find();
}

// A factor is made of two rounded numbers at most.
bool GeluPattern::Holds(absl::Span<const double> numbers,
                        double spacing) const {
  return IsGelu(FormulaOf(parts_, numbers), spacing);
}

}  // namespace nodewise
