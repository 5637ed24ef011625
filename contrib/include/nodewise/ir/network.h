#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/origin.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// Something that networks are to run on. A network that has a target
// (Network::SetTarget) refuses edits that the target could not run; Verify()
// lists what targets refuse, and what is slow on them; passes ask instead of
// guessing from an operator's name.
struct Target {
  TargetTraits traits;
  // What the target says of one operation, beyond what its operator says; null:
  // it runs everything. It must not refuse because a type is unknown.
  Support (*ask)(const OpAttrs& attrs, const Inputs& inputs,
                 absl::Span<const OutputInfo> outputs) = nullptr;
};

// Asks the operator, then the target. REQUIRES: attrs.defined().
Support SupportOf(const Target& target, const OpAttrs& attrs,
                  const Inputs& inputs, absl::Span<const OutputInfo> outputs);

// A network: values, and operations that make values out of values, and nothing
// else. They refer to each other by numbers, not pointers, so a network can be
// copied, and a wrong link can be shown instead of followed.

// Numbers do not change while the network is edited; those of removed items are
// not used again.
enum class ValueId : uint32_t {};
enum class OperationId : uint32_t {};
inline constexpr ValueId kNoValue{UINT32_MAX};
inline constexpr OperationId kNoOperation{UINT32_MAX};
inline constexpr uint32_t Index(ValueId id) {
  return static_cast<uint32_t>(id);
}
inline constexpr uint32_t Index(OperationId id) {
  return static_cast<uint32_t>(id);
}

// Where a value is read: input `slot` of an operation, or kBarrierSlot for a
// barrier that the operation waits for.
struct Use {
  OperationId user = kNoOperation;
  uint32_t slot = 0;
  friend bool operator==(const Use&, const Use&) = default;
};
inline constexpr uint32_t kBarrierSlot = UINT32_MAX;

struct NetworkValue {
  enum class Kind {
    kInput,     // Given to the network.
    kConstant,  // Data.
    kOutput,    // Output `slot` of `producer`.
    kBarrier,   // That `producer` has run; it has no data.
  };

  ValueId id = kNoValue;
  Kind kind = Kind::kInput;
  // Unique among the tensors of a network; barriers: "".
  std::string name = {};
  TensorType type = {};
  NDArray data = {};  // kConstant.
  // kConstant of floats: the operations of a model that it was computed from
  // while the model was read, by name; none for data that the model has.
  std::vector<std::string> folded_from = {};
  // Computed, also for constants: see InputInfo::elements.
  std::optional<Shape> elements = {};
  // kOutput: what a run found of its type, which completes what can be inferred
  // (SetFoundType()); `type` has both.
  std::optional<TensorType> found = {};
  OperationId producer = kNoOperation;
  uint32_t slot = 0;           // kOutput.
  std::vector<Use> uses = {};  // In no order that means anything.
};

struct Operation {
  OperationId id = kNoOperation;
  std::string name;  // Unique.
  OpAttrs attrs;     // What kind of operator, with its primary attributes.
  std::vector<ValueId> inputs;   // kNoValue: an optional one not given.
  std::vector<ValueId> outputs;  // kNoValue: an optional one not wanted.
  ValueId barrier = kNoValue;    // Every operation has one.
  std::vector<ValueId> after;    // Barriers that it waits for.
  // Where it is from, if the model's exporter has noted that; else null.
  std::shared_ptr<const Origin> origin = nullptr;

  // REQUIRE: attrs.defined(), as in every valid network.
  const OperatorDef& def(CodePlace caller = CodePlace::Here()) const {
    return attrs.def(caller);
  }
  std::string_view kind(CodePlace caller = CodePlace::Here()) const {
    return def(caller).name;
  }
};

// The whole content of a network as plain data, valid or not. Verify() says
// which; a Network is always valid.
struct NetworkData {
  std::string name;
  // The version of each operator domain ("" is the standard one), as read from
  // an ONNX model; export writes these.
  std::vector<std::pair<std::string, int>> opsets = {{"", 21}};
  std::vector<std::optional<NetworkValue>> values;   // By id; none: removed.
  std::vector<std::optional<Operation>> operations;  // By id; none: removed.
  std::vector<OperationId> order;  // All of them, producers first.
  std::vector<ValueId> inputs;     // All of kind kInput.
  std::vector<ValueId> outputs;    // May repeat; may be inputs or constants.
};

// The description of an operation to be made.
struct NewOperation {
  OpAttrs attrs;
  std::vector<ValueId> inputs = {};
  std::string name = {};  // Empty: made from the operator's name.
  // One name for each output, "" for one that is not wanted. If the list is
  // empty, the operation gets as many outputs as the operator requires, with
  // names made from its own.
  std::vector<std::string> outputs = {};
  std::vector<ValueId> after = {};  // Barriers.
  // The operation that it precedes in the order; kNoOperation: none, it goes to
  // the end.
  OperationId before = kNoOperation;
  std::shared_ptr<const Origin> origin = nullptr;  // As in Operation.
};

// A network that is valid at all times: every editing call checks what it is
// given and what comes out of it, in Release too, and either does the whole
// edit or, with an error that names the place, nothing. Numbers that name
// nothing fail with kInvalidArgument.
//
// Copies are deep except for constants, which are shared and never written to.
// What has been moved away leaves an empty network of a new version. Several
// threads may read it at once; editing is not thread-safe.
class Network {
 public:
  // Makes an empty network.
  explicit Network(std::string name = "");
  // Takes constants as AddConstant() does. Fails with kDataLoss, giving the
  // first fault of Verify() and how many there are.
  static absl::StatusOr<Network> FromData(NetworkData data);

  Network(const Network&) = default;
  Network& operator=(const Network&) = default;
  Network(Network&& other) noexcept;
  Network& operator=(Network&& other) noexcept;
  ~Network() = default;

  // --- Reading. Every function that takes an id REQUIRES: Has(id); in every
  // build, one that does not exist ends the process with a message that names
  // it and the place of the call. The functions of the same name with Find
  // return kInvalidArgument instead.
  const NetworkData& data() const { return data_; }
  const std::string& name() const { return data_.name; }
  bool Has(ValueId id) const;
  bool Has(OperationId id) const;
  const NetworkValue& value(ValueId id,
                            CodePlace caller = CodePlace::Here()) const {
    if (Index(id) >= data_.values.size() || !data_.values[Index(id)]) {
      NoSuch(id, caller);
    }
    return *data_.values[Index(id)];
  }
  const Operation& operation(OperationId id,
                             CodePlace caller = CodePlace::Here()) const {
    if (Index(id) >= data_.operations.size() || !data_.operations[Index(id)]) {
      NoSuch(id, caller);
    }
    return *data_.operations[Index(id)];
  }
  // The operation that makes the value; null for inputs and constants.
  const Operation* MakerOf(ValueId id,
                           CodePlace caller = CodePlace::Here()) const {
    const OperationId maker = value(id, caller).producer;
    return maker == kNoOperation ? nullptr : &operation(maker, caller);
  }
  absl::StatusOr<const NetworkValue*> FindValue(ValueId id) const;
  absl::StatusOr<const Operation*> FindOperation(OperationId id) const;
  // The operations in the order in which they run.
  absl::Span<const OperationId> order() const { return data_.order; }
  absl::Span<const ValueId> inputs() const { return data_.inputs; }
  absl::Span<const ValueId> outputs() const { return data_.outputs; }
  bool IsOutput(ValueId id) const;  // False for one that does not exist.
  int opset(std::string_view domain = "") const;  // 0 if it has none.
  // Find by name; fail with kNotFound, suggesting the nearest name. To look
  // for that takes long: a caller that expects none asks HasValue().
  absl::StatusOr<ValueId> FindValue(std::string_view name) const;
  absl::StatusOr<OperationId> FindOperation(std::string_view name) const;
  bool HasValue(std::string_view name) const;
  bool HasOperation(std::string_view name) const;
  // Returns what the operation's class is told about its inputs; valid until an
  // edit.
  std::vector<InputInfo> InputsOf(OperationId id,
                                  CodePlace caller = CodePlace::Here()) const;
  absl::StatusOr<std::vector<InputInfo>> FindInputsOf(OperationId id) const;

  // Grows with every edit, and never equals that of a network with other
  // content: side tables carry it (SideTable).
  uint64_t version() const { return version_; }
  // Null if it has none.
  const Target* target() const { return target_; }
  // Asks a target about an operation, as it would be asked at an edit, but
  // without the operations in its bodies. REQUIRES: Has(id).
  Support SupportBy(const Target& target, OperationId id,
                    CodePlace caller = CodePlace::Here()) const;

  // --- Editing.
  // The version must be one in which all operations of the domain mean what
  // they mean here, so that an exported network can be imported again.
  absl::Status SetOpset(std::string_view domain, int version);
  absl::StatusOr<ValueId> AddInput(std::string name, TensorType type);
  // Makes a name if none is given. The data must not be written to from then
  // on: it is made read-only, or copied if it is writable and shared. Also
  // copies data that is on a device or not compact. `folded_from` as in
  // NetworkValue.
  absl::StatusOr<ValueId> AddConstant(
      std::string name, NDArray data,
      std::vector<std::string> folded_from = {});
  absl::StatusOr<OperationId> AddOperation(NewOperation operation);
  // Operations added from now on do not keep what is known of their outputs'
  // elements: shapes then follow from shapes and constants alone, as ONNX's
  // specification infers them.
  void ForgetElements() { keeps_elements_ = false; }
  // From now on every edit is refused that would make an operation the target
  // cannot run; null: none is. Fails with kFailedPrecondition, naming the
  // operation and the reason, if there is one already. Copies have the same
  // target. REQUIRES: the target outlives this network and its copies.
  absl::Status SetTarget(const Target* target);
  // Adds an operation of a known class and returns its first output:
  // network.Add(AllOperators(), ops::Relu{}, {x}). The row is that of the
  // network's opset, or the newest where that one is of another class.
  template <typename Class>
  absl::StatusOr<ValueId> Add(const OpSet& ops, const Class& op,
                              std::vector<ValueId> inputs,
                              std::string name = "");
  // Replaces the list of the network's outputs.
  absl::Status SetOutputs(std::vector<ValueId> outputs);
  absl::Status Rename(ValueId id, std::string name);
  absl::Status Rename(OperationId id, std::string name);

  // Makes input `slot` read another value, or none (kNoValue); it may be one
  // more input than the operation had. What depends on it is inferred again,
  // downstream as far as something changes, and moved after what it now reads.
  absl::Status ReplaceInput(OperationId id, uint32_t slot, ValueId value);
  // Makes everything that reads from[i], the network's outputs too, read to[i].
  // Uses by the operations that `to` is made by, directly or not, stay, so that
  // something can be inserted after a value. Barriers are replaced by barriers.
  absl::Status ReplaceUses(absl::Span<const ValueId> from,
                           absl::Span<const ValueId> to);
  // Makes the second operation wait for the first, by a barrier.
  absl::Status RunAfter(OperationId first, OperationId second);
  // Changes an input's type; it need not agree with the old one.
  absl::Status SetInputType(ValueId id, TensorType type);
  // Completes the type of what an operation makes by what a run found of it:
  // the sizes that only data decides, as those of a NonZero. So the network is
  // for such data, and others make the types of other runs. What can be
  // inferred stays as it is; fails with kInvalidArgument, naming both, if it is
  // otherwise.
  absl::Status SetFoundType(ValueId id, TensorType type);
  // Gives every side of that name this size, in bodies too. Fails with
  // kNotFound if no input has such a side.
  absl::Status BindDim(std::string_view name, int64_t size);
  // Makes a constant out of an input, which must be of its type; names of sides
  // are bound to their sizes in `data`.
  absl::Status Freeze(ValueId input, NDArray data);
  // Fails with kFailedPrecondition if something reads its outputs.
  absl::Status Remove(OperationId id);
  absl::Status RemoveInput(ValueId id);
  // Removes what no output depends on: operations, then constants. Inputs stay.
  // Returns how many operations were removed.
  size_t RemoveUnused();

  // Runs Infer of every operation again and returns how many values came out
  // different. For tests: the result must be 0.
  absl::StatusOr<size_t> InferAgain();

 private:
  friend class NetworkEditor;  // contrib/ir/network_editor.h

  [[noreturn]] void NoSuch(ValueId id, CodePlace caller) const;
  [[noreturn]] void NoSuch(OperationId id, CodePlace caller) const;
  const OperatorDef* RowOf(const OpSet& ops, const void* type) const;
  absl::Status CheckPlaceInOrder(const Operation& operation,
                                 OperationId before) const;
  absl::Status CheckUnused(ValueId id, std::string_view place) const;

  NetworkData data_;
  // Indices that can be rebuilt from data_.
  std::unordered_map<std::string, ValueId> value_names_;
  std::unordered_map<std::string, OperationId> operation_names_;
  std::vector<uint32_t> positions_;  // In the order, by operation.
  uint64_t version_ = 0;
  const Target* target_ = nullptr;
  bool keeps_elements_ = true;
};

// Gives a network away to be a body: it cannot be changed from then on.
SharedNetwork ShareNetwork(Network network);

template <typename Class>
absl::StatusOr<ValueId> Network::Add(const OpSet& ops, const Class& op,
                                     std::vector<ValueId> inputs,
                                     std::string name) {
  auto id =
      AddOperation({.attrs = OpAttrs::From(RowOf(ops, &kTypeTag<Class>), op),
                    .inputs = std::move(inputs),
                    .name = std::move(name)});
  if (!id.ok()) return id.status();
  return this->operation(*id).outputs[0];
}

// Returns whether the operation has one output, each element of which depends
// on no other elements of its inputs than those at its place (repeated as
// broadcasting says); for a normalisation with given statistics, also on the
// numbers of its channel. The operator's row says so (OperatorTraits).
bool IsElementwise(const Operation& operation);

// Returns the part of a network between two cuts as a network of its own with
// the same names: the operations that make `to` out of `from`, and those that
// make something out of constants alone. Constants are copied, and all other
// values that are needed become inputs, after those of `from`. An empty `from`
// means those of the network's inputs that are needed.
//
// Fails with kInvalidArgument for numbers that name no tensor, for an empty
// `to` and for a value of `from` that `to` does not depend on.
absl::StatusOr<Network> ExtractNetwork(const Network& network,
                                       absl::Span<const ValueId> from,
                                       absl::Span<const ValueId> to);

// Returns kFailedPrecondition: what `pass` computed belongs to an older version
// of the network.
absl::Status StaleTable(const Network& network, const char* pass,
                        uint64_t version);

// What a pass computed about a network (slots, kernels, layouts). It exists
// only after its pass, belongs to one version of the network, and cannot be
// read once the network has been edited.
template <typename Content>
class SideTable {
 public:
  SideTable(const Network& network, const char* pass, Content content)
      : network_(&network),
        pass_(pass),
        version_(network.version()),
        content_(std::move(content)) {}

  // The result is valid as long as the table. REQUIRES: the network still
  // exists.
  absl::StatusOr<const Content*> Get() const {
    if (network_->version() == version_) return &content_;
    return StaleTable(*network_, pass_, version_);
  }

 private:
  const Network* network_;
  const char* pass_;
  uint64_t version_;
  Content content_;
};

}  // namespace nodewise
