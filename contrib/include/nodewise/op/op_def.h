#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/check.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// What has been made of texts, so that each is read once. Holds at most 16 MiB
// of texts; one that no longer fits is read again each time. Thread-safe, and
// never waits: a child that was forked while another thread used it goes
// without.
class TextMemo {
 public:
  // Returns what was kept for the text, or null.
  std::shared_ptr<const void> Find(const std::string& text) const;
  // Keeps what was made of it.
  void Keep(const std::string& text, std::shared_ptr<const void> made);
  // How many things were made, kept or not.
  int64_t count_made() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const void>> made_;
  size_t num_bytes_ = 0;
  int64_t count_made_ = 0;
};

class Network;
class EvalArgs;
struct Bounds;

// An operator is a class with its primary attributes as typed members
// (nodewise/ops/), and rules: how it checks itself, infers and evaluates. One
// row of a table (OperatorDef) describes both with the C++ types erased;
// Row<Class, Rules>() makes the row (op_row.h).

// A network that can no longer be changed: its maker has given it away
// (ShareNetwork, nodewise/ir/network.h).
class SharedNetwork {
 public:
  SharedNetwork() = default;

  const Network* get() const { return network_.get(); }
  // REQUIRE: there is one.
  const Network& operator*() const {
    NODEWISE_CHECK(network_ != nullptr);
    return *network_;
  }
  const Network* operator->() const { return &**this; }
  friend bool operator==(const SharedNetwork&, const SharedNetwork&) = default;
  friend bool operator==(const SharedNetwork& a, std::nullptr_t) {
    return a.network_ == nullptr;
  }

 private:
  friend SharedNetwork ShareNetwork(Network network);
  friend class NetworkEditor;  // contrib/ir/network_editor.h

  explicit SharedNetwork(std::shared_ptr<const Network> network)
      : network_(std::move(network)) {}

  std::shared_ptr<const Network> network_;
};

// A body of If, Loop or Scan. Outer values that it uses are passed to it like
// any other input, after those that the operator defines; `captures` counts
// them.
struct Subgraph {
  SharedNetwork body;
  uint32_t captures = 0;

  friend bool operator==(const Subgraph&, const Subgraph&) = default;
};

// An attribute on its way between an operator's member and a file or a text.
using AttrValue = std::variant<int64_t, float, std::string,
                               std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, NDArray, Subgraph>;

// One primary attribute of an operator's class.
struct AttrField {
  std::string_view name;  // ONNX's.
  bool is_required = false;
  bool is_tensor = false;
  bool is_graph = false;
  // None if an optional attribute is not set.
  std::optional<AttrValue> (*get)(const void* op) = nullptr;
  // Fails with kInvalidArgument if the value is of the wrong kind, or not one
  // of the allowed words; the message does not name the attribute.
  absl::Status (*set)(void* op, AttrValue value) = nullptr;
  bool is_types = false;  // A list of types, each as ToString() writes it.
};

// What an operator is told about one of its inputs.
struct InputInfo {
  bool is_given = false;  // Optional inputs may be left out.
  TensorType type;
  // The data, where it is constant.
  const NDArray* constant = nullptr;
  // The elements of a small integer tensor of rank 0 or 1 as far as they are
  // known (a shape used in a calculation), constant or not; null if nothing is
  // known.
  const Shape* elements = nullptr;
};

// Longer lists of elements are not kept.
inline constexpr size_t kMostElements = 1024;
// Returns InputInfo::elements for a constant; none for one that is not small,
// not int32 or int64, or of a rank above 1.
std::optional<Shape> ElementsOf(const NDArray& constant);

// The inputs of one operation. An input beyond the last counts as not given.
class Inputs {
 public:
  explicit Inputs(absl::Span<const InputInfo> inputs) : inputs_(inputs) {}

  size_t size() const { return inputs_.size(); }
  const InputInfo& operator[](size_t i) const;
  bool has(size_t i) const { return (*this)[i].is_given; }
  const TensorType& type(size_t i) const { return (*this)[i].type; }
  // Returns the integers of an int32 or int64 input that is constant or whose
  // elements are all known, row by row; none otherwise.
  std::optional<std::vector<int64_t>> Ints(size_t i) const;

 private:
  absl::Span<const InputInfo> inputs_;
};

// What an operator says about one of its outputs.
struct OutputInfo {
  TensorType type;
  std::optional<Shape> elements;  // See InputInfo::elements.

  OutputInfo() = default;
  OutputInfo(TensorType t) : type(std::move(t)) {}  // NOLINT: converts
  friend bool operator==(const OutputInfo&, const OutputInfo&) = default;
};
using OutputInfos = std::vector<OutputInfo>;

// A formal input or output.
struct Param {
  enum class Kind { kRequired, kOptional, kVariadic };
  std::string_view name;
  Kind kind = Kind::kRequired;

  constexpr Param() = default;
  constexpr Param(const char* n, Kind k = Kind::kRequired)  // NOLINT: converts
      : name(n), kind(k) {}
};

// An attribute of older versions that is an input in newer ones. In a network
// it is always an input: the importer makes it a constant, the exporter makes
// it an attribute again.
struct MovedAttribute {
  std::string_view attribute;  // "axes"
  size_t input = 0;            // 1
  int until = 0;               // The first opset in which it is an input.
  // The attribute is one number, the input a list with it (TopK's k).
  bool is_list = false;
};

// A short list inside a row of a table.
template <typename Item, size_t kMost>
class RowList {
 public:
  constexpr RowList() = default;
  constexpr RowList(std::initializer_list<Item> items) {
    for (const Item& item : items) items_[size_++] = item;
  }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const Item& operator[](size_t i) const { return items_[i]; }
  constexpr const Item* begin() const { return items_; }
  constexpr const Item* end() const { return items_ + size_; }

 private:
  Item items_[kMost];
  size_t size_ = 0;
};

// How far a correct kernel of the element type may be off, element by element;
// `u` is half the distance between two neighbouring numbers at the result.
// kSum: the operator itself says (EvalArgs::bounds), since it depends on what
// is summed.
struct ErrorBound {
  enum class Kind { kExact, kUlps, kSum };
  Kind kind = Kind::kExact;
  double ulps = 0;
};
inline constexpr ErrorBound kExact{ErrorBound::Kind::kExact, 0};
inline constexpr ErrorBound kSum{ErrorBound::Kind::kSum, 0};
inline constexpr ErrorBound Ulps(double n) {
  return {ErrorBound::Kind::kUlps, n};
}

// The newest opset of ONNX (domain "") whose operators are known.
inline constexpr int kNewestOpset = 28;

// Where operations are to run, as far as operators make a difference.
struct TargetTraits {
  std::string_view name;    // "reference"
  std::string_view device;  // "cpu"
};

// What a target can do with an operation.
struct Support {
  bool can = true;
  std::string why_not;                 // The reason, unless `can`.
  std::vector<std::string> penalties;  // Why it would not run at its best.
};

// What passes know of an operator besides what its functions say.
struct OperatorTraits {
  // Each element of an only output is computed from those at its place, so that
  // fusion may compute it with others, and such that errors can be carried
  // through it (nodewise/interp/network_bounds.h).
  bool is_elementwise = false;
  // Operators of one form read and write the same, so that one may stand where
  // another is meant. They are tried in the order of their table, which begins
  // with the likeliest. "" stands for none.
  std::string_view form = "";
};
inline constexpr OperatorTraits kElementwise{.is_elementwise = true};

// One row of a table of operators, which exists as long as the program runs.
struct OperatorDef {
  std::string_view name;  // "Conv"
  std::string_view domain = "";
  // The first opset in which this row holds, and the first in which the next
  // row of that name does.
  int since = 1;
  int until = INT_MAX;
  RowList<Param, 16> inputs = {};
  RowList<Param, 16> outputs = {};
  RowList<MovedAttribute, 6> moved = {};
  ErrorBound bound = {};
  // Inputs of a variadic parameter may be left out, too, and keep their places.
  bool may_skip_inputs = false;
  OperatorTraits traits = {};

  // Filled in by AllOperators(): where the row stands in the tables.
  int place = INT_MAX;

  // Filled in by Row<Class, Rules>(); `op` is an object of the class that one
  // of the first two has made.
  absl::Span<const AttrField> fields = {};
  // With the attributes' defaults.
  std::shared_ptr<void> (*make)() = nullptr;
  // With the attributes of `attributes`, any object of the class.
  std::shared_ptr<void> (*copy)(const void* attributes) = nullptr;
  bool (*equal)(const void* a, const void* b) = nullptr;
  // Checks the operator's own restrictions, given what is known about the
  // inputs. Called whenever an operation is made or an input is replaced.
  absl::Status (*check)(const void* op, const Inputs& inputs) = nullptr;
  // Returns one result for each of the operation's `num_outputs`. Unknown
  // inputs are not an error: what depends on them stays unknown.
  absl::StatusOr<OutputInfos> (*infer)(const void* op, const Inputs& inputs,
                                       size_t num_outputs) = nullptr;
  // The reference: computes the outputs from the inputs, all of them present.
  absl::Status (*evaluate)(const void* op, EvalArgs& args) = nullptr;
  // Counts floating-point operations, a multiply-add as two; 0 if unknown.
  double (*flops)(const void* op, const Inputs& inputs,
                  absl::Span<const OutputInfo> outputs) = nullptr;
  // For operators that need not compute the bounds of all elements of output 0
  // to know those of a few: sums of products, Softmax, and what normalizes
  // rows. Both are null for all others. Inputs and outputs are as they have
  // been evaluated.
  //
  // Returns a factor: both bounds of an element, where they are known, are at
  // least that many times the unit roundoff of its own size.
  double (*least_bound)(const void* op, const EvalArgs& args) = nullptr;
  // Fills in the bounds of these elements of `output`, in their order.
  // REQUIRES: the elements are in ascending order.
  absl::Status (*bounds_at)(const void* op, const EvalArgs& args,
                            const NDArray& output,
                            absl::Span<const int64_t> elements,
                            Bounds* bounds) = nullptr;
  // What the operator itself says about a target; null if it does not care.
  Support (*support)(const void* op, const TargetTraits& target,
                     const Inputs& inputs) = nullptr;
  const void* type = nullptr;  // Identifies the class.

  // Counts up to the last required input. The row alone allows a variadic input
  // to be empty; an operator that needs at least one says so in Check.
  size_t min_inputs() const;
  size_t max_inputs() const;   // SIZE_MAX if variadic.
  size_t min_outputs() const;  // At least 1.
  size_t max_outputs() const;
};

template <typename Class>
inline constexpr char kTypeTag = 0;

// Attributes by name, as files and texts give them.
struct NamedAttr {
  std::string name;
  AttrValue value;
};

// The attributes of one operation, with the class erased. They cannot be
// changed: they are copied from what they are made of, tensors too, and copies
// share them.
class OpAttrs {
 public:
  OpAttrs() = default;
  // Returns undefined attributes if `def` is null or describes another class.
  template <typename Class>
  static OpAttrs From(const OperatorDef* def, const Class& op) {
    if (def == nullptr || def->type != &kTypeTag<Class>) return {};
    return OpAttrs(def, def->copy(&op));
  }
  // Returns the defaults; required attributes have the values that their
  // members begin with. REQUIRES: Row() made the row.
  static OpAttrs Defaults(const OperatorDef& def) {
    NODEWISE_CHECK(def.make != nullptr);
    return OpAttrs(&def, def.make());
  }

  // REQUIRES: defined().
  const OperatorDef& def(CodePlace caller = CodePlace::Here()) const {
    if (def_ == nullptr) NoOperator(caller);
    return *def_;
  }
  // Returns null if not defined().
  const OperatorDef* FindDef() const { return def_; }
  const void* get() const { return op_.get(); }
  bool defined() const { return def_ != nullptr; }
  // Returns the attributes with their types, or null if the operation is of
  // another class: attrs.As<ops::Conv>()->strides.
  template <typename Class>
  const Class* As() const {
    if (def_ == nullptr || def_->type != &kTypeTag<Class>) return nullptr;
    return static_cast<const Class*>(op_.get());
  }
  // Returns whether the operation is of one of the classes.
  template <typename... Classes>
  bool IsOneOf() const {
    return (... || (As<Classes>() != nullptr));
  }
  friend bool operator==(const OpAttrs& a, const OpAttrs& b) {
    return a.def_ == b.def_ &&
           (a.op_ == b.op_ || a.def_->equal(a.get(), b.get()));
  }

 private:
  friend absl::StatusOr<OpAttrs> MakeAttrs(const OperatorDef& def,
                                           absl::Span<const NamedAttr> attrs);
  // `op` is of the class that `def` describes, and has no other owner.
  OpAttrs(const OperatorDef* def, std::shared_ptr<const void> op)
      : def_(def), op_(std::move(op)) {}
  [[noreturn]] static void NoOperator(CodePlace caller);

  const OperatorDef* def_ = nullptr;
  std::shared_ptr<const void> op_;
};

// Makes attributes from names and values. Tensors are copied. The error lists
// every attribute that is missing, unknown, given twice or of the wrong kind;
// it is kInvalidArgument and names the operator.
absl::StatusOr<OpAttrs> MakeAttrs(const OperatorDef& def,
                                  absl::Span<const NamedAttr> attrs);
// Fails with kInvalidArgument, naming it, if an attribute that is required has
// no value: no type, no tensor, an empty list.
absl::Status CheckRequired(const OpAttrs& attrs);
// Returns the attributes that are set, in the order of the class.
std::vector<NamedAttr> NamedAttrsOf(const OpAttrs& attrs);

// The operators that a network may have. A value, made from tables.
class OpSet {
 public:
  OpSet() = default;
  // The rows must outlive the set. If two have the same name and version, the
  // one added last counts.
  void Add(absl::Span<const OperatorDef> rows);

  // Returns the row that holds in this opset, or null.
  const OperatorDef* Find(std::string_view domain, std::string_view name,
                          int opset) const;
  // Returns the newest row of the class, or null.
  const OperatorDef* FindType(const void* type) const;
  absl::Span<const OperatorDef* const> rows() const { return rows_; }
  // For hints.
  std::vector<std::string> Names() const;
  // What has been read with these rows. Copies share it until they get others.
  TextMemo& memo() const { return *memo_; }

 private:
  std::vector<const OperatorDef*> rows_;  // By domain, name, since.
  std::shared_ptr<TextMemo> memo_ = std::make_shared<TextMemo>();
};

// Returns whether an operation with so many inputs draws random numbers: one of
// those in nodewise/ops/random.h, or a Dropout that may be told to train.
bool DrawsRandomNumbers(const OperatorDef& def, size_t num_inputs);

// Returns the attribute `seed` that a node without one gets, so that different
// nodes draw different numbers of one seed. REQUIRES: DrawsRandomNumbers().
NamedAttr SeedOfNode(const OperatorDef& def, uint64_t seed,
                     std::string_view node);

}  // namespace nodewise
