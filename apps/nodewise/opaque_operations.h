#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/model_options.h"
#include "nodewise/ir/network.h"
#include "nodewise/passes/known_part.h"

namespace nodewise {

// What is opaque in a model that is to run, and what follows.
struct OpaqueReport {
  std::vector<OpaqueOperator> operators;  // Empty: nothing is.
  std::string text;                       // "Foo: 4 operations, Bar: ...".
  std::string program;                    // What runs them; "": nothing does.
  // Without a program: KnownPart.
  std::vector<MissingOutput> missing;
  std::vector<std::string> ends;
  std::vector<ValueId> open;
};

// Returns the opaque operators of a network as text, "" if there are none, and
// adds them to the document.
std::string DescribeOpaque(const Network& network, JsonWriter* json);

// --opaque PROGRAM, which is kept among the model's options.
void AddOpaqueOption(OptionList* options, ModelOptions* model);

// Makes the program of the options run the opaque operations of this process,
// if they name one. Fails with kInvalidArgument for what names no program.
absl::Status UseOpaqueProgram(const ModelOptions& options);

// Does so; if the options name no program, the network becomes its known part.
// Fails as KnownPartOf(), too.
absl::StatusOr<OpaqueReport> TakeOpaque(const ModelOptions& options,
                                        Network* network);

// Keeps the order of opaque operations that a program runs
// (OrderOpaqueOperations).
absl::Status OrderOpaque(Network* network);

// Returns whether opaque operations make something of which the model does not
// state the type with all its sizes.
bool HasOpenTypes(const Network& network);
// Runs the network, to find the types of these values; inputs must be there for
// all of its own. Fails as the run does.
absl::StatusOr<std::vector<std::pair<std::string, TensorType>>> FindOpenTypes(
    const Network& network, absl::Span<const NamedTensor> inputs);

// Shows the opaque operators, what runs them, and what is not computed; nothing
// if there are none.
void ShowOpaque(const OpaqueReport& report, Outcome* outcome);
// Adds an error for each output that is missing.
void AddMissingOutputs(const OpaqueReport& report, Outcome* outcome);

}  // namespace nodewise
