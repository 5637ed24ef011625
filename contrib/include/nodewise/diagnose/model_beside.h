#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/align/alignment.h"
#include "nodewise/diagnose/question.h"
#include "nodewise/ir/network.h"
#include "nodewise/session/model_changes.h"
#include "nodewise/session/session.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// A compiled network and the model that it was made from, or another build in
// the model's place, run with the same inputs.

// How many sets of inputs both are run with unless told.
inline constexpr uint64_t kInputSets = 2;

// A model beside a network that was compiled from it.
struct NetworkBeside {
  std::string name;  // The path of the model, or the name of the build.
  std::shared_ptr<const Network> network;
  std::vector<size_t> inputs;  // PairInputs().
  std::vector<std::string> notes;
  OpaqueReport opaque;
};

// What each entry of a target holds of the tensors beside it.
struct AlignAnswer {
  Session target;
  NetworkBeside beside;
  Alignment alignment;
  std::vector<std::string> notes;
};

// Runs the target and what is beside it (a model or a build), and matches what
// they make by its values. Faults of a model go into `diagnostics`.
absl::StatusOr<AlignAnswer> AlignWith(const Session& target,
                                      const Reference& reference, uint64_t sets,
                                      DiagnosticList* diagnostics);

}  // namespace nodewise
