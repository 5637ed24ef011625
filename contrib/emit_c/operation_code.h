#pragma once

// The things that the writer of an operation's code is given, and the tables of
// those writers.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/emit_c/c_text.h"
#include "contrib/emit_c/loop_nest.h"
#include "nodewise/ir/network.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {

// A compact tensor as the code has it: a pointer with a name.
struct CTensor {
  std::string name;
  DLDataType dtype{};
  Sizes sizes;

  int64_t count() const { return CountIn(sizes); }
  std::string_view type() const { return CTypeOf(dtype); }
};

// More than any memory holds.
inline constexpr int64_t kMostElements = int64_t{1} << 44;

// kUnimplemented: why there is no C for an operation.
template <typename... Args>
absl::Status Refuse(fmt::format_string<Args...> why, Args&&... args) {
  return Unimplemented(why, std::forward<Args>(args)...);
}

// The parts of a region's code beside its tensors.
struct RegionStore {
  // A variable that is defined in front of all code.
  struct Definition {
    std::string name;
    std::string line;
  };

  CodeWriter* code = nullptr;
  std::vector<Definition> definitions;
  size_t num_tables = 0;
  size_t num_scratch = 0;
  int64_t scratch_bytes = 0;
  bool keeps_sizes = false;  // Row::keeps_sizes of some operation.

  // Returns the name of memory for the region's own use, which is declared. If
  // that becomes more than there can be, `scratch_bytes` stays at kTooMuch.
  static constexpr int64_t kTooMuch = kMostElements * 8;
  std::string Scratch(std::string_view type, int64_t count);
  // Returns a tensor that lies in such memory.
  CTensor ScratchTensor(DLDataType dtype, const Sizes& sizes);
  // Returns the name of a table of these numbers.
  std::string Table(absl::Span<const int64_t> numbers);
  std::string Table(absl::Span<const double> numbers);
  std::string Table(const NDArray& tensor);
};

// One operation whose code is to be written.
struct OperationCode {
  const Network& network;
  const Operation& operation;
  std::vector<CTensor> inputs;   // Those not given have no name.
  std::vector<CTensor> outputs;  // Those not wanted have no name.
  RegionStore* region_store;

  // Returns the attributes, or null if the operation is of another class.
  template <typename Class>
  const Class* As() const {
    return operation.attrs.As<Class>();
  }
  // Returns what the classes of several versions or operators have in common.
  // REQUIRES: the operation is of one of them.
  template <typename Base, typename... Classes>
  const Base& Common() const {
    const Base* found = nullptr;
    ((found = found != nullptr ? found : As<Classes>()), ...);
    return *found;
  }
  size_t num_inputs() const { return operation.inputs.size(); }
  bool has(size_t i) const {
    return i < num_inputs() && operation.inputs[i] != kNoValue;
  }
  // REQUIRES: has(i).
  const CTensor& in(size_t i) const { return inputs[i]; }
  size_t num_outputs() const { return operation.outputs.size(); }
  bool wants(size_t i) const {
    return i < num_outputs() && operation.outputs[i] != kNoValue;
  }
  // REQUIRES: wants(i).
  const CTensor& out(size_t i = 0) const { return outputs[i]; }

  // The type that the network has for an input, which the code may compute in
  // another one. REQUIRES: has(i).
  DLDataType StoredType(size_t i) const {
    return network.value(operation.inputs[i]).type.dtype;
  }

  // The integers that an input always has; none if they are not known.
  std::optional<Sizes> Ints(size_t i) const;
  // The data of a constant of the region; null if the input is not one.
  const NDArray* Constant(size_t i) const;

  CodeWriter& code() const { return *region_store->code; }
  RegionStore& store() const { return *region_store; }
};

// Returns the side that an operator's axis means, which may count from the end.
absl::StatusOr<size_t> SideAt(int64_t axis, const Sizes& sizes);
// Returns for each side whether it is among these axes.
absl::StatusOr<std::vector<bool>> SidesAt(absl::Span<const int64_t> axes,
                                          const Sizes& sizes);

// Declares a variable: an element of some indices along a side of this size,
// counted from the front. The code fails where it is outside.
void WriteIndex(CodeWriter* code, std::string_view operation,
                const std::string& variable, const std::string& element,
                int64_t size);
// Writes a loop that sets each place of `to` to an element of `from`.
void CopyCode(CodeWriter* code, const Sizes& sizes, const std::string& from,
              const View& from_view, const std::string& to,
              const View& to_view);

// An element of an operation that computes each of its elements by itself.
struct Scalar {
  std::string name;  // A variable's; empty for an input that is not given.
  DLDataType dtype{};
  std::string_view type() const { return CTypeOf(dtype); }
};
struct ElementCode {
  const Operation& operation;
  std::vector<Scalar> in;
  DLDataType out{};  // The type that the expression is of.
  // The type of the output's elements, which it is rounded to.
  DLDataType stored{};

  template <typename Class>
  const Class* As() const {
    return operation.attrs.As<Class>();
  }
  bool has(size_t i) const { return i < in.size() && !in[i].name.empty(); }
};

// The C that there is for an operator. Exactly one of `write`, `element`,
// `texts` and `formula` is set.
struct Row {
  using Write = absl::Status (*)(OperationCode& code);
  using Element = absl::StatusOr<std::string> (*)(const ElementCode& code);
  using Numbers = std::array<double, 2>;

  // OperatorDef::type of the versions that it is for; null behind the last.
  std::array<const void*, 4> types{};
  // Returns how the second input is repeated below opset 7; null above.
  const ops::AxisBroadcast* (*axis)(const OpAttrs& attrs) = nullptr;
  // Writes loops that fill the outputs, some of which have elements.
  Write write = nullptr;
  // Returns an expression for an element of the output. Inputs are repeated as
  // NumPy does.
  Element element = nullptr;
  // The expression for elements {a}, {b} and {c} if {a} is a float, an integer
  // with a sign, or another one. {type} is the type of {a}, and {wrap} the one
  // that it wraps around in.
  std::array<std::string_view, 3> texts{};
  // The expression of a float's function of one number {x}, a double, and of
  // the attributes {0} and {1}.
  std::string_view formula{};
  Numbers (*attributes)(const OpAttrs& attrs) = nullptr;
  // The loops only move elements, and do not depend on their values. Other
  // loops are given floats of 16 bits in 32.
  bool moves = false;
  // Its loops compute so much that they should be compiled for their sizes.
  // Others are shared among nodes of other sizes.
  bool keeps_sizes = false;

  bool is_by_element() const { return write == nullptr; }
};

// Returns the expression for an element by a row that has no `write`.
absl::StatusOr<std::string> ExpressionOf(const Row& row,
                                         const ElementCode& code);

// Returns null for an operator that there is no C for.
const Row* FindRow(const void* type);

// The rows of each family.
absl::Span<const Row> ElementRows();
absl::Span<const Row> ProductRows();
absl::Span<const Row> WindowRows();
absl::Span<const Row> ReductionRows();
absl::Span<const Row> NormRows();
absl::Span<const Row> MoveRows();
absl::Span<const Row> PickRows();
absl::Span<const Row> FillRows();
absl::Span<const Row> ResizeRows();
absl::Span<const Row> SignalRows();
absl::Span<const Row> QuantizedRows();
absl::Span<const Row> RecurrentRows();
absl::Span<const Row> BodyRows();

template <typename... Versions>
constexpr Row RowOf(Row row) {
  row.types = {&kTypeTag<Versions>...};
  row.axis = [](const OpAttrs& attrs) {
    const ops::AxisBroadcast* found = nullptr;
    const auto look = [&]<typename Class>(const Class* op) {
      if constexpr (std::is_base_of_v<ops::AxisBroadcast, Class>) {
        if (op != nullptr) found = op;
      }
    };
    (look(attrs.As<Versions>()), ...);
    return found;
  };
  return row;
}
template <typename... Versions>
constexpr Row LoopRow(Row::Write write) {
  return RowOf<Versions...>({.write = write});
}
template <typename... Versions>
constexpr Row MoveRow(Row::Write write) {
  return RowOf<Versions...>({.write = write, .moves = true});
}
template <typename... Versions>
constexpr Row SizedRow(Row::Write write) {
  return RowOf<Versions...>({.write = write, .keeps_sizes = true});
}
template <typename... Versions>
constexpr Row ElementRow(Row::Element element) {
  return RowOf<Versions...>({.element = element});
}
// What integers have no text of their own for is as for floats, and unsigned
// ones as those with a sign.
template <typename... Versions>
constexpr Row TextRow(std::string_view of_floats,
                      std::string_view of_signed = "",
                      std::string_view of_unsigned = "") {
  if (of_signed.empty()) of_signed = of_floats;
  if (of_unsigned.empty()) of_unsigned = of_signed;
  return RowOf<Versions...>({.texts = {of_floats, of_signed, of_unsigned}});
}
template <typename Class, auto... kAttributes>
constexpr Row FormulaRow(std::string_view formula) {
  return RowOf<Class>(
      {.formula = formula, .attributes = [](const OpAttrs& attrs) {
         return Row::Numbers{
             static_cast<double>(attrs.As<Class>()->*kAttributes)...};
       }});
}

}  // namespace nodewise::emit_c
