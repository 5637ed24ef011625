#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// A network: values, and operations that make values out of values. Nothing
// else, and no pointers between them but numbers, so a network can be copied,
// and so that a link that is wrong can be shown instead of followed.

// Numbers stay what they are while the network is edited; those of what was
// removed are not given again.
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

// Where a value is read: input `slot` of an operation; kBarrierSlot for a
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
  std::string name;  // Unique among the tensors of a network; barriers: "".
  TensorType type;
  NDArray data;  // kConstant.
  // Computed, for constants too: see InputInfo::elements.
  std::optional<Shape> elements;
  OperationId producer = kNoOperation;
  uint32_t slot = 0;      // kOutput.
  std::vector<Use> uses;  // In no order that means anything.
};

struct Operation {
  OperationId id = kNoOperation;
  std::string name;  // Unique.
  OpAttrs attrs;     // What kind of operator, with its primary attributes.
  std::vector<ValueId> inputs;   // kNoValue: an optional one not given.
  std::vector<ValueId> outputs;  // kNoValue: an optional one not wanted.
  ValueId barrier = kNoValue;    // Every operation has one.
  std::vector<ValueId> after;    // Barriers that it waits for.

  const OperatorDef& def() const { return attrs.def(); }
  std::string_view kind() const { return def().name; }
};

// All that a network is, as plain data, right or wrong. Verify() says which;
// a Network is one that is right.
struct NetworkData {
  std::string name;
  // The version of the standard operators ("" of the domains), from an ONNX
  // model; what export writes.
  std::vector<std::pair<std::string, int>> opsets = {{"", 21}};
  std::vector<std::optional<NetworkValue>> values;   // By id; none: removed.
  std::vector<std::optional<Operation>> operations;  // By id; none: removed.
  std::vector<OperationId> order;  // All of them, producers first.
  std::vector<ValueId> inputs;     // All of kind kInput.
  std::vector<ValueId> outputs;    // May repeat; may be inputs or constants.
};

// What is given to make an operation.
struct NewOperation {
  OpAttrs attrs;
  std::vector<ValueId> inputs;
  std::string name = {};  // Empty: one is made from the operator's.
  // One name for each output, "" for one that is not wanted; none at all: as
  // many as the operator must have, with names made from the operation's.
  std::vector<std::string> outputs = {};
  std::vector<ValueId> after = {};  // Barriers.
  // It goes before this one in the order; kNoOperation: to the end.
  OperationId before = kNoOperation;
};

// A network that is valid at all times: every editing call checks what it is
// given and what comes out of it, in Release too, and either does the whole
// edit or, with an error that names the place, nothing. Numbers that name
// nothing are kInvalidArgument.
//
// Copies are deep but for constants, which are shared and never written to.
// Not thread-safe; reading from several threads is.
class Network {
 public:
  // Empty.
  explicit Network(std::string name = "");
  // kDataLoss, with the first fault of Verify() and how many there are.
  static absl::StatusOr<Network> FromData(NetworkData data);

  // --- Reading. REQUIRES (of all with an id): Has(id).
  const NetworkData& data() const { return data_; }
  const std::string& name() const { return data_.name; }
  bool Has(ValueId id) const;
  bool Has(OperationId id) const;
  const NetworkValue& value(ValueId id) const {
    return *data_.values[Index(id)];
  }
  const Operation& operation(OperationId id) const {
    return *data_.operations[Index(id)];
  }
  // The order in which they run.
  absl::Span<const OperationId> order() const { return data_.order; }
  absl::Span<const ValueId> inputs() const { return data_.inputs; }
  absl::Span<const ValueId> outputs() const { return data_.outputs; }
  int opset(std::string_view domain = "") const;  // 0 if it has none.
  // kNotFound, with the nearest name.
  absl::StatusOr<ValueId> FindValue(std::string_view name) const;
  absl::StatusOr<OperationId> FindOperation(std::string_view name) const;
  // What the operation's class is told of its inputs; valid until an edit.
  std::vector<InputInfo> InputsOf(OperationId id) const;

  // Grows with every edit, and is never that of a network with other content:
  // side tables carry it (side_table.h).
  uint64_t version() const { return version_; }

  // --- Editing.
  absl::Status SetOpset(std::string_view domain, int version);
  absl::StatusOr<ValueId> AddInput(std::string name, TensorType type);
  // Without a name, one is made. Data that is on a device or not compact is
  // copied.
  absl::StatusOr<ValueId> AddConstant(std::string name, NDArray data);
  absl::StatusOr<OperationId> AddOperation(NewOperation operation);
  // The same for one whose class is at hand: network.Add(ops, Relu{}, {x}) is
  // its first output. The row is that of the network's opset, or the newest
  // where that one is of another class.
  template <typename Class>
  absl::StatusOr<ValueId> Add(const OpSet& ops, Class op,
                              std::vector<ValueId> inputs,
                              std::string name = "");
  // The network's outputs, from now on.
  absl::Status SetOutputs(std::vector<ValueId> outputs);
  absl::Status Rename(ValueId id, std::string name);
  absl::Status Rename(OperationId id, std::string name);

  // Lets input `slot` read another value, or none (kNoValue), or an input more
  // than the operation had. What depends on it is inferred anew, downstream as
  // far as something changes, and moved behind what it now reads.
  absl::Status ReplaceInput(OperationId id, uint32_t slot, ValueId value);
  // Everything that reads from[i], the network's outputs too, reads to[i]. Uses
  // by the operations that `to` is made by, near or far, stay: so something can
  // be put behind a value. Barriers give way to barriers.
  absl::Status ReplaceUses(absl::Span<const ValueId> from,
                           absl::Span<const ValueId> to);
  // The second one waits for the first, by a barrier.
  absl::Status RunAfter(OperationId first, OperationId second);
  // Another type for an input; it need not agree with the old one.
  absl::Status SetInputType(ValueId id, TensorType type);
  // Every side of that name has this size from now on, in bodies too. kNotFound
  // if no input has one.
  absl::Status BindDim(std::string_view name, int64_t size);
  // Makes a constant out of an input, which must be of its type; names of sides
  // are bound to what they are in `data`.
  absl::Status Freeze(ValueId input, NDArray data);
  // kFailedPrecondition if something reads its outputs.
  absl::Status Remove(OperationId id);
  absl::Status RemoveInput(ValueId id);
  // Takes away what no output depends on: operations, then constants. Inputs
  // stay. Returns how many operations went.
  size_t RemoveUnused();

  // Runs Infer of every operation again and returns how many values came out
  // different. For tests: it must be none.
  absl::StatusOr<size_t> InferAgain();

 private:
  friend class NetworkEditor;  // contrib/ir/network_editor.h

  const OperatorDef* RowOf(const OpSet& ops, const void* type) const;
  absl::Status CheckPlaceInOrder(const Operation& operation,
                                 OperationId before) const;
  absl::Status CheckUnused(ValueId id, std::string_view place) const;

  NetworkData data_;
  // Found again from data_.
  std::unordered_map<std::string, ValueId> value_names_;
  std::unordered_map<std::string, OperationId> operation_names_;
  std::vector<uint32_t> positions_;  // In the order, by operation.
  uint64_t version_ = 0;
};

template <typename Class>
absl::StatusOr<ValueId> Network::Add(const OpSet& ops, Class op,
                                     std::vector<ValueId> inputs,
                                     std::string name) {
  NewOperation operation;
  operation.attrs = OpAttrs(RowOf(ops, &kTypeTag<Class>),
                            std::make_shared<Class>(std::move(op)));
  operation.inputs = std::move(inputs);
  operation.name = std::move(name);
  auto id = AddOperation(std::move(operation));
  if (!id.ok()) return id.status();
  return this->operation(*id).outputs[0];
}

}  // namespace nodewise
