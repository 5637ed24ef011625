#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
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

// Returns what can be switched off; empty if nothing can.
std::vector<CandidateVariant> VariantsOf(const CandidateOptions& options);

}  // namespace nodewise
