#pragma once

// Two passes over quantised networks. One merges operations on floats between
// DequantizeLinear and QuantizeLinear into operations on integers, the other
// splits these again, so that any network can be looked at in floats.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "nodewise/ir/network.h"
#include "nodewise/ir/pass.h"

namespace nodewise {

// How near the results of the two forms are to each other when the reference
// computes both. The form in floats rounds each sum and its quotient to
// float32, and before that each factor x * scale; the form in integers sums
// exactly and rounds once, in double. What follows from that:
enum class Agreement {
  // Equal, bit for bit: all scales are powers of two, and either no sum of
  // integers can be above 2^24, which float32 holds exactly, or what is above
  // it is so many steps of the output (x_scale * w_scale / y_scale is at least
  // 2^-16) that both forms end at the same end of the output's range. Always so
  // for FakeQuantize, and for a pair that is removed.
  kExact,
  // At most one step of the output (its scale) apart, since the terms of no sum
  // can add up, in absolute values, to 2^21 steps.
  kOneStep,
  // The difference depends on numbers that are not constants of the network, or
  // has no bound. A merge never leaves a difference without a bound.
  kNotKnown,
};
std::string_view ToString(Agreement agreement);  // "bit for bit"

// What a pass did with the operations that it is for, in their order.
struct QuantizationReport {
  struct Change {
    std::string operation;  // The name of the one that came out.
    std::string kind;       // "QLinearConv"; "" if nothing came out.
    Agreement agreement = Agreement::kNotKnown;
  };
  struct LeftAlone {
    std::string operation;
    std::string reason;  // "w_scale is by axis 1, expected ... (axis 0)"
  };
  std::string_view verb = "merged";  // Or "split".
  std::vector<Change> changes;
  std::vector<LeftAlone> left_alone;

  // Counts the changes of this kind.
  size_t CountOf(std::string_view kind) const;
  // One line for each, and one with the sums: "operation conv_3: not merged:
  // w_scale is ...".
  std::string ToString() const;
};

// Merges
// - DequantizeLinear of x and w (and of a bias) -> Conv -> QuantizeLinear into
//   QLinearConv,
// - DequantizeLinear of a and b -> MatMul -> QuantizeLinear into QLinearMatMul;
//   in both, a Relu or Clip before QuantizeLinear goes away if the ends of the
//   output's range cut off the same numbers,
// - QuantizeLinear -> DequantizeLinear of the same scale and zero point into
//   FakeQuantize (for which the network gets an opset of domain "nodewise"),
// and removes DequantizeLinear -> QuantizeLinear where all integers come back.
//
// A merged operation has the name of the Conv or MatMul (FakeQuantize, of the
// QuantizeLinear), and its result the name that the chain's result had. A
// DequantizeLinear that others read, too, stays for them. Operations in bodies
// of If, Loop and Scan are left as they are, as is what might not agree at
// least as kOneStep says, wherever the numbers for that are constants. Scales
// that are not constant are trusted to be neither 0 nor NaN.
//
// If anything changed, what no output depends on is removed. A network without
// outputs is not changed. Every edit that the network refuses, because of its
// target for instance, is a reason for leaving an operation alone.
QuantizationReport MergeQuantization(Network& network);

// Splits QLinearConv, QLinearMatMul and FakeQuantize into DequantizeLinear, the
// operation on floats, and QuantizeLinear; the result keeps its name. A bias is
// dequantised with x_scale * w_scale. Merging again gives the network back, but
// for a Relu or Clip that had been merged.
//
// Scales by channel need opset 13. What agrees less than kOneStep is split all
// the same.
QuantizationReport SplitQuantization(Network& network);

// The two functions above as passes for RunPasses(). Each run overwrites the
// report, unless it is null. REQUIRES: it outlives the pass.
Pass MergeQuantizationPass(QuantizationReport* report = nullptr);
Pass SplitQuantizationPass(QuantizationReport* report = nullptr);

}  // namespace nodewise
