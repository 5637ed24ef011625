#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "nodewise/ir/network.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Names the options that give the unknown sides of an input their sizes.
std::string HowToSize(const std::string& name, const TensorType& type);

// Runs a network that cannot become a graph, since its sizes are not known
// before it runs, with the interpreter, and shows target and inputs. `output`
// is where the caller will write the outputs, checked before the run. Faults of
// the inputs go into the outcome, which is then kError.
absl::StatusOr<RunResult> RunInterpreted(
    const std::string& path, const std::shared_ptr<const Network>& network,
    const InputOptions& inputs, const InputFiles& input_files,
    const std::string& output, uint64_t repeats, Outcome* outcome);

}  // namespace nodewise
