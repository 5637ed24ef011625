#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/autotest/choices.h"
#include "nodewise/autotest/tensor_draw.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

using IntList = std::vector<int64_t>;  // Sides, axes, places.

// One input of a test case.
struct CaseInput {
  bool is_given = true;
  DLDataType dtype{};
  IntList shape;
  InputDomain domain = {};
  // Contents that belong to the configuration, such as the shape that a Reshape
  // is told; undefined: drawn anew for each set of values.
  NDArray fixed = {};
  // The network holds it as a constant. Then it is fixed.
  bool is_constant = false;
};

// What the numbers of a value must be, since an operator reads it that says
// nothing of others.
struct ValueDemand {
  std::string value;  // Its name.
  InputDomain domain;
};

// A use of one operator, with everything but the numbers of its inputs. Or a
// whole network: then there is no operator, `inputs` are those of the network.
struct Configuration {
  const OperatorDef* def = nullptr;
  int opset = 0;  // The version of the operator's domain.
  std::vector<NamedAttr> attributes = {};
  std::vector<CaseInput> inputs = {};
  std::vector<bool> outputs = {};  // Which outputs are wanted; at least one is.
  std::vector<ValueDemand> demands = {};

  bool is_network() const { return def == nullptr; }
};

// Returns the configuration as a network of one operation: its inputs are those
// that are not constants, "x0", "x2", ... by their places, its outputs "y0",
// ... Fails as MakeAttrs() and Network::AddOperation() do.
absl::StatusOr<Network> NetworkOf(const Configuration& configuration);

// Draws the inputs of NetworkOf() in their order.
absl::StatusOr<std::vector<NDArray>> DrawInputs(
    const Configuration& configuration, Choices* choices,
    SpecialKind special = SpecialKind::kNone);

// Returns "Conv 11 (strides=[2, 2]) float32[1, 3, 8, 8], float32[4, 3, 3, 3]".
std::string ToString(const Configuration& configuration);

// What the space of an operator draws from: every decision of a configuration.
// The option that is named first is the simplest, and the one that shrinking
// tends to.
class ConfigurationDraw {
 public:
  // No tensor of a case has more elements than this, unless its space says so.
  static constexpr int64_t kMostElements = 2048;

  ConfigurationDraw(const OperatorDef& def, Choices* choices);
  // At this version of the operator's domain.
  ConfigurationDraw(const OperatorDef& def, int opset, Choices* choices);

  // Types, shapes and sides are those of a tensor that is there already, most
  // of the time, wherever they fit.
  void Prefer(DLDataType dtype, IntList shape) {
    prefers_ = true;
    preferred_type_ = dtype;
    preferred_shape_ = std::move(shape);
  }
  // Constants hold whole numbers, where nothing else is said.
  void PreferWhole() { prefers_whole_ = true; }

  const OperatorDef& def() const { return *configuration_.def; }
  bool Is(std::string_view name) const { return def().name == name; }
  // The version of the operator's domain: any in which this row holds.
  int opset() const { return configuration_.opset; }

  // --- Decisions.
  // From `least`, the simplest, to `most`, both included.
  int64_t Between(int64_t least, int64_t most) {
    return choices_->Between(least, most);
  }
  // True in so many of 100 cases; false is simplest.
  bool Chance(int percent = 50) { return choices_->Chance(percent); }
  template <typename T>
  T One(std::initializer_list<T> options) {
    return choices_->One(options);
  }
  template <typename T>
  T One(const std::vector<T>& options) {
    return choices_->One(options);
  }
  // One of these types; the first one in half of the cases.
  DLDataType Type(absl::Span<const DLDataType> types);
  DLDataType Float();    // float32, float16, float64 or bfloat16.
  DLDataType Integer();  // 8 to 64 bits, signed or not.
  DLDataType Number();   // Either.
  DLDataType Any();      // A number or bool.
  // A type that the operator's rules accept for all inputs at once; float32 in
  // half of the cases, if it is one.
  DLDataType Legal();
  // A side: 1 to 4 most of the time, else one around the widths of vectors (up
  // to 65), rarely 0 if `may_be_empty`; at most `most`.
  int64_t Side(int64_t most = kMostElements, bool may_be_empty = false);
  // A shape, whose elements are no more than kMostElements.
  IntList Sides(int64_t least_rank, int64_t most_rank,
                bool may_be_empty = true);
  // A shape that broadcasts to this one: sides left out at the front, or 1.
  IntList PartOf(const IntList& shape);
  // A place from 0 to rank - 1; rank 0 is taken for 1.
  int64_t Axis(size_t rank) {
    return Between(0, std::max<int64_t>(static_cast<int64_t>(rank), 1) - 1);
  }
  // A place from 0 to rank - 1, or the negative number that means it.
  int64_t SignedAxis(size_t rank);
  // SignedAxis() from opset 11 on, which let most operators count from the end;
  // Axis() below it.
  int64_t AxisOfOpset(size_t rank) {
    return opset() >= 11 ? SignedAxis(rank) : Axis(rank);
  }
  // Some of all axes, in ascending order.
  IntList Axes(size_t rank, bool may_be_none = false);
  // Some of all axes in any order; some as negative numbers if the opset is at
  // least `negative_since` (most operators take these since opset 11).
  IntList SignedAxes(size_t rank, bool may_be_none = false,
                     int negative_since = 11);
  // So many different numbers below `count`, at most all of them.
  IntList Distinct(int64_t count, int64_t how_many);
  // An order of the numbers below `count`; the ascending one is simplest.
  IntList Order(size_t count);
  Choices* choices() { return choices_; }

  // --- What comes out. Inputs are added in their order.
  void Input(DLDataType dtype, IntList shape, InputDomain domain = {});
  // The network holds it as a constant in some cases (weights, scales).
  void Weight(DLDataType dtype, IntList shape, InputDomain domain = {});
  // Contents that the configuration decides on. A constant, unless it may also
  // be an input that holds this.
  void Fixed(NDArray contents, bool is_constant = true);
  void Numbers(DLDataType dtype, const IntList& shape,
               const std::vector<double>& numbers, bool is_constant = true);
  // int64, of rank 1. What decides the shapes of outputs is a constant most of
  // the time, since few candidates take shapes that only a run tells.
  void Ints(const IntList& numbers) { AddInts({std::ssize(numbers)}, numbers); }
  void Int(int64_t number) { AddInts({}, {number}); }  // int64, of rank 0.
  template <typename T>
  void Scalar(DLDataType dtype, T number, bool is_constant = true) {
    Numbers(dtype, {}, {static_cast<double>(number)}, is_constant);
  }
  void NoInput() { configuration_.inputs.push_back({false, {}, {}}); }
  // As Input() and Weight(), or NoInput().
  void InputIf(bool is_given, DLDataType dtype, IntList shape,
               InputDomain domain = {}) {
    is_given ? Input(dtype, std::move(shape), domain) : NoInput();
  }
  void WeightIf(bool is_given, DLDataType dtype, IntList shape,
                InputDomain domain = {}) {
    is_given ? Weight(dtype, std::move(shape), domain) : NoInput();
  }
  void Attr(std::string name, AttrValue value) {
    configuration_.attributes.push_back({std::move(name), std::move(value)});
  }
  // Leaves out a value that is the attribute's default, but for so many of 100
  // cases.
  void AttrUnless(std::string name, int64_t value, int64_t usual,
                  int percent = 50) {
    if (value != usual || Chance(percent)) Attr(std::move(name), value);
  }
  void AttrUnless(std::string name, std::string value, std::string_view usual,
                  int percent = 50) {
    if (value != usual || Chance(percent)) Attr(std::move(name), value);
  }
  // The number of a type in ONNX.
  void TypeAttr(std::string name, DLDataType dtype) {
    Attr(std::move(name), OnnxNumberOf(dtype).value_or(0));
  }
  // Leaves the attribute out, or takes one of these.
  template <typename T>
  void MaybeAttr(std::string name, std::initializer_list<T> options) {
    if (Chance()) Attr(std::move(name), AttrValue(One(options)));
  }
  void MaybeWord(std::string name, std::initializer_list<const char*> words) {
    if (Chance()) Attr(std::move(name), std::string(One(words)));
  }
  // Leaves it out, or sets it to 0 or 1.
  void Flag(std::string name) { MaybeAttr<int64_t>(std::move(name), {0, 1}); }
  // How many outputs are wanted, beginning with the first; 1 unless this is
  // called.
  void Outputs(size_t count) { configuration_.outputs.assign(count, true); }
  void WantOutputs(std::vector<bool> wanted) {
    configuration_.outputs = std::move(wanted);
  }

  // What has been drawn. Errors are those of drawing constants.
  absl::StatusOr<Configuration> Finish();

 private:
  void AddInts(absl::Span<const int64_t> shape,
               absl::Span<const int64_t> numbers);
  void AddConstant(DLDataType dtype, IntList shape, const InputDomain& domain);
  // The next input is an attribute at this opset.
  bool IsAttribute() const;
  // No choice is made where there is nothing to prefer.
  bool TakesPreferred(int percent) { return prefers_ && Chance(percent); }

  Choices* const choices_;
  bool prefers_ = false;
  DLDataType preferred_type_{};
  IntList preferred_shape_;
  bool prefers_whole_ = false;
  Configuration configuration_;
  absl::Status status_;
};

}  // namespace nodewise
