#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/autotest/candidate.h"
#include "nodewise/locate/known_deviation.h"
#include "nodewise/op/op_def.h"
#include "nodewise/report/report.h"

namespace nodewise {

// Measures how a runtime computes single operators otherwise than by their
// definitions, in rows of the classes of KnownDeviation. A deviation of none of
// these classes is a fault, and an operator that has one gets no row for that
// type.

struct LearnOptions {
  uint64_t seed = 1;
  uint64_t configurations = 32;  // For each operator.
  uint64_t sets = 4;             // Sets of numbers for each configuration.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// What an operator that makes one type has shown.
struct LearnedOperator {
  std::string operation;
  std::string dtype;       // "float32"
  uint64_t judged = 0;     // Sets.
  uint64_t deviating = 0;  // Those beyond what rounding may do.
  std::vector<KnownDeviation> rows = {};
  std::string fault = {};  // The first, in words; empty if there is none.
};

struct Learned {
  KnownRuntime known;
  std::vector<LearnedOperator> operators;  // In the order of their names.
  uint64_t sets = 0;
  std::vector<std::string> refused;  // Operators that were never run.
};

// Returns the rows to try: each operator's row in an opset that today's
// runtimes have.
std::vector<const OperatorDef*> RowsToLearn(const OpSet& operators);

// Draws ordinary numbers: none is infinite, NaN or subnormal. Fails with
// kFailedPrecondition, giving the candidate's reason, if it ran nothing.
// `runtime` is what it calls itself.
absl::StatusOr<Learned> LearnDeviations(
    const std::vector<const OperatorDef*>& rows, std::string runtime,
    Candidate& candidate, const LearnOptions& options = {});

// Returns what a program calls itself, which takes a run. Fails as that, and
// with kFailedPrecondition if it says nothing.
absl::StatusOr<std::string> RuntimeOf(ForeignTarget program);

// What was learned, as text and document (docs/known_deviations.md has its
// members). `file` is where the rows are; empty: nowhere.
Report ReportOf(const Learned& learned, const LearnOptions& options,
                const std::string& file);

}  // namespace nodewise
