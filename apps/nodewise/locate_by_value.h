#pragma once

#include <string>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/loaded_target.h"
#include "apps/nodewise/model_options.h"

namespace nodewise {

// Returns whether no node of the target says what it computes, as those of
// other compilers do not: then a model is its reference by the values alone.
bool SaysNothing(const LoadedTarget& loaded);

// Locates in a target whose nodes say nothing, beside the model that it was
// compiled from. The document has `culprits` and `verdicts`, as that of a
// target whose nodes do, and `model`.
absl::Status LocateByValueIn(const LoadedTarget& loaded,
                             const std::string& model,
                             const ModelOptions& options, uint64_t seed,
                             Outcome* outcome);

// Locates in what a run of a compiled network made, which is read from its
// dump: nothing of it runs. The document is as above, for one set of inputs.
absl::Status CompareDumpWithModel(const std::string& dump,
                                  const std::string& model,
                                  const ModelOptions& options,
                                  Outcome* outcome);

// Which of two builds is right: none, unless it is said.
struct BuildChoice {
  std::string trust;  // "target" or "reference", or empty.
  std::string third;  // A third build, which decides, or empty.

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
absl::Status LocateBetweenBuilds(const LoadedTarget& loaded,
                                 const LoadedTarget& reference,
                                 const BuildChoice& choice,
                                 const LoadOptions& options,
                                 const InputOptions& inputs, Outcome* outcome);

}  // namespace nodewise
