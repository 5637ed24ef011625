#pragma once

#include <string>

#include "apps/nodewise/command.h"
#include "apps/nodewise/model_options.h"
#include "nodewise/ir/network.h"
#include "nodewise/session/opaque.h"

namespace nodewise {

// --opaque PROGRAM, which is kept among the model's options.
void AddOpaqueOption(OptionList* options, ModelOptions* model);

// Returns the opaque operators of a network as text, "" if there are none, and
// adds them to the document.
std::string DescribeOpaque(const Network& network, JsonWriter* json);

// Shows the opaque operators, what runs them, and what is not computed; nothing
// if there are none.
void ShowOpaque(const OpaqueReport& report, Outcome* outcome);
// Adds an error for each output that is missing.
void AddMissingOutputs(const OpaqueReport& report, Outcome* outcome);

}  // namespace nodewise
