#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// The kinds of findings: what makes a network valid, in three parts. Their
// place is an OperationPlace. A warning is a penalty; the network is valid all
// the same.
namespace network_kinds {
// Links both ways, no cycle, producers first, reachability.
inline constexpr std::string_view kStructure = "network-structure";
// Names, types as inferred, attributes within their limits.
inline constexpr std::string_view kInformation = "network-information";
// What a target can run.
inline constexpr std::string_view kRunTime = "network-run-time";

inline constexpr FindingKind kInvalidStructure = {
    "invalid-structure", kStructure, Severity::kError,
    "a broken link, a cycle, or an order in which a user precedes its "
    "producer"};
inline constexpr FindingKind kUnreached = {
    "unreached", kStructure, Severity::kWarning,
    "no output depends on it, or an output that depends on no input"};
inline constexpr FindingKind kLostInput = {
    "lost-input", kStructure, Severity::kWarning,
    "a pass took an input of the network away"};
inline constexpr FindingKind kLostOutput = {
    "lost-output", kStructure, Severity::kWarning,
    "a pass left an output of the network that no operation makes any more"};
inline constexpr FindingKind kInvalidInformation = {
    "invalid-information", kInformation, Severity::kError,
    "a name, a type or an attribute is not what it must be"};
inline constexpr FindingKind kUnsupported = {
    "unsupported", kRunTime, Severity::kError,
    "a target cannot run an operation"};
inline constexpr FindingKind kPenalty = {
    "penalty", kRunTime, Severity::kWarning,
    "a target does not run an operation at its best"};
// An error if one of those that are not listed is.
inline constexpr FindingKind kNotListed = {
    "not-listed", kRunTime, Severity::kWarning,
    "there are more findings than are listed"};

inline constexpr FindingKind kAll[] = {
    kInvalidStructure,   kUnreached,   kLostInput, kLostOutput,
    kInvalidInformation, kUnsupported, kPenalty,   kNotListed};
}  // namespace network_kinds

// Returns every fault, in the order of the parts, then of the operations:
// broken links with both ends, cycles as paths, what no output depends on and
// outputs that depend on nothing, types other than those inferred. With
// targets, also what they refuse and what is slow on them. Never fails, even on
// malformed data.
std::vector<Finding> Verify(const NetworkData& data,
                            absl::Span<const Target> targets = {});

// The three parts, in the order in which reports have them.
struct NetworkPart {
  std::string_view name;     // FindingKind::part.
  std::string_view heading;  // For people.
};
absl::Span<const NetworkPart> NetworkParts();

// Returns OK if no finding is an error; else kDataLoss with the first error,
// and how many there are.
absl::Status ToStatus(absl::Span<const Finding> findings);

// Returns all findings as text under the three headings; a part without faults
// says so.
std::string FindingReport(absl::Span<const Finding> findings);

// Returns cycles among items that wait for each other: makers[i] are the items
// that item i waits for. Each cycle begins with its lowest number and has
// makers before users. No cycle is returned twice, and those that share items
// with one that is returned may be missing; none is returned only if there is
// none. At most `most`, since each costs a walk.
std::vector<std::vector<uint32_t>> FindCycles(
    std::vector<std::vector<uint32_t>> makers, size_t most);

// "a -> b -> a", cut in the middle if there are very many. Names come from
// files, so they are shortened.
std::string PathText(absl::Span<const std::string> names);

}  // namespace nodewise
