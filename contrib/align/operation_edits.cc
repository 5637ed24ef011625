// The mistakes that are tried: of an operation, and of a constant that it
// reads. They come from what people and compilers get wrong, and each list
// begins with the likeliest, since time may end before the list does. An edit
// that the operator does not take is passed over: MakeAttrs() checks as a
// model's own attributes are checked.

#include "nodewise/align/operation_edits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>

#include "contrib/align/align_limits.h"
#include "contrib/align/precision.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/align/layout.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

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

// Lists are pads, strides, kernels and axes. They are read backwards or with
// their halves exchanged (height and width, begin and end), or one number is
// wrong.
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
constexpr std::array<std::string_view, 6> kWords[] = {
    {"nearest", "linear", "cubic"},
    {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
     "half_pixel_symmetric", "tf_crop_and_resize"},
    {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"},
    {"constant", "reflect", "edge", "wrap"},
    {"SAME_UPPER", "SAME_LOWER", "VALID"},
    {"tanh", "none"},
};

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
    for (const auto& row : kWords) {
      for (const std::string_view other : row) {
        if (!other.empty() && other != *word) {
          others.emplace_back(std::string(other));
        }
      }
    }
  } else if (const auto* const list = std::get_if<Ints>(&now)) {
    for (Ints& other : OtherLists(*list)) others.emplace_back(std::move(other));
  }
  return others;
}

// Returns the rows of the other operators of its form that hold in the
// network's opset, the likeliest first.
std::vector<const OperatorDef*> OthersOfForm(const OperatorDef& own, int opset,
                                             const OpSet& operators) {
  std::vector<const OperatorDef*> others;
  for (const OperatorDef* const row : operators.rows()) {
    if (row->traits.form == own.traits.form && row->domain == own.domain &&
        row->name != own.name &&
        operators.Find(row->domain, row->name, opset) == row) {
      others.push_back(row);
    }
  }
  std::ranges::stable_sort(others, {}, &OperatorDef::place);
  return others;
}

// Tries the edits one by one, until there have been enough.
struct EditVisit {
  const Network& network;
  const Operation& operation;
  const OpSet& operators;
  const absl::FunctionRef<bool(const OperationEdit&)> visit;
  const std::vector<size_t> all_slots = AllSlots(operation);

  void Run() {
    (void)(TrySkipping() && TryDefaults() && TryOrders() && TryDropping() &&
           TryOtherOperators() && TryAttributes());
  }

  bool TrySkipping() const {
    for (size_t i = 0; i < all_slots.size(); ++i) {
      if (operation.inputs[i] == kNoValue) continue;
      const NetworkValue& read = network.value(operation.inputs[i]);
      if (read.kind == NetworkValue::Kind::kConstant ||
          operation.outputs[0] == kNoValue ||
          read.type != network.value(operation.outputs[0]).type) {
        continue;
      }
      OperationEdit edit{"left out", operation.attrs, {i}, true};
      if (!visit(edit)) return false;
    }
    return true;
  }

  bool TryAttributeValue(std::string_view name, const AttrValue& now,
                         AttrValue other) const {
    std::vector<NamedAttr> attrs = NamedAttrsOf(operation.attrs);
    const std::string what =
        fmt::format("{} {} instead of {}", name, TextOf(other), TextOf(now));
    const auto found = std::ranges::find(attrs, name, &NamedAttr::name);
    if (found != attrs.end()) attrs.erase(found);
    attrs.push_back({std::string(name), std::move(other)});
    const auto made = MakeAttrs(operation.def(), attrs);
    return !made.ok() || visit({what, *made, all_slots});
  }

  // Each attribute as if it had not been given.
  bool TryDefaults() const {
    const std::vector<NamedAttr> attrs = NamedAttrsOf(operation.attrs);
    for (size_t i = 0; i < attrs.size(); ++i) {
      std::vector<NamedAttr> fewer = attrs;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      const auto made = MakeAttrs(operation.def(), fewer);
      if (!made.ok() || *made == operation.attrs) continue;
      const std::string what =
          fmt::format("without {} {}", attrs[i].name, TextOf(attrs[i].value));
      if (!visit({what, *made, all_slots})) return false;
    }
    return true;
  }

  // For operators that commute the result is the same, and the change explains
  // nothing then.
  bool TryOrders() const {
    for (size_t i = 0; i < all_slots.size(); ++i) {
      for (size_t j = i + 1; j < all_slots.size(); ++j) {
        std::vector<size_t> slots = all_slots;
        std::swap(slots[i], slots[j]);
        const std::string what =
            fmt::format("operands {} and {} swapped", i, j);
        if (!visit({what, operation.attrs, std::move(slots)})) return false;
      }
    }
    return true;
  }

  // Inputs that may be missing are a bias, say, or the zero point of a tensor.
  bool TryDropping() const {
    const OperatorDef& def = operation.def();
    for (size_t i = 0; i < all_slots.size() && i < def.inputs.size(); ++i) {
      if (def.inputs[i].kind != Param::Kind::kOptional ||
          operation.inputs[i] == kNoValue) {
        continue;
      }
      std::vector<size_t> slots = all_slots;
      slots[i] = OperationEdit::kDropped;
      const std::string what = fmt::format("without {}", def.inputs[i].name);
      if (!visit({what, operation.attrs, std::move(slots)})) return false;
    }
    return true;
  }

  bool TryOtherOperators() const {
    for (const OpAttrs& other : OtherOperators(network, operation, operators)) {
      const std::string what =
          fmt::format("{} instead of {}", other.def().name, operation.kind());
      if (!visit({what, other, all_slots})) return false;
    }
    return true;
  }

  bool TryAttributes() const {
    for (const AttrField& field : operation.def().fields) {
      if (field.is_tensor || field.is_graph) continue;
      const std::optional<AttrValue> now = field.get(operation.attrs.get());
      if (!now.has_value()) continue;
      for (AttrValue& other : OtherValues(*now)) {
        if (!TryAttributeValue(field.name, *now, std::move(other)))
          return false;
      }
    }
    return true;
  }
};

using Numbers = std::vector<double>;

// Tries changes of a constant, from those of all elements to those of a few.
struct ConstantVisit {
  const NDArray& constant;
  const absl::FunctionRef<bool(const NDArray&, const std::string&)> visit;
  const std::vector<int64_t> shape = {constant.shape().begin(),
                                      constant.shape().end()};
  const Numbers unchanged = ToDoubles(constant);

  void Run() const {
    if (unchanged.empty()) return;
    const auto count = static_cast<int64_t>(unchanged.size());
    (void)(Try(Numbers(unchanged.size()), "taken for zeros") &&
           TryMapped("with the other sign", [](double x) { return -x; }) &&
           (!IsInteger(constant.dtype()) || TryIntegers()) &&
           TrySide(1, count, "by one element", "") && TryFirstSide() &&
           TryExchanges());
  }

  bool Try(const Numbers& numbers, const std::string& what) const {
    if (numbers == unchanged) return true;
    const auto changed = TensorOfNumbers(numbers, shape, constant.dtype());
    return !changed.ok() || visit(*changed, what);
  }

  template <typename Map>
  bool TryMapped(const std::string& what, const Map& map) const {
    Numbers numbers = unchanged;
    std::ranges::transform(numbers, numbers.begin(), map);
    return Try(numbers, what);
  }

  bool TryIntegers() const {
    for (const double more : {1.0, -1.0}) {
      const char* const what = more > 0 ? "one larger" : "one smaller";
      if (!TryMapped(what, [more](double x) { return x + more; })) return false;
      if (unchanged.size() > kFewIntegers || unchanged.size() == 1) continue;
      for (size_t i = 0; i < unchanged.size(); ++i) {
        Numbers numbers = unchanged;
        numbers[i] += more;
        if (!Try(numbers, fmt::format("with element {} {}", i, what))) {
          return false;
        }
      }
    }
    return true;
  }

  // The elements of a side are `inner` numbers each, `count` of them.
  bool TrySide(int64_t inner, int64_t count, const std::string& by,
               const std::string& along) const {
    if (count < 2) return true;
    const auto moved = [&](int64_t steps) {
      return Reordered(inner, count, [&](int64_t step) {
        return (step - steps + count) % count;
      });
    };
    return Try(moved(1), fmt::format("moved on {}{}", by, along)) &&
           Try(moved(-1), fmt::format("moved back {}{}", by, along)) &&
           Try(Reordered(inner, count,
                         [&](int64_t step) { return count - 1 - step; }),
               "read backwards" + along);
  }

  // Rows of a matrix, or whole filters. Other sides are not tried, since each
  // try leaves fewer for other changes.
  bool TryFirstSide() const {
    if (shape.size() < 2) return true;
    const auto count = static_cast<int64_t>(unchanged.size());
    return TrySide(count / shape[0], shape[0], "by one", " along side 0");
  }

  // Sides of one length exchanged, written as the layout that reads them so.
  bool TryExchanges() const {
    const std::vector<int64_t> steps = StridesOf(shape);
    for (size_t i = 0; i < shape.size(); ++i) {
      for (size_t j = i + 1; j < shape.size(); ++j) {
        if (shape[i] != shape[j] || shape[i] == 1) continue;
        Layout layout;
        for (size_t k = 0; k < shape.size(); ++k) {
          layout.loops.push_back({shape[k], steps[k]});
        }
        std::swap(layout.loops[i], layout.loops[j]);
        Numbers numbers(unchanged.size());
        const std::vector<int64_t> places = PlacesOf(layout);
        for (size_t n = 0; n < numbers.size(); ++n) {
          numbers[static_cast<size_t>(places[n])] = unchanged[n];
        }
        if (!Try(numbers,
                 fmt::format("with sides {} and {} exchanged", i, j))) {
          return false;
        }
      }
    }
    return true;
  }

  // `from` says for each step along a side which one stands there now.
  template <typename StepOf>
  Numbers Reordered(int64_t inner, int64_t count, const StepOf& from) const {
    Numbers numbers(unchanged.size());
    for (size_t n = 0; n < numbers.size(); ++n) {
      const auto place = static_cast<int64_t>(n);
      const int64_t step = place / inner % count;
      numbers[n] =
          unchanged[static_cast<size_t>(place + (from(step) - step) * inner)];
    }
    return numbers;
  }
};

bool HasExactNumbers(const NDArray& constant) {
  return std::ranges::all_of(ToDoubles(constant), [](double number) {
    return std::fabs(number) < kLargestInteger;
  });
}

}  // namespace

std::vector<size_t> AllSlots(const Operation& operation) {
  std::vector<size_t> slots(operation.inputs.size());
  std::iota(slots.begin(), slots.end(), size_t{0});
  return slots;
}

std::vector<OpAttrs> OtherOperators(const Network& network,
                                    const Operation& operation,
                                    const OpSet& operators) {
  std::vector<OpAttrs> others;
  const OperatorDef& own = operation.def();
  if (own.traits.form.empty()) return others;
  for (const OperatorDef* const def :
       OthersOfForm(own, network.opset(own.domain), operators)) {
    std::vector<NamedAttr> kept = NamedAttrsOf(operation.attrs);
    std::erase_if(kept, [def](const NamedAttr& attr) {
      return std::ranges::find(def->fields, attr.name, &AttrField::name) ==
             def->fields.end();
    });
    auto made = MakeAttrs(*def, kept);
    if (made.ok()) others.push_back(*std::move(made));
  }
  return others;
}

void VisitEdits(const Network& network, const Operation& operation,
                const OpSet& operators,
                absl::FunctionRef<bool(const OperationEdit& edit)> visit) {
  EditVisit{network, operation, operators, visit}.Run();
}

void VisitConstantEdits(
    const NDArray& constant,
    absl::FunctionRef<bool(const NDArray& changed, const std::string& what)>
        visit) {
  const DLDataType dtype = constant.dtype();
  if (CountOf(constant) > kMostEditedNumbers) return;
  if (IsFloat(dtype) || (IsInteger(dtype) && HasExactNumbers(constant))) {
    ConstantVisit{constant, visit}.Run();
  }
}

}  // namespace nodewise
