#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/dump/dump.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// What recording runs of a program has left behind.
struct ForeignDump {
  std::vector<std::string> folders;  // One for each run.
  uint64_t entries = 0;              // Recorded in each.
  uint64_t tensor_bytes = 0;
  std::vector<std::string> notes;
  // The outputs of a run that was recorded, and of one that was not.
  std::vector<NamedTensor> seen, unseen;
};

// Records runs of a network in another program as dumps, as if each operation
// were a node. A dump's graph says what each node computes. Fails as the runs
// do, and with kInvalidArgument if the options select nothing.
absl::StatusOr<ForeignDump> DumpForeign(const NetworkProgram& program,
                                        const ProgramRequest& request,
                                        absl::Span<const NamedTensor> inputs,
                                        const RecordOptions& record,
                                        uint64_t runs);

}  // namespace nodewise
