#pragma once

#include <cstdint>
#include <string_view>

namespace nodewise {

// What messages advise has another name for each kind of reader: a C++ program
// sets a field where the user of a command types an option. Messages name a
// Way, so that a library never tells its user to type an option.
enum class Way : uint8_t {
  kLibraryFile,     // Names the compiled library.
  kFunction,        // Chooses a function of a library with several.
  kMachine,         // Names the devices of another machine.
  kUnfused,         // Makes a node of each operation.
  kDims,            // Gives open dimensions their sizes.
  kFreeze,          // Makes an input a constant.
  kInputs,          // Gives the inputs of a run.
  kOpaqueProgram,   // Has a program run operations that are not known.
  kSanitizer,       // Looks for functions that write where they must not.
  kMoreTime,        // Lets nodes take longer.
  kRecovery,        // Takes out of a cut dump what is complete.
  kNodeTable,       // Lists the nodes of a network.
  kEveryLine,       // Shows lists in full.
  kCounters,        // Reads counters of the processor.
  kNodeByNode,      // Judges each node of a run.
  kModelBeside,     // Compares a compiled network with its model.
  kSeed,            // Draws the same numbers again.
  kWholeDocument,   // Has all that a report leaves out of its text.
  kKeep,            // Operations that stay in their precision.
  kVerification,    // Lists all faults of a model.
  kModelOfProgram,  // The model that a program runs.
  kRuntimeOption,   // An option of the runtime of an adapter.
  kReference,       // The side that is taken for right.
  kMethod,          // How it is searched.
  kRepeats,         // How often the target runs again.
  kExactInputs,     // Inputs that must give the same bits.
  kReferee,         // Who is asked about accusations.
  kStrict,          // Accuses everything that is beyond its bound.
  kLearning,        // Measures what is not known of a runtime.
  kKnownFile,       // The deviations that were measured.
  kReproFolder,     // Where culprits become folders.
  kAnonymous,       // Folders that others may have.
  kInputSets,       // How many sets of inputs both sides run with.
  kSpecialInputs,   // Inputs with NaN and infinities.
  kTrust,           // Which of two builds is right.
  kThird,           // A third build, which decides.
  kSeries,          // Builds in their order.
  kSamples,         // Many inputs.
  kMostSamples,     // How many samples are examined.
  kMostCulprits,    // How many culprits are shown.
};

// Returns its name: that of the C++ API, unless the program has set others.
// Empty if there is none.
std::string_view NameOf(Way way);

// Has messages use other names. What `names` returns must stay valid. Called
// before there is any message; not thread-safe.
void SetNamesOfWays(std::string_view (*names)(Way way));

}  // namespace nodewise
