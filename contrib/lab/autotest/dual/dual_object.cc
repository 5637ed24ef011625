#include "nodewise/autotest/dual_object.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <utility>

#include "contrib/lab/autotest/draw/shrink_case.h"
#include "contrib/lab/autotest/dual/dual_case.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// A page of numbers. A program with a larger tensor can still be drawn again.
constexpr size_t kMostWritten = 256;

// What kind of value an attribute takes: found out by trying, on an operation
// that nothing else uses. Rows have a setter for each attribute and no type.
class AttributeKind {
 public:
  AttributeKind(const OperatorDef& def, const AttrField& field)
      : field_(field), scratch_(def.make()) {}

  // A flag takes 1 and not 2. Whole numbers go before floats, since an
  // attribute that takes either means the whole ones.
  Annotation annotation() const {
    const bool takes_one = Takes(int64_t{1});
    if (takes_one && !Takes(int64_t{2})) return Annotation::kBool;
    if (takes_one || Takes(std::vector<int64_t>{1})) return Annotation::kInt;
    if (Takes(1.0F) || Takes(std::vector<float>{1})) return Annotation::kFloat;
    return Annotation::kAny;
  }

  // Returns the value in the first form that the attribute takes.
  absl::StatusOr<AttrValue> Convert(const GeneratedValue& value) const {
    for (AttrValue& form : FormsOf(value)) {
      if (Takes(form)) return std::move(form);
    }
    return InvalidProgram("attribute {}: cannot be {}", field_.name,
                          ToString(value));
  }

 private:
  bool Takes(AttrValue value) const {
    return field_.set(scratch_.get(), std::move(value)).ok();
  }

  // All that a value may be meant as, the form that keeps most of it first. A
  // tuple is a list of numbers if all of its elements are numbers.
  static std::vector<AttrValue> FormsOf(const GeneratedValue& value) {
    std::vector<AttrValue> forms;
    if (const auto whole = value.AsInt()) forms.emplace_back(*whole);
    if (const auto number = value.AsDouble()) {
      forms.emplace_back(static_cast<float>(*number));
    }
    if (const auto* const text = value.As<std::string>()) {
      forms.emplace_back(*text);
    }
    if (const auto* const tensor = value.As<NDArray>()) {
      forms.emplace_back(*tensor);
    }
    const auto* const elements = value.As<GeneratedTuple>();
    if (elements == nullptr) return forms;
    std::vector<int64_t> ints;
    std::vector<float> floats;
    for (const GeneratedValue& element : *elements) {
      if (const auto whole = element.AsInt()) ints.push_back(*whole);
      if (const auto number = element.AsDouble()) {
        floats.push_back(static_cast<float>(*number));
      }
    }
    if (ints.size() == elements->size()) forms.emplace_back(std::move(ints));
    if (floats.size() == elements->size()) {
      forms.emplace_back(std::move(floats));
    }
    return forms;
  }

  const AttrField& field_;
  const std::shared_ptr<void> scratch_;
};

absl::StatusOr<const AttrField*> FieldOf(const OperatorDef& def,
                                         const std::string& name) {
  std::vector<std::string> names;
  for (const AttrField& field : def.fields) {
    if (field.name == name) return &field;
    names.emplace_back(field.name);
  }
  return InvalidProgram(
      "{} has no attribute {}, expected {}", std::string(def.name), name,
      names.empty() ? "none"
                    : fmt::format("one of: {}", fmt::join(names, ", ")));
}

std::string CppText(const GeneratedValue& value) {
  if (const auto* const text = value.As<std::string>()) {
    return fmt::format("\"{}\"", *text);
  }
  const auto* const elements = value.As<GeneratedTuple>();
  if (elements == nullptr) return ToString(value);
  std::vector<std::string> texts;
  for (const GeneratedValue& each : *elements) texts.push_back(CppText(each));
  return fmt::format("tuple({{{}}})", fmt::join(texts, ", "));
}

using Program = std::function<void(DualObject& onnx)>;

// A seed of the environment repeats a failure without a change of the test.
uint64_t SeedOf(const DualOptions& options) {
  if (options.seed.has_value()) return *options.seed;
  const char* const given = std::getenv("NODEWISE_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10)
                          : std::random_device()();
}

// What one run of the program has come to, and the choices that it made.
struct Tried {
  absl::Status status;
  bool is_refused = false;
  std::string text;
  std::vector<Choice> made;
  std::vector<ChoiceSpan> groups;
};

Tried Try(const OpSet& ops, Candidate& tested, const Program& program,
          const DualOptions& options, Choices choices) {
  Tried tried;
  DualCase one(ops, tested, options, &choices);
  tried.status = one.Run(program);
  tried.is_refused = one.is_refused();
  if (tried.status.ok()) tried.status = one.Compare();
  tried.text = one.text();
  tried.made.assign(choices.made().begin(), choices.made().end());
  tried.groups.assign(choices.groups().begin(), choices.groups().end());
  return tried;
}

bool Differs(const Tried& tried) { return absl::IsInternal(tried.status); }

// Returns the simplest case that differs, too. Each simpler sequence of choices
// runs the whole program again; after a success the search begins anew, with
// what that run has chosen. That has to be simpler itself, since choices that
// were changed may be asked for in another order.
Tried Simplest(const OpSet& ops, Candidate& tested, const Program& program,
               const DualOptions& options, Tried best) {
  size_t tries = 0;
  bool has_changed = true;
  while (has_changed) {
    has_changed = false;
    for (auto& values :
         SimplerThan(best.made, best.groups, options.most_tries)) {
      if (++tries > options.most_tries) return best;
      Tried tried =
          Try(ops, tested, program, options, Choices(std::move(values)));
      if (!Differs(tried) ||
          !IsSimpler(ValuesOf(tried.made), ValuesOf(best.made))) {
        continue;
      }
      best = std::move(tried);
      has_changed = true;
      break;
    }
  }
  return best;
}

}  // namespace

absl::StatusOr<std::vector<NamedAttr>> DrawAttributes(
    const OperatorDef& def, const std::vector<DualAttribute>& attributes,
    CaseDraw& draw, std::string* text) {
  std::vector<NamedAttr> drawn;
  std::vector<std::string> texts;
  for (const DualAttribute& attribute : attributes) {
    NODEWISE_ASSIGN_OR_RETURN(const AttrField* const field,
                              FieldOf(def, attribute.name));
    const AttributeKind kind(def, *field);
    attribute.value.to(kind.annotation());
    NODEWISE_ASSIGN_OR_RETURN(const GeneratedValue value,
                              attribute.value.value(draw));
    if (value.is_nothing()) continue;
    NODEWISE_ASSIGN_OR_RETURN(AttrValue converted, kind.Convert(value));
    drawn.push_back({attribute.name, std::move(converted)});
    texts.push_back(
        fmt::format("{{\"{}\", {}}}", attribute.name, CppText(value)));
  }
  if (!texts.empty()) *text = fmt::format("{{{}}}", fmt::join(texts, ", "));
  return drawn;
}

std::string TensorText(const NDArray& tensor) {
  const std::string type = ToString(TensorType::Of(*tensor));
  size_t count = 1;
  for (const int64_t side : tensor.shape()) count *= static_cast<size_t>(side);
  std::vector<double> numbers(count);
  if (count > kMostWritten ||
      !DecodeToDoubles(tensor.dtype(), tensor.data(), count, numbers.data())) {
    return fmt::format("Tensor(\"{}\") /* {} elements, as drawn */", type,
                       count);
  }
  std::vector<std::string> texts;
  for (const double x : numbers) {
    texts.push_back(std::isnan(x)   ? "NAN"
                    : std::isinf(x) ? (x < 0 ? "-INFINITY" : "INFINITY")
                                    : fmt::format("{}", x));
  }
  return fmt::format("Tensor(\"{}\", {{{}}})", type, fmt::join(texts, ", "));
}

const std::string& DualObject::name() const { return state_->name; }
const GeneratedValue& DualObject::reference() const {
  return state_->reference;
}
const GeneratedValue& DualObject::tested() const { return state_->tested; }

DualObject DualObject::operator[](std::string_view attribute) const {
  return state_->owner->Attribute(*state_, attribute);
}
DualObject DualObject::operator()(std::vector<DualInput> inputs,
                                  std::vector<DualAttribute> attributes) const {
  const size_t outputs =
      state_->def == nullptr ? 1 : state_->def->min_outputs();
  return Call(std::move(inputs), std::move(attributes), outputs);
}
DualObject DualObject::Call(std::vector<DualInput> inputs,
                            std::vector<DualAttribute> attributes,
                            size_t num_outputs) const {
  return state_->owner->Call(*state_, std::move(inputs), std::move(attributes),
                             num_outputs);
}
DualObject DualObject::Module(std::vector<DualAttribute> attributes,
                              std::vector<DualInput> parameters) const {
  return state_->owner->Bind(*state_, std::move(attributes),
                             std::move(parameters));
}
DualObject DualObject::Output(size_t output) const {
  return output < state_->outputs.size() ? state_->outputs[output] : *this;
}

// A case that the reference refuses is drawn again, from a stream of its own,
// so that the cases behind it stay the same.
// NOLINTNEXTLINE(readability-identifier-naming)
absl::Status autotest(const OpSet& ops, Candidate& tested,
                      const Program& program, const DualOptions& options) {
  const uint64_t seed = SeedOf(options);
  absl::Status refused;
  for (uint64_t number = 0; number < options.n; ++number) {
    Tried tried;
    uint64_t attempt = 0;
    do {
      tried = Try(ops, tested, program, options,
                  Choices(RandomSource(
                      seed, fmt::format("case {}.{}", number, attempt))));
    } while (tried.is_refused && ++attempt < options.most_refused);
    if (tried.is_refused) {
      return At(fmt::format("seed {}, case {}: none of {} draws is legal", seed,
                            number, options.most_refused),
                tried.status);
    }
    if (tried.status.ok()) continue;
    if (!Differs(tried)) {
      return At(fmt::format("seed {}, case {}", seed, number), tried.status);
    }
    tried = Simplest(ops, tested, program, options, std::move(tried));
    return absl::InternalError(
        fmt::format("{}\n\nThe program, as simple as it could be made:\n\n{}\n"
                    "NODEWISE_SEED={} draws case {} again.\n",
                    MessageOf(tried.status), tried.text, seed, number));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
