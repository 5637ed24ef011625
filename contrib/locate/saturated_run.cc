#include "contrib/locate/saturated_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

// About half a second, of the two that the search for a cause may take.
constexpr int64_t kMostProducts = 1'000'000'000;
constexpr int32_t kLeast16 = -32768;
constexpr int32_t kMost16 = 32767;

// A product of 8-bit numbers. By how its operands are given: as they are, with
// scales beside them, or as what DequantizeLinear has made of them.
struct ProductForm {
  std::string_view kind;
  bool is_convolution;
  bool is_dequantized;  // Both operands come from DequantizeLinear.
  size_t left, right;   // The slots of the operands.
  // The slots of the scales of left, right and result; 0: there are none.
  std::array<size_t, 3> scales;
};
constexpr ProductForm kForms[] = {
    {"MatMulInteger", false, false, 0, 1, {}},
    {"ConvInteger", true, false, 0, 1, {}},
    {"QLinearMatMul", false, false, 0, 3, {1, 4, 6}},
    {"QLinearConv", true, false, 0, 3, {1, 4, 6}},
    {"MatMul", false, true, 0, 1, {}},
    {"Conv", true, true, 0, 1, {}},
};

// 8-bit numbers as they are multiplied: by rows of what is added up.
struct Operands {
  int64_t sums = 0;            // How many numbers are added up for each result.
  int64_t rows = 0;            // Results by the left operand: rows, or places.
  int64_t groups = 1;          // The groups of a convolution.
  int64_t places = 0;          // Rows of one image of a convolution.
  int64_t columns = 0;         // Results by the right operand, in all groups.
  std::vector<int16_t> left;   // [groups][sums][rows]
  std::vector<int16_t> right;  // [columns][sums]
};

// Returns by how much saturating changes each result: [columns][rows]. Pairs of
// neighbours are added up in 16 bits, and these sums in 32. The last one of an
// odd number is added alone and cannot saturate: 255 * -128 fits 16 bits.
std::vector<int32_t> Changes(const Operands& by) {
  std::vector<int32_t> changes(static_cast<size_t>(by.columns * by.rows));
  const int64_t columns = by.columns / by.groups;
  for (int64_t n = 0; n < by.columns; ++n) {
    const int16_t* const left =
        by.left.data() + n / columns * by.sums * by.rows;
    const int16_t* const right = by.right.data() + n * by.sums;
    int32_t* const change = changes.data() + n * by.rows;
    for (int64_t k = 0; k + 1 < by.sums; k += 2) {
      const int32_t w0 = right[k];
      const int32_t w1 = right[k + 1];
      const int16_t* const x0 = left + k * by.rows;
      const int16_t* const x1 = x0 + by.rows;
      for (int64_t m = 0; m < by.rows; ++m) {
        const int32_t pair = x0[m] * w0 + x1[m] * w1;
        change[m] += std::clamp(pair, kLeast16, kMost16) - pair;
      }
    }
  }
  return changes;
}

struct SaturatedRun {
  const WrongNode& node;
  const OpSet& operators;
  const Network& region = node.region;
  const std::vector<NDArray> given = {node.inputs.begin(), node.inputs.end()};
  const Operation* product = nullptr;
  const ProductForm* form = nullptr;
  std::map<ValueId, NDArray> values = {};
  Dequantized left_operand = {};
  Dequantized right_operand = {};
  Operands operands = {};
  NDArray made = {};

  NDArray Run() {
    // Most regions have none, and need not be computed to see that.
    if (!HasProduct() || !ReadValues() || !Find() || !ReadOperands()) {
      return NDArray();
    }
    const std::vector<int32_t> changes = Changes(operands);
    const bool is_any = std::ranges::any_of(
        changes, [](int32_t change) { return change != 0; });
    if (!is_any || !ChangeProduct(changes)) return NDArray();
    InterpretOptions options;
    options.replaced[product->outputs[0]] = made;
    auto result = Interpret(region, given, options);
    return result.ok() ? (*result)[node.output] : NDArray();
  }

  const Operation* MakerOf(ValueId id) const {
    if (id == kNoValue ||
        region.value(id).kind != NetworkValue::Kind::kOutput) {
      return nullptr;
    }
    return &region.operation(region.value(id).producer);
  }

  // The operand as it is before it became a float, in the region or before it.
  // Undefined integers if it is another float.
  Dequantized OperandAt(size_t slot) const {
    if (slot >= product->inputs.size()) return {};
    const ValueId id = product->inputs[slot];
    if (!form->is_dequantized) return {ValueOf(id), NDArray(), NDArray()};
    const Operation* const maker = MakerOf(id);
    if (maker != nullptr && maker->kind() == "DequantizeLinear") {
      return {ValueOf(maker->inputs[0]), ValueOf(maker->inputs[1]),
              maker->inputs.size() > 2 ? ValueOf(maker->inputs[2]) : NDArray()};
    }
    const absl::Span<const ValueId> inputs = region.inputs();
    const auto input =
        static_cast<size_t>(std::ranges::find(inputs, id) - inputs.begin());
    return input < node.dequantized.size() ? node.dequantized[input]
                                           : Dequantized();
  }

  static const ProductForm* FormOf(const Operation& operation) {
    const auto form =
        std::ranges::find(kForms, operation.kind(), &ProductForm::kind);
    return form == std::end(kForms) ? nullptr : form;
  }

  bool HasProduct() const {
    return std::ranges::any_of(region.order(), [this](OperationId id) {
      return FormOf(region.operation(id)) != nullptr;
    });
  }

  bool Find() {
    for (const OperationId id : region.order()) {
      product = &region.operation(id);
      form = FormOf(*product);
      if (form == nullptr) continue;
      left_operand = OperandAt(form->left);
      right_operand = OperandAt(form->right);
      if (left_operand.integers.defined() && right_operand.integers.defined())
        return true;
    }
    return false;
  }

  // Operands may be made in the region itself, so it is computed once as the
  // definition has it.
  bool ReadValues() {
    for (size_t i = 0; i < given.size(); ++i) {
      values[region.inputs()[i]] = given[i];
    }
    InterpretOptions options;
    options.observe = [this](const OperationRun& run) {
      for (size_t i = 0; i < run.operation.outputs.size(); ++i) {
        values[run.operation.outputs[i]] = run.result.outputs[i];
      }
      return false;
    };
    return Interpret(region, given, options).ok();
  }

  NDArray ValueOf(ValueId id) const {
    if (id == kNoValue) return NDArray();
    const NetworkValue& value = region.value(id);
    if (value.kind == NetworkValue::Kind::kConstant) return value.data;
    const auto known = values.find(id);
    return known == values.end() ? NDArray() : known->second;
  }

  bool ReadOperands() {
    const NDArray& left = left_operand.integers;
    const NDArray& right = right_operand.integers;
    // The instruction takes unsigned numbers on the left and signed ones on the
    // right.
    const bool are_bytes = left.dtype() == kUint8 && right.dtype() == kInt8;
    if (!are_bytes || CountOf(left) == 0 || CountOf(right) == 0) return false;
    return form->is_convolution ? ReadConvolution(left, right)
                                : ReadProduct(left, right);
  }

  bool IsShort() const {
    return operands.sums > 1 && operands.rows > 0 &&
           operands.columns <= kMostProducts / operands.sums / operands.rows;
  }

  bool ReadProduct(const NDArray& left, const NDArray& right) {
    if (right.shape().size() != 2 || left.shape().empty()) return false;
    operands.sums = right.shape()[0];
    operands.columns = right.shape()[1];
    if (operands.sums == 0) return false;
    operands.rows = CountOf(left) / operands.sums;
    if (!IsShort()) return false;
    operands.left.resize(static_cast<size_t>(CountOf(left)));
    operands.right.resize(static_cast<size_t>(CountOf(right)));
    Transpose(left.As<uint8_t>(), operands.rows, operands.sums,
              operands.left.data());
    Transpose(right.As<int8_t>(), operands.sums, operands.columns,
              operands.right.data());
    return true;
  }

  template <typename T>
  static void Transpose(const T* from, int64_t rows, int64_t columns,
                        int16_t* to) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const T number = from[i * columns + j];
        to[j * rows + i] = int16_t{number};
      }
    }
  }

  // A convolution whose weights are 1 at one place of the window and 0
  // elsewhere makes the numbers that this place covers: so strides, padding and
  // dilations need not be known here.
  bool ReadConvolution(const NDArray& left, const NDArray& right) {
    const auto shape = right.shape();
    if (shape.size() < 3 || left.shape().size() != shape.size()) return false;
    const int64_t batch = left.shape()[0];
    const int64_t channels = left.shape()[1];
    // Convolutions of single channels are computed without such sums.
    const bool is_depthwise = shape[1] == 1 && channels > 1;
    if (is_depthwise || channels % shape[1] != 0) return false;
    const int64_t window = CountOf(right) / (shape[0] * shape[1]);
    const NDArray covered = Covered(left, shape, window);
    if (!covered.defined()) return false;
    operands.groups = channels / shape[1];
    operands.sums = shape[1] * window;
    operands.columns = shape[0];
    operands.rows = CountOf(covered) / (channels * window);
    operands.places = operands.rows / batch;
    if (!IsShort()) return false;
    // The channels of one place of the window lie side by side.
    const float* const from = covered.As<float>();
    operands.left.resize(
        static_cast<size_t>(channels * window * operands.rows));
    operands.right.resize(static_cast<size_t>(CountOf(right)));
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t t = 0; t < window; ++t) {
        const int64_t group = c / shape[1];
        const int64_t to = group * operands.sums + t * shape[1] + c % shape[1];
        for (int64_t m = 0; m < operands.rows; ++m) {
          const int64_t b = m / operands.places;
          const int64_t at =
              ((b * channels + c) * window + t) * operands.places +
              m % operands.places;
          operands.left[static_cast<size_t>(to * operands.rows + m)] =
              static_cast<int16_t>(from[at]);
        }
      }
    }
    for (int64_t n = 0; n < shape[0]; ++n) {
      Transpose(right.As<int8_t>() + n * operands.sums, shape[1], window,
                operands.right.data() + n * operands.sums);
    }
    return true;
  }

  // [batch][channels * window][places], as it lies in memory: padding is the
  // zero point.
  NDArray Covered(const NDArray& left, absl::Span<const int64_t> weights,
                  int64_t window) const {
    const int64_t channels = left.shape()[1];
    // Beyond this the work is not worth it: no cause is found then.
    constexpr int64_t kMostCovered = int64_t{1} << 28;
    if (channels * window * CountOf(left) > kMostCovered) return NDArray();
    // Padding adds zeros to what is covered, so the numbers are moved by the
    // zero point before and back behind it.
    const float zero = ZeroPointOfLeft();
    auto numbers = NDArray::Empty(left.shape(), kFloat32, left.device());
    std::vector<int64_t> shape(weights.begin(), weights.end());
    shape[0] = channels * window;
    shape[1] = 1;
    auto ones = NDArray::Empty(shape, kFloat32, left.device());
    if (!numbers.ok() || !ones.ok()) return NDArray();
    for (int64_t i = 0; i < CountOf(left); ++i) {
      numbers->As<float>()[i] = left.As<uint8_t>()[i] - zero;
    }
    std::fill_n(ones->As<float>(), CountOf(*ones), 0.0F);
    for (int64_t i = 0; i < channels * window; ++i) {
      ones->As<float>()[i * window + i % window] = 1;
    }
    const OperatorDef* const def = operators.Find("", "Conv", region.opset(""));
    if (def == nullptr) return NDArray();
    std::vector<NamedAttr> attrs = NamedAttrsOf(product->attrs);
    std::erase_if(attrs,
                  [](const NamedAttr& attr) { return attr.name == "group"; });
    attrs.push_back({"group", channels});
    const auto convolution = MakeAttrs(*def, attrs);
    if (!convolution.ok()) return NDArray();
    auto covered = Evaluate(*convolution, {*numbers, *ones}, {true});
    if (!covered.ok()) return NDArray();
    NDArray result = covered->outputs[0];
    for (int64_t i = 0; i < CountOf(result); ++i) result.As<float>()[i] += zero;
    return result;
  }

  float ZeroPointOfLeft() const {
    // ConvInteger has both behind its operands, QLinearConv after each scale.
    NDArray zero = left_operand.zero_point;
    if (!form->is_dequantized && product->inputs.size() > 2) {
      zero = ValueOf(product->inputs[2]);
    }
    return zero.defined() && zero.dtype() == kUint8 && CountOf(zero) == 1
               ? *zero.As<uint8_t>()
               : 0.0F;
  }

  // The scale of one column; 1 where there is none.
  static float At(const NDArray& scale, int64_t column) {
    if (!scale.defined() || scale.dtype() != kFloat32) return 1;
    return scale.As<float>()[CountOf(scale) == 1 ? 0 : column];
  }

  // Returns the scale of the left operand, the right one or the result.
  NDArray ScaleOf(size_t which) const {
    if (form->is_dequantized) {
      return which == 0   ? left_operand.scale
             : which == 1 ? right_operand.scale
                          : NDArray();
    }
    return form->scales[which] == 0
               ? NDArray()
               : ValueOf(product->inputs[form->scales[which]]);
  }

  // Adds the changes to what the product makes.
  bool ChangeProduct(const std::vector<int32_t>& changes) {
    const NDArray right = ValueOf(product->outputs[0]);
    if (!right.defined() ||
        CountOf(right) != static_cast<int64_t>(changes.size())) {
      return false;
    }
    const std::array<NDArray, 3> scales = {ScaleOf(0), ScaleOf(1), ScaleOf(2)};
    for (const NDArray& scale : scales) {
      const bool fits = !scale.defined() || CountOf(scale) == 1 ||
                        CountOf(scale) == operands.columns;
      if (!fits) return false;
    }
    auto copy = right.CopyToHost();
    if (!copy.ok()) return false;
    made = *std::move(copy);
    for (int64_t n = 0; n < operands.columns; ++n) {
      const double scale =
          At(scales[0], 0) * At(scales[1], n) / At(scales[2], 0);
      for (int64_t m = 0; m < operands.rows; ++m) {
        const int64_t at = PlaceOf(n, m);
        const double change =
            scale * changes[static_cast<size_t>(n * operands.rows + m)];
        if (!Add(change, at)) return false;
      }
    }
    return true;
  }

  // Convolutions have their columns before the places of an image, products of
  // matrices last.
  int64_t PlaceOf(int64_t column, int64_t row) const {
    if (!form->is_convolution) return row * operands.columns + column;
    const int64_t image = row / operands.places;
    return (image * operands.columns + column) * operands.places +
           row % operands.places;
  }

  // Results that are integers are rounded and limited once more. Returns false
  // for a type that no such product makes.
  bool Add(double change, int64_t at) {
    const auto add = [&](auto* data, double least, double most) {
      const double sum = std::nearbyint(data[at] + change);
      data[at] = static_cast<std::remove_reference_t<decltype(*data)>>(
          std::clamp(sum, least, most));
      return true;
    };
    const DLDataType dtype = made.dtype();
    if (dtype == kFloat32) {
      made.As<float>()[at] += static_cast<float>(change);
      return true;
    }
    if (dtype == kInt32) return add(made.As<int32_t>(), INT32_MIN, INT32_MAX);
    if (dtype == kInt8) return add(made.As<int8_t>(), INT8_MIN, INT8_MAX);
    if (dtype == kUint8) return add(made.As<uint8_t>(), 0, UINT8_MAX);
    return false;
  }
};

}  // namespace

NDArray RunSaturated(const WrongNode& node, const OpSet& operators) {
  return SaturatedRun{node, operators}.Run();
}

}  // namespace nodewise
