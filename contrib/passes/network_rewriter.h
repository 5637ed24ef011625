#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"

namespace nodewise {

// Why a pass leaves an operation alone, on its way to the report.
template <typename... Args>
absl::Status Refuse(fmt::format_string<const Args&...> reason,
                    const Args&... args) {
  return FailedPrecondition(reason, args...);
}

// Returns whether the operation is one of this class.
template <typename Class>
bool Is(const Operation& operation) {
  return operation.attrs.As<Class>() != nullptr;
}

// Puts new operations in the place of old ones, under names that are free or
// become so. The network must not be edited by others meanwhile.
class NetworkRewriter {
 public:
  // REQUIRES: the network outlives this.
  explicit NetworkRewriter(Network& network);

  const Network& network() const { return network_; }

  // Adds an operation of the row that holds in the network's opset, in front of
  // another in the order. The operation and its output get the name, or one
  // like it if that is taken. Fails if there is no such row, or the network
  // refuses it.
  template <typename Class>
  absl::StatusOr<ValueId> Add(const Class& op, std::vector<ValueId> inputs,
                              OperationId before, std::string_view name) {
    NODEWISE_ASSIGN_OR_RETURN(const OperatorDef* const def,
                              RowOf(&kTypeTag<Class>));
    return Add(OpAttrs::From(def, op), std::move(inputs), before, name);
  }
  absl::StatusOr<ValueId> AddConstant(std::string_view name, NDArray data);

  // Makes everything read `made`, the output of an added operation, instead of
  // `old`; removes these operations, users first, and those of `inputs` that
  // nothing needs any more; gives `made` the old name, and the operation
  // `named`, by default what makes `made`, the name of `named_like`, one of the
  // removed.
  struct Replacement {
    ValueId old = kNoValue;
    ValueId made = kNoValue;
    std::vector<OperationId> removed = {};
    std::vector<OperationId> inputs = {};
    OperationId named = kNoOperation;
    OperationId named_like = kNoOperation;
  };
  absl::Status Replace(const Replacement& replacement);
  // Makes everything read `value` instead of `old`, and removes operations as
  // Replace() does; nothing gets another name.
  absl::Status RedirectUses(ValueId value, ValueId old,
                            absl::Span<const OperationId> removed,
                            absl::Span<const OperationId> inputs);
  // Removes the operations that have been added since the last Replace() that
  // went well. Constants stay, for RemoveUnused().
  void RollBack();

  // Sets version 1 of a domain that the network has no version of.
  absl::Status EnsureOpset(std::string_view domain);

 private:
  using Names = std::unordered_set<std::string>;
  absl::StatusOr<const OperatorDef*> RowOf(const void* type) const;
  absl::StatusOr<ValueId> Add(OpAttrs attrs, std::vector<ValueId> inputs,
                              OperationId before, std::string_view name);
  absl::Status Remove(absl::Span<const OperationId> removed,
                      absl::Span<const OperationId> inputs);
  static std::string FreeName(std::string_view wanted, Names* taken);

  Network& network_;
  Names value_names_;
  Names operation_names_;
  std::vector<OperationId> added_;
};

// Returns the one operation that reads the value, as its input 0. Fails, saying
// who reads "its result" instead, if that is not all that does.
absl::StatusOr<OperationId> OnlyReader(const Network& network, ValueId id);
// Fails if the operation waits for others, or others for it, by barriers.
absl::Status CheckNoBarriers(const Network& network,
                             const Operation& operation);

}  // namespace nodewise
