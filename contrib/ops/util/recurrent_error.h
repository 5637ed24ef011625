#pragma once

// The arithmetic of the cells of LSTM, GRU and RNN, so that each is written
// once: with plain numbers, or with numbers and how far a kernel's may be off.

#include "contrib/ops/util/recurrent.h"
#include "contrib/ops/util/sum_bounds.h"

namespace nodewise {

struct CellNumbers {
  using Number = double;
  using Input = double;

  static double Known(double x) { return x; }
  static double Of(double input) { return input; }
  static double Add(double a, double b) { return a + b; }
  static double Multiply(double a, double b) { return a * b; }
  static double Complement(double a) { return 1 - a; }
  static double Apply(const Activation& f, double x) { return f(x); }
  // sums[j] = inputs[j] + bias[j] + h . recurrent[:, j] for `count` columns
  // from `first` on; without `inputs`, that term is left out.
  static void AddUp(const CellWeights& weights, const double* inputs,
                    const double* h, int64_t first, int64_t count,
                    double* sums);
};

// Follows the errors through each step: `proved` adds up their absolute values,
// and `expected` takes errors in different places as independent. An activation
// is applied to both ends of the range of an error, so that one that saturates
// makes it small.
class CellErrors {
 public:
  using Number = RoughNumber;
  using Input = SumOfTerms;

  explicit CellErrors(DLDataType dtype)
      : dtype_(dtype), u_(UnitRoundoff(dtype)), tiny_(HalfUlp(dtype, 0)) {}

  static RoughNumber Known(double x) { return {x, 0, 0}; }
  RoughNumber Of(const SumOfTerms& input) const;
  RoughNumber Add(const RoughNumber& a, const RoughNumber& b) const;
  RoughNumber Multiply(const RoughNumber& a, const RoughNumber& b) const;
  RoughNumber Complement(const RoughNumber& a) const;
  RoughNumber Apply(const Activation& f, const RoughNumber& x) const;
  void AddUp(const CellWeights& weights, const SumOfTerms* inputs,
             const RoughNumber* h, int64_t first, int64_t count,
             RoughNumber* sums) const;

 private:
  // Returns a number whose errors include its own rounding.
  RoughNumber Rounded(double value, double proved, double expected) const;

  DLDataType dtype_;
  double u_;
  double tiny_;
};

}  // namespace nodewise
