#pragma once

#include <string>
#include <vector>

#include "nodewise/graph/finding.h"
#include "nodewise/module/library_floats.h"
#include "nodewise/support/float_environment.h"

namespace nodewise {

// Findings about the floating-point environment that compiled code leaves.
// Their numbers are what it was and what it is: `before` and `after`, as
// PackFloats().
namespace float_kinds {
inline constexpr std::string_view kPart = "float-environment";

// Its place is the node.
inline constexpr FindingKind kLeftChanged = {
    "floats-left-changed", kPart, Severity::kError,
    "a function did not restore how its thread calculates with floats", true};
// Some node did; the place is the network.
inline constexpr FindingKind kRunLeftChanged = {
    "floats-changed-by-run", kPart, Severity::kWarning,
    "a run has changed how its thread calculates with floats", true};
// Its place is the library.
inline constexpr FindingKind kChangedByLoading = {
    "floats-changed-by-library", kPart, Severity::kWarning,
    "loading a library changed how its thread calculates with floats"};

inline constexpr FindingKind kAll[] = {kLeftChanged, kRunLeftChanged,
                                       kChangedByLoading};
}  // namespace float_kinds

// Return findings of these kinds: "node 3 (f) left the rounding mode changed
// (upward, was to nearest)".
Finding FloatFinding(NodePlace node, const FloatChange& change);
Finding FloatFindingOfRun(const std::string& network,
                          const FloatChange& change);
Finding FloatFindingOf(const LibraryFloats& library);

// What a run of a tool's candidate has left changed, for who shows it at the
// end: kept for the process, each place once. Any thread may call them.
void NoteFloatFinding(const Finding& finding);
// Returns what loading libraries changed, and what was noted since the last
// call.
std::vector<Finding> TakeFloatFindings();

}  // namespace nodewise
