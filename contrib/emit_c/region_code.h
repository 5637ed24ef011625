#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contrib/emit_c/operation_code.h"
#include "nodewise/lower/region.h"

namespace nodewise::emit_c {

// A region as C: what stands in the function that computes it. Nothing of it
// depends on names in the model, so regions that compute the same have the
// same code.
struct RegionCode {
  std::vector<CTensor> inputs;   // The function's parameters: in0, in1, ...
  std::vector<CTensor> outputs;  // out0, ...
  std::string body;
  int64_t scratch_bytes = 0;
  bool keeps_sizes = false;  // Row::keeps_sizes of some operation.
};

// An operation that there is no C for.
struct Refusal {
  std::string operation;
  std::string kind;
  std::string why;
};

// Adds to `refusals` what there is no C for.
RegionCode CodeOf(const Region& region, std::vector<Refusal>* refusals);

// Returns what there is no C for and why, as a list.
std::string TextOf(absl::Span<const Refusal> refusals, const char* between);

}  // namespace nodewise::emit_c
