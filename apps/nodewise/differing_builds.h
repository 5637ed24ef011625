#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"

namespace nodewise {

// Which of two builds is right: none, unless it is said.
struct BuildChoice {
  std::string trust;  // "target" or "reference", or empty.
  std::string third;  // A third build, which decides, or empty.
  uint64_t sets = 1;  // Of inputs.

  bool any() const { return !trust.empty() || !third.empty(); }
  // Fails with kInvalidArgument for what makes no sense.
  absl::Status Check(bool are_two_builds) const;
  // Returns the error for other targets. REQUIRES: any().
  absl::Status WhereItMeansNothing() const;
};
void AddBuildChoice(OptionList* options, BuildChoice* choice);

// Locates where two builds of one network differ, whose nodes say nothing. The
// nodes of the one that is trusted are the reference of the other; with
// neither, a third build decides if there is one. The document has `culprits`,
// `verdicts`, `model`, and `side`, which they are of: "target" or "reference".
absl::Status LocateBetweenBuilds(const Session& loaded,
                                 const Session& reference,
                                 const BuildChoice& choice,
                                 const LoadOptions& options,
                                 const InputOptions& inputs, Outcome* outcome);

}  // namespace nodewise
