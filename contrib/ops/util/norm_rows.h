#pragma once

// Rows that are brought to a mean of 0 and a variance of 1, or to a mean square
// of 1, then scaled and shifted: what Layer-, RMS-, Instance- and
// GroupNormalization have in common.

#include <cstdint>
#include <vector>

#include "contrib/ops/util/elementwise.h"

namespace nodewise {

// What operators that give every element a number of its own have in common;
// they take about so many operations for each.
template <typename Class, int kFlops>
struct NormRules : Class {
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return kFlops * CountOf(out[0]);
  }
};

struct NormRows {
  int64_t rows = 1;
  int64_t run = 1;     // Elements of a row.
  int64_t pieces = 1;  // A row's pieces; piece 0 of all rows comes first.
  double epsilon = 1e-5;
  bool is_centred = true;  // False: the mean is left as it is.
  // What the statistics are calculated in, if it is coarser than the elements.
  DLDataType stash_type{kDLFloat, 64, 1};
  // A row has this many parts of equal length, each with a scale and a bias of
  // its own; they repeat after `period` rows.
  int64_t parts = 1;
  int64_t period = 1;
  std::vector<double> scale;
  std::vector<double> bias;  // Empty: 0.
};

// Returns the type with this number in ONNX, as in an attribute `stash_type`;
// the widest float if that type is not a float.
DLDataType StashType(int64_t number);

// How far a kernel's statistics may be off.
struct RowError {
  double mean = 0;
  double variance = 0;
  double inverse = 0;  // Relative error of 1 / sqrt(variance + epsilon).
};
// Each list is indexed by row.
struct RowStatistics {
  std::vector<double> mean;
  std::vector<double> variance;
  std::vector<double> inverse_deviation;
  std::vector<RowError> proved;  // With bounds only.
  std::vector<RowError> expected;

  void Resize(int64_t rows);
};

// Writes output 0, of the shape of input 0 and type `dtype`, its bounds, and
// `statistics` if it is not null; writes nothing for rows without elements.
// REQUIRES: scale, and bias unless it is empty, have parts * period numbers.
absl::Status NormalizeRows(EvalArgs& args, const NormRows& rule,
                           DLDataType dtype,
                           RowStatistics* statistics = nullptr);

// Returns OperatorDef::least_bound of what NormalizeRows() makes.
double LeastBoundOfNormalized();

// Fills in OperatorDef::bounds_at of `y`, which NormalizeRows() has made.
// REQUIRES: rows have one piece, and elements.
void BoundNormalizedAt(const EvalArgs& args, const NormRows& rule,
                       const NDArray& y, absl::Span<const int64_t> elements,
                       Bounds* bounds);

}  // namespace nodewise
