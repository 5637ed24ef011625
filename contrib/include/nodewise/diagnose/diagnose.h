#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/compare/rules.h"
#include "nodewise/diagnose/answer.h"
#include "nodewise/diagnose/question.h"
#include "nodewise/locate/layer_comparator.h"

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

// What Glow's debugger asks: which layers of a compiled network does a backend
// compute wrong, fed with what the reference makes? Beside Diagnose(), which
// judges what a node makes of what it has really read, it takes any backend and
// any rule, and hands out what it sees of each layer as it goes.
struct LayerQuestion {
  const LayerModule& mod;  // Must outlive the answer.
  LayerBackend candidate;
  Rule rule = {};
  bool is_recursive = false;  // For each layer what leads to it is run.
  bool all_alone = false;     // LayerComparator::set_all_alone()
  std::optional<int64_t> node_limit_ms = {};  // A minute unless told.
  LayerObserver* observer = nullptr;          // May be null.
};

// Compares the candidate with the reference ("Interpreter"). The verdicts and
// culprits of the answer are those of the layers. Fails as
// LayerComparator::verify().
absl::StatusOr<Answer> DiagnoseLayers(const LayerQuestion& question,
                                      const std::vector<NamedTensor>& inputs);

}  // namespace nodewise
