#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// One edit of a network, in small steps that are all taken back when it goes
// out of scope, unless Keep() was called. The steps check nothing: their
// callers do, and Infer() and MoveBehind() find what only shows afterwards.
class NetworkEditor {
 public:
  explicit NetworkEditor(Network* network) : network_(*network) {}
  NetworkEditor(const NetworkEditor&) = delete;
  NetworkEditor& operator=(const NetworkEditor&) = delete;
  ~NetworkEditor();

  // The edit stays, and the network has a new version.
  void Keep();

  // A network that may be anything, for bodies within a broken one: Verify()
  // finds what is wrong with it, and nothing may edit or run it before.
  static std::shared_ptr<const Network> Unverified(NetworkData data);
  // Finds names and positions again. REQUIRES: the data is valid.
  static void MakeIndex(Network* network);
  // One that no network had before.
  static uint64_t NextVersion();

  // --- Whole edits, of what the caller has checked; they cannot fail, but for
  // want of numbers.
  static absl::StatusOr<ValueId> AddValue(Network* network, NetworkValue value);
  // `names` of the outputs, "" for those that are not wanted.
  static absl::StatusOr<OperationId> AddOperation(
      Network* network, Operation operation, std::vector<std::string> names,
      OutputInfos infos, OperationId before);
  static void RemoveValue(Network* network, ValueId id);
  static void RemoveOperation(Network* network, OperationId id);
  // The operations, which nothing else depends on. By number.
  static void RemoveOperations(Network* network,
                               const std::vector<bool>& removed);

  // --- Steps. Links are changed at both ends.
  void SetSlot(OperationId user, uint32_t slot, ValueId value);
  void AddBarrier(OperationId user, ValueId barrier);
  void ReplaceBarrier(OperationId user, ValueId from, ValueId to);
  void SetNetworkOutput(size_t i, ValueId value);
  void SetInfo(ValueId id, OutputInfo info);
  void SetAttrs(OperationId id, OpAttrs attrs);
  void MakeConstant(ValueId input, NDArray data);

  // Moves `moved`, and what depends on them, behind `last` where they stand
  // before it; others keep their order, and so do those that are moved.
  // kInvalidArgument with the path if that is a cycle.
  absl::Status MoveBehind(OperationId last,
                          const std::vector<OperationId>& moved);

  // Infers these again, and downstream as far as something changes. Returns how
  // many values changed.
  absl::StatusOr<size_t> Infer(const std::vector<OperationId>& starts);

  NetworkData& data() { return network_.data_; }
  uint32_t position(OperationId id) const {
    return network_.positions_[Index(id)];
  }

 private:
  NetworkValue& value(ValueId id) { return *data().values[Index(id)]; }
  Operation& operation(OperationId id) { return *data().operations[Index(id)]; }
  void AddUse(ValueId id, Use use);
  void DropUse(ValueId id, Use use);
  static ValueId PushValue(Network* network, NetworkValue value);
  static void EraseValue(Network* network, ValueId id);
  static void FindPositions(Network* network, uint32_t first);
  void WriteOrder(uint32_t first, std::vector<OperationId> part);
  // The operation's outputs as inferred now; those that changed get it and are
  // added to `changed`.
  absl::Status InferOne(OperationId id, std::vector<ValueId>* changed);

  Network& network_;
  std::vector<std::function<void()>> undo_;  // The last one first.
};

// Operations that the values are made by, near or far, as far back as position
// `first` of the order; by number.
std::vector<bool> MakersOf(const Network& network,
                           absl::Span<const ValueId> values,
                           absl::Span<const uint32_t> positions,
                           uint32_t first);

// kInvalidArgument, with `place` in front, unless the network has it; a value
// must be a tensor.
absl::Status CheckTensor(const Network& network, ValueId id,
                         std::string_view place);
absl::Status CheckBarrier(const Network& network, ValueId id,
                          std::string_view place);
absl::Status CheckExists(const Network& network, OperationId id);

// "name", or the first of name_1, name_2, ... that is not taken.
template <typename IsTaken>
std::string FreeName(std::string name, IsTaken is_taken) {
  if (!is_taken(name)) return name;
  for (size_t i = 1;; ++i) {
    std::string other = name + "_" + std::to_string(i);
    if (!is_taken(other)) return other;
  }
}

}  // namespace nodewise
