#pragma once

// Random cases of every operator that has a kernel.

#include <functional>
#include <string>
#include <vector>

#include "nodewise/random/random.h"
#include "tests/contrib/onednn/call_support.h"

namespace nodewise {

struct OperatorSamples {
  const char* name;
  CallCase (*draw)(RandomSource& random);
  // At least this percentage of the drawn cases has a kernel.
  int least_percent = 100;
};
// The tables of the two files.
absl::Span<const OperatorSamples> FloatSamples();
absl::Span<const OperatorSamples> QuantizedSamples();

}  // namespace nodewise
