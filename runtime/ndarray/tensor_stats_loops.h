#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/tensor_stats.h"

// The loops under StatsOf, compiled for several instruction sets;
// for tensor_stats*.cc and their tests alone.
namespace nodewise::stats_loops {

// Fills in all fields of `stats` from `count` lanes at any address.
using Scan = void (*)(const uint8_t* data, size_t count, TensorStats* stats);

// The functions for one instruction set. All levels give bit-identical results.
struct Level {
  const char* name;
  bool (*works_here)();  // Whether this machine can run them.
  // By ElementIndex(); null for types without numbers.
  absl::Span<const Scan> scans;
};

// Returns all levels, from the best to the one that runs everywhere.
absl::Span<const Level> AllLevels();
// Returns the first level that works here; it is found once.
const Level& BestLevel();

TensorStats StatsAt(const Level& level, const DLTensor& tensor);

}  // namespace nodewise::stats_loops
