#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/repro/case_of_nodes.h"
#include "nodewise/repro/shrink.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/node_failure.h"
#include "nodewise/support/json_writer.h"
#include "nodewise/support/text_table.h"

namespace nodewise {

// A node, and the folder that it becomes.
struct ReproFolder {
  NodeId node{};
  std::string path;
  // What the node was found to be, and why; empty if nobody has accused it.
  std::string verdict = {};
  std::string reason = {};
  // How it ended runs or spoiled memory, if it did: then the reference stands
  // in for it while the others are run.
  std::optional<NodeFailure> failure = std::nullopt;
  // A later node that shows what this one leaves changed, where nothing else
  // does: the folder has both.
  std::optional<NodeId> victim = std::nullopt;
  // What it writes over, if that is the fault.
  std::optional<PlanFault> plan_fault = std::nullopt;
};

// Returns DIR/003_conv1 for the node of that number: a name that nothing in the
// model's own names can change into another path.
std::string ReproPath(const std::string& dir, size_t number,
                      const std::string& key);

// Fails with kInvalidArgument if DIR holds anything; else makes it.
absl::Status MakeReproRoot(const std::string& dir);

// Returns the target as what nodes are cut out of, with a library of its own if
// it can be loaded apart. The target must outlive it.
ReproSource SourceOf(const GraphTarget& target);

// Writes the case, and what it shows into the table and the document, in whose
// array of `repros` it is.
absl::Status WriteCase(const ReproCase& node_case, const std::string& path,
                       TextTable* table, JsonWriter* json);

// Runs the target once and writes the nodes as folders, the inputs of those
// that are wrong shrunk. Nodes that crash or hang run in processes of their
// own, for as long as a node may take. Those that do not fail alone get the
// nodes before them that they need, and those that write over a tensor whoever
// makes and reads it; a note says why, where that is not possible. The outcome
// says what each of them
// shows; the document has `repros`.
absl::Status WriteReproFolders(const Session& loaded,
                               const std::vector<ReproFolder>& folders,
                               const ShrinkOptions& shrink, Outcome* outcome,
                               int64_t node_limit_ms = 60'000);

}  // namespace nodewise
