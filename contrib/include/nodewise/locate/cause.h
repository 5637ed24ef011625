#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "nodewise/compare/compare.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Why a node makes other numbers than it should, as far as the numbers say: the
// way to compute is looked for that makes what it made.
struct Cause {
  enum class Kind : uint8_t {
    kMistake,     // One small change of an operation makes these numbers.
    kPrecision,   // It computes in a shorter type.
    kStep,        // Integers are one step off, as rounding may leave them.
    kSaturation,  // Sums of 8-bit products do not fit 16 bits.
    kInfinity,    // It makes infinities or NaN of finite numbers.
    kPattern,     // Where wrong elements lie, and what they have in common.
  };

  Kind kind{};
  // Behind "its" or "their": "inputs are rounded to bfloat16".
  std::string words;
  std::string type = {};  // The shorter type of kPrecision: "bfloat16".
};

// What DequantizeLinear made floats of.
struct Dequantized {
  NDArray integers;
  NDArray scale;
  NDArray zero_point;  // Undefined: 0.
};

// A node that makes something else than the reference.
struct WrongNode {
  const Network& region;               // What it should compute.
  absl::Span<const NDArray> inputs;    // What it read, by input of the region.
  absl::Span<const NDArray> expected;  // By output.
  absl::Span<const NDArray> found;
  size_t output = 0;  // The one that is worst.
  const TensorComparison& worst;
  // By input of the region, or empty; undefined integers for floats that
  // another node made.
  absl::Span<const Dequantized> dequantized = {};
};

// Returns the likeliest cause. None where nothing fits. Tries a few dozen ways
// to compute the node, fewer where it takes long.
std::optional<Cause> CauseOf(const WrongNode& node, const OpSet& operators);

}  // namespace nodewise
