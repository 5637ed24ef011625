#pragma once

#include <string>

#include "nodewise/repro/repro_case.h"

namespace nodewise {

// The texts of a repro folder (docs/formats/repro.md). Those of programs and
// commands are the same for all cases: nothing of a model gets into them.

// The contents that not every folder has.
struct ReproContents {
  std::string why_no_model;  // Empty: there is an ONNX model.
  std::string why_no_npz;    // Empty: there is tensors.npz.
  bool has_program = false;
};

// The command that shows the failure, to be run in the folder.
std::string ReproCommand(const ReproCase& node_case);

std::string ReproReadme(const ReproCase& node_case,
                        const ReproContents& contents);
// The description for programs, repro.json.
std::string ReproDocument(const ReproCase& node_case,
                          const ReproContents& contents);
// The program in C++ and how it is built.
std::string_view ReproProgram();
std::string_view ReproCMakeLists();

}  // namespace nodewise
