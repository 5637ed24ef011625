#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/locate/locate.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/planter/planter.h"
#include "tests/measure/subject.h"

namespace nodewise {

// A node that a method has named.
struct Accusation {
  std::string node;                  // Its key.
  std::string why;                   // "broken", "plan fault", ...
  std::vector<std::string> victims;  // "a:0, which y still reads"
};

// What a method says about a run.
struct Answer {
  std::vector<Accusation> accused;
  std::vector<std::string> inconclusive;  // Keys of nodes.
  // By node, what exact inputs showed or why there are none.
  std::map<std::string, std::string> on_exact_inputs;
  bool are_outputs_wrong = false;
  double seconds = 0;
};
Answer AnswerOf(const LocateResult& result);

// Where a method looks: into the network with a fault, or without any.
struct Search {
  const SubjectTarget& target;
  const std::vector<NamedTensor>& inputs;
  const std::string& scratch;  // A folder for what it writes.
};

// A way to look for faults.
struct Method {
  std::string_view name;
  // Which faults it can see; of others it says that it cannot.
  bool (*sees)(FaultSign sign);
  // It must name every large effect in values, and nothing else. The others see
  // only part of these: what shows in the outputs, or on exact inputs.
  bool is_required = false;
  absl::StatusOr<LocateResult> (*look)(const Search& search);
};

// The one that shows what exact inputs find.
inline constexpr std::string_view kExactMethod = "exact";

absl::Span<const Method> Methods();
// Fails with kInvalidArgument, naming all.
absl::StatusOr<Method> FindMethod(std::string_view name);

// Looks, and says how long that took.
absl::StatusOr<Answer> LookWith(const Method& method, const Search& search);

}  // namespace nodewise
