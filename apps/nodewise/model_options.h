#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ir/network.h"
#include "nodewise/lower/lower.h"
#include "nodewise/lower/lowered_library.h"
#include "nodewise/runner/built_in_functions.h"
#include "nodewise/runner/input_collector.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

// How an ONNX model on the command line is read.
struct ModelOptions {
  std::vector<std::string> dims;    // NAME=N
  std::vector<std::string> freeze;  // NAME=FILE
  // What is drawn from where the model has random operators without a seed.
  std::optional<uint64_t> seed = {};
  // What runs opaque operations: ort or exec:COMMAND; "": nothing does.
  std::string opaque = {};
  std::string opaque_python = {};  // The Python of ort.
  std::optional<uint64_t> opaque_limit_s = {};
  // What has been found of types that the model does not state, by value.
  std::vector<std::pair<std::string, TensorType>> opaque_types = {};
  // As in ImportOptions.
  bool report_unused = false;
  std::vector<const FindingKind*>* kinds = nullptr;

  bool any() const {
    return !dims.empty() || !freeze.empty() || seed.has_value() ||
           !opaque.empty();
  }
};

// The seed where `--seed` is not given.
inline constexpr uint64_t kUsualSeed = 1;

void AddModelOptions(OptionList* options, ModelOptions* model);

// How a model becomes a graph that executors run.
struct LoweringOptions {
  bool reference = false;  // A node for each operation, by the definitions.
  std::string backend;     // "": the fastest.
  bool no_fuse = false;
  bool no_reuse = false;
  bool no_layouts = false;
};

// --reference and --backend, and --backend alone.
void AddReferenceOption(OptionList* options, LoweringOptions* lowering);
void AddBackendOption(OptionList* options, LoweringOptions* lowering);
void AddLoweringOptions(OptionList* options, LoweringOptions* lowering);

// Returns true for a file called *.onnx; the bytes do not tell.
bool IsModel(const std::string& path);
// Returns whether a file holds a network as text
// (docs/formats/network_text.md). A file that cannot be read does not.
bool IsNetworkText(const std::string& path);
// Returns whether LoadModel() can read it: one of both.
bool IsModelOrText(const std::string& path);

// Says which inputs are frozen, so that files of inputs may hold them.
void SetFrozen(const ModelOptions& options, InputFiles* files);

// Loads the model, or the text of a network, as a network. All its faults go
// into `diagnostics`, and so do warnings that come with a network; the status
// is the first error, or says that the file cannot be read or is not a model.
absl::StatusOr<Network> LoadModel(const std::string& path,
                                  const ModelOptions& options,
                                  DiagnosticList* diagnostics);

// Reads a file that holds a network as text (docs/formats/network_text.md),
// whether it is valid or not.
absl::StatusOr<NetworkData> LoadNetworkText(const std::string& path);

// Returns the functions of models' graphs, or null in a build without ONNX.
// They bind nodes as the table says, if one is given.
Ref<LoweredLibrary> BuiltIns(
    Backend backend = Backend::kFastest,
    std::shared_ptr<const KernelTable> table = nullptr);

// Returns how a model becomes a graph for them.
LowerOptions LowerOptionsOf(const LoweringOptions& options, Backend backend);

// Writes the functions of a model's graph as C.
absl::StatusOr<EmittedC> EmitModelC(const Graph& graph);

// Returns what is to compute the nodes. Fails with kInvalidArgument for a word
// that names nothing, or if two options contradict each other.
absl::StatusOr<Backend> BackendOf(const LoweringOptions& options);

// Fail with kInvalidArgument if they are given with a target that is not a
// model.
absl::Status CheckNoneGiven(
    std::initializer_list<std::pair<bool, const char*>> given,
    const std::string& target);
absl::Status CheckNoModelOptions(const ModelOptions& options,
                                 const std::string& target);
absl::Status CheckNoLoweringOptions(const LoweringOptions& options,
                                    const std::string& target);

// The parts of "NAME=VALUE"; `option` and `expected` are for the message.
struct NameAndValue {
  std::string name;
  std::string value;
};
absl::StatusOr<NameAndValue> SplitAtEquals(std::string_view option,
                                           const std::string& text,
                                           std::string_view expected);

}  // namespace nodewise
