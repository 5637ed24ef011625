#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nodewise/repro/case_of_nodes.h"
#include "nodewise/repro/shrink.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// A node, and the folder that it becomes.
struct ReproFolder {
  NodeId node{};
  std::string path;
  // What the node was found to be, and why; empty if it was not accused.
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

// What a folder that was written shows.
struct WrittenRepro {
  std::string node;    // Its key.
  std::string folder;  // Its path.
  bool is_judged = false;
  bool is_wrong = false;
  std::string failure;              // "crash", say; empty if it ends no run.
  std::optional<bool> fails_alone;  // As ReproCase::fails_alone.
  std::vector<std::string> earlier_nodes;
  bool is_shrunk = false;
  uint64_t shrink_runs = 0;
  // What of the network is still in it; none unless others may have it.
  std::optional<std::vector<KeptPart>> kept = std::nullopt;
  std::string shows;  // All of it in words.
};

struct ReproFolderOptions {
  ShrinkOptions shrink = {};
  int64_t node_limit_ms = 60'000;  // How long a node may take.
  bool is_anonymous = false;       // Others may have the folders.
};

struct WrittenRepros {
  std::vector<WrittenRepro> folders;
  // Files of inputs that show what the given ones do not; none where all
  // culprits show themselves on those.
  std::optional<std::vector<std::string>> kept_inputs;
  std::vector<std::string> notes;  // Which could not be written, and why.
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

// Writes a case as a folder, and adds what it shows. One with an anonymity gets
// other names, see HideNames(). Fails as that and as WriteRepro().
absl::Status WriteCase(const ReproCase& node_case, const std::string& path,
                       WrittenRepros* written);

// Runs the target once on these inputs and writes the nodes as folders, the
// inputs of those that are wrong shrunk. Nodes that crash or hang run in
// processes of their own, for as long as a node may take. Those that do not
// fail alone get the nodes before them that they need, and those that write
// over a tensor the nodes that make and read it; a note says why, where that is
// not possible. What was written before a failure is in `written`.
absl::Status WriteReproFolders(const std::shared_ptr<const GraphTarget>& target,
                               absl::Span<const NamedTensor> inputs,
                               const std::vector<ReproFolder>& folders,
                               const ReproFolderOptions& options,
                               WrittenRepros* written);

}  // namespace nodewise
