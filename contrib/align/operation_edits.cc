#include "nodewise/align/operation_edits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

// Operators of one form, which read and write the same: one may stand where
// another is meant. They are found by name, and those that the operator set
// lacks are passed over.
constexpr std::array<std::array<std::string_view, 16>, 6> kForms = {{
    {"Add", "Sub", "Mul", "Div", "Pow", "PRelu"},
    {"Max", "Min", "Sum", "Mean"},
    {"Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Sigmoid", "HardSigmoid",
     "HardSwish", "Tanh", "Softplus", "Softsign", "ThresholdedRelu", "Gelu",
     "Mish", "Swish", "Erf"},
    {"Exp", "Log", "Sqrt", "Reciprocal", "Neg", "Abs", "Floor", "Ceil", "Round",
     "Sin", "Cos"},
    {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd",
     "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"},
    {"GlobalAveragePool", "GlobalMaxPool"},
}};
// These have attributes in common, which go along.
constexpr std::array<std::string_view, 2> kPools = {"MaxPool", "AveragePool"};
constexpr std::array<std::string_view, 2> kSoftmaxes = {"Softmax",
                                                        "LogSoftmax"};

std::string TextOf(const AttrValue& value) {
  if (const auto* const number = std::get_if<int64_t>(&value)) {
    return fmt::format("{}", *number);
  }
  if (const auto* const number = std::get_if<float>(&value)) {
    return fmt::format("{:.4g}", *number);
  }
  if (const auto* const word = std::get_if<std::string>(&value)) return *word;
  if (const auto* const list = std::get_if<Ints>(&value)) {
    return fmt::format("[{}]", fmt::join(*list, ", "));
  }
  if (const auto* const list = std::get_if<std::vector<float>>(&value)) {
    return fmt::format("[{}]", fmt::join(*list, ", "));
  }
  return "another value";
}

// Numbers that constants of operators are in practice, and this one's
// relatives.
std::vector<float> OtherNumbers(float now) {
  std::vector<float> others = {
      0,     1,      -1,       0.5F,        2,        0.01F,  0.1F,
      0.2F,  0.3F,   0.25F,    0.7F,        1e-3F,    1e-5F,  1e-6F,
      1e-8F, 1e-12F, 1.0F / 6, 0.16666667F, 1.67326F, 1.0507F};
  for (const float factor :
       {0.5F, 2.0F, 10.0F, 0.1F, 100.0F, 0.01F, 1000.0F, 0.001F, -1.0F}) {
    others.push_back(now * factor);
  }
  others.push_back(1 / now);
  others.push_back(1 - now);
  std::erase_if(others, [now](float other) {
    return other == now || !std::isfinite(other);
  });
  return others;
}

std::vector<Ints> OtherLists(const Ints& now) {
  std::vector<Ints> others;
  others.emplace_back(now.rbegin(), now.rend());
  Ints halves = now;
  std::rotate(halves.begin(),
              halves.begin() + static_cast<std::ptrdiff_t>(now.size() / 2),
              halves.end());
  others.push_back(std::move(halves));
  others.emplace_back(now.size(), 0);
  others.emplace_back(now.size(), 1);
  // All of the first half one more, and all of the second one less: padding at
  // the other ends.
  for (const int64_t step : {1, -1}) {
    Ints shifted = now;
    for (size_t i = 0; i < now.size(); ++i) {
      shifted[i] += 2 * i < now.size() ? step : -step;
    }
    others.push_back(std::move(shifted));
  }
  for (size_t i = 0; i < now.size(); ++i) {
    // One element more here and one less there leaves sizes as they are.
    for (size_t j = 0; j < now.size(); ++j) {
      if (i == j) continue;
      Ints moved = now;
      ++moved[i];
      --moved[j];
      others.push_back(std::move(moved));
      Ints swapped = now;
      std::swap(swapped[i], swapped[j]);
      others.push_back(std::move(swapped));
    }
    for (const int64_t step : {1, -1}) {
      Ints other = now;
      other[i] += step;
      others.push_back(std::move(other));
    }
  }
  std::erase_if(others, [&now](const Ints& other) { return other == now; });
  return others;
}

// The words that attributes of ONNX's operators may have; which of them one
// takes, it says itself.
constexpr std::array<std::string_view, 22> kWords = {"nearest",
                                                     "linear",
                                                     "cubic",
                                                     "half_pixel",
                                                     "asymmetric",
                                                     "align_corners",
                                                     "pytorch_half_pixel",
                                                     "half_pixel_symmetric",
                                                     "tf_crop_and_resize",
                                                     "round_prefer_floor",
                                                     "round_prefer_ceil",
                                                     "floor",
                                                     "ceil",
                                                     "constant",
                                                     "reflect",
                                                     "edge",
                                                     "wrap",
                                                     "SAME_UPPER",
                                                     "SAME_LOWER",
                                                     "VALID",
                                                     "tanh",
                                                     "none"};

std::vector<AttrValue> OtherValues(const AttrValue& now) {
  std::vector<AttrValue> others;
  if (const auto* const number = std::get_if<int64_t>(&now)) {
    for (const int64_t other :
         {int64_t{1} - *number, *number + 1, *number - 1, int64_t{0},
          int64_t{1}, int64_t{2}, int64_t{3}, int64_t{-1}, -*number}) {
      if (other != *number) others.emplace_back(other);
    }
  } else if (const auto* const real = std::get_if<float>(&now)) {
    for (const float other : OtherNumbers(*real)) others.emplace_back(other);
  } else if (const auto* const word = std::get_if<std::string>(&now)) {
    for (const std::string_view other : kWords) {
      if (other != *word) others.emplace_back(std::string(other));
    }
  } else if (const auto* const list = std::get_if<Ints>(&now)) {
    for (Ints& other : OtherLists(*list)) others.emplace_back(std::move(other));
  }
  return others;
}

template <typename Names>
void AddOthersOf(const Names& names, const Network& network,
                 const Operation& operation, const OpSet& operators,
                 std::vector<OpAttrs>* others) {
  if (std::find(names.begin(), names.end(), operation.kind()) == names.end()) {
    return;
  }
  const std::string_view domain = operation.def().domain;
  for (const std::string_view name : names) {
    if (name.empty() || name == operation.kind()) continue;
    const OperatorDef* const def =
        operators.Find(domain, name, network.opset(domain));
    if (def == nullptr) continue;
    std::vector<NamedAttr> kept = NamedAttrsOf(operation.attrs);
    std::erase_if(kept, [def](const NamedAttr& attr) {
      return std::none_of(
          def->fields.begin(), def->fields.end(),
          [&](const AttrField& field) { return field.name == attr.name; });
    });
    auto made = MakeAttrs(*def, kept);
    if (made.ok()) others->push_back(*std::move(made));
  }
}

class EditVisit {
 public:
  EditVisit(const Network& network, const Operation& operation,
            const OpSet& operators,
            absl::FunctionRef<bool(const OperationEdit&)> visit)
      : network_(network),
        operation_(operation),
        operators_(operators),
        visit_(visit),
        slots_(operation.inputs.size()) {
    std::iota(slots_.begin(), slots_.end(), 0);
  }

  void Run() {
    (void)(TrySkipping() && TryDefaults() && TryOrders() && TryDropping() &&
           TryOtherOperators() && TryAttributes());
  }

 private:
  bool TrySkipping() const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (operation_.inputs[i] == kNoValue) continue;
      const NetworkValue& read = network_.value(operation_.inputs[i]);
      if (read.kind == NetworkValue::Kind::kConstant ||
          operation_.outputs[0] == kNoValue ||
          read.type != network_.value(operation_.outputs[0]).type) {
        continue;
      }
      OperationEdit edit{"left out", operation_.attrs, {i}, true};
      if (!visit_(edit)) return false;
    }
    return true;
  }

  bool TryWith(std::string_view name, const std::optional<AttrValue>& now,
               AttrValue other) const {
    std::vector<NamedAttr> attrs = NamedAttrsOf(operation_.attrs);
    const std::string what = fmt::format(
        "{} {} instead of {}", name, TextOf(other),
        now.has_value() ? TextOf(*now) : std::string("its default"));
    const auto found =
        std::find_if(attrs.begin(), attrs.end(),
                     [&](const NamedAttr& attr) { return attr.name == name; });
    if (found != attrs.end()) attrs.erase(found);
    attrs.push_back({std::string(name), std::move(other)});
    const auto made = MakeAttrs(operation_.def(), attrs);
    return !made.ok() || visit_({what, *made, slots_});
  }

  // Each attribute as if it had not been given.
  bool TryDefaults() const {
    const std::vector<NamedAttr> attrs = NamedAttrsOf(operation_.attrs);
    for (size_t i = 0; i < attrs.size(); ++i) {
      std::vector<NamedAttr> fewer = attrs;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      const auto made = MakeAttrs(operation_.def(), fewer);
      if (!made.ok() || *made == operation_.attrs) continue;
      const std::string what =
          fmt::format("without {} {}", attrs[i].name, TextOf(attrs[i].value));
      if (!visit_({what, *made, slots_})) return false;
    }
    return true;
  }

  bool TryOrders() const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      for (size_t j = i + 1; j < slots_.size(); ++j) {
        std::vector<size_t> slots = slots_;
        std::swap(slots[i], slots[j]);
        const std::string what =
            fmt::format("operands {} and {} swapped", i, j);
        if (!visit_({what, operation_.attrs, std::move(slots)})) return false;
      }
    }
    return true;
  }

  bool TryDropping() const {
    const OperatorDef& def = operation_.def();
    for (size_t i = 0; i < slots_.size() && i < def.inputs.size(); ++i) {
      if (def.inputs[i].kind != Param::Kind::kOptional ||
          operation_.inputs[i] == kNoValue) {
        continue;
      }
      std::vector<size_t> slots = slots_;
      slots[i] = OperationEdit::kDropped;
      const std::string what = fmt::format("without {}", def.inputs[i].name);
      if (!visit_({what, operation_.attrs, std::move(slots)})) return false;
    }
    return true;
  }

  bool TryOtherOperators() const {
    for (const OpAttrs& other :
         OtherOperators(network_, operation_, operators_)) {
      const std::string what =
          fmt::format("{} instead of {}", other.def().name, operation_.kind());
      if (!visit_({what, other, slots_})) return false;
    }
    return true;
  }

  bool TryAttributes() const {
    for (const AttrField& field : operation_.def().fields) {
      if (field.is_tensor || field.is_graph) continue;
      const std::optional<AttrValue> now = field.get(operation_.attrs.get());
      if (!now.has_value()) continue;
      for (AttrValue& other : OtherValues(*now)) {
        if (!TryWith(field.name, now, std::move(other))) return false;
      }
    }
    return true;
  }

  const Network& network_;
  const Operation& operation_;
  const OpSet& operators_;
  const absl::FunctionRef<bool(const OperationEdit&)> visit_;
  std::vector<size_t> slots_;
};

}  // namespace

std::vector<OpAttrs> OtherOperators(const Network& network,
                                    const Operation& operation,
                                    const OpSet& operators) {
  std::vector<OpAttrs> others;
  for (const auto& form : kForms) {
    AddOthersOf(form, network, operation, operators, &others);
  }
  AddOthersOf(kPools, network, operation, operators, &others);
  AddOthersOf(kSoftmaxes, network, operation, operators, &others);
  return others;
}

void VisitEdits(const Network& network, const Operation& operation,
                const OpSet& operators,
                absl::FunctionRef<bool(const OperationEdit& edit)> visit) {
  EditVisit(network, operation, operators, visit).Run();
}

}  // namespace nodewise
