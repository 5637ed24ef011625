#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ir/network.h"
#include "nodewise/lower/region.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// One node of a compiled network, cut out with what it read: all that it takes
// to run it again without the network, and to judge it.

// Something that the node reads.
struct ReproInput {
  std::string role;       // In the operator's signature: "X", "W", "B".
  std::string name;       // In the graph: "input_X_conv1".
  bool is_param = false;  // A parameter of the network.
  NDArray tensor;
  // What the network gave it, if `tensor` is something simpler; else undefined.
  NDArray original = {};
  // It has been made simpler; also where `original` is not kept.
  bool is_simpler = false;
  // It holds drawn numbers in the place of the network's (DrawTensors()).
  bool is_drawn = false;
  std::string why_not_drawn = {};  // In words, if that was asked for.
  // Drawn: what of the order of its numbers is the network's, in words.
  std::string why_places = {};
};

// Something that it makes.
struct ReproOutput {
  std::string role;   // "Y"
  NDArray candidate;  // Undefined if the node may not run.
  // What the reference makes of the inputs, and by element how far a correct
  // kernel may be off; undefined and empty if it is unknown what the node
  // computes.
  NDArray reference = {};
  std::vector<double> limits = {};
  std::optional<TensorComparison> comparison = std::nullopt;

  // Returns whether it is too far from the reference to be right.
  bool is_wrong() const;
};

// The tensor that a node writes over, and who still reads it, by names.
struct SpoiledTensor {
  std::string tensor;
  std::string reader;  // A node's key, or "the caller", which still reads it.
};

// A stand-in for a node that does not say itself what it computes: a part of
// the model that the network was compiled from.
struct ModelBeside {
  // It reads what the case does, under the same names, and makes the output as
  // the model has it, while the case's region makes it as the node lays it out.
  Network model;
  // How far the output may be off: a share of its largest number.
  double clean_distance = 0;
  // By element of the output: it means nothing. Empty: all have a meaning.
  std::vector<bool> is_padding = {};
  // The names of the nodes of the case before the last one, into which the
  // compiler took an operation apart.
  std::vector<std::string> other_nodes = {};
};

// Something of the network that an anonymous case still has.
struct KeptPart {
  // "description", "library", "function", "tensor", "places", "constant",
  // "attribute" or "operator".
  std::string kind;
  std::string name;  // As it is called in the folder; empty for a description.
  std::string why;   // What it is, and why it is there, in words.
};

// A record of what was replaced for others to have the case (anonymous.h).
struct Anonymity {
  // How often the node ran until it was known which numbers may be drawn.
  uint64_t runs = 0;
  // HashBytes() of the constants of a model beside the node that are drawn.
  std::vector<uint64_t> drawn_constants = {};
  bool has_names = true;            // HideNames() has not been called yet.
  std::vector<KeptPart> kept = {};  // Set by HideNames().
};

struct ReproCase {
  std::string node;   // Its key in the network.
  std::string layer;  // That key in letters, digits and '_' alone.
  // A graph of this node alone, under its own name; or of several nodes, see
  // `earlier_nodes` and `plan_fault`.
  Graph graph;
  Ref<Library> library;
  // The file that the library is; empty if the functions are built in.
  std::string library_file;
  // What the node computes; none if it does not say, or if the reference cannot
  // compute that, and then why.
  std::optional<Region> region;
  std::string why_no_region;
  std::vector<ReproInput> inputs;    // In the order in which the node reads.
  std::vector<ReproOutput> outputs;  // In the node's order.
  // What the region is of, if the node does not say it itself.
  std::optional<ModelBeside> beside = std::nullopt;
  // What the node was found to be in its network, and the reason, in words:
  // "broken", "3.1 x the proved bound". Empty if it was not accused.
  std::string verdict = {};
  std::string reason = {};
  // What it makes is right: what it leaves changed is not.
  bool harms_others = false;
  // It is not run in this process, which it might bring down.
  bool may_run = true;
  // How it ended the run of its network, or spoiled memory, if it did; it may
  // not run in this process then.
  std::optional<NodeFailure> failure = std::nullopt;
  // How long it may take where it runs in another process.
  int64_t node_limit_ms = 60'000;
  // Whether it fails in the same way alone; none if that was not tried.
  std::optional<bool> fails_alone = std::nullopt;
  // The nodes before it, by key, without which it does not fail: they are in
  // the graph, too, and read `earlier_inputs`, in the order of the graph's
  // inputs, behind those of the node.
  std::vector<std::string> earlier_nodes = {};
  std::vector<ReproInput> earlier_inputs = {};
  // The node is right, but writes over a tensor: the graph also has the nodes
  // that make and read that tensor; `inputs` are those of all of them, and
  // `outputs` those of the reader.
  std::optional<SpoiledTensor> plan_fault = std::nullopt;
  // How often the node ran until its inputs were as simple as they are; 0 if
  // they were not simplified.
  uint64_t shrink_runs = 0;
  // Others may have it; none: it is as the network has it.
  std::optional<Anonymity> anonymity = std::nullopt;

  // Returns the first output that is wrong, of several the one that is wrong by
  // the worst verdict; null if none is.
  const ReproOutput* FindWrong() const;
  // Returns whether an input is not what the network gave the node.
  bool is_shrunk() const;
  // Returns whether it is known what its outputs should be.
  bool is_judged() const { return region || plan_fault; }
};

// The network that nodes are cut out of. Everything must outlive the calls.
struct ReproSource {
  const GraphIndex& index;
  const OpSet& operators;
  // What the nodes run with alone. One from a file is best loaded apart from
  // the one that the network runs with (LoadPrivateCopy()), whose variables may
  // not be any more what they are when a program begins.
  Ref<Library> library;
  std::string library_file;         // Empty if the functions are built in.
  std::vector<std::string> params;  // The names of the graph's parameters.
  // Returns whether a node may be run alone in this process; null: all may. In
  // place of the others, `runner` must have something that runs.
  std::function<bool(NodeId node)> may_run = nullptr;
};

// Runs the network once, and hands out these nodes with what they read and
// made, in the order of the run: each is judged by what it makes alone. One
// node's tensors are in memory at a time. The runner is one of the graph of
// `source` with the capabilities kTensors and kNodeInputs; an error of `visit`
// ends the run and is returned as it is. Fails with kNotFound, naming the node,
// if the run does not come to one of them.
absl::Status VisitCases(
    const ReproSource& source, absl::Span<const NodeId> nodes, Runner& runner,
    absl::Span<const NamedTensor> inputs,
    absl::FunctionRef<absl::Status(ReproCase node_case)> visit);

// Runs the node of a case alone, if it may run, and sets what its outputs are
// and how they differ from the reference's. Functions of a library in a file
// run in a process of their own each time, and so keep nothing from run to run.
// Fails as making or running an executor does, or as the reference.
absl::Status JudgeCase(ReproCase* node_case);

// Runs the node of a case alone, in a process of its own, and sets whether it
// fails as `failure` says. A stray write ends no process, so it is not tried,
// and neither is anything in builds without USE_PROFILER. REQUIRES: failure.
void CheckFailsAlone(ReproCase* node_case);

// Loads a library once more, from a copy of its file, so that its functions
// have variables of their own, which no run has changed. The copy is gone when
// this returns. Fails as LoadArtefact(), and as copying does.
absl::StatusOr<Ref<Library>> LoadPrivateCopy(const ArtefactFiles& files);

// Returns the nodes that compute different things: of several that do the same
// with tensors of the same types, the first one, even if their names and
// parameters differ. They are in the order of the graph, so one graph always
// gives the same result.
std::vector<NodeId> DistinctNodes(const Graph& graph, const OpSet& operators);

// Returns the text with '_' in place of every other character than letters,
// digits and '_', cut if it is long; "node" if nothing is left. It is safe in
// file names, shells, C and Markdown.
std::string PlainName(std::string_view name);

}  // namespace nodewise
