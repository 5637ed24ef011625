#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/autotest/choices.h"
#include "nodewise/autotest/tensor_draw.h"
#include "nodewise/device/device.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Generators: values of a test that are drawn anew for each case. They are
// composed before anything is drawn, and evaluated when their value is asked
// for, once in each case: a generator used in two places has one value.
//
//   const generator m = random(1, 6);
//   const generator k = random(1, 6);
//   const generator x = random_tensor({m, k});
//   const generator y = random_tensor({k, m * 2 + 1});

// That an argument is not given at all.
struct Nothing {
  friend bool operator==(Nothing, Nothing) { return true; }
};

struct GeneratedValue;
using GeneratedTuple = std::vector<GeneratedValue>;

struct GeneratedValue {
  std::variant<Nothing, bool, int64_t, double, std::string, DLDataType,
               DLDevice, NDArray, GeneratedTuple>
      held;

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&held);
  }
  bool is_nothing() const { return As<Nothing>() != nullptr; }
  // Return the value as a number of that kind; none if it is not a number.
  std::optional<int64_t> AsInt() const;
  std::optional<double> AsDouble() const;
};
// Returns what programs show: "3", "[1, 2]", "float32[2, 3]".
std::string ToString(const GeneratedValue& value);

// The type of value that a generator is asked for.
enum class Annotation { kAny, kInt, kFloat, kBool };

class GeneratorNode;

// What one case draws from.
class CaseDraw {
 public:
  explicit CaseDraw(Choices* choices);

  Choices* choices() { return choices_; }
  uint64_t id() const { return id_; }  // No two cases have the same.

 private:
  friend class GeneratorNode;
  Choices* const choices_;
  const uint64_t id_;
  int depth_ = 0;
};

// A handle; copies are the same generator.
class generator {  // NOLINT(readability-identifier-naming): as in its model
 public:
  // Constants.
  generator(int value);          // NOLINT: converts
  generator(int64_t value);      // NOLINT: converts
  generator(double value);       // NOLINT: converts
  generator(bool value);         // NOLINT: converts
  generator(const char* value);  // NOLINT: converts
  generator(DLDataType value);   // NOLINT: converts
  generator(NDArray value);      // NOLINT: converts
  generator(Nothing value);      // NOLINT: converts
  explicit generator(GeneratedValue value);
  explicit generator(std::shared_ptr<GeneratorNode> node)
      : node_(std::move(node)) {}

  // Returns the value that it has in this case. Fails with kInvalidArgument for
  // a space that is empty or contradicts itself, and with kResourceExhausted
  // for a generator that never comes to an end.
  absl::StatusOr<GeneratedValue> value(CaseDraw& draw) const;
  // Decides which type it makes, where it can make several.
  const generator& to(Annotation annotation) const;
  // As above, by the name of a type: random(1, 3).to<int>().
  template <typename T>
  requires std::integral<T> || std::floating_point<T>
  const generator& to() const {
    if constexpr (std::same_as<T, bool>) return to(Annotation::kBool);
    return to(std::integral<T> ? Annotation::kInt : Annotation::kFloat);
  }
  // Returns how many values it can make; infinity for floats and tensors.
  double size() const;
  const GeneratorNode* node() const { return node_.get(); }

 private:
  std::shared_ptr<GeneratorNode> node_;
};

// What every generator derives from. One of your own overrides CalcValue() and
// Size(), and To() if it can make several types.
class GeneratorNode {
 public:
  explicit GeneratorNode(std::vector<generator> children = {})
      : children_(std::move(children)) {}
  virtual ~GeneratorNode() = default;
  GeneratorNode(const GeneratorNode&) = delete;
  GeneratorNode& operator=(const GeneratorNode&) = delete;

  absl::StatusOr<GeneratedValue> Value(CaseDraw& draw);
  virtual double Size() const = 0;
  // Returns the value if it is the same in every case, else null.
  virtual const GeneratedValue* Known() const { return nullptr; }
  virtual void To(Annotation /*annotation*/) {}

 protected:
  virtual absl::StatusOr<GeneratedValue> CalcValue(CaseDraw& draw) = 0;
  const std::vector<generator>& children() const { return children_; }

 private:
  const std::vector<generator> children_;
  uint64_t case_id_ = 0;  // The case that drew `value_`; 0: none.
  GeneratedValue value_;
};

// NOLINTBEGIN(readability-identifier-naming): as in their model

// A number from `low` up to, but not including, `high`; whole unless one of the
// two is not, or a float is asked for.
generator random(generator low, generator high);
generator random_bool();
// One of several, each as likely unless `odds` says otherwise: one number for
// each.
generator oneof(std::vector<generator> options, std::vector<double> odds = {});
generator nothing();
// In a third of the cases nothing.
generator random_or_nothing(generator low, generator high);
generator constant(GeneratedValue value);
template <std::convertible_to<generator> T>
generator constant(T value) {
  return value;
}
generator tuple(std::vector<generator> elements);
// A tuple of so many draws of one kind, each drawn by itself.
generator tuple_of(generator count, generator low, generator high);
// An element type out of these.
generator random_dtype(std::vector<DLDataType> types);
// Where something runs. Gives a device for every type that it is asked for.
generator random_device(std::vector<DLDevice> devices = {kCpu});

struct TensorOptions {
  generator dtype = DLDataType{kDLFloat, 32, 1};
  InputDomain domain = {};
  // Some floats are NaN, infinite, huge, tiny or minus zero in some cases.
  bool may_be_special = false;
};
// A tensor with these sides.
generator random_tensor(std::vector<generator> sides,
                        TensorOptions options = {});
// The sides of a tensor by their numbers:
//
//   random_tensor(TensorSides{.ndim = 4, .dim1 = channels})
//
// Those that are not given are from 1 to 5. Where `ndim` is drawn, those that
// it leaves out are ignored.
struct TensorSides {
  generator ndim = random(1, 6);
  std::optional<generator> dim0 = std::nullopt;
  std::optional<generator> dim1 = std::nullopt;
  std::optional<generator> dim2 = std::nullopt;
  std::optional<generator> dim3 = std::nullopt;
  std::optional<generator> dim4 = std::nullopt;
};
generator MakeRandomTensor(TensorSides sides, TensorOptions options);
// It takes nothing that only converts to the type: {m, k} are all sides in
// their order.
template <std::same_as<TensorSides> T>
generator random_tensor(T sides, TensorOptions options = {}) {
  return MakeRandomTensor(std::move(sides), std::move(options));
}
// A tensor of so many sides, each from 1 to 5.
generator random_tensor_of_rank(generator rank, TensorOptions options = {});
// The tensor of a type such as "float32[2, 3]" with these numbers, row by row:
// what programs are shown with. Without numbers they are drawn.
generator Tensor(std::string_view type, std::vector<double> numbers = {});
// NOLINTEND(readability-identifier-naming)

// Operators on numbers: the result is whole if both operands are; a division by
// zero is an error. `|` gives one of the two.
generator operator+(generator a, generator b);
generator operator-(generator a, generator b);
generator operator*(generator a, generator b);
generator operator/(generator a, generator b);
generator operator%(generator a, generator b);
generator operator|(generator a, generator b);

}  // namespace nodewise
