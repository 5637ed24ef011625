#pragma once

#include "absl/types/span.h"
#include "nodewise/autotest/candidate.h"
#include "nodewise/graph/graph_executor.h"

namespace nodewise {

// Runs with these inputs and returns copies of the outputs.
CandidateOutputs RunExecutor(GraphExecutor* executor,
                             absl::Span<const NDArray> inputs);

// Runs all sets of a job, whose network the executor runs.
CandidateAnswer RunSets(const CandidateJob& job, GraphExecutor* executor);

// Returns the answer of a job whose sets all come to the same.
CandidateAnswer AllFail(const CandidateJob& job, const absl::Status& status);

// Returns whether both hold the same bytes; their types may differ.
bool HasEqualBytes(const NDArray& a, const NDArray& b);

}  // namespace nodewise
