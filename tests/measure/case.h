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
  std::string kind = "-";  // Of the fault.
  uint64_t seed = 1;       // Of the fault and of the inputs.
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
                    // nothing else; of a clean run: nobody is.
    kMissed,        // Nobody is named, and no verdict says inconclusive.
    kInconclusive,  // Nobody is named; the planted node is inconclusive.
    kExtra,         // It is named, and so is something else.
    kOther,         // Something else is named, and it is not.
    kMisnamed,      // It is named for another reason, or without its victim.
    kAccused,       // Somebody is named in a clean run.
    kDied,          // The process that looked for it ended by a signal.
    kHung,          // It did not end.
    kFailed,        // An error kept it from being judged.
    kTheirFault,    // Somebody else's program is named for a fault that it has.
    kLeftOut,       // There is no such case: the kind cannot be planted there.
  };

  Case id;
  Outcome outcome = Outcome::kFailed;
  // How large the effect of a fault is: see effect.h. Empty for clean runs.
  std::string size;
  // What a small one does to exact computations: see exact_effect.h. Empty
  // where nobody asked.
  std::string on_whole_numbers = {};
  double effect = 0;          // As PlantedFault::effect; 0 where that is none.
  double seconds = 0;         // Of the search alone.
  uint64_t inconclusive = 0;  // How many nodes are.
  std::string node;           // Where it was planted.
  std::string text;           // What was planted, who was named, or the error.

  std::string ToLine() const;  // A JSON object, without an end of line.
};
std::string_view NameOf(Result::Outcome outcome);

// Reads a line that ToLine() made. Fails with kDataLoss.
absl::StatusOr<Result> ParseResult(std::string_view line);

}  // namespace nodewise
