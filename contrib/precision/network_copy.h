#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"

namespace nodewise {

// A network that is made again, operation by operation, and may come out
// different. Every value of the old one has a value that stands for it in the
// new one, once it has been made or asked for.
class NetworkCopy {
 public:
  // Makes a network with the opsets, the target and the inputs of the old one,
  // which must outlive this and stay as it is. `opset`, if it is not 0, is the
  // new one's opset of domain "".
  static absl::StatusOr<NetworkCopy> Begin(const Network& old, int opset = 0);

  const Network& old() const { return *old_; }
  const Network& made() const { return made_; }

  // Returns what stands for an old value, which has been set or is a constant;
  // kNoValue for kNoValue.
  absl::StatusOr<ValueId> ValueFor(ValueId old);
  bool Has(ValueId old) const { return stands_for_.contains(old); }
  void Set(ValueId old, ValueId made) { stands_for_[old] = made; }

  // Adds an operation with the old one's name, barriers and wanted outputs, and
  // these attributes, which may be of another operator with as many outputs;
  // returns its outputs. Output i is called as the old one, followed by
  // `suffixes[i]`, if there is one.
  absl::StatusOr<std::vector<ValueId>> AddAs(
      const Operation& old, OpAttrs attrs, std::vector<ValueId> inputs,
      const std::vector<std::string>& suffixes);
  // Returns the attributes of an operator that the new network's opsets have.
  template <typename Class>
  absl::StatusOr<OpAttrs> AttrsOf(const Class& op) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto* const row, RowOf(&kTypeTag<Class>));
    return OpAttrs::From(row, op);
  }
  // Adds an operation that the old network does not have; it and its output are
  // called so, or like it. The output is called `output` if that is not empty.
  template <typename Class>
  absl::StatusOr<ValueId> Add(const Class& op, std::vector<ValueId> inputs,
                              const std::string& name,
                              const std::string& output = "") {
    NODEWISE_ASSIGN_OR_RETURN(OpAttrs attrs, AttrsOf(op));
    return AddNew(std::move(attrs), std::move(inputs), name, output);
  }
  absl::StatusOr<ValueId> AddConstant(const std::string& name, NDArray data);

  // Sets the outputs, removes what none depends on, and returns the network.
  absl::StatusOr<Network> Finish();

  // Returns whether the old value is an output of the old network.
  bool IsOutput(ValueId old) const { return outputs_.contains(old); }
  const std::string& NameOf(ValueId old) const { return old_->value(old).name; }

 private:
  explicit NetworkCopy(const Network& old);

  absl::StatusOr<const OperatorDef*> RowOf(const void* type) const;
  absl::StatusOr<ValueId> AddNew(OpAttrs attrs, std::vector<ValueId> inputs,
                                 const std::string& name,
                                 const std::string& output);
  std::string FreeName(const std::string& wanted);

  const Network* old_;
  Network made_;
  std::unordered_map<ValueId, ValueId> stands_for_;
  std::unordered_set<ValueId> outputs_;
  std::unordered_set<std::string> names_;  // Names of old and new things alike.
};

}  // namespace nodewise
