#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/session/session.h"
#include "nodewise/session/target_spec.h"

namespace nodewise {

// The options that say what a target is, and how it is loaded. Each Add...()
// declares those of one struct; each SpecOf() returns what they mean.

// The options that name an artefact, and where it is to run.
struct TargetOptions {
  std::string target, library, params, function;
  std::vector<std::string> devices;
};

void AddTargetOptions(OptionList* options, TargetOptions* target);
CommandOption DeviceOption(TargetOptions* target);

// Fails with kUnavailable if a device does not exist; the CPU comes last after
// others, for what a compiler left on the host.
absl::StatusOr<TargetSpec> SpecOf(const TargetOptions& target);

// Those that mean nothing where there is no compiled network.
GivenOptions GivenOptionsOf(const TargetOptions& target);

// Fails with kInvalidArgument for options that mean nothing for an ONNX model.
absl::Status CheckModelTarget(const TargetOptions& target);

// Returns the paths of those of the three files that exist.
std::vector<std::string> PathsIn(const ArtefactFiles& files);

// Returns false for a library without bytecode. A file that cannot be read
// counts as one with it: its reader will say what is wrong.
bool MayBeVmLibrary(const std::string& path);

// How an ONNX model on the command line is read.
struct ModelOptions {
  std::vector<std::string> dims;    // NAME=N
  std::vector<std::string> freeze;  // NAME=FILE
  // The seed of random operators to which the model gives none.
  std::optional<uint64_t> seed = {};
  // What runs opaque operations: ort or exec:COMMAND; "": nothing does.
  std::string opaque = {};
  std::string opaque_python = {};  // The Python of ort.
  std::optional<uint64_t> opaque_limit_s = {};
};

void AddModelOptions(OptionList* options, ModelOptions* model);
// --opaque PROGRAM
void AddOpaqueOption(OptionList* options, ModelOptions* model);

// Fails with kInvalidArgument for a word that names nothing, and if a frozen
// input's file cannot be read.
absl::StatusOr<ModelSpec> SpecOf(const ModelOptions& options);

// Those that mean nothing where there is no model.
GivenOptions GivenOptionsOf(const ModelOptions& options);

// How a model becomes a graph that executors run.
struct LoweringOptions {
  bool reference = false;  // A node for each operation, by the definitions.
  std::string backend;     // "": the fastest.
  bool no_fuse = false, no_reuse = false, no_layouts = false;
};

CommandOption BackendOption(LoweringOptions* lowering);
// All of them but --reference and --backend.
void AddLoweringOptions(OptionList* options, LoweringOptions* lowering);

// Fails with kInvalidArgument for options that contradict each other.
absl::StatusOr<LoweringSpec> SpecOf(const LoweringOptions& options);

// Fails with kInvalidArgument, since the target is not a model, if one of the
// options is given.
absl::Status CheckNoModelOptions(const GivenOptions& options,
                                 const std::string& target);

// Where a run's inputs come from.
struct InputOptions {
  std::vector<std::string> inputs;  // NAME=FILE
  std::vector<std::string> inputs_files;
  std::optional<uint64_t> seed;
};

void AddInputOptions(OptionList* options, InputOptions* inputs);

// The spec has hints that name the options.
absl::StatusOr<InputSpec> SpecOf(const InputOptions& options);

// Whether a model is to compute in a lower precision, and in which.
struct PrecisionChoice {
  std::string precision;               // Empty: as it is.
  std::vector<std::string> calibrate;  // Files, folders or random:SEED.
  std::string calibration;
  std::string keep;
  // Set by a verb that shows them: each costs runs of the reference.
  bool measure_errors = false;
  bool sensitivity = false;
};

void AddPrecisionOptions(OptionList* options, PrecisionChoice* choice);

// Fails with kInvalidArgument for a text that cannot be read, and for an option
// that means nothing without another.
absl::StatusOr<PrecisionSpec> SpecOf(const PrecisionChoice& choice);

// All that is said of a target.
struct LoadOptions {
  TargetOptions target;
  ModelOptions model;
  LoweringOptions lowering;
  PrecisionChoice precision;
  InputOptions inputs;
  std::vector<std::string> stand_ins;  // Regular expressions.
  std::string passes;  // By name, with commas between; "": none.
  // As in TargetSpec.
  bool keeps_opaque = false;
};

// --stand-in REGEX
CommandOption StandInOption(std::vector<std::string>* expressions);
void AddLoadOptions(OptionList* options, LoadOptions* load);

// Fails with kInvalidArgument for an option that cannot be read, or means
// nothing for this target.
absl::StatusOr<TargetSpec> SpecOf(const LoadOptions& options);

// What to do with a model whose sizes are not all known before it runs.
enum class OpenSizes {
  kRefused,  // Fail with kUnimplemented, naming --dim and --freeze.
  kKept,     // Return the network alone, for the interpreter.
};

// Opens the target that the options name (nodewise/session/session.h). All
// faults of the model and of the inputs go into the report, which is then
// kError, and so does what is worth knowing about them.
absl::StatusOr<Session> LoadTarget(const LoadOptions& options, Report* report,
                                   OpenSizes open = OpenSizes::kRefused);

// Opens a target that is described already. Its notes go into the report; or,
// with kError, its faults.
absl::StatusOr<Session> OpenReported(const TargetSpec& spec, Report* report);
// Does so for what was opened in another way.
absl::StatusOr<Session> Opened(absl::StatusOr<Session> session,
                               const DiagnosticList& faults, Report* report);

// The parts of "NAME=VALUE"; `option` and `expected` are for the message.
struct NameAndValue {
  std::string name, value;
};
absl::StatusOr<NameAndValue> SplitAtEquals(std::string_view option,
                                           const std::string& text,
                                           std::string_view expected);

}  // namespace nodewise
