#pragma once

#include <cmath>

namespace nodewise {

// Sums over pairs of numbers, and what they say of how the two go together.
struct PairSums {
  double n = 0, a = 0, b = 0, aa = 0, bb = 0, ab = 0;

  void Add(double one, double other) {
    n += 1;
    a += one;
    b += other;
    aa += one * one;
    bb += other * other;
    ab += one * other;
  }
  double spread_a() const { return n * aa - a * a; }
  double spread_b() const { return n * bb - b * b; }
  double together() const { return n * ab - a * b; }
  // 1 where the pairs lie on one line; 0 where one side is all the same.
  double Likeness() const {
    const double spread = spread_a() * spread_b();
    return spread > 0 ? together() / std::sqrt(spread) : 0;
  }
};

}  // namespace nodewise
