#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// What all networks of one text together may cost.
struct TextBudget {
  int depth = 0;            // Bodies within bodies.
  size_t numbers_left = 0;  // For values and operations, given or skipped.
  // Bodies that are not valid: they must not be shown to operators.
  std::unordered_set<const Network*> damaged = {};
};

// Reads one network of a text (docs/formats/network_text.md), a body or the
// outermost one.
class NetworkReader {
 public:
  NetworkReader(std::string_view* text, const OpSet& ops, TextBudget* budget)
      : text_(*text), ops_(ops), budget_(*budget) {}

  // Stops after the network, or at the fault in it.
  absl::StatusOr<NetworkData> Read();

 private:
  absl::Status ReadStatement();
  absl::Status ReadOpset();
  absl::Status ReadInput();
  absl::Status ReadConstant();
  absl::Status ReadValue();
  absl::Status ReadUses();
  absl::Status ReadNumbers();

  // network_reader_operation.cc
  absl::Status ReadOperation();
  absl::Status ReadOutputsOf(OperationId id, Operation* operation);
  absl::Status ReadOutput(OperationId id, Operation* operation);
  absl::Status ReadBarriersOf(OperationId id, Operation* operation);
  absl::StatusOr<const OperatorDef*> ReadKind();
  absl::StatusOr<std::vector<NamedAttr>> ReadAttrs();
  absl::StatusOr<AttrValue> ReadAttrValue();
  absl::StatusOr<AttrValue> ReadGraph();

  // Takes a word if it comes next.
  bool TakeKeyword(std::string_view keyword);
  bool TakeNothing();  // "_"
  absl::Status Need(char c);
  absl::StatusOr<uint32_t> ReadNumber(char sign);
  // "_" or a number.
  absl::StatusOr<ValueId> ReadValueId();
  absl::StatusOr<OperationId> ReadOperationId();
  absl::StatusOr<std::vector<ValueId>> ReadValueIds();
  absl::Status ReadFoundAndElements(NetworkValue* value);
  // Reads "name: type", where the type may be missing.
  absl::StatusOr<bool> ReadNameAndType(NetworkValue* value);
  // Stores the value under this number, which must be free.
  absl::Status Define(std::string_view start, uint32_t id, NetworkValue value);
  // Makes at least this many numbers for values and operations.
  absl::Status MakeRoom(std::string_view start, size_t values,
                        size_t operations);

  // Completes what the text may leave out.
  void FillOrder();
  void FillUses();
  void InferTypes();

  std::string_view& text_;
  const OpSet& ops_;
  TextBudget& budget_;
  NetworkData data_;
  std::vector<OperationId> as_written_;
  bool has_order_ = false;
  bool has_inputs_ = false;
  std::vector<ValueId> untyped_;
  std::vector<std::pair<ValueId, std::vector<Use>>> uses_;
};

}  // namespace nodewise
