// A test of an operator, written once for the reference and for what is tested.
// With an argument it asks for equal bits, which no rounding gives, and shows
// the program that fails.
#include <cstdio>

#include "nodewise/autotest/candidate_list.h"
#include "nodewise/autotest/dual_program.h"
#include "nodewise/ops/ops.h"

using namespace nodewise;  // NOLINT: as its users write it

int main(int count, char**) {
  const auto tested = MakeAutotestCandidate({});
  if (!tested.ok()) return 2;
  DualOptions options;
  options.seed = 1;
  if (count > 1) options.tolerance = Tolerance{};
  const generator m = random(1, 6), k = random(1, 6), n = random(1, 6);
  const absl::Status same = autotest(
      AllOperators(), **tested,
      [&](DualObject& onnx) {
        onnx["MatMul"]({random_tensor({m, k}), random_tensor({k, n})});
      },
      options);
  std::puts(same.ToString().c_str());
  return same.ok() ? 0 : 1;
}
