#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "nodewise/module/module.h"
#include "nodewise/vm/vm_graph.h"

namespace nodewise {

// The files that make up an artefact. `library` alone means a factory library
// or a VM library, which hold the graph and the parameters too.
struct ArtefactFiles {
  std::string graph;    // graph.json
  std::string library;  // lib.so
  std::string params;   // params.params
  // What messages call the files: the TARGET.
  std::string target;
  // The function of a VM library to use: "" means main or the only one.
  std::string function{};
};

// Finds the files of a TARGET: a folder (graph.json, lib.so, params.params, or
// the one *.json, *.so, *.params in it; or such a library alone), a factory or
// VM library, or a graph JSON with `library` and `params` named beside it. A
// graph whose functions are built in needs no library.
// Opens nothing but the folder. Fails with kNotFound or kInvalidArgument,
// saying what is there and what is missing.
absl::StatusOr<ArtefactFiles> FindArtefact(const std::string& target,
                                           const std::string& library = "",
                                           const std::string& params = "");

// An artefact in memory, ready for an executor.
struct Artefact {
  Graph graph;
  Ref<Library> library;
  Params params;  // Borrows the file, or the library's own memory.
};

// Reads all the files. Loads the library, which runs its constructors. `given`
// lists the inputs that are at hand, for a VM library that leaves dimensions
// open. `built_ins` has the functions of a graph without a library that says
// they are built in (HasBuiltInFunctions); null in programs without any, which
// such a graph fails in with kFailedPrecondition.
absl::StatusOr<Artefact> LoadArtefact(const ArtefactFiles& files,
                                      absl::Span<const VmInputType> given = {},
                                      const Ref<Library>& built_ins = nullptr);

// Calls LoadArtefact and GraphExecutor::Create, and sets the parameters.
absl::StatusOr<std::unique_ptr<GraphExecutor>> CreateExecutor(
    const ArtefactFiles& files, GraphExecutor::Options options);

// Where an artefact is to run.
struct VerifyOptions {
  // Types of devices beside the CPU; none: those that this build has.
  std::vector<int> device_types;
  // Is asked for functions that are built in; without it a warning says that
  // they were not checked.
  Ref<Library> built_ins = nullptr;
};

// Finds everything wrong with an artefact that shows without running any of its
// code, in one pass: the graph's structure, its memory plan, functions that the
// library lacks, parameters that are missing, unknown or of the wrong type, a
// damaged library or params file, devices that are not there. Fails only if a
// file cannot be read at all.
absl::StatusOr<DiagnosticList> VerifyArtefact(
    const ArtefactFiles& files, const VerifyOptions& options = {});

// What an artefact is made of beside its parameters.
struct ArtefactTexts {
  std::string graph;
  // The source of its functions, in C; empty if they are built in.
  std::string source;
};

// Makes the folder, if there is none, and writes graph.json, params.params and,
// if there is a source, lib.c into it. Fails with kInvalidArgument, naming what
// it found, if anything else lies there than such an artefact, and with
// kUnavailable if the folder cannot be made.
absl::Status WriteArtefactFolder(const std::string& folder,
                                 const ArtefactTexts& texts,
                                 const Params& params);

// Returns the bytes of a library file without what it carries of the network
// beside the code, so that the code can be given away alone: what
// WithErasedFactories() takes away, and of bytecode for the Relax VM zeros for
// the numbers of its constants and underscores for the names of arguments. What
// the bytecode computes is still in it. The library's functions do what they
// did. Fails as opening the file and as reading it as ELF.
absl::StatusOr<std::string> WithErasedNetwork(const std::string& path);

}  // namespace nodewise
