#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/foreign/foreign_dump.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/report/report.h"
#include "nodewise/session/session.h"

namespace nodewise {

// Shows the head of a report: what was asked about, its files and its inputs.
// The document has `target`, `inputs` and, if there is one, `seed`.
void ShowTarget(const Session& session, Report* report);

// Shows what computed the nodes whose functions are built in, and why others
// refused some; nothing for compiled code.
void ShowKernels(const Session& session, Report* report);

// What a run has made, and whether looking into it changed that.

// Shows type, range and first values of each output. The document has
// `outputs`.
void ShowOutputs(const std::vector<NamedTensor>& outputs, Report* report);

// Shows how long runs took. The document has `time`. REQUIRES: there is one.
void ShowTimes(absl::Span<const int64_t> durations_ns, Report* report);

// Shows what recording runs of a program has left, with that check. The
// document has `dumps`, `entries` and `tensor_bytes`.
void ShowForeignDump(const ForeignDump& dump, Report* report);

}  // namespace nodewise
