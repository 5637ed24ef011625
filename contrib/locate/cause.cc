#include "nodewise/locate/cause.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "contrib/locate/partial_graph.h"
#include "fmt/format.h"
#include "nodewise/align/operation_edits.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/machine.h"

// The ways to compute are tried from the most particular to the vaguest one:
// what a processor is known to do, one step of an integer, a shorter type, one
// mistake in an operation, and last only how the errors lie. Each must be
// nearer to what was found than the definition is, by a factor that says how
// much of the error such a way may leave. Nearness is the norm of the
// difference over all elements, so that a single element that fits by chance
// explains nothing.

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

// Computes a region as a processor does whose instruction for products of
// unsigned and signed 8-bit numbers adds up two of them in 16 bits, and so
// saturates (x86 without VNNI). The first product of the region that has such
// operands is computed like that, and the reference goes on with its result.
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

  // Returns something undefined if the region has no such product, if nothing
  // saturates in it, or if it takes too long to compute.
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

// A way to compute explains what was found if it is nearer to that by this
// factor than the definition. Rounding to a shorter type leaves what is added
// up in another order; a mistake leaves next to nothing.
constexpr double kNearerByRounding = 3;
constexpr double kNearerByMistake = 20;
// One that rounds twice must be nearer than those that round once.
constexpr double kNearerByBoth = 2;
// Which input alone is kept in a shorter type, as weights often are.
constexpr const char* kPlaces[] = {"first inputs", "second inputs",
                                   "third inputs"};
// A person waits.
constexpr int64_t kMostNanoseconds = 2'000'000'000;
// A mistake leaves next to nothing, so that of so many changes none fits by
// chance.
constexpr size_t kMostEdits = 150;

// The significant bits of shorter types, with the names of these.
struct ShortType {
  int bits;
  const char* name;
};
constexpr ShortType kShortTypes[] = {
    {8, "bfloat16"}, {11, "float16 or TF32"}, {24, "float32"}};

// Rounds to nearest, ties to even: half of what is cut off is added to the bits
// before they are cut, less one where the last bit that stays is even. A carry
// into the exponent is what rounding up to the next power of two is.
template <typename Float, typename Word>
Float RoundToBits(Float value, int bits) {
  if (!std::isfinite(value)) return value;
  const int cut = std::numeric_limits<Float>::digits - bits;
  const Word word = std::bit_cast<Word>(value);
  const Word is_odd = word >> cut & 1;
  const Word half = (Word{1} << (cut - 1)) - 1 + is_odd;
  return std::bit_cast<Float>((word + half) >> cut << cut);
}

template <typename Float, typename Word>
void RoundAll(const NDArray& tensor, int bits) {
  auto* const data = tensor.As<Float>();
  std::transform(data, data + CountOf(tensor), data, [bits](Float value) {
    return RoundToBits<Float, Word>(value, bits);
  });
}

bool IsFloat32(const NDArray& tensor) {
  return tensor.defined() && tensor.dtype() == kFloat32;
}
bool IsFloat64(const NDArray& tensor) {
  return tensor.defined() && tensor.dtype() == DLDataType{kDLFloat, 64, 1};
}

// Returns the tensor itself unless its type is longer and there is memory.
NDArray Rounded(const NDArray& tensor, int bits) {
  const bool is_long = IsFloat64(tensor);
  if (!is_long &&
      !(IsFloat32(tensor) && bits < std::numeric_limits<float>::digits)) {
    return tensor;
  }
  auto copy = tensor.CopyToHost();
  if (!copy.ok()) return tensor;
  if (is_long) {
    RoundAll<double, uint64_t>(*copy, bits);
  } else {
    RoundAll<float, uint32_t>(*copy, bits);
  }
  return *std::move(copy);
}

// Returns how a type is called here: types of equal bits are told apart by the
// numbers that they reach, which are seldom there.
std::string NameOfShort(const std::string& type) {
  for (const ShortType& each : kShortTypes) {
    if (std::string_view(each.name).starts_with(type)) return each.name;
  }
  return type;
}

struct CauseSearch {
  const WrongNode& node;
  const OpSet& operators;
  const NDArray& found = node.found[node.output];
  // How far the definition's result is from what was found.
  const double own_distance = node.worst.metrics.difference_norm;
  const int64_t end_ns = ClockNanoseconds() + kMostNanoseconds;

  std::optional<Cause> Run() {
    if (node.worst.metrics.non_finite() > 0) return Infinity();
    if (!(own_distance > 0)) return std::nullopt;
    if (auto cause = Saturation()) return cause;
    if (auto cause = Step()) return cause;
    if (auto cause = Precision()) return cause;
    if (auto cause = OperatorMistake()) return cause;
    return Pattern();
  }

  bool HasTime() const { return ClockNanoseconds() < end_ns; }

  // How far what a way to compute makes is from what was found; infinite if it
  // makes something of another type.
  double DistanceOf(const NDArray& made) const {
    if (!made.defined() || made.dtype() != found.dtype() ||
        made.shape() != found.shape()) {
      return INFINITY;
    }
    const auto metrics = MeasureDifference(*made, *found);
    if (!metrics.ok() || metrics->non_finite() > 0) return INFINITY;
    return metrics->difference_norm;
  }

  // An infinity that was read explains the one that was made, and says nothing
  // of the node.
  std::optional<Cause> Infinity() const {
    const ElementDifference& first = node.worst.metrics.first_non_finite;
    for (const NDArray& input : node.inputs) {
      if (input.defined() && !IsFinite(input)) return std::nullopt;
    }
    if (std::isfinite(first.actual)) return std::nullopt;
    return Cause{Cause::Kind::kInfinity,
                 fmt::format("finite inputs become {}",
                             std::isnan(first.actual) ? "NaN" : "infinity")};
  }

  static bool IsFinite(const NDArray& tensor) {
    if (!IsFloat32(tensor)) return true;
    const auto* const data = tensor.As<float>();
    return std::all_of(data, data + CountOf(tensor),
                       [](float value) { return std::isfinite(value); });
  }

  std::optional<Cause> Saturation() const {
    const NDArray made = SaturatedRun{node, operators}.Run();
    if (!(DistanceOf(made) * kNearerByRounding < own_distance)) {
      return std::nullopt;
    }
    return Cause{Cause::Kind::kSaturation,
                 "8-bit products saturate on this processor"};
  }

  // Only short integers stand for numbers that were rounded: a longer one that
  // is one off is a mistake as any other.
  std::optional<Cause> Step() const {
    const Metrics& metrics = node.worst.metrics;
    const uint8_t code = found.dtype().code;
    const bool is_short = found.dtype().bits > 1 && found.dtype().bits <= 8;
    const bool is_step = (code == kDLInt || code == kDLUInt) && is_short &&
                         metrics.largest_error.error == 1;
    if (!is_step) return std::nullopt;
    return Cause{Cause::Kind::kStep,
                 fmt::format("results are one step off in {} of {} elements",
                             metrics.different, metrics.elements)};
  }

  NDArray Compute(std::vector<NDArray> inputs) const {
    auto made = Interpret(node.region, std::move(inputs));
    return made.ok() ? (*made)[node.output] : NDArray();
  }

  // Returns an undefined tensor where rounding this input alone is the same as
  // rounding all of them, or where time is up.
  NDArray ComputeWithRounded(size_t input, int bits) const {
    const size_t count = node.inputs.size();
    if (count < 2 || input >= count || !HasTime()) return NDArray();
    std::vector<NDArray> inputs(node.inputs.begin(), node.inputs.end());
    inputs[input] = Rounded(inputs[input], bits);
    return Compute(std::move(inputs));
  }

  // Rounding what is read, what is made, or both tells apart a kernel that
  // computes in a shorter type, one that only stores it, and one that does all
  // in it. The longer types come last and win only if they are nearer still.
  std::optional<Cause> Precision() const {
    if (!IsFloat32(found) && !IsFloat64(found)) return std::nullopt;
    std::optional<Cause> best;
    double nearest = own_distance / kNearerByRounding;
    const auto take = [&](double distance, double factor, const char* what,
                          const char* type) {
      if (!(distance * factor < nearest)) return;
      nearest = distance;
      best = {Cause::Kind::kPrecision,
              fmt::format("{} are rounded to {}", what, type), type};
    };
    for (const auto& [bits, name] : kShortTypes) {
      const bool is_own =
          IsFloat32(found) && bits == std::numeric_limits<float>::digits;
      if (!HasTime() || is_own) break;
      std::vector<NDArray> inputs;
      for (const NDArray& input : node.inputs) {
        inputs.push_back(Rounded(input, bits));
      }
      const NDArray made = Compute(std::move(inputs));
      if (!made.defined()) continue;
      take(DistanceOf(made), 1, "inputs", name);
      take(DistanceOf(Rounded(node.expected[node.output], bits)), 1, "results",
           name);
      take(DistanceOf(Rounded(made, bits)), kNearerByBoth, "inputs and results",
           name);
      // All inputs explain as much where the others are short already.
      for (size_t i = 0; i < std::size(kPlaces); ++i) {
        take(DistanceOf(ComputeWithRounded(i, bits)), kNearerByBoth, kPlaces[i],
             name);
      }
    }
    return best;
  }

  // Mistakes are looked for in regions of one operation alone: changes of
  // several operations may explain anything.
  std::optional<Cause> OperatorMistake() const {
    // The edits are of one operation, and are computed without the others.
    const Network& region = node.region;
    if (region.order().size() != 1) return std::nullopt;
    const Operation& operation = region.operation(region.order()[0]);
    if (operation.outputs.size() != 1) return std::nullopt;
    Tensors inputs;
    for (const ValueId id : operation.inputs) {
      inputs.push_back(GivenFor(id, region, node.inputs));
    }
    std::optional<Cause> cause;
    size_t tried = 0;
    VisitEdits(region, operation, operators, [&](const OperationEdit& edit) {
      if (tried++ == kMostEdits || !HasTime()) return false;
      const double distance = DistanceOf(Edited(edit, inputs));
      if (!(distance * kNearerByMistake < own_distance)) return true;
      cause = {Cause::Kind::kMistake, "numbers fit one change: " + edit.what};
      return false;
    });
    return cause;
  }

  static NDArray Edited(const OperationEdit& edit, const Tensors& given) {
    Tensors inputs;
    for (const size_t slot : edit.slots) {
      inputs.push_back(slot == OperationEdit::kDropped ? NDArray()
                                                       : given[slot]);
    }
    if (edit.is_skipped) return inputs[0];
    const auto made = Evaluate(edit.attrs, std::move(inputs), {true});
    return made.ok() ? made->outputs[0] : NDArray();
  }

  // Nothing that was computed fits. How the wrong elements lie is at least a
  // hint for a person.
  std::optional<Cause> Pattern() const {
    const DifferenceDetails details = DescribeDifference(
        *node.expected[node.output], *found, node.worst.metrics,
        ToleranceOf({Rule::Kind::kByType}, found.dtype()));
    if (details.patterns.empty()) return std::nullopt;
    const FailurePattern& pattern = details.patterns[0];
    if (pattern.shape == FailureShape::kPrecisionLost) {
      const std::string type = NameOfShort(pattern.type);
      return Cause{Cause::Kind::kPrecision, "results are rounded to " + type,
                   type};
    }
    return Cause{Cause::Kind::kPattern,
                 "errors have a pattern: " + pattern.words};
  }
};

}  // namespace

std::optional<Cause> CauseOf(const WrongNode& node, const OpSet& operators) {
  const bool has_pair =
      node.output < node.found.size() && node.output < node.expected.size() &&
      node.found[node.output].defined() && node.expected[node.output].defined();
  if (!has_pair ||
      node.found[node.output].dtype() != node.expected[node.output].dtype()) {
    return std::nullopt;
  }
  return CauseSearch{node, operators}.Run();
}

}  // namespace nodewise
