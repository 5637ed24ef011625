#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/passes/known_part.h"
#include "nodewise/session/target_spec.h"

namespace nodewise {

// What is opaque in a model that is to run, and what follows.
struct OpaqueReport {
  std::vector<OpaqueOperator> operators;  // Empty: nothing is.
  std::string text;                       // "Foo: 4 operations, Bar: ...".
  std::string program;                    // What runs them; "": nothing does.
  // Without a program: KnownPart.
  std::vector<MissingOutput> missing;
  std::vector<std::string> ends;
  std::vector<ValueId> open;
};

// Has the program of the spec run the opaque operations of this process, if it
// names one. Not thread-safe.
absl::Status UseOpaqueProgram(const ModelSpec& spec);

// Does so; without a program the network becomes its known part. Fails as
// KnownPartOf(), too.
absl::StatusOr<OpaqueReport> TakeOpaque(const ModelSpec& spec,
                                        Network* network);

}  // namespace nodewise
