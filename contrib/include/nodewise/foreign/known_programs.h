#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/foreign/foreign_runner.h"

namespace nodewise {

// The programs that nodewise knows how to ask, by what their users call them.

struct ProgramSpec {
  // "ort:MODEL.onnx", or another of KnownPrograms(), or "exec:COMMAND"; for
  // parts of models "ort" and so on, "onnx" (the evaluator of ONNX's own Python
  // package) or "exec:COMMAND".
  std::string text;
  std::string model = {};   // The model of exec:.
  std::string python = {};  // What runs adapters; "": NODEWISE_PYTHON, python3.
  std::string provider = {};  // onnxruntime's execution provider; "": CPU.
  std::string level = {};     // One of OrtLevels(); "": the usual one.
  // Options of the runtime, each NAME=VALUE; its adapter knows which there
  // are.
  std::vector<std::string> options = {};
  std::optional<int64_t> limit_ms = {};  // ForeignLimits::time_ms.
  size_t most_at_once = 0;               // ForeignTarget::most_at_once.
};

// The runtimes that adapters of ours run models in: "ort", "openvino", ...
std::vector<std::string> KnownPrograms();

// Returns whether the text begins with one of these and a colon, or with exec:,
// and so names a model that another program runs.
bool NamesProgram(std::string_view text);

// Returns what ProgramForParts() calls the program of such a text.
std::string PartsProgramOf(std::string_view target);

// Returns the path of an adapter, or of another file that is installed with
// them. Fails with kNotFound if it is not there.
absl::StatusOr<std::string> AdapterFile(const char* name);

// The levels of graph optimisations of onnxruntime.
std::vector<std::string> OrtLevels();

// Return the program for a whole model, with the model's file, and for parts of
// models. onnxruntime rewrites no part unless a level says so. Fail with
// kInvalidArgument for a text that names none, and with kNotFound where an
// adapter is not installed.
absl::StatusOr<ForeignTarget> ProgramWithModel(const ProgramSpec& spec);
absl::StatusOr<ForeignTarget> ProgramForParts(const ProgramSpec& spec);

}  // namespace nodewise
