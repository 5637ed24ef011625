#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nodewise/planter/planter.h"
#include "tests/measure/case.h"
#include "tests/measure/fault_source.h"
#include "tests/measure/foreign_case.h"
#include "tests/measure/method.h"
#include "tests/measure/subject.h"

namespace nodewise {

// Runs cases in this process, one after the other. What it has made of a
// subject is kept for the next case of that subject.
class CaseRunner {
 public:
  explicit CaseRunner(SubjectFolders folders);
  ~CaseRunner();

  // Never fails: what keeps a case from being judged is its result.
  Result Run(const Case& wanted);

 private:
  absl::Status RunFault(const Case& wanted, Result* result);
  absl::Status RunClean(const Case& wanted, Result* result);
  absl::Status RunForeignCase(const Case& wanted, Result* result);
  absl::StatusOr<const Subject*> SubjectOf(const std::string& name);
  absl::StatusOr<const Planter*> PlanterOf(const Subject& subject,
                                           uint64_t input_seed);

  const SubjectFolders folders_;
  Subject subject_;          // The last one.
  SubjectTarget unchanged_;  // The target of subject_.
  ForeignSubject foreign_;   // The last one.
  std::map<uint64_t, std::unique_ptr<const Planter>> planters_;
};

// How many draws of inputs the faults of all seeds are planted for.
inline constexpr uint64_t kFaultInputs = 4;

}  // namespace nodewise
