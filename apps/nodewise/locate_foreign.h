#pragma once

#include <string>

#include "apps/nodewise/command.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/referee.h"

namespace nodewise {

// What `locate` does with other programs.

// What else is asked about culprits, and what reports call it.
struct ChosenReferee {
  std::string name;  // Empty: nobody is.
  RefereeMaker make = nullptr;
};

// Reads `--referee`.
absl::StatusOr<ChosenReferee> ChooseReferee(const std::string& referee,
                                            const ForeignOptions& foreign);

// Locates in a model that another program runs: `load`'s target.
absl::StatusOr<Outcome> LocateInOtherProgram(const LoadOptions& load,
                                             const ForeignOptions& foreign,
                                             const InputOptions& inputs,
                                             const ChosenReferee& referee,
                                             LocateOptions options);

// Locates in `load`'s target, where another program, `reference`, is taken for
// right, and the definitions of the operators referee.
absl::StatusOr<Outcome> LocateByOtherProgram(LoadOptions load,
                                             const std::string& reference,
                                             const ForeignOptions& foreign,
                                             const InputOptions& inputs,
                                             LocateOptions options);

}  // namespace nodewise
