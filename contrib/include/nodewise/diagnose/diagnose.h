#pragma once

#include "absl/status/statusor.h"
#include "nodewise/diagnose/answer.h"
#include "nodewise/diagnose/question.h"

namespace nodewise {

// Answers what is wrong with a network. It chooses the search by what the
// target is and what is taken for right (nodewise/diagnose/search_table.h),
// unless the question names a method, and says in the answer's first sentence
// what it did and why.
//
// A mismatch, and that nothing could be judged, are answers. Fails with
// kInvalidArgument for what means nothing together, naming it; with
// kFailedPrecondition where no search answers, saying what would make it
// possible; and as opening the reference and running do. In builds without
// USE_PROFILER or USE_ONNX with kUnimplemented.
//
// Runs compiled code, where it can be done in processes of their own. Not
// thread-safe.
absl::StatusOr<Answer> Diagnose(const Question& question);

}  // namespace nodewise
