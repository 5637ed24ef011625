#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/autotest/candidate.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/autotest/tensor_draw.h"
#include "nodewise/compare/compare.h"
#include "nodewise/interp/interpreter.h"

namespace nodewise {

// What came out of one set of values; each is worse than those before it.
enum class CaseOutcome {
  kAgrees,
  kInconclusive,      // A correct kernel may differ as much, or no bound is
                      // known.
  kReferenceRefuses,  // The reference does not take these values.
  kBothRefuse,
  kCandidateRefuses,  // It does not have this, or fails on it.
  kMismatch,          // No correct kernel makes these numbers.
  kWrongType,         // Outputs of another number, shape or type.
  kCrash,
  kHang,
};
inline constexpr size_t kCaseOutcomes = 9;
// Returns "agrees", "mismatch", ...: stable, for documents.
std::string_view NameOf(CaseOutcome outcome);
// Returns whether it speaks against the candidate.
inline bool IsFinding(CaseOutcome outcome) {
  return outcome >= CaseOutcome::kMismatch;
}

struct CaseVerdict {
  CaseOutcome outcome = CaseOutcome::kAgrees;
  size_t output = 0;   // Which output decided.
  std::string reason;  // "3.1 x the proved bound"
  // If outputs were compared.
  std::optional<TensorComparison> comparison = std::nullopt;
};

// The reference of one network.
class CaseReference {
 public:
  // A gradient may be computed by another formula than that of its network, so
  // that nothing is proved of its roundings, and nothing said where it is not
  // finite. REQUIRES: the network outlives this.
  explicit CaseReference(const Network& network, bool is_gradient = false);
  // Takes the network of a case. Run() also checks the demands of the case.
  explicit CaseReference(const OperatorCase& made);

  // Computes the outputs. Fails if an operator does not take these values.
  CandidateOutputs Run(const std::vector<NDArray>& inputs) const;

  // Judges what the candidate made. `expected` comes from Run().
  CaseVerdict Judge(const ValueSet& set, const CandidateOutputs& expected,
                    const CandidateOutputs& actual) const;

 private:
  const Network& network_;
  const bool is_gradient_;
  const Interpreter interpreter_;
  std::map<ValueId, InputDomain> demands_;
};

}  // namespace nodewise
