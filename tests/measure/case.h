#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace nodewise {

// One thing that is measured, in words that name it for good: results are kept
// by it, and it is what repeats the case.
struct Case {
  enum class What { kFault, kClean, kFixture, kForeign };

  What what = What::kFault;
  // As MakeSubject() takes it: "demo", "recurrent/2+fp16"; for a fixture its
  // folder below that of all fixtures; for another program that runs a model
  // what RunForeign() takes.
  std::string subject;
  std::string kind = "-";  // Kind of the fault.
  uint64_t seed = 1;       // Seed of the fault and of the inputs.
  std::string method = "-";

  // Returns "fault demo scale 3 auto".
  std::string ToString() const;
  auto operator<=>(const Case& other) const = default;
};
std::string_view NameOf(Case::What what);

// Returns the parts between the separators, one more than there are of these.
std::vector<std::string> SplitAt(char separator, std::string_view text);

// Reads what Case::ToString() returns. Fails with kInvalidArgument.
absl::StatusOr<Case> ParseCase(std::string_view text);

// What came out.
struct Result {
  enum class Outcome {
    kExact,         // All that was planted is named as it should be, and
                    // nothing else; in a clean run nothing is named.
    kMissed,        // Nothing is named, and no verdict says inconclusive.
    kInconclusive,  // Nothing is named; the planted node is inconclusive.
    kExtra,         // The planted node is named, and so is something else.
    kOther,         // Something else is named, and the planted node is not.
    kMisnamed,      // The planted node is named for another reason, or without
                    // its victim.
    kAccused,       // Something is named in a clean run.
    kDied,          // The process that ran the case ended by a signal.
    kHung,          // That process did not end.
    kFailed,        // An error kept the case from being judged.
    kTheirFault,    // The other runtime is named for a fault that it has.
    kLeftOut,       // There is no such case: the kind cannot be planted there.
  };

  Case id;
  Outcome outcome = Outcome::kFailed;
  // How large the effect of a fault is: see effect.h. Empty for clean runs.
  std::string size;
  // What a small one does to exact computations: see exact_effect.h. Empty if
  // it was not measured.
  std::string on_whole_numbers = {};
  double effect = 0;          // As PlantedFault::effect; 0 where that is none.
  double seconds = 0;         // The time of the search alone.
  uint64_t inconclusive = 0;  // How many nodes are inconclusive.
  std::string node;           // The node that the fault is in.
  std::string text;           // What was planted and named, or the error.

  std::string ToLine() const;  // A JSON object, without an end of line.
};
std::string_view NameOf(Result::Outcome outcome);

// Reads a line that ToLine() made. Fails with kDataLoss.
absl::StatusOr<Result> ParseResult(std::string_view line);

}  // namespace nodewise
