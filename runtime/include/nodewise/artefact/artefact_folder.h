#pragma once

#include <string>

#include "absl/status/status.h"
#include "nodewise/artefact/artefact.h"

namespace nodewise {

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

}  // namespace nodewise
