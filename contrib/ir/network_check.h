#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "nodewise/ir/verifier.h"

namespace nodewise {

// Collects findings in any order and gives them out by part and operation.
class FindingSink {
 public:
  // No reader goes through more findings, and crafted data may have a fault in
  // each byte.
  static constexpr size_t kMostFindings = 10000;

  // Findings with the same part and `rank` stay in the order in which they
  // came.
  void Add(uint64_t rank, Finding finding);
  size_t errors() const { return errors_; }
  std::vector<Finding> TakeSorted();

 private:
  std::vector<std::pair<uint64_t, Finding>> listed_errors_;
  std::vector<std::pair<uint64_t, Finding>> warnings_;
  size_t errors_ = 0;
  bool is_cut_ = false;
  bool cut_errors_ = false;
};

// A network, the outermost or a body, while it is verified.
class NetworkCheck {
 public:
  // `prefix` is where the network is: "" or "operation If_3: else_branch: ".
  // All findings in a body have the rank of the operation that it belongs to.
  NetworkCheck(const NetworkData& data, std::string prefix,
               std::optional<uint64_t> body_rank, FindingSink* sink);

  // To be called in this order: each relies on what those before have found.
  void CheckStructure();
  void CheckInformation();
  // `damaged` are bodies that must not be shown to operators.
  void CheckInference(const std::unordered_set<const Network*>& damaged);
  void QueryTargets(absl::Span<const Target> targets);

  const NetworkData& data() const { return data_; }
  size_t errors() const { return errors_; }
  const std::string& prefix() const { return prefix_; }
  // Return where findings about operations and values are sorted in. An
  // operation is identified by its place in the data: the number that it holds
  // may be wrong.
  uint64_t RankOf(OperationId id) const;
  uint64_t RankOf(const NetworkValue& value) const;

 private:
  // What a finding is about; the network itself if both names are empty.
  struct Subject {
    uint64_t rank = 0;
    std::string operation = {};
    std::string value = {};
  };
  static constexpr uint64_t kBehindAll = UINT64_MAX;

  // verify_structure.cc
  void CheckNumbers();
  void CheckLinksOf(OperationId id);
  void CheckOutputLink(OperationId id, uint32_t slot);
  void CheckBarriersOf(OperationId id);
  void CheckProducerOf(ValueId id, const NetworkValue& value);
  void CheckUses();
  void CheckInputList();
  void CheckOutputList();
  void CheckOrder();
  void CheckCycles();
  void CheckRunsBefore();
  bool RunsBefore(OperationId id, OperationId maker) const;
  void CheckReachability();
  void CheckOutputsDepend();
  // verifier.cc
  void CheckOpsets();
  void CheckNames();
  template <typename Id, typename Item>
  void CheckName(const char* what, Id id, const Item& item,
                 std::unordered_map<std::string_view, uint32_t>* seen);
  void CheckValue(ValueId id, const NetworkValue& value);
  void CheckConstant(ValueId id, const NetworkValue& value);
  // Returns whether the operator can be asked about the operation.
  bool CheckOperator(OperationId id, const Operation& operation);
  bool CheckBodies(OperationId id, const Operation& operation);
  int OpsetOf(std::string_view domain) const;
  bool HasValidInputs(const Operation& operation) const;
  void CheckInferred(OperationId id, const Operation& operation);

  Subject About(OperationId id) const;
  Subject About(const NetworkValue& value) const;
  void Add(const FindingKind& kind, Subject subject, std::string_view where,
           std::string found, std::string expected = "", std::string hint = "");
  void Structure(Subject subject, std::string_view where, std::string found,
                 std::string expected) {
    Add(network_kinds::kInvalidStructure, std::move(subject), where,
        std::move(found), std::move(expected));
  }
  void Unreached(Subject subject, std::string_view where, std::string found,
                 std::string hint = "") {
    Add(network_kinds::kUnreached, std::move(subject), where, std::move(found),
        "", std::move(hint));
  }
  void Information(Subject subject, std::string_view where, std::string found,
                   std::string expected = "") {
    Add(network_kinds::kInvalidInformation, std::move(subject), where,
        std::move(found), std::move(expected));
  }
  // Adds an error, preceded by the operation's place; nothing if it is OK.
  void Information(OperationId id, const absl::Status& status);

  const NetworkData& data_;
  std::string prefix_;
  std::optional<uint64_t> body_rank_;
  FindingSink* sink_;
  size_t errors_ = 0;
  std::vector<uint32_t> positions_;  // First in the order; or UINT32_MAX.
  std::vector<bool> is_in_cycle_;    // By operation.
  std::vector<bool> is_sane_;        // By value: may be shown to operators.
  std::vector<bool> is_askable_;     // By operation: its operator is sane.
};

}  // namespace nodewise
