#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/lab/autotest/networks/case_network.h"
#include "nodewise/autotest/choices.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// A value of the network, or why it cannot be made.
using MadeValue = absl::StatusOr<ValueId>;
using Sides = std::vector<int64_t>;

// A tensor of a network that is being drawn.
struct PoolTensor {
  ValueId id = kNoValue;
  DLDataType dtype{};
  Sides shape;
};

// What all networks of one case, those in bodies too, have in common.
struct BuilderOptions {
  int opset = kNewestOpset;
  // The operators to draw from, all of this opset.
  std::vector<const OperatorDef*> rows;
  bool is_exact = false;  // Whole numbers wherever that is possible.
  // A body: it has no inputs but those that it begins with, and what its
  // operators read is not checked.
  bool is_body = false;
};

// Grows a network operation by operation. What an operator wants to read is a
// tensor that is there already, made to fit if necessary, or else a new input;
// every decision is a choice, and 0 is the new input.
class NetworkBuilder {
 public:
  NetworkBuilder(BuilderOptions options, Choices* choices);

  Choices* choices() { return choices_; }
  const BuilderOptions& options() const { return options_; }
  Network& network() { return network_; }
  const std::vector<PoolTensor>& pool() const { return pool_; }
  // True in so many of 100 cases; false is simplest.
  bool Chance(int percent = 50) { return choices_->Chance(percent); }
  int64_t Between(int64_t least, int64_t most) {
    return choices_->Between(least, most);
  }
  template <typename T>
  T One(std::initializer_list<T> options) {
    return choices_->One(options);
  }

  // Returns a tensor of the pool, the newest ones more likely; none if it is
  // empty.
  std::optional<PoolTensor> Any();

  // --- What operations read. In a body, inputs are constants.
  MadeValue AddInput(const CaseInput& input);
  MadeValue AddConstant(const NDArray& data);
  // int64, of rank 1.
  MadeValue AddInts(const Sides& numbers);
  MadeValue AddNumber(DLDataType dtype, double number);
  // An input of a body, of the type of a tensor.
  MadeValue AddBodyInput(const PoolTensor& like);
  // Returns a tensor that fits the input: one of the pool, or a new one.
  MadeValue Feed(const CaseInput& input);
  // Makes a tensor of this type and shape out of another. Fails where there is
  // no honest way.
  MadeValue Adapt(const PoolTensor& from, DLDataType dtype, const Sides& shape,
                  const InputDomain& domain);

  // --- Operations.
  // Adds one of the network's opset; its outputs join the pool.
  absl::StatusOr<ValueIds> AddAll(std::string_view kind,
                                  const std::vector<NamedAttr>& attributes,
                                  ValueIds inputs, size_t outputs = 1);
  // Adds an operation with one output.
  MadeValue Add(std::string_view kind, const std::vector<NamedAttr>& attributes,
                ValueIds inputs);
  // Adds a case of an operator, whose inputs are fed.
  absl::Status AddCase(const OperatorCase& made);
  PoolTensor TensorOf(ValueId id) const;
  size_t operations() const { return network_.order().size(); }

  // Makes outputs of all that nothing reads, and of some of the rest.
  absl::StatusOr<OperatorCase> Finish();

 private:
  MadeValue Cast(PoolTensor* from, DLDataType dtype);
  MadeValue Reshaped(const PoolTensor& from, const Sides& shape);
  MadeValue ReshapedFlat(const PoolTensor& from, const Sides& shape);
  MadeValue CutAndPadded(const PoolTensor& from, const Sides& shape);
  MadeValue Within(const PoolTensor& from, const InputDomain& domain);
  absl::StatusOr<ValueIds> AddOperation(OpAttrs attrs, ValueIds inputs,
                                        const std::vector<bool>& outputs);
  absl::Status Demand(ValueId id, const InputDomain& domain);
  void Join(ValueId id);

  const BuilderOptions options_;
  Choices* const choices_;
  Network network_;
  std::vector<PoolTensor> pool_;
  std::map<ValueId, CaseInput> inputs_;
  std::vector<ValueDemand> demands_;
  int inputs_made_ = 0;
  int values_made_ = 0;
};

// --- The steps of which networks are made. What fails may leave some of its
// operations.

// One operation of any operator; its outputs may have sizes that only a run
// tells.
absl::Status AddOperator(NetworkBuilder& builder, bool may_be_open);
// Several that compilers compute together (network_patterns.cc).
absl::Status AddPattern(NetworkBuilder& builder);
// One with a body (network_bodies.cc).
absl::Status AddControlFlow(NetworkBuilder& builder);

}  // namespace nodewise
