#pragma once

// Networks in a lower precision than they were written in.

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/precision/calibration.h"

namespace nodewise {

enum class Precision { kFloat16, kBfloat16, kInt8 };
std::string_view ToString(Precision precision);  // "fp16", "bf16", "int8"
// Fails with kInvalidArgument, naming the three.
absl::StatusOr<Precision> ParsePrecision(const std::string& text);

struct PrecisionOptions {
  Precision precision = Precision::kFloat16;
  // The ranges of the values, for int8 alone.
  Calibration calibration = {};
  // The weights of int8 products are from -most_weight to most_weight. Where
  // kernels add two products in 16 bits, 63 keeps them from saturating.
  // REQUIRES: 1 <= most_weight <= 127.
  static constexpr int kMostInt8 = 127;
  int most_weight = kMostInt8;
  // An expression of RE2: operations in whose name it is found are left alone.
  // Empty: none.
  std::string keep = {};
  // Whether what becomes infinite in fp16 or bf16 becomes the largest number of
  // that type instead: a Clip stands behind what operations make and what is
  // converted, but not behind what only moves numbers, nor behind Sigmoid and
  // Tanh.
  bool clip = false;
  // If not null, only operations for which it returns true are lowered.
  std::function<bool(const Operation& operation)> only = nullptr;
};

// What was done with each operation that reads a float32 tensor, in their
// order.
struct PrecisionReport {
  struct Change {
    std::string operation;
    std::string kind;  // "Conv"
  };
  struct LeftAlone {
    std::string operation;
    std::string kind;
    std::string reason;  // "is kept", "input 0: is of type int8, expected ..."
  };
  Precision precision = Precision::kFloat16;
  std::vector<Change> changes;
  std::vector<LeftAlone> left_alone;
  // By the name of each result of an operation, the name of the value that
  // stands for it now: its numbers are those that its readers get.
  std::map<std::string, std::string> stands_for;
  // What else is worth knowing: constants beyond the range of the type, biases
  // that stay floats.
  std::vector<std::string> notes;

  // One line for each that was left alone, and one with the sums.
  std::string ToString() const;
};

// Puts a copy in the place of the network in which operations compute in a
// lower precision. Its inputs and outputs keep their names and types.
//
// fp16 and bf16: lowered operations read and make tensors of that type. A
// constant is converted at once; Cast stands where the type changes, once for
// each value.
//
// int8: lowered operations read DequantizeLinear of what QuantizeLinear made,
// and so do the readers of their results. Weights of convolutions and matrix
// products are constants of int8, symmetric and by channel; other values are
// uint8 with one scale and a zero point, from their range widened so that 0 is
// in it. Constant biases are int32 in steps of x_scale * w_scale. A Relu or
// Clip that alone reads a product's result belongs to the product. That is what
// MergeQuantization (passes/quantization.h) makes operations on integers of.
//
// An operation is lowered if its operator takes the type and its target, if the
// network has one, runs it so. For int8 these are products, which have
// a form on integers, and operators that take int8 themselves. Left alone are
// operations with bodies, those that read or make quantised tensors already,
// and divisors that would become 0.
//
// Numbers of values and operations are new. What no output depends on is
// removed. A network in an older opset is raised to one that has the operators
// that are needed (10 for int8, 13 for bf16); operations that mean something
// else there are replaced by others that compute the same. Fails with
// kInvalidArgument for an expression that is none, for int8 without any range,
// and where an operation has no equal in those opsets; the network is then
// unchanged.
absl::StatusOr<PrecisionReport> LowerPrecision(const PrecisionOptions& options,
                                               Network& network);

}  // namespace nodewise
