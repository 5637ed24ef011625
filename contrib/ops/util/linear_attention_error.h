#pragma once

// The error bounds of LinearAttention, only for its file.

#include <cstdint>
#include <vector>

#include "contrib/ops/util/sum_bounds.h"

namespace nodewise {

// How far the state of one head may be off in a kernel that goes step by step,
// as the standard writes it down, and adds in any order. The error is kept for
// each column of the state as the 2-norm of the errors of its elements. The
// error before a step is multiplied by (I - beta k k^T) diag(decay), whose norm
// is at most that of the decay where beta |k|^2 is 0 to 2, so the errors of
// normalized keys add up, but do not grow. `expected` takes the rounding errors
// of different steps for independent.
class StateError {
 public:
  struct Setting {
    int64_t key_size;
    int64_t value_size;
    bool decays;
    DLDataType dtype;
    DLDataType state_dtype;
    Bounds* output;
    Bounds* state;

    void Resize(size_t outputs, size_t states) const;
  };
  explicit StateError(const Setting& setting);

  // Called in this order in each step: BeginStep after the state has been
  // multiplied by factors, the largest of which is `largest`; AddCorrection if
  // element m of what is written is beta * difference instead of the value
  // itself; EndStep after `written` times k has been added to the state.
  void BeginStep(const double* state, const double* k, double largest);
  void AddCorrection(size_t m, double beta, double difference);
  void EndStep(const double* state, const double* written);
  // Fill in the bounds of what q reads, from element `to` of the output on, and
  // of the state.
  void BoundRead(const double* state, const double* q, double scale,
                 int64_t to) const;
  void BoundState(const double* state, int64_t to) const;

 private:
  // The state's error in one column, and what this step adds to it.
  struct Column {
    double proved = 0;
    double expected = 0;
    double growth = 1;
    SumBound written{0, 0};
    double norm = 0;  // The norm of the state before it is written to.
  };
  // Returns the sum of the column's elements, each times a weight.
  SumOfTerms SumOf(const double* state, const double* weights, size_t m) const;
  double NormOf(const double* state, size_t m) const;

  const Setting& setting_;
  const DLDataType dtype_;  // The coarser one: kernels may calculate in it.
  const double u_;
  const double* state_ = nullptr;
  const double* k_ = nullptr;
  double key_norm_ = 0;
  std::vector<Column> columns_;
};

}  // namespace nodewise
