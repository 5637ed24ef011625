#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "nodewise/locate/node_check.h"

namespace nodewise {

// What several runs together say about one node (docs/locate.md has the truth
// table). All functions are pure; any thread may call them.

enum class NodeVerdict : uint8_t {
  kHealthy,
  kIntendedInfinity,  // It makes infinities or NaN, and so does the reference.
  kInherits,          // It is right, and what it read is not.
  kDeviates,          // Beyond its bound, by too little to matter anywhere.
  kInconclusive,      // It is unknown whether it is right.
  kBadInput,          // It is right, and was given NaN from outside.
  kNotDeterministic,  // It makes different bits of the same bits.
  kPlanFault,         // It writes over what is still needed.
  kChangesFloats,     // It changes how floats are calculated after it.
  kBroken,            // It makes something else than it should.
  kSideEffect,        // It leaves changed what all code of a process shares.
  kOverrun,           // It writes to memory that is not its own.
  kHangs,             // It does not return.
  kCrashes,           // It ends the process, or the run with an error.
};
// Returns "healthy", "plan fault", ...
std::string_view NameOf(NodeVerdict verdict);

// Returns whether a node with this verdict is a culprit.
bool Accuses(NodeVerdict verdict);

// Returns whether a node with this verdict keeps a run from coming to its end:
// kCrashes and kHangs.
bool EndsRuns(NodeVerdict verdict);

// What the runs showed of one node.
struct NodeEvidence {
  // It crashed, ended the process or failed, or did not return in time; so the
  // reference stood in for it wherever the rest could be judged.
  bool crashed = false;
  bool hung = false;
  // It wrote to memory that is not its own; so the reference stood in for it.
  bool wrote_astray = false;
  // It left the working folder, descriptors, limits, signals or other things
  // changed that all code shares; so the reference stood in for it.
  bool has_side_effect = false;
  // The reference stood in for it because it was asked to.
  bool is_stand_in = false;
  // What was handed out for it is not what those that read it have computed
  // with; so nothing is known of what it made.
  bool is_misreported = false;
  // All that reads it makes what it should of what it should have made.
  bool has_no_consequence = false;
  // On what it read in the run, by the reference's bounds.
  Verdict isolated = Verdict::kPass;
  // That in a run in which every tensor has memory of its own; none if there
  // was no such run.
  std::optional<Verdict> isolated_privately = std::nullopt;
  // What it makes wrong is beyond the tolerance of its type, too.
  bool is_large = false;
  // On inputs with which it must be right bit for bit; none if that was not
  // tried, or cannot be.
  std::optional<Verdict> exact = std::nullopt;
  // Against the reference's run of the whole network.
  Verdict accumulated = Verdict::kPass;
  // Something it read had been written over since it was made.
  bool read_overwritten = false;
  // It wrote to memory that a later node, or the caller, still had to read.
  bool wrote_over = false;
  // It made the same bits of the same bits whenever it ran.
  bool is_steady = true;
  // It left the floating-point environment changed, which is put back before
  // the next node.
  bool changed_floats = false;
  // It was given a NaN by the network's inputs or parameters.
  bool was_given_nan = false;
  // It made infinities of finite numbers.
  bool made_infinity = false;
  // It made NaN of finite numbers.
  bool made_nan = false;
};

// Joins them into one verdict.
NodeVerdict JoinEvidence(const NodeEvidence& evidence);

// Returns the verdict that counts for a check on equal inputs: a warning
// accuses if the differences are large enough to matter, beyond the tolerance
// of the type; else it passes.
Verdict IsolatedVerdict(const NodeCheck& check);

// Returns whether a wrong output is beyond the tolerance of its type: an
// element, or all of them together.
bool IsLarge(absl::Span<const TensorComparison> outputs);

}  // namespace nodewise
