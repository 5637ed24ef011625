#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/lower/region_kernels.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"
#include "nodewise/session/model_changes.h"
#include "nodewise/session/target_spec.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// A network that is ready to run, with the inputs for it. Copies share all of
// it. Nothing is read again later: files of models and inputs may change, and
// all executors have the same inputs even if the code that runs changes files.
struct Session {
  std::string name;  // What reports call it: its path, or that of its model.
  // Null for a model that stays a network.
  std::shared_ptr<const GraphTarget> target;
  // In the order of the target's inputs, or of ListInputs(*network).
  std::vector<RunInput> inputs;
  // The network of a model; null for what is compiled already.
  std::shared_ptr<const Network> network;
  // What runs the network, if that is something else; then there is no target.
  std::shared_ptr<const NetworkProgram> program;
  // The file of that network; empty if it was changed since it was read.
  std::string model_file;
  LoweringSpec lowering;  // How the network became the target's graph.
  // The functions of nodewise's own that the graph calls; null if it has none.
  Ref<LoweredLibrary> built_ins;
  // What has been done to a model; null if nothing was asked for.
  std::shared_ptr<const PrecisionResult> precision;
  std::shared_ptr<const PassesReport> passes;
  // What is opaque in a model; null for what is compiled already.
  std::shared_ptr<const OpaqueReport> opaque;
  // A folder with the dump of a run; then nothing runs, and all else is empty.
  std::string dump;
  // Many inputs, in the place of `inputs`, if the spec has a folder of them.
  std::vector<InputSample> samples;
  // The keys of the nodes that the reference computes, since the spec says so.
  std::vector<std::string> stand_ins;
  std::optional<uint64_t> seed;  // The seed of drawn inputs.
  // Worth knowing, but not faults.
  std::vector<std::string> notes;

  // The inputs as Runner::Run() takes them.
  std::vector<NamedTensor> NamedInputs() const;
};

// Opens what the spec names: reads an artefact, or reads a model and lowers it
// to a graph, and collects the inputs.
//
// All faults of a model and of inputs go into `diagnostics`; the status is then
// the first of them. Otherwise it says what cannot be read, or what was asked
// for and cannot be done (kInvalidArgument, kUnimplemented).
absl::StatusOr<Session> OpenTarget(const TargetSpec& spec,
                                   DiagnosticList* diagnostics);

// Does the same without collecting inputs: those that the spec names only give
// their sizes, and what is read of them is kept in `files`.
absl::StatusOr<Session> OpenWithoutInputs(const TargetSpec& spec,
                                          InputFiles* files,
                                          DiagnosticList* diagnostics);

// Reads a model alone, in the precision that is wanted, with the sizes that the
// inputs at hand have. `target` and `inputs` stay empty.
absl::StatusOr<Session> OpenNetwork(const TargetSpec& spec, InputFiles* files,
                                    DiagnosticList* diagnostics);

// Returns the files of a compiled network, after checking that each can be
// read. Fails as FindArtefact() and CheckReadable().
absl::StatusOr<ArtefactFiles> FilesOf(const TargetSpec& spec);

// Makes a runner of a session's network: the program's, which hands out these
// values as ProgramRequest says, or the interpreter, which hands out all.
// REQUIRES: there is no target.
absl::StatusOr<std::unique_ptr<Runner>> MakeNetworkRunner(
    const Session& session,
    std::optional<std::vector<std::string>> observed = std::nullopt,
    bool ends_at_each = false);

// Collects the inputs that the spec describes; all faults go into
// `diagnostics`.
std::vector<RunInput> CollectInputs(const InputSpec& spec,
                                    const InputList& list,
                                    const InputFiles& files,
                                    DiagnosticList* diagnostics);

// Returns how a model becomes a graph for the built-in functions.
LowerOptions LowerOptionsOf(const LoweringSpec& spec);

// Returns the functions of models' graphs; null in a build without operators.
Ref<LoweredLibrary> BuiltIns(
    Backend backend = Backend::kFastest,
    std::shared_ptr<const KernelTable> table = nullptr);

// Says which inputs of a model are frozen, so that files of inputs may hold
// them.
void SetFrozen(const ModelSpec& spec, InputFiles* files);

}  // namespace nodewise
