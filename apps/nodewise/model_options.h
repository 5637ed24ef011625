#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/option_list.h"
#include "nodewise/ir/network.h"
#include "nodewise/support/fault.h"

namespace nodewise {

// How an ONNX model on the command line is read.
struct ModelOptions {
  std::vector<std::string> dims;    // NAME=N
  std::vector<std::string> freeze;  // NAME=FILE

  bool any() const { return !dims.empty() || !freeze.empty(); }
};

void AddModelOptions(OptionList* options, ModelOptions* model);

// True for a file that is called *.onnx; nothing in the bytes tells.
bool IsModel(const std::string& path);

// The model as a network. All that is wrong with it goes into `faults`, and
// warnings that come with a network too; the status is the first error, or
// tells of a file that cannot be read or is no model.
absl::StatusOr<Network> LoadModel(const std::string& path,
                                  const ModelOptions& options,
                                  FaultList* faults);

// kInvalidArgument if they are given with a target that is no model.
absl::Status CheckNoModelOptions(const ModelOptions& options,
                                 const std::string& target);

// "NAME=VALUE" in its parts; `option` and `expected` are for the message.
struct NameAndValue {
  std::string name;
  std::string value;
};
absl::StatusOr<NameAndValue> SplitAtEquals(std::string_view option,
                                           const std::string& text,
                                           std::string_view expected);

}  // namespace nodewise
