#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/autotest/autotest_run.h"
#include "nodewise/autotest/candidate.h"
#include "nodewise/foreign/c_compiler.h"
#include "nodewise/foreign/known_programs.h"

namespace nodewise {

// The candidates that can be tested by name.

struct CandidateOptions {
  std::string name;     // Empty: onednn.
  ProgramSpec program;  // For ort, onnx and exec:; its text is ignored.
  int64_t limit_ms = 10'000;
  // Tests whole networks: there a candidate may have the reference compute what
  // its own kernels do not.
  bool networks = false;
  // The passes that rewrite a network before it runs: "merge" and "split". Only
  // for candidates that run in this process.
  std::vector<std::string> passes;
  std::shared_ptr<const CCompiler> compiler;  // For "c"; else null.
};

// Fails with kInvalidArgument for another name.
absl::StatusOr<std::unique_ptr<Candidate>> MakeAutotestCandidate(
    const CandidateOptions& options);

// A candidate with one of its features switched off.
struct CandidateVariant {
  std::string without;  // "fusing"
  std::function<absl::StatusOr<std::unique_ptr<Candidate>>()> make;
};
// Returns what can be switched off; empty if nothing can.
std::vector<CandidateVariant> VariantsOf(const CandidateOptions& options);

// Judges a finding again with one thing less at a time, and says without which
// it goes away.
std::string Attribute(const AutotestFinding& finding,
                      const std::vector<CandidateVariant>& variants);

}  // namespace nodewise
