#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// One edit of a network, in small steps that are all taken back when it goes
// out of scope, unless Keep() was called. The steps check nothing: their
// callers do, and Infer() and MoveBehind() find what shows only afterwards.
class NetworkEditor {
 public:
  explicit NetworkEditor(Network* network) : network_(*network) {}
  NetworkEditor(const NetworkEditor&) = delete;
  NetworkEditor& operator=(const NetworkEditor&) = delete;
  ~NetworkEditor();

  // Keeps the edit and gives the network a new version.
  void Keep();

  // Makes a network of unchecked data, for bodies within a broken one: nothing
  // may edit or run it until Verify() has found no fault.
  static SharedNetwork Unverified(NetworkData data);
  // Rebuilds the indices of names and positions. REQUIRES: the data is valid.
  static void MakeIndex(Network* network);
  // Returns a version that no network had before.
  static uint64_t NextVersion();

  // --- Whole edits, already checked by the caller; they fail only when no
  // numbers are left.
  static absl::StatusOr<ValueId> AddValue(Network* network, NetworkValue value);
  // `names` are those of the outputs, "" for outputs that are not wanted.
  static absl::StatusOr<OperationId> AddOperation(
      Network* network, Operation operation, std::vector<std::string> names,
      OutputInfos infos, OperationId before);
  static void RemoveValue(Network* network, ValueId id);
  static void RemoveOperation(Network* network, OperationId id);
  // Removes operations, indexed by number, that nothing else depends on.
  static void RemoveOperations(Network* network,
                               const std::vector<bool>& removed);

  // --- Steps. Links are changed at both ends.
  void SetSlot(OperationId user, uint32_t slot, ValueId value);
  void AddBarrier(OperationId user, ValueId barrier);
  void ReplaceBarrier(OperationId user, ValueId from, ValueId to);
  void SetNetworkOutput(size_t i, ValueId value);
  void SetInfo(ValueId id, OutputInfo info);
  void SetFound(ValueId id, TensorType type);
  void SetAttrs(OperationId id, OpAttrs attrs);
  void MakeConstant(ValueId input, NDArray data);

  // Moves `moved`, and what depends on them, after `last` where they precede
  // it; the others keep their order, and so do those that are moved. Fails with
  // kInvalidArgument, naming the path, if there is a cycle.
  absl::Status MoveBehind(OperationId last,
                          const std::vector<OperationId>& moved);

  // Infers these operations again, and downstream as far as something changes.
  // Returns how many values changed.
  absl::StatusOr<size_t> Infer(const std::vector<OperationId>& starts);
  absl::Status InferAndKeep(const std::vector<OperationId>& starts);

  NetworkData& data() { return network_.data_; }
  uint32_t position(OperationId id) const {
    return network_.positions_[Index(id)];
  }

 private:
  // Sets it, and has it put back. REQUIRES: it stays where it is in memory for
  // the whole edit, as values and operations do, but not what they list.
  template <typename T>
  void Set(T& place, T now) {
    undo_.push_back(
        [&place, old = std::exchange(place, std::move(now))] { place = old; });
  }
  NetworkValue& value(ValueId id) { return *data().values[Index(id)]; }
  Operation& operation(OperationId id) { return *data().operations[Index(id)]; }
  void AddUse(ValueId id, Use use);
  void DropUse(ValueId id, Use use);
  static ValueId PushValue(Network* network, NetworkValue value);
  static void EraseValue(Network* network, ValueId id);
  // Erases the operation, what it makes and its names; links to it stay.
  static void EraseOperation(Network* network, OperationId id);
  static void FindPositions(Network* network, uint32_t first);
  void WriteOrder(uint32_t first, std::vector<OperationId> part);
  // Infers the operation's outputs; those that changed are updated and added to
  // `changed`.
  absl::Status InferOne(OperationId id, std::vector<ValueId>* changed);

  Network& network_;
  std::vector<std::function<void()>> undo_;  // Run from the last to the first.
};

// Returns, by number, the operations that the values are made by, directly or
// not, as far back as position `first` of the order.
std::vector<bool> MakersOf(const Network& network,
                           absl::Span<const ValueId> values,
                           absl::Span<const uint32_t> positions,
                           uint32_t first);

// Fail with kInvalidArgument, beginning with `place`, unless the network has
// the item; a value must be a tensor.
absl::Status CheckTensor(const Network& network, ValueId id,
                         std::string_view place);
absl::Status CheckBarrier(const Network& network, ValueId id,
                          std::string_view place);
absl::Status CheckInput(const Network& network, ValueId id,
                        std::string_view place);
absl::Status CheckExists(const Network& network, OperationId id);

// Returns data for a constant, read-only: the same if no other owner can write
// to it, and it is compact and in host memory; else a copy.
absl::StatusOr<NDArray> ConstantData(NDArray data);

// Returns "name", or the first of name_1, name_2, ... that is not taken.
template <typename IsTaken>
std::string FreeName(std::string name, IsTaken is_taken) {
  if (!is_taken(name)) return name;
  for (size_t i = 1;; ++i) {
    std::string other = name + "_" + std::to_string(i);
    if (!is_taken(other)) return other;
  }
}

}  // namespace nodewise
