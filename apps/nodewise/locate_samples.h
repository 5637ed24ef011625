#pragma once

#include <cstddef>
#include <string>

#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/locate/locate.h"

namespace nodewise {

struct SampleChoice {
  std::string folder;
  size_t most_located = 3;  // How many of the worst samples are examined.
};

// Runs the target on every sample in a folder, examines the worst ones, and
// shows the report about the worst, which verdicts recur, and which samples
// failed. `inputs` are for all samples: what they name, and a seed for what is
// not in them.
absl::StatusOr<Outcome> LocateOnSamples(const LoadOptions& load,
                                        const InputOptions& inputs,
                                        const SampleChoice& choice,
                                        LocateOptions options);

}  // namespace nodewise
