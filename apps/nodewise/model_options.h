#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/session/target_spec.h"

namespace nodewise {

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

  bool any() const {
    return !dims.empty() || !freeze.empty() || seed.has_value() ||
           !opaque.empty();
  }
};

void AddModelOptions(OptionList* options, ModelOptions* model);
// --opaque PROGRAM
void AddOpaqueOption(OptionList* options, ModelOptions* model);

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

// Return what the options mean. Fail with kInvalidArgument for a word that
// names nothing, for options that contradict each other, and if a frozen
// input's file cannot be read.
absl::StatusOr<ModelSpec> SpecOf(const ModelOptions& options);
absl::StatusOr<LoweringSpec> SpecOf(const LoweringOptions& options);

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
