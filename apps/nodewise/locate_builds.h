#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"

namespace nodewise {

// What `locate` does with several builds of a network, and by halving.

// Loads another build as the options that are not about TARGET alone say;
// `option` names it. The outcome gets the errors of that, and no more.
absl::StatusOr<Session> LoadBuild(const char* option, const std::string& build,
                                  const LoadOptions& options,
                                  const InputOptions& inputs, Outcome* outcome);

// Finds the node by which a target differs from the definitions of its
// operators. A node may take `node_limit_ms`.
absl::Status BisectTarget(const Session& loaded, int64_t node_limit_ms,
                          Outcome* outcome);

// Finds the functions by which a target differs from another build of it.
absl::Status MixTargets(const Session& candidate, const Session& reference,
                        int64_t node_limit_ms, Outcome* outcome);

// Finds the first bad build of a sequence, and then the functions by which it
// differs from the last good one. Libraries go with the graph and the
// parameters of `load`'s target; all else is a target of its own.
absl::Status LocateInSeries(const LoadOptions& load, const InputOptions& inputs,
                            const std::vector<std::string>& series,
                            Outcome* outcome);

}  // namespace nodewise
