#include "contrib/locate/saturation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "nodewise/interp/interpreter.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

// About half a second.
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

// Returns by how much saturating changes each result: [columns][rows].
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

class SaturatedRun {
 public:
  SaturatedRun(const WrongNode& node, const OpSet& operators)
      : region_(node.region),
        given_(node.inputs.begin(), node.inputs.end()),
        dequantized_(node.dequantized),
        output_(node.output),
        operators_(operators) {}

  NDArray Run() {
    if (!HasProduct() || !ReadValues() || !Find() || !ReadOperands()) {
      return NDArray();
    }
    const std::vector<int32_t> changes = Changes(operands_);
    const bool is_any = std::any_of(changes.begin(), changes.end(),
                                    [](int32_t change) { return change != 0; });
    if (!is_any || !ChangeProduct(changes)) return NDArray();
    InterpretOptions options;
    options.replaced[product_->outputs[0]] = made_;
    auto result = Interpret(region_, given_, options);
    return result.ok() ? (*result)[output_] : NDArray();
  }

 private:
  const Operation* MakerOf(ValueId id) const {
    if (id == kNoValue ||
        region_.value(id).kind != NetworkValue::Kind::kOutput) {
      return nullptr;
    }
    return &region_.operation(region_.value(id).producer);
  }

  // What an operand is before it became a float, in the region or before it.
  // Undefined integers if it is another float.
  Dequantized OperandAt(const Operation& product, const ProductForm& form,
                        size_t slot) const {
    if (slot >= product.inputs.size()) return {};
    const ValueId id = product.inputs[slot];
    if (!form.is_dequantized) return {ValueOf(id), NDArray(), NDArray()};
    const Operation* const maker = MakerOf(id);
    if (maker != nullptr && maker->kind() == "DequantizeLinear") {
      return {ValueOf(maker->inputs[0]), ValueOf(maker->inputs[1]),
              maker->inputs.size() > 2 ? ValueOf(maker->inputs[2]) : NDArray()};
    }
    const absl::Span<const ValueId> inputs = region_.inputs();
    const auto input = static_cast<size_t>(
        std::find(inputs.begin(), inputs.end(), id) - inputs.begin());
    return input < dequantized_.size() ? dequantized_[input] : Dequantized();
  }

  static bool HasForm(const Operation& operation, const ProductForm& form) {
    return operation.kind() == form.kind;
  }

  bool HasProduct() const {
    return std::any_of(
        region_.order().begin(), region_.order().end(), [this](OperationId id) {
          return std::any_of(std::begin(kForms), std::end(kForms),
                             [&](const ProductForm& form) {
                               return HasForm(region_.operation(id), form);
                             });
        });
  }

  bool Find() {
    for (const OperationId id : region_.order()) {
      product_ = &region_.operation(id);
      for (const ProductForm& form : kForms) {
        if (!HasForm(*product_, form)) continue;
        form_ = &form;
        left_ = OperandAt(*product_, form, form.left);
        right_ = OperandAt(*product_, form, form.right);
        if (left_.integers.defined() && right_.integers.defined()) return true;
      }
    }
    return false;
  }

  bool ReadValues() {
    for (size_t i = 0; i < given_.size(); ++i) {
      values_[region_.inputs()[i]] = given_[i];
    }
    InterpretOptions options;
    options.observe = [this](const OperationRun& run) {
      for (size_t i = 0; i < run.operation.outputs.size(); ++i) {
        values_[run.operation.outputs[i]] = run.result.outputs[i];
      }
      return false;
    };
    return Interpret(region_, given_, options).ok();
  }

  NDArray ValueOf(ValueId id) const {
    if (id == kNoValue) return NDArray();
    const NetworkValue& value = region_.value(id);
    if (value.kind == NetworkValue::Kind::kConstant) return value.data;
    const auto known = values_.find(id);
    return known == values_.end() ? NDArray() : known->second;
  }

  bool ReadOperands() {
    const NDArray& left = left_.integers;
    const NDArray& right = right_.integers;
    const bool are_bytes = left.dtype() == kUint8 && right.dtype() == kInt8;
    if (!are_bytes || CountOf(left) == 0 || CountOf(right) == 0) return false;
    return form_->is_convolution ? ReadConvolution(left, right)
                                 : ReadProduct(left, right);
  }

  bool IsShort() const {
    return operands_.sums > 1 && operands_.rows > 0 &&
           operands_.columns <= kMostProducts / operands_.sums / operands_.rows;
  }

  bool ReadProduct(const NDArray& left, const NDArray& right) {
    if (right.shape().size() != 2 || left.shape().empty()) return false;
    operands_.sums = right.shape()[0];
    operands_.columns = right.shape()[1];
    if (operands_.sums == 0) return false;
    operands_.rows = CountOf(left) / operands_.sums;
    if (!IsShort()) return false;
    Transpose(left.As<uint8_t>(), operands_.rows, operands_.sums,
              &operands_.left);
    Transpose(right.As<int8_t>(), operands_.sums, operands_.columns,
              &operands_.right);
    return true;
  }

  template <typename T>
  static void Transpose(const T* from, int64_t rows, int64_t columns,
                        std::vector<int16_t>* to) {
    to->resize(static_cast<size_t>(rows * columns));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        (*to)[static_cast<size_t>(j * rows + i)] = from[i * columns + j];
      }
    }
  }

  // What a window covers at each place is what a convolution makes whose
  // weights are 1 at one place of it, and 0 elsewhere: so strides, padding and
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
    operands_.groups = channels / shape[1];
    operands_.sums = shape[1] * window;
    operands_.columns = shape[0];
    operands_.rows = CountOf(covered) / (channels * window);
    operands_.places = operands_.rows / batch;
    if (!IsShort()) return false;
    // The channels of one place of the window lie side by side.
    const float* const from = covered.As<float>();
    operands_.left.resize(
        static_cast<size_t>(channels * window * operands_.rows));
    operands_.right.resize(static_cast<size_t>(CountOf(right)));
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t t = 0; t < window; ++t) {
        const int64_t group = c / shape[1];
        const int64_t to = group * operands_.sums + t * shape[1] + c % shape[1];
        for (int64_t m = 0; m < operands_.rows; ++m) {
          const int64_t b = m / operands_.places;
          const int64_t at =
              ((b * channels + c) * window + t) * operands_.places +
              m % operands_.places;
          operands_.left[static_cast<size_t>(to * operands_.rows + m)] =
              static_cast<int16_t>(from[at]);
        }
      }
    }
    for (int64_t n = 0; n < shape[0]; ++n) {
      for (int64_t c = 0; c < shape[1]; ++c) {
        for (int64_t t = 0; t < window; ++t) {
          operands_.right[static_cast<size_t>(n * operands_.sums +
                                              t * shape[1] + c)] =
              right.As<int8_t>()[(n * shape[1] + c) * window + t];
        }
      }
    }
    return true;
  }

  // [batch][channels * window][places], as it lies in memory: padding is the
  // zero point.
  NDArray Covered(const NDArray& left, absl::Span<const int64_t> weights,
                  int64_t window) const {
    const int64_t channels = left.shape()[1];
    constexpr int64_t kMostCovered = int64_t{1} << 28;
    if (channels * window * window * CountOf(left) > kMostCovered * window) {
      return NDArray();
    }
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
    const OperatorDef* const def =
        operators_.Find("", "Conv", region_.opset(""));
    if (def == nullptr) return NDArray();
    std::vector<NamedAttr> attrs = NamedAttrsOf(product_->attrs);
    std::erase_if(attrs,
                  [](const NamedAttr& attr) { return attr.name == "group"; });
    attrs.push_back({"group", channels});
    const auto made = MakeAttrs(*def, attrs);
    if (!made.ok()) return NDArray();
    auto covered = Evaluate(*made, {*numbers, *ones}, {true});
    if (!covered.ok()) return NDArray();
    NDArray result = covered->outputs[0];
    for (int64_t i = 0; i < CountOf(result); ++i) {
      result.As<float>()[i] += zero;
    }
    return result;
  }

  float ZeroPointOfLeft() const {
    // ConvInteger has both behind its operands, QLinearConv after each scale.
    NDArray zero = left_.zero_point;
    if (!form_->is_dequantized && product_->inputs.size() > 2) {
      zero = ValueOf(product_->inputs[2]);
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
    if (form_->is_dequantized) {
      return which == 0 ? left_.scale : which == 1 ? right_.scale : NDArray();
    }
    return form_->scales[which] == 0
               ? NDArray()
               : ValueOf(product_->inputs[form_->scales[which]]);
  }

  // Adds the changes to what the product makes.
  bool ChangeProduct(const std::vector<int32_t>& changes) {
    const NDArray right = ValueOf(product_->outputs[0]);
    if (!right.defined() ||
        CountOf(right) != static_cast<int64_t>(changes.size())) {
      return false;
    }
    const std::array<NDArray, 3> scales = {ScaleOf(0), ScaleOf(1), ScaleOf(2)};
    for (const NDArray& scale : scales) {
      const bool fits = !scale.defined() || CountOf(scale) == 1 ||
                        CountOf(scale) == operands_.columns;
      if (!fits) return false;
    }
    auto copy = right.CopyToHost();
    if (!copy.ok()) return false;
    made_ = *std::move(copy);
    for (int64_t n = 0; n < operands_.columns; ++n) {
      const double scale =
          At(scales[0], 0) * At(scales[1], n) / At(scales[2], 0);
      for (int64_t m = 0; m < operands_.rows; ++m) {
        const int64_t at = PlaceOf(n, m);
        const double change =
            scale * changes[static_cast<size_t>(n * operands_.rows + m)];
        if (!Add(change, at)) return false;
      }
    }
    return true;
  }

  // Convolutions have their columns before the places of an image, products of
  // matrices last.
  int64_t PlaceOf(int64_t column, int64_t row) const {
    if (!form_->is_convolution) return row * operands_.columns + column;
    const int64_t image = row / operands_.places;
    return (image * operands_.columns + column) * operands_.places +
           row % operands_.places;
  }

  bool Add(double change, int64_t at) {
    const auto add = [&](auto* data, double least, double most) {
      const double sum = std::nearbyint(data[at] + change);
      data[at] = static_cast<std::remove_reference_t<decltype(*data)>>(
          std::clamp(sum, least, most));
      return true;
    };
    const DLDataType dtype = made_.dtype();
    if (dtype == kFloat32) {
      made_.As<float>()[at] += static_cast<float>(change);
      return true;
    }
    if (dtype == kInt32) {
      return add(made_.As<int32_t>(), INT32_MIN, INT32_MAX);
    }
    if (dtype == kInt8) return add(made_.As<int8_t>(), INT8_MIN, INT8_MAX);
    if (dtype == kUint8) return add(made_.As<uint8_t>(), 0, UINT8_MAX);
    return false;
  }

  const Network& region_;
  const std::vector<NDArray> given_;
  const absl::Span<const Dequantized> dequantized_;
  const size_t output_;
  const OpSet& operators_;
  const Operation* product_ = nullptr;
  const ProductForm* form_ = nullptr;
  std::map<ValueId, NDArray> values_;
  Dequantized left_;
  Dequantized right_;
  Operands operands_;
  NDArray made_;
};

}  // namespace

NDArray SaturatedResult(const WrongNode& node, const OpSet& operators) {
  return SaturatedRun(node, operators).Run();
}

}  // namespace nodewise
